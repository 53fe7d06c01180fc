//! The C interface of joins: mirrors `cuda/include/pelton/abi/join.h`, which says what fields mean.

use std::mem::offset_of;

use crate::sys::Launch;

/// `k_join_table`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Table {
    pub(crate) slots: u64,
    pub(crate) marks: u64,
    pub(crate) chain_values: u64,
    pub(crate) chain_next: u64,
    pub(crate) state: u64,
    pub(crate) slot_count: u64,
    pub(crate) first_key: u64,
    pub(crate) kind: u32,
    pub(crate) width_bytes: u32,
}

/// `k_join_output`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Output {
    pub(crate) result: u64,
    pub(crate) build_values: u64,
    pub(crate) probe_values: u64,
    pub(crate) capacity: u64,
    pub(crate) window_begin: u64,
    pub(crate) mode: u64,
}

/// `k_join_build_args`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct BuildArgs {
    pub(crate) table: Table,
    pub(crate) keys: u64,
    pub(crate) values: u64,
    pub(crate) count: u64,
    pub(crate) first_row: u64,
    pub(crate) launch: Launch,
}

/// `k_join_probe_args`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct ProbeArgs {
    pub(crate) table: Table,
    pub(crate) keys: u64,
    pub(crate) values: u64,
    pub(crate) count: u64,
    pub(crate) output: Output,
    pub(crate) launch: Launch,
}

/// `k_join_units_args`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct UnitsArgs {
    pub(crate) first_offsets: u64,
    pub(crate) second_offsets: u64,
    pub(crate) segment_count: u64,
    pub(crate) first_rows: u64,
    pub(crate) second_rows: u64,
    pub(crate) units: u64,
    pub(crate) launch: Launch,
}

/// `k_join_partition_args`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct PartitionArgs {
    pub(crate) keys: u64,
    pub(crate) values: u64,
    pub(crate) offsets: u64,
    pub(crate) units: u64,
    pub(crate) segment_count: u64,
    pub(crate) counts: u64,
    pub(crate) target: u64,
    pub(crate) target_values: u64,
    pub(crate) begin_bit: u32,
    pub(crate) bits: u32,
    pub(crate) width_bytes: u64,
    pub(crate) launch: Launch,
}

/// `k_join_pairs_args`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct PairsArgs {
    pub(crate) build_keys: u64,
    pub(crate) build_values: u64,
    pub(crate) build_offsets: u64,
    pub(crate) probe_keys: u64,
    pub(crate) probe_values: u64,
    pub(crate) probe_offsets: u64,
    pub(crate) units: u64,
    pub(crate) segment_count: u64,
    pub(crate) output: Output,
    pub(crate) width_bytes: u64,
    pub(crate) launch: Launch,
}

const _: () = assert!(size_of::<Table>() == 64 && offset_of!(Table, kind) == 56);
const _: () = assert!(size_of::<Output>() == 48 && offset_of!(Output, mode) == 40);
const _: () = assert!(size_of::<BuildArgs>() == 104 && offset_of!(BuildArgs, first_row) == 88);
const _: () = assert!(size_of::<ProbeArgs>() == 144 && offset_of!(ProbeArgs, output) == 88);
const _: () = assert!(size_of::<UnitsArgs>() == 56 && offset_of!(UnitsArgs, units) == 40);
const _: () = assert!(size_of::<PartitionArgs>() == 88 && offset_of!(PartitionArgs, begin_bit) == 64);
const _: () = assert!(size_of::<PairsArgs>() == 128 && offset_of!(PairsArgs, output) == 64);
