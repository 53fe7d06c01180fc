//! Rate at which zone maps are built, per type of column: `cargo run --release -p pelton-zone --example build_rate`.
//!
//! Prints the raw bytes of a row group (131072 rows) over the median time of one build on one core, and the time
//! to test the zone map of a row group against a range.

use std::{hint::black_box, time::Instant};

use pelton_chunk::types::{ByteValues, Column, Validity, Values};
use pelton_zone::{ColumnTest, CompareOp, Predicate, Scalar, SkipKinds, ZoneMap, ZoneOptions, prune};

const ROWS: u64 = 131_072;
const BUILDS: usize = 25;
const REGIONS: [&str; 5] = ["AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"];

fn main() {
    println!("{:<28} {:>9} {:>11} {:>10}", "column", "MB/s", "ns a value", "distinct");
    for (name, column) in columns() {
        let median = median_seconds(|| {
            black_box(ZoneMap::build(black_box(&column), &ZoneOptions::default()));
        });
        let (zone, _) = ZoneMap::build(&column, &ZoneOptions::default());
        println!(
            "{name:<28} {:>9.0} {:>11.2} {:>10}",
            column.values.raw_bytes() as f64 / median / 1e6,
            median / ROWS as f64 * 1e9,
            zone.distinct_count
        );
    }
    print_prune_rate();
}

fn print_prune_rate() {
    const ROW_GROUPS: usize = 10_000;
    let column = Column::new(Values::I32((0..1000).map(|row| row * row).collect()));
    let zones = vec![ZoneMap::build(&column, &ZoneOptions::default()).0; ROW_GROUPS];
    let part = |op, value| Predicate::Test { column: (), test: ColumnTest::Compare(op, Scalar::Int(value)) };
    let between = Predicate::And(vec![part(CompareOp::GtEq, 400_100), part(CompareOp::Lt, 800_000)]);
    let median = median_seconds(|| {
        black_box(prune(black_box(&between), ROW_GROUPS, SkipKinds::ALL, |row_group, ()| {
            zones.get(row_group)
        }));
    });
    println!("BETWEEN on {ROW_GROUPS} row groups: {:.1} ns each", median / ROW_GROUPS as f64 * 1e9);
}

fn median_seconds(work: impl Fn()) -> f64 {
    let mut seconds: Vec<f64> = (0..BUILDS)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed().as_secs_f64()
        })
        .collect();
    seconds.sort_by(f64::total_cmp);
    seconds[BUILDS / 2]
}

fn columns() -> Vec<(&'static str, Column)> {
    let random = mix;
    let rows = || 0..ROWS;
    let column = Column::new;
    vec![
        ("u8, 50 values", column(Values::U8(rows().map(|row| (random(row) % 50) as u8).collect()))),
        (
            "i32, 2556 dates",
            column(Values::I32(rows().map(|row| (8000 + random(row) % 2556) as i32).collect())),
        ),
        ("i32, dates sorted", column(Values::I32(rows().map(|row| (8000 + row / 500) as i32).collect()))),
        ("i32, random", column(Values::I32(rows().map(|row| random(row) as i32).collect()))),
        ("i32, random, 10 % NULL", nullable(Values::I32(rows().map(|row| random(row) as i32).collect()))),
        ("i64, random", column(Values::I64(rows().map(|row| random(row) as i64).collect()))),
        ("i64, rising", column(Values::I64(rows().map(|row| (row * 1_000_003) as i64).collect()))),
        ("u64, random", column(Values::U64(rows().map(random).collect()))),
        ("i128, random", column(Values::I128(rows().map(|row| i128::from(random(row)) << 40).collect()))),
        ("f32, random", column(Values::F32(rows().map(|row| random(row) as f32).collect()))),
        ("f64, random", column(Values::F64(rows().map(|row| random(row) as f64).collect()))),
        (
            "f64, 11 values",
            column(Values::F64(rows().map(|row| (random(row) % 11) as f64 / 100.0).collect())),
        ),
        ("string, 5 values", strings(|row| REGIONS[random(row) as usize % 5].into())),
        ("string, 5 values sorted", strings(|row| REGIONS[(row * 5 / ROWS) as usize].into())),
        ("string, 1000 values", strings(|row| format!("MFGR#{}", 1000 + random(row) % 1000))),
        ("string, keys", strings(|row| format!("Customer#{:09}", random(row) % 30_000))),
        (
            "string, 60 random bytes",
            strings(|row| format!("{:020}{:020}{:020}", random(row), random(!row), row)),
        ),
    ]
}

fn strings(value: impl Fn(u64) -> String) -> Column {
    let mut values = ByteValues::default();
    for row in 0..ROWS {
        values.push(value(row).as_bytes()).expect("a row group of short strings is below 4 GiB");
    }
    Column::new(Values::Bytes(values))
}

fn nullable(values: Values) -> Column {
    let validity = Validity::from_bools((0..ROWS as usize).map(|row| !mix(row as u64).is_multiple_of(10)));
    Column { values, validity: Some(validity) }
}

/// A seeded sequence without a dependency.
fn mix(row: u64) -> u64 {
    let mixed = (row + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed ^ (mixed >> 32)
}
