//! Ctrl-C while a statement runs, and requests to end.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::terminal::{CLEAR, CTRL_C, ENTER, Place, Terminal};

/// Hours of work without a byte to read.
const LONG: &str = "SELECT count(*) FROM generate_series(1, 3000000) AS a(x), \
                    generate_series(1, 3000000) AS b(y) WHERE x * y % 7 = 3;";
/// A sort that spills at 100 MB.
const SPILLING: &str =
    "SELECT v * 7919 % 100000007 AS w, v FROM generate_series(1, 400000000) AS g(v) ORDER BY w;";
/// From Ctrl-C to the prompt.
const SOON: Duration = Duration::from_secs(1);

/// Files in the place for temporary ones that the process has open: those that it spills to have no name.
fn spill_files(place: &Place, process: u32) -> usize {
    let open = std::fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    let files = open.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    files.filter(|file| file.starts_with(place.path("tmp"))).count()
}

/// Presses Ctrl-C and holds the shell to a prompt soon after.
fn cancel(shell: &mut Terminal) {
    let pressed = Instant::now();
    shell.press(CTRL_C);
    shell.wait_for("cancelled");
    shell.wait_for_prompt();
    let waited = pressed.elapsed();
    assert!(waited < SOON, "the prompt came after {waited:?}");
}

#[test]
fn ctrl_c_cancels_the_query_and_stays_in_the_shell() {
    let place = Place::new();
    let mut shell = place.shell();
    shell.enter("CREATE VIEW kept AS SELECT 8 AS eight;");
    for _ in 0..2 {
        shell.press(&format!("{LONG}{ENTER}"));
        shell.wait_for("(Ctrl-C cancels)");
        cancel(&mut shell);
        assert!(!shell.text().contains("(Ctrl-C cancels)"), "the meter stays:\n{}", shell.text());
        let screen = shell.enter("SELECT * FROM kept;");
        assert!(screen.contains("| 8     |"), "{screen}");
        shell.press(CLEAR);
        shell.wait_until("a clear screen", |lines| lines.len() == 1);
    }
}

#[test]
fn a_cancelled_sort_leaves_no_spill_file() {
    let place = Place::new();
    let mut shell = place.terminal(40, 100, &[], &["--memory-limit", "100MB"]);
    shell.wait_for_prompt();
    shell.press(&format!("{SPILLING}{ENTER}"));
    let process = shell.process();
    shell.wait_until("a spill file", |_| spill_files(&place, process) > 1);
    cancel(&mut shell);
    shell.wait_until("no spill file", |_| spill_files(&place, process) == 0);
    assert!(place.temporary_files().is_empty(), "{:?}", place.temporary_files());
    assert!(shell.enter("SELECT 6 AS six;").contains("| 6   |"));
}

#[test]
fn a_request_to_end_ends_the_query_and_the_shell_and_its_files() {
    let place = Place::new();
    let mut shell = place.terminal(40, 100, &[], &["--memory-limit", "100MB"]);
    shell.wait_for_prompt();
    shell.press(&format!("{SPILLING}{ENTER}"));
    let process = shell.process();
    shell.wait_until("a spill file", |_| spill_files(&place, process) > 1);
    kill_process(Pid::from_raw(process as i32).unwrap(), Signal::TERM).unwrap();
    assert_eq!(shell.status(), Some(128 + 15));
    assert!(place.temporary_files().is_empty(), "{:?}", place.temporary_files());
}

#[test]
fn ctrl_c_takes_the_file_of_the_next_result_along() {
    let place = Place::new();
    let mut shell = place.shell();
    shell.enter(".once rows.csv");
    shell.press(&format!("{LONG}{ENTER}"));
    shell.wait_for("(Ctrl-C cancels)");
    cancel(&mut shell);
    assert!(shell.enter("SELECT 8 AS eight;").contains("| 8     |"));
    assert!(!place.path("rows.csv").exists());
}

#[test]
fn a_request_to_end_at_the_prompt_is_granted() {
    let place = Place::new();
    let mut shell = place.shell();
    kill_process(Pid::from_raw(shell.process() as i32).unwrap(), Signal::TERM).unwrap();
    assert_eq!(shell.status(), Some(128 + 15));
}

#[test]
fn ctrl_c_ends_a_script_of_the_shell_at_the_statement_that_runs() {
    let place = Place::new();
    place.file("long.sql", &format!("SELECT 1 AS before;\n{LONG}\nSELECT 2 AS after;\n"));
    let mut shell = place.shell();
    shell.press(&format!(".read long.sql{ENTER}"));
    shell.wait_for("(Ctrl-C cancels)");
    cancel(&mut shell);
    let screen = shell.text();
    assert!(screen.contains("| before |") && !screen.contains("| after |"), "{screen}");
    assert!(screen.contains("long.sql, line 2: cancelled"), "{screen}");
}

#[test]
fn a_quick_query_shows_no_meter() {
    let place = Place::new();
    let mut shell = place.shell();
    shell.enter("SELECT 1;");
    assert!(!shell.raw().contains("Ctrl-C cancels"), "{}", shell.raw());
}

#[test]
fn the_meter_fits_a_narrow_terminal_and_goes_before_the_rows_come() {
    let place = Place::new();
    let mut shell = place.shell_with(30, 24, &[]);
    let query = "SELECT count(*) AS n FROM generate_series(1, 20000) AS a(x), \
                 generate_series(1, 20000) AS b(y) WHERE x * y % 7 = 3;";
    shell.press(&format!("{query}{ENTER}"));
    shell.wait_for("| n ");
    shell.wait_for_prompt();
    let raw = shell.raw();
    let drawn = raw.rsplit("\r\x1b[K").find(|line| line.contains(" s  (")).expect("the meter was drawn");
    assert_eq!(drawn.chars().count(), 23, "{drawn:?}");
    assert!(!shell.text().contains("(Ctrl"), "{}", shell.text());
}

#[test]
fn sql_from_the_command_line_has_the_meter_on_a_terminal() {
    let place = Place::new();
    let mut run = place.terminal(40, 100, &[], &["sql", LONG]);
    run.wait_for("(Ctrl-C cancels)");
    run.press(CTRL_C);
    assert_eq!(run.status(), Some(130));
    run.wait_for("pelton: cancelled");
    assert!(!run.text().contains("(Ctrl-C cancels)"), "{}", run.text());
}
