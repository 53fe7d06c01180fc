//! `generate_series` and `range` of columns, in FROM: lists, of which `unnest` makes rows.
//!
//! ```text
//!   FROM t, LATERAL generate_series(1, t.n) AS s(v)   ─▶   FROM t, unnest(generate_series(1, t.n)) AS s(v)
//! ```
//!
//! DataFusion's functions of this name that are relations take constants alone. Those stay as they are, for they hold no list.
//! After LATERAL `unnest` is the name of a function to the parser; it is what it is without.
//!
//! A list that is written out, `[t.k, t.n]`, becomes `make_array(t.k, t.n)`, which it is to DataFusion too, but for columns of a
//! query around, which it does not know within brackets.

use std::convert::Infallible;
use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident, ObjectName,
    TableAlias, TableAliasColumnDef, TableFactor, TableFunctionArgs, Visit, Visitor, VisitorMut,
};

use crate::parse::visit_sql;

/// What the column is called where the query gives no name; DataFusion's relations have it.
const COLUMN: &str = "value";

/// Makes `unnest` of a list of each series of `statement` that depends on a column, and calls of lists of columns.
pub(crate) fn unnest_series(statement: &mut Statement) {
    let _ = visit_sql(statement, &mut Series);
}

struct Series;

impl VisitorMut for Series {
    type Break = Infallible;

    fn pre_visit_table_factor(&mut self, relation: &mut TableFactor) -> ControlFlow<Infallible> {
        let (name, args, alias) = match relation {
            TableFactor::Function { name, args, alias, with_ordinality: false, .. } => (name, args, alias),
            TableFactor::Table {
                name,
                args: Some(TableFunctionArgs { args, settings: None }),
                alias,
                with_ordinality: false,
                ..
            } => (name, args, alias),
            _ => return ControlFlow::Continue(()),
        };
        let name_in_small = name.to_string().to_lowercase();
        if name_in_small == "unnest"
            && let Some(lists) = args.iter().map(value_of).collect::<Option<Vec<Expr>>>()
        {
            *relation = items(lists, alias.clone());
            return ControlFlow::Continue(());
        }
        let is_series = ["generate_series", "range"].contains(&name_in_small.as_str());
        if is_series && args.visit(&mut HasColumn).is_break() {
            *relation = unnested(name.clone(), args.clone(), alias.clone());
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Infallible> {
        if let Expr::Array(array) = expr
            && array.elem.iter().any(|item| item.visit(&mut HasColumn).is_break())
        {
            let items = std::mem::take(&mut array.elem).into_iter();
            let items = items.map(|item| FunctionArg::Unnamed(FunctionArgExpr::Expr(item)));
            *expr = call(Ident::new("make_array").into(), items.collect());
        }
        ControlFlow::Continue(())
    }
}

fn unnested(name: ObjectName, args: Vec<FunctionArg>, alias: Option<TableAlias>) -> TableFactor {
    let mut alias = alias.unwrap_or_else(|| TableAlias {
        explicit: true,
        name: Ident::new(name.to_string()),
        columns: Vec::new(),
        at: None,
    });
    if alias.columns.is_empty() {
        alias.columns.push(TableAliasColumnDef::from_name(COLUMN));
    }
    items(vec![call(name, args)], Some(alias))
}

fn value_of(arg: &FunctionArg) -> Option<Expr> {
    match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    }
}

fn items(lists: Vec<Expr>, alias: Option<TableAlias>) -> TableFactor {
    TableFactor::UNNEST {
        alias,
        array_exprs: lists,
        with_offset: false,
        with_offset_alias: None,
        with_ordinality: false,
    }
}

fn call(name: ObjectName, args: Vec<FunctionArg>) -> Expr {
    Expr::Function(Function {
        name,
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args,
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

struct HasColumn;

impl Visitor for HasColumn {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }
}
