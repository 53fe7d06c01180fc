//! Typing: statements over several lines, history, completion, leaving.

use std::os::unix::fs::PermissionsExt;

use crate::terminal::{CTRL_C, CTRL_D, CTRL_E, DOWN, ENTER, Place, TAB, UP};

#[test]
fn a_statement_is_run_and_the_next_prompt_comes() {
    let place = Place::new();
    let screen = place.shell().enter("SELECT 40 + 2 AS answer;");
    assert!(screen.contains("| answer |\n+--------+\n| 42     |"), "{screen}");
}

#[test]
fn the_shell_has_a_name_too() {
    let place = Place::with_fruit();
    let mut shell = place.terminal(40, 100, &[], &["shell", "--device", "cpu"]);
    shell.wait_for_prompt();
    assert!(shell.enter(".device").contains("device cpu: queries run on the CPU"));
}

#[test]
fn a_statement_goes_on_until_its_semicolon_and_its_lines_can_be_edited() {
    let place = Place::new();
    let mut shell = place.shell();
    shell.press(&format!("SELECT 1 AS firs{ENTER}, ';' AS semicolon, 2 AS second"));
    shell.wait_for("AS second");
    assert!(!shell.text().contains("+--"), "{}", shell.text());
    shell.press(&format!("{UP}{CTRL_E}t{DOWN}{CTRL_E};{ENTER}"));
    shell.wait_for("| first | semicolon | second |");
    shell.wait_for("| 1     | ;         | 2      |");
}

#[test]
fn several_statements_in_a_line_run_in_order() {
    let place = Place::new();
    let screen = place.shell().enter("SELECT 1 AS a; SELECT 2 AS b;");
    assert!(screen.find("| a |").unwrap() < screen.find("| b |").unwrap(), "{screen}");
}

#[test]
fn up_recalls_statements_and_they_outlive_the_shell() {
    let place = Place::new();
    let mut shell = place.shell();
    shell.enter("SELECT 11 * 3 AS product;");
    shell.enter("SELECT 1 AS other;");
    shell.press(&format!("{UP}{UP}"));
    shell.wait_until("the older statement", |lines| {
        lines.last().unwrap() == "pelton> SELECT 11 * 3 AS product;"
    });
    shell.press(CTRL_C);
    shell.wait_for_prompt();
    shell.press(CTRL_D);
    assert_eq!(shell.status(), Some(0));

    let history = place.path("home/.local/state/pelton/history");
    assert_eq!(std::fs::metadata(&history).unwrap().permissions().mode() & 0o777, 0o600);
    let mut shell = place.shell();
    shell.press(&format!("{UP}{ENTER}"));
    shell.wait_for("| other |");
}

#[test]
fn what_starts_with_a_blank_is_forgotten() {
    let place = Place::new();
    let mut shell = place.shell();
    shell.enter("SELECT 1 AS kept;");
    shell.enter(" SELECT 2 AS secret;");
    shell.press(UP);
    shell.wait_until("the kept one", |lines| lines.last().unwrap() == "pelton> SELECT 1 AS kept;");
    let history = std::fs::read_to_string(place.path("home/.local/state/pelton/history")).unwrap();
    assert!(history.contains("kept") && !history.contains("secret"), "{history}");
}

#[test]
fn the_history_is_where_xdg_says() {
    let place = Place::new();
    let state = place.path("state").display().to_string();
    place.shell_with(40, 100, &[("XDG_STATE_HOME", &state)]).enter("SELECT 1;");
    assert!(std::fs::read_to_string(place.path("state/pelton/history")).unwrap().contains("SELECT 1;"));
}

#[test]
fn a_shell_that_cannot_keep_its_history_says_so_and_works() {
    let place = Place::new();
    std::fs::write(place.path("state"), "a file in the way").unwrap();
    let state = place.path("state").display().to_string();
    let screen = place.shell_with(40, 100, &[("XDG_STATE_HOME", &state)]).enter("SELECT 7 AS seven;");
    assert!(screen.contains("no history is kept") && screen.contains("| 7     |"), "{screen}");
}

#[test]
fn tab_completes_tables_columns_keywords_commands_and_files() {
    let place = Place::with_fruit();
    let mut shell = place.shell();
    for (typed, completed) in [
        ("SELECT * FROM fr", "SELECT * FROM fruit"),
        ("SELECT pri", "SELECT price"),
        ("SELECT f.na", "SELECT f.na"),
        ("SELECT * FROM fruit f WHERE f.na", "SELECT * FROM fruit f WHERE f.name"),
        ("SELECT DISTI", "SELECT DISTINCT"),
        ("select disti", "select distinct"),
        (".tabl", ".tables"),
        (".schema fr", ".schema fruit"),
        ("SELECT * FROM 'fruit.c", "SELECT * FROM 'fruit.csv"),
    ] {
        shell.press(&format!("{typed}{TAB}"));
        let expected = format!("pelton> {completed}");
        shell.wait_until(&expected, |lines| lines.last().is_some_and(|last| *last == expected));
        shell.press(CTRL_C);
        shell.wait_for_prompt();
    }
}

#[test]
fn tab_shows_what_there_is_to_choose_from() {
    let place = Place::with_fruit();
    let mut shell = place.shell();
    shell.press(&format!("SELECT fruit.{TAB}"));
    shell.wait_for("id     name   price");
}

#[test]
fn views_are_completed_and_their_columns() {
    let place = Place::with_fruit();
    let mut shell = place.shell();
    shell.enter("CREATE VIEW expensive AS SELECT name AS label FROM fruit WHERE price > 1;");
    shell.press(&format!("SELECT * FROM exp{TAB}"));
    shell.wait_for("pelton> SELECT * FROM expensive");
    shell.press(&format!(" WHERE expensive.{TAB}"));
    shell.wait_for("pelton> SELECT * FROM expensive WHERE expensive.label");
}

#[test]
fn ctrl_c_clears_what_is_typed_and_ctrl_d_leaves() {
    let place = Place::new();
    let mut shell = place.shell();
    shell.press(&format!("SELECT no{ENTER}such thing"));
    shell.wait_for("such thing");
    shell.press(CTRL_C);
    shell.wait_for_prompt();
    let screen = shell.enter("SELECT 5 AS five;");
    assert!(screen.contains("| 5    |"), "{screen}");
    shell.press(CTRL_D);
    assert_eq!(shell.status(), Some(0));
}

#[test]
fn the_words_of_other_shells_leave_too() {
    for word in ["exit", "quit", "quit;", ".quit", ".exit"] {
        let place = Place::new();
        let mut shell = place.shell();
        shell.press(&format!("{word}{ENTER}"));
        assert_eq!(shell.status(), Some(0), "{word}");
    }
}

#[test]
fn keywords_have_colours_unless_nobody_wants_them() {
    let place = Place::new();
    let mut shell = place.shell();
    shell.enter("SELECT 1;");
    assert!(shell.raw().contains("\x1b[1;34mSELECT"), "{}", shell.raw());
    let mut plain = place.shell_with(40, 100, &[("NO_COLOR", "1")]);
    plain.enter("SELECT 1;");
    plain.enter("SELECT nothing;");
    assert!(!plain.raw().contains("\x1b[1;3"), "{}", plain.raw());
}
