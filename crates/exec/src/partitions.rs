//! Pipelines that probe hash tables of which only partitions fit (`spilled_tables.rs`): rows wait where they would be
//! looked up, and go on partition by partition.
//!
//! ```text
//!   scan ─► probe 0 ─► [ probe 1 ─► probe 2 ─► ] probe 3 ─► groups        tables 1 and 3 are spilled
//!
//!   scan ─► probe 0 ─► rows ──► split by the hash of key 1, on the host
//!     for each partition:  table 1 ◄── rows of the build side
//!                          some rows ─► probe 1 ─► probe 2 ─► rows ──► split by the hash of key 3
//!     for each partition:  table 3 ◄── …
//!                          some rows ─► probe 3 ─► groups                 one sink for all partitions
//! ```
//!
//! A row of the probe side meets all rows of the build side that have its key in one partition, so every kind of join is
//! done there, and rows without a match are found out there too. A partition whose table does not fit is split by another
//! hash. Where that does not help, since one key has too many rows: inner and outer joins take some rows of the build side
//! after the others, and where only keys are asked for, each is kept once. What is left, further conditions of other than
//! inner joins, is an error of kind `OutOfMemory`.
//!
//! Traffic: rows that wait are copied to the host and back once. Host memory: those of one probe, twice while they are
//! split, and those of the next one.

use std::sync::Arc;

use pelton_error::{Error, Result};
use pelton_pipeline::codegen::RowsLayout;
use pelton_pipeline::ir::{Op, Pipeline, Plan, ProbeKind, Sink};
use pelton_pipeline::{Cut, Rows};

use super::execution::{Execution, Kernel};
use super::finish::{Outcome, no_rows};
use super::host_input::copy_rows;
use super::keyed_rows::{
    ROWS_LEAST, SPLITS_MAX, are_together, bytes, common_key, first_of_each_key, parts_of, row_bytes, some_of,
    split, split_by, with_key,
};
use super::memory::is_out_of_memory;
use super::parking::Memory;
use super::prepare::Prepared;
use super::report::PipelineReport;
use super::results::{append, with_texts};
use super::spilled_tables::PartitionBuild;

/// Rows of the probe side that are copied to the device in one go take this part of its memory at most.
const PIECE_SHARE: u64 = 16;
/// And no more than so many: a row group of a host input.
const PIECE_ROWS_MAX: usize = 1 << 20;
/// Parts that a partition is split into that does not fit.
const PARTS: usize = 4;

/// Rows of the probe side that wait for the partitions of a table.
pub(super) struct Waiting {
    pairs: Vec<Pair>,
    build: PartitionBuild,
    probe: Probe,
}

/// Rows of both sides with the same hashes.
#[derive(Clone)]
struct Pair {
    build: Arc<Rows>,
    probe: Arc<Rows>,
    splits: u32,
}

/// How a spilled table is probed.
struct Probe {
    kind: ProbeKind,
    has_residual: bool,
    /// Columns of the probe side.
    keys: Vec<usize>,
    /// The first so many columns of the build side.
    key_count: usize,
    /// No key of the table may repeat.
    is_unique: bool,
}

impl Probe {
    /// Whether rows of the probe side that meet no row of the build side are of no use.
    fn needs_match(&self) -> bool {
        matches!(self.kind, ProbeKind::Inner | ProbeKind::Semi)
    }

    /// Smaller pairs in place of `pair`, whose table does not fit; `None` where there are none.
    fn smaller(&self, pair: &Pair) -> Option<Vec<Pair>> {
        let Pair { build, probe, splits } = pair;
        let of_build: Vec<usize> = (0..self.key_count).collect();
        for splits in splits + 1..=SPLITS_MAX {
            let parts = parts_of(build, &of_build, PARTS, splits);
            if are_together(&parts) {
                continue;
            }
            let parts = split_by(Rows::clone(build), &parts, PARTS);
            let probes = split(Rows::clone(probe), &self.keys, PARTS, splits);
            let pair = |(build, probe)| Pair { build: Arc::new(build), probe: Arc::new(probe), splits };
            return Some(parts.into_iter().zip(probes).map(pair).collect());
        }
        let count = build.row_count;
        if self.is_unique || count < 2 {
            return None;
        }
        let pair = |build, probe: &Arc<Rows>| Pair {
            build: Arc::new(build),
            probe: Arc::clone(probe),
            splits: SPLITS_MAX,
        };
        let halves = |probe| [0..count / 2, count / 2..count].map(|rows| pair(some_of(build, rows), probe));
        match self.kind {
            ProbeKind::Inner => Some(halves(probe).into()),
            // A row with the key has matches in both halves, all others have none.
            ProbeKind::Outer if !self.has_residual => {
                let (same, others) = with_key(probe, &self.keys, &common_key(build, &of_build)?);
                let without_match = pair(some_of(build, 0..0), &Arc::new(others));
                Some(halves(&Arc::new(same)).into_iter().chain([without_match]).collect())
            }
            ProbeKind::Outer => None,
            ProbeKind::Semi | ProbeKind::Anti | ProbeKind::Mark => {
                let first = first_of_each_key(build, &of_build);
                (!self.has_residual && first.row_count < count).then(|| vec![pair(first, probe)])
            }
        }
    }
}

impl Execution<'_> {
    /// The first operator after `first` of `pipeline` that probes a spilled table.
    pub(super) fn spilled_probe(&self, pipeline: &Pipeline, first: usize) -> Option<usize> {
        let is_spilled = |op: &Op| matches!(op, Op::Probe { table, .. } if self.spilled.contains_key(table));
        (first..pipeline.ops.len()).find(|index| is_spilled(&pipeline.ops[*index]))
    }

    /// Runs pipeline `index`, in which rows wait before operator `at` and perhaps later ones.
    pub(super) fn run_in_partitions(
        &mut self,
        (index, pipeline): (usize, &Pipeline),
        mut prepared: Prepared,
        mut at: usize,
        report: &mut PipelineReport,
    ) -> Result<Outcome> {
        let payload_columns = payload_columns(self.plan);
        let mut pipeline = pipeline.clone();
        let mut rows_in = None;
        loop {
            let Cut { before, mut after, keys } = pipeline.cut_before(at, &payload_columns);
            let rows = self.rows_that_wait((index, &before), &mut prepared, report)?;
            self.check_host_bytes([&rows])?;
            rows_in.get_or_insert(report.rows_in);
            let layout = prepared.rows_layout.take().expect("rows have come out");
            describe(&mut after, &layout);
            report.rows_waited_for_tables += rows.row_count as u64;
            report.bytes_waited_for_tables += bytes(&rows);
            report.moved_down_bytes += bytes(&rows);
            prepared = self.prepare_partitions((index, &after), rows, keys, report)?;
            pipeline = after;
            match self.spilled_probe(&pipeline, 1) {
                Some(next) => at = next,
                None => {
                    let outcome = self.attempts((index, &pipeline), &mut prepared, report);
                    self.let_partitions_go(&prepared);
                    report.rows_in = rows_in.unwrap_or(0);
                    return outcome;
                }
            }
        }
    }

    /// The rows of a part of a pipeline, which nobody but its rest gets.
    fn rows_that_wait(
        &mut self,
        (index, before): (usize, &Pipeline),
        prepared: &mut Prepared,
        report: &mut PipelineReport,
    ) -> Result<Rows> {
        prepared.is_part = true;
        let taker = self.rows_taker.take();
        let outcome = self.attempts((index, before), prepared, report);
        self.rows_taker = taker;
        self.let_partitions_go(prepared);
        let Outcome::Rows(rows) = outcome? else { unreachable!("it ends in rows") };
        match &prepared.rows_layout {
            Some(layout) if rows.columns.is_empty() => {
                with_texts(no_rows(&layout.columns), &layout.columns, &[])
            }
            _ => Ok(rows),
        }
    }

    /// Splits `rows`, which are looked up by `keys` in the table that `after` begins with, as that is split.
    fn prepare_partitions(
        &mut self,
        (index, after): (usize, &Pipeline),
        rows: Rows,
        keys: Vec<usize>,
        report: &mut PipelineReport,
    ) -> Result<Prepared> {
        let Some(Op::Probe { table, kind, residual, .. }) = after.ops.first() else {
            unreachable!("it begins with a probe")
        };
        let spilled = Arc::clone(&self.spilled[table]);
        let (build, built) = self.partition_build(index, &spilled, report)?;
        let probe = Probe {
            kind: *kind,
            has_residual: residual.is_some(),
            key_count: spilled.key_count,
            is_unique: built.is_unique,
            keys,
        };
        self.built[*table] = Some(built);
        let mut prepared = Prepared::of_rows(&rows, rows.row_count as u64);
        prepared.is_part = true;
        let probes = split(rows, &probe.keys, spilled.partitions.len(), 0);
        let pairs = spilled.partitions.iter().zip(probes);
        let pair = |(build, probe): (&Arc<Rows>, Rows)| Pair {
            build: Arc::clone(build),
            probe: Arc::new(probe),
            splits: 0,
        };
        prepared.waiting = Some(Waiting { pairs: pairs.map(pair).collect(), build, probe });
        Ok(prepared)
    }

    /// The table that `prepared` waits for is spilled again, as far as anybody else is concerned.
    fn let_partitions_go(&mut self, prepared: &Prepared) {
        if let Some(waiting) = &prepared.waiting {
            self.built[waiting.build.table] = None;
        }
    }

    /// Sends the rows that wait through `kernel`, partition by partition. They can be sent again.
    pub(super) fn run_waiting(
        &mut self,
        kernel: &mut Kernel,
        prepared: &mut Prepared,
        report: &mut PipelineReport,
    ) -> Result<Option<Rows>> {
        let waiting = prepared.waiting.take().expect("rows wait");
        let outcome = self.run_pairs(kernel, &waiting, prepared, report);
        prepared.host_input = None;
        self.let_table_go(kernel, waiting.build.table);
        prepared.waiting = Some(waiting);
        outcome
    }

    fn run_pairs(
        &mut self,
        kernel: &mut Kernel,
        waiting: &Waiting,
        prepared: &mut Prepared,
        report: &mut PipelineReport,
    ) -> Result<Option<Rows>> {
        let mut rows = None;
        let mut pending: Vec<Pair> = waiting.pairs.iter().rev().cloned().collect();
        while let Some(pair) = pending.pop() {
            self.cancel.check()?;
            let is_idle =
                pair.probe.row_count == 0 || (waiting.probe.needs_match() && pair.build.row_count == 0);
            if is_idle {
                continue;
            }
            match self.bring_table_up(kernel, &waiting.build, &pair.build, report) {
                Err(refusal) if is_out_of_memory(&refusal) => {
                    let instead = self.make_table_fit(kernel, waiting, pair, refusal, report)?;
                    pending.extend(instead.into_iter().rev());
                    continue;
                }
                built => built?,
            }
            report.partitions_joined += 1;
            let mut first = 0;
            while first < pair.probe.row_count {
                let count = self.bring_rows_up(kernel, prepared, (&pair.probe, first), report)?;
                let more = self.run_host_input(kernel, prepared, report)?;
                prepared.host_input = None;
                report.moved_up_bytes += (count * row_bytes(&pair.probe)) as u64;
                first += count;
                match (&mut rows, more) {
                    (Some(rows), Some(more)) => append(rows, more)?,
                    (rows, more) => *rows = more.or(rows.take()),
                }
                self.check_host_bytes(waiting.pairs.iter().map(|pair| &*pair.probe).chain(&rows))?;
            }
            self.let_table_go(kernel, waiting.build.table);
        }
        Ok(rows)
    }

    /// The table of `pair` was refused memory: gives smaller pairs in its place, or the same one where what the sink of
    /// `kernel` holds was in the way of a table of the size that was planned for, and is so no longer.
    fn make_table_fit(
        &self,
        kernel: &mut Kernel,
        waiting: &Waiting,
        pair: Pair,
        refusal: Error,
        report: &mut PipelineReport,
    ) -> Result<Vec<Pair>> {
        let is_large = waiting.build.table_bytes(pair.build.row_count) > self.partition_bytes()?;
        let mut smaller = if is_large { waiting.probe.smaller(&pair) } else { None };
        if smaller.is_none() {
            match self.relieve(kernel, refusal, false, report) {
                Err(refusal) if is_out_of_memory(&refusal) => {
                    smaller = if is_large { None } else { waiting.probe.smaller(&pair) };
                    if smaller.is_none() {
                        return Err(too_many(refusal, &pair));
                    }
                }
                relieved => relieved?,
            }
        }
        report.partitions_split += usize::from(smaller.is_some());
        Ok(smaller.unwrap_or_else(|| vec![pair]))
    }

    /// Makes a table of `rows` of the build side for `kernel`, whose own memory may be moved meanwhile.
    fn bring_table_up(
        &mut self,
        kernel: &mut Kernel,
        build: &PartitionBuild,
        rows: &Rows,
        report: &mut PipelineReport,
    ) -> Result<()> {
        self.resting.push(std::mem::take(&mut kernel.state));
        let state = self.build_partition(build, rows, report);
        kernel.state = self.resting.pop().expect("it rests there");
        let state = state?;
        self.tables.adopt(&state, |arg| arg.is_of_table(build.table));
        kernel.state.adopt(&state, |arg| arg.is_of_table(build.table));
        Ok(())
    }

    fn let_table_go(&mut self, kernel: &mut Kernel, table: usize) {
        self.tables.forget(|arg| arg.is_of_table(table));
        kernel.state.forget(|arg| arg.is_of_table(table));
    }

    /// Copies rows of the probe side from number `first` on to the device, as many as there is room for; how many.
    fn bring_rows_up(
        &mut self,
        kernel: &mut Kernel,
        prepared: &mut Prepared,
        (rows, first): (&Rows, usize),
        report: &mut PipelineReport,
    ) -> Result<usize> {
        let room = (self.device_memory_limit()? / PIECE_SHARE) as usize / row_bytes(rows);
        let mut count = room.clamp(ROWS_LEAST, PIECE_ROWS_MAX).min(rows.row_count - first);
        loop {
            let device = self.worker.device;
            match copy_rows(rows, first..first + count, device, self.stream(), self.trace.is_some()) {
                Err(refusal) if is_out_of_memory(&refusal) => {
                    let mut memory = Memory { kernel: Some(kernel), prepared: Some(prepared) };
                    match self.make_way(refusal, &mut memory, report) {
                        Err(refusal) if is_out_of_memory(&refusal) && count > ROWS_LEAST => count /= 2,
                        Err(refusal) if is_out_of_memory(&refusal) => {
                            self.relieve(kernel, refusal, false, report)?;
                        }
                        way => way?,
                    }
                }
                copied => {
                    prepared.host_input = Some(copied?);
                    return Ok(count);
                }
            }
        }
    }
}

fn too_many(refusal: Error, pair: &Pair) -> Error {
    refusal.context(format!(
        "the hash table of a join does not fit the device's memory, even of a part: {} rows have one key, or few; raise \
         --device-memory-limit",
        pair.build.row_count
    ))
}

/// How many columns each table of `plan` brings.
fn payload_columns(plan: &Plan) -> Vec<usize> {
    let mut columns = vec![0; plan.table_count];
    for pipeline in &plan.pipelines {
        if let Sink::Build { table, payload, .. } = &pipeline.sink {
            columns[*table] = payload.len();
        }
    }
    columns
}

/// Says of the columns of `after`, which reads the rows of `layout`, what is known of those.
fn describe(after: &mut Pipeline, layout: &RowsLayout) {
    for (column, known) in after.columns.iter_mut().zip(&layout.columns) {
        (column.ty, column.is_nullable, column.bounds) = (known.ty, known.is_nullable, known.bounds);
    }
}

#[cfg(test)]
mod tests {
    use pelton_pipeline::{RowColumn, RowValues};

    use super::*;

    /// Rows of a key and their number.
    fn rows(keys: Vec<i64>) -> Arc<Rows> {
        let column = |values| RowColumn { values: RowValues::I64(values), valid: None };
        let numbers = (0..keys.len() as i64).collect();
        Arc::new(Rows { row_count: keys.len(), columns: vec![column(keys), column(numbers)] })
    }

    fn probe(kind: ProbeKind) -> Probe {
        Probe { kind, has_residual: false, keys: vec![0], key_count: 1, is_unique: false }
    }

    fn pair(build: Vec<i64>, probe: Vec<i64>) -> Pair {
        Pair { build: rows(build), probe: rows(probe), splits: 0 }
    }

    fn pairs_of(rows: &Rows) -> Vec<(i64, i64)> {
        let column = |index: usize| match &rows.columns[index].values {
            RowValues::I64(values) => values.clone(),
            _ => unreachable!("numbers"),
        };
        column(0).into_iter().zip(column(1)).collect()
    }

    /// The numbers of the rows that match, sorted, and how many rows of the probe side match none: all pairs together.
    fn joined(pairs: &[Pair]) -> (Vec<(i64, i64)>, usize) {
        let (mut matches, mut alone) = (Vec::new(), 0);
        for Pair { build, probe, .. } in pairs {
            let build = pairs_of(build);
            for (key, number) in pairs_of(probe) {
                let of_row =
                    build.iter().filter(|(other, _)| *other == key).map(|(_, other)| (number, *other));
                let before = matches.len();
                matches.extend(of_row);
                alone += usize::from(matches.len() == before);
            }
        }
        matches.sort_unstable();
        (matches, alone)
    }

    /// Makes pairs smaller until no build side has more than `rows_max` rows.
    fn until_small(probe: &Probe, pair: &Pair, rows_max: usize) -> Vec<Pair> {
        let (mut pending, mut small) = (vec![pair.clone()], Vec::new());
        while let Some(pair) = pending.pop() {
            match pair.build.row_count <= rows_max {
                true => small.push(pair),
                false => pending.extend(probe.smaller(&pair).expect("it becomes smaller")),
            }
        }
        small
    }

    #[test]
    fn a_partition_of_many_keys_is_split_until_it_is_small() {
        let whole = pair((0..3000).map(|row| row % 1500).collect(), (-500..2000).collect());
        for kind in [ProbeKind::Inner, ProbeKind::Outer, ProbeKind::Semi, ProbeKind::Anti, ProbeKind::Mark] {
            let small = until_small(&probe(kind), &whole, 100);
            assert!(small.len() > 30, "{}", small.len());
            assert_eq!(joined(&small), joined(std::slice::from_ref(&whole)), "{kind:?}");
        }
    }

    #[test]
    fn one_key_of_many_rows_is_taken_in_pieces_or_kept_once() {
        let build: Vec<i64> = (0..2000).map(|row| if row % 3 > 0 { 7 } else { row }).collect();
        let whole = pair(build, vec![7, 3, 7, -1, 6, 8]);
        let expected = joined(std::slice::from_ref(&whole));
        let small = until_small(&probe(ProbeKind::Inner), &whole, 10);
        assert_eq!(joined(&small).0, expected.0);
        let small = until_small(&probe(ProbeKind::Outer), &whole, 10);
        // Pieces without rows to look up bring nothing.
        assert_eq!(joined(&small), expected);
        for kind in [ProbeKind::Semi, ProbeKind::Anti, ProbeKind::Mark] {
            let small = until_small(&probe(kind), &whole, 10);
            let matched = |pairs: &[Pair]| {
                let mut numbers: Vec<i64> = joined(pairs).0.into_iter().map(|(number, _)| number).collect();
                numbers.dedup();
                numbers
            };
            assert_eq!((matched(&small), joined(&small).1), (vec![0, 1, 2, 4], expected.1), "{kind:?}");
        }
    }

    #[test]
    fn what_cannot_be_taken_in_pieces_is_refused() {
        let whole = pair(vec![7; 100], vec![7, 3]);
        for kind in [ProbeKind::Outer, ProbeKind::Semi, ProbeKind::Anti, ProbeKind::Mark] {
            let probe = Probe { has_residual: true, ..probe(kind) };
            assert!(probe.smaller(&whole).is_none(), "{kind:?}");
        }
        for kind in [ProbeKind::Inner, ProbeKind::Semi] {
            let probe = Probe { is_unique: true, ..probe(kind) };
            assert!(probe.smaller(&whole).is_none(), "{kind:?}");
        }
        assert!(probe(ProbeKind::Inner).smaller(&pair(vec![7], vec![7])).is_none());
    }
}
