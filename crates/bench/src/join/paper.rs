//! Experiment `join --paper`: the join paper's own experiments, by the joins of `pelton-join` on simulated machines.
//!
//! ```text
//!   preset of a machine ─► machine in virtual time that holds rows ─► Joiner ─► times
//!                          each held row stands for some thousands         └─► checked: matches, sum of products
//!   ─► rows beside the numbers of the paper's text (E2 to E11) ─► shapes, judged by what was simulated alone
//! ```
//!
//! What went into a machine is marked as an input and counts nowhere: links and memories (the presets), accesses at
//! random ([`bed`]), and the CPU's radix join, which is not simulated. What the simulator does not know is a row that
//! says so: caches, so that small tables and skewed keys gain nothing; how many rows match; a CPU that joins.
//!
//! A table that is an array by key holds values alone here, 8 bytes a row where the paper's takes 16, so that what a
//! device may hold is halved where tables grow beyond it (E7).
//!
//! Follows Lutz et al. 2020, section 7.

mod bed;
mod experiments;
mod shapes;

use pelton_error::{CancelFlag, Error, Result};

use crate::report::{Report, Row};
use bed::Bed;

pub use crate::figure::plots;

/// The machine with NVLink, and the one with PCIe.
const NVLINK: &str = "power9-v100";
const PCIE: &str = "xeon-v100";
/// Two devices with a link between them: not of this paper.
const PAIR: &str = "ac922";

/// A figure is near the paper's within this share.
const NEAR: f64 = 0.15;

/// How the paper's experiments are simulated.
#[derive(Debug, Clone)]
pub struct PaperJoins {
    /// Rows held of the probe side of each join, whatever number they stand for.
    pub held_rows: usize,
    /// Threads that draw rows; they change no figure.
    pub thread_count: usize,
    /// Stops it.
    pub cancel: CancelFlag,
}

/// The least rows held: a build side has a 64th of them.
const HELD_ROWS_MIN: usize = 1 << 12;

impl Default for PaperJoins {
    fn default() -> Self {
        let thread_count = std::thread::available_parallelism().map_or(1, usize::from);
        // A table of 16 MiB where both sides are as long: eight pages of a hybrid one.
        Self { held_rows: 1 << 21, thread_count, cancel: CancelFlag::default() }
    }
}

/// Simulates all of them.
///
/// # Errors
///
/// `InvalidInput` for too few held rows; `Corrupt` if a join finds something else than there is.
pub fn run(options: &PaperJoins) -> Result<Report> {
    if options.held_rows < HELD_ROWS_MIN {
        return Err(Error::invalid_input(format!(
            "{} rows held for a join; hold {HELD_ROWS_MIN} at least",
            options.held_rows
        )));
    }
    let mut bed = Bed::new(options);
    let rows = experiments::rows(&mut bed)?;
    let shapes = shapes::evaluate(&mut bed)?;
    Ok(Report {
        experiment: "join-paper".into(),
        title: "the join paper's experiments on its machines, simulated".into(),
        paper: super::PAPER.into(),
        machines: [NVLINK, PCIE, PAIR].map(String::from).to_vec(),
        scale: 1.0,
        settings: settings(options, &rows),
        rows,
        grids: Vec::new(),
        shapes,
    })
}

fn settings(options: &PaperJoins, rows: &[Row]) -> Vec<(String, String)> {
    let pair = |name: &str, value: String| (name.to_owned(), value);
    let ratios: Vec<f64> = rows.iter().filter_map(Row::ratio).collect();
    let near = ratios.iter().filter(|ratio| (**ratio - 1.0).abs() <= NEAR).count();
    let inputs = rows.iter().filter(|row| row.is_input).count();
    vec![
        pair("rows", format!("as many as in the paper; {} held of each probe side", options.held_rows)),
        pair(
            "timed",
            "virtual time from the first copy or kernel to the last match; no allocation".to_owned(),
        ),
        pair("checked", "every join: matches and the sum of products of the rows held".to_owned()),
        pair(
            "near",
            format!(
                "{near} of {} figures within 15 % of the paper's; {inputs} inputs left out",
                ratios.len()
            ),
        ),
    ]
}
