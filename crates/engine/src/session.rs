//! A session: DataFusion set up for one warehouse, with Pelton's rules, memory limit and I/O engine.
//!
//! ```text
//! SQL text ─▶ statements ─▶ logical plan ─▶ physical plan ─▶ rows
//!                              │ DataFusion's rules, the cost-based join order before join selection,
//!                              └ sideways skipping, then what goes to a device
//! ```
//!
//! What it gives to wait for is boxed: all of planning would otherwise be compiled again in each crate that waits for it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{CatalogProvider, MemoryCatalogProvider};
use datafusion::common::format::ExplainFormat;
use datafusion::error::DataFusionError;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::{SendableRecordBatchStream, SessionState, SessionStateBuilder, TaskContext};
use datafusion::logical_expr::{DdlStatement, LogicalPlan, LogicalPlanBuilder};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::common::collect as drained;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::parser::Statement;
use futures::future::BoxFuture;
use pelton_error::{CancelFlag, Error, Result};
use pelton_exec::{Runtime, RuntimeOptions};
use pelton_io::IoOptions;
use pelton_limits::{Account, SpillOptions, SpillSpace, go_on_with_huge_pages};
use pelton_store::Warehouse;

use crate::ahead;
use crate::bounded;
use crate::catalog::{CATALOG, SCHEMA, WarehouseSchema};
use crate::copies::{Copies, CopyColumns, FromCopies, ToCopies};
use crate::error::from_datafusion;
use crate::expansion;
use crate::explain;
use crate::extension::with_pelton;
use crate::files::{FileSettings, with_files};
use crate::gpu::{DeviceChoice, DeviceHandle, GpuRule, StepTime, is_on_trial};
use crate::kept::{Keep, KeptStatements, concerns_kept, values_statement};
use crate::memory::{self, QueryMemory};
use crate::metered::{self, metered};
use crate::names;
use crate::parse::parse;
use crate::plan_cache::{Basis, CachedPlan, Now, Optimized, PlanCache, is_of_one_schema};
use crate::planning::{self, PlanSize};
use crate::profile::{self, Parts, ProfileContext, QueryProfile, QueryState, Recorder};
use crate::scan::{ScanOptions, ScanReport};
use crate::spill;
use crate::spilling;
use crate::sql_types;
use crate::titles::{Titles, titles_of};
use crate::version::version;
use crate::yielding::stoppable;

/// Threads that a session may be told to run queries in, at most: each has a stack of its own, and buffers.
pub const THREADS_MAX: usize = 1024;

/// What a session may be told; the defaults suit one query at a time on a whole machine.
#[derive(Debug, Clone)]
pub struct SessionOptions {
    /// Partitions a query runs in; `None`: one a core.
    pub threads: Option<usize>,
    /// Rows of a batch between operators.
    pub batch_rows: usize,
    /// Bytes that joins, sorts and aggregates may hold before they spill or fail; `None`: no limit.
    pub memory_limit_bytes: Option<u64>,
    /// Where operators spill, and how much.
    pub spill: SpillOptions,
    /// How table bytes are read.
    pub io: IoOptions,
    /// What scans may skip by.
    pub scan: ScanOptions,
    /// Whether joins are reordered by cost.
    pub reorder_joins: bool,
    /// Build sides of fewer rows are left to one thread, and to DataFusion's operator.
    pub table_rows_min: usize,
    /// Where queries run.
    pub device: DeviceChoice,
    /// Devices that work on a query together, from the first that `device` names on; of 1, those of `runtime`.
    pub device_count: u32,
    /// Device memory that queries and cached columns may take; `None`: what is free when the session opens.
    pub device_memory_limit_bytes: Option<u64>,
    /// Memory for kernels compiled for the host's cores, and the columns that they read, where `device` is `Auto` and finds no
    /// GPU; beside `memory_limit_bytes`. 0: nothing is compiled there.
    pub host_kernel_bytes: u64,
    /// Tables to load into pinned memory when the session opens.
    pub pin: Vec<String>,
    /// Whether plans are cached for the next query of the same text.
    pub cache_plans: bool,
    /// When columns of Parquet files that a query has read are encoded for the next one, which then runs as over a table.
    pub copy_columns: CopyColumns,
    /// Whether a query may name a file in place of a table. Not where queries are those of others: they would read
    /// whatever the process may read.
    pub files_by_path: bool,
    /// How text files that queries name are read, until SET says otherwise.
    pub files: FileSettings,
    /// How the device is driven; its target and memory limit follow from the fields above.
    pub runtime: RuntimeOptions,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self {
            threads: None,
            batch_rows: 8192,
            memory_limit_bytes: None,
            spill: SpillOptions::default(),
            io: IoOptions::default(),
            scan: ScanOptions::default(),
            reorder_joins: true,
            table_rows_min: 8192,
            device: DeviceChoice::Auto,
            device_count: 1,
            device_memory_limit_bytes: None,
            host_kernel_bytes: 0,
            pin: Vec::new(),
            cache_plans: true,
            copy_columns: CopyColumns::default(),
            files_by_path: true,
            files: FileSettings::default(),
            runtime: RuntimeOptions::default(),
        }
    }
}

/// Runs SQL over one warehouse, over files by path, and over views and tables of its own.
pub struct PeltonSession {
    ctx: SessionContext,
    warehouse: Option<Arc<Warehouse>>,
    schema: Arc<WarehouseSchema>,
    device: Arc<DeviceHandle>,
    /// `None`: every query is planned.
    plans: Option<PlanCache>,
    reads_files: bool,
    memory_limit_bytes: Option<u64>,
    copies: Arc<Copies>,
    kept: Arc<KeptStatements>,
}

impl PeltonSession {
    /// Opens a session over the warehouse in `directory`; without one, over files alone.
    ///
    /// # Errors
    ///
    /// What a device that was asked for by name lacks; which table could not be pinned; of the warehouse.
    pub fn open(directory: Option<PathBuf>, options: &SessionOptions) -> Result<Self> {
        let warehouse = directory.map(Warehouse::open).transpose()?.map(Arc::new);
        let extension = with_pelton(session_state(options).map_err(from_datafusion)?, options)?;
        let schema = WarehouseSchema::new(warehouse.clone(), Arc::clone(extension.io()), options.scan);
        let schema = Arc::new(schema);
        let catalog = MemoryCatalogProvider::new();
        catalog.register_schema(SCHEMA, Arc::clone(&schema) as _).map_err(from_datafusion)?;
        let ctx = SessionContext::new_with_state(extension.builder.build());
        ctx.register_catalog(CATALOG, Arc::new(catalog));
        ctx.register_udf(version());
        let plans = options.cache_plans.then(PlanCache::default);
        let ctx = if options.files_by_path { with_files(ctx) } else { ctx };
        let (device, copies) = (extension.device, extension.copies);
        let reads_files = options.files_by_path;
        let memory_limit_bytes = options.memory_limit_bytes;
        let kept = Arc::default();
        let session =
            Self { ctx, warehouse, schema, device, plans, reads_files, memory_limit_bytes, copies, kept };
        if !options.pin.is_empty() {
            go_on_with_huge_pages();
        }
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
        self.device.pin(&warehouse.table(name)?)
    }

    /// This session, with its tables, views and settings, on another device: all queries planned from now on, here too,
    /// run on `choice`. What was pinned for the old device is not pinned for the new one.
    ///
    /// # Errors
    ///
    /// What a device that was asked for by name lacks; the session then stays as it was.
    pub fn on_device(&self, choice: DeviceChoice) -> Result<Self> {
        let device = self.device.with_choice(choice);
        if choice.is_by_name() {
            device.runtime()?;
        }
        let state = self.ctx.state();
        let id = state.session_id().to_owned();
        type Rule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;
        let on_device = |rule: &Rule| -> Rule {
            match rule.name() {
                GpuRule::NAME => Arc::new(GpuRule::new(Arc::clone(&device))),
                FromCopies::NAME => Arc::new(FromCopies::new(&self.copies, &device)),
                ToCopies::NAME => Arc::new(ToCopies::new(&self.copies, &device)),
                _ => Arc::clone(rule),
            }
        };
        let rules = state.physical_optimizers().iter().map(on_device).collect();
        let builder = SessionStateBuilder::new_from_existing(state)
            .with_session_id(id)
            .with_physical_optimizer_rules(rules);
        *self.ctx.state_ref().write() = builder.build();
        self.plans.iter().for_each(PlanCache::clear);
        Ok(Self {
            ctx: self.ctx.clone(),
            warehouse: self.warehouse.clone(),
            schema: Arc::clone(&self.schema),
            device,
            plans: self.plans.as_ref().map(|_| PlanCache::default()),
            reads_files: self.reads_files,
            memory_limit_bytes: self.memory_limit_bytes,
            copies: Arc::clone(&self.copies),
            kept: Arc::clone(&self.kept),
        })
    }

    /// What drives the device, once a query or pinned table has needed it.
    pub fn runtime(&self) -> Option<Arc<Runtime>> {
        self.device.opened().cloned()
    }

    /// The runtime of the session's device, opened now if no query has.
    ///
    /// # Errors
    ///
    /// What is missing: the driver, NVRTC, a C++ compiler.
    pub fn open_runtime(&self) -> Result<Arc<Runtime>> {
        self.device.runtime()
    }

    /// DataFusion's context, for all that this type does not offer.
    pub fn context(&self) -> &SessionContext {
        &self.ctx
    }

    /// Splits `sql` into statements; an error names the place. Threads that plan and run them need a stack of
    /// [`STACK_BYTES`](crate::STACK_BYTES).
    pub fn parse(&self, sql: &str) -> Result<Vec<Statement>> {
        parse(sql)
    }

    /// Plans one statement. Definitions (`CREATE VIEW …`) take effect here, and so do PREPARE and DEALLOCATE.
    pub fn plan(&self, statement: Statement) -> BoxFuture<'_, Result<Query>> {
        Box::pin(async move {
            let started = Instant::now();
            let mut statement = match concerns_kept(&statement) {
                true => match self.executed(statement).await? {
                    Some(statement) => statement,
                    None => {
                        let nothing = LogicalPlanBuilder::empty(false).build().map_err(from_datafusion)?;
                        return self.plan_logical(nothing).await;
                    }
                },
                false => statement,
            };
            let text = self.plans.is_some().then(|| statement.to_string());
            let titles = titles_of(&mut statement);
            let now = self.now();
            let cached = text.as_deref().map(|text| self.cached_plan(text, &now)).transpose()?.flatten();
            if let Some(CachedPlan::Physical(plan)) = cached {
                let query = self.to_run(plan, Mode::Rows, started).titled(titles);
                return Ok(Query { is_cached: true, ..query });
            }
            let account = self.account();
            // Planning evaluates expressions too, and what they make counts.
            let planned = async {
                if let Some(CachedPlan::Logical(optimized)) = cached {
                    let physical = self.physical_of(&optimized, &self.ctx.state()).await?;
                    self.cache_physical(&optimized, &physical, &now);
                    return Ok(self.to_run(physical, Mode::Rows, started));
                }
                let state = self.ctx.state();
                let text = text.filter(|_| is_of_one_schema(&statement, &state).unwrap_or(false));
                let plan = self.logical_in(&state, statement).await?;
                self.plan_from(plan, (&state, text), started).await
            };
            let query = metered::within(account.as_ref(), bounded::folding(planned)).await??;
            Ok(query.titled(titles))
        })
    }

    /// The statement that an EXECUTE is of; `None` once a PREPARE or DEALLOCATE has taken effect.
    fn executed(&self, mut statement: Statement) -> BoxFuture<'_, Result<Option<Statement>>> {
        Box::pin(async move {
            if let Some(keep) = Keep::of(&statement)? {
                self.logical(keep.statement().clone()).await?;
                return self.kept.keep(keep).map(|()| None);
            }
            if self.kept.drop_named(&statement)? {
                return Ok(None);
            }
            if let Some(values) = values_statement(&statement)? {
                let plan = self.logical(values).await?;
                if let Some(value) = plan.expressions().into_iter().find(|value| value.is_volatile()) {
                    let value = value.unalias();
                    return Err(Error::invalid_input(format!(
                        "EXECUTE takes values that are the same in every row, and {value} is not"
                    )));
                }
            }
            self.kept.write(&mut statement)?;
            Ok(Some(statement))
        })
    }

    /// An account for one query or one planning.
    fn account(&self) -> Option<Account> {
        metered::account(self.memory_limit_bytes)
    }

    /// The logical plan of one statement; nothing takes effect yet.
    pub(crate) async fn logical(&self, statement: Statement) -> Result<LogicalPlan> {
        self.logical_in(&self.ctx.state(), statement).await
    }

    /// As [`logical`](Self::logical), in `state`: that is a copy with all functions, so one statement makes one.
    async fn logical_in(&self, state: &SessionState, statement: Statement) -> Result<LogicalPlan> {
        expansion::check(&statement)?;
        let mut catalogs = None;
        if let Ok(tables) = state.resolve_table_references(&statement) {
            catalogs = tables.iter().any(sql_types::lists_columns).then(|| state.catalog_list());
            let tables = tables.iter().map(|table| table.table().to_owned()).collect();
            ahead::read_ahead(&self.schema, &tables, ahead::compared_columns(&statement));
        }
        let plan = names::plan(state, statement).await;
        let plan = plan.and_then(|plan| sql_types::write_types(plan, catalogs));
        let plan = plan.map_err(|error| self.explained(error))?;
        PlanSize::of(&plan)?;
        Ok(plan)
    }

    /// Plans how `plan` runs. Definitions take effect here.
    pub(crate) async fn plan_logical(&self, plan: LogicalPlan) -> Result<Query> {
        let (account, state) = (self.account(), self.ctx.state());
        let planned = self.plan_from(plan, (&state, None), Instant::now());
        metered::within(account.as_ref(), bounded::folding(planned)).await?
    }

    /// As [`plan_logical`](Self::plan_logical) in `state`, of the statement `text`, if its plan may be cached.
    async fn plan_from(
        &self,
        plan: LogicalPlan,
        (state, text): (&SessionState, Option<String>),
        started: Instant,
    ) -> Result<Query> {
        match &plan {
            LogicalPlan::Analyze(analyze) => {
                let inner = self.physical(analyze.input.as_ref().clone()).await?;
                Ok(self.to_run(inner, Mode::Analyze, started))
            }
            LogicalPlan::Explain(explain)
                if explain.explain_format == ExplainFormat::Indent && !explain.verbose =>
            {
                let inner = self.physical(explain.plan.as_ref().clone()).await?;
                Ok(self.to_run(inner, Mode::Explain, started))
            }
            _ => {
                let now = self.now();
                let basis = Basis::of(&plan, &now).map_err(from_datafusion)?;
                let (Some(plans), Some(basis), Some(text)) = (&self.plans, basis, text) else {
                    return Ok(self.to_run(self.physical(plan).await?, Mode::Rows, started));
                };
                planning::check().map_err(from_datafusion)?;
                let size = PlanSize::of(&plan)?;
                let optimize = async { state.optimize(&plan) };
                let plan = planning::bounded(&size, optimize).await.map_err(|error| self.explained(error))?;
                let optimized = Arc::new(Optimized { plan, size });
                let physical = self.physical_of(&optimized, state).await?;
                plans.insert(text, basis, Arc::clone(&optimized));
                self.cache_physical(&optimized, &physical, &now);
                Ok(self.to_run(physical, Mode::Rows, started))
            }
        }
    }

    /// The cached plan of the query `text`, if it is still valid.
    fn cached_plan(&self, text: &str, now: &Now<'_>) -> Result<Option<CachedPlan>> {
        let Some(plans) = &self.plans else { return Ok(None) };
        plans.get(text, now).map_err(from_datafusion)
    }

    /// Caches how `optimized` runs, as it was planned from what is known `now`, where that may be asked for again.
    fn cache_physical(&self, optimized: &Arc<Optimized>, physical: &Arc<dyn ExecutionPlan>, now: &Now<'_>) {
        let Some(plans) = &self.plans else { return };
        // Of what a device holds, which `auto` looks at, no basis knows. Of kernels of the host it looks at what was learnt
        // alone.
        let is_settled = match self.device.tries_host() {
            true => !is_on_trial(physical),
            false => !self.device.tries_out(),
        };
        plans.insert_physical(optimized, physical, now.changes, is_settled);
    }

    /// What a plan would be made from now.
    fn now(&self) -> Now<'_> {
        let config = Arc::clone(self.ctx.state_ref().read().config().options());
        Now { schema: &self.schema, config, changes: self.device.changes() }
    }

    /// Plans what `bytes` describe: a Substrait plan, as protobuf or JSON.
    ///
    /// # Errors
    ///
    /// `InvalidInput` where the bytes are no plan or name what is not there; `Unsupported` where the plan asks for what
    /// is not known.
    #[cfg(feature = "substrait")]
    pub fn substrait<'a>(&'a self, bytes: &'a [u8]) -> BoxFuture<'a, Result<Query>> {
        Box::pin(async move {
            let started = Instant::now();
            let plan = crate::substrait::logical_plan(&self.ctx.state(), bytes)
                .await
                .map_err(|error| self.with_tables(error))?;
            Ok(self.to_run(self.physical(plan).await?, Mode::Rows, started))
        })
    }

    fn to_run(&self, plan: Arc<dyn ExecutionPlan>, mode: Mode, started: Instant) -> Query {
        let (ctx, device) = (self.ctx.clone(), Arc::clone(&self.device));
        let (planning, memory_limit_bytes) = (started.elapsed(), self.memory_limit_bytes);
        memory::is_planned(memory_limit_bytes);
        Query {
            plan,
            mode,
            ctx,
            device,
            planning,
            is_cached: false,
            recorder: None,
            memory_limit_bytes,
            titles: None,
        }
    }

    /// Plans the only statement of `sql`.
    pub fn query<'a>(&'a self, sql: &'a str) -> BoxFuture<'a, Result<Query>> {
        Box::pin(async move {
            let mut statements = self.parse(sql)?;
            match statements.len() {
                1 => self.plan(statements.remove(0)).await,
                0 => Err(Error::invalid_input("the query is empty")),
                count => Err(Error::invalid_input(format!("one query expected, {count} found"))),
            }
        })
    }

    /// True for a table of the warehouse.
    pub(crate) fn is_stored(&self, name: &str) -> bool {
        self.schema.is_stored(name)
    }

    async fn physical(&self, plan: LogicalPlan) -> Result<Arc<dyn ExecutionPlan>> {
        // DataFusion would only say that there is no such table.
        if let LogicalPlan::Ddl(DdlStatement::DropTable(drop)) = &plan {
            self.schema.check_drop(drop.name.table())?;
        }
        if let LogicalPlan::Ddl(_) | LogicalPlan::Dml(_) | LogicalPlan::Copy(_) = &plan {
            go_on_with_huge_pages(); // rows of CREATE TABLE … AS are made while it is planned
        }
        planning::check().map_err(from_datafusion)?;
        let size = PlanSize::of(&plan)?;
        let planned = planning::bounded(&size, async {
            self.ctx.execute_logical_plan(plan).await?.create_physical_plan().await
        });
        planned.await.map_err(|error| self.explained(error))
    }

    /// Plans how `optimized`, which defines nothing, runs.
    async fn physical_of(
        &self,
        optimized: &Optimized,
        state: &SessionState,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        planning::check().map_err(from_datafusion)?;
        let planned = planning::bounded(&optimized.size, async {
            state.query_planner().create_physical_plan(&optimized.plan, state).await
        });
        planned.await.map_err(|error| self.explained(error))
    }

    /// Adds to an error of planning what the user can do about it.
    fn explained(&self, error: DataFusionError) -> Error {
        self.with_tables(from_datafusion(error))
    }

    /// Adds to an error about a table that is not there which there are.
    fn with_tables(&self, error: Error) -> Error {
        let text = error.to_string();
        let is_missing =
            text.contains("table '") && text.contains("not found") || text.contains("No table named");
        if !is_missing {
            return error;
        }
        let tables =
            self.warehouse.as_ref().and_then(|warehouse| warehouse.tables().ok()).unwrap_or_default();
        let is_path = text.contains('/') || FILE_ENDINGS.iter().any(|ending| text.contains(ending));
        let there_is = match (&self.warehouse, tables.is_empty()) {
            _ if is_path && !self.reads_files => "files are not queried here, tables are".to_owned(),
            (None, _) => "no warehouse is open: name one (--warehouse, pelton.connect), or a file as \
                          'path/file.parquet'"
                .to_owned(),
            (Some(_), true) => "the warehouse has no tables yet: `pelton load` makes one".to_owned(),
            (Some(_), false) => format!("tables in this warehouse: {}", tables.join(", ")),
        };
        Error::invalid_input(format!("{text}; {there_is}"))
    }
}

/// What the name of a file ends with in an error.
const FILE_ENDINGS: [&str; 6] = [".csv'", ".tsv'", ".parquet'", ".json'", ".jsonl'", ".arrow'"];

fn session_state(options: &SessionOptions) -> datafusion::error::Result<SessionStateBuilder> {
    let mut config = SessionConfig::new()
        .with_batch_size(options.batch_rows)
        .with_information_schema(true)
        .with_default_catalog_and_schema(CATALOG, SCHEMA)
        .with_create_default_catalog_and_schema(false);
    config.options_mut().extensions.insert(options.files.clone());
    // External tables of CSV are read by DataFusion, which would cut files at line breaks within quotes.
    config.options_mut().catalog.newlines_in_values = true;
    if let Some(threads) = options.threads {
        config = config.with_target_partitions(threads);
    }
    let space = SpillSpace::new(&options.spill);
    let mut runtime = RuntimeEnvBuilder::new().with_disk_manager_builder(spill::disk_manager(&space));
    if let Some(limit) = options.memory_limit_bytes {
        config = spilling::settings(config, limit);
        runtime = runtime.with_memory_pool(memory::bounded(limit));
    }
    Ok(SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(Arc::new(runtime.build()?))
        .with_default_features())
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
    device: Arc<DeviceHandle>,
    planning: Duration,
    is_cached: bool,
    recorder: Option<Arc<Recorder>>,
    memory_limit_bytes: Option<u64>,
    /// What columns of the result are called that were given no name.
    titles: Option<Titles>,
}

impl Query {
    /// The query with its rows under `titles`.
    pub(crate) fn titled(self, titles: Option<Titles>) -> Self {
        Self { titles, ..self }
    }

    /// The columns of the result.
    pub fn schema(&self) -> SchemaRef {
        match self.mode {
            Mode::Rows => match &self.titles {
                Some(titles) => titles.schema(&self.plan.schema()),
                None => self.plan.schema(),
            },
            Mode::Explain | Mode::Analyze => explain::schema(),
        }
    }

    /// True for EXPLAIN and EXPLAIN ANALYZE, whose rows are text to read.
    pub fn is_explanation(&self) -> bool {
        self.mode != Mode::Rows
    }

    /// Time that planning took.
    pub fn planning_time(&self) -> Duration {
        self.planning
    }

    /// True if the plan came from the plan cache.
    pub fn has_cached_plan(&self) -> bool {
        self.is_cached
    }

    /// The physical plan.
    pub fn physical_plan(&self) -> &Arc<dyn ExecutionPlan> {
        &self.plan
    }

    /// The query with a trace of what it does when, for [`profile`](Self::profile). It costs a few clock readings a
    /// chunk.
    #[must_use]
    pub fn traced(self) -> Self {
        Self { recorder: Some(Recorder::start()), ..self }
    }

    /// What the query was planned as and, as far as it has run, did and cost; with times only where it is
    /// [`traced`](Self::traced).
    ///
    /// # Errors
    ///
    /// Of reading the chunk directory of a table that it scans.
    pub fn profile(&self, context: ProfileContext) -> Result<QueryProfile> {
        let task = self.ctx.task_ctx();
        let threads = task.session_config().target_partitions();
        let pool = task.memory_pool();
        let recorder = self.recorder.as_deref();
        let parts = Parts { plan: &self.plan, device: &self.device, pool, threads, recorder };
        let mut profile = profile::assemble(&parts, context)?;
        if self.is_explanation() {
            profile.rows = profile.plan.actual_rows; // not those of the explanation
        }
        if self.mode == Mode::Explain {
            (profile.state, profile.elapsed) = (QueryState::Planned, None);
        }
        Ok(profile)
    }

    /// Runs the query; dropping the stream cancels it.
    pub fn stream(&self) -> BoxFuture<'_, Result<SendableRecordBatchStream>> {
        Box::pin(async move {
            let task = self.ctx.task_ctx();
            let account = metered::account(self.memory_limit_bytes);
            let Some(recorder) = &self.recorder else {
                return self.stream_of(&self.plan, task, account).await;
            };
            let context = Arc::into_inner(task).unwrap_or_else(|| TaskContext::from(&self.ctx.state()));
            let task = Arc::new(profile::with_trace(context, recorder.trace()));
            recorder.begin();
            match self.stream_of(&self.plan, task, account).await {
                Ok(rows) => Ok(recorder.watch(rows)),
                Err(error) => {
                    recorder.end(QueryState::Failed(error.to_string()), 0);
                    Err(error)
                }
            }
        })
    }

    /// Runs the query in memory of its own. Dropping the stream cancels it; setting `cancel` as well reaches a join that
    /// gives no batch to drop it after.
    pub fn stream_within<'a>(
        &'a self,
        memory: &'a QueryMemory,
        cancel: &'a CancelFlag,
    ) -> BoxFuture<'a, Result<SendableRecordBatchStream>> {
        Box::pin(async move {
            let task = TaskContext::from(&self.ctx);
            let runtime = RuntimeEnv { memory_pool: memory.pool(), ..task.runtime_env().as_ref().clone() };
            let plan = stoppable(Arc::clone(&self.plan), cancel).map_err(from_datafusion)?;
            self.stream_of(&plan, Arc::new(task.with_runtime(Arc::new(runtime))), memory.account()).await
        })
    }

    async fn stream_of(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        task: Arc<TaskContext>,
        account: Option<Account>,
    ) -> Result<SendableRecordBatchStream> {
        if self.mode != Mode::Explain {
            go_on_with_huge_pages();
        }
        let begin = async {
            let rows = async { execute_stream(Arc::clone(plan), task).map_err(from_datafusion) };
            let rows = metered(account.clone(), plan, metered::within(account.as_ref(), rows).await??);
            // Trials give way to it.
            Ok::<_, Error>(if self.device.tries_out() { self.device.foreground().watch(rows) } else { rows })
        };
        match self.mode {
            Mode::Rows => {
                let rows = begin.await?;
                Ok(match &self.titles {
                    Some(titles) => titles.rows(rows),
                    None => rows,
                })
            }
            Mode::Explain => explain::stream(plan, &self.device, None),
            Mode::Analyze => {
                let start = Instant::now();
                let batches = drained(begin.await?).await.map_err(from_datafusion)?;
                let rows = batches.iter().map(RecordBatch::num_rows).sum();
                let ran = explain::Ran { rows, planning: self.planning, elapsed: start.elapsed() };
                explain::stream(plan, &self.device, Some(ran))
            }
        }
    }

    /// Runs the query to its end.
    pub fn collect(&self) -> BoxFuture<'_, Result<Vec<RecordBatch>>> {
        Box::pin(async move { drained(self.stream().await?).await.map_err(from_datafusion) })
    }

    /// What each scan skipped, read and answered for; meaningful once the query has run.
    pub fn scan_reports(&self) -> Result<Vec<ScanReport>> {
        explain::scan_reports(&self.plan)
    }

    /// Of each pipeline that ran on a device, what it was predicted to take and what it took.
    pub fn step_times(&self) -> Vec<StepTime> {
        explain::step_times(&self.plan)
    }
}
