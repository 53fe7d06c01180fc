//! Machines, rows and references for the tests of sorts.
#![allow(dead_code, reason = "every test program uses a part of it")]

use pelton_device::host::{self, HostOptions};
use pelton_device::{DeviceId, Machine, MemoryKind};
use pelton_error::Result;
use pelton_kernels::{Direction, KeyOrder, KeyType, RadixSort};
use pelton_sort::generate::{Distribution, generate};
use pelton_sort::{Algorithm, Payload, Report, Rows, SortOptions, SortSpec, Sorter};

/// Logical devices, each with so much memory.
pub(crate) fn machine(device_count: u32, device_bytes: u64) -> Machine {
    host::open(&HostOptions {
        device_count,
        device_memory_limit_bytes: device_bytes,
        pinned_memory_limit_bytes: 1 << 30,
        ..HostOptions::default()
    })
}

/// The first `count` devices.
pub(crate) fn first(count: u32) -> Option<Vec<DeviceId>> {
    Some((0..count).map(DeviceId).collect())
}

/// A sort and what is sorted.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) spec: SortSpec,
    pub(crate) distribution: Distribution,
    pub(crate) count: usize,
    pub(crate) options: SortOptions,
    /// Rows of a chunk: the limit on a device's memory lets it hold no more.
    pub(crate) chunk_rows: Option<usize>,
}

impl Default for Case {
    fn default() -> Self {
        // Pieces and blocks so small that there are several.
        let options =
            SortOptions { thread_count: 2, piece_bytes: 512, swap_bytes: 300, ..SortOptions::default() };
        Self {
            spec: SortSpec::keys(KeyType::U32),
            distribution: Distribution::Uniform,
            count: 1000,
            options,
            chunk_rows: None,
        }
    }
}

impl Case {
    fn text(&self) -> String {
        let SortOptions { algorithm, devices, pairing, eager, .. } = &self.options;
        format!(
            "{algorithm:?} over {devices:?}, {pairing:?}, eager {eager:?}: {} rows, {:?}, {:?}",
            self.count, self.spec, self.distribution
        )
    }

    /// The options, with the limit of memory that the rows of a chunk take.
    pub(crate) fn limited(&self) -> SortOptions {
        let mut options = self.options.clone();
        if let Some(rows) = self.chunk_rows {
            let buffer_count = match options.algorithm {
                Algorithm::Range => 4,
                Algorithm::Het3n => 3,
                _ => 2,
            };
            let KeyOrder { key_type, direction } = self.spec.order;
            let scratch = RadixSort::by(key_type, direction).scratch_bytes(rows as u64);
            let limit = scratch + buffer_count * rows * self.spec.row_bytes();
            options.device_memory_limit_bytes = Some(limit as u64);
        }
        options
    }
}

pub(crate) fn algorithm(algorithm: Algorithm) -> Case {
    let mut case = Case::default();
    case.options.algorithm = algorithm;
    case
}

/// Pinned rows.
pub(crate) fn rows(machine: &Machine, spec: SortSpec, count: usize) -> Rows {
    Rows::allocate(machine, spec, &MemoryKind::PINNED, count).unwrap()
}

/// Keys of the case, and the number of each row as its payload.
pub(crate) fn fill(rows: &Rows, distribution: Distribution) {
    let key = rows.spec().order.key_type;
    rows.keys().buffer().with_bytes_mut(|bytes| generate(key, distribution, 42, bytes, 1)).unwrap();
    let Some(payloads) = rows.payloads() else { return };
    let width = rows.spec().payload.bytes();
    let number =
        |(row, bytes): (usize, &mut [u8])| bytes.copy_from_slice(&(row as u64).to_le_bytes()[..width]);
    payloads.buffer().with_bytes_mut(|bytes| bytes.chunks_mut(width).enumerate().for_each(number)).unwrap();
}

/// Word and payload of each row.
pub(crate) fn words(rows: &Rows) -> Vec<(u128, u64)> {
    let (order, key_bytes) = (rows.spec().order, rows.spec().key_bytes());
    let number = |bytes: &[u8]| {
        let mut all = [0; 16];
        all[..bytes.len()].copy_from_slice(bytes);
        u128::from_le_bytes(all)
    };
    let keys = rows.keys().buffer().with_bytes(|bytes| {
        bytes.chunks(key_bytes).map(|key| order.word(number(key))).collect::<Vec<u128>>()
    });
    let payloads = rows.payloads().map_or_else(Vec::new, |payloads| {
        let width = rows.spec().payload.bytes();
        let all =
            payloads.buffer().with_bytes(|bytes| bytes.chunks(width).map(number).collect::<Vec<u128>>());
        all.unwrap()
    });
    let payloads = payloads.into_iter().map(|payload| payload as u64).chain(std::iter::repeat(0));
    keys.unwrap().into_iter().zip(payloads).collect()
}

/// Sorts rows of the case and holds the result against the standard library's stable sort; unstable sorts may give
/// equal keys in another order.
pub(crate) fn check_on(machine: &Machine, case: &Case) -> Report {
    check_with(&Sorter::new(machine.clone(), None), case)
}

/// The same by a sorter that has kernels for its machine.
pub(crate) fn check_with(sorter: &Sorter, case: &Case) -> Report {
    try_with(sorter, case).unwrap_or_else(|error| panic!("{}: {error}", case.text()))
}

pub(crate) fn try_on(machine: &Machine, case: &Case) -> Result<Report> {
    try_with(&Sorter::new(machine.clone(), None), case)
}

fn try_with(sorter: &Sorter, case: &Case) -> Result<Report> {
    let machine = sorter.machine();
    let (source, target) = (rows(machine, case.spec, case.count), rows(machine, case.spec, case.count));
    fill(&source, case.distribution);
    let mut expected = words(&source);
    expected.sort_by_key(|row| row.0);
    let used = |machine: &Machine| -> u64 {
        let devices = machine.info().devices.iter();
        devices.map(|device| machine.device_budget(device.id).unwrap().used_bytes()).sum()
    };
    let held = used(machine);
    let outcome = sorter.sort(&source, &target, case.limited());
    assert_eq!(used(machine), held, "memory of devices is given back");
    let report = outcome?;
    let mut sorted = words(&target);
    if !case.options.is_stable {
        sorted.sort();
        let keys = words(&target).into_iter().map(|row| row.0);
        assert!(keys.is_sorted(), "{}", case.text());
        expected.sort();
    }
    let wrong = sorted.iter().zip(&expected).position(|(one, other)| one != other);
    assert!(wrong.is_none(), "{}: row {wrong:?} is wrong", case.text());
    assert_eq!(report.row_count, case.count as u64);
    Ok(report)
}

/// All key types, in both directions, with each payload in turn.
pub(crate) fn specs() -> Vec<SortSpec> {
    let mut specs = Vec::new();
    for (index, key_type) in KeyType::ALL.into_iter().enumerate() {
        for direction in [Direction::Ascending, Direction::Descending] {
            let payload = Payload::ALL[(index + usize::from(direction == Direction::Descending)) % 3];
            specs.push(SortSpec { order: KeyOrder { key_type, direction }, payload });
        }
    }
    specs
}
