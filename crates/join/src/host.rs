//! Joins on the host's cores, over slices of words.

mod radix;
mod single;

use std::fmt::Debug;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use pelton_kernels::join_hash;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub(crate) use radix::radix;
pub(crate) use single::{TABLE_ROWS_MAX, Table, single};

/// A key or a value.
pub(crate) trait Word:
    Copy
    + Ord
    + Debug
    + Default
    + Send
    + Sync
    + FromBytes
    + IntoBytes
    + Immutable
    + KnownLayout
    + Into<u64>
    + 'static
{
    /// The same that threads share.
    type Shared: Send + Sync;
    /// Of all ones: an empty slot.
    const EMPTY: Self;
    /// The lowest bits of a word.
    fn of(word: u64) -> Self;
    /// To be shared.
    fn shared(self) -> Self::Shared;
    /// What is there.
    fn load(shared: &Self::Shared) -> Self;
    /// Puts it there.
    fn store(self, shared: &Self::Shared);
    /// Puts it there if nothing is; what was there.
    fn claim(self, shared: &Self::Shared) -> Self;
}

macro_rules! word {
    ($type:ty, $shared:ty) => {
        impl Word for $type {
            type Shared = $shared;
            const EMPTY: Self = <$type>::MAX;

            fn of(word: u64) -> Self {
                word as $type
            }

            fn shared(self) -> $shared {
                <$shared>::new(self)
            }

            #[inline(always)]
            fn load(shared: &$shared) -> Self {
                shared.load(Ordering::Relaxed)
            }

            #[inline(always)]
            fn store(self, shared: &$shared) {
                shared.store(self, Ordering::Relaxed);
            }

            #[inline(always)]
            fn claim(self, shared: &$shared) -> Self {
                let outcome =
                    shared.compare_exchange(Self::EMPTY, self, Ordering::Relaxed, Ordering::Relaxed);
                outcome.unwrap_or_else(|found| found)
            }
        }
    };
}
word!(u32, AtomicU32);
word!(u64, AtomicU64);

/// Keys and values of a side.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Side<'a, W> {
    pub(crate) keys: &'a [W],
    pub(crate) values: &'a [W],
}

impl<'a, W: Word> Side<'a, W> {
    /// Of bytes of whole words, aligned.
    pub(crate) fn of(keys: &'a [u8], values: &'a [u8]) -> Self {
        // No bytes are at any address.
        let words = |bytes: &'a [u8]| match bytes.is_empty() {
            true => &[][..],
            false => <[W]>::ref_from_bytes(bytes).expect("whole words, aligned"),
        };
        Self { keys: words(keys), values: words(values) }
    }

    fn slice(&self, range: std::ops::Range<usize>) -> Self {
        Self { keys: &self.keys[range.clone()], values: &self.values[range] }
    }

    /// Equal parts, one a thread.
    fn parts(&self, thread_count: usize) -> Vec<Self> {
        let part = self.keys.len().div_ceil(thread_count).max(1);
        self.keys
            .chunks(part)
            .zip(self.values.chunks(part))
            .map(|(keys, values)| Self { keys, values })
            .collect()
    }
}

/// What a thread does with its matches.
pub(crate) trait Sink<W>: Default + Send {
    /// One match.
    fn add(&mut self, build_value: W, probe_value: W);
}

/// Counts, and adds up products.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Sum {
    pub(crate) match_count: u64,
    pub(crate) value_sum: u64,
}

impl<W: Word> Sink<W> for Sum {
    #[inline(always)]
    fn add(&mut self, build_value: W, probe_value: W) {
        self.match_count += 1;
        self.value_sum = self.value_sum.wrapping_add(build_value.into().wrapping_mul(probe_value.into()));
    }
}

/// Keeps the values of both sides.
#[derive(Debug, Default)]
pub(crate) struct Kept<W> {
    pub(crate) build_values: Vec<W>,
    pub(crate) probe_values: Vec<W>,
}

impl<W: Word> Sink<W> for Kept<W> {
    fn add(&mut self, build_value: W, probe_value: W) {
        self.build_values.push(build_value);
        self.probe_values.push(probe_value);
    }
}

#[inline(always)]
fn hash<W: Word>(key: W) -> u64 {
    join_hash(key.into())
}
