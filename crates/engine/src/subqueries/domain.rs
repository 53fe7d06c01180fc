//! A subquery for all rows of its query at once: each of its operators works on the rows of each combination
//! of outer columns by itself.
//!
//! ```text
//!   D: the combinations of the outer columns that the subquery names, each once
//!
//!   no outer columns below     T                  D × T
//!   Filter, Projection         outer(k)           D.k
//!   Aggregate                  GROUP BY g         GROUP BY D, g; without g a row also for a D without rows
//!   Window                     PARTITION BY p     PARTITION BY D, p
//!   DISTINCT ON (d)            ORDER BY o         DISTINCT ON (D, d) ORDER BY D, o
//!   LIMIT                      ORDER BY o         by row_number() OVER (PARTITION BY D ORDER BY o)
//!   unnest                     of a list          of the list, beside D
//!   UNION ALL                  A, B               A of its D, B of its D
//!   Join                       A, B               A of D joined with B, or with B of D where D is the same
//! ```
//!
//! Names of copies of D and of its columns are each there once in a plan.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, JoinType, NullEquality, Result};
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::logical_expr::expr::Case;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Distinct, DistinctOn, Expr, ExprFunctionExt, ExprSchemable, FetchType, Filter,
    Join, Limit, LogicalPlan, LogicalPlanBuilder, Operator, Projection, SkipType, Sort, SortExpr, Union,
    Unnest, Window, lit,
};
use datafusion::scalar::ScalarValue;
use pelton_error::Error;

use super::Names;
use super::lateral;
use super::outer::{OuterColumn, outer_columns, outer_columns_of, replace_outer};
use super::rows::{differ, may_change};
use crate::error::to_datafusion;
use crate::window_functions::row_number;

/// The combinations of outer columns that there are.
pub(super) struct Domain<'a> {
    /// Its columns are `outer`'s, in their order, each combination once.
    plan: Arc<LogicalPlan>,
    outer: Vec<OuterColumn>,
    names: &'a Names,
}

/// A plan and those of its columns that hold the domain's.
pub(super) struct Pushed {
    pub(super) plan: LogicalPlan,
    pub(super) columns: Vec<Column>,
}

impl<'a> Domain<'a> {
    /// The combinations of `outer` in the rows of `plan`, and maybe more.
    ///
    /// # Errors
    ///
    /// `Unsupported` where the rows of `plan` need not be the same when they are computed once more.
    pub(super) fn new(plan: &LogicalPlan, outer: Vec<OuterColumn>, names: &'a Names) -> Result<Self> {
        let exprs: Vec<Expr> = outer.iter().map(|(_, column)| Expr::Column(column.clone())).collect();
        let (plan, exprs) = same_again(plan, exprs)?;
        let exprs = exprs.into_iter().enumerate().map(|(at, expr)| expr.alias(format!("k{at}")));
        let plan = LogicalPlanBuilder::from(plan.clone()).project(exprs)?.distinct()?.build()?;
        Ok(Self { plan: Arc::new(plan), outer, names })
    }

    /// `plan` for each combination.
    ///
    /// # Errors
    ///
    /// `Unsupported` where an operator cannot work on each combination by itself.
    pub(super) fn push(&self, plan: &LogicalPlan) -> Result<Pushed> {
        if !self.reaches(plan) {
            let copy = self.copy()?;
            if is_one_row(plan) {
                return Ok(copy);
            }
            let plan = LogicalPlanBuilder::from(copy.plan).cross_join(plan.clone())?.build()?;
            return Ok(Pushed { plan, columns: copy.columns });
        }
        match plan {
            LogicalPlan::Filter(filter) => self.filter(filter),
            LogicalPlan::Projection(projection) => self.projection(projection),
            LogicalPlan::SubqueryAlias(alias) => {
                let Pushed { plan, columns } = self.push(&alias.input)?;
                let plan = LogicalPlanBuilder::from(plan).alias(alias.alias.clone())?.build()?;
                let named = |column: Column| Column::new(Some(alias.alias.clone()), column.name);
                Ok(Pushed { plan, columns: columns.into_iter().map(named).collect() })
            }
            // In FROM, and nothing stands before it.
            LogicalPlan::Subquery(subquery) => self.push(&subquery.subquery),
            LogicalPlan::Distinct(Distinct::On(distinct)) => self.distinct_on(distinct),
            LogicalPlan::Unnest(unnest) => self.unnest(unnest),
            LogicalPlan::Distinct(Distinct::All(input)) => {
                let Pushed { plan, columns } = self.push(input)?;
                Ok(Pushed { plan: LogicalPlan::Distinct(Distinct::All(Arc::new(plan))), columns })
            }
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => self.sort(sort),
            LogicalPlan::Limit(limit) => self.limit(limit),
            LogicalPlan::Aggregate(aggregate) => self.aggregate(aggregate),
            LogicalPlan::Window(window) => self.window(window),
            LogicalPlan::Union(union) => self.union(union),
            LogicalPlan::Join(join) => self.join(join),
            other => Err(cannot_move(&other.display().to_string())),
        }
    }

    /// Whether `plan` depends on the domain.
    fn reaches(&self, plan: &LogicalPlan) -> bool {
        outer_columns(plan).iter().any(|(_, column)| self.position(column).is_some())
    }

    fn reaches_expr(&self, expr: &Expr, inputs: &[&LogicalPlan]) -> bool {
        outer_columns_of(expr, inputs).iter().any(|(_, column)| self.position(column).is_some())
    }

    fn position(&self, column: &Column) -> Option<usize> {
        self.outer.iter().position(|(_, outer)| outer == column)
    }

    /// The domain once more, under names of its own.
    fn copy(&self) -> Result<Pushed> {
        let name = self.names.next("outer");
        let names: Vec<String> = (0..self.outer.len()).map(|at| format!("{name}_{at}")).collect();
        let columns: Vec<Expr> = self
            .plan
            .schema()
            .columns()
            .into_iter()
            .zip(&names)
            .map(|(column, name)| Expr::Column(column).alias(name))
            .collect();
        let plan = LogicalPlanBuilder::new_from_arc(Arc::clone(&self.plan)).project(columns)?;
        let columns = names.into_iter().map(|column| Column::new(Some(name.as_str()), column)).collect();
        Ok(Pushed { plan: plan.alias(name.as_str())?.build()?, columns })
    }

    /// `expr`, over the rows of `inputs`, with `columns` in place of the outer references.
    fn own(&self, expr: &Expr, inputs: &[&LogicalPlan], columns: &[Column]) -> Result<Expr> {
        let inputs: Vec<_> = inputs.iter().map(|input| Arc::clone(input.schema())).collect();
        replace_outer(expr.clone(), &inputs, &|column| self.position(column).map(|at| columns[at].clone()))
    }

    fn own_all(&self, exprs: &[Expr], input: &LogicalPlan, columns: &[Column]) -> Result<Vec<Expr>> {
        let names = NamePreserver::new_for_projection();
        let own = |expr: &Expr| Ok(names.save(expr).restore(self.own(expr, &[input], columns)?));
        exprs.iter().map(own).collect()
    }

    fn own_keys(&self, keys: &[SortExpr], input: &LogicalPlan, columns: &[Column]) -> Result<Vec<SortExpr>> {
        let own =
            |key: &SortExpr| Ok(SortExpr { expr: self.own(&key.expr, &[input], columns)?, ..key.clone() });
        keys.iter().map(own).collect()
    }

    fn filter(&self, filter: &Filter) -> Result<Pushed> {
        let Pushed { plan, columns } = self.push(&filter.input)?;
        let predicate = self.own(&filter.predicate, &[&filter.input], &columns)?;
        Ok(Pushed { plan: LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(plan))?), columns })
    }

    fn projection(&self, projection: &Projection) -> Result<Pushed> {
        let Pushed { plan, columns } = self.push(&projection.input)?;
        let mut exprs = self.own_all(&projection.expr, &projection.input, &columns)?;
        exprs.extend(columns.iter().cloned().map(Expr::Column));
        let plan = LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(plan))?);
        Ok(Pushed { plan, columns })
    }

    fn sort(&self, sort: &Sort) -> Result<Pushed> {
        let Pushed { plan, columns } = self.push(&sort.input)?;
        let expr = self.own_keys(&sort.expr, &sort.input, &columns)?;
        Ok(Pushed { plan: LogicalPlan::Sort(Sort { expr, input: Arc::new(plan), fetch: None }), columns })
    }

    fn distinct_on(&self, distinct: &DistinctOn) -> Result<Pushed> {
        let input = &distinct.input;
        let Pushed { plan, columns } = self.push(input)?;
        let of_domain = || columns.iter().cloned().map(Expr::Column);
        let on = of_domain().chain(self.own_all(&distinct.on_expr, input, &columns)?).collect();
        let select = self.own_all(&distinct.select_expr, input, &columns)?.into_iter().chain(of_domain());
        let own_keys = |keys: &Vec<SortExpr>| -> Result<Vec<SortExpr>> {
            let first = of_domain().map(|column| column.sort(true, false));
            Ok(first.chain(self.own_keys(keys, input, &columns)?).collect())
        };
        let keys = distinct.sort_expr.as_ref().map(own_keys).transpose()?;
        let distinct = DistinctOn::try_new(on, select.collect(), keys, Arc::new(plan))?;
        Ok(Pushed { plan: LogicalPlan::Distinct(Distinct::On(distinct)), columns })
    }

    fn unnest(&self, unnest: &Unnest) -> Result<Pushed> {
        let Pushed { plan, columns } = self.push(&unnest.input)?;
        let output = plan.schema().columns().into_iter();
        let output: Vec<Expr> =
            output.map(|column| lateral::repeated(column, |of| columns.contains(of))).collect();
        let plan = Arc::new(LogicalPlanBuilder::from(plan).project(output)?.build()?);
        let (lists, options) = (unnest.exec_columns.clone(), unnest.options.clone());
        Ok(Pushed { plan: LogicalPlan::Unnest(Unnest::try_new(plan, lists, options)?), columns })
    }

    /// Rows by their number among those of their combination.
    fn limit(&self, limit: &Limit) -> Result<Pushed> {
        let (SkipType::Literal(skip), FetchType::Literal(fetch)) =
            (limit.get_skip_type()?, limit.get_fetch_type()?)
        else {
            return Err(cannot_move("LIMIT or OFFSET that is no number"));
        };
        // ORDER BY by what is not selected stands below the projection.
        if let LogicalPlan::Projection(projection) = limit.input.as_ref() {
            let below = LogicalPlan::Limit(Limit { input: Arc::clone(&projection.input), ..limit.clone() });
            return self.projection(&Projection::try_new_with_schema(
                projection.expr.clone(),
                Arc::new(below),
                Arc::clone(&projection.schema),
            )?);
        }
        let (input, keys) = match limit.input.as_ref() {
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => (&sort.input, sort.expr.as_slice()),
            _ => (&limit.input, [].as_slice()),
        };
        let Pushed { plan, columns } = self.push(input)?;
        let output: Vec<Expr> = plan.schema().columns().into_iter().map(Expr::Column).collect();
        let partition = columns.iter().cloned().map(Expr::Column).collect();
        let mut numbered = row_number().partition_by(partition);
        if !keys.is_empty() {
            numbered = numbered.order_by(self.own_keys(keys, input, &columns)?);
        }
        let numbered = LogicalPlanBuilder::from(plan).window([numbered.build()?])?.build()?;
        let (relation, field) = numbered.schema().qualified_field(output.len());
        let number = Expr::Column(Column::from((relation, field)));
        let as_number = |rows: usize| lit(i64::try_from(rows).unwrap_or(i64::MAX));
        let mut in_range = number.clone().gt(as_number(skip));
        if let Some(fetch) = fetch {
            in_range = in_range.and(number.lt_eq(as_number(skip.saturating_add(fetch))));
        }
        let plan = LogicalPlanBuilder::from(numbered).filter(in_range)?.project(output)?.build()?;
        Ok(Pushed { plan, columns })
    }

    fn window(&self, window: &Window) -> Result<Pushed> {
        let Pushed { plan, columns } = self.push(&window.input)?;
        let names = NamePreserver::new_for_projection();
        let exprs = window.window_expr.iter().map(|expr| {
            let name = names.save(expr);
            let own = self.own(expr, &[&window.input], &columns)?.transform_down(|expr| match expr {
                Expr::WindowFunction(mut call) => {
                    let partition = columns.iter().cloned().map(Expr::Column);
                    call.params.partition_by = partition.chain(call.params.partition_by).collect();
                    Ok(Transformed::yes(Expr::WindowFunction(call)))
                }
                other => Ok(Transformed::no(other)),
            })?;
            Ok(name.restore(own.data))
        });
        let exprs = exprs.collect::<Result<Vec<Expr>>>()?;
        let plan = LogicalPlan::Window(Window::try_new(exprs, Arc::new(plan))?);
        Ok(Pushed { plan, columns })
    }

    fn union(&self, union: &Union) -> Result<Pushed> {
        let name = self.names.next("outer");
        let mut inputs = Vec::new();
        let mut fields = Vec::new();
        for input in &union.inputs {
            let output: Vec<Expr> = (union.schema.iter().zip(input.schema().columns()))
                .map(|((relation, field), column)| {
                    let (named, name) = (relation.cloned(), field.name());
                    match column.relation == named && column.name == *name {
                        true => Expr::Column(column),
                        false => Expr::Column(column).alias_qualified(named, name),
                    }
                })
                .collect();
            let Pushed { plan, columns } = self.push(input)?;
            let renamed = columns.into_iter().enumerate();
            let renamed: Vec<Expr> =
                renamed.map(|(at, column)| Expr::Column(column).alias(format!("{name}_{at}"))).collect();
            let output = output.into_iter().chain(renamed);
            let plan = LogicalPlanBuilder::from(plan).project(output)?.build()?;
            fields = plan.schema().fields()[union.schema.fields().len()..].to_vec();
            inputs.push(Arc::new(plan));
        }
        let fields = fields.into_iter().map(|field| (None, field)).collect();
        let domain = DFSchema::new_with_metadata(fields, HashMap::new())?;
        let schema = Arc::new(union.schema.join(&domain)?);
        let columns = domain.columns();
        Ok(Pushed { plan: LogicalPlan::Union(Union { inputs, schema }), columns })
    }

    fn aggregate(&self, aggregate: &Aggregate) -> Result<Pushed> {
        if aggregate.group_expr.iter().any(|expr| matches!(expr, Expr::GroupingSet(_))) {
            return Err(cannot_move("GROUPING SETS"));
        }
        let Pushed { plan, columns } = self.push(&aggregate.input)?;
        let keys = columns.iter().cloned().map(Expr::Column);
        let keys = keys.chain(self.own_all(&aggregate.group_expr, &aggregate.input, &columns)?).collect();
        let mut calls = self.own_all(&aggregate.aggr_expr, &aggregate.input, &columns)?;
        let of_all_rows = aggregate.group_expr.is_empty();
        let rows = self.names.next("rows");
        if of_all_rows {
            calls.push(count(lit(1_i64)).alias(&rows));
        }
        let grouped = Pushed {
            plan: LogicalPlan::Aggregate(Aggregate::try_new(Arc::new(plan), keys, calls)?),
            columns,
        };
        if of_all_rows { self.with_empty_groups(grouped, aggregate, &rows) } else { Ok(grouped) }
    }

    /// A row also for each combination without rows, with the values that aggregates have over no rows.
    fn with_empty_groups(&self, grouped: Pushed, aggregate: &Aggregate, rows: &str) -> Result<Pushed> {
        let all = self.copy()?;
        let on = self.equal(&all.columns, &grouped.columns)?;
        let is_empty = Expr::Column(Column::new_unqualified(rows)).is_null();
        let mut output: Vec<Expr> = all.columns.iter().cloned().map(Expr::Column).collect();
        for (call, column) in aggregate.aggr_expr.iter().zip(aggregate.schema.columns()) {
            let over_rows = Expr::Column(column.clone());
            let call = call.clone().unalias_nested().data;
            let Expr::AggregateFunction(function) = &call else {
                output.push(over_rows);
                continue;
            };
            let data_type = call.get_type(aggregate.input.schema().as_ref())?;
            let over_none = function.func.default_value(&data_type)?;
            output.push(match over_none.is_null() {
                true => over_rows,
                false => {
                    let when = vec![(Box::new(is_empty.clone()), Box::new(lit(over_none)))];
                    let case = Expr::Case(Case::new(None, when, Some(Box::new(over_rows))));
                    case.alias_qualified(column.relation, column.name)
                }
            });
        }
        let plan = LogicalPlanBuilder::from(all.plan)
            .join_on(grouped.plan, JoinType::Left, on)?
            .project(output)?
            .build()?;
        Ok(Pushed { plan, columns: all.columns })
    }

    /// That two copies of the domain have the same combination.
    fn equal(&self, left: &[Column], right: &[Column]) -> Result<Vec<Expr>> {
        let pairs = left.iter().zip(right);
        let pairs = pairs.map(|(left, right)| (Expr::Column(left.clone()), Expr::Column(right.clone())));
        equal(&self.outer, pairs)
    }

    fn join(&self, join: &Join) -> Result<Pushed> {
        if let Some(joined) = lateral::decorrelated(join, self.names)? {
            return self.push(&joined);
        }
        use JoinType::{
            Full, Inner, Left, LeftAnti, LeftMark, LeftSemi, Right, RightAnti, RightMark, RightSemi,
        };
        let inputs = [join.left.as_ref(), join.right.as_ref()];
        let in_condition = join.filter.iter().any(|filter| self.reaches_expr(filter, &inputs))
            || join.on.iter().flat_map(|(a, b)| [a, b]).any(|key| self.reaches_expr(key, &inputs));
        let (in_left, in_right) = (self.reaches(&join.left), self.reaches(&join.right));
        let (left_is_kept, right_is_kept) = match join.join_type {
            Inner => (in_left || !in_right, in_right),
            Left | LeftSemi | LeftAnti | LeftMark => (true, in_right),
            Right | RightSemi | RightAnti | RightMark => (in_left, true),
            Full => return Err(cannot_move("FULL JOIN")),
        };
        if join.null_aware && (in_right || in_condition) {
            return Err(cannot_move("NOT IN"));
        }
        let side = |plan: &Arc<LogicalPlan>, kept: bool| -> Result<(Arc<LogicalPlan>, Option<Vec<Column>>)> {
            Ok(match kept {
                true => self.push(plan).map(|pushed| (Arc::new(pushed.plan), Some(pushed.columns)))?,
                false => (Arc::clone(plan), None),
            })
        };
        let (left, left_columns) = side(&join.left, left_is_kept)?;
        let (right, right_columns) = side(&join.right, right_is_kept)?;
        let of_right = matches!(join.join_type, Right | RightSemi | RightAnti | RightMark);
        let columns = match of_right {
            true => right_columns.as_ref().or(left_columns.as_ref()),
            false => left_columns.as_ref().or(right_columns.as_ref()),
        };
        let columns = columns.expect("one side has the domain").clone();
        let mut filter: Vec<Expr> = Vec::new();
        if let (Some(left), Some(right)) = (&left_columns, &right_columns) {
            filter.extend(self.equal(left, right)?);
        }
        let mut on = Vec::new();
        for (left, right) in &join.on {
            match self.reaches_expr(left, &inputs) || self.reaches_expr(right, &inputs) {
                true => {
                    let [left, right] = [left, right].map(|key| self.own(key, &inputs, &columns));
                    filter.push(same(left?, right?, join.null_equality == NullEquality::NullEqualsNull));
                }
                false => on.push((left.clone(), right.clone())),
            }
        }
        if let Some(condition) = &join.filter {
            filter.push(self.own(condition, &inputs, &columns)?);
        }
        let plan = LogicalPlan::Join(Join::try_new(
            left,
            right,
            on,
            filter.into_iter().reduce(Expr::and),
            join.join_type,
            join.join_constraint,
            join.null_equality,
            join.null_aware,
        )?);
        debug_assert!(columns.iter().all(|column| plan.schema().has_column(column)));
        Ok(Pushed { plan, columns })
    }
}

/// That the two of each pair are the same, NULL and NULL too; `outer` are the columns that the pairs are of. They are
/// equalities that are never NULL: DataFusion hashes all keys of a join alike, and makes keys also of what a filter above
/// compares, where NULL equals nothing.
///
/// # Errors
///
/// Where a type has no value but NULL.
pub(super) fn equal(outer: &[OuterColumn], pairs: impl Iterator<Item = (Expr, Expr)>) -> Result<Vec<Expr>> {
    let mut equal = Vec::new();
    for ((field, _), (left, right)) in outer.iter().zip(pairs) {
        if !field.is_nullable() {
            equal.push(left.eq(right));
            continue;
        }
        let any_value = lit(ScalarValue::new_default(field.data_type())?);
        let value = |column: &Expr| {
            let when = vec![(Box::new(column.clone().is_null()), Box::new(any_value.clone()))];
            Expr::Case(Case::new(None, when, Some(Box::new(column.clone()))))
        };
        equal.push(value(&left).eq(value(&right)));
        equal.push(left.is_null().eq(right.is_null()));
    }
    Ok(equal)
}

/// Whether `plan` is the row of a SELECT without FROM: it has no columns.
pub(super) fn is_one_row(plan: &LogicalPlan) -> bool {
    let LogicalPlan::EmptyRelation(relation) = plan else { return false };
    relation.produce_one_row && relation.schema.fields().is_empty()
}

fn same(left: Expr, right: Expr, null_is_null: bool) -> Expr {
    let op = if null_is_null { Operator::IsNotDistinctFrom } else { Operator::Eq };
    Expr::BinaryExpr(BinaryExpr { left: Box::new(left), op, right: Box::new(right) })
}

/// A plan below `plan` that gives the same rows whenever it is computed, and `exprs` over it, which are
/// `exprs` over `plan` for the rows of `plan` and maybe more.
fn same_again(mut plan: &LogicalPlan, mut exprs: Vec<Expr>) -> Result<(&LogicalPlan, Vec<Expr>)> {
    let is_marked =
        |plan: &LogicalPlan| matches!(plan, LogicalPlan::Join(join) if join.join_type == JoinType::LeftMark);
    while is_marked(plan) || differ(plan)? {
        let inputs: Option<HashMap<Column, Expr>> = match plan {
            LogicalPlan::Limit(_)
            | LogicalPlan::Filter(_)
            | LogicalPlan::Sort(_)
            | LogicalPlan::Window(_)
            | LogicalPlan::Distinct(Distinct::All(_)) => None,
            LogicalPlan::SubqueryAlias(alias) => {
                let inputs = alias.input.schema().columns().into_iter().map(Expr::Column);
                Some(plan.schema().columns().into_iter().zip(inputs).collect())
            }
            LogicalPlan::Projection(projection) => {
                let inputs = projection.expr.iter().map(|expr| expr.clone().unalias());
                Some(plan.schema().columns().into_iter().zip(inputs).collect())
            }
            LogicalPlan::Join(join) => {
                plan = side_with(join, &exprs).ok_or_else(differs)?;
                continue;
            }
            _ => return Err(differs()),
        };
        if let Some(inputs) = inputs {
            exprs = exprs.into_iter().map(|expr| substituted(expr, &inputs)).collect::<Result<_>>()?;
        }
        plan = plan.inputs()[0];
        let is_below = |column: &&Column| plan.schema().has_column(column);
        let are_same = |expr: &Expr| !may_change(expr) && expr.column_refs().iter().all(is_below);
        if !exprs.iter().all(are_same) {
            return Err(differs());
        }
    }
    Ok((plan, exprs))
}

/// A side of `join` that has the columns of `exprs`, and all rows of that side that the join has.
fn side_with<'b>(join: &'b Join, exprs: &[Expr]) -> Option<&'b LogicalPlan> {
    use JoinType::{Inner, Left, LeftAnti, LeftMark, LeftSemi, Right, RightAnti, RightMark, RightSemi};
    let has_all = |side: &LogicalPlan| {
        let mut columns = exprs.iter().flat_map(Expr::column_refs);
        columns.all(|column| side.schema().has_column(column))
    };
    match join.join_type {
        Inner | Left | LeftAnti | LeftMark | LeftSemi if has_all(&join.left) => Some(&join.left),
        Inner | Right | RightAnti | RightMark | RightSemi if has_all(&join.right) => Some(&join.right),
        _ => None,
    }
}

/// `expr` with columns replaced by what they are.
pub(super) fn substituted(expr: Expr, inputs: &HashMap<Column, Expr>) -> Result<Expr> {
    let substituted = expr.transform_up(|expr| {
        let input = if let Expr::Column(column) = &expr { inputs.get(column) } else { None };
        Ok(input.map_or(Transformed::no(expr.clone()), |input| Transformed::yes(input.clone())))
    })?;
    Ok(substituted.data)
}

fn differs() -> datafusion::error::DataFusionError {
    to_datafusion(Error::unsupported(
        "a subquery names columns of rows that need not be the same when they are computed once more, because of \
         a LIMIT, a window or a volatile function among what makes them; create a table of them first",
    ))
}

fn cannot_move(what: &str) -> datafusion::error::DataFusionError {
    to_datafusion(Error::unsupported(format!(
        "a subquery that names columns of its query has {what} over rows that depend on them; write it as a join \
         with a subquery in FROM that has those columns in its SELECT list"
    )))
}
