//! One partition of the plan while it runs.

use std::collections::VecDeque;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, UInt32Array, make_comparator};
use datafusion::arrow::compute::{SortOptions, concat_batches, partition, take};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::metrics::BaselineMetrics;
use futures::StreamExt;

use super::function::{Begins, Function, Piece, Running};

type Exprs = Vec<Arc<dyn PhysicalExpr>>;

/// See the module.
pub(super) struct Run {
    /// `None` at its end.
    input: Option<SendableRecordBatchStream>,
    partition_by: Exprs,
    order_by: Exprs,
    functions: Vec<Box<dyn Running>>,
    /// Of what comes out.
    schema: SchemaRef,
    asks_for_peers: bool,
    /// Whether rows wait for their last peer.
    holds: bool,
    /// Keys of the last row so far.
    last: Option<[Vec<ArrayRef>; 2]>,
    /// Rows that have the last peers so far, and what they begin.
    held: Vec<(RecordBatch, Vec<Begins>)>,
    /// Rows that have all their peers, before those, and wait for `rows_ahead` after them.
    waiting: VecDeque<(RecordBatch, Vec<Begins>)>,
    rows_ahead: usize,
    /// The most rows that a function looks at around a row.
    rows_around: usize,
    /// Rows in `waiting` and `held`.
    rows_waiting: usize,
    ready: VecDeque<RecordBatch>,
    metrics: BaselineMetrics,
}

impl Run {
    /// `functions` of `input`, which is sorted by `keys`: those of partitions, and then those of the order.
    pub(super) fn new(
        input: SendableRecordBatchStream,
        [partition_by, order_by]: [Exprs; 2],
        functions: &[Function],
        schema: SchemaRef,
        metrics: BaselineMetrics,
    ) -> Self {
        Self {
            input: Some(input),
            partition_by,
            order_by,
            functions: functions.iter().map(Function::start).collect(),
            schema,
            asks_for_peers: functions.iter().any(Function::asks_for_peers),
            holds: functions.iter().any(Function::takes_peers),
            last: None,
            held: Vec::new(),
            waiting: VecDeque::new(),
            rows_ahead: functions.iter().map(Function::rows_ahead).max().unwrap_or(0),
            rows_around: functions.iter().map(Function::rows_around).max().unwrap_or(0),
            rows_waiting: 0,
            ready: VecDeque::new(),
            metrics,
        }
    }

    /// The next rows with their values.
    pub(super) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                self.metrics.record_output(batch.num_rows());
                return Ok(Some(batch));
            }
            let Some(input) = &mut self.input else { return Ok(None) };
            let batch = input.next().await.transpose()?;
            let time = self.metrics.elapsed_compute().clone();
            let _timer = time.timer();
            match batch {
                Some(batch) if batch.num_rows() == 0 => {}
                Some(batch) => {
                    self.rows_waiting += batch.num_rows();
                    self.take(batch)?;
                    self.compute(false)?;
                }
                None => {
                    self.input = None;
                    self.finish_held()?;
                    self.compute(true)?;
                }
            }
        }
    }

    fn take(&mut self, batch: RecordBatch) -> Result<()> {
        let begins = self.begins(&batch)?;
        if !self.holds {
            self.waiting.push_back((batch, begins));
            return Ok(());
        }
        let is_first = |begins: &Begins| *begins > Begins::Nothing;
        let Some(first) = begins.iter().position(is_first) else {
            self.held.push((batch, begins));
            return Ok(());
        };
        let last = begins.iter().rposition(is_first).unwrap_or(first);
        let part = |from: usize, to: usize| (batch.slice(from, to - from), begins[from..to].to_vec());
        if first > 0 {
            self.held.push(part(0, first));
        }
        self.finish_held()?;
        if first < last {
            self.waiting.push_back(part(first, last));
        }
        self.held.push(part(last, batch.num_rows()));
        Ok(())
    }

    /// The rows that are held have all their peers.
    fn finish_held(&mut self) -> Result<()> {
        if !self.held.is_empty() {
            self.waiting.push_back(joined(std::mem::take(&mut self.held))?);
        }
        Ok(())
    }

    /// Rows with enough after them get their values, all of them at the end.
    fn compute(&mut self, is_end: bool) -> Result<()> {
        while let Some(count) = self.pieces(is_end) {
            let (rows, begins) = joined(self.waiting.drain(..count).collect())?;
            let (mut ahead, mut missing) = (Vec::new(), self.rows_ahead);
            for (rows, begins) in self.waiting.iter().chain(&self.held) {
                if missing == 0 {
                    break;
                }
                ahead.push((rows, &begins[..]));
                missing = missing.saturating_sub(rows.num_rows());
            }
            let piece = Piece { rows: &rows, begins: &begins, ahead };
            let mut columns = rows.columns().to_vec();
            for function in &mut self.functions {
                columns.push(function.values(&piece)?);
            }
            self.ready.push_back(RecordBatch::try_new(Arc::clone(&self.schema), columns)?);
            self.rows_waiting -= rows.num_rows();
        }
        Ok(())
    }

    /// How many of the pieces that wait are next: as many rows as are looked at around one, so that those cost no more than
    /// the rows themselves, or what there is at the end. `None` while they are not there, or not what has to follow them.
    fn pieces(&self, is_end: bool) -> Option<usize> {
        if is_end && !self.waiting.is_empty() && self.rows_waiting <= self.rows_around + self.rows_ahead {
            return Some(self.waiting.len());
        }
        if self.rows_waiting < self.rows_around + self.rows_ahead {
            return None;
        }
        let mut rows = 0;
        for (index, (piece, _)) in self.waiting.iter().enumerate() {
            rows += piece.num_rows();
            if rows >= self.rows_around {
                return (is_end || self.rows_waiting - rows >= self.rows_ahead).then_some(index + 1);
            }
        }
        None
    }

    /// What each row of `batch` begins.
    fn begins(&mut self, batch: &RecordBatch) -> Result<Vec<Begins>> {
        let rows = batch.num_rows();
        let evaluate = |exprs: &Exprs| {
            exprs.iter().map(|expr| expr.evaluate(batch)?.into_array(rows)).collect::<Result<Vec<_>>>()
        };
        let partition_by = evaluate(&self.partition_by)?;
        let order_by = if self.asks_for_peers { evaluate(&self.order_by)? } else { Vec::new() };
        let mut begins = vec![Begins::Nothing; rows];
        let mut mark = |columns: &[ArrayRef], what: Begins| {
            if !columns.is_empty() {
                for range in partition(columns)?.ranges() {
                    begins[range.start] = what;
                }
            }
            Ok::<_, datafusion::error::DataFusionError>(())
        };
        if !order_by.is_empty() {
            mark(&[&partition_by[..], &order_by[..]].concat(), Begins::Peers)?;
        }
        mark(&partition_by, Begins::Partition)?;
        begins[0] = match &self.last {
            None => Begins::Partition,
            Some([partition, _]) if !is_equal(partition, &partition_by)? => Begins::Partition,
            Some([_, order]) if !is_equal(order, &order_by)? => Begins::Peers,
            Some(_) => Begins::Nothing,
        };
        let end = UInt32Array::from(vec![rows as u32 - 1]);
        let last = |columns: &[ArrayRef]| columns.iter().map(|column| take(column, &end, None)).collect();
        let (partition, order): (std::result::Result<_, _>, std::result::Result<_, _>) =
            (last(&partition_by), last(&order_by));
        self.last = Some([partition?, order?]);
        Ok(begins)
    }
}

/// Pieces, one after the other, as one.
fn joined(mut pieces: Vec<(RecordBatch, Vec<Begins>)>) -> Result<(RecordBatch, Vec<Begins>)> {
    if pieces.len() == 1 {
        return Ok(pieces.swap_remove(0));
    }
    let (batches, begins): (Vec<_>, Vec<_>) = pieces.into_iter().unzip();
    Ok((concat_batches(&batches[0].schema(), &batches)?, begins.concat()))
}

/// Whether the only row of `last` is the first one of `next`.
fn is_equal(last: &[ArrayRef], next: &[ArrayRef]) -> Result<bool> {
    for (last, next) in last.iter().zip(next) {
        if make_comparator(last, next, SortOptions::default())?(0, 0).is_ne() {
            return Ok(false);
        }
    }
    Ok(true)
}
