//! Every kind of node and expression that is lowered, over rows with NULLs and repeated keys.

use pelton_engine::PeltonSession;
use pelton_testkit::random_rows;

use crate::common::{Tables, run};
use crate::{assert_same_rows, device_nodes, fallbacks, on_host};

/// Two tables of the same columns; keys repeat in both, some are NULL.
fn tables() -> Tables {
    let tables = Tables::new();
    tables.add("a", random_rows(1, 700), 300, vec![]);
    tables.add("b", random_rows(2, 150), 64, vec![]);
    tables
}

/// The answer of `sql` is the oracle's; `is_on_device`: some of it is computed by kernels, to the end.
async fn check(tables: &Tables, session: &PeltonSession, sql: &str, is_on_device: bool) {
    let (actual, query) = run(session, sql).await;
    assert_same_rows(&actual, &tables.expected(sql).await, sql);
    assert_eq!(!device_nodes(&query).is_empty(), is_on_device, "{sql}");
    let reasons = fallbacks(&query);
    assert!(reasons.is_empty(), "{sql}: {reasons:?}");
}

async fn check_all(sqls: &[&str], is_on_device: bool) {
    let tables = tables();
    let session = tables.session(&on_host());
    for sql in sqls {
        check(&tables, &session, sql, is_on_device).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_of_every_kind_have_the_rows_of_the_oracle() {
    check_all(
        &[
            "SELECT a.id, b.id, b.word FROM a JOIN b ON a.int = b.int",
            "SELECT a.id, b.id FROM a JOIN b ON a.int = b.int AND a.big < b.big",
            "SELECT a.id, b.id, b.price FROM a LEFT JOIN b ON a.int = b.int WHERE a.id < 300",
            "SELECT a.id, b.id, a.day FROM a RIGHT JOIN b ON a.int = b.int WHERE b.id < 100",
            "SELECT id FROM a WHERE int IN (SELECT int FROM b)",
            "SELECT id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.int = a.int AND b.flag)",
            "SELECT id FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.int = a.int)",
            "SELECT a.id, b.id FROM a JOIN b ON a.int = b.int AND a.small = b.small",
            "SELECT a.id, b.id FROM a JOIN b ON a.price = b.price",
            "SELECT a.id, b.id FROM a JOIN b ON a.id = b.int",
            "SELECT count(*), sum(b.int) FROM a JOIN b ON a.day = b.day",
        ],
        true,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_with_conditions_and_without_equalities_have_the_rows_of_the_oracle() {
    check_all(
        &[
            "SELECT a.id, b.id, b.price FROM a LEFT JOIN b ON a.int = b.int AND a.big < b.big WHERE a.id < 300",
            "SELECT a.id, b.id FROM b RIGHT JOIN a ON a.int = b.int AND b.id > 70 AND a.small <> b.small WHERE a.id > 9",
            "SELECT b.small, count(*), count(a.id) FROM b LEFT JOIN a ON a.int = b.int AND a.big > b.big GROUP BY 1",
            "SELECT id FROM a WHERE flag OR EXISTS (SELECT 1 FROM b WHERE b.int = a.int AND b.big > a.big)",
            "SELECT id FROM a WHERE NOT flag OR int IN (SELECT int FROM b WHERE id > 100)",
            "SELECT id FROM a WHERE flag OR NOT EXISTS (SELECT 1 FROM b WHERE b.int = a.int)",
            "SELECT a.id, b.id FROM a JOIN b ON a.small < b.small AND a.int > b.int WHERE b.id < 40",
            "SELECT a.id, b.id FROM a LEFT JOIN b ON a.int > b.int AND a.small < b.small WHERE a.id < 40",
            "SELECT id FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.big > a.big)",
            "SELECT count(*), sum(a.int) FROM a CROSS JOIN b WHERE b.id < 40",
            "SELECT count(*) FROM (SELECT id FROM a WHERE id > 7) CROSS JOIN b",
        ],
        true,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn null_keys_match_each_other_or_make_not_in_unknown() {
    check_all(
        &[
            "SELECT a.id, b.id FROM a JOIN b ON a.int IS NOT DISTINCT FROM b.int WHERE a.id < 100",
            "SELECT a.id, b.id FROM a LEFT JOIN b ON a.int IS NOT DISTINCT FROM b.int AND a.small > b.small WHERE a.id < 90",
            "SELECT int, small FROM a INTERSECT SELECT int, small FROM b",
            "SELECT int, day FROM a EXCEPT SELECT int, day FROM b",
            "SELECT id FROM a WHERE int NOT IN (SELECT int FROM b)",
            "SELECT id FROM a WHERE int NOT IN (SELECT int FROM b WHERE int IS NOT NULL)",
            "SELECT id FROM a WHERE int NOT IN (SELECT int FROM b WHERE id < 0) AND id > 3",
            "SELECT id FROM a WHERE id NOT IN (SELECT int FROM b WHERE int > 0)",
            "SELECT id FROM a WHERE price NOT IN (SELECT price FROM b WHERE price > 0)",
        ],
        true,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn aggregates_have_the_groups_of_the_oracle() {
    check_all(
        &[
            "SELECT count(*), count(int), sum(int), min(big), max(big), sum(price), min(day) FROM a WHERE id > 5",
            "SELECT count(*), sum(int), min(int) FROM a WHERE id < 0",
            "SELECT word, count(*), sum(int) FROM a GROUP BY word",
            "SELECT flag, count(int) FROM a GROUP BY flag",
            "SELECT day, small, max(price), min(price) FROM a GROUP BY day, small",
            "SELECT int % 1 = 0, count(*) FROM a WHERE id > 3 GROUP BY 1",
            "SELECT at, count(word) FROM a WHERE id > 3 GROUP BY at",
            "SELECT int, avg(price), avg(small), count(*) FROM a GROUP BY int",
            "SELECT avg(price) FROM a WHERE id > 700",
            "SELECT DISTINCT word, flag FROM a WHERE id > 3",
            "SELECT count(DISTINCT int) FROM a WHERE id > 3",
            "SELECT b.word, sum(a.price) FROM a JOIN b ON a.int = b.int GROUP BY b.word HAVING sum(a.price) > 0",
            "SELECT int, count(*) FROM a GROUP BY int ORDER BY 2 DESC, 1 LIMIT 3",
        ],
        true,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn aggregates_of_filtered_and_distinct_values_have_the_groups_of_the_oracle() {
    check_all(
        &[
            "SELECT count(*) FILTER (WHERE int > 3), sum(int) FILTER (WHERE flag), count(word) FILTER (WHERE NOT flag) FROM a",
            "SELECT word, max(price) FILTER (WHERE int > 3 OR small < 2), avg(small) FILTER (WHERE flag) FROM a GROUP BY word",
            "SELECT small, count(DISTINCT int), count(*), sum(price), min(day) FROM a GROUP BY small",
            "SELECT flag, count(DISTINCT int), count(DISTINCT word), count(DISTINCT day), sum(big), avg(small) FROM a GROUP BY flag",
            "SELECT count(DISTINCT int), count(DISTINCT price), count(DISTINCT double), count(*) FROM a WHERE id < 0",
            "SELECT word, count(DISTINCT int) FILTER (WHERE flag), count(DISTINCT int) FROM a GROUP BY word",
            "SELECT b.word, count(DISTINCT a.int), count(DISTINCT a.day) FROM a JOIN b ON a.int = b.int GROUP BY b.word",
            "SELECT c, count(*) FROM (SELECT int, count(DISTINCT day) AS c, count(*) FROM a GROUP BY int) AS g GROUP BY c",
        ],
        true,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn extremes_of_doubles_and_booleans_are_those_of_the_oracle() {
    check_all(
        &[
            "SELECT min(double), max(double) FROM a WHERE double < 1000",
            "SELECT word, min(double), max(double * 2) FROM a WHERE double < 1000 AND double <> 0 GROUP BY word",
            "SELECT int, min(flag), max(flag), bool_and(flag), bool_or(small > 1) FROM a GROUP BY int",
            "SELECT word, min(at), max(day) FROM a GROUP BY word HAVING bool_or(flag)",
        ],
        true,
    )
    .await;
}

/// The CPU rounds after every row, kernels once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn variances_of_integers_and_decimals_are_those_of_the_oracle() {
    check_all(
        &[
            "SELECT round(var_pop(tiny), 6), round(stddev(small), 6), round(var_samp(tiny), 6) FROM a",
            "SELECT word, round(stddev(small), 6), round(stddev_pop(small), 6), count(*) FROM a GROUP BY word",
            "SELECT word, round(stddev(tiny) FILTER (WHERE flag), 6), count(DISTINCT int), avg(small) FROM a GROUP BY word",
            "SELECT flag, round(var_pop(tiny), 6) FROM a WHERE id < 2 GROUP BY ROLLUP (flag)",
        ],
        true,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grouping_sets_have_the_groups_of_the_oracle() {
    check_all(
        &[
            "SELECT word, small, count(*), sum(int), grouping(word), grouping(small) FROM a GROUP BY ROLLUP (word, small)",
            "SELECT flag, word, day, count(int), max(price) FROM a GROUP BY CUBE (flag, word, day)",
            "SELECT int, word, count(*) FROM a GROUP BY GROUPING SETS ((int), (word), (int), ())",
            "SELECT flag, word, count(DISTINCT int), count(DISTINCT day), sum(small) FROM a GROUP BY ROLLUP (flag, word)",
            "SELECT word, flag, sum(int) FILTER (WHERE flag) FROM a WHERE id < 0 GROUP BY GROUPING SETS ((word), (flag))",
        ],
        true,
    )
    .await;
}

/// Kernels find no group where there is no row, and the grand total has one. It is made of the groups where that is possible.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_grand_total_of_no_rows_is_the_cpu_s() {
    let tables = tables();
    let session = tables.session(&on_host());
    for (calls, fallback_count) in [("count(*), sum(int)", 0), ("count(DISTINCT int), sum(int)", 1)] {
        let sql = format!("SELECT word, {calls} FROM a WHERE id < 0 GROUP BY ROLLUP (word)");
        let (actual, query) = run(&session, &sql).await;
        assert_same_rows(&actual, &tables.expected(&sql).await, &sql);
        assert_eq!(fallbacks(&query).len(), fallback_count, "{sql}: {actual}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expressions_have_the_values_of_the_oracle() {
    check_all(
        &[
            "SELECT id, int + 1, int * CAST(int AS BIGINT), int - 7 FROM a WHERE id > 5",
            "SELECT id, price * price, price + 0.001, price - huge FROM a WHERE huge < 1000 AND price > 0",
            "SELECT id, CAST(price AS DOUBLE), CAST(int AS DOUBLE) / 7 FROM a WHERE id > 5",
            "SELECT id, double * 2 FROM a WHERE double > 1 OR double IS NULL",
            "SELECT id, date_part('year', day), extract(month FROM day), extract(day FROM day) FROM a WHERE id > 5",
            "SELECT id, CASE WHEN int > 0 THEN 1 WHEN int < 0 THEN -1 END FROM a WHERE id > 5",
            "SELECT id, CASE small WHEN 1 THEN price WHEN 2 THEN 0 ELSE 7.5 END FROM a WHERE id > 5",
            "SELECT id FROM a WHERE int IN (1, 2, 3, 50, 51, 52) OR big NOT IN (4, 5, 6, 7)",
            "SELECT id FROM a WHERE price IN (1.5, 2.25, 3, 4)",
            "SELECT id, flag FROM a WHERE flag OR NOT (int > 3 AND big < 7)",
            "SELECT id FROM a WHERE (int > 3) IS NULL AND day IS NOT NULL",
            "SELECT id FROM a WHERE tiny > small AND utiny < usmall AND uint > 7",
            "SELECT id, at FROM a WHERE at > TIMESTAMP '1950-01-01T00:00:00' AND day < DATE '1990-01-01'",
        ],
        true,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn functions_of_one_text_have_the_values_of_the_oracle() {
    check_all(
        &[
            "SELECT id, word FROM a WHERE word LIKE '%a%'",
            "SELECT id FROM a WHERE word NOT LIKE '_e%' AND length(word) > 3",
            "SELECT upper(substr(word, 1, 2)), count(*) FROM a GROUP BY 1",
            "SELECT id, CASE WHEN word = 'x' THEN 0 ELSE length(word) END FROM a WHERE word IS NOT NULL",
            "SELECT id FROM a WHERE word < 'm' OR word IN ('zz', 'yy')",
        ],
        true,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_texts_of_a_row_are_equal_or_not() {
    check_all(
        &[
            "SELECT id FROM a WHERE word = text",
            "SELECT id FROM a WHERE word <> text",
            "SELECT id FROM a WHERE text = text",
        ],
        true,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_kernels_do_not_have_stays_on_the_cpu() {
    check_all(
        &[
            "SELECT id, single FROM a WHERE single > 1",
            "SELECT id FROM a",
            "SELECT a.id, b.id FROM a FULL JOIN b ON a.int = b.int",
            "SELECT id FROM a WHERE word < text",
            "SELECT id FROM a WHERE id > 5 LIMIT 0",
            "SELECT count(*) FILTER (WHERE id > 3) FROM a WHERE text IS NULL AND single > 0",
        ],
        false,
    )
    .await;
}
