//! Borrowed links of feeds: pinned chunks that come over neighbours' host links too.
//!
//! A [`Borrower`] holds slots at the neighbours. Feeds take one at their start and give it back at their end, so the
//! slots are taken once a session.

use std::sync::{Mutex, PoisonError};

use pelton_device::{DeviceId, NodeId, OnFull, Place};
use pelton_error::{ErrorKind, Result};
use pelton_fabric::transfer::{Borrower, TransferOptions};

use super::ColumnCache;

/// Chunks in flight at a neighbour: one comes in, one goes out, one waits.
const DEPTH: usize = 3;
/// A feed that moves fewer chunks is over before a second lane has paid for its start. A guess.
const WORTH_CHUNKS: usize = 4;

/// Borrowers that no feed uses at the moment, with their devices.
#[derive(Default)]
pub(super) struct Borrowers(Mutex<Vec<(DeviceId, Borrower)>>);

impl ColumnCache {
    /// A borrower for a feed that moves about `bytes` from pinned memory to `device`, where that is worth it and
    /// neighbours have memory to spare.
    pub(super) fn take_borrower(&self, device: DeviceId, bytes: usize) -> Result<Option<Borrower>> {
        let (links, chunk_bytes) = (&self.options.links, self.options.link_chunk_bytes);
        if links.lenders.is_empty() || bytes < WORTH_CHUNKS * chunk_bytes {
            return Ok(None);
        }
        let mut idle = self.borrowers.0.lock().unwrap_or_else(PoisonError::into_inner);
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
        match Borrower::open(&self.machine, Place::Host(NodeId(node.0)), device, links, &options) {
            Ok(borrower) => Ok(Some(borrower)),
            Err(error) if matches!(error.kind(), ErrorKind::OutOfMemory { .. } | ErrorKind::Unsupported) => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Takes a borrower back from a feed that is over.
    pub(super) fn give_back_borrower(&self, device: DeviceId, borrower: Borrower) {
        self.borrowers.0.lock().unwrap_or_else(PoisonError::into_inner).push((device, borrower));
    }
}
