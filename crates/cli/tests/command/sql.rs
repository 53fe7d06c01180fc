//! `pelton sql`: formats, files of statements, and what goes where.

use std::io::Read;

use crate::harness::{Place, outcome};

/// A table `t` of three rows.
fn place() -> Place {
    let place = Place::new();
    let rows = place.file("rows.csv", "id,name,x\n1,one,1.5\n2,\"two, or so\",\n3,,-0.25\n");
    place.ok(&["load", "--quiet", "--table", "t", &rows]);
    place
}

const ALL: &str = "SELECT * FROM t ORDER BY id";

#[test]
fn a_table_is_drawn_by_default() {
    let expected = "\
+----+------------+-------+
| id | name       | x     |
+----+------------+-------+
| 1  | one        | 1.5   |
| 2  | two, or so | NULL  |
| 3  | NULL       | -0.25 |
+----+------------+-------+
";
    assert_eq!(place().ok(&["sql", ALL]), expected);
}

#[test]
fn a_byte_order_mark_before_statements_is_skipped() {
    let place = place();
    let file = place.file("marked.sql", "\u{feff}SELECT count(*) AS n FROM t");
    assert_eq!(place.ok(&["sql", "--format", "csv", "--file", &file]), "n\n3\n");
    assert_eq!(place.ok(&["sql", "--format", "csv", "\u{feff}SELECT 1 AS n"]), "n\n1\n");
    let outcome = place.run(&["sql", "\u{feff}SELECT 1 FRM t"]);
    assert!(!outcome.stderr.contains('\u{feff}'), "{}", outcome.stderr);
}

#[test]
fn copy_from_a_file_names_the_load_that_does_it() {
    let place = place();
    for sql in ["COPY t FROM 'more.csv'", "SELECT 1; copy t (id, name) from 'more.csv' (HEADER)"] {
        let outcome = place.run(&["sql", sql]);
        assert_eq!(outcome.status, Some(1), "{}", outcome.stderr);
        let remedy = "`pelton load --table t --append 'more.csv'`";
        assert!(outcome.stderr.contains(remedy), "{}", outcome.stderr);
    }
}

#[test]
fn csv_has_a_header_and_quotes() {
    assert_eq!(
        place().ok(&["sql", "--format", "csv", ALL]),
        "id,name,x\n1,one,1.5\n2,\"two, or so\",\n3,,-0.25\n"
    );
}

#[test]
fn json_is_one_object_a_line() {
    let expected = "{\"id\":1,\"name\":\"one\",\"x\":1.5}\n{\"id\":2,\"name\":\"two, or so\",\"x\":null}\n{\"id\":3,\"name\":null,\"x\":-0.25}\n";
    assert_eq!(place().ok(&["sql", "--format", "json", ALL]), expected);
}

#[test]
fn parquet_can_be_queried_again() {
    let place = place();
    let outcome = place.run(&["sql", "--format", "parquet", ALL]);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    assert!(outcome.stdout.starts_with(b"PAR1") && outcome.stdout.ends_with(b"PAR1"));
    std::fs::write(place.path("out.parquet"), outcome.stdout).unwrap();
    let query = format!("SELECT * FROM '{}' ORDER BY id", place.text_path("out.parquet"));
    assert_eq!(place.rows(&query), place.rows(ALL));
}

#[test]
fn output_goes_to_a_file_that_is_whole_or_absent() {
    let place = place();
    for (format, name) in [("csv", "a.csv"), ("json", "a.json"), ("parquet", "a.parquet"), ("table", "a.txt")]
    {
        let path = place.text_path(name);
        assert_eq!(place.ok(&["sql", "--format", format, "--output", &path, ALL]), "");
        assert!(std::fs::metadata(&path).unwrap().len() > 0, "{name}");
    }
    let path = place.text_path("b.csv");
    let message = place.fails(&["sql", "--format", "csv", "--output", &path, "SELECT 1 / (id - 3) FROM t"]);
    assert!(message.contains("Divide by zero"), "{message}");
    let left: Vec<_> =
        std::fs::read_dir(place.path(".")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().starts_with("b.csv")), "{left:?}");
    let nowhere = place.text_path("no/such/folder/a.csv");
    assert!(place.fails(&["sql", "--output", &nowhere, ALL]).contains("no/such/folder"));
}

#[test]
fn empty_results_keep_their_columns() {
    let place = place();
    let none = "SELECT id, name FROM t WHERE id > 99";
    assert_eq!(place.ok(&["sql", none]), "+----+------+\n| id | name |\n+----+------+\n+----+------+\n");
    assert_eq!(place.ok(&["sql", "--format", "csv", none]), "id,name\n");
    assert_eq!(place.ok(&["sql", "--format", "json", none]), "");
    let path = place.text_path("none.parquet");
    place.ok(&["sql", "--format", "parquet", "--output", &path, none]);
    assert_eq!(place.ok(&["sql", "--format", "csv", &format!("SELECT * FROM '{path}'")]), "id,name\n");
}

#[test]
fn a_file_of_statements_runs_in_order() {
    let place = place();
    let script = place.file(
        "script.sql",
        "-- two answers and a view between them\nSELECT count(*) AS n FROM t;\n\nCREATE VIEW v AS SELECT id FROM t WHERE id > 1;\n\
         SELECT sum(id) AS s FROM v;",
    );
    assert_eq!(place.ok(&["sql", "--format", "csv", "--file", &script]), "n\n3\ns\n5\n");
    let mut child = place.pelton();
    child.args(["sql", "--format", "csv", "--file", "-"]).stdin(std::fs::File::open(&script).unwrap());
    assert_eq!(outcome(child.spawn().unwrap()).stdout, b"n\n3\ns\n5\n");
    let broken = place.file("broken.sql", "SELECT 1 AS a; SELECT nothing FROM t; SELECT 2 AS b");
    let run = place.run(&["sql", "--format", "csv", "--file", &broken]);
    assert_eq!((run.status, run.stdout.as_slice()), (Some(1), b"a\n1\n".as_slice()), "{}", run.stderr);
    let output = place.text_path("both.csv");
    assert!(place.fails(&["sql", "--output", &output, "--file", &script]).contains("3 statements"));
    let empty = place.file("empty.sql", "  \n");
    assert!(place.fails(&["sql", "--file", &empty]).contains("no statement to run"));
    assert!(place.fails(&["sql", "--file", &place.text_path("missing.sql")]).contains("missing.sql"));
}

#[test]
fn data_goes_to_standard_output_and_the_rest_to_standard_error() {
    let place = place();
    let run = place.run(&["sql", "--stats", "--format", "csv", "SELECT id FROM t WHERE id = 2"]);
    assert_eq!((run.status, run.stdout.as_slice()), (Some(0), b"id\n2\n".as_slice()));
    assert!(run.stderr.contains("1 row in") && run.stderr.contains("skipped"), "{}", run.stderr);
    let rows = place.file("more.csv", "a\n1\n");
    let run = place.run(&["load", "--table", "u", &rows]);
    assert_eq!((run.status, run.stdout.as_slice()), (Some(0), b"".as_slice()));
    assert!(run.stderr.contains("u: 1 row in 1 row group;"), "{}", run.stderr);
}

#[test]
fn explanations_are_text() {
    let place = place();
    let text = place.ok(&["sql", "EXPLAIN ANALYZE SELECT id FROM t WHERE id > 100"]);
    assert!(text.contains("PeltonScan") && text.contains("t: 1 row group,"), "{text}");
    assert!(text.contains("skipped by minmax: 1 row group,"), "{text}");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let place = place();
    for format in ["csv", "json", "table", "parquet"] {
        let query = "SELECT v, v * 2 AS w FROM generate_series(1, 3000000) AS g(v)";
        let mut child = place.pelton().args(["sql", "--format", format, query]).spawn().unwrap();
        let mut first = [0; 4];
        child.stdout.take().unwrap().read_exact(&mut first).unwrap();
        let run = outcome(child);
        assert_eq!(run.status, Some(0), "{format}: {}", run.stderr);
        assert_eq!(run.stderr, "", "{format}");
    }
}

#[test]
fn unknown_tables_are_answered_with_the_known_ones() {
    let place = place();
    let message = place.fails(&["sql", "SELECT * FROM tt"]);
    assert!(
        message.contains("tt' not found") && message.contains("tables in this warehouse: t"),
        "{message}"
    );
    let message = place.fails(&["drop", "tt"]);
    assert!(message.contains("no table 'tt'") && message.contains("it has t"), "{message}");
    let message = place.fails(&["inspect", "tt"]);
    assert!(message.contains("no table 'tt'"), "{message}");
}

#[test]
fn a_warehouse_that_is_not_there_is_named() {
    let place = Place::new();
    let message = place.fails(&["sql", "--warehouse", "elsewhere", "SELECT 1"]);
    assert!(message.contains("elsewhere") && message.contains("no warehouse"), "{message}");
    let message = place.fails(&["tables"]);
    assert!(message.contains("warehouse"), "{message}");
    let file = place.file("plain", "not a directory");
    let message = place.fails(&["sql", "--warehouse", &file, "SELECT 1"]);
    assert!(message.contains("plain' is not a directory"), "{message}");
    let rows = place.file("rows.csv", "a\n1\n");
    let message = place.fails(&["load", "--warehouse", &file, "--table", "t", &rows]);
    assert!(message.contains("plain"), "{message}");
}

#[test]
fn without_a_warehouse_files_can_be_queried() {
    let place = Place::new();
    let path = place.file("rows.csv", "a,b\n1,x\n2,y\n");
    let mut command = place.pelton();
    command.env_remove("PELTON_WAREHOUSE").args(["sql", "--format", "csv"]);
    let run = outcome(command.arg(format!("SELECT sum(a) AS s FROM '{path}'")).spawn().unwrap());
    assert_eq!((run.status, run.stdout.as_slice()), (Some(0), b"s\n3\n".as_slice()), "{}", run.stderr);
    let mut command = place.pelton();
    let run =
        outcome(command.env_remove("PELTON_WAREHOUSE").args(["sql", "SELECT * FROM t"]).spawn().unwrap());
    assert_eq!(run.status, Some(1));
    assert!(run.stderr.contains("no warehouse is open"), "{}", run.stderr);
}

#[test]
fn a_directory_that_may_not_be_read_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let place = place();
    let table = place.path("warehouse/t");
    std::fs::set_permissions(&table, std::fs::Permissions::from_mode(0o0)).unwrap();
    let is_root = std::fs::read_dir(&table).is_ok();
    if is_root {
        println!("note: permissions do not bind this user; an unreadable directory cannot be tested");
    } else {
        let message = place.fails(&["sql", ALL]);
        assert!(message.contains("warehouse/t") || message.contains("'t'"), "{message}");
    }
    std::fs::set_permissions(&table, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn wrong_usage_has_status_two() {
    let place = Place::new();
    for args in [
        &["sql", "--format", "xml", "SELECT 1"][..],
        &["sql", "--threads", "0", "SELECT 1"],
        &["sql", "--threads", "1000000", "SELECT 1"],
        &["load", "--table", "t"],
        &["fly"],
    ] {
        let run = place.run(args);
        assert_eq!(run.status, Some(2), "{args:?}: {}", run.stderr);
        assert_eq!(run.stdout, b"", "{args:?}");
    }
    let message = place.fails(&["sql", "--skip", "magic", "SELECT 1"]);
    assert!(message.contains("'magic'") && message.contains("minmax"), "{message}");
}

#[test]
fn tables_are_listed_and_dropped() {
    let place = place();
    assert!(place.ok(&["tables"]).contains("t "), "{}", place.ok(&["tables"]));
    place.ok(&["drop", "t"]);
    assert!(place.warehouse_files().is_empty(), "{:?}", place.warehouse_files());
}

#[test]
fn dropping_a_link_leaves_the_table_that_it_leads_to() {
    let place = place();
    std::fs::create_dir(place.path("other")).unwrap();
    std::os::unix::fs::symlink(place.path("warehouse/t"), place.path("other/linked")).unwrap();
    let in_other = |args: &[&str]| place.ok(&[args, &["--warehouse", "other"]].concat());
    assert!(in_other(&["tables"]).contains("linked"));
    in_other(&["drop", "linked"]);
    assert!(!in_other(&["tables"]).contains("linked"));
    assert!(std::fs::symlink_metadata(place.path("other/linked")).is_err());
    assert_eq!(place.rows("SELECT count(*) FROM t"), ["3"]);
}

#[test]
fn a_damaged_table_hides_no_other() {
    let place = place();
    for name in ["broken", "z"] {
        place.ok(&["load", "--quiet", "--table", name, &place.text_path("rows.csv")]);
    }
    std::fs::write(place.path("warehouse/broken/manifest"), "nonsense").unwrap();
    let run = place.run(&["tables"]);
    let listed = String::from_utf8(run.stdout).unwrap();
    for line in ["t                3", "z                3", "broken  unreadable"] {
        assert!(listed.lines().any(|found| found.starts_with(line)), "{line}: {listed}");
    }
    assert_eq!(run.status, Some(1));
    assert!(run.stderr.contains("broken/manifest") && run.stderr.contains("1 of 3 tables"), "{}", run.stderr);
}

#[test]
fn a_query_comes_from_a_pipe_and_may_begin_with_a_comment() {
    let place = place();
    let count = "-- how many\nSELECT count(*) AS n FROM t";
    assert_eq!(place.ok(&["sql", count, "--format", "csv"]), "n\n3\n");
    let file = place.file("count.sql", count);
    for args in [&["sql", "--format", "csv"][..], &["sql", "--format", "csv", "-"]] {
        let mut command = place.pelton();
        command.args(args).stdin(std::fs::File::open(&file).unwrap());
        let run = outcome(command.spawn().unwrap());
        assert_eq!((run.status, run.stdout.as_slice()), (Some(0), b"n\n3\n".as_slice()), "{}", run.stderr);
    }
    assert!(place.fails(&["sql"]).contains("no statement to run"));
}

#[test]
fn each_table_has_its_own_reads() {
    let place = place();
    place.ok(&["load", "--quiet", "--table", "u", &place.text_path("rows.csv")]);
    let io = |sql: &str| -> Vec<String> {
        let text = place.ok(&["sql", "--io", "buffered", &format!("EXPLAIN ANALYZE {sql}")]);
        text.lines().filter(|line| line.starts_with("  io: ")).map(str::to_owned).collect()
    };
    let one = io("SELECT id, x FROM t WHERE name = 'one'");
    let both = io("SELECT t.id, t.x, u.id FROM t CROSS JOIN u WHERE t.name = 'one'");
    assert_eq!(both.len(), 2, "{both:?}");
    assert!(both.contains(&one[0]) && both[0] != both[1], "{one:?} {both:?}");
    let text = place.ok(&["sql", "EXPLAIN SELECT id FROM t WHERE name = 'it''s'"]);
    assert!(text.contains("name@1 = 'it''s'"), "{text}");
}

#[test]
fn statements_that_would_change_a_stored_table_name_the_command_that_does() {
    let place = place();
    for (sql, named) in [
        ("DROP TABLE t", "pelton drop t"),
        ("INSERT INTO t SELECT * FROM t", "--append"),
        ("DELETE FROM t", "--append"),
    ] {
        let message = place.fails(&["sql", sql]);
        assert!(message.contains(named), "{sql}: {message}");
    }
    assert!(place.ok(&["tables"]).contains("t "), "it is still there");
}

#[test]
fn the_ending_of_a_file_says_how_rows_are_written() {
    let place = place();
    for (name, beginning) in [
        ("o.csv", "a,b"),
        ("o.tsv", "a\tb"),
        ("o.json", "{\"a\":1,\"b\":null}"),
        ("o.md", "| a"),
        ("o.txt", "+"),
        ("o.parquet", "PAR1"),
        ("o.arrow", "ARROW1"),
        ("o.feather", "ARROW1"),
        ("o.csv.gz", "\u{1f}"),
        ("o.ndjson.zst", "("),
    ] {
        let path = place.path(name);
        place.ok(&["sql", "--output", path.to_str().unwrap(), "SELECT 1 AS a, CAST(NULL AS INT) AS b"]);
        let bytes = std::fs::read(&path).unwrap();
        assert!(bytes.starts_with(beginning.as_bytes()), "{name}: {:?}", String::from_utf8_lossy(&bytes));
    }
    for name in ["o.xlsx", "o", "o.csv.bz2"] {
        let message = place.fails(&["sql", "--output", name, "SELECT 1 AS a"]);
        assert!(message.contains(name) && message.contains(".tsv"), "{message}");
        assert!(!place.path(name).exists(), "{name}");
        place.ok(&["sql", "--format", "csv", "--output", name, "SELECT 1 AS a"]);
        assert_eq!(std::fs::read_to_string(place.path(name)).unwrap(), "a\n1\n");
    }
}

#[test]
fn compressed_files_and_arrow_files_load_again() {
    let place = place();
    for name in ["o.csv.gz", "o.tsv.zst", "o.json.gz", "o.arrow"] {
        place.ok(&["sql", "--output", name, "SELECT id, x FROM t"]);
        place.ok(&["load", "--quiet", "--replace", "--table", "again", name]);
        assert_eq!(
            place.rows("SELECT * FROM again ORDER BY id"),
            place.rows("SELECT id, x FROM t ORDER BY id"),
            "{name}"
        );
    }
}

#[test]
fn what_is_no_file_is_written_and_not_replaced() {
    let place = place();
    let fifo = place.path("fifo");
    let made = place.prepared("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    let mut reader = place.prepared("cat").arg(&fifo).spawn().unwrap();
    place.ok(&["sql", "--format", "csv", "--output", "fifo", "SELECT 1 AS a"]);
    let mut text = String::new();
    reader.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    reader.wait().unwrap();
    assert_eq!(text, "a\n1\n");
    assert!(!std::fs::metadata(&fifo).unwrap().is_file());
}

#[test]
fn null_nested_values_and_numbers_that_are_none_are_written_so_that_they_can_be_read() {
    let place = place();
    let query = "SELECT v, [v, NULL] AS l, CASE v WHEN 1 THEN 'NaN'::DOUBLE WHEN 2 THEN 'inf'::DOUBLE END AS f, \
                 CASE v WHEN 1 THEN '' END AS t FROM (VALUES (1), (2), (3)) AS g(v) ORDER BY v";
    assert_eq!(
        place.ok(&["sql", "--format", "csv", query]),
        "v,l,f,t\n1,\"[1,null]\",NaN,\"\"\n2,\"[2,null]\",inf,\n3,\"[3,null]\",,\n"
    );
    assert_eq!(
        place.ok(&["sql", "--format", "json", query]),
        "{\"v\":1,\"l\":[1,null],\"f\":\"NaN\",\"t\":\"\"}\n{\"v\":2,\"l\":[2,null],\"f\":\"Infinity\",\"t\":null}\n\
         {\"v\":3,\"l\":[3,null],\"f\":null,\"t\":null}\n"
    );
}

#[test]
fn an_output_replaces_the_file_that_a_link_leads_to_and_keeps_its_mode() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let place = place();
    let (file, link) = (place.path("kept.csv"), place.path("link.csv"));
    std::fs::write(&file, "old").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    symlink("kept.csv", &link).unwrap();
    place.ok(&["sql", "--output", &place.text_path("link.csv"), "SELECT 1 AS a"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "a\n1\n");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
}

#[test]
fn copy_takes_names_endings_and_options_as_they_are_meant() {
    let place = place();
    let target = place.text_path("a[1]?.csv");
    place.ok(&["sql", &format!("COPY (SELECT 1 AS a, '' AS b) TO '{target}' (FORMAT csv, HEADER false)")]);
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "1,\"\"\n");
    for name in ["b.tsv", "c.csv.gz", "d.csv.zst", "e.json.gz", "f.jsonl", "g.ndjson"] {
        let target = place.text_path(name);
        place.ok(&["sql", &format!("COPY (SELECT id, name FROM t) TO '{target}'")]);
        let read = place.rows(&format!("SELECT id, name FROM '{target}' ORDER BY id"));
        assert_eq!(read, place.rows("SELECT id, name FROM t ORDER BY id"), "{name}");
    }
    assert!(std::fs::read_to_string(place.path("b.tsv")).unwrap().starts_with("id\tname\n"));
    assert!(std::fs::read(place.path("c.csv.gz")).unwrap().starts_with(&[0x1f, 0x8b]));
}
