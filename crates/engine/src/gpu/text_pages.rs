//! Decoded pages of texts that were fetched for rows of results: hot ones are decoded once.
//!
//! The page whose last use is longest ago goes first, at [`KEPT_BYTES_MAX`]. A page that is larger than that is not kept.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use datafusion::arrow::array::{Array, ArrayRef};
use pelton_store::TableId;

/// Host memory that pages take at most. A guess: the texts of 1.5 million customers of TPC-H take 200 MB.
const KEPT_BYTES_MAX: usize = 256 << 20;

/// A page of a column of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct PageKey {
    pub(super) table: TableId,
    pub(super) group: usize,
    pub(super) column: usize,
    pub(super) page: usize,
}

/// The pages. `Send` and `Sync`.
#[derive(Debug)]
pub(super) struct TextPages {
    bytes_max: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    pages: HashMap<PageKey, Kept>,
    /// By last use.
    order: BTreeMap<u64, PageKey>,
    bytes: usize,
    /// Counts uses.
    clock: u64,
}

#[derive(Debug)]
struct Kept {
    texts: ArrayRef,
    bytes: usize,
    last_used: u64,
}

impl Default for TextPages {
    fn default() -> Self {
        Self::new(KEPT_BYTES_MAX)
    }
}

impl TextPages {
    fn new(bytes_max: usize) -> Self {
        Self { bytes_max, state: Mutex::default() }
    }

    /// A page, if it is kept.
    pub(super) fn get(&self, key: PageKey) -> Option<ArrayRef> {
        let mut state = self.lock();
        let State { pages, order, clock, .. } = &mut *state;
        let kept = pages.get_mut(&key)?;
        *clock += 1;
        order.remove(&kept.last_used);
        order.insert(*clock, key);
        kept.last_used = *clock;
        Some(ArrayRef::clone(&kept.texts))
    }

    /// Keeps a page, in place of those whose last use is longest ago.
    pub(super) fn keep(&self, key: PageKey, texts: &ArrayRef) {
        let bytes = texts.get_array_memory_size();
        if bytes > self.bytes_max {
            return;
        }
        let mut state = self.lock();
        if state.pages.contains_key(&key) {
            return;
        }
        while state.bytes + bytes > self.bytes_max {
            let (_, oldest) = state.order.pop_first().expect("kept bytes are of pages");
            let gone = state.pages.remove(&oldest).expect("what has an order is kept");
            state.bytes -= gone.bytes;
        }
        state.clock += 1;
        let last_used = state.clock;
        state.bytes += bytes;
        state.order.insert(last_used, key);
        state.pages.insert(key, Kept { texts: ArrayRef::clone(texts), bytes, last_used });
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::StringViewArray;

    use super::*;

    fn key(page: usize) -> PageKey {
        PageKey { table: TableId(7), group: 0, column: 3, page }
    }

    fn page(text: &str) -> ArrayRef {
        Arc::new(StringViewArray::from_iter_values(std::iter::repeat_n(text, 10)))
    }

    #[test]
    fn the_page_whose_last_use_is_longest_ago_goes_first() {
        let texts = page("a text that is too long for its view");
        let pages = TextPages::new(2 * texts.get_array_memory_size());
        pages.keep(key(0), &texts);
        pages.keep(key(1), &texts);
        assert!(pages.get(key(0)).is_some());
        pages.keep(key(2), &texts);
        let found = (0..3).map(|page| pages.get(key(page)).is_some());
        assert_eq!(found.collect::<Vec<_>>(), [true, false, true]);
    }

    #[test]
    fn a_page_beyond_the_bound_is_not_kept() {
        let pages = TextPages::new(16);
        pages.keep(key(0), &page("longer than all pages together may be"));
        assert!(pages.get(key(0)).is_none());
        assert_eq!(pages.lock().bytes, 0);
    }

    #[test]
    fn a_page_that_is_kept_twice_counts_once() {
        let texts = page("text");
        let pages = TextPages::new(1 << 20);
        pages.keep(key(0), &texts);
        pages.keep(key(0), &texts);
        assert_eq!(pages.lock().bytes, texts.get_array_memory_size());
    }
}
