//! `pelton load`: what it refuses, how it says so, and that it leaves no half table.

use crate::harness::{Place, csv};

/// A failed load of these files into a new table: its message; nothing is left.
fn refused(place: &Place, args: &[&str]) -> String {
    let before = place.warehouse_files();
    let args: Vec<&str> = ["load", "--table", "t"].iter().chain(args).copied().collect();
    let message = place.fails(&args);
    assert!(message.starts_with("pelton: loading 't': "), "{message}");
    assert_eq!(place.warehouse_files(), before, "{message}");
    message
}

#[test]
fn a_malformed_row_is_named_by_file_line_and_column() {
    let place = Place::new();
    let good = place.file("good.csv", "a,b\n1,x\n2,y\n");
    let mut text = csv(0, 5000);
    text.push_str("5000,1,twelve,oops\n");
    text.push_str(&csv(5001, 10)["k,g,x,t\n".len()..]);
    let bad = place.file("bad.csv", &text);
    let message = refused(&place, &["--column-types", "x=DOUBLE", &bad]);
    assert!(message.contains("bad.csv, line 5002, column 'x': 'twelve' is not a valid DOUBLE"), "{message}");
    let ragged = place.file("ragged.csv", "a,b\n1,x\n2\n");
    let message = refused(&place, &[&good, &ragged]);
    assert!(message.contains("ragged.csv, line 3: 1 fields where 2 are expected"), "{message}");
    let json = place.file("bad.json", "{\"a\": 1}\n{\"a\": \n");
    let message = refused(&place, &[&json]);
    assert!(message.contains("bad.json") && message.contains("line 2"), "{message}");
}

#[test]
fn files_that_disagree_are_named_with_the_column() {
    let place = Place::new();
    let first = place.file("first.csv", "a,b\n1,x\n");
    let second = place.file("second.csv", "a,c\n1,x\n");
    let run = place.run(&["load", "--table", "both", &first, &second]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert!(
        run.stderr.contains("warning: column 'c' is not in") && run.stderr.contains("first.csv"),
        "{}",
        run.stderr
    );
    assert_eq!(place.rows("SELECT a, b, c FROM both ORDER BY b"), ["1,x,", "1,,x"]);
    let types = place.file("types.csv", "a,b\nfive,x\n");
    let message = refused(&place, &["--column-types", "a=BIGINT", &first, &types]);
    assert!(
        message.contains("types.csv") && message.contains("'a'") && message.contains("five"),
        "{message}"
    );
    place.ok(&["load", "--quiet", "--table", "wide", &first, &types]);
    assert_eq!(place.rows("SELECT a FROM wide ORDER BY a"), ["1", "five"]);
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let place = Place::new();
    assert!(refused(&place, &["missing.csv"]).contains("no file or directory 'missing.csv'"));
    assert!(refused(&place, &["*.csv"]).contains("'*.csv'"));
    let unknown = place.file("rows.xyz", "a\n1\n");
    assert!(refused(&place, &[&unknown]).contains("rows.xyz"));
    let empty = place.file("empty.csv", "");
    assert!(refused(&place, &[&empty]).contains("empty"));
    let liar = place.file("liar.parquet", "this is not Parquet");
    assert!(refused(&place, &[&liar]).contains("liar.parquet"));
    let arrow = place.file("liar.arrow", "this is not Arrow");
    assert!(refused(&place, &[&arrow]).contains("liar.arrow"));
}

#[test]
fn a_truncated_parquet_file_is_named() {
    let place = Place::new();
    std::fs::create_dir(place.path("warehouse")).unwrap();
    let query = "SELECT v FROM generate_series(1, 50000) AS g(v)";
    place.ok(&["sql", "--format", "parquet", "--output", "whole.parquet", query]);
    let bytes = std::fs::read(place.path("whole.parquet")).unwrap();
    std::fs::write(place.path("half.parquet"), &bytes[..bytes.len() / 2]).unwrap();
    assert!(refused(&place, &["half.parquet"]).contains("half.parquet"));
    // The footer is whole, a page is not.
    let mut damaged = bytes.clone();
    let middle = damaged.len() / 3;
    damaged[middle..middle + 200].fill(0xff);
    std::fs::write(place.path("damaged.parquet"), damaged).unwrap();
    assert!(refused(&place, &["damaged.parquet"]).contains("damaged.parquet"));
}

#[test]
fn a_table_is_replaced_or_added_to_only_on_demand() {
    let place = Place::new();
    let one = place.file("one.csv", "a\n1\n");
    let two = place.file("two.csv", "a\n2\n");
    place.ok(&["load", "--quiet", "--table", "t", &one]);
    let message = refused(&place, &[&two]);
    assert!(message.contains("there is a table 't' already"), "{message}");
    assert_eq!(place.rows("SELECT a FROM t"), ["1"]);
    place.ok(&["load", "--quiet", "--table", "t", "--append", &two]);
    assert_eq!(place.rows("SELECT a FROM t ORDER BY a"), ["1", "2"]);
    place.ok(&["load", "--quiet", "--table", "t", "--replace", &two]);
    assert_eq!(place.rows("SELECT a FROM t"), ["2"]);
    let other = place.file("other.csv", "a\nx\n");
    let message = refused(&place, &["--append", &other]);
    assert!(message.contains("other.csv") && message.contains("'a'"), "{message}");
    assert_eq!(place.rows("SELECT a FROM t"), ["2"]);
}

#[test]
fn wrong_options_are_explained_before_anything_is_read() {
    let place = Place::new();
    let rows = place.file("rows.csv", "a,b\n1,2\n");
    for (args, text) in [
        (["--cluster-by", "nothing"], "'nothing'"),
        (["--star", "a=nodim.k"], "nodim"),
        (["--row-group-rows", "0"], "0 rows a row group"),
        (["--page-rows", "1000"], "1000 rows a page"),
    ] {
        let message = refused(&place, &[args[0], args[1], &rows]);
        assert!(message.contains(text), "{args:?}: {message}");
    }
    let message = place.fails(&["load", "--table", "t", "--force-codec", "zip", &rows]);
    assert!(message.contains("zip"), "{message}");
    let message = place.fails(&["load", "--table", "t", "--star", "a", &rows]);
    assert!(message.contains("fact_column=dimension.key"), "{message}");
    let message = place.fails(&["load", "--table", "../t", &rows]);
    assert!(message.contains("cannot name a table"), "{message}");
}

#[test]
fn dialects_of_csv_are_read() {
    let place = Place::new();
    let semicolons = place.file("semi.csv", "1;\"a;b\";NA\n2;c;7\n");
    place.ok(&[
        "load",
        "--quiet",
        "--table",
        "s",
        "--delimiter",
        ";",
        "--no-header",
        "--null",
        "NA",
        &semicolons,
    ]);
    assert_eq!(place.rows("SELECT * FROM s ORDER BY 1"), ["1,a;b,", "2,c,7"]);
    let tabs = place.file("tabs.tsv", "a\tb\n1\tx\n");
    place.ok(&["load", "--quiet", "--table", "u", &tabs]);
    assert_eq!(place.rows("SELECT * FROM u"), ["1,x"]);
}

#[test]
fn a_table_for_every_purpose_gives_the_same_and_that_for_the_archive_is_smallest() {
    let place = Place::new();
    let mut rows = String::from("k,url,title,kind\n");
    for row in 0..40_000_u64 {
        let random = row.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        let kind = ["view", "click", ""][random as usize % 3];
        let page = random % 9973;
        rows.push_str(&format!(
            "{row},https://www.example.com/catalogue/{page}?session={row:x},\"Ünïcode, page {page}\",{kind}\n"
        ));
    }
    let rows = place.file("rows.csv", &rows);
    let load = |table: &str, options: &[&str]| {
        place.ok(&[&["load", "--quiet", "--threads", "1", "--table", table, &rows], options].concat());
    };
    let bytes_of = |table: &str| {
        let files = std::fs::read_dir(place.path("warehouse").join(table)).unwrap().map(Result::unwrap);
        let data = files.filter(|file| file.file_name().to_string_lossy().starts_with("data-"));
        data.map(|file| file.metadata().unwrap().len()).sum::<u64>()
    };
    let answers = |table: &str| {
        let of_texts = "sum(length(url)), min(url), max(title), count(distinct title), sum(length(kind))";
        place.rows(&format!(
            "SELECT count(*), {of_texts} FROM {table} WHERE url LIKE '%/77%?session=%' AND kind <> 'view'"
        ))
    };
    load("plain", &["--force-codec", "none"]);
    let (expected, plain_bytes) = (answers("plain"), bytes_of("plain"));
    for purpose in ["auto", "gpu", "cpu", "archive"] {
        load(purpose, &["--for", purpose]);
        assert_eq!(answers(purpose), expected, "{purpose}");
    }
    let archive = bytes_of("archive");
    for purpose in ["auto", "gpu", "cpu"] {
        assert!(archive <= bytes_of(purpose), "{purpose}: {archive} against {}", bytes_of(purpose));
    }
    assert!(bytes_of("gpu") <= plain_bytes, "{} against {plain_bytes}", bytes_of("gpu"));

    let encodings = place.ok(&["inspect", "gpu"]);
    assert!(encodings.contains("fsst+plain"), "{encodings}");
    for codec in ["lz4", "zstd", "snappy", "deflate"] {
        assert!(!encodings.contains(codec), "{codec}: {encodings}");
    }
    load("forced", &["--force-encoding", "fsst+plain", "--force-codec", "none"]);
    assert_eq!(answers("forced"), expected);
    assert!(place.ok(&["inspect", "forced"]).contains("fsst+plain"));
    let message = place.fails(&["load", "--table", "t", "--force-encoding", "fsst", &rows]);
    assert!(message.contains("no encoding 'fsst'"), "{message}");
    for also in [
        ["--objective", "smallest"],
        ["--force-codec", "none"],
        ["--force-encoding", "plain"],
        ["--storage-rate", "2GB"],
    ] {
        let run = place.run(&["load", "--table", "t", "--for", "gpu", also[0], also[1], &rows]);
        assert_eq!(run.status, Some(2), "{also:?}");
        assert!(run.stderr.contains("--for") && run.stderr.contains(also[0]), "{}", run.stderr);
    }
}
