//! Dot commands.

use crate::terminal::{CLEAR, Place};

#[test]
fn tables_and_views_are_listed_with_their_columns() {
    let place = Place::with_fruit();
    let mut shell = place.shell();
    shell.enter("CREATE VIEW names AS SELECT name FROM fruit;");
    let screen = shell.enter(".tables");
    let rows: Vec<Vec<&str>> = screen.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(rows.iter().any(|row| row.starts_with(&["fruit", "table", "3", "3"])), "{screen}");
    assert!(rows.iter().any(|row| row.starts_with(&["names", "view", "1"])), "{screen}");
    let screen = shell.enter(".schema fruit");
    for line in ["id      BIGINT   yes", "name    VARCHAR  yes"] {
        assert!(screen.contains(line), "{screen}");
    }
    assert!(shell.enter(".schema").contains("names\ncolumn"));
    assert!(shell.enter(".schema fruits").contains("no table 'fruits'; did you mean fruit?"));
}

#[test]
fn files_are_loaded_into_a_warehouse_that_need_not_be_there_yet() {
    let place = Place::new();
    place.file("towns.csv", "id,town\n1,Ulm\n2,Trier\n");
    let mut shell = place.terminal(40, 100, &[], &["--warehouse", "new"]);
    assert_eq!(shell.status(), Some(1), "a warehouse that is named must be there");
    let mut shell = place.shell();
    shell.enter(".load towns towns.csv");
    assert!(shell.enter("SELECT town FROM towns WHERE id = 2;").contains("| Trier |"));
    assert!(
        shell.enter(".load towns towns.csv --append").contains("towns: 4 rows")
            || shell.text().contains("rows in")
    );
    assert!(shell.enter("SELECT count(*) AS n FROM towns;").contains("| 4 |"));
    let screen = shell.enter(".load towns towns.csv");
    assert!(screen.contains("error: loading 'towns'"), "{screen}");
    assert!(shell.enter(".load").contains("it reads: .load TABLE FILES… [FLAGS]"));
    assert!(shell.enter(".load towns towns.csv --apend").contains("--apend"));
}

#[test]
fn another_warehouse_is_opened() {
    let place = Place::with_fruit();
    std::fs::rename(place.path("warehouse"), place.path("market")).unwrap();
    let mut shell = place.shell();
    assert!(shell.enter("SELECT * FROM fruit;").contains("error: table 'fruit' not found"));
    shell.enter(".open market");
    assert!(shell.enter("SELECT count(*) AS n FROM fruit;").contains("| 3 |"));
    assert!(shell.enter(".open nowhere").contains("error: "));
    assert!(shell.enter("SELECT count(*) AS m FROM fruit;").contains("| m |"));
}

#[test]
fn a_file_of_statements_and_commands_is_read() {
    let place = Place::with_fruit();
    place.file("good.sql", "-- names\n.mode csv\nSELECT name\nFROM fruit\nWHERE id = 1;\n");
    place.file("bad.sql", "SELECT 1 AS one;\n\nSELECT pric\nFROM fruit;\nSELECT 2 AS two;\n");
    place.file("loop.sql", ".read loop.sql\n");
    let mut shell = place.shell();
    assert!(shell.enter(".read good.sql").contains("\nname\napple\n"));
    let screen = shell.enter(".read bad.sql");
    assert!(screen.contains("bad.sql, line 3: no column pric") && !screen.contains("two"), "{screen}");
    assert!(shell.enter(".read loop.sql").contains("do they read themselves?"));
    assert!(shell.enter(".read missing.sql").contains("missing.sql"));
}

#[test]
fn a_plan_is_explained_and_analysed() {
    let place = Place::with_fruit();
    let mut shell = place.shell();
    assert!(shell.enter(".explain").contains("no statement has run yet"));
    assert!(shell.enter(".explain SELECT name FROM fruit WHERE id > 1").contains("── physical plan"));
    shell.enter("SELECT max(id) FROM fruit WHERE price > 1;");
    assert!(shell.enter(".explain analyze").contains("── physical plan with metrics"));
}

#[test]
fn several_devices_stay_several_after_a_change_of_device() {
    let place = Place::with_fruit();
    let mut shell = place.terminal(40, 100, &[], &["--device", "host", "--devices", "3"]);
    let explained = ".explain SELECT sum(id) FROM fruit WHERE id > 1";
    let screen = shell.enter(explained);
    assert!(screen.contains("host target and 2 more"), "{screen}");
    let screen = shell.enter("SELECT sum(id) AS s FROM fruit WHERE id > 1;");
    assert!(screen.contains("| 5 |"), "{screen}");
    shell.enter(".device cpu");
    shell.enter(".device host");
    let screen = shell.enter(explained);
    assert!(screen.contains("host target and 2 more"), "{screen}");
}

#[test]
fn a_change_of_device_keeps_views_settings_and_files() {
    let place = Place::with_fruit();
    let mut shell = place.shell();
    shell.enter("CREATE VIEW dear AS SELECT name FROM fruit WHERE price > 2;");
    shell.enter("SET datafusion.execution.batch_size = 123;");
    let screen = shell.enter(".device host");
    assert!(screen.contains("device host"), "{screen}");
    let screen = shell.enter(".explain SELECT sum(id) FROM fruit WHERE id > 1");
    assert!(screen.contains("── on the device"), "{screen}");
    let screen = shell.enter(".device cpu");
    assert!(screen.contains("device cpu: queries run on the CPU"), "{screen}");
    shell.press(CLEAR);
    shell.wait_until("a clear screen", |lines| lines.len() == 1);
    let screen = shell.enter(".explain SELECT sum(id) FROM fruit WHERE id > 2");
    assert!(screen.contains("── physical plan") && !screen.contains("on the device"), "{screen}");
    assert!(shell.enter("SELECT * FROM dear;").contains("| pear |"));
    assert!(shell.enter("SHOW datafusion.execution.batch_size;").contains("| 123 "));
    assert!(shell.enter("SELECT count(*) AS n FROM 'fruit.csv';").contains("| 3 |"));
    assert!(shell.enter(".device abacus").contains("'abacus' is no device; choose auto, cpu, gpu"));
    assert!(shell.enter(".pin fruit").contains("the CPU alone has no use for it"));
}

#[test]
fn tables_are_pinned_for_a_device_and_for_the_next() {
    let place = Place::with_fruit();
    let mut shell = place.terminal(40, 100, &[], &["--device", "host"]);
    shell.wait_for_prompt();
    assert!(shell.enter(".pin fruit").contains("table fruit is in pinned memory"));
    shell.enter(".device cpu");
    shell.enter(".device host");
    let screen = shell.enter(".explain SELECT sum(id) FROM fruit WHERE id > 1");
    assert!(screen.contains("(pinned)"), "{screen}");
    assert!(shell.enter(".pin nothing").contains("nothing"));
}

#[test]
fn help_and_settings_are_shown() {
    let place = Place::new();
    let mut shell = place.shell();
    let screen = shell.enter(".help");
    for name in
        [".tables", ".schema", ".timer", ".device", ".pin", ".mode", ".read", ".load", ".open", ".explain"]
    {
        assert!(screen.contains(name), "{name}:\n{screen}");
    }
    let screen = shell.enter(".show");
    assert!(screen.contains("mode table, maxrows 10000, timer on, pager on"), "{screen}");
}

#[test]
fn the_start_file_is_run_and_its_errors_are_shown() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("home/.config/pelton")).unwrap();
    place.file("home/.config/pelton/shellrc", ".timer off\nSELECT oops;\n");
    let mut shell = place.shell();
    assert!(shell.text().contains("shellrc, line 2: no column oops"), "{}", shell.text());
    assert!(shell.enter(".timer").contains("timer off"));
}
