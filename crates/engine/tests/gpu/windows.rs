//! Window functions: the device computes them over rows that it has sorted, and never otherwise than the CPU.

use pelton_engine::{DeviceChoice, PeltonSession, SessionOptions};
use pelton_exec::RuntimeOptions;
use pelton_testkit::random_rows;

use crate::common::{Tables, run};
use crate::nodes::explanation;
use crate::{assert_same_rows, device_nodes, fallbacks, on_host};

/// On the host's cores, where groups are sorted however few there are.
fn computing() -> SessionOptions {
    let host = on_host();
    SessionOptions { runtime: RuntimeOptions { sorted_groups_min: 0, ..host.runtime }, ..host }
}

fn on_cpu() -> SessionOptions {
    SessionOptions { device: DeviceChoice::Cpu, ..on_host() }
}

/// The rows of `sql` are those of the CPU, and the device has computed its windows: no operator of the CPU does.
async fn check(session: &PeltonSession, cpu: &PeltonSession, sql: &str) {
    let text = explanation(session, &format!("EXPLAIN {sql}")).await;
    let (plan, on_device) = text.split_once("-- on the device").unwrap_or_else(|| panic!("{sql}: {text}"));
    assert!(!plan.contains("WindowAggExec") && !plan.contains("SortExec"), "{sql}: {text}");
    assert!(on_device.contains("with windows "), "{sql}: {text}");
    let (actual, query) = run(session, sql).await;
    let (expected, _) = run(cpu, sql).await;
    assert_same_rows(&actual, &expected, sql);
    assert_eq!(fallbacks(&query), Vec::<String>::new(), "{sql}");
    assert!(!device_nodes(&query).is_empty(), "{sql}");
}

/// The rows of `sql` are those of the CPU, which computes its windows for this reason.
async fn check_on_cpu(session: &PeltonSession, cpu: &PeltonSession, sql: &str, reason: &str) {
    let text = explanation(session, &format!("EXPLAIN {sql}")).await;
    assert!(text.contains("WindowAggExec") && text.contains(reason), "{sql}: {text}");
    assert_same_rows(&run(session, sql).await.0, &run(cpu, sql).await.0, sql);
}

/// Functions that say the same of rows with equal keys, whatever their order.
const OF_PEERS: &str = "rank() OVER ({w}), dense_rank() OVER ({w}), percent_rank() OVER ({w}), cume_dist() OVER ({w}), \
     count(*) OVER ({w}), count(price) OVER ({w}), sum(small) OVER ({w}), avg(small) OVER ({w}), min(day) OVER ({w}), max(price) OVER ({w}), \
     sum(big) OVER ({w} RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING), \
     sum(price) OVER ({w} RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING), \
     max(double) OVER ({w}), min(double) OVER ({w} ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING), \
     count(flag) OVER ({w} RANGE BETWEEN CURRENT ROW AND CURRENT ROW)";

/// Functions that tell rows apart.
const OF_ROWS: &str = "row_number() OVER ({w}), ntile(3) OVER ({w}), ntile(1000) OVER ({w}), \
     lag(small) OVER ({w}), lead(price, 2, 0.5) OVER ({w}), lag(word, 3) OVER ({w}), lead(flag, 0) OVER ({w}), lag(double, -1, 7) OVER ({w}), \
     lead(big, 1, -1) OVER ({w}), first_value(day) OVER ({w}), \
     last_value(word) OVER ({w} ROWS BETWEEN 2 PRECEDING AND 3 FOLLOWING), \
     nth_value(id, 2) OVER ({w}), nth_value(price, 3) OVER ({w} ROWS BETWEEN 1 FOLLOWING AND 5 FOLLOWING), \
     first_value(double) OVER ({w} ROWS BETWEEN 4 PRECEDING AND 2 PRECEDING), \
     sum(small) OVER ({w} ROWS UNBOUNDED PRECEDING), sum(price) OVER ({w} ROWS BETWEEN 2 PRECEDING AND CURRENT ROW), \
     avg(small) OVER ({w} ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING), avg(price) OVER ({w} ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING), \
     count(double) OVER ({w} ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING), count(*) OVER ({w} ROWS BETWEEN 7 PRECEDING AND 2 FOLLOWING), \
     sum(big) OVER ({w} ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING), \
     min(small) OVER ({w} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), max(big) OVER ({w} ROWS UNBOUNDED PRECEDING), \
     sum(id) OVER ({w} ROWS UNBOUNDED PRECEDING), sum(big) OVER ({w} GROUPS UNBOUNDED PRECEDING), count(*) OVER ({w} ROWS UNBOUNDED PRECEDING)";

fn over(functions: &str, window: &str) -> String {
    format!("SELECT id, {} FROM a", functions.replace("{w}", window))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn functions_over_partitions_are_those_of_the_cpu() {
    let tables = Tables::new();
    tables.add("a", random_rows(1, 900), 1024, vec![]);
    let (session, cpu) = (tables.session(&computing()), tables.session(&on_cpu()));
    // NULL keys, texts, doubles with NaN and both zeros, both ways; one partition, and many of one row.
    for window in [
        "PARTITION BY word ORDER BY tiny DESC",
        "PARTITION BY double, flag ORDER BY day NULLS FIRST",
        "ORDER BY double DESC NULLS LAST",
        "PARTITION BY tiny",
        "PARTITION BY id ORDER BY big",
    ] {
        check(&session, &cpu, &over(OF_PEERS, window)).await;
    }
    for window in [
        "PARTITION BY word, flag ORDER BY price DESC NULLS LAST, id",
        "PARTITION BY double ORDER BY id DESC",
        "ORDER BY big NULLS FIRST, id",
        "PARTITION BY id ORDER BY id",
    ] {
        check(&session, &cpu, &over(OF_ROWS, window)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conditions_of_windows_leave_rows_out() {
    let tables = Tables::new();
    tables.add("a", random_rows(6, 900), 1024, vec![]);
    let (session, cpu) = (tables.session(&computing()), tables.session(&on_cpu()));
    let of_peers = "sum(small) FILTER (WHERE flag) OVER ({w}), count(*) FILTER (WHERE big > 0 OR flag) OVER ({w}), \
         count(price) FILTER (WHERE small % 3 = 0) OVER ({w}), avg(price) FILTER (WHERE id > 100) OVER ({w}), \
         min(day) FILTER (WHERE word LIKE '%a%') OVER ({w}), max(big) FILTER (WHERE false) OVER ({w}), sum(small) OVER ({w})";
    let of_rows = "sum(small) FILTER (WHERE flag) OVER ({w} ROWS BETWEEN 3 PRECEDING AND 1 FOLLOWING), \
         count(*) FILTER (WHERE word IS NULL) OVER ({w} ROWS BETWEEN 1 FOLLOWING AND 4 FOLLOWING), \
         max(price) FILTER (WHERE small > 0) OVER ({w} ROWS UNBOUNDED PRECEDING), \
         avg(small) FILTER (WHERE NOT flag) OVER ({w} ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)";
    for sql in [
        over(of_peers, "PARTITION BY word ORDER BY tiny DESC"),
        over(of_peers, "ORDER BY price"),
        over(of_rows, "PARTITION BY tiny ORDER BY day, id"),
    ] {
        check(&session, &cpu, &sql).await;
        assert_same_rows(&run(&cpu, &sql).await.0, &tables.expected(&sql).await, &sql);
    }
    // What kernels do not have is left to the CPU, which has it over columns that change their places.
    for sql in [
        "SELECT id, s FROM (SELECT id, word, stddev(small) FILTER (WHERE flag) OVER (PARTITION BY tiny ORDER BY id) AS s, \
         price FROM a) WHERE id % 3 = 1",
        "SELECT s FROM (SELECT big, sum(small) FILTER (WHERE double > 0) OVER (PARTITION BY word ORDER BY id) AS s FROM a)",
        "SELECT id, array_agg(small) FILTER (WHERE flag) OVER (PARTITION BY word ORDER BY id) FROM a WHERE id < 50",
    ] {
        assert_same_rows(&run(&session, sql).await.0, &tables.expected(sql).await, sql);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn few_rows_are_windows_too() {
    let tables = Tables::new();
    tables.add("a", random_rows(2, 300), 512, vec![]);
    let (session, cpu) = (tables.session(&computing()), tables.session(&on_cpu()));
    let sql = over(OF_ROWS, "PARTITION BY word, flag ORDER BY price DESC NULLS LAST, id");
    for rows in ["id < 0", "id = 5", "id < 3", "id < 33"] {
        check(&session, &cpu, &sql.replace("FROM a", &format!("FROM a WHERE {rows}"))).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_about_customers_are_computed_on_the_device() {
    let tables = Tables::new();
    tables.add("a", random_rows(3, 4000), 8192, vec![]);
    let (session, cpu) = (tables.session(&computing()), tables.session(&on_cpu()));
    for sql in [
        // A running sum, a share of the total, the change since the row before, a moving average.
        "SELECT id, sum(price) OVER (PARTITION BY word ORDER BY day, id) AS running FROM a",
        "SELECT id, CAST(big AS DOUBLE) / sum(big) OVER (PARTITION BY word) AS share FROM a WHERE big <> 0",
        "SELECT id, id - lag(id) OVER (PARTITION BY tiny ORDER BY day, id) AS gap FROM a",
        "SELECT id, avg(price) OVER (PARTITION BY tiny ORDER BY id ROWS BETWEEN 6 PRECEDING AND CURRENT ROW) AS moving FROM a",
        // The first of each group, above the device.
        "SELECT id, price, place FROM (SELECT id, price, rank() OVER (PARTITION BY word ORDER BY price DESC, id) AS place \
         FROM a) WHERE place <= 3",
        "SELECT word, count(*), max(n) FROM (SELECT word, row_number() OVER (PARTITION BY word ORDER BY id) AS n FROM a) \
         GROUP BY word",
        // Texts without a dictionary are fetched for the rows that come out.
        "SELECT text, id, row_number() OVER (PARTITION BY tiny ORDER BY id DESC) AS n FROM a",
        // Several orders of one sort.
        "SELECT id, rank() OVER (PARTITION BY tiny ORDER BY day), sum(id) OVER (PARTITION BY tiny ORDER BY day, id), \
         count(*) OVER (PARTITION BY tiny) FROM a",
        // Over groups.
        "SELECT word, tiny, s, rank() OVER (PARTITION BY word ORDER BY s DESC), sum(s) OVER (PARTITION BY word) \
         FROM (SELECT word, tiny, sum(big) AS s FROM a GROUP BY word, tiny)",
    ] {
        check(&session, &cpu, sql).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_kernels_do_not_compute_is_the_cpu_s() {
    let tables = Tables::new();
    tables.add("a", random_rows(4, 500), 512, vec![]);
    let (session, cpu) = (tables.session(&computing()), tables.session(&on_cpu()));
    for (function, reason) in [
        ("lag(small) IGNORE NULLS OVER ({w})", "that ignore NULL"),
        ("array_agg(small) FILTER (WHERE flag) OVER ({w})", "FILTER"),
        ("count(DISTINCT small) OVER (PARTITION BY word)", "distinct"),
        ("max(small) OVER ({w} ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)", "begin later"),
        ("sum(double) OVER ({w} ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)", "begin later"),
        (
            "sum(small) OVER (PARTITION BY word ORDER BY double RANGE BETWEEN 3 PRECEDING AND CURRENT ROW)",
            "distances of Float64",
        ),
        (
            "sum(small) OVER (PARTITION BY word ORDER BY day RANGE BETWEEN INTERVAL '1' MONTH PRECEDING AND CURRENT ROW)",
            "frames of Date32 that go by",
        ),
        (
            "sum(small) OVER (PARTITION BY word ORDER BY big RANGE BETWEEN 9223372036854775807 PRECEDING AND CURRENT ROW)",
            "pass the ends of Int64",
        ),
        (
            "max(small) OVER (PARTITION BY word ORDER BY CAST(tiny AS INT) RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)",
            "begin later",
        ),
        ("stddev(small) OVER ({w})", "stddev"),
        ("max(word) OVER ({w})", "max of "),
        ("count(*) OVER ()", "sorted for them"),
    ] {
        let sql = over(function, "PARTITION BY word ORDER BY big, id");
        check_on_cpu(&session, &cpu, &sql, reason).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frames_by_distances_of_keys_and_of_groups_are_those_of_the_cpu() {
    let tables = Tables::new();
    tables.add("a", random_rows(5, 1500), 1024, vec![]);
    let (session, cpu) = (tables.session(&computing()), tables.session(&on_cpu()));
    let functions = "count(*) OVER ({w}), count(price) OVER ({w}), sum(small) OVER ({w}), avg(price) OVER ({w}), \
         first_value({k}) OVER ({w}), last_value({k}) OVER ({w}), nth_value({k}, 3) OVER ({w})";
    for (partition, key, frame) in [
        ("PARTITION BY word ", "CAST(tiny AS INT)", "RANGE BETWEEN 3 PRECEDING AND 2 FOLLOWING"),
        ("", "CAST(tiny AS INT) DESC NULLS LAST", "RANGE BETWEEN 2 FOLLOWING AND 5 FOLLOWING"),
        (
            "PARTITION BY flag ",
            "day NULLS FIRST",
            "RANGE BETWEEN INTERVAL '30' DAY PRECEDING AND CURRENT ROW",
        ),
        (
            "PARTITION BY flag ",
            "CAST(small AS BIGINT) DESC",
            "RANGE BETWEEN UNBOUNDED PRECEDING AND 7 FOLLOWING",
        ),
        (
            "PARTITION BY word ",
            "CAST(small AS BIGINT)",
            "RANGE BETWEEN 100 FOLLOWING AND UNBOUNDED FOLLOWING",
        ),
        ("PARTITION BY tiny ", "day DESC", "GROUPS BETWEEN 2 PRECEDING AND 1 FOLLOWING"),
        ("", "word NULLS FIRST", "GROUPS BETWEEN 1 FOLLOWING AND 3 FOLLOWING"),
        ("PARTITION BY word ", "price", "GROUPS BETWEEN 4 PRECEDING AND 2 PRECEDING"),
    ] {
        let column =
            key.split_once(" DESC").map_or(key, |(column, _)| column).trim_end_matches(" NULLS FIRST");
        let functions = functions.replace("{k}", column);
        check(&session, &cpu, &over(&functions, &format!("{partition}ORDER BY {key} {frame}"))).await;
    }
    // All that begins with the partition, whatever it ends with.
    let functions = "min(big) OVER ({w}), max(double) OVER ({w}), count(flag) OVER ({w})";
    check(
        &session,
        &cpu,
        &over(
            functions,
            "PARTITION BY word ORDER BY CAST(tiny AS INT) RANGE BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING",
        ),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sums_and_averages_pass_64_bits() {
    let tables = Tables::new();
    let big = vec![i64::MAX, 1, i64::MAX, i64::MIN, 5];
    let rows =
        crate::common::integers(&[("id", vec![1, 2, 3, 4, 5]), ("p", vec![1, 1, 2, 2, 2]), ("x", big)]);
    tables.add("a", rows, 64, vec![]);
    let (session, cpu) = (tables.session(&computing()), tables.session(&on_cpu()));
    check(&session, &cpu, "SELECT id, sum(x) OVER (PARTITION BY p ORDER BY id), avg(x) OVER (PARTITION BY p ORDER BY id) FROM a").await;
}
