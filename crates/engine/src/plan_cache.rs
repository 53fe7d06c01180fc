//! The plan cache: physical plans, by the text of their query.
//!
//! A GPU answers some queries in a millisecond, and planning them takes three. So a session caches physical plans whose
//! rows all come from a device. A plan is valid as long as what it was made from is unchanged: the snapshots of the
//! tables that the text names, the session's settings, and its own tables and views. Whatever depends on when it is
//! planned (`now()`), reads files, or runs on the CPU is planned anew.
//!
//! A cached plan is never run: each query runs a copy with state of its own.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, Volatility};
use datafusion::physical_expr::expressions::DynamicFilterPhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use pelton_store::Table;

use crate::catalog::WarehouseSchema;
use crate::gpu::PeltonGpuExec;
use crate::provider::PeltonTable;
use crate::scan::PeltonScanExec;

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

/// What a plan was made from. Plans of one text from equal bases are equal.
pub(crate) struct Basis {
    tables: Vec<Arc<Table>>,
    /// The very settings: whoever changes them changes a copy while this is held.
    config: Arc<ConfigOptions>,
    /// Of the session's own tables and views.
    names: u64,
    /// Of what was learnt of the device.
    changes: u64,
}

struct Entry {
    text: String,
    basis: Basis,
    plan: Arc<dyn ExecutionPlan>,
}

impl PlanCache {
    /// A copy of the plan of `text`, if one is cached and still valid.
    pub(crate) fn get(&self, text: &str, now: &Now<'_>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(at) = entries.iter().position(|entry| entry.text == text) else { return Ok(None) };
        if !entries[at].basis.holds(now) {
            entries.remove(at);
            return Ok(None);
        }
        let plan = Arc::clone(&entries[at].plan);
        drop(entries);
        reset_plan_states(plan).map(Some)
    }

    /// Evicts all plans.
    pub(crate) fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Caches `plan` for `text`, if all of its rows come from a device.
    pub(crate) fn insert(&self, text: String, basis: Basis, plan: &Arc<dyn ExecutionPlan>) {
        if !comes_from_device(plan) {
            return;
        }
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|other| other.text != text);
        if entries.len() == PLANS_MAX {
            entries.pop_front();
        }
        entries.push_back(Entry { text, basis, plan: Arc::clone(plan) });
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
        let basis = Self {
            tables,
            config: Arc::clone(&now.config),
            names: now.schema.names_generation(),
            changes: now.changes,
        };
        // Tables that were put into the session by hand are not looked up in the warehouse.
        Ok((is_known && basis.holds(now)).then_some(basis))
    }

    fn holds(&self, now: &Now<'_>) -> bool {
        Arc::ptr_eq(&self.config, &now.config)
            && self.names == now.schema.names_generation()
            && self.changes == now.changes
            && self.tables.iter().all(|table| now.schema.is_current(table))
    }
}

/// True for what may be something else the next time: functions of time or chance, variables, parameters.
fn depends_on_when(expr: &Expr) -> bool {
    match expr {
        Expr::ScalarFunction(function) => function.func.signature().volatility != Volatility::Immutable,
        Expr::ScalarVariable(..) | Expr::Placeholder(_) => true,
        _ => false,
    }
}

/// Whether every leaf of `plan` runs on a device, below operators that a copy starts anew.
fn comes_from_device(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let children = plan.children();
    if plan.is::<PeltonGpuExec>() {
        return children.into_iter().all(starts_anew_as_input);
    }
    // A sort that stops at a number of rows narrows a filter while it runs; nothing in a device's plan asks it.
    let starts_anew = hands_rows_on(plan)
        || plan.is::<AggregateExec>()
        || plan.is::<GlobalLimitExec>()
        || plan.is::<LocalLimitExec>()
        || plan.is::<SortExec>()
        || plan.is::<SortPreservingMergeExec>();
    starts_anew && !children.is_empty() && children.into_iter().all(comes_from_device)
}

/// Whether a copy of the plan of a host input starts anew: nothing in it waits for a filter of another operator, which
/// the copy of that would no longer tell it.
fn starts_anew_as_input(plan: &Arc<dyn ExecutionPlan>) -> bool {
    if let Some(scan) = plan.downcast_ref::<PeltonScanExec>() {
        return !scan.is_told_filters();
    }
    let children = plan.children();
    hands_rows_on(plan) && !children.is_empty() && children.into_iter().all(starts_anew_as_input)
}

/// True for operators that take rows one by one and have no state but channels, which a copy has of its own.
fn hands_rows_on(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let has_no_dynamic_filter = || {
        let mut is_free = true;
        let walked = plan.apply_expressions(&mut |expr| {
            is_free &= !expr.exists(|part| Ok(part.is::<DynamicFilterPhysicalExpr>()))?;
            Ok(TreeNodeRecursion::Continue)
        });
        is_free && walked.is_ok()
    };
    plan.is::<ProjectionExec>()
        || plan.is::<FilterExec>() && has_no_dynamic_filter()
        || plan.is::<CooperativeExec>()
        || plan.is::<CoalescePartitionsExec>()
        || plan.is::<RepartitionExec>()
}
