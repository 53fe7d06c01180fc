//! Plans of the CPU are made once for many queries of one text, and every query gets the answer of now.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use datafusion::physical_plan::{ExecutionPlan, displayable};
use pelton_engine::{DeviceChoice, PeltonSession, SessionOptions};
use pelton_store::Warehouse;

use crate::common::{Tables, integers, run};

/// Joins whose filters go to scans, a top-k whose filter does, groups and an order.
const TOP: &str = "SELECT name, region, sum(value) AS total FROM facts JOIN d1 ON f1 = d1.id JOIN d2 ON f2 = d2.id \
                   JOIN d3 ON f3 = d3.id JOIN d4 ON f4 = d4.id WHERE d1.grade < 40 AND d2.grade > 20 AND d3.grade <> 7 \
                   GROUP BY name, region ORDER BY total DESC, name, region LIMIT 20";
const TEXTS: [&str; 13] = [
    TOP,
    "SELECT row, value FROM facts ORDER BY value DESC, row LIMIT 7",
    "SELECT f1, count(*) FROM facts WHERE f2 IN (SELECT id FROM d2 WHERE grade = 3) GROUP BY f1 ORDER BY f1",
    "SELECT count(*) FROM facts WHERE NOT EXISTS (SELECT 1 FROM d1 WHERE d1.id = f1 AND d1.grade > 5)",
    "SELECT row FROM facts WHERE value > (SELECT avg(value) FROM facts) ORDER BY row LIMIT 50",
    "SELECT f1, row, row_number() OVER (PARTITION BY f1 ORDER BY value, row) AS place FROM facts ORDER BY row LIMIT 90",
    "SELECT f1 FROM facts WHERE value > 900 UNION ALL SELECT id FROM d1 WHERE grade > 90 ORDER BY 1",
    "SELECT count(*) FROM d1 a JOIN d2 b ON a.grade < b.grade",
    "SELECT count(*), sum(a.grade) FROM d1 a, d2 b WHERE a.id = 3",
    "SELECT name, max(value) FROM facts LEFT JOIN d1 ON f1 = id AND grade > 50 GROUP BY name ORDER BY name",
    "SELECT min(value), max(row) FROM facts WHERE f3 > 10",
    "SELECT min(value) FROM facts WHERE f3 > 10",
    "SELECT a.row, b.row FROM facts a JOIN facts b ON a.value = b.value AND a.row < b.row ORDER BY 1, 2 LIMIT 11",
];

/// Plans of other shapes, some of which are kept as logical plans alone: results of scalar subqueries wherever expressions
/// may be, joins of all kinds, sets, grouping sets, recursion.
const OTHERS: [&str; 18] = [
    "SELECT row, count(*) FILTER (WHERE value > (SELECT avg(value) FROM facts)) OVER (PARTITION BY f1 ORDER BY row) \
     AS c FROM facts ORDER BY row LIMIT 60",
    "SELECT row, value - (SELECT max(grade) FROM d1) AS x, sum(value) OVER (PARTITION BY f2) AS s FROM facts \
     ORDER BY row LIMIT 60",
    "SELECT f1, sum(value) FILTER (WHERE value < (SELECT avg(grade) FROM d2)) AS s FROM facts GROUP BY f1 ORDER BY f1",
    "SELECT f1, sum(value) AS s FROM facts GROUP BY f1 HAVING sum(value) > (SELECT sum(value) / 110 FROM facts) \
     ORDER BY f1",
    "SELECT count(*) FROM facts JOIN d1 ON f1 = id AND value + grade > (SELECT avg(value) FROM facts)",
    "SELECT count(*) FROM facts LEFT JOIN d1 ON f1 = id AND value > grade + (SELECT min(grade) FROM d3)",
    "SELECT row FROM facts ORDER BY abs(value - (SELECT avg(value) FROM facts)), row LIMIT 9",
    "SELECT row, (SELECT max(grade) FROM d1 WHERE id = f1) AS g FROM facts ORDER BY row LIMIT 30",
    "SELECT count(*) FROM facts WHERE value > (SELECT avg(value) FROM facts WHERE value < (SELECT max(grade) FROM d1))",
    "SELECT count(*), sum(id) FROM d1 FULL JOIN facts ON id = f1 AND grade > 70",
    "SELECT count(*) FROM facts WHERE f1 NOT IN (SELECT id FROM d1 WHERE grade < 30)",
    "SELECT f1 FROM facts INTERSECT SELECT id FROM d1 WHERE grade > 60 ORDER BY 1",
    "SELECT f1 FROM facts EXCEPT SELECT id FROM d1 WHERE grade > 60 ORDER BY 1",
    "SELECT f1, f2, count(*) FROM facts WHERE f1 < 5 GROUP BY GROUPING SETS ((f1), (f2), ()) ORDER BY f1, f2",
    "SELECT count(DISTINCT f1), count(DISTINCT f2), avg(DISTINCT value) FROM facts",
    "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 9) SELECT sum(value) FROM facts \
     JOIN n ON f1 = i",
    "SELECT d1.name, d2.grade, max(value) FROM facts JOIN d1 ON f1 = d1.id JOIN d2 ON f2 = d2.id AND f1 = d2.id \
     GROUP BY 1, 2 ORDER BY 1, 2",
    "SELECT a.row FROM (SELECT row, f1 FROM facts ORDER BY value DESC, row LIMIT 40) a JOIN d1 ON a.f1 = d1.id \
     ORDER BY a.row LIMIT 5",
];

fn cpu() -> SessionOptions {
    SessionOptions { threads: Some(4), device: DeviceChoice::Cpu, ..SessionOptions::default() }
}

fn facts(rows: i64, seed: i64) -> arrow::array::RecordBatch {
    let drawn = |by: i64, of: i64| (0..rows).map(|row| (row * by + row / 7 * seed + seed) % of).collect();
    integers(&[
        ("row", (0..rows).collect()),
        ("f1", drawn(17, 100)),
        ("f2", drawn(29, 90)),
        ("f3", drawn(31, 80)),
        ("f4", drawn(37, 70)),
        ("value", drawn(7919, 1000)),
    ])
}

fn tables() -> Tables {
    let tables = Tables::new();
    tables.add("facts", facts(6000, 1), 500, vec![]);
    for (name, rows) in [("d1", 100), ("d2", 90), ("d3", 80), ("d4", 70)] {
        let columns = match name {
            "d1" => vec![("name", (0..rows).map(|id| id % 9).collect())],
            "d4" => vec![("region", (0..rows).map(|id| id % 5).collect())],
            _ => vec![],
        };
        let own: [(&str, Vec<i64>); 2] =
            [("id", (0..rows).collect()), ("grade", (0..rows).map(|id| id * 53 % 100).collect())];
        let columns: Vec<(&str, Vec<i64>)> = own.into_iter().chain(columns).collect();
        tables.add(name, integers(&columns), 64, vec![]);
    }
    tables
}

async fn assert_right(session: &PeltonSession, tables: &Tables, text: &str) {
    let (actual, _) = run(session, text).await;
    assert_eq!(actual, tables.expected(text).await, "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_text_gives_the_right_answer_every_time_that_its_plan_is_reused() {
    let tables = tables();
    let session = tables.session(&cpu());
    for text in TEXTS {
        let expected = tables.expected(text).await;
        for time in 0..12 {
            let (actual, query) = run(&session, text).await;
            assert_eq!(actual, expected, "{text}, time {time}");
            // The bound that a total of one call gives to a scan is not made anew.
            let is_copied = time > 0 && !text.starts_with("SELECT min(value) FROM");
            assert_eq!(query.has_cached_plan(), is_copied, "{text}, time {time}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn plans_of_all_shapes_give_the_right_answer_every_time() {
    let tables = tables();
    for options in [cpu(), SessionOptions { memory_limit_bytes: Some(64 << 20), ..cpu() }] {
        let session = tables.session(&options);
        for text in OTHERS {
            let expected = tables.expected(text).await;
            for time in 0..5 {
                assert_eq!(run(&session, text).await.0, expected, "{text}, time {time}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hundred_queries_with_a_load_in_between_see_the_rows_of_their_time() {
    let tables = tables();
    let session = tables.session(&cpu());
    for time in 0..100 {
        if time % 20 == 10 {
            tables.add("facts", facts(5000 + time, time + 2), 500, vec![]);
        }
        let (actual, query) = run(&session, TOP).await;
        assert_eq!(actual, tables.expected(TOP).await, "time {time}");
        assert_eq!(query.has_cached_plan(), time > 0 && time % 20 != 10, "time {time}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixteen_threads_run_one_text_at_once() {
    let tables = tables();
    let session = Arc::new(tables.session(&cpu()));
    for text in [TOP, TEXTS[1], TEXTS[4]] {
        let expected = tables.expected(text).await;
        let clients = (0..16).map(|_| {
            let (session, expected) = (Arc::clone(&session), expected.clone());
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
                runtime.block_on(async {
                    for _ in 0..8 {
                        assert_eq!(run(&session, text).await.0, expected, "{text}");
                    }
                });
            })
        });
        let clients: Vec<_> = clients.collect();
        clients.into_iter().for_each(|client| client.join().unwrap());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_query_that_is_dropped_midway_leaves_nothing_to_the_next() {
    let tables = tables();
    let session = tables.session(&cpu());
    let expected = tables.expected(TOP).await;
    assert_eq!(run(&session, TOP).await.0, expected);
    for _ in 0..20 {
        let query = session.query(TOP).await.unwrap();
        assert!(query.has_cached_plan());
        drop(query.stream().await.unwrap()); // its partitions have begun
        assert_eq!(run(&session, TOP).await.0, expected);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn copies_skip_and_count_what_a_first_plan_does() {
    let tables = tables();
    let session = tables.session(&cpu());
    let text = "SELECT row FROM facts JOIN d1 ON row = id WHERE grade = 53";
    let (_, first) = run(&session, text).await;
    let first = first.scan_reports().unwrap();
    let mut read = None;
    for _ in 0..3 {
        let (_, again) = run(&session, text).await;
        assert!(again.has_cached_plan());
        let again = again.scan_reports().unwrap();
        for (before, now) in first.iter().zip(&again) {
            assert_eq!((before.bytes_read, before.output_rows), (now.bytes_read, now.output_rows));
            assert_eq!(before.skipped, now.skipped);
        }
        // Planning the first one read metadata as well, which is known now.
        let io: Vec<String> = again.iter().map(|report| report.io.clone()).collect();
        assert_eq!(*read.get_or_insert_with(|| io.clone()), io);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn copies_share_no_filter_with_each_other() {
    fn filters(plan: &Arc<dyn ExecutionPlan>, found: &mut Vec<u64>) {
        found.extend(plan.dynamic_expressions_produced().iter().filter_map(|filter| filter.expression_id()));
        plan.children().into_iter().for_each(|child| filters(child, found));
    }
    let tables = tables();
    let session = tables.session(&cpu());
    let mut found = Vec::new();
    for _ in 0..4 {
        filters(session.query(TOP).await.unwrap().physical_plan(), &mut found);
    }
    let count = found.len();
    found.sort_unstable();
    found.dedup();
    assert_eq!(found.len(), count);
    assert!(count >= 4 * 5, "four joins and a top-k, four times: {count}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_filters_of_a_copy_are_those_of_a_plan_that_has_not_run() {
    let tables = tables();
    let session = tables.session(&cpu());
    let mut told = 0;
    for text in TEXTS.into_iter().chain(OTHERS) {
        for _ in 0..3 {
            let query = session.query(text).await.unwrap();
            let shown = displayable(query.physical_plan().as_ref()).indent(true).to_string();
            let empty = "DynamicFilter [ empty ]";
            told += shown.matches(empty).count();
            assert!(!shown.replace(empty, "").contains("DynamicFilter"), "{shown}");
            query.collect().await.unwrap();
        }
    }
    assert!(told > 30, "filters of {told} scans");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn plans_that_spill_are_reused_too() {
    let tables = tables();
    let session = tables.session(&SessionOptions { memory_limit_bytes: Some(64 << 20), ..cpu() });
    for text in TEXTS {
        for _ in 0..4 {
            assert_right(&session, &tables, text).await;
        }
    }
    assert!(run(&session, TOP).await.1.has_cached_plan());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_table_that_is_dropped_and_made_anew_is_another_one() {
    let tables = tables();
    let session = tables.session(&cpu());
    let text = "SELECT * FROM d1 JOIN facts ON id = f1 WHERE value > 990 ORDER BY row";
    for is_cached in [false, true] {
        let (actual, query) = run(&session, text).await;
        assert_eq!((actual, query.has_cached_plan()), (tables.expected(text).await, is_cached));
    }
    Warehouse::open(tables.directory()).unwrap().drop_table("d1").unwrap();
    let error = session.query(text).await.err().expect("a table that is not there").to_string();
    assert!(error.contains("d1"), "{error}");
    let (other, ids) = ((0..60).map(|id| id * 3).collect(), (0..60).map(|id| id + 20).collect());
    tables.add("d1", integers(&[("other", other), ("id", ids)]), 64, vec![]);
    let expected = tables.expected(text).await;
    for time in 0..3 {
        let (actual, query) = run(&session, text).await;
        assert_eq!(actual, expected);
        assert!(time > 0 || !query.has_cached_plan());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sessions_that_run_one_text_while_it_is_loaded_see_the_rows_of_their_time() {
    const VERSIONS: i64 = 6;
    let (tables, others) = (tables(), tables_of_versions(VERSIONS).await);
    tables.add("facts", facts(4000, 0), 500, vec![]);
    let (begun, ended, is_over) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let session = tables.session(&cpu());
                let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
                while !is_over.load(Ordering::SeqCst) {
                    let first = ended.load(Ordering::SeqCst);
                    let (actual, _) = runtime.block_on(run(&session, TOP));
                    let last = begun.load(Ordering::SeqCst);
                    assert!(others[first..=last].contains(&actual), "versions {first} to {last}: {actual}");
                }
            });
        }
        for version in 1..VERSIONS {
            std::thread::sleep(std::time::Duration::from_millis(100));
            begun.store(version as usize, Ordering::SeqCst);
            tables.add("facts", facts(4000, version), 500, vec![]);
            ended.store(version as usize, Ordering::SeqCst);
        }
        is_over.store(true, Ordering::SeqCst);
    });
}

/// What [`TOP`] gives of each version of the facts, no two of which are alike.
async fn tables_of_versions(count: i64) -> Vec<String> {
    let (tables, mut answers) = (tables(), Vec::new());
    for version in 0..count {
        tables.add("facts", facts(4000, version), 500, vec![]);
        let answer = tables.expected(TOP).await;
        assert!(!answers.contains(&answer), "version {version}");
        answers.push(answer);
    }
    answers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn views_are_those_of_now_in_every_schema() {
    let tables = tables();
    let session = tables.session(&cpu());
    run(&session, "CREATE SCHEMA other").await;
    for (name, is_kept) in [("v", true), ("other.v", false)] {
        let text = format!("SELECT count(*) AS c FROM {name} JOIN d1 ON f1 = id");
        for most in [100, 500, 900] {
            let of_view = format!("SELECT row, f1 FROM facts WHERE value < {most}");
            run(&session, &format!("CREATE OR REPLACE VIEW {name} AS {of_view}")).await;
            let expected =
                tables.expected(&format!("SELECT count(*) AS c FROM ({of_view}) JOIN d1 ON f1 = id")).await;
            for time in 0..3 {
                let (actual, query) = run(&session, &text).await;
                assert_eq!(actual, expected, "{name} below {most}, time {time}");
                assert_eq!(query.has_cached_plan(), time > 0 && is_kept, "{name}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn chance_time_and_settings_are_looked_at_every_time() {
    let tables = tables();
    let session = tables.session(&cpu());
    let drawn = "SELECT random() FROM d1 ORDER BY 1 LIMIT 3";
    let first = run(&session, drawn).await;
    let again = run(&session, drawn).await;
    assert_ne!(first.0, again.0);
    assert!(!again.1.has_cached_plan());
    for _ in 0..2 {
        assert!(!run(&session, "SELECT now() FROM d1 LIMIT 1").await.1.has_cached_plan());
    }
    assert_right(&session, &tables, TOP).await;
    run(&session, "SET datafusion.execution.target_partitions = 2").await;
    let (actual, query) = run(&session, TOP).await;
    assert!(!query.has_cached_plan());
    assert_eq!(actual, tables.expected(TOP).await);
    // What a text means may be a setting too.
    let text = "SELECT arrow_typeof(0.5) AS type, id FROM d1 WHERE id = 3";
    let decimals = run(&session, text).await.0;
    assert_eq!(run(&session, text).await.0, decimals);
    run(&session, "SET datafusion.sql_parser.parse_float_as_decimal = false").await;
    let (doubles, query) = run(&session, text).await;
    assert!(!query.has_cached_plan());
    assert!(doubles.contains("Float64") && decimals.contains("Decimal128"), "{doubles}{decimals}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn prepared_statements_take_each_time_the_values_that_are_bound() {
    let tables = tables();
    let session = tables.session(&cpu());
    let prepared =
        session.prepare("SELECT count(*) AS c FROM facts JOIN d1 ON f1 = id WHERE grade < $1").await.unwrap();
    for bound in [5, 50, 5, 95] {
        let values = integers(&[("$1", vec![bound])]);
        let query = session.query_prepared(&prepared, Some(&values)).await.unwrap();
        let rows = query.collect().await.unwrap();
        let text = format!("SELECT count(*) AS c FROM facts JOIN d1 ON f1 = id WHERE grade < {bound}");
        let drawn = arrow::util::pretty::pretty_format_batches(&rows).unwrap().to_string();
        assert_eq!(drawn, tables.expected(&text).await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn statements_that_sql_prepares_are_executed_with_the_values_of_each_time() {
    let tables = tables();
    let session = tables.session(&cpu());
    for column in ["grade", "id"] {
        let of = |bound: &str| {
            format!("SELECT count(*) AS c FROM facts JOIN d1 ON f1 = id WHERE {column} < {bound}")
        };
        run(&session, &format!("PREPARE below AS {}", of("$1"))).await;
        for bound in ["5", "50", "5", "95"] {
            let (actual, _) = run(&session, &format!("EXECUTE below({bound})")).await;
            assert_eq!(actual, tables.expected(&of(bound)).await, "{column} below {bound}");
        }
        run(&session, "DEALLOCATE below").await;
    }
}
