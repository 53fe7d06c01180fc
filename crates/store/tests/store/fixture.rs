//! A table of every type, and the shortest ways to write and read one.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryViewArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array,
    Int8Array, Int16Array, Int32Array, Int64Array, RecordBatch, StringViewArray, TimestampMicrosecondArray,
    TimestampSecondArray, UInt8Array, UInt16Array, UInt32Array, UInt64Array,
};
use arrow::compute::concat_batches;
use pelton_chunk::Column;
use pelton_error::Result;
use pelton_io::{IoEngine, IoOptions};
use pelton_store::{
    ColumnChoice, Sample, SampleOptions, Table, TablePlan, TableSchema, TableWriter, Warehouse, WriteMode,
    WriteOptions, choose, column_from_arrow, column_to_arrow, encode_row_group, read_chunk,
};

pub(crate) const ROW_GROUP_ROWS: u32 = 1000;
pub(crate) const PAGE_ROWS: u32 = 1024;

/// How often a test of chance tries: `default`, or what the environment variable `name` says for a long run.
pub(crate) fn tries(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// A warehouse that is gone when dropped.
pub(crate) struct Place {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) warehouse: Warehouse,
}

pub(crate) fn place() -> Place {
    let dir = tempfile::tempdir().unwrap();
    let warehouse = Warehouse::open(dir.path()).unwrap();
    Place { dir, warehouse }
}

/// `rows` rows from `first` on, of every type, every seventh a NULL where NULLs may be.
pub(crate) fn batch(first: u64, rows: u64) -> RecordBatch {
    let all = || first..first + rows;
    let some = |row: u64| !(row + 3).is_multiple_of(7);
    macro_rules! array {
        ($array:ty, $row:ident => $value:expr) => {
            Arc::new(<$array>::from_iter(all().map(|$row| some($row).then(|| $value)))) as ArrayRef
        };
    }
    let narrow = Decimal128Array::from_iter(all().map(|row| some(row).then(|| i128::from(row) * 31 - 5000)));
    let wide = Decimal128Array::from_iter(all().map(|row| some(row).then(|| i128::from(row) << 80)));
    RecordBatch::try_from_iter_with_nullable([
        ("id", Arc::new(UInt64Array::from_iter_values(all())) as ArrayRef, false),
        ("bool", array!(BooleanArray, row => row % 3 == 0), true),
        ("int8", array!(Int8Array, row => row as i8), true),
        ("int16", array!(Int16Array, row => (row * 77) as i16), true),
        ("int32", array!(Int32Array, row => (row / 100) as i32 - 5), true),
        ("int64", array!(Int64Array, row => i64::MIN + row as i64), true),
        ("uint8", array!(UInt8Array, row => row as u8), true),
        ("uint16", array!(UInt16Array, row => row as u16), true),
        ("uint32", array!(UInt32Array, row => u32::MAX - row as u32), true),
        ("uint64", array!(UInt64Array, row => u64::MAX - row), true),
        ("float32", array!(Float32Array, row => row as f32 / 4.0), true),
        ("float64", array!(Float64Array, row => (row % 500) as f64 / 100.0), true),
        ("narrow", Arc::new(narrow.with_precision_and_scale(15, 2).unwrap()) as ArrayRef, true),
        ("wide", Arc::new(wide.with_precision_and_scale(38, 10).unwrap()) as ArrayRef, true),
        ("date", array!(Date32Array, row => 9000 + (row / 50) as i32), true),
        ("local", array!(TimestampMicrosecondArray, row => row as i64 * 1_000_003), true),
        (
            "zoned",
            Arc::new(
                TimestampSecondArray::from_iter_values(all().map(|row| row as i64))
                    .with_timezone("Europe/Berlin"),
            ),
            true,
        ),
        ("mode", array!(StringViewArray, row => ["AIR", "RAIL", "SHIP"][row as usize % 3].to_string()), true),
        ("comment", array!(StringViewArray, row => format!("the comment of row {row}, wörtlich")), true),
        ("binary", array!(BinaryViewArray, row => vec![row as u8, 0, 255]), true),
        ("null", Arc::new(Int32Array::from_iter(all().map(|_| None::<i32>))) as ArrayRef, true),
    ])
    .unwrap()
}

pub(crate) fn schema_of(batch: &RecordBatch) -> TableSchema {
    TableSchema::from_arrow(&batch.schema()).unwrap()
}

pub(crate) fn columns_of(batch: &RecordBatch, schema: &TableSchema) -> Vec<Column> {
    let columns = batch.columns().iter().zip(&schema.columns);
    columns.map(|(array, column)| column_from_arrow(array.as_ref(), &column.logical).unwrap()).collect()
}

/// The plan sampling gives on the whole batch, with small row groups.
pub(crate) fn plan_for(batch: &RecordBatch, options: &SampleOptions) -> TablePlan {
    let schema = schema_of(batch);
    let runs = vec![columns_of(batch, &schema)];
    let options =
        SampleOptions { row_group_rows: vec![ROW_GROUP_ROWS], page_rows: PAGE_ROWS, ..options.clone() };
    choose(&Sample { schema, runs }, &options).unwrap()
}

/// A plan without sampling: every column plain.
pub(crate) fn plain_plan(schema: &TableSchema, row_group_rows: u32) -> TablePlan {
    let plain = |name: &str| ColumnChoice {
        forced: false,
        ..ColumnChoice::fixed(name, pelton_chunk::Encoding::PLAIN)
    };
    let columns = schema.columns.iter().map(|column| plain(&column.name)).collect();
    TablePlan { row_group_rows, page_rows: PAGE_ROWS, ..TablePlan::new(columns) }
}

/// Begins, appends all rows of `batch`, does not commit.
pub(crate) fn write(
    warehouse: &Warehouse,
    name: &str,
    mode: WriteMode,
    batch: &RecordBatch,
    plan: &TablePlan,
) -> Result<TableWriter> {
    let mut writer = TableWriter::begin(warehouse, name, schema_of(batch), mode, WriteOptions::default())?;
    writer.set_plan(plan)?;
    append_all(&mut writer, batch, plan)?;
    Ok(writer)
}

pub(crate) fn append_all(writer: &mut TableWriter, batch: &RecordBatch, plan: &TablePlan) -> Result<()> {
    let step = plan.row_group_rows as usize;
    for start in (0..batch.num_rows()).step_by(step) {
        let rows = batch.slice(start, step.min(batch.num_rows() - start));
        writer.append(encode_row_group(&columns_of(&rows, writer.schema()), plan)?)?;
    }
    Ok(())
}

/// Writes `batch` as table `name` in one commit.
pub(crate) fn save(
    warehouse: &Warehouse,
    name: &str,
    mode: WriteMode,
    batch: &RecordBatch,
) -> Result<Arc<Table>> {
    let plan = plain_plan(&schema_of(batch), ROW_GROUP_ROWS);
    write(warehouse, name, mode, batch, &plan)?.commit()
}

pub(crate) fn engine() -> IoEngine {
    IoEngine::start(IoOptions::default()).unwrap()
}

/// All rows, through the engine, checksums, decoders and Arrow.
pub(crate) fn read(engine: &IoEngine, table: &Arc<Table>) -> Result<RecordBatch> {
    let mut batches = Vec::new();
    for row_group in 0..table.row_group_count() {
        let columns = &table.schema().columns;
        let reads = (0..columns.len())
            .map(|column| read_chunk(engine, table, row_group, column))
            .collect::<Result<Vec<_>>>()?;
        let mut arrays = Vec::new();
        for (column, chunk) in reads.into_iter().enumerate() {
            let bytes = chunk.wait_blocking()?;
            let decoded = table.chunk_view(row_group, column, &bytes)?.decode()?;
            arrays.push(column_to_arrow(decoded, &columns[column].logical)?);
        }
        batches.push(RecordBatch::try_new(table.arrow_schema(), arrays).unwrap());
    }
    Ok(concat_batches(&table.arrow_schema(), &batches).unwrap())
}

/// Everything a table says: its rows and all its metadata.
pub(crate) fn read_all(engine: &IoEngine, table: &Arc<Table>) -> Result<(RecordBatch, String)> {
    let rows = read(engine, table)?;
    let mut metadata = String::new();
    for column in 0..table.schema().columns.len() {
        metadata += &format!("{:?} {:?}", table.column_summary(column), table.zone_maps(column)?);
    }
    Ok((rows, metadata))
}
