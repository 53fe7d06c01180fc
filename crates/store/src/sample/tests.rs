//! Tests of the choice of encodings.

use pelton_chunk::{ByteValues, Layout, Transform, Validity, Values};

use super::*;
use crate::schema::LogicalType;

const ROWS: u32 = 20_000;

/// A mixing step of SplitMix64: the same index gives the same noise.
fn noise(index: u32) -> u64 {
    let mut mixed = u64::from(index).wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^= mixed >> 27;
    mixed.wrapping_mul(0x94d0_49bb_1331_11eb) ^ (mixed >> 31)
}

fn texts(text: impl Fn(u32) -> String, rows: std::ops::Range<u32>) -> Column {
    let mut values = ByteValues::default();
    for row in rows {
        values.push(text(row).as_bytes()).unwrap();
    }
    Column::new(Values::Bytes(values))
}

const WORDS: [&str; 8] =
    ["quickly", "final", "deposits", "haggle", "express", "furiously", "accounts", "among"];

fn comment(row: u32) -> String {
    (0..6).map(|word| WORDS[(noise(row * 8 + word) % 8) as usize]).collect::<Vec<_>>().join(" ")
        + &row.to_string()
}

fn columns(rows: std::ops::Range<u32>) -> Vec<Column> {
    vec![
        Column::new(Values::I64(rows.clone().map(i64::from).collect())),
        Column::new(Values::I32(rows.clone().map(|row| (noise(row) % 50) as i32).collect())),
        Column::new(Values::F64(rows.clone().map(|row| (noise(row) % 10_000) as f64 / 100.0).collect())),
        texts(|row| ["AIR", "RAIL", "SHIP"][(noise(row) % 3) as usize].to_string(), rows.clone()),
        texts(comment, rows),
    ]
}

fn schema() -> TableSchema {
    let types =
        [LogicalType::Int64, LogicalType::Int32, LogicalType::Float64, LogicalType::Utf8, LogicalType::Utf8];
    let columns = types.into_iter().enumerate().map(|(index, logical)| ColumnSchema {
        name: format!("c{index}"),
        logical,
        nullable: true,
    });
    TableSchema::new(columns.collect()).unwrap()
}

/// Runs of rows, each from the first to before the second number.
fn sample(runs: &[(u32, u32)]) -> Sample {
    Sample { schema: schema(), runs: runs.iter().map(|&(start, end)| columns(start..end)).collect() }
}

#[test]
fn smallest_takes_the_fewest_bytes_of_all_tried() {
    let plan = choose(&sample(&[(0, ROWS)]), &SampleOptions::default()).unwrap();
    for choice in &plan.columns {
        let chosen = &choice.candidates[0];
        assert_eq!(chosen.encoding, choice.encoding);
        assert!(
            choice
                .candidates
                .iter()
                .all(|other| chosen.stored_bytes as f64 <= other.stored_bytes as f64 * TIE_OF_BYTES)
        );
        assert!(choice.candidates.iter().all(|candidate| candidate.decode_bytes_per_s > 0));
        assert!(choice.ratio(chosen) > 1.5, "{choice:?}");
        assert!(!choice.forced);
    }
    let counter = &plan.columns[0];
    assert_eq!(counter.encoding.layout, Layout::Delta, "{counter:?}");
    assert_eq!(plan.columns[3].encoding.transform, Transform::Dictionary);
}

#[test]
fn slow_storage_puts_zstd_on_long_text_and_fast_storage_does_not() {
    let sample = sample(&[(0, ROWS)]);
    let chosen = |storage_bytes_per_s| {
        let options = SampleOptions {
            objective: Objective::Fastest { storage_bytes_per_s },
            ..SampleOptions::default()
        };
        choose(&sample, &options).unwrap().columns[4].encoding.codec
    };
    assert!(matches!(chosen(20 << 20), Codec::Zstd | Codec::Deflate));
    assert_eq!(chosen(1 << 40), Codec::None);
}

#[test]
fn choice_from_a_tenth_is_nearly_as_small_as_from_all_rows() {
    let whole = columns(0..ROWS);
    let size = |plan: &TablePlan| crate::encode::encode_row_group(&whole, plan).unwrap().stored_bytes();
    let from_whole = size(&choose(&sample(&[(0, ROWS)]), &SampleOptions::default()).unwrap());
    let tenth = [(0, 1000), (ROWS / 2, ROWS / 2 + 1000)];
    let from_tenth = size(&choose(&sample(&tenth), &SampleOptions::default()).unwrap());
    assert!(from_tenth as f64 <= from_whole as f64 * 1.1, "{from_tenth} against {from_whole}");
}

#[test]
fn forced_encoding_and_codec_are_kept_where_they_apply() {
    let options = SampleOptions {
        force_encoding: Some(Encoding::light(Transform::Dictionary, Layout::BitPacked)),
        force_codec: Some(Codec::Snappy),
        ..SampleOptions::default()
    };
    let plan = choose(&sample(&[(0, 2000)]), &options).unwrap();
    for choice in &plan.columns {
        assert_eq!(choice.encoding.to_string(), "dict+bitpack/snappy");
        assert!(choice.forced);
    }
    let floats_only = SampleOptions {
        force_encoding: Some(Encoding::light(Transform::Alp, Layout::BitPacked)),
        ..SampleOptions::default()
    };
    let plan = choose(&sample(&[(0, 2000)]), &floats_only).unwrap();
    assert_eq!(plan.columns[2].encoding.transform, Transform::Alp);
    assert!(plan.columns[0].encoding.transform != Transform::Alp && !plan.columns[0].forced);
}

#[test]
fn row_group_size_with_the_lowest_cost_wins() {
    let options = SampleOptions { row_group_rows: vec![64, 16_384], ..SampleOptions::default() };
    let plan = choose(&sample(&[(0, ROWS)]), &options).unwrap();
    assert_eq!(plan.row_group_rows, 16_384);
    let sizes: Vec<u32> =
        plan.columns[1].candidates.iter().map(|candidate| candidate.row_group_rows).collect();
    assert!(sizes.starts_with(&[16_384]) && sizes.contains(&64), "{sizes:?}");
}

#[test]
fn rows_looked_at_are_bounded_and_spread() {
    let runs: Vec<_> = (0..10).map(|run| (run * 1000, run * 1000 + 100)).collect();
    let options = SampleOptions { rows_max: 300, ..SampleOptions::default() };
    let plan = choose(&sample(&runs), &options).unwrap();
    assert_eq!(plan.columns[0].sample_rows, 300);
}

#[test]
fn nothing_to_look_at_gives_a_plan_and_nothing_to_try_an_error() {
    let plan = choose(&sample(&[]), &SampleOptions::default()).unwrap();
    assert!(plan.columns.iter().all(|choice| choice.encoding == Encoding::PLAIN && !choice.forced));
    let none = SampleOptions { codecs: Vec::new(), ..SampleOptions::default() };
    assert!(choose(&sample(&[(0, 10)]), &none).is_err());
}

#[test]
fn nulls_and_single_values_are_tried_like_the_rest() {
    let rows = 3000;
    let some = Validity::from_bools((0..rows).map(|row| row % 3 == 0));
    let sparse = Column { values: Values::I64((0..rows as i64).collect()), validity: Some(some) };
    let none = Column {
        values: Values::I64(vec![0; rows]),
        validity: Some(Validity::from_bools((0..rows).map(|_| false))),
    };
    let column = |name: &str| ColumnSchema { name: name.into(), logical: LogicalType::Int64, nullable: true };
    let schema = TableSchema::new(vec![column("sparse"), column("none")]).unwrap();
    let plan = choose(&Sample { schema, runs: vec![vec![sparse, none]] }, &SampleOptions::default()).unwrap();
    assert_eq!(plan.columns[1].encoding.layout, Layout::Constant);
}

#[test]
fn symbols_are_taken_where_they_save_a_fifth_and_more_time_than_they_take() {
    const MEGA: u64 = 1_000_000;
    let of = |encoding: &str, megabytes: u64, decode_megabytes_per_s: u64| Candidate {
        encoding: encoding.parse().unwrap(),
        row_group_rows: ROWS,
        stored_bytes: megabytes * MEGA,
        decode_bytes_per_s: decode_megabytes_per_s * MEGA,
        cost: 0.0,
    };
    let fast = Objective::Fastest { storage_bytes_per_s: 1000 * MEGA };
    // A gigabyte of text on two cores, of which symbols were the best so far.
    let is_kept = |symbols: Candidate, objective| {
        let options = SampleOptions { objective, cores: 2, ..SampleOptions::default() };
        let trial = Trial { options: &options, row_group_rows: ROWS, runs: &[] };
        let others = [of("plain", 1000, 10_000), of("dict+bitpack", 900, 5000), of("plain/lz4", 600, 2000)];
        let mut candidates = [&[symbols.clone()][..], &others].concat();
        trial.put_back_symbols(&mut candidates, 1000 * MEGA);
        assert_eq!(candidates.len(), 4);
        match candidates[0] == symbols {
            true => true,
            false => {
                assert!(candidates[..3] == others && candidates[3] == symbols, "{candidates:?}");
                false
            }
        }
    };
    // Half a second of decoding in place of a tenth, for 0.45 seconds of reading.
    assert!(is_kept(of("fsst+plain", 450, 1000), fast));
    assert!(!is_kept(of("fsst+plain", 450, 900), fast));
    // From faster storage they are worth less.
    assert!(!is_kept(of("fsst+plain", 450, 1000), Objective::Fastest { storage_bytes_per_s: 10_000 * MEGA }));
    assert!(is_kept(of("fsst+plain", 720, 4000), fast));
    assert!(!is_kept(of("fsst+plain", 721, 4000), fast));
    // Under a codec they are held against what else is under it, and where nothing is, against what has none.
    assert!(is_kept(of("fsst+plain/lz4", 480, 2000), fast));
    assert!(!is_kept(of("fsst+plain/lz4", 481, 2000), fast));
    assert!(is_kept(of("fsst+plain/zstd", 481, 1000), fast));
    // Who wants the fewest bytes takes them for one.
    assert!(is_kept(of("fsst+plain", 899, 100), Objective::Smallest));
}

#[test]
fn where_tables_stay_in_memory_codecs_are_taken_that_save_more_time_than_they_take() {
    const MEGA: u64 = 1_000_000;
    let of = |encoding: &str, megabytes: u64, decode_megabytes_per_s: u64| Candidate {
        encoding: encoding.parse().unwrap(),
        row_group_rows: ROWS,
        stored_bytes: megabytes * MEGA,
        decode_bytes_per_s: decode_megabytes_per_s * MEGA,
        cost: (megabytes * MEGA) as f64, // reading takes longer than decoding
    };
    // A gigabyte on two cores, of which 500 megabytes decode in a twentieth of a second.
    let first = |codec_bytes_per_s, compressed: &Candidate| {
        let objective = Objective::Fastest { storage_bytes_per_s: 1000 * MEGA };
        let options = SampleOptions { objective, codec_bytes_per_s, cores: 2, ..SampleOptions::default() };
        let trial = Trial { options: &options, row_group_rows: ROWS, runs: &[] };
        let light = [of("bitpack", 500, 10_000), of("plain", 1000, 20_000)];
        let mut candidates = [&[compressed.clone()][..], &light].concat();
        trial.put_back_codecs(&mut candidates, 1000 * MEGA);
        assert_eq!(candidates.len(), 3);
        candidates.swap_remove(0).encoding.to_string()
    };
    let fast = Some(4000 * MEGA);
    // 200 megabytes are a twentieth of a second there.
    assert_eq!(first(fast, &of("bitpack/zstd", 300, 5001)), "bitpack/zstd");
    assert_eq!(first(fast, &of("bitpack/zstd", 300, 4990)), "bitpack");
    assert_eq!(first(Some(1000 * MEGA), &of("bitpack/zstd", 300, 4990)), "bitpack/zstd");
    assert_eq!(first(None, &of("bitpack/zstd", 300, 1)), "bitpack/zstd");
}

#[test]
fn one_encoding_that_is_forced_needs_no_other() {
    let options = SampleOptions {
        objective: Objective::Fastest { storage_bytes_per_s: 1 << 40 },
        force_encoding: Some(Encoding::light(Transform::Fsst, Layout::Plain)),
        force_codec: Some(Codec::None),
        ..SampleOptions::default()
    };
    let plan = choose(&sample(&[(0, 2000)]), &options).unwrap();
    assert_eq!(plan.columns[4].encoding.to_string(), "fsst+plain");
    assert!(plan.columns[4].forced);
}
