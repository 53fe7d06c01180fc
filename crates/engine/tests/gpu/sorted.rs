//! ORDER BY: the device gives all rows in order, and no sort is left above it.

use pelton_datagen::Dataset;
use pelton_engine::{DeviceChoice, PeltonSession, SessionOptions};
use pelton_exec::RuntimeOptions;
use pelton_testkit::random_rows;

use crate::benchmarks::load;
use crate::common::{Tables, run};
use crate::nodes::explanation;
use crate::{device_nodes, fallbacks, on_host};

/// On the host's cores, where groups are sorted however few there are.
fn sorting() -> SessionOptions {
    let host = on_host();
    SessionOptions { runtime: RuntimeOptions { sorted_groups_min: 0, ..host.runtime }, ..host }
}

fn on_cpu() -> SessionOptions {
    SessionOptions { device: DeviceChoice::Cpu, ..on_host() }
}

/// The lines of the physical plan that sort.
fn sorts_of(explanation: &str) -> usize {
    explanation.matches("SortExec").count() + explanation.matches("SortPreservingMergeExec").count()
}

/// The rows of `sql`, whose keys never tie, are those of the CPU in the same order, and the device has sorted them: no
/// operator of the CPU does.
async fn check(session: &PeltonSession, cpu: &PeltonSession, sql: &str) {
    let text = explanation(session, &format!("EXPLAIN {sql}")).await;
    let (plan, on_device) = text.split_once("-- on the device").unwrap_or_else(|| panic!("{sql}: {text}"));
    assert_eq!(sorts_of(plan), 0, "{sql}: {text}");
    assert!(on_device.contains("sorted by "), "{sql}: {text}");
    let (actual, query) = run(session, sql).await;
    let (expected, _) = run(cpu, sql).await;
    assert_eq!(actual, expected, "{sql}");
    assert_eq!(fallbacks(&query), Vec::<String>::new(), "{sql}");
    assert!(!device_nodes(&query).is_empty(), "{sql}");
}

/// The same where some part of the plan stays on the CPU, perhaps a sort.
async fn check_rows(session: &PeltonSession, cpu: &PeltonSession, sql: &str) {
    assert_eq!(run(session, sql).await.0, run(cpu, sql).await.0, "{sql}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_come_in_order_by_every_type_that_kernels_have() {
    let tables = Tables::new();
    tables.add("a", random_rows(1, 700), 64, vec![]);
    let (session, cpu) = (tables.session(&sorting()), tables.session(&on_cpu()));
    let orders = ["", " DESC", " NULLS FIRST", " DESC NULLS LAST"];
    // Each compiles a kernel: the others are like one of these.
    let keys = ["flag", "small", "big", "uint", "double", "price", "huge", "day", "at_utc", "word", "text"];
    for (index, key) in keys.into_iter().enumerate() {
        let order = orders[index % 4];
        check(&session, &cpu, &format!("SELECT {key}, id FROM a ORDER BY {key}{order}, id DESC")).await;
    }
    check(&session, &cpu, "SELECT id, word, price FROM a ORDER BY flag, day DESC, word NULLS FIRST, id")
        .await;
    check(&session, &cpu, "SELECT id FROM a WHERE int > 0 ORDER BY int % 7, big DESC NULLS LAST, id").await;
    check(&session, &cpu, "SELECT id, double FROM a WHERE id < 0 ORDER BY double").await;
    check(&session, &cpu, "SELECT id, double FROM a WHERE id = 5 ORDER BY double").await;
    // Types that kernels do not have.
    check_rows(&session, &cpu, "SELECT id, ubig FROM a ORDER BY ubig, id").await;
    check_rows(&session, &cpu, "SELECT id, single FROM a ORDER BY single DESC, id").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_above_a_sort_take_its_first_rows() {
    let tables = Tables::new();
    tables.add("a", random_rows(2, 40_000), 4096, vec![]);
    let (session, cpu) = (tables.session(&sorting()), tables.session(&on_cpu()));
    check(&session, &cpu, "SELECT id, big FROM a ORDER BY big, id LIMIT 20000").await;
    check(&session, &cpu, "SELECT id, big FROM a ORDER BY big DESC, id LIMIT 16385 OFFSET 20000").await;
    // Partitions that stop each by itself, with columns that change places between them and the merge.
    check(&session, &cpu, "SELECT big, id FROM a ORDER BY big DESC NULLS LAST, id LIMIT 20000").await;
    check(&session, &cpu, "SELECT day, id FROM a ORDER BY day, id LIMIT 16400 OFFSET 17").await;
    check(
        &session,
        &cpu,
        "SELECT id % 7 AS rest, small, id FROM a WHERE id > 9 ORDER BY small, id DESC LIMIT 16500",
    )
    .await;
    check(&session, &cpu, "SELECT double, id FROM a ORDER BY double, id LIMIT 3").await;
    // Of rows that tie any may come: their keys are told.
    check(
        &session,
        &cpu,
        "SELECT small, tiny FROM (SELECT id, small, 1 AS tiny FROM a ORDER BY small LIMIT 17000)",
    )
    .await;
    // No threshold is for doubles and texts.
    check(&session, &cpu, "SELECT id, double FROM a ORDER BY double DESC NULLS LAST, id LIMIT 10").await;
    check(&session, &cpu, "SELECT id, word FROM a ORDER BY word, id LIMIT 10 OFFSET 3").await;
    let few = "SELECT id, big FROM a ORDER BY big, id LIMIT 10";
    let text = explanation(&session, &format!("EXPLAIN {few}")).await;
    assert!(text.contains("  top 10 by big") && text.contains("SortExec: TopK(fetch=10)"), "{text}");
    check_rows(&session, &cpu, few).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_of_groups_are_sorted_where_they_are_many() {
    let tables = Tables::new();
    tables.add("a", random_rows(5, 3000), 512, vec![]);
    // However few groups an estimate expects: these are fewer than a sort of all is done of.
    let (session, cpu) = (tables.session(&on_host()), tables.session(&on_cpu()));
    let groups = "SELECT id % 2000 AS rest, count(*) AS n FROM a GROUP BY rest ORDER BY n DESC, rest";
    check(&session, &cpu, &format!("{groups} LIMIT 10 OFFSET 1015")).await;
    check(&session, &cpu, &format!("{groups} LIMIT 5000")).await;
    let few = format!("{groups} LIMIT 10 OFFSET 1014");
    let text = explanation(&session, &format!("EXPLAIN {few}")).await;
    assert!(text.contains("  top 1024 by ") && text.contains("SortExec: TopK(fetch=1024)"), "{text}");
    check_rows(&session, &cpu, &few).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_and_groups_of_tpch_leave_the_device_in_order() {
    let tables = load(Dataset::Tpch);
    let (session, cpu) = (tables.session(&sorting()), tables.session(&on_cpu()));
    for sql in [
        "SELECT l_orderkey, l_linenumber, l_extendedprice, l_shipdate FROM lineitem \
         ORDER BY l_shipdate DESC, l_extendedprice, l_orderkey, l_linenumber",
        "SELECT o_orderkey, c_name, n_name FROM orders JOIN customer ON o_custkey = c_custkey \
         JOIN nation ON c_nationkey = n_nationkey WHERE o_totalprice > 200000 ORDER BY n_name DESC, o_orderkey",
        "SELECT l_returnflag, l_linestatus, sum(l_quantity), avg(l_extendedprice), count(*) FROM lineitem \
         GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus",
        "SELECT o_custkey, sum(o_totalprice) AS total FROM orders GROUP BY o_custkey ORDER BY total DESC, o_custkey",
        "SELECT l_orderkey, count(*) AS lines FROM lineitem GROUP BY l_orderkey HAVING count(*) > 3 \
         ORDER BY lines DESC, l_orderkey",
        "SELECT DISTINCT c_mktsegment, c_nationkey FROM customer ORDER BY c_nationkey DESC, c_mktsegment",
    ] {
        check(&session, &cpu, sql).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_that_rely_on_the_order_get_it() {
    let tables = Tables::new();
    tables.add("a", random_rows(3, 3000), 256, vec![]);
    tables.add("b", random_rows(4, 500), 64, vec![]);
    let (session, cpu) = (tables.session(&sorting()), tables.session(&on_cpu()));
    for sql in [
        "SELECT id, row_number() OVER (ORDER BY int, id), sum(small) OVER (ORDER BY int, id) FROM a ORDER BY int, id",
        "SELECT id, rank() OVER (PARTITION BY word ORDER BY day), lag(id) OVER (PARTITION BY word ORDER BY day, id) \
         FROM a ORDER BY id",
        "SELECT id FROM (SELECT id, int FROM a ORDER BY int DESC, id LIMIT 17000) WHERE id % 3 = 0 ORDER BY id",
        "SELECT x.id, y.id FROM (SELECT id, small FROM a ORDER BY small, id) x JOIN b y ON x.small = y.small \
         ORDER BY x.id, y.id",
        "SELECT id, 1 AS part FROM a WHERE int > 5 UNION ALL SELECT id, 2 FROM b ORDER BY id DESC, part",
        "SELECT string_agg(CAST(id AS VARCHAR), ',') FROM (SELECT id, big FROM a ORDER BY big, id)",
        "SELECT tiny, first_value(id ORDER BY big, id) FROM a GROUP BY tiny ORDER BY tiny",
        "SELECT * FROM (SELECT id, double FROM a ORDER BY double DESC, id) LIMIT 5 OFFSET 1990",
    ] {
        check_rows(&session, &cpu, sql).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explain_says_who_sorts_and_why() {
    let tables = Tables::new();
    tables.add("a", random_rows(5, 6000), 512, vec![]);
    let session = tables.session(&on_host());
    let sql = "SELECT int, id FROM a WHERE id > 10 ORDER BY int DESC, id";
    let text = explanation(&session, &format!("EXPLAIN {sql}")).await;
    assert!(text.contains("sorted by int desc nulls first, id nulls last: rows of "), "{text}");
    let text = explanation(&session, &format!("EXPLAIN ANALYZE {sql}")).await;
    assert!(text.contains("rows on the device in "), "{text}");
    let groups = "SELECT tiny, count(*) FROM a GROUP BY tiny ORDER BY tiny";
    let text = explanation(&session, &format!("EXPLAIN {groups}")).await;
    assert!(
        text.contains("SortExec: a sort of ") || text.contains("groups, which the CPU is faster at"),
        "{text}"
    );
    let long = explanation(&session, "EXPLAIN SELECT id, text FROM a ORDER BY text, id").await;
    assert!(sorts_of(&long) > 0 || long.contains("sorted by text"), "{long}");
    let runtime = RuntimeOptions { more_devices: vec![1], ..on_host().runtime };
    let two = tables.session(&SessionOptions { runtime, ..on_host() });
    let text = explanation(&two, &format!("EXPLAIN ANALYZE {sql}")).await;
    assert!(sorts_of(&text) == 0 && text.contains("over the links of the workers, "), "{text}");
    check(&two, &session, sql).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_devices_sort_together_what_one_does() {
    let tables = Tables::new();
    tables.add("a", random_rows(6, 9000), 512, vec![]);
    tables.add("b", random_rows(4, 500), 64, vec![]);
    let runtime = RuntimeOptions { more_devices: vec![1, 2], ..sorting().runtime };
    let three = tables.session(&SessionOptions { runtime, ..sorting() });
    let cpu = tables.session(&on_cpu());
    for sql in [
        "SELECT id, word, price, double FROM a ORDER BY word DESC NULLS LAST, double, id",
        "SELECT big, id FROM a WHERE id % 3 > 0 ORDER BY big NULLS FIRST, id LIMIT 16400 OFFSET 3",
        "SELECT id, huge FROM a ORDER BY huge DESC, id LIMIT 17",
        "SELECT a.id, b.id AS other, a.day FROM a JOIN b ON a.small = b.small ORDER BY a.day DESC, a.id, other",
        "SELECT id, text FROM a WHERE id < 40 ORDER BY flag, id",
        "SELECT id FROM a WHERE id < 0 ORDER BY double",
    ] {
        check(&three, &cpu, sql).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_fit_a_device_is_sorted_in_runs_as_long_as_the_host_holds_them() {
    let tables = Tables::new();
    tables.add("a", random_rows(7, 200_000), 20_000, vec![]);
    let cpu = tables.session(&on_cpu());
    let sql = "SELECT id, big, double, price FROM a ORDER BY double DESC NULLS LAST, big, id";
    let limited = |device: u64, host: Option<u64>| {
        let runtime = RuntimeOptions { morsel_bytes: 1 << 20, staging_buffers: 2, ..sorting().runtime };
        tables.session(&SessionOptions {
            device_memory_limit_bytes: Some(device),
            memory_limit_bytes: host,
            runtime,
            ..sorting()
        })
    };
    let short = limited(8 << 20, Some(256 << 20));
    let text = explanation(&short, &format!("EXPLAIN ANALYZE {sql}")).await;
    assert!(sorts_of(&text) == 0 && text.contains("  sorted runs: "), "{text}");
    assert!(!text.contains("ran on the CPU after all"), "{text}");
    check(&short, &cpu, sql).await;
    // With so little of the host's memory, planning knows that the runs would not fit.
    let shorter = limited(8 << 20, Some(16 << 20));
    let text = explanation(&shorter, &format!("EXPLAIN {sql}")).await;
    assert!(text.contains("SortExec") && text.contains("the host would merge in 8 MB"), "{text}");
    let (actual, query) = run(&shorter, sql).await;
    assert_eq!((actual, fallbacks(&query)), (run(&cpu, sql).await.0, Vec::new()));
    // Of the first rows, runs hold no more.
    let first = format!("{sql} LIMIT 500");
    check(&shorter, &cpu, &first).await;
    // Too little for anything: the CPU runs it.
    let nothing = limited(64 << 10, Some(256 << 20));
    check_rows(&nothing, &cpu, sql).await;
}
