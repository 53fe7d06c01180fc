//! Substrait plans: those of DataFusion's own producer for every query of SSB, one of another producer, and what is none.

use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion_substrait::logical_plan::producer::to_substrait_plan;
use datafusion_substrait::serializer::serialize_bytes;
use datafusion_substrait::substrait::proto::Plan;
use pelton_datagen::{Dataset, batches, queries, tables};
use pelton_engine::{PeltonSession, SessionOptions};
use pelton_error::ErrorKind;

use super::{on_host, sorted};
use crate::common::{Tables, integers, run};

const SCALE: f64 = 0.003;

fn ssb() -> Tables {
    let loaded = Tables::new();
    for table in tables(Dataset::Ssb, SCALE).unwrap() {
        let rows: Vec<_> = batches(Dataset::Ssb, table.name, SCALE, 0, 1, 42).unwrap().collect();
        loaded.add(table.name, concat_batches(&table.schema, &rows).unwrap(), 4096, vec![]);
    }
    loaded
}

async fn answer(session: &PeltonSession, plan: &[u8]) -> String {
    let batches = session.substrait(plan).await.unwrap().collect().await.unwrap();
    let batches: Vec<_> = batches.into_iter().filter(|batch| batch.num_rows() > 0).collect();
    pretty_format_batches(&batches).unwrap().to_string()
}

/// The plan of `sql` as text of its JSON form.
async fn json_of(session: &PeltonSession, sql: &str) -> Vec<u8> {
    let plan = session.context().sql(sql).await.unwrap().into_optimized_plan().unwrap();
    let plan = to_substrait_plan(&plan, &session.context().state()).unwrap();
    serde_json::to_vec(&*plan).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_query_of_ssb_survives_the_way_through_substrait() {
    let tables = ssb();
    let session = tables.session(&on_host());
    for query in queries(Dataset::Ssb) {
        let sql = query.sql_for_scale(SCALE);
        let plan = serialize_bytes(&sql, session.context()).await.unwrap();
        let (expected, _) = run(&session, &sql).await;
        assert_eq!(sorted(&answer(&session, &plan).await), sorted(&expected), "{}", query.name);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_json_form_is_read_as_well() {
    let tables = Tables::new();
    tables.add("t", integers(&[("a", vec![1, 2, 3])]), 1024, vec![]);
    let session = tables.session(&SessionOptions::default());
    let plan = json_of(&session, "SELECT sum(a) AS s FROM t WHERE a > 1").await;
    assert!(answer(&session, &plan).await.contains("| 5 |"));
}

/// Written by ibis-substrait 4.0.1 of `t.filter(t.v > 10).group_by("k").aggregate(s=t.v.sum())`.
const IBIS: &[u8] = include_bytes!("ibis.json");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_of_another_producer_is_run() {
    let tables = Tables::new();
    tables.add(
        "t",
        integers(&[("k", (0..40).map(|v| v % 4).collect()), ("v", (0..40).collect())]),
        1024,
        vec![],
    );
    let session = tables.session(&SessionOptions::default());
    let expected = tables.expected("SELECT k, sum(v) AS s FROM t WHERE v > 10 GROUP BY k").await;
    assert_eq!(sorted(&answer(&session, IBIS).await), sorted(&expected));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_plan_or_names_what_is_not_there_is_explained() {
    let tables = Tables::new();
    tables.add("t", integers(&[("a", vec![1])]), 1024, vec![]);
    let session = tables.session(&SessionOptions::default());
    let refused =
        async |bytes: &[u8]| session.substrait(bytes).await.err().expect("it is no plan of this session");
    for bytes in [&b""[..], b"SELECT 1", b"\xff\xff\xff\xff", b"{", b"{\"relations\": 7}", b"{}"] {
        let error = refused(bytes).await;
        assert_eq!(error.kind(), &ErrorKind::InvalidInput, "{error}");
        assert!(error.to_string().contains("not a Substrait plan"), "{error}");
    }
    let good = String::from_utf8(json_of(&session, "SELECT abs(a) FROM t WHERE a > 1").await).unwrap();
    let missing = refused(good.replace("\"t\"", "\"u\"").as_bytes()).await.to_string();
    assert!(missing.contains('u') && missing.contains("tables in this warehouse: t"), "{missing}");
    let unknown = refused(good.replace("\"abs\"", "\"absent\"").as_bytes()).await;
    assert_eq!(unknown.kind(), &ErrorKind::Unsupported, "{unknown}");
    assert!(unknown.to_string().contains("absent"), "{unknown}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_plans_end_in_an_error_or_in_a_plan() {
    let tables = Tables::new();
    tables.add("t", integers(&[("a", vec![1, 2]), ("b", vec![3, 4])]), 1024, vec![]);
    let session = tables.session(&SessionOptions::default());
    let sql = "SELECT a, sum(b) FROM t WHERE b > 1 GROUP BY a ORDER BY a LIMIT 3";
    let plan = serialize_bytes(sql, session.context()).await.unwrap();
    for position in (0..plan.len()).step_by(3) {
        let mut damaged = plan.clone();
        damaged[position] ^= 0x15;
        let _ = session.substrait(&damaged).await;
        let _ = session.substrait(&plan[..position]).await;
    }
    let relations = Plan { relations: vec![Default::default(); 2], ..Default::default() };
    let message =
        session.substrait(&serde_json::to_vec(&relations).unwrap()).await.err().unwrap().to_string();
    assert!(message.contains("2 relations"), "{message}");
}
