//! What devices do: sort what they hold, merge, exchange, and stream chunks through.

mod het;
mod local;
mod p2p;
mod partitioned;
mod pivot;
mod range;
mod rig;
mod select;

pub(crate) use het::het;
pub(crate) use local::gpu;
pub(crate) use p2p::p2p;
pub(crate) use partitioned::partitioned;
pub(crate) use range::range;
pub(crate) use rig::{Gpu, Outcome, Rig, scratch_bytes};

/// Buffers that a range sort takes of each device.
pub(crate) const fn range_buffers() -> usize {
    range::BUFFERS
}
