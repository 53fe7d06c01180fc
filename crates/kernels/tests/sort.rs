//! Sorting and merging against the stable sort of the standard library: on logical devices always, on GPUs where there
//! are any.

mod bench;
mod keys;

use bench::{Bench, Guarded, on_every_machine};
use keys::{Distribution, compare, keys, noise, orders, to_bytes};
use pelton_kernels::{
    IndexType, KeyOrder, KeyType, RadixSort, merge_keys, merge_many, merge_pairs, sort_keys, sort_pairs,
    take, take_bits,
};

/// Around the tiles of one block and of one pass, and enough for many blocks.
const SIZES: [usize; 11] = [0, 1, 2, 255, 256, 257, 1000, 8191, 65_535, 65_536, 65_537];
const VALUE_WIDTHS: [usize; 2] = [4, 8];

/// Runs on the host once and on GPUs under the default policy: how work is mapped is CUB's to say.
fn on_machines(check: impl Fn(&Bench)) {
    on_every_machine(|bench| {
        if bench.is_default() {
            check(bench);
        }
    });
}

/// `values` as they lie in memory, of `width` bytes.
fn value_bytes(values: impl IntoIterator<Item = u64>, width: usize) -> Vec<u8> {
    values.into_iter().flat_map(|value| value.to_le_bytes().into_iter().take(width)).collect()
}

/// Where each place of the sorted keys comes from.
fn places(order: KeyOrder, keys: &[u128]) -> Vec<usize> {
    let mut places: Vec<usize> = (0..keys.len()).collect();
    places.sort_by(|a, b| compare(order, keys[*a], keys[*b]));
    places
}

fn buffers(bench: &Bench, content: &[u8]) -> [Guarded; 2] {
    [bench.upload(content, 0), bench.upload(&vec![0x5A; content.len()], 0)]
}

fn spans(buffers: &[Guarded; 2]) -> [pelton_device::Span; 2] {
    buffers.each_ref().map(|buffer| buffer.span.clone())
}

/// Sorts `keys` alone, and with their numbers as values of either width.
fn check_sort(bench: &Bench, sort: RadixSort, keys: &[u128], places: &[usize], what: &str) {
    let key_type = sort.order.key_type;
    let content = to_bytes(key_type, keys);
    let expected = to_bytes(key_type, &places.iter().map(|place| keys[*place]).collect::<Vec<_>>());
    let scratch = bench.scratch(sort.scratch_bytes(keys.len() as u64));
    let result = sort.result_index();

    let alone = buffers(bench, &content);
    bench.run(sort_keys(bench.library(), sort, spans(&alone), scratch.clone()));
    assert!(bench.download(&alone[result]) == expected, "{}: {sort:?} of {what}: keys", bench.name);
    bench.download(&alone[1 - result]);

    for width in VALUE_WIDTHS {
        let (pairs, values) =
            (buffers(bench, &content), buffers(bench, &value_bytes(0..keys.len() as u64, width)));
        bench.run(sort_pairs(bench.library(), sort, spans(&pairs), spans(&values), scratch.clone()));
        assert!(bench.download(&pairs[result]) == expected, "{}: {sort:?} of {what}: keys", bench.name);
        let numbers = value_bytes(places.iter().map(|place| *place as u64), width);
        assert!(bench.download(&values[result]) == numbers, "{}: {sort:?} of {what}: values", bench.name);
        bench.download(&pairs[1 - result]);
        bench.download(&values[1 - result]);
    }
}

fn check_full_sort(bench: &Bench, order: KeyOrder, distribution: Distribution, count: usize) {
    let keys = keys(order, distribution, count, 17 + count as u64);
    let sort = RadixSort::by(order.key_type, order.direction);
    check_sort(bench, sort, &keys, &places(order, &keys), &format!("{count} keys, {distribution:?}"));
}

#[test]
fn sorted_keys_and_pairs_are_those_of_a_stable_sort() {
    on_machines(|bench| {
        for order in orders() {
            for count in SIZES {
                for distribution in Distribution::ALL {
                    // Every distribution at sizes of several blocks; elsewhere those that differ at such sizes.
                    if count <= 1000 || count == 65_537 || matches!(distribution, Distribution::Uniform) {
                        check_full_sort(bench, order, distribution, count);
                    }
                }
            }
        }
    });
}

#[test]
fn a_million_keys_are_sorted() {
    on_machines(|bench| {
        for key_type in [KeyType::U32, KeyType::F64] {
            check_full_sort(bench, KeyOrder::ascending(key_type), Distribution::Uniform, 1_000_003);
        }
    });
}

#[test]
fn a_range_of_bits_is_sorted_by_and_nothing_else() {
    on_machines(|bench| {
        for order in orders() {
            let width = order.key_type.width_bits();
            let ranges =
                [(0, 0), (0, 1), (0, 8), (3, 11), (5, 14), (8, 25), (width - 1, width), (width - 11, width)];
            for count in [0, 1, 1000, 40_000] {
                let keys = keys(order, Distribution::Uniform, count, 3);
                for (begin, end) in ranges {
                    let digit = |key: u128| order.word(key) >> begin & ((1 << (end - begin)) - 1);
                    let mut places: Vec<usize> = (0..count).collect();
                    places.sort_by_key(|place| digit(keys[*place]));
                    let sort = RadixSort::by_bits(order, begin, end);
                    check_sort(bench, sort, &keys, &places, &format!("{count} keys"));
                }
            }
        }
    });
}

#[test]
fn merged_runs_are_the_sorted_whole_with_the_first_run_first() {
    on_machines(|bench| {
        let splits = [(0, 0), (0, 1), (1, 0), (1, 1), (0, 5000), (5000, 0), (1, 5000), (5000, 1), (255, 257)];
        let more = [(4096, 4096), (4095, 4097), (100, 70_000), (50_000, 33_333)];
        for order in orders() {
            for (first, second) in splits.into_iter().chain(more) {
                for distribution in Distribution::ALL {
                    // Every distribution where a run is of one tile; beyond, those in which runs interleave otherwise.
                    let is_small = first + second <= 10_000;
                    if is_small || matches!(distribution, Distribution::Uniform | Distribution::FewDistinct) {
                        check_merge(bench, order, distribution, first, second);
                    }
                }
            }
        }
    });
}

fn check_merge(bench: &Bench, order: KeyOrder, distribution: Distribution, first: usize, second: usize) {
    let sorted = |count, seed| {
        let keys = keys(order, distribution, count, seed);
        places(order, &keys).into_iter().map(|place| keys[place]).collect::<Vec<u128>>()
    };
    // Of one seed, so that few distinct keys and equal ones are the same in both.
    let runs = [sorted(first, 5), sorted(second, 5)];
    let whole = runs.concat();
    let places = places(order, &whole);
    let what = || format!("{}: {order:?}, {first} and {second} keys, {distribution:?}", bench.name);
    let bytes = |keys: &[u128]| to_bytes(order.key_type, keys);
    let expected = bytes(&places.iter().map(|place| whole[*place]).collect::<Vec<_>>());
    let sources = runs.each_ref().map(|run| bench.upload(&bytes(run), 0));
    let target = bench.upload(&vec![0; expected.len()], 0);
    bench.run(merge_keys(bench.library(), order, spans(&sources), target.span.clone()));
    assert!(bench.download(&target) == expected, "{}", what());
    for width in VALUE_WIDTHS {
        let numbers = |range: std::ops::Range<u64>| bench.upload(&value_bytes(range, width), 0);
        let values = [numbers(0..first as u64), numbers(first as u64..whole.len() as u64)];
        let target = bench.upload(&vec![0; expected.len()], 0);
        let target_values = bench.upload(&vec![0; whole.len() * width], 0);
        let (to, to_values) = (target.span.clone(), target_values.span.clone());
        bench.run(merge_pairs(bench.library(), order, spans(&sources), spans(&values), to, to_values));
        assert!(bench.download(&target) == expected, "{}: keys of pairs", what());
        let order_of = value_bytes(places.iter().map(|place| *place as u64), width);
        assert!(bench.download(&target_values) == order_of, "{}: values", what());
    }
}

#[test]
fn many_merged_runs_are_the_sorted_whole_with_earlier_runs_first() {
    on_machines(|bench| {
        let cases: [&[u64]; 8] =
            [&[], &[0], &[3], &[1, 2], &[1000, 0, 1], &[7, 0, 300, 4000, 1], &[0, 0, 0, 0, 5], &[500; 17]];
        for order in [KeyOrder::ascending(KeyType::F64), KeyOrder::descending(KeyType::U32)] {
            for (counts, distribution) in cases.iter().flat_map(|counts| {
                [Distribution::Uniform, Distribution::FewDistinct].map(|distribution| (counts, distribution))
            }) {
                let mut whole = Vec::new();
                for count in *counts {
                    let run = keys(order, distribution, *count as usize, 3 + count % 2);
                    whole.extend(places(order, &run).into_iter().map(|place| run[place]));
                }
                let places = places(order, &whole);
                let (pairs, values) = (
                    buffers(bench, &to_bytes(order.key_type, &whole)),
                    buffers(bench, &value_bytes(0..whole.len() as u64, 8)),
                );
                let merge = merge_many(bench.library(), order, counts, spans(&pairs), Some(spans(&values)));
                merge.works.into_iter().for_each(|work| bench.run(work));
                let sorted: Vec<u128> = places.iter().map(|place| whole[*place]).collect();
                let what = || format!("{}: {order:?}, {counts:?}, {distribution:?}", bench.name);
                let expected = to_bytes(order.key_type, &sorted);
                assert!(bench.download(&pairs[merge.result_index]) == expected, "{}", what());
                let numbers = value_bytes(places.iter().map(|place| *place as u64), 8);
                assert!(bench.download(&values[merge.result_index]) == numbers, "{}: values", what());

                let alone = buffers(bench, &to_bytes(order.key_type, &whole));
                let merge = merge_many(bench.library(), order, counts, spans(&alone), None);
                merge.works.into_iter().for_each(|work| bench.run(work));
                assert!(bench.download(&alone[merge.result_index]) == expected, "{}: keys alone", what());
            }
        }
    });
}

#[test]
fn taken_elements_are_those_that_indices_name() {
    on_machines(|bench| {
        for width in [1, 2, 4, 8, 16] {
            for index_type in [IndexType::U32, IndexType::U64] {
                for (elements, count) in [(0, 0), (0, 3), (1, 5), (100, 1), (1000, 257), (70_000, 100_003)] {
                    let mut next = noise(8);
                    let source: Vec<u8> = (0..elements * width).map(|_| (next() >> 9) as u8 | 1).collect();
                    // Some are past the end, one of all ones.
                    let mut indices: Vec<u64> =
                        (0..count).map(|_| (next() >> 8) % (elements as u64 * 9 / 8 + 1)).collect();
                    indices.iter_mut().take(1).for_each(|index| *index = u64::MAX);
                    let nothing = vec![0; width];
                    let expected: Vec<u8> = indices
                        .iter()
                        .flat_map(|index| {
                            source.chunks(width).nth(*index as usize).unwrap_or(&nothing).to_vec()
                        })
                        .collect();
                    let (from, to) = (bench.upload(&source, 0), bench.upload(&vec![9; expected.len()], 0));
                    let index = bench.upload(&value_bytes(indices, index_type.width_bytes()), 0);
                    let (from, index) = (from.span.clone(), index.span.clone());
                    bench.run(take(bench.library(), width, from, index_type, index, to.span.clone()));
                    assert!(
                        bench.download(&to) == expected,
                        "{}: {width} bytes, {elements}, {count}",
                        bench.name
                    );
                }
            }
        }
    });
}

#[test]
fn taken_bits_are_those_that_indices_name() {
    on_machines(|bench| {
        for index_type in [IndexType::U32, IndexType::U64] {
            for (bits, count) in [(0, 0), (0, 9), (1, 5), (13, 8), (1000, 257), (70_001, 100_003)] {
                let mut next = noise(4);
                let source: Vec<u8> = (0..usize::div_ceil(bits, 8)).map(|_| (next() >> 9) as u8).collect();
                let mut indices: Vec<u64> = (0..count).map(|_| (next() >> 8) % (bits as u64 + 8)).collect();
                indices.iter_mut().take(1).for_each(|index| *index = u64::MAX);
                let mut expected = vec![0_u8; usize::div_ceil(count, 8)];
                for (place, index) in indices.iter().enumerate() {
                    let is_set = *index < bits as u64 && source[*index as usize / 8] & 1 << (index % 8) != 0;
                    expected[place / 8] |= u8::from(is_set) << (place % 8);
                }
                let (from, to) = (bench.upload(&source, 0), bench.upload(&vec![0xFF; expected.len()], 0));
                let index = bench.upload(&value_bytes(indices, index_type.width_bytes()), 0);
                let (from, index) = (from.span.clone(), index.span.clone());
                bench.run(take_bits(bench.library(), from, bits as u64, index_type, index, to.span.clone()));
                assert!(bench.download(&to) == expected, "{}: {bits} bits, {count}", bench.name);
            }
        }
    });
}
