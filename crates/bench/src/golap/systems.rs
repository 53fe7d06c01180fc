//! E10: all queries of the data sets beside other systems, nothing skipped (Figure 16).
//!
//! Tables are as `pelton load` makes them; for a device without heavy codecs, as the guide advises, and in row groups of
//! the other experiments' size. All read the same rows in the same order from the page cache: a storage rate cannot be
//! imposed on other systems, so that here compute is compared, where the paper compares systems that are bound by storage.
//! Parquet's own statistics are left aside like ours. DataFusion runs in this process on Parquet; DuckDB's times come from
//! a file, since it is no part of this program.

use std::collections::HashMap;
use std::time::Instant;

use crate::plot::{Bar, BarChart, BarSeries};
use crate::{Outcome, Quoted, Summary};
use arrow::array::RecordBatch;
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use pelton_datagen::Dataset;
use pelton_engine::{DeviceChoice, from_datafusion};
use pelton_error::{Error, ErrorKind, Result, ResultExt};

use super::data::{Data, Form};
use super::stage::{Setup, derived, row, shape, unpruned, with};
use super::{Findings, Stage};
use crate::queries::same_rows;

/// A query's times, milliseconds.
struct Entry {
    name: String,
    ours: Vec<f64>,
    peer: Vec<f64>,
    duckdb: Option<f64>,
    note: String,
}

/// E10.
pub(super) fn run(stage: &Stage<'_>) -> Result<Findings> {
    let duckdb = duckdb_times(stage)?;
    let datasets: &[Dataset] =
        if stage.options.is_quick { &[Dataset::Ssb] } else { &[Dataset::Ssb, Dataset::Taxi, Dataset::Tpch] };
    let mut findings = Findings::default();
    for dataset in datasets {
        let entries = measure(stage, *dataset, &duckdb)?;
        entries.iter().for_each(|entry| push(stage, entry, &mut findings));
        summarise(stage, *dataset, &entries, &mut findings);
        let name = format!("golap-16-{dataset}");
        findings.figures.push((name, chart(stage, *dataset, &entries)));
    }
    Ok(findings)
}

fn measure(stage: &Stage<'_>, dataset: Dataset, duckdb: &HashMap<String, f64>) -> Result<Vec<Entry>> {
    let data = Data::prepare(stage, dataset)?;
    let setup = Setup { device: stage.device, is_stored: false, scan: unpruned() };
    let warehouse = match stage.has_device() {
        true => data.warehouse(stage, Form::Light, data.usual_rows())?,
        false => data.prepared.warehouse.clone(),
    };
    let session = stage.session(&warehouse, setup)?;
    let peer = stage.pool.block_on(peer(stage, &data))?;
    let mut entries = Vec::new();
    for query in pelton_datagen::queries(dataset) {
        stage.cancel.check()?;
        let name = format!("{dataset} {}", query.name);
        let sql = query.sql_for_scale(stage.options.scale);
        let ours = stage.time(&session, &sql).context(|| name.clone())?;
        let (theirs, answer) = time_peer(stage, &peer, &sql).context(|| format!("{name} on DataFusion"))?;
        if !same_rows(&ours.answer, &answer) {
            let message = format!("{name} gave other rows than plain DataFusion on the same data");
            return Err(Error::new(ErrorKind::Corrupt, message));
        }
        let ms = |seconds: Vec<f64>| seconds.into_iter().map(|seconds| seconds * 1e3).collect();
        let duckdb = duckdb.get(&name).copied();
        (stage.say)(&format!("{name}: {:.1} ms", ours.mean() * 1e3));
        entries.push(Entry { name, ours: ms(ours.seconds), peer: ms(theirs), duckdb, note: ours.note });
    }
    Ok(entries)
}

/// DataFusion over the Parquet files.
async fn peer(stage: &Stage<'_>, data: &Data) -> Result<SessionContext> {
    let config = SessionConfig::new()
        .with_target_partitions(stage.options.threads)
        .with_parquet_pruning(false)
        .with_parquet_page_index_pruning(false)
        .with_parquet_bloom_filter_pruning(false);
    let context = SessionContext::new_with_config(config);
    for (table, directory) in &data.prepared.parquet {
        let path = directory.display().to_string();
        context
            .register_parquet(table, path, ParquetReadOptions::default())
            .await
            .map_err(from_datafusion)?;
    }
    Ok(context)
}

fn time_peer(stage: &Stage<'_>, peer: &SessionContext, sql: &str) -> Result<(Vec<f64>, Vec<RecordBatch>)> {
    let once = || -> Result<(f64, Vec<RecordBatch>)> {
        let started = Instant::now();
        let answer = stage.wait_for(async {
            peer.sql(sql).await.map_err(from_datafusion)?.collect().await.map_err(from_datafusion)
        })?;
        Ok((started.elapsed().as_secs_f64(), answer))
    };
    let (_, mut answer) = once()?;
    let mut seconds = Vec::new();
    for _ in 0..stage.options.repetitions {
        let (time, rows) = once()?;
        seconds.push(time);
        answer = rows;
    }
    Ok((seconds, answer))
}

/// By data set and query, of this scale.
fn duckdb_times(stage: &Stage<'_>) -> Result<HashMap<String, f64>> {
    let Some(path) = &stage.options.duckdb else { return Ok(HashMap::new()) };
    let text = std::fs::read_to_string(path).context(|| format!("reading '{}'", path.display()))?;
    let mut times = HashMap::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let entry: serde_json::Value = serde_json::from_str(line).map_err(|error| {
            let message = format!("'{}' is not what tests/perf/peers.py --json writes", path.display());
            Error::invalid_input(message).with_source(error)
        })?;
        let workload = entry["workload"].as_str().and_then(|text| text.split_once("-sf"));
        let (Some((dataset, scale)), Some(query)) = (workload, entry["query"].as_str()) else { continue };
        let is_same_scale = scale.parse::<f64>().is_ok_and(|scale| scale == stage.options.scale);
        if let (true, Some(ms)) = (is_same_scale, entry["duckdb_ms"].as_f64()) {
            times.insert(format!("{dataset} {query}"), ms);
        }
    }
    Ok(times)
}

fn times(ms: &[f64]) -> Outcome {
    let Summary { mean, standard_error, min, count } = Summary::of(ms);
    Outcome::Done(crate::Measured { mean, standard_error, best: min, repetitions: count })
}

fn push(stage: &Stage<'_>, entry: &Entry, findings: &mut Findings) {
    let ours = row(&stage.machine, "16", format!("{}, Pelton", entry.name), "ms", times(&entry.ours));
    findings.rows.push(with(ours, None, entry.note.clone()));
    let peer = format!("{}, DataFusion on Parquet", entry.name);
    findings.rows.push(row(&stage.cpu, "16", peer, "ms", times(&entry.peer)));
    if let Some(ms) = entry.duckdb {
        let duckdb = row(&stage.cpu, "16", format!("{}, DuckDB on Parquet", entry.name), "ms", derived(ms));
        findings.rows.push(with(duckdb, None, "from another run"));
    }
}

/// Totals, and ours against them.
fn summarise(stage: &Stage<'_>, dataset: Dataset, entries: &[Entry], findings: &mut Findings) {
    let total = |ms: fn(&Entry) -> f64| entries.iter().map(ms).sum::<f64>();
    let ours = total(|entry| Summary::of(&entry.ours).mean);
    let peer = total(|entry| Summary::of(&entry.peer).mean);
    let paper = Some(Quoted::between(4.0, 23.0));
    let against = |name: &str, factor: Outcome| {
        let what = format!("{dataset}, all queries, against {name}");
        with(
            row(&stage.machine, "16, speed-up", what, "x", factor),
            paper,
            "warm; the paper's are bound by storage",
        )
    };
    findings.rows.push(against("DataFusion on Parquet", derived(peer / ours)));
    let duckdb: Option<f64> = entries.iter().map(|entry| entry.duckdb).sum();
    let missing = || Outcome::Missing("DuckDB's times of all queries (--duckdb-json)".into());
    findings.rows.push(against("DuckDB on Parquet", duckdb.map_or_else(missing, |ms| derived(ms / ours))));
    let detail = format!("{ours:.1} ms, DataFusion {peer:.1} ms");
    let found = match stage.device {
        DeviceChoice::Gpu(_) | DeviceChoice::GpuAndHost(_) => Ok((peer >= 4.0 * ours, detail)),
        _ => Err(format!("needs a GPU; {detail}")),
    };
    findings.shapes.push(shape(
        &stage.machine,
        &format!("E10: {dataset} four times as fast as a CPU system"),
        found,
    ));
}

fn chart(stage: &Stage<'_>, dataset: Dataset, entries: &[Entry]) -> String {
    let bars = |ms: &dyn Fn(&Entry) -> Option<Bar>| entries.iter().map(ms).collect();
    let measured = |ms: &[f64]| {
        let summary = Summary::of(ms);
        Some(Bar { value: summary.mean, error: summary.standard_error })
    };
    let mut series = vec![
        BarSeries {
            name: "DataFusion on Parquet".into(),
            is_reference: true,
            bars: bars(&|entry| measured(&entry.peer)),
        },
        BarSeries { name: "Pelton".into(), is_reference: false, bars: bars(&|entry| measured(&entry.ours)) },
    ];
    if entries.iter().any(|entry| entry.duckdb.is_some()) {
        let duckdb = bars(&|entry| entry.duckdb.map(|value| Bar { value, error: 0.0 }));
        series.push(BarSeries { name: "DuckDB on Parquet".into(), is_reference: false, bars: duckdb });
    }
    let chart = BarChart {
        title: format!("{dataset}, {} (measured), Figure 16", stage.machine),
        y_label: "ms".into(),
        categories: entries.iter().map(|entry| entry.name.clone()).collect(),
        series,
    };
    chart.to_svg()
}
