//! Outputs that nobody reads and outputs that are full: every command ends with a status and at most one line.

use std::fs::File;
use std::process::Stdio;

use crate::harness::{Outcome, Place, csv, outcome};

/// How an output is broken.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Broken {
    /// A pipe whose reader has gone.
    Closed,
    /// A device without room.
    Full,
}

impl Broken {
    fn open(self) -> Stdio {
        match self {
            Self::Closed => std::io::pipe().unwrap().1.into(),
            Self::Full => File::options().write(true).open("/dev/full").unwrap().into(),
        }
    }
}

/// Every command, and within it every way to write: rows in each format, figures, progress, help, errors.
const COMMANDS: &[&[&str]] = &[
    &["--help"],
    &["--version"],
    &["help", "load"],
    &["sql", "-h"],
    &["fly"],
    &["sql", "--fly", "SELECT 1"],
    &["tables"],
    &["tables", "--warehouse", "nowhere"],
    &["inspect", "t"],
    &["inspect", "nothing"],
    &["drop", "nothing"],
    &["topology", "--preset", "ac922"],
    &["topology", "--preset", "ac922", "--json"],
    &["topology", "--preset", "ac922", "--measure", "--bytes", "1MiB"],
    &["topology"],
    &["doctor"],
    &["doctor", "--json", "--gpu"],
    &["load", "--table", "u", "--replace", "rows.csv"],
    &["load", "--table", "t", "rows.csv"],
    &["load", "--table", "t", "--append", "missing.csv"],
    &["generate", "ssb", "--scale", "0.001", "--tables", "date", "--out", "data"],
    &["sql", "SELECT * FROM t"],
    &["sql", "--format", "csv", "--stats", "SELECT * FROM t"],
    &["sql", "--format", "tsv", "SELECT * FROM t"],
    &["sql", "--format", "json", "SELECT * FROM t"],
    &["sql", "--format", "markdown", "SELECT * FROM t"],
    &["sql", "--format", "line", "SELECT * FROM t"],
    &["sql", "--format", "parquet", "SELECT * FROM t"],
    &["sql", "--format", "arrow", "SELECT * FROM t"],
    &["sql", "--stats", "--profile", "p.json", "--output", "out.csv", "SELECT * FROM t"],
    &["sql", "EXPLAIN ANALYZE SELECT * FROM t"],
    &["sql", "SELECT nothing FROM t"],
    &["shell"],
    &["serve", "--listen", "127.0.0.1:0", "--token-file", "missing"],
    &["bench", "queries", "ssb", "--scale", "0.001", "--runs", "1", "--only", "Q1.1", "--dir", "bench"],
    &["bench", "storage", "ssb", "--scale", "0.001", "--dir", "bench"],
    &["bench", "sampling", "ssb", "--scale", "0.001", "--dir", "bench"],
    &["bench", "transfer", "--machine", "ac922", "--scale", "0.0001", "--repetitions", "1"],
    &["bench", "p2p", "--machine", "ac922", "--scale", "0.0001", "--repetitions", "1"],
];

fn run(place: &Place, args: &[&str], stdout: Option<Broken>, stderr: Option<Broken>) -> Outcome {
    let mut command = place.pelton();
    command.args(args).env("XDG_CACHE_HOME", place.path("cache")).env("HOME", place.path("home"));
    command.stdin(File::open(place.path("script.sql")).unwrap());
    if let Some(broken) = stdout {
        command.stdout(broken.open());
    }
    if let Some(broken) = stderr {
        command.stderr(broken.open());
    }
    outcome(command.spawn().unwrap())
}

#[test]
fn no_command_minds_an_output_that_is_closed_or_full() {
    let place = Place::new();
    let rows = place.file("rows.csv", &csv(0, 2000));
    place.file("script.sql", "SELECT * FROM t;\n.show\nSELECT 2 AS b;\n");
    place.ok(&["load", "--quiet", "--table", "t", &rows]);
    for args in COMMANDS {
        let whole = run(&place, args, None, None);
        let status = whole.status.unwrap();
        assert!(!whole.stderr.contains("panicked"), "{args:?}: {}", whole.stderr);
        for broken in [Broken::Closed, Broken::Full] {
            let case = format!("{args:?}, standard output {broken:?}");
            let ran = run(&place, args, Some(broken), None);
            assert!(!ran.stderr.contains("panicked"), "{case}: {}", ran.stderr);
            let complaints =
                ran.stderr.lines().filter(|line| line.starts_with("pelton: writing to standard output: "));
            let expected = match (whole.stdout.is_empty() || status != 0, broken) {
                (true, _) => (status, 0),
                (false, Broken::Closed) => (0, 0),
                (false, Broken::Full) => (1, 1),
            };
            assert_eq!((ran.status.unwrap(), complaints.count()), expected, "{case}: {}", ran.stderr);

            let case = format!("{args:?}, standard error {broken:?}");
            let ran = run(&place, args, None, Some(broken));
            assert_eq!(ran.status, Some(status), "{case}");
            assert_eq!(ran.stdout.is_empty(), whole.stdout.is_empty(), "{case}");
        }
        let ran = run(&place, args, Some(Broken::Full), Some(Broken::Full));
        assert!(matches!(ran.status, Some(0..=2)), "{args:?}: {ran:?}");
    }
    assert!(place.path("out.csv").exists() && place.path("p.json").exists());
    assert_eq!(place.rows("SELECT count(*) FROM u"), ["2000"]);
}
