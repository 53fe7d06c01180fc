//! Figures of papers that are simulated: their rows, and their plots.
//!
//! ```text
//!   Figure ─► rows: ours beside the paper's, inputs marked ─► Report ─► plots: bars of one machine, figure and unit
//! ```

use crate::plot::{Bar, BarChart, BarSeries};
use crate::report::{Measured, Outcome, Quoted, Report, Row, Tag};

/// Puts rows of one figure of one machine together.
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) machine: &'static str,
    pub(crate) rows: Vec<Row>,
}

impl Figure {
    pub(crate) fn new(name: &'static str, machine: &'static str) -> Self {
        Self { name, machine, rows: Vec::new() }
    }

    /// A figure that came out, beside the paper's.
    pub(crate) fn push(
        &mut self,
        what: impl Into<String>,
        unit: &'static str,
        value: f64,
        paper: Option<Quoted>,
    ) {
        let ours = Measured { mean: value, standard_error: 0.0, best: value, repetitions: 1 };
        self.rows.push(self.row(what.into(), unit, Outcome::Done(ours), paper));
    }

    /// The same of one that went into the machine, and why it is there.
    pub(crate) fn push_input(
        &mut self,
        what: impl Into<String>,
        unit: &'static str,
        value: f64,
        paper: Quoted,
        note: &str,
    ) {
        self.push(what, unit, value, Some(paper));
        let row = self.rows.last_mut().expect("it was pushed");
        (row.is_input, row.note) = (true, note.to_owned());
    }

    /// What cannot be shown.
    pub(crate) fn push_missing(
        &mut self,
        what: &str,
        unit: &'static str,
        paper: Option<Quoted>,
        missing: &str,
    ) {
        self.rows.push(self.row(what.into(), unit, Outcome::Missing(missing.into()), paper));
    }

    fn row(&self, what: String, unit: &'static str, ours: Outcome, paper: Option<Quoted>) -> Row {
        Row {
            figure: self.name.to_owned(),
            machine: self.machine.to_owned(),
            what,
            unit,
            paper,
            ours,
            tag: Tag::Simulated,
            note: String::new(),
            is_input: false,
            is_in_grid: false,
        }
    }
}

/// A chart for each machine, figure and unit: a name for a file, and SVG.
pub fn plots(report: &Report) -> Vec<(String, String)> {
    let mut groups: Vec<(&str, &str, &str, Vec<&Row>)> = Vec::new();
    for row in report.rows.iter().filter(|row| row.value().is_some()) {
        let (machine, figure, unit) = (row.machine.as_str(), row.figure.as_str(), row.unit);
        match groups.iter_mut().find(|group| (group.0, group.1, group.2) == (machine, figure, unit)) {
            Some(group) => group.3.push(row),
            None => groups.push((machine, figure, unit, vec![row])),
        }
    }
    let several = groups.into_iter().filter(|(.., rows)| rows.len() > 1);
    several
        .map(|(machine, figure, unit, rows)| {
            (file_name(&report.experiment, machine, figure, unit), chart(machine, figure, unit, &rows))
        })
        .collect()
}

/// Letters, digits and hyphens.
fn file_name(report_name: &str, machine: &str, figure: &str, unit: &str) -> String {
    let mut name = report_name.to_owned();
    for char in format!("-{machine}-{figure}-{unit}").chars() {
        if char.is_ascii_alphanumeric() {
            name.push(char);
        } else if !name.ends_with('-') {
            name.push('-');
        }
    }
    name
}

/// What a bar is of; of a figure that went into the machine it says so.
fn category(row: &Row) -> String {
    match row.is_input {
        true => format!("{} (input)", row.what),
        false => row.what.clone(),
    }
}

fn chart(machine: &str, figure: &str, unit: &str, rows: &[&Row]) -> String {
    let ours = rows.iter().map(|row| row.value().map(|value| Bar { value, error: 0.0 })).collect();
    let paper = rows.iter().map(|row| {
        row.paper.map(|paper| Bar { value: paper.value(), error: (paper.high - paper.low) / 2.0 })
    });
    let mut series = vec![BarSeries { name: "here, simulated".to_owned(), is_reference: false, bars: ours }];
    if rows.iter().any(|row| row.paper.is_some()) {
        let bars = paper.collect();
        series.insert(0, BarSeries { name: "paper, text".to_owned(), is_reference: true, bars });
    }
    let chart = BarChart {
        title: format!("{machine}, {figure} (simulated)"),
        y_label: unit.to_owned(),
        categories: rows.iter().map(|row| category(row)).collect(),
        series,
    };
    chart.to_svg()
}
