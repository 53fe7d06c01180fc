//! A join of rows in memory with a Pelton table on a device, and what EXPLAIN says of it.
//!
//! ```text
//! cargo run --release -p pelton-engine --example mixed_join -- WAREHOUSE/TABLE KEY_COLUMN [auto|cpu|gpu|gpu:<number>|host]
//! ```
//!
//! The key column holds integers. The rows in memory are the integers from 0 to 9, each with a name.

use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::{Int64Array, RecordBatch, StringArray};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionContext;
use pelton_engine::{SessionOptions, from_datafusion, with_pelton};
use pelton_error::{Error, Result};

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (table, column, device) = match arguments.as_slice() {
        [table, column] => (table, column, "auto"),
        [table, column, device] => (table, column, device.as_str()),
        _ => return Err(Error::invalid_input("usage: mixed_join WAREHOUSE/TABLE KEY_COLUMN [DEVICE]")),
    };
    let options = SessionOptions { device: device.parse()?, ..SessionOptions::default() };
    let (plan, rows) = demonstrate(Path::new(table), column, &options).await?;
    println!("{plan}\n{rows}");
    Ok(())
}

/// Joins the table in `directory` with names of digits; gives the plan and the answer, drawn.
pub(crate) async fn demonstrate(
    directory: &Path,
    column: &str,
    options: &SessionOptions,
) -> Result<(String, String)> {
    let pelton = with_pelton(SessionStateBuilder::new().with_default_features(), options)?;
    let table = pelton.table(directory)?;
    let session = SessionContext::new_with_state(pelton.builder.build());
    session.register_table("t", Arc::new(table)).map_err(from_datafusion)?;
    join(&session, column).await.map_err(from_datafusion)
}

async fn join(session: &SessionContext, column: &str) -> DataFusionResult<(String, String)> {
    session.register_batch("digits", digits()?)?;
    let sql = format!(
        "SELECT name, count(*) AS rows FROM t JOIN digits ON t.\"{column}\" = digits.digit GROUP BY name ORDER BY name"
    );
    let plan = session.sql(&format!("EXPLAIN FORMAT INDENT {sql}")).await?.collect().await?;
    let rows = session.sql(&sql).await?.collect().await?;
    Ok((pretty_format_batches(&plan)?.to_string(), pretty_format_batches(&rows)?.to_string()))
}

fn digits() -> DataFusionResult<RecordBatch> {
    let names = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"];
    let digits = Int64Array::from_iter_values(0..10);
    let columns = [
        ("digit", Arc::new(digits) as _, false),
        ("name", Arc::new(StringArray::from(names.to_vec())) as _, false),
    ];
    Ok(RecordBatch::try_from_iter_with_nullable(columns)?)
}
