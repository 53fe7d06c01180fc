//! What a program that embeds the engine needs besides SQL: rows of its own as tables, and to know whether a statement
//! only reads.
//!
//! ```text
//!   batches in memory ──register──▶ table of the session, beside those of the warehouse
//!   statement ──only_reads──▶ true: run it when its rows are asked for, as often as they are
//!                             false: run it once, now
//! ```
//!
//! Registered batches are kept as they are: a column that a query hands on unchanged is handed on without a copy.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::TableReference;
use datafusion::datasource::MemTable;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::Statement as SqlStatement;
use pelton_error::{Error, Result};

use crate::error::from_datafusion;
use crate::session::PeltonSession;

impl PeltonSession {
    /// Makes `batches` a table of this session, in place of one that was registered under this name before. A name
    /// of letters, digits and underscores is matched without regard to
    /// case, as SQL's own names are; any other has to be quoted in SQL and written as here.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if a batch does not have this schema, and for the name of a table of the warehouse.
    pub fn register(&self, name: &str, schema: SchemaRef, batches: Vec<RecordBatch>) -> Result<()> {
        if self.is_stored(name) {
            let message = format!("'{name}' is a table of the warehouse; register under another name");
            return Err(Error::invalid_input(message));
        }
        let table = Arc::new(MemTable::try_new(schema, vec![batches]).map_err(from_datafusion)?);
        let name = reference(name);
        self.context().deregister_table(name.clone()).map_err(from_datafusion)?;
        self.context().register_table(name, table).map_err(from_datafusion)?;
        Ok(())
    }

    /// Forgets a registered table or a view; false where the session has none of this name.
    ///
    /// # Errors
    ///
    /// Of DataFusion's catalog.
    pub fn unregister(&self, name: &str) -> Result<bool> {
        if self.is_stored(name) {
            return Ok(false);
        }
        let table = self.context().deregister_table(reference(name)).map_err(from_datafusion)?;
        Ok(table.is_some())
    }
}

/// Whether running `statement` changes nothing but the time: queries, EXPLAIN, SHOW and DESCRIBE.
pub fn only_reads(statement: &Statement) -> bool {
    match statement {
        Statement::Explain(_) => true,
        Statement::Statement(sql) => matches!(
            sql.as_ref(),
            SqlStatement::Query(_)
                | SqlStatement::Explain { .. }
                | SqlStatement::ExplainTable { .. }
                | SqlStatement::ShowTables { .. }
                | SqlStatement::ShowColumns { .. }
                | SqlStatement::ShowVariable { .. }
        ),
        _ => false,
    }
}

fn reference(name: &str) -> TableReference {
    let is_plain = name.chars().all(|char| char.is_ascii_alphanumeric() || char == '_');
    TableReference::bare(if is_plain { name.to_ascii_lowercase() } else { name.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::SessionOptions;
    use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array};
    use datafusion::arrow::datatypes::{Decimal128Type, Int64Type};

    fn batch(values: Vec<i64>) -> RecordBatch {
        let column: ArrayRef = Arc::new(Int64Array::from(values));
        RecordBatch::try_from_iter([("a", column)]).unwrap()
    }

    fn register(session: &PeltonSession, name: &str, batch: RecordBatch) {
        session.register(name, batch.schema(), vec![batch]).unwrap();
    }

    #[tokio::test]
    async fn registered_rows_are_a_table_until_they_are_replaced_or_forgotten() {
        let session = PeltonSession::open(None, &SessionOptions::default()).unwrap();
        let sum = async |sql: &str| {
            let rows = session.query(sql).await?.collect().await?;
            Ok::<i128, pelton_error::Error>(rows[0].column(0).as_primitive::<Decimal128Type>().value(0))
        };
        register(&session, "Numbers", batch(vec![1, 2]));
        register(&session, "my numbers", batch(vec![7]));
        assert_eq!(sum("SELECT sum(a) FROM NUMBERS").await.unwrap(), 3);
        assert_eq!(sum("SELECT sum(a) FROM \"my numbers\"").await.unwrap(), 7);
        register(&session, "numbers", batch(vec![5]));
        assert_eq!(sum("SELECT sum(a) FROM numbers").await.unwrap(), 5);
        assert!(session.unregister("numbers").unwrap());
        assert!(!session.unregister("numbers").unwrap());
        assert!(sum("SELECT sum(a) FROM numbers").await.is_err());
    }

    #[tokio::test]
    async fn a_column_that_is_only_selected_is_not_copied() {
        let session = PeltonSession::open(None, &SessionOptions::default()).unwrap();
        let batch = batch((0..100_000).collect());
        let address = batch.column(0).as_primitive::<Int64Type>().values().as_ptr();
        register(&session, "t", batch);
        let rows = session.query("SELECT a FROM t").await.unwrap().collect().await.unwrap();
        let first = rows.iter().find(|rows| rows.column(0).as_primitive::<Int64Type>().value(0) == 0);
        assert_eq!(first.unwrap().column(0).as_primitive::<Int64Type>().values().as_ptr(), address);
    }

    #[test]
    fn statements_that_only_read_are_told_from_those_that_change_something() {
        let session = PeltonSession::open(None, &SessionOptions::default()).unwrap();
        let check = |sql: &str, expected: bool| {
            assert_eq!(only_reads(&session.parse(sql).unwrap()[0]), expected, "{sql}");
        };
        for sql in ["SELECT 1", "WITH a AS (SELECT 1) SELECT * FROM a", "VALUES (1)", "EXPLAIN SELECT 1"] {
            check(sql, true);
        }
        for sql in ["SHOW TABLES", "DESCRIBE t", "SHOW ALL"] {
            check(sql, true);
        }
        for sql in ["CREATE VIEW v AS SELECT 1", "COPY (SELECT 1) TO 'a.parquet'", "INSERT INTO t VALUES (1)"]
        {
            check(sql, false);
        }
    }
}
