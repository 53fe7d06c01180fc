//! Experiment `p2p`: how fast bytes travel between the host and devices, and from device to device.
//!
//! ```text
//!   CPU-GPU, one      host ──► gpu i        gpu i ──► host        both at once, over distinct buffers
//!   CPU-GPU, many     the same for a set of devices, a host buffer each
//!   P2P, one          gpu i ──► gpu j, all pairs
//!   P2P, many         gpu k ◄──► gpu (g-1-k) for all k < g/2, both ways at once
//! ```
//!
//! A figure is all bytes of a case over the time until its last copy is done, so that a set is bound by its slowest
//! member. Host buffers are pinned and lie on one node. The same code copies on CUDA, on logical devices and in
//! virtual time; on machines with bytes every target is compared with its source afterwards.
//!
//! Follows Maltenberger et al. 2022, sections 4.2 and 4.3 (its Figures 2 to 7).

mod arena;
mod case;
mod options;
mod paper;
mod plots;
mod shapes;

use pelton_device::{DeviceId, Machine};
use pelton_error::{Error, Result, ResultExt};
use pelton_sim::{self as sim, SimOptions};

use crate::harness::Times;
use crate::report::{Grid, Measured, Outcome, Report, Row, Tag};
use arena::Arena;
use case::{Case, Kind, cases};

pub use options::{P2pOptions, Subject};
pub use plots::plots;

/// What is reproduced.
const PAPER: &str =
    "Maltenberger et al. 2022, Evaluating Multi-GPU Sorting with Modern Interconnects, section 4";

/// Bytes per second in the unit of the report.
const GB_PER_S: f64 = 1e9;

/// A case and what came out.
#[derive(Debug)]
struct Entry {
    case: Case,
    row: Row,
}

/// A machine and what came out on it.
#[derive(Debug)]
struct Findings {
    machine: String,
    tag: Tag,
    device_count: usize,
    bytes: usize,
    is_checked: bool,
    entries: Vec<Entry>,
}

/// Carries the experiment out on all subjects, one after another.
///
/// # Errors
///
/// `InvalidInput` for an unknown preset or device, a machine or device named twice, an odd number of devices to
/// pair, or sizes of 0; `Unsupported` for a machine without devices; `OutOfMemory` if buffers do not fit; `Corrupt`
/// if bytes that arrived are not those that were sent.
pub fn run(options: &P2pOptions) -> Result<Report> {
    options.check()?;
    let mut all: Vec<Findings> = Vec::new();
    for subject in &options.subjects {
        let (machine, name) = open(subject, options)?;
        if all.iter().any(|findings| findings.machine == name) {
            return Err(Error::invalid_input(format!("machine '{name}' named twice; rows go by that name")));
        }
        all.push(examine(&machine, name, options)?);
    }
    let mut report = Report {
        experiment: "p2p".to_owned(),
        title: "transfers between host and devices, and between devices".to_owned(),
        paper: PAPER.to_owned(),
        machines: all.iter().map(|findings| findings.machine.clone()).collect(),
        scale: scale(&all),
        settings: settings(options, &all),
        rows: Vec::new(),
        grids: all.iter().filter_map(grid).collect(),
        shapes: shapes::evaluate(&all),
    };
    report.rows = all.into_iter().flat_map(|findings| findings.entries).map(|entry| entry.row).collect();
    Ok(report)
}

/// The machine and its name in the report.
fn open(subject: &Subject, options: &P2pOptions) -> Result<(Machine, String)> {
    match subject {
        Subject::Machine(machine) => Ok((machine.clone(), name_of(machine))),
        Subject::Preset(name) => {
            let topology = pelton_fabric::preset(name).ok_or_else(|| {
                let known = pelton_fabric::PRESET_NAMES.join(", ");
                Error::invalid_input(format!("no machine named '{name}'; there are {known}"))
            })?;
            let sizes_alone = SimOptions { functional: false, seed: options.seed, ..SimOptions::default() };
            Ok((sim::machine(&topology, sizes_alone)?, name.clone()))
        }
    }
}

/// Such as "2 x NVIDIA H200"; a simulated machine has a name of its own.
fn name_of(machine: &Machine) -> String {
    let info = machine.info();
    match info.devices.first() {
        Some(first) if !info.is_simulated => format!("{} x {}", info.devices.len(), first.name),
        _ => info.name.clone(),
    }
}

/// All cases on one machine.
fn examine(machine: &Machine, name: String, options: &P2pOptions) -> Result<Findings> {
    let device_count = machine.info().devices.len();
    if device_count == 0 {
        return Err(Error::unsupported(format!("{name} has no devices; transfers need one at least")));
    }
    let cases = cases(&name, device_count, options)?;
    let bytes = options.bytes_on(machine)?;
    let arena = Arena::new(machine, options, bytes)?;
    let mut entries = Vec::with_capacity(cases.len());
    for case in cases {
        let times = arena.time(&case, options).context(|| format!("{name}: {case}"))?;
        let row = row(machine, &name, &case, options, arena.bytes(&case), &times);
        entries.push(Entry { case, row });
    }
    if device_count < 2 {
        entries.push(without_peers(machine, &name));
    }
    Ok(Findings {
        tag: Tag::of(machine),
        is_checked: arena.is_checked(),
        machine: name,
        device_count,
        bytes,
        entries,
    })
}

fn row(machine: &Machine, name: &str, case: &Case, options: &P2pOptions, bytes: usize, times: &Times) -> Row {
    let ours = Measured::rate(bytes as f64 / GB_PER_S, times).map_or_else(
        || Outcome::Missing("a clock that sees the time; copy more bytes".to_owned()),
        Outcome::Done,
    );
    let paper = paper::quote(name, case);
    let tag = Tag::of(machine);
    Row {
        is_input: tag == Tag::Simulated && paper::is_input(name, case),
        figure: paper::figure(name, case.kind, case.devices.len() > 1).to_owned(),
        machine: name.to_owned(),
        what: case.to_string(),
        unit: "GB/s",
        // Of many pairs those from the first device stand for the others, which the grid shows.
        is_in_grid: case.kind == Kind::Peer && case.devices[0] != 0 && machine.info().devices.len() > 2,
        paper,
        ours,
        tag,
        note: note(machine, case, options),
    }
}

/// What tells this case from what its name promises.
fn note(machine: &Machine, case: &Case, options: &P2pOptions) -> String {
    if matches!(case.kind, Kind::Peer | Kind::PeerPairs) {
        let pairs = case.pairs();
        let staged = pairs.iter().filter(|(i, j)| !machine.is_peer(DeviceId(*i), DeviceId(*j))).count();
        return match staged {
            0 => String::new(),
            all if all == pairs.len() => "staged through the host".to_owned(),
            some => format!("{some} of {} copies staged through the host", pairs.len()),
        };
    }
    let is_remote = |device: &&u32| machine.info().devices[**device as usize].node != options.host_node;
    match (case.devices.iter().filter(is_remote).count(), case.devices.len()) {
        (0, _) => String::new(),
        (remote, all) if remote == all => "remote node".to_owned(),
        (remote, all) => format!("remote node for {remote} of {all}"),
    }
}

/// The row that says why there is nothing between devices.
fn without_peers(machine: &Machine, name: &str) -> Entry {
    let case = Case { kind: Kind::Peer, devices: vec![0, 1] };
    let row = Row {
        figure: paper::figure(name, Kind::Peer, true).to_owned(),
        machine: name.to_owned(),
        what: "device to device".to_owned(),
        unit: "GB/s",
        paper: None,
        ours: Outcome::Missing("two devices".to_owned()),
        tag: Tag::of(machine),
        note: String::new(),
        is_input: false,
        is_in_grid: false,
    };
    Entry { case, row }
}

/// Copies from device to device, by source and target.
fn grid(findings: &Findings) -> Option<Grid> {
    let count = findings.device_count;
    if count < 2 {
        return None;
    }
    let mut cells = vec![vec![None; count]; count];
    for Entry { case, row } in findings.entries.iter().filter(|entry| entry.case.kind == Kind::Peer) {
        cells[case.devices[0] as usize][case.devices[1] as usize] = row.value();
    }
    Some(Grid {
        title: "device to device, source by row, target by column, GB/s".to_owned(),
        machine: findings.machine.clone(),
        tag: findings.tag,
        labels: (0..count).map(|device| format!("gpu {device}")).collect(),
        cells,
    })
}

/// The smallest copy as a share of the paper's: limits may have made it smaller than asked for.
fn scale(all: &[Findings]) -> f64 {
    all.iter()
        .map(|findings| findings.bytes as f64 / options::PAPER_BYTES as f64)
        .fold(f64::INFINITY, f64::min)
}

fn settings(options: &P2pOptions, all: &[Findings]) -> Vec<(String, String)> {
    let bytes = by_machine(all, |findings| findings.bytes.to_string());
    let checked = by_machine(all, |findings| {
        let answer = if findings.is_checked { "yes: targets hold the bytes of their sources" } else { "no" };
        answer.to_owned()
    });
    let piece = options.chunk_bytes.map_or("the whole copy".to_owned(), |bytes| format!("{bytes} bytes"));
    let timed = "copies, from the first enqueued to the last done; no allocation";
    let pair = |name: &str, value: String| (name.to_owned(), value);
    vec![
        pair("bytes", format!("{bytes} per copy")),
        pair("piece", piece),
        pair("repeated", format!("{} times", options.harness.repetitions)),
        pair("host", format!("pinned memory of {}", options.host_node)),
        pair("timed", timed.to_owned()),
        pair("checked", checked),
    ]
}

/// What is the same on all machines once, else with their names.
fn by_machine(all: &[Findings], value: impl Fn(&Findings) -> String) -> String {
    let values: Vec<String> = all.iter().map(&value).collect();
    if values.windows(2).all(|pair| pair[0] == pair[1]) {
        return values.into_iter().next().unwrap_or_default();
    }
    let named = all.iter().zip(values).map(|(findings, value)| format!("{value} ({})", findings.machine));
    named.collect::<Vec<_>>().join(", ")
}
