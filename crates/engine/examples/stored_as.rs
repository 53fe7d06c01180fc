//! `CREATE EXTERNAL TABLE … STORED AS PELTON`, then DataFusion's DataFrame API over it.
//!
//! ```text
//! cargo run --release -p pelton-engine --example stored_as -- WAREHOUSE/TABLE GROUP_COLUMN
//! ```

use std::path::Path;

use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::SessionStateBuilder;
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::prelude::{SessionContext, ident, lit};
use pelton_engine::{SessionOptions, from_datafusion, with_pelton};
use pelton_error::{Error, Result};

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [table, column] = arguments.as_slice() else {
        return Err(Error::invalid_input("usage: stored_as WAREHOUSE/TABLE GROUP_COLUMN"));
    };
    println!("{}", demonstrate(Path::new(table), column).await?);
    Ok(())
}

/// Creates table `t` of the one in `directory`, counts its rows by `column`, and gives the largest groups, drawn.
pub(crate) async fn demonstrate(directory: &Path, column: &str) -> Result<String> {
    let builder = SessionStateBuilder::new().with_default_features();
    let pelton = with_pelton(builder, &SessionOptions::default())?;
    let session = SessionContext::new_with_state(pelton.builder.build());
    largest_groups(&session, directory, column).await.map_err(from_datafusion)
}

async fn largest_groups(
    session: &SessionContext,
    directory: &Path,
    column: &str,
) -> DataFusionResult<String> {
    let location = directory.display().to_string().replace('\'', "''");
    session.sql(&format!("CREATE EXTERNAL TABLE t STORED AS PELTON LOCATION '{location}'")).await?;

    let rows = count(lit(1)).alias("rows");
    let frame = session.table("t").await?.aggregate(vec![ident(column)], vec![rows])?;
    let order = vec![ident("rows").sort(false, false), ident(column).sort(true, false)];
    let batches = frame.sort(order)?.limit(0, Some(5))?.collect().await?;
    Ok(pretty_format_batches(&batches)?.to_string())
}
