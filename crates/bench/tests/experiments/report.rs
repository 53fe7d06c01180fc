//! Reports as text and as JSON.

use pelton_bench::{Grid, Measured, Outcome, Quoted, Report, Row, Shape, Tag, Verdict};

fn row(machine: &str, tag: Tag, what: &str, paper: Option<Quoted>, ours: Outcome) -> Row {
    Row {
        figure: "2a".into(),
        machine: machine.into(),
        what: what.into(),
        unit: "GB/s",
        paper,
        ours,
        tag,
        note: String::new(),
        is_input: false,
        is_in_grid: false,
    }
}

fn done(mean: f64, standard_error: f64) -> Outcome {
    Outcome::Done(Measured { mean, standard_error, best: mean + 1.0, repetitions: 10 })
}

fn example() -> Report {
    let staged = Row {
        note: "staged through the host".into(),
        ..row("here", Tag::Measured, "gpu 0 to gpu 1", None, done(9.25, 1.0))
    };
    let in_grid =
        Row { is_in_grid: true, ..row("ac922", Tag::Simulated, "gpu 1 to gpu 0", None, done(70.0, 0.0)) };
    Report {
        experiment: "p2p".into(),
        title: "transfers".into(),
        paper: "Somebody et al. 2022".into(),
        machines: vec!["ac922".into(), "here".into()],
        scale: 0.5,
        settings: vec![("repeated".into(), "10 times".into())],
        rows: vec![
            row("ac922", Tag::Simulated, "gpu 0 HtoD", Some(Quoted::stated(72.0)), done(71.9, 0.0)),
            row(
                "ac922",
                Tag::Simulated,
                "gpu 2 HtoD",
                Some(Quoted::between(24.0, 25.0).derived()),
                done(12.25, 0.1),
            ),
            in_grid,
            staged,
            row("here", Tag::Measured, "device to device", None, Outcome::Missing("two devices".into())),
        ],
        grids: vec![Grid {
            title: "device to device, GB/s".into(),
            machine: "ac922".into(),
            tag: Tag::Simulated,
            labels: vec!["gpu 0".into(), "gpu 1".into()],
            cells: vec![vec![None, Some(72.0)], vec![Some(1070.0), None]],
        }],
        shapes: vec![
            Shape {
                id: "E1: bound".into(),
                machine: "ac922".into(),
                holds: Verdict::Pass,
                detail: "41 < 64".into(),
            },
            Shape {
                id: "E2: linear".into(),
                machine: "delta".into(),
                holds: Verdict::NotApplicable,
                detail: "needs delta".into(),
            },
        ],
    }
}

#[test]
fn text_keeps_measured_and_simulated_apart() {
    let expected = "\
p2p: transfers
paper     Somebody et al. 2022
scale     0.5 of the paper's size
repeated  10 times

MEASURED, here, GB/s
figure  what              paper  ours     se  ratio  note
2a      gpu 0 to gpu 1        -  9.25  1.00!      -  staged through the host
2a      device to device      -   n/a      -      -  n/a: two devices

SIMULATED, ac922, GB/s
figure  what         paper   ours    se  ratio  note
2a      gpu 0 HtoD      72  71.90  0.00   1.00
2a      gpu 2 HtoD  ~24-25  12.25  0.10   0.50

device to device, GB/s
       gpu 0  gpu 1
gpu 0      -  72.00
gpu 1   1070      -

shapes
pass            E1: bound [ac922]: 41 < 64
not applicable  E2: linear [delta]: needs delta
";
    assert_eq!(example().to_text(), expected);
}

#[test]
fn json_has_the_fields_of_its_specification() {
    let json: serde_json::Value = serde_json::from_str(&example().to_json()).unwrap();
    assert_eq!(json["version"], 2);
    assert_eq!(json["settings"]["repeated"], "10 times");
    assert_eq!(json["rows"].as_array().unwrap().len(), 5, "rows of grids are rows as well");
    let first = serde_json::json!({
        "figure": "2a",
        "machine": "ac922",
        "what": "gpu 2 HtoD",
        "unit": "GB/s",
        "paper": { "value": 24.5, "low": 24.0, "high": 25.0, "is_derived": true },
        "ours": { "mean": 12.25, "standard_error": 0.1, "best": 13.25, "repetitions": 10, "is_unsteady": false },
        "missing": null,
        "ratio": 0.5,
        "is_input": false,
        "tag": "simulated",
        "note": "",
    });
    assert_eq!(json["rows"][1], first);
    assert_eq!(json["rows"][3]["ours"]["is_unsteady"], true);
    assert_eq!(json["rows"][4]["ours"], serde_json::Value::Null);
    assert_eq!(json["rows"][4]["missing"], "two devices");
    assert_eq!(json["grids"][0]["cells"][1], serde_json::json!([1070.0, null]));
    assert_eq!(json["shapes"][1]["holds"], "not applicable");
}

#[test]
fn json_names_no_field_that_the_specification_lacks() {
    let specification = include_str!("../../../../docs/specs/experiment.md");
    let json: serde_json::Value = serde_json::from_str(&example().to_json()).unwrap();
    let mut names = Vec::new();
    collect_names(&json, &mut names);
    assert!(names.len() > 25);
    for name in names.iter().filter(|name| *name != "repeated") {
        assert!(specification.contains(&format!("| `{name}` |")), "{name}");
    }
}

fn collect_names(value: &serde_json::Value, names: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(fields) => {
            for (name, value) in fields {
                names.push(name.clone());
                collect_names(value, names);
            }
        }
        serde_json::Value::Array(items) => items.iter().for_each(|item| collect_names(item, names)),
        _ => {}
    }
}

#[test]
fn a_report_holds_unless_a_shape_fails() {
    let mut report = example();
    assert!(report.holds());
    report.shapes[1].holds = Verdict::Fail;
    assert!(!report.holds());
    assert!(report.to_text().contains("\nfail            E2: linear"));
}
