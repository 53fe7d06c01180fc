//! Counting, partitioning and scanning against naive references: on logical devices always, on GPUs where there are any.

mod bench;
mod keys;

use std::cmp::Ordering;

use bench::{Bench, on_every_machine};
use keys::{Distribution, compare, keys, noise, orders, to_bytes};
use pelton_kernels::{
    KeyOrder, count_buckets, count_digits, exclusive_scan, partition_keys, partition_pairs,
    partition_scratch_bytes, scan_scratch_bytes,
};

/// Around warps, tiles and, with 2,048 shares of 2,048 keys, enough for shares of several tiles.
const SIZES: [usize; 9] = [0, 1, 31, 255, 257, 2047, 2049, 30_000, 100_003];

fn on_machines(check: impl Fn(&Bench)) {
    on_every_machine(|bench| {
        if bench.is_default() {
            check(bench);
        }
    });
}

fn to_words(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect()
}

/// Splitters in the order of keys, some of them equal, and some equal to keys.
fn splitters(order: KeyOrder, keys: &[u128], count: usize) -> Vec<u128> {
    let mut splitters = crate::keys::keys(order, Distribution::Uniform, count, 99);
    for (index, splitter) in splitters.iter_mut().enumerate() {
        if index % 3 == 0 && !keys.is_empty() {
            *splitter = keys[index * 7 % keys.len()];
        }
    }
    splitters.sort_by(|a, b| compare(order, *a, *b));
    splitters
}

fn bucket(order: KeyOrder, splitters: &[u128], key: u128) -> usize {
    splitters.partition_point(|splitter| compare(order, *splitter, key) != Ordering::Greater)
}

fn check_partition(bench: &Bench, order: KeyOrder, distribution: Distribution, count: usize, splits: usize) {
    let keys = keys(order, distribution, count, 21);
    let splitters = splitters(order, &keys, splits);
    let buckets: Vec<usize> = keys.iter().map(|key| bucket(order, &splitters, *key)).collect();
    let what = || format!("{}: {order:?}, {distribution:?}, {count} keys, {splits} splitters", bench.name);

    let source = bench.upload(&to_bytes(order.key_type, &keys), 0);
    let split = bench.upload(&to_bytes(order.key_type, &splitters), 0);
    let counts = bench.accumulator(8 * (splits + 1));
    for _ in 0..2 {
        let (source, split, counts) = (source.span.clone(), split.span.clone(), counts.span.clone());
        bench.run(count_buckets(bench.library(), order, source, split, counts));
    }
    let mut expected = vec![0; splits + 1];
    buckets.iter().for_each(|bucket| expected[*bucket] += 2);
    assert_eq!(to_words(&bench.download(&counts)), expected, "{}", what());

    let mut places: Vec<usize> = (0..count).collect();
    places.sort_by_key(|place| buckets[*place]);
    let expected = to_bytes(order.key_type, &places.iter().map(|place| keys[*place]).collect::<Vec<_>>());
    let target = bench.upload(&vec![0; expected.len()], 0);
    let scratch = bench.scratch(partition_scratch_bytes(count as u64, splits));
    bench.run(partition_keys(
        bench.library(),
        order,
        source.span.clone(),
        split.span.clone(),
        target.span.clone(),
        scratch.clone(),
    ));
    assert!(bench.download(&target) == expected, "{}", what());
    for width in [4, 8] {
        let bytes = |numbers: &mut dyn Iterator<Item = usize>| {
            numbers
                .flat_map(|number| (number as u64).to_le_bytes().into_iter().take(width))
                .collect::<Vec<u8>>()
        };
        let target = bench.upload(&vec![0; expected.len()], 0);
        let values = bench.upload(&bytes(&mut (0..count)), 0);
        let target_values = bench.upload(&vec![0; count * width], 0);
        bench.run(partition_pairs(
            bench.library(),
            order,
            [source.span.clone(), target.span.clone()],
            [values.span.clone(), target_values.span.clone()],
            split.span.clone(),
            scratch.clone(),
        ));
        assert!(bench.download(&target) == expected, "{}: keys of pairs", what());
        let numbers = bytes(&mut places.iter().copied());
        assert!(bench.download(&target_values) == numbers, "{}: values of {width} bytes", what());
    }
}

#[test]
fn partitioned_keys_and_pairs_keep_their_order_in_each_bucket() {
    on_machines(|bench| {
        for order in orders() {
            for count in SIZES {
                check_partition(bench, order, Distribution::Uniform, count, 3);
            }
            for distribution in Distribution::ALL {
                for splits in [0, 1, 2, 7, 255, 256, 1023, 1024] {
                    check_partition(bench, order, distribution, 1500, splits);
                }
            }
        }
        // Shares of several tiles.
        let order = KeyOrder::descending(pelton_kernels::KeyType::U32);
        check_partition(bench, order, Distribution::FewDistinct, 4_300_000, 5);
    });
}

#[test]
fn digits_are_counted_as_one_by_one() {
    on_machines(|bench| {
        for order in orders() {
            let width = order.key_type.width_bits();
            for count in [0, 1, 1000, 70_001] {
                for distribution in [Distribution::Uniform, Distribution::AllEqual, Distribution::Extremes] {
                    let keys = keys(order, distribution, count, 5);
                    let source = bench.upload(&to_bytes(order.key_type, &keys), 0);
                    for (begin, end) in [(0, 0), (0, 1), (width, width), (3, 11), (width - 12, width)] {
                        let counts = bench.accumulator(8 << (end - begin));
                        let (from, to) = (source.span.clone(), counts.span.clone());
                        bench.run(count_digits(bench.library(), order, (begin, end), from, to));
                        let mut expected = vec![0; 1 << (end - begin)];
                        for key in &keys {
                            let digit = order.word(*key).checked_shr(begin).unwrap_or(0) as usize;
                            expected[digit & ((1 << (end - begin)) - 1)] += 1;
                        }
                        let what = || format!("{}: {order:?}, {count} keys, {begin}..{end}", bench.name);
                        assert_eq!(to_words(&bench.download(&counts)), expected, "{}", what());
                    }
                }
            }
        }
    });
}

#[test]
fn scans_are_the_sums_of_what_is_before() {
    on_machines(|bench| {
        for width in [4, 8] {
            for count in [0, 1, 2, 255, 511, 513, 4096, 100_003] {
                let mut next = noise(6);
                let source: Vec<u8> =
                    (0..count).flat_map(|_| next().to_le_bytes().into_iter().take(width)).collect();
                let mut expected = Vec::new();
                let mut sum = 0_u64;
                for element in source.chunks(width) {
                    expected.extend_from_slice(&sum.to_le_bytes()[..width]);
                    let mut word = [0; 8];
                    word[..width].copy_from_slice(element);
                    sum = sum.wrapping_add(u64::from_le_bytes(word));
                }
                let scratch = bench.scratch(scan_scratch_bytes(count));
                let (from, to) = (bench.upload(&source, 0), bench.upload(&vec![1; source.len()], 0));
                let (source, target) = (from.span.clone(), to.span.clone());
                bench.run(exclusive_scan(bench.library(), width, source.clone(), target, scratch.clone()));
                assert!(bench.download(&to) == expected, "{}: {count} of {width} bytes", bench.name);
                bench.run(exclusive_scan(bench.library(), width, source.clone(), source, scratch));
                assert!(
                    bench.download(&from) == expected,
                    "{}: {count} of {width} bytes, in place",
                    bench.name
                );
            }
        }
    });
}
