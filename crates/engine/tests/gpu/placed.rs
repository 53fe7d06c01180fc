//! Which nodes of benchmark queries stay on the CPU below their last sort, and why.

use std::sync::Arc;

use datafusion::arrow::array::{AsArray, RecordBatch, StringArray};
use datafusion::arrow::compute::{cast, concat_batches};
use datafusion::arrow::datatypes::DataType;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::scalar_subquery::ScalarSubqueryExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ExecutionPlan, displayable};
use pelton_datagen::{Dataset, Query, batches, queries};
use pelton_engine::{PeltonGpuExec, PeltonSession};

use crate::common::Tables;
use crate::{benchmarks, on_host};

/// Nodes that are not on the device, below the last sort; of a plan without one, below its limit and last projection.
fn on_cpu(plan: &Arc<dyn ExecutionPlan>) -> Vec<String> {
    if plan.is::<ScalarSubqueryExec>() {
        return plan.children().into_iter().flat_map(on_cpu).collect();
    }
    let is_last = plan.is::<SortExec>()
        || plan.is::<SortPreservingMergeExec>()
        || plan.is::<GlobalLimitExec>()
        || plan.is::<LocalLimitExec>()
        || plan.is::<CoalescePartitionsExec>()
        || plan.is::<CooperativeExec>()
        || plan.is::<ProjectionExec>();
    if is_last {
        return on_cpu(plan.children()[0]);
    }
    let mut nodes = Vec::new();
    all_on_cpu(plan, &mut nodes);
    nodes
}

/// All nodes from `plan` down that are not on the device; what is below one there is its host inputs.
fn all_on_cpu(plan: &Arc<dyn ExecutionPlan>, nodes: &mut Vec<String>) {
    // Rows that statistics alone give.
    if !plan.is::<PeltonGpuExec>() && !plan.is::<PlaceholderRowExec>() {
        nodes.push(plan.name().to_owned());
    }
    plan.children().into_iter().for_each(|child| all_on_cpu(child, nodes));
}

/// Queries with nodes on the CPU: which, and why.
type Exceptions = &'static [(&'static str, &'static [&'static str], &'static str)];

async fn check(queries: &[&Query], scale: f64, session: &PeltonSession, exceptions: Exceptions) {
    let mut found = Vec::new();
    for query in queries {
        let planned = session.query(&query.sql_for_scale(scale)).await.unwrap();
        let nodes = on_cpu(planned.physical_plan());
        let expected = exceptions.iter().find(|(name, ..)| *name == query.name);
        if nodes != expected.map_or(&[] as &[&str], |(_, nodes, _)| nodes) {
            let plan = displayable(planned.physical_plan().as_ref()).indent(true).to_string();
            found.push(format!("{}: {nodes:?}\n{plan}", query.name));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    let names = exceptions.iter().map(|(name, ..)| *name);
    names.for_each(|name| assert!(queries.iter().any(|query| query.name == name), "{name}"));
}

fn all(dataset: Dataset) -> Vec<&'static Query> {
    queries(dataset).iter().collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_of_tpch_is_on_the_device_up_to_its_last_sort() {
    let tables = benchmarks::load(Dataset::Tpch);
    check(&all(Dataset::Tpch), benchmarks::SCALE, &tables.session(&on_host()), &[]).await;
}

/// Page views, few of them.
const HITS_SCALE: f64 = 0.0002;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_of_hits_is_on_the_device_up_to_its_last_sort() {
    let tables = benchmarks::load_at(Dataset::Hits, HITS_SCALE, 8192);
    check(&all(Dataset::Hits), HITS_SCALE, &tables.session(&on_host()), &[]).await;
}

/// The columns that queries ask of long texts.
const COLUMNS: [&str; 14] = [
    "URL",
    "Referer",
    "Title",
    "SearchPhrase",
    "CounterID",
    "EventDate",
    "IsRefresh",
    "DontCountHits",
    "IsLink",
    "IsDownload",
    "UserID",
    "TraficSourceID",
    "SearchEngineID",
    "AdvEngineID",
];

/// Queries that read no other columns.
const OF_TEXTS: [&str; 13] =
    ["Q5", "Q13", "Q20", "Q21", "Q22", "Q27", "Q28", "Q33", "Q34", "Q36", "Q37", "Q38", "Q39"];

/// `COLUMNS` of `rows`, `copies` times; no two texts of `URL` and `Referer` are equal but empty ones.
fn many_texts(rows: &RecordBatch, copies: usize) -> RecordBatch {
    let schema = rows.schema();
    let columns: Vec<usize> = COLUMNS.iter().map(|name| schema.index_of(name).unwrap()).collect();
    let rows = rows.project(&columns).unwrap();
    let rows = concat_batches(&rows.schema(), &vec![rows.clone(); copies]).unwrap();
    let mut columns = rows.columns().to_vec();
    for column in &mut columns[..2] {
        let texts = cast(column, &DataType::Utf8).unwrap();
        let texts = texts.as_string::<i32>().iter().enumerate().map(|(row, text)| {
            text.map(|text| if text.is_empty() { String::new() } else { format!("{text}/{row}") })
        });
        *column = cast(&texts.collect::<StringArray>(), column.data_type()).unwrap();
    }
    RecordBatch::try_new(rows.schema(), columns).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn so_it_is_where_long_texts_have_no_dictionary() {
    let loaded = Tables::new();
    let rows: Vec<_> = batches(Dataset::Hits, "hits", HITS_SCALE, 0, 1, 42).unwrap().collect();
    let rows = concat_batches(&rows[0].schema(), &rows).unwrap();
    // Of so many rows none is made either.
    let copies = (1 << 18) / rows.num_rows() + 1;
    loaded.add("hits", many_texts(&rows, copies), 65536, vec![]);
    let is_wanted = |query: &&Query| OF_TEXTS.contains(&query.name);
    let wanted: Vec<&Query> = queries(Dataset::Hits).iter().filter(is_wanted).collect();
    assert_eq!(wanted.len(), OF_TEXTS.len());
    check(&wanted, HITS_SCALE, &loaded.session(&on_host()), &[]).await;
}
