//! `pelton sql --profile`: a page or data beside the rows, which stay what they are.

use serde_json::Value;

use crate::harness::{Place, csv, outcome};

/// A table `t` of a thousand rows.
fn place() -> Place {
    let place = Place::new();
    let rows = place.file("rows.csv", &csv(0, 1000));
    place.ok(&["load", "--quiet", "--table", "t", &rows]);
    place
}

const QUERY: &str = "SELECT g, count(*) AS c FROM t WHERE k >= 10 GROUP BY g ORDER BY g";

fn json(place: &Place, name: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(place.path(name)).unwrap()).unwrap()
}

#[test]
fn a_profile_is_data_in_the_form_that_is_specified() {
    let place = place();
    let plain = place.ok(&["sql", "--format", "csv", QUERY]);
    let file = place.text_path("out.json");
    assert_eq!(place.ok(&["sql", "--format", "csv", "--profile", &file, QUERY]), plain);
    let profile = json(&place, "out.json");
    assert_eq!((&profile["format"], &profile["state"]), (&Value::from(1), &Value::from("finished")));
    assert_eq!(profile["sql"], Value::from(QUERY));
    assert_eq!(profile["rows"].as_u64().unwrap() as usize + 1, plain.lines().count());
    for field in ["elapsed_ns", "planning_ns", "threads"] {
        assert!(profile[field].as_u64().unwrap() > 0, "{field}");
    }
    let mut scan = &profile["plan"];
    while let Some(child) = scan["children"].get(0) {
        scan = child;
    }
    assert_eq!(scan["scan"]["table"], Value::from("t"));
    assert!(scan["scan"]["bytes_read"].as_u64().unwrap() > 0);
    let spans = profile["timeline"]["spans"].as_array().unwrap();
    assert!(spans.iter().any(|span| span["activity"] == "decode"), "{spans:?}");
    let files = &profile["links"][0];
    assert_eq!(files["kind"], Value::from("files"));
    let has_remedy = !files["remedy"].as_str().unwrap().is_empty();
    assert_eq!(files["ceiling_bytes_per_s"].is_null(), has_remedy);
}

#[test]
fn links_stand_beside_what_was_measured_of_the_machine() {
    let place = place();
    let file = place.text_path("out.json");
    for args in [&["topology", "--measure", "--bytes", "16MiB"][..], &["sql", "--profile", &file, QUERY]] {
        let run =
            outcome(place.pelton().env("PELTON_CACHE", place.path("cache")).args(args).spawn().unwrap());
        assert_eq!(run.status, Some(0), "{args:?}: {}", run.stderr);
    }
    let profile = json(&place, "out.json");
    let links = profile["links"].as_array().unwrap();
    let decoding = links.iter().find(|link| link["kind"] == "decoding").unwrap();
    assert!(decoding["ceiling_bytes_per_s"].as_f64().unwrap() > 0.0, "{decoding}");
    assert!(decoding["ceiling_source"].as_str().unwrap().contains("ago"), "{decoding}");
    assert_eq!(decoding["remedy"], Value::from(""));
}

#[test]
fn a_page_is_whole_and_nothing_is_left_beside_it() {
    let place = place();
    place.ok(&["sql", "--profile", &place.text_path("out.html"), QUERY]);
    let page = std::fs::read_to_string(place.path("out.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
    assert!(!place.path("out.html.part").exists());
}

#[test]
fn a_query_that_fails_leaves_its_profile_and_its_error() {
    let place = place();
    let message =
        place.fails(&["sql", "--profile", &place.text_path("out.json"), "SELECT k / (g - g) FROM t"]);
    assert!(message.contains("ivide by zero"), "{message}");
    let profile = json(&place, "out.json");
    assert_eq!(profile["state"], Value::from("failed"));
    assert!(profile["error"].as_str().unwrap().contains("ivide by zero"));
}

#[test]
fn of_several_statements_the_last_has_a_profile() {
    let place = place();
    let file = place.file(
        "statements.sql",
        "SELECT 1; CREATE VIEW v AS SELECT k FROM t; SELECT count(k) FROM v WHERE k > 3",
    );
    place.ok(&["sql", "--profile", &place.text_path("out.json"), "--file", &file]);
    let profile = json(&place, "out.json");
    assert_eq!(profile["rows"], Value::from(1));
    assert!(profile["plan"].to_string().contains("\"table\":\"t\""));
}

#[test]
fn another_ending_is_refused_before_anything_runs() {
    let place = place();
    let message = place.fails(&["sql", "--profile", &place.text_path("out.pdf"), QUERY]);
    assert!(
        message.contains("out.pdf") && message.contains(".html") && message.contains(".json"),
        "{message}"
    );
    let message = place.fails(&["sql", "--profile", &place.text_path("no/such/folder/out.html"), QUERY]);
    assert!(message.contains("no/such/folder/out.html"), "{message}");
    let message = place.fails(&["sql", "--profile", &place.text_path("out.html"), "SELECT nothing FROM t"]);
    assert!(message.contains("nothing"), "{message}");
    assert!(!place.path("out.html").exists() && !place.path("out.html.part").exists());
}
