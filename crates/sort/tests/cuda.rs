//! The same sorts on GPUs, if there are any, at sizes where pieces, chunks and ranges are several.

mod bed;

use bed::{Case, algorithm, check_with, specs};
use pelton_device::Machine;
use pelton_device::cuda::{self, CudaOptions};
use pelton_kernels::Library;
use pelton_sort::generate::Distribution;
use pelton_sort::{Algorithm, Eager, Payload, Sorter};

/// GPUs with their kernels.
fn gpus() -> Option<(Machine, Sorter)> {
    match (cuda::open(&CudaOptions::default()), Library::open()) {
        (Ok(machine), Ok(library)) => Some((machine.clone(), Sorter::new(machine, Some(library)))),
        (Err(error), _) | (_, Err(error)) => {
            println!("SKIPPED on CUDA devices: {error}");
            None
        }
    }
}

/// Every algorithm over one device and over all of them.
fn cases(machine: &Machine) -> Vec<Case> {
    let all = machine.info().devices.len() as u32;
    let mut cases = Vec::new();
    for device_count in [1, 1 << all.ilog2(), all] {
        for one in Algorithm::ALL.into_iter().filter(|one| one.uses_devices()) {
            if (one == Algorithm::P2p && !device_count.is_power_of_two())
                || (device_count > 1 && one == Algorithm::Gpu)
            {
                continue;
            }
            let mut case = algorithm(one);
            case.count = 1_000_003;
            case.options.devices = bed::first(device_count);
            (case.options.piece_bytes, case.options.swap_bytes) = (1 << 18, 1 << 17);
            case.options.is_stable = one != Algorithm::P2p || device_count <= 2;
            if matches!(one, Algorithm::Het2n | Algorithm::Het3n | Algorithm::Range) {
                case.chunk_rows = Some(90_000);
            }
            if one == Algorithm::Het3n {
                case.options.eager = Eager::On;
            }
            cases.push(case);
        }
    }
    cases
}

#[test]
fn all_key_types_are_sorted_on_gpus() {
    let Some((machine, sorter)) = gpus() else { return };
    for case in cases(&machine) {
        for spec in specs() {
            check_with(&sorter, &Case { spec, ..case.clone() });
        }
    }
}

#[test]
fn all_distributions_and_numbers_of_rows_are_sorted_on_gpus() {
    let Some((machine, sorter)) = gpus() else { return };
    for case in cases(&machine) {
        let mut spec = case.spec;
        spec.payload = Payload::U32;
        for distribution in Distribution::ALL {
            check_with(&sorter, &Case { spec, distribution, ..case.clone() });
        }
        for count in [0, 1, 2, 1000, 90_000, 90_001] {
            check_with(&sorter, &Case { spec, count, ..case.clone() });
        }
    }
}
