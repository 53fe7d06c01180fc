//! Groups that are more than fits: they are moved to the host as runs, and merged partition by partition in the end.
//!
//! ```text
//!   rows ──► table of groups ── full, and no memory for a larger one ──► run: the groups so far, on the host
//!               ▲    the table is cleared, the rows that wait go in ◄──────┘
//!               └── rows …
//!
//!   runs ──► partitions by a hash of the key ── one after the other ──► a table on the device ──► its groups
//! ```
//!
//! A partition is as large as one table may be. All groups of a key are in one partition, so what is merged is final.
//!
//! Traffic: each group is copied to the host once a run that has it, back once, and to the host once more. Host memory:
//! all runs, and those of them that are being split once more; on the process's heap.

use std::sync::Arc;

use pelton_device::{MemoryKind, OnFull};
use pelton_error::{Error, Result};
use pelton_pipeline::Rows;
use pelton_pipeline::codegen::{Arg, GroupLayout, SinkLayout};

use super::MemoryTest;
use super::combine::{Combiner, GroupPartition, GroupsPart};
use super::execution::{Execution, Groups, HeldGroups, Kernel, ROOM_LEAST};
use super::finish::{Outcome, flags, gather, gather_on_host};
use super::memory::{State, host_buffer, is_out_of_memory};
use super::parking::Memory;
use super::report::PipelineReport;
use super::results::{append, group_rows};

/// Records: the key of each group (of wide groups the tag), then its state.
pub(super) type Run = Vec<u64>;

/// Partitions that runs are split into at once.
const PARTITIONS_MAX: u64 = 1 << 10;
/// Splits of what does not fit, each by other bits of the hash.
const SPLITS_MAX: u32 = 6;
/// Partitions of a test that there are some.
const PARTITIONS_OF_TEST: u64 = 4;
/// Records that are copied to the device in one go take so much at most.
const COPIED_BYTES: usize = 4 << 20;

/// Groups on the host, in partitions that have no key in common.
pub(crate) struct SpilledGroups {
    pub(super) layout: GroupLayout,
    pub(super) partitions: Vec<Run>,
    /// How many groups there are.
    pub(super) count: u64,
}

/// Partial groups that are to be merged.
struct Partition {
    records: Run,
    splits: u32,
}

impl Execution<'_> {
    /// Nobody else has memory to give. Groups are spilled, which makes room in their table where it `is_full`; or the
    /// table becomes smaller, which makes room beside it. `refusal`, with advice, where neither helps.
    pub(super) fn relieve(
        &self,
        kernel: &mut Kernel,
        refusal: Error,
        is_full: bool,
        report: &mut PipelineReport,
    ) -> Result<()> {
        if kernel.held_rows().is_some() {
            return self.relieve_of_rows(kernel, refusal, is_full, report);
        }
        if kernel.spillable_table().is_some() {
            return self.relieve_of_table(kernel, refusal, is_full, report);
        }
        let Some(layout) = kernel.spillable_groups().cloned() else {
            return Err(refusal.context(advice(kernel)));
        };
        let spilled = self.spill(kernel, report)?;
        if is_full && spilled > 0 {
            return Ok(());
        }
        let slots = kernel.state.word(Arg::GroupSlotMask).unwrap_or(0) + 1;
        if slots <= ROOM_LEAST {
            return Err(refusal.context(advice(kernel)));
        }
        kernel.state.forget(|arg| matches!(arg, Arg::Groups | Arg::GroupKeys));
        loop {
            let mut smaller = State::default();
            let allocated = self.allocate_hashed_groups(&layout, slots / 2, &mut smaller);
            self.stream().wait_blocking()?;
            match allocated {
                // Somebody else was faster.
                Err(refusal) if is_out_of_memory(&refusal) => {
                    if !self.make_others_way(&refusal, report)? {
                        return Err(refusal);
                    }
                }
                allocated => {
                    allocated?;
                    kernel.state.adopt(&smaller, |_| true);
                    return Ok(());
                }
            }
        }
    }

    /// Whether it is a test that what `kernel` has in its sink is spilled after every morsel.
    pub(super) fn spills_after_morsels(&self, kernel: &Kernel) -> bool {
        match self.runtime.options.memory_test {
            MemoryTest::SpillAlways => kernel.may_spill() && kernel.spillable_table().is_none(),
            MemoryTest::SpillTables => kernel.spillable_table().is_some(),
            MemoryTest::Off | MemoryTest::RefuseOnce => false,
        }
    }

    /// Moves all groups so far to the host, or rows to be sorted, or those of a hash table; answers how many there were. No
    /// kernel is under way.
    pub(super) fn spill(&self, kernel: &mut Kernel, report: &mut PipelineReport) -> Result<u64> {
        if kernel.held_rows().is_some() {
            return self.spill_rows(kernel, report);
        }
        if kernel.spillable_table().is_some() {
            return self.spill_table(kernel, report);
        }
        let Some(layout) = kernel.spillable_groups().cloned() else { return Ok(0) };
        let (groups, keys) =
            (kernel.state.span(Arg::Groups)?.clone(), kernel.state.span(Arg::GroupKeys)?.clone());
        let held = HeldGroups { layout, groups, keys: Some(keys), heap: None, count: 0 };
        let run = gather_on_host(self, &held)?;
        let count = (run.len() / (held.layout.width() + 1)) as u64;
        if count == 0 {
            return Ok(0);
        }
        self.clear_groups(&held.layout, &kernel.state)?;
        // Morsels run in other streams.
        self.stream().wait_blocking()?;
        report.spilled_runs += 1;
        report.spilled_groups += count;
        report.moved_down_bytes += run.len() as u64 * 8;
        kernel.runs.push(run);
        Ok(count)
    }

    /// Merges the runs of an aggregation that has ended, which later pipelines read or not.
    pub(super) fn merge_runs(
        &mut self,
        mut kernel: Kernel,
        is_read: bool,
        report: &mut PipelineReport,
    ) -> Result<Outcome> {
        let SinkLayout::Groups(layout) = kernel.generated.sink.clone() else {
            unreachable!("only groups are spilled")
        };
        flags(self.stream(), &kernel)?;
        self.spill(&mut kernel, report)?;
        // The table's memory is free for the merge.
        kernel.state.forget(|arg| matches!(arg, Arg::Groups | Arg::GroupKeys));
        self.merge_all(kernel, &layout, is_read, report)
    }

    /// Merges the runs of `kernel`, whatever they are of: groups of `layout`.
    pub(super) fn merge_all(
        &mut self,
        mut kernel: Kernel,
        layout: &GroupLayout,
        is_read: bool,
        report: &mut PipelineReport,
    ) -> Result<Outcome> {
        let mut pending = self.partitions(layout, std::mem::take(&mut kernel.runs))?;
        pending.reverse();
        let (mut merged, mut rows, mut count) = (Vec::new(), Rows::default(), 0);
        while let Some(Partition { records, splits }) = pending.pop() {
            self.cancel.check()?;
            self.step_aside_if_asked(&mut Memory { kernel: Some(&mut kernel), prepared: None }, report)?;
            let held = match self.merge(layout, &records) {
                Err(refusal) if is_out_of_memory(&refusal) => {
                    let memory = &mut Memory { kernel: Some(&mut kernel), prepared: None };
                    match self.make_way(refusal, memory, report) {
                        Ok(()) => pending.push(Partition { records, splits }),
                        Err(refusal) if is_out_of_memory(&refusal) => {
                            if splits == SPLITS_MAX {
                                return Err(refusal.context(advice(&kernel)));
                            }
                            pending.extend(split(vec![records], layout.width() + 1, 4, splits + 1));
                        }
                        Err(error) => return Err(error),
                    }
                    continue;
                }
                held => held?,
            };
            self.turn.go_on();
            report.spilled_partitions += 1;
            report.moved_up_bytes += records.len() as u64 * 8;
            count += held.count;
            if is_read && merged.is_empty() && pending.is_empty() {
                return Ok(Outcome::Groups(Groups::Held(Box::new(held))));
            }
            let records = gather(self, &held, Some(held.count), u64::MAX)?;
            match is_read {
                true => merged.push(records),
                false => append(&mut rows, group_rows(layout, &records, &[])?)?,
            }
        }
        Ok(match is_read {
            true => {
                let spilled = SpilledGroups { layout: layout.clone(), partitions: merged, count };
                Outcome::Groups(Groups::Spilled(Arc::new(spilled)))
            }
            false => Outcome::Rows(rows),
        })
    }

    /// Splits `runs` so that the table of a partition takes half of what is free.
    fn partitions(&self, layout: &GroupLayout, runs: Vec<Run>) -> Result<Vec<Partition>> {
        let record = layout.width() + 1;
        let bytes: u64 = runs.iter().map(|run| run.len() as u64 * 8).sum();
        let budget = self.runtime.machine.device_budget(self.worker.device)?;
        let free = budget.limit_bytes() - budget.used_bytes();
        // A table has two to four places for each group.
        let count = (bytes * 4).div_ceil((free / 2).max(1)).clamp(1, PARTITIONS_MAX);
        let is_test = self.runtime.options.memory_test == MemoryTest::SpillAlways;
        Ok(split(runs, record, if is_test { count.max(PARTITIONS_OF_TEST) } else { count }, 0))
    }

    /// A table of the groups in `records`.
    fn merge(&self, layout: &GroupLayout, records: &[u64]) -> Result<HeldGroups> {
        let record = layout.width() + 1;
        let combiner = Combiner::new(self, layout, (records.len() / record) as u64, 0)?;
        let at_once = (COPIED_BYTES / 8 / record).max(1) * record;
        let bytes = records.len().min(at_once) * 8;
        let device = MemoryKind::Device(self.worker.device);
        let on_device = self.runtime.machine.allocate(device, bytes, OnFull::Refuse)?;
        let staged = host_buffer(&self.runtime.machine, bytes)?;
        for some in records.chunks(at_once) {
            staged.with_bytes_mut(|bytes| {
                for (target, word) in bytes.chunks_exact_mut(8).zip(some) {
                    target.copy_from_slice(&word.to_le_bytes());
                }
            })?;
            let records = on_device.slice(0..some.len() * 8);
            self.stream().copy(&staged.slice(0..some.len() * 8), &records)?;
            let count = (some.len() / record) as u64;
            combiner.add(&GroupsPart::Records { records: &records, count }, GroupPartition::ALL)?;
            self.stream().wait_blocking()?;
        }
        combiner.finish()
    }
}

/// Splits records by a hash of their keys, another one for each number of `splits`.
fn split(runs: Vec<Run>, record: usize, count: u64, splits: u32) -> Vec<Partition> {
    let mut partitions: Vec<Run> = (0..count).map(|_| Vec::new()).collect();
    for run in runs {
        for record in run.chunks_exact(record) {
            let hash = (record[0] ^ u64::from(splits) << 57).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let hash = (hash ^ hash >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let index = ((u128::from(hash) * u128::from(count)) >> 64) as usize;
            partitions[index].extend_from_slice(record);
        }
    }
    let partition = |records| Partition { records, splits };
    partitions.into_iter().filter(|records| !records.is_empty()).map(partition).collect()
}

/// What a user can do where the only query on a device finds no memory.
pub(super) fn advice(kernel: &Kernel) -> String {
    match &kernel.generated.sink {
        SinkLayout::Build(_) => {
            "the hash table of a join does not fit the device's memory, and is none that is \
             split into partitions that do; raise --device-memory-limit"
                .into()
        }
        SinkLayout::Groups(_) => {
            "the groups of an aggregation do not fit the device's memory beside what the query \
             holds; raise --device-memory-limit"
                .into()
        }
        SinkLayout::Rows(_) => {
            "a scan does not fit the device's memory beside the tables that it probes; raise \
             --device-memory-limit"
                .into()
        }
    }
}
