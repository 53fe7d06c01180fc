//! Radix sort of keys, alone or each with a value.
//!
//! ```text
//!   keys[0], values[0] ── digit 0 ──► keys[1], values[1] ── digit 1 ──► keys[0], values[0] ── ... ──► result_index
//! ```
//!
//! Least significant digit first, 8 bits a pass, so the sort is stable, and over a range of bits it is a stable
//! partition by them. A pass reads and writes each key and value once; before the first, a histogram of all digits
//! reads the keys once more. For CUDA it is the one of CUB, which makes one kernel of a pass (A. Adinets, D. Merrill,
//! "Onesweep: A Faster Least Significant Digit Radix Sort for GPUs", 2022). Memory beside the two buffers:
//! [`RadixSort::scratch_bytes`].

use std::sync::Arc;
use std::time::Duration;

use pelton_device::{Access, Cost, Span, Work};
use pelton_error::Result;

use crate::library::{Library, cuda_form};
use crate::memory::with_target;
use crate::order::{Direction, KeyBytes, KeyOrder, KeyType, with_key_width};
use crate::shape::{addresses, as_elements_mut, assert_apart, exclusive_sums, key_count, value_width};
use crate::sys;

/// Bits of a digit.
const DIGIT_BITS: u32 = 8;

/// What to sort by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RadixSort {
    /// The order of the keys.
    pub order: KeyOrder,
    /// The first bit, from the least significant, of the keys' [words](KeyOrder::word) that counts.
    pub begin_bit: u32,
    /// The bit after the last one that counts.
    pub end_bit: u32,
}

impl RadixSort {
    /// By all bits of keys.
    pub const fn by(key_type: KeyType, direction: Direction) -> Self {
        Self { order: KeyOrder { key_type, direction }, begin_bit: 0, end_bit: key_type.width_bits() }
    }

    /// Keys of `order` by bits `begin_bit` to `end_bit` of their words; others keep their order.
    #[must_use]
    pub const fn by_bits(order: KeyOrder, begin_bit: u32, end_bit: u32) -> Self {
        Self { order, begin_bit, end_bit }
    }

    /// Which of the two buffers the result is in: 0 after an even number of digits of 8 bits, 1 after an odd one. So it
    /// is 0 for all bits of every key type. It does not depend on the number of keys.
    pub const fn result_index(&self) -> usize {
        (self.pass_count() % 2) as usize
    }

    /// Passes over the keys, after the one that counts digits.
    pub const fn pass_count(&self) -> u32 {
        (self.end_bit - self.begin_bit).div_ceil(DIGIT_BITS)
    }

    /// Bytes of scratch for `count` keys with or without values: below 64 MB for keys of 4 and 8 bytes and below 128 MB
    /// for those of 16, for up to 2^36 of them; needs no device.
    ///
    /// It is what CUB asks for, with values of 8 bytes: counts of all digits in each portion of 2^28 keys, and what the
    /// blocks of one pass over a portion tell each other. That the tiles are as large is asserted where the kernels are
    /// compiled.
    pub const fn scratch_bytes(&self, count: u64) -> usize {
        /// Keys of a portion, within one tile.
        const PORTION: u64 = 1 << 28;
        const MARGIN: u64 = 1 << 14;
        const DIGITS: u64 = 1 << DIGIT_BITS;
        let tile = match self.order.key_type.width_bytes() {
            4 => 5376,
            8 => 4608,
            _ => 2304,
        };
        let portions = count.div_ceil(PORTION - MARGIN);
        let in_portion = if count < PORTION { count } else { PORTION };
        let counts = portions * self.pass_count() as u64 * (DIGITS * 8 + 4);
        (counts + in_portion.div_ceil(tile) * DIGITS * 4 + 4096) as usize
    }

    fn assert_bits(&self) {
        let width = self.order.key_type.width_bits();
        assert!(
            self.begin_bit <= self.end_bit && self.end_bit <= width,
            "bits {} to {} of {width}",
            self.begin_bit,
            self.end_bit
        );
    }
}

/// Sorts the keys in `keys[0]`; they end in `keys[sort.result_index()]`, and the other buffer holds nothing of use.
///
/// # Panics
///
/// If the buffers differ in length, overlap, are not whole keys or not aligned to keys; if `scratch` is shorter than
/// [`RadixSort::scratch_bytes`]; or if the bits are none of a key.
pub fn sort_keys(library: Option<&Arc<Library>>, sort: RadixSort, keys: [Span; 2], scratch: Span) -> Work {
    enqueue(library, sort, keys, None, scratch)
}

/// Sorts the keys in `keys[0]` and with each the value in `values[0]`, 4 or 8 bytes; they end in
/// `keys[sort.result_index()]` and `values[sort.result_index()]`. Pairs of equal keys keep their order.
///
/// # Panics
///
/// As [`sort_keys`]; and if values are not as many as keys, of 4 or 8 bytes and aligned to that.
pub fn sort_pairs(
    library: Option<&Arc<Library>>,
    sort: RadixSort,
    keys: [Span; 2],
    values: [Span; 2],
    scratch: Span,
) -> Work {
    enqueue(library, sort, keys, Some(values), scratch)
}

fn enqueue(
    library: Option<&Arc<Library>>,
    sort: RadixSort,
    keys: [Span; 2],
    values: Option<[Span; 2]>,
    scratch: Span,
) -> Work {
    sort.assert_bits();
    let count = key_count(&keys[0], sort.order.key_type);
    assert_eq!(keys[0].len(), keys[1].len(), "two buffers of one length");
    key_count(&keys[1], sort.order.key_type);
    let value_bytes = values.as_ref().map_or(0, |[from, to]| {
        assert_eq!(from.len(), to.len(), "two buffers of one length");
        value_width(to, count);
        value_width(from, count)
    });
    assert!(scratch.len() >= sort.scratch_bytes(count), "scratch of {} bytes is short", scratch.len());
    let args = sys::SortArgs {
        keys: addresses(&keys),
        values: values.as_ref().map_or([0; 2], addresses),
        count,
        scratch: scratch.address(),
        scratch_bytes: scratch.len() as u64,
        order: sort.order.into(),
        begin_bit: sort.begin_bit,
        end_bit: sort.end_bit,
        value_bytes: value_bytes as u32,
        result_index: sort.result_index() as u32,
        launch: sys::Launch { multiprocessors: 0, policy: 0 },
    };
    let cuda = cuda_form(library, |entries| entries.sort, move |launch| sys::SortArgs { launch, ..args });
    let mut writes: Vec<Span> = keys.iter().chain(values.iter().flatten()).cloned().collect();
    writes.push(scratch);
    assert_apart(&writes);
    // Writes count once each; what all passes move beyond that counts as reading.
    let pair_bytes = (keys[0].len() + values.as_ref().map_or(0, |values| values[0].len())) as u64;
    let moved = pair_bytes * u64::from(2 * sort.pass_count()) + keys[0].len() as u64;
    let cost = Cost {
        access: Access::Sequential,
        read_bytes: Some(vec![moved.saturating_sub(2 * pair_bytes)]),
        compute: Duration::ZERO,
        ..Cost::STREAMING
    };
    Work::new("sort", vec![keys[0].clone()], writes).with_cost(cost).with_cuda(cuda).with_host(move || {
        with_key_width!(sort.order.key_type, W => match value_bytes {
            0 => host_sort_keys::<W>(sort, &keys),
            4 => host_sort_pairs::<W, 4>(sort, &keys, values.as_ref().expect("pairs")),
            _ => host_sort_pairs::<W, 8>(sort, &keys, values.as_ref().expect("pairs")),
        })
    })
}

fn host_sort_keys<const W: usize>(sort: RadixSort, keys: &[Span; 2]) -> Result<()>
where
    [u8; W]: KeyBytes,
{
    with_target(&keys[0], |first| {
        with_target(&keys[1], |second| {
            let (first, second) = (as_elements_mut::<W>(first), as_elements_mut::<W>(second));
            // Values of no bytes: they take no memory and no time.
            let mut nothing = (vec![[0_u8; 0]; first.len()], vec![[0_u8; 0]; first.len()]);
            sort_elements(sort, [first, second], [&mut nothing.0, &mut nothing.1]);
        })
    })?
}

fn host_sort_pairs<const W: usize, const V: usize>(
    sort: RadixSort,
    keys: &[Span; 2],
    values: &[Span; 2],
) -> Result<()>
where
    [u8; W]: KeyBytes,
{
    let [first_values, second_values] = values;
    with_target(&keys[0], |first| {
        with_target(&keys[1], |second| {
            with_target(first_values, |first_values| {
                with_target(second_values, |second_values| {
                    sort_elements(
                        sort,
                        [as_elements_mut::<W>(first), as_elements_mut::<W>(second)],
                        [as_elements_mut::<V>(first_values), as_elements_mut::<V>(second_values)],
                    );
                })
            })
        })
    })???
}

/// Sorts from the first buffers by as many passes as there are digits, from one to the other and back.
fn sort_elements<const W: usize, const V: usize>(
    sort: RadixSort,
    keys: [&mut [[u8; W]]; 2],
    values: [&mut [[u8; V]]; 2],
) where
    [u8; W]: KeyBytes,
{
    let ([mut keys, mut other_keys], [mut values, mut other_values]) = (keys, values);
    let terms = <[u8; W]>::terms(sort.order);
    let digits = |pass: u32| {
        let begin = sort.begin_bit + pass * DIGIT_BITS;
        let bits = DIGIT_BITS.min(sort.end_bit - begin);
        move |key: &[u8; W]| <[u8; W]>::digit(key.word(terms), begin, bits)
    };
    // Digits of all passes are counted at once: no pass changes them.
    let mut counts = vec![[0_usize; 1 << DIGIT_BITS]; sort.pass_count() as usize];
    for key in &*keys {
        for (pass, counts) in (0..).zip(&mut counts) {
            counts[digits(pass)(key)] += 1;
        }
    }
    for (pass, mut places) in (0..).zip(counts) {
        let digit = digits(pass);
        if places.contains(&keys.len()) {
            other_keys.copy_from_slice(keys);
            other_values.copy_from_slice(values);
        } else {
            exclusive_sums(&mut places);
            for (key, value) in keys.iter().zip(&*values) {
                let place = &mut places[digit(key)];
                other_keys[*place] = *key;
                other_values[*place] = *value;
                *place += 1;
            }
        }
        std::mem::swap(&mut keys, &mut other_keys);
        std::mem::swap(&mut values, &mut other_values);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_a_result_follows_from_its_digits() {
        let order = KeyOrder::ascending(KeyType::U32);
        let index_of = |begin, end| RadixSort::by_bits(order, begin, end).result_index();
        assert_eq!(
            [(0, 0), (0, 1), (0, 8), (3, 11), (0, 9), (8, 24), (7, 24)].map(|(b, e)| index_of(b, e)),
            [0, 1, 1, 1, 0, 0, 1]
        );
        for key_type in KeyType::ALL {
            assert_eq!(RadixSort::by(key_type, Direction::Descending).result_index(), 0);
        }
    }

    #[test]
    fn scratch_is_bounded() {
        for key_type in KeyType::ALL {
            let sort = RadixSort::by(key_type, Direction::Ascending);
            let bytes = [0, 1, 1 << 20, 1 << 28, 1 << 33, 1 << 36].map(|count| sort.scratch_bytes(count));
            let most = if key_type == KeyType::I128 { 128_000_000 } else { 64_000_000 };
            assert!(bytes.is_sorted() && bytes[5] < most, "{key_type:?} {bytes:?}");
        }
    }
}
