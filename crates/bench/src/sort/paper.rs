//! Experiment `sort --paper`: the sorting paper's own experiments, by the sorts of `pelton-sort` on simulated machines.
//!
//! ```text
//!   preset of a machine ─► machine in virtual time that holds keys ─► Sorter ─► times, phases, keys moved
//!                          each held key stands for some thousands           └─► verified: order, fingerprint
//!   ─► rows beside the numbers of the paper's text (E5 to E14) ─► shapes, judged by what was simulated alone
//! ```
//!
//! Every algorithm runs whole: pivots, exchanges and merges are those of the keys that are held, so that what is moved
//! follows from the distribution. What went into a machine is marked as an input and counts nowhere:
//!
//! | input | from |
//! | --- | --- |
//! | links and memories | the presets, section 4 of the paper |
//! | share of device memory's rate that kernels reach | Table 2: a billion integers in 36 ms on an A100 |
//! | share of host memory's rate that the CPU's merge reaches | section 5.3: "71-94 %"; see [`bed`] |
//! | PARADIS | the paper's own speed-ups over it; it is not simulated |
//!
//! Follows Maltenberger et al. 2022, sections 5 and 6.

mod bed;
mod experiments;
mod large;
mod quotes;
mod shapes;

use pelton_error::{CancelFlag, Error, Result};

use crate::report::{Report, Row};
use bed::Bed;

pub use crate::figure::plots;

/// The machines of the paper.
const MACHINES: [&str; 3] = ["ac922", "delta", "dgx-a100"];

/// A figure is near the paper's within this share.
const NEAR: f64 = 0.15;

/// How the paper's experiments are simulated.
#[derive(Debug, Clone)]
pub struct PaperSorts {
    /// Keys held for each sort, whatever number they stand for.
    pub held_keys: usize,
    /// Threads that sort and check held keys; they change no figure.
    pub thread_count: usize,
    /// Stops it.
    pub cancel: CancelFlag,
}

/// The least keys held: with fewer, pivots are too far from where those of the paper's sizes lie.
const HELD_KEYS_MIN: usize = 1 << 12;

impl Default for PaperSorts {
    fn default() -> Self {
        let thread_count = std::thread::available_parallelism().map_or(1, usize::from);
        // 131072 keys for each of eight devices.
        Self { held_keys: 1 << 20, thread_count, cancel: CancelFlag::default() }
    }
}

/// Simulates all of them.
///
/// # Errors
///
/// `InvalidInput` for fewer held keys than shapes can be judged by; `Corrupt` if a result is not the sorted input.
pub fn run(options: &PaperSorts) -> Result<Report> {
    if options.held_keys < HELD_KEYS_MIN {
        return Err(Error::invalid_input(format!(
            "{} keys held for a sort; hold {HELD_KEYS_MIN} at least",
            options.held_keys
        )));
    }
    let mut bed = Bed::new(options);
    let mut rows = experiments::rows(&mut bed)?;
    rows.extend(large::rows(&mut bed)?);
    let shapes = shapes::evaluate(&mut bed)?;
    Ok(Report {
        experiment: "sort-paper".into(),
        title: "the sorting paper's experiments on its machines, simulated".into(),
        paper: super::PAPER.into(),
        machines: MACHINES.map(String::from).to_vec(),
        scale: 1.0,
        settings: settings(options, &rows),
        rows,
        grids: Vec::new(),
        shapes,
    })
}

fn settings(options: &PaperSorts, rows: &[Row]) -> Vec<(String, String)> {
    let pair = |name: &str, value: String| (name.to_owned(), value);
    let ratios: Vec<f64> = rows.iter().filter_map(Row::ratio).collect();
    let near = ratios.iter().filter(|ratio| (**ratio - 1.0).abs() <= NEAR).count();
    let inputs = rows.iter().filter(|row| row.is_input).count();
    vec![
        pair("keys", format!("as many as in the paper; {} held for each sort", options.held_keys)),
        pair("timed", "virtual time from the first copy to the last row in place; no allocation".to_owned()),
        pair("checked", "every result: order and fingerprint of the keys held".to_owned()),
        pair(
            "near",
            format!(
                "{near} of {} figures within 15 % of the paper's; {inputs} inputs left out",
                ratios.len()
            ),
        ),
    ]
}
