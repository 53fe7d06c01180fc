//! Pelton in a DataFusion session of one's own: one call, before the session is built.
//!
//! ```
//! # fn main() -> pelton_error::Result<()> {
//! use datafusion::execution::SessionStateBuilder;
//! use datafusion::prelude::SessionContext;
//! use pelton_engine::{SessionOptions, with_pelton};
//!
//! let builder = SessionStateBuilder::new().with_default_features();
//! let pelton = with_pelton(builder, &SessionOptions::default())?;
//! let context = SessionContext::new_with_state(pelton.builder.build());
//! # let _ = context;
//! # Ok(())
//! # }
//! ```
//!
//! Then `CREATE EXTERNAL TABLE t STORED AS PELTON LOCATION 'warehouse/t'` makes a table of one on disk, and
//! [`Extension::table`] one for `register_table`.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use datafusion::execution::SessionStateBuilder;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::logical_expr::AggregateUDF;
use pelton_error::{Error, Result};
use pelton_exec::RuntimeOptions;
use pelton_io::IoEngine;
use pelton_store::{Table, Warehouse};

use crate::any_texts::AnyTexts;
use crate::bins;
use crate::bounded;
use crate::by_position;
use crate::calendar;
use crate::cast_bounds;
use crate::coalesce;
use crate::copies::{Copies, FromCopies, ToCopies};
use crate::date_parts::DateParts;
use crate::deferred::DeferringRule;
use crate::discrete;
use crate::eager::EagerAggregates;
use crate::factory::PeltonTableFactory;
use crate::fetch::FetchingRule;
use crate::floats::FloatKeyRule;
use crate::gpu::{DeviceHandle, GpuRule};
use crate::guards::GuardingCases;
use crate::interval_products::MoreOperators;
use crate::intervals::IntervalLengths;
use crate::joined_keys::JoinedKeys;
use crate::list_texts::ListTexts;
use crate::lists::ListsOfColumns;
use crate::multisets::Multisets;
use crate::numbers::with_numbers;
use crate::ordered::OrderedAggregatesRule;
use crate::orders::{ComparedKeys, OrderlessCasts};
use crate::passing::PassingRule;
use crate::planning::watched;
use crate::provider::PeltonTable;
use crate::running::RunningWindows;
use crate::scan::ScanOptions;
use crate::session::SessionOptions;
use crate::set_keys::SetKeys;
use crate::shared::SharedPlans;
use crate::sideways::SidewaysRule;
use crate::similar::SimilarPatterns;
use crate::sorting::WordSorts;
use crate::spilling::{Count, DistinctCounts, SpillingRule};
use crate::stores::Stores;
use crate::subqueries::{NullableValues, OuterAggregates, Subqueries, UnnestedKeys};
use crate::using::MergedColumns;
use crate::whole::WholeWrites;
use crate::window_distances::WindowDistances;
use crate::window_filters::WindowFilters;
use crate::window_frames::WindowFrames;
use crate::window_functions::WindowFunctions;
use crate::window_peers::WindowPeers;
use crate::window_texts::WindowTexts;
use crate::yielding::YieldingRule;
use crate::{
    far_limits, joined_keys, null_keys, of_distinct, orders, outer_keys, pushed_filters, shadowed, shared,
    simplify, synonyms, top_groups, unmatched, window_functions, zones,
};

/// What [`with_pelton`] gives back: the builder to go on with, and what tables are made with.
pub struct Extension {
    /// The builder with everything added. Rules added to it from now on come after Pelton's and see its nodes.
    pub builder: SessionStateBuilder,
    /// The session's device, to pin tables with and to ask what became of it.
    pub device: Arc<DeviceHandle>,
    io: Arc<IoEngine>,
    scan: ScanOptions,
    pub(crate) copies: Arc<Copies>,
}

impl Extension {
    /// The table in `directory`, a table of a warehouse, as it is now; later commits do not change it.
    ///
    /// # Errors
    ///
    /// `InvalidInput` where there is no table; `Corrupt` where its files are damaged.
    pub fn table(&self, directory: impl AsRef<Path>) -> Result<PeltonTable> {
        Ok(PeltonTable::new(table_in(directory.as_ref())?, Arc::clone(&self.io), self.scan))
    }
}

impl fmt::Debug for Extension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Extension").field("device", &self.device).finish_non_exhaustive()
    }
}

/// Adds to a session of one's own all that a [`crate::PeltonSession`] has: the join order by cost, skipping through
/// joins, subtrees on a device, `STORED AS PELTON`, and object stores that open themselves by URL.
///
/// Of `options`, those about queries are looked at: `io`, `scan`, `reorder_joins`, `copy_columns`, `spill`, `device`,
/// `device_count`, `device_memory_limit_bytes`, `host_kernel_bytes`, `runtime`, `memory_limit_bytes`, beyond which joins and windows spill,
/// and `threads` to compare a device with. Partitions, batches and the memory pool are the builder's.
///
/// # Errors
///
/// What a device that was asked for by name lacks; what keeps the I/O engine from starting.
pub fn with_pelton(builder: SessionStateBuilder, options: &SessionOptions) -> Result<Extension> {
    let io = Arc::new(IoEngine::start(options.io.clone())?);
    let device = device_of(options, &io)?;
    let factory = PeltonTableFactory::new(Arc::clone(&io), options.scan);
    let builder = with_sql_semantics(with_numbers(builder), options.memory_limit_bytes);
    let copies = Copies::new(options, &io);
    let builder = bounded::install(with_rules(builder, options, &device, &copies));
    let mut builder = shared::install(builder).with_table_factory("PELTON".to_owned(), Arc::new(factory));
    let env = builder.runtime_env().take().unwrap_or_else(|| Arc::new(RuntimeEnv::default()));
    let builder = builder.with_runtime_env(Arc::new(Stores::install(&env)));
    Ok(Extension { builder: watched(builder), device, io, scan: options.scan, copies })
}

/// Settings and rules without which DataFusion's answers are not those that SQL has.
fn with_sql_semantics(
    mut builder: SessionStateBuilder,
    memory_limit_bytes: Option<u64>,
) -> SessionStateBuilder {
    let mut config = builder.config().take().unwrap_or_default();
    // Physical tests such as IS UNKNOWN are declared to give NULL, though they never do; that is no reason to refuse.
    config.options_mut().execution.skip_physical_aggregate_schema_check = true;
    // A LIMIT, row_number() or array_agg above a subquery may depend on the ORDER BY in it.
    let config = config.with_enable_subquery_sort_elimination(false);
    let mut analyzer = builder.analyzer().take().unwrap_or_default();
    analyzer.rules.insert(0, Arc::new(WindowPeers));
    analyzer.rules.insert(0, Arc::new(WindowDistances));
    analyzer.rules.insert(0, Arc::new(Multisets));
    analyzer.rules.insert(0, Arc::new(SimilarPatterns));
    analyzer.rules.insert(0, Arc::new(SetKeys));
    analyzer.rules.insert(0, Arc::new(NullableValues));
    analyzer.rules.insert(0, Arc::new(UnnestedKeys));
    analyzer.rules.insert(0, Arc::new(JoinedKeys));
    analyzer.rules.insert(0, Arc::new(OuterAggregates));
    analyzer.rules.insert(0, Arc::new(MergedColumns));
    analyzer.rules.push(Arc::new(AnyTexts));
    analyzer.rules.push(Arc::new(GuardingCases));
    analyzer.rules.push(Arc::new(ListsOfColumns));
    analyzer.rules.push(Arc::new(OrderedAggregatesRule));
    analyzer.rules.push(Arc::new(DistinctCounts::new(memory_limit_bytes)));
    analyzer.rules.push(Arc::new(WindowFilters));
    analyzer.rules.push(Arc::new(WindowFunctions));
    analyzer.rules.push(Arc::new(Subqueries));
    analyzer.rules.push(Arc::new(DateParts));
    analyzer.rules.push(Arc::new(ListTexts));
    analyzer.rules.push(Arc::new(IntervalLengths));
    analyzer.rules.push(Arc::new(OrderlessCasts));
    analyzer.rules.push(Arc::new(ComparedKeys));
    analyzer.rules.push(Arc::new(FloatKeyRule));
    *builder.analyzer() = Some(analyzer);
    builder.expr_planners().get_or_insert_default().insert(0, Arc::new(MoreOperators));
    calendar::install(bins::install(zones::install(
        coalesce::install(of_distinct::install(discrete::install(synonyms::install(
            window_functions::install(builder),
        ))))
        .with_config(config),
    )))
}

/// What queries are made faster or smaller by: `count`, and rules, the one for the device after all others, but for those that have what is left spill and columns
/// of files encoded.
fn with_rules(
    mut builder: SessionStateBuilder,
    options: &SessionOptions,
    device: &Arc<DeviceHandle>,
    copies: &Arc<Copies>,
) -> SessionStateBuilder {
    let aggregates = builder.aggregate_functions().get_or_insert_default();
    aggregates.push(Arc::new(AggregateUDF::from(Count::new())));
    let logical = null_keys::install(shadowed::install(simplify::install(builder.optimizer().take())));
    let logical = pushed_filters::install(unmatched::install(outer_keys::install(logical)));
    let logical = joined_keys::install(far_limits::install(logical));
    let mut rules = builder.physical_optimizers().take().unwrap_or_default().rules;
    by_position::install(&mut rules);
    cast_bounds::install(&mut rules);
    top_groups::install(&mut rules);
    orders::install(&mut rules);
    rules.insert(0, Arc::new(FromCopies::new(copies, device)));
    if options.reorder_joins {
        rules = pelton_planner::install(rules);
    }
    rules.push(Arc::new(WindowFrames));
    rules.push(Arc::new(SidewaysRule));
    rules.push(Arc::new(YieldingRule));
    rules.push(Arc::new(PassingRule));
    rules.push(Arc::new(DeferringRule));
    rules.push(Arc::new(FetchingRule));
    let spilling = SpillingRule::new(options.memory_limit_bytes, options.table_rows_min);
    builder
        .with_optimizer_rules(logical)
        .with_physical_optimizer_rules(rules)
        .with_physical_optimizer_rule(Arc::new(GpuRule::new(Arc::clone(device))))
        .with_physical_optimizer_rule(Arc::new(EagerAggregates::new(options.table_rows_min)))
        .with_physical_optimizer_rule(Arc::new(spilling))
        .with_physical_optimizer_rule(Arc::new(RunningWindows))
        .with_physical_optimizer_rule(Arc::new(WindowTexts))
        .with_physical_optimizer_rule(Arc::new(WordSorts))
        .with_physical_optimizer_rule(Arc::new(ToCopies::new(copies, device)))
        .with_physical_optimizer_rule(Arc::new(WholeWrites))
        .with_physical_optimizer_rule(Arc::new(SharedPlans))
}

/// The device that `options` ask for; one that was asked for by name is opened at once.
fn device_of(options: &SessionOptions, io: &Arc<IoEngine>) -> Result<Arc<DeviceHandle>> {
    let device_memory_limit_bytes =
        options.device_memory_limit_bytes.or(options.runtime.device_memory_limit_bytes);
    let more_devices = match options.device_count {
        0 => return Err(Error::invalid_input("0 devices; a query takes at least 1")),
        1 => options.runtime.more_devices.clone(),
        count => options.device.following(count - 1),
    };
    // As much as a run is told (gpu/run.rs).
    let sorted_bytes_max = options.memory_limit_bytes.map(|bytes| bytes / 2);
    let runtime = RuntimeOptions {
        device_memory_limit_bytes,
        more_devices,
        sorted_bytes_max,
        ..options.runtime.clone()
    };
    let threads = options.threads.or_else(|| std::thread::available_parallelism().ok().map(Into::into));
    let device = DeviceHandle::new(
        options.device,
        runtime,
        Arc::clone(io),
        threads.unwrap_or(1),
        options.host_kernel_bytes,
    );
    if options.device.is_by_name() {
        device.runtime()?;
    }
    Ok(device)
}

/// The table whose directory is `directory`.
pub(crate) fn table_in(directory: &Path) -> Result<Arc<Table>> {
    let shown = directory.display();
    let absolute =
        std::path::absolute(directory).map_err(|error| Error::io(format!("opening {shown}"), error))?;
    let name = absolute.file_name().and_then(|name| name.to_str());
    match (absolute.parent(), name) {
        (Some(warehouse), Some(name)) => Warehouse::open(warehouse)?.table(name),
        _ => Err(Error::invalid_input(format!(
            "{shown} is no table; name the table's directory in its warehouse"
        ))),
    }
}

impl Extension {
    /// The I/O engine that scans of this session read through.
    pub(crate) fn io(&self) -> &Arc<IoEngine> {
        &self.io
    }
}
