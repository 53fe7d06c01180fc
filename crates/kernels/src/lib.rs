//! The CUDA primitives of `cuda/`, one safe function each, with a form for host threads that gives the same results.
//!
//! ```text
//!   fill_random, read, copy, ... ──► Work ──┬─ cuda: k_<operation> of libpelton_cuda.so, found at run time
//!                                           ├─ host: the same in Rust, bit for bit
//!                                           └─ cost: for a simulator
//! ```
//!
//! A function here describes the work; [`Stream::run`](pelton_device::Stream::run) has it done. Nothing is allocated,
//! waited for or printed. The layout of arguments is written once, in the C headers of `cuda/include/pelton/abi`,
//! and asserted on both sides; [`Library::open`] refuses a library that was built from others.
//!
//! An *accumulator* is a span of device or pinned memory, aligned to 8 bytes, that results are added to, so that many
//! pieces of work can share one; [`fill_word`] with 0 clears it.

//!
//! *Scratch* is memory that is the caller's, and of no use before and after: `..._scratch_bytes` says how much a piece
//! of work needs, without a device.
//!
//! Keys of every type are compared as unsigned words ([`KeyOrder::word`]); floats have a total order, NaN last.

#![deny(unsafe_code)]

mod mix;

#[allow(unsafe_code)]
mod library;
#[allow(unsafe_code)]
mod memory;
#[allow(unsafe_code)]
mod sys;

mod copy;
mod cycle;
mod fill;
mod fingerprint;
mod frame;
mod gather;
mod groups;
mod join;
mod join_args;
mod join_radix;
mod key_frames;
mod merge;
mod merge_many;
mod order;
mod partition;
mod read;
mod scan;
mod segmented_scan;
mod segments;
mod shape;
mod sort;
mod take;

pub use copy::copy;
pub use cycle::{Chase, Cycle, chase, fill_cycle};
pub use fill::{fill_random, fill_word};
pub use fingerprint::{Fingerprint, fingerprint, fingerprint_of};
pub use frame::{
    Edges, Frame, FrameEdge, FrameSource, Pick, Picked, Ranking, Target, frame_averages, frame_rows,
    frame_values, pick, rank,
};
pub use gather::{Gather, gather};
pub use groups::{GROUP_LEVELS_MAX, GroupEdge, group_edges, mark_groups};
pub use join::{
    JOIN_ROWS_MAX, JoinOutput, JoinTable, JoinTableKind, join_build, join_clear, join_hash, join_probe,
};
pub use join_radix::{
    JOIN_BITS_MAX, JOIN_BUILD_ROWS, JOIN_PROBE_ROWS, JOIN_TILE_ROWS, JoinDigits, JoinSegments, join_count,
    join_pairs, join_scatter, join_units,
};
pub use key_frames::{FrameKeys, KeyEdge, KeyFrame, key_frames};
pub use library::{Library, Policy};
pub use merge::{merge_keys, merge_pairs};
pub use merge_many::{MergeMany, merge_many};
pub use mix::random_word;
pub use order::{Direction, KeyOrder, KeyType};
pub use partition::{
    DIGIT_BITS_MAX, SPLITTERS_MAX, count_buckets, count_digits, partition_keys, partition_pairs,
    partition_scratch_bytes,
};
pub use read::{read, sum_of_words};
pub use scan::{exclusive_scan, scan_scratch_bytes};
pub use segmented_scan::{ScanOf, ScanTarget, ScanValues, segmented_scan, segmented_scan_scratch_bytes};
pub use segments::{SortSegments, number_segments, sort_segments};
pub use sort::{RadixSort, sort_keys, sort_pairs};
pub use take::{IndexType, take, take_bits};
