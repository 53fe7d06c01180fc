//! PREPARE, EXECUTE and DEALLOCATE: the values of EXECUTE take the places of parameters in the statement that PREPARE kept.
//!
//! ```text
//!   PREPARE p AS SELECT count(*) FROM t WHERE k < $1
//!   EXECUTE p(1.5)                      SELECT count(*) FROM t WHERE k < (1.5)
//!   PREPARE q(INT) AS SELECT $1 + 1
//!   EXECUTE q('7')                      SELECT (CAST(('7') AS INT)) + 1
//! ```
//!
//! DataFusion 55 casts values to the types of the columns that parameters stand beside, so `1.5` would be compared as 1. A value
//! has the type that it was written with, or that PREPARE names.
//!
//! What is kept was planned once, so that PREPARE refuses what no value can mend. Plans are those of the statement with its
//! values, and are cached as such.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::{Mutex, MutexGuard, PoisonError};

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    self, CastKind, DataType, Expr, Ident, ObjectName, Value, Visit, Visitor,
};
use pelton_error::{Error, Result};

use crate::parse::{parse, visit_sql};
use crate::prepared::number_question_marks;

/// The statements of a session, by name.
#[derive(Debug, Default)]
pub(crate) struct KeptStatements(Mutex<HashMap<String, Kept>>);

#[derive(Debug, Clone)]
struct Kept {
    statement: Statement,
    parameter_count: usize,
}

/// A statement to keep, once it has been planned.
pub(crate) struct Keep {
    name: String,
    kept: Kept,
}

impl Keep {
    /// What `statement` asks to keep; `None` where it is no PREPARE.
    ///
    /// # Errors
    ///
    /// Names a parameter that has no number.
    pub(crate) fn of(statement: &Statement) -> Result<Option<Self>> {
        let Statement::Statement(statement) = statement else { return Ok(None) };
        let ast::Statement::Prepare { name, data_types, statement } = statement.as_ref() else {
            return Ok(None);
        };
        let mut statement = Statement::Statement(statement.clone());
        number_question_marks(&mut statement, &mut 0);
        let mut parameter_count = data_types.len();
        replace(&mut statement, &mut |number, placeholder| {
            parameter_count = parameter_count.max(number);
            Ok(match data_types.get(number - 1) {
                Some(data_type) => nested(cast(placeholder, data_type)),
                None => placeholder,
            })
        })?;
        Ok(Some(Self { name: folded(name), kept: Kept { statement, parameter_count } }))
    }

    /// The statement, its parameters cast to the types that are named.
    pub(crate) fn statement(&self) -> &Statement {
        &self.kept.statement
    }
}

impl KeptStatements {
    /// Keeps a statement.
    ///
    /// # Errors
    ///
    /// Names a statement that is there already.
    pub(crate) fn keep(&self, keep: Keep) -> Result<()> {
        let mut kept = self.kept();
        if kept.contains_key(&keep.name) {
            let name = &keep.name;
            return Err(Error::invalid_input(format!(
                "prepared statement '{name}' already exists; DEALLOCATE {name} drops it"
            )));
        }
        kept.insert(keep.name, keep.kept);
        Ok(())
    }

    /// Drops what `statement` names; false where it is no DEALLOCATE.
    ///
    /// # Errors
    ///
    /// Names a statement that is not there.
    pub(crate) fn drop_named(&self, statement: &Statement) -> Result<bool> {
        let Statement::Statement(statement) = statement else { return Ok(false) };
        let ast::Statement::Deallocate { name, .. } = statement.as_ref() else { return Ok(false) };
        if name.quote_style.is_none() && name.value.eq_ignore_ascii_case("all") {
            self.kept().clear();
            return Ok(true);
        }
        let name = folded(name);
        self.kept().remove(&name).map(|_| true).ok_or_else(|| missing(&name))
    }

    /// Writes the statement that an EXECUTE in `statement` names in its place, with its values.
    ///
    /// # Errors
    ///
    /// Names a statement that is not there, or says how many values it takes.
    pub(crate) fn write(&self, statement: &mut Statement) -> Result<()> {
        if let Statement::Explain(explain) = statement {
            return self.write(&mut explain.statement);
        }
        let Statement::Statement(inner) = &*statement else { return Ok(()) };
        let ast::Statement::Execute { name: Some(name), parameters, .. } = inner.as_ref() else {
            return Ok(());
        };
        let name = name_of(name);
        let kept = self.kept().get(&name).cloned().ok_or_else(|| missing(&name))?;
        if parameters.len() != kept.parameter_count {
            return Err(Error::invalid_input(format!(
                "prepared statement '{name}' takes {} parameters, not {}",
                kept.parameter_count,
                parameters.len()
            )));
        }
        let mut written = kept.statement;
        replace(&mut written, &mut |number, _| Ok(nested(parameters[number - 1].clone())))?;
        *statement = written;
        Ok(())
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<String, Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether `statement` is a PREPARE, EXECUTE or DEALLOCATE, or explains an EXECUTE.
pub(crate) fn concerns_kept(statement: &Statement) -> bool {
    match statement {
        Statement::Statement(statement) => matches!(
            statement.as_ref(),
            ast::Statement::Prepare { .. }
                | ast::Statement::Execute { .. }
                | ast::Statement::Deallocate { .. }
        ),
        Statement::Explain(explain) => concerns_kept(&explain.statement),
        _ => false,
    }
}

/// A query of the values of an EXECUTE, which plans if they are values; `None` where there are none.
///
/// # Errors
///
/// Names a value that is a subquery, and what EXECUTE has that is not known.
pub(crate) fn values_statement(statement: &Statement) -> Result<Option<Statement>> {
    let statement = match statement {
        Statement::Explain(explain) => return values_statement(&explain.statement),
        Statement::Statement(statement) => statement.as_ref(),
        _ => return Ok(None),
    };
    let ast::Statement::Execute { parameters, using, into, immediate, output, default, .. } = statement
    else {
        return Ok(None);
    };
    if !using.is_empty() || !into.is_empty() || *immediate || *output || *default {
        return Err(Error::unsupported("EXECUTE takes a name and values, as EXECUTE p(1, 'a')"));
    }
    if let Some(value) = parameters.iter().find(|value| value.visit(&mut Subqueries).is_break()) {
        return Err(Error::invalid_input(format!("EXECUTE takes values, and {value} is a subquery")));
    }
    if parameters.is_empty() {
        return Ok(None);
    }
    let values: Vec<String> =
        parameters.iter().enumerate().map(|(nth, value)| format!("{value} AS value_{}", nth + 1)).collect();
    Ok(parse(&format!("SELECT {}", values.join(", ")))?.pop())
}

/// Breaks at a subquery.
struct Subqueries;

impl Visitor for Subqueries {
    type Break = ();

    fn pre_visit_query(&mut self, _: &ast::Query) -> ControlFlow<()> {
        ControlFlow::Break(())
    }
}

fn missing(name: &str) -> Error {
    Error::invalid_input(format!("prepared statement '{name}' does not exist; PREPARE {name} AS … makes it"))
}

/// The name that is meant: in small letters, unless it is quoted.
fn folded(name: &Ident) -> String {
    if name.quote_style.is_some() { name.value.clone() } else { name.value.to_lowercase() }
}

fn name_of(name: &ObjectName) -> String {
    match name.0.as_slice() {
        [part] => part.as_ident().map_or_else(|| name.to_string(), folded),
        _ => name.to_string(),
    }
}

/// Puts what `value` makes of a parameter's number, from 1, and of the parameter in its place.
fn replace(statement: &mut Statement, value: &mut dyn FnMut(usize, Expr) -> Result<Expr>) -> Result<()> {
    let mut error = None;
    let _ = visit_sql(statement, &mut Parameters { value, error: &mut error });
    error.map_or(Ok(()), Err)
}

struct Parameters<'a> {
    value: &'a mut dyn FnMut(usize, Expr) -> Result<Expr>,
    error: &'a mut Option<Error>,
}

impl ast::VisitorMut for Parameters<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let Expr::Value(found) = &*expr else { return ControlFlow::Continue(()) };
        let Value::Placeholder(name) = &found.value else { return ControlFlow::Continue(()) };
        let number = name.trim_start_matches('$').parse().ok().filter(|number| *number > 0_usize);
        let Some(number) = number else {
            *self.error = Some(Error::invalid_input(format!(
                "parameter {name} of PREPARE has no number; EXECUTE gives values by position, so write $1, $2, …"
            )));
            return ControlFlow::Break(());
        };
        match (self.value)(number, expr.clone()) {
            Ok(value) => {
                *expr = value;
                ControlFlow::Continue(())
            }
            Err(error) => {
                *self.error = Some(error);
                ControlFlow::Break(())
            }
        }
    }
}

/// In parentheses: a number alone would be a place in ORDER BY.
fn nested(expr: Expr) -> Expr {
    match expr {
        Expr::Nested(_) => expr,
        other => Expr::Nested(Box::new(other)),
    }
}

fn cast(expr: Expr, data_type: &DataType) -> Expr {
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(expr),
        data_type: data_type.clone(),
        array: false,
        format: None,
    }
}
