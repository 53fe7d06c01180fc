//! The experiment `transfer` on logical devices and on simulated machines.

use pelton_bench::transfer::{self, TransferExperiment};
use pelton_bench::{Outcome, Report, Tag, Verdict};
use pelton_device::cuda::{self, CudaOptions};
use pelton_device::host::{self, HostOptions};
use pelton_device::{Machine, PageableAccess};
use pelton_error::ErrorKind;
use pelton_kernels::Library;
use pelton_sim::{self as sim, SimOptions};

fn small(machine: Machine) -> TransferExperiment {
    let mut options = TransferExperiment::on(machine, None);
    options.scale = 1e-4;
    options.footprint_bytes = 1 << 20;
    options.repetitions = 2;
    options.transfer.chunk_bytes = 1 << 20;
    options
}

fn value(report: &Report, figure: &str, what: &str) -> Option<f64> {
    report.rows.iter().find(|row| row.figure == figure && row.what == what).and_then(|row| row.value())
}

#[test]
fn every_method_and_every_path_has_a_figure() {
    let folder = tempfile::tempdir().unwrap();
    let options = HostOptions { device_count: 2, ..HostOptions::default() };
    let mut beds = vec![small(host::open(&options))];
    match (cuda::open(&CudaOptions::default()), Library::open()) {
        (Ok(machine), Ok(library)) => {
            beds.push(TransferExperiment { library: Some(library), ..small(machine) })
        }
        (Err(error), _) | (_, Err(error)) => println!("SKIPPED on CUDA devices: {error}"),
    }
    for mut bed in beds {
        bed.storage = Some(folder.path().into());
        let report = transfer::run(&bed).unwrap();
        for row in &report.rows {
            match &row.ours {
                Outcome::Done(measured) => {
                    assert!(measured.mean > 0.0 && measured.mean.is_finite(), "{row:?}")
                }
                Outcome::Missing(reason) => assert!(!reason.is_empty(), "{row:?}"),
            }
            assert_eq!(row.tag, Tag::Measured);
        }
        for method in ["pinned-copy", "zero-copy", "staged-copy", "pageable-copy", "dynamic-pinning"] {
            assert!(value(&report, "12", method).is_some(), "{method}");
        }
        assert!(report.rows.iter().any(|row| row.figure == "storage" && !row.note.is_empty()));
        assert!(report.rows.iter().any(|row| row.figure == "enqueueing"));
        assert!(!transfer::plots(&report).is_empty());
        assert!(report.to_text().contains("MEASURED"));
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn what_a_machine_lacks_is_named_in_its_row() {
    let mut options = HostOptions::default();
    options.capabilities.pageable_access = PageableAccess::None;
    options.capabilities.concurrent_managed = false;
    let report = transfer::run(&small(host::open(&options))).unwrap();
    let row = |method: &str| report.rows.iter().find(|row| row.figure == "12" && row.what == method).unwrap();
    let Outcome::Missing(reason) = &row("coherence").ours else { panic!("refused") };
    assert!(reason.contains("no pageable access"), "{reason}");
    assert!(matches!(row("um-prefetch").ours, Outcome::Missing(_)));
    assert!(report.to_text().contains("no pageable access"));
    assert!(report.to_json().contains("no pageable access"));
}

#[test]
fn a_simulated_machine_shows_the_order_of_the_methods() {
    let topology = pelton_fabric::preset("h200-x2").unwrap();
    let run = || {
        let machine =
            sim::machine(&topology, SimOptions { functional: false, ..SimOptions::default() }).unwrap();
        let mut options = small(machine);
        options.scale = 1.0 / 32.0;
        options.transfer.chunk_bytes = 16 << 20;
        transfer::run(&options).unwrap()
    };
    let report = run();
    assert!(report.rows.iter().all(|row| row.tag == Tag::Simulated));
    let pinned = value(&report, "12", "pinned-copy").unwrap();
    assert!((pinned / 55.5 - 1.0).abs() < 0.05, "{pinned}");
    let lifted = report.shapes.iter().find(|shape| shape.id.contains("multi-link")).unwrap();
    assert_eq!(lifted.holds, Verdict::Pass, "{}", lifted.detail);
    assert_eq!(report.rows, run().rows, "the same calls on a fresh machine, the same times");
}

#[test]
fn options_out_of_range_are_refused() {
    let machine = host::open(&HostOptions::default());
    let refusal = |change: &dyn Fn(&mut TransferExperiment)| {
        let mut options = small(machine.clone());
        change(&mut options);
        transfer::run(&options).unwrap_err()
    };
    assert!(refusal(&|options| options.scale = 0.0).to_string().contains("scale 0"));
    assert!(refusal(&|options| options.repetitions = 0).to_string().contains("0 repetitions"));
    assert!(refusal(&|options| options.transfer.depth = 0).to_string().contains("1 to 64"));
    let none = host::open(&HostOptions { device_count: 0, ..HostOptions::default() });
    assert_eq!(transfer::run(&small(none)).unwrap_err().kind(), &ErrorKind::Unsupported);
}
