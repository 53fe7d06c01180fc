//! One partition of a scan as a stream of record batches.
//!
//! Reads are enqueued `read_ahead` row groups before they are needed. For each row group, in order:
//!
//! 1. dynamic filters, as far as they are known by now, are tested on its zone maps;
//! 2. filter columns are verified, decoded and filtered, one filter after the other in the order of `order.rs`:
//!    over all rows while many pass, over the rows selected so far once few do;
//! 3. the other columns are decoded, only the pages that hold a selected row; where memory is limited, some pages of
//!    all columns at a time;
//! 4. selected rows leave as batches of the session's batch size.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::BatchCoalescer;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use pelton_io::{AlignedBytes, IoEngine};
use pelton_store::{ChunkRead, Table, column_to_stored_arrow, read_chunk};
use pelton_trace::Activity;

use super::exec::{PeltonScanExec, ScanOptions};
use super::filter::ScanFilter;
use super::metrics::StreamMetrics;
use super::narrow::Narrow;
use super::order::{SAMPLED_PAGES_MIN, SAMPLED_ROWS, by_rank};
use super::pieces::of_own_size;
use super::selection::{RowFilter, Selection, Wanted};
use crate::error::to_datafusion;
use crate::predicate::zone_predicate;
use crate::profile::tracer;
use crate::prune::ZoneLookup;

/// Opens partition `partition` of `scan`.
pub(super) fn open(
    scan: &PeltonScanExec,
    partition: usize,
    context: &TaskContext,
) -> Result<SendableRecordBatchStream> {
    let batch_rows = context.session_config().batch_size();
    let memory_is_limited = matches!(context.memory_pool().memory_limit(), MemoryLimit::Finite(_));
    let is_counted = memory_is_limited && !scan.is_passing;
    let partition_count = scan.properties().partitioning.partition_count();
    let share_bytes = match context.memory_pool().memory_limit() {
        MemoryLimit::Finite(limit) => limit / SHARE / partition_count.max(1),
        _ => usize::MAX,
    };
    let schema = scan.schema();
    let required = scan.ordered_conjuncts()?;
    let rows = scan.table.row_count() / partition_count.max(1) as u64;
    let filters = required
        .iter()
        .map(|expr| ScanFilter::required(expr, &scan.table))
        .chain(scan.dynamic.iter().map(|expr| ScanFilter::optional(expr, &scan.table, rows)))
        .collect::<Result<Vec<_>>>()?;
    let mut read_columns = scan.read_columns();
    read_columns.extend(filters.iter().flat_map(|filter| filter.columns.iter().copied()));
    read_columns.sort_unstable();
    read_columns.dedup();

    let dealt = scan.pruned.kept.iter().copied().skip(partition).step_by(partition_count);
    let narrow = Narrow::of(&schema);
    let stream = ScanStream {
        table: Arc::clone(&scan.table),
        io: Arc::clone(&scan.io),
        options: scan.options,
        projection: scan.projection.clone(),
        first_rows: scan.numbers_rows.then(|| first_rows(&scan.table)),
        read_columns,
        filters,
        dynamic: scan.dynamic.clone(),
        waiting: dealt.collect(),
        in_flight: VecDeque::new(),
        ready: VecDeque::new(),
        coalescer: coalescer(narrow.stored(), batch_rows),
        narrow,
        opened: None,
        share_bytes,
        is_counted,
        batch_rows,
        rows_left: scan.limit.unwrap_or(usize::MAX),
        metrics: StreamMetrics::new(
            &scan.metrics,
            partition,
            tracer(context, std::ptr::from_ref(scan).addr()),
        ),
    };
    let batches = futures::stream::try_unfold(stream, |mut stream| async move {
        Ok(stream.next_batch().await?.map(|batch| (batch, stream)))
    });
    Ok(Box::pin(cooperative(RecordBatchStreamAdapter::new(schema, Box::pin(batches)))))
}

/// The number of the first row of each row group.
pub(crate) fn first_rows(table: &Table) -> Vec<i64> {
    let counts = (0..table.row_group_count()).map(|group| i64::from(table.row_group(group).row_count));
    let firsts = counts.scan(0, |next, count| {
        let first = *next;
        *next += count;
        Some(first)
    });
    firsts.collect()
}

/// Collects small batches; large ones pass as slices of a row group's columns.
fn coalescer(schema: &SchemaRef, batch_rows: usize) -> BatchCoalescer {
    BatchCoalescer::new(Arc::clone(schema), batch_rows).with_biggest_coalesce_batch_size(Some(batch_rows / 2))
}

/// Of the memory limit, what a scan's partitions may read ahead together, and what they may decode at a time: an eighth
/// each. The row group that is decoded is held as it is stored, however large it is.
const SHARE: usize = 8;

/// A row group whose chunks are being read.
struct InFlight {
    row_group: usize,
    reads: BTreeMap<usize, ChunkRead>,
    stored_bytes: usize,
}

/// A row group that leaves some pages at a time.
struct Opened {
    rows: RowGroup,
    /// The page that is next, and the selected rows before it.
    page: usize,
    rows_before: usize,
    /// Pages at a time.
    step: usize,
}

struct ScanStream {
    table: Arc<Table>,
    io: Arc<IoEngine>,
    options: ScanOptions,
    projection: Vec<usize>,
    /// The number of the first row of each row group, where the numbers of rows are a column.
    first_rows: Option<Vec<i64>>,
    read_columns: Vec<usize>,
    filters: Vec<ScanFilter>,
    dynamic: Vec<Arc<dyn PhysicalExpr>>,
    waiting: VecDeque<u32>,
    in_flight: VecDeque<InFlight>,
    ready: VecDeque<RecordBatch>,
    coalescer: BatchCoalescer,
    /// Rows are as they are stored until they leave.
    narrow: Narrow,
    opened: Option<Opened>,
    /// What may be read ahead, and what may be decoded at a time.
    share_bytes: usize,
    /// Sorts and joins count what they hold.
    is_counted: bool,
    batch_rows: usize,
    rows_left: usize,
    metrics: StreamMetrics,
}

impl ScanStream {
    async fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                self.metrics.baseline.record_output(batch.num_rows());
                return self.narrow.widened(batch).map(Some);
            }
            if let Some(opened) = self.opened.take() {
                self.next_pages(opened)?;
                continue;
            }
            if self.rows_left == 0 {
                self.in_flight.clear();
                self.waiting.clear();
            }
            self.read_ahead()?;
            match self.in_flight.pop_front() {
                Some(row_group) => self.scan_row_group(row_group).await?,
                None if self.coalescer.is_empty() => return Ok(None),
                None => {
                    self.coalescer.finish_buffered_batch()?;
                    self.take_coalesced();
                }
            }
        }
    }

    /// Keeps the reads of the current row group and `read_ahead` further ones in flight; fewer where memory is limited.
    fn read_ahead(&mut self) -> Result<()> {
        let in_flight = |stream: &Self| stream.in_flight.iter().map(|read| read.stored_bytes).sum::<usize>();
        while self.in_flight.len() <= self.options.read_ahead
            && (self.in_flight.is_empty() || in_flight(self) < self.share_bytes)
        {
            let Some(row_group) = self.waiting.pop_front() else { break };
            let row_group = row_group as usize;
            if self.is_skipped_dynamically(row_group)? {
                continue;
            }
            let started = self.metrics.now();
            let (mut reads, mut stored_bytes) = (BTreeMap::new(), 0);
            for &column in &self.read_columns {
                let chunk = self.table.chunk(row_group, column).map_err(to_datafusion)?;
                stored_bytes += chunk.stored_bytes as usize;
                reads.insert(
                    column,
                    read_chunk(&self.io, &self.table, row_group, column).map_err(to_datafusion)?,
                );
            }
            self.metrics.traced(Activity::Read, started, 0);
            self.metrics.row_groups_read.add(1);
            self.in_flight.push_back(InFlight { row_group, reads, stored_bytes });
        }
        Ok(())
    }

    /// Tests what the dynamic filters say by now on the zone maps of `row_group`.
    fn is_skipped_dynamically(&self, row_group: usize) -> Result<bool> {
        for filter in &self.dynamic {
            let predicate = zone_predicate(filter, self.table.schema()).intersect_ranges();
            let zones = ZoneLookup::own(&self.table, &predicate).map_err(to_datafusion)?;
            if zones.ruled_out(&predicate, row_group, self.options.skip).is_some() {
                self.metrics.row_groups_skipped_dynamic.add(1);
                for &column in &self.read_columns {
                    let chunk = self.table.chunk(row_group, column).map_err(to_datafusion)?;
                    self.metrics.bytes_skipped_dynamic.add(chunk.stored_bytes as usize);
                }
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn scan_row_group(&mut self, in_flight: InFlight) -> Result<()> {
        let row_count = self.table.row_group(in_flight.row_group).row_count as usize;
        let mut row_group = RowGroup {
            index: in_flight.row_group,
            row_count,
            reads: in_flight.reads,
            bytes: BTreeMap::new(),
            decoded: BTreeMap::new(),
            is_narrow: false,
            wanted: None,
            selection: Selection::all(row_count),
        };
        let order = self.filters_for(&mut row_group).await?;
        for (position, &index) in order.iter().enumerate() {
            if row_group.selection.is_empty() {
                break;
            }
            let later = order[position + 1..].iter().flat_map(|&later| &self.filters[later].columns);
            let later: Vec<usize> = later.copied().collect();
            let projection = &self.projection;
            let still_needed = |column| projection.contains(&column) || later.contains(&column);
            row_group.apply(&mut self.filters[index], still_needed, &self.table, &self.metrics).await?;
        }
        self.metrics.rows_filtered.add(row_count - row_group.selection.selected_count());
        if row_group.selection.is_empty() {
            return Ok(());
        }
        row_group.truncate(self.rows_left)?;
        let row_count = row_group.selection.selected_count();
        self.rows_left -= row_count;
        let step = self.pages_at_a_time(&row_group)?;
        if step < self.page_count(&row_group) {
            for &column in &self.projection {
                row_group.bytes_of(column, &self.metrics).await?;
            }
            self.opened = Some(Opened { rows: row_group, page: 0, rows_before: 0, step });
            return Ok(());
        }
        let mut arrays = Vec::with_capacity(self.projection.len());
        for &column in &self.projection {
            arrays.push(row_group.rows_of(column, &self.table, &self.metrics).await?);
        }
        arrays.extend(self.row_numbers(row_group.index, &row_group.selection));
        let options = RecordBatchOptions::new().with_row_count(Some(row_count));
        self.emit(RecordBatch::try_new_with_options(Arc::clone(self.narrow.stored()), arrays, &options)?)
    }

    /// The numbers of the filters that `row_group` is held against, in the order of their evaluation.
    async fn filters_for(&mut self, row_group: &mut RowGroup) -> Result<Vec<usize>> {
        let mut due = Vec::with_capacity(self.filters.len());
        for (index, filter) in self.filters.iter_mut().enumerate() {
            if !filter.holds_throughout(row_group.index) && filter.is_due()? {
                due.push(index);
            }
        }
        let movable: Vec<usize> =
            due.iter().copied().filter(|&index| self.filters[index].may_move()).collect();
        // Static conjuncts have come in the order of what zone maps know of them. Of offers nothing is known.
        let is_guess =
            movable.iter().any(|&index| self.filters[index].is_offer() && self.filters[index].is_new());
        if is_guess && movable.len() > 1 && self.page_count(row_group) >= SAMPLED_PAGES_MIN {
            for index in movable {
                let filter = &mut self.filters[index];
                if filter.is_new() {
                    row_group.sample(filter, &self.table, &self.metrics).await?;
                }
            }
        }
        Ok(by_rank(due, |index| self.filters[index].rank()))
    }

    /// The column of row numbers, where there is one.
    fn row_numbers(&self, row_group: usize, selection: &Selection) -> Option<ArrayRef> {
        self.first_rows.as_ref().map(|first_rows| selection.row_numbers(first_rows[row_group]))
    }

    fn page_count(&self, row_group: &RowGroup) -> usize {
        row_group.row_count.div_ceil(self.table.page_rows() as usize)
    }

    /// Pages of all columns that may be decoded at a time: as many as the share of memory holds.
    fn pages_at_a_time(&self, row_group: &RowGroup) -> Result<usize> {
        let mut bytes = 0;
        for &column in &self.projection {
            bytes += self.table.chunk(row_group.index, column).map_err(to_datafusion)?.raw_bytes;
        }
        let pages = self.page_count(row_group);
        let page_bytes = (bytes as usize / pages.max(1)).max(1);
        Ok((self.share_bytes / page_bytes).max(1))
    }

    /// Has the next pages of `opened` leave.
    fn next_pages(&mut self, mut opened: Opened) -> Result<()> {
        let page_rows = self.table.page_rows() as usize;
        let page_count = self.page_count(&opened.rows);
        let pages = opened.page..(opened.page + opened.step).min(page_count);
        opened.page = pages.end;
        let rows = pages.start * page_rows..(pages.end * page_rows).min(opened.rows.row_count);
        let selection = opened.rows.selection.within(rows);
        let count = selection.selected_count();
        if count > 0 {
            let wanted = selection.wanted(page_rows);
            let columns = self.projection.iter();
            let arrays = columns.map(|&column| match opened.rows.decoded.get(&column) {
                Some(array) => Ok(array.slice(opened.rows_before, count)),
                None => opened.rows.pages_of(column, wanted.as_ref(), &self.table, &self.metrics),
            });
            let mut arrays = arrays.collect::<Result<Vec<_>>>()?;
            arrays.extend(self.row_numbers(opened.rows.index, &selection));
            opened.rows_before += count;
            let options = RecordBatchOptions::new().with_row_count(Some(count));
            self.emit(RecordBatch::try_new_with_options(
                Arc::clone(self.narrow.stored()),
                arrays,
                &options,
            )?)?;
        }
        if opened.page < page_count && opened.rows_before < opened.rows.selection.selected_count() {
            self.opened = Some(opened);
        }
        Ok(())
    }

    /// Cuts large results into batches without copying; collects small ones.
    fn emit(&mut self, rows: RecordBatch) -> Result<()> {
        if self.narrow.stored().fields().is_empty() {
            self.ready.push_back(rows);
            return Ok(());
        }
        for first in (0..rows.num_rows()).step_by(self.batch_rows) {
            let batch = rows.slice(first, self.batch_rows.min(rows.num_rows() - first));
            let is_copied = batch.num_rows() <= self.batch_rows / 2;
            let batch = if self.is_counted && !is_copied { of_own_size(&batch)? } else { batch };
            self.coalescer.push_batch(batch)?;
        }
        self.take_coalesced();
        Ok(())
    }

    fn take_coalesced(&mut self) {
        while let Some(batch) = self.coalescer.next_completed_batch() {
            self.ready.push_back(batch);
        }
    }
}

/// Below this share of selected rows, columns are narrowed to them; above it, filters run over all rows and
/// combine bit by bit, which costs less than moving most of the values.
const NARROW_BELOW: f64 = 1.0 / 8.0;

/// A row group being scanned.
struct RowGroup {
    index: usize,
    row_count: usize,
    /// Chunks whose bytes are on their way or here.
    reads: BTreeMap<usize, ChunkRead>,
    /// Those that are here, and are decoded some pages at a time, or later.
    bytes: BTreeMap<usize, AlignedBytes>,
    /// The columns decoded so far, as they are stored: all their rows until `is_narrow`, then the selected rows.
    decoded: BTreeMap<usize, ArrayRef>,
    is_narrow: bool,
    selection: Selection,
    /// What the selection makes of columns that are decoded now, known once one was.
    wanted: Option<Arc<Wanted>>,
}

impl RowGroup {
    /// Narrows the selection by `filter`; of the decoded columns, those that `still_needed` names are kept.
    async fn apply(
        &mut self,
        filter: &mut ScanFilter,
        still_needed: impl Fn(usize) -> bool,
        table: &Table,
        metrics: &StreamMetrics,
    ) -> Result<()> {
        if !filter.is_cheap() {
            self.narrow()?;
        }
        let mut arrays = Vec::with_capacity(filter.columns.len());
        for &column in &filter.columns {
            arrays.push(self.rows_of(column, table, metrics).await?);
        }
        let started = metrics.now();
        let timer = metrics.time_filter.timer();
        self.decoded.retain(|column, _| still_needed(*column));
        let rows = if self.is_narrow { self.selection.selected_count() } else { self.row_count };
        let passed = filter.evaluate(arrays, rows)?;
        metrics.rows_tested.add(rows);
        if self.is_narrow {
            let row_filter = RowFilter::new(passed.clone());
            for array in self.decoded.values_mut() {
                *array = row_filter.apply(array)?;
            }
            self.select(self.selection.refine(passed));
        } else {
            self.select(self.selection.and(passed));
            if (self.selection.selected_count() as f64) < NARROW_BELOW * self.row_count as f64 {
                self.narrow()?;
            }
        }
        timer.done();
        metrics.traced(Activity::Filter, started, 0);
        Ok(())
    }

    /// Has `filter`, which must not fail, measured on a page from the middle, whose columns are decoded for that alone.
    async fn sample(
        &mut self,
        filter: &mut ScanFilter,
        table: &Table,
        metrics: &StreamMetrics,
    ) -> Result<()> {
        let page_rows = table.page_rows() as usize;
        let first = self.row_count.div_ceil(page_rows) / 2 * page_rows;
        let page = first..(first + page_rows).min(self.row_count);
        let rows = page.len().min(SAMPLED_ROWS) / 2;
        let wanted = Selection::all(self.row_count).within(page).wanted(page_rows);
        let mut arrays = Vec::with_capacity(filter.columns.len());
        for &column in &filter.columns {
            self.bytes_of(column, metrics).await?;
            arrays.push(self.pages_of(column, wanted.as_ref(), table, metrics)?);
        }
        let started = metrics.now();
        let timer = metrics.time_filter.timer();
        for half in [0, rows] {
            filter.evaluate(arrays.iter().map(|array| array.slice(half, rows)).collect(), rows)?;
            metrics.rows_tested.add(rows);
        }
        timer.done();
        metrics.traced(Activity::Filter, started, 0);
        Ok(())
    }

    /// Keeps at most the first `row_limit` selected rows, and of the columns the selected rows alone.
    fn truncate(&mut self, row_limit: usize) -> Result<()> {
        self.narrow()?;
        if row_limit < self.selection.selected_count() {
            for array in self.decoded.values_mut() {
                *array = array.slice(0, row_limit);
            }
            self.select(self.selection.truncate(row_limit));
        }
        Ok(())
    }

    fn select(&mut self, selection: Selection) {
        self.selection = selection;
        self.wanted = None;
    }

    /// From here on, columns hold the selected rows alone.
    fn narrow(&mut self) -> Result<()> {
        if self.is_narrow {
            return Ok(());
        }
        self.is_narrow = true;
        if let Some(row_filter) = self.selection.filter() {
            for array in self.decoded.values_mut() {
                *array = row_filter.apply(array)?;
            }
        }
        Ok(())
    }

    /// The rows of a column that filters look at now, decoded on first use.
    async fn rows_of(&mut self, column: usize, table: &Table, metrics: &StreamMetrics) -> Result<ArrayRef> {
        if !self.decoded.contains_key(&column) {
            self.bytes_of(column, metrics).await?;
            let bytes = self.bytes.remove(&column).expect("read just now, or for a sample");
            let started = metrics.now();
            let timer = metrics.time_decode.timer();
            if self.is_narrow && self.wanted.is_none() {
                self.wanted = self.selection.wanted(table.page_rows() as usize).map(Arc::new);
            }
            let (array, raw_bytes) = self.decode(column, &bytes, self.wanted.as_deref(), table)?;
            timer.done();
            metrics.bytes_decoded.add(raw_bytes as usize);
            metrics.traced(Activity::Decode, started, raw_bytes);
            self.decoded.insert(column, array);
        }
        Ok(Arc::clone(&self.decoded[&column]))
    }

    /// The stored bytes of a column.
    async fn read(&mut self, column: usize, metrics: &StreamMetrics) -> Result<AlignedBytes> {
        let read = self.reads.remove(&column).expect("every needed column is read once");
        let started = metrics.now();
        let timer = metrics.time_read_wait.timer();
        let bytes = read.await.map_err(to_datafusion)?;
        timer.done();
        metrics.traced(Activity::ReadWait, started, bytes.len() as u64);
        metrics.bytes_read.add(bytes.len());
        Ok(bytes)
    }

    /// Waits for the stored bytes of a column, unless they were read or it is decoded already.
    async fn bytes_of(&mut self, column: usize, metrics: &StreamMetrics) -> Result<()> {
        if !self.decoded.contains_key(&column) && !self.bytes.contains_key(&column) {
            let bytes = self.read(column, metrics).await?;
            self.bytes.insert(column, bytes);
        }
        Ok(())
    }

    /// The rows of a column that are wanted. Its stored bytes must have been read before.
    fn pages_of(
        &self,
        column: usize,
        wanted: Option<&Wanted>,
        table: &Table,
        metrics: &StreamMetrics,
    ) -> Result<ArrayRef> {
        let started = metrics.now();
        let timer = metrics.time_decode.timer();
        let (array, raw_bytes) = self.decode(column, &self.bytes[&column], wanted, table)?;
        timer.done();
        metrics.bytes_decoded.add(raw_bytes as usize);
        metrics.traced(Activity::Decode, started, raw_bytes);
        Ok(array)
    }

    /// Decodes the column; once narrow, only the pages that hold a selected row, and drops the other rows. Also gives
    /// the raw bytes of what was decoded: the column's, by share of its rows.
    fn decode(
        &self,
        column: usize,
        bytes: &[u8],
        wanted: Option<&Wanted>,
        table: &Table,
    ) -> Result<(ArrayRef, u64)> {
        let logical = &table.schema().columns[column].logical;
        let decode_pages = || {
            let view = table.chunk_view(self.index, column, bytes)?;
            let decoded = match wanted {
                None => view.decode()?,
                Some(wanted) => view.decode_pages(&wanted.pages)?,
            };
            let rows = decoded.len();
            let keep = wanted.and_then(|wanted| wanted.filter.predicate());
            Ok((column_to_stored_arrow(decoded, logical, keep)?, rows))
        };
        let (array, rows) = decode_pages()
            .map_err(|error: pelton_error::Error| to_datafusion(table.of_chunk(self.index, column, error)))?;
        let chunk_bytes = table.chunk(self.index, column).map_err(to_datafusion)?.raw_bytes as f64;
        let raw_bytes = (chunk_bytes * rows as f64 / self.row_count.max(1) as f64) as u64;
        Ok((array, raw_bytes))
    }
}
