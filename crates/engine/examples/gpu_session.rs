//! A DataFusion session of one's own whose queries over Pelton tables run on a GPU.
//!
//! ```text
//! cargo run --release -p pelton-engine --example gpu_session -- WAREHOUSE TABLE [auto|cpu|gpu|gpu:<number>|host]
//! ```

use std::sync::Arc;

use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionContext;
use pelton_engine::{
    DeviceChoice, Devices, PeltonTable, RuntimeOptions, ScanOptions, from_datafusion, with_gpu,
};
use pelton_error::{Error, Result};
use pelton_store::{IoEngine, IoOptions, Warehouse};

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (directory, name, choice) = match arguments.as_slice() {
        [directory, name] => (directory, name, DeviceChoice::Auto),
        [directory, name, choice] => (directory, name, choice.parse()?),
        _ => return Err(Error::invalid_input("usage: gpu_session WAREHOUSE TABLE [DEVICE]")),
    };
    let io = Arc::new(IoEngine::start(IoOptions::default())?);
    let table = Warehouse::open(directory)?.table(name)?;

    let threads = std::thread::available_parallelism().map_or(1, Into::into);
    let devices = Devices::new(choice, RuntimeOptions::default(), Arc::clone(&io), threads);
    let builder = SessionStateBuilder::new().with_default_features();
    let session = SessionContext::new_with_state(with_gpu(builder, &devices).build());
    let provider = PeltonTable::new(table, io, ScanOptions::default());
    session.register_table(name.as_str(), Arc::new(provider)).map_err(from_datafusion)?;

    let column =
        session.table(name.as_str()).await.map_err(from_datafusion)?.schema().field(0).name().clone();
    let sql = format!("EXPLAIN SELECT \"{column}\", count(*) FROM \"{name}\" GROUP BY \"{column}\"");
    session.sql(&sql).await.map_err(from_datafusion)?.show().await.map_err(from_datafusion)
}
