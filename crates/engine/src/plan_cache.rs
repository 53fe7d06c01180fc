//! The plan cache: plans, by the text of their query.
//!
//! Some queries are answered in a millisecond, and planning them takes three. So a session caches optimized logical plans,
//! which are the larger part of planning, and with them physical plans, if all of their operators start anew in a copy.
//! A plan is valid as long as what it was made from is unchanged: the snapshots of the tables that the text names, the
//! session's settings, and its own tables and views; a physical plan also as long as nothing was learnt that changes where
//! something runs. Plans over other schemas, where nobody counts changes, are not kept. Whatever depends on when it is
//! planned (`now()`) or reads files is planned anew. Where `auto` has a device to choose, a physical plan for the CPU alone
//! is not kept: which columns the device holds by the next time may change the choice.
//!
//! A cached physical plan is never run: each query runs a copy with state of its own, which `plan_copy` makes.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::common::TableReference;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, Volatility, WindowFunctionDefinition};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::scalar_subquery::ScalarSubqueryExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::{InterleaveExec, UnionExec};
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::sql::parser::Statement;
use pelton_store::Table;

use crate::catalog::{CATALOG, SCHEMA, WarehouseSchema};
use crate::deferred::DeferredExec;
use crate::fetch::PeltonFetchExec;
use crate::gpu::PeltonGpuExec;
use crate::plan_copy::{to_keep, to_run};
use crate::planning::PlanSize;
use crate::provider::PeltonTable;
use crate::running::RunningWindowExec;
use crate::scan::PeltonScanExec;
use crate::shared::SharedExec;
use crate::sorting::WordSortExec;
use crate::spilling::{
    DistinctMergeExec, PartialAggregateExec, PeltonJoinExec, SpillingAggregateExec, SpillingWindowExec,
};

/// The most plans in the cache; the oldest is evicted first. A guess: a dashboard's queries.
const PLANS_MAX: usize = 64;

/// The plan cache of a session; see the module.
#[derive(Default)]
pub(crate) struct PlanCache(Mutex<VecDeque<Entry>>);

/// What plans are made from now.
pub(crate) struct Now<'a> {
    pub(crate) schema: &'a WarehouseSchema,
    pub(crate) config: Arc<ConfigOptions>,
    /// Of what was learnt of the device.
    pub(crate) changes: u64,
}

/// What a plan was made from. Optimized plans of one text from equal bases are equal.
pub(crate) struct Basis {
    tables: Vec<Arc<Table>>,
    /// The very settings: whoever changes them changes a copy while this is held.
    config: Arc<ConfigOptions>,
    /// Of the session's own tables and views.
    names: u64,
}

/// How far a query is planned.
pub(crate) enum CachedPlan {
    /// To be run.
    Physical(Arc<dyn ExecutionPlan>),
    /// Optimized; how it runs is planned anew.
    Logical(Arc<Optimized>),
}

/// An optimized plan.
pub(crate) struct Optimized {
    pub(crate) plan: LogicalPlan,
    /// Of the plan that it was made from.
    pub(crate) size: PlanSize,
}

struct Entry {
    text: String,
    basis: Basis,
    optimized: Arc<Optimized>,
    physical: Option<Physical>,
}

/// A physical plan, never run itself.
struct Physical {
    plan: Arc<dyn ExecutionPlan>,
    /// Of what was learnt of the device, before it was planned.
    changes: u64,
}

impl PlanCache {
    /// The plan of `text`, if one is cached and still valid: a copy, where it is a physical one.
    pub(crate) fn get(&self, text: &str, now: &Now<'_>) -> Result<Option<CachedPlan>> {
        let mut entries = self.entries();
        let Some(at) = entries.iter().position(|entry| entry.text == text) else { return Ok(None) };
        if !entries[at].basis.holds(now) {
            entries.remove(at);
            return Ok(None);
        }
        let entry = &entries[at];
        let Some(physical) = entry.physical.as_ref().filter(|plan| plan.changes == now.changes) else {
            return Ok(Some(CachedPlan::Logical(Arc::clone(&entry.optimized))));
        };
        let plan = Arc::clone(&physical.plan);
        drop(entries);
        to_run(&plan).map(CachedPlan::Physical).map(Some)
    }

    /// Evicts all plans.
    pub(crate) fn clear(&self) {
        self.entries().clear();
    }

    /// Caches `optimized`, the plan of `text`.
    pub(crate) fn insert(&self, text: String, basis: Basis, optimized: Arc<Optimized>) {
        let mut entries = self.entries();
        entries.retain(|other| other.text != text);
        if entries.len() == PLANS_MAX {
            entries.pop_front();
        }
        entries.push_back(Entry { text, basis, optimized, physical: None });
    }

    /// Caches a copy of `plan`, which `optimized` was planned to be when so much was learnt of the device, if all of it
    /// starts anew in copies, and either a device does some of it or nothing but the tables decides (`is_settled`) that none
    /// does.
    pub(crate) fn insert_physical(
        &self,
        optimized: &Arc<Optimized>,
        plan: &Arc<dyn ExecutionPlan>,
        changes: u64,
        is_settled: bool,
    ) {
        // What a window's own filter reads is not told to who walks a plan.
        let may_hide_results = has_windows(plan) && has_subqueries(plan);
        let has_copies = (is_settled || has_device(plan)) && starts_anew(plan) && !may_hide_results;
        // A plan of which no copy can be made still runs.
        let copy = has_copies.then(|| to_keep(plan).ok().flatten()).flatten();
        let Some(plan) = copy else { return };
        // Another plan may have taken its place.
        let mut entries = self.entries();
        if let Some(entry) = entries.iter_mut().find(|entry| Arc::ptr_eq(&entry.optimized, optimized)) {
            entry.physical = Some(Physical { plan, changes });
        }
    }

    fn entries(&self) -> MutexGuard<'_, VecDeque<Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Basis {
    /// What a plan of `logical` is made from; `None` where that is more than is looked at here.
    ///
    /// # Errors
    ///
    /// None of its own; those of walking a plan.
    pub(crate) fn of(logical: &LogicalPlan, now: &Now<'_>) -> Result<Option<Self>> {
        let mut tables = Vec::new();
        let mut is_known = true;
        logical.apply_with_subqueries(|node| {
            match node {
                LogicalPlan::TableScan(scan) => {
                    let provider = source_as_provider(&scan.source)?;
                    match provider.downcast_ref::<PeltonTable>() {
                        Some(table) => tables.push(Arc::clone(table.table())),
                        None => is_known = false,
                    }
                }
                LogicalPlan::Ddl(_)
                | LogicalPlan::Dml(_)
                | LogicalPlan::Copy(_)
                | LogicalPlan::Statement(_) => {
                    is_known = false;
                }
                _ => {}
            }
            node.apply_expressions(|expr| {
                is_known &= !expr.exists(|part| Ok(depends_on_when(part)))?;
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        let basis = Self { tables, config: Arc::clone(&now.config), names: now.schema.names_generation() };
        // Tables that were put into the session by hand are not looked up in the warehouse.
        Ok((is_known && basis.holds(now)).then_some(basis))
    }

    fn holds(&self, now: &Now<'_>) -> bool {
        Arc::ptr_eq(&self.config, &now.config)
            && self.names == now.schema.names_generation()
            && self.tables.iter().all(|table| now.schema.is_current(table))
    }
}

/// True for what may be something else the next time: functions of time or chance, variables, parameters.
fn depends_on_when(expr: &Expr) -> bool {
    let volatility = match expr {
        Expr::ScalarFunction(function) => function.func.signature().volatility,
        Expr::HigherOrderFunction(function) => function.func.signature().volatility,
        Expr::AggregateFunction(function) => function.func.signature().volatility,
        Expr::WindowFunction(function) => match &function.fun {
            WindowFunctionDefinition::AggregateUDF(function) => function.signature().volatility,
            WindowFunctionDefinition::WindowUDF(function) => function.signature().volatility,
        },
        Expr::ScalarVariable(..) | Expr::Placeholder(_) => return true,
        _ => return false,
    };
    volatility != Volatility::Immutable
}

/// Whether all tables and views that `statement` names are in the schema whose changes a [`Basis`] looks at.
///
/// # Errors
///
/// Where a name cannot be read.
pub(crate) fn is_of_one_schema(statement: &Statement, state: &SessionState) -> Result<bool> {
    let defaults = &state.config_options().catalog;
    let is_in_it = |reference: TableReference| {
        let resolved = reference.resolve(&defaults.default_catalog, &defaults.default_schema);
        *resolved.catalog == *CATALOG && *resolved.schema == *SCHEMA
    };
    Ok(state.resolve_table_references(statement)?.into_iter().all(is_in_it))
}

/// Whether a device runs some of `plan`.
fn has_device(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<PeltonGpuExec>() || plan.children().into_iter().any(has_device)
}

/// Whether a copy of `plan` starts anew.
fn starts_anew(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let children = plan.children();
    if let Some(node) = plan.downcast_ref::<PeltonGpuExec>() {
        // Of a plan that the CPU falls back to, copies are made without looking for scalar subqueries in it.
        return !has_subqueries(node.planned()) && children.into_iter().all(starts_anew);
    }
    // Of a filter that a copy's scan reads, `to_keep` looks whether the copy narrows it.
    if plan.is::<PeltonScanExec>() || plan.is::<PlaceholderRowExec>() || plan.is::<EmptyExec>() {
        return true;
    }
    if plan.is::<SharedExec>() {
        return children.into_iter().all(starts_anew);
    }
    has_copied_state(plan) && !children.is_empty() && children.into_iter().all(starts_anew)
}

fn has_windows(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let is_window = plan.is::<WindowAggExec>()
        || plan.is::<BoundedWindowAggExec>()
        || plan.is::<SpillingWindowExec>()
        || plan.is::<RunningWindowExec>();
    is_window || plan.children().into_iter().any(has_windows)
}

fn has_subqueries(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<ScalarSubqueryExec>() || plan.children().into_iter().any(has_subqueries)
}

/// True for operators whose state is of one execution, of which a copy has its own: channels, the build side of a join,
/// a filter that a sort narrows, results of scalar subqueries.
fn has_copied_state(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<ProjectionExec>()
        || plan.is::<FilterExec>()
        || plan.is::<CooperativeExec>()
        || plan.is::<DeferredExec>()
        || plan.is::<PeltonFetchExec>()
        || plan.is::<CoalescePartitionsExec>()
        || plan.is::<RepartitionExec>()
        || plan.is::<AggregateExec>()
        || plan.is::<GlobalLimitExec>()
        || plan.is::<LocalLimitExec>()
        || plan.is::<SortExec>()
        || plan.is::<WordSortExec>()
        || plan.is::<SortPreservingMergeExec>()
        || plan.is::<HashJoinExec>()
        || plan.is::<NestedLoopJoinExec>()
        || plan.is::<CrossJoinExec>()
        || plan.is::<PeltonJoinExec>()
        || plan.is::<UnionExec>()
        || plan.is::<InterleaveExec>()
        || plan.is::<WindowAggExec>()
        || plan.is::<BoundedWindowAggExec>()
        || plan.is::<RunningWindowExec>()
        || plan.is::<SpillingAggregateExec>()
        || plan.is::<PartialAggregateExec>()
        || plan.is::<DistinctMergeExec>()
        || plan.is::<SpillingWindowExec>()
        || plan.is::<ScalarSubqueryExec>()
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::Schema;
    use datafusion::logical_expr::LogicalPlanBuilder;
    use pelton_io::{IoEngine, IoOptions};

    use super::*;
    use crate::scan::ScanOptions;

    const TEXT: &str = "SELECT 1";

    fn optimized() -> Arc<Optimized> {
        let plan = LogicalPlanBuilder::empty(true).build().unwrap();
        let size = PlanSize::of(&plan).unwrap();
        Arc::new(Optimized { plan, size })
    }

    fn physical() -> Arc<dyn ExecutionPlan> {
        Arc::new(PlaceholderRowExec::new(Arc::new(Schema::empty())))
    }

    #[test]
    fn what_is_learnt_of_a_device_ends_physical_plans_and_no_others() {
        let io = Arc::new(IoEngine::start(IoOptions::default()).unwrap());
        let schema = WarehouseSchema::new(None, io, ScanOptions::default());
        let config = Arc::new(ConfigOptions::default());
        let now = |changes| Now { schema: &schema, config: Arc::clone(&config), changes };
        let basis = |plan: &Optimized| Basis::of(&plan.plan, &now(0)).unwrap().unwrap();
        let plans = PlanCache::default();
        let is_physical = |changes| match plans.get(TEXT, &now(changes)).unwrap() {
            Some(CachedPlan::Physical(_)) => true,
            Some(CachedPlan::Logical(_)) => false,
            None => panic!("there is no plan"),
        };
        assert!(plans.get(TEXT, &now(0)).unwrap().is_none());
        let first = optimized();
        plans.insert(TEXT.to_owned(), basis(&first), Arc::clone(&first));
        assert!(!is_physical(0));
        // Of what may be elsewhere the next time, no physical plan is kept.
        plans.insert_physical(&first, &physical(), 0, false);
        assert!(!is_physical(0));
        plans.insert_physical(&first, &physical(), 0, true);
        assert!(is_physical(0) && !is_physical(1));
        plans.insert_physical(&first, &physical(), 1, true);
        assert!(is_physical(1) && !is_physical(0));
        // How another plan runs, which has lost its place meanwhile.
        let second = optimized();
        plans.insert(TEXT.to_owned(), basis(&second), Arc::clone(&second));
        plans.insert_physical(&first, &physical(), 1, true);
        assert!(!is_physical(1));
        let other = Now { config: Arc::new(ConfigOptions::default()), ..now(1) };
        assert!(plans.get(TEXT, &other).unwrap().is_none());
        assert!(plans.get(TEXT, &now(1)).unwrap().is_none(), "it was evicted");
    }
}
