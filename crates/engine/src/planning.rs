//! Planning within bounds: of time, by a flag, and of size.
//!
//! ```text
//!   statement ─ expansion ─▶ logical plan ─ PlanSize ─▶ rules of DataFusion and Pelton ─▶ physical plan
//!                                                            │ before each rule, and before each node that it rewrites:
//!                                                            │   is the query cancelled?
//!                                                            └ after: have its expressions grown out of bounds?
//! ```
//!
//! DataFusion plans without ever waiting, so dropping the future of a plan in the making stops nothing: only what runs
//! in it can end it. Names of a WITH and views are planned anew wherever they are used, and rules put expressions in the
//! place of the columns that name them: both can double with every word of a statement, in time and in memory.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{AnalyzerRule, OptimizerConfig, OptimizerRule};
use datafusion::physical_optimizer::{PhysicalOptimizerContext, PhysicalOptimizerRule};
use datafusion::physical_plan::ExecutionPlan;
use pelton_error::{CancelFlag, Error, Result};

use crate::error::to_datafusion;

/// Steps of a plan: UNION ALL of 10,000 queries has 30,000.
const STEPS_MAX: u64 = 100_000;
/// Columns of all steps together. Each takes some 100 bytes while it is planned, so this is some 200 MB.
const COLUMNS_MAX: u64 = 2_000_000;
/// Parts of the expressions of one step that rules may make of any statement, however short: 130,000 took 7 s to plan
/// (two busy cores, 2026-11).
const PARTS_MAX: u64 = 50_000;
/// How many times as many as the statement has they may make of a long one.
const GROWTH_MAX: u64 = 8;

tokio::task_local! {
    static WATCH: Watch;
}

/// What planning is held to.
#[derive(Clone)]
struct Watch {
    cancel: CancelFlag,
    parts_max: u64,
}

/// Runs `work`, whose planning ends with an error of kind `Cancelled` soon after `cancel` is set. Dropping the future
/// does not end planning that is under way in another thread; the flag does.
pub async fn cancellable<T>(cancel: &CancelFlag, work: impl Future<Output = T>) -> T {
    WATCH.scope(Watch { cancel: cancel.clone(), parts_max: u64::MAX }, work).await
}

/// Runs `work`, the planning of a plan of this size, within what it may become.
pub(crate) async fn bounded<T>(size: &PlanSize, work: impl Future<Output = T>) -> T {
    let cancel = WATCH.try_with(|watch| watch.cancel.clone()).unwrap_or_default();
    let parts_max = PARTS_MAX.saturating_add(size.parts.saturating_mul(GROWTH_MAX));
    WATCH.scope(Watch { cancel, parts_max }, work).await
}

/// Whether a session of Pelton's plans this, and not one of somebody's own.
pub(crate) fn is_ours() -> bool {
    WATCH.try_with(|_| ()).is_ok()
}

/// # Errors
///
/// `Cancelled` where the query that is planned here is cancelled.
pub(crate) fn check() -> DataFusionResult<()> {
    WATCH.try_with(|watch| watch.cancel.check()).unwrap_or(Ok(())).map_err(to_datafusion)
}

/// How large a plan is, counted as if nothing in it were shared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PlanSize {
    /// Steps: scans, joins, projections.
    pub(crate) steps: u64,
    columns: u64,
    /// Parts of expressions: columns, literals, functions.
    parts: u64,
}

impl PlanSize {
    /// The size of `plan`, found in time by what it shares: twenty names of a WITH that double are twenty steps to look
    /// at.
    ///
    /// # Errors
    ///
    /// That it is too large to be planned, and what to do about it.
    pub(crate) fn of(plan: &LogicalPlan) -> Result<Self> {
        let size = measured(plan, &mut HashMap::new());
        if size.steps > STEPS_MAX || size.columns > COLUMNS_MAX {
            return Err(Error::invalid_input(format!(
                "the statement is a plan of {} steps with {} columns, more than the {STEPS_MAX} steps and {COLUMNS_MAX} \
                 columns that are planned: WITH names and views are planned anew wherever they are used; use them less \
                 often, select fewer columns, or store what is used again as a table",
                size.steps, size.columns
            )));
        }
        Ok(size)
    }

    fn add(&mut self, other: &Self) {
        self.steps = self.steps.saturating_add(other.steps);
        self.columns = self.columns.saturating_add(other.columns);
        self.parts = self.parts.saturating_add(other.parts);
    }
}

fn measured(plan: &LogicalPlan, known: &mut HashMap<usize, PlanSize>) -> PlanSize {
    let address = std::ptr::from_ref(plan).addr();
    if let Some(size) = known.get(&address) {
        return *size;
    }
    let columns = plan.schema().fields().len() as u64;
    let mut size = PlanSize { steps: 1, columns, parts: 0 };
    // Walking expressions fails only where the closure does.
    let _ = plan.apply_expressions(|expr| {
        expr.apply(|part| {
            size.parts += 1;
            if let Some(subquery) = subquery_of(part) {
                size.add(&measured(subquery, known));
            }
            Ok(TreeNodeRecursion::Continue)
        })
    });
    for input in plan.inputs() {
        size.add(&measured(input, known));
    }
    known.insert(address, size);
    size
}

fn subquery_of(expr: &Expr) -> Option<&LogicalPlan> {
    match expr {
        Expr::ScalarSubquery(subquery)
        | Expr::Exists(Exists { subquery, .. })
        | Expr::InSubquery(InSubquery { subquery, .. }) => Some(&subquery.subquery),
        _ => None,
    }
}

/// # Errors
///
/// That a rule has made more of the expressions of `plan`, or of what it puts below it, than they may become.
fn check_growth(plan: &LogicalPlan) -> DataFusionResult<()> {
    let parts_max = WATCH.try_with(|watch| watch.parts_max).unwrap_or(u64::MAX);
    let mut parts = 0;
    // A filter that goes through a projection is the projection's input then.
    for step in std::iter::once(plan).chain(plan.inputs()) {
        step.apply_expressions(|expr| {
            expr.apply(|_| {
                parts += 1;
                Ok(if parts > parts_max { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
            })
        })?;
    }
    if parts <= parts_max {
        return Ok(());
    }
    Err(to_datafusion(Error::invalid_input(format!(
        "an expression becomes too large to be planned, of more than {parts_max} parts: a column that is computed from \
         another several times over, again and again, doubles with each time; compute it in fewer steps, or store an \
         intermediate result as a table"
    ))))
}

/// `builder` with all of its rules watched. Those added later are not.
pub(crate) fn watched(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    let mut analyzer = builder.analyzer().take().unwrap_or_default();
    analyzer.rules = analyzer.rules.into_iter().map(analyzing).collect();
    let mut optimizer = builder.optimizer().take().unwrap_or_default();
    optimizer.rules = optimizer.rules.into_iter().map(optimizing).collect();
    let mut physical = builder.physical_optimizers().take().unwrap_or_default();
    physical.rules = physical.rules.into_iter().map(physically).collect();
    *builder.analyzer() = Some(analyzer);
    *builder.optimizer() = Some(optimizer);
    *builder.physical_optimizers() = Some(physical);
    let more = builder.analyzer_rules();
    *more = more.take().map(|rules| rules.into_iter().map(analyzing).collect());
    let more = builder.optimizer_rules();
    *more = more.take().map(|rules| rules.into_iter().map(optimizing).collect());
    let more = builder.physical_optimizer_rules();
    *more = more.take().map(|rules| rules.into_iter().map(physically).collect());
    builder
}

fn analyzing(rule: Arc<dyn AnalyzerRule + Send + Sync>) -> Arc<dyn AnalyzerRule + Send + Sync> {
    Arc::new(Analyzing(rule))
}

fn optimizing(rule: Arc<dyn OptimizerRule + Send + Sync>) -> Arc<dyn OptimizerRule + Send + Sync> {
    Arc::new(Optimizing(rule))
}

fn physically(
    rule: Arc<dyn PhysicalOptimizerRule + Send + Sync>,
) -> Arc<dyn PhysicalOptimizerRule + Send + Sync> {
    Arc::new(Physically(rule))
}

#[derive(Debug)]
struct Analyzing(Arc<dyn AnalyzerRule + Send + Sync>);

impl AnalyzerRule for Analyzing {
    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> DataFusionResult<LogicalPlan> {
        check()?;
        self.0.analyze(plan, config)
    }

    fn name(&self) -> &str {
        self.0.name()
    }
}

#[derive(Debug)]
struct Optimizing(Arc<dyn OptimizerRule + Send + Sync>);

impl OptimizerRule for Optimizing {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> DataFusionResult<Transformed<LogicalPlan>> {
        check()?;
        let rewritten = self.0.rewrite(plan, config)?;
        if rewritten.transformed {
            check_growth(&rewritten.data)?;
        }
        Ok(rewritten)
    }
}

#[derive(Debug)]
struct Physically(Arc<dyn PhysicalOptimizerRule + Send + Sync>);

impl PhysicalOptimizerRule for Physically {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        check()?;
        self.0.optimize(plan, config)
    }

    fn optimize_with_context(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        context: &dyn PhysicalOptimizerContext,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        check()?;
        self.0.optimize_with_context(plan, context)
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}
