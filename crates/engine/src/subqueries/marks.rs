//! Conditions over the rows of a plan, as expressions over the plan with their marks.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::functions_aggregate::expr_fn::{count, first_value, max};
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison, SetQuantifier};
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, Filter, JoinType, LogicalPlan, LogicalPlanBuilder, Operator, Subquery,
    lit, not,
};

use super::Names;
use super::comparison::{Comparison, Truth, Wanted};
use super::domain::{Domain, Pushed, equal};
use super::only_value::{has_one_row_at_most, only_value};
use super::outer::{OuterColumn, has_outer, outer_columns, replace_outer};
use super::peel::{Peeled, peel, value_joins_as_it_is};
use super::rows::{self, differ, first_column, is_there, may_change, scalar};

/// What DataFusion calls the column that a mark join adds.
const MARK: &str = "mark";

/// A plan that grows by marks; its rows stay the same.
pub(super) struct Marks<'a> {
    /// Without marks.
    base: LogicalPlan,
    plan: LogicalPlan,
    names: &'a Names,
}

/// Whether `expr` itself is an EXISTS, an IN, an ANY or an ALL over a subquery, or the value of one that
/// DataFusion does not compute.
pub(super) fn is_condition(expr: &Expr) -> bool {
    match expr {
        Expr::Exists(_) => true,
        Expr::ScalarSubquery(Subquery { subquery, .. }) => !value_joins_as_it_is(subquery),
        other => may_be_null(other),
    }
}

fn may_be_null(expr: &Expr) -> bool {
    matches!(expr, Expr::InSubquery(_) | Expr::SetComparison(_))
}

impl<'a> Marks<'a> {
    pub(super) fn over(plan: LogicalPlan, names: &'a Names) -> Self {
        Self { base: plan.clone(), plan, names }
    }

    /// The plan with all marks so far.
    pub(super) fn into_plan(self) -> LogicalPlan {
        self.plan
    }

    pub(super) fn schema(&self) -> &DFSchema {
        self.base.schema()
    }

    /// `expr` over the plan with marks.
    ///
    /// # Errors
    ///
    /// `Unsupported` for subqueries that cannot be computed apart from their query's row.
    pub(super) fn settle(&mut self, expr: Expr) -> Result<Expr> {
        let settled = expr.transform_down(|expr| {
            let settled = match expr {
                Expr::IsTrue(inner) if may_be_null(&inner) => self.condition(*inner, Wanted::True)?,
                condition if is_condition(&condition) => self.condition(condition, Wanted::Value)?,
                other => return Ok(Transformed::no(other)),
            };
            Ok(Transformed::new(settled, true, TreeNodeRecursion::Jump))
        });
        Ok(settled?.data)
    }

    /// The same for a condition of a filter or a join, where NULL is as good as FALSE.
    ///
    /// # Errors
    ///
    /// Those of [`Self::settle`].
    pub(super) fn settle_filter(&mut self, expr: Expr) -> Result<Expr> {
        let asked = expr.transform_down(|expr| {
            Ok(match expr {
                Expr::BinaryExpr(BinaryExpr { op: Operator::And | Operator::Or, .. }) => {
                    Transformed::no(expr)
                }
                other if may_be_null(&other) => {
                    Transformed::new(other.is_true(), true, TreeNodeRecursion::Jump)
                }
                other => Transformed::new(other, false, TreeNodeRecursion::Jump),
            })
        });
        self.settle(asked?.data)
    }

    fn condition(&mut self, condition: Expr, wanted: Wanted) -> Result<Expr> {
        let (value, comparison) = match &condition {
            Expr::Exists(Exists { subquery, negated }) => {
                let found = self.mark(&subquery.subquery)?;
                return Ok(if *negated { not(found) } else { found });
            }
            Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
                let subquery = &subquery.subquery;
                (expr, Comparison { op: Operator::Eq, subquery, sought: true, decided: !negated })
            }
            Expr::SetComparison(SetComparison { expr, subquery, op, quantifier }) => {
                let is_any = *quantifier == SetQuantifier::Any;
                (expr, Comparison { op: *op, subquery: &subquery.subquery, sought: is_any, decided: is_any })
            }
            Expr::ScalarSubquery(Subquery { subquery, .. }) => return self.value(subquery),
            _ => return Ok(condition),
        };
        let value = self.settle(value.as_ref().clone())?;
        let value = self.named(value)?;
        Ok(self.truth(&value, comparison, wanted)?.into_expr(wanted))
    }

    fn truth(&mut self, value: &Expr, comparison: Comparison<'_>, wanted: Wanted) -> Result<Truth> {
        let Comparison { subquery, decided, .. } = comparison;
        let value_may_be_null = value.nullable(self.plan.schema().as_ref())?;
        let row_may_be_null = subquery.schema().field(0).is_nullable();
        let is_asked = (value_may_be_null || row_may_be_null) && !(decided && wanted == Wanted::True);
        if is_asked && (differ(subquery)? || has_outer(subquery) && peel(subquery)?.is_none()) {
            return self.truth_at_once(value, comparison);
        }
        let found = self.mark_of(subquery, comparison.decides(value, self.plan.schema())?)?;
        let unknown = match (is_asked, has_outer(subquery)) {
            (false, _) => None,
            (true, false) => Some(rows::unknown(value, value_may_be_null, subquery)?),
            (true, true) => {
                let with_null = match row_may_be_null {
                    true => Some(self.mark_of(subquery, first_column(subquery).is_null())?),
                    false => None,
                };
                let of_null = match value_may_be_null {
                    true => Some(value.clone().is_null().and(self.mark(subquery)?)),
                    false => None,
                };
                with_null.into_iter().chain(of_null).reduce(Expr::or)
            }
        };
        Ok(Truth { found, unknown, decided })
    }

    /// The same from one computation of the subquery, for each combination of the value and the outer
    /// columns: two computations need not give the same rows where a LIMIT, a window or a volatile function
    /// has a say.
    fn truth_at_once(&mut self, value: &Expr, comparison: Comparison<'_>) -> Result<Truth> {
        let state = comparison.state(value, self.plan.schema())?;
        let name = self.names.next("rows");
        let state_name = format!("{name}_state");
        let states = LogicalPlanBuilder::new_from_arc(Arc::clone(comparison.subquery))
            .project([state.alias(&state_name)])?
            .build()?;
        let (Pushed { plan, columns }, outer) = self.for_each_row(&states)?;
        let greatest = max(Expr::Column(Column::new_unqualified(&state_name))).alias(&name);
        let keys: Vec<Expr> = columns.iter().cloned().map(Expr::Column).collect();
        let aggregate = LogicalPlanBuilder::from(plan).aggregate(keys, [greatest])?;
        let state = Expr::Column(Column::new_unqualified(&name)).alias(&state_name);
        let output: Vec<Expr> = numbered(&columns, &name).chain([state]).collect();
        let rows = aggregate.project(output)?;
        if !has_outer(rows.plan()) && columns.is_empty() {
            return Ok(comparison.truth_of(scalar(rows.build()?)));
        }
        let on = self.equal_to_rows(&outer, &name)?;
        let rows = rows.alias(name.as_str())?.build()?;
        self.plan = LogicalPlanBuilder::from(self.plan.clone()).join_on(rows, JoinType::Left, on)?.build()?;
        Ok(comparison.truth_of(Expr::Column(Column::new(Some(name), state_name))))
    }

    /// The first column of `subquery`, whose only row it is; NULL where it has none.
    fn value(&mut self, subquery: &LogicalPlan) -> Result<Expr> {
        let name = self.names.next("rows");
        let [value_name, item_name, count_name] =
            ["value", "item", "count"].map(|what| format!("{name}_{what}"));
        let is_only = has_one_row_at_most(subquery);
        let (Pushed { plan, columns }, outer) = self.for_each_row(subquery)?;
        let item = first_column(subquery).alias(if is_only { &value_name } else { &item_name });
        let output: Vec<Expr> = numbered(&columns, &name).chain([item]).collect();
        let mut rows = LogicalPlanBuilder::from(plan).project(output)?;
        if !is_only {
            let column = |name: &str| Expr::Column(Column::new_unqualified(name));
            let keys: Vec<Expr> = (0..columns.len()).map(|at| column(&format!("{name}_{at}"))).collect();
            let value = first_value(column(&item_name), Vec::new()).alias(&value_name);
            rows = rows.aggregate(keys, [value, count(lit(1_i64)).alias(&count_name)])?;
        }
        let rows = rows.alias(name.as_str())?.build()?;
        let on = self.equal_to_rows(&outer, &name)?;
        self.plan = LogicalPlanBuilder::from(self.plan.clone()).join_on(rows, JoinType::Left, on)?.build()?;
        let column = |of: &str| Expr::Column(Column::new(Some(name.as_str()), of));
        let value = column(&value_name);
        Ok(if is_only { value } else { only_value(value, column(&count_name)) })
    }

    /// `value` as something that may be named in several places at no cost: a column of the plan, or a
    /// constant.
    pub(super) fn named(&mut self, value: Expr) -> Result<Expr> {
        let is_simple = |expr: &Expr| {
            matches!(expr, Expr::Column(_) | Expr::Literal(..) | Expr::OuterReferenceColumn(..))
        };
        if is_simple(&value) || matches!(&value, Expr::Cast(cast) if is_simple(&cast.expr)) {
            return Ok(value);
        }
        let name = self.names.next("value");
        let columns = self.plan.schema().columns().into_iter().map(Expr::Column);
        let exprs: Vec<Expr> = columns.chain([value.alias(&name)]).collect();
        self.plan = LogicalPlanBuilder::from(self.plan.clone()).project(exprs)?.build()?;
        Ok(Expr::Column(Column::new_unqualified(name)))
    }

    /// Whether `subquery` has a row for which `condition` holds.
    fn mark_of(&mut self, subquery: &Arc<LogicalPlan>, condition: Expr) -> Result<Expr> {
        self.mark(&LogicalPlan::Filter(Filter::try_new(condition, Arc::clone(subquery))?))
    }

    /// Whether `subquery` has a row, for each row of the plan; never NULL.
    fn mark(&mut self, subquery: &LogicalPlan) -> Result<Expr> {
        if !has_outer(subquery) {
            return Ok(scalar(is_there(subquery)?));
        }
        if let Some(peeled) = peel(subquery)? {
            return self.mark_of_rows(peeled);
        }
        let name = self.names.next("rows");
        let (Pushed { plan, columns }, outer) = self.for_each_row(subquery)?;
        let mut output: Vec<Expr> = numbered(&columns, &name).collect();
        if output.is_empty() {
            output.push(lit(true).alias(&name));
        }
        let rows = LogicalPlanBuilder::from(plan).project(output)?.distinct()?;
        let on = self.equal_to_rows(&outer, &name)?;
        self.join(rows.alias(name.as_str())?.build()?, &name, on)
    }

    /// Rows that are there for all rows of the plan alike, joined by what is asked of them.
    fn mark_of_rows(&mut self, Peeled { mut base, conditions }: Peeled) -> Result<Expr> {
        let is_of_pairs = |expr: &Expr| expr.contains_outer() || may_change(expr);
        let (asked, own): (Vec<Expr>, Vec<Expr>) = conditions.into_iter().partition(is_of_pairs);
        if let Some(predicate) = own.into_iter().reduce(Expr::and) {
            base = LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(base))?);
        }
        let name = self.names.next("rows");
        let mut columns: Vec<Column> = Vec::new();
        for column in asked.iter().flat_map(|expr| expr.column_refs()) {
            if !columns.contains(column) {
                columns.push(column.clone());
            }
        }
        let renamed = asked.into_iter().map(|expr| {
            let renamed = expr.transform_up(|expr| {
                let Expr::Column(column) = &expr else { return Ok(Transformed::no(expr)) };
                let at = columns.iter().position(|other| other == column).expect("it is among its columns");
                Ok(Transformed::yes(row_column(&name, at)))
            })?;
            self.own(renamed.data)
        });
        let mut on = renamed.collect::<Result<Vec<Expr>>>()?;
        if on.is_empty() {
            on.push(lit(true));
        }
        let mut output: Vec<Expr> = numbered(&columns, &name).collect();
        if output.is_empty() {
            output.push(lit(true).alias(&name));
        }
        let rows = LogicalPlanBuilder::from(base).project(output)?.alias(name.as_str())?.build()?;
        self.join(rows, &name, on)
    }

    /// The rows of `subquery` for each combination of the plan's columns that it names, and these columns;
    /// where it names none, what it names is of a query further out, and its rows are as they are.
    fn for_each_row(&self, subquery: &LogicalPlan) -> Result<(Pushed, Vec<OuterColumn>)> {
        let is_own = |(_, column): &OuterColumn| self.plan.schema().has_column(column);
        let outer: Vec<OuterColumn> = outer_columns(subquery).into_iter().filter(is_own).collect();
        if outer.is_empty() {
            return Ok((Pushed { plan: subquery.clone(), columns: Vec::new() }, outer));
        }
        let all_in_base = outer.iter().all(|(_, column)| self.base.schema().has_column(column));
        let of = if all_in_base { &self.base } else { &self.plan };
        let domain = Domain::new(of, outer.clone(), self.names)?;
        Ok((domain.push(subquery)?, outer))
    }

    /// An expression of a subquery with the plan's columns in place of outer references to them.
    fn own(&self, expr: Expr) -> Result<Expr> {
        let schema = Arc::clone(self.plan.schema());
        replace_outer(expr, &[], &|column| schema.has_column(column).then(|| column.clone()))
    }

    /// That the plan's columns `outer` are those of the rows called `name`.
    fn equal_to_rows(&self, outer: &[OuterColumn], name: &str) -> Result<Vec<Expr>> {
        let pairs = outer
            .iter()
            .enumerate()
            .map(|(at, (_, column))| (Expr::Column(column.clone()), row_column(name, at)));
        let on = equal(outer, pairs)?;
        Ok(if on.is_empty() { vec![lit(true)] } else { on })
    }

    /// The mark of rows called `name` for which `on` holds.
    fn join(&mut self, rows: LogicalPlan, name: &str, on: Vec<Expr>) -> Result<Expr> {
        let is_taken = |plan: &LogicalPlan| {
            plan.schema().iter().any(|(relation, field)| relation.is_none() && field.name() == MARK)
        };
        let mark = Column::new(Some(name), MARK);
        if !is_taken(&self.plan) {
            let plan = LogicalPlanBuilder::from(self.plan.clone());
            self.plan = plan.join_on(rows, JoinType::LeftMark, on)?.build()?;
            return Ok(Expr::Column(mark));
        }
        // A column that is called so too has another name meanwhile.
        let (theirs, ours) =
            (Column::new_unqualified(MARK), Column::new_unqualified(self.names.next("kept")));
        let columns = self.plan.schema().columns();
        let meanwhile = |expr: Expr| {
            let renamed = expr.transform_up(|expr| {
                Ok(match expr {
                    Expr::Column(column) if column == theirs => Transformed::yes(Expr::Column(ours.clone())),
                    other => Transformed::no(other),
                })
            });
            Ok(renamed?.data)
        };
        let on = on.into_iter().map(&meanwhile).collect::<Result<Vec<Expr>>>()?;
        let renamed = columns.iter().cloned().map(|column| match column == theirs {
            true => Expr::Column(column).alias(&ours.name),
            false => Expr::Column(column),
        });
        let own_mark = self.names.next(MARK);
        let back = columns.iter().cloned().map(|column| match column == theirs {
            true => Expr::Column(ours.clone()).alias(MARK),
            false => Expr::Column(column),
        });
        self.plan = LogicalPlanBuilder::from(self.plan.clone())
            .project(renamed.collect::<Vec<Expr>>())?
            .join_on(rows, JoinType::LeftMark, on)?
            .project(back.chain([Expr::Column(mark).alias(&own_mark)]).collect::<Vec<Expr>>())?
            .build()?;
        Ok(Expr::Column(Column::new_unqualified(own_mark)))
    }
}

/// `columns` as the rows called `name` have them.
fn numbered<'b>(columns: &'b [Column], name: &'b str) -> impl Iterator<Item = Expr> + 'b {
    columns
        .iter()
        .enumerate()
        .map(move |(at, column)| Expr::Column(column.clone()).alias(format!("{name}_{at}")))
}

fn row_column(name: &str, at: usize) -> Expr {
    Expr::Column(Column::new(Some(name), format!("{name}_{at}")))
}
