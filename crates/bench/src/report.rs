//! The form of a reproduced experiment: rows beside the paper's numbers, and shapes that hold or do not.
//!
//! ```text
//!   Report ─┬─ Row    what the paper says │ Outcome: Measured, or what is missing │ measured or simulated
//!           ├─ Grid   figures of one kind by row and column, such as all pairs of devices
//!           └─ Shape  a qualitative finding: pass, fail, not applicable, with the numbers it rests on
//! ```
//!
//! A ratio is ours over the paper's. A row whose standard error exceeds 5 % of its mean is flagged as unsteady.

mod json;
mod text;

use pelton_device::Machine;

use crate::harness::{Summary, Times};

/// Above this share of the mean a standard error is flagged.
const UNSTEADY_SHARE: f64 = 0.05;

/// Whether a figure was measured or computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tag {
    /// Time passed.
    Measured,
    /// Time was computed by the simulator.
    Simulated,
}

/// What a paper's text gives: one number, or bounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quoted {
    /// Lower bound.
    pub low: f64,
    /// Upper bound; of one number the same.
    pub high: f64,
    /// True if it follows from the text by arithmetic; false if the text states it.
    pub is_derived: bool,
}

/// Mean and spread over the repetitions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// Arithmetic mean, in the unit of the row.
    pub mean: f64,
    /// Standard error of the mean.
    pub standard_error: f64,
    /// Of the fastest repetition.
    pub best: f64,
    /// Repetitions that counted.
    pub repetitions: u32,
}

/// What came out.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// A figure.
    Done(Measured),
    /// The machine, or what drives it, lacks this; the capability by name.
    Missing(String),
}

/// One figure of an experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The paper's figure or table, such as "2a"; on other machines what it shows.
    pub figure: String,
    /// The machine.
    pub machine: String,
    /// What was done.
    pub what: String,
    /// The unit of all numbers of the row.
    pub unit: &'static str,
    /// The paper's number, where its text gives one.
    pub paper: Option<Quoted>,
    /// Ours.
    pub ours: Outcome,
    /// Measured or simulated.
    pub tag: Tag,
    /// How it was really done, such as "staged through the host"; else empty.
    pub note: String,
    /// True if the simulated machine was described by this very figure of the paper: that it comes out again shows
    /// nothing, so it has no ratio and no shape rests on it.
    pub is_input: bool,
    /// True if a [`Grid`] shows the figure, so that tables for people leave the row out.
    pub is_in_grid: bool,
}

/// Figures of one kind by row and column.
#[derive(Debug, Clone, PartialEq)]
pub struct Grid {
    /// What it shows, with the unit.
    pub title: String,
    /// The machine.
    pub machine: String,
    /// Measured or simulated.
    pub tag: Tag,
    /// Names of the rows and columns, which are the same.
    pub labels: Vec<String>,
    /// By row, then by column; nothing where there is no figure.
    pub cells: Vec<Vec<Option<f64>>>,
}

/// Whether a shape holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It holds.
    Pass,
    /// It does not.
    Fail,
    /// This machine cannot show it; the detail says why.
    NotApplicable,
}

/// A qualitative finding of the paper, held against the rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Shape {
    /// Such as "E2: linear scaling with private switches".
    pub id: String,
    /// The machines whose rows were looked at.
    pub machine: String,
    /// Whether it holds.
    pub holds: Verdict,
    /// The numbers.
    pub detail: String,
}

/// An experiment carried out.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Its name, such as "p2p".
    pub experiment: String,
    /// What it is about, in a line.
    pub title: String,
    /// Authors, title, year and section.
    pub paper: String,
    /// The machines.
    pub machines: Vec<String>,
    /// Size of the data as a share of the paper's.
    pub scale: f64,
    /// Everything else that it was called with, and which phases the times include.
    pub settings: Vec<(String, String)>,
    /// The figures.
    pub rows: Vec<Row>,
    /// Figures by row and column.
    pub grids: Vec<Grid>,
    /// The findings.
    pub shapes: Vec<Shape>,
}

impl Tag {
    /// How `machine` comes by its times.
    pub fn of(machine: &Machine) -> Self {
        if machine.info().is_simulated { Tag::Simulated } else { Tag::Measured }
    }

    /// As reports write it.
    pub fn name(self) -> &'static str {
        match self {
            Tag::Measured => "measured",
            Tag::Simulated => "simulated",
        }
    }
}

impl Quoted {
    /// One number that the text states.
    pub const fn stated(value: f64) -> Self {
        Self { low: value, high: value, is_derived: false }
    }

    /// Bounds that the text states.
    pub const fn between(low: f64, high: f64) -> Self {
        Self { low, high, is_derived: false }
    }

    /// The same, as derived from the text.
    #[must_use]
    pub const fn derived(self) -> Self {
        Self { low: self.low, high: self.high, is_derived: true }
    }

    /// The number, or the middle of the bounds.
    pub fn value(&self) -> f64 {
        f64::midpoint(self.low, self.high)
    }
}

impl Measured {
    /// `amount` per second over `times`, for example bytes: the amount over the mean time.
    ///
    /// Nothing if the clock saw no time pass.
    pub fn rate(amount: f64, times: &Times) -> Option<Self> {
        let Summary { mean, standard_error, min, count } = times.seconds();
        (min > 0.0).then(|| Self {
            mean: amount / mean,
            // To first order a quotient has the relative error of its divisor.
            standard_error: amount / mean * (standard_error / mean),
            best: amount / min,
            repetitions: count,
        })
    }

    /// True if the standard error exceeds 5 % of the mean.
    pub fn is_unsteady(&self) -> bool {
        self.standard_error > UNSTEADY_SHARE * self.mean
    }
}

impl Row {
    /// Our mean, if there is one.
    pub fn value(&self) -> Option<f64> {
        match &self.ours {
            Outcome::Done(measured) => Some(measured.mean),
            Outcome::Missing(_) => None,
        }
    }

    /// Ours over the paper's, where the paper's did not go in.
    pub fn ratio(&self) -> Option<f64> {
        if self.is_input {
            return None;
        }
        Some(self.value()? / self.paper?.value())
    }
}

impl Verdict {
    /// As reports write it.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Pass => "pass",
            Verdict::Fail => "fail",
            Verdict::NotApplicable => "not applicable",
        }
    }

    /// Passes if `holds`.
    pub fn of(holds: bool) -> Self {
        if holds { Verdict::Pass } else { Verdict::Fail }
    }
}

impl Report {
    /// Tables for people: a table a machine, measured ones apart from simulated ones, then the shapes.
    pub fn to_text(&self) -> String {
        text::render(self)
    }

    /// JSON as `docs/specs/experiment.md` specifies it, with a line feed at its end.
    pub fn to_json(&self) -> String {
        json::render(self)
    }

    /// True if no shape fails.
    pub fn holds(&self) -> bool {
        self.shapes.iter().all(|shape| shape.holds != Verdict::Fail)
    }
}
