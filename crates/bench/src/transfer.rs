//! Experiment `transfer`: how a device comes to host memory, by every method, and what its loads cost.
//!
//! ```text
//!   methods     host memory ──► kernel that reads everything once        Figure 12, without the join
//!   loads       processor ──► memory: in order, at random, dependent     Figures 1 and 3
//!   links       multi-link, small copies enqueued, storage          beyond the paper
//! ```
//!
//! The paper runs a hash join over each method; what differs between its bars is the transfer, which is what this
//! takes the time of, so its numbers are comparable as shares of Zero-Copy. Its PCIe is generation 3.
//!
//! Follows Lutz et al. 2020, sections 3 and 7.2.1.

mod accesses;
mod links;
mod methods;
mod options;
mod plots;
mod shapes;

use pelton_device::{DeviceId, Machine};
use pelton_error::{Error, Result, ResultExt};

use crate::harness::Summary;
use crate::report::{Measured, Outcome, Report, Row, Tag};

pub use options::TransferExperiment;
pub use plots::plots;

/// What is reproduced.
const PAPER: &str = "Lutz et al. 2020, Pump Up the Volume: Processing Large Data on GPUs with Fast Interconnects, \
                     sections 3 and 7.2.1";

/// Bytes per second in the unit of the report.
const GB_PER_S: f64 = 1e9;

/// Carries the experiment out on one machine.
///
/// # Errors
///
/// `InvalidInput` for options out of range; `Unsupported` for a machine without devices; `OutOfMemory` if buffers do
/// not fit; what a device reports.
pub fn run(options: &TransferExperiment) -> Result<Report> {
    options.check()?;
    let machine = &options.machine;
    let Some(first) = machine.info().devices.first() else {
        return Err(Error::unsupported("a machine without devices; transfers need one at least"));
    };
    let device = first.id;
    let stage = Stage { machine, name: name_of(machine), device, options };
    let mut rows = methods::measure(&stage).context(|| "transfer methods".into())?;
    rows.extend(accesses::measure(&stage).context(|| "loads".into())?);
    rows.extend(links::measure(&stage).context(|| "links".into())?);
    Ok(Report {
        experiment: "transfer".into(),
        title: "transfer methods and access paths between host memory and a device".into(),
        paper: PAPER.into(),
        machines: vec![stage.name.clone()],
        scale: options.bytes() as f64 / options::PAPER_BYTES as f64,
        settings: options.settings(),
        shapes: shapes::evaluate(&stage, &rows),
        rows,
        grids: Vec::new(),
    })
}

/// Where the experiment takes place.
struct Stage<'a> {
    machine: &'a Machine,
    name: String,
    device: DeviceId,
    options: &'a TransferExperiment,
}

impl Stage<'_> {
    fn row(&self, figure: &str, what: impl Into<String>, unit: &'static str, ours: Outcome) -> Row {
        Row {
            figure: figure.into(),
            machine: self.name.clone(),
            what: what.into(),
            unit,
            paper: None,
            ours,
            tag: Tag::of(self.machine),
            note: String::new(),
            is_input: false,
            is_in_grid: false,
        }
    }
}

/// Mean and spread of figures where more is better.
fn summary(values: &[f64]) -> Outcome {
    if values.is_empty() {
        return Outcome::Missing("no repetitions".into());
    }
    let Summary { mean, standard_error, count, .. } = Summary::of(values);
    let best = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    Outcome::Done(Measured { mean, standard_error, best, repetitions: count })
}

fn name_of(machine: &Machine) -> String {
    let info = machine.info();
    match info.devices.first() {
        Some(first) if !info.is_simulated => format!("{} x {}", info.devices.len(), first.name),
        _ => info.name.clone(),
    }
}
