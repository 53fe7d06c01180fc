//! The C interface of the library, as it is: mirrors `cuda/include/pelton/abi`.
//!
//! Addresses are numbers here, of the one address space that host and devices share, as spans give them.

use std::ffi::{c_char, c_int, c_void};
use std::mem::offset_of;

/// `K_ABI_VERSION`.
pub(crate) const ABI_VERSION: c_int = 4;

/// An entry that enqueues work on a stream.
pub(crate) type Operation<A> = unsafe extern "C" fn(args: *const A, stream: *mut c_void) -> c_int;
/// `k_abi_version`.
pub(crate) type AbiVersion = unsafe extern "C" fn() -> c_int;
/// `k_abi_report`.
pub(crate) type Report = unsafe extern "C" fn(result: *mut AbiReport, result_bytes: u64) -> c_int;
/// `k_build_text`.
pub(crate) type BuildText = unsafe extern "C" fn() -> *const c_char;
/// `k_error_text`.
pub(crate) type ErrorText = unsafe extern "C" fn(code: c_int) -> *const c_char;

/// `k_launch`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Launch {
    pub(crate) multiprocessors: u32,
    pub(crate) policy: u32,
}

/// `k_fill_random_args`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct FillRandomArgs {
    pub(crate) target: u64,
    pub(crate) bytes: u64,
    pub(crate) seed: u64,
    pub(crate) launch: Launch,
}

/// `k_fill_word_args`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct FillWordArgs {
    pub(crate) target: u64,
    pub(crate) bytes: u64,
    pub(crate) word: u64,
    pub(crate) launch: Launch,
}

/// `k_fill_cycle_args`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct FillCycleArgs {
    pub(crate) target: u64,
    pub(crate) stride_bytes: u64,
    pub(crate) slot_count: u64,
    pub(crate) seed: u64,
    pub(crate) launch: Launch,
}

/// `k_fingerprint_args`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct FingerprintArgs {
    pub(crate) source: u64,
    pub(crate) bytes: u64,
    pub(crate) first_word: u64,
    pub(crate) accumulator: u64,
    pub(crate) launch: Launch,
}

/// `k_read_args`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct ReadArgs {
    pub(crate) source: u64,
    pub(crate) bytes: u64,
    pub(crate) accumulator: u64,
    pub(crate) launch: Launch,
}

/// `k_gather_args`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct GatherArgs {
    pub(crate) source: u64,
    pub(crate) mask: u64,
    pub(crate) count: u64,
    pub(crate) seed: u64,
    pub(crate) accumulator: u64,
    pub(crate) width_bytes: u64,
    pub(crate) launch: Launch,
}

/// `k_chase_args`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct ChaseArgs {
    pub(crate) source: u64,
    pub(crate) stride_bytes: u64,
    pub(crate) slot_count: u64,
    pub(crate) first_slot: u64,
    pub(crate) step_count: u64,
    pub(crate) accumulator: u64,
    pub(crate) launch: Launch,
}

/// `k_copy_args`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct CopyArgs {
    pub(crate) source: u64,
    pub(crate) target: u64,
    pub(crate) bytes: u64,
    pub(crate) launch: Launch,
}

/// `k_key_order`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct KeyOrder {
    pub(crate) key_type: u32,
    pub(crate) direction: u32,
}

/// `k_sort_args`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct SortArgs {
    pub(crate) keys: [u64; 2],
    pub(crate) values: [u64; 2],
    pub(crate) count: u64,
    pub(crate) scratch: u64,
    pub(crate) scratch_bytes: u64,
    pub(crate) order: KeyOrder,
    pub(crate) begin_bit: u32,
    pub(crate) end_bit: u32,
    pub(crate) value_bytes: u32,
    pub(crate) result_index: u32,
    pub(crate) launch: Launch,
}

/// `k_merge_args`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct MergeArgs {
    pub(crate) keys: [u64; 2],
    pub(crate) values: [u64; 2],
    pub(crate) counts: [u64; 2],
    pub(crate) target: u64,
    pub(crate) target_values: u64,
    pub(crate) order: KeyOrder,
    pub(crate) value_bytes: u64,
    pub(crate) launch: Launch,
}

/// `k_take_args`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct TakeArgs {
    pub(crate) source: u64,
    pub(crate) source_count: u64,
    pub(crate) indices: u64,
    pub(crate) count: u64,
    pub(crate) target: u64,
    pub(crate) width_bytes: u32,
    pub(crate) index_bytes: u32,
    pub(crate) launch: Launch,
}

/// `k_take_bits_args`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct TakeBitsArgs {
    pub(crate) source: u64,
    pub(crate) source_count: u64,
    pub(crate) indices: u64,
    pub(crate) count: u64,
    pub(crate) target: u64,
    pub(crate) index_bytes: u64,
    pub(crate) launch: Launch,
}

/// `k_count_digits_args`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct CountDigitsArgs {
    pub(crate) keys: u64,
    pub(crate) count: u64,
    pub(crate) counts: u64,
    pub(crate) order: KeyOrder,
    pub(crate) begin_bit: u32,
    pub(crate) end_bit: u32,
    pub(crate) launch: Launch,
}

/// `k_count_buckets_args`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct CountBucketsArgs {
    pub(crate) keys: u64,
    pub(crate) count: u64,
    pub(crate) splitters: u64,
    pub(crate) splitter_count: u64,
    pub(crate) counts: u64,
    pub(crate) order: KeyOrder,
    pub(crate) launch: Launch,
}

/// `k_partition_args`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct PartitionArgs {
    pub(crate) keys: u64,
    pub(crate) values: u64,
    pub(crate) count: u64,
    pub(crate) splitters: u64,
    pub(crate) splitter_count: u64,
    pub(crate) target: u64,
    pub(crate) target_values: u64,
    pub(crate) scratch: u64,
    pub(crate) scratch_bytes: u64,
    pub(crate) order: KeyOrder,
    pub(crate) value_bytes: u64,
    pub(crate) launch: Launch,
}

/// `k_scan_args`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct ScanArgs {
    pub(crate) source: u64,
    pub(crate) target: u64,
    pub(crate) count: u64,
    pub(crate) scratch: u64,
    pub(crate) scratch_bytes: u64,
    pub(crate) width_bytes: u64,
    pub(crate) launch: Launch,
}

/// `k_number_segments_args`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct NumberSegmentsArgs {
    pub(crate) offsets: u64,
    pub(crate) segment_count: u64,
    pub(crate) count: u64,
    pub(crate) target: u64,
    pub(crate) launch: Launch,
}

/// `k_mark_groups_args`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct MarkGroupsArgs {
    pub(crate) words: u64,
    pub(crate) flags: u64,
    pub(crate) count: u64,
    pub(crate) masks: [u64; GROUP_LEVELS],
    pub(crate) is_first: u64,
    pub(crate) launch: Launch,
}

/// `K_GROUP_LEVELS`.
pub(crate) const GROUP_LEVELS: usize = 8;

/// `k_group_edges_args`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct GroupEdgesArgs {
    pub(crate) flags: u64,
    pub(crate) target: u64,
    pub(crate) count: u64,
    pub(crate) scratch: u64,
    pub(crate) scratch_bytes: u64,
    pub(crate) flag: u32,
    pub(crate) is_last: u32,
    pub(crate) launch: Launch,
}

/// `k_segmented_scan_args`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct SegmentedScanArgs {
    pub(crate) source: u64,
    pub(crate) valid: u64,
    pub(crate) indices: u64,
    pub(crate) flags: u64,
    pub(crate) target: u64,
    pub(crate) target_counts: u64,
    pub(crate) count: u64,
    pub(crate) scratch: u64,
    pub(crate) scratch_bytes: u64,
    pub(crate) source_type: u32,
    pub(crate) target_type: u32,
    pub(crate) operation: u32,
    pub(crate) flag: u32,
    pub(crate) counted_flag: u32,
    pub(crate) reserved: u32,
    pub(crate) launch: Launch,
}

/// `k_edges`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Edges {
    pub(crate) partition_first: u64,
    pub(crate) partition_last: u64,
    pub(crate) peers_first: u64,
    pub(crate) peers_last: u64,
}

/// `k_rank_args`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct RankArgs {
    pub(crate) edges: Edges,
    pub(crate) target: u64,
    pub(crate) count: u64,
    pub(crate) tiles: u64,
    pub(crate) ranking: u32,
    pub(crate) reserved: u32,
    pub(crate) launch: Launch,
}

/// `k_frame`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Frame {
    pub(crate) start_rows: i64,
    pub(crate) end_rows: i64,
    pub(crate) start: u32,
    pub(crate) end: u32,
}

/// `k_pick_args`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct PickArgs {
    pub(crate) source: u64,
    pub(crate) valid: u64,
    pub(crate) indices: u64,
    pub(crate) edges: Edges,
    pub(crate) frame: Frame,
    pub(crate) target: u64,
    pub(crate) target_valid: u64,
    pub(crate) count: u64,
    pub(crate) fallback: [u64; 2],
    pub(crate) number: i64,
    pub(crate) pick: u32,
    pub(crate) width_bytes: u32,
    pub(crate) has_fallback: u64,
    pub(crate) launch: Launch,
}

/// `k_frame_args`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct FrameArgs {
    pub(crate) source: u64,
    pub(crate) counts: u64,
    pub(crate) edges: Edges,
    pub(crate) frame: Frame,
    pub(crate) target: u64,
    pub(crate) target_valid: u64,
    pub(crate) count: u64,
    pub(crate) unit: f64,
    pub(crate) source_type: u32,
    pub(crate) operation: u32,
    pub(crate) launch: Launch,
}

/// `k_key_frames_args`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct KeyFramesArgs {
    pub(crate) source: u64,
    pub(crate) valid: u64,
    pub(crate) indices: u64,
    pub(crate) edges: Edges,
    pub(crate) frame: Frame,
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) count: u64,
    pub(crate) source_type: u32,
    pub(crate) order: u32,
    pub(crate) launch: Launch,
}

/// `k_abi_report_result`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct AbiReport {
    pub(crate) launch_bytes: u64,
    pub(crate) fill_random_bytes: u64,
    pub(crate) fill_word_bytes: u64,
    pub(crate) fill_cycle_bytes: u64,
    pub(crate) fingerprint_bytes: u64,
    pub(crate) read_bytes: u64,
    pub(crate) gather_bytes: u64,
    pub(crate) chase_bytes: u64,
    pub(crate) copy_bytes: u64,
    pub(crate) sort_bytes: u64,
    pub(crate) merge_bytes: u64,
    pub(crate) take_bytes: u64,
    pub(crate) take_bits_bytes: u64,
    pub(crate) count_digits_bytes: u64,
    pub(crate) count_buckets_bytes: u64,
    pub(crate) partition_bytes: u64,
    pub(crate) scan_bytes: u64,
    pub(crate) number_segments_bytes: u64,
    pub(crate) mark_groups_bytes: u64,
    pub(crate) group_edges_bytes: u64,
    pub(crate) segmented_scan_bytes: u64,
    pub(crate) rank_bytes: u64,
    pub(crate) pick_bytes: u64,
    pub(crate) frame_values_bytes: u64,
    pub(crate) key_frames_bytes: u64,
    pub(crate) policy_count: u64,
    pub(crate) golden_gamma: u64,
    pub(crate) mixed_one: u64,
    pub(crate) random_word: u64,
    pub(crate) permuted: u64,
    pub(crate) whole_term: u64,
    pub(crate) short_term: u64,
    pub(crate) single_word: u64,
    pub(crate) double_word: u64,
    pub(crate) join_build_bytes: u64,
    pub(crate) join_probe_bytes: u64,
    pub(crate) join_units_bytes: u64,
    pub(crate) join_partition_bytes: u64,
    pub(crate) join_pairs_bytes: u64,
}

const _: () = assert!(size_of::<Launch>() == 8);
const _: () = assert!(size_of::<FillRandomArgs>() == 32 && offset_of!(FillRandomArgs, launch) == 24);
const _: () = assert!(size_of::<FillWordArgs>() == 32 && offset_of!(FillWordArgs, launch) == 24);
const _: () = assert!(size_of::<FillCycleArgs>() == 40 && offset_of!(FillCycleArgs, seed) == 24);
const _: () = assert!(size_of::<FingerprintArgs>() == 40 && offset_of!(FingerprintArgs, accumulator) == 24);
const _: () = assert!(size_of::<ReadArgs>() == 32 && offset_of!(ReadArgs, accumulator) == 16);
const _: () = assert!(size_of::<GatherArgs>() == 56 && offset_of!(GatherArgs, width_bytes) == 40);
const _: () = assert!(size_of::<ChaseArgs>() == 56 && offset_of!(ChaseArgs, accumulator) == 40);
const _: () = assert!(size_of::<CopyArgs>() == 32 && offset_of!(CopyArgs, launch) == 24);
const _: () = assert!(size_of::<KeyOrder>() == 8);
const _: () = assert!(size_of::<SortArgs>() == 88 && offset_of!(SortArgs, order) == 56);
const _: () = assert!(offset_of!(SortArgs, launch) == 80);
const _: () = assert!(size_of::<MergeArgs>() == 88 && offset_of!(MergeArgs, order) == 64);
const _: () = assert!(size_of::<TakeArgs>() == 56 && offset_of!(TakeArgs, width_bytes) == 40);
const _: () = assert!(size_of::<TakeBitsArgs>() == 56 && offset_of!(TakeBitsArgs, index_bytes) == 40);
const _: () = assert!(size_of::<CountDigitsArgs>() == 48 && offset_of!(CountDigitsArgs, order) == 24);
const _: () = assert!(size_of::<CountBucketsArgs>() == 56 && offset_of!(CountBucketsArgs, order) == 40);
const _: () = assert!(size_of::<PartitionArgs>() == 96 && offset_of!(PartitionArgs, order) == 72);
const _: () = assert!(size_of::<ScanArgs>() == 56 && offset_of!(ScanArgs, width_bytes) == 40);
const _: () = assert!(size_of::<NumberSegmentsArgs>() == 40 && offset_of!(NumberSegmentsArgs, target) == 24);
const _: () = assert!(size_of::<AbiReport>() == 312 && offset_of!(AbiReport, golden_gamma) == 208);
const _: () = assert!(size_of::<MarkGroupsArgs>() == 104 && offset_of!(MarkGroupsArgs, is_first) == 88);
const _: () = assert!(size_of::<GroupEdgesArgs>() == 56 && offset_of!(GroupEdgesArgs, flag) == 40);
const _: () =
    assert!(size_of::<SegmentedScanArgs>() == 104 && offset_of!(SegmentedScanArgs, source_type) == 72);
const _: () = assert!(size_of::<Edges>() == 32 && size_of::<Frame>() == 24);
const _: () = assert!(size_of::<RankArgs>() == 72 && offset_of!(RankArgs, ranking) == 56);
const _: () = assert!(size_of::<PickArgs>() == 152 && offset_of!(PickArgs, number) == 120);
const _: () = assert!(size_of::<FrameArgs>() == 120 && offset_of!(FrameArgs, source_type) == 104);
const _: () = assert!(size_of::<KeyFramesArgs>() == 120 && offset_of!(KeyFramesArgs, launch) == 112);
