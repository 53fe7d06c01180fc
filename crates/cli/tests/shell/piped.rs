//! Statements on a pipe, without a terminal.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

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
fn a_pipe_that_stays_open_is_answered_as_it_goes_and_signals_are_obeyed() {
    let place = Place::with_fruit();
    let long = "SELECT count(*) FROM generate_series(1, 3000000) AS a(x), generate_series(1, 3000000) AS b(y) \
                WHERE x * y % 7 = 3;\n";
    for (signal, last) in [
        (Signal::INT, ""),
        (Signal::TERM, ""),
        (Signal::HUP, ""),
        (Signal::INT, long),
        (Signal::TERM, long),
        (Signal::HUP, long),
        (Signal::TERM, "SELECT 'half a state"),
    ] {
        let mut command = place.command(&[]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        let mut answers = BufReader::new(child.stdout.take().unwrap()).lines();
        for (statement, expected) in [
            (".mode csv\nSELECT 'a;b' AS t;\n", ["t", "a;b"]),
            ("SELECT count(*)\nAS n FROM fruit;", ["n", "3"]),
        ] {
            input.write_all(statement.as_bytes()).unwrap();
            for line in expected {
                assert_eq!(answers.next().unwrap().unwrap(), line);
            }
        }
        input.write_all(last.as_bytes()).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(150));
        kill_process(Pid::from_child(&child), signal).unwrap();
        let run = child.wait_with_output().unwrap();
        assert_eq!(run.status.code(), Some(128 + signal.as_raw()), "{signal:?} {last}: {run:?}");
        assert_eq!(String::from_utf8(run.stderr).unwrap(), "pelton: cancelled\n", "{signal:?} {last}");
        drop(input);
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
