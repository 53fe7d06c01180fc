//! The experiments on compressed scans and skipping, small and quick.

use crate::harness::{Place, outcome};

/// What a shape that fails begins with in the report.
const FAILED: &str = "fail  ";

/// Runs these experiments on small data and gives status, standard output and standard error.
fn golap(place: &Place, args: &[&str]) -> (Option<i32>, String, String) {
    let data = place.text_path("data");
    let common = ["bench", "golap", "--quick", "--dir", &data];
    let child = place.pelton().args([&common[..], args].concat()).spawn().unwrap();
    let run = outcome(child);
    (run.status, String::from_utf8(run.stdout).unwrap(), run.stderr)
}

/// As [`golap`], and once or twice again where a shape fails: the tests beside this one take the processors away for longer
/// than these scans last, but hardly three times in a row, which a defect does.
fn golap_with_shapes(place: &Place, args: &[&str]) -> (String, String) {
    let mut failed = Vec::new();
    for _ in 0..3 {
        let (status, text, stderr) = golap(place, args);
        let shapes: Vec<_> = text.lines().filter(|line| line.starts_with(FAILED)).collect();
        assert_eq!(status == Some(0), shapes.is_empty(), "{status:?}, {shapes:?}: {stderr}\n{text}");
        if shapes.is_empty() {
            return (text, stderr);
        }
        failed.push(shapes.join("; "));
    }
    panic!("shapes fail three times: {failed:?}");
}

#[test]
fn compression_and_skipping_show_from_slow_storage() {
    let place = Place::new();
    let (json, plots) = (place.text_path("report.json"), place.path("plots"));
    // So slow that every setting but the best takes tens of milliseconds, on any machine.
    let slow = ["--device", "cpu", "--only", "e3", "--scale", "0.01", "--storage-rate", "2MB"];
    let outputs = ["--repetitions", "1", "--json", &json, "--plots", plots.to_str().unwrap()];
    let (text, _) = golap_with_shapes(&place, &[&slow[..], &outputs[..]].concat());
    assert!(text.contains("ssb Q1.3, both") && text.contains("MEASURED, CPU engine"), "{text}");
    assert!(text.contains("pass            E3 (D7)"), "{text}");
    let json = std::fs::read_to_string(json).unwrap();
    assert!(json.contains("\"experiment\": \"golap\""), "{json}");
    assert!(plots.join("golap-9-end-to-end.svg").exists());
}

#[test]
fn the_other_experiments_run_and_name_what_is_missing() {
    let place = Place::new();
    let others = [
        "--device",
        "cpu",
        "--only",
        "e1,e2,e4,e5,e6,e7,e8,e10",
        "--repetitions",
        "1",
        // So slow that the storage rate, and nothing a busy machine does, decides what the shapes compare.
        "--storage-rate",
        "3MB",
    ];
    let (text, _) = golap_with_shapes(&place, &others);
    for row in [
        "CPU, memory",
        "io_uring, 8",
        "lo_commitdate",
        "pipelines: 4",
        "10 % sample, worst",
        "DataFusion on Parquet",
    ] {
        assert!(text.contains(row), "{row} in {text}");
    }
    assert_eq!(
        text.matches("pass            E8 (D9)").count(),
        2,
        "what is skipped depends on no clock: {text}"
    );
    assert!(text.contains("n/a: a GPU; --device host stands in for one"), "{text}");
    assert!(text.contains("n/a: GPUDirect Storage") || text.contains("cuFile"), "{text}");
}

#[test]
fn experiments_that_do_not_exist_are_refused_by_name() {
    let place = Place::new();
    let (status, _, stderr) = golap(&place, &["--only", "e3,e9"]);
    assert_eq!(status, Some(1));
    assert!(stderr.contains("'e9'") && stderr.contains("e10"), "{stderr}");
    let (status, _, stderr) = golap(&place, &["--scale", "10"]);
    assert_eq!(status, Some(1));
    assert!(stderr.contains("quick"), "{stderr}");
}
