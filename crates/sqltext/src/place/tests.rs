//! DataFusion's messages, as version 55 writes them, beside what is made of them.

use super::*;

/// The message, the text under the carets, the suggestion.
fn check(message: &str, sql: &str, expected: (&str, Option<&str>, Option<&str>)) {
    let tables = ["customer".to_owned(), "lineorder".to_owned()];
    let found = complaint(message, sql, &tables);
    let place = found.place.map(|place| &sql[place]);
    assert_eq!((found.message.as_str(), place, found.suggestion.as_deref()), expected, "{message}");
}

#[test]
fn syntax_errors_point_at_the_token() {
    check(
        "SQL error: ParserError(\"Expected: an expression, found: FROM at Line: 2, Column: 1\")",
        "SELECT\nFROM t",
        ("syntax error: expected an expression, found FROM", Some("FROM"), None),
    );
    check(
        "SQL error: ParserError(\"Expected: ), found: 'x' at Line: 1, Column: 12\")",
        "SELECT 'ä' 'x'",
        ("syntax error: expected ), found 'x'", Some("'x'"), None),
    );
}

#[test]
fn pelton_s_own_places_are_shown_as_places() {
    check(
        "the statement nests too deep: more than 9 levels; name inner queries in WITH at Line: 2, Column: 2",
        "SELECT\n((1))",
        ("the statement nests too deep: more than 9 levels; name inner queries in WITH", Some("("), None),
    );
}

#[test]
fn a_statement_that_ends_too_early_is_marked_at_its_end() {
    check(
        "SQL error: ParserError(\"Expected: an expression, found: EOF\")",
        "SELECT 1 + \n",
        ("syntax error: expected an expression, but the statement ends", Some(""), None),
    );
}

#[test]
fn a_place_outside_of_the_text_is_its_end_and_not_a_panic() {
    let message = "SQL error: ParserError(\"Expected: x, found: y at Line: 9, Column: 9\")";
    check(message, "SELECT", ("syntax error: expected x, found y", Some(""), None));
    let message = "SQL error: ParserError(\"Expected: x, found: y at Line: 0, Column: 0\")";
    check(message, "SELECT", ("syntax error: expected x, found y", None, None));
}

#[test]
fn a_missing_column_is_found_and_its_neighbour_offered() {
    let fields = "\nValid fields are customer.c_custkey, customer.c_name, customer.c_city.";
    check(
        &format!("Schema error: No field named c_nam. Did you mean 'customer.c_name'?{fields}"),
        "SELECT 'c_nam', c_nam -- c_nam\nFROM customer",
        ("no column c_nam", Some("c_nam"), Some("c_name")),
    );
    check(
        &format!("Schema error: No field named c.c_nam.{fields}"),
        "SELECT c . c_nam, c.c_nam FROM customer AS c",
        ("no column c.c_nam", Some("c . c_nam"), Some("c.c_name")),
    );
    check(
        &format!("Schema error: No field named revenue.{fields}"),
        "SELECT Revenue FROM customer",
        (
            "no column revenue; there are customer.c_custkey, customer.c_name, customer.c_city",
            Some("Revenue"),
            None,
        ),
    );
}

#[test]
fn names_that_need_quotes_are_offered_with_them() {
    check(
        "Schema error: No field named vendorid.\nColumn names are case sensitive. You can use double quotes to refer \
         to the t.\"VendorID\" column.\nValid fields are t.\"VendorID\", t.x.",
        "SELECT VendorID FROM t",
        ("no column vendorid", Some("VendorID"), Some("\"VendorID\"")),
    );
}

#[test]
fn text_in_double_quotes_is_offered_in_single_ones() {
    check(
        "Schema error: No field named \"FRANCE\".\nValid fields are n.n_name, n.n_nationkey.",
        "SELECT 1 FROM n WHERE n_name = \"FRANCE\"",
        ("no column \"FRANCE\"", Some("\"FRANCE\""), Some("the text 'FRANCE', in single quotes")),
    );
    check(
        "Schema error: No field named paid. Did you mean 'n.id'?\nValid fields are n.id, n.name.",
        "SELECT 1 FROM n WHERE name = \"paid\"",
        ("no column paid", Some("\"paid\""), Some("the text 'paid', in single quotes")),
    );
}

#[test]
fn a_table_with_capitals_is_offered_in_quotes() {
    let found = complaint("table 'pelton.public.mixed' not found", "SELECT 1 FROM Mixed", &["Mixed".into()]);
    assert_eq!(found.suggestion.as_deref(), Some("\"Mixed\""));
}

#[test]
fn columns_of_one_name_in_two_tables_are_offered_with_their_table() {
    check(
        "Schema error: No field named kye.\nValid fields are a.key, b.key.",
        "SELECT kye FROM a, b",
        ("no column kye", Some("kye"), Some("a.key")),
    );
    check(
        "Schema error: No field named kye.\nValid fields are a.key, a.key.",
        "SELECT key FROM a ORDER BY kye",
        ("no column kye", Some("kye"), Some("key")),
    );
}

#[test]
fn a_missing_table_is_found_after_from() {
    check(
        "Error during planning: table 'pelton.public.linorder' not found; tables in this warehouse: a, b",
        "SELECT linorder FROM linorder",
        ("table 'linorder' not found; tables in this warehouse: a, b", Some("linorder"), Some("lineorder")),
    );
    let found = complaint("table 'pelton.public.x' not found", "SELECT x FROM customer JOIN x ON true", &[]);
    assert_eq!(found.place, Some(28..29));
    check(
        "table 'pelton.public.sales' not found; tables in this warehouse: a, b",
        "SELECT 1 FROM sales",
        ("table 'sales' not found; tables in this warehouse: a, b", Some("sales"), None),
    );
}

#[test]
fn where_files_are_not_queried_that_is_said() {
    check(
        "Error during planning: table 'pelton.public.a.csv' not found; files are not queried here, tables are",
        "SELECT * FROM 'a.csv'",
        ("no table 'a.csv'; files are not queried here, tables are", Some("'a.csv'"), None),
    );
}

#[test]
fn a_file_without_quotes_is_offered_with_them() {
    check(
        "table 'pelton.sales.csv' not found; tables in this warehouse: a, b",
        "SELECT 1 FROM sales.csv",
        (
            "table 'sales.csv' not found; tables in this warehouse: a, b",
            Some("sales.csv"),
            Some("the file 'sales.csv', in single quotes"),
        ),
    );
}

#[test]
fn a_missing_file_is_found_in_its_quotes() {
    check(
        "Error during planning: table 'pelton.public.data/x.parquet' not found; tables in this warehouse: a",
        "SELECT * FROM 'data/x.parquet'",
        ("there is no file 'data/x.parquet'", Some("'data/x.parquet'"), None),
    );
}

#[test]
fn wrong_arguments_are_found_at_the_function() {
    check(
        "Error during planning: Internal error: Function 'substr' failed. No function matches the given name and \
         argument types 'substr(Int64)'. You might need to add explicit type casts.\n\tCandidate functions:\n\t\
         substr(str: String)\n\tsubstr(str: String, start: Int64)",
        "SELECT substr, Substr(1)",
        (
            "no function takes substr(Int64); there are substr(str: String), substr(str: String, start: Int64)",
            Some("Substr"),
            None,
        ),
    );
}

#[test]
fn a_string_that_is_no_number_is_found() {
    check(
        "Optimizer rule 'simplify_expressions' failed: Arrow error: Cast error: Cannot cast string 'x' to value of \
         Int32 type",
        "SELECT x, CAST('x' AS INT)",
        ("Cannot cast string 'x' to value of Int32 type", Some("'x'"), None),
    );
    check(
        "Arrow error: Cast error: Cannot cast string 'from a row' to value of Int32 type",
        "SELECT CAST(x AS INT) FROM t",
        ("Cannot cast string 'from a row' to value of Int32 type", None, None),
    );
}

#[test]
fn values_are_found_that_a_message_repeats() {
    check(
        "Arrow error: Parser error: Error parsing timestamp from '2024-02-30': error parsing date",
        "SELECT 1, TIMESTAMP '2024-02-30'",
        ("Error parsing timestamp from '2024-02-30': error parsing date", Some("'2024-02-30'"), None),
    );
    check(
        "Parser error: Invalid input syntax for type interval: \"1 foo\"",
        "SELECT INTERVAL '1 foo'",
        ("Invalid input syntax for type interval: \"1 foo\"", Some("'1 foo'"), None),
    );
    check(
        "Arrow error: Cast error: Can't cast value 300 to type Int8",
        "SELECT 30, CAST(300 AS TINYINT)",
        ("Can't cast value 300 to type Int8", Some("300"), None),
    );
    check(
        "Arrow error: Invalid argument error: -12345.0 is too large to store in a Decimal128 of precision 3. Max is 99.9",
        "SELECT CAST(-12345 AS DECIMAL(3,1))",
        ("-12345.0 is too large to store in a Decimal128 of precision 3. Max is 99.9", Some("12345"), None),
    );
    check(
        "Date part 'foo' not supported",
        "SELECT extract(foo FROM d)",
        ("Date part 'foo' not supported", Some("foo"), None),
    );
    let unsupported = "This feature is not implemented: Unsupported SQL type FOO";
    check(unsupported, "SELECT CAST(1 AS foo)", (unsupported, Some("foo"), None));
}

#[test]
fn a_division_by_zero_is_found_where_only_one_can_be_it() {
    let message = "Divide by zero error";
    for (sql, place) in [
        ("SELECT a / b, 1 / 0", Some("1 / 0")),
        ("SELECT 7 % 0.0", Some("7 % 0.0")),
        ("SELECT 1 / (a - 3) FROM t", Some("1 / (")),
        ("SELECT a / b, b / a FROM t", None),
    ] {
        check("Arrow error: Divide by zero error", sql, (message, place, None));
    }
}

#[test]
fn operands_that_do_not_fit_are_found_by_their_operator() {
    check(
        "Error during planning: Cannot coerce arithmetic expression Int64 + Utf8 to valid types",
        "SELECT a + b, 1 + 'x'",
        ("no operator + takes Int64 and Utf8; cast one of them", Some("1 + 'x'"), None),
    );
}

#[test]
fn a_missing_function_is_found_before_its_parenthesis() {
    check(
        "Error during planning: Invalid function 'foo'.\nDid you mean 'pow'?",
        "SELECT foo(1)",
        ("no function 'foo'", Some("foo"), None),
    );
    check(
        "Error during planning: Invalid function 'summ'.\nDid you mean 'sum'?",
        "SELECT summ, Summ (x) FROM t",
        ("no function 'summ'", Some("Summ"), Some("sum")),
    );
    check(
        "Error during planning: table function 'ranges' not found",
        "SELECT * FROM ranges(3)",
        ("no function 'ranges'", Some("ranges"), None),
    );
}

#[test]
fn an_ambiguous_column_is_found() {
    check(
        "Schema error: Ambiguous reference to unqualified field k",
        "SELECT a.k, k FROM a, b",
        ("column k is in more than one table; write table.k", Some("k"), None),
    );
}

#[test]
fn a_column_that_is_not_grouped_is_found() {
    check(
        "Error during planning: Column in SELECT must be in GROUP BY or an aggregate function: While expanding \
         wildcard, column \"t.x\" must appear in the GROUP BY clause or must be part of an aggregate function, \
         currently only \"count(Int64(1))\" appears in the SELECT clause satisfies this requirement",
        "SELECT x, count(*) FROM t",
        ("column t.x must be in GROUP BY or inside of an aggregate function", Some("x"), None),
    );
}

#[test]
fn other_errors_keep_their_text() {
    check("Arrow error: Divide by zero error", "SELECT 1", ("Divide by zero error", None, None));
    check("", "", ("", None, None));
}
