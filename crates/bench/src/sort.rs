//! Experiment `sort`: keys in pinned memory of the host, sorted by each algorithm, back in pinned memory.
//!
//! ```text
//!   links     all bytes in, then all bytes out; both at once             what the links of the devices take for it
//!   sorts     generate ─► fingerprint ─► sort, timed ─► verify           repeated; the time is the sort's own
//! ```
//!
//! Floors are of the same run: a sort that holds everything on devices cannot begin to write before it has read all, so
//! its floor is in, then out. One by chunks moves every row in and out at once, `range` twice. The CPU's merge has no
//! floor here but the memory's. Every result is verified: order and fingerprint of the multiset.
//!
//! Follows Maltenberger et al. 2022, sections 6.1 to 6.4. What the paper itself measured, on its machines, is simulated by
//! [`paper`].

mod floors;
pub mod paper;

use pelton_device::{DeviceId, Machine, MemoryKind};
use pelton_error::{CancelFlag, Error, Result, ResultExt};
use pelton_fabric::{Rates, Topology};
use pelton_kernels::{KeyOrder, KeyType, Library};
use pelton_sort::generate::{Distribution, generate};
use pelton_sort::{
    Algorithm, Eager, Pairing, Payload, Report as Sorted, Rows, SortOptions, SortSpec, Sorter, fingerprint,
    key_name, verify,
};
use std::sync::Arc;

use crate::harness::Summary;
use crate::report::{Measured, Outcome, Report, Row, Tag};
use floors::Floors;

/// What is reproduced.
const PAPER: &str =
    "Maltenberger et al. 2022, Evaluating Multi-GPU Sorting with Modern Interconnects, section 6";

/// Keys of the paper's breakdowns.
const PAPER_KEYS: f64 = 2e9;

/// How long a phase of a sort took.
type Phase = fn(&Sorted) -> std::time::Duration;

/// What to sort, how, and where.
#[derive(Debug, Clone)]
pub struct SortExperiment {
    /// The machine.
    pub machine: Machine,
    /// The kernels of its GPUs.
    pub library: Option<Arc<Library>>,
    /// The algorithms, one after another.
    pub algorithms: Vec<Algorithm>,
    /// Keys.
    pub key_count: usize,
    /// Their type.
    pub key: KeyType,
    /// How they are distributed.
    pub distribution: Distribution,
    /// What travels with them.
    pub payload: Payload,
    /// The devices; without, as the topology orders them.
    pub devices: Option<Vec<DeviceId>>,
    /// What a sort takes of each device's memory at most, bytes.
    pub device_memory_limit_bytes: Option<u64>,
    /// Eager merging, for chunks merged by the CPU.
    pub eager: Eager,
    /// Chunks of P2P that change places.
    pub pairing: Pairing,
    /// Threads of the CPU.
    pub thread_count: usize,
    /// Repetitions that count, after one that does not.
    pub repetitions: u32,
    /// Rates of the machine, for predictions.
    pub rates: Rates,
    /// Links of the machine, for the order of devices.
    pub topology: Option<Topology>,
    /// Stops it.
    pub cancel: CancelFlag,
}

impl SortExperiment {
    /// 2^24 keys by the algorithm that is predicted to be fastest.
    pub fn on(machine: Machine, library: Option<Arc<Library>>) -> Self {
        let defaults = SortOptions::default();
        Self {
            machine,
            library,
            algorithms: vec![Algorithm::Auto],
            key_count: 1 << 24,
            key: KeyType::U32,
            distribution: Distribution::Uniform,
            payload: Payload::None,
            devices: None,
            device_memory_limit_bytes: None,
            eager: defaults.eager,
            pairing: defaults.pairing,
            thread_count: defaults.thread_count,
            repetitions: 3,
            rates: defaults.rates,
            topology: None,
            cancel: defaults.cancel,
        }
    }

    fn options(&self, algorithm: Algorithm) -> SortOptions {
        SortOptions {
            algorithm,
            devices: self.devices.clone(),
            device_memory_limit_bytes: self.device_memory_limit_bytes,
            is_stable: false,
            thread_count: self.thread_count,
            pairing: self.pairing,
            eager: self.eager,
            topology: self.topology.clone(),
            rates: self.rates.clone(),
            cancel: self.cancel.clone(),
            ..SortOptions::default()
        }
    }
}

/// Carries the experiment out on one machine.
///
/// # Errors
///
/// `InvalidInput` for no repetitions; `Unsupported` for a simulated machine, which holds no keys; `OutOfMemory` if the
/// host's pinned memory does not hold the keys twice; `Corrupt` if a result is not the sorted input.
pub fn run(experiment: &SortExperiment) -> Result<Report> {
    let machine = &experiment.machine;
    if machine.info().is_simulated {
        return Err(Error::unsupported("a simulated machine holds no keys to sort; take auto, cuda or host"));
    }
    if experiment.repetitions == 0 {
        return Err(Error::invalid_input("0 repetitions measure nothing; ask for 1 at least"));
    }
    let order = KeyOrder::ascending(experiment.key);
    let spec = SortSpec { order, payload: experiment.payload };
    let rows = || {
        Rows::allocate(machine, spec, &MemoryKind::PINNED, experiment.key_count)
            .context(|| "pinned memory for the keys, twice; raise its limit or sort fewer".into())
    };
    let (source, target) = (rows()?, rows()?);
    let devices: Vec<DeviceId> = match &experiment.devices {
        Some(devices) => devices.clone(),
        None => machine.info().devices.iter().map(|device| device.id).collect(),
    };
    let name = name_of(machine);
    let mut table = Vec::new();
    let floors = Floors::measure(machine, &devices, &source, &target, experiment.device_memory_limit_bytes)?;
    for (what, time) in floors.named() {
        table.push(row(&name, machine, what, "s", &[time], String::new()));
    }
    for algorithm in &experiment.algorithms {
        measure(experiment, *algorithm, &source, &target, &floors, &name, &mut table)
            .context(|| format!("{name}: {}", algorithm.name()))?;
    }
    Ok(Report {
        experiment: "sort".into(),
        title: "keys of the host's memory sorted into the host's memory".into(),
        paper: PAPER.into(),
        machines: vec![name],
        scale: experiment.key_count as f64 / PAPER_KEYS,
        settings: settings(experiment),
        rows: table,
        grids: Vec::new(),
        shapes: Vec::new(),
    })
}

/// Repeats one algorithm and appends its rows.
fn measure(
    experiment: &SortExperiment,
    algorithm: Algorithm,
    source: &Rows,
    target: &Rows,
    floors: &Floors,
    name: &str,
    table: &mut Vec<Row>,
) -> Result<()> {
    let machine = &experiment.machine;
    let sorter = Sorter::new(machine.clone(), experiment.library.clone());
    let mut prepared = sorter.prepare(source.spec(), source.count(), experiment.options(algorithm))?;
    let mut reports: Vec<Sorted> = Vec::new();
    for repetition in 0..=experiment.repetitions {
        experiment.cancel.check()?;
        fill(experiment, source)?;
        let before = fingerprint(source, experiment.thread_count)?;
        let report = prepared.sort(source, target)?;
        verify(target, before, experiment.thread_count)?;
        if repetition > 0 {
            reports.push(report);
        }
    }
    let first = &reports[0];
    let label = format!("{} over {}", first.algorithm.name(), first.devices.len());
    let seconds: Vec<f64> = reports.iter().map(|report| report.time.as_secs_f64()).collect();
    let time = Summary::of(&seconds);
    let mut note = match floors.of(first.algorithm, first.run_count) {
        Some(floor) => format!("floor {floor:.4} s, {:.3} of it", floor / time.mean),
        None => String::new(),
    };
    let predicted = first.predictions.iter().find(|one| one.algorithm == first.algorithm);
    if let Some(predicted) = predicted.and_then(|one| one.time) {
        note.push_str(&format!(", predicted {:.4} s", predicted.as_secs_f64()));
    }
    if first.is_staged {
        note.push_str(", staged through the host");
    }
    let mut push = |what: String, unit: &'static str, values: &[f64], note: String| {
        table.push(row(name, machine, what, unit, values, note));
    };
    push(format!("{label}: time"), "s", &seconds, note);
    let rates: Vec<f64> = seconds.iter().map(|time| source.count() as f64 / time / 1e9).collect();
    push(format!("{label}: rate"), "Gkeys/s", &rates, format!("{} runs", first.run_count));
    let phases: [(&str, Phase); 4] = [
        ("HtoD", |report| report.phases.htod),
        ("sort", |report| report.phases.sort),
        ("merge", |report| report.phases.merge),
        ("DtoH", |report| report.phases.dtoh),
    ];
    for (phase, of) in phases {
        let values: Vec<f64> = reports.iter().map(|report| of(report).as_secs_f64()).collect();
        push(format!("{label}: {phase}"), "s", &values, "what it took beyond the phase before".into());
    }
    for link in &first.links {
        let giga = link.bytes as f64 / 1e9;
        push(format!("{label}: {} to {}", link.from, link.to), "GB", &[giga], String::new());
    }
    for (index, stage) in first.stages.iter().enumerate() {
        let share = stage.keys_moved as f64 / source.count().max(1) as f64;
        let over = format!("over {} devices", stage.devices.len());
        push(format!("{label}: stage {index} moved"), "of all keys", &[share], over);
    }
    Ok(())
}

fn fill(experiment: &SortExperiment, source: &Rows) -> Result<()> {
    let SortExperiment { key, distribution, thread_count, .. } = experiment;
    source.keys().buffer().with_bytes_mut(|bytes| generate(*key, *distribution, 42, bytes, *thread_count))?;
    let Some(payloads) = source.payloads() else { return Ok(()) };
    let width = experiment.payload.bytes();
    payloads.buffer().with_bytes_mut(|bytes| {
        for (row, bytes) in bytes.chunks_exact_mut(width).enumerate() {
            bytes.copy_from_slice(&(row as u64).to_le_bytes()[..width]);
        }
    })
}

fn row(
    name: &str,
    machine: &Machine,
    what: impl Into<String>,
    unit: &'static str,
    values: &[f64],
    note: String,
) -> Row {
    let Summary { mean, standard_error, count, .. } = Summary::of(values);
    let best = match unit {
        "s" => values.iter().copied().fold(f64::INFINITY, f64::min),
        _ => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    };
    Row {
        figure: "12-16".into(),
        machine: name.into(),
        what: what.into(),
        unit,
        paper: None,
        ours: Outcome::Done(Measured { mean, standard_error, best, repetitions: count }),
        tag: Tag::of(machine),
        note,
        is_input: false,
        is_in_grid: false,
    }
}

fn settings(experiment: &SortExperiment) -> Vec<(String, String)> {
    let pair = |name: &str, value: String| (name.to_owned(), value);
    vec![
        pair("keys", format!("{} of {}", experiment.key_count, key_name(experiment.key))),
        pair("distribution", experiment.distribution.name().to_owned()),
        pair("payload", format!("{} bytes", experiment.payload.bytes())),
        pair("repeated", format!("{} times", experiment.repetitions)),
        pair("host", format!("pinned memory; {} threads", experiment.thread_count)),
        pair("timed", "from the first copy to the last row in place; no allocation".to_owned()),
        pair("checked", "every result: order and fingerprint".to_owned()),
    ]
}

fn name_of(machine: &Machine) -> String {
    let info = machine.info();
    match info.devices.first() {
        Some(first) => format!("{} x {}", info.devices.len(), first.name),
        None => info.name.clone(),
    }
}
