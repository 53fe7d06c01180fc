//! Names of their own for what DataFusion gives the same name.
//!
//! ```text
//!   SELECT v, v::INT, sum(v::INT), sum(v::BIGINT)
//!      v     v          sum(v)       sum(v)          as DataFusion names them: a cast is named by what is cast
//!
//!   SELECT v - (w - 1), v - w - 1, (SELECT max(v) FROM s), (SELECT max(v) FROM t)
//!          v - w - 1    v - w - 1   max(v)                  max(v)
//! ```
//!
//! A step of a plan cannot have two columns of one name, so DataFusion refuses such statements; PostgreSQL and DuckDB run
//! them. Where planning ends with that error, the statement is planned again with more to tell by: columns of the result
//! take the text they were written as for their name, and casts are wrapped in `coalesce` as often as says which type they
//! are to, which the optimizer takes away again; so are operands in parentheses and subqueries (`brackets.rs`). Branches of
//! a UNION but the first have names that nobody sees. Statements that plan as they are never come here, but for those that
//! group by a column and by a cast of it: that plans, and rules that put keys into a projection refuse it later.
//!
//! Names of ORDER BY are settled before (`order.rs`), and columns of USING after ([`using`](crate::using)). What people see
//! columns of a result called is in [`titles`](crate::titles).

mod brackets;
mod order;

use std::collections::HashSet;
use std::convert::Infallible;
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::common::SchemaError;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::utils::grouping_set_to_exprlist;
use datafusion::logical_expr::{Expr as PlanExpr, LogicalPlan};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    self, CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList,
    FunctionArguments, Ident, ObjectName, Query, Select, SelectItem, SetExpr, SetQuantifier, Value, Visit,
    Visitor, VisitorMut,
};

use crate::error::to_datafusion;
use crate::parse::visit_sql;
use crate::recursion::{mark_columns, recursive_column, refuse_subqueries, unmark_columns};
use crate::row_values::compare_rows;
use crate::subqueries::{UnnestedRelations, groups_unnested, unnest_series};
use crate::titles::without_titles;
use crate::using::{MergedJoins, NameJoins, merges, name_joins};
use brackets::write_brackets;

/// What is told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Distinct {
    /// Columns of results by the text they were written as, those of branches of a UNION, and casts.
    Titles,
    /// And operands in parentheses and subqueries.
    Parts,
    /// And columns of a result that are written twice, or beside `*`.
    Repeats,
}

/// The logical plan of `statement`, its columns told apart as far as it takes. Columns of a result that have no name of their
/// own have DataFusion's.
///
/// # Errors
///
/// Those of planning it as it is, of joins by USING and comparisons of rows that are not planned, and of recursive queries
/// whose columns do not hold their values or that a subquery of theirs reads.
pub(crate) async fn plan(state: &SessionState, mut statement: Statement) -> DataFusionResult<LogicalPlan> {
    refuse_subqueries(&mut statement).map_err(to_datafusion)?;
    let others = without_titles(&mut statement);
    let error = match plan_terms(state, statement).await {
        Err(error) => error,
        planned => return planned,
    };
    for other in others {
        if let Ok(plan) = plan_terms(state, other).await {
            return Ok(plan);
        }
    }
    Err(error)
}

/// Plans `statement`, recursive queries with types that hold their values.
async fn plan_terms(state: &SessionState, mut statement: Statement) -> DataFusionResult<LogicalPlan> {
    if mark_columns(&mut statement) {
        // Other statements do not see the function.
        let mut state = state.clone();
        state.register_udf(recursive_column())?;
        return unmark_columns(plan_keys(&state, statement).await?);
    }
    plan_keys(state, statement).await
}

/// Plans `statement` with the names of ORDER BY hidden where that is what they mean.
async fn plan_keys(state: &SessionState, mut statement: Statement) -> DataFusionResult<LogicalPlan> {
    if order::name_keys(&mut statement) {
        let mut hidden = statement.clone();
        order::hide_names(&mut hidden);
        if let Ok(plan) = plan_joins(state, hidden).await {
            return Ok(plan);
        }
    }
    plan_joins(state, statement).await
}

/// Plans `statement` with the joins by USING named that need it, and where that fails, with all of them.
async fn plan_joins(state: &SessionState, mut statement: Statement) -> DataFusionResult<LogicalPlan> {
    let original = merges(&mut statement).then(|| statement.clone());
    let error = match plan_named(state, statement, NameJoins::IfNeeded).await {
        Err(error) => error,
        planned => return planned,
    };
    if let Some(original) = original
        && let Ok(plan) = plan_named(state, original, NameJoins::All).await
    {
        return Ok(plan);
    }
    Err(error)
}

async fn plan_named(
    state: &SessionState,
    mut statement: Statement,
    which: NameJoins,
) -> DataFusionResult<LogicalPlan> {
    let merges = name_joins(&mut statement, which).map_err(to_datafusion)?;
    compare_rows(&mut statement).map_err(to_datafusion)?;
    unnest_series(&mut statement);
    if merges {
        // Of the others none pays for it: each relation that is planned around others would take more of the stack.
        let mut state = state.clone();
        state.register_relation_planner(Arc::new(MergedJoins))?;
        return plan_apart(&state, statement).await;
    }
    plan_apart(state, statement).await
}

/// Plans `statement`, and where two columns have one name, once more with names of their own.
async fn plan_apart(state: &SessionState, statement: Statement) -> DataFusionResult<LogicalPlan> {
    let original = statement.clone();
    let error = match state.statement_to_plan(statement).await {
        Err(error) if is_clash(&error) => error,
        Ok(plan) if has_like_keys(&plan) => {
            let statement = renamed(&original, Distinct::Titles, &HashSet::new());
            return Ok(state.statement_to_plan(statement).await.unwrap_or(plan));
        }
        Ok(plan) if groups_unnested(&plan)? => {
            // Some of its keys may not have been written.
            let mut state = state.clone();
            state.register_relation_planner(Arc::new(UnnestedRelations::default()))?;
            return state.statement_to_plan(original).await;
        }
        other => return other,
    };
    for distinct in [Distinct::Titles, Distinct::Parts] {
        let statement = renamed(&original, distinct, &HashSet::new());
        if let Ok(plan) = state.statement_to_plan(statement).await {
            return Ok(plan);
        }
    }
    // Names of the SELECT list that `*` has as well, which errors tell one by one.
    let mut of_wildcards: HashSet<String> = ambiguous(&error).into_iter().collect();
    loop {
        match state.statement_to_plan(renamed(&original, Distinct::Repeats, &of_wildcards)).await {
            Err(next) if ambiguous(&next).is_some_and(|name| of_wildcards.insert(name)) => {}
            Err(_) => return Err(error),
            planned => return planned,
        }
    }
}

fn renamed(statement: &Statement, distinct: Distinct, of_wildcards: &HashSet<String>) -> Statement {
    let mut statement = statement.clone();
    let mut names = Names { distinct, of_wildcards, types: Vec::new(), is_query: false, depth: 0 };
    let _ = visit_sql(&mut statement, &mut names);
    if distinct != Distinct::Titles {
        write_brackets(&mut statement);
    }
    statement
}

/// The name that a table has a column of, and the SELECT list another.
fn ambiguous(error: &DataFusionError) -> Option<String> {
    match error.find_root() {
        DataFusionError::SchemaError(error, _) => match error.as_ref() {
            SchemaError::AmbiguousReference { field } => Some(field.name.to_lowercase()),
            _ => None,
        },
        _ => None,
    }
}

/// True for the error that two columns have one name.
fn is_clash(error: &DataFusionError) -> bool {
    match error.find_root() {
        DataFusionError::SchemaError(error, _) => matches!(
            **error,
            SchemaError::DuplicateUnqualifiedField { .. }
                | SchemaError::DuplicateQualifiedField { .. }
                | SchemaError::AmbiguousReference { .. }
        ),
        DataFusionError::Plan(text) => text.contains("require unique expression names"),
        _ => false,
    }
}

/// True where rows are grouped by a column and by a cast that is called like it, but for the table before its name.
fn has_like_keys(plan: &LogicalPlan) -> bool {
    let mut has_like = false;
    // The closure gives no errors.
    let _ = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Aggregate(aggregate) = node
            && let Ok(keys) = grouping_set_to_exprlist(&aggregate.group_expr)
        {
            let casts = keys.iter().filter(|key| matches!(key, PlanExpr::Cast(_) | PlanExpr::TryCast(_)));
            let mut names = casts.map(|cast| cast.schema_name().to_string());
            let is_column = |name: &str| {
                let is_named =
                    |key: &&PlanExpr| matches!(key, PlanExpr::Column(column) if column.flat_name() == name);
                keys.iter().any(is_named)
            };
            has_like |= names.any(|name| is_column(&name));
        }
        Ok(if has_like { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    has_like
}

struct Names<'a> {
    distinct: Distinct,
    /// Names, in lower case, that `*` has.
    of_wildcards: &'a HashSet<String>,
    /// What casts of the statement make, in the order they were met.
    types: Vec<(bool, String)>,
    /// Whether the statement is a query, whose columns only people read.
    is_query: bool,
    /// Queries around what is visited.
    depth: usize,
}

impl VisitorMut for Names<'_> {
    type Break = Infallible;

    fn pre_visit_statement(&mut self, statement: &mut ast::Statement) -> ControlFlow<Infallible> {
        self.is_query = matches!(statement, ast::Statement::Query(_));
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Infallible> {
        self.depth += 1;
        name_branches(&mut query.body);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Infallible> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Infallible> {
        let has_wildcard = select
            .projection
            .iter()
            .any(|item| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..)));
        // A number must not make the name that another column has, whichever comes first.
        let mut taken: HashSet<String> =
            select.projection.iter().filter_map(name_of).map(|name| name.to_lowercase()).collect();
        let mut seen = HashSet::new();
        for item in &mut select.projection {
            let Some(usual) = name_of(item) else { continue };
            let is_seen = !seen.insert(usual.to_lowercase());
            if let SelectItem::ExprWithAlias { alias, .. } = item {
                // A name that another query could look up stays.
                let is_repeat =
                    is_seen || (has_wildcard && self.of_wildcards.contains(&usual.to_lowercase()));
                if is_repeat && self.distinct == Distinct::Repeats && self.is_query && self.depth == 1 {
                    *alias = Ident::with_quote('"', next_free(&usual, &mut taken));
                }
                continue;
            }
            let SelectItem::UnnamedExpr(expr) = item else { continue };
            let is_shortened = expr.visit(&mut Shortened).is_break();
            let is_column = matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
            let is_repeat = is_seen || (has_wildcard && is_column);
            let alias = match (is_shortened, is_repeat && self.distinct == Distinct::Repeats) {
                (false, false) => continue,
                (true, _) if !is_repeat => usual,
                _ => next_free(&usual, &mut taken),
            };
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: Ident::with_quote('"', alias) };
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Infallible> {
        let Expr::Cast { kind, data_type, .. } = expr else { return ControlFlow::Continue(()) };
        let made = (matches!(kind, CastKind::TryCast | CastKind::SafeCast), spelled(data_type));
        let known = self.types.iter().position(|known| *known == made);
        let nth = known.unwrap_or_else(|| {
            self.types.push(made);
            self.types.len() - 1
        });
        for _ in 0..=nth {
            let inner = std::mem::replace(expr, Expr::Value(Value::Null.into()));
            *expr = coalesced(inner);
        }
        ControlFlow::Continue(())
    }
}

/// The name that a column of a result has as it is written; `*` has none.
pub(crate) fn name_of(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(alias.value.clone()),
        SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(name.value.clone()),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(names)) => {
            names.last().map(|name| name.value.clone())
        }
        SelectItem::UnnamedExpr(expr) => Some(expr.to_string()),
        _ => None,
    }
}

/// The first of `name_1`, `name_2`, … that no other column has.
pub(crate) fn next_free(name: &str, taken: &mut HashSet<String>) -> String {
    (1..)
        .map(|nth| format!("{name}_{nth}"))
        .find(|name| taken.insert(name.to_lowercase()))
        .unwrap_or_default()
}

/// One text for the spellings of one type.
fn spelled(data_type: &DataType) -> String {
    match data_type {
        DataType::Integer(_) | DataType::Int4(_) => "INT".to_owned(),
        DataType::Int8(_) => "BIGINT".to_owned(),
        DataType::Int2(_) => "SMALLINT".to_owned(),
        DataType::Text | DataType::String(_) => "VARCHAR".to_owned(),
        DataType::Numeric(digits) | DataType::Dec(digits) => DataType::Decimal(*digits).to_string(),
        DataType::DoublePrecision | DataType::Float8 => "DOUBLE".to_owned(),
        DataType::Boolean => "BOOL".to_owned(),
        other => other.to_string().to_uppercase(),
    }
}

/// Breaks at what the name of an expression leaves out.
struct Shortened;

impl Visitor for Shortened {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Cast { .. }
            | Expr::Nested(_)
            | Expr::Subquery(_)
            | Expr::Exists { .. }
            | Expr::InSubquery { .. }
            | Expr::AnyOp { .. }
            | Expr::AllOp { .. } => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Gives columns of the branches of a set operation but the first hidden names: the result has those of the first.
fn name_branches(set: &mut SetExpr) {
    use SetQuantifier::{AllByName, ByName, DistinctByName};
    // A loop to the left, which is where long chains go that are not balanced.
    let mut set = set;
    while let SetExpr::SetOperation { set_quantifier, left, right, .. } = set {
        if !matches!(set_quantifier, AllByName | ByName | DistinctByName) {
            hide_columns(right);
        }
        set = left.as_mut();
    }
}

fn hide_columns(branch: &mut SetExpr) {
    use SetQuantifier::{AllByName, ByName, DistinctByName};
    match branch {
        SetExpr::SetOperation { set_quantifier: AllByName | ByName | DistinctByName, .. } => {}
        SetExpr::SetOperation { left, right, .. } => {
            hide_columns(left);
            hide_columns(right);
        }
        SetExpr::Select(select) => {
            for (nth, item) in select.projection.iter_mut().enumerate() {
                if let SelectItem::UnnamedExpr(expr) = item {
                    let alias = Ident::with_quote('"', format!("!column_{}", nth + 1));
                    *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
                }
            }
        }
        _ => {}
    }
}

fn coalesced(expr: Expr) -> Expr {
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new("coalesce")]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))],
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}
