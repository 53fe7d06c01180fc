//! The tiers of memory that chunks of stored columns are in, and how they are copied to a device.
//!
//! ```text
//!   device   chunks in the device's memory             read in place            by use: admit, evict
//!   pinned   chunks in pinned host memory              one copy per run of them by use too, or by name: pin, unpin
//!   disk     chunks in files ─► checksum ─► codec off ─► staging buffer ─► one copy
//! ```
//!
//! [`ColumnCache`] knows which columns of which snapshots are in memory; a [`Prefetcher`] forms morsels of the row
//! groups of a scan and copies their chunks to where kernels read them. In memory chunks have no heavy codec: pages are
//! decompressed once, by host threads. Every chunk has passed its checksum before it gets anywhere.
//!
//! Bounds: columns in memory are counted by the machine's budgets; those admitted by use also by
//! [`ColumnCacheOptions::device_cache_bytes`] and [`ColumnCacheOptions::pinned_cache_bytes`], and they are evicted when
//! others need the memory. Loading holds one extent per thread beside them.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pelton_device::{DeviceId, Machine};
use pelton_error::{CancelFlag, ErrorKind, Result, ResultExt};
use pelton_io::IoEngine;
use pelton_store::{Table, TableId};
use pelton_transfer::Links;

use crate::admission::Admission;
use crate::cache::TierCache;
use crate::decompress::Decompression;
use crate::extent::{LoadedExtent, StoredColumn, load_extent, plan_extents};
use crate::formats::text_supported;
use crate::multi_link::Copiers;
use crate::parallel;
use crate::text::{ColumnText, TextCell};
use crate::uses::Uses;

/// A column of a snapshot.
pub(super) type Key = (TableId, usize);

/// How columns are cached.
#[derive(Debug, Clone)]
pub struct ColumnCacheOptions {
    /// The most bytes of columns cached in the memory of each device.
    pub device_cache_bytes: u64,
    /// The most bytes of columns cached in pinned memory, beside those that were asked for by name.
    pub pinned_cache_bytes: u64,
    /// Threads that read, check and decompress; 0: as many as the machine has cores.
    pub threads: usize,
    /// About as many bytes of a column are loaded by one thread in one go, to one buffer.
    pub extent_bytes: usize,
    /// Neighbours' host links over which a device takes pinned chunks beside its own; none where they share what
    /// limits it (`pelton_transfer::links_for` says which pay).
    pub links: Links,
    /// Bytes of one copy over a helper link; a prefetcher that moves less than four of them uses its own link alone.
    pub link_chunk_bytes: usize,
    /// Where the heavy codecs of what prefetchers read from disk are decompressed.
    pub decompression: Decompression,
    /// A device whose memory is the host's, beside others: what is in pinned memory it reads there, with no copy.
    pub in_place: Option<DeviceId>,
}

impl Default for ColumnCacheOptions {
    fn default() -> Self {
        // The extent is a guess: a copy of it takes a millisecond, far more than it takes to start one.
        // On PCIe 5 copies of 8 MiB reach 0.98 of what large ones do (docs/perf/transfer.md), and a morsel still is some
        // of them.
        Self {
            device_cache_bytes: 1 << 30,
            pinned_cache_bytes: 0,
            threads: 0,
            extent_bytes: 64 << 20,
            links: Links::default(),
            link_chunk_bytes: 8 << 20,
            decompression: Decompression::default(),
            in_place: None,
        }
    }
}

/// Where a column's chunks are read from, fastest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DataTier {
    /// Memory of this device.
    Device(DeviceId),
    /// Pinned host memory.
    Pinned,
    /// The table's files.
    Disk,
}

/// What [`ColumnCache::pin`] did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinReport {
    /// Bytes of pinned memory taken by this call.
    pub bytes: u64,
    /// Time that it took.
    pub elapsed: Duration,
    /// Columns that were not asked for by number and are left out, and why: text without a dictionary, which takes much
    /// memory and which few queries read.
    pub columns_left_out: Vec<(String, String)>,
}

/// The column cache: the columns that are in pinned and device memory of one machine. `Send` and `Sync`; share it in an
/// [`Arc`].
pub struct ColumnCache {
    pub(super) machine: Machine,
    pub(super) io: Arc<IoEngine>,
    pub(super) options: ColumnCacheOptions,
    state: Mutex<State>,
    /// Held while a column is admitted, so that two admissions do not evict each other's columns.
    pub(super) admission: Admission,
    pub(super) copiers: Copiers,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) pinned: TierCache,
    /// By device.
    pub(super) devices: Vec<TierCache>,
    pub(super) uses: Uses,
    /// Known once a column was loaded.
    pub(super) widths: HashMap<Key, BTreeSet<u8>>,
    texts: HashMap<Key, Arc<TextCell>>,
}

impl ColumnCache {
    /// An empty cache for `machine`: all columns are on disk.
    pub fn new(machine: Machine, io: Arc<IoEngine>, mut options: ColumnCacheOptions) -> Self {
        if options.threads == 0 {
            options.threads = std::thread::available_parallelism().map_or(1, |count| count.get());
        }
        let devices = machine.info().devices.iter().map(|_| TierCache::default()).collect();
        let state = Mutex::new(State { devices, ..State::default() });
        Self { machine, io, options, state, admission: Admission::default(), copiers: Copiers::default() }
    }

    /// The machine.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// What reads the files.
    pub fn io(&self) -> &Arc<IoEngine> {
        &self.io
    }

    /// Loads these columns of the snapshot into pinned memory (`None`: all), and waits until they are there. What is
    /// pinned already stays. Of all columns, texts without a dictionary come last, and are left out and reported where
    /// they do not fit.
    ///
    /// # Errors
    ///
    /// `OutOfMemory` at the budget of pinned memory, `Corrupt` for damaged chunks, `Cancelled`, errors of reading;
    /// then nothing of it is pinned.
    pub fn pin(
        &self,
        table: &Arc<Table>,
        columns: Option<&[usize]>,
        cancel: &CancelFlag,
    ) -> Result<PinReport> {
        let started = Instant::now();
        let mut wanted =
            columns.map_or_else(|| (0..table.schema().columns.len()).collect(), <[usize]>::to_vec);
        wanted.sort_unstable();
        wanted.dedup();
        wanted.retain(|column| !self.state().pinned.keep((table.id(), *column)));
        let is_optional = |column: &usize| columns.is_none() && text_supported(table, *column).is_err();
        let (optional, wanted): (Vec<usize>, Vec<usize>) = wanted.into_iter().partition(is_optional);
        let doing = || format!("pinning table '{}'", table.name());
        let loaded = self.load(table, &wanted, cancel).context(doing)?;
        let mut bytes = self.insert_pinned(table, &wanted, loaded, true);
        let mut columns_left_out = Vec::new();
        for &column in &optional {
            match self.load(table, &[column], cancel) {
                Ok(loaded) => bytes += self.insert_pinned(table, &[column], loaded, true),
                Err(error) if matches!(error.kind(), ErrorKind::OutOfMemory { .. }) => {
                    columns_left_out.push((table.schema().columns[column].name.clone(), error.to_string()));
                }
                Err(error) => {
                    for column in wanted.iter().chain(&optional) {
                        self.state().pinned.remove((table.id(), *column));
                    }
                    return Err(error.context(doing()));
                }
            }
        }
        Ok(PinReport { bytes, elapsed: started.elapsed(), columns_left_out })
    }

    /// Notes that these columns are in pinned memory; gives their bytes. `is_kept`: somebody asked for them by name.
    pub(super) fn insert_pinned(
        &self,
        table: &Table,
        columns: &[usize],
        loaded: Vec<StoredColumn>,
        is_kept: bool,
    ) -> u64 {
        let bytes = loaded.iter().map(StoredColumn::bytes).sum();
        let mut state = self.state();
        for (column, stored) in columns.iter().zip(loaded) {
            state.widths.insert((table.id(), *column), stored.widths.clone());
            state.pinned.insert((table.id(), *column), Arc::new(stored), is_kept);
        }
        bytes
    }

    /// Reads whole columns into pinned memory, extents in parallel.
    pub(super) fn load(
        &self,
        table: &Arc<Table>,
        columns: &[usize],
        cancel: &CancelFlag,
    ) -> Result<Vec<StoredColumn>> {
        let mut jobs = Vec::new();
        let mut counts = Vec::new();
        for column in columns {
            let extents = plan_extents(table, *column, self.options.extent_bytes)?;
            counts.push(extents.len());
            jobs.extend(extents.into_iter().map(|row_groups| (*column, row_groups)));
        }
        let mut extents = self.load_extents(table, jobs, self.options.threads, cancel)?.into_iter();
        Ok(counts
            .into_iter()
            .map(|count| StoredColumn::assemble(extents.by_ref().take(count).collect()))
            .collect())
    }

    pub(super) fn load_extents(
        &self,
        table: &Arc<Table>,
        jobs: Vec<(usize, Range<usize>)>,
        threads: usize,
        cancel: &CancelFlag,
    ) -> Result<Vec<LoadedExtent>> {
        parallel::map(jobs, threads, cancel, |(column, row_groups)| {
            load_extent(&self.machine, &self.io, table, column, row_groups, cancel)
        })
    }

    /// Gives the pinned memory of a snapshot's columns back, when nothing uses it any more.
    pub fn unpin(&self, table: TableId) {
        let gone = self.state().pinned.retain(|(id, _)| id != table);
        drop(gone);
    }

    /// Forgets all that is in memory of a snapshot: pinned, on devices, dictionaries.
    pub fn forget(&self, table: TableId) {
        self.unpin(table);
        let mut state = self.state();
        state.widths.retain(|(id, _), _| *id != table);
        state.texts.retain(|(id, _), _| *id != table);
        state.uses.retain(|(id, _)| id != table);
        let gone: Vec<_> =
            state.devices.iter_mut().flat_map(|cache| cache.retain(|(id, _)| id != table)).collect();
        drop(state);
        drop(gone);
    }

    /// The tier from which a prefetcher for `device` reads a column.
    pub fn tier(&self, table: &Table, column: usize, device: DeviceId) -> DataTier {
        let key = (table.id(), column);
        let state = self.state();
        let is_cached = state.devices.get(device.0 as usize).is_some_and(|cache| cache.get(key).is_some());
        match state.pinned.get(key).is_some() {
            _ if is_cached => DataTier::Device(device),
            true => DataTier::Pinned,
            false => DataTier::Disk,
        }
    }

    /// Whether a column is in pinned memory since somebody asked for it by name.
    pub fn is_pinned_by_name(&self, table: &Table, column: usize) -> bool {
        self.state().pinned.is_kept((table.id(), column))
    }

    /// Bytes of the columns cached in the memory of `device`; 0 for a device that the machine lacks.
    pub fn device_bytes_used(&self, device: DeviceId) -> u64 {
        self.state().devices.get(device.0 as usize).map_or(0, TierCache::bytes)
    }

    /// Bytes of the columns cached in pinned memory, without those that were asked for by name.
    pub fn pinned_bytes_cached(&self) -> u64 {
        self.state().pinned.bytes()
    }

    /// Notes that run number `run` uses these columns. Runs are numbered from 1 on; several uses by one are one.
    pub fn note_uses(&self, table: &Table, columns: &[usize], run: u64) {
        let mut state = self.state();
        for column in columns {
            state.uses.note((table.id(), *column), run);
        }
    }

    /// Whether more than one run has used a column.
    pub fn is_used_again(&self, table: &Table, column: usize) -> bool {
        self.state().uses.is_repeated((table.id(), column))
    }

    /// The widths in bits of a column's bit-packed pages; known once the column was pinned or admitted.
    pub fn widths(&self, table: &Table, column: usize) -> Option<BTreeSet<u8>> {
        self.state().widths.get(&(table.id(), column)).cloned()
    }

    /// The dictionary of a text column, read when first asked for and then cached.
    pub fn text(self: &Arc<Self>, table: &Arc<Table>, column: usize) -> Arc<ColumnText> {
        let cell = Arc::clone(self.state().texts.entry((table.id(), column)).or_default());
        Arc::new(ColumnText::new(Arc::clone(self), Arc::clone(table), column, cell))
    }

    pub(super) fn pinned(&self, key: Key) -> Option<Arc<StoredColumn>> {
        self.state().pinned.get(key).cloned()
    }

    pub(super) fn cached(&self, key: Key, device: DeviceId) -> Option<Arc<StoredColumn>> {
        self.state().devices[device.0 as usize].get(key).cloned()
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for ColumnCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.state();
        write!(f, "column cache of {:?}, {} columns pinned", self.machine, state.pinned.len())
    }
}
