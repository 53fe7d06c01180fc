//! Columns of a result that were given no name are called by their text, as it was written.
//!
//! ```text
//!   SELECT count(*), sum(x+1), t.y, CAST(y AS INT), CAST(z AS INT) FROM t    count(*)   sum(x + 1)   y   CAST(y AS INT)   z
//!
//!   text ─▶ statement, titles as aliases ─▶ other words (spellings.rs, …) ─▶ without those of the result ─▶ plan
//!                                                   └▶ `Titles`, which the rows are shown under ◀── rows ◀───┘
//! ```
//!
//! A cast of a column is called as the column, as in PostgreSQL, unless another column is. DataFusion 55 calls them by its own
//! names, `sum(t.x + Int64(1))`. Titles are written as aliases before anything else
//! changes the statement: for the result, for what CREATE TABLE AS, views and COPY store, and for subqueries in FROM and
//! in WITH, where `*` shows them. Those of a result are taken out again before it is planned, because an alias hides what
//! ORDER BY may name; the batches are renamed instead. What has no plan under its titles is planned without them.
//!
//! An alias that was written here has a place in the text that no other has. A title has `CHARS_MAX` characters at most, and
//! what makes it stops there. Expressions are written out after chains are balanced (`balance.rs`), so none is deeper than what
//! planning descends into anyway.

use std::collections::HashSet;
use std::convert::Infallible;
use std::fmt::{self, Write};
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{FieldRef, Schema, SchemaRef};
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream};
use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{
    self, Expr, Ident, PipeOperator, Query, Select, SelectItem, SetExpr, SetQuantifier, TableFactor, Value,
    VisitorMut,
};
use datafusion::sql::sqlparser::tokenizer::{Location, Span};
use futures::{Stream, StreamExt};

use crate::names::{name_of, next_free};
use crate::parse::visit_sql;
use crate::spellings::is_local_time;

/// Characters of a title: a guess at what a screen shows of one column.
const CHARS_MAX: usize = 200;

/// Where aliases stand that are titles: in no text.
const HERE: Span = Span { start: Location { line: 0, column: 1 }, end: Location { line: 0, column: 1 } };

/// Gives columns of `statement` that have no name their text for one.
pub(crate) fn write_titles(statement: &mut Statement) {
    match statement {
        Statement::Statement(statement) => name_result(statement),
        Statement::CopyTo(copy) => {
            if let CopyToSource::Query(query) = &mut copy.source {
                name_query(query);
            }
        }
        Statement::Explain(explain) => return write_titles(&mut explain.statement),
        Statement::CreateExternalTable(_) | Statement::Reset(_) => return,
    }
    // From the outside in: the text of a column is that of before.
    let _ = visit_sql(statement, &mut Inner);
}

/// The titles of the result of `statement`; `None` where its columns have the names that they are planned with.
pub(crate) fn titles_of(statement: &mut Statement) -> Option<Titles> {
    if matches!(statement, Statement::Explain(_)) {
        return None;
    }
    let titles = result_items(statement)?.iter().map(|item| match item {
        SelectItem::ExprWithAlias { alias, .. } if alias.span == HERE => Some(alias.value.clone()),
        _ => None,
    });
    let titles: Arc<[Option<String>]> = titles.collect();
    titles.iter().any(Option::is_some).then_some(Titles(titles))
}

/// Takes the titles of the result out of `statement`; gives what else may be planned in its place where that has no plan.
pub(crate) fn without_titles(statement: &mut Statement) -> Vec<Statement> {
    let mut untitled = statement.clone();
    if !untitle(&mut untitled) {
        return Vec::new();
    }
    let titled = statement.clone();
    match result_items(statement).is_some_and(|items| untitle_items(items)) {
        true => vec![titled, untitled],
        false => vec![untitled],
    }
}

/// Takes all titles out of `statement`; false where there are none.
pub(crate) fn untitle(statement: &mut Statement) -> bool {
    let mut all = All { has_titles: false };
    let _ = visit_sql(statement, &mut all);
    all.has_titles
}

/// The titles of a result, by the place of the column; `None` for a column whose name stays.
#[derive(Debug, Clone)]
pub(crate) struct Titles(Arc<[Option<String>]>);

impl Titles {
    /// `schema` under these titles.
    pub(crate) fn schema(&self, schema: &SchemaRef) -> SchemaRef {
        // `unnest` of a struct is one item and several columns.
        if schema.fields().len() != self.0.len() {
            return Arc::clone(schema);
        }
        let columns = schema.fields().iter().zip(self.0.iter());
        let fields: Vec<FieldRef> = columns
            .map(|(field, title)| match title {
                Some(title) if title != field.name() => Arc::new(field.as_ref().clone().with_name(title)),
                _ => Arc::clone(field),
            })
            .collect();
        Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
    }

    /// `rows` under these titles.
    pub(crate) fn rows(&self, rows: SendableRecordBatchStream) -> SendableRecordBatchStream {
        Box::pin(Titled { schema: self.schema(&rows.schema()), titles: self.clone(), rows })
    }

    /// What a batch says of NULLs stays: operators may say more than their plan.
    fn batch(&self, batch: RecordBatch) -> DataFusionResult<RecordBatch> {
        let (schema, columns, row_count) = batch.into_parts();
        let options = RecordBatchOptions::new().with_row_count(Some(row_count));
        Ok(RecordBatch::try_new_with_options(self.schema(&schema), columns, &options)?)
    }
}

struct Titled {
    schema: SchemaRef,
    titles: Titles,
    rows: SendableRecordBatchStream,
}

impl Stream for Titled {
    type Item = DataFusionResult<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.rows.poll_next_unpin(context);
        polled.map(|rows| rows.map(|batch| batch.and_then(|batch| self.titles.batch(batch))))
    }
}

impl RecordBatchStream for Titled {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

fn name_result(statement: &mut ast::Statement) {
    match statement {
        ast::Statement::Query(query) => name_query(query),
        ast::Statement::Explain { statement, .. } | ast::Statement::Prepare { statement, .. } => {
            name_result(statement);
        }
        ast::Statement::CreateView(view) if view.columns.is_empty() => {
            name_query(&mut view.query);
        }
        ast::Statement::CreateTable(table) if table.columns.is_empty() => {
            table.query.iter_mut().for_each(|query| name_query(query));
        }
        _ => {}
    }
}

fn name_query(query: &mut Query) {
    for operator in &mut query.pipe_operators {
        if let PipeOperator::Select { exprs } | PipeOperator::Extend { exprs } = operator {
            name_items(exprs);
        }
    }
    name_set(&mut query.body);
}

/// Names the columns of the first branch, which the others are called as.
fn name_set(set: &mut SetExpr) {
    // A loop to the left, which is where long chains go that are not balanced.
    let mut set = set;
    loop {
        match set {
            SetExpr::SetOperation { set_quantifier, left, right, .. } => {
                if is_by_name(*set_quantifier) {
                    name_set(right);
                }
                set = left.as_mut();
            }
            SetExpr::Query(query) => return name_query(query),
            SetExpr::Select(select) => return name_items(&mut select.projection),
            _ => return,
        }
    }
}

fn is_by_name(quantifier: SetQuantifier) -> bool {
    use SetQuantifier::{AllByName, ByName, DistinctByName};
    matches!(quantifier, AllByName | ByName | DistinctByName)
}

fn name_items(items: &mut [SelectItem]) {
    let is_titled = |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(expr) if !has_name(expr));
    if !items.iter().any(is_titled) {
        return;
    }
    // As in names.rs: of two columns of one title the second has a number.
    let others = items.iter().filter(|item| !is_titled(item));
    let mut taken: HashSet<String> = others.filter_map(name_of).map(|name| name.to_lowercase()).collect();
    for item in items {
        let SelectItem::UnnamedExpr(expr) = item else { continue };
        if has_name(expr) {
            continue;
        }
        let of_column = name_of_cast(expr).filter(|name| taken.insert(name.to_lowercase()));
        let title = of_column.unwrap_or_else(|| {
            let title = text(expr);
            let is_new = taken.insert(title.to_lowercase());
            if is_new { title } else { next_free(&title, &mut taken) }
        });
        let expr = std::mem::replace(expr, nothing());
        let alias = Ident { value: title, quote_style: Some('"'), span: HERE };
        *item = SelectItem::ExprWithAlias { expr, alias };
    }
}

/// Whether `expr` is called as the column that it is.
fn has_name(expr: &Expr) -> bool {
    let mut expr = expr;
    loop {
        match expr {
            Expr::Nested(inner) => expr = inner,
            Expr::Identifier(name) => return !is_local_time(name),
            Expr::CompoundIdentifier(_) => return true,
            _ => return false,
        }
    }
}

/// The name of the column that `expr` is a cast of.
fn name_of_cast(expr: &Expr) -> Option<String> {
    let mut expr = expr;
    loop {
        match expr {
            Expr::Nested(inner) | Expr::Cast { expr: inner, .. } => expr = inner,
            Expr::Identifier(name) if !is_local_time(name) => return Some(name.value.clone()),
            Expr::CompoundIdentifier(names) => return names.last().map(|name| name.value.clone()),
            _ => return None,
        }
    }
}

/// `expr` as it was written, with one space where there were several, cut where it is long.
fn text(expr: &Expr) -> String {
    let mut cut = Cut { text: String::new(), chars_left: CHARS_MAX };
    // The only error is that of the cut, which ends what writes.
    let _ = write!(cut, "{expr}");
    cut.text
}

struct Cut {
    text: String,
    chars_left: usize,
}

impl Write for Cut {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        for char in part.chars() {
            if self.chars_left == 0 {
                self.text.push('…');
                return Err(fmt::Error);
            }
            self.chars_left -= 1;
            self.text.push(if char.is_control() { ' ' } else { char });
        }
        Ok(())
    }
}

fn nothing() -> Expr {
    Expr::Value(Value::Null.into())
}

/// Names the columns of subqueries in FROM and in WITH, where no list names them.
struct Inner;

impl VisitorMut for Inner {
    type Break = Infallible;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Infallible> {
        let named = query.with.iter_mut().flat_map(|with| &mut with.cte_tables);
        named.filter(|named| named.alias.columns.is_empty()).for_each(|named| name_query(&mut named.query));
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, relation: &mut TableFactor) -> ControlFlow<Infallible> {
        if let TableFactor::Derived { subquery, alias, .. } = relation
            && alias.as_ref().is_none_or(|alias| alias.columns.is_empty())
        {
            name_query(subquery);
        }
        ControlFlow::Continue(())
    }
}

/// The columns of the result of `statement`, or of what it explains, where they are the items of one SELECT.
fn result_items(statement: &mut Statement) -> Option<&mut Vec<SelectItem>> {
    let query = match statement {
        Statement::Statement(statement) => match statement.as_mut() {
            ast::Statement::Query(query) => query,
            _ => return None,
        },
        Statement::Explain(explain) => return result_items(&mut explain.statement),
        _ => return None,
    };
    if !query.pipe_operators.is_empty() {
        return None;
    }
    let mut set = query.body.as_mut();
    loop {
        match set {
            SetExpr::SetOperation { set_quantifier, left, .. } => {
                if is_by_name(*set_quantifier) {
                    return None;
                }
                set = left.as_mut();
            }
            SetExpr::Query(query) => {
                if !query.pipe_operators.is_empty() {
                    return None;
                }
                set = query.body.as_mut();
            }
            SetExpr::Select(select) => return is_plain(select).then_some(&mut select.projection),
            _ => return None,
        }
    }
}

/// Whether each item of `select` is a column of its result.
fn is_plain(select: &Select) -> bool {
    let is_column =
        |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. });
    select.into.is_none() && select.projection.iter().all(is_column)
}

struct All {
    has_titles: bool,
}

impl VisitorMut for All {
    type Break = Infallible;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Infallible> {
        for operator in &mut query.pipe_operators {
            if let PipeOperator::Select { exprs } | PipeOperator::Extend { exprs } = operator {
                self.has_titles |= untitle_items(exprs);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Infallible> {
        self.has_titles |= untitle_items(&mut select.projection);
        ControlFlow::Continue(())
    }
}

/// Takes the titles out of `items`; false where there are none.
fn untitle_items(items: &mut [SelectItem]) -> bool {
    let mut has_titles = false;
    for item in items {
        if let SelectItem::ExprWithAlias { expr, alias } = item
            && alias.span == HERE
        {
            let expr = std::mem::replace(expr, nothing());
            *item = SelectItem::UnnamedExpr(expr);
            has_titles = true;
        }
    }
    has_titles
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    /// The titles of `sql`, and what is planned of it first.
    fn titled(sql: &str) -> (Vec<Option<String>>, String) {
        let mut statement = parse(sql).unwrap().remove(0);
        let titles = titles_of(&mut statement).map_or(Vec::new(), |titles| titles.0.to_vec());
        without_titles(&mut statement);
        (titles, statement.to_string())
    }

    fn check(sql: &str, expected: &[&str]) {
        let (titles, _) = titled(sql);
        let titles: Vec<&str> = titles.iter().map(|title| title.as_deref().unwrap_or("-")).collect();
        assert_eq!(titles, expected, "{sql}");
    }

    #[test]
    fn titles_are_the_text_as_it_was_written() {
        check("SELECT 1, 'a', -x,  NULL", &["1", "'a'", "-x", "NULL"]);
        check("SELECT count(*), COUNT ( x ), sum(x+1)\n FROM t", &["count(*)", "COUNT(x)", "sum(x + 1)"]);
        check(
            "SELECT t.x, (x), x AS y, cast(x as int), x::INT",
            &["-", "-", "-", "CAST(x AS INT)", "x::INT"],
        );
        check("SELECT x::INT, x::SMALLINT, t.y::INT FROM t", &["x", "x::SMALLINT", "y"]);
        check("SELECT (x + 1), sum(\"My X\") FROM t", &["(x + 1)", "sum(\"My X\")"]);
        check("SELECT year(d), mod(a, 2), localtimestamp", &["year(d)", "mod(a, 2)", "localtimestamp"]);
        let subquery = "(SELECT max(y) FROM (SELECT sum(x) AS y FROM t))";
        check(&format!("SELECT {subquery}"), &[subquery]);
        let inner = "(SELECT count(*) FROM (SELECT x + 1 FROM t))";
        check(&format!("SELECT {inner}"), &[inner]);
        check("SELECT 1, x AS \"1\", 1 FROM t", &["1_1", "-", "1_2"]);
        check("(SELECT count(*) FROM t) UNION ALL SELECT 1", &["count(*)"]);
    }

    #[test]
    fn names_that_are_given_stay() {
        for sql in ["SELECT x, y AS z FROM t", "SELECT *, x + 1 FROM t", "EXPLAIN SELECT 1", "VALUES (1)"] {
            check(sql, &[]);
        }
    }

    #[test]
    fn a_result_is_planned_without_titles_and_what_is_stored_with_them() {
        let stays = |sql: &str, planned: &str| assert_eq!(titled(sql).1, planned, "{sql}");
        stays("SELECT sum(x) FROM t ORDER BY sum(x)", "SELECT sum(x) FROM t ORDER BY sum(x)");
        stays("EXPLAIN SELECT sum(x) FROM t", "EXPLAIN SELECT sum(x) FROM t");
        stays("CREATE VIEW v AS SELECT 1", "CREATE VIEW v AS SELECT 1 AS \"1\"");
        stays("CREATE VIEW v(a) AS SELECT 1", "CREATE VIEW v (a) AS SELECT 1");
        stays("SELECT *, 1 FROM t", "SELECT *, 1 AS \"1\" FROM t");
        stays(
            "SELECT * FROM (SELECT x + 1, x::INT FROM t)",
            "SELECT * FROM (SELECT x + 1 AS \"x + 1\", x::INT AS \"x\" FROM t)",
        );
        stays("SELECT a FROM (SELECT 1) AS t(a)", "SELECT a FROM (SELECT 1) AS t (a)");
        stays("WITH s AS (SELECT 1) SELECT * FROM s", "WITH s AS (SELECT 1 AS \"1\") SELECT * FROM s");
        stays("SELECT x IN (SELECT y + 1 FROM t) AS z", "SELECT x IN (SELECT y + 1 FROM t) AS z");
    }

    #[test]
    fn where_titles_have_no_plan_there_are_others() {
        let others = |sql: &str| {
            let mut statement = parse(sql).unwrap().remove(0);
            let others = without_titles(&mut statement);
            others.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert!(others("SELECT x FROM t").is_empty());
        assert_eq!(others("SELECT 1"), ["SELECT 1 AS \"1\"", "SELECT 1"]);
        assert_eq!(others("CREATE TABLE u AS SELECT 1"), ["CREATE TABLE u AS SELECT 1"]);
    }

    #[test]
    fn long_titles_are_cut() {
        let (titles, _) = titled(&format!("SELECT x IN ({})", vec!["1"; 10_000].join(",")));
        let title = titles[0].as_deref().unwrap();
        assert!(title.starts_with("x IN (1, 1, ") && title.ends_with('…'), "{title}");
        assert_eq!(title.chars().count(), CHARS_MAX + 1);
        check("SELECT 'a\n b'", &["'a  b'"]);
    }
}
