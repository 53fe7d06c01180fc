//! Columns in one memory: that of a device, or pinned memory.
//!
//! A column makes way for one that is used much more often, the least used first ([`Uses`]); where others need the memory,
//! for them. A column that a prefetcher holds stays: its handles are counted, and are given out only under the lock of
//! the cache. A column that somebody asked for by name stays too, and does not count.

use std::collections::HashMap;
use std::sync::Arc;

use super::column_cache::Key;
use super::extent::StoredColumn;
use super::uses::Uses;

/// Columns in one memory.
#[derive(Debug, Default)]
pub(super) struct TierCache {
    columns: HashMap<Key, Entry>,
}

#[derive(Debug)]
struct Entry {
    column: Arc<StoredColumn>,
    /// Whether somebody asked for it by name.
    is_kept: bool,
}

impl TierCache {
    /// Bytes of the columns that nobody asked for by name.
    pub(super) fn bytes(&self) -> u64 {
        self.columns.values().filter(|entry| !entry.is_kept).map(|entry| entry.column.bytes()).sum()
    }

    /// How many columns there are.
    pub(super) fn len(&self) -> usize {
        self.columns.len()
    }

    /// A column, if it is there.
    pub(super) fn get(&self, key: Key) -> Option<&Arc<StoredColumn>> {
        self.columns.get(&key).map(|entry| &entry.column)
    }

    /// Whether a column is there since somebody asked for it by name.
    pub(super) fn is_kept(&self, key: Key) -> bool {
        self.columns.get(&key).is_some_and(|entry| entry.is_kept)
    }

    /// Keeps a column, if it is there, as if somebody had asked for it by name; whether it is.
    pub(super) fn keep(&mut self, key: Key) -> bool {
        self.columns.get_mut(&key).map(|entry| entry.is_kept = true).is_some()
    }

    /// Adds a column; `is_kept`: somebody asked for it by name.
    pub(super) fn insert(&mut self, key: Key, column: Arc<StoredColumn>, is_kept: bool) {
        self.columns.insert(key, Entry { column, is_kept });
    }

    /// Forgets a column.
    pub(super) fn remove(&mut self, key: Key) -> Option<Arc<StoredColumn>> {
        self.columns.remove(&key).map(|entry| entry.column)
    }

    /// Forgets the columns for which `wanted` is false; those in use live on until they are not.
    pub(super) fn retain(&mut self, wanted: impl Fn(Key) -> bool) -> Vec<Arc<StoredColumn>> {
        self.columns.extract_if(|key, _| !wanted(*key)).map(|(_, entry)| entry.column).collect()
    }

    /// Bytes that evicting what makes way for `key` would free.
    pub(super) fn bytes_for(&self, key: Key, uses: &Uses) -> u64 {
        let makes_way = |(other, entry): &(&Key, &Entry)| entry.is_idle() && uses.takes_room_of(key, **other);
        self.columns.iter().filter(makes_way).map(|(_, entry)| entry.column.bytes()).sum()
    }

    /// Takes out the least used of the columns that nobody uses now; with `key`, only one that makes way for it.
    pub(super) fn evict_one(&mut self, key: Option<Key>, uses: &Uses) -> Option<Arc<StoredColumn>> {
        let makes_way = |other: Key| key.is_none_or(|key| uses.takes_room_of(key, other));
        let idle = self.columns.iter().filter(|(_, entry)| entry.is_idle()).map(|(other, _)| *other);
        let least_used = |left: &Key, right: &Key| {
            let by_interval = uses.interval(*left).total_cmp(&uses.interval(*right));
            by_interval.then(uses.last(*right).cmp(&uses.last(*left)))
        };
        let victim = idle.filter(|other| makes_way(*other)).max_by(least_used)?;
        self.remove(victim)
    }
}

impl Entry {
    /// Whether it may be evicted now.
    fn is_idle(&self) -> bool {
        !self.is_kept && Arc::strong_count(&self.column) == 1
    }
}
