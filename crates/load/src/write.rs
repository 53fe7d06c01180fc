//! Encodes row groups on several threads and appends them in order.
//!
//! ```text
//!  batches ─▶ row groups ─▶ queue ─▶ encoders: columns, sideways zone maps, chunks ─▶ reorder ─▶ TableWriter
//!                             └──────── row groups in flight: a share of the budget ──────┘
//! ```
//!
//! The calling thread assembles and appends; it takes another row group only while those in flight leave
//! room, so nothing queues without bound. The table's bytes do not depend on the number of threads.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use arrow::array::RecordBatch;
use crossbeam_channel::{Receiver, Sender, unbounded};
use pelton_error::Result;
use pelton_store::{EncodedRowGroup, TablePlan, TableSchema, TableWriter, encode_row_group};
use pelton_zone::ZoneMap;

use crate::budget::{Budget, Held};
use crate::progress::Meter;
use crate::row_groups::{RowGroups, StagedRowGroup};
use crate::sideways::Sideways;
use pelton_error::CancelFlag;

/// A row group being encoded takes its rows, the columns made of them and the chunks.
const BYTES_PER_STAGED_BYTE: u64 = 3;

/// What encoding needs beside the rows.
pub(crate) struct Encoding<'a> {
    pub(crate) schema: &'a TableSchema,
    pub(crate) plan: &'a TablePlan,
    pub(crate) sideways: &'a Sideways,
    pub(crate) budget: &'a Arc<Budget>,
    pub(crate) cancel: &'a CancelFlag,
    pub(crate) thread_count: usize,
}

/// What was written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) row_count: u64,
    pub(crate) row_group_count: u64,
    pub(crate) raw_bytes: u64,
    pub(crate) stored_bytes: u64,
    /// Of sideways zone maps.
    pub(crate) sideways_bytes: u64,
}

struct Job {
    index: u64,
    row_group: StagedRowGroup,
}

struct Encoded {
    row_group: EncodedRowGroup,
    sideways_bytes: u64,
}

struct Done {
    index: u64,
    /// Counts the row group until it is in the table.
    held: Held,
    encoded: std::thread::Result<Result<Encoded>>,
}

/// Writes all rows of `batches`, in order.
pub(crate) fn write_rows(
    batches: impl Iterator<Item = Result<RecordBatch>>,
    encoding: &Encoding<'_>,
    writer: &mut TableWriter,
    meter: &mut Meter<'_>,
) -> Result<Written> {
    let (jobs, queue) = unbounded();
    let (results, done) = unbounded();
    std::thread::scope(|scope| {
        for _ in 0..encoding.thread_count {
            let (queue, results) = (queue.clone(), results.clone());
            scope.spawn(move || encode_jobs(&queue, &results, encoding));
        }
        drop((queue, results));
        let mut line = Line {
            encoding,
            writer,
            meter,
            jobs,
            done,
            in_flight_bytes: 0,
            sent: 0,
            waiting: BTreeMap::new(),
            totals: Written::default(),
        };
        let row_groups = RowGroups::new(batches, encoding.plan.row_group_rows, encoding.budget);
        for row_group in row_groups {
            let row_group = row_group?;
            encoding.cancel.check()?;
            line.make_room(cost(&row_group))?;
            line.send(row_group);
        }
        line.make_room(u64::MAX)?;
        Ok(line.totals)
    })
}

fn cost(row_group: &StagedRowGroup) -> u64 {
    row_group.held.bytes() * BYTES_PER_STAGED_BYTE
}

/// The row groups between assembly and table. Dropping it ends the encoders.
struct Line<'a, 'p> {
    encoding: &'a Encoding<'a>,
    writer: &'a mut TableWriter,
    meter: &'a mut Meter<'p>,
    jobs: Sender<Job>,
    done: Receiver<Done>,
    in_flight_bytes: u64,
    sent: u64,
    /// Encoded before their turn.
    waiting: BTreeMap<u64, Done>,
    totals: Written,
}

impl Line<'_, '_> {
    fn send(&mut self, mut row_group: StagedRowGroup) {
        let counted = row_group.held.bytes();
        self.in_flight_bytes += cost(&row_group);
        row_group.held.grow(counted * (BYTES_PER_STAGED_BYTE - 1));
        self.jobs
            .send(Job { index: self.sent, row_group })
            .expect("encoders wait for jobs until the line is dropped");
        self.sent += 1;
    }

    /// Appends finished row groups until another of `cost` bytes may start; `u64::MAX`: until none is left.
    fn make_room(&mut self, cost: u64) -> Result<()> {
        let in_flight_max = 2 * self.encoding.thread_count as u64;
        while self.totals.row_group_count < self.sent {
            let is_full = self.sent - self.totals.row_group_count >= in_flight_max;
            if !is_full && self.in_flight_bytes.saturating_add(cost) <= self.encoding.budget.encode_bytes() {
                break;
            }
            let done = self.done.recv().expect("encoders answer every job");
            self.waiting.insert(done.index, done);
            while let Some(done) = self.waiting.remove(&self.totals.row_group_count) {
                self.append(done)?;
            }
        }
        Ok(())
    }

    fn append(&mut self, done: Done) -> Result<()> {
        self.encoding.cancel.check()?;
        let Encoded { row_group: encoded, sideways_bytes } =
            done.encoded.unwrap_or_else(|panic| resume_unwind(panic))?;
        self.totals.sideways_bytes += sideways_bytes;
        self.totals.row_count += u64::from(encoded.row_count());
        self.totals.row_group_count += 1;
        self.totals.raw_bytes += encoded.raw_bytes();
        self.totals.stored_bytes += encoded.stored_bytes();
        self.meter.add(u64::from(encoded.row_count()), encoded.raw_bytes());
        self.writer.append(encoded)?;
        self.in_flight_bytes -= done.held.bytes();
        Ok(())
    }
}

/// One encoder: works until there are no more jobs.
fn encode_jobs(queue: &Receiver<Job>, results: &Sender<Done>, encoding: &Encoding<'_>) {
    for job in queue {
        let Job { index, row_group } = job;
        let encoded = catch_unwind(AssertUnwindSafe(|| encode(&row_group, encoding)));
        // Nobody listens once the load has failed.
        let _ = results.send(Done { index, held: row_group.held, encoded });
    }
}

fn encode(row_group: &StagedRowGroup, encoding: &Encoding<'_>) -> Result<Encoded> {
    encoding.cancel.check()?;
    let columns = row_group.columns(encoding.schema)?;
    let zone_maps = encoding.sideways.zone_maps(&columns, &encoding.plan.zone)?;
    let sideways_bytes = zone_maps.iter().map(ZoneMap::stored_bytes).sum();
    let row_group = encode_row_group(&columns, encoding.plan)?.with_sideways(zone_maps);
    Ok(Encoded { row_group, sideways_bytes })
}
