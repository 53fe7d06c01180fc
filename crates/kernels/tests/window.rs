//! Groups, segmented scans and frames against loops over rows: on logical devices always, on GPUs where there are any.

mod bench;

use bench::{Bench, on_every_machine};
use pelton_device::Span;
use pelton_kernels::{
    Edges, Frame, FrameEdge, FrameKeys, FrameSource, GroupEdge, KeyEdge, KeyFrame, KeyType, Pick, Picked,
    Ranking, ScanOf, ScanTarget, ScanValues, Target, frame_averages, frame_rows, frame_values, group_edges,
    key_frames, mark_groups, pick, random_word, rank, scan_scratch_bytes, segmented_scan,
    segmented_scan_scratch_bytes,
};

/// Around warps, and around tiles of CUB's scans of values of 8, 16 and 32 bytes.
const SIZES: [usize; 11] = [0, 1, 2, 31, 33, 127, 128, 129, 257, 1025, 2049];

/// Sorted words: partitions in the bits above the lowest 8, groups of peers in all.
#[derive(Debug, Clone, Copy)]
enum Shape {
    One,
    EachRow,
    Uneven,
    Peers,
}

const SHAPES: [Shape; 4] = [Shape::One, Shape::EachRow, Shape::Uneven, Shape::Peers];

fn words(shape: Shape, count: usize) -> Vec<u64> {
    let mut words: Vec<u64> = (0..count as u64)
        .map(|row| match shape {
            Shape::One => 7 << 8,
            Shape::EachRow => row << 8,
            // Some long, some short.
            Shape::Uneven => (((random_word(3, row) % 100).pow(2) / 1000) << 8) | (random_word(4, row) % 3),
            Shape::Peers => random_word(5, row) % 50,
        })
        .collect();
    words.sort_unstable();
    words
}

/// Sorted rows: the words, and the partition and peers of each as ranges.
struct Reference {
    partition: Vec<(usize, usize)>,
    peers: Vec<(usize, usize)>,
    /// The row of each element.
    rows: Vec<u32>,
}

impl Reference {
    fn of(words: &[u64]) -> Self {
        let groups = |key: &dyn Fn(u64) -> u64| {
            let same = |index: usize| {
                (0..words.len()).filter(|other| key(words[*other]) == key(words[index])).collect::<Vec<_>>()
            };
            let mut found = Vec::new();
            while found.len() < words.len() {
                let group = same(found.len());
                found.extend(std::iter::repeat_n((group[0], *group.last().unwrap()), group.len()));
            }
            found
        };
        let count = words.len();
        let mut rows: Vec<u32> = (0..count as u32).collect();
        rows.sort_by_key(|row| random_word(6, (*row).into()));
        Self { partition: groups(&|word| word >> 8), peers: groups(&|word| word), rows }
    }

    fn frame(&self, frame: Frame, element: usize) -> std::ops::Range<usize> {
        let (partition, peers) = (self.partition[element], self.peers[element]);
        let at = |rows: i64| element as i64 + rows;
        let first = match frame.start {
            FrameEdge::Partition => partition.0 as i64,
            FrameEdge::Peers => peers.0 as i64,
            FrameEdge::Rows(rows) => at(rows).max(partition.0 as i64),
        };
        let last = match frame.end {
            FrameEdge::Partition => partition.1 as i64,
            FrameEdge::Peers => peers.1 as i64,
            FrameEdge::Rows(rows) => at(rows).min(partition.1 as i64),
        };
        if first > last { 0..0 } else { first as usize..last as usize + 1 }
    }
}

/// What is on the device.
struct Uploaded<'b> {
    bench: &'b Bench,
    count: usize,
    flags: Span,
    indices: Span,
    edges: Edges,
}

fn upload(bench: &Bench, bytes: &[u8]) -> Span {
    bench.upload(bytes, 0).span.clone()
}

fn bytes_of<T: Copy, const N: usize>(values: &[T], bytes: impl Fn(T) -> [u8; N]) -> Vec<u8> {
    values.iter().flat_map(|value| bytes(*value)).collect()
}

impl<'b> Uploaded<'b> {
    fn new(bench: &'b Bench, words: &[u64], reference: &Reference) -> Self {
        let count = words.len();
        let flags = upload(bench, &vec![0xFF; count]);
        let halves = words.iter().map(|word| word >> 8).collect::<Vec<_>>();
        // In two words, the second of which adds to the flags of the first.
        let first = upload(bench, &bytes_of(&halves, u64::to_le_bytes));
        let second = upload(bench, &bytes_of(words, u64::to_le_bytes));
        bench.run(mark_groups(bench.library(), first, &[u64::MAX, u64::MAX], flags.clone(), true));
        bench.run(mark_groups(bench.library(), second, &[0, 0xFF], flags.clone(), false));
        let indices = upload(bench, &bytes_of(&reference.rows, u32::to_le_bytes));
        let edge = |edge, level| {
            let target = upload(bench, &vec![0; 4 * count]);
            let scratch = bench.scratch(scan_scratch_bytes(count as u64));
            bench.run(group_edges(bench.library(), edge, level, flags.clone(), target.clone(), scratch));
            Some(target)
        };
        let edges = Edges {
            partition_first: edge(GroupEdge::First, 0),
            partition_last: edge(GroupEdge::Last, 0),
            peers_first: edge(GroupEdge::First, 1),
            peers_last: edge(GroupEdge::Last, 1),
        };
        Self { bench, count, flags, indices, edges }
    }

    fn array(&self, width: usize) -> Span {
        upload(self.bench, &vec![0xA5; self.count * width])
    }

    fn scan(&self, of: ScanOf, level: usize, key_type: KeyType) -> (Span, Span) {
        let (target, counts) = (self.array(key_type.width_bytes()), self.array(4));
        let results = ScanTarget { key_type, target: target.clone(), counts: Some(counts.clone()) };
        let scratch = self.bench.scratch(segmented_scan_scratch_bytes(self.count as u64));
        self.bench.run(segmented_scan(self.bench.library(), of, level, self.flags.clone(), results, scratch));
        (target, counts)
    }

    fn bytes(&self, span: &Span) -> Vec<u8> {
        self.bench.bytes_of(span)
    }

    fn numbers(&self, span: &Span, width: usize) -> Vec<i128> {
        let number = |bytes: &[u8]| match width {
            1 => bytes[0].into(),
            4 => i32::from_le_bytes(bytes.try_into().unwrap()).into(),
            8 => i64::from_le_bytes(bytes.try_into().unwrap()).into(),
            _ => i128::from_le_bytes(bytes.try_into().unwrap()),
        };
        self.bytes(span).chunks(width).map(number).collect()
    }
}

const FRAMES: [Frame; 9] = {
    use FrameEdge::{Partition, Peers, Rows};
    [
        Frame { start: Partition, end: Rows(0) },
        Frame { start: Partition, end: Peers },
        Frame { start: Partition, end: Partition },
        Frame { start: Peers, end: Partition },
        Frame { start: Peers, end: Peers },
        Frame { start: Rows(-3), end: Rows(2) },
        Frame { start: Rows(-5), end: Rows(-2) },
        Frame { start: Rows(1), end: Rows(200) },
        Frame { start: Partition, end: Rows(-1) },
    ]
};

fn check(bench: &Bench, shape: Shape, count: usize) {
    let what = || format!("{}: {shape:?}, {count} elements", bench.name);
    let words = words(shape, count);
    let reference = Reference::of(&words);
    let on = Uploaded::new(bench, &words, &reference);
    let begins = |ranges: &[(usize, usize)]| -> Vec<bool> {
        ranges.iter().enumerate().map(|(element, range)| range.0 == element).collect()
    };
    let (partitions, peers) = (begins(&reference.partition), begins(&reference.peers));
    let flags = on.bytes(&on.flags);
    for element in 0..count {
        let bits = (flags[element] & 1 != 0, flags[element] & 2 != 0);
        assert_eq!(bits, (partitions[element], peers[element]), "{}: {element}", what());
    }
    check_ranks(&on, &reference, &peers, &what);
    check_key_frames(&on, &words, &reference, &what);
    // Values by row, every fourth NULL.
    let values: Vec<i64> = (0..count as u64).map(|row| random_word(7, row) as i64 >> 1).collect();
    let valid: Vec<u8> =
        (0..count as u64).map(|row| u8::from(!random_word(8, row).is_multiple_of(4))).collect();
    let of_element = |element: usize, has_nulls: bool| {
        let row = reference.rows[element] as usize;
        (!has_nulls || valid[row] != 0).then(|| values[row])
    };
    let source = upload(bench, &bytes_of(&values, i64::to_le_bytes));
    let validity = upload(bench, &valid);
    for has_nulls in [false, true] {
        let scanned = || ScanValues {
            key_type: KeyType::I64,
            source: source.clone(),
            valid: has_nulls.then(|| validity.clone()),
            indices: on.indices.clone(),
        };
        let sums = on.scan(ScanOf::Sum(scanned()), 0, KeyType::I128);
        let least = on.scan(ScanOf::Min(scanned()), 0, KeyType::I64);
        let greatest = on.scan(ScanOf::Max(scanned()), 0, KeyType::I64);
        for frame in FRAMES {
            let found = |(source, counts): &(Span, Span), key_type: KeyType| {
                let target = Target { values: on.array(key_type.width_bytes()), valid: Some(on.array(1)) };
                let source = FrameSource {
                    key_type,
                    source: source.clone(),
                    counts: has_nulls.then(|| counts.clone()),
                };
                let (edges, library) = (on.edges.clone(), bench.library());
                bench.run(frame_values(library, frame, source, edges, target.clone()));
                let valid = on.bytes(target.valid.as_ref().unwrap());
                let values = on.numbers(&target.values, key_type.width_bytes());
                values
                    .into_iter()
                    .zip(valid)
                    .map(|(value, valid)| (valid != 0).then_some(value))
                    .collect::<Vec<_>>()
            };
            let expected = |make: &dyn Fn(Vec<i128>) -> i128| {
                let of = |element: usize| {
                    let values =
                        reference.frame(frame, element).filter_map(|other| of_element(other, has_nulls));
                    let values: Vec<i128> = values.map(i128::from).collect();
                    (!values.is_empty()).then(|| make(values))
                };
                (0..count).map(of).collect::<Vec<_>>()
            };
            let sum: &dyn Fn(Vec<i128>) -> i128 = &|values| values.iter().sum();
            assert_eq!(found(&sums, KeyType::I128), expected(sum), "{}: sum, {frame:?}, {has_nulls}", what());
            if frame.start == FrameEdge::Partition {
                let minimum: &dyn Fn(Vec<i128>) -> i128 = &|values| *values.iter().min().unwrap();
                let maximum: &dyn Fn(Vec<i128>) -> i128 = &|values| *values.iter().max().unwrap();
                assert_eq!(found(&least, KeyType::I64), expected(minimum), "{}: min, {frame:?}", what());
                assert_eq!(found(&greatest, KeyType::I64), expected(maximum), "{}: max, {frame:?}", what());
            }
            check_averages(&on, &reference, frame, &sums, has_nulls, &of_element, &what);
            check_rows(&on, &reference, frame, &what);
        }
        check_picks(
            &on,
            &reference,
            &source,
            has_nulls.then(|| validity.clone()),
            &|element| of_element(element, has_nulls),
            &what,
        );
    }
    let of = ScanOf::Count { valid: validity.clone(), indices: on.indices.clone() };
    let counts = on.numbers(&on.scan(of, 0, KeyType::I64).0, 8);
    for (element, found) in counts.into_iter().enumerate() {
        let frame = reference.partition[element].0..element + 1;
        let expected = frame.filter(|other| of_element(*other, true).is_some()).count();
        assert_eq!(found, expected as i128, "{}: count {element}", what());
    }
}

fn check_ranks(on: &Uploaded<'_>, reference: &Reference, peers: &[bool], what: &dyn Fn() -> String) {
    let bench = on.bench;
    let ranked = |ranking| {
        let target = on.array(8);
        bench.run(rank(bench.library(), ranking, on.edges.clone(), target.clone()));
        on.numbers(&target, 8)
    };
    let [ranks, percents, shares] = [Ranking::Rank, Ranking::PercentRank, Ranking::CumeDist].map(ranked);
    let numbers = on.numbers(&on.scan(ScanOf::Elements, 0, KeyType::I64).0, 8);
    let dense = on.numbers(&on.scan(ScanOf::Groups(1), 0, KeyType::I64).0, 8);
    for element in 0..on.count {
        let ((first, last), (first_peer, last_peer)) =
            (reference.partition[element], reference.peers[element]);
        let all = last - first + 1;
        assert_eq!(numbers[element], (element - first + 1) as i128, "{}: {element}", what());
        assert_eq!(ranks[element], (first_peer - first + 1) as i128, "{}: {element}", what());
        let groups = (first..=element).filter(|other| peers[*other]).count();
        assert_eq!(dense[element], groups as i128, "{}: {element}", what());
        let double = |bits: i128| f64::from_bits(bits as u64);
        let percent = if all == 1 { 0.0 } else { (first_peer - first) as f64 / (all - 1) as f64 };
        assert_eq!(double(percents[element]), percent, "{}: {element}", what());
        assert_eq!(
            double(shares[element]),
            (last_peer - first + 1) as f64 / all as f64,
            "{}: {element}",
            what()
        );
    }
    for tiles in [1, 3, 4, 1 << 40] {
        let found = ranked(Ranking::Ntile(tiles));
        let mut at = 0;
        while at < on.count {
            let rows = reference.partition[at].1 - at + 1;
            // Tile after tile, the first ones with a row more.
            let sizes = (0..tiles).map(|tile| rows as u64 / tiles + u64::from(tile < rows as u64 % tiles));
            let of_tile = |(tile, size)| std::iter::repeat_n(tile, size as usize);
            let expected: Vec<i128> = (1..).zip(sizes).flat_map(of_tile).take(rows).collect();
            assert_eq!(found[at..at + rows], expected, "{}: {tiles} tiles", what());
            at += rows;
        }
    }
}

/// Frames by distances of the words' lowest 8 bits, which are in order within partitions: ascending, descending, with NULLs at
/// either end, by row and by element.
fn check_key_frames(on: &Uploaded<'_>, words: &[u64], reference: &Reference, what: &dyn Fn() -> String) {
    use KeyEdge::{Distance, Partition, Peers};
    let frames = [
        (Distance(-1), Distance(0)),
        (Distance(-3), Distance(2)),
        (Distance(1), Distance(4)),
        (Distance(-300), Distance(-2)),
        (Distance(0), Partition),
        (Partition, Distance(1)),
        (Peers, Distance(2)),
        (Distance(-2), Peers),
        (Distance(3), Distance(1)),
    ];
    let low: Vec<i64> = words.iter().map(|word| (word & 0xFF) as i64).collect();
    for (is_descending, null) in
        [(false, None), (true, None), (false, Some(2)), (false, Some(0)), (true, Some(0))]
    {
        let has_nulls_first = null == Some(0);
        let key = |element: usize| {
            let number = low[element];
            (Some(number) != null).then_some(if is_descending { 1000 - number } else { number })
        };
        // NULLs are peers at the end that they are at.
        if null == Some(2) && low.iter().any(|number| *number > 2) {
            continue;
        }
        for is_narrow in [false, true] {
            let (by_row, width) = (null.is_some() || is_narrow, if is_narrow { 4 } else { 8 });
            let mut bytes = vec![0; on.count * width];
            let mut valid = vec![1_u8; on.count];
            for element in 0..on.count {
                let row = if by_row { reference.rows[element] as usize } else { element };
                let number = key(element).unwrap_or(-77).to_le_bytes();
                bytes[row * width..(row + 1) * width].copy_from_slice(&number[..width]);
                valid[row] = key(element).is_some().into();
            }
            let keys = FrameKeys {
                key_type: if is_narrow { KeyType::I32 } else { KeyType::I64 },
                source: upload(on.bench, &bytes),
                valid: null.map(|_| upload(on.bench, &valid)),
                indices: by_row.then(|| on.indices.clone()),
                is_descending,
                has_nulls_first,
            };
            for (start, end) in frames {
                let frame = KeyFrame { start, end };
                let (first, last) = (on.array(4), on.array(4));
                let edges = on.edges.clone();
                let work =
                    key_frames(on.bench.library(), frame, keys.clone(), edges, first.clone(), last.clone());
                on.bench.run(work);
                let (first, last) = (on.numbers(&first, 4), on.numbers(&last, 4));
                for element in 0..on.count {
                    let expected = key_frame_by_loop(frame, is_descending, reference, element, &key);
                    let found = first[element]..last[element] + 1;
                    let is_same = if expected.is_empty() { found.is_empty() } else { found == expected };
                    assert!(is_same, "{}: {frame:?} {element}: {found:?}, not {expected:?}", what());
                }
            }
        }
    }
}

fn key_frame_by_loop(
    frame: KeyFrame,
    is_descending: bool,
    reference: &Reference,
    element: usize,
    key: &dyn Fn(usize) -> Option<i64>,
) -> std::ops::Range<i128> {
    let (partition, peers) = (reference.partition[element], reference.peers[element]);
    let along = |number: i64| if is_descending { -number } else { number };
    let is_within = |other: usize| {
        let distance = key(element).zip(key(other)).map(|(own, other)| along(other) - along(own));
        let starts = match (frame.start, distance) {
            (KeyEdge::Partition, _) => true,
            (KeyEdge::Distance(least), Some(distance)) => distance >= least,
            // Keys and NULLs are at opposite ends: a frame that ends with the partition has both.
            (KeyEdge::Distance(_), None) if key(element).is_some() => other > element,
            _ => other >= peers.0,
        };
        let ends = match (frame.end, distance) {
            (KeyEdge::Partition, _) => true,
            (KeyEdge::Distance(most), Some(distance)) => distance <= most,
            (KeyEdge::Distance(_), None) if key(element).is_some() => other < element,
            _ => other <= peers.1,
        };
        starts && ends
    };
    let mut within = (partition.0..=partition.1).filter(|other| is_within(*other));
    let Some(first) = within.next() else { return 0..0 };
    first as i128..within.next_back().unwrap_or(first) as i128 + 1
}

fn check_averages(
    on: &Uploaded<'_>,
    reference: &Reference,
    frame: Frame,
    sums: &(Span, Span),
    has_nulls: bool,
    of_element: &dyn Fn(usize, bool) -> Option<i64>,
    what: &dyn Fn() -> String,
) {
    let target = Target { values: on.array(8), valid: Some(on.array(1)) };
    let counts = has_nulls.then(|| sums.1.clone());
    let source = FrameSource { key_type: KeyType::I128, source: sums.0.clone(), counts };
    let (edges, library) = (on.edges.clone(), on.bench.library());
    on.bench.run(frame_averages(library, frame, source, 100.0, edges, target.clone()));
    let (found, valid) = (on.numbers(&target.values, 8), on.bytes(target.valid.as_ref().unwrap()));
    for element in 0..on.count {
        let values: Vec<i64> =
            reference.frame(frame, element).filter_map(|other| of_element(other, has_nulls)).collect();
        assert_eq!(valid[element] != 0, !values.is_empty(), "{}: {frame:?}", what());
        if !values.is_empty() {
            let sum: i128 = values.iter().map(|value| i128::from(*value)).sum();
            let expected = sum as f64 / (values.len() as f64 * 100.0);
            assert_eq!(f64::from_bits(found[element] as u64), expected, "{}: {frame:?} {element}", what());
        }
    }
}

fn check_rows(on: &Uploaded<'_>, reference: &Reference, frame: Frame, what: &dyn Fn() -> String) {
    let target = on.array(8);
    on.bench.run(frame_rows(on.bench.library(), frame, on.edges.clone(), target.clone()));
    let expected: Vec<i128> =
        (0..on.count).map(|element| reference.frame(frame, element).len() as i128).collect();
    assert_eq!(on.numbers(&target, 8), expected, "{}: {frame:?}", what());
}

fn check_picks(
    on: &Uploaded<'_>,
    reference: &Reference,
    source: &Span,
    valid: Option<Span>,
    of_element: &dyn Fn(usize) -> Option<i64>,
    what: &dyn Fn() -> String,
) {
    let picked = |which: Pick, fallback: Option<u128>| {
        let target = Target { values: on.array(8), valid: Some(on.array(1)) };
        let values = Picked {
            width_bytes: 8,
            source: source.clone(),
            valid: valid.clone(),
            indices: on.indices.clone(),
            fallback,
        };
        on.bench.run(pick(on.bench.library(), which, values, on.edges.clone(), target.clone()));
        let valid = on.bytes(target.valid.as_ref().unwrap());
        let values = on.numbers(&target.values, 8);
        let found = values.into_iter().zip(valid).map(|(value, valid)| (valid != 0).then_some(value as i64));
        found.collect::<Vec<_>>()
    };
    let expected = |which: &dyn Fn(usize) -> Option<usize>, fallback: Option<i64>| {
        let value = |element: usize| which(element).map_or(fallback, of_element);
        (0..on.count).map(value).collect::<Vec<_>>()
    };
    for frame in FRAMES {
        let nth = |number: i64| {
            move |element: usize| {
                let range = reference.frame(frame, element);
                let at = if number > 0 { number - 1 } else { range.len() as i64 + number };
                usize::try_from(at).ok().filter(|at| *at < range.len()).map(|at| range.start + at)
            }
        };
        for (which, number) in [
            (Pick::First(frame), 1),
            (Pick::Last(frame), -1),
            (Pick::Nth(frame, 1), 1),
            (Pick::Nth(frame, 3), 3),
            (Pick::Nth(frame, -2), -2),
            (Pick::Nth(frame, i64::MAX), i64::MAX),
        ] {
            assert_eq!(picked(which, None), expected(&nth(number), None), "{}: {which:?}", what());
        }
    }
    for rows in [-1, 1, 0, -7, 300, i64::MAX, -i64::MAX] {
        let there = |element: usize| {
            let (first, last) = reference.partition[element];
            let there = (element as i64).checked_add(rows)?;
            (first as i64..=last as i64).contains(&there).then_some(there as usize)
        };
        for fallback in [None, Some(-5_i64)] {
            let found = picked(Pick::Shift(rows), fallback.map(|fallback| fallback as u64 as u128));
            assert_eq!(found, expected(&there, fallback), "{}: {rows} rows, {fallback:?}", what());
        }
    }
}

#[test]
fn windows_of_all_shapes_are_those_of_a_loop() {
    on_every_machine(|bench| {
        for (index, count) in SIZES.into_iter().enumerate() {
            // A loop over a partition for each row takes long where there is one partition alone.
            let shapes: &[Shape] = if count > 1000 { &SHAPES[2..3] } else { &SHAPES };
            let is_asked = bench.is_default() || index % 4 == 1;
            shapes.iter().filter(|_| is_asked).for_each(|shape| check(bench, *shape, count));
        }
    });
}

#[test]
fn scans_of_doubles_have_the_order_of_their_bits_and_sums_that_begin_with_zero() {
    let values = [f64::NAN, -0.0, 0.0, -0.0, f64::NEG_INFINITY, 5.5, f64::INFINITY, 1e300];
    on_every_machine(|bench| {
        let words: Vec<u64> = [0, 1, 1, 1, 2, 2, 3, 3].map(|word: u64| word << 8).to_vec();
        let reference = Reference { rows: (0..8).collect(), ..Reference::of(&words) };
        let on = Uploaded::new(bench, &words, &reference);
        let source = upload(bench, &bytes_of(&values, f64::to_le_bytes));
        let scanned = || ScanValues {
            key_type: KeyType::F64,
            source: source.clone(),
            valid: None,
            indices: on.indices.clone(),
        };
        let bits =
            |of: ScanOf| on.numbers(&on.scan(of, 0, KeyType::F64).0, 8).into_iter().map(|bits| bits as u64);
        let same = |found: Vec<u64>, expected: [f64; 8]| {
            for (found, expected) in found.into_iter().zip(expected) {
                assert_eq!(f64::from_bits(found).is_nan(), expected.is_nan());
                assert!(expected.is_nan() || found == expected.to_bits(), "{}: {expected}", bench.name);
            }
        };
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        same(bits(ScanOf::Sum(scanned())).collect(), [nan, 0.0, 0.0, 0.0, -inf, -inf, inf, inf]);
        same(bits(ScanOf::Min(scanned())).collect(), [nan, -0.0, -0.0, -0.0, -inf, -inf, inf, 1e300]);
        same(bits(ScanOf::Max(scanned())).collect(), [nan, -0.0, 0.0, 0.0, -inf, 5.5, inf, inf]);
    });
}
