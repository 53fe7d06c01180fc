//! `pelton tables` and `pelton drop`.

use pelton_bench::results::TextTable;
use pelton_engine::bytes_text;
use pelton_error::Result;
use pelton_store::Warehouse;

use crate::args::{DropArgs, WarehouseArgs};

pub(crate) fn list(args: &WarehouseArgs) -> Result<()> {
    let warehouse = Warehouse::open(&args.warehouse)?;
    let mut table = TextTable::new(&["table", "rows", "columns", "row groups", "raw", "stored", "metadata"]);
    for name in warehouse.tables()? {
        let snapshot = warehouse.table(&name)?;
        let columns = snapshot.schema().columns.len();
        let sum = |figure: fn(&pelton_store::ColumnSummary) -> u64| {
            (0..columns).map(|column| figure(snapshot.column_summary(column))).sum::<u64>()
        };
        table.push(vec![
            name.clone(),
            snapshot.row_count().to_string(),
            columns.to_string(),
            snapshot.row_group_count().to_string(),
            bytes_text(sum(|summary| summary.raw_bytes)),
            bytes_text(sum(|summary| summary.stored_bytes)),
            bytes_text(sum(|summary| summary.metadata_bytes)),
        ]);
    }
    print!("{table}");
    Ok(())
}

pub(crate) fn drop(args: &DropArgs) -> Result<()> {
    Warehouse::open(&args.warehouse.warehouse)?.drop_table(&args.table)
}
