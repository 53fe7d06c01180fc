//! Experiment `join`: two sides in pinned memory of the host or in memory of a device, joined by each algorithm.
//!
//! ```text
//!   floors    all rows over the link; device memory read, copied, and read at random         what a join cannot be above
//!   joins     generate ─► join, timed ─► number of matches and sum of products checked       repeated; the time is its own
//! ```
//!
//! Floors are of the same run. A join of one table reads every row once and the table at random once a row; one by
//! partitions copies every row once a pass; what is in the host crosses the link. Copies and kernels overlap, so that the
//! floor is the greatest of these. Every result is checked against what the generator has counted.
//!
//! Follows Lutz et al. 2020, section 7. What the paper itself measured, on its machines, is simulated by [`paper`].

pub mod paper;

use std::sync::Arc;

use pelton_device::{DeviceId, DeviceKind, Machine, MemoryKind, OnFull, Place};
use pelton_error::{CancelFlag, Error, Result, ResultExt};
use pelton_fabric::Rates;
use pelton_join::generate::{Expected, Workload};
use pelton_join::{Algorithm, JoinOptions, Joiner, KeyRange, Report as Joined, Rows, Target};
use pelton_kernels::{Gather, Library, copy, fill_word, gather, read};

use crate::harness::Summary;
use crate::report::{Measured, Outcome, Report, Row, Tag};

/// What is reproduced.
const PAPER: &str =
    "Lutz et al. 2020, Pump Up the Volume: Processing Large Data on GPUs with Fast Interconnects";
/// Rows of the paper's workload A: 2^27 and 2^31.
const PAPER_ROWS: f64 = (1_u64 << 27) as f64 + (1_u64 << 31) as f64;
/// Memory that floors are measured with: the table of CEILINGS' random accesses, and less where nothing is fast.
const FLOOR_BYTES: usize = 4 << 30;
const FLOOR_BYTES_LOGICAL: usize = 16 << 20;
/// A piece of a copy over the link.
const PIECE_BYTES: usize = 64 << 20;

/// What to join, how, and where.
#[derive(Debug, Clone)]
pub struct JoinExperiment {
    /// The machine.
    pub machine: Machine,
    /// The kernels of its GPUs.
    pub library: Option<Arc<Library>>,
    /// The algorithms, one after another.
    pub algorithms: Vec<Algorithm>,
    /// Both sides.
    pub workload: Workload,
    /// Whether both sides lie in memory of the device.
    pub is_on_device: bool,
    /// Whether the range of build keys is known, so that a table may be an array by key.
    pub is_dense: bool,
    /// Whether pairs are written, to where the sides lie.
    pub writes_pairs: bool,
    /// The device.
    pub device: DeviceId,
    /// What a join takes of the device's memory at most, bytes.
    pub device_memory_limit_bytes: Option<u64>,
    /// Threads of the CPU.
    pub thread_count: usize,
    /// Repetitions that count, after one that does not.
    pub repetitions: u32,
    /// Rates of the machine, for predictions.
    pub rates: Rates,
    /// Stops it.
    pub cancel: CancelFlag,
}

impl JoinExperiment {
    /// 2^20 build rows and 2^22 probe rows of 8 bytes, by the algorithm that is predicted to be fastest.
    pub fn on(machine: Machine, library: Option<Arc<Library>>) -> Self {
        let defaults = JoinOptions::default();
        let workload = Workload {
            width_bytes: 8,
            build_count: 1 << 20,
            probe_count: 1 << 22,
            zipf: 0.0,
            selectivity: 1.0,
            seed: 42,
        };
        Self {
            machine,
            library,
            algorithms: vec![Algorithm::Auto],
            workload,
            is_on_device: false,
            is_dense: false,
            writes_pairs: false,
            device: DeviceId(0),
            device_memory_limit_bytes: None,
            thread_count: defaults.thread_count,
            repetitions: 3,
            rates: defaults.rates,
            cancel: defaults.cancel,
        }
    }

    fn options(&self, algorithm: Algorithm) -> JoinOptions {
        let range = KeyRange { first_key: 0, place_count: self.workload.build_count };
        JoinOptions {
            algorithm,
            device: self.device,
            device_memory_limit_bytes: self.device_memory_limit_bytes,
            key_range: (self.is_dense && range.place_count > 0).then_some(range),
            thread_count: self.thread_count,
            rates: self.rates.clone(),
            cancel: self.cancel.clone(),
            ..JoinOptions::default()
        }
    }
}

/// Carries the experiment out on one machine.
///
/// # Errors
///
/// `InvalidInput` for no repetitions and for workloads that cannot be; `Unsupported` for a simulated machine, which holds no
/// keys; `OutOfMemory` if memory does not hold both sides; `Corrupt` if a join finds something else than there is.
pub fn run(experiment: &JoinExperiment) -> Result<Report> {
    let JoinExperiment { machine, workload, .. } = experiment;
    if machine.info().is_simulated {
        return Err(Error::unsupported("a simulated machine holds no keys to join; take auto, cuda or host"));
    }
    if experiment.repetitions == 0 {
        return Err(Error::invalid_input("0 repetitions measure nothing; ask for 1 at least"));
    }
    workload.check()?;
    let (build, probe, expected) = sides(experiment)?;
    let floors = Floors::measure(experiment)?;
    let name = name_of(machine);
    let mut table = Vec::new();
    for (what, unit, rate) in floors.named() {
        table.push(row(&name, machine, what.into(), unit, &[rate], String::new()));
    }
    for algorithm in &experiment.algorithms {
        measure(experiment, *algorithm, (&build, &probe), expected, &floors, &name, &mut table)
            .context(|| format!("{name}: {}", algorithm.name()))?;
    }
    Ok(Report {
        experiment: "join".into(),
        title: "rows of the host's or of a device's memory joined".into(),
        paper: PAPER.into(),
        machines: vec![name],
        scale: (workload.build_count + workload.probe_count) as f64 / PAPER_ROWS,
        settings: settings(experiment),
        rows: table,
        grids: Vec::new(),
        shapes: Vec::new(),
    })
}

/// Both sides where they are asked for, and what a join of them finds.
fn sides(experiment: &JoinExperiment) -> Result<(Rows, Rows, Expected)> {
    let JoinExperiment { machine, workload, thread_count, .. } = experiment;
    let rows = |count: u64| {
        Rows::allocate(machine, &MemoryKind::PINNED, count as usize, workload.width_bytes)
            .context(|| "pinned memory for both sides; raise its limit or join fewer rows".into())
    };
    let (build, probe) = (rows(workload.build_count)?, rows(workload.probe_count)?);
    with_columns(&build, |keys, values| workload.fill_build(keys, values, *thread_count))?;
    let expected = with_columns(&probe, |keys, values| workload.fill_probe(keys, values, *thread_count))?;
    if !experiment.is_on_device {
        return Ok((build, probe, expected));
    }
    let stream = machine.stream(Place::Device(experiment.device))?;
    let moved = |rows: &Rows| -> Result<Rows> {
        let column = |source: &pelton_device::Span| {
            let bytes = source.len().next_multiple_of(256);
            let target = machine.allocate(MemoryKind::Device(experiment.device), bytes, OnFull::Refuse)?;
            let target = target.slice(0..source.len());
            stream.copy(source, &target)?;
            Ok(target)
        };
        let moved = Rows::new(column(rows.keys())?, column(rows.values())?, rows.width_bytes())?;
        stream.wait_blocking()?;
        Ok(moved)
    };
    Ok((moved(&build)?, moved(&probe)?, expected))
}

fn with_columns<R>(rows: &Rows, fill: impl FnOnce(&mut [u8], &mut [u8]) -> R) -> Result<R> {
    let (keys, values) = (rows.keys().buffer(), rows.values().buffer());
    keys.with_bytes_mut(|keys| values.with_bytes_mut(|values| fill(keys, values)))?
}

/// Repeats one algorithm and appends its rows.
fn measure(
    experiment: &JoinExperiment,
    algorithm: Algorithm,
    (build, probe): (&Rows, &Rows),
    expected: Expected,
    floors: &Floors,
    name: &str,
    table: &mut Vec<Row>,
) -> Result<()> {
    let machine = &experiment.machine;
    let joiner = Joiner::new(machine.clone(), experiment.library.clone());
    let width = build.width_bytes();
    let target = if experiment.writes_pairs {
        let kind =
            if experiment.is_on_device { MemoryKind::Device(experiment.device) } else { MemoryKind::PINNED };
        let bytes = expected.match_count as usize * width;
        let column = || machine.allocate(kind.clone(), bytes.next_multiple_of(256), OnFull::Refuse);
        Target::Pairs { build_values: column()?.slice(0..bytes), probe_values: column()?.slice(0..bytes) }
    } else {
        Target::Sum
    };
    let options = experiment.options(algorithm);
    let mut reports: Vec<Joined> = Vec::new();
    for repetition in 0..=experiment.repetitions {
        experiment.cancel.check()?;
        let report = joiner.join(build, probe, &target, &options)?;
        verify(experiment, &report, &target, expected, width)?;
        if repetition > 0 {
            reports.push(report);
        }
    }
    let first = &reports[0];
    let label = match (first.algorithm, first.is_perfect) {
        (Algorithm::Gpu, true) => "gpu, by key".to_owned(),
        (algorithm, _) => algorithm.name().to_owned(),
    };
    let seconds: Vec<f64> = reports.iter().map(|report| report.time.as_secs_f64()).collect();
    let mean = Summary::of(&seconds).mean;
    let mut notes = Vec::new();
    if let Some(floor) = floors.of(experiment, first) {
        notes.push(format!("floor {floor:.4} s, {:.3} of it", floor / mean));
    }
    let predicted = joiner.predict(build, probe, &target, &options);
    let of_it = predicted.iter().find(|one| one.algorithm == first.algorithm).and_then(|one| one.time);
    if let Some(time) = of_it {
        notes.push(format!("predicted {:.4} s", time.as_secs_f64()));
    }
    if algorithm == Algorithm::Auto {
        let others = predicted.iter().filter(|one| one.algorithm != first.algorithm);
        let others = others.map(|one| match one.time {
            Some(time) => format!("{} {:.4}", one.algorithm.name(), time.as_secs_f64()),
            None => format!("{} not", one.algorithm.name()),
        });
        notes.push(format!("not taken: {}", others.collect::<Vec<_>>().join(", ")));
    }
    let mut push = |what: String, unit: &'static str, values: &[f64], note: String| {
        table.push(row(name, machine, what, unit, values, note));
    };
    push(format!("{label}: time"), "s", &seconds, notes.join(", "));
    let row_count = (build.count() + probe.count()) as f64;
    let rates: Vec<f64> = seconds.iter().map(|time| row_count / time / 1e9).collect();
    let tables = format!("{} tables, {} partitions", first.table_count, first.partition_count);
    push(format!("{label}: rate"), "Gtuples/s", &rates, tables);
    let build_times: Vec<f64> = reports.iter().map(|report| report.build_time.as_secs_f64()).collect();
    if first.algorithm != Algorithm::Hybrid {
        push(
            format!("{label}: build"),
            "s",
            &build_times,
            "until the table stood, or sides were partitioned".into(),
        );
    } else {
        let share = first.resident_rows as f64 / build.count().max(1) as f64;
        let note = format!("{} rows of both sides went to the host and back", first.spilled_rows);
        push(format!("{label}: stayed"), "of build rows", &[share], note);
    }
    Ok(())
}

/// Refuses a join that found something else.
fn verify(
    experiment: &JoinExperiment,
    report: &Joined,
    target: &Target,
    expected: Expected,
    width: usize,
) -> Result<()> {
    let value_sum = match target {
        Target::Sum => report.value_sum,
        Target::Pairs { build_values, probe_values } => {
            let words = |span: &pelton_device::Span| -> Result<Vec<u8>> {
                let bytes = span.len().next_multiple_of(256);
                let pinned = experiment.machine.allocate(MemoryKind::PINNED, bytes, OnFull::Refuse)?;
                let stream = experiment.machine.stream(Place::Device(experiment.device))?;
                stream.copy(span, &pinned.slice(0..span.len()))?;
                stream.wait_blocking()?;
                pinned.with_bytes(|bytes| bytes[..span.len()].to_vec())
            };
            let word = |bytes: &[u8]| {
                let mut word = [0; 8];
                word[..width].copy_from_slice(bytes);
                u64::from_le_bytes(word)
            };
            let (one, other) = (words(build_values)?, words(probe_values)?);
            let pairs = one.chunks_exact(width).zip(other.chunks_exact(width));
            pairs.fold(0, |sum: u64, (one, other)| sum.wrapping_add(word(one).wrapping_mul(word(other))))
        }
    };
    let found = Expected { match_count: report.match_count, value_sum };
    if found != expected {
        return Err(Error::corrupt(format!("a join found {found:?} where there is {expected:?}")));
    }
    Ok(())
}

/// What the parts of the machine reach, measured in this run.
#[derive(Debug, Clone, Copy)]
struct Floors {
    link_bytes_per_s: f64,
    read_bytes_per_s: f64,
    copy_bytes_per_s: f64,
    gathers_per_s: f64,
}

impl Floors {
    fn measure(experiment: &JoinExperiment) -> Result<Self> {
        let JoinExperiment { machine, device, library, .. } = experiment;
        let library = library.as_ref();
        let is_cuda = matches!(machine.device(*device)?.kind, DeviceKind::Cuda { .. });
        let budget = machine.device_budget(*device)?;
        let free = budget.limit_bytes().saturating_sub(budget.used_bytes()) as usize;
        let wanted = if is_cuda { FLOOR_BYTES } else { FLOOR_BYTES_LOGICAL };
        let bytes = 1_usize << wanted.min(free / 4).max(1 << 16).ilog2();
        let stream = machine.stream(Place::Device(*device))?;
        let memory = |bytes| machine.allocate(MemoryKind::Device(*device), bytes, OnFull::Refuse);
        let (source, target, result) =
            (memory(bytes)?.span(), memory(bytes)?.span(), memory(256)?.slice(0..8));
        let pinned = machine.allocate(MemoryKind::PINNED, bytes.min(PIECE_BYTES), OnFull::Refuse)?.span();
        for span in [&source, &target, &result] {
            stream.run(fill_word(library, span.clone(), 0))?;
        }
        stream.wait_blocking()?;
        let best = |enqueue: &dyn Fn() -> Result<()>| -> Result<f64> {
            let mut best = f64::INFINITY;
            for _ in 0..3 {
                let started = machine.now();
                enqueue()?;
                stream.wait_blocking()?;
                best = best.min((machine.now() - started).as_secs_f64());
            }
            Ok(best)
        };
        let piece = pinned.len();
        let copied = (8 * piece).min(bytes) as f64;
        let link = best(&|| {
            (0..(8 * piece).min(bytes) / piece)
                .try_for_each(|_| stream.copy(&pinned, &target.slice(0..piece)))
        })?;
        let reading = best(&|| stream.run(read(library, source.clone(), result.clone())))?;
        let copying = best(&|| stream.run(copy(library, source.clone(), target.clone())))?;
        let count = bytes as u64 / 8;
        let random = Gather { width_bytes: 8, count, seed: 1 };
        let gathering = best(&|| stream.run(gather(library, source.clone(), random, result.clone())))?;
        Ok(Self {
            link_bytes_per_s: copied / link,
            read_bytes_per_s: bytes as f64 / reading,
            copy_bytes_per_s: 2.0 * bytes as f64 / copying,
            gathers_per_s: count as f64 / gathering,
        })
    }

    fn named(&self) -> [(&'static str, &'static str, f64); 4] {
        [
            ("link: host to device", "GB/s", self.link_bytes_per_s / 1e9),
            ("device memory: read", "GB/s", self.read_bytes_per_s / 1e9),
            ("device memory: read and written", "GB/s", self.copy_bytes_per_s / 1e9),
            ("device memory: random 8 bytes", "G/s", self.gathers_per_s / 1e9),
        ]
    }

    /// The least that this join can take; nothing for those of the host's cores.
    fn of(&self, experiment: &JoinExperiment, report: &Joined) -> Option<f64> {
        let Workload { width_bytes, build_count, probe_count, .. } = experiment.workload;
        let rows = (build_count + probe_count) as f64;
        let bytes = rows * 2.0 * width_bytes as f64;
        let link = if experiment.is_on_device { 0.0 } else { bytes / self.link_bytes_per_s };
        match report.algorithm {
            Algorithm::Nopa | Algorithm::Pro | Algorithm::Auto => None,
            Algorithm::Hybrid => Some(link),
            Algorithm::Gpu => Some(link.max(bytes / self.read_bytes_per_s + rows / self.gathers_per_s)),
            Algorithm::Radix => {
                // Keys twice, values once, both written; then both read.
                let passes = (report.partition_count.max(1) as f64).log2() / 9.0;
                let moved = rows * width_bytes as f64 * 5.0 * passes.ceil();
                Some(link + moved / self.copy_bytes_per_s + bytes / self.read_bytes_per_s)
            }
        }
    }
}

fn row(name: &str, machine: &Machine, what: String, unit: &'static str, values: &[f64], note: String) -> Row {
    let Summary { mean, standard_error, count, .. } = Summary::of(values);
    let best = match unit {
        "s" => values.iter().copied().fold(f64::INFINITY, f64::min),
        _ => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    };
    Row {
        figure: "13-20".into(),
        machine: name.into(),
        what,
        unit,
        paper: None,
        ours: Outcome::Done(Measured { mean, standard_error, best, repetitions: count }),
        tag: Tag::of(machine),
        note,
        is_input: false,
        is_in_grid: false,
    }
}

fn settings(experiment: &JoinExperiment) -> Vec<(String, String)> {
    let pair = |name: &str, value: String| (name.to_owned(), value);
    let Workload { width_bytes, build_count, probe_count, zipf, selectivity, .. } = experiment.workload;
    let tier = if experiment.is_on_device { "device memory" } else { "pinned memory" };
    let limit = experiment.device_memory_limit_bytes.map_or("none".into(), |limit| format!("{limit} bytes"));
    vec![
        pair("rows", format!("{build_count} x {probe_count}, keys and values of {width_bytes} bytes")),
        pair("probe keys", format!("Zipf {zipf}, {selectivity} of them match")),
        pair("sides", format!("{tier}; {} threads on the host", experiment.thread_count)),
        pair("limit on device memory", limit),
        pair("result", if experiment.writes_pairs { "pairs" } else { "count and sum" }.to_owned()),
        pair("repeated", format!("{} times", experiment.repetitions)),
        pair("timed", "from the first copy or kernel to the last match; no allocation".to_owned()),
        pair("checked", "every result: matches and sum of products".to_owned()),
    ]
}

fn name_of(machine: &Machine) -> String {
    let info = machine.info();
    match info.devices.first() {
        Some(first) => format!("{} x {}", info.devices.len(), first.name),
        None => info.name.clone(),
    }
}
