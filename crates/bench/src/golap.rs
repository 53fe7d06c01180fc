//! `pelton bench golap`: the experiments of GOLAP on tables and storage of this machine.
//!
//! ```text
//!   data.rs   files, and tables of them: uncompressed, compressed, in row groups of several sizes
//!   stage.rs  sessions over them, with reads held to a storage rate; repetitions; rows of the report
//!   E1, E3    end_to_end.rs   queries under {uncompressed, pruned, compressed, both}
//!   E2        reads.rs        storage by requests in flight
//!   E4        columns.rs      ratio against bandwidth; decoding.rs measures the decoder on its own
//!   E5, E6    slots.rs        chunk size, pipelines, overlap
//!   E7        samples.rs      choices from samples
//!   E8        chunks.rs       chunk size and skipping
//!   E10       systems.rs      other systems
//! ```
//!
//! Effective bandwidth is uncompressed bytes answered for, skipped ones included, over the time from the text of a
//! query to its last row (section 6.1 of the paper). Storage is held to a rate below what the page cache gives, so that
//! it stays the bottleneck at any scale. Every answer is compared with that of the CPU engine on uncompressed tables.
//!
//! Follows Boeschen, Ziegler and Binnig 2024, section 6. Co-execution (its section 6.5) and cost (6.7) are left out.

mod chunks;
mod columns;
mod data;
mod decoding;
mod end_to_end;
mod options;
mod reads;
mod samples;
mod scan;
mod slots;
mod stage;
mod systems;

use crate::{Report, Row, Shape};
use pelton_error::{Result, ResultExt};
use pelton_load::CancelFlag;

pub use self::options::{GolapOptions, Part};
use self::stage::Stage;

/// What is reproduced.
const PAPER: &str = "Boeschen, Ziegler and Binnig 2024, GOLAP: A GPU-in-Data-Path Architecture for High-Speed OLAP, \
                     section 6";

/// What came out.
#[derive(Debug)]
pub struct Golap {
    /// Rows and shapes.
    pub report: Report,
    /// Figures, by name for a file, as SVG.
    pub figures: Vec<(String, String)>,
}

/// What an experiment found.
#[derive(Default)]
struct Findings {
    rows: Vec<Row>,
    shapes: Vec<Shape>,
    figures: Vec<(String, String)>,
}

impl Findings {
    fn add(&mut self, other: Self) {
        self.rows.extend(other.rows);
        self.shapes.extend(other.shapes);
        self.figures.extend(other.figures);
    }
}

/// Carries the experiments out, one after another.
///
/// # Errors
///
/// `InvalidInput` for options out of range; `Corrupt` where two variants gave different answers; what a device lacks;
/// errors of making and reading the data; `Cancelled`.
pub fn run(options: &GolapOptions, cancel: &CancelFlag, say: &dyn Fn(&str)) -> Result<Golap> {
    options.check()?;
    let stage = Stage::open(options, cancel, say)?;
    let mut all = Findings::default();
    for part in &options.parts {
        cancel.check()?;
        say(&format!("{part:?}"));
        all.add(carry_out(&stage, *part).context(|| format!("experiment {part:?}"))?);
    }
    let mut machines: Vec<String> = Vec::new();
    for row in &all.rows {
        if !machines.contains(&row.machine) {
            machines.push(row.machine.clone());
        }
    }
    let report = Report {
        experiment: "golap".into(),
        title: "compressed scans, skipping and devices in the data path".into(),
        paper: PAPER.into(),
        machines,
        scale: options.scale / options::PAPER_SCALE,
        settings: stage.settings(),
        rows: all.rows,
        grids: Vec::new(),
        shapes: all.shapes,
    };
    Ok(Golap { report, figures: all.figures })
}

fn carry_out(stage: &Stage<'_>, part: Part) -> Result<Findings> {
    match part {
        Part::E1 => end_to_end::ways(stage),
        Part::E2 => reads::run(stage),
        Part::E3 => end_to_end::settings(stage),
        Part::E4 => columns::run(stage),
        Part::E5 => slots::pipelines(stage),
        Part::E6 => slots::overlap(stage),
        Part::E7 => samples::run(stage),
        Part::E8 => chunks::run(stage),
        Part::E10 => systems::run(stage),
    }
}
