//! Names of their own for what DataFusion gives the same name.
//!
//! ```text
//!   SELECT v, v::INT, sum(v::INT), sum(v::BIGINT)
//!      v     v          sum(v)       sum(v)          as DataFusion names them: a cast is named by what is cast
//! ```
//!
//! A step of a plan cannot have two columns of one name, so DataFusion refuses such statements; PostgreSQL and DuckDB run
//! them. Where planning ends with that error, the statement is planned again with more to tell by: columns of the result
//! take the text they were written as for their name, and casts are wrapped in `coalesce` as often as says which type they
//! are to, which the optimizer takes away again. Statements that plan as they are never come here.

use std::collections::HashSet;
use std::convert::Infallible;
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::common::SchemaError;
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList,
    FunctionArguments, Ident, ObjectName, Select, SelectItem, Value, Visit, Visitor, VisitorMut,
};

use crate::error::to_datafusion;
use crate::parse::visit_sql;
use crate::row_values::compare_rows;
use crate::using::{MergedJoins, name_joins};

/// What is told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Distinct {
    /// Casts.
    Casts,
    /// And columns of a result that are written twice, or beside `*`.
    Repeats,
}

/// The logical plan of `statement`, its columns told apart as far as it takes.
///
/// # Errors
///
/// Those of planning it as it is, and of joins by USING and comparisons of rows that are not planned.
pub(crate) async fn plan(state: &SessionState, mut statement: Statement) -> DataFusionResult<LogicalPlan> {
    let merges = name_joins(&mut statement).map_err(to_datafusion)?;
    compare_rows(&mut statement).map_err(to_datafusion)?;
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
        other => return other,
    };
    for distinct in [Distinct::Casts, Distinct::Repeats] {
        let mut statement = original.clone();
        let _ = visit_sql(&mut statement, &mut Names { distinct, types: Vec::new() });
        if let Ok(plan) = state.statement_to_plan(statement).await {
            return Ok(plan);
        }
    }
    Err(error)
}

/// True for the error that two columns have one name.
fn is_clash(error: &DataFusionError) -> bool {
    match error.find_root() {
        DataFusionError::SchemaError(error, _) => matches!(
            **error,
            SchemaError::DuplicateUnqualifiedField { .. } | SchemaError::DuplicateQualifiedField { .. }
        ),
        DataFusionError::Plan(text) => text.contains("require unique expression names"),
        _ => false,
    }
}

struct Names {
    distinct: Distinct,
    /// What casts of the statement make, in the order they were met.
    types: Vec<(bool, String)>,
}

impl VisitorMut for Names {
    type Break = Infallible;

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
            let SelectItem::UnnamedExpr(expr) = item else { continue };
            let has_cast = expr.visit(&mut HasCast).is_break();
            let is_column = matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
            let is_repeat = is_seen || (has_wildcard && is_column);
            let alias = match (has_cast, is_repeat && self.distinct == Distinct::Repeats) {
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
fn name_of(item: &SelectItem) -> Option<String> {
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
fn next_free(name: &str, taken: &mut HashSet<String>) -> String {
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

struct HasCast;

impl Visitor for HasCast {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Cast { .. } => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
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
