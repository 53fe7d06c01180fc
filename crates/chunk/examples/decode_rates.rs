//! Sizes and rates of encodings on columns as they occur, on one core.
//!
//! `cargo run --release -p pelton-chunk --example decode_rates [-- NAME]`: columns whose name contains NAME.
//! A rate is uncompressed bytes over the median time of a row group of 131,072 rows.

use std::time::{Duration, Instant};

use pelton_chunk::{
    ByteValues, ChunkView, Codec, Column, DEFAULT_PAGE_ROWS, Encoding, Values, candidates, encode_chunk,
};

const ROWS: usize = 131_072;

fn main() {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    println!(
        "{:<28} {:<20} {:>8} {:>12} {:>12}",
        "column", "encoding", "ratio", "encode MB/s", "decode GB/s"
    );
    for (name, column) in columns() {
        if !name.contains(&wanted) {
            continue;
        }
        for encoding in candidates(&column) {
            report(name, &column, encoding);
        }
        for codec in Codec::ALL.into_iter().skip(1) {
            report(name, &column, Encoding::PLAIN.with_codec(codec));
        }
    }
}

fn report(name: &str, column: &Column, encoding: Encoding) {
    let Ok(chunk) = encode_chunk(column, encoding, DEFAULT_PAGE_ROWS) else { return };
    let raw_bytes = column.values.raw_bytes() as f64;
    let ty = column.values.physical_type();
    let encode = median(|| drop(encode_chunk(column, encoding, DEFAULT_PAGE_ROWS)));
    let decode = median(|| drop(ChunkView::parse(&chunk, ty, ROWS as u32).and_then(|view| view.decode())));
    println!(
        "{name:<28} {:<20} {:>8.2} {:>12.0} {:>12.2}",
        encoding.to_string(),
        raw_bytes / chunk.len() as f64,
        raw_bytes / encode.as_secs_f64() / 1e6,
        raw_bytes / decode.as_secs_f64() / 1e9
    );
}

/// The median time of at least 9 runs and 50 ms.
fn median(mut run: impl FnMut()) -> Duration {
    let start = Instant::now();
    let mut times = Vec::new();
    while times.len() < 9 || start.elapsed() < Duration::from_millis(50) {
        let run_start = Instant::now();
        run();
        times.push(run_start.elapsed());
    }
    times.sort_unstable();
    times[times.len() / 2]
}

/// A linear congruential generator, of which it gives the high bits.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

fn columns() -> Vec<(&'static str, Column)> {
    let mut random = Random(1);
    let mut rows = |value: fn(u64, &mut Random) -> u64| -> Vec<u64> {
        (0..ROWS as u64).map(|row| value(row, &mut random)).collect()
    };
    let quantity = rows(|_, random| 1 + random.below(50));
    let discount = rows(|_, random| random.below(11));
    let price = rows(|_, random| 90_000 + random.below(10_000_000));
    let date = rows(|row, _| 8036 + row / 60);
    let nation = rows(|_, random| random.below(25));
    let nation_runs = rows(|row, _| row / 37 % 25);
    let fare = rows(|_, random| 250 + random.below(60) * random.below(60) + random.below(100));
    let noise = rows(|_, random| random.below(1 << 30) << 30 | random.below(1 << 30));
    let mut order_key = rows(|row, random| if row % 4 == 0 { 1 + 24 * (random.below(8) / 7) } else { 0 });
    (1..ROWS).for_each(|row| order_key[row] += order_key[row - 1]);

    let i32s = |words: &[u64]| Column::new(Values::I32(words.iter().map(|word| *word as i32).collect()));
    let i64s = |words: &[u64]| Column::new(Values::I64(words.iter().map(|word| *word as i64).collect()));
    let f64s = |words: &[u64], scale: f64| {
        Column::new(Values::F64(words.iter().map(|word| *word as f64 / scale).collect()))
    };
    vec![
        ("quantity i64 1..50", i64s(&quantity)),
        ("quantity i32 1..50", i32s(&quantity)),
        ("discount i32 0..10", i32s(&discount)),
        ("price i32 24 bits", i32s(&price)),
        ("price decimal i64 24 bits", i64s(&price)),
        ("sorted date i32", i32s(&date)),
        ("order key i64, 4 lines", i64s(&order_key)),
        ("code i64, 25 of 40 bits", i64s(&nation.iter().map(|word| word << 35).collect::<Vec<_>>())),
        ("nation string, 25 values", strings(&nation)),
        ("nation string, runs of 37", strings(&nation_runs)),
        ("fare f64, 2 decimals", f64s(&fare, 100.0)),
        (
            "fare f32, 2 decimals",
            Column::new(Values::F32(fare.iter().map(|word| *word as f32 / 100.0).collect())),
        ),
        ("quantity f64 1..50", f64s(&quantity, 1.0)),
        ("noise f64", f64s(&noise, 1e18)),
        ("order key string", order_strings(&order_key)),
    ]
}

fn strings(words: &[u64]) -> Column {
    const NATIONS: [&str; 5] = ["ALGERIA", "UNITED STATES", "SAUDI ARABIA", "PERU", "MOZAMBIQUE"];
    let mut strings = ByteValues::default();
    for word in words {
        let text = format!("{} {}", NATIONS[*word as usize % 5], word / 5);
        strings.push(text.as_bytes()).expect("a few megabytes");
    }
    Column::new(Values::Bytes(strings))
}

fn order_strings(words: &[u64]) -> Column {
    let mut strings = ByteValues::default();
    for (row, word) in words.iter().enumerate() {
        strings.push(format!("order-{word}-{row}").as_bytes()).expect("a few megabytes");
    }
    Column::new(Values::Bytes(strings))
}
