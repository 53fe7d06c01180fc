//! Reading elements at random places, many at a time: what random bandwidth is measured with.

use std::sync::Arc;
use std::time::Duration;

use pelton_device::{Access, Cost, Span, Work};

use crate::library::{Library, cuda_form};
use crate::memory::{Accumulator, assert_accumulator, with_source};
use crate::mix::{random_word, short_word};
use crate::sys;

/// What to gather.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gather {
    /// Bytes of an element: 4 or 8.
    pub width_bytes: u32,
    /// Elements to read, with repetition.
    pub count: u64,
    /// What the places are drawn from.
    pub seed: u64,
}

impl Gather {
    /// How many elements at the start of `bytes` bytes are drawn from: the greatest power of two that there is room
    /// for.
    pub fn element_count(&self, bytes: usize) -> u64 {
        (bytes as u64 / u64::from(self.width_bytes)).checked_ilog2().map_or(0, |bits| 1 << bits)
    }
}

/// Adds the sum of `gather.count` elements of `source`, modulo 2^64, to `accumulator`. The i-th is element
/// [`random_word(seed, i)`](crate::random_word) modulo the number of elements.
///
/// # Panics
///
/// If the width is neither 4 nor 8, `source` has no element or is not aligned to one, or `accumulator` is not 8 bytes
/// long and aligned to 8 bytes.
pub fn gather(library: Option<&Arc<Library>>, source: Span, gather: Gather, accumulator: Span) -> Work {
    assert_accumulator(&accumulator, 1);
    let Gather { width_bytes, count, seed } = gather;
    assert!(width_bytes == 4 || width_bytes == 8, "elements of 4 or 8 bytes, not {width_bytes}");
    assert!(source.address().is_multiple_of(width_bytes.into()), "the source is aligned to its elements");
    let element_count = gather.element_count(source.len());
    assert!(element_count > 0, "a source of {} bytes has no element of {width_bytes}", source.len());
    let (address, total) = (source.address(), accumulator.address());
    let cuda = cuda_form(
        library,
        |entries| entries.gather,
        move |launch| sys::GatherArgs {
            source: address,
            mask: element_count - 1,
            count,
            seed,
            accumulator: total,
            width_bytes: width_bytes.into(),
            launch,
        },
    );
    let cost = Cost {
        access: Access::Random { width_bytes },
        read_bytes: Some(vec![count.saturating_mul(width_bytes.into())]),
        compute: Duration::ZERO,
        ..Cost::STREAMING
    };
    Work::new("gather", vec![source.clone()], vec![accumulator.clone()])
        .with_cost(cost)
        .with_cuda(cuda)
        .with_host(move || {
            let sum = with_source(&source, |bytes| sum_of_elements(bytes, gather))?;
            Accumulator::of(&accumulator)?.add(0, sum);
            Ok(())
        })
}

fn sum_of_elements(bytes: &[u8], gather: Gather) -> u64 {
    match gather.width_bytes {
        4 => sum_of::<4>(bytes, gather),
        _ => sum_of::<8>(bytes, gather),
    }
}

fn sum_of<const WIDTH: usize>(bytes: &[u8], gather: Gather) -> u64 {
    let (elements, _) = bytes.as_chunks::<WIDTH>();
    let mask = gather.element_count(bytes.len()) - 1;
    let element = |index| short_word(&elements[(random_word(gather.seed, index) & mask) as usize]);
    (0..gather.count).fold(0_u64, |sum, index| sum.wrapping_add(element(index)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_drawn_from_a_power_of_two() {
        let gather = Gather { width_bytes: 4, count: 1, seed: 0 };
        let counts = [0, 3, 4, 7, 8, 15, 16, 4096].map(|bytes| gather.element_count(bytes));
        assert_eq!(counts, [0, 0, 1, 1, 2, 2, 4, 1024]);
    }
}
