//! `generate_series` and `range` of columns, in FROM: lists, of which `unnest` makes rows.
//!
//! ```text
//!   FROM t, LATERAL generate_series(1, t.n) AS s(v)   ─▶   FROM t, unnest(generate_series(1, t.n)) AS s(v)
//! ```
//!
//! DataFusion's functions of this name that are relations take constants alone. Those stay as they are, for they hold no list.
//!
//! WITH ORDINALITY is a second list beside those that there are, of which `unnest` takes items side by side:
//!
//! ```text
//!   unnest(l) WITH ORDINALITY AS u(x, i)   ─▶   unnest(l, generate_series(1, CAST(array_length(l) AS BIGINT))) AS u(x, i)
//! ```
//!
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
use crate::spellings::written;

/// What the column is called where the query gives no name; DataFusion's relations have it.
const COLUMN: &str = "value";

/// What the column of numbers is called where the query gives no name.
const ORDINALITY: &str = "ordinality";

const UNNEST: &str = "unnest";

/// Makes `unnest` of a list of each series of `statement` that depends on a column, and calls of lists of columns.
pub(crate) fn unnest_series(statement: &mut Statement) {
    let _ = visit_sql(statement, &mut Series);
}

struct Series;

impl VisitorMut for Series {
    type Break = Infallible;

    fn pre_visit_table_factor(&mut self, relation: &mut TableFactor) -> ControlFlow<Infallible> {
        let (name, args, alias, is_numbered) = match relation {
            TableFactor::UNNEST { array_exprs, alias, with_offset: false, with_ordinality: true, .. } => {
                *relation = numbered(std::mem::take(array_exprs), Ident::new(UNNEST), alias.take());
                return ControlFlow::Continue(());
            }
            TableFactor::Function { name, args, alias, with_ordinality, .. } => {
                (name, args, alias, *with_ordinality)
            }
            TableFactor::Table {
                name,
                args: Some(TableFunctionArgs { args, settings: None }),
                alias,
                with_ordinality,
                ..
            } => (name, args, alias, *with_ordinality),
            _ => return ControlFlow::Continue(()),
        };
        let name_in_small = name.to_string().to_lowercase();
        if name_in_small == UNNEST
            && let Some(lists) = args.iter().map(value_of).collect::<Option<Vec<Expr>>>()
        {
            *relation = match is_numbered {
                true => numbered(lists, Ident::new(UNNEST), alias.clone()),
                false => items(lists, alias.clone()),
            };
            return ControlFlow::Continue(());
        }
        let is_series = ["generate_series", "range"].contains(&name_in_small.as_str());
        if is_series && is_numbered {
            let list = call(name.clone(), args.clone());
            *relation = numbered(vec![list], Ident::new(name_in_small), alias.clone());
        } else if is_series && args.visit(&mut HasColumn).is_break() {
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

/// `lists` with the number of each row in a last column. What the query gives no name to is called as in PostgreSQL: the items
/// of the only list as the relation is, which is called as `function` is.
fn numbered(lists: Vec<Expr>, function: Ident, alias: Option<TableAlias>) -> TableFactor {
    let mut alias = alias.unwrap_or_else(|| TableAlias {
        explicit: true,
        name: function.clone(),
        columns: Vec::new(),
        at: None,
    });
    for place in alias.columns.len()..=lists.len() {
        let name = match place {
            _ if place == lists.len() => Ident::new(ORDINALITY),
            0 if lists.len() == 1 => alias.name.clone(),
            0 => function.clone(),
            _ => Ident::new(format!("{function}_{}", place + 1)),
        };
        alias.columns.push(TableAliasColumnDef { name, data_type: None });
    }
    let lengths: Vec<String> = (1..=lists.len()).map(|number| format!("array_length(${number})")).collect();
    let length = match lengths.as_slice() {
        [length] => length.clone(),
        lengths => format!("greatest({})", lengths.join(", ")),
    };
    let numbers = written(&format!("generate_series(1, CAST({length} AS BIGINT))"), &lists);
    items(lists.into_iter().chain([numbers]).collect(), Some(alias))
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
