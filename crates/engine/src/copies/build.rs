//! Making copies: `pelton load` without a warehouse, of some columns, for this process alone.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use pelton_error::{Error, ErrorKind, Result};
use pelton_files::InputFormat;
use pelton_limits::{SpillOptions, bytes_text};
use pelton_load::{LoadOptions, LoadRequest, NoProgress, load};
use pelton_store::{Table, Warehouse, WriteMode};

use super::FileCopies;
use super::files::FileSet;
use crate::gpu::DeviceHandle;

/// A copy is begun so long after the rows of its query: a process that ends with its query never begins one.
const PAUSE: Duration = Duration::from_millis(50);
/// Columns encoded together. Of more, a load would choose smaller row groups, and columns side by side have the same.
const COLUMNS_AT_ONCE: usize = 31;
/// Row groups from which encodings are chosen.
const SAMPLED_ROW_GROUPS: u64 = 2;

impl FileCopies {
    /// Encodes `columns` of `files` where that is worth it, behind the caller.
    pub(super) fn begin(
        self: &Arc<Self>,
        files: &Arc<FileSet>,
        columns: &[String],
        device: &Arc<DeviceHandle>,
    ) {
        if !self.want(files, columns) {
            return;
        }
        let (copies, own, device) = (Arc::clone(self), Arc::clone(files), Arc::clone(device));
        let work = move || {
            std::thread::sleep(PAUSE.max(own.settles_in()));
            if !copies.cancel.is_cancelled() {
                copies.make(&own, &device);
            }
        };
        // Not a thread of the runtime, which would not end before the copy is made.
        if let Err(error) = std::thread::Builder::new().name("pelton-copy".to_owned()).spawn(work) {
            self.refuse(files, columns, &error.to_string());
            while self.next_wanted(files).is_some() {}
        }
    }

    /// The same, and it is there when this returns.
    pub(super) fn finish_blocking(&self, files: &Arc<FileSet>, columns: &[String], device: &DeviceHandle) {
        if self.want(files, columns) {
            std::thread::sleep(files.settles_in());
            self.make(files, device);
        } else {
            drop(self.turn.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Encodes what is wanted of `files` until nothing more is.
    fn make(&self, files: &FileSet, device: &DeviceHandle) {
        let is_any = device.is_any(); // opens the driver, which takes a while
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(columns) = self.next_wanted(files) {
            if !is_any || self.cancel.is_cancelled() {
                self.refuse(files, &columns, "there is no device");
                continue;
            }
            for columns in columns.chunks(COLUMNS_AT_ONCE) {
                self.make_columns(files, columns);
            }
        }
    }

    /// Encodes `columns`, one by one where they cannot be encoded together.
    fn make_columns(&self, files: &FileSet, columns: &[String]) {
        let made = self.layer(files, columns).and_then(|layer| self.admit(files, layer));
        match made {
            Ok(()) => {}
            Err(error) if *error.kind() == ErrorKind::Unsupported && columns.len() > 1 => {
                columns.chunks(1).for_each(|column| self.make_columns(files, column));
            }
            Err(error) => self.refuse(files, columns, &error.to_string()),
        }
    }

    /// A table of `columns` of `files`, whose own files have no name any more.
    fn layer(&self, files: &FileSet, columns: &[String]) -> Result<Arc<Table>> {
        let inputs = files.inputs()?;
        files.check_unchanged_blocking(&self.cancel)?;
        let limit_bytes = self.limit_bytes()?;
        if files.bytes() > limit_bytes {
            return Err(too_large(files.bytes(), limit_bytes));
        }
        let folder = self.space.folder()?;
        let warehouse = Warehouse::open(folder.path())?;
        let request = LoadRequest {
            format: Some(InputFormat::Parquet),
            columns: Some(columns.to_vec()),
            is_scratch: true,
            options: LoadOptions {
                sample_row_groups_max: SAMPLED_ROW_GROUPS,
                memory_limit_bytes: self.encoder_bytes,
                spill: SpillOptions { directory: Some(folder.path().to_owned()), ..SpillOptions::default() },
                thread_count: self.threads,
                ..LoadOptions::light()
            },
            ..LoadRequest::new("copy", WriteMode::Create, inputs)
        };
        load(&warehouse, &request, &NoProgress, &self.cancel)?;
        let table = warehouse.table("copy")?;
        // What was read in between is of no use where they have.
        files.check_unchanged_blocking(&self.cancel)?;
        Ok(table)
    }
}

/// What does not fit among the copies.
pub(super) fn too_large(bytes: u64, limit_bytes: u64) -> Error {
    Error::new(
        ErrorKind::OutOfMemory {
            tier: pelton_error::Tier::Disk,
            requested_bytes: bytes,
            available_bytes: limit_bytes,
        },
        format!(
            "{} are more than copies may take, {}; raise --spill-limit",
            bytes_text(bytes),
            bytes_text(limit_bytes)
        ),
    )
}
