//! The rule that keeps operators which add NULLs, and joins, from handing on what is known of their inputs alone.
//!
//! ```text
//!   a LEFT JOIN (SELECT 7 AS c, …)               c is 7 or NULL above the join
//!   … GROUP BY ROLLUP (m), input sorted by m     rows of the total come in between, with NULL for m
//!   r JOIN l, r sorted by b, l by a              several rows of one b each begin again with the least a
//! ```
//!
//! DataFusion 55 takes c for 7 (`EquivalenceGroup::join`), the groups for sorted by m, or partitioned by it where the input is
//! (`AggregateExec::compute_properties`), and
//! the rows of the hash join for sorted by b, a (`join_equivalence_properties`), and leaves out keys and sorts. Equal columns of
//! a side stay equal, both NULL; but not a column that equals what is not NULL for NULL, such as `coalesce(b, 0)`.
//!
//! So DataFusion arranges the plan, and where an operator of the result hands on such a thing, the plan is arranged again with
//! `as_is(c, varying())` in place of c: in a projection below the join, or as the key of the groups. It must be known what is
//! arranged, since sorts that are added below an operator give it an order, too. Plans without such claims, nearly all, are
//! looked at once and stay as they are.
//!
//! Known to be left: the order of the other side after a merge join, whose inputs are sorted anyway.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{JoinType, Result};
use datafusion::physical_expr::expressions::{CastExpr, Column};
use datafusion::physical_expr::projection::ProjectionExpr;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::ensure_requirements::EnsureRequirements;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode, PhysicalGroupBy};
use datafusion::physical_plan::joins::{
    HashJoinExec, NestedLoopJoinExec, PiecewiseMergeJoinExec, SortMergeJoinExec, SymmetricHashJoinExec,
};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, replace_children_if_necessary};

use super::function::{is_unknown, unknown};

/// How often a plan is arranged anew. What is hidden once is never claimed again, but a new sort may have a new order: one
/// round for the claims of the plan, one for those, and one to spare.
const ROUNDS_MAX: usize = 3;

/// Takes the place of DataFusion's rule of the same name.
#[derive(Debug)]
pub(super) struct SoundOrders {
    theirs: EnsureRequirements,
}

impl SoundOrders {
    pub(super) fn new() -> Self {
        Self { theirs: EnsureRequirements::new() }
    }
}

impl PhysicalOptimizerRule for SoundOrders {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut plan = plan;
        let mut arranged = self.theirs.optimize(Arc::clone(&plan), config)?;
        for _ in 0..ROUNDS_MAX {
            let claims = claims_of(&arranged)?;
            if claims.iter().all(Claims::are_none) || !are_of(&claims, &claims_of(&plan)?) {
                break;
            }
            plan = without(plan, claims, config)?;
            arranged = self.theirs.optimize(Arc::clone(&plan), config)?;
        }
        Ok(arranged)
    }

    fn name(&self) -> &str {
        self.theirs.name()
    }

    fn schema_check(&self) -> bool {
        self.theirs.schema_check()
    }
}

/// What an operator hands on though it does not hold of its rows.
struct Claims {
    operator: String,
    /// Of a join: columns of each of its inputs. Of groups: numbers of keys.
    columns: Vec<BTreeSet<usize>>,
}

impl Claims {
    fn are_none(&self) -> bool {
        self.columns.iter().all(BTreeSet::is_empty)
    }
}

/// Whether both are of the same operators, in the same order.
fn are_of(these: &[Claims], those: &[Claims]) -> bool {
    let operators = |claims: &[Claims]| claims.iter().map(|one| one.operator.clone()).collect::<Vec<_>>();
    operators(these) == operators(those)
}

/// The claims of all operators of `plan` that may have some, inputs first.
fn claims_of(plan: &Arc<dyn ExecutionPlan>) -> Result<Vec<Claims>> {
    let mut claims = Vec::new();
    Arc::clone(plan).transform_up(|node| {
        claims.extend(claims_of_operator(&node));
        Ok(Transformed::no(node))
    })?;
    Ok(claims)
}

/// `None` for operators that never have any.
fn claims_of_operator(node: &Arc<dyn ExecutionPlan>) -> Option<Claims> {
    let columns = match node.downcast_ref::<AggregateExec>() {
        Some(aggregate) if adds_nulls(aggregate) => vec![claims_of_groups(aggregate)],
        Some(_) => return None,
        None => claims_of_join(node, join_type(node)?)?,
    };
    Some(Claims { operator: node.name().to_owned(), columns })
}

fn adds_nulls(aggregate: &AggregateExec) -> bool {
    let is_first = matches!(aggregate.mode().input_mode(), AggregateInputMode::Raw);
    is_first && aggregate.group_expr().has_grouping_set()
}

fn join_type(node: &Arc<dyn ExecutionPlan>) -> Option<JoinType> {
    let of_hash_join = node.downcast_ref::<HashJoinExec>().map(|join| *join.join_type());
    of_hash_join
        .or_else(|| node.downcast_ref::<NestedLoopJoinExec>().map(|join| *join.join_type()))
        .or_else(|| node.downcast_ref::<SortMergeJoinExec>().map(SortMergeJoinExec::join_type))
        .or_else(|| node.downcast_ref::<PiecewiseMergeJoinExec>().map(PiecewiseMergeJoinExec::join_type))
        .or_else(|| node.downcast_ref::<SymmetricHashJoinExec>().map(|join| *join.join_type()))
}

fn claims_of_join(node: &Arc<dyn ExecutionPlan>, join_type: JoinType) -> Option<Vec<BTreeSet<usize>>> {
    let inputs = node.children();
    let [left, right] = inputs.as_slice() else { return None };
    let (mut of_left, of_right) = match join_type {
        JoinType::Left => (BTreeSet::new(), not_of_nulls(node, left, right).1),
        JoinType::Right => (not_of_nulls(node, left, right).0, BTreeSet::new()),
        JoinType::Full => not_of_nulls(node, left, right),
        _ => (BTreeSet::new(), BTreeSet::new()),
    };
    let (left, right) =
        (left.properties().equivalence_properties(), right.properties().equivalence_properties());
    let keeps_order_of_right = matches!(join_type, JoinType::Inner | JoinType::Right);
    if node.is::<HashJoinExec>() && keeps_order_of_right && !right.oeq_class().is_empty() {
        of_left.extend(ordered(left));
    }
    Some(vec![of_left, of_right])
}

/// Columns of both inputs of which `join` hands on what does not hold where all columns of an input are NULL.
fn not_of_nulls(
    join: &Arc<dyn ExecutionPlan>,
    left: &Arc<dyn ExecutionPlan>,
    right: &Arc<dyn ExecutionPlan>,
) -> (BTreeSet<usize>, BTreeSet<usize>) {
    let width = left.schema().fields().len();
    if join.schema().fields().len() != width + right.schema().fields().len() {
        // It leaves out columns.
        return (never_null(left), never_null(right));
    }
    let (of_left, of_right): (BTreeSet<usize>, BTreeSet<usize>) =
        never_null(join).into_iter().partition(|column| *column < width);
    (of_left, of_right.into_iter().map(|column| column - width).collect())
}

/// Columns of which something is known that does not hold where all columns are NULL.
fn never_null(node: &Arc<dyn ExecutionPlan>) -> BTreeSet<usize> {
    let known = node.properties().equivalence_properties();
    let mut columns = BTreeSet::new();
    for class in known.eq_group().iter() {
        let is_constant = class.iter().any(|expr| known.is_expr_constant(expr).is_some());
        if is_constant || !class.iter().all(is_null_for_null) {
            columns.extend(class.iter().flat_map(columns_of));
        }
    }
    columns
}

/// Whether `expr` is certainly NULL where all columns are.
fn is_null_for_null(expr: &Arc<dyn PhysicalExpr>) -> bool {
    expr.is::<Column>() || expr.downcast_ref::<CastExpr>().is_some_and(|cast| is_null_for_null(cast.expr()))
}

/// Columns that orders are of, and those that equal one.
fn ordered(known: &EquivalenceProperties) -> BTreeSet<usize> {
    let mut columns = BTreeSet::new();
    for key in known.oeq_class().iter().flat_map(|ordering| ordering.iter()) {
        columns.extend(columns_of(&key.expr));
        if let Some(class) = known.eq_group().get_equivalence_class(&key.expr) {
            columns.extend(class.iter().flat_map(columns_of));
        }
    }
    columns
}

fn columns_of(expr: &Arc<dyn PhysicalExpr>) -> Vec<usize> {
    collect_columns(expr).iter().map(Column::index).collect()
}

/// Keys that are NULL in some groups, and of which something is known.
fn claims_of_groups(aggregate: &AggregateExec) -> BTreeSet<usize> {
    let known = aggregate.input().properties().equivalence_properties();
    let mut columns = ordered(known);
    columns.extend(known.eq_group().iter().flat_map(|class| class.iter()).flat_map(columns_of));
    if let Partitioning::Hash(keys, _) = aggregate.input().output_partitioning() {
        columns.extend(keys.iter().flat_map(columns_of));
    }
    let by = aggregate.group_expr();
    let is_claimed = |number: usize, key: &Arc<dyn PhysicalExpr>| {
        let of_key = columns_of(key);
        let is_constant = of_key.is_empty();
        by.groups().iter().any(|nulls| nulls[number])
            && !is_unknown(key)
            && (is_constant || of_key.iter().any(|column| columns.contains(column)))
    };
    by.expr()
        .iter()
        .enumerate()
        .filter(|(number, (key, _))| is_claimed(*number, key))
        .map(|(number, _)| number)
        .collect()
}

/// `plan` without what `claims`, one for each operator that may have some, say.
fn without(
    plan: Arc<dyn ExecutionPlan>,
    claims: Vec<Claims>,
    config: &ConfigOptions,
) -> Result<Arc<dyn ExecutionPlan>> {
    let mut claims = claims.into_iter();
    plan.transform_up(|node| {
        if claims_of_operator(&node).is_none() {
            return Ok(Transformed::no(node));
        }
        let Some(claims) = claims.next().filter(|claims| !claims.are_none()) else {
            return Ok(Transformed::no(node));
        };
        if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
            let grouped = grouped_by_unknown(aggregate, &claims.columns[0], config)?;
            // Calls that DataFusion has turned around by now have other names then.
            if grouped.schema() != node.schema() {
                return Ok(Transformed::no(node));
            }
            return Ok(Transformed::yes(Arc::new(grouped) as Arc<dyn ExecutionPlan>));
        }
        let inputs = node.children().into_iter().zip(&claims.columns);
        let inputs = inputs.map(|(input, columns)| of_unknown(input, columns, config));
        let inputs = inputs.collect::<Result<Vec<_>>>()?;
        Ok(Transformed::yes(replace_children_if_necessary(node, inputs)?))
    })
    .data()
}

/// The rows of `input`, where nothing is known of `columns`.
fn of_unknown(
    input: &Arc<dyn ExecutionPlan>,
    columns: &BTreeSet<usize>,
    config: &ConfigOptions,
) -> Result<Arc<dyn ExecutionPlan>> {
    if columns.is_empty() {
        return Ok(Arc::clone(input));
    }
    let schema = input.schema();
    let exprs = schema.fields().iter().enumerate().map(|(number, field)| {
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(field.name(), number));
        let expr = if columns.contains(&number) { unknown(column, &schema, config)? } else { column };
        Ok(ProjectionExpr { expr, alias: field.name().clone() })
    });
    let exprs = exprs.collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(ProjectionExec::try_new(exprs, Arc::clone(input))?))
}

/// `aggregate`, where nothing is known of `keys`.
fn grouped_by_unknown(
    aggregate: &AggregateExec,
    keys: &BTreeSet<usize>,
    config: &ConfigOptions,
) -> Result<AggregateExec> {
    let by = aggregate.group_expr();
    let schema = aggregate.input().schema();
    let exprs = by.expr().iter().enumerate().map(|(number, (key, name))| {
        let key = Arc::clone(key);
        let key = if keys.contains(&number) { unknown(key, &schema, config)? } else { key };
        Ok((key, name.clone()))
    });
    let exprs = exprs.collect::<Result<Vec<_>>>()?;
    let by = PhysicalGroupBy::new(exprs, by.null_expr().to_vec(), by.groups().to_vec(), true);
    let grouped = AggregateExec::try_new(
        *aggregate.mode(),
        by,
        aggregate.aggr_expr().to_vec(),
        aggregate.filter_expr().to_vec(),
        Arc::clone(aggregate.input()),
        aggregate.input_schema(),
    )?;
    Ok(grouped.with_limit_options(aggregate.limit_options()))
}
