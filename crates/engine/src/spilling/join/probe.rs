//! A partition of a join over a table: batches of the probe side in, rows of the join out.
//!
//! ```text
//!   batch of the probe side ─▶ first rows of its keys ─▶ pairs, some thousand at a time ─▶ condition ─▶ rows by type:
//!
//!     Inner, Left        pairs                            LeftSemi, LeftAnti, LeftMark   none: rows of the table are marked
//!     Right, Full        pairs, and rows without any      RightSemi, RightAnti, RightMark   rows with, without any, all
//!
//!   end of all partitions ─▶ Left, Full: rows of the table without a mark, by the partition that ends last
//!                            LeftSemi, LeftAnti, LeftMark: rows of the table, a share by each partition
//! ```
//!
//! Rows come out in the order of the probe side where they are rows of it.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array,
};
use datafusion::arrow::compute::{filter, take};
use datafusion::arrow::datatypes::{FieldRef, SchemaRef, UInt32Type};
use datafusion::common::{JoinSide, JoinType};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce::{LimitedBatchCoalescer, PushBatchStatus};
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter, build_join_schema};
use datafusion::physical_plan::metrics::{BaselineMetrics, RecordOutput, Time};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;
use tokio::sync::watch;

use super::table::{Table, evaluated};

/// A table that partitions probe, and what they share.
pub(super) struct Probed {
    table: Table,
    join_type: JoinType,
    /// The keys, over the probe side.
    keys: Vec<Arc<dyn PhysicalExpr>>,
    condition: Option<JoinFilter>,
    /// Where each column of the result comes from.
    columns: Vec<ColumnIndex>,
    schema: SchemaRef,
    fetch: Option<usize>,
    /// A bit for each row of the table, set once it has matched; none where nobody asks.
    marks: Box<[AtomicU64]>,
    partitions: usize,
    ends: watch::Sender<Ends>,
}

/// How many partitions have come to the end of the probe side.
#[derive(Debug, Clone, Copy, Default)]
struct Ends {
    ended: usize,
    /// One went away before: what has matched is not known.
    is_broken: bool,
}

/// The columns of the result, and for each column of the build side whether the result or the condition has it.
pub(super) fn columns_of(join: &HashJoinExec) -> (Vec<ColumnIndex>, Vec<bool>) {
    let (left, right) = (join.left().schema(), join.right().schema());
    let (_, all) = build_join_schema(&left, &right, join.join_type());
    let columns = match join.projection.as_ref() {
        Some(projection) => projection.iter().map(|&column| all[column].clone()).collect(),
        None => all,
    };
    let mut wanted = vec![false; left.fields().len()];
    let of_condition = join.filter().map_or(&[][..], JoinFilter::column_indices);
    for column in columns.iter().chain(of_condition).filter(|column| column.side == JoinSide::Left) {
        wanted[column.index] = true;
    }
    (columns, wanted)
}

impl Probed {
    /// `table` in the place of the build side of `join`, for so many partitions.
    pub(super) fn new(table: Table, join: &HashJoinExec, partitions: usize) -> Self {
        let join_type = *join.join_type();
        let marks = if is_marking(join_type) { table.row_count().div_ceil(64) } else { 0 };
        Self {
            join_type,
            keys: join.on().iter().map(|(_, right)| Arc::clone(right)).collect(),
            condition: join.filter().cloned(),
            columns: columns_of(join).0,
            schema: join.schema(),
            fetch: join.fetch(),
            marks: bytemuck::zeroed_slice_box(marks),
            partitions,
            ends: watch::Sender::new(Ends::default()),
            table,
        }
    }

    /// No row comes out of it, whatever the probe side has.
    pub(super) fn is_empty(&self) -> bool {
        self.table.row_count() == 0 && self.join_type.empty_build_side_produces_empty_result()
    }

    /// What its rows are like.
    pub(super) fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// The rows for the rows of `input`, the probe side in partition `partition`.
    pub(super) fn rows(
        self: &Arc<Self>,
        input: SendableRecordBatchStream,
        partition: usize,
        batch_rows: usize,
        metrics: (BaselineMetrics, Time),
    ) -> SendableRecordBatchStream {
        let (baseline, join_time) = metrics;
        let probe = Probe {
            output: LimitedBatchCoalescer::new(Arc::clone(&self.schema), batch_rows, self.fetch),
            probed: Arc::clone(self),
            input,
            partition,
            batch_rows,
            current: None,
            is_at_end: false,
            is_done: false,
            baseline,
            join_time,
        };
        let rows = futures::stream::try_unfold(probe, |mut probe| async move {
            let next = probe.next().await?;
            Ok(next.map(|batch| (batch, probe)))
        });
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), rows))
    }

    fn mark(&self, row: u32) {
        let (mark, bit) = (&self.marks[row as usize / 64], 1 << (row % 64));
        if mark.load(Ordering::Relaxed) & bit == 0 {
            mark.fetch_or(bit, Ordering::Relaxed);
        }
    }

    fn is_marked(&self, row: usize) -> bool {
        self.marks[row / 64].load(Ordering::Relaxed) >> (row % 64) & 1 != 0
    }
}

/// Whether it is asked which rows of the build side match.
fn is_marking(join_type: JoinType) -> bool {
    use JoinType::{Full, Left, LeftAnti, LeftMark, LeftSemi};
    matches!(join_type, Left | Full | LeftSemi | LeftAnti | LeftMark)
}

/// One partition.
struct Probe {
    probed: Arc<Probed>,
    input: SendableRecordBatchStream,
    partition: usize,
    batch_rows: usize,
    current: Option<Current>,
    output: LimitedBatchCoalescer,
    /// The input has ended.
    is_at_end: bool,
    /// All rows are in the output.
    is_done: bool,
    baseline: BaselineMetrics,
    join_time: Time,
}

/// A batch of the probe side, and the row to go on with.
struct Current {
    batch: RecordBatch,
    /// One more than the first row of the table for each row, 0 for none.
    first: Vec<u32>,
    row: usize,
    /// One more than the next row of the table for `row`, once it has been begun.
    chain: Option<u32>,
    /// The rows before this one are in the output as far as their type of join has them there.
    settled: usize,
}

/// Rows of the probe side with rows of the table.
#[derive(Debug, Default)]
struct Pairs {
    probe: Vec<u32>,
    build: Vec<u32>,
}

impl Probe {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.output.next_completed_batch() {
                return Ok(Some(batch.record_output(&self.baseline)));
            }
            if self.is_done {
                return Ok(None);
            }
            if self.current.is_some() {
                let probed = Arc::clone(&self.probed);
                let time = self.join_time.clone();
                let _timed = time.timer();
                self.step(&probed)?;
            } else if let Some(batch) = self.input.next().await.transpose()? {
                let time = self.join_time.clone();
                let _timed = time.timer();
                self.begin(batch)?;
            } else {
                self.end().await?;
                continue;
            }
            // A condition that nothing meets gives no batch to stop after.
            tokio::task::consume_budget().await;
        }
    }

    fn begin(&mut self, batch: RecordBatch) -> Result<()> {
        let probed = &self.probed;
        if batch.num_rows() > 0 {
            let first = probed.table.first_rows(&evaluated(&probed.keys, &batch)?)?;
            self.current = Some(Current { batch, first, row: 0, chain: None, settled: 0 });
        }
        Ok(())
    }

    /// Goes on in the current batch.
    fn step(&mut self, probed: &Probed) -> Result<()> {
        let Some(mut current) = self.current.take() else { return Ok(()) };
        use JoinType::{
            Full, Inner, Left, LeftAnti, LeftMark, LeftSemi, Right, RightAnti, RightMark, RightSemi,
        };
        let is_any_enough = matches!(probed.join_type, RightSemi | RightAnti | RightMark);
        if probed.condition.is_none() {
            match probed.join_type {
                LeftSemi | LeftAnti | LeftMark => {
                    current.mark_all(probed);
                    return Ok(());
                }
                _ if is_any_enough => {
                    let rows = current.first.iter().enumerate().filter(|(_, first)| **first != 0);
                    let probe = rows.map(|(row, _)| row as u32).collect();
                    let all = 0..current.batch.num_rows();
                    return self.push_probe_rows(probed, &current.batch, probe, all);
                }
                _ => {}
            }
        }
        let (pairs, is_whole) = current.fill(&probed.table, self.batch_rows);
        let pairs = probed.met(pairs, &current.batch)?;
        if is_marking(probed.join_type) {
            pairs.build.iter().for_each(|&row| probed.mark(row));
        }
        // A row whose pairs go on after these is settled where one of them has been met.
        let next = match (is_whole, pairs.probe.last()) {
            (true, _) => current.batch.num_rows(),
            (false, Some(&row)) => row as usize + 1,
            (false, None) => current.settled,
        };
        let settling = current.settled..next.max(current.settled);
        current.settled = settling.end;
        match probed.join_type {
            Inner | Left => self.push(probed.pair_rows(&current.batch, &pairs)?)?,
            Right | Full => self.push(probed.outer_rows(&current.batch, &pairs, settling)?)?,
            LeftSemi | LeftAnti | LeftMark => {}
            RightSemi | RightAnti | RightMark => {
                self.push_probe_rows(probed, &current.batch, pairs.probe, settling)?;
            }
        }
        if !is_whole && !self.is_done {
            self.current = Some(current);
        }
        Ok(())
    }

    /// Rows of the probe side alone: of those in `among`, the ones in `matched`, the others, or all with a mark.
    fn push_probe_rows(
        &mut self,
        probed: &Probed,
        batch: &RecordBatch,
        mut matched: Vec<u32>,
        among: Range<usize>,
    ) -> Result<()> {
        matched.retain(|row| among.contains(&(*row as usize)));
        matched.dedup();
        let (rows, marks) = match probed.join_type {
            JoinType::RightSemi => (matched, None),
            JoinType::RightAnti => (without(&matched, among), None),
            _ => {
                let mut bits = vec![false; among.len()];
                matched.iter().for_each(|row| bits[*row as usize - among.start] = true);
                (among.map(|row| row as u32).collect(), Some(BooleanArray::from(bits)))
            }
        };
        let rows =
            probed.rows_of(None, Some((batch, &rows.into())), marks.map(|marks| Arc::new(marks) as _))?;
        self.push(rows)
    }

    fn push(&mut self, batch: RecordBatch) -> Result<()> {
        if batch.num_rows() > 0 && self.output.push_batch(batch)? == PushBatchStatus::LimitReached {
            self.output.finish()?;
            self.is_done = true;
        }
        Ok(())
    }

    /// The probe side has ended: rows of the table that come last.
    async fn end(&mut self) -> Result<()> {
        self.is_at_end = true;
        let probed = Arc::clone(&self.probed);
        let mut ends = Ends::default();
        probed.ends.send_modify(|all| {
            all.ended += 1;
            ends = *all;
        });
        let rows = probed.table.row_count();
        let share = match probed.join_type {
            JoinType::Left | JoinType::Full if ends.ended == probed.partitions && !ends.is_broken => 0..rows,
            JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => {
                let mut others = probed.ends.subscribe();
                let all = others.wait_for(|all| all.is_broken || all.ended == probed.partitions).await;
                let is_known = all.is_ok_and(|all| !all.is_broken);
                let share = |number: usize| rows * number / probed.partitions;
                if is_known { share(self.partition)..share(self.partition + 1) } else { 0..0 }
            }
            _ => 0..0,
        };
        for first in share.clone().step_by(self.batch_rows.max(1)) {
            self.push(probed.left_rows(first..(first + self.batch_rows).min(share.end))?)?;
            if self.is_done {
                return Ok(());
            }
            tokio::task::consume_budget().await;
        }
        self.output.finish()?;
        self.is_done = true;
        Ok(())
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        if !self.is_at_end {
            self.probed.ends.send_modify(|all| all.is_broken = true);
        }
    }
}

impl Current {
    /// The next pairs, at most `count_max`; and whether they are the last.
    fn fill(&mut self, table: &Table, count_max: usize) -> (Pairs, bool) {
        let mut pairs = Pairs::default();
        let rows = self.first.len();
        if table.is_unique() {
            while self.row < rows && pairs.probe.len() < count_max {
                if self.first[self.row] != 0 {
                    pairs.probe.push(self.row as u32);
                    pairs.build.push(self.first[self.row] - 1);
                }
                self.row += 1;
            }
            return (pairs, self.row == rows);
        }
        while self.row < rows {
            let mut chain = self.chain.take().unwrap_or(self.first[self.row]);
            while chain != 0 {
                if pairs.probe.len() == count_max {
                    self.chain = Some(chain);
                    return (pairs, false);
                }
                pairs.probe.push(self.row as u32);
                pairs.build.push(chain - 1);
                chain = table.next_row(chain - 1);
            }
            self.row += 1;
        }
        (pairs, true)
    }

    /// Marks all rows of the table that match one of the batch.
    fn mark_all(&self, probed: &Probed) {
        for &first in &self.first {
            let mut chain = first;
            // Of the rows of a key all are marked, or none is.
            while chain != 0 && !probed.is_marked(chain as usize - 1) {
                probed.mark(chain - 1);
                chain = if probed.table.is_unique() { 0 } else { probed.table.next_row(chain - 1) };
            }
        }
    }
}

/// The numbers in `among` that are not in `matched`, which is ascending.
fn without(matched: &[u32], among: Range<usize>) -> Vec<u32> {
    let mut matched = matched.iter().peekable();
    let is_without = |row: &u32| {
        while matched.next_if(|matched| *matched < row).is_some() {}
        matched.peek() != Some(&row)
    };
    among.map(|row| row as u32).filter(is_without).collect()
}

/// Rows of the probe side with their numbers.
type ProbeRows<'a> = Option<(&'a RecordBatch, &'a UInt32Array)>;

impl Probed {
    /// Of `pairs` those that meet the condition.
    fn met(&self, pairs: Pairs, batch: &RecordBatch) -> Result<Pairs> {
        let Some(condition) = self.condition.as_ref().filter(|_| !pairs.probe.is_empty()) else {
            return Ok(pairs);
        };
        let (probe, build) = (UInt32Array::from(pairs.probe), UInt32Array::from(pairs.build));
        let columns = condition.column_indices().iter().map(|column| match column.side {
            JoinSide::Left => Ok(take(self.table.column(column.index)?, &build, None)?),
            JoinSide::Right => Ok(take(batch.column(column.index), &probe, None)?),
            JoinSide::None => Err(DataFusionError::Internal("a condition over a mark".to_owned())),
        });
        let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(probe.len()));
        let both = RecordBatch::try_new_with_options(Arc::clone(condition.schema()), columns, &options)?;
        let met = condition.expression().evaluate(&both)?.into_array(both.num_rows())?;
        let met = met
            .as_boolean_opt()
            .ok_or_else(|| DataFusionError::Internal(format!("a condition of type {}", met.data_type())))?;
        let kept = |rows: &UInt32Array| -> Result<Vec<u32>> {
            Ok(filter(rows, met)?.as_primitive::<UInt32Type>().values().to_vec())
        };
        Ok(Pairs { probe: kept(&probe)?, build: kept(&build)? })
    }

    fn pair_rows(&self, batch: &RecordBatch, pairs: &Pairs) -> Result<RecordBatch> {
        let (build, probe) = (pairs.build.clone().into(), pairs.probe.clone().into());
        self.rows_of(Some(&build), Some((batch, &probe)), None)
    }

    /// `pairs`, and between them the rows in `settling` that are in none.
    fn outer_rows(&self, batch: &RecordBatch, pairs: &Pairs, settling: Range<usize>) -> Result<RecordBatch> {
        let mut matched = pairs.probe.clone();
        matched.dedup();
        let mut alone = without(&matched, settling).into_iter().peekable();
        if alone.peek().is_none() {
            return self.pair_rows(batch, pairs);
        }
        let (mut build, mut probe) = (Vec::new(), Vec::new());
        for (&row, &of_table) in pairs.probe.iter().zip(&pairs.build) {
            while let Some(alone) = alone.next_if(|alone| *alone < row) {
                build.push(None);
                probe.push(alone);
            }
            build.push(Some(of_table));
            probe.push(row);
        }
        probe.extend(alone);
        build.resize(probe.len(), None);
        self.rows_of(Some(&build.into()), Some((batch, &probe.into())), None)
    }

    /// Of these rows of the table those that come last, as its type of join has it.
    fn left_rows(&self, rows: Range<usize>) -> Result<RecordBatch> {
        let wanted: Vec<u32> = match self.join_type {
            JoinType::LeftMark => rows.clone().map(|row| row as u32).collect(),
            JoinType::LeftSemi => {
                rows.clone().filter(|&row| self.is_marked(row)).map(|row| row as u32).collect()
            }
            _ => rows.clone().filter(|&row| !self.is_marked(row)).map(|row| row as u32).collect(),
        };
        let marks = || Arc::new(BooleanArray::from(rows.map(|row| self.is_marked(row)).collect::<Vec<_>>()));
        let marks = (self.join_type == JoinType::LeftMark).then(|| marks() as ArrayRef);
        self.rows_of(Some(&wanted.into()), None, marks)
    }

    /// Rows of the result: by number of the table, by number of a batch of the probe side, and with a mark. Columns of a
    /// side that is not given are NULL.
    fn rows_of(
        &self,
        build: Option<&UInt32Array>,
        probe: ProbeRows<'_>,
        marks: Option<ArrayRef>,
    ) -> Result<RecordBatch> {
        let count = build.or(probe.map(|(_, rows)| rows)).map_or(0, Array::len);
        let is_all = probe.is_some_and(|(batch, rows)| is_all_of(rows, batch.num_rows()));
        let column = |(column, field): (&ColumnIndex, &FieldRef)| {
            Ok(match (column.side, build, probe) {
                (JoinSide::Left, Some(build), _) => take(self.table.column(column.index)?, build, None)?,
                (JoinSide::Right, _, Some((batch, _))) if is_all => Arc::clone(batch.column(column.index)),
                (JoinSide::Right, _, Some((batch, rows))) => take(batch.column(column.index), rows, None)?,
                (JoinSide::None, ..) => marks
                    .clone()
                    .ok_or_else(|| DataFusionError::Internal("a join of this type has no mark".to_owned()))?,
                _ => new_null_array(field.data_type(), count),
            })
        };
        let columns = self.columns.iter().zip(self.schema.fields()).map(column);
        let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}

/// Whether `rows` are 0, 1, 2 up to `count`.
fn is_all_of(rows: &UInt32Array, count: usize) -> bool {
    rows.len() == count && rows.values().iter().enumerate().all(|(number, &row)| row as usize == number)
}
