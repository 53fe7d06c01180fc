//! Encoded copies of columns of Parquet files, so that the next query over them runs as over a table.
//!
//! ```text
//!   first query    Parquet reader ──▶ rows          then, behind it: pelton_load encodes the columns that were read
//!                                                        │  chunks, zone maps, sketches, in files without a name
//!   next query     are all columns of this scan there,   ▼
//!                  and the files as they were?     FileCopies: by names, sizes, times and ETags
//!                       yes ──▶ PeltonScanExec over the copy: skipping, the join order, devices
//!                       no  ──▶ Parquet reader, and EXPLAIN says why
//! ```
//!
//! A copy is a table (`pelton_store::Table`) to all that plans and runs. Columns that later queries read are encoded from
//! the same files and put beside those that are there ([`Table::side_by_side`]); its id stays, and so does what column
//! caches hold of it. Copies are made where queries may run on a device; elsewhere the Parquet reader is as good.
//!
//! Bound: the bytes of all copies stay below half of what may be spilled; the copy that was not used for longest goes first,
//! and what alone is larger is not copied. One copy is made at a time, by as many threads as half of the cores: queries keep
//! the other half. Threads of low priority hardly run where queries keep all cores busy.

mod build;
mod exec;
mod files;
mod rule;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pelton_error::{CancelFlag, Result};
use pelton_io::IoEngine;
use pelton_limits::SpillSpace;
use pelton_store::Table;

use crate::gpu::DeviceHandle;
use crate::memo::ZoneMemo;
use crate::scan::{ScanOptions, ScanSource};
use crate::session::SessionOptions;
use files::FileSet;
pub(crate) use rule::{FromCopies, ToCopies};

/// When columns of Parquet files that a query has read are encoded for the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CopyColumns {
    /// Never.
    Never,
    /// Behind the query, once its rows are there: where queries may run on a device.
    #[default]
    Behind,
    /// Before the query ends, which waits for it: for tests.
    AtEnd,
}

/// The columns of Parquet files that are there encoded; of one session, whatever its device.
struct FileCopies {
    when: CopyColumns,
    space: Arc<SpillSpace>,
    io: Arc<IoEngine>,
    scan: ScanOptions,
    threads: usize,
    /// Bytes of rows that an encoder may hold.
    encoder_bytes: u64,
    state: Mutex<State>,
    /// Held by who makes a copy.
    turn: Mutex<()>,
    /// Set once the session is gone.
    cancel: CancelFlag,
}

#[derive(Default)]
struct State {
    kept: Vec<Kept>,
    /// Counts uses.
    clock: u64,
}

/// What is known of a set of files.
struct Kept {
    files: Arc<FileSet>,
    /// Columns side by side, as they came.
    layers: Vec<Arc<Table>>,
    /// All of `layers`.
    source: Option<ScanSource>,
    /// Columns to encode.
    wanted: BTreeSet<String>,
    /// Columns that are being encoded.
    begun: BTreeSet<String>,
    /// Columns that stay with the Parquet reader, and why.
    refused: BTreeMap<String, String>,
    is_worked_on: bool,
    used_at: u64,
}

impl Kept {
    fn has(&self, column: &str) -> bool {
        let of = |source: &ScanSource| source.table.arrow_schema().index_of(column).is_ok();
        self.source.as_ref().is_some_and(of)
    }

    fn stored_bytes(&self) -> u64 {
        self.source.as_ref().map_or(0, |source| source.table.stored_bytes())
    }
}

/// Bytes of rows that an encoder may hold by default.
const ENCODER_BYTES: u64 = 2 << 30;
/// Of a memory limit, what it may hold.
const ENCODER_SHARE: u64 = 8;
/// Less is too little for a row group of each thread.
const ENCODER_BYTES_MIN: u64 = 64 << 20;
/// Sets of files that are remembered at most.
const SETS_MAX: usize = 256;

impl FileCopies {
    fn new(options: &SessionOptions, io: &Arc<IoEngine>) -> Arc<Self> {
        let threads = options.threads.or_else(|| std::thread::available_parallelism().ok().map(Into::into));
        let encoder_bytes = options
            .memory_limit_bytes
            .map_or(ENCODER_BYTES, |limit| (limit / ENCODER_SHARE).clamp(ENCODER_BYTES_MIN, ENCODER_BYTES));
        Arc::new(Self {
            when: options.copy_columns,
            space: SpillSpace::new(&options.spill),
            io: Arc::clone(io),
            scan: options.scan,
            threads: threads.map_or(1, |threads| threads.div_ceil(2)),
            encoder_bytes,
            state: Mutex::default(),
            turn: Mutex::default(),
            cancel: CancelFlag::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The copy of `files`, if it has all of `columns`.
    fn source(&self, files: &FileSet, columns: &[String]) -> Option<ScanSource> {
        let mut state = self.state();
        state.clock += 1;
        let now = state.clock;
        let kept = state.kept.iter_mut().find(|kept| *kept.files == *files)?;
        kept.used_at = now;
        if !columns.iter().all(|column| kept.has(column)) {
            return None;
        }
        kept.source.clone()
    }

    /// Why one of `columns` of `files` stays with the Parquet reader.
    fn refusal(&self, files: &FileSet, columns: &[String]) -> Option<String> {
        let state = self.state();
        let kept = state.kept.iter().find(|kept| *kept.files == *files)?;
        let (column, reason) = columns.iter().find_map(|column| kept.refused.get_key_value(column))?;
        Some(format!("column '{column}': {reason}"))
    }

    /// Takes note that `columns` of `files` are worth encoding. True where nobody is at it yet: the caller sees to it.
    fn want(&self, files: &Arc<FileSet>, columns: &[String]) -> bool {
        let mut state = self.state();
        state.clock += 1;
        let now = state.clock;
        let position = state.kept.iter().position(|kept| kept.files == *files);
        let position = position.unwrap_or_else(|| {
            // Files that have changed since: what is known of them is of no use any more.
            state.kept.retain(|kept| !kept.files.is_earlier_state_of(files));
            if state.kept.len() == SETS_MAX {
                state.forget_coldest(None);
            }
            state.kept.push(Kept {
                files: Arc::clone(files),
                layers: Vec::new(),
                source: None,
                wanted: BTreeSet::new(),
                begun: BTreeSet::new(),
                refused: BTreeMap::new(),
                is_worked_on: false,
                used_at: now,
            });
            state.kept.len() - 1
        });
        let kept = &mut state.kept[position];
        // What is encoded twice would be there twice.
        let is_missing = |column: &&String| {
            !kept.has(column) && !kept.begun.contains(*column) && !kept.refused.contains_key(*column)
        };
        let missing: Vec<String> = columns.iter().filter(is_missing).cloned().collect();
        kept.wanted.extend(missing);
        !kept.wanted.is_empty() && !std::mem::replace(&mut kept.is_worked_on, true)
    }

    /// The columns of `files` that are wanted now; `None` ends the work on them.
    fn next_wanted(&self, files: &FileSet) -> Option<Vec<String>> {
        let mut state = self.state();
        let kept = state.kept.iter_mut().find(|kept| *kept.files == *files)?;
        // Those before are there now, or refused.
        kept.begun = std::mem::take(&mut kept.wanted);
        kept.is_worked_on = !kept.begun.is_empty();
        kept.is_worked_on.then(|| kept.begun.iter().cloned().collect())
    }

    /// `columns` of `files` stay with the Parquet reader for `reason`.
    fn refuse(&self, files: &FileSet, columns: &[String], reason: &str) {
        if let Some(kept) = self.state().kept.iter_mut().find(|kept| *kept.files == *files) {
            kept.refused.extend(columns.iter().map(|column| (column.clone(), reason.to_owned())));
        }
    }

    /// Puts the columns of `layer` beside those that are there of `files`; what goes beyond the limit goes.
    ///
    /// # Errors
    ///
    /// Why the layer is of no use.
    fn admit(&self, files: &FileSet, layer: Arc<Table>) -> Result<()> {
        let limit_bytes = self.limit_bytes()?;
        let mut state = self.state();
        let Some(position) = state.kept.iter().position(|kept| *kept.files == *files) else { return Ok(()) };
        let mut layers = state.kept[position].layers.clone();
        layers.push(layer);
        let table = files.checked(Table::side_by_side(&files.name(), &layers)?)?;
        if table.stored_bytes() > limit_bytes {
            return Err(build::too_large(table.stored_bytes(), limit_bytes));
        }
        while state.stored_bytes() - state.kept_of(files).stored_bytes() + table.stored_bytes() > limit_bytes
        {
            state.forget_coldest(Some(files));
        }
        let (memo, io) = (Arc::<ZoneMemo>::default(), Arc::clone(&self.io));
        let kept = state.kept_of(files);
        kept.source = Some(ScanSource { table: Arc::new(table), memo, io, options: self.scan });
        kept.layers = layers;
        Ok(())
    }

    /// What all copies may take together.
    fn limit_bytes(&self) -> Result<u64> {
        Ok(self.space.limit_bytes()? / 2)
    }

    /// Whether queries on `device` have columns encoded.
    fn is_on(&self, device: &DeviceHandle) -> bool {
        self.when != CopyColumns::Never && !device.is_none_for_sure() && !device.tries_host()
    }
}

/// The copies of a session, for as long as that is: who makes one afterwards ends.
pub(crate) struct Copies(Arc<FileCopies>);

impl Copies {
    /// None yet, for a session of `options` that reads tables through `io`.
    pub(crate) fn new(options: &SessionOptions, io: &Arc<IoEngine>) -> Arc<Self> {
        Arc::new(Self(FileCopies::new(options, io)))
    }
}

impl Drop for Copies {
    /// Waits for who makes a copy, which gives up at its next row group: its folder goes with it.
    fn drop(&mut self) {
        self.0.cancel.cancel();
        drop(self.0.turn.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl State {
    fn stored_bytes(&self) -> u64 {
        self.kept.iter().map(Kept::stored_bytes).sum()
    }

    /// What is known of `files`, of which something is known.
    fn kept_of(&mut self, files: &FileSet) -> &mut Kept {
        self.kept.iter_mut().find(|kept| *kept.files == *files).expect("files that are worked on stay")
    }

    /// Forgets the files that were not used for longest, but for `spared` and those that are worked on.
    fn forget_coldest(&mut self, spared: Option<&FileSet>) {
        let is_spared = |kept: &Kept| spared.is_some_and(|spared| *kept.files == *spared);
        let others = self.kept.iter().enumerate().filter(|(_, kept)| !is_spared(kept));
        let coldest = others.min_by_key(|(_, kept)| (kept.source.is_none(), kept.used_at));
        if let Some((position, _)) = coldest {
            self.kept.remove(position);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pelton_io::IoOptions;

    #[test]
    fn a_column_that_is_being_encoded_is_not_wanted_again() {
        let io = Arc::new(IoEngine::start(IoOptions::default()).unwrap());
        let copies = FileCopies::new(&SessionOptions::default(), &io);
        let files = FileSet::of_nothing();
        let columns = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert!(copies.want(&files, &columns(&["a", "b"])));
        assert_eq!(copies.next_wanted(&files), Some(columns(&["a", "b"])));
        // Queries that come meanwhile: nobody else is to begin, and what is under way is not done again.
        assert!(!copies.want(&files, &columns(&["b"])));
        assert!(!copies.want(&files, &columns(&["a", "c"])));
        copies.refuse(&files, &columns(&["a"]), "it is of no use");
        assert_eq!(copies.next_wanted(&files), Some(columns(&["c"])));
        assert_eq!(copies.next_wanted(&files), None);
        // None of them came to be there, so that all but the refused may be tried again.
        assert!(!copies.want(&files, &columns(&["a"])));
        assert!(copies.want(&files, &columns(&["a", "b", "c"])));
        assert_eq!(copies.next_wanted(&files), Some(columns(&["b", "c"])));
    }
}
