//! SSB Q1.1 as a plan by hand, from each tier, timed: what the generated kernel and the prefetcher reach without SQL.
//!
//! ```text
//! cargo run --release -p pelton-exec --example q11 -- [million rows, default 16] [cuda|host] [folder]
//! ```
//!
//! The columns have the distributions of the benchmark, unsorted: a date among 2406, discount 0 to 10, quantity 1 to
//! 50, price up to 10 million. The answer is computed again row by row.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use pelton_chunk::{Column as Values, Values as Data};
use pelton_device::Place;
use pelton_error::CancelFlag;
use pelton_exec::{Runtime, RuntimeOptions, TargetChoice};
use pelton_io::{IoEngine, IoOptions};
use pelton_pipeline::ir::{
    Aggregate, AggregateFunction, ArithmeticOp, Bounds, Column, CompareOp, Expr, Literal, Op, Pipeline, Plan,
    ProbeKind, Sink, Source, TableScan, Type,
};
use pelton_pipeline::{RowColumn, RowValues, Rows};
use pelton_store::{
    ColumnChoice, ColumnSchema, LogicalType, Table, TablePlan, TableSchema, TableWriter, Warehouse,
    WriteMode, WriteOptions, encode_row_group,
};

type Outcome<T> = Result<T, Box<dyn Error>>;

const ROW_GROUP_ROWS: u64 = 128 * 1024;
const DAYS: u64 = 2406;
const COLUMNS: [(&str, &str); 4] = [
    ("lo_orderdate", "dict+bitpack"),
    ("lo_discount", "bitpack"),
    ("lo_quantity", "bitpack"),
    ("lo_extendedprice", "bitpack"),
];

fn mix(mut x: u64) -> u64 {
    x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ x >> 31
}

/// Date, discount, quantity, price of row `i`.
fn row(i: u64) -> [i32; 4] {
    let (a, b) = (mix(i + 1), mix(i + 0x9E37_79B9_7F4A_7C15));
    [date(a % DAYS), ((a >> 32) % 11) as i32, (b % 50 + 1) as i32, ((b >> 20) % 9_904_951 + 90_000) as i32]
}

/// A date like 19930417: years of 12 months of 31 days do for a benchmark.
fn date(day: u64) -> i32 {
    (19_920_000 + day / 372 * 10_000 + (day / 31 % 12 + 1) * 100 + day % 31 + 1) as i32
}

fn write(dir: PathBuf, row_count: u64) -> Outcome<Arc<Table>> {
    let columns = COLUMNS.map(|(name, _)| ColumnSchema {
        name: name.into(),
        logical: LogicalType::Int32,
        nullable: false,
    });
    let schema = TableSchema::new(columns.to_vec())?;
    let choices = COLUMNS.map(|(name, encoding)| Ok(ColumnChoice::fixed(name, encoding.parse()?)));
    let plan = TablePlan::new(choices.into_iter().collect::<Result<_, pelton_error::Error>>()?);
    let warehouse = Warehouse::open_or_create(dir)?;
    let mut writer =
        TableWriter::begin(&warehouse, "lineorder", schema, WriteMode::Replace, WriteOptions::default())?;
    writer.set_plan(&plan)?;
    let threads = std::thread::available_parallelism()?.get() as u64;
    let groups = row_count.div_ceil(ROW_GROUP_ROWS);
    for first in (0..groups).step_by(threads as usize) {
        let encoded = std::thread::scope(|scope| {
            let jobs: Vec<_> = (first..groups.min(first + threads))
                .map(|group| {
                    let plan = &plan;
                    scope.spawn(move || encode_row_group(&columns_of(group, row_count), plan))
                })
                .collect();
            jobs.into_iter().map(|job| job.join().expect("encoding does not panic")).collect::<Vec<_>>()
        });
        for group in encoded {
            writer.append(group?)?;
        }
    }
    Ok(writer.commit()?)
}

fn columns_of(group: u64, row_count: u64) -> Vec<Values> {
    let rows = group * ROW_GROUP_ROWS..row_count.min((group + 1) * ROW_GROUP_ROWS);
    (0..4).map(|column| Values::new(Data::I32(rows.clone().map(|i| row(i)[column]).collect()))).collect()
}

fn expected(row_count: u64) -> i64 {
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
    let part = |thread: u64| {
        (row_count * thread / threads..row_count * (thread + 1) / threads)
            .map(row)
            .filter(|[day, discount, quantity, _]| {
                day / 10_000 == 1993 && (1..=3).contains(discount) && *quantity < 25
            })
            .map(|[_, discount, _, price]| i64::from(price) * i64::from(discount))
            .sum::<i64>()
    };
    std::thread::scope(|scope| {
        let jobs: Vec<_> = (0..threads).map(|thread| scope.spawn(move || part(thread))).collect();
        jobs.into_iter().map(|job| job.join().expect("summing does not panic")).sum()
    })
}

fn plan(table: &Arc<Table>) -> Plan {
    let column = |name: &str, min: i32, max: i32| Column {
        name: name.into(),
        ty: Type::I32,
        is_nullable: false,
        bounds: Some(Bounds { min: min.into(), max: max.into() }),
        text: None,
    };
    let compare = |op, index, value| Expr::Compare {
        op,
        left: Box::new(Expr::Column(index)),
        right: Box::new(Expr::Literal(Literal::I32(value))),
    };
    let dates = Pipeline {
        name: "date".into(),
        source: Source::HostInput(0),
        columns: vec![column("d_datekey", date(0), date(DAYS - 1))],
        ops: vec![Op::Filter(Expr::And(vec![
            compare(CompareOp::Ge, 0, 19_930_101),
            compare(CompareOp::Le, 0, 19_931_231),
        ]))],
        sink: Sink::Build { table: 0, keys: vec![Expr::Column(0)], payload: Vec::new() },
    };
    let revenue = Expr::Arithmetic {
        op: ArithmeticOp::Multiply,
        left: Box::new(Expr::Column(3)),
        right: Box::new(Expr::Column(1)),
    };
    let scan = Pipeline {
        name: "lineorder".into(),
        source: Source::Table(TableScan {
            table: Arc::clone(table),
            columns: vec![0, 1, 2, 3],
            row_groups: (0..table.row_group_count() as u32).collect(),
            uses_runtime_filters: true,
        }),
        columns: vec![
            column("lo_orderdate", date(0), date(DAYS - 1)),
            column("lo_discount", 0, 10),
            column("lo_quantity", 1, 50),
            column("lo_extendedprice", 90_000, 9_994_950),
        ],
        ops: vec![
            Op::Filter(Expr::And(vec![
                compare(CompareOp::Ge, 1, 1),
                compare(CompareOp::Le, 1, 3),
                compare(CompareOp::Lt, 2, 25),
            ])),
            Op::Probe { table: 0, keys: vec![Expr::Column(0)], kind: ProbeKind::Inner, residual: None },
        ],
        sink: Sink::Aggregate {
            keys: Vec::new(),
            aggregates: vec![Aggregate { function: AggregateFunction::Sum, input: Some(revenue) }],
            expected: None,
        },
    };
    Plan { pipelines: vec![dates, scan], table_count: 1, host_input_count: 1, unique_tables: Vec::new() }
}

fn main() -> Outcome<()> {
    let mut args = std::env::args().skip(1);
    let row_count = args.next().map_or(Ok(16), |count| count.parse::<u64>())? * 1_000_000;
    let target = match args.next().as_deref() {
        Some("host") => TargetChoice::Host,
        _ => TargetChoice::Cuda { device: 0 },
    };
    let dir = args.next().map_or_else(|| std::env::temp_dir().join("pelton-q11"), PathBuf::from);
    let started = Instant::now();
    let table = write(dir.clone(), row_count)?;
    println!("written in {:.1} s, {} bytes stored", started.elapsed().as_secs_f64(), table.stored_bytes());
    let wanted = expected(row_count);
    let io = Arc::new(IoEngine::start(IoOptions::default())?);
    let cancel = CancelFlag::new();
    let (raw, plan) = (row_count as f64 * 16.0, plan(&table));
    for tier in ["disk", "pinned", "device"] {
        let device_cache_bytes = Some(if tier == "device" { 1 << 40 } else { 0 });
        let runtime = Runtime::open(
            RuntimeOptions {
                target,
                device_cache_bytes,
                pinned_cache_bytes: Some(0),
                ..RuntimeOptions::default()
            },
            Arc::clone(&io),
        )?;
        if tier != "disk" {
            let report = runtime.column_cache().pin(&table, None, &cancel)?;
            println!("pinned {} bytes in {:.2} s", report.bytes, report.elapsed.as_secs_f64());
        }
        if tier == "device" {
            let stream = runtime.machine().stream(Place::Device(runtime.device()))?;
            for column in 0..4 {
                assert!(runtime.column_cache().admit(&table, column, runtime.device(), &stream, &cancel)?);
            }
        }
        time(tier, &runtime, &plan, raw, wanted)?;
    }
    std::fs::remove_dir_all(dir)?;
    Ok(())
}

fn time(tier: &str, runtime: &Runtime, plan: &Plan, raw: f64, wanted: i64) -> Outcome<()> {
    let mut best: Option<(f64, Vec<String>)> = None;
    for _ in 0..7 {
        let started = Instant::now();
        let (rows, report) = runtime.run(plan, vec![dates()], &CancelFlag::new())?;
        let seconds = started.elapsed().as_secs_f64();
        let RowValues::I64(sums) = &rows.columns[0].values else { return Err("no sum".into()) };
        if sums[0] != wanted {
            return Err(format!("{tier}: {} in place of {wanted}", sums[0]).into());
        }
        if best.as_ref().is_none_or(|(known, _)| seconds < *known) {
            best = Some((seconds, report.lines()));
        }
    }
    let (seconds, lines) = best.ok_or("no run")?;
    println!("{tier:7} {:9.3} ms  effective {:8.1} GB/s  ok", seconds * 1e3, raw / seconds / 1e9);
    lines.iter().for_each(|line| println!("    {line}"));
    Ok(())
}

/// All dates.
fn dates() -> Rows {
    let keys: Vec<i32> = (0..DAYS).map(date).collect();
    let column = RowColumn { values: RowValues::I32(keys), valid: None };
    Rows { row_count: DAYS as usize, columns: vec![column] }
}
