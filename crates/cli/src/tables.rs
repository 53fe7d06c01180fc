//! `pelton tables` and `pelton drop`.

use pelton_bench::results::TextTable;
use pelton_engine::{bytes_text, counted};
use pelton_error::{Error, ErrorKind, Result};
use pelton_store::Warehouse;

use crate::args::{DropArgs, WarehouseArgs};
use crate::console::{self, Keep, escaped};

const HEADER: [&str; 7] = ["table", "rows", "columns", "row groups", "raw", "stored", "metadata"];

/// Lists all tables. One that cannot be read has its line too, and what is wrong with it stands below the table.
pub(crate) fn list(args: &WarehouseArgs) -> Result<()> {
    let warehouse = Warehouse::open(&args.warehouse)?;
    let names = warehouse.tables()?;
    let (mut table, mut damaged) = (TextTable::new(&HEADER), Vec::new());
    for name in &names {
        let figures = figures(&warehouse, name).unwrap_or_else(|error| {
            damaged.push(error);
            let unknown = std::iter::once("unreadable").chain(std::iter::repeat("-"));
            unknown.take(HEADER.len() - 1).map(str::to_owned).collect()
        });
        table.push([vec![escaped(name, Keep::Nothing)], figures].concat());
    }
    let printed = console::print(table);
    for error in &damaged {
        console::say(format_args!("pelton: {error}"));
    }
    match damaged.is_empty() {
        true => printed,
        false => Err(Error::new(
            ErrorKind::Corrupt,
            format!(
                "{} of {} cannot be read; restore them from a copy or load them again",
                damaged.len(),
                counted(names.len() as u64, "table"),
            ),
        )),
    }
}

/// A line of the list without the name.
fn figures(warehouse: &Warehouse, name: &str) -> Result<Vec<String>> {
    let snapshot = warehouse.table(name)?;
    let columns = snapshot.schema().columns.len();
    let sum = |figure: fn(&pelton_store::ColumnSummary) -> u64| {
        (0..columns).map(|column| figure(snapshot.column_summary(column))).sum::<u64>()
    };
    Ok(vec![
        snapshot.row_count().to_string(),
        columns.to_string(),
        snapshot.row_group_count().to_string(),
        bytes_text(sum(|summary| summary.raw_bytes)),
        bytes_text(sum(|summary| summary.stored_bytes)),
        bytes_text(sum(|summary| summary.metadata_bytes)),
    ])
}

pub(crate) fn drop(args: &DropArgs) -> Result<()> {
    Warehouse::open(&args.warehouse.warehouse)?.drop_table(&args.table)
}
