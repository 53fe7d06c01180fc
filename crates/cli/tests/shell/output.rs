//! Rows on the screen: modes, the pager, the timer.

use std::os::unix::fs::PermissionsExt;

use crate::terminal::Place;

/// A pager that keeps what it is given in `paged`, and the path to it.
fn fake_pager(place: &Place) -> String {
    let path = place.file("pager", "#!/bin/sh\ncat > paged\necho seen\n");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn modes_change_how_rows_are_written() {
    let place = Place::with_fruit();
    let mut shell = place.shell();
    let query = "SELECT id, name FROM fruit ORDER BY id LIMIT 2;";
    for (mode, expected) in [
        (
            "table",
            "+----+-------+\n| id | name  |\n+----+-------+\n| 1  | apple |\n| 2  | pear  |\n+----+-------+",
        ),
        ("csv", "id,name\n1,apple\n2,pear"),
        ("json", "{\"id\":1,\"name\":\"apple\"}\n{\"id\":2,\"name\":\"pear\"}"),
        ("markdown", "| id | name |\n| ---: | --- |\n| 1 | apple |\n| 2 | pear |"),
        ("line", "── row 1\nid   │ 1\nname │ apple\n── row 2\nid   │ 2\nname │ pear"),
    ] {
        shell.enter(&format!(".mode {mode}"));
        let screen = shell.enter(query);
        assert!(screen.contains(expected), "{mode}:\n{screen}");
    }
    assert!(shell.enter(".mode").contains("mode line"));
    assert!(shell.enter(".mode xml").contains("no mode 'xml'; there are table, csv, tsv, json"));
    shell.enter(".mode parquet");
    assert!(shell.enter(query).contains("Parquet is not written to a terminal"));
}

#[test]
fn the_timer_says_time_and_bytes_until_it_is_off() {
    let place = Place::with_fruit();
    let mut shell = place.shell();
    assert!(shell.enter(".timer").contains("timer on"));
    let screen = shell.enter("SELECT name FROM fruit WHERE id = 2;");
    assert!(screen.contains("1 row in 0.") && screen.contains("/s effective"), "{screen}");
    shell.enter(".timer off");
    let screen = shell.enter("SELECT name FROM fruit WHERE id = 3;");
    assert_eq!(screen.matches(" row in ").count(), 1, "{screen}");
    assert!(shell.enter(".timer perhaps").contains("it reads: .timer [on|off]"));
}

#[test]
fn what_is_longer_than_the_terminal_goes_through_the_pager() {
    let place = Place::new();
    let pager = fake_pager(&place);
    let mut shell = place.shell_with(20, 60, &[("PELTON_PAGER", &pager), ("PAGER", "false")]);
    shell.enter("SELECT * FROM generate_series(1, 5) AS g(v);");
    assert!(!place.path("paged").exists());
    let screen = shell.enter("SELECT * FROM generate_series(1, 50) AS g(v);");
    assert!(screen.contains("seen"), "{screen}");
    let paged = std::fs::read_to_string(place.path("paged")).unwrap();
    assert_eq!(paged.lines().count(), 50 + 4, "{paged}");
}

#[test]
fn what_is_wider_than_the_terminal_goes_through_the_pager() {
    let place = Place::new();
    let pager = fake_pager(&place);
    let mut shell = place.shell_with(20, 60, &[("PAGER", &pager)]);
    shell.enter("SELECT repeat('x', 40) AS text;");
    assert!(!place.path("paged").exists());
    shell.enter("SELECT repeat('x', 70) AS text;");
    assert!(std::fs::read_to_string(place.path("paged")).unwrap().contains(&"x".repeat(70)));
}

#[test]
fn without_a_pager_all_rows_are_on_the_screen() {
    let place = Place::new();
    for pager in ["", "cat", "/no/such/pager"] {
        let mut shell = place.shell_with(20, 60, &[("PELTON_PAGER", pager)]);
        let screen = shell.enter("SELECT * FROM generate_series(1, 50) AS g(v);");
        assert!(screen.contains("| 50 |"), "{pager}:\n{screen}");
    }
    let pager = fake_pager(&place);
    let mut shell = place.shell_with(20, 60, &[("PELTON_PAGER", &pager)]);
    shell.enter(".pager off");
    shell.enter("SELECT * FROM generate_series(1, 50) AS g(v);");
    assert!(!place.path("paged").exists());
}

#[test]
fn a_pager_that_is_left_early_is_no_error() {
    let place = Place::new();
    let mut shell = place.shell_with(20, 60, &[("PELTON_PAGER", "head -n 3")]);
    let screen = shell.enter("SELECT * FROM generate_series(1, 9000) AS g(v);");
    assert!(screen.contains("| v ") && !screen.contains("error"), "{screen}");
}

#[test]
fn a_large_result_is_cut_and_says_so() {
    let place = Place::new();
    let mut shell = place.shell();
    shell.enter(".maxrows 3");
    let screen = shell.enter("SELECT * FROM generate_series(1, 8) AS g(v);");
    assert!(
        screen.contains("3 of 8 rows shown; .maxrows 0 shows all") && !screen.contains("| 4 |"),
        "{screen}"
    );
    shell.enter(".maxrows 0");
    assert!(shell.enter("SELECT * FROM generate_series(1, 8) AS g(v);").contains("| 8 |"));
}

#[test]
fn one_result_goes_to_a_file_and_the_next_to_the_screen() {
    let place = Place::with_fruit();
    let mut shell = place.shell();
    shell.enter(".mode csv");
    shell.enter(".once rows.csv");
    shell.enter("SELECT name FROM fruit ORDER BY id;");
    assert_eq!(std::fs::read_to_string(place.path("rows.csv")).unwrap(), "name\napple\npear\nplum\n");
    assert!(shell.enter("SELECT max(name) AS last FROM fruit;").contains("last\nplum"));
}

#[test]
fn a_file_is_for_the_next_statement_even_if_that_fails() {
    let place = Place::with_fruit();
    let mut shell = place.shell();
    shell.enter(".once rows.json");
    shell.enter("SELECT nme FROM fruit;");
    assert!(shell.enter("SELECT 41 + 1 AS n;").contains("| 42 |"));
    shell.enter(".once rows.json");
    shell.enter("SELECT 1 AS a;");
    assert_eq!(std::fs::read_to_string(place.path("rows.json")).unwrap(), "{\"a\":1}\n");
    shell.enter(".once rows.xlsx");
    assert!(shell.enter("SELECT 1 AS a;").contains("'rows.xlsx' does not say how to write rows"));
    assert!(!place.path("rows.xlsx").exists());
}

#[test]
fn a_terminal_gets_no_control_characters_of_data() {
    let place = Place::new();
    place.file("\x1b]0;name.csv", "a\n1\n");
    let evil = "SELECT chr(27) || ']0;evil' || chr(7) || chr(155) || '2J' AS t";
    for mode in ["table", "csv", "tsv", "json", "line", "markdown"] {
        let mut run = place.terminal(20, 100, &[], &["sql", "--format", mode, evil]);
        assert_eq!(run.status(), Some(0));
        run.wait_for("evil");
        let raw = run.raw();
        assert!(
            !raw.contains("\x1b]0;") && !raw.contains('\u{9b}') && !raw.contains('\x07'),
            "{mode}: {raw:?}"
        );
    }
    for bad in
        [format!("{evil} FROM \"\x1b]0;evil\x07\""), "SELECT CAST('\x1b]0;evil\x07' AS INT)".to_owned()]
    {
        let mut run = place.terminal(20, 100, &[], &["sql", &bad]);
        assert_eq!(run.status(), Some(1));
        run.wait_for("evil");
        assert!(!run.raw().contains("\x1b]0;") && !run.raw().contains('\x07'), "{:?}", run.raw());
    }
}

#[test]
fn rows_wider_than_the_terminal_come_with_a_hint() {
    let place = Place::new();
    let mut run = place.terminal(20, 60, &[], &["sql", "SELECT repeat('x', 70) AS a"]);
    run.wait_for("--format line");
    let mut run = place.terminal(20, 60, &[], &["sql", "SELECT repeat('x', 50) AS a"]);
    assert_eq!(run.status(), Some(0));
    assert!(!run.text().contains("--format line"), "{}", run.text());
}
