//! One operation in this process: its rows drained, counted and hashed, and what the process held at most.

use datafusion::arrow::array::{Array, AsArray, RecordBatch};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Decimal128Type};
use datafusion::common::hash_utils::{RandomState, create_hashes};
use futures::StreamExt;
use pelton_engine::{PeltonSession, SessionOptions, from_datafusion};
use pelton_error::{CancelFlag, Result, ResultExt};
use serde::{Deserialize, Serialize};

use super::Case;
use crate::wait::wait_for;

/// What an answer comes to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Answer {
    /// Rows.
    pub(super) rows: u64,
    /// Of all cells, and of their order where the answer has one; empty of another engine's.
    pub(super) checksum: String,
    /// Of each column of integers, the sum; empty for others.
    pub(super) sums: Vec<String>,
}

/// What a child prints.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Printed {
    pub(super) answer: Option<Answer>,
    pub(super) error: Option<String>,
    pub(super) seconds: f64,
    pub(super) peak_bytes: u64,
}

/// Runs `case` in this process and gives the line to print.
///
/// # Errors
///
/// `InvalidInput` for an operation that there is not. What the query ends with is part of the line.
pub fn run_one(case: &Case, options: &SessionOptions, cancel: &CancelFlag) -> Result<String> {
    let mut pool = tokio::runtime::Builder::new_multi_thread();
    pool.thread_stack_size(pelton_engine::STACK_BYTES).enable_all();
    if let Some(threads) = options.threads {
        pool.worker_threads(threads);
    }
    let pool = pool.build().context(|| "starting the thread pool".into())?;
    let started = std::time::Instant::now();
    let tables = super::data::Tables::new(&case.dir, case.rows);
    let session = PeltonSession::open(Some(tables.warehouse()), options)?;
    let operation = super::operation(&case.operation)?;
    let sql = operation.sql(case.rows);
    let answer = wait_for(&pool, cancel, drained(&session, &sql, operation.is_ordered));
    let seconds = started.elapsed().as_secs_f64();
    let (answer, error) = match answer {
        Ok(answer) => (Some(answer), None),
        Err(error) => (None, Some(error.to_string())),
    };
    let printed = Printed { answer, error, seconds, peak_bytes: super::peak_bytes("self").unwrap_or(0) };
    Ok(serde_json::to_string(&printed).expect("a line of numbers and texts"))
}

async fn drained(session: &PeltonSession, sql: &str, is_ordered: bool) -> Result<Answer> {
    let query = session.query(sql).await?;
    let mut rows = query.stream().await?;
    let mut sum = Sum::new(query.schema().fields().iter().map(|field| field.data_type()), is_ordered);
    while let Some(batch) = rows.next().await {
        sum.add(&batch.map_err(from_datafusion)?)?;
    }
    Ok(sum.end())
}

/// Adds batches up.
struct Sum {
    is_ordered: bool,
    rows: u64,
    hash: u64,
    sums: Vec<Option<i128>>,
    hashes: Vec<u64>,
}

impl Sum {
    fn new<'a>(types: impl Iterator<Item = &'a DataType>, is_ordered: bool) -> Self {
        let is_number = |of: &DataType| of.is_integer() || matches!(of, DataType::Decimal128(_, 0));
        let sums = types.map(|of| is_number(of).then_some(0)).collect();
        Self { is_ordered, rows: 0, hash: 0, sums, hashes: Vec::new() }
    }

    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        self.hashes.clear();
        self.hashes.resize(batch.num_rows(), 0);
        let seed = RandomState::with_seed(7);
        create_hashes(batch.columns(), &seed, &mut self.hashes).map_err(from_datafusion)?;
        for (row, hash) in self.hashes.iter().enumerate() {
            let place = if self.is_ordered { 2 * (self.rows + row as u64) + 1 } else { 1 };
            self.hash = self.hash.wrapping_add(hash.wrapping_mul(place));
        }
        self.rows += batch.num_rows() as u64;
        for (sum, column) in self.sums.iter_mut().zip(batch.columns()) {
            let Some(sum) = sum else { continue };
            let wide =
                cast(column, &DataType::Decimal128(38, 0)).map_err(|error| from_datafusion(error.into()))?;
            let wide = wide.as_primitive::<Decimal128Type>();
            *sum +=
                (0..wide.len()).filter(|&row| wide.is_valid(row)).map(|row| wide.value(row)).sum::<i128>();
        }
        Ok(())
    }

    fn end(self) -> Answer {
        let sums = self.sums.into_iter().map(|sum| sum.map_or(String::new(), |sum| sum.to_string()));
        Answer { rows: self.rows, checksum: format!("{:016x}", self.hash), sums: sums.collect() }
    }
}
