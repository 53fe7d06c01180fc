//! Runs `tests/slt` against the engine under several configurations.
//!
//! ```text
//!   tests/slt/*.slt ──▶ Database ──▶ PeltonSession over a temporary warehouse, one a file
//!                          │
//!                          └ tables come to be through pelton-load, with the configuration's options
//! ```
//!
//! A configuration changes how rows are stored and how queries run, never what they answer: each file holds
//! one set of expected rows, and all configurations are held to it. So is plain DataFusion over tables in
//! memory (`datafusion`), which keeps the expected rows from being Pelton's own mistakes.
//!
//! Statements beyond SQL, see [`Statement`]:
//!
//! ```text
//!   CREATE TABLE t AS SELECT …      load the rows of the SELECT as a new table
//!   INSERT INTO t SELECT …          append them; names and types must be the table's, as with files
//!   LOAD TABLE t [REPLACE | APPEND] [STAR (fact_column = dimension.key, …)]
//!        [CLUSTER BY (column, …)] [ROW GROUPS OF n] AS SELECT …
//!                                   load with what SQL has no words for; n holds in every configuration
//!   DROP TABLE t
//!   SKIPPING SELECT …               run the SELECT; one row a table: its name, row groups in all,
//!                                   row groups read, and `kind:row_groups` for what was skipped
//! ```
//!
//! Cells: `NULL`, `(empty)` for the empty string, hexadecimal for binary, otherwise as Arrow displays them.
//! A cell of several lines, as EXPLAIN gives, becomes one row a line. `onlyif` and `skipif` take the name of a
//! configuration, or of the engine: `pelton`, `datafusion`, which goes as `no_skipping` too.

#![forbid(unsafe_code)]

mod config;
mod database;
mod oracle;
mod pelton;
mod statement;
mod suite;

pub use config::Config;
pub use statement::{LoadStatement, Statement};
pub use suite::{Engine, run_files};
