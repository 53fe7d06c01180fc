//! Multi-link transfers of prefetchers: pinned chunks that come over neighbours' host links too.
//!
//! A [`MultiLinkCopier`] holds staging buffers at the neighbours. Prefetchers take one at their start and
//! return it at their end, so the buffers are taken once per session.

use std::sync::{Mutex, PoisonError};

use pelton_device::{DeviceId, NodeId, OnFull, Place};
use pelton_error::{ErrorKind, Result};
use pelton_transfer::{MultiLinkCopier, TransferOptions};

use super::ColumnCache;

/// Chunks in flight at a neighbour: one comes in, one goes out, one waits.
const DEPTH: usize = 3;
/// A prefetcher that moves fewer chunks is over before a second lane has paid for its start. A guess.
const WORTH_CHUNKS: usize = 4;

/// Copiers that no prefetcher uses at the moment, with their devices.
#[derive(Default)]
pub(super) struct Copiers(Mutex<Vec<(DeviceId, MultiLinkCopier)>>);

impl ColumnCache {
    /// A copier for a prefetcher that moves about `bytes` from pinned memory to `device`, where that is worth it and
    /// neighbours have memory to spare.
    pub(super) fn take_copier(&self, device: DeviceId, bytes: usize) -> Result<Option<MultiLinkCopier>> {
        let (links, chunk_bytes) = (&self.options.links, self.options.link_chunk_bytes);
        if links.helpers.is_empty() || bytes < WORTH_CHUNKS * chunk_bytes {
            return Ok(None);
        }
        let mut idle = self.copiers.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = idle.iter().position(|(of, _)| *of == device) {
            return Ok(Some(idle.swap_remove(at).1));
        }
        drop(idle);
        let node = self.machine.device(device)?.node;
        let options = TransferOptions {
            chunk_bytes,
            depth: DEPTH,
            on_full: OnFull::Refuse,
            ..TransferOptions::default()
        };
        match MultiLinkCopier::open(&self.machine, Place::Host(NodeId(node.0)), device, links, &options) {
            Ok(copier) => Ok(Some(copier)),
            Err(error) if matches!(error.kind(), ErrorKind::OutOfMemory { .. } | ErrorKind::Unsupported) => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Takes back the copier of a prefetcher that is over.
    pub(super) fn return_copier(&self, device: DeviceId, copier: MultiLinkCopier) {
        self.copiers.0.lock().unwrap_or_else(PoisonError::into_inner).push((device, copier));
    }
}
