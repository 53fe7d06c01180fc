//! Encodes row groups on several threads and appends them in order.
//!
//! ```text
//!  batches, or ─▶ row groups ─▶ queue ─▶ encoders: columns, sideways zone maps, chunks ─▶ reorder ─▶ TableWriter
//!  sorted rows                    └──────── row groups in flight: a share of the budget ──────┘
//! ```
//!
//! The calling thread assembles and appends; rows that were sorted in memory the encoders bring into order. It takes
//! another row group only while those in flight leave room, so nothing queues without bound. The table's bytes do not
//! depend on the number of threads.

use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, unbounded};
use pelton_chunk::Column;
use pelton_error::Result;
use pelton_store::{EncodedRowGroup, TablePlan, TableSchema, TableWriter, encode_row_group};
use pelton_zone::ZoneMap;

use crate::budget::{Budget, Held};
use crate::progress::Meter;
use crate::row_groups::{StagedRowGroup, column_of};
use crate::sideways::Sideways;
use crate::sort::MemoryRun;
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

/// The rows of one row group.
pub(crate) enum GroupRows<'r> {
    /// In batches.
    Staged(StagedRowGroup),
    /// Some of a sorted run; the bytes that they are expected to take, and count.
    Sorted { run: &'r MemoryRun, positions: Range<usize>, held: Held },
}

impl GroupRows<'_> {
    fn held(&mut self) -> &mut Held {
        match self {
            Self::Staged(row_group) => &mut row_group.held,
            Self::Sorted { held, .. } => held,
        }
    }

    fn into_held(self) -> Held {
        match self {
            Self::Staged(row_group) => row_group.held,
            Self::Sorted { held, .. } => held,
        }
    }

    fn columns(&self, schema: &TableSchema) -> Result<Vec<Column>> {
        match self {
            Self::Staged(row_group) => row_group.columns(schema),
            Self::Sorted { run, positions, .. } => {
                let rows = [run.gather(positions.clone())?];
                (0..schema.columns.len()).map(|position| column_of(&rows, position, schema)).collect()
            }
        }
    }
}

struct Job<'r> {
    index: u64,
    rows: GroupRows<'r>,
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

/// Writes all rows of `row_groups`, in order.
pub(crate) fn write_rows<'r>(
    row_groups: impl Iterator<Item = Result<GroupRows<'r>>>,
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
        for rows in row_groups {
            let mut rows = rows?;
            encoding.cancel.check()?;
            line.make_room(cost(rows.held()))?;
            line.send(rows);
        }
        line.make_room(u64::MAX)?;
        Ok(line.totals)
    })
}

fn cost(held: &Held) -> u64 {
    held.bytes() * BYTES_PER_STAGED_BYTE
}

/// The row groups between assembly and table. Dropping it ends the encoders.
struct Line<'a, 'p, 'r> {
    encoding: &'a Encoding<'a>,
    writer: &'a mut TableWriter,
    meter: &'a mut Meter<'p>,
    jobs: Sender<Job<'r>>,
    done: Receiver<Done>,
    in_flight_bytes: u64,
    sent: u64,
    /// Encoded before their turn.
    waiting: BTreeMap<u64, Done>,
    totals: Written,
}

impl<'r> Line<'_, '_, 'r> {
    fn send(&mut self, mut rows: GroupRows<'r>) {
        let held = rows.held();
        self.in_flight_bytes += cost(held);
        held.grow(held.bytes() * (BYTES_PER_STAGED_BYTE - 1));
        self.jobs
            .send(Job { index: self.sent, rows })
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
fn encode_jobs(queue: &Receiver<Job<'_>>, results: &Sender<Done>, encoding: &Encoding<'_>) {
    for job in queue {
        let Job { index, rows } = job;
        let encoded = catch_unwind(AssertUnwindSafe(|| encode(&rows, encoding)));
        // Nobody listens once the load has failed.
        let _ = results.send(Done { index, held: rows.into_held(), encoded });
    }
}

fn encode(rows: &GroupRows<'_>, encoding: &Encoding<'_>) -> Result<Encoded> {
    encoding.cancel.check()?;
    let columns = rows.columns(encoding.schema)?;
    let zone_maps = encoding.sideways.zone_maps(&columns, &encoding.plan.zone)?;
    let sideways_bytes = zone_maps.iter().map(ZoneMap::stored_bytes).sum();
    let row_group = encode_row_group(&columns, encoding.plan)?.with_sideways(zone_maps);
    Ok(Encoded { row_group, sideways_bytes })
}
