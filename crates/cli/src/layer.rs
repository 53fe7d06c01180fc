//! `pelton bench transfer`, `pelton bench p2p`, `pelton bench sort` and `pelton bench join`: experiments on the machine layer.

use std::path::Path;
use std::sync::mpsc::channel;

use pelton_bench::join::paper::PaperJoins;
use pelton_bench::join::{self, JoinExperiment};
use pelton_bench::p2p::{self, P2pOptions, Subject};
use pelton_bench::sort::paper::PaperSorts;
use pelton_bench::sort::{self, SortExperiment};
use pelton_bench::transfer::{self, TransferExperiment};
use pelton_bench::{Harness, Report};
use pelton_device::{DeviceId, DeviceKind};
use pelton_error::{Error, ErrorKind, Result, ResultExt};
use pelton_fabric::profile::Profile;
use pelton_fabric::{PRESET_NAMES, Rates};
use pelton_join::generate::Workload;
use pelton_load::CancelFlag;
use pelton_sort::generate::Distribution;
use pelton_sort::{Algorithm, Eager, Pairing, Payload, parse_key};
use pelton_transfer::TransferOptions;

use crate::args::{JoinArgs, LayerArgs, P2pArgs, SortArgs, TransferArgs};
use crate::{cancel, console, machine, topology};

/// The paper's machines and the one at hand.
const P2P_MACHINES: [&str; 4] = ["ac922", "delta", "dgx-a100", "auto"];

pub(crate) fn run_transfer(args: &TransferArgs, cancel: &CancelFlag) -> Result<()> {
    let opened = machine::open(&args.machine, args.layer.device_memory_limit)?;
    console::say(format_args!("on {}", topology::name(&opened.machine)));
    let mut options = TransferExperiment::on(opened.machine, opened.library);
    options.scale = args.layer.scale.unwrap_or(options.scale);
    options.repetitions = args.layer.repetitions;
    options.storage.clone_from(&args.storage);
    options.transfer = TransferOptions {
        chunk_bytes: args.chunk as usize,
        depth: args.depth,
        copy_threads: args.copy_threads.unwrap_or(options.transfer.copy_threads),
        ..options.transfer
    };
    let outcome = run_blocking(cancel, move || transfer::run(&options));
    if outcome.is_err() {
        topology::forget_files(args.storage.as_deref());
    }
    let report = outcome?;
    publish_layer(&report, &args.layer, &transfer::plots(&report))
}

pub(crate) fn run_p2p(args: &P2pArgs, cancel: &CancelFlag) -> Result<()> {
    let names: Vec<&str> = if args.machine.is_empty() {
        P2P_MACHINES.to_vec()
    } else {
        args.machine.iter().map(String::as_str).collect()
    };
    let subject = |name: &&str| -> Result<Subject> {
        if PRESET_NAMES.contains(name) {
            return Ok(Subject::Preset((*name).to_string()));
        }
        machine::open(name, args.layer.device_memory_limit).map(|opened| Subject::Machine(opened.machine))
    };
    let mut options = P2pOptions::of(names.iter().map(subject).collect::<Result<_>>()?);
    options.scale = args.layer.scale.unwrap_or(options.scale);
    options.harness = Harness { repetitions: args.layer.repetitions, ..options.harness };
    options.chunk_bytes = args.chunk;
    options.check_bytes = !args.no_check;
    let report = run_blocking(cancel, move || p2p::run(&options))?;
    publish_layer(&report, &args.layer, &p2p::plots(&report))
}

pub(crate) fn run_sort(args: &SortArgs, cancel: &CancelFlag) -> Result<()> {
    if args.paper {
        let defaults = PaperSorts::default();
        let thread_count = args.threads.unwrap_or(defaults.thread_count);
        let options = PaperSorts { held_keys: args.held, thread_count, cancel: cancel.clone() };
        let report = run_blocking(cancel, move || sort::paper::run(&options))?;
        let plots = sort::paper::plots(&report);
        let plots = args.plots.as_deref().map(|folder| (folder, &plots[..]));
        return publish_paper(&report, args.json.as_deref(), plots);
    }
    let opened = machine::open(&args.machine, None)?;
    console::say(format_args!("on {}", topology::name(&opened.machine)));
    let is_here = opened.machine.info().devices.iter().any(|it| matches!(it.kind, DeviceKind::Cuda { .. }));
    let mut experiment = SortExperiment::on(opened.machine, opened.library);
    if is_here && let Ok(survey) = topology::survey_here() {
        let profile = Profile::default_folder().ok();
        let profile = profile.and_then(|folder| Profile::load(&folder, &survey.fingerprint()));
        let first = args.devices.as_ref().and_then(|devices| devices.first()).copied().unwrap_or(0);
        experiment.topology = Some(match &profile {
            Some(profile) => profile.apply(survey.topology),
            None => survey.topology,
        });
        if let Some(profile) = profile {
            experiment.rates = Rates::measured(&profile, 0, first);
        }
    }
    experiment.algorithms = match args.algorithm.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["all"] => Algorithm::ALL.to_vec(),
        ref names => names.iter().map(|name| Algorithm::parse(name)).collect::<Result<_>>()?,
    };
    experiment.key_count = args.keys;
    experiment.key = parse_key(&args.key)?;
    experiment.distribution = Distribution::parse(&args.distribution)?;
    let payload = Payload::ALL.into_iter().find(|payload| payload.bytes() == args.payload);
    experiment.payload = payload.ok_or_else(|| Error::invalid_input("payload: take 0, 4 or 8 bytes"))?;
    experiment.devices =
        args.devices.as_ref().map(|devices| devices.iter().map(|device| DeviceId(*device)).collect());
    experiment.device_memory_limit_bytes = args.device_memory_limit;
    experiment.eager = if args.eager { Eager::On } else { Eager::Off };
    experiment.pairing = if args.mirrored { Pairing::Mirrored } else { Pairing::Ordered };
    experiment.thread_count = args.threads.unwrap_or(experiment.thread_count);
    experiment.repetitions = args.repetitions;
    experiment.cancel = cancel.clone();
    let report = run_blocking(cancel, move || sort::run(&experiment))?;
    publish(&report, args.json.as_deref(), None)
}

pub(crate) fn run_join(args: &JoinArgs, cancel: &CancelFlag) -> Result<()> {
    if args.paper {
        let defaults = PaperJoins::default();
        let thread_count = args.threads.unwrap_or(defaults.thread_count);
        let options = PaperJoins { held_rows: args.held, thread_count, cancel: cancel.clone() };
        let report = run_blocking(cancel, move || join::paper::run(&options))?;
        let plots = join::paper::plots(&report);
        let plots = args.plots.as_deref().map(|folder| (folder, &plots[..]));
        return publish_paper(&report, args.json.as_deref(), plots);
    }
    let opened = machine::open(&args.machine, None)?;
    console::say(format_args!("on {}", topology::name(&opened.machine)));
    let is_here = opened.machine.info().devices.iter().any(|it| matches!(it.kind, DeviceKind::Cuda { .. }));
    let mut experiment = JoinExperiment::on(opened.machine, opened.library);
    if is_here && let Ok(survey) = topology::survey_here() {
        let profile = Profile::default_folder().ok();
        let profile = profile.and_then(|folder| Profile::load(&folder, &survey.fingerprint()));
        if let Some(profile) = profile {
            experiment.rates = Rates::measured(&profile, 0, args.device);
        }
    }
    experiment.algorithms = match args.algorithm.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["all"] => pelton_join::Algorithm::ALL.to_vec(),
        ref names => names.iter().map(|name| pelton_join::Algorithm::parse(name)).collect::<Result<_>>()?,
    };
    experiment.workload = Workload {
        width_bytes: args.width,
        build_count: args.build,
        probe_count: args.probe,
        zipf: args.zipf,
        selectivity: args.selectivity,
        ..experiment.workload
    };
    experiment.is_on_device = args.tier == "device";
    experiment.is_dense = args.dense;
    experiment.writes_pairs = args.pairs;
    experiment.device = DeviceId(args.device);
    experiment.device_memory_limit_bytes = args.device_memory_limit;
    experiment.thread_count = args.threads.unwrap_or(experiment.thread_count);
    experiment.repetitions = args.repetitions;
    experiment.cancel = cancel.clone();
    let report = run_blocking(cancel, move || join::run(&experiment))?;
    publish(&report, args.json.as_deref(), None)
}

/// Runs `work` on a thread of its own, so that Ctrl-C ends the command at once.
fn run_blocking(
    cancel: &CancelFlag,
    work: impl FnOnce() -> Result<Report> + Send + 'static,
) -> Result<Report> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        // Nobody receives once the command was cancelled.
        let _ = sender.send(work());
    });
    cancel::wait_blocking(&receiver, cancel)
}

fn publish_layer(report: &Report, args: &LayerArgs, plots: &[(String, String)]) -> Result<()> {
    publish(report, args.json.as_deref(), args.plots.as_deref().map(|folder| (folder, plots)))
}

/// Prints `report`, writes it as JSON to a file, and its figures to a folder; refuses shapes that do not hold.
pub(crate) fn publish(
    report: &Report,
    json: Option<&Path>,
    plots: Option<(&Path, &[(String, String)])>,
) -> Result<()> {
    save(report, json, plots)?;
    // Last, so that files of hours of work are there whatever becomes of standard output.
    let printed = console::print(report.to_text());
    if report.holds() {
        return printed;
    }
    Err(Error::new(ErrorKind::Unsupported, "a shape of the paper does not hold here; see 'fail' above"))
}

/// The same, whatever holds: of a machine that is simulated, a finding that it does not show is a result.
fn publish_paper(
    report: &Report,
    json: Option<&Path>,
    plots: Option<(&Path, &[(String, String)])>,
) -> Result<()> {
    save(report, json, plots)?;
    console::print(report.to_text())
}

fn save(report: &Report, json: Option<&Path>, plots: Option<(&Path, &[(String, String)])>) -> Result<()> {
    if let Some(path) = json {
        std::fs::write(path, report.to_json()).context(|| format!("writing {}", path.display()))?;
    }
    plots.map_or(Ok(()), |(folder, figures)| write_plots(folder, figures))
}

fn write_plots(folder: &Path, plots: &[(String, String)]) -> Result<()> {
    std::fs::create_dir_all(folder).context(|| format!("making {}", folder.display()))?;
    for (name, svg) in plots {
        let path = folder.join(format!("{name}.svg"));
        std::fs::write(&path, svg).context(|| format!("writing {}", path.display()))?;
    }
    console::say(format_args!("{} figures in {}", plots.len(), folder.display()));
    Ok(())
}
