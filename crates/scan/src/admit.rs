//! Admitting columns to the memory of a device or to pinned memory, and evicting them.
//!
//! ```text
//!   pinned   extent ─copy─► extent of the device
//!   disk     extent ─load─► pinned memory ─copy─► extent of the device, a few at a time
//!   disk     prefetcher, decompression on the device ─copy─► extent of the device, where that is faster
//!   disk     extent ─load─► pinned memory, and there it stays: what no device has room for
//! ```
//!
//! A column makes way for one that is used much more often ([`Uses`](super::uses::Uses)); where others need the memory,
//! the least used ones make way for them.

use std::collections::BTreeSet;
use std::sync::Arc;

use pelton_device::{Buffer, DeviceId, MemoryKind, OnFull, Span, Stream};
use pelton_error::{CancelFlag, ErrorKind, Result, ResultExt};
use pelton_store::Table;

use super::ColumnCache;
use super::column_cache::{Key, State};
use super::device_decompression::DecompressionPlan;
use super::extent::{ChunkPlace, StoredColumn, plan_extents};
use super::formats::estimated_chunk_bytes;
use super::prefetcher::{Morsel, PrefetchOptions, Prefetcher};
use super::staging::is_device_full;

/// Extents in pinned memory at once on their way from disk to a device.
const EXTENTS_AT_ONCE: usize = 4;
/// Morsels on their way to be decompressed, each of the bytes of an extent.
const MORSELS_AT_ONCE: usize = 3;

impl ColumnCache {
    /// Admits a column: copies it to the device from the tier that it is in, and waits until it is there. Columns that are
    /// used much less often are evicted to make room, none in use; false where there is not enough, and while work in the
    /// background admits one: who is waited for does not wait for that.
    ///
    /// # Errors
    ///
    /// `OutOfMemory` of pinned memory to read through, `Corrupt`,
    /// `Cancelled`, `InvalidInput` for a device that the machine lacks, errors of reading and copying.
    pub fn admit(
        self: &Arc<Self>,
        table: &Arc<Table>,
        column: usize,
        device: DeviceId,
        stream: &Stream,
        cancel: &CancelFlag,
    ) -> Result<bool> {
        self.machine.device(device)?;
        let Some(_turn) = self.admission.enter(cancel.is_in_background()) else { return Ok(false) };
        let key = (table.id(), column);
        let pinned = {
            let state = self.state();
            if state.devices[device.0 as usize].get(key).is_some() {
                return Ok(true);
            }
            state.pinned.get(key).cloned()
        };
        let bytes =
            pinned.as_ref().map_or(table.column_summary(column).stored_bytes, |pinned| pinned.bytes());
        let arriving = Arriving::new(self, key, device, stream);
        if !arriving.may_fit(bytes) {
            return Ok(false);
        }
        let admitted = match pinned {
            Some(pinned) => arriving.copy_all(&pinned, cancel),
            None if self.decompresses_on(device, table, column)? => {
                self.admit_decompressed(table, column, arriving, cancel)
            }
            None => self.admit_stored(table, column, arriving, cancel),
        };
        let name = || format!("caching column '{}' on {device}", table.schema().columns[column].name);
        let Some(admitted) = admitted.context(name)? else { return Ok(false) };
        let mut state = self.state();
        state.widths.insert(key, admitted.widths.clone());
        state.devices[device.0 as usize].insert(key, Arc::new(admitted), false);
        Ok(true)
    }

    /// Through pinned memory, a few extents at a time.
    fn admit_stored(
        &self,
        table: &Arc<Table>,
        column: usize,
        mut arriving: Arriving<'_>,
        cancel: &CancelFlag,
    ) -> Result<Option<StoredColumn>> {
        let extents = plan_extents(table, column, self.options.extent_bytes)?;
        let mut loaded = Vec::new();
        let (mut next, mut at_once) = (0, self.options.threads.min(EXTENTS_AT_ONCE));
        while next < extents.len() {
            let batch = &extents[next..extents.len().min(next + at_once)];
            let jobs = batch.iter().map(|row_groups| (column, row_groups.clone())).collect();
            let pinned = match self.load_extents(table, jobs, at_once, cancel) {
                Err(error) if matches!(error.kind(), ErrorKind::OutOfMemory { .. }) && at_once > 1 => {
                    at_once = 1;
                    continue;
                }
                pinned => pinned?,
            };
            next += pinned.len();
            for mut extent in pinned {
                if !arriving.copy(&extent.buffer.span())? {
                    return Ok(None);
                }
                extent.buffer = arriving.extents[loaded.len()].clone();
                loaded.push(extent);
            }
            // Gives the pinned memory back.
            arriving.stream.wait_blocking()?;
        }
        Ok(Some(StoredColumn::assemble(loaded)))
    }

    /// Whether the device decompresses a column on its way there.
    fn decompresses_on(&self, device: DeviceId, table: &Table, column: usize) -> Result<bool> {
        Ok(!DecompressionPlan::of(self, device, table, &[column], &all_row_groups(table))?.codecs.is_empty())
    }

    /// Decompressed on the device, morsel by morsel.
    fn admit_decompressed(
        self: &Arc<Self>,
        table: &Arc<Table>,
        column: usize,
        mut arriving: Arriving<'_>,
        cancel: &CancelFlag,
    ) -> Result<Option<StoredColumn>> {
        let row_groups = all_row_groups(table);
        let options = PrefetchOptions {
            morsel_bytes: self.options.extent_bytes,
            row_groups_max: row_groups.len().max(1),
            staging_buffers: MORSELS_AT_ONCE,
            reads_ahead: MORSELS_AT_ONCE + 1,
        };
        let mut prefetcher =
            Prefetcher::new(self, arriving.device, table, &[column], &row_groups, options, cancel.clone())?;
        let mut places = Vec::with_capacity(row_groups.len());
        for turn in 0.. {
            let buffer = turn % prefetcher.buffer_count();
            let Some(morsel) = prefetcher.next(buffer, arriving.stream, &mut |_| false)? else { break };
            let Some(read) = morsel.reads.first() else { continue };
            if !arriving.copy(read)? {
                return Ok(None);
            }
            places.extend(places_of(&morsel, read, arriving.extents.len() - 1));
            prefetcher.release(buffer, arriving.stream.record()?);
        }
        arriving.stream.wait_blocking()?;
        let widths: BTreeSet<u8> = prefetcher.widths(0);
        Ok(Some(StoredColumn { extents: arriving.extents, places, widths }))
    }

    /// Admits a column to pinned memory, and waits until it is there. Columns that are used much less often are evicted to
    /// make room, none in use and none that was asked for by name; false where there is not enough, or while another
    /// column is admitted.
    ///
    /// # Errors
    ///
    /// `OutOfMemory` of pinned memory, `Corrupt`, `Cancelled`, errors of reading.
    pub fn admit_to_pinned(&self, table: &Arc<Table>, column: usize, cancel: &CancelFlag) -> Result<bool> {
        let Some(_turn) = self.admission.try_enter() else { return Ok(false) };
        let key = (table.id(), column);
        if self.pinned(key).is_some() {
            return Ok(true);
        }
        if !self.make_pinned_room(key, column_bytes(table, column)?) {
            return Ok(false);
        }
        let name = || format!("caching column '{}' in pinned memory", table.schema().columns[column].name);
        let loaded = self.load(table, &[column], cancel).context(name)?;
        // The room was made by estimate.
        let is_room = self.make_pinned_room(key, loaded.iter().map(StoredColumn::bytes).sum());
        if is_room {
            self.insert_pinned(table, &[column], loaded, false);
        }
        Ok(is_room)
    }

    /// Makes room for `bytes` of `key` among the columns cached in pinned memory; false where nothing is evicted because
    /// that would not be enough.
    fn make_pinned_room(&self, key: Key, bytes: u64) -> bool {
        let limit = self.options.pinned_cache_bytes;
        loop {
            let mut state = self.state();
            let State { pinned, uses, .. } = &mut *state;
            let used = pinned.bytes();
            if used + bytes <= limit {
                return true;
            }
            if used - pinned.bytes_for(key, uses) + bytes > limit {
                return false;
            }
            let evicted = pinned.evict_one(Some(key), uses);
            drop(state);
            drop(evicted);
        }
    }

    /// Evicts at least `bytes` of the columns cached on `device`, the least used first, as long as there are some that are
    /// not in use; answers how many were freed.
    pub fn evict(&self, device: DeviceId, bytes: u64) -> u64 {
        self.evict_from(bytes, |state| state.devices.get_mut(device.0 as usize)?.evict_one(None, &state.uses))
    }

    /// As [`evict`](Self::evict), of those cached in pinned memory that nobody asked for by name.
    pub fn evict_pinned(&self, bytes: u64) -> u64 {
        self.evict_from(bytes, |state| state.pinned.evict_one(None, &state.uses))
    }

    fn evict_from(&self, bytes: u64, evict_one: impl Fn(&mut State) -> Option<Arc<StoredColumn>>) -> u64 {
        let mut freed = 0;
        while freed < bytes {
            let evicted = evict_one(&mut self.state());
            let Some(column) = evicted else { break };
            freed += column.bytes();
        }
        freed
    }
}

/// Bytes of a whole column in memory, by estimate.
fn column_bytes(table: &Table, column: usize) -> Result<u64> {
    (0..table.row_group_count())
        .map(|row_group| estimated_chunk_bytes(table, row_group, column).map(|bytes| bytes as u64))
        .sum()
}

fn all_row_groups(table: &Table) -> Vec<u32> {
    (0..table.row_group_count() as u32).collect()
}

/// Where the chunks of a morsel of one column lie in extent `extent`, a copy of `read`; each up to the next one.
fn places_of(morsel: &Morsel, read: &Span, extent: usize) -> Vec<ChunkPlace> {
    let starts = morsel.addresses.iter().map(|address| (address - read.address()) as usize);
    let starts: BTreeSet<usize> = starts.chain([read.len()]).collect();
    let place = |address: &u64| {
        let start = (address - read.address()) as usize;
        let end = starts.range(start + 1..).next().copied().unwrap_or(read.len());
        ChunkPlace { extent, start, bytes: end - start }
    };
    morsel.addresses.iter().map(place).collect()
}

/// A column on its way to a device's memory.
struct Arriving<'a> {
    column_cache: &'a ColumnCache,
    key: Key,
    device: DeviceId,
    stream: &'a Stream,
    extents: Vec<Buffer>,
    bytes: u64,
}

impl<'a> Arriving<'a> {
    fn new(column_cache: &'a ColumnCache, key: Key, device: DeviceId, stream: &'a Stream) -> Self {
        Self { column_cache, key, device, stream, extents: Vec::new(), bytes: 0 }
    }

    /// Copies a pinned column; `None` where there is no room for it.
    fn copy_all(mut self, pinned: &StoredColumn, cancel: &CancelFlag) -> Result<Option<StoredColumn>> {
        for extent in &pinned.extents {
            cancel.before_bringing(extent.len() as u64)?;
            if !self.copy(&extent.span())? {
                return Ok(None);
            }
        }
        self.stream.wait_blocking()?;
        let (places, widths) = (pinned.places.clone(), pinned.widths.clone());
        Ok(Some(StoredColumn { extents: self.extents, places, widths }))
    }

    /// False where evicting everything that makes way would not be enough.
    fn may_fit(&self, bytes: u64) -> bool {
        let state = self.column_cache.state();
        let cache = &state.devices[self.device.0 as usize];
        let others = cache.bytes() - cache.bytes_for(self.key, &state.uses);
        others + bytes <= self.column_cache.options.device_cache_bytes
    }

    /// Evicts a column that makes way for this one; false where none does.
    fn evict_one(&self) -> bool {
        let mut state = self.column_cache.state();
        let State { devices, uses, .. } = &mut *state;
        let evicted = devices[self.device.0 as usize].evict_one(Some(self.key), uses);
        drop(state);
        evicted.is_some()
    }

    /// Enqueues the copy of a pinned extent; false where there is no room for it.
    fn copy(&mut self, extent: &Span) -> Result<bool> {
        let bytes = extent.len() as u64;
        while self.column_cache.device_bytes_used(self.device) + self.bytes + bytes
            > self.column_cache.options.device_cache_bytes
        {
            if !self.evict_one() {
                return Ok(false);
            }
        }
        let target = loop {
            match self.column_cache.machine.allocate(
                MemoryKind::Device(self.device),
                extent.len(),
                OnFull::Refuse,
            ) {
                Err(error) if is_device_full(&error) && self.evict_one() => {}
                Err(error) if is_device_full(&error) => return Ok(false),
                target => break target?,
            }
        };
        self.stream.copy(extent, &target.span())?;
        self.bytes += bytes;
        self.extents.push(target);
        Ok(true)
    }
}
