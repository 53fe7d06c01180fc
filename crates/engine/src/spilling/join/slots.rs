//! The slots of a table of words, and the filter of its words.
//!
//! | way | words for each row | slot of a word | filter |
//! | --- | --- | --- | --- |
//! | direct | up to 2 | the word | a bit for each word |
//! | ranked | up to 128 | how many words there are before it: a bit for each, and counts of bits | the same bits |
//! | hashed | more | from its hash on, round within its region | four bits of a block of 64 |
//!
//! Keys in order find slots in order in the first two, which hashes forgo.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::error::Result;

use super::keys::Packing;

/// Slots by position are taken where there are at most so many words a row, or this many in all.
const DIRECT_WORDS_PER_ROW: u64 = 2;
const DIRECT_WORDS_MIN: u64 = 1 << 16;
/// A bit for each word is taken where there are at most so many words a row.
const RANKED_WORDS_PER_ROW: u64 = 128;
/// Bits of the hashed filter for each row, at least.
const FILTER_BITS_PER_ROW: usize = 16;
/// Slots of a region take about so many bytes: half of a core's own cache. A guess.
const REGION_BYTES: u64 = 512 << 10;
/// More regions than this are more places to write to than a core keeps addresses of.
const REGIONS_MAX: u64 = 512;

/// A bit for each word.
type Bits = Arc<Box<[AtomicU64]>>;

/// Where the first row of a word is found, one more than its number; 0 where there is none.
#[derive(Debug)]
pub(super) enum Slots {
    /// By the word.
    Direct(Box<[AtomicU32]>),
    /// By how many words there are before it: in the blocks before its own, and in that.
    Ranked { bits: Bits, ranks: Vec<u32>, slots: Box<[AtomicU32]> },
    /// From the hash of the word on, round within its region: one more than the word, 0 in an empty slot.
    Hashed { slots: Box<[(AtomicU64, AtomicU32)]>, shift: u32, region: usize },
}

#[derive(Debug)]
pub(super) enum Filter {
    /// Nobody reads it.
    None,
    /// The word's own.
    Bits(Bits),
    /// Four bits of one of these, by the hash of the word.
    Hashed { blocks: Box<[AtomicU64]>, shift: u32 },
}

/// How a word finds its slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Direct,
    Ranked,
    Hashed,
}

/// How slots are divided into regions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Regions {
    way: Way,
    /// There are two to the power of this.
    bits: u32,
    /// What a word, or its hash, is shifted by to give its region.
    shift: u32,
}

impl Regions {
    /// For `rows` rows; all slots in one where they are few.
    pub(super) fn new(word_max: u64, rows: u64, are_few: bool) -> Self {
        let per_row = |words: u64| rows.saturating_mul(words);
        let (way, bytes) = if word_max < per_row(DIRECT_WORDS_PER_ROW).max(DIRECT_WORDS_MIN) {
            (Way::Direct, word_max.saturating_mul(4))
        } else if word_max < per_row(RANKED_WORDS_PER_ROW) {
            (Way::Ranked, word_max / 8 + per_row(4))
        } else {
            (Way::Hashed, per_row(24))
        };
        let count = if are_few { 1 } else { (bytes / REGION_BYTES).clamp(1, REGIONS_MAX) };
        let bits = count.next_power_of_two().ilog2();
        // Regions by words hold whole blocks of bits.
        let of_word = word_max.checked_ilog2().map_or(0, |bit| bit + 1).saturating_sub(bits).max(6);
        Self { way, bits, shift: if way == Way::Hashed { 64 - bits } else { of_word } }
    }

    /// Slots of which none is taken, and their filter, which passes nothing: for `rows` rows.
    pub(super) fn empty(self, word_max: u64, rows: usize, wants_filter: bool) -> (Slots, Filter) {
        let bits = || Arc::new(bytemuck::zeroed_slice_box(word_max as usize / 64 + 1));
        match self.way {
            Way::Direct => {
                let slots = bytemuck::zeroed_slice_box(word_max as usize + 1);
                (Slots::Direct(slots), if wants_filter { Filter::Bits(bits()) } else { Filter::None })
            }
            Way::Ranked => {
                let bits = bits();
                let (ranks, slots) = (Vec::new(), Box::default());
                (Slots::Ranked { bits: Arc::clone(&bits), ranks, slots }, Filter::Bits(bits))
            }
            Way::Hashed => {
                let filter = if wants_filter { Filter::hashed(rows, self) } else { Filter::None };
                (Slots::hashed(rows, self), filter)
            }
        }
    }

    /// How many there are.
    pub(super) fn count(self) -> usize {
        1 << self.bits
    }

    /// That of `word`.
    #[inline]
    pub(super) fn of(self, word: u64) -> usize {
        if self.bits == 0 {
            return 0;
        }
        (if self.way == Way::Hashed { mixed(word) >> self.shift } else { word >> self.shift }) as usize
    }
}

impl Slots {
    /// For so many rows; of the slots of a region, three of four are taken at most where words are spread well.
    fn hashed(rows: usize, regions: Regions) -> Self {
        let of_region = (rows >> regions.bits) + 1;
        let slots = (of_region + of_region / 3 + 16).next_power_of_two();
        Self::of_bits(slots.ilog2() + regions.bits, regions)
    }

    fn of_bits(bits: u32, regions: Regions) -> Self {
        let slots = bytemuck::zeroed_slice_box(1 << bits);
        Self::Hashed { slots, shift: 64 - bits, region: 1 << (bits - regions.bits) }
    }

    /// They are numbered by bits, which have to be set before a slot is asked for.
    pub(super) fn are_ranked(&self) -> bool {
        matches!(self, Self::Ranked { .. })
    }

    /// None of them taken, and twice as many of them where words are looked for.
    pub(super) fn doubled(self, regions: Regions) -> Self {
        match self {
            Self::Hashed { shift, .. } => Self::of_bits(64 - shift + 1, regions),
            by_number => by_number,
        }
    }

    /// Counts words by rank, now that all bits are set.
    pub(super) fn rank(&mut self) {
        if let Self::Ranked { bits, ranks, slots } = self {
            let mut sum = 0;
            let blocks = bits.iter().map(|block| {
                let before = sum;
                sum += block.load(Ordering::Relaxed).count_ones();
                before
            });
            *ranks = blocks.collect();
            *slots = bytemuck::zeroed_slice_box(sum as usize);
        }
    }

    /// How many words a region may have: one in eight slots stays empty, so that a search ends soon.
    pub(super) fn of_region(&self) -> usize {
        match self {
            Self::Direct(_) | Self::Ranked { .. } => usize::MAX,
            Self::Hashed { region, .. } => region - region / 8,
        }
    }

    /// The place of the first row of `word`, which is taken for it if it has none; `None` where nothing is `vacant`.
    #[inline]
    pub(super) fn to_fill(&self, word: u64, vacant: &mut usize) -> Option<&AtomicU32> {
        match self {
            Self::Direct(slots) => Some(&slots[word as usize]),
            Self::Ranked { bits, ranks, slots } => Some(&slots[rank_of(word, bits, ranks)?]),
            Self::Hashed { slots, shift, region } => {
                let mut slot = (mixed(word) >> shift) as usize;
                loop {
                    let (key, first) = &slots[slot];
                    let there = key.load(Ordering::Relaxed);
                    if there == word + 1 {
                        return Some(first);
                    }
                    if there == 0 {
                        *vacant = vacant.checked_sub(1)?;
                        key.store(word + 1, Ordering::Relaxed);
                        return Some(first);
                    }
                    slot = after(slot, *region);
                }
            }
        }
    }

    /// One more than the first row of `word`, 0 where there is none.
    #[inline]
    pub(super) fn first(&self, word: u64) -> u32 {
        match self {
            Self::Direct(slots) => slots[word as usize].load(Ordering::Relaxed),
            Self::Ranked { bits, ranks, slots } => {
                rank_of(word, bits, ranks).map_or(0, |slot| slots[slot].load(Ordering::Relaxed))
            }
            Self::Hashed { slots, shift, region } => {
                let mut slot = (mixed(word) >> shift) as usize;
                loop {
                    let (key, first) = &slots[slot];
                    match key.load(Ordering::Relaxed) {
                        0 => return 0,
                        there if there == word + 1 => return first.load(Ordering::Relaxed),
                        _ => slot = after(slot, *region),
                    }
                }
            }
        }
    }
}

/// How many words there are before `word`; `None` where it is not there.
#[inline]
fn rank_of(word: u64, bits: &[AtomicU64], ranks: &[u32]) -> Option<usize> {
    let (block, bit) = ((word / 64) as usize, 1 << (word % 64));
    let of_block = bits[block].load(Ordering::Relaxed);
    (of_block & bit != 0).then(|| (ranks[block] + (of_block & (bit - 1)).count_ones()) as usize)
}

/// The slot after `slot`, round within its region of so many.
#[inline]
fn after(slot: usize, region: usize) -> usize {
    slot & !(region - 1) | (slot + 1) & (region - 1)
}

impl Filter {
    fn hashed(rows: usize, regions: Regions) -> Self {
        let blocks = (rows * FILTER_BITS_PER_ROW / 64).next_power_of_two().max(2 * regions.count());
        Self::Hashed { blocks: bytemuck::zeroed_slice_box(blocks), shift: 64 - blocks.ilog2() }
    }

    /// Only by the thread of the word's region, which its block is of as well.
    #[inline]
    pub(super) fn add(&self, word: u64) {
        let (block, bits) = match self {
            Self::None => return,
            Self::Bits(bits) => (&bits[(word / 64) as usize], 1 << (word % 64)),
            Self::Hashed { blocks, shift } => {
                let hash = mixed(word);
                (&blocks[(hash >> shift) as usize], bits_of(hash))
            }
        };
        block.store(block.load(Ordering::Relaxed) | bits, Ordering::Relaxed);
    }

    /// A bit for each row of `keys`: its word may be there.
    pub(super) fn passed(&self, packing: &Packing, keys: &[ArrayRef]) -> Result<BooleanBuffer> {
        match self {
            Self::None => packing.bits(keys, |_| true),
            Self::Bits(bits) => packing.bits(keys, |word| {
                bits[(word / 64) as usize].load(Ordering::Relaxed) >> (word % 64) & 1 != 0
            }),
            Self::Hashed { blocks, shift } => packing.bits(keys, |word| {
                let hash = mixed(word);
                let bits = bits_of(hash);
                blocks[(hash >> shift) as usize].load(Ordering::Relaxed) & bits == bits
            }),
        }
    }
}

/// Four bits of a block of 64, by the low half of a hash; two may be the same.
#[inline]
fn bits_of(hash: u64) -> u64 {
    1 << (hash & 63) | 1 << (hash >> 6 & 63) | 1 << (hash >> 12 & 63) | 1 << (hash >> 18 & 63)
}

/// A hash of `word`, of which all bits depend on all of the word: Stafford's mix 13, the end of SplitMix64.
#[inline]
pub(super) fn mixed(word: u64) -> u64 {
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}
