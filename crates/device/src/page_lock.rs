//! Page locks on host memory that exists already, with memory of what is locked.
//!
//! A driver refuses to lock a page twice, so overlapping requests share: a request takes what is locked already and
//! locks the gaps between. Each such *piece* counts its users; one without users is unlocked, or kept for reuse until
//! the budget of pinned memory is wanted elsewhere or the memory itself is released.
//!
//! ```text
//!   locked before     ├──── a ────┤        ├── b ──┤
//!   request        ├───────────────────────────────────┤
//!   pieces         n1 ├──── a ────┤   n2   ├── b ──┤ n3
//! ```
//!
//! A copy must not span two pieces: the driver knows each as memory of its own. Memory that was lent seldom begins and
//! ends with a page; what lies on the pages at its edges stays unlocked, as pieces of less than a page.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pelton_error::Result;

use crate::backend::Backend;
use crate::budget::{Budget, OnFull, Reservation};
use crate::memory::{Buffer, Span};

/// Pages of host memory, 4 KiB on x86-64.
pub const HOST_PAGE_BYTES: u64 = 4096;

/// What is locked, and for whom.
pub(crate) struct PageLocks {
    budget: Arc<Budget>,
    pieces: Mutex<BTreeMap<u64, Piece>>,
}

struct Piece {
    bytes: u64,
    users: usize,
    is_kept: bool,
    _reservation: Reservation,
}

/// Keeps the pages under a span locked. Operations on its pieces keep them locked as well, until they are over.
pub struct PageLock {
    pieces: Vec<Span>,
}

/// Unlocks when the last piece and the last operation on one is gone.
pub(crate) struct PageGuard {
    /// Alive until its pages are unlocked.
    buffer: Buffer,
    starts: Vec<u64>,
    keep: bool,
}

impl PageLock {
    /// The span, cut where pieces meet; copy each alone.
    pub fn pieces(&self) -> &[Span] {
        &self.pieces
    }
}

impl Drop for PageGuard {
    fn drop(&mut self) {
        self.buffer.machine().unlock_pages(&self.starts, self.keep);
    }
}

impl PageLocks {
    pub(crate) fn new(budget: Arc<Budget>) -> Self {
        Self { budget, pieces: Mutex::default() }
    }

    pub(crate) fn lock(&self, backend: &dyn Backend, span: &Span, keep: bool) -> Result<PageLock> {
        if span.is_empty() {
            return Ok(PageLock { pieces: Vec::new() });
        }
        let (start, end) = lockable(span);
        if start >= end {
            return Ok(PageLock { pieces: vec![span.clone()] });
        }
        let (span_start, span_end) = (span.address(), span.address() + span.len() as u64);
        let mut pieces = self.pieces();
        self.lock_gaps(&mut pieces, backend, start, end).or_else(|_| {
            // What nobody uses makes room, also where it overlaps the range: then that is locked anew.
            drop_unused(&mut pieces, backend, |_, _| true);
            self.lock_gaps(&mut pieces, backend, start, end)
        })?;
        let mut starts = Vec::new();
        let mut ranges = Vec::new();
        let first = pieces.range(..=start).next_back().map_or(start, |(address, _)| *address);
        for (address, piece) in pieces.range_mut(first..end) {
            if address + piece.bytes <= start {
                continue;
            }
            piece.users += 1;
            starts.push(*address);
            let from = (*address).max(span_start) - span_start;
            let until = (address + piece.bytes).min(span_end) - span_start;
            ranges.push(from as usize..until as usize);
        }
        drop(pieces);
        let guard = Arc::new(PageGuard { buffer: span.buffer().clone(), starts, keep });
        let head = (start > span_start).then(|| span.slice(0..(start - span_start) as usize));
        let tail = (end < span_end).then(|| span.slice((end - span_start) as usize..span.len()));
        let locked = ranges.into_iter().map(|range| span.slice(range).with_lock(Arc::clone(&guard)));
        Ok(PageLock { pieces: head.into_iter().chain(locked).chain(tail).collect() })
    }

    /// Locks the pages of `start..end` that no piece covers; all of them or none.
    fn lock_gaps(
        &self,
        pieces: &mut BTreeMap<u64, Piece>,
        backend: &dyn Backend,
        start: u64,
        end: u64,
    ) -> Result<()> {
        for (gap_start, gap_bytes) in gaps(pieces, start, end) {
            let lock = || -> Result<Piece> {
                let reservation = self.budget.reserve(gap_bytes, OnFull::Refuse)?;
                backend.limit_idle_pinned(self.budget.limit_bytes() - self.budget.used_bytes(), true);
                backend.page_lock(gap_start, gap_bytes as usize)?;
                Ok(Piece { bytes: gap_bytes, users: 0, is_kept: false, _reservation: reservation })
            };
            match lock() {
                Ok(piece) => pieces.insert(gap_start, piece),
                Err(error) => {
                    drop_unused(pieces, backend, |_, piece| !piece.is_kept);
                    return Err(error);
                }
            };
        }
        Ok(())
    }

    pub(crate) fn unlock(&self, backend: &dyn Backend, starts: &[u64], keep: bool) {
        let mut pieces = self.pieces();
        for start in starts {
            let piece = pieces.get_mut(start).expect("a piece outlives its users");
            piece.users -= 1;
            piece.is_kept |= keep;
            if piece.users == 0 && !piece.is_kept {
                let piece = pieces.remove(start).expect("just seen");
                backend.page_unlock(*start, piece.bytes as usize);
            }
        }
    }

    /// Unlocks what is kept for reuse only.
    pub(crate) fn release_idle(&self, backend: &dyn Backend) {
        drop_unused(&mut self.pieces(), backend, |_, _| true);
    }

    /// The memory is about to be released.
    pub(crate) fn forget(&self, backend: &dyn Backend, address: u64, bytes: usize) {
        let end = address + bytes as u64;
        drop_unused(&mut self.pieces(), backend, |start, piece| start < end && start + piece.bytes > address);
    }

    fn pieces(&self) -> MutexGuard<'_, BTreeMap<u64, Piece>> {
        self.pieces.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The pages under `span`. Of memory that was lent only those that are its own: the pages at its edges hold memory of
/// others, who may give them back while they are locked.
fn lockable(span: &Span) -> (u64, u64) {
    let page_of = |address: u64| address / HOST_PAGE_BYTES * HOST_PAGE_BYTES;
    let start = page_of(span.address());
    let end = (span.address() + span.len() as u64).next_multiple_of(HOST_PAGE_BYTES);
    if !span.buffer().is_read_only() {
        return (start, end);
    }
    let first = span.buffer().address().next_multiple_of(HOST_PAGE_BYTES);
    let last = page_of(span.buffer().address() + span.buffer().len() as u64);
    (start.max(first), end.min(last))
}

fn drop_unused(
    pieces: &mut BTreeMap<u64, Piece>,
    backend: &dyn Backend,
    which: impl Fn(u64, &Piece) -> bool,
) {
    pieces.retain(|start, piece| {
        let goes = piece.users == 0 && which(*start, piece);
        if goes {
            backend.page_unlock(*start, piece.bytes as usize);
        }
        !goes
    });
}

/// Parts of `start..end` that no piece covers: (start, bytes).
fn gaps(pieces: &BTreeMap<u64, Piece>, start: u64, end: u64) -> Vec<(u64, u64)> {
    let mut gaps = Vec::new();
    let mut at = start;
    let first = pieces.range(..=start).next_back().map_or(start, |(address, _)| *address);
    for (address, piece) in pieces.range(first..end) {
        if *address > at {
            gaps.push((at, address - at));
        }
        at = at.max(address + piece.bytes);
    }
    if at < end {
        gaps.push((at, end - at));
    }
    gaps
}
