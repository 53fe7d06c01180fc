//! DataFusion's simplification of expressions, without two things that are wrong: the merging of lists, where a value is
//! NULL, and comparing what is cast instead of the cast, where many values are cast to one.
//!
//! DataFusion 55 takes two lists of one value for sets, and their AND and OR for operations on sets:
//!
//! ```text
//!   x IN (1,2) AND x IN (3,4)           FALSE           NULL where x is NULL
//!   x NOT IN (1,2) OR x NOT IN (3,4)    TRUE            NULL where x is NULL
//!   x IN (1,2) AND x NOT IN (5, NULL)   x IN (1,2)      never TRUE
//!   x IN (a,b) AND x IN (c,b)           x IN (b)        also where x = a = c
//! ```
//!
//! It does so with lists as they are written and with those that it makes of `x = 1 OR x = 2`, so it is not enough to
//! rewrite what it is given. This rule runs DataFusion's on expressions in which no list stands where it looks for one:
//! each list and each column has an alias that is its own name. Then it takes the aliases off, and joins lists where
//! that is right for every value:
//!
//! ```text
//!   x = 1 OR x IN (2, …)                ─▶  x IN (1, 2, …)
//!   x <> 1 AND x NOT IN (2, …)          ─▶  x NOT IN (1, 2, …)
//! ```
//!
//! DataFusion also makes `CAST(price AS INTEGER) = 5` into `price = 5.00`. Such casts have an alias, too (`opaque.rs`).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use datafusion::arrow::datatypes::TimeUnit;
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DataFusionError, Result, TableReference};
use datafusion::logical_expr::expr::{Alias, InList};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, LogicalPlan, Operator, TryCast};
use datafusion::optimizer::simplify_expressions::SimplifyExpressions;
use datafusion::optimizer::{ApplyOrder, Optimizer, OptimizerConfig, OptimizerRule};

use crate::balance::{joined, parts};
use crate::opaque::{Opaque, in_own_unit};

/// A list of a column of up to this many items is written as comparisons, as DataFusion does.
const SHORT_LIST: usize = 3;

/// Functions that DataFusion may rewrite as lists.
const LIST_MAKERS: [&str; 2] = ["array_has", "regexp_like"];

/// DataFusion's rules with this one in place of its own.
pub(crate) fn install(optimizer: Option<Optimizer>) -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let mut rules = optimizer.unwrap_or_default().rules;
    let ours = Arc::new(SimplifyRule::default());
    let mut found = false;
    for rule in rules.iter_mut().filter(|rule| rule.name() == ours.name()) {
        *rule = Arc::clone(&ours) as _;
        found = true;
    }
    assert!(found, "DataFusion simplifies expressions by another rule now");
    rules
}

/// Takes the place of DataFusion's rule of the same name.
#[derive(Debug, Default)]
struct SimplifyRule {
    inner: SimplifyExpressions,
}

impl OptimizerRule for SimplifyRule {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.inner.apply_order()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>, DataFusionError> {
        let makes_lists = plan.expressions().iter().any(may_make_lists);
        let opaque = Opaque::in_plan(&plan);
        if !makes_lists && opaque.is_none() {
            return self.inner.rewrite(plan, config);
        }
        let swaps = !matches!(plan, LogicalPlan::Join(_)); // sides of a join's condition stay where they are
        let hidden = map_expressions(plan, &|expr| {
            let expr = if makes_lists { hide(expr, swaps)? } else { Transformed::no(expr) };
            match &opaque {
                Some(opaque) => expr.transform_data(|expr| hide_opaque(expr, opaque)),
                None => Ok(expr),
            }
        })?;
        let simplified = self.inner.rewrite(hidden.data, config)?;
        simplified.transform_data(|plan| {
            // An aggregate may have become a projection of one.
            let plan = plan.map_children(|child| match child {
                LogicalPlan::Aggregate(_) => map_expressions(child, &settle),
                other => Ok(Transformed::no(other)),
            })?;
            plan.transform_data(|plan| map_expressions(plan, &settle))
        })
    }
}

/// `plan` with its own expressions rewritten under their names.
pub(crate) fn map_expressions(
    plan: LogicalPlan,
    rewrite: &dyn Fn(Expr) -> Result<Transformed<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    let names = NamePreserver::new(&plan);
    let mut renamed = |expr: Expr| {
        let name = names.save(&expr);
        Ok(rewrite(expr)?.update_data(|expr| name.restore(expr)))
    };
    plan.map_expressions(|expr| match expr {
        Expr::GroupingSet(_) => expr.map_children(&mut renamed),
        other => renamed(other),
    })
}

/// Whether simplifying `expr` may come to have two lists beside each other.
fn may_make_lists(expr: &Expr) -> bool {
    let (mut has_list, mut has_and, mut has_not) = (false, false, false);
    let _ = expr.apply(|expr| {
        match expr {
            expr if is_list(expr) => has_list = true,
            Expr::BinaryExpr(BinaryExpr { op: Operator::Or, .. }) => has_list = true,
            Expr::BinaryExpr(BinaryExpr { op: Operator::And, .. }) => has_and = true,
            Expr::Not(_) | Expr::Case(_) => has_not = true,
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    });
    has_list || has_and && has_not
}

/// A list, or what becomes one.
fn is_list(expr: &Expr) -> bool {
    match expr {
        Expr::InList(_) => true,
        Expr::BinaryExpr(BinaryExpr { op, .. }) => matches!(
            op,
            Operator::RegexMatch | Operator::RegexIMatch | Operator::RegexNotMatch | Operator::RegexNotIMatch
        ),
        Expr::ScalarFunction(call) => LIST_MAKERS.contains(&call.name()),
        _ => false,
    }
}

/// Hides lists and columns of `expr` behind aliases that are their own names, after what DataFusion would no longer do
/// with hidden columns: constants go to the right, and long chains become lists.
fn hide(expr: Expr, swaps: bool) -> Result<Transformed<Expr>> {
    if !may_make_lists(&expr) {
        return Ok(Transformed::no(expr));
    }
    let expr = expr.transform_down(|expr| Ok(join_lists(if swaps { constant_right(expr) } else { expr })))?;
    expr.transform_data(|expr| {
        expr.transform_up(|expr| match expr {
            Expr::Column(Column { ref relation, ref name, .. }) => {
                let (relation, name) = (relation.clone(), name.clone());
                Ok(Transformed::yes(hidden(expr, relation, name, None)))
            }
            expr if is_list(&expr) => {
                let name = expr.schema_name().to_string();
                Ok(Transformed::yes(hidden(expr, None, name, None)))
            }
            other => Ok(Transformed::no(other)),
        })
    })
}

/// Hides what is not to be looked into.
fn hide_opaque(expr: Expr, opaque: &Opaque) -> Result<Transformed<Expr>> {
    let hidden = |expr: Expr, own_unit| {
        let name = expr.schema_name().to_string();
        Ok(Transformed::yes(hidden(expr, None, name, own_unit)))
    };
    expr.transform_up(|expr| match opaque.has(&expr) {
        true => hidden(expr, None),
        false if opaque.compares_finer(&expr) => {
            expr.map_children(|operand| match opaque.own_unit(&operand) {
                Some(unit) => hidden(operand, Some(unit)),
                None => Ok(Transformed::no(operand)),
            })
        }
        false => Ok(Transformed::no(expr)),
    })
}

/// Takes off what [`hide`] and [`hide_opaque`] put on, compares timestamps in their own unit, and joins lists.
fn settle(expr: Expr) -> Result<Transformed<Expr>> {
    let compared = expr.transform_down(|expr| Ok(in_own_unit(expr, &of_own_unit)))?;
    let shown = compared.transform_data(|expr| {
        expr.transform_up(|expr| match expr {
            Expr::Alias(alias) if is_hidden(&alias) => Ok(Transformed::yes(*alias.expr)),
            other => Ok(Transformed::no(other)),
        })
    })?;
    shown.transform_data(|expr| {
        if !may_make_lists(&expr) {
            return Ok(Transformed::no(expr));
        }
        expr.transform_down(|expr| join_lists(expr).transform_data(|expr| Ok(shortened(expr))))
    })
}

/// What tells the aliases of [`hide`] from others.
const MARK: &str = "pelton.hidden";

/// `own_unit`: of the timestamps that `expr` casts to a finer one.
fn hidden(expr: Expr, relation: Option<TableReference>, name: String, own_unit: Option<TimeUnit>) -> Expr {
    let own_unit = own_unit.map_or(String::new(), |unit| unit.to_string());
    let mark = BTreeMap::from([(MARK.to_owned(), own_unit)]);
    Expr::Alias(Alias::new(expr, relation, name).with_metadata(Some(FieldMetadata::from(mark))))
}

fn is_hidden(alias: &Alias) -> bool {
    alias.metadata.as_ref().is_some_and(|metadata| metadata.inner().contains_key(MARK))
}

/// The timestamps that the hidden `expr` casts to a finer unit, and their own unit.
fn of_own_unit(expr: &Expr) -> Option<(Expr, TimeUnit)> {
    let Expr::Alias(alias) = expr else { return None };
    let mark = alias.metadata.as_ref()?.inner().get(MARK)?;
    let units = [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond];
    let unit = units.into_iter().find(|unit| unit.to_string() == *mark)?;
    match alias.expr.as_ref() {
        Expr::Cast(Cast { expr, .. }) | Expr::TryCast(TryCast { expr, .. }) => {
            Some((expr.as_ref().clone(), unit))
        }
        _ => None,
    }
}

/// `1 < x` as `x > 1`, and two columns in the order of their names, as DataFusion has them.
fn constant_right(expr: Expr) -> Expr {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else { return expr };
    let swapped = match (left.as_ref(), right.as_ref()) {
        (Expr::Column(left), Expr::Column(right)) if right > left => op.swap(),
        (Expr::Literal(..), Expr::Column(_)) => op.swap(),
        _ => None,
    };
    Expr::BinaryExpr(match swapped {
        Some(op) => BinaryExpr { left: right, op, right: left },
        None => BinaryExpr { left, op, right },
    })
}

/// A chain of OR or AND in which values of one column are compared with more than a few constants, with a list of them.
fn join_lists(expr: Expr) -> Transformed<Expr> {
    let op = match &expr {
        Expr::BinaryExpr(BinaryExpr { op: op @ (Operator::Or | Operator::And), .. }) => *op,
        _ => return Transformed::no(expr),
    };
    let chain = parts(expr, |expr| match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: found, right }) if found == op => Ok((*left, *right)),
        other => Err(other),
    });
    let mut counts: HashMap<Expr, usize> = HashMap::new();
    for (subject, items) in chain.iter().filter_map(|part| list_of(part, op)) {
        *counts.entry(subject.clone()).or_default() += items.len();
    }
    counts.retain(|_, count| *count > SHORT_LIST);
    let chained = |parts| {
        joined(parts, &|left, right| {
            Expr::BinaryExpr(BinaryExpr { left: Box::new(left), op, right: Box::new(right) })
        })
    };
    let mut is_joined = false;
    let mut lists: HashMap<Expr, (usize, HashSet<Expr>)> = HashMap::new();
    let mut kept: Vec<Expr> = Vec::with_capacity(chain.len());
    for part in chain {
        let Some((subject, items)) = list_of(&part, op).filter(|(subject, _)| counts.contains_key(*subject))
        else {
            kept.push(part);
            continue;
        };
        let next = kept.len();
        let (at, seen) = lists.entry(subject.clone()).or_insert_with(|| (next, HashSet::new()));
        let new = items.iter().filter(|item| seen.insert((*item).clone())).cloned().collect::<Vec<_>>();
        if *at == next {
            let expr = Box::new(subject.clone());
            kept.push(Expr::InList(InList { expr, list: new, negated: op == Operator::And }));
        } else if let Expr::InList(list) = &mut kept[*at] {
            list.list.extend(new);
            is_joined = true;
        }
    }
    // Chains are built anew only where that changes something: the optimizer goes on while anything changes.
    let expr = chained(kept);
    if is_joined { Transformed::yes(expr) } else { Transformed::no(expr) }
}

/// The column and the constants where `part` of a chain of `op` compares them as a list does: `=` and IN under OR, `<>`
/// and NOT IN under AND.
fn list_of(part: &Expr, op: Operator) -> Option<(&Expr, &[Expr])> {
    let is_constant = |expr: &Expr| matches!(expr, Expr::Literal(..));
    let (subject, items) = match part {
        Expr::BinaryExpr(BinaryExpr { left, op: compared, right }) => {
            let wanted = if op == Operator::Or { Operator::Eq } else { Operator::NotEq };
            (*compared == wanted).then_some((left.as_ref(), std::slice::from_ref(right.as_ref())))?
        }
        Expr::InList(list) => {
            (list.negated == (op == Operator::And)).then_some((list.expr.as_ref(), list.list.as_slice()))?
        }
        _ => return None,
    };
    let column = match subject {
        Expr::Cast(cast) => cast.expr.as_ref(),
        other => other,
    };
    let is_simple = matches!(column, Expr::Column(_)) && items.iter().all(is_constant);
    is_simple.then_some((subject, items))
}

/// A short list as comparisons.
fn shortened(expr: Expr) -> Transformed<Expr> {
    let is_short = match &expr {
        Expr::InList(InList { expr, list, .. }) => {
            list.len() == 1
                || !list.is_empty() && list.len() <= SHORT_LIST && matches!(**expr, Expr::Column(_))
        }
        _ => false,
    };
    match expr {
        Expr::InList(InList { expr, list, negated }) if is_short => {
            let (compare, chain) =
                if negated { (Operator::NotEq, Operator::And) } else { (Operator::Eq, Operator::Or) };
            let binary = |left: Expr, op, right: Expr| {
                Expr::BinaryExpr(BinaryExpr { left: Box::new(left), op, right: Box::new(right) })
            };
            let compared = list.into_iter().map(|item| binary(expr.as_ref().clone(), compare, item));
            let joined = compared.reduce(|left, right| binary(left, chain, right));
            Transformed::yes(joined.expect("the list is not empty"))
        }
        other => Transformed::no(other),
    }
}
