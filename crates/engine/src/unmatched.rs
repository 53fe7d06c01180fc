//! Rows of an outer join that are asked to have no partner are those of an anti join.
//!
//! ```text
//!   Filter  wr_order IS NULL                        Projection  NULL for what web_returns has
//!     Join LEFT  ws_order = wr_order       ─▶         Join LEFT ANTI  ws_order = wr_order
//!       web_sales                                       web_sales
//!       web_returns                                     web_returns
//! ```
//!
//! NULL equals nothing: a key that is NULL is of no pair. An anti join gives no pairs, which the filter would have dropped.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, JoinType, NullEquality, Result, ScalarValue};
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{Expr, Filter, Join, LogicalPlan, Projection, lit};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

type Rules = Vec<Arc<dyn OptimizerRule + Send + Sync>>;

/// `rules` with the one of this file behind DataFusion's that pushes filters down: later, projections come between.
pub(crate) fn install(mut rules: Rules) -> Rules {
    let theirs = rules.iter().position(|rule| rule.name() == "push_down_filter");
    let place = theirs.expect("DataFusion pushes filters down by another rule now");
    rules.insert(place + 1, Arc::new(Unmatched));
    rules
}

/// See the module.
#[derive(Debug)]
struct Unmatched;

impl OptimizerRule for Unmatched {
    fn name(&self) -> &str {
        "pelton_unmatched"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        Ok(match &plan {
            LogicalPlan::Filter(filter) => match &*filter.input {
                LogicalPlan::Join(join) => anti(filter, join)?.map(Transformed::yes),
                _ => None,
            },
            _ => None,
        }
        .unwrap_or_else(|| Transformed::no(plan)))
    }
}

/// `filter` over an outer `join`, where it asks for rows without a partner.
fn anti(filter: &Filter, join: &Join) -> Result<Option<LogicalPlan>> {
    if join.null_equality == NullEquality::NullEqualsNull {
        return Ok(None);
    }
    let (join_type, is_left_kept) = match join.join_type {
        JoinType::Left => (JoinType::LeftAnti, true),
        JoinType::Right => (JoinType::RightAnti, false),
        _ => return Ok(None),
    };
    let keys: Vec<&Column> = join
        .on
        .iter()
        .filter_map(|(left, right)| if is_left_kept { right } else { left }.try_as_col())
        .collect();
    let (asked, rest): (Vec<&Expr>, Vec<&Expr>) = split_conjunction(&filter.predicate).into_iter().partition(
        |part| matches!(part, Expr::IsNull(of) if of.try_as_col().is_some_and(|of| keys.contains(&of))),
    );
    if asked.is_empty() {
        return Ok(None);
    }
    let kept = if is_left_kept { &join.left } else { &join.right };
    let without = Join::try_new(
        Arc::clone(&join.left),
        Arc::clone(&join.right),
        join.on.clone(),
        join.filter.clone(),
        join_type,
        join.join_constraint,
        join.null_equality,
        false,
    )?;
    let left_columns = join.left.schema().fields().len();
    let columns = join.schema.iter().enumerate().map(|(at, (qualifier, field))| {
        if (at < left_columns) == is_left_kept {
            let (qualifier, field) =
                kept.schema().qualified_field(if is_left_kept { at } else { at - left_columns });
            return Ok(Expr::Column(Column::from((qualifier, field))));
        }
        let null = lit(ScalarValue::try_from(field.data_type())?);
        Ok(null.alias_qualified(qualifier.cloned(), field.name().clone()))
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let rows = LogicalPlan::Projection(Projection::try_new(columns, Arc::new(LogicalPlan::Join(without)))?);
    Ok(Some(match conjunction(rest.into_iter().cloned()) {
        Some(rest) => LogicalPlan::Filter(Filter::try_new(rest, Arc::new(rows))?),
        None => rows,
    }))
}
