//! Profiles: what was planned, read, skipped and moved, when, and where; of queries that ran, failed, or never ran.

use std::path::PathBuf;
use std::time::Duration;

use futures::StreamExt;
use pelton_engine::{
    Ceiling, Ceilings, DeviceChoice, LinkKind, PeltonSession, Place, ProfileContext, ProfileNode, Query,
    QueryProfile, QueryState, RuntimeOptions, SessionOptions,
};

use crate::common::{Tables, integers, run};

const GROUPS: &str =
    "SELECT d.name, sum(f.value) AS total FROM f JOIN d ON f.key = d.key WHERE f.id >= 15500 GROUP BY d.name";

/// A fact table, sorted by `id`, and a dimension.
fn tables() -> Tables {
    let tables = Tables::new();
    let rows = 20_000;
    let fact = [
        ("id", (0..rows).collect()),
        ("key", (0..rows).map(|row| row * 7919 % 100).collect()),
        ("value", (0..rows).map(|row| row % 1000).collect()),
    ];
    tables.add("f", integers(&fact), 1000, vec![]);
    let dimension = [("key", (0..100).collect()), ("name", (0..100).map(|key| key % 7).collect())];
    tables.add("d", integers(&dimension), 1000, vec![]);
    tables
}

fn on_cpu() -> SessionOptions {
    SessionOptions { threads: Some(2), device: DeviceChoice::Cpu, ..SessionOptions::default() }
}

/// Everything that kernels can do, on the host's cores.
fn on_host() -> SessionOptions {
    let cache = Some(PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("programs"));
    let runtime = RuntimeOptions { cache, workers: 2, ..RuntimeOptions::default() };
    SessionOptions { device: DeviceChoice::Host, runtime, ..on_cpu() }
}

async fn traced(session: &PeltonSession, sql: &str) -> Query {
    session.query(sql).await.unwrap().traced()
}

fn profile(query: &Query) -> QueryProfile {
    query.profile(ProfileContext::default()).unwrap()
}

/// Runs `sql` under a trace; gives its profile.
async fn profiled(session: &PeltonSession, sql: &str) -> QueryProfile {
    let query = traced(session, sql).await;
    query.collect().await.unwrap();
    profile(&query)
}

fn nodes(profile: &QueryProfile) -> Vec<&ProfileNode> {
    let mut all = Vec::new();
    profile.plan.visit(&mut |node| all.push(node));
    all
}

/// The names of what was done for `node`, each once.
fn activities(profile: &QueryProfile, node: usize) -> Vec<&'static str> {
    let is_its = |lane: usize| profile.timeline.lanes[lane].node == Some(node);
    let spans = profile.timeline.spans.iter().filter(|span| is_its(span.lane));
    let mut names: Vec<_> = spans.map(|span| span.activity).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn link(profile: &QueryProfile, kind: LinkKind) -> &pelton_engine::LinkUse {
    profile.links.iter().find(|link| link.kind == kind).unwrap_or_else(|| panic!("{kind:?} is not there"))
}

fn assert_times_are_within_the_run(profile: &QueryProfile) {
    // Device events are placed by a base that is noticed a little late.
    let end = profile.elapsed.unwrap() + Duration::from_millis(20);
    for span in &profile.timeline.spans {
        assert!(span.start <= span.end, "{span:?}");
        assert!(span.end <= end, "{span:?} ends after {end:?}");
    }
    for tier in &profile.memory {
        assert!(tier.points.is_sorted_by_key(|(at, _)| *at), "{}", tier.tier);
        assert!(tier.points.iter().all(|(_, bytes)| *bytes <= tier.peak_bytes), "{}", tier.tier);
    }
}

#[tokio::test]
async fn a_query_that_has_not_run_shows_its_plan_and_no_figures() {
    let tables = tables();
    let session = tables.session(&on_cpu());
    let profile = profile(&session.query(GROUPS).await.unwrap());
    assert_eq!((&profile.state, profile.elapsed, profile.rows), (&QueryState::Planned, None, None));
    assert!(profile.timeline.spans.is_empty() && profile.memory.is_empty());
    let nodes = nodes(&profile);
    assert!(nodes.iter().all(|node| node.actual_rows.unwrap_or(0) == 0 && node.place == Place::Cpu));
    assert!(nodes.iter().any(|node| node.estimated_rows.is_some()));
    assert!(nodes.iter().enumerate().all(|(index, node)| node.id == index), "numbers go down the plan");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scan_on_the_cpu_tells_what_it_read_skipped_decoded_and_when() {
    let tables = tables();
    let session = tables.session(&on_cpu());
    let profile = profiled(&session, GROUPS).await;
    assert_eq!((&profile.state, profile.rows), (&QueryState::Finished, Some(7)));
    assert_times_are_within_the_run(&profile);
    let nodes = nodes(&profile);
    let scans: Vec<_> = nodes.iter().filter(|node| node.scan.is_some()).collect();
    let fact = scans.iter().find(|node| node.scan.as_ref().unwrap().table == "f").unwrap();
    let report = fact.scan.as_ref().unwrap();
    assert_eq!((report.row_groups_total, report.row_groups_read), (20, 5));
    assert!(report.skipped.values().map(|skipped| skipped.row_groups).sum::<u64>() == 15, "{report:?}");
    // Of `id` one row group alone: the bounds of the others say that all their rows pass.
    assert_eq!(report.bytes_decoded, (1 + 5 + 5) * 1000 * 8);
    let done = activities(&profile, fact.id);
    assert!(["decode", "filter", "read"].iter().all(|name| done.contains(name)), "{done:?}");
    assert!(fact.busy.unwrap() > Duration::ZERO && fact.active.unwrap().1 > Duration::ZERO);
    let read: u64 = scans.iter().map(|node| node.scan.as_ref().unwrap().bytes_read).sum();
    assert_eq!(link(&profile, LinkKind::Files).bytes, read);
    assert!(link(&profile, LinkKind::Decoding).bytes_per_s().unwrap() > 0.0);
    let tiers: Vec<_> = profile.memory.iter().map(|tier| tier.tier).collect();
    assert!(tiers.contains(&"pool") && !tiers.contains(&"device"), "{tiers:?}");
    assert!(nodes.iter().all(|node| node.reason == "the CPU was chosen"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pipelines_are_nodes_with_copies_and_kernels_of_their_own() {
    let tables = tables();
    let session = tables.session(&on_host());
    let expected = run(&session, GROUPS).await.0;
    let query = traced(&session, GROUPS).await;
    let batches = query.collect().await.unwrap();
    assert_eq!(batches.iter().map(|batch| batch.num_rows()).sum::<usize>(), 7, "{expected}");
    let profile = profile(&query);
    assert_times_are_within_the_run(&profile);
    let nodes = nodes(&profile);
    let pipelines: Vec<_> = nodes.iter().filter(|node| node.name.starts_with("pipeline ")).collect();
    assert_eq!(pipelines.len(), 2);
    for pipeline in &pipelines {
        assert_eq!(pipeline.place, Place::Device);
        let done = activities(&profile, pipeline.id);
        let wanted = ["allocate", "compile", "copy", "kernel", "prepare", "read", "result", "stage"];
        assert!(wanted.iter().all(|name| done.contains(name)), "{}: {done:?}", pipeline.name);
    }
    let (probes, builds) = (pipelines[0], pipelines[1]);
    assert!(probes.detail.contains("probe") && builds.detail.contains("build"), "{}", probes.detail);
    assert_eq!(probes.children[0].id, builds.id, "who is probed stands below");
    let moved =
        |node: &ProfileNode| node.metrics.iter().find(|metric| metric.name == "link_bytes").unwrap().value;
    assert_eq!(link(&profile, LinkKind::ToDevice).bytes, moved(probes) + moved(builds));
    for time in ["time_predicted", "time_taken"] {
        let metric =
            |node: &ProfileNode| node.metrics.iter().find(|metric| metric.name == time).unwrap().value;
        assert!(metric(probes) > 0 && metric(builds) > 0, "{time}");
    }
    let copied: u64 =
        profile.timeline.spans.iter().filter(|span| span.activity == "copy").map(|s| s.bytes).sum();
    assert_eq!(copied, moved(probes) + moved(builds), "every copy is a span");
    let device = profile.memory.iter().find(|tier| tier.tier == "device").unwrap();
    assert!(device.peak_bytes > 0 && device.limit_bytes.unwrap() >= device.peak_bytes);
    let aggregate = nodes.iter().find(|node| node.name == "PeltonGpuExec").unwrap();
    assert_eq!((aggregate.place, aggregate.reason.as_str()), (Place::Device, "chosen by --device"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scan_tells_from_which_tier_its_chunks_came() {
    let tables = tables();
    let sql = "SELECT key, sum(value) AS total FROM f GROUP BY key";
    let pinned = SessionOptions { pin: vec!["f".into()], ..on_host() };
    let cached = RuntimeOptions { device_cache_bytes: Some(64 << 20), ..on_host().runtime };
    let cached = SessionOptions { runtime: cached, ..on_host() };
    for (tier, options) in [("files", on_host()), ("pinned memory", pinned), ("device memory", cached)] {
        let profile = profiled(&tables.session(&options), sql).await;
        let scan = nodes(&profile).into_iter().find_map(|node| node.scan.as_ref()).unwrap();
        let taken = [scan.bytes_read, scan.pinned_bytes, scan.device_bytes];
        let tiers = ["files", "pinned memory", "device memory"];
        for (bytes, name) in taken.iter().zip(tiers) {
            assert_eq!(*bytes > 0, tier == name, "{tier}: {taken:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_the_cpu_brings_stand_below_their_pipeline_and_are_copied() {
    let tables = tables();
    let session = tables.session(&on_host());
    let sql = "SELECT f.key, count(*) AS c FROM f JOIN (SELECT key FROM d ORDER BY name LIMIT 30) AS few \
               ON f.key = few.key GROUP BY f.key";
    let profile = profiled(&session, sql).await;
    let nodes = nodes(&profile);
    let brought = nodes.iter().find(|node| node.detail.contains("host input 0") && !node.children.is_empty());
    let brought =
        brought.unwrap_or_else(|| panic!("{:?}", nodes.iter().map(|node| &node.detail).collect::<Vec<_>>()));
    assert_eq!((brought.place, brought.children[0].place), (Place::Device, Place::Cpu));
    let copied: u64 =
        profile.timeline.spans.iter().filter(|span| span.activity == "copy").map(|s| s.bytes).sum();
    assert_eq!(copied, link(&profile, LinkKind::ToDevice).bytes, "every copy is a span");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_a_device_refused_the_plan_of_the_cpu_stands_below() {
    let tables = tables();
    let session = tables.session(&SessionOptions { device_memory_limit_bytes: Some(1 << 12), ..on_host() });
    let profile = profiled(&session, GROUPS).await;
    let nodes = nodes(&profile);
    let refused = nodes.iter().find(|node| node.name == "PeltonGpuExec").unwrap();
    assert_eq!(refused.place, Place::Cpu);
    assert!(refused.reason.contains("ran on the CPU after all") && refused.reason.contains("memory"));
    let scans: Vec<_> = nodes.iter().filter(|node| node.name == "PeltonScanExec").collect();
    assert!(scans.len() == 2 && scans.iter().all(|scan| scan.id > refused.id));
    assert!(activities(&profile, scans[1].id).contains(&"decode"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_of_a_spilled_table_counts_what_went_to_the_host() {
    let tables = tables();
    let runtime = RuntimeOptions { morsel_bytes: 64 << 10, ..on_host().runtime };
    let limited = SessionOptions { device_memory_limit_bytes: Some(1 << 20), runtime, ..on_host() };
    let sql = "SELECT count(*), sum(a.value), sum(b.value) FROM f AS a JOIN f AS b ON a.id = b.id + 1";
    let counted = |profile: &QueryProfile, name: &str| -> u64 {
        let metrics = nodes(profile).into_iter().flat_map(|node| node.metrics.clone());
        metrics.filter(|metric| metric.name == name).map(|metric| metric.value).sum()
    };
    let profile = profiled(&tables.session(&limited), sql).await;
    let [rows, bytes, partitions, waited, joined] = [
        "spilled_table_rows",
        "spilled_table_bytes",
        "spilled_table_partitions",
        "rows_waited_for_tables",
        "partitions_joined",
    ]
    .map(|name| counted(&profile, name));
    assert_eq!((rows, waited), (20_000, 20_000));
    assert!(bytes >= rows * 16 && partitions > 1 && joined >= partitions, "{bytes} {partitions} {joined}");
    let profile = profiled(&tables.session(&on_host()), sql).await;
    assert_eq!(counted(&profile, "spilled_table_rows"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_that_failed_or_was_stopped_says_so() {
    let tables = tables();
    let session = tables.session(&on_cpu());
    let query = traced(&session, "SELECT id / (value - value) FROM f").await;
    let error = query.collect().await.unwrap_err().to_string();
    let failed = profile(&query);
    assert!(matches!(&failed.state, QueryState::Failed(message) if message.contains("ivide")), "{error}");
    assert!(failed.elapsed.is_some());

    let query = traced(&session, "SELECT id FROM f").await;
    let mut rows = query.stream().await.unwrap();
    rows.next().await.unwrap().unwrap();
    drop(rows);
    let stopped = profile(&query);
    assert_eq!(stopped.state, QueryState::Stopped);
    assert!(stopped.rows.unwrap() > 0 && stopped.rows.unwrap() < 20_000, "{:?}", stopped.rows);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explanations_have_the_profile_of_what_they_explain() {
    let tables = tables();
    let session = tables.session(&on_cpu());
    let explained = profiled(&session, &format!("EXPLAIN {GROUPS}")).await;
    assert_eq!((&explained.state, explained.elapsed), (&QueryState::Planned, None));
    let analyzed = profiled(&session, &format!("EXPLAIN ANALYZE {GROUPS}")).await;
    assert_eq!((&analyzed.state, analyzed.rows), (&QueryState::Finished, Some(7)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_stand_beside_what_was_measured_or_how_to_measure_it() {
    let tables = tables();
    let session = tables.session(&on_cpu());
    let query = traced(&session, GROUPS).await;
    query.collect().await.unwrap();
    let files = Some(Ceiling { bytes_per_s: 5e9, source: "measured today".into() });
    let ceilings = Ceilings { files, remedy: "run `measure`".into(), ..Ceilings::default() };
    let profile = query.profile(ProfileContext { ceilings, ..ProfileContext::default() }).unwrap();
    assert_eq!(link(&profile, LinkKind::Files).ceiling.as_ref().unwrap().source, "measured today");
    assert_eq!(link(&profile, LinkKind::Files).remedy, "");
    let decoding = link(&profile, LinkKind::Decoding);
    assert_eq!((&decoding.ceiling, decoding.remedy.as_str()), (&None, "run `measure`"));
}

#[tokio::test]
async fn text_of_a_query_cannot_leave_its_place_in_the_page() {
    let tables = tables();
    let session = tables.session(&on_cpu());
    let sql = "SELECT '</script><script>alert(1)</script><!--' AS text";
    let query = traced(&session, sql).await;
    query.collect().await.unwrap();
    let context = ProfileContext { sql: Some(sql.into()), ..ProfileContext::default() };
    let page = query.profile(context).unwrap().to_html();
    assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
    assert!(!page.contains("alert(1)</script>") && page.contains("\\u003c/script\\u003e"));
    assert!(!page.contains("{scripts}") && !page.contains("{data}"));
}
