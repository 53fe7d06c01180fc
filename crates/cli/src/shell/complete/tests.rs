//! What Tab offers at a cursor, which the cases draw as a bar.

use super::*;

struct Fake;

impl Names for Fake {
    fn tables(&self) -> Vec<String> {
        ["customer", "lineorder", "Trips 2024"].map(str::to_owned).to_vec()
    }

    fn columns(&self, table: &str) -> Vec<String> {
        let columns: &[&str] = match table {
            "customer" => &["c_custkey", "c_name", "c_nation"],
            "lineorder" => &["lo_custkey", "lo_revenue", "order"],
            "Trips 2024" => &["VendorID"],
            "data/x.parquet" => &["from_file"],
            _ => &[],
        };
        columns.iter().map(|column| (*column).to_owned()).collect()
    }

    fn functions(&self) -> Vec<String> {
        ["sum", "substr", "+"].map(str::to_owned).to_vec()
    }
}

/// The bar is the cursor.
fn check(line: &str, expected: &[&str]) {
    let position = line.find('|').unwrap();
    let line = line.replacen('|', "", 1);
    assert_eq!(complete(&line, position, &Fake).1, expected, "{line}");
}

#[test]
fn tables_come_after_from_and_join() {
    let all = ["\"Trips 2024\"", "customer", "lineorder"];
    check("SELECT * FROM |", &all);
    check("SELECT * FROM customer JOIN li|", &["lineorder"]);
    check("SELECT a, b FROM customer, |", &all);
    check(
        "SELECT (SELECT max(x, y) FROM customer), c|",
        &[
            "c_custkey",
            "c_name",
            "c_nation",
            "case",
            "cast",
            "copy",
            "create",
            "cross",
            "csv",
            "cube",
            "current_date",
            "current_timestamp",
            "customer",
        ],
    );
    check("DESCRIBE cu|", &["customer"]);
    check("SELECT 1; SELECT * FROM lin|; SELECT 2", &["lineorder"]);
    check("SELECT * FROM tr|", &["\"Trips 2024\""]);
}

#[test]
fn columns_come_after_a_table_or_its_alias() {
    check("SELECT c.| FROM customer AS c", &["c_custkey", "c_name", "c_nation"]);
    check("SELECT c.c_na| FROM lineorder l, customer c", &["c_name", "c_nation"]);
    check("SELECT customer.c_c|", &["c_custkey"]);
    check("SELECT l.o| FROM lineorder l", &["\"order\""]);
    check("SELECT x.| FROM customer c", &[]);
}

#[test]
fn columns_of_the_tables_that_are_read_are_offered() {
    check("SELECT c_na| FROM customer", &["c_name", "c_nation"]);
    check("SELECT lo_r| FROM customer", &[]);
    check("SELECT lo_r|", &["lo_revenue"]);
    check("SELECT v| FROM \"Trips 2024\"", &["\"VendorID\"", "values", "varchar", "verbose", "view"]);
    check("SELECT from_f| FROM 'data/x.parquet'", &["from_file"]);
}

#[test]
fn keywords_follow_the_case_they_are_typed_in() {
    check("SEL|", &["SELECT"]);
    check("sel|", &["select"]);
    check("SELECT su|", &["substr", "sum"]);
}

#[test]
fn names_of_with_are_tables() {
    check("WITH recent AS (SELECT 1), older AS (SELECT 2) SELECT * FROM rec|", &["recent"]);
}

#[test]
fn nothing_is_offered_inside_of_a_finished_string_or_before_a_number() {
    check("SELECT 'abc'|", &[]);
    check("SELECT 12|", &[]);
}

#[test]
fn files_come_inside_of_quotes() {
    let place = tempfile::tempdir().unwrap();
    std::fs::create_dir(place.path().join("data")).unwrap();
    std::fs::write(place.path().join("data.csv"), "").unwrap();
    std::fs::write(place.path().join(".hidden"), "").unwrap();
    let line = format!("SELECT * FROM '{}/da", place.path().display());
    let (start, offered) = complete(&line, line.len(), &Fake);
    assert_eq!((start, offered), (line.len() - 2, vec!["data.csv".to_owned(), "data/".to_owned()]));
    let line = format!("SELECT * FROM '{}/", place.path().display());
    assert_eq!(complete(&line, line.len(), &Fake).1.len(), 2);
}

#[test]
fn quotes_stand_where_a_name_needs_them() {
    for (name, expected) in
        [("a_1", "a_1"), ("A", "\"A\""), ("1a", "\"1a\""), ("a b", "\"a b\""), ("x\"y", "\"x\"\"y\"")]
    {
        assert_eq!(quoted(name), expected);
    }
    assert_eq!(quoted("order"), "\"order\"");
}
