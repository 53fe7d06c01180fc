//! Every algorithm on every case of keys, under several limits on the device's memory and with tables in several places,
//! against a join by a map: on a logical device always, on a GPU where there is one.

use std::collections::HashMap;

use pelton_device::cuda::{self, CudaOptions};
use pelton_device::host::{self, HostOptions};
use pelton_device::{DeviceId, Machine, MemoryKind, NodeId, OnFull, Place, Span, VIRTUAL_PAGE_BYTES};
use pelton_error::Result;
use pelton_join::generate::Workload;
use pelton_join::{Algorithm, JoinOptions, Joiner, KeyRange, Report, Rows, TablePlace, Target};
use pelton_kernels::{JoinTable, JoinTableKind, Library, random_word};

/// Keys and values of both sides, as words.
#[derive(Debug, Clone, Default)]
struct Sides {
    build: Vec<(u64, u64)>,
    probe: Vec<(u64, u64)>,
}

impl Sides {
    fn of(build: impl IntoIterator<Item = u64>, probe: impl IntoIterator<Item = u64>) -> Self {
        let valued = |keys: &mut dyn Iterator<Item = u64>, seed| {
            keys.enumerate().map(|(row, key)| (key, random_word(seed, row as u64))).collect()
        };
        Self { build: valued(&mut build.into_iter(), 1), probe: valued(&mut probe.into_iter(), 2) }
    }

    /// Keys of `distinct` values on both sides, some of the probe side's without a match.
    fn random(build_count: u64, probe_count: u64, distinct: u64) -> Self {
        let keys = |count, seed, distinct: u64| (0..count).map(move |row| random_word(seed, row) % distinct);
        Self::of(keys(build_count, 5, distinct), keys(probe_count, 6, distinct + distinct / 4 + 1))
    }

    fn zipf(build_count: u64, probe_count: u64) -> Self {
        let workload =
            Workload { width_bytes: 8, build_count, probe_count, zipf: 1.75, selectivity: 0.9, seed: 7 };
        let mut columns =
            [build_count, build_count, probe_count, probe_count].map(|count| vec![0; 8 * count as usize]);
        let [keys, values, probe_keys, probe_values] = &mut columns;
        workload.fill_build(keys, values, 2);
        workload.fill_probe(probe_keys, probe_values, 2);
        let words = |bytes: &Vec<u8>| -> Vec<u64> {
            bytes.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect()
        };
        let [keys, values, probe_keys, probe_values] = columns.each_ref().map(words);
        Self {
            build: keys.into_iter().zip(values).collect(),
            probe: probe_keys.into_iter().zip(probe_values).collect(),
        }
    }

    /// Build and probe value of each match, in order.
    fn expected(&self, width_bytes: usize) -> Vec<(u64, u64)> {
        let mask = u64::MAX >> (64 - 8 * width_bytes);
        let mut table: HashMap<u64, Vec<u64>> = HashMap::new();
        for (key, value) in &self.build {
            table.entry(key & mask).or_default().push(value & mask);
        }
        let mut matches = Vec::new();
        for (key, value) in &self.probe {
            let of_key = table.get(&(key & mask)).into_iter().flatten();
            matches.extend(of_key.map(|build_value| (*build_value, value & mask)));
        }
        matches.sort_unstable();
        matches
    }
}

/// A machine to join on.
struct Bench {
    name: &'static str,
    joiner: Joiner,
    is_gpu: bool,
}

impl Bench {
    /// A logical device, and a GPU if there is one.
    fn all() -> Vec<Self> {
        let options =
            HostOptions { device_count: 2, pinned_memory_limit_bytes: 1 << 30, ..HostOptions::default() };
        let logical = Joiner::new(host::open(&options), None);
        let mut all = vec![Bench { name: "logical device", joiner: logical, is_gpu: false }];
        match (cuda::open(&CudaOptions::default()), Library::open()) {
            (Ok(machine), Ok(library)) => {
                all.push(Bench { name: "GPU", joiner: Joiner::new(machine, Some(library)), is_gpu: true });
            }
            (Err(error), _) | (_, Err(error)) => println!("SKIPPED on GPUs: {error}"),
        }
        all
    }

    fn machine(&self) -> &Machine {
        self.joiner.machine()
    }

    fn column(&self, kind: &MemoryKind, words: &[u64], width_bytes: usize) -> Span {
        let bytes: Vec<u8> =
            words.iter().flat_map(|word| word.to_le_bytes().into_iter().take(width_bytes)).collect();
        let allocate =
            |kind: &MemoryKind| self.machine().allocate(kind.clone(), bytes.len(), OnFull::Refuse).unwrap();
        let pinned = allocate(&MemoryKind::PINNED);
        pinned.with_bytes_mut(|target| target.copy_from_slice(&bytes)).unwrap();
        if *kind == MemoryKind::PINNED {
            return pinned.span();
        }
        let target =
            self.machine().allocate(kind.clone(), bytes.len().next_multiple_of(256), OnFull::Refuse).unwrap();
        let target = target.slice(0..bytes.len());
        let stream = self.machine().stream(Place::Device(DeviceId(0))).unwrap();
        stream.copy(&pinned.span(), &target).unwrap();
        stream.wait_blocking().unwrap();
        target
    }

    fn rows(&self, kind: &MemoryKind, rows: &[(u64, u64)], width_bytes: usize) -> Rows {
        let (keys, values): (Vec<u64>, Vec<u64>) = rows.iter().copied().unzip();
        let column = |words: &[u64]| self.column(kind, words, width_bytes);
        Rows::new(column(&keys), column(&values), width_bytes).unwrap()
    }

    fn download(&self, span: &Span, width_bytes: usize) -> Vec<u64> {
        let pinned = self.machine().allocate(MemoryKind::PINNED, span.len(), OnFull::Refuse).unwrap();
        let stream = self.machine().stream(Place::Device(DeviceId(0))).unwrap();
        stream.copy(span, &pinned.span()).unwrap();
        stream.wait_blocking().unwrap();
        let word = |bytes: &[u8]| {
            let mut word = [0; 8];
            word[..width_bytes].copy_from_slice(bytes);
            u64::from_le_bytes(word)
        };
        pinned.with_bytes(|bytes| bytes.chunks(width_bytes).map(word).collect()).unwrap()
    }

    /// Joins and holds counts, sums and pairs against the reference; the report of the sum.
    fn check(&self, case: &Case, sides: &Sides) -> Report {
        let what = format!("{}: {case:?}, {} x {} rows", self.name, sides.build.len(), sides.probe.len());
        self.try_check(case, sides).unwrap_or_else(|error| panic!("{what}: {error}"))
    }

    fn try_check(&self, case: &Case, sides: &Sides) -> Result<Report> {
        let width = case.width_bytes;
        let kind = if case.is_on_device { MemoryKind::Device(DeviceId(0)) } else { MemoryKind::PINNED };
        let (build, probe) = (self.rows(&kind, &sides.build, width), self.rows(&kind, &sides.probe, width));
        let expected = sides.expected(width);
        let sum = expected.iter().fold(0_u64, |sum, (one, other)| sum.wrapping_add(one.wrapping_mul(*other)));
        let what = || format!("{}: {case:?}, {} x {}", self.name, sides.build.len(), sides.probe.len());
        let used = || self.machine().device_budget(DeviceId(0)).unwrap().used_bytes();
        let held = used();
        let report = self.joiner.join(&build, &probe, &Target::Sum, &case.options())?;
        assert_eq!(used(), held, "memory of the device is given back");
        assert_eq!(report.match_count, expected.len() as u64, "{}", what());
        assert_eq!(report.value_sum, sum, "{}", what());
        // Room for one pair more, and, where there are some, for one less.
        for room in [expected.len() + 1, expected.len().saturating_sub(1)] {
            let column = || self.column(&kind, &vec![0; room], width);
            let (build_values, probe_values) = (column(), column());
            let target =
                Target::Pairs { build_values: build_values.clone(), probe_values: probe_values.clone() };
            let report = self.joiner.join(&build, &probe, &target, &case.options())?;
            assert_eq!(report.match_count, expected.len() as u64, "{}", what());
            let [one, other] = [&build_values, &probe_values].map(|column| self.download(column, width));
            let written = room.min(expected.len());
            let mut found: Vec<(u64, u64)> = one.into_iter().zip(other).take(written).collect();
            found.sort_unstable();
            if room >= expected.len() {
                assert!(found == expected, "pairs of {}", what());
            } else {
                // A multiset of matches, one short.
                let mut rest = expected.iter();
                assert!(found.iter().all(|pair| rest.any(|other| other == pair)), "pairs of {}", what());
            }
        }
        Ok(report)
    }
}

#[derive(Debug, Clone)]
struct Case {
    algorithm: Algorithm,
    width_bytes: usize,
    is_on_device: bool,
    limit_bytes: Option<u64>,
    key_range: Option<KeyRange>,
    chunk_bytes: usize,
    table: TablePlace,
}

impl Case {
    fn of(algorithm: Algorithm, width_bytes: usize) -> Self {
        // Chunks so small that there are several.
        Self {
            algorithm,
            width_bytes,
            is_on_device: false,
            limit_bytes: None,
            key_range: None,
            chunk_bytes: 8 << 10,
            table: TablePlace::Device,
        }
    }

    fn options(&self) -> JoinOptions {
        JoinOptions {
            algorithm: self.algorithm,
            device_memory_limit_bytes: self.limit_bytes,
            key_range: self.key_range,
            chunk_bytes: self.chunk_bytes,
            table: self.table.clone(),
            thread_count: 3,
            ..JoinOptions::default()
        }
    }
}

/// What every algorithm has to get right.
fn cases() -> Vec<Sides> {
    let extremes =
        [0, 1, u64::MAX, u64::MAX - 1, u64::from(u32::MAX), u64::from(u32::MAX) - 1, 1 << 63, u64::MAX];
    let mut cases = vec![
        Sides::default(),
        Sides::of([], 0..10),
        Sides::of(0..10, []),
        Sides::of([5], [5]),
        Sides::of([5], [6]),
        Sides::of([u64::MAX], [u64::MAX]),
        Sides::of([7; 70], [7; 90]),
        Sides::of([u64::MAX; 70], [u64::MAX; 90]),
        Sides::of(0..500, 500..1000),
        Sides::of(extremes, extremes.into_iter().chain([2, 3])),
        Sides::random(700, 900, 40),
        Sides::zipf(1000, 3000),
    ];
    // Rows of a partition, of a table in shared memory, of a tile.
    for boundary in [1024, 2048, 4096] {
        cases.extend([boundary - 1, boundary, boundary + 1].map(|count| Sides::random(count, 500, 1 << 40)));
    }
    cases.push(Sides::of([3; 2049], (0..100).chain([3; 5])));
    cases
}

#[test]
fn every_algorithm_equals_the_reference_on_every_case() {
    for bench in Bench::all() {
        for sides in cases() {
            for width_bytes in [4, 8] {
                for algorithm in Algorithm::ALL {
                    bench.check(&Case::of(algorithm, width_bytes), &sides);
                }
                for algorithm in [Algorithm::Gpu, Algorithm::Radix] {
                    bench.check(&Case { is_on_device: true, ..Case::of(algorithm, width_bytes) }, &sides);
                }
            }
        }
    }
}

#[test]
fn probe_sides_around_the_rows_of_a_unit_are_joined() {
    for bench in Bench::all() {
        for count in [16_383, 16_384, 16_385] {
            bench.check(&Case::of(Algorithm::Radix, 8), &Sides::random(3000, count, 1 << 13));
        }
    }
}

#[test]
fn arrays_by_key_are_built_of_unique_keys_of_the_range_and_else_tables_of_any() {
    for bench in Bench::all() {
        for width_bytes in [4, 8] {
            let dense = Sides::of((100..1100).rev(), (0..3000).map(|row| row * 7 % 1500));
            let range = |first_key, place_count| Some(KeyRange { first_key, place_count });
            for (key_range, sides, is_perfect) in [
                (range(100, 1000), &dense, true),
                (range(99, 1003), &dense, true),
                (range(101, 1000), &dense, false),
                (range(100, 999), &dense, false),
                (range(0, 50), &Sides::random(200, 300, 50), false),
                (
                    range(u64::MAX >> (64 - 8 * width_bytes), 1),
                    &Sides::of([u64::MAX], [u64::MAX, 0, 1]),
                    true,
                ),
                (range(5, 10), &Sides::of([], [5, 6]), true),
            ] {
                let case = Case { key_range, ..Case::of(Algorithm::Gpu, width_bytes) };
                assert_eq!(bench.check(&case, sides).is_perfect, is_perfect, "{case:?}");
            }
        }
    }
}

fn table_bytes(rows: usize, width_bytes: usize) -> u64 {
    JoinTable::bytes(JoinTableKind::General { row_count: rows as u64 }, width_bytes) as u64
}

#[test]
fn hybrid_joins_equal_the_reference_whatever_the_device_holds() {
    const ROWS: u64 = 30_000;
    let sides = [
        ("unique keys", Sides::random(ROWS, ROWS + 500, 1 << 50)),
        ("duplicates", Sides::random(ROWS, ROWS, 20_000)),
        ("Zipf", Sides::zipf(ROWS, ROWS)),
        (
            "one build key",
            Sides::of((0..ROWS).map(|_| 9), (0..30_010).map(|row| if row < 3 { 9 } else { row })),
        ),
        // Nearly all rows of one partition; the others of all.
        ("a heavy key", Sides::of((0..ROWS).map(|row| if row % 3 == 0 { row } else { 4 }), 5..ROWS + 9)),
        ("a smaller probe side", Sides::random(ROWS, 2000, 1 << 13)),
    ];
    for bench in Bench::all() {
        for (name, sides) in &sides {
            for (width_bytes, divisors) in [(8, vec![0, 1, 2, 4, 20]), (4, vec![3])] {
                for divisor in divisors {
                    let limit = table_bytes(ROWS as usize, width_bytes).checked_div(divisor);
                    let case = Case { limit_bytes: limit, ..Case::of(Algorithm::Hybrid, width_bytes) };
                    let report = bench.check(&case, sides);
                    let least = sides.build.len().min(sides.probe.len()) as u64;
                    if divisor == 0 {
                        assert_eq!((report.spilled_rows, report.table_count), (0, 1), "{name}");
                    } else if least > 20_000 {
                        assert!(report.table_count > 1, "{name}, 1/{divisor}: {report:?}");
                        let is_blocks = report.spilled_rows == 0;
                        assert!(!is_blocks, "{name}, 1/{divisor}: {report:?}");
                    }
                    if divisor == 2 && *name == "unique keys" {
                        assert!(
                            report.resident_rows > ROWS / 5,
                            "half of the memory keeps a part: {report:?}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn tables_are_the_same_wherever_they_lie() {
    let page = VIRTUAL_PAGE_BYTES as u64;
    for bench in Bench::all() {
        let devices: Vec<DeviceId> = bench.machine().info().devices.iter().map(|device| device.id).collect();
        let mut places = vec![TablePlace::Host(NodeId(0)), TablePlace::Hybrid];
        if devices.len() > 1 && bench.machine().is_peer(devices[0], devices[1]) {
            places.extend([TablePlace::Peer(devices[1]), TablePlace::Interleaved(devices)]);
        }
        for sides in cases() {
            for table in &places {
                bench.check(&Case { table: table.clone(), ..Case::of(Algorithm::Gpu, 8) }, &sides);
            }
        }
        // Tables of some pages: any keys, with further rows of some; an array by key, and one that turns out not to be.
        let many = Sides::random(130_000, 60_000, 1 << 17);
        let dense = Sides::of((0..600_000).rev(), 0..700_000);
        let almost = Sides::of((0..599_999).chain([5]), 0..1000);
        let key_range = Some(KeyRange { first_key: 0, place_count: 600_000 });
        for (sides, key_range) in [(&many, None), (&dense, key_range), (&almost, key_range)] {
            for table in &places {
                // Room for two pages of a hybrid table.
                let limit_bytes = (*table == TablePlace::Hybrid).then_some(3 * page);
                let case =
                    Case { table: table.clone(), limit_bytes, key_range, ..Case::of(Algorithm::Gpu, 8) };
                let report = bench.check(&case, sides);
                let (all, here) = (report.table_bytes, report.table_device_bytes);
                match table {
                    // The memory of the array is not given back.
                    TablePlace::Hybrid if !report.is_perfect && key_range.is_some() => assert_eq!(here, 0),
                    TablePlace::Hybrid => assert!((page..all).contains(&here), "{here} of {all} bytes here"),
                    TablePlace::Interleaved(_) => assert!(here >= all / 2 && here < all, "{here} of {all}"),
                    _ => assert_eq!(here, 0, "{table:?}"),
                }
            }
        }
        // All of it fits.
        let case = Case { table: TablePlace::Hybrid, key_range, ..Case::of(Algorithm::Gpu, 8) };
        let report = bench.check(&case, &dense);
        assert_eq!(report.table_device_bytes, report.table_bytes);
    }
}

#[test]
fn places_that_tables_cannot_have_are_refused() {
    let bench = &Bench::all()[0];
    let sides = Sides::of(0..100, 0..100);
    let refused = |algorithm, table: TablePlace, says: &str| {
        let error = bench.try_check(&Case { table, ..Case::of(algorithm, 8) }, &sides).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
    };
    refused(Algorithm::Radix, TablePlace::Hybrid, "only gpu");
    refused(Algorithm::Auto, TablePlace::Host(NodeId(0)), "only gpu");
    refused(Algorithm::Gpu, TablePlace::Host(NodeId(7)), "node");
    refused(Algorithm::Gpu, TablePlace::Interleaved(Vec::new()), "no devices");
    let limit_bytes = Some(1 << 20);
    let table = TablePlace::Interleaved(vec![DeviceId(0), DeviceId(1)]);
    let case = Case { table, limit_bytes, ..Case::of(Algorithm::Gpu, 8) };
    let error = bench.try_check(&case, &sides).unwrap_err();
    assert!(error.to_string().contains("a part of a table"), "{error}");
}

#[test]
fn what_does_not_fit_is_refused_with_what_would_do_and_chosen_where_there_is_a_choice() {
    let bench = &Bench::all()[0];
    let sides = Sides::random(30_000, 30_000, 1 << 40);
    let limit_bytes = Some(table_bytes(30_000, 8) / 2);
    for algorithm in [Algorithm::Gpu, Algorithm::Radix] {
        let error = bench.try_check(&Case { limit_bytes, ..Case::of(algorithm, 8) }, &sides).unwrap_err();
        assert!(error.to_string().contains("take hybrid"), "{error}");
    }
    let report = bench.check(&Case { limit_bytes, ..Case::of(Algorithm::Auto, 8) }, &sides);
    let time = |algorithm| report.predictions.iter().find(|one| one.algorithm == algorithm).unwrap().time;
    assert!(time(Algorithm::Gpu).is_none() && time(Algorithm::Radix).is_none());
    assert!(time(Algorithm::Hybrid).is_some() && time(Algorithm::Nopa).is_some());
    let least = report.predictions.iter().filter_map(|one| one.time).min();
    assert_eq!(time(report.algorithm), least, "the least prediction is taken");
    let error = bench.try_check(&Case { limit_bytes: Some(1000), ..Case::of(Algorithm::Hybrid, 8) }, &sides);
    assert!(error.is_err(), "a limit that holds no table");
}

#[test]
fn workloads_of_millions_of_rows_are_joined_on_gpus() {
    for bench in Bench::all().iter().filter(|bench| bench.is_gpu) {
        for (width_bytes, zipf) in [(4, 0.0), (8, 0.0), (8, 1.0), (8, 1.75)] {
            let workload = Workload {
                width_bytes,
                build_count: 3_000_001,
                probe_count: 9_000_003,
                zipf,
                selectivity: 0.7,
                seed: 11,
            };
            let rows = |count| {
                Rows::allocate(bench.machine(), &MemoryKind::PINNED, count as usize, width_bytes).unwrap()
            };
            let (build, probe) = (rows(workload.build_count), rows(workload.probe_count));
            let fill = |rows: &Rows, fill: &mut dyn FnMut(&mut [u8], &mut [u8])| {
                let (keys, values) = (rows.keys().buffer(), rows.values().buffer());
                keys.with_bytes_mut(|keys| values.with_bytes_mut(|values| fill(keys, values)))
                    .unwrap()
                    .unwrap();
            };
            fill(&build, &mut |keys, values| workload.fill_build(keys, values, 8));
            let mut expected = None;
            fill(&probe, &mut |keys, values| expected = Some(workload.fill_probe(keys, values, 8)));
            let expected = expected.unwrap();
            let table = table_bytes(build.count(), width_bytes);
            let mut cases =
                vec![Case::of(Algorithm::Gpu, width_bytes), Case::of(Algorithm::Radix, width_bytes)];
            let key_range = Some(KeyRange { first_key: 0, place_count: workload.build_count });
            cases.push(Case { key_range, ..cases[0].clone() });
            cases.extend([1, 2, 4, 16].map(|divisor| Case {
                limit_bytes: Some(table / divisor),
                ..Case::of(Algorithm::Hybrid, width_bytes)
            }));
            for mut case in cases {
                case.chunk_bytes = 4 << 20;
                let report = bench.joiner.join(&build, &probe, &Target::Sum, &case.options()).unwrap();
                let found = (report.match_count, report.value_sum);
                assert_eq!(found, (expected.match_count, expected.value_sum), "{case:?}, Zipf {zipf}");
            }
        }
    }
}
