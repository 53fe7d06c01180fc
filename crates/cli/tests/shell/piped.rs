//! Statements on a pipe, without a terminal.

use crate::terminal::Place;

#[test]
fn statements_on_a_pipe_run_in_order() {
    let place = Place::with_fruit();
    for args in [&[][..], &["shell"]] {
        let run = place.pipe(
            args,
            "CREATE VIEW v AS SELECT 7 AS a; .mode csv\nSELECT a FROM v;\nSELECT count(*) AS n FROM fruit",
        );
        assert_eq!(run.status.code(), Some(0), "{run:?}");
        assert_eq!(String::from_utf8(run.stdout).unwrap(), "a\n7\nn\n3\n");
        assert_eq!(String::from_utf8(run.stderr).unwrap(), "");
    }
}

#[test]
fn an_error_ends_a_script_with_status_1_and_its_place() {
    let place = Place::with_fruit();
    let run = place
        .pipe(&["--device", "cpu"], ".mode csv\nSELECT 1 AS a;\nSELECT nme FROM fruit;\nSELECT 2 AS b;\n");
    assert_eq!((run.status.code(), run.stdout.as_slice()), (Some(1), b"a\n1\n".as_slice()));
    let message = String::from_utf8(run.stderr).unwrap();
    assert_eq!(
        message,
        "pelton: no column nme\n  1 | SELECT nme FROM fruit\n    |        ^^^ did you mean name?\n"
    );
}

#[test]
fn a_script_may_leave_early() {
    let place = Place::new();
    let run = place.pipe(&[], ".mode csv\nSELECT 1 AS a;\n.quit\nSELECT 2 AS b;\n");
    assert_eq!((run.status.code(), run.stdout.as_slice()), (Some(0), b"a\n1\n".as_slice()));
}

#[test]
fn an_empty_pipe_is_told_what_the_shell_is_for() {
    let place = Place::new();
    let run = place.pipe(&[], " -- nothing\n");
    assert_eq!(run.status.code(), Some(1));
    let message = String::from_utf8(run.stderr).unwrap();
    assert!(message.contains("no statement on standard input") && message.contains("--help"), "{message}");
}

#[test]
fn the_command_still_takes_its_flags_and_names() {
    let place = Place::with_fruit();
    let run = place.pipe(&["--warehouse", "warehouse", "--threads", "1"], "SELECT 'x' AS only;");
    assert!(String::from_utf8(run.stdout).unwrap().contains("| x    |"));
    let run = place.pipe(&["--warehouse", "warehouse", "tables"], "");
    assert_eq!(run.status.code(), Some(2));
    let run = place.pipe(&["tables"], "");
    assert!(String::from_utf8(run.stdout).unwrap().contains("fruit"));
}
