//! What plans look like with a device, and what EXPLAIN says of it.

use std::sync::Arc;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_plan::displayable;
use datafusion::prelude::SessionContext;
use pelton_engine::{DeviceChoice, PeltonSession, SessionOptions, with_pelton};

use crate::common::{Tables, integers, run};
use crate::{assert_same_rows, device_nodes, fallbacks, on_host};

fn tables() -> Tables {
    let tables = Tables::new();
    let rows = 6000;
    let fact = integers(&[
        ("f_key", (0..rows).map(|row| row % 97).collect()),
        ("f_value", (0..rows).collect()),
        ("f_unused", (0..rows).collect()),
    ]);
    tables.add("fact", fact, 500, vec![]);
    let dimension =
        integers(&[("d_key", (0..97).collect()), ("d_group", (0..97).map(|key| key / 10).collect())]);
    tables.add("dim", dimension, 97, vec![]);
    tables
}

pub(crate) async fn explanation(session: &PeltonSession, sql: &str) -> String {
    let batches = session.query(sql).await.unwrap().collect().await.unwrap();
    let texts = batches.iter().flat_map(|batch| {
        (0..batch.num_rows()).map(|row| {
            let text = |column: usize| batch.column(column).as_string::<i32>().value(row).to_owned();
            format!("-- {}\n{}", text(0), text(1))
        })
    });
    texts.collect()
}

const JOIN: &str =
    "SELECT d_group, sum(f_value) FROM fact JOIN dim ON f_key = d_key WHERE d_group < 5 GROUP BY d_group";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explain_shows_pipelines_and_what_stays_on_the_cpu() {
    let tables = tables();
    let session = tables.session(&on_host());
    let text = explanation(&session, &format!("EXPLAIN {JOIN}")).await;
    assert!(text.contains("PeltonGpuExec: device=host target, pipelines=2"), "{text}");
    assert!(
        text.contains("-- on the device\nchosen by --device\nrates: link 55.5 GB/s (preset), "),
        "{text}"
    );
    assert!(text.contains("pipeline 0: build from dim"), "{text}");
    assert_eq!(text.matches("\n  predicted ").count(), 2, "a prediction a pipeline: {text}");
    assert!(!text.contains("took"), "{text}");
    assert!(text.contains("reads fact, 12 of 12 row groups: f_key (disk), f_value (disk)"), "{text}");
    assert!(text.contains("filter d_group < 5"), "{text}");
    assert!(!text.contains("f_unused"), "{text}");
    assert!(!text.contains("-- on the CPU"), "{text}");

    let text = explanation(&session, "EXPLAIN SELECT f_value FROM fact").await;
    assert!(text.contains("-- on the CPU\nPeltonScanExec: nothing in it reduces rows"), "{text}");
    let text = explanation(&session, "EXPLAIN SELECT median(f_value) FROM fact WHERE f_key > 3").await;
    assert!(text.contains("kernels have no aggregate median"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explain_analyze_shows_what_the_run_did() {
    let tables = tables();
    let session = tables.session(&on_host());
    let text = explanation(&session, &format!("EXPLAIN ANALYZE {JOIN}")).await;
    assert!(text.contains("6000 rows in"), "{text}");
    assert!(text.contains("actual=5"), "{text}");
    assert!(text.contains("fact: 12 row groups"), "{text}");
    assert!(text.contains("read: 12 row groups"), "{text}");
}

/// Milliseconds behind `word` in each line of `text` that has it.
fn figures(text: &str, word: &str) -> Vec<f64> {
    let behind = text.lines().filter_map(|line| line.split_once(word)?.1.split_whitespace().next());
    behind.map(|number| number.trim_end_matches(',').parse().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explain_analyze_shows_what_was_predicted_of_each_step_and_what_it_took() {
    let tables = tables();
    let session = tables.session(&on_host());
    let analyze = format!("EXPLAIN ANALYZE {JOIN}");
    let mut last: Option<(Vec<f64>, Vec<f64>)> = None;
    for run in 0..5 {
        let text = explanation(&session, &analyze).await;
        let (predicted, took) = (figures(&text, "  predicted "), figures(&text, " ms, took "));
        assert_eq!((predicted.len(), took.len()), (2, 2), "{text}");
        assert_eq!(figures(&text, ", ratio ").len(), 2, "{text}");
        // Of what the first run took, a part is not expected again.
        if let Some((before, took)) = last.filter(|_| run > 1) {
            for ((now, before), took) in predicted.iter().zip(&before).zip(&took) {
                // A machine under load may hold a step up for longer than is believed.
                let is_beyond = *took > 200.0 && now < took;
                let is_between = (before.min(*took) - 0.011..before.max(*took) + 0.011).contains(now);
                assert!(is_between || is_beyond, "predicted {before} ms, took {took} ms, and then: {text}");
            }
        }
        last = Some((predicted, took));
    }
    let text = explanation(&session, &format!("EXPLAIN {JOIN}")).await;
    assert_eq!(figures(&text, "  predicted ").len(), 2, "{text}");
    let query = session.query(JOIN).await.unwrap();
    assert!(query.step_times().is_empty(), "it has not run");
    query.collect().await.unwrap();
    assert_eq!(query.step_times().len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn averages_are_computed_by_the_device_s_node() {
    let tables = tables();
    let session = tables.session(&on_host());
    let sql = "SELECT f_key, avg(f_value), count(*) FROM fact WHERE f_value > 10 GROUP BY f_key";
    let (actual, query) = run(&session, sql).await;
    assert_same_rows(&actual, &tables.expected(sql).await, sql);
    assert_eq!(device_nodes(&query).len(), 1);
    let plan = plan_text(&query);
    assert!(!plan.contains("AggregateExec"), "{plan}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_average_in_one_stage_is_computed_there_too() {
    let tables = tables();
    let session = tables.session(&SessionOptions { threads: Some(1), ..on_host() });
    let sql =
        "SELECT d_group, avg(f_value), sum(f_value) FROM fact JOIN dim ON f_key = d_key GROUP BY d_group";
    let (actual, query) = run(&session, sql).await;
    assert_same_rows(&actual, &tables.expected(sql).await, sql);
    assert_eq!(device_nodes(&query).len(), 1, "{}", plan_text(&query));
    assert!(!plan_text(&query).contains("AggregateExec"), "{}", plan_text(&query));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_host_computes_projections_over_few_groups() {
    let tables = tables();
    let session = tables.session(&on_host());
    let sql = "SELECT avg(f_value) * 2 AS twice, d_group, sum(f_value) + d_group AS more, count(*) AS rows \
               FROM fact JOIN dim ON f_key = d_key GROUP BY d_group ORDER BY d_group";
    let (actual, query) = run(&session, sql).await;
    assert_same_rows(&actual, &tables.expected(sql).await, sql);
    assert!(fallbacks(&query).is_empty(), "{:?}", fallbacks(&query));
    let text = explanation(&session, &format!("EXPLAIN {sql}")).await;
    assert!(text.contains("pipelines=2") && !text.contains("ProjectionExec"), "{text}");
    assert!(text.contains("the host computes of these groups: avg(fact.f_value), twice = "), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_overflows_over_few_groups_is_an_error_as_on_the_cpu() {
    let tables = tables();
    let session = tables.session(&on_host());
    let sql = "SELECT d_group, count(*) * 9223372036854775807 AS beyond FROM fact JOIN dim ON f_key = d_key \
               GROUP BY d_group";
    let query = session.query(sql).await.unwrap();
    let error = query.collect().await.unwrap_err().to_string();
    assert!(error.to_lowercase().contains("overflow"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_larger_scan_probes_whatever_the_join_order_says() {
    let tables = tables();
    let session = tables.session(&on_host());
    // Few rows of the fact table are estimated to be left: the order has it build.
    let sql = "SELECT sum(d_group) FROM fact JOIN dim ON f_key = d_key WHERE f_value < 20";
    let (actual, _) = run(&session, sql).await;
    assert_same_rows(&actual, &tables.expected(sql).await, sql);
    let text = explanation(&session, &format!("EXPLAIN {sql}")).await;
    assert!(text.contains("build from dim") && text.contains("aggregate of fact"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_datafusion_session_of_ones_own_runs_on_a_device() {
    let tables = tables();
    let pelton = with_pelton(SessionStateBuilder::new().with_default_features(), &on_host()).unwrap();
    let table = pelton.table(tables.directory().join("fact")).unwrap();
    let session = SessionContext::new_with_state(pelton.builder.build());
    session.register_table("fact", Arc::new(table)).unwrap();
    let sql = "SELECT f_key, sum(f_value) AS s FROM fact WHERE f_value > 7 GROUP BY f_key";
    let frame = session.sql(sql).await.unwrap();
    let plan = frame.clone().create_physical_plan().await.unwrap();
    assert!(displayable(plan.as_ref()).indent(false).to_string().contains("PeltonGpuExec"));
    let actual = pretty_format_batches(&frame.collect().await.unwrap()).unwrap().to_string();
    assert_same_rows(&actual, &tables.expected(sql).await, sql);
}

fn plan_text(query: &pelton_engine::Query) -> String {
    displayable(query.physical_plan().as_ref()).indent(false).to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cpu_alone_is_a_choice_and_what_auto_takes_for_little() {
    let tables = tables();
    for device in [DeviceChoice::Cpu, DeviceChoice::Auto] {
        let session = tables.session(&SessionOptions { device, ..on_host() });
        let (actual, query) = run(&session, JOIN).await;
        assert_same_rows(&actual, &tables.expected(JOIN).await, JOIN);
        assert!(device_nodes(&query).is_empty(), "{device:?}");
        assert!(session.runtime().is_none(), "{device:?} opened a device for nothing");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pinned_tables_are_read_from_memory() {
    let tables = tables();
    let session = tables.session(&SessionOptions { pin: vec!["fact".into()], ..on_host() });
    let text = explanation(&session, &format!("EXPLAIN {JOIN}")).await;
    assert!(text.contains("f_key (pinned), f_value (pinned)"), "{text}");
    let (actual, query) = run(&session, JOIN).await;
    assert_same_rows(&actual, &tables.expected(JOIN).await, JOIN);
    let fact = query.scan_reports().unwrap().into_iter().find(|report| report.table == "fact").unwrap();
    assert_eq!(fact.bytes_read, 0);
    assert_eq!(fact.row_groups_read, 12);
}

#[tokio::test]
async fn a_table_that_cannot_be_pinned_is_named() {
    let tables = tables();
    let open = |options: SessionOptions| tables.try_session(&options).map(|_| ());
    let error = open(SessionOptions { pin: vec!["nosuch".into()], ..on_host() }).unwrap_err();
    assert!(error.to_string().contains("nosuch"), "{error}");
    let cpu = SessionOptions { device: DeviceChoice::Cpu, pin: vec!["fact".into()], ..on_host() };
    let error = open(cpu).unwrap_err();
    assert!(error.to_string().contains("'fact'") && error.to_string().contains("--device"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_build_side_that_kernels_cannot_make_is_brought_over() {
    let tables = tables();
    let session = tables.session(&on_host());
    let sql = "SELECT count(*), sum(f_value) FROM fact \
               JOIN (SELECT d_group, median(d_key) AS s FROM dim GROUP BY d_group) ON f_key = d_group WHERE s > 1";
    let (actual, query) = run(&session, sql).await;
    assert_same_rows(&actual, &tables.expected(sql).await, sql);
    let nodes = device_nodes(&query);
    assert_eq!(nodes.len(), 1, "{}", plan_text(&query));
    assert_eq!(nodes[0].children().len(), 1, "{}", plan_text(&query));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_aggregate_below_a_partitioned_join_keeps_its_partitions() {
    let tables = tables();
    let options = SessionOptions { threads: Some(4), ..on_host() };
    let session = tables.session(&options);
    let config = "SET datafusion.optimizer.hash_join_single_partition_threshold = 0";
    run(&session, config).await;
    run(&session, "SET datafusion.optimizer.hash_join_single_partition_threshold_rows = 0").await;
    let sql = "SELECT l.f_key, l.s, r.m FROM (SELECT f_key, sum(f_value) AS s FROM fact GROUP BY f_key) l \
               FULL JOIN (SELECT f_key, bit_or(f_value) AS m FROM fact GROUP BY f_key) r ON l.f_key = r.f_key";
    let (actual, query) = run(&session, sql).await;
    assert_same_rows(&actual, &tables.expected(sql).await, sql);
    assert_eq!(device_nodes(&query).len(), 1, "{}", plan_text(&query));
}
