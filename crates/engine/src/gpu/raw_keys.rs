//! Groups by what the device does not compute of a text: it groups by the text, and the host computes of the groups.
//!
//! ```text
//!   AggregateExec Final                          AggregateExec Final          the same
//!     RepartitionExec                              RepartitionExec
//!       AggregateExec Partial                        ProjectionExec           f(url), states        one row a text
//!         by f(url)                       ─▶           RepartitionExec
//!           scan                                         PeltonGpuExec        groups by url: states
//! ```
//!
//! Groups of equal texts are parts of groups of equal results, and their states are merged by who merges those of several
//! partitions anyway. A function that is not evaluated for each row but for each text must give the same for the same
//! text every time.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::projection::ProjectionExpr;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, Partitioning};

use super::text::text_input;

/// An aggregate whose keys are functions of texts, by these texts.
pub(super) struct ByRawKeys {
    /// The states of groups by the texts.
    pub(super) aggregate: Arc<dyn ExecutionPlan>,
    /// What the aggregate's columns are of those.
    columns: Vec<ProjectionExpr>,
    /// The aggregate that it was.
    instead_of: Arc<dyn ExecutionPlan>,
}

impl ByRawKeys {
    /// `plan`, where it makes the states of groups by functions of texts.
    ///
    /// # Errors
    ///
    /// Of DataFusion's operators, where they are not put together again.
    pub(super) fn of(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Self>> {
        let Some(aggregate) = plan.downcast_ref::<AggregateExec>() else { return Ok(None) };
        let group_by = aggregate.group_expr();
        if *aggregate.mode() != AggregateMode::Partial
            || group_by.has_grouping_set()
            || aggregate.limit_options().is_some()
        {
            return Ok(None);
        }
        let schema = aggregate.input().schema();
        let mut raw_keys = Keys::default();
        let mut columns = Vec::with_capacity(plan.schema().fields().len());
        let mut is_any_split = false;
        for (expr, alias) in group_by.expr() {
            let of_text = text_input(expr, &schema).filter(|_| !expr.is::<Column>());
            is_any_split |= of_text.is_some();
            let key = match of_text {
                Some(column) => {
                    let name = schema.field(column).name();
                    let at = raw_keys.add(&(Arc::new(Column::new(name, column)) as _), name);
                    at_column(expr, at)?
                }
                None => Arc::new(Column::new(alias, raw_keys.add(expr, alias))),
            };
            columns.push(ProjectionExpr { expr: key, alias: alias.clone() });
        }
        if !is_any_split {
            return Ok(None);
        }
        let raw_count = raw_keys.0.len();
        let states = plan
            .schema()
            .fields()
            .iter()
            .skip(group_by.expr().len())
            .enumerate()
            .map(|(state, field)| {
                let expr = Arc::new(Column::new(field.name(), raw_count + state)) as _;
                ProjectionExpr { expr, alias: field.name().clone() }
            })
            .collect::<Vec<_>>();
        columns.extend(states);
        let by_raw_keys = AggregateExec::try_new(
            AggregateMode::Partial,
            PhysicalGroupBy::new_single(raw_keys.0),
            aggregate.aggr_expr().to_vec(),
            aggregate.filter_expr().to_vec(),
            Arc::clone(aggregate.input()),
            aggregate.input_schema(),
        )?;
        Ok(Some(Self { aggregate: Arc::new(by_raw_keys), columns, instead_of: Arc::clone(plan) }))
    }

    /// The aggregate, of `groups`, the states of groups by texts; `None` where that is not what it was.
    ///
    /// # Errors
    ///
    /// As [`of`](Self::of).
    pub(super) fn over(self, groups: Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let partitions = self.instead_of.output_partitioning().partition_count();
        let groups: Arc<dyn ExecutionPlan> = match groups.output_partitioning().partition_count()
            == partitions
        {
            true => groups,
            false => Arc::new(RepartitionExec::try_new(groups, Partitioning::RoundRobinBatch(partitions))?),
        };
        let schema = self.instead_of.schema();
        let above = ProjectionExec::try_new_with_schema_metadata(self.columns, groups, &schema)?;
        Ok((above.schema() == schema).then(|| Arc::new(above) as _))
    }
}

/// Keys without repetitions, with their names.
#[derive(Default)]
struct Keys(Vec<(Arc<dyn PhysicalExpr>, String)>);

impl Keys {
    /// The number of `expr` among them.
    fn add(&mut self, expr: &Arc<dyn PhysicalExpr>, name: &str) -> usize {
        self.0.iter().position(|(known, _)| known == expr).unwrap_or_else(|| {
            self.0.push((Arc::clone(expr), name.to_owned()));
            self.0.len() - 1
        })
    }
}

/// `expr`, a function of one column, with that as column `at`.
fn at_column(expr: &Arc<dyn PhysicalExpr>, at: usize) -> Result<Arc<dyn PhysicalExpr>> {
    let moved = Arc::clone(expr).transform_up(|part| match part.downcast_ref::<Column>() {
        Some(column) => Ok(Transformed::yes(Arc::new(Column::new(column.name(), at)) as _)),
        None => Ok(Transformed::no(part)),
    });
    moved.data()
}
