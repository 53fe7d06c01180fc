//! A session: DataFusion set up for one warehouse, with Pelton's rules, memory limit and I/O engine.
//!
//! ```text
//! SQL text ─▶ statements ─▶ logical plan ─▶ physical plan ─▶ rows
//!                              │ DataFusion's rules, the cost-based join order before join selection,
//!                              └ sideways skipping, then what goes to a device
//! ```

use std::path::PathBuf;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{CatalogProvider, MemoryCatalogProvider};
use datafusion::common::format::ExplainFormat;
use datafusion::error::DataFusionError;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::{SendableRecordBatchStream, SessionState, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::{ExecutionPlan, collect, execute_stream};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::parser::{DFParserBuilder, Statement};
use pelton_error::{Error, Result};
use pelton_pipeline::{Runtime, RuntimeOptions};
use pelton_store::{IoEngine, IoOptions, Warehouse};

use crate::catalog::WarehouseSchema;
use crate::depth;
use crate::error::from_datafusion;
use crate::explain;
use crate::gpu::{DeviceChoice, Devices, GpuRule};
use crate::memory::{self, QueryMemory};
use crate::scan::{ScanOptions, ScanReport};
use crate::sideways::SidewaysRule;
use crate::yielding::yielding;

/// What a session may be told; the defaults suit one query at a time on a whole machine.
#[derive(Debug, Clone)]
pub struct SessionOptions {
    /// Partitions a query runs in; `None`: one a core.
    pub threads: Option<usize>,
    /// Rows of a batch between operators.
    pub batch_rows: usize,
    /// Bytes that joins, sorts and aggregates may hold before they spill or fail; `None`: no limit.
    pub memory_limit_bytes: Option<u64>,
    /// How table bytes are read.
    pub io: IoOptions,
    /// What scans may skip by.
    pub scan: ScanOptions,
    /// Whether joins are reordered by cost.
    pub reorder_joins: bool,
    /// Where queries run.
    pub device: DeviceChoice,
    /// Device memory that queries and cached columns may take; `None`: what is free when the session opens.
    pub device_mem_cap_bytes: Option<u64>,
    /// Tables to load into pinned memory when the session opens.
    pub pin: Vec<String>,
    /// Whether a query may name a file in place of a table. Not where queries are those of others: they would read
    /// whatever the process may read.
    pub files_by_path: bool,
    /// How the device is driven; its target and cap follow from the fields above.
    pub runtime: RuntimeOptions,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self {
            threads: None,
            batch_rows: 8192,
            memory_limit_bytes: None,
            io: IoOptions::default(),
            scan: ScanOptions::default(),
            reorder_joins: true,
            device: DeviceChoice::Auto,
            device_mem_cap_bytes: None,
            pin: Vec::new(),
            files_by_path: true,
            runtime: RuntimeOptions::default(),
        }
    }
}

/// Runs SQL over one warehouse, over files by path, and over views and tables of its own.
pub struct PeltonSession {
    ctx: SessionContext,
    warehouse: Option<Arc<Warehouse>>,
    devices: Arc<Devices>,
}

impl PeltonSession {
    /// Opens a session over the warehouse in `directory`; without one, over files alone.
    ///
    /// # Errors
    ///
    /// What a device that was asked for by name lacks; which table could not be pinned; of the warehouse.
    pub fn open(directory: Option<PathBuf>, options: &SessionOptions) -> Result<Self> {
        let warehouse = directory.map(Warehouse::open).transpose()?.map(Arc::new);
        let io = Arc::new(IoEngine::start(options.io.clone())?);
        let devices = devices_of(options, &io)?;
        let schema = WarehouseSchema::new(warehouse.clone(), io, options.scan);
        let catalog = MemoryCatalogProvider::new();
        catalog.register_schema("public", Arc::new(schema)).map_err(from_datafusion)?;
        let state = session_state(options, &devices).map_err(from_datafusion)?;
        let ctx = SessionContext::new_with_state(state);
        ctx.register_catalog("pelton", Arc::new(catalog));
        let ctx = if options.files_by_path { ctx.enable_url_table() } else { ctx };
        let session = Self { ctx, warehouse, devices };
        options.pin.iter().try_for_each(|name| session.pin(name))?;
        Ok(session)
    }

    /// Loads the newest snapshot of table `name` into pinned memory, for queries that a device runs.
    ///
    /// # Errors
    ///
    /// Names the table and what is missing.
    pub fn pin(&self, name: &str) -> Result<()> {
        let Some(warehouse) = &self.warehouse else {
            return Err(Error::invalid_input(format!("no table '{name}' to pin: no warehouse is open")));
        };
        self.devices.pin(&warehouse.table(name)?)
    }

    /// What drives the device, once a query or pinned table has needed it.
    pub fn runtime(&self) -> Option<Arc<Runtime>> {
        self.devices.opened().cloned()
    }

    /// The runtime of the session's device, opened now if no query has.
    ///
    /// # Errors
    ///
    /// What is missing: the driver, NVRTC, a C++ compiler.
    pub fn open_runtime(&self) -> Result<Arc<Runtime>> {
        self.devices.runtime()
    }

    /// DataFusion's context, for all that this type does not offer.
    pub fn context(&self) -> &SessionContext {
        &self.ctx
    }

    /// Splits `sql` into statements; an error names the place. Threads that plan and run them need a stack of
    /// [`STACK_BYTES`](crate::STACK_BYTES).
    pub fn parse(&self, sql: &str) -> Result<Vec<Statement>> {
        depth::check(sql)?;
        let statements = DFParserBuilder::new(sql).build().and_then(|mut parser| parser.parse_statements());
        Ok(statements.map_err(from_datafusion)?.into())
    }

    /// Plans one statement. Definitions (`CREATE VIEW …`) take effect here.
    pub async fn plan(&self, statement: Statement) -> Result<Query> {
        let plan = self.logical(statement).await?;
        self.plan_logical(plan).await
    }

    /// The logical plan of one statement; nothing takes effect yet.
    pub(crate) async fn logical(&self, statement: Statement) -> Result<LogicalPlan> {
        self.ctx.state().statement_to_plan(statement).await.map_err(|error| self.explained(error))
    }

    /// Plans how `plan` runs. Definitions take effect here.
    pub(crate) async fn plan_logical(&self, plan: LogicalPlan) -> Result<Query> {
        match &plan {
            LogicalPlan::Analyze(analyze) => {
                let inner = self.physical(analyze.input.as_ref().clone()).await?;
                Ok(self.to_run(inner, Mode::Analyze))
            }
            LogicalPlan::Explain(explain)
                if explain.explain_format == ExplainFormat::Indent && !explain.verbose =>
            {
                let inner = self.physical(explain.plan.as_ref().clone()).await?;
                Ok(self.to_run(inner, Mode::Explain))
            }
            _ => Ok(self.to_run(self.physical(plan).await?, Mode::Rows)),
        }
    }

    fn to_run(&self, plan: Arc<dyn ExecutionPlan>, mode: Mode) -> Query {
        Query { plan, mode, ctx: self.ctx.clone(), devices: Arc::clone(&self.devices) }
    }

    /// Plans the only statement of `sql`.
    pub async fn query(&self, sql: &str) -> Result<Query> {
        let mut statements = self.parse(sql)?;
        match statements.len() {
            1 => self.plan(statements.remove(0)).await,
            0 => Err(Error::invalid_input("the query is empty")),
            count => Err(Error::invalid_input(format!("one query expected, {count} found"))),
        }
    }

    async fn physical(&self, plan: LogicalPlan) -> Result<Arc<dyn ExecutionPlan>> {
        let frame = self.ctx.execute_logical_plan(plan).await.map_err(|error| self.explained(error))?;
        frame.create_physical_plan().await.map_err(|error| self.explained(error))
    }

    /// Adds to an error of planning what the user can do about it.
    fn explained(&self, error: DataFusionError) -> Error {
        let error = from_datafusion(error);
        let text = error.to_string();
        if !(text.contains("table '") && text.contains("not found")) {
            return error;
        }
        let tables =
            self.warehouse.as_ref().and_then(|warehouse| warehouse.tables().ok()).unwrap_or_default();
        let there_is = match (&self.warehouse, tables.is_empty()) {
            (None, _) => {
                "no warehouse is open: name one with --warehouse, or a file as 'path/file.parquet'".to_owned()
            }
            (Some(_), true) => "the warehouse has no tables yet: `pelton load` makes one".to_owned(),
            (Some(_), false) => format!("tables in this warehouse: {}", tables.join(", ")),
        };
        Error::invalid_input(format!("{text}; {there_is}"))
    }
}

/// The devices that `options` ask for; one that was asked for by name is opened at once.
fn devices_of(options: &SessionOptions, io: &Arc<IoEngine>) -> Result<Arc<Devices>> {
    let cap = options.device_mem_cap_bytes.or(options.runtime.device_cap_bytes);
    let runtime = RuntimeOptions { device_cap_bytes: cap, ..options.runtime.clone() };
    let threads = options.threads.or_else(|| std::thread::available_parallelism().ok().map(Into::into));
    let devices = Devices::new(options.device, runtime, Arc::clone(io), threads.unwrap_or(1));
    if matches!(options.device, DeviceChoice::Gpu(_) | DeviceChoice::Host) {
        devices.runtime()?;
    }
    Ok(devices)
}

/// Adds to a DataFusion session of one's own that subtrees over Pelton tables run on `devices`. Call it last: the rule
/// must come after all others.
pub fn with_gpu(builder: SessionStateBuilder, devices: &Arc<Devices>) -> SessionStateBuilder {
    builder.with_physical_optimizer_rule(Arc::new(GpuRule::new(Arc::clone(devices))))
}

fn session_state(
    options: &SessionOptions,
    devices: &Arc<Devices>,
) -> datafusion::error::Result<SessionState> {
    let mut config = SessionConfig::new()
        .with_batch_size(options.batch_rows)
        .with_information_schema(true)
        .with_default_catalog_and_schema("pelton", "public")
        .with_create_default_catalog_and_schema(false);
    if let Some(threads) = options.threads {
        config = config.with_target_partitions(threads);
    }
    let mut runtime = RuntimeEnvBuilder::new();
    if let Some(limit) = options.memory_limit_bytes {
        // Each sort holds this back for its merge: a fixed 10 MB would leave small limits nothing to sort in.
        let merge_bytes = config.options().execution.sort_spill_reservation_bytes.min(pool_share(limit));
        config = config.with_sort_spill_reservation_bytes(merge_bytes);
        runtime = runtime.with_memory_pool(memory::bounded(limit));
    }
    let mut rules = PhysicalOptimizer::new().rules;
    if options.reorder_joins {
        rules = pelton_planner::install(rules);
    }
    rules.push(Arc::new(SidewaysRule));
    let builder = SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(Arc::new(runtime.build()?))
        .with_default_features()
        .with_physical_optimizer_rules(rules);
    Ok(with_gpu(builder, devices).build())
}

/// A sixteenth of the memory limit.
fn pool_share(limit_bytes: u64) -> usize {
    usize::try_from(limit_bytes / 16).unwrap_or(usize::MAX)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Rows,
    Explain,
    Analyze,
}

/// A planned statement. It can be run, and afterwards asked what it read.
pub struct Query {
    plan: Arc<dyn ExecutionPlan>,
    mode: Mode,
    ctx: SessionContext,
    devices: Arc<Devices>,
}

impl Query {
    /// The columns of the result.
    pub fn schema(&self) -> SchemaRef {
        match self.mode {
            Mode::Rows => self.plan.schema(),
            Mode::Explain | Mode::Analyze => explain::schema(),
        }
    }

    /// True for EXPLAIN and EXPLAIN ANALYZE, whose rows are text to read.
    pub fn is_explanation(&self) -> bool {
        self.mode != Mode::Rows
    }

    /// The physical plan.
    pub fn physical_plan(&self) -> &Arc<dyn ExecutionPlan> {
        &self.plan
    }

    /// Runs the query in the session's memory; dropping the stream cancels it.
    pub async fn stream(&self) -> Result<SendableRecordBatchStream> {
        self.stream_of(&self.plan, self.ctx.task_ctx()).await
    }

    /// Runs the query in memory of its own; dropping the stream cancels it, soon even where a join makes many rows of
    /// few.
    pub async fn stream_within(&self, memory: &QueryMemory) -> Result<SendableRecordBatchStream> {
        let task = TaskContext::from(&self.ctx);
        let runtime = RuntimeEnv { memory_pool: memory.pool(), ..task.runtime_env().as_ref().clone() };
        let plan = yielding(Arc::clone(&self.plan)).map_err(from_datafusion)?;
        self.stream_of(&plan, Arc::new(task.with_runtime(Arc::new(runtime)))).await
    }

    async fn stream_of(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        task: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        match self.mode {
            Mode::Rows => execute_stream(Arc::clone(plan), task).map_err(from_datafusion),
            Mode::Explain => explain::stream(&self.plan, &self.devices, None),
            Mode::Analyze => {
                let start = std::time::Instant::now();
                let batches = collect(Arc::clone(&self.plan), task).await.map_err(from_datafusion)?;
                let rows = batches.iter().map(RecordBatch::num_rows).sum();
                explain::stream(
                    &self.plan,
                    &self.devices,
                    Some(explain::Ran { rows, elapsed: start.elapsed() }),
                )
            }
        }
    }

    /// Runs the query to its end.
    pub async fn collect(&self) -> Result<Vec<RecordBatch>> {
        datafusion::physical_plan::common::collect(self.stream().await?).await.map_err(from_datafusion)
    }

    /// What each scan skipped, read and answered for; meaningful once the query has run.
    pub fn scan_reports(&self) -> Result<Vec<ScanReport>> {
        explain::scan_reports(&self.plan)
    }
}
