//! `pelton bench`: experiments, their tables on standard output, their steps on standard error.

use std::time::Duration;

use pelton_bench::golap::{self, GolapOptions, Part};
use pelton_bench::limits::{self, Case, LimitsOptions};
use pelton_bench::queries::{self, DataTier, QueriesOptions};
use pelton_bench::results::append_json;
use pelton_bench::workload::Workload;
use pelton_bench::{sampling, storage};
use pelton_engine::{DeviceChoice, SessionOptions};
use pelton_error::{Error, ErrorKind, Result, ResultExt};
use pelton_load::{CancelFlag, ClusterBy};

use crate::args::{
    BenchArgs, DataTierArg, Experiment, GolapArgs, LimitsArgs, QueriesArgs, SamplingArgs, StorageArgs,
    WorkloadArgs,
};
use crate::generate::{core_count, dataset, scale};
use crate::limits::limit_single_run;
use crate::{cancel, console, layer, load, sql};

const SEED: u64 = 42;

pub(crate) fn run(args: BenchArgs) -> Result<()> {
    let cancel = cancel::flag_on_ctrl_c()?;
    match args.experiment {
        Experiment::Queries(args) => run_queries(&args, &cancel),
        Experiment::Storage(args) => run_storage(&args, &cancel),
        Experiment::Sampling(args) => run_sampling(&args, &cancel),
        Experiment::Transfer(args) => layer::run_transfer(&args, &cancel),
        Experiment::P2p(args) => layer::run_p2p(&args, &cancel),
        Experiment::Sort(args) => layer::run_sort(&args, &cancel),
        Experiment::Join(args) => layer::run_join(&args, &cancel),
        Experiment::Golap(args) => run_golap(&args, &cancel),
        Experiment::Limits(args) => run_limits(&args, &cancel),
    }
}

fn workload(args: &WorkloadArgs, cluster_by: ClusterBy) -> Result<Workload> {
    let dataset = dataset(args.dataset);
    Ok(Workload {
        dataset,
        scale: scale(dataset, args.size)?,
        seed: SEED,
        dir: args.dir.clone(),
        cluster_by,
        threads: core_count(),
    })
}

fn say(line: &str) {
    console::say(line);
}

fn run_queries(args: &QueriesArgs, cancel: &CancelFlag) -> Result<()> {
    if args.runs == 0 {
        return Err(Error::invalid_input("--runs must be at least 1"));
    }
    let workload = workload(&args.workload, load::cluster_by(args.cluster_by.as_deref()))?;
    let options = QueriesOptions {
        runs: args.runs,
        cold: args.cold,
        only: args.only.clone(),
        pelton_only: args.pelton_only,
        session: sql::session_options(&args.session)?,
        tier: args.data_tier.map(|tier| match tier {
            DataTierArg::Disk => DataTier::Disk,
            DataTierArg::Pinned => DataTier::Pinned,
            DataTierArg::Device => DataTier::Device,
        }),
    };
    let prepared = workload.prepare(cancel, &say)?;
    let results = queries::run(&workload, &prepared, &options, cancel, &say)?;
    if results.is_empty() {
        return Err(Error::invalid_input(format!(
            "no query of {} starts with {}",
            workload.dataset,
            args.only.join(", ")
        )));
    }
    if let Some(path) = &args.workload.json {
        append_json(path, &results)?;
    }
    let printed = console::print(queries::table(&results));
    queries::predictions(&results).iter().for_each(|line| say(line));
    match results.iter().find(|result| result.equal == Some(false)) {
        Some(wrong) => Err(Error::new(
            ErrorKind::Corrupt,
            format!("{} gave other rows than plain DataFusion on the same data", wrong.query),
        )),
        None => printed,
    }
}

fn run_storage(args: &StorageArgs, cancel: &CancelFlag) -> Result<()> {
    let workload = workload(&args.workload, ClusterBy::None)?;
    let results = storage::run(&workload, cancel, &say)?;
    args.workload.json.as_deref().map_or(Ok(()), |path| append_json(path, &results))?;
    console::print(storage::table(&results))
}

fn run_sampling(args: &SamplingArgs, cancel: &CancelFlag) -> Result<()> {
    let workload = workload(&args.workload, ClusterBy::None)?;
    let results = sampling::run(&workload, args.seed, cancel, &say)?;
    args.workload.json.as_deref().map_or(Ok(()), |path| append_json(path, &results))?;
    console::print(sampling::table(&results))
}

/// Scale of `bench golap` where nobody says: quick, and not.
const GOLAP_SCALES: [f64; 2] = [0.02, 1.0];
/// Repetitions likewise.
const GOLAP_REPETITIONS: [u32; 2] = [2, 5];

fn run_golap(args: &GolapArgs, cancel: &CancelFlag) -> Result<()> {
    let usual = usize::from(!args.quick);
    let parts = args.only.iter().map(|name| name.parse()).collect::<Result<Vec<Part>>>()?;
    let options = GolapOptions {
        parts: if parts.is_empty() { Part::ALL.to_vec() } else { parts },
        scale: args.scale.unwrap_or(GOLAP_SCALES[usual]),
        dir: args.dir.clone(),
        device: args.device.parse()?,
        storage_bytes_per_s: args.storage_rate,
        is_quick: args.quick,
        repetitions: args.repetitions.unwrap_or(GOLAP_REPETITIONS[usual]),
        threads: args.threads.unwrap_or_else(core_count),
        duckdb: args.duckdb_json.clone(),
        seed: SEED,
    };
    let golap = golap::run(&options, cancel, &say)?;
    let figures = args.plots.as_deref().map(|folder| (folder, &golap.figures[..]));
    layer::publish(&golap.report, args.json.as_deref(), figures)
}

fn run_limits(args: &LimitsArgs, cancel: &CancelFlag) -> Result<()> {
    let threads = args.threads.unwrap_or_else(core_count);
    if let Some(operation) = &args.child {
        let options = SessionOptions {
            threads: Some(threads),
            memory_limit_bytes: args.memory_limit.bytes(),
            spill: args.spill.options(),
            device: DeviceChoice::Cpu,
            ..SessionOptions::default()
        };
        limit_single_run(options.memory_limit_bytes);
        let case = Case { operation: operation.clone(), rows: args.rows, dir: args.dir.clone() };
        return console::print(format_args!("{}\n", limits::run_one(&case, &options, cancel)?));
    }
    let options = LimitsOptions {
        rows: args.rows,
        limits: args.limits.clone(),
        only: args.only.clone(),
        runs: args.runs,
        threads,
        dir: args.dir.clone(),
        program: std::env::current_exe().context(|| "finding this program".into())?,
        python: limits::python_with_peer(&args.python),
        time_limit: Duration::from_secs(args.time_limit),
    };
    if options.python.is_none() && args.python != "none" {
        say("DuckDB is not found: name a Python that has duckdb and pyarrow with --python");
    }
    let results = limits::run(&options, cancel, &say)?;
    args.json.as_deref().map_or(Ok(()), |path| append_json(path, &results))?;
    console::print(limits::details(&results))?;
    console::print(format_args!("\n{}", limits::table(&results)))?;
    match results.iter().find(|runs| runs.engine == "pelton" && runs.ended.contains(&limits::Ended::Wrong)) {
        Some(wrong) => Err(Error::new(
            ErrorKind::Corrupt,
            format!("{} gave another answer under a limit than without", wrong.operation),
        )),
        None => Ok(()),
    }
}
