//! A Pelton table in a DataFusion session of one's own, registered by hand.
//!
//! ```text
//! cargo run --release -p pelton-engine --example register_table -- WAREHOUSE/TABLE [auto|cpu|gpu|gpu:<number>|host]
//! ```

use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionContext;
use pelton_engine::{SessionOptions, from_datafusion, with_pelton};
use pelton_error::{Error, Result};

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (table, device) = match arguments.as_slice() {
        [table] => (table, "auto"),
        [table, device] => (table, device.as_str()),
        _ => return Err(Error::invalid_input("usage: register_table WAREHOUSE/TABLE [DEVICE]")),
    };
    let options = SessionOptions { device: device.parse()?, ..SessionOptions::default() };
    println!("{}", demonstrate(Path::new(table), &options).await?);
    Ok(())
}

/// Registers the table in `directory` as `t`, counts its rows and gives the answer, drawn.
pub(crate) async fn demonstrate(directory: &Path, options: &SessionOptions) -> Result<String> {
    let pelton = with_pelton(SessionStateBuilder::new().with_default_features(), options)?;
    let table = pelton.table(directory)?;
    let session = SessionContext::new_with_state(pelton.builder.build());
    session.register_table("t", Arc::new(table)).map_err(from_datafusion)?;

    let frame = session.sql("SELECT count(*) AS rows FROM t").await.map_err(from_datafusion)?;
    let batches = frame.collect().await.map_err(from_datafusion)?;
    Ok(pretty_format_batches(&batches).map_err(|error| from_datafusion(error.into()))?.to_string())
}
