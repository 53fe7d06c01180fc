//! Texts as keys that are chosen between columns, or computed by what kernels do not have.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::physical_plan::displayable;
use pelton_engine::{Query, RuntimeOptions, SessionOptions};

use crate::common::{Tables, run};
use crate::{assert_same_rows, device_nodes, fallbacks, on_host};

/// More than the texts of small tables are made a dictionary of at once.
const ROWS: i64 = 9000;
/// More than any dictionary is made of.
const MANY_ROWS: i64 = (1 << 18) + 7;

/// `few` and `maybe` have a dictionary, `many` and `other` have none; some texts of `few` and `maybe` are texts of `many`.
fn tables(rows: i64) -> Tables {
    let many = |row: i64| match row % 9 {
        0 => format!("few {}", row % 7),
        1 => String::new(),
        _ => format!(
            "http{}://www.host{}.org/page/{}?q={row}",
            if row % 2 == 0 { "" } else { "s" },
            row % 17,
            row / 3
        ),
    };
    let texts = |text: &dyn Fn(i64) -> Option<String>| -> ArrayRef {
        Arc::new((0..rows).map(text).collect::<StringArray>())
    };
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("n", Arc::new(Int64Array::from_iter_values((0..rows).map(|row| row * 7919 % 101)))),
        ("few", texts(&|row| Some(format!("few {}", row % 7)))),
        ("maybe", texts(&|row| (row % 5 > 0).then(|| format!("few {}", row % 11)))),
        ("many", texts(&|row| Some(many(row)))),
        ("other", texts(&|row| (row % 4 > 0).then(|| many(row * 31 % rows)))),
    ];
    let tables = Tables::new();
    let columns = columns.into_iter().map(|(name, column)| (name, column, true));
    tables.add(
        "t",
        RecordBatch::try_from_iter_with_nullable(columns).unwrap(),
        if rows == ROWS { 2500 } else { 60_000 },
        vec![],
    );
    tables
}

/// What is grouped by, and the keys.
const CHOSEN: [&str; 9] = [
    "CASE WHEN n % 3 = 0 THEN few ELSE '' END",
    "CASE WHEN n % 3 = 0 THEN maybe WHEN n % 3 = 1 THEN 'few 3' END",
    "CASE WHEN n % 2 = 0 THEN few ELSE maybe END",
    "CASE WHEN n % 2 = 0 THEN many ELSE few END",
    "CASE WHEN n % 3 = 0 THEN other WHEN n % 3 = 1 THEN many ELSE maybe END",
    "CASE n % 4 WHEN 0 THEN maybe WHEN 1 THEN few WHEN 2 THEN 'few 1' ELSE other END",
    "coalesce(maybe, few)",
    "coalesce(other, maybe, 'none')",
    "CASE WHEN n < 0 THEN few ELSE maybe END",
];

async fn check(tables: &Tables, options: &SessionOptions, sql: &str) -> Query {
    let session = tables.session(options);
    let (actual, ran) = run(&session, sql).await;
    assert_same_rows(&actual, &tables.expected(sql).await, sql);
    assert!(fallbacks(&ran).is_empty(), "{sql}: {:?}", fallbacks(&ran));
    ran
}

fn plan_of(query: &Query) -> String {
    displayable(query.physical_plan().as_ref()).indent(true).to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_are_chosen_between_columns_with_and_without_dictionaries() {
    let tables = tables(ROWS);
    for key in CHOSEN {
        let sql = format!("SELECT {key} AS k, count(*), sum(n) FROM t GROUP BY k");
        let ran = check(&tables, &on_host(), &sql).await;
        assert!(ran.physical_plan().name() == "PeltonGpuExec" || device_nodes(&ran).len() == 1, "{sql}");
        assert!(!plan_of(&ran).contains("AggregateExec"), "{sql}: {}", plan_of(&ran));
    }
    let sql = "SELECT few, CASE WHEN n % 2 = 0 THEN many ELSE maybe END AS k, min(n), count(*) FROM t WHERE n < 40 GROUP BY 1, 2";
    let ran = check(&tables, &on_host(), sql).await;
    assert!(!plan_of(&ran).contains("AggregateExec"), "{}", plan_of(&ran));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chosen_texts_are_counted_and_compared() {
    let tables = tables(ROWS);
    for sql in [
        "SELECT count(DISTINCT CASE WHEN n % 2 = 0 THEN many ELSE few END) FROM t",
        "SELECT n % 7, count(DISTINCT CASE WHEN n % 3 = 0 THEN maybe WHEN n % 3 = 1 THEN few END) FROM t GROUP BY 1",
        "SELECT count(*) FROM t WHERE CASE WHEN n % 2 = 0 THEN few ELSE maybe END = few",
        "SELECT DISTINCT CASE WHEN n % 2 = 0 THEN other ELSE maybe END FROM t",
        "SELECT CASE WHEN n % 2 = 0 THEN few ELSE many END AS k, count(*) FROM t WHERE n > 1000 GROUP BY k",
    ] {
        check(&tables, &on_host(), sql).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_by_a_chosen_text_are_joined_with_a_table_of_texts() {
    let tables = tables(ROWS);
    let names: ArrayRef = Arc::new((0..9).map(|row| Some(format!("few {row}"))).collect::<StringArray>());
    tables.add("names", RecordBatch::try_from_iter([("name", names)]).unwrap(), 100, vec![]);
    let sql = "SELECT name, c FROM (SELECT CASE WHEN n % 2 = 0 THEN many ELSE few END AS k, count(*) AS c FROM t GROUP BY 1) g \
         JOIN names ON k = name";
    let ran = check(&tables, &on_host(), sql).await;
    assert!(!plan_of(&ran).contains("HashJoinExec"), "{}", plan_of(&ran));
}

/// Functions of texts that kernels do not compute: their groups are made of groups by the text.
const COMPUTED: [&str; 5] = [
    "SELECT regexp_replace(many, '^https?://(?:www\\.)?([^/]+)/.*', '\\1') AS k, avg(length(many)) AS l, count(*) AS c, \
     min(many) FROM t WHERE many <> '' GROUP BY k HAVING count(*) > 3",
    "SELECT upper(other) AS k, count(*), count(other), sum(n), max(n) FROM t GROUP BY k",
    "SELECT reverse(many) AS k, substr(many, 1, 40) AS s, n % 3 AS m, count(*) FROM t GROUP BY k, s, m",
    "SELECT regexp_replace(other, '[0-9]+', '', 'g') AS k, few, count(*), sum(n) FROM t GROUP BY k, few",
    "SELECT regexp_replace(many, '.*', 'x') AS k, count(*), avg(n) FROM t WHERE n > 1000 GROUP BY k",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_by_what_kernels_lack_are_groups_of_groups() {
    let tables = tables(MANY_ROWS);
    for sql in COMPUTED {
        let ran = check(&tables, &on_host(), sql).await;
        let plan = plan_of(&ran);
        assert!(plan.contains("mode=FinalPartitioned") && !plan.contains("mode=Partial"), "{sql}: {plan}");
        assert_eq!(device_nodes(&ran).len(), 1, "{sql}: {plan}");
    }
    let three = RuntimeOptions { more_devices: vec![1, 2], row_groups_max: 1, ..on_host().runtime };
    check(&tables, &SessionOptions { runtime: three, ..on_host() }, COMPUTED[0]).await;
}

/// Parts that a pattern takes out of texts, which kernels do.
const EXTRACTED: [&str; 7] = [
    "SELECT regexp_replace(many, '^https?://(?:www\\.)?([^/]+)/.*$', '\\1') AS k, avg(length(many)) AS l, count(*) AS c, \
     min(many) FROM t WHERE many <> '' GROUP BY k HAVING count(*) > 3",
    "SELECT regexp_replace(other, '^https?://(?:www\\.)?([^/]+)/.*$', '\\1') AS k, few, count(*), count(other), sum(n) \
     FROM t GROUP BY k, few",
    "SELECT regexp_replace(other, '^(few )?[0-9]*$', '\\1') AS k, count(*) FROM t GROUP BY k HAVING count(*) > 1000",
    "SELECT regexp_replace(other, '^(?:few )?([0-9]*)$', '\\1') AS k, regexp_replace(many, '^http(s?)://.*$', '\\1') AS m, \
     count(*) FROM t WHERE n < 3 GROUP BY k, m",
    "SELECT n % 5, count(DISTINCT regexp_replace(many, '^https?://(?:www\\.)?([^/]+)/.*$', '\\1')) FROM t GROUP BY 1",
    "SELECT count(*), sum(length(regexp_replace(many, '^(https?)://.*$', '\\1'))) FROM t \
     WHERE regexp_replace(other, '^https?://www\\.([^/]+)/.*$', '\\1') = 'host3.org'",
    "SELECT count(*) FROM t WHERE regexp_replace(other, '^(.*)page.*$', '\\1') <> \
     regexp_replace(many, '^(https?)://.*$', '\\1')",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parts_that_a_pattern_takes_out_are_keys_on_the_device() {
    let tables = tables(MANY_ROWS);
    for sql in EXTRACTED {
        // A part that may be left out is none, and one that ends at a text within itself is not found in one pass.
        let is_taken = !sql.contains("(few )?") && !sql.contains("(.*)page");
        let ran = check(&tables, &on_host(), sql).await;
        let is_on_device = !plan_of(&ran).contains("AggregateExec");
        assert_eq!(is_on_device, is_taken, "{sql}: {}", plan_of(&ran));
    }
    let three = RuntimeOptions { more_devices: vec![1, 2], row_groups_max: 1, ..on_host().runtime };
    check(&tables, &SessionOptions { runtime: three, ..on_host() }, EXTRACTED[0]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_few_rows_a_dictionary_is_made_and_kernels_look_up_what_they_lack() {
    let tables = tables(ROWS);
    for sql in COMPUTED {
        let ran = check(&tables, &on_host(), sql).await;
        assert!(!plan_of(&ran).contains("AggregateExec"), "{sql}: {}", plan_of(&ran));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn so_they_are_on_three_devices_and_where_memory_is_short() {
    let tables = tables(ROWS);
    let runtime = on_host().runtime;
    for runtime in [
        RuntimeOptions { more_devices: vec![1, 2], row_groups_max: 1, ..runtime.clone() },
        RuntimeOptions { first_rows: Some(1), row_groups_max: 1, ..runtime.clone() },
    ] {
        let options = SessionOptions { runtime, ..on_host() };
        for key in [CHOSEN[3], CHOSEN[4]] {
            check(&tables, &options, &format!("SELECT {key} AS k, count(*), sum(n) FROM t GROUP BY k")).await;
        }
        check(&tables, &options, COMPUTED[0]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_function_of_chance_is_asked_for_each_row() {
    let tables = tables(ROWS);
    let session = tables.session(&on_host());
    // Of 9000 rows with one text, nearly all have a key of their own.
    let sql = "SELECT count(*) FROM (SELECT concat(few, CAST(random() AS VARCHAR)) AS k FROM t GROUP BY k)";
    let (actual, _) = run(&session, sql).await;
    let groups: i64 = actual.lines().nth(3).unwrap().trim_matches(['|', ' ']).parse().unwrap();
    assert!(groups > 8900, "{actual}");
}
