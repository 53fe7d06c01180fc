//! Admitting columns to the memory of a device, and evicting them.
//!
//! ```text
//!   pinned   extent ─copy─► extent of the device
//!   disk     extent ─load─► pinned memory ─copy─► extent of the device, a few at a time
//!   disk     prefetcher, decompression on the device ─copy─► extent of the device, where that is faster
//! ```
//!
//! Columns are evicted extent by extent: by the budget first, and where the device's memory is taken by others, also
//! below it.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};

use pelton_device::{Buffer, DeviceId, MemoryKind, OnFull, Span, Stream};
use pelton_error::{CancelFlag, ErrorKind, Result, ResultExt};
use pelton_store::Table;

use super::ColumnCache;
use super::cache::DeviceCache;
use super::device_decompression::DecompressionPlan;
use super::extent::{ChunkPlace, StoredColumn, plan_extents};
use super::prefetcher::{Morsel, PrefetchOptions, Prefetcher};
use super::staging::is_device_full;

/// Extents in pinned memory at once on their way from disk to a device.
const EXTENTS_AT_ONCE: usize = 4;
/// Morsels on their way to be decompressed, each of the bytes of an extent.
const MORSELS_AT_ONCE: usize = 3;

impl ColumnCache {
    /// Admits a column: copies it to the device from the tier that it is in, and waits until it is there. The least
    /// recently used columns are evicted to make room, none in use; false where there is not enough.
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
        let _turn = self.admission.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (table.id(), column);
        let pinned = {
            let mut state = self.state();
            if state.devices[device.0 as usize].take(key).is_some() {
                return Ok(true);
            }
            state.pinned.get(&key).cloned()
        };
        let admitted = match pinned {
            Some(pinned) => self.admit_pinned(&pinned, device, stream, cancel),
            None if self.decompresses_on(device, table, column)? => {
                self.admit_decompressed(table, column, device, stream, cancel)
            }
            None => self.admit_stored(table, column, device, stream, cancel),
        };
        let name = || format!("caching column '{}' on {device}", table.schema().columns[column].name);
        let Some(admitted) = admitted.context(name)? else { return Ok(false) };
        let mut state = self.state();
        state.widths.insert(key, admitted.widths.clone());
        state.devices[device.0 as usize].insert(key, Arc::new(admitted));
        Ok(true)
    }

    fn admit_pinned(
        &self,
        pinned: &StoredColumn,
        device: DeviceId,
        stream: &Stream,
        cancel: &CancelFlag,
    ) -> Result<Option<StoredColumn>> {
        let mut arriving = Arriving { column_cache: self, device, stream, extents: Vec::new(), bytes: 0 };
        if !arriving.may_fit(pinned.bytes()) {
            return Ok(None);
        }
        for extent in &pinned.extents {
            cancel.check()?;
            if !arriving.copy(&extent.span())? {
                return Ok(None);
            }
        }
        stream.wait_blocking()?;
        let (places, widths) = (pinned.places.clone(), pinned.widths.clone());
        Ok(Some(StoredColumn { extents: arriving.extents, places, widths }))
    }

    /// Through pinned memory, a few extents at a time.
    fn admit_stored(
        &self,
        table: &Arc<Table>,
        column: usize,
        device: DeviceId,
        stream: &Stream,
        cancel: &CancelFlag,
    ) -> Result<Option<StoredColumn>> {
        let mut arriving = Arriving { column_cache: self, device, stream, extents: Vec::new(), bytes: 0 };
        if !arriving.may_fit(table.column_summary(column).stored_bytes) {
            return Ok(None);
        }
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
            stream.wait_blocking()?;
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
        device: DeviceId,
        stream: &Stream,
        cancel: &CancelFlag,
    ) -> Result<Option<StoredColumn>> {
        let mut arriving = Arriving { column_cache: self, device, stream, extents: Vec::new(), bytes: 0 };
        if !arriving.may_fit(table.column_summary(column).stored_bytes) {
            return Ok(None);
        }
        let row_groups = all_row_groups(table);
        let options = PrefetchOptions {
            morsel_bytes: self.options.extent_bytes,
            row_groups_max: row_groups.len().max(1),
            staging_buffers: MORSELS_AT_ONCE,
            reads_ahead: MORSELS_AT_ONCE + 1,
        };
        let mut prefetcher =
            Prefetcher::new(self, device, table, &[column], &row_groups, options, cancel.clone())?;
        let mut places = Vec::with_capacity(row_groups.len());
        for turn in 0.. {
            let buffer = turn % prefetcher.buffer_count();
            let Some(morsel) = prefetcher.next(buffer, stream, &mut |_| false)? else { break };
            let Some(read) = morsel.reads.first() else { continue };
            if !arriving.copy(read)? {
                return Ok(None);
            }
            places.extend(places_of(&morsel, read, arriving.extents.len() - 1));
            prefetcher.release(buffer, stream.record()?);
        }
        stream.wait_blocking()?;
        let widths: BTreeSet<u8> = prefetcher.widths(0);
        Ok(Some(StoredColumn { extents: arriving.extents, places, widths }))
    }

    /// Evicts at least `bytes` of the columns cached on `device`, as long as there are some that are not in use;
    /// answers how many were freed.
    pub fn evict(&self, device: DeviceId, bytes: u64) -> u64 {
        let mut freed = 0;
        while freed < bytes {
            let evicted = self.state().devices.get_mut(device.0 as usize).and_then(DeviceCache::evict_one);
            let Some(column) = evicted else { break };
            freed += column.bytes();
        }
        freed
    }
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
    device: DeviceId,
    stream: &'a Stream,
    extents: Vec<Buffer>,
    bytes: u64,
}

impl Arriving<'_> {
    /// False where evicting everything that may be evicted would not be enough.
    fn may_fit(&self, bytes: u64) -> bool {
        let state = self.column_cache.state();
        let cache = &state.devices[self.device.0 as usize];
        cache.bytes() - cache.idle_bytes() + bytes <= self.column_cache.options.device_cache_bytes
    }

    /// Enqueues the copy of a pinned extent; false where there is no room for it.
    fn copy(&mut self, extent: &Span) -> Result<bool> {
        let bytes = extent.len() as u64;
        while self.column_cache.device_bytes_used(self.device) + self.bytes + bytes
            > self.column_cache.options.device_cache_bytes
        {
            if self.column_cache.evict(self.device, 1) == 0 {
                return Ok(false);
            }
        }
        let target = loop {
            match self.column_cache.machine.allocate(
                MemoryKind::Device(self.device),
                extent.len(),
                OnFull::Refuse,
            ) {
                Err(error) if is_device_full(&error) && self.column_cache.evict(self.device, 1) > 0 => {}
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
