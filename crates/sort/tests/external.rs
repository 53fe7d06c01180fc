//! Rows beyond memory come back in order from disk, with bounded memory, and no file is left.

mod bed;

use bed::{fill, machine, rows, words};
use pelton_error::{ErrorKind, Tier};
use pelton_kernels::{Direction, KeyOrder, KeyType};
use pelton_limits::{SpillLimit, SpillOptions, SpillSpace};
use pelton_sort::generate::Distribution;
use pelton_sort::{
    Algorithm, ExternalOptions, ExternalReport, ExternalSort, Payload, SortOptions, SortSpec, Sorter,
};

struct Case {
    spec: SortSpec,
    count: usize,
    distribution: Distribution,
    memory_limit_bytes: usize,
    block_bytes_min: usize,
    algorithm: Algorithm,
}

impl Default for Case {
    fn default() -> Self {
        Self {
            spec: SortSpec { payload: Payload::U32, ..SortSpec::keys(KeyType::I64) },
            count: 20_000,
            distribution: Distribution::Uniform,
            memory_limit_bytes: 24_000,
            block_bytes_min: 500,
            algorithm: Algorithm::Range,
        }
    }
}

fn check(case: &Case) -> ExternalReport {
    let machine = machine(1, 1 << 20);
    let (source, target) = (rows(&machine, case.spec, case.count), rows(&machine, case.spec, case.count));
    fill(&source, case.distribution);
    let mut expected = words(&source);
    expected.sort_by_key(|row| row.0);
    let folder = tempfile::tempdir().unwrap();
    let space = SpillSpace::new(&SpillOptions {
        directory: Some(folder.path().into()),
        limit: SpillLimit::default(),
    });
    let options = ExternalOptions {
        sort: SortOptions { algorithm: case.algorithm, thread_count: 2, ..SortOptions::default() },
        memory_limit_bytes: case.memory_limit_bytes,
        block_bytes_min: case.block_bytes_min,
    };
    let mut sort =
        ExternalSort::new(Sorter::new(machine.clone(), None), case.spec, options, space.clone()).unwrap();
    let (key_bytes, payload_bytes) = (case.spec.key_bytes(), case.spec.payload.bytes());
    let part = case.count / 7 + 1;
    for start in (0..case.count).step_by(part) {
        let end = (start + part).min(case.count);
        let keys = source.keys().host_bytes().unwrap();
        let payloads = source.payloads().map(|column| column.host_bytes().unwrap());
        let payloads = payloads
            .as_ref()
            .map_or(&[][..], |column| &column.as_ref()[start * payload_bytes..end * payload_bytes]);
        sort.push(&keys.as_ref()[start * key_bytes..end * key_bytes], payloads).unwrap();
    }
    let (mut keys, mut payloads) = (Vec::new(), Vec::new());
    let mut longest = 0;
    let report = sort
        .finish(&mut |more_keys, more_payloads| {
            longest = longest.max(more_keys.len() + more_payloads.len());
            keys.extend_from_slice(more_keys);
            payloads.extend_from_slice(more_payloads);
            Ok(())
        })
        .unwrap();
    assert!(longest <= case.memory_limit_bytes / 2, "{longest} bytes at a time");
    assert_eq!(keys.len(), case.count * key_bytes);
    target.keys().buffer().with_bytes_mut(|bytes| bytes.copy_from_slice(&keys)).unwrap();
    if let Some(column) = target.payloads() {
        column.buffer().with_bytes_mut(|bytes| bytes.copy_from_slice(&payloads)).unwrap();
    }
    assert!(words(&target) == expected, "{:?} {:?}", case.spec, case.distribution);
    assert_eq!(report.row_count, case.count as u64);
    assert_eq!(space.held_bytes(), 0, "files are gone");
    report
}

#[test]
fn twenty_times_the_memory_is_sorted_through_disk() {
    let case = Case::default();
    let report = check(&case);
    assert_eq!(report.batch_count, 20);
    assert_eq!(report.pass_count, 0);
    assert_eq!(report.spilled_bytes, (case.count * case.spec.row_bytes()) as u64);
}

#[test]
fn more_runs_than_blocks_fit_are_merged_in_passes() {
    let case = Case { block_bytes_min: 3000, ..Case::default() };
    let report = check(&case);
    // Four at a time: 20, 5, 2.
    assert_eq!((report.batch_count, report.pass_count), (20, 2));
    assert_eq!(report.spilled_bytes, 3 * (case.count * case.spec.row_bytes()) as u64);
}

#[test]
fn what_fits_in_a_batch_touches_no_disk() {
    for count in [0, 1, 999, 1000] {
        let report = check(&Case { count, ..Case::default() });
        assert_eq!((report.spilled_bytes, report.batch_count), (0, 1));
    }
    assert_eq!(check(&Case { count: 1001, ..Case::default() }).batch_count, 2);
}

#[test]
fn equal_keys_sorted_keys_and_other_types_come_back_stably() {
    for distribution in Distribution::ALL {
        check(&Case { distribution, algorithm: Algorithm::Cpu, ..Case::default() });
    }
    for (key_type, payload) in
        [(KeyType::F32, Payload::None), (KeyType::I128, Payload::U64), (KeyType::U32, Payload::U32)]
    {
        let order = KeyOrder { key_type, direction: Direction::Descending };
        let spec = SortSpec { order, payload };
        check(&Case { spec, count: 5000, distribution: Distribution::Zipf, ..Case::default() });
    }
}

#[test]
fn a_full_disk_is_an_error_that_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let limit = SpillLimit::Bytes(20_000);
    let space = SpillSpace::new(&SpillOptions { directory: Some(folder.path().into()), limit });
    let options = ExternalOptions { memory_limit_bytes: 8000, ..ExternalOptions::default() };
    let sorter = Sorter::new(machine(1, 1 << 20), None);
    let mut sort = ExternalSort::new(sorter, SortSpec::keys(KeyType::U64), options, space.clone()).unwrap();
    let error = (0..100).find_map(|_| sort.push(&[7; 800], &[]).err()).unwrap();
    assert!(matches!(error.kind(), ErrorKind::OutOfMemory { tier: Tier::Disk, .. }), "{error}");
    drop(sort);
    assert_eq!(space.held_bytes(), 0);
}
