//! The machine layer from the command line: topology, doctor, and its experiments.

use crate::harness::{Place, outcome};

/// The command with a place of its own for measurements.
fn pelton(place: &Place, args: &[&str]) -> (Option<i32>, String, String) {
    let child = place.pelton().env("PELTON_CACHE", place.path("cache")).args(args).spawn().unwrap();
    let run = outcome(child);
    (run.status, String::from_utf8(run.stdout).unwrap(), run.stderr)
}

fn ok(place: &Place, args: &[&str]) -> String {
    let (status, stdout, stderr) = pelton(place, args);
    assert_eq!(status, Some(0), "pelton {args:?}: {stderr}");
    stdout
}

#[test]
fn this_machine_is_shown_and_measurements_of_it_are_kept_with_their_age() {
    let place = Place::new();
    let (status, shown, notes) = pelton(&place, &["topology"]);
    assert_eq!(status, Some(0));
    assert!(shown.contains("node0"), "{shown}");
    assert!(notes.contains("nothing measured yet"), "{notes}");
    let measured = ok(&place, &["topology", "--measure", "--bytes", "16MiB"]);
    assert!(measured.contains("node0 measured: read"), "{measured}");
    let (_, again, notes) = pelton(&place, &["topology"]);
    assert!(again.contains("node0 measured: read"), "{again}");
    assert!(notes.contains("ago; --measure does it again"), "{notes}");
    let json = ok(&place, &["topology", "--json"]);
    assert!(json.contains("\"topology\"") && json.contains("\"taken_at_s\""), "{json}");
    let file = place.file("here.json", &json);
    assert!(ok(&place, &["topology", "--from", &file]).contains("node0"));
}

#[test]
fn a_preset_goes_out_as_json_and_comes_in_again() {
    let place = Place::new();
    let json = ok(&place, &["topology", "--preset", "dgx-a100", "--json"]);
    let file = place.file("machine.json", &json);
    let svg = place.text_path("machine.svg");
    let shown = ok(&place, &["topology", "--from", &file, "--svg", &svg]);
    assert!(shown.contains("gpu7"), "{shown}");
    assert!(std::fs::read_to_string(svg).unwrap().starts_with("<svg"));
    let measured = ok(&place, &["topology", "--preset", "h200-x2", "--measure"]);
    assert!(measured.contains("SIMULATED") && !measured.contains("node0 measured"), "{measured}");
    assert!(!place.path("cache").exists(), "a simulated machine's figures are not kept");
    let broken = place.file("broken.json", "{\"name\": \"x\"");
    let (status, _, stderr) = pelton(&place, &["topology", "--from", &broken]);
    assert_eq!(status, Some(1));
    assert!(stderr.contains("broken.json"), "{stderr}");
    let (status, _, stderr) = pelton(&place, &["topology", "--preset", "cray-1"]);
    assert_eq!(status, Some(1));
    assert!(stderr.contains("dgx-a100"), "the presets there are: {stderr}");
}

#[test]
fn the_doctor_says_what_is_missing_and_what_installs_it() {
    let place = Place::new();
    let text = ok(&place, &["doctor", "--gpu"]);
    assert!(text.contains("io_uring") && text.contains("NVIDIA driver"), "{text}");
    assert!(text.contains("Pelton runs here"), "{text}");
    let json = ok(&place, &["doctor", "--json"]);
    assert!(json.starts_with('{') && json.ends_with("}\n"), "{json}");
}

#[test]
fn the_transfer_experiment_runs_without_a_gpu_and_says_so() {
    let place = Place::new();
    let (json, plots) = (place.text_path("report.json"), place.path("plots"));
    let folder = place.text_path("tmp");
    let args = ["bench", "transfer", "--machine", "host", "--scale", "0.0002", "--repetitions", "2"];
    let outputs = [
        "--device-memory-limit",
        "64MiB",
        "--storage",
        &folder,
        "--json",
        &json,
        "--plots",
        plots.to_str().unwrap(),
    ];
    let text = ok(&place, &[&args[..], &outputs[..]].concat());
    assert!(text.contains("2 x logical device") && text.contains("MEASURED"), "{text}");
    assert!(std::fs::read_to_string(json).unwrap().contains("\"zero-copy\""));
    assert!(std::fs::read_dir(plots).unwrap().count() > 0);
    assert_eq!(place.temporary_files(), [""; 0], "the file that was read is gone");
}

#[test]
fn the_paper_s_machines_copy_as_the_paper_says() {
    let place = Place::new();
    let text = ok(&place, &["bench", "p2p", "--machine", "ac922,delta,dgx-a100", "--repetitions", "2"]);
    assert_eq!(text.matches("simulator within 15 % of the paper").count(), 3, "{text}");
    assert!(!text.contains("fail "), "{text}");
    let (status, _, stderr) = pelton(&place, &["bench", "p2p", "--machine", "cray-1"]);
    assert_eq!(status, Some(1));
    assert!(stderr.contains("ac922"), "{stderr}");
}

#[test]
fn the_papers_sorts_and_joins_are_simulated_and_drawn() {
    for experiment in ["sort", "join"] {
        let place = Place::new();
        let (json, plots) = (place.text_path("report.json"), place.path("plots"));
        let args = ["bench", experiment, "--paper", "--held", "4096", "--json", &json];
        let text = ok(&place, &[&args[..], &["--plots", plots.to_str().unwrap()]].concat());
        assert!(text.contains("SIMULATED") && !text.contains("MEASURED"), "{text}");
        assert!(text.contains("inputs left out"), "{text}");
        assert!(std::fs::read_to_string(json).unwrap().contains("\"is_input\": true"));
        assert!(std::fs::read_dir(plots).unwrap().count() > 10);
        let (_, _, stderr) = pelton(&place, &["bench", experiment, "--held", "4096"]);
        assert!(stderr.contains("--paper"), "{stderr}");
    }
}
