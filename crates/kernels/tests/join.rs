//! Tables and partitions of joins against maps: on logical devices always, on GPUs where there are any. Nothing is written
//! beside what they are given.

mod bench;

use std::collections::HashMap;

use bench::{Bench, Guarded, on_every_machine};
use pelton_kernels::{
    JOIN_BUILD_ROWS, JOIN_PROBE_ROWS, JOIN_TILE_ROWS, JoinDigits, JoinOutput, JoinSegments, JoinTable,
    JoinTableKind, exclusive_scan, join_build, join_clear, join_count, join_hash, join_pairs, join_probe,
    join_scatter, join_units, random_word, scan_scratch_bytes,
};

fn to_bytes(words: &[u64], width_bytes: usize) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes().into_iter().take(width_bytes)).collect()
}

fn to_words(bytes: &[u8], width_bytes: usize) -> Vec<u64> {
    let word = |bytes: &[u8]| {
        let mut word = [0; 8];
        word[..width_bytes].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    };
    bytes.chunks(width_bytes).map(word).collect()
}

/// Keys of `distinct` values, the greatest among them, and values.
fn side(count: u64, distinct: u64, seed: u64, width_bytes: usize) -> (Vec<u64>, Vec<u64>) {
    let mask = u64::MAX >> (64 - 8 * width_bytes);
    let key = |row| u64::MAX.wrapping_sub(random_word(seed, row) % distinct) & mask;
    ((0..count).map(key).collect(), (0..count).map(|row| random_word(!seed, row) & mask).collect())
}

fn matches(build: &(Vec<u64>, Vec<u64>), probe: &(Vec<u64>, Vec<u64>)) -> Vec<(u64, u64)> {
    let mut table: HashMap<u64, Vec<u64>> = HashMap::new();
    build.0.iter().zip(&build.1).for_each(|(key, value)| table.entry(*key).or_default().push(*value));
    let of_key = |(key, value): (&u64, &u64)| {
        let value = *value;
        table.get(key).into_iter().flatten().map(move |build| (*build, value)).collect::<Vec<_>>()
    };
    let mut matches: Vec<(u64, u64)> = probe.0.iter().zip(&probe.1).flat_map(of_key).collect();
    matches.sort_unstable();
    matches
}

/// Memory for matches, filled by `run` once with sums and once with pairs, against the reference.
fn check_output(bench: &Bench, expected: &[(u64, u64)], width_bytes: usize, run: impl Fn(JoinOutput)) {
    let result = bench.accumulator(16);
    run(JoinOutput::Sum { result: result.span.clone() });
    let sum = expected.iter().fold(0_u64, |sum, (one, other)| sum.wrapping_add(one.wrapping_mul(*other)));
    assert_eq!(to_words(&bench.download(&result), 8), [expected.len() as u64, sum], "{}", bench.name);
    let column = || bench.upload(&vec![0; expected.len() * width_bytes], 0);
    let (result, one, other) = (bench.accumulator(16), column(), column());
    run(JoinOutput::Pairs {
        result: result.span.clone(),
        build_values: one.span.clone(),
        probe_values: other.span.clone(),
        window_begin: 0,
    });
    assert_eq!(bench.word(&result), expected.len() as u64, "{}", bench.name);
    let words = |column: &Guarded| to_words(&bench.download(column), width_bytes);
    let mut found: Vec<(u64, u64)> = words(&one).into_iter().zip(words(&other)).collect();
    found.sort_unstable();
    assert!(found == expected, "{}: pairs", bench.name);
}

#[test]
fn tables_find_every_match() {
    on_every_machine(|bench| {
        for width_bytes in [4, 8] {
            for (build_count, probe_count, distinct) in
                [(0, 5, 1), (1, 1, 1), (1000, 3000, 700), (5000, 5001, 1 << 30)]
            {
                let build = side(build_count, distinct, 1, width_bytes);
                let probe = side(probe_count, distinct, 2, width_bytes);
                let kind = JoinTableKind::General { row_count: build_count };
                let memory = bench.upload(&vec![0x5A; JoinTable::bytes(kind, width_bytes)], 0);
                let table = JoinTable::new(kind, width_bytes, &memory.span);
                join_clear(bench.library(), &table).into_iter().for_each(|work| bench.run(work));
                let upload = |words: &[u64]| bench.upload(&to_bytes(words, width_bytes), 0);
                let (keys, values) = (upload(&build.0), upload(&build.1));
                bench.run(join_build(bench.library(), &table, keys.span.clone(), values.span.clone(), 0));
                let (keys, values) = (upload(&probe.0), upload(&probe.1));
                check_output(bench, &matches(&build, &probe), width_bytes, |output| {
                    let (keys, values) = (keys.span.clone(), values.span.clone());
                    bench.run(join_probe(bench.library(), &table, keys, values, output));
                });
                bench.download(&memory);
            }
        }
    });
}

/// Partitions rows on the device in two passes; what is guarded is looked at.
fn partitioned(bench: &Bench, side: &(Vec<u64>, Vec<u64>), width_bytes: usize, bits: u32) -> JoinSegments {
    let upload = |words: &[u64]| bench.upload(&to_bytes(words, width_bytes), 0).span;
    let offsets = bench.upload(&to_bytes(&[0, side.0.len() as u64], 8), 0).span;
    let mut rows = JoinSegments { keys: upload(&side.0), values: upload(&side.1), offsets, width_bytes };
    for pass in 0..2 {
        let digits = JoinDigits { begin_bit: 24 + (1 - pass) * bits, bits };
        let segment_count = rows.offsets.len() / 8 - 1;
        let words = (segment_count << bits) + 1;
        let scratch = bench.scratch(scan_scratch_bytes(words as u64));
        let units = bench.accumulator(rows.offsets.len());
        let scan = |words: &Guarded| {
            let (source, target) = (words.span.clone(), words.span.clone());
            bench.run(exclusive_scan(bench.library(), 8, source, target, scratch.clone()));
        };
        bench.run(join_units(
            bench.library(),
            (rows.offsets.clone(), JOIN_TILE_ROWS),
            None,
            units.span.clone(),
        ));
        scan(&units);
        let counts = bench.accumulator(8 * words);
        bench.run(join_count(bench.library(), &rows, units.span.clone(), digits, counts.span.clone()));
        scan(&counts);
        let begins = bench.download(&counts);
        let cursors = bench.upload(&begins, 0);
        let column = || bench.upload(&vec![0; side.0.len() * width_bytes], 0);
        let (keys, values) = (column(), column());
        let target = [keys.span.clone(), values.span.clone()];
        bench.run(join_scatter(
            bench.library(),
            &rows,
            units.span.clone(),
            digits,
            cursors.span.clone(),
            target,
        ));
        for guarded in [&units, &counts, &cursors, &keys, &values] {
            bench.download(guarded);
        }
        rows = JoinSegments { keys: keys.span, values: values.span, offsets: counts.span, width_bytes };
        if pass == 1 {
            let begins = to_words(&begins, 8);
            assert_eq!(*begins.last().unwrap(), side.0.len() as u64);
            let mut expected = vec![0; words - 1];
            side.0.iter().for_each(|key| expected[(join_hash(*key) >> 24) as usize & (words - 2)] += 1);
            let found: Vec<u64> = begins.windows(2).map(|pair| pair[1] - pair[0]).collect();
            assert_eq!(found, expected, "rows of each partition");
        }
    }
    rows
}

#[test]
fn partitions_have_their_rows_and_pairs_of_them_every_match() {
    on_every_machine(|bench| {
        for width_bytes in [4, 8] {
            for (build_count, probe_count, distinct, bits) in
                [(0, 9, 3, 1), (4096, 4097, 1 << 20, 3), (20_000, 50_000, 15_000, 4), (4099, 3, 1, 9)]
            {
                let build = side(build_count, distinct, 3, width_bytes);
                let probe = side(probe_count, distinct, 4, width_bytes);
                let expected = matches(&build, &probe);
                let [build, probe] = [build, probe].map(|side| partitioned(bench, &side, width_bytes, bits));
                let units = bench.accumulator(build.offsets.len());
                let (one, other) = (build.offsets.clone(), probe.offsets.clone());
                let (one, other) = ((one, JOIN_BUILD_ROWS), Some((other, JOIN_PROBE_ROWS)));
                bench.run(join_units(bench.library(), one, other, units.span.clone()));
                let scratch = bench.scratch(scan_scratch_bytes(build.offsets.len() as u64 / 8));
                let (source, target) = (units.span.clone(), units.span.clone());
                bench.run(exclusive_scan(bench.library(), 8, source, target, scratch));
                check_output(bench, &expected, width_bytes, |output| {
                    bench.run(join_pairs(bench.library(), &build, &probe, units.span.clone(), output));
                });
            }
        }
    });
}
