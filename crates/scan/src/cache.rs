//! The columns cached on one device, under a budget.
//!
//! The least recently used column is evicted first. A column that a prefetcher holds stays: its handles are
//! counted, and are given out only under the lock of the cache.

use std::collections::HashMap;
use std::sync::Arc;

use super::column_cache::Key;
use super::extent::StoredColumn;

/// Columns in the memory of one device.
#[derive(Debug, Default)]
pub(super) struct DeviceCache {
    columns: HashMap<Key, Entry>,
    /// Counts uses.
    clock: u64,
}

#[derive(Debug)]
struct Entry {
    column: Arc<StoredColumn>,
    last_used: u64,
}

impl DeviceCache {
    /// Bytes of the cached columns.
    pub(super) fn bytes(&self) -> u64 {
        self.columns.values().map(|entry| entry.column.bytes()).sum()
    }

    /// A column, if it is cached, without counting as a use.
    pub(super) fn peek(&self, key: Key) -> Option<&Arc<StoredColumn>> {
        self.columns.get(&key).map(|entry| &entry.column)
    }

    /// A column, if it is cached, for use.
    pub(super) fn take(&mut self, key: Key) -> Option<Arc<StoredColumn>> {
        self.clock += 1;
        let entry = self.columns.get_mut(&key)?;
        entry.last_used = self.clock;
        Some(Arc::clone(&entry.column))
    }

    /// Adds a column.
    pub(super) fn insert(&mut self, key: Key, column: Arc<StoredColumn>) {
        self.clock += 1;
        self.columns.insert(key, Entry { column, last_used: self.clock });
    }

    /// Forgets the columns for which `wanted` is false; those in use live on until they are not.
    pub(super) fn retain(&mut self, wanted: impl Fn(Key) -> bool) -> Vec<Arc<StoredColumn>> {
        self.columns.extract_if(|key, _| !wanted(*key)).map(|(_, entry)| entry.column).collect()
    }

    /// Bytes that evicting everything not in use would free.
    pub(super) fn idle_bytes(&self) -> u64 {
        self.columns.values().filter(|entry| entry.is_idle()).map(|entry| entry.column.bytes()).sum()
    }

    /// Takes out the column whose last use is longest ago, of those not in use.
    pub(super) fn evict_one(&mut self) -> Option<Arc<StoredColumn>> {
        let idle = self.columns.iter().filter(|(_, entry)| entry.is_idle());
        let oldest = idle.min_by_key(|(_, entry)| entry.last_used).map(|(key, _)| *key)?;
        self.columns.remove(&oldest).map(|entry| entry.column)
    }
}

impl Entry {
    fn is_idle(&self) -> bool {
        Arc::strong_count(&self.column) == 1
    }
}
