//! The experiment `p2p` on logical devices, on simulated machines, and on one that does not copy.

use std::collections::BTreeSet;

use pelton_bench::p2p::{self, P2pOptions, Subject};
use pelton_bench::{Harness, Outcome, Report, Tag, Verdict};
use pelton_device::Machine;
use pelton_device::host::{self, HostOptions};
use pelton_error::ErrorKind;

/// Enough for several pieces and a remainder that is no whole word.
const SMALL_BYTES: u64 = (1 << 20) + 5;

fn logical(device_count: u32, has_peer_access: bool) -> Machine {
    let options = HostOptions { device_count, has_peer_access, ..HostOptions::default() };
    host::open(&options)
}

fn small(machine: Machine) -> P2pOptions {
    let harness = Harness { repetitions: 2, warm_up_max: 1 };
    P2pOptions { bytes: SMALL_BYTES, harness, ..P2pOptions::on_machine(machine) }
}

fn names(report: &Report) -> Vec<&str> {
    report.rows.iter().map(|row| row.what.as_str()).collect()
}

#[test]
fn two_logical_devices_give_a_positive_figure_for_every_case() {
    let report = p2p::run(&small(logical(2, true))).unwrap();
    let expected = [
        "gpu 0 HtoD",
        "gpu 0 DtoH",
        "gpu 0 both ways",
        "gpu 1 HtoD",
        "gpu 1 DtoH",
        "gpu 1 both ways",
        "gpus (0,1) HtoD",
        "gpus (0,1) DtoH",
        "gpus (0,1) both ways",
        "gpu 0 to gpu 1",
        "gpu 1 to gpu 0",
        "pairs of gpus (0,1)",
    ];
    assert_eq!(names(&report), expected);
    for row in &report.rows {
        assert!(row.value().is_some_and(|value| value > 0.0 && value.is_finite()), "{}", row.what);
        assert_eq!((row.tag, &row.paper, row.note.as_str()), (Tag::Measured, &None, ""));
    }
    assert!(report.shapes.iter().all(|shape| shape.holds == Verdict::NotApplicable));
    assert_eq!(report.grids[0].cells[0][0], None);
    assert_eq!(report.grids[0].cells[0][1], report.rows[9].value());
    assert!(report.to_text().contains("MEASURED, 2 x logical device, GB/s"));
    assert!(!report.to_text().contains("SIMULATED"));
}

#[test]
fn bytes_arrive_whole_in_pieces_of_any_size() {
    for chunk_bytes in [1 << 12, SMALL_BYTES - 1, SMALL_BYTES, SMALL_BYTES + 1] {
        let options = P2pOptions { chunk_bytes: Some(chunk_bytes), ..small(logical(2, true)) };
        let report = p2p::run(&options).unwrap();
        assert!(report.to_text().contains("checked   yes"), "every target is compared with its source");
    }
}

#[test]
fn a_machine_that_does_not_copy_is_found_out() {
    let (machine, _) = crate::common::idle_machine(2);
    let error = p2p::run(&small(machine.clone())).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Corrupt, "{error}");
    let unchecked = P2pOptions { check_bytes: false, ..small(machine) };
    let report = p2p::run(&unchecked).unwrap();
    // A copy takes a microsecond there; its size is a quarter of the device's limit or less.
    let one = report.rows[0].value().unwrap();
    assert!((one - (1 << 18) as f64 / 1e-6 / 1e9).abs() < 1e-6, "{one}");
}

#[test]
fn pairs_without_direct_access_are_marked_as_staged() {
    let report = p2p::run(&small(logical(4, false))).unwrap();
    for row in report.rows.iter().filter(|row| row.figure.starts_with("P2P")) {
        assert_eq!(row.note, "staged through the host", "{}", row.what);
        assert!(row.value().is_some());
    }
}

#[test]
fn one_device_has_no_peer_and_says_so() {
    let report = p2p::run(&small(logical(1, true))).unwrap();
    assert_eq!(names(&report), ["gpu 0 HtoD", "gpu 0 DtoH", "gpu 0 both ways", "device to device"]);
    assert_eq!(report.rows[3].ours, Outcome::Missing("two devices".into()));
    assert!(report.grids.is_empty());
}

#[test]
fn sizes_follow_scale_and_caps() {
    let bytes = |options: P2pOptions| p2p::run(&options).unwrap().settings[0].1.clone();
    let machine = || logical(2, true);
    assert_eq!(bytes(P2pOptions { bytes: 8000, ..small(machine()) }), "8000 per copy");
    assert_eq!(bytes(P2pOptions { bytes: 8000, scale: 0.25, ..small(machine()) }), "2000 per copy");
    let limited =
        HostOptions { device_count: 2, device_memory_limit_bytes: 20_000, ..HostOptions::default() };
    assert_eq!(bytes(P2pOptions { bytes: 8000, ..small(host::open(&limited)) }), "5000 per copy");
    let pinned = HostOptions { device_count: 2, pinned_memory_limit_bytes: 16_384, ..HostOptions::default() };
    assert_eq!(bytes(P2pOptions { bytes: 8000, ..small(host::open(&pinned)) }), "4096 per copy");
}

#[test]
fn a_machine_without_devices_is_unsupported() {
    let error = p2p::run(&small(crate::common::idle_machine(0).0)).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Unsupported, "{error}");
}

#[test]
fn what_differs_between_machines_is_said_by_machine() {
    let both = vec![Subject::Machine(logical(2, true)), Subject::Preset("delta".into())];
    let harness = Harness { repetitions: 2, warm_up_max: 0 };
    let options = P2pOptions { bytes: 8 << 20, scale: 0.5, harness, ..P2pOptions::of(both) };
    let report = p2p::run(&options).unwrap();
    let text = report.to_text();
    let answers = "yes: targets hold the bytes of their sources (2 x logical device), no (delta)";
    assert!(text.contains(answers), "{text}");
    let measured = text.find("MEASURED, 2 x logical device").unwrap();
    assert!(measured < text.find("SIMULATED, delta").unwrap());
    assert_eq!(report.scale, f64::from(4 << 20) / 4e9);
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let refused = |options: P2pOptions, words: &str| {
        let error = p2p::run(&options).unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::InvalidInput, "{error}");
        assert!(error.to_string().contains(words), "{error}");
    };
    let base = || small(logical(4, true));
    refused(P2pOptions { peer_sets: Some(vec![vec![0, 1, 2]]), ..base() }, "even number");
    refused(P2pOptions { peer_sets: Some(vec![vec![0, 4]]), ..base() }, "no gpu 4");
    refused(P2pOptions { host_sets: Some(vec![vec![3, 3]]), ..base() }, "named twice");
    refused(P2pOptions { host_sets: Some(vec![vec![]]), ..base() }, "no devices");
    refused(P2pOptions { scale: 0.0, ..base() }, "scale");
    refused(P2pOptions { scale: f64::NAN, ..base() }, "scale");
    refused(P2pOptions { bytes: 10, scale: 0.01, ..base() }, "are none");
    refused(P2pOptions { chunk_bytes: Some(0), ..base() }, "pieces of 0 bytes");
    refused(P2pOptions { harness: Harness { repetitions: 0, warm_up_max: 0 }, ..base() }, "repetitions");
    refused(P2pOptions::of(vec![]), "no machine");
    let twice = vec![Subject::Machine(logical(1, true)), Subject::Machine(logical(1, true))];
    refused(P2pOptions { bytes: 100, ..P2pOptions::of(twice) }, "named twice");
    refused(P2pOptions::of(vec![Subject::Preset("dgx-9".into())]), "dgx-a100");
}

#[test]
fn the_papers_machines_show_all_of_its_shapes() {
    let report = p2p::run(&P2pOptions::on_presets()).unwrap();
    println!("{}", report.to_text());
    for shape in &report.shapes {
        // What rests on figures that went into the presets alone, only a measurement can confirm.
        let rests_on_inputs = shape.id == "E3: remote both ways is slower";
        let expected = if rests_on_inputs { Verdict::NotApplicable } else { Verdict::Pass };
        assert_eq!(shape.holds, expected, "{} [{}]: {}", shape.id, shape.machine, shape.detail);
    }
    assert!(report.rows.iter().all(|row| row.tag == Tag::Simulated));
    assert!(!report.to_text().contains("MEASURED"));
    let figures: BTreeSet<&str> = report.rows.iter().map(|row| row.figure.as_str()).collect();
    assert_eq!(
        figures,
        BTreeSet::from([
            "2a", "2b", "3a", "3b", "4, many", "4, one", "5a", "5b", "6a", "6b", "7, many", "7, one"
        ])
    );
}

#[test]
fn simulated_figures_are_the_same_every_time() {
    let options = P2pOptions::of(vec![Subject::Preset("delta".into())]);
    assert_eq!(p2p::run(&options).unwrap().to_json(), p2p::run(&options).unwrap().to_json());
}

#[test]
fn a_plot_is_drawn_for_each_figure() {
    let plots = p2p::plots(&p2p::run(&small(logical(2, true))).unwrap());
    let names: Vec<&str> = plots.iter().map(|(name, _)| name.as_str()).collect();
    let expected = ["cpu-gpu-one", "cpu-gpu-many", "p2p-one", "p2p-many"];
    assert_eq!(names, expected.map(|name| format!("p2p-2-x-logical-device-{name}")));
    for (_, svg) in plots {
        assert!(svg.contains("measured)") && !svg.contains("paper"));
    }
}
