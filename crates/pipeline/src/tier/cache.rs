//! The columns that a device keeps, under a budget.
//!
//! What was not used for the longest time goes first. A column that a feed holds stays: it is counted by its handles,
//! which are given out only under the lock that the cache lies behind.

use std::collections::HashMap;
use std::sync::Arc;

use super::Key;
use super::extent::StoredColumn;

/// Columns in the memory of one device.
#[derive(Debug, Default)]
pub(super) struct DeviceCache {
    columns: HashMap<Key, Kept>,
    /// Counts uses.
    clock: u64,
}

#[derive(Debug)]
struct Kept {
    column: Arc<StoredColumn>,
    last_used: u64,
}

impl DeviceCache {
    /// Bytes of the columns kept.
    pub(super) fn bytes(&self) -> u64 {
        self.columns.values().map(|kept| kept.column.bytes()).sum()
    }

    /// A column, if it is kept, without counting as a use.
    pub(super) fn peek(&self, key: Key) -> Option<&Arc<StoredColumn>> {
        self.columns.get(&key).map(|kept| &kept.column)
    }

    /// A column, if it is kept, for use.
    pub(super) fn take(&mut self, key: Key) -> Option<Arc<StoredColumn>> {
        self.clock += 1;
        let kept = self.columns.get_mut(&key)?;
        kept.last_used = self.clock;
        Some(Arc::clone(&kept.column))
    }

    /// Keeps a column.
    pub(super) fn insert(&mut self, key: Key, column: Arc<StoredColumn>) {
        self.clock += 1;
        self.columns.insert(key, Kept { column, last_used: self.clock });
    }

    /// Forgets the columns for which `wanted` is false; those in use live on until they are not.
    pub(super) fn retain(&mut self, wanted: impl Fn(Key) -> bool) -> Vec<Arc<StoredColumn>> {
        self.columns.extract_if(|key, _| !wanted(*key)).map(|(_, kept)| kept.column).collect()
    }

    /// Bytes that evicting everything not in use would free.
    pub(super) fn idle_bytes(&self) -> u64 {
        self.columns.values().filter(|kept| kept.is_idle()).map(|kept| kept.column.bytes()).sum()
    }

    /// Takes out the column whose last use is longest ago, of those not in use.
    pub(super) fn evict_one(&mut self) -> Option<Arc<StoredColumn>> {
        let idle = self.columns.iter().filter(|(_, kept)| kept.is_idle());
        let oldest = idle.min_by_key(|(_, kept)| kept.last_used).map(|(key, _)| *key)?;
        self.columns.remove(&oldest).map(|kept| kept.column)
    }
}

impl Kept {
    fn is_idle(&self) -> bool {
        Arc::strong_count(&self.column) == 1
    }
}
