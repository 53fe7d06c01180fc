//! The tables, as Parquet and as Pelton's; DuckDB makes its own of the Parquet files.
//!
//! A row is a function of its number and of the table's seed alone (splitmix64), so that every run has the same.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use parquet::basic::Compression;
use pelton_error::{Error, ErrorKind, Result, ResultExt};
use pelton_load::{CancelFlag, LoadRequest, NoProgress};
use pelton_store::{Warehouse, WriteMode};

use crate::export::write_parquet;

/// Rows of a batch while they are made.
const BATCH_ROWS: u64 = 65_536;
/// Rows of `d`, and values of `few`.
const FEW: u64 = 100;

/// Where everything is.
#[derive(Debug, Clone)]
pub(super) struct Tables {
    pub(super) rows: u64,
    pub(super) dir: PathBuf,
}

impl Tables {
    pub(super) fn new(dir: &Path, rows: u64) -> Self {
        Self { rows, dir: dir.join(format!("limits-{rows}")) }
    }

    pub(super) fn warehouse(&self) -> PathBuf {
        self.dir.join("warehouse")
    }

    fn parquet(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.parquet"))
    }

    /// Makes what an earlier run has not made.
    pub(super) fn prepare(&self, cancel: &CancelFlag, say: &dyn Fn(&str)) -> Result<()> {
        std::fs::create_dir_all(&self.dir).context(|| format!("creating '{}'", self.dir.display()))?;
        let warehouse = Warehouse::open_or_create(self.warehouse())?;
        for (name, rows, seed) in [("t", self.rows, 1), ("u", self.rows, 2), ("d", FEW, 3)] {
            let path = self.parquet(name);
            if !path.exists() {
                let counted = batches(name, rows, seed).map(|batch| cancel.check().and(batch));
                write_parquet(&path, &schema(name), Compression::SNAPPY, counted)?;
            }
            if warehouse.tables()?.iter().any(|table| table == name) {
                continue;
            }
            let request = LoadRequest::new(name, WriteMode::Create, vec![path.display().to_string()]);
            pelton_load::load(&warehouse, &request, &NoProgress, cancel)?;
            say(&format!("made {name}: {rows} rows"));
        }
        Ok(())
    }
}

fn schema(name: &str) -> SchemaRef {
    let int = |name: &str, is_null| Field::new(name, DataType::Int64, is_null);
    let fields = match name {
        "d" => vec![int("few", false), Field::new("name", DataType::Utf8, false)],
        _ => vec![
            int("k", false),
            int("r", false),
            int("few", false),
            int("many", false),
            int("hot", true),
            Field::new("v", DataType::Int32, false),
            Field::new("txt", DataType::Utf8, false),
            Field::new("pay", DataType::Utf8, false),
        ],
    };
    Arc::new(Schema::new(fields))
}

fn batches(name: &'static str, rows: u64, seed: u64) -> impl Iterator<Item = Result<RecordBatch>> {
    (0..rows.div_ceil(BATCH_ROWS)).map(move |batch| {
        let numbers = batch * BATCH_ROWS..rows.min((batch + 1) * BATCH_ROWS);
        let columns = match name {
            "d" => small(numbers),
            _ => large(numbers, rows, seed),
        };
        RecordBatch::try_new(schema(name), columns)
            .map_err(|error| Error::new(ErrorKind::Io, "making rows").with_source(error))
    })
}

fn small(numbers: std::ops::Range<u64>) -> Vec<ArrayRef> {
    let names = numbers.clone().map(|few| Some(format!("name of {few}"))).collect::<StringArray>();
    vec![Arc::new(Int64Array::from_iter_values(numbers.map(|few| few as i64))), Arc::new(names)]
}

fn large(numbers: std::ops::Range<u64>, rows: u64, seed: u64) -> Vec<ArrayRef> {
    let random = |column: u64| {
        let numbers = numbers.clone();
        numbers.map(move |number| mixed(number.wrapping_add(seed << 48).wrapping_add(column << 56)))
    };
    let ints = |values: Box<dyn Iterator<Item = u64> + '_>| {
        Arc::new(Int64Array::from_iter_values(values.map(|value| value as i64))) as ArrayRef
    };
    let many = (rows / 5).max(1);
    let keys = numbers.clone().map(|number| key(number, rows, seed));
    let hot = random(5).map(|value| match value % 4 {
        0 => None,
        1 | 2 => Some(1),
        _ => Some((value >> 8) as i64 % 1000),
    });
    let texts = random(7).map(|value| Some(format!("a text of group {:08}", value % many)));
    let pay = random(8).map(|value| {
        Some(format!("{value:016x}{:016x}{:08x}", value.rotate_left(17).wrapping_mul(31), value >> 40))
    });
    vec![
        ints(Box::new(keys)),
        ints(Box::new(random(2).map(|value| value >> 24))),
        ints(Box::new(random(3).map(|value| value % FEW))),
        ints(Box::new(random(4).map(move |value| value % many))),
        Arc::new(hot.collect::<Int64Array>()),
        Arc::new(Int32Array::from_iter_values(random(6).map(|value| (value % 1000) as i32))),
        Arc::new(texts.collect::<StringArray>()),
        Arc::new(pay.collect::<StringArray>()),
    ]
}

/// Unique, and in no order: a permutation of the numbers below `rows`. Those of `u` are twice as far apart.
fn key(number: u64, rows: u64, seed: u64) -> u64 {
    // A prime that divides no number of rows below it.
    const STEP: u64 = 2_654_435_761;
    let place = (u128::from(number) * u128::from(STEP) + u128::from(seed)) % u128::from(rows);
    if seed == 2 { place as u64 * 2 } else { place as u64 }
}

fn mixed(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_unique_and_every_second_of_u_is_in_t() {
        for rows in [1, 2, 1000, 65_537] {
            let keys = |seed| {
                let mut keys: Vec<u64> = (0..rows).map(|number| key(number, rows, seed)).collect();
                keys.sort_unstable();
                keys.dedup();
                keys
            };
            assert_eq!(keys(1), (0..rows).collect::<Vec<_>>());
            assert_eq!(keys(2), (0..rows).map(|number| 2 * number).collect::<Vec<_>>());
        }
    }
}
