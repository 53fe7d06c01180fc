//! Every algorithm over every number of devices gives what the standard library's stable sort gives.

mod bed;

use bed::{Case, algorithm, check_on, first, machine, specs};
use pelton_kernels::KeyType;
use pelton_sort::generate::Distribution;
use pelton_sort::{Algorithm, Eager, Pairing, Payload, SortSpec};

/// Around pieces, chunks and blocks of the default case, and none of them.
const COUNTS: [usize; 9] = [0, 1, 2, 7, 127, 128, 129, 1000, 1003];

/// The algorithms on devices, over this many of them.
fn over(device_count: u32) -> Vec<Case> {
    let mut cases = Vec::new();
    for one in Algorithm::ALL {
        if one == Algorithm::P2p && !device_count.is_power_of_two() {
            continue;
        }
        if device_count > 1
            && !matches!(
                one,
                Algorithm::P2p
                    | Algorithm::Partitioned
                    | Algorithm::Het2n
                    | Algorithm::Het3n
                    | Algorithm::Range
            )
        {
            continue;
        }
        let mut case = algorithm(one);
        case.options.devices = first(device_count);
        if matches!(one, Algorithm::Het2n | Algorithm::Het3n | Algorithm::Range) {
            // Several chunks for each device.
            case.chunk_rows = Some(50);
        }
        case.options.is_stable = one != Algorithm::P2p || device_count <= 2;
        if one == Algorithm::Het2n || one == Algorithm::Het3n {
            let mut eager = case.clone();
            eager.options.eager = Eager::On;
            eager.options.pending_max = 1;
            cases.push(eager);
        }
        if one == Algorithm::P2p && device_count > 2 {
            let mut mirrored = case.clone();
            mirrored.options.pairing = Pairing::Mirrored;
            cases.push(mirrored);
        }
        cases.push(case);
    }
    cases
}

fn carries(case: &Case, payload: Payload) -> bool {
    case.options.algorithm != Algorithm::Paradis || payload == Payload::None
}

#[test]
fn all_numbers_of_rows_are_sorted_over_all_numbers_of_devices() {
    let machine = machine(8, 64 << 20);
    for device_count in [1, 2, 3, 4, 8] {
        for case in over(device_count) {
            for (index, count) in COUNTS.into_iter().enumerate() {
                // In turn: streams of eight devices are threads, and cases many.
                let payload = Payload::ALL[(index + device_count as usize) % 3];
                if carries(&case, payload) {
                    let spec = SortSpec { payload, ..case.spec };
                    check_on(&machine, &Case { count, spec, ..case.clone() });
                }
            }
        }
    }
}

#[test]
fn all_key_types_are_sorted_in_both_directions_with_payloads_that_follow() {
    let machine = machine(4, 64 << 20);
    for device_count in [1, 2, 4] {
        for case in over(device_count) {
            for spec in specs() {
                if carries(&case, spec.payload) {
                    check_on(&machine, &Case { count: 501, spec, ..case.clone() });
                }
            }
        }
    }
}

#[test]
fn all_distributions_are_sorted() {
    let machine = machine(8, 64 << 20);
    for device_count in [1, 3, 4, 8] {
        for case in over(device_count) {
            for distribution in Distribution::ALL {
                for (key, payload) in [(KeyType::F64, Payload::None), (KeyType::I32, Payload::U64)] {
                    if carries(&case, payload) {
                        let spec = SortSpec { payload, ..SortSpec::keys(key) };
                        check_on(&machine, &Case { count: 777, spec, distribution, ..case.clone() });
                    }
                }
            }
        }
    }
}
