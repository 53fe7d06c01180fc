//! Rows of a run as a stream, while it goes on.
//!
//! ```text
//!   the run's thread   part 0 ── part 1 ── part 2 ── ... ── its end
//!   blocking threads     └ batches   └ batches   └ batches            several parts at once
//!   the stream                 batches of part 0, then of part 1, ...
//! ```
//!
//! Only results that the CPU need not look at again come so: once a row is out, an error is the query's. Groups come so
//! where they are many, once all of them have been made. What waits in between is bounded, and counted by the memory pool.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryReservation};
use pelton_error::{CancelFlag, Error, Result};
use pelton_exec::{RowsPart, SomeGroups, TakeGroups, TakeRows};
use pelton_pipeline::Rows;
use pelton_pipeline::codegen::GroupLayout;
use pelton_pipeline::ir::{Expr, Plan, Sink, Type, WindowOutput};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

use super::device::DeviceHandle;
use super::of_groups::OfGroups;
use super::value::LateText;
use super::{late, result};
use crate::error::from_datafusion;

/// Bytes of a part: some milliseconds of a link.
const PART_BYTES: usize = 128 << 20;
/// Bytes of a part at least, however little memory there is.
const PART_BYTES_MIN: usize = 64 << 10;
/// Parts that wait at most, as long as nobody waits for the device: as many become batches at once.
const PARTS_WAITING_MAX: usize = 16;
/// See `PARTS_WAITING_MAX`.
const PARTS_WAITING_MIN: usize = 4;
/// Share of the memory pool that a part takes at most.
const SHARE_OF_POOL: usize = 32;
/// How long a run waits for host memory before that is an error.
const PATIENCE: Duration = Duration::from_secs(30);

/// Whether the rows of `plan`, which have `schema`, may be given out while it runs: values that a type might not hold are
/// looked at by the CPU, so they are not.
pub(super) fn may_be_given_out(plan: &Plan, schema: &Schema, average_counts: &[usize]) -> bool {
    let Some(last) = plan.pipelines.last() else { return false };
    let Sink::Materialize { columns, top: None, order } = &last.sink else { return false };
    let windows = order.as_ref().and_then(|order| order.windows.as_ref());
    let is_held_by_types = windows.is_none_or(|windows| !windows.may_overflow);
    // None for results of windows.
    let columns: Vec<Option<&Expr>> = match windows {
        None => columns.iter().map(Some).collect(),
        Some(windows) => {
            let column = |output: &WindowOutput| match output {
                WindowOutput::Column(column) => Some(&columns[*column]),
                WindowOutput::Function(_) => None,
            };
            windows.outputs.iter().map(column).collect()
        }
    };
    let is_held = |column: usize, data_type: &DataType| {
        let Some(column) = last.columns.get(column) else { return false };
        match data_type {
            DataType::Decimal128(precision, _) => {
                let most = 10_i128.pow(u32::from(*precision)) - 1;
                column.bounds.is_some_and(|bounds| -most <= bounds.min && bounds.max <= most)
            }
            _ => column.ty != Type::I128,
        }
    };
    let is_sure = |(expr, data_type): (&Expr, &DataType)| match expr {
        Expr::RowNumber | Expr::OfText { .. } => true,
        Expr::Column(column) => is_held(*column, data_type),
        Expr::Cast { input, .. } => {
            matches!(**input, Expr::Column(column) if is_held(column, data_type))
        }
        _ => false,
    };
    let types = schema.fields().iter().map(|field| field.data_type());
    average_counts.is_empty()
        && is_held_by_types
        && columns.len() == types.len()
        && columns
            .into_iter()
            .zip(types)
            .all(|(column, data_type)| column.is_none_or(|column| is_sure((column, data_type))))
}

/// What becomes of rows.
pub(super) struct Conversion {
    /// Of the rows, before the host has made something of groups.
    pub(super) schema: SchemaRef,
    pub(super) late: Vec<Option<LateText>>,
    /// Of groups, see [`late::rows_as_keys`].
    pub(super) key_rows: Vec<(usize, usize)>,
    pub(super) average_counts: Vec<usize>,
    pub(super) of_groups: Option<Arc<OfGroups>>,
    pub(super) batch_rows: usize,
    pub(super) device: Arc<DeviceHandle>,
    pub(super) cancel: CancelFlag,
}

impl Conversion {
    /// All rows of a run that ends in groups, or in rows that are not given out, once their texts are `fetched`.
    pub(super) fn of_all(&self, mut rows: Rows, fetched: Vec<Option<ArrayRef>>) -> Result<Vec<RecordBatch>> {
        if let Some(of_groups) = &self.of_groups {
            return of_groups.batches(rows, fetched, self.batch_rows);
        }
        result::counts_are_null_with_sums(&mut rows, &self.average_counts);
        result::batches(rows, fetched, &self.schema, self.batch_rows)
    }

    /// Texts of `rows`, whose keys they may be.
    pub(super) fn fetch(&self, rows: &mut Rows) -> Result<Vec<Option<ArrayRef>>> {
        late::rows_as_keys(rows, &self.key_rows);
        let reader = late::Reader::of(&self.device, &self.cancel);
        late::fetch_all(&self.late, rows, &self.schema, &reader)
    }

    fn of_groups(&self, groups: SomeGroups) -> Result<Vec<RecordBatch>> {
        let mut rows = groups.into_rows()?;
        let fetched = self.fetch(&mut rows)?;
        self.of_all(rows, fetched)
    }

    /// Whether types hold all that `layout` allows to be in groups, so that nothing of them is for the CPU to look at.
    fn holds(&self, layout: &GroupLayout) -> bool {
        let mut columns = layout.columns();
        self.key_rows.iter().for_each(|&(key, row)| columns.swap(key, row));
        columns.truncate(columns.len() - self.key_rows.len());
        let is_held = |state: usize, data_type: &DataType| {
            self.late.get(state).is_some_and(Option::is_some)
                || columns.get(state).is_some_and(|column| result::is_held(column, data_type))
        };
        match &self.of_groups {
            Some(of_groups) => of_groups.is_sure(is_held),
            None => {
                let types = self.schema.fields().iter().map(|field| field.data_type());
                types.enumerate().all(|(state, data_type)| is_held(state, data_type))
            }
        }
    }

    fn of_part(&self, part: RowsPart) -> Result<Vec<RecordBatch>> {
        if self.late.iter().all(Option::is_none) {
            return result::batches_of_part(part, &self.schema, self.batch_rows);
        }
        let rows = part.into_rows()?;
        let reader = late::Reader::of(&self.device, &self.cancel);
        let fetched = late::fetch_all(&self.late, &rows, &self.schema, &reader)?;
        result::batches(rows, fetched, &self.schema, self.batch_rows)
    }
}

/// A part that becomes batches.
struct Converted {
    batches: JoinHandle<Result<Vec<RecordBatch>>>,
    /// Counted by the memory pool.
    bytes: usize,
}

/// Where the run puts its rows.
pub(super) struct Outlet {
    sender: UnboundedSender<Converted>,
    conversion: Arc<Conversion>,
    waiting: Arc<Waiting>,
    part_bytes: usize,
    parts_waiting: usize,
    handle: Handle,
}

/// Rows that have been given out and not been taken.
struct Waiting {
    parts: AtomicUsize,
    memory: Mutex<MemoryReservation>,
}

impl Waiting {
    /// Takes note of one part more; gives how many bytes of it are counted. A single part waits even where operators
    /// above hold all of the pool, as batches between operators do: they spill when they take it.
    fn add(&self, bytes: usize) -> Result<usize> {
        let grown = self.reservation(|memory| memory.try_grow(bytes));
        let counted = match grown {
            Err(_) if self.parts.load(Ordering::Acquire) == 0 => 0,
            grown => grown.map(|()| bytes).map_err(from_datafusion)?,
        };
        self.parts.fetch_add(1, Ordering::AcqRel);
        Ok(counted)
    }

    fn remove(&self, bytes: usize) {
        self.parts.fetch_sub(1, Ordering::AcqRel);
        self.reservation(|memory| memory.shrink(bytes));
    }

    fn reservation<T>(&self, what: impl FnOnce(&MemoryReservation) -> T) -> T {
        what(&self.memory.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Where its rows come out.
pub(super) struct Inlet {
    receiver: UnboundedReceiver<Converted>,
    waiting: Arc<Waiting>,
}

/// Both ends, for one run.
pub(super) fn channel(conversion: &Arc<Conversion>, context: &TaskContext) -> (Outlet, Inlet) {
    let pool = context.memory_pool();
    let part_bytes = match pool.memory_limit() {
        MemoryLimit::Finite(bytes) => (bytes / SHARE_OF_POOL).clamp(PART_BYTES_MIN, PART_BYTES),
        _ => PART_BYTES,
    };
    let memory = Mutex::new(MemoryConsumer::new("PeltonGpuExec rows").register(pool));
    let waiting = Arc::new(Waiting { parts: AtomicUsize::new(0), memory });
    let (sender, receiver) = unbounded_channel();
    let inlet = Inlet { receiver, waiting: Arc::clone(&waiting) };
    let parts_waiting = (conversion.device.threads() / 2).clamp(PARTS_WAITING_MIN, PARTS_WAITING_MAX);
    let (conversion, handle) = (Arc::clone(conversion), Handle::current());
    (Outlet { sender, conversion, waiting, part_bytes, parts_waiting, handle }, inlet)
}

impl Outlet {
    /// Puts in what `convert` makes of `needed` bytes.
    fn put(
        &self,
        needed: usize,
        convert: impl FnOnce(&Conversion) -> Result<Vec<RecordBatch>> + Send + 'static,
    ) -> Result<()> {
        let started = Instant::now();
        let bytes = loop {
            self.conversion.cancel.check()?;
            match self.waiting.add(needed) {
                // What waits is taken sooner or later, unless who should take it waits for something else of ours.
                Err(_) if started.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(1)),
                added => break added?,
            }
        };
        let conversion = Arc::clone(&self.conversion);
        let batches = self.handle.spawn_blocking(move || convert(&conversion));
        // Who has gone away wants no more rows.
        self.sender.send(Converted { batches, bytes }).map_err(|_| Error::cancelled())
    }
}

impl TakeGroups for Outlet {
    fn wants(&self, layout: &GroupLayout) -> bool {
        self.conversion.holds(layout)
    }

    fn take_groups(&self, groups: SomeGroups) -> Result<()> {
        self.put(groups.bytes(), move |conversion| conversion.of_groups(groups))
    }
}

impl TakeRows for Outlet {
    fn take(&self, rows: RowsPart) -> Result<()> {
        self.put(rows.bytes(), move |conversion| conversion.of_part(rows))
    }

    fn is_full(&self) -> bool {
        self.waiting.parts.load(Ordering::Acquire) >= self.parts_waiting
    }

    fn part_bytes(&self) -> usize {
        self.part_bytes
    }
}

impl Inlet {
    /// The batches of the next part; `None`: the run gives out no more.
    pub(super) async fn next(&mut self) -> Option<Result<Vec<RecordBatch>>> {
        let Converted { batches, bytes } = self.receiver.recv().await?;
        let batches = batches.await.unwrap_or_else(|error| match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(Error::cancelled()),
        });
        self.waiting.remove(bytes);
        Some(batches)
    }
}
