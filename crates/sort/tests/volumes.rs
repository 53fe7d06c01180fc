//! What is moved is what was derived: keys between devices, bytes over links, runs and groups.

mod bed;

use bed::{Case, algorithm, check_on, first, machine};
use pelton_device::host::{self, HostOptions};
use pelton_error::{CancelFlag, ErrorKind, Tier};
use pelton_sort::generate::Distribution;
use pelton_sort::{Algorithm, Eager, Pairing, Payload, SortSpec};

const COUNT: usize = 1 << 17;

/// Keys that changed their device, as a share of all.
fn moved(device_count: u32, distribution: Distribution, pairing: Pairing) -> f64 {
    let mut case = Case { count: COUNT, distribution, ..algorithm(Algorithm::P2p) };
    case.options.devices = first(device_count);
    case.options.pairing = pairing;
    let report = check_on(&machine(device_count, 64 << 20), &case);
    let over_links: u64 = report
        .links
        .iter()
        .filter(|link| !matches!(link.from, pelton_device::Place::Host(_)))
        .filter(|link| !matches!(link.to, pelton_device::Place::Host(_)))
        .map(|link| link.bytes)
        .sum();
    assert_eq!(over_links, 4 * report.keys_moved(), "what stages count went over links");
    report.keys_moved() as f64 / COUNT as f64
}

#[test]
fn p2p_moves_as_many_keys_as_derived() {
    for (device_count, uniform, ordered) in [(1, 0.0, 0.0), (2, 0.5, 0.5), (4, 1.5, 1.5), (8, 3.5, 3.0)] {
        let share = moved(device_count, Distribution::Uniform, Pairing::Mirrored);
        assert!((share - uniform).abs() <= 0.02 * uniform, "{device_count} devices: {share}");
        // Halves of 8 that get whole chunks in order need no exchange within these.
        let share = moved(device_count, Distribution::Uniform, Pairing::Ordered);
        assert!((share - ordered).abs() <= 0.02 * ordered, "{device_count} devices, ordered: {share}");
        let reverse = moved(device_count, Distribution::Reverse, Pairing::Mirrored);
        assert_eq!(reverse, f64::from(device_count - 1), "{device_count} devices");
        assert_eq!(moved(device_count, Distribution::Sorted, Pairing::Mirrored), 0.0);
        assert_eq!(moved(device_count, Distribution::Sorted, Pairing::Ordered), 0.0);
        assert_eq!(moved(device_count, Distribution::AllEqual, Pairing::Ordered), 0.0);
    }
}

#[test]
fn in_order_whole_chunks_move_less() {
    assert_eq!(moved(4, Distribution::Reverse, Pairing::Ordered), 2.0);
    assert_eq!(moved(8, Distribution::Reverse, Pairing::Ordered), 3.0);
}

#[test]
fn one_exchange_moves_all_but_what_is_at_home() {
    for (device_count, uniform) in [(1, 0.0), (2, 0.5), (3, 2.0 / 3.0), (8, 7.0 / 8.0)] {
        let mut case = Case { count: COUNT, ..algorithm(Algorithm::Partitioned) };
        case.options.devices = first(device_count);
        let report = check_on(&machine(device_count, 64 << 20), &case);
        let share = report.keys_moved() as f64 / COUNT as f64;
        assert!((share - uniform).abs() <= 0.02 * uniform, "{device_count} devices: {share}");
        case.distribution = Distribution::AllEqual;
        assert_eq!(check_on(&machine(device_count, 64 << 20), &case).keys_moved(), 0, "equal keys stay");
    }
}

/// Rows of which the devices hold a tenth at a time.
fn tenfold(one: Algorithm, device_count: u32) -> Case {
    let mut case = Case { count: 50_000, ..algorithm(one) };
    case.spec.payload = Payload::U64;
    case.options.devices = first(device_count);
    case.chunk_rows = Some(case.count / 10 / device_count as usize);
    case
}

#[test]
fn ten_times_what_devices_hold_is_sorted_by_chunks() {
    for device_count in [1, 2] {
        let machine = machine(device_count, 64 << 20);
        for (one, passes) in [(Algorithm::Het2n, 1), (Algorithm::Het3n, 1), (Algorithm::Range, 2)] {
            let case = tenfold(one, device_count);
            let report = check_on(&machine, &case);
            let bytes = (case.count * case.spec.row_bytes()) as u64;
            assert!(report.run_count >= 10, "{one:?}: {} runs", report.run_count);
            assert_eq!(report.bytes_in(), passes * bytes, "{one:?}");
            assert_eq!(report.bytes_out(), passes * bytes, "{one:?}");
            assert_eq!(report.eager_merge_count, 0);
            for device in &machine.info().devices {
                let peak = machine.device_budget(device.id).unwrap().peak_bytes();
                let limit = case.limited().device_memory_limit_bytes.unwrap();
                assert!(peak <= limit, "{one:?}: {peak} of {limit} bytes");
            }
        }
    }
}

#[test]
fn groups_are_merged_eagerly_but_the_last_and_no_more_wait_than_may() {
    let mut case = tenfold(Algorithm::Het2n, 2);
    case.options.eager = Eager::On;
    case.options.pending_max = 2;
    let report = check_on(&machine(2, 64 << 20), &case);
    // Of c groups all but one are merged; their runs and the last group's two are merged at the end.
    assert_eq!(report.run_count, report.eager_merge_count + 2);
    assert!(report.eager_merge_count >= 5, "{report:?}");
    assert!((1..=2).contains(&report.pending_max), "{report:?}");
}

#[test]
fn what_does_not_fit_is_refused_with_what_would_do() {
    let machine = machine(2, 64 << 20);
    for one in [Algorithm::Gpu, Algorithm::P2p, Algorithm::Partitioned] {
        let mut case = tenfold(one, 2);
        case.chunk_rows = Some(1000);
        let error = bed::try_on(&machine, &case).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::OutOfMemory { tier: Tier::Device, .. }), "{error}");
        assert!(error.to_string().contains("range, het-2n or het-3n"), "{error}");
    }
    let mut case = tenfold(Algorithm::Range, 2);
    case.chunk_rows = Some(1);
    let error = bed::try_on(&machine, &case).unwrap_err();
    assert!(error.to_string().contains("raise the limit"), "{error}");
}

#[test]
fn what_cannot_be_is_refused() {
    let machine = machine(4, 64 << 20);
    let refused = |case: &Case, says: &str| {
        let error = bed::try_on(&machine, case).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
    };
    let mut case = algorithm(Algorithm::P2p);
    case.options.devices = first(3);
    refused(&case, "1, 2, 4, 8");
    case.options.devices = first(9);
    refused(&case, "no device");
    case.options.devices = Some(vec![pelton_device::DeviceId(1); 2]);
    refused(&case, "named twice");
    case.options.devices = first(4);
    case.spec.payload = Payload::U32;
    refused(&case, "take rp");
    let mut case = algorithm(Algorithm::Paradis);
    case.spec.payload = Payload::U32;
    refused(&case, "without payload");
    let mut case = algorithm(Algorithm::Cpu);
    case.options.thread_count = 0;
    refused(&case, "threads");
    let case = algorithm(Algorithm::Gpu);
    case.options.cancel.cancel();
    assert_eq!(bed::try_on(&machine, &case).unwrap_err().kind(), &ErrorKind::Cancelled);
    assert!(!CancelFlag::new().is_cancelled());
}

#[test]
fn a_copy_that_fails_is_an_error_and_everything_is_given_back() {
    for one in [
        Algorithm::Gpu,
        Algorithm::P2p,
        Algorithm::Partitioned,
        Algorithm::Het2n,
        Algorithm::Het3n,
        Algorithm::Range,
    ] {
        let mut case = tenfold(one, 2);
        if matches!(one, Algorithm::Gpu | Algorithm::P2p | Algorithm::Partitioned) {
            case.chunk_rows = None;
        }
        case.options.eager = Eager::On;
        let mut failures = 0;
        for copy in [0, 1, 5, 17, 40, 100] {
            let machine = host::open(&HostOptions {
                device_count: 2,
                device_memory_limit_bytes: 64 << 20,
                failing_copy: Some(copy),
                ..HostOptions::default()
            });
            // The check that nothing of the devices' memory is held is in there.
            if let Err(error) = bed::try_on(&machine, &case) {
                assert!(error.to_string().contains("a copy failed"), "{error}");
                failures += 1;
            }
        }
        assert!(failures >= 4, "{one:?}: {failures} of 6 copies were there to fail");
    }
}

#[test]
fn devices_that_do_not_reach_each_other_exchange_and_it_is_said() {
    for has_peer_access in [true, false] {
        let machine = host::open(&HostOptions { device_count: 2, has_peer_access, ..HostOptions::default() });
        for one in [Algorithm::P2p, Algorithm::Partitioned] {
            let report = check_on(&machine, &algorithm(one));
            assert_eq!(report.is_staged, !has_peer_access, "{one:?}");
        }
    }
}

#[test]
fn the_choice_is_the_least_prediction_and_phases_add_up() {
    let machine = machine(2, 64 << 20);
    let case = Case { count: 20_000, ..Case::default() };
    let report = check_on(&machine, &case);
    let predicted = report.predictions.iter().filter_map(|one| Some((one.time?, one.algorithm)));
    let least = predicted.min_by_key(|(time, _)| *time).unwrap();
    assert_eq!(report.algorithm, least.1);
    for one in Algorithm::ALL {
        let report = check_on(&machine, &Case { count: 20_000, ..algorithm(one) });
        let phases = report.phases;
        let sum = phases.htod + phases.sort + phases.merge + phases.dtoh;
        assert!(sum <= report.time, "{report:?}");
        // How it divides is a matter of when threads of a loaded machine get to run.
        assert!(sum > std::time::Duration::ZERO, "{report:?}");
    }
    let spec = SortSpec::keys(pelton_kernels::KeyType::U32);
    assert_eq!(check_on(&machine, &Case { count: 0, spec, ..Case::default() }).bytes_in(), 0);
}
