//! Errors: where they point, and that nothing else is lost.

use crate::terminal::Place;

/// The two lines of a place: the statement's and the carets' below it.
fn place_lines(screen: &str) -> (String, String) {
    let lines: Vec<&str> = screen.lines().collect();
    let at =
        lines.iter().rposition(|line| line.contains('^')).unwrap_or_else(|| panic!("no caret:\n{screen}"));
    (lines[at - 1].to_owned(), lines[at].to_owned())
}

/// The part of the statement that the carets stand under.
fn marked(screen: &str) -> String {
    let (statement, carets) = place_lines(screen);
    let under = carets.chars().zip(statement.chars()).filter(|(caret, _)| *caret == '^');
    under.map(|(_, letter)| letter).collect()
}

#[test]
fn a_wrong_column_is_pointed_at_and_the_next_statement_works() {
    let place = Place::with_fruit();
    let mut shell = place.shell();
    let screen = shell.enter("SELECT id, pric FROM fruit;");
    assert_eq!(marked(&screen), "pric", "{screen}");
    assert!(
        screen.contains("error: no column pric") && screen.contains("^^^^ did you mean price?"),
        "{screen}"
    );
    assert!(shell.raw().contains("\x1b[1;31m^^^^\x1b[0m"), "{}", shell.raw());
    let screen = shell.enter("SELECT count(*) AS n FROM fruit;");
    assert!(screen.contains("| 3 |"), "{screen}");
}

#[test]
fn a_wrong_table_function_or_word_is_pointed_at() {
    let place = Place::with_fruit();
    let mut shell = place.shell();
    for (statement, expected) in [
        ("SELECT fruity FROM fruity;", "fruity"),
        ("SELECT coun(id) FROM fruit;", "coun"),
        ("SELEKT 1;", "SELEKT"),
        ("SELECT id FROM fruit GRUOP BY id;", "BY"),
        ("SELECT name, count(*) FROM fruit;", "name"),
    ] {
        let screen = shell.enter(statement);
        assert_eq!(marked(&screen), expected, "{screen}");
    }
    let (line, _) = place_lines(&shell.enter("SELECT fruity FROM fruity;"));
    assert!(line.contains("1 | SELECT fruity FROM fruity"), "{line}");
}

#[test]
fn the_line_of_a_statement_is_shown_that_the_error_is_in() {
    let place = Place::with_fruit();
    let mut shell = place.shell();
    shell.press("SELECT id\r, nme\r");
    let screen = shell.enter("FROM fruit;");
    assert!(screen.contains("  2 | , nme\n    |   ^^^ did you mean name?"), "{screen}");
}

#[test]
fn views_and_settings_outlive_an_error() {
    let place = Place::with_fruit();
    let mut shell = place.shell();
    shell.enter("CREATE VIEW cheap AS SELECT name FROM fruit WHERE price < 1;");
    shell.enter(".mode csv");
    for wrong in
        ["SELECT 1 / 0;", "SELECT * FROM 'missing.parquet';", "SELECT arrow_cast('x', 'Int32');", ".nothing"]
    {
        let screen = shell.enter(wrong);
        assert!(screen.contains("error: "), "{screen}");
    }
    let screen = shell.enter("SELECT * FROM cheap;");
    assert!(screen.contains("\nname\nplum\n"), "{screen}");
}

#[test]
fn a_line_that_is_longer_than_the_terminal_is_cut_around_the_place() {
    let place = Place::with_fruit();
    let mut shell = place.shell_with(30, 44, &[]);
    shell.press(&format!(
        "SELECT {} idd, {} FROM fruit;\r",
        "id, ".repeat(20),
        "price, ".repeat(20) + "price"
    ));
    shell.wait_for("did you mean id?");
    let screen = shell.text();
    assert_eq!(marked(&screen), "idd", "{screen}");
    let (statement, _) = place_lines(&screen);
    assert!(statement.contains("1 | …") && statement.ends_with('…'), "{screen}");
}

#[test]
fn a_mistyped_command_is_told_the_nearest() {
    let place = Place::new();
    let screen = place.shell().enter(".tabels");
    assert!(screen.contains("no command .tabels; did you mean .tables?"), "{screen}");
}

#[test]
fn sql_from_the_command_line_points_too_in_colour_on_a_terminal() {
    let place = Place::with_fruit();
    let mut run = place.terminal(40, 100, &[], &["sql", "SELECT pric FROM fruit"]);
    assert_eq!(run.status(), Some(1));
    run.wait_for("^^^^ did you mean price?");
    assert_eq!(marked(&run.text()), "pric");
    assert!(run.raw().contains("\x1b[1;31m^^^^\x1b[0m"));
    let plain = place.command(&["sql", "SELECT pric FROM fruit"]).output().unwrap();
    let message = String::from_utf8(plain.stderr).unwrap();
    assert_eq!(
        message,
        "pelton: no column pric\n  1 | SELECT pric FROM fruit\n    |        ^^^^ did you mean price?\n"
    );
}
