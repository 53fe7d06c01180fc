//! Conditions over the rows of a plan, as expressions over the plan with their marks.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, Result, Spans};
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::logical_expr::expr::{Case, Exists, InSubquery, SetComparison, SetQuantifier};
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, Filter, JoinType, LogicalPlan, LogicalPlanBuilder, Operator, Subquery, lit, not,
};
use datafusion::scalar::ScalarValue;

use super::Names;
use super::domain::Domain;
use super::outer::{OuterColumn, as_outer, has_outer, outer_columns, replace_outer};
use super::peel::{Peeled, peel};

/// A plan that grows by marks; its rows stay the same.
pub(super) struct Marks<'a> {
    /// Without marks.
    base: LogicalPlan,
    plan: LogicalPlan,
    names: &'a Names,
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
        let settled = expr.transform_up(|expr| {
            Ok(Transformed::yes(match expr {
                Expr::Exists(Exists { subquery, negated }) => {
                    let found = self.mark(&subquery.subquery)?;
                    if negated { not(found) } else { found }
                }
                Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
                    let found = self.any(*expr, Operator::Eq, &subquery.subquery)?;
                    if negated { not(found) } else { found }
                }
                Expr::SetComparison(SetComparison { expr, subquery, op, quantifier }) => {
                    let subquery = &subquery.subquery;
                    match quantifier {
                        SetQuantifier::Any => self.any(*expr, op, subquery)?,
                        SetQuantifier::All => self.all(*expr, op, subquery)?,
                    }
                }
                other => return Ok(Transformed::no(other)),
            }))
        });
        Ok(settled?.data)
    }

    /// `value <op> ANY (subquery)`; IN is ANY with `=`.
    fn any(&mut self, value: Expr, op: Operator, subquery: &Arc<LogicalPlan>) -> Result<Expr> {
        let value = self.named(value)?;
        let found = self.mark_of(subquery, compared(&value, op, subquery, &self.plan)?)?;
        let unknown = self.unknown(&value, subquery)?;
        Ok(truth(found, true, unknown))
    }

    /// `value <op> ALL (subquery)`: no row is on the wrong side.
    fn all(&mut self, value: Expr, op: Operator, subquery: &Arc<LogicalPlan>) -> Result<Expr> {
        let value = self.named(value)?;
        let fails = not(compared(&value, op, subquery, &self.plan)?);
        let found = self.mark_of(subquery, fails)?;
        let unknown = self.unknown(&value, subquery)?;
        Ok(truth(found, false, unknown))
    }

    /// Whether a comparison of `value` with a row of `subquery` is NULL; `None` where none can be.
    fn unknown(&mut self, value: &Expr, subquery: &Arc<LogicalPlan>) -> Result<Option<Expr>> {
        let value_may_be_null = value.nullable(self.plan.schema().as_ref())?;
        let row_may_be_null = subquery.schema().field(0).is_nullable();
        if !value_may_be_null && !row_may_be_null {
            return Ok(None);
        }
        if !has_outer(subquery) {
            let contents = scalar(contents(subquery)?);
            return Ok(Some(match value_may_be_null {
                // More than nothing makes it NULL where the value is, a NULL among the rows where it is not.
                true => contents.gt(case(value.clone().is_null(), lit(EMPTY), lit(NO_NULLS))),
                false => contents.eq(lit(WITH_NULLS)),
            }));
        }
        let with_null = match row_may_be_null {
            true => Some(self.mark_of(subquery, first_column(subquery).is_null())?),
            false => None,
        };
        let of_null = match value_may_be_null {
            true => Some(value.clone().is_null().and(self.mark(subquery)?)),
            false => None,
        };
        Ok(with_null.into_iter().chain(of_null).reduce(Expr::or))
    }

    /// `value` as something that may be named in several places at no cost: a column of the plan, or a constant.
    fn named(&mut self, value: Expr) -> Result<Expr> {
        let simple = match &value {
            Expr::Cast(cast) => matches!(*cast.expr, Expr::Column(_) | Expr::Literal(..)),
            other => matches!(other, Expr::Column(_) | Expr::Literal(..) | Expr::OuterReferenceColumn(..)),
        };
        if simple {
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
        match peel(subquery)? {
            Some(peeled) => self.mark_of_rows(peeled),
            None => self.mark_of_domain(subquery),
        }
    }

    /// Rows that are there for all rows of the plan alike, joined by what is asked of them.
    fn mark_of_rows(&mut self, Peeled { mut base, conditions }: Peeled) -> Result<Expr> {
        let (asked, own): (Vec<Expr>, Vec<Expr>) =
            conditions.into_iter().partition(Expr::contains_outer);
        if let Some(predicate) = own.into_iter().reduce(Expr::and) {
            base = LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(base))?);
        }
        let name = self.names.next("rows");
        let mut columns: Vec<Column> = Vec::new();
        for column in asked.iter().flat_map(|expr| expr.column_refs()) {
            if base.schema().has_column(column) && !columns.contains(column) {
                columns.push(column.clone());
            }
        }
        let renamed = |at: usize| Column::new(Some(name.clone()), format!("c{at}"));
        let asked = asked.into_iter().map(|expr| {
            let expr = expr.transform_up(|expr| {
                Ok(match &expr {
                    Expr::Column(column) => match columns.iter().position(|other| other == column) {
                        Some(at) => Transformed::yes(Expr::Column(renamed(at))),
                        None => Transformed::no(expr),
                    },
                    _ => Transformed::no(expr),
                })
            })?;
            self.own(expr.data)
        });
        let asked = asked.collect::<Result<Vec<Expr>>>()?;
        let mut output: Vec<Expr> = columns.iter().cloned().enumerate().map(|(at, column)| {
            Expr::Column(column).alias(format!("c{at}"))
        }).collect();
        if output.is_empty() {
            output.push(lit(true).alias("c"));
        }
        let rows = LogicalPlanBuilder::from(base).project(output)?.alias(name.as_str())?.build()?;
        self.join(rows, &name, asked)
    }

    /// Rows computed for each combination of the outer columns that they depend on, joined by these.
    fn mark_of_domain(&mut self, subquery: &LogicalPlan) -> Result<Expr> {
        let columns: Vec<OuterColumn> = outer_columns(subquery)
            .into_iter()
            .filter(|(_, column)| self.plan.schema().has_column(column))
            .collect();
        let name = self.names.next("rows");
        if columns.is_empty() {
            // What it names belongs to a query further out.
            let output = [lit(true).alias("c")];
            let rows = LogicalPlanBuilder::from(subquery.clone()).project(output)?.alias(name.as_str())?.build()?;
            return self.join(rows, &name, vec![lit(true)]);
        }
        let all_in_base = columns.iter().all(|(_, column)| self.base.schema().has_column(column));
        let of = if all_in_base { &self.base } else { &self.plan };
        let domain = Domain::new(of, columns.clone(), self.names)?;
        let pushed = domain.push(subquery)?;
        let output: Vec<Expr> = pushed.columns.iter().cloned().enumerate().map(|(at, column)| {
            Expr::Column(column).alias(format!("c{at}"))
        }).collect();
        let rows =
            LogicalPlanBuilder::from(pushed.plan).project(output)?.distinct()?.alias(name.as_str())?.build()?;
        let equal = columns.into_iter().enumerate().map(|(at, (field, column))| {
            let row = Expr::Column(Column::new(Some(name.clone()), format!("c{at}")));
            same(Expr::Column(column), row, field.is_nullable())
        });
        let equal = equal.collect();
        self.join(rows, &name, equal)
    }

    /// An expression of a subquery with the plan's columns in place of outer references to them.
    fn own(&self, expr: Expr) -> Result<Expr> {
        let schema = Arc::clone(self.plan.schema());
        replace_outer(expr, &[], &|column| schema.has_column(column).then(|| column.clone()))
    }

    fn join(&mut self, rows: LogicalPlan, name: &str, on: Vec<Expr>) -> Result<Expr> {
        self.plan = LogicalPlanBuilder::from(self.plan.clone()).join_on(rows, JoinType::LeftMark, on)?.build()?;
        Ok(Expr::Column(Column::new(Some(name), "mark")))
    }
}

/// Two values are the same, NULL and NULL too.
pub(super) fn same(left: Expr, right: Expr, may_be_null: bool) -> Expr {
    let op = if may_be_null { Operator::IsNotDistinctFrom } else { Operator::Eq };
    Expr::BinaryExpr(BinaryExpr { left: Box::new(left), op, right: Box::new(right) })
}

/// `found` decides, else it is NULL where `unknown` is true, else the opposite.
fn truth(found: Expr, decided: bool, unknown: Option<Expr>) -> Expr {
    let Some(unknown) = unknown else { return if decided { found } else { not(found) } };
    let null = lit(ScalarValue::Boolean(None));
    let whens = vec![(found, lit(decided)), (unknown, null)];
    let whens = whens.into_iter().map(|(when, then)| (Box::new(when), Box::new(then))).collect();
    Expr::Case(Case::new(None, whens, Some(Box::new(lit(!decided)))))
}

fn case(when: Expr, then: Expr, otherwise: Expr) -> Expr {
    Expr::Case(Case::new(None, vec![(Box::new(when), Box::new(then))], Some(Box::new(otherwise))))
}

/// The subquery's column compared with `value`, as a condition in the subquery.
fn compared(value: &Expr, op: Operator, subquery: &LogicalPlan, plan: &LogicalPlan) -> Result<Expr> {
    let left = Box::new(as_outer(value.clone(), plan.schema())?);
    Ok(Expr::BinaryExpr(BinaryExpr { left, op, right: Box::new(first_column(subquery)) }))
}

fn first_column(subquery: &LogicalPlan) -> Expr {
    Expr::Column(Column::from(subquery.schema().qualified_field(0)))
}

/// What [`contents`] says of a subquery.
const EMPTY: i64 = 0;
const NO_NULLS: i64 = 1;
const WITH_NULLS: i64 = 2;

/// One row: whether `subquery` is empty, and whether its first column holds a NULL.
fn contents(subquery: &Arc<LogicalPlan>) -> Result<LogicalPlan> {
    let [rows, values] = ["rows", "values"];
    let counts = [count(lit(1_i64)).alias(rows), count(first_column(subquery)).alias(values)];
    let column = |name| Expr::Column(Column::new_unqualified(name));
    let contents = case(
        column(rows).eq(lit(0_i64)),
        lit(EMPTY),
        case(column(values).lt(column(rows)), lit(WITH_NULLS), lit(NO_NULLS)),
    );
    LogicalPlanBuilder::new_from_arc(Arc::clone(subquery))
        .aggregate(Vec::<Expr>::new(), counts)?
        .project([contents.alias("contents")])?
        .build()
}

/// One row: whether `subquery` has any.
fn is_there(subquery: &LogicalPlan) -> Result<LogicalPlan> {
    let rows = "rows";
    LogicalPlanBuilder::from(subquery.clone())
        .limit(0, Some(1))?
        .aggregate(Vec::<Expr>::new(), [count(lit(1_i64)).alias(rows)])?
        .project([Expr::Column(Column::new_unqualified(rows)).gt(lit(0_i64)).alias("is_there")])?
        .build()
}

fn scalar(plan: LogicalPlan) -> Expr {
    Expr::ScalarSubquery(Subquery { subquery: Arc::new(plan), outer_ref_columns: Vec::new(), spans: Spans::new() })
}
