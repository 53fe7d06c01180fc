//! Groups by a join's keys below the join, where what it adds to them are texts.
//!
//! ```text
//!   AggregateExec Final     name, city, year
//!     AggregateExec Partial   name, city, year           AggregateExec PartialReduce  name, city, year, from states
//!       HashJoinExec                            ─▶         HashJoinExec
//!         customer            key, name, city                customer                   key, name, city
//!         sales               key, year, amount              AggregateExec Partial      key, year
//!                                                              sales                    key, year, amount
//! ```
//!
//! A customer has many sales. Each would bring the customer's texts along, to be hashed and compared; grouped by integers
//! first, each customer brings them once. States of groups take the place of rows: a join that has no match for a group drops it,
//! and one that has several has its states several times, as it would have had each of its rows.
//!
//! Where hardly two rows are of one group, the first step notices that and passes them on as they are
//! ([`PartialAggregateExec`](crate::spilling::PartialAggregateExec)).
//!
//! Yan, Larson, "Eager Aggregation and Lazy Aggregation", VLDB 1995.

mod total;

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{JoinSide, JoinType};
use datafusion::error::Result;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{Column, lit};
use datafusion::physical_expr::projection::ProjectionExpr;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{Partitioning, PhysicalExpr};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::joins::utils::{ColumnIndex, build_join_schema};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};
use datafusion::scalar::ScalarValue;
use pelton_planner::Estimates;

use self::total::is_total;
pub(crate) use self::total::never_fails;
use crate::expected;
use crate::spilling::{PartialAggregateExec, are_integers, has_plain_groups};

type Node = Arc<dyn ExecutionPlan>;
type Expr = Arc<dyn PhysicalExpr>;

/// Texts that joins add to a group, at least: one is known by its view again and again.
const TEXTS_MIN: usize = 2;

/// Puts groups below joins.
#[derive(Debug)]
pub(crate) struct EagerAggregates {
    rows_min: usize,
}

impl EagerAggregates {
    /// For joins with tables of at least `rows_min` rows: texts of fewer are all in a core's cache.
    pub(crate) fn new(rows_min: usize) -> Self {
        Self { rows_min }
    }

    /// In place of `node`, a first step of groups, one that has the states of groups below joins.
    fn eager(&self, node: &Node, estimates: &Estimates) -> Result<Option<Node>> {
        let Some(aggregate) = node.downcast_ref::<AggregateExec>() else { return Ok(None) };
        let is_first_step = *aggregate.mode() == AggregateMode::Partial && has_plain_groups(aggregate);
        let Some(calls) = calls_of(aggregate).filter(|_| is_first_step) else { return Ok(None) };
        let by = aggregate.group_expr().expr();
        if by.iter().any(|(expr, _)| is_volatile(expr)) {
            return Ok(None);
        }
        let wanted = by.iter().flat_map(|(expr, _)| collect_columns(expr)).map(|column| column.index());
        let below = Below { aggregate, rows_min: self.rows_min, estimates };
        let asked = Asked { wanted: wanted.collect(), calls, texts: 0, build_rows: 0 };
        let Some(input) = below.put(aggregate.input(), asked)? else { return Ok(None) };

        let keys =
            by.iter().map(|(expr, name)| ProjectionExpr { expr: Arc::clone(expr), alias: name.clone() });
        let states = states_after(aggregate.input(), &input);
        let rows = ProjectionExec::try_new(keys.chain(states), input)?;
        let by = by.iter().enumerate().map(|(at, (_, name))| (column(name, at), name.clone()));
        let reduced = AggregateExec::try_new(
            AggregateMode::PartialReduce,
            PhysicalGroupBy::new_single(by.collect()),
            aggregate.aggr_expr().to_vec(),
            vec![None; aggregate.aggr_expr().len()],
            Arc::new(rows),
            aggregate.input_schema(),
        )?;
        // What is above is planned for these columns.
        let is_same = reduced.schema() == node.schema();
        Ok(is_same.then(|| Arc::new(PartialAggregateExec::in_place_of(node, reduced)) as _))
    }
}

impl PhysicalOptimizerRule for EagerAggregates {
    fn optimize(&self, plan: Node, _: &ConfigOptions) -> Result<Node> {
        let estimates = expected::estimates();
        let changed = plan.transform_up(|node| {
            Ok(self.eager(&node, &estimates)?.map_or_else(|| Transformed::no(node), Transformed::yes))
        })?;
        Ok(changed.data)
    }

    fn name(&self) -> &str {
        "pelton_eager_aggregates"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// What an aggregate computes: arguments and a filter.
#[derive(Clone)]
struct Call {
    arguments: Vec<Expr>,
    filter: Option<Expr>,
}

/// The calls of `aggregate`; `None` where a state that comes twice is not what rows that come twice give.
fn calls_of(aggregate: &AggregateExec) -> Option<Vec<Call>> {
    let schema = aggregate.input_schema();
    let calls = aggregate.aggr_expr().iter().zip(aggregate.filter_expr());
    let call = |(call, filter): (&Arc<AggregateFunctionExpr>, &Option<Expr>)| {
        let call_of = || Call { arguments: call.expressions(), filter: filter.clone() };
        is_total(call, &schema).then(call_of)
    };
    calls.map(call).collect()
}

/// What is asked of a node on the way down, in terms of its columns.
struct Asked {
    /// Columns that are read above it, other than by calls.
    wanted: BTreeSet<usize>,
    calls: Vec<Call>,
    /// Texts that joins above it add to what is wanted, and the rows of the largest table of these joins.
    texts: usize,
    build_rows: usize,
}

/// Puts groups for the calls of an aggregate below joins.
struct Below<'a> {
    aggregate: &'a AggregateExec,
    rows_min: usize,
    estimates: &'a Estimates,
}

impl Below<'_> {
    /// `node` with groups in place of rows of the side that joins in it look up from: its columns, of which those that are
    /// not wanted are NULL, and then the states. `None` where that cannot be, or is not worth it.
    fn put(&self, node: &Node, asked: Asked) -> Result<Option<Node>> {
        if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
            return self.below_projection(node, projection, asked);
        }
        if let Some(join) = node.downcast_ref::<HashJoinExec>()
            && asked.texts < TEXTS_MIN
        {
            return self.below_join(join, asked);
        }
        if let Some(cooperative) = node.downcast_ref::<CooperativeExec>()
            && cooperative.input().is::<HashJoinExec>()
            && asked.texts < TEXTS_MIN
        {
            let join = self.put(cooperative.input(), asked)?;
            return join.map(|join| replace_children_if_necessary(Arc::clone(node), vec![join])).transpose();
        }
        if let Some(repartition) = node.downcast_ref::<RepartitionExec>()
            && let Some(keys) = dealt_by(repartition)
        {
            let wanted = keys.iter().flat_map(collect_columns).map(|column| column.index());
            let wanted = asked.wanted.iter().copied().chain(wanted).collect();
            let input = self.put(repartition.input(), Asked { wanted, ..asked })?;
            return input
                .map(|input| replace_children_if_necessary(Arc::clone(node), vec![input]))
                .transpose();
        }
        self.groups(node, &asked)
    }

    fn below_projection(
        &self,
        node: &Node,
        projection: &ProjectionExec,
        asked: Asked,
    ) -> Result<Option<Node>> {
        let exprs = projection.expr();
        let of_column = |at: usize| Some(Arc::clone(&exprs[at].expr));
        if asked.wanted.iter().any(|&at| is_volatile(&exprs[at].expr)) {
            return Ok(None);
        }
        let wanted = asked.wanted.iter().flat_map(|&at| collect_columns(&exprs[at].expr));
        let below = Asked {
            wanted: wanted.map(|column| column.index()).collect(),
            calls: match moved(&asked.calls, of_column)? {
                Some(calls) => calls,
                None => return Ok(None),
            },
            ..asked
        };
        let Some(input) = self.put(projection.input(), below)? else { return Ok(None) };
        // What calls alone read would be computed of NULLs.
        let schema = node.schema();
        let columns = exprs.iter().enumerate().map(|(at, projected)| match asked.wanted.contains(&at) {
            true => Ok(projected.clone()),
            false => null(&schema, at),
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let states = states_after(projection.input(), &input);
        Ok(Some(Arc::new(ProjectionExec::try_new(columns.into_iter().chain(states), input)?)))
    }

    fn below_join(&self, join: &HashJoinExec, asked: Asked) -> Result<Option<Node>> {
        let is_plain =
            *join.join_type() == JoinType::Inner && join.filter().is_none() && join.fetch().is_none();
        if !is_plain || join.on().iter().any(|(_, key)| is_volatile(key)) {
            return Ok(None);
        }
        let (left, right) = (join.left().schema(), join.right().schema());
        let (_, all) = build_join_schema(&left, &right, join.join_type());
        let outputs: Vec<usize> = match join.projection.as_ref() {
            Some(projection) => projection.to_vec(),
            None => (0..all.len()).collect(),
        };
        let origin = |at: usize| -> &ColumnIndex { &all[outputs[at]] };
        let of_column = |at: usize| match origin(at) {
            ColumnIndex { index, side: JoinSide::Right } => Some(column(right.field(*index).name(), *index)),
            _ => None,
        };
        let Some(calls) = moved(&asked.calls, of_column)? else { return Ok(None) };
        let (mut wanted, mut texts) = (BTreeSet::new(), asked.texts);
        for origin in asked.wanted.iter().map(|&at| origin(at)) {
            match origin.side {
                JoinSide::Left => {
                    texts += usize::from(*left.field(origin.index).data_type() == DataType::Utf8View);
                }
                _ => drop(wanted.insert(origin.index)),
            }
        }
        wanted.extend(join.on().iter().flat_map(|(_, key)| collect_columns(key)).map(|key| key.index()));
        let Some(build_rows) = expected::rows(self.estimates, join.left()) else { return Ok(None) };
        let build_rows = build_rows.max(asked.build_rows);
        let Some(input) = self.put(join.right(), Asked { wanted, calls, texts, build_rows })? else {
            return Ok(None);
        };
        let states = right.fields().len()..input.schema().fields().len();
        let projection = outputs.into_iter().chain(states.map(|at| left.fields().len() + at)).collect();
        let children = vec![Arc::clone(join.left()), input];
        let join = join.builder().with_projection(Some(projection)).with_new_children(children)?;
        Ok(Some(join.build_exec()?))
    }

    /// Groups of the rows of `node` by what is wanted of it.
    fn groups(&self, node: &Node, asked: &Asked) -> Result<Option<Node>> {
        let schema = node.schema();
        let keys: Vec<usize> = asked.wanted.iter().copied().collect();
        let is_many = asked.texts >= TEXTS_MIN && asked.build_rows >= self.rows_min;
        if !is_many || keys.is_empty() || !are_integers(&schema.project(&keys)?) {
            return Ok(None);
        }
        let exprs = asked.calls.iter().flat_map(|call| call.arguments.iter().chain(&call.filter));
        // Of rows that no join has a match for, too.
        if !exprs.into_iter().all(|expr| never_fails(expr, &schema)) {
            return Ok(None);
        }
        if expected::rows(self.estimates, node).is_none_or(|rows| rows < asked.build_rows) {
            return Ok(None);
        }
        let calls = self.aggregate.aggr_expr().iter().zip(&asked.calls);
        let calls = calls.map(|(call, moved)| {
            call.with_new_expressions(moved.arguments.clone(), Vec::new()).map(Arc::new)
        });
        let Some(calls) = calls.collect::<Option<Vec<_>>>() else { return Ok(None) };
        let by =
            keys.iter().map(|&key| (column(schema.field(key).name(), key), schema.field(key).name().clone()));
        let groups: Node = Arc::new(AggregateExec::try_new(
            AggregateMode::Partial,
            PhysicalGroupBy::new_single(by.collect()),
            calls,
            asked.calls.iter().map(|call| call.filter.clone()).collect(),
            Arc::clone(node),
            Arc::clone(&schema),
        )?);
        let columns = (0..schema.fields().len()).map(|at| match keys.binary_search(&at) {
            Ok(key) => {
                let name = schema.field(at).name();
                Ok(ProjectionExpr { expr: column(name, key), alias: name.clone() })
            }
            Err(_) => null(&schema, at),
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let states = columns_from(&groups, keys.len());
        Ok(Some(Arc::new(ProjectionExec::try_new(columns.into_iter().chain(states), groups)?)))
    }
}

/// What rows are dealt to partitions by, if they are dealt in any order.
fn dealt_by(repartition: &RepartitionExec) -> Option<Vec<Expr>> {
    match repartition.partitioning() {
        _ if repartition.preserve_order() => None,
        Partitioning::Hash(keys, _) => Some(keys.clone()).filter(|keys| !keys.iter().any(is_volatile)),
        Partitioning::RoundRobinBatch(_) => Some(Vec::new()),
        _ => None,
    }
}

fn column(name: &str, at: usize) -> Expr {
    Arc::new(Column::new(name, at))
}

/// NULL in the place of column `at` of `schema`.
fn null(schema: &Schema, at: usize) -> Result<ProjectionExpr> {
    let field = schema.field(at);
    Ok(ProjectionExpr { expr: lit(ScalarValue::try_from(field.data_type())?), alias: field.name().clone() })
}

/// The columns that `with` has after those of `before`.
fn states_after(before: &Node, with: &Node) -> Vec<ProjectionExpr> {
    columns_from(with, before.schema().fields().len())
}

fn columns_from(node: &Node, first: usize) -> Vec<ProjectionExpr> {
    let schema = node.schema();
    let fields = schema.fields().iter().enumerate().skip(first);
    fields
        .map(|(at, field)| ProjectionExpr { expr: column(field.name(), at), alias: field.name().clone() })
        .collect()
}

/// `calls` with other expressions in place of columns; `None` where a column has none.
fn moved(calls: &[Call], of_column: impl Fn(usize) -> Option<Expr>) -> Result<Option<Vec<Call>>> {
    let mut is_moved = true;
    let mut moved = |expr: &Expr| {
        let expr = Arc::clone(expr).transform_up(|part| {
            let Some(column) = part.downcast_ref::<Column>() else { return Ok(Transformed::no(part)) };
            Ok(match of_column(column.index()) {
                Some(expr) => Transformed::yes(expr),
                None => {
                    is_moved = false;
                    Transformed::no(part)
                }
            })
        })?;
        Ok::<_, datafusion::error::DataFusionError>(expr.data)
    };
    let mut all = Vec::with_capacity(calls.len());
    for call in calls {
        let arguments = call.arguments.iter().map(&mut moved).collect::<Result<Vec<_>>>()?;
        let filter = call.filter.as_ref().map(&mut moved).transpose()?;
        all.push(Call { arguments, filter });
    }
    Ok(is_moved.then_some(all))
}
