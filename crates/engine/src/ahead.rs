//! What a statement will ask of its tables, as far as its text tells, and reading it before it does.
//!
//! ```text
//!   planning thread   open, open, open ──▶ names, logical rules, physical plan ──▶ skipping asks for zone maps
//!   another thread    open, open, zone maps, zone maps, zone maps ─┘
//! ```

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::ops::ControlFlow;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Ident, visit_expressions};
use pelton_store::Table;

use crate::catalog::WarehouseSchema;
use crate::cores::cores;

/// Tables and columns to read for which another thread is worth its start, its heap and its stack, some 0.2 ms: a table in the
/// page cache takes about as long. Sixteen threads for eight took longer than two (docs/perf/cpu.md).
const READS_A_THREAD: usize = 8;

/// The names of columns that `statement` compares with something that is no column: those of joins are not among them.
pub(crate) fn compared_columns(statement: &Statement) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let statement = match statement {
        Statement::Statement(statement) => statement,
        Statement::Explain(explain) => return compared_columns(&explain.statement),
        _ => return names,
    };
    let _ = visit_expressions(statement, |expr| {
        let compared = match expr {
            Expr::BinaryOp { left, op, right } if compares(op) => match (column(left), column(right)) {
                (Some(name), None) | (None, Some(name)) => Some(name),
                _ => None,
            },
            Expr::Between { expr, .. }
            | Expr::InList { expr, .. }
            | Expr::Like { expr, .. }
            | Expr::ILike { expr, .. } => column(expr),
            _ => None,
        };
        names.extend(compared);
        ControlFlow::<Infallible>::Continue(())
    });
    names
}

fn compares(op: &BinaryOperator) -> bool {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq)
}

/// The name of a column, as tables have it; `None` for other expressions.
fn column(expr: &Expr) -> Option<String> {
    let Ident { value, quote_style, .. } = match expr {
        Expr::Identifier(name) => name,
        Expr::CompoundIdentifier(names) => names.last()?,
        Expr::Nested(inner) => return column(inner),
        _ => return None,
    };
    Some(if quote_style.is_some() { value.clone() } else { value.to_lowercase() })
}

/// What is read before a query asks for it.
struct Ahead {
    schema: Arc<WarehouseSchema>,
    /// Names of columns.
    compared: BTreeSet<String>,
    todo: Mutex<Todo>,
    /// A table has been opened.
    opened: Condvar,
}

#[derive(Default)]
struct Todo {
    /// Names of tables to open.
    tables: Vec<String>,
    /// Tables that threads are opening.
    opening: usize,
    zone_maps: Vec<ZoneMaps>,
}

/// Zone maps of a table.
enum ZoneMaps {
    OfColumn(Arc<Table>, usize),
    Sideways(Arc<Table>, usize),
}

/// Opens those of `names` that are tables of the warehouse and not open yet, with another thread, which then reads the zone maps of
/// columns called one of `compared`: planning asks for those last of all, and nobody waits for them here. Errors are left to
/// whoever asks again.
pub(crate) fn read_ahead(
    schema: &Arc<WarehouseSchema>,
    names: &BTreeSet<String>,
    compared: BTreeSet<String>,
) {
    let tables = schema.not_open(names);
    if tables.is_empty() {
        return;
    }
    let threads = (tables.len() + compared.len()).div_ceil(READS_A_THREAD).min(cores() - 1);
    let todo = Mutex::new(Todo { tables, ..Todo::default() });
    let ahead = Arc::new(Ahead { schema: Arc::clone(schema), compared, todo, opened: Condvar::new() });
    for _ in 0..threads {
        let ahead = Arc::clone(&ahead);
        // Where no thread can be had, this one opens all tables.
        let _ = std::thread::Builder::new().spawn(move || {
            ahead.open_tables();
            ahead.read_zone_maps();
        });
    }
    ahead.open_tables();
}

impl Ahead {
    fn todo(&self) -> MutexGuard<'_, Todo> {
        self.todo.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens tables, until all are open that can be.
    fn open_tables(&self) {
        let mut todo = self.todo();
        loop {
            if let Some(name) = todo.tables.pop() {
                todo.opening += 1;
                drop(todo);
                let _opening = Opening(self);
                if let Some(table) = self.schema.opened(&name) {
                    self.todo().zone_maps.extend(zone_maps(&table, &self.compared));
                }
            } else if todo.opening > 0 {
                drop(self.opened.wait(todo));
            } else {
                return;
            }
            todo = self.todo();
        }
    }

    fn read_zone_maps(&self) {
        loop {
            // Not held while they are read.
            let next = self.todo().zone_maps.pop();
            match next {
                Some(ZoneMaps::OfColumn(table, column)) => drop(table.zone_maps(column)),
                Some(ZoneMaps::Sideways(table, column)) => drop(table.sideways_zone_maps(column)),
                None => return,
            }
        }
    }
}

/// While it lives, a table is being opened.
struct Opening<'a>(&'a Ahead);

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        self.0.todo().opening -= 1;
        self.0.opened.notify_all();
    }
}

/// The zone maps of `table` that predicates over columns called one of `compared` are held against.
fn zone_maps(table: &Arc<Table>, compared: &BTreeSet<String>) -> Vec<ZoneMaps> {
    let of = |name: &String| compared.contains(name);
    let own = table.schema().columns.iter().enumerate().filter(|(_, column)| of(&column.name));
    let own = own.map(|(index, _)| ZoneMaps::OfColumn(Arc::clone(table), index));
    let sideways = table.sideways().iter().enumerate().filter(|(_, column)| of(&column.column));
    own.chain(sideways.map(|(index, _)| ZoneMaps::Sideways(Arc::clone(table), index))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_beside_something_else_are_compared() {
        let sql = "EXPLAIN SELECT a + 1, t.B FROM t JOIN u ON t.k = u.k WHERE t.C = 1 AND 3 < d AND \"E\" IN (1, 2) AND (f) LIKE 'x%' \
                   AND g BETWEEN h AND 7 AND i + 1 = 4 AND k2 = u.l AND EXISTS (SELECT 1 FROM v WHERE m <> 'z')";
        let statement = crate::parse::parse(sql).unwrap().remove(0);
        let names: Vec<String> = compared_columns(&statement).into_iter().collect();
        assert_eq!(names, ["E", "c", "d", "f", "g", "m"]);
    }
}
