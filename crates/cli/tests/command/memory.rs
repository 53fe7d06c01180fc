//! No query takes the machine down: what is made beyond the memory limit ends in an error, in time.

use std::process::Stdio;

use crate::harness::{Place, outcome, watched};

const MIB: u64 = 1 << 20;
/// A limit, and what the process may hold at most: the limit, the slack that the guide states, and the program itself.
const LIMIT: &str = "100MB";
const MOST: u64 = (100 + 512 + 256 + 160) * MIB;

/// Statements that would make far more than the limit, and who is named by the error.
const STATEMENTS: [(&str, &str); 18] = [
    (
        "SELECT unnest(generate_series(1, 10000000)) + v FROM generate_series(1, 1000) AS t(v)",
        "generate_series",
    ),
    ("SELECT unnest(range(v, 500000000)) FROM generate_series(1, 10) AS t(v)", "range"),
    ("SELECT length(lpad('x', 2000000000)) FROM generate_series(1, 10000)", "lpad"),
    ("SELECT length(rpad(CAST(v AS VARCHAR), 200000000 + v)) FROM generate_series(1, 10000) AS t(v)", "rpad"),
    ("SELECT length(repeat('xyz', 1000000000))", "repeat"),
    ("SELECT max(repeat(CAST(v AS VARCHAR), 10000000)) FROM generate_series(1, 10000) AS t(v)", "repeat"),
    ("SELECT replace(repeat('a', 1000000), 'a', repeat('b', 100000)) FROM generate_series(1, 10)", "replace"),
    (
        "SELECT regexp_replace(repeat('a', 100000), 'a', repeat('b', 100000), 'g') FROM generate_series(1, 10)",
        "regexp_replace",
    ),
    ("SELECT array_repeat(v, 1000000000) FROM generate_series(1, 10) AS t(v)", "array_repeat"),
    ("SELECT array_resize([v], 1000000000, v) FROM generate_series(1, 10) AS t(v)", "array_resize"),
    (
        "SELECT array_to_string(range(1, 100000), repeat('x', 100000)) FROM generate_series(1, 100)",
        "array_to_string",
    ),
    ("SELECT concat(repeat('x', 1000000), v) FROM generate_series(1, 100000) AS t(v)", "repeat"),
    (
        "SELECT length(string_agg(repeat(CAST(v AS VARCHAR), 2000), ',')) FROM generate_series(1, 1000000) AS t(v)",
        "Aggregate",
    ),
    (
        "SELECT count(*) FROM (SELECT array_agg(v) AS a FROM generate_series(1, 200000000) AS t(v)) AS s WHERE a[1] = 0",
        "Aggregate",
    ),
    (
        "SELECT sum(s) FROM (SELECT ntile(4) OVER () AS s FROM generate_series(1, 200000000) AS t(v)) AS w",
        "--memory-limit",
    ),
    (
        "SELECT sum(s) FROM (SELECT rank() OVER (ORDER BY v % 3) + first_value(v) OVER (ORDER BY v % 3 ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS s FROM generate_series(1, 60000000) AS t(v)) AS w",
        "--memory-limit",
    ),
    ("SELECT repeat('x', 100000) || v FROM generate_series(1, 100000) AS t(v)", "--memory-limit"),
    ("CREATE TABLE big AS SELECT v, v + 1 AS w FROM generate_series(1, 500000000) AS t(v)", "--memory-limit"),
];

#[test]
fn what_would_take_far_more_than_the_limit_ends_in_an_error_within_it() {
    let place = Place::with_warehouse();
    for (statement, named) in STATEMENTS {
        let mut command = place.pelton();
        command.args([
            "sql",
            "--device",
            "cpu",
            "--threads",
            "2",
            "--memory-limit",
            LIMIT,
            "--format",
            "csv",
        ]);
        command
            .args(["--output", "rows.csv", statement])
            .stderr(std::fs::File::create(place.path("error")).unwrap());
        let (status, peak) = watched(command.stdout(Stdio::null()).spawn().unwrap());
        let error = std::fs::read_to_string(place.path("error")).unwrap();
        assert_eq!(status.code(), Some(1), "{statement}: {error}");
        assert!(error.contains("memory limit reached") && error.contains(named), "{statement}: {error}");
        assert!(error.contains("--memory-limit") && error.lines().count() == 1, "{statement}: {error}");
        assert!(peak < MOST, "{statement}: {} MiB", peak / MIB);
        assert!(!place.path("rows.csv").exists() && !place.path("rows.csv.part").exists());
    }
}

#[test]
fn what_fits_runs_although_it_could_have_been_large() {
    let place = Place::with_warehouse();
    let answers = [
        (
            "SELECT sum(length(replace(repeat('ab', 5000), 'x', repeat('y', 10000)))) FROM generate_series(1, 2000)",
            "20000000",
        ),
        (
            "SELECT sum(length(lpad(CAST(v AS VARCHAR), 20000, 'é'))) FROM generate_series(1, 2000) AS t(v)",
            "40000000",
        ),
        (
            "SELECT count(x || y) FROM (SELECT repeat('x', 500000) AS x FROM generate_series(1, 100) AS t(v)) AS a \
             CROSS JOIN (SELECT repeat('y', 500000) AS y FROM generate_series(1, 100) AS t(v)) AS b",
            "10000",
        ),
        ("SELECT length(repeat('x', 100000)), length(concat(repeat('x', 5000), NULL, 'y'))", "100000,5001"),
        (
            "SELECT count(*), sum(u) FROM (SELECT unnest(range(v)) AS u FROM generate_series(1, 2000) AS t(v)) AS s",
            "2001000,1333333000",
        ),
        (
            "SELECT length(regexp_replace(repeat('ab', 3), '(a)', '\\1\\1', 'g')), array_length(array_repeat('x', 1000))",
            "9,1000",
        ),
    ];
    for (query, expected) in answers {
        let text = place.ok(&["sql", "--memory-limit", LIMIT, "--format", "csv", query]);
        assert_eq!(text.lines().nth(1), Some(expected), "{query}");
    }
}

#[test]
fn a_process_with_little_address_space_ends_in_an_error() {
    let place = Place::with_warehouse();
    for statement in [STATEMENTS[0].0, STATEMENTS[2].0, STATEMENTS[12].0, STATEMENTS[13].0, STATEMENTS[14].0]
    {
        let mut shell = place.prepared("bash");
        let script =
            "ulimit -v 2000000; exec \"$PELTON\" sql --device cpu --format csv \"$STATEMENT\" > /dev/null";
        shell.env("PELTON", env!("CARGO_BIN_EXE_pelton")).env("STATEMENT", statement).args(["-c", script]);
        let run = outcome(shell.spawn().unwrap());
        assert_eq!(run.status, Some(1), "{statement}: {}", run.stderr);
        assert!(run.stderr.contains("memory limit reached"), "{statement}: {}", run.stderr);
    }
}

#[test]
fn a_script_of_the_shell_ends_with_the_error() {
    let place = Place::with_warehouse();
    let mut child = place
        .pelton()
        .args(["shell", "--device", "cpu", "--memory-limit", LIMIT])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let script = format!("SELECT 6 * 7 AS before;\n{};\n", STATEMENTS[14].0);
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), script.as_bytes()).unwrap();
    let run = outcome(child);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    assert!(run.stderr.contains("memory limit reached"), "{}", run.stderr);
    assert!(String::from_utf8_lossy(&run.stdout).contains("42"));
}
