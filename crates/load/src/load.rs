//! The process of a load, from its request to the commit.
//!
//! ```text
//!  1. hold the inputs to one schema                              pelton_files
//!  2. load the declared dimensions                               dimension, sideways
//!  3. take the table's lock; nothing is read before              store
//!  4. stage what can be read only once                           stage
//!  5. sample                                                     sample
//!  6. sort, where asked for, and sample the sorted rows          cluster, sort, merge
//!  7. choose encodings from the sample                           store
//!  8. encode row groups on all threads, append them in order     write
//!  9. commit
//! ```
//!
//! Until step 9 the table is what it was: an error, a cancellation or a kill leaves nothing but files that
//! the next writer removes.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use pelton_error::{Error, Result};
use pelton_files::{InferRows, OpenOptions, Sources, TextOptions, View, list};
use pelton_store::{
    DEFAULT_ROW_GROUP_ROWS, SampleOptions, Table, TablePlan, TableSchema, TableWriter, Warehouse, WriteMode,
    WriteOptions, choose,
};
use pelton_zone::{ZoneMap, ZoneOptions};

use crate::budget::{Budget, batch_bytes};
use crate::cluster::Cluster;
use crate::dimension::own_links;
use crate::progress::{Meter, Phase, Progress};
use crate::reader::OrderedReader;
use crate::report::{Clock, LoadReport};
use crate::request::{ClusterBy, LoadOptions, LoadRequest, StarLink};
use crate::row_groups::{RowGroups, column_of};
use crate::sample::{SampleSize, Sampled, sample_runs, sample_sources, sample_stage};
use crate::scratch::Scratch;
use crate::sideways::Sideways;
use crate::sort::{SortContext, SortKeys, SortedRuns, sort};
use crate::stage::Stage;
use crate::staging::{conform, staging_schema};
use crate::write::{Encoding, GroupRows, Written, write_rows};
use pelton_error::CancelFlag;

type Batches<'a> = Box<dyn Iterator<Item = Result<RecordBatch>> + 'a>;

/// Loads the files that `request` names, on disk or in object stores.
///
/// # Errors
///
/// `InvalidInput` names file, line and column of what does not fit; `Corrupt` the file that cannot be read; `Io` the
/// store that does not answer;
/// `Cancelled` once `cancel` is set. The table is then what it was.
pub fn load(
    warehouse: &Warehouse,
    request: &LoadRequest,
    progress: &dyn Progress,
    cancel: &CancelFlag,
) -> Result<LoadReport> {
    let first = attempt(warehouse, request, &request.text, progress, cancel);
    let Err(Failure { error, may_infer_wider: true }) = first else {
        return first.map_err(|failure| failure.error);
    };
    // A value after the rows that types were inferred from is none of its column's type: what type holds them all?
    let all = TextOptions { infer_rows: InferRows::All, ..request.text.clone() };
    let second = attempt(warehouse, request, &all, progress, cancel);
    let mut report = second.map_err(|failure| failure.error)?;
    report.warnings.push(format!("types were inferred from all rows, because of {error}"));
    Ok(report)
}

/// Why a load failed.
struct Failure {
    error: Error,
    /// Types inferred from more rows may hold what these did not.
    may_infer_wider: bool,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { error, may_infer_wider: false }
    }
}

/// [`load`], with types as `text` has them inferred.
fn attempt(
    warehouse: &Warehouse,
    request: &LoadRequest,
    text: &TextOptions,
    progress: &dyn Progress,
    cancel: &CancelFlag,
) -> std::result::Result<LoadReport, Failure> {
    let previous = appended_to(warehouse, request)?;
    let expected = previous.as_deref().map(|table| staging_schema(table.schema()));
    let input_bytes = Arc::default();
    let LoadOptions { memory_limit_bytes, thread_count, .. } = request.options;
    let options = OpenOptions {
        text,
        expected: expected.as_deref(),
        input_bytes: Arc::clone(&input_bytes),
        share_bytes: Budget::object_bytes(memory_limit_bytes, thread_count),
        thread_count,
        cancel,
    };
    let sources = Arc::new(Sources::open(list(&request.inputs, request.format, cancel)?, options)?);
    let meter = Meter::new(progress, input_bytes, Some(sources.total_bytes()));
    let mut log = Log::new(meter, sources.warnings().to_vec());
    let (columns, schema) = match &request.columns {
        Some(names) => some_columns(&sources, names)?,
        None => {
            let all = (0..sources.schema().fields().len()).collect();
            (all, table_schema(&sources, previous.as_deref())?)
        }
    };
    let load = Load::new(warehouse, request, cancel, schema)?;
    let view = sources.view_of(columns, Arc::clone(&load.staging));
    let loaded = load.run(Input::Sources(view), previous.as_deref(), &mut log);
    loaded.map_err(|error| Failure { error, may_infer_wider: sources.may_infer_wider() })
}

/// The table that the files make, or add to; columns become nullable where they are in either.
fn table_schema(sources: &Sources, previous: Option<&Table>) -> Result<TableSchema> {
    let named = |error: Error| error.context(sources.file_name(0));
    let found = TableSchema::from_arrow(sources.schema()).map_err(named)?;
    let Some(previous) = previous else { return Ok(found) };
    let mut schema = previous.schema().clone();
    for (column, found) in schema.columns.iter_mut().zip(&found.columns) {
        column.nullable |= found.nullable;
    }
    Ok(schema)
}

/// The columns called `names`, in this order, of files that have them alike: where they are, and the table that they make.
fn some_columns(sources: &Sources, names: &[String]) -> Result<(Vec<usize>, TableSchema)> {
    let all = sources.schema();
    let place = |name: &String| {
        let found = all.index_of(name).ok().filter(|&column| sources.is_alike(column));
        found.ok_or_else(|| Error::unsupported(format!("column '{name}' is not of one type in every file")))
    };
    let columns = names.iter().map(place).collect::<Result<Vec<_>>>()?;
    let fields: Vec<FieldRef> = columns.iter().map(|&column| Arc::clone(&all.fields()[column])).collect();
    Ok((columns, TableSchema::from_arrow(&Schema::new(fields))?))
}

/// Loads `batches` of `schema`, as generators make them; `request.inputs` is not looked at.
///
/// # Errors
///
/// As [`load`], and the errors of `batches` themselves.
pub fn load_batches(
    warehouse: &Warehouse,
    request: &LoadRequest,
    schema: &SchemaRef,
    batches: Box<dyn Iterator<Item = Result<RecordBatch>> + Send>,
    progress: &dyn Progress,
    cancel: &CancelFlag,
) -> Result<LoadReport> {
    let previous = appended_to(warehouse, request)?;
    let load = Load::new(warehouse, request, cancel, TableSchema::from_arrow(schema)?)?;
    let staging = Arc::clone(&load.staging);
    let conformed = batches.map(move |batch| conform(&batch?, &staging));
    let mut log = Log::new(Meter::new(progress, Arc::default(), None), Vec::new());
    load.run(Input::Batches(Box::new(conformed)), previous.as_deref(), &mut log)
}

fn appended_to(warehouse: &Warehouse, request: &LoadRequest) -> Result<Option<Arc<Table>>> {
    match request.mode {
        WriteMode::Append if warehouse.has_table(&request.table) => warehouse.table(&request.table).map(Some),
        _ => Ok(None),
    }
}

/// Where rows come from.
enum Input {
    /// Files.
    Sources(View),
    /// Batches that can be taken once.
    Batches(Batches<'static>),
    /// Rows taken in before.
    Stage(Stage),
}

/// What the load tells its caller.
struct Log<'p> {
    meter: Meter<'p>,
    clock: Clock,
    warnings: Vec<String>,
}

impl<'p> Log<'p> {
    fn new(meter: Meter<'p>, warnings: Vec<String>) -> Self {
        Self { meter, clock: Clock::start(Phase::Sampling), warnings }
    }

    fn enter(&mut self, phase: Phase, row_count_total: Option<u64>) {
        self.clock.enter(phase);
        self.meter.enter(phase, row_count_total);
    }

    fn count(&mut self, batch: &RecordBatch) {
        self.meter.add(batch.num_rows() as u64, batch_bytes(batch));
    }
}

/// Refuses sizes that cannot be written before anything is read.
fn check_sizes(choose: &SampleOptions) -> Result<()> {
    let page_rows = choose.page_rows;
    choose.row_group_rows.iter().try_for_each(|&row_group_rows| {
        TablePlan { row_group_rows, page_rows, ..TablePlan::new(Vec::new()) }.validate()
    })
}

/// From here on a row is wide: 128 numbers of 8 bytes.
const WIDE_ROW_BYTES: u64 = 1024;
/// A row group of wide rows is held to this, uncompressed: a query holds one as it is stored.
const ROW_GROUP_BYTES_MAX: u64 = 256 << 20;
/// Metadata is some KiB for each column and row group: fewer rows than this are not worth it.
const ROW_GROUP_ROWS_MIN: u32 = 1024;
/// Bytes that a text is taken for.
const TEXT_BYTES: usize = 32;

/// What stays the same during a load.
struct Load<'a> {
    warehouse: &'a Warehouse,
    request: &'a LoadRequest,
    cancel: &'a CancelFlag,
    schema: TableSchema,
    staging: SchemaRef,
    budget: Arc<Budget>,
    scratch: Scratch,
}

impl<'a> Load<'a> {
    fn new(
        warehouse: &'a Warehouse,
        request: &'a LoadRequest,
        cancel: &'a CancelFlag,
        schema: TableSchema,
    ) -> Result<Self> {
        let options = &request.options;
        if options.thread_count == 0 {
            return Err(Error::invalid_input("a load needs at least one thread"));
        }
        check_sizes(&options.choose)?;
        let staging = staging_schema(&schema);
        let budget = Budget::new(options.memory_limit_bytes);
        let scratch = Scratch::new(warehouse.dir(), &options.spill);
        Ok(Self { warehouse, request, cancel, schema, staging, budget, scratch })
    }

    /// Steps 2 to 9.
    fn run(&self, input: Input, previous: Option<&Table>, log: &mut Log<'_>) -> Result<LoadReport> {
        let links = links(self.request, previous);
        let thread_count = self.request.options.thread_count;
        let sideways =
            Sideways::load(self.warehouse, &self.schema, &links, &self.budget, thread_count, self.cancel)?;
        log.warnings.extend(sideways.warnings.iter().cloned());
        log.warnings.extend(previous.and_then(|table| lost_metadata(table, &sideways)));
        let mut writer = self.begin(&sideways)?;
        let options = self.sample_options(writer.appended_to());
        let size = self.sample_size(&options);

        let input = self.stage_where_needed(input, log)?;
        log.enter(Phase::Sampling, None);
        let cluster = self.resolve_cluster(&input, &size, &sideways)?;
        let mut write = Write { load: self, options: &options, sideways: &sideways, writer: &mut writer };
        let (plan, written) = match &cluster {
            None => write.as_it_comes(input, &size, log)?,
            Some(cluster) => write.sorted(input, cluster, &size, log)?,
        };
        self.cancel.check()?;
        writer.set_cluster_by(cluster.as_ref().map_or(Vec::new(), Cluster::names));
        let metadata_before = writer.appended_to().map_or(0, |table| metadata_bytes(table));
        let table = writer.commit()?;
        Ok(LoadReport {
            row_count: written.row_count,
            row_group_count: written.row_group_count,
            row_group_rows: table.row_group_rows(),
            raw_bytes: written.raw_bytes,
            stored_bytes: written.stored_bytes,
            metadata_bytes: metadata_bytes(&table).saturating_sub(metadata_before) + written.sideways_bytes,
            spilled_bytes: self.scratch.spilled_bytes(),
            held_bytes_max: self.budget.held_bytes_max(),
            phases: log.clock.stop(),
            cluster_by: cluster.map_or(Vec::new(), |cluster| cluster.names()),
            choices: plan.map_or(Vec::new(), |plan| plan.columns),
            warnings: std::mem::take(&mut log.warnings),
        })
    }

    fn begin(&self, sideways: &Sideways) -> Result<TableWriter> {
        let options =
            WriteOptions { sideways: sideways.columns.clone(), is_scratch: self.request.is_scratch };
        let LoadRequest { table, mode, .. } = self.request;
        TableWriter::begin(self.warehouse, table, self.schema.clone(), *mode, options)
    }

    /// The options asked for, with the sizes of the table that is appended to.
    fn sample_options(&self, appended_to: Option<&Arc<Table>>) -> SampleOptions {
        let mut options = self.request.options.choose.clone();
        if let Some(table) = appended_to {
            options.row_group_rows = vec![table.row_group_rows()];
            options.page_rows = table.page_rows();
        } else if options.row_group_rows == [DEFAULT_ROW_GROUP_ROWS] {
            options.row_group_rows = vec![self.usual_row_group_rows()];
        }
        options
    }

    /// Rows of a row group where nobody says: fewer of a wide table, so that a quarter of what may be encoded at a time
    /// holds one, and [`ROW_GROUP_BYTES_MAX`] does.
    fn usual_row_group_rows(&self) -> u32 {
        let width = |field: &FieldRef| field.data_type().primitive_width().unwrap_or(TEXT_BYTES) as u64;
        let row_bytes: u64 = self.staging.fields().iter().map(width).sum();
        if row_bytes < WIDE_ROW_BYTES {
            return DEFAULT_ROW_GROUP_ROWS;
        }
        let rows = (self.budget.encode_bytes() / 4).min(ROW_GROUP_BYTES_MAX) / row_bytes;
        let rows = u32::try_from(rows).unwrap_or(DEFAULT_ROW_GROUP_ROWS);
        // The power of two below.
        (1 << rows.max(1).ilog2()).clamp(ROW_GROUP_ROWS_MIN, DEFAULT_ROW_GROUP_ROWS)
    }

    fn sample_size(&self, options: &SampleOptions) -> SampleSize {
        let LoadOptions { sample_ratio: ratio, sample_row_groups_max: most, seed, .. } = self.request.options;
        let row_group_rows = options.row_group_rows.iter().copied().max().unwrap_or(DEFAULT_ROW_GROUP_ROWS);
        // No more than the choice looks at.
        let most = most.min(options.rows_max.div_ceil(row_group_rows.max(1).into()));
        SampleSize::row_groups(row_group_rows, ratio, most, seed)
    }

    /// Takes in what can be read only once.
    fn stage_where_needed(&self, input: Input, log: &mut Log<'_>) -> Result<Input> {
        if matches!(&input, Input::Sources(view) if view.sources().is_random_access()) {
            return Ok(input);
        }
        log.enter(Phase::Staging, None);
        let batches = self.batches(input)?;
        let stage =
            Stage::collect(batches, &self.staging, &self.scratch, &self.budget, self.cancel, |batch| {
                log.count(batch);
            })?;
        Ok(Input::Stage(stage))
    }

    fn sample(&self, input: &Input, size: &SampleSize) -> Result<Sampled> {
        match input {
            Input::Sources(view) => sample_sources(view, size, &self.budget, self.cancel),
            Input::Stage(stage) => sample_stage(stage, size, &self.budget),
            Input::Batches(_) => unreachable!("batches that can be taken once are staged before"),
        }
    }

    fn known_row_count(&self, input: &Input) -> Option<u64> {
        match input {
            Input::Sources(view) => view.sources().row_count(),
            Input::Stage(stage) => Some(stage.row_count()),
            Input::Batches(_) => None,
        }
    }

    /// All rows of `input`, in order.
    fn batches(&self, input: Input) -> Result<Batches<'static>> {
        let thread_count = self.request.options.thread_count;
        Ok(match input {
            Input::Sources(view) => {
                Box::new(OrderedReader::start(&view, thread_count, &self.budget, self.cancel))
            }
            Input::Stage(stage) => Box::new(stage.into_batches()?),
            Input::Batches(batches) => batches,
        })
    }

    /// By what to sort; distinct values of the table's own columns are counted in a sample.
    fn resolve_cluster<'s>(
        &'s self,
        input: &Input,
        size: &SampleSize,
        sideways: &'s Sideways,
    ) -> Result<Option<Cluster<'s>>> {
        if self.request.cluster_by == ClusterBy::None {
            return Ok(None);
        }
        let sampled = self.sample(input, &SampleSize::spread(size.seed))?;
        if sampled.row_count() == 0 {
            return Ok(None);
        }
        let row_count = match input {
            Input::Sources(view) => {
                let sources = view.sources();
                sources.row_count().unwrap_or_else(|| sampled.extrapolated_row_count(sources.total_bytes()))
            }
            Input::Stage(_) | Input::Batches(_) => self.known_row_count(input).unwrap_or(0),
        };
        let batches: Vec<RecordBatch> = sampled.runs.iter().flatten().cloned().collect();
        let distinct_count = |column: usize| {
            let values = column_of(&batches, column, &self.schema)?;
            Ok(u64::from(ZoneMap::build(&values, &ZoneOptions::default()).0.distinct_count))
        };
        let row_group_count = row_count.div_ceil(size.run_rows);
        let cluster_by = &self.request.cluster_by;
        Cluster::resolve(cluster_by, &self.schema, &self.staging, sideways, row_group_count, distinct_count)
    }
}

/// The writing half of a load.
struct Write<'a, 'w> {
    load: &'a Load<'a>,
    options: &'a SampleOptions,
    sideways: &'a Sideways,
    writer: &'w mut TableWriter,
}

impl Write<'_, '_> {
    /// Chooses encodings; `None` where there are no rows.
    fn choose(&mut self, sampled: Sampled) -> Result<Option<TablePlan>> {
        if sampled.row_count() == 0 {
            return Ok(None);
        }
        let plan = choose(&sampled.into_sample(&self.load.schema)?, self.options)?;
        self.writer.set_plan(&plan)?;
        Ok(Some(plan))
    }

    /// Samples, chooses encodings and writes.
    fn as_it_comes(
        &mut self,
        input: Input,
        size: &SampleSize,
        log: &mut Log<'_>,
    ) -> Result<(Option<TablePlan>, Written)> {
        let load = self.load;
        let plan = self.choose(load.sample(&input, size)?)?;
        let row_count = load.known_row_count(&input);
        let written = self.batches(load.batches(input)?, &plan, row_count, log)?;
        Ok((plan, written))
    }

    /// Encodes and appends `batches`.
    fn batches(
        &mut self,
        batches: impl Iterator<Item = Result<RecordBatch>>,
        plan: &Option<TablePlan>,
        row_count: Option<u64>,
        log: &mut Log<'_>,
    ) -> Result<Written> {
        let Some(plan) = plan else { return no_rows(batches) };
        let row_groups = RowGroups::new(batches, plan.row_group_rows, &self.load.budget);
        self.rows(row_groups.map(|rows| rows.map(GroupRows::Staged)), plan, row_count, log)
    }

    /// Encodes and appends `row_groups`.
    fn rows<'r>(
        &mut self,
        row_groups: impl Iterator<Item = Result<GroupRows<'r>>>,
        plan: &TablePlan,
        row_count: Option<u64>,
        log: &mut Log<'_>,
    ) -> Result<Written> {
        log.enter(Phase::Writing, row_count);
        let encoding = Encoding {
            schema: &self.load.schema,
            plan,
            sideways: self.sideways,
            budget: &self.load.budget,
            cancel: self.load.cancel,
            thread_count: self.load.request.options.thread_count,
        };
        write_rows(row_groups, &encoding, self.writer, &mut log.meter)
    }

    /// Sorts, samples the sorted rows, chooses encodings from them and writes.
    fn sorted(
        &mut self,
        input: Input,
        cluster: &Cluster<'_>,
        size: &SampleSize,
        log: &mut Log<'_>,
    ) -> Result<(Option<TablePlan>, Written)> {
        let load = self.load;
        let row_count = load.known_row_count(&input);
        let context = SortContext {
            keys: SortKeys::new(cluster)?,
            schema: Arc::clone(&load.staging),
            scratch: &load.scratch,
            budget: &load.budget,
            cancel: load.cancel,
            thread_count: load.request.options.thread_count,
        };
        log.enter(Phase::Sorting, row_count);
        let runs = sort(&context, load.batches(input)?, |batch| log.count(batch))?;
        log.enter(Phase::Sampling, None);
        let plan = self.choose(sample_runs(&runs, size, &context)?)?;
        log.enter(Phase::Sorting, None);
        let written = match (&runs, &plan) {
            (SortedRuns::Memory(run), Some(plan)) => {
                self.rows(run.row_groups(plan.row_group_rows).map(Ok), plan, row_count, log)?
            }
            _ => self.batches(runs.into_batches(&context)?, &plan, row_count, log)?,
        };
        Ok((plan, written))
    }
}

/// A sample is empty only where there are no rows at all; this holds the input to it.
fn no_rows(mut batches: impl Iterator<Item = Result<RecordBatch>>) -> Result<Written> {
    match batches.find(|batch| batch.as_ref().map_or(true, |batch| batch.num_rows() > 0)) {
        None => Ok(Written::default()),
        Some(Err(error)) => Err(error),
        Some(Ok(_)) => unreachable!("an input with rows has a sample with rows"),
    }
}

/// The links asked for; an append without any takes those of the table.
fn links(request: &LoadRequest, previous: Option<&Table>) -> Vec<StarLink> {
    let mut links = request.star.clone();
    if let (true, Some(table)) = (links.is_empty(), previous) {
        links.extend(own_links(table).into_iter().map(|link| StarLink {
            fact_column: link.fact_column,
            dimension_table: link.dimension_table,
            dimension_key: link.dimension_key,
        }));
    }
    links
}

/// Metadata survives an append only where old and new rows have it for the same state of the dimension.
fn lost_metadata(table: &Table, sideways: &Sideways) -> Option<String> {
    let lost = table.sideways().iter().filter(|column| !sideways.columns.contains(column));
    let mut dimensions: Vec<&str> =
        lost.map(|column| column.path.last().expect("a path has a link").dimension_table.as_str()).collect();
    dimensions.sort_unstable();
    dimensions.dedup();
    (!dimensions.is_empty()).then(|| {
        format!(
            "the rows already in '{}' were written for another state of {} (or the link was not declared again), so \
             metadata on attributes of it no longer skips row groups; replace the table to have it again",
            table.name(),
            dimensions.join(", ")
        )
    })
}

/// Bytes of zone maps and sketches of the table's own columns.
fn metadata_bytes(table: &Table) -> u64 {
    (0..table.schema().columns.len()).map(|column| table.column_summary(column).metadata_bytes).sum()
}
