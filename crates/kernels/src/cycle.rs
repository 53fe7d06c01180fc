//! A cycle through memory, and one thread that follows it: what latency is measured with.
//!
//! ```text
//!   slot     0        1        2        3          of stride_bytes each; its first 4 bytes name the next slot
//!          ┌─────┐  ┌─────┐  ┌─────┐  ┌─────┐
//!          │  2  │  │  0  │  │  3  │  │  1  │      0 → 2 → 3 → 1 → 0
//!          └─────┘  └─────┘  └─────┘  └─────┘
//! ```
//!
//! Every load depends on the one before, none comes back before all slots have been seen, and their order is that of
//! a permutation, so that no prefetcher guesses it.

use std::sync::Arc;
use std::time::Duration;

use pelton_device::{Access, Cost, Span, Work};

use crate::library::{Library, cuda_form};
use crate::memory::{Accumulator, assert_accumulator, with_source, with_target};
use crate::mix::permuted;
use crate::sys;

/// Bytes of a link.
const LINK_BYTES: usize = 4;

/// Time of one dependent load for a simulator, where memory is not slower: a guess at the order of magnitude for a
/// GPU's own memory. Links add their own latency.
const LOAD_LATENCY_NS: u64 = 500;

/// How a cycle lies in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cycle {
    /// From slot to slot, a multiple of 4; at least a cache line (128 bytes) if latency is what one wants to see.
    pub stride_bytes: u32,
    /// Chooses the order of the slots.
    pub seed: u64,
}

impl Cycle {
    /// Slots of a cycle in `bytes` bytes: the greatest power of two that there is room for, at most 2^32.
    pub fn slot_count(&self, bytes: usize) -> u64 {
        (bytes as u64 / u64::from(self.stride_bytes)).checked_ilog2().map_or(0, |bits| 1 << bits.min(32))
    }

    fn assert_fits(&self, span: &Span) {
        assert!(
            self.stride_bytes > 0 && self.stride_bytes.is_multiple_of(LINK_BYTES as u32),
            "a stride of {} bytes is no multiple of 4",
            self.stride_bytes
        );
        assert!(span.address().is_multiple_of(LINK_BYTES as u64), "a cycle is aligned to 4 bytes");
        assert!(
            self.slot_count(span.len()) > 0,
            "{} bytes have no slot of {}",
            span.len(),
            self.stride_bytes
        );
    }
}

/// A walk along a cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chase {
    /// The cycle that the memory was filled with.
    pub cycle: Cycle,
    /// Where to begin; other beginnings meet other cache lines first.
    pub first_slot: u64,
    /// Loads.
    pub step_count: u64,
}

/// Writes a cycle to `target`; what lies between the links stays as it is.
///
/// # Panics
///
/// If `target` has no slot or is not aligned to 4 bytes, or the stride is no multiple of 4.
pub fn fill_cycle(library: Option<&Arc<Library>>, target: Span, cycle: Cycle) -> Work {
    cycle.assert_fits(&target);
    let (address, slot_count) = (target.address(), cycle.slot_count(target.len()));
    let cuda = cuda_form(
        library,
        |entries| entries.fill_cycle,
        move |launch| sys::FillCycleArgs {
            target: address,
            stride_bytes: cycle.stride_bytes.into(),
            slot_count,
            seed: cycle.seed,
            launch,
        },
    );
    Work::new("fill_cycle", vec![], vec![target.clone()])
        .with_cuda(cuda)
        .with_host(move || with_target(&target, |bytes| fill(bytes, cycle)))
}

/// Follows a cycle with one thread and adds the number of the slot where it ends to `accumulator`.
///
/// # Panics
///
/// As [`fill_cycle`]; and if `accumulator` is not 8 bytes long and aligned to 8 bytes.
pub fn chase(library: Option<&Arc<Library>>, source: Span, chase: Chase, accumulator: Span) -> Work {
    assert_accumulator(&accumulator, 1);
    let Chase { cycle, first_slot, step_count } = chase;
    cycle.assert_fits(&source);
    let (address, total) = (source.address(), accumulator.address());
    let slot_count = cycle.slot_count(source.len());
    let cuda = cuda_form(
        library,
        |entries| entries.chase,
        move |launch| sys::ChaseArgs {
            source: address,
            stride_bytes: cycle.stride_bytes.into(),
            slot_count,
            first_slot,
            step_count,
            accumulator: total,
            launch,
        },
    );
    let cost = Cost {
        access: Access::Random { width_bytes: LINK_BYTES as u32 },
        read_bytes: Some(vec![step_count.saturating_mul(LINK_BYTES as u64)]),
        compute: Duration::from_nanos(LOAD_LATENCY_NS.saturating_mul(step_count)),
        ..Cost::STREAMING
    };
    Work::new("chase", vec![source.clone()], vec![accumulator.clone()])
        .with_cost(cost)
        .with_cuda(cuda)
        .with_host(move || {
            let slot = with_source(&source, |bytes| follow(bytes, chase))?;
            Accumulator::of(&accumulator)?.add(0, slot);
            Ok(())
        })
}

fn fill(bytes: &mut [u8], cycle: Cycle) {
    let slot_count = cycle.slot_count(bytes.len());
    let bits = slot_count.ilog2();
    for position in 0..slot_count {
        let slot = permuted(position as u32, bits, cycle.seed) as usize;
        let next = permuted(((position + 1) & (slot_count - 1)) as u32, bits, cycle.seed);
        let start = slot * cycle.stride_bytes as usize;
        bytes[start..start + LINK_BYTES].copy_from_slice(&next.to_le_bytes());
    }
}

fn follow(bytes: &[u8], chase: Chase) -> u64 {
    let stride = chase.cycle.stride_bytes as usize;
    let mask = chase.cycle.slot_count(bytes.len()) - 1;
    let (links, _) = bytes.as_chunks::<LINK_BYTES>();
    let mut slot = chase.first_slot & mask;
    for _ in 0..chase.step_count {
        slot = u64::from(u32::from_le_bytes(links[slot as usize * stride / LINK_BYTES])) & mask;
    }
    slot
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_comes_back_after_all_slots_and_not_before() {
        let cycle = Cycle { stride_bytes: 128, seed: 3 };
        let mut bytes = vec![0; 128 * 64 + 100];
        fill(&mut bytes, cycle);
        let end_of = |step_count| follow(&bytes, Chase { cycle, first_slot: 5, step_count });
        assert!((1..64).all(|step_count| end_of(step_count) != 5));
        assert_eq!(end_of(64), 5);
    }

    #[test]
    fn slots_are_a_power_of_two() {
        let cycle = Cycle { stride_bytes: 128, seed: 0 };
        let counts = [0, 127, 128, 255, 256, 1000].map(|bytes| cycle.slot_count(bytes));
        assert_eq!(counts, [0, 0, 1, 1, 2, 4]);
    }
}
