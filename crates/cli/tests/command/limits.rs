//! `pelton bench limits`, over few rows.

use crate::harness::Place;

#[test]
fn operations_under_limits_give_the_answers_that_they_give_without() {
    let place = Place::new();
    let args = ["bench", "limits", "--rows", "20000", "--limits", "4MB,50MB", "--dir", "limits"];
    let text =
        place.ok(&[&args[..], &["--python", "none", "--threads", "2", "--json", "limits.json"]].concat());
    let line = |limit: &str| text.lines().find(|line| line.starts_with(limit)).unwrap_or_default().to_owned();
    assert!(line("50.0 MB").contains("21 of 21"), "{text}");
    assert!(!text.contains("WRONG"), "{text}");
    let results = std::fs::read_to_string(place.path("limits.json")).unwrap();
    assert_eq!(results.lines().count(), 3 * 21);
    let left = std::fs::read_dir(place.path("limits/limits-20000/spill")).map_or(0, |files| files.count());
    assert_eq!(left, 0, "files were left");
}

#[test]
fn an_operation_that_there_is_not_is_refused() {
    let place = Place::new();
    let message = place.fails(&["bench", "limits", "--only", "juggle", "--python", "none"]);
    assert!(message.contains("--only"), "{message}");
}

#[test]
fn a_wide_table_is_loaded_in_row_groups_that_fit() {
    let place = Place::new();
    let row =
        |row: usize| (0..300).map(|column| (row * 31 + column).to_string()).collect::<Vec<_>>().join(",");
    let header = (0..300).map(|column| format!("c{column}")).collect::<Vec<_>>().join(",");
    let rows: Vec<String> = std::iter::once(header).chain((0..4000).map(row)).collect();
    let input = place.file("wide.csv", &(rows.join("\n") + "\n"));
    place.ok(&["load", "--quiet", "--table", "t", "--memory-limit", "8MiB", "--threads", "1", &input]);
    assert!(place.ok(&["inspect", "t"]).contains("4000 rows in 4 row groups"));
    assert_eq!(place.rows("SELECT count(*), sum(c7), max(c299) FROM t"), ["4000,247966000,124268"]);
}
