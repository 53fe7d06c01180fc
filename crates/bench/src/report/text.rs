//! A report as aligned text.
//!
//! ```text
//!   SIMULATED, ac922, GB/s
//!   figure  what              paper  ours   se    ratio
//!   2a      gpu 0 HtoD           72  71.90  0.00  1.00
//! ```
//!
//! `~` marks a number that follows from the paper's text by arithmetic, `!` one of ours that is unsteady, and `input`
//! in place of a ratio a figure that went into the simulated machine.

use std::fmt::Write;

use super::{Grid, Outcome, Quoted, Report, Row, Tag};

const HEADER: [&str; 7] = ["figure", "what", "paper", "ours", "se", "ratio", "note"];

/// Of the columns of [`HEADER`], those with numbers.
const NUMERIC: [bool; 7] = [false, false, true, true, true, true, false];

pub(super) fn render(report: &Report) -> String {
    let mut out = String::new();
    // Writing to a string never fails.
    let _ = writeln!(out, "{}: {}", report.experiment, report.title);
    let _ = writeln!(out, "paper     {}", report.paper);
    let _ = writeln!(out, "scale     {} of the paper's size", short(report.scale));
    for (name, value) in &report.settings {
        let _ = writeln!(out, "{name:<9} {value}");
    }
    for tag in [Tag::Measured, Tag::Simulated] {
        for machine in &report.machines {
            tables(&mut out, report, tag, machine);
        }
    }
    shapes(&mut out, report);
    out
}

/// Everything of one machine and one tag, if there is any.
fn tables(out: &mut String, report: &Report, tag: Tag, machine: &str) {
    let rows: Vec<&Row> = report.rows.iter().filter(|row| row.tag == tag && row.machine == machine).collect();
    let mut units: Vec<&str> = Vec::new();
    for row in &rows {
        if !units.contains(&row.unit) {
            units.push(row.unit);
        }
    }
    for unit in units {
        let _ = writeln!(out, "\n{}, {machine}, {unit}", tag.name().to_uppercase());
        let of_unit = rows.iter().filter(|row| row.unit == unit && !row.is_in_grid);
        table(out, &of_unit.map(|row| row_cells(row)).collect::<Vec<[String; 7]>>());
    }
    for grid in report.grids.iter().filter(|grid| grid.tag == tag && grid.machine == machine) {
        grid_table(out, grid);
    }
}

fn row_cells(row: &Row) -> [String; 7] {
    let paper = row.paper.as_ref().map_or_else(|| "-".to_owned(), quoted);
    let ratio = match row.ratio() {
        Some(ratio) => format!("{ratio:.2}"),
        None if row.is_input => "input".to_owned(),
        None => "-".to_owned(),
    };
    let (ours, error) = match &row.ours {
        Outcome::Done(ours) => {
            let flag = if ours.is_unsteady() { "!" } else { "" };
            (number(ours.mean), format!("{}{flag}", number(ours.standard_error)))
        }
        Outcome::Missing(_) => ("n/a".to_owned(), "-".to_owned()),
    };
    let note = match &row.ours {
        Outcome::Missing(what) if row.note.is_empty() => format!("n/a: {what}"),
        Outcome::Missing(what) => format!("n/a: {what}; {}", row.note),
        Outcome::Done(_) => row.note.clone(),
    };
    [row.figure.clone(), row.what.clone(), paper, ours, error, ratio, note]
}

fn quoted(quoted: &Quoted) -> String {
    let mark = if quoted.is_derived { "~" } else { "" };
    if quoted.low == quoted.high {
        format!("{mark}{}", short(quoted.low))
    } else {
        format!("{mark}{}-{}", short(quoted.low), short(quoted.high))
    }
}

/// Three significant digits, all of a whole number, without zeros at the end.
fn short(value: f64) -> String {
    let digits = 2.0 - value.abs().log10().floor();
    let power = 10f64.powf(digits.clamp(0.0, 12.0));
    format!("{}", (value * power).round() / power)
}

/// Four significant digits or so.
fn number(value: f64) -> String {
    let digits = if value.abs() >= 1000.0 { 0 } else { 2 - usize::from(value.abs() >= 100.0) };
    format!("{value:.digits$}")
}

fn table(out: &mut String, rows: &[[String; 7]]) {
    if rows.is_empty() {
        return;
    }
    let header = HEADER.map(str::to_owned);
    let width = |column: usize| {
        std::iter::once(&header).chain(rows).map(|row| row[column].chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..HEADER.len()).map(width).collect();
    for row in std::iter::once(&header).chain(rows) {
        let mut line = String::new();
        for ((cell, width), is_numeric) in row.iter().zip(&widths).zip(NUMERIC) {
            let _ =
                if is_numeric { write!(line, "{cell:>width$}  ") } else { write!(line, "{cell:<width$}  ") };
        }
        let _ = writeln!(out, "{}", line.trim_end());
    }
}

fn grid_table(out: &mut String, grid: &Grid) {
    let _ = writeln!(out, "\n{}", grid.title);
    let texts: Vec<Vec<String>> = grid
        .cells
        .iter()
        .map(|row| row.iter().map(|cell| cell.map_or_else(|| "-".to_owned(), number)).collect())
        .collect();
    let longest =
        texts.iter().flatten().chain(&grid.labels).map(|text| text.chars().count()).max().unwrap_or(0);
    let line = |first: &str, cells: &[String]| {
        let cells: String = cells.iter().map(|cell| format!("  {cell:>longest$}")).collect();
        format!("{first:<longest$}{cells}\n")
    };
    out.push_str(&line("", &grid.labels));
    for (label, row) in grid.labels.iter().zip(&texts) {
        out.push_str(&line(label, row));
    }
}

fn shapes(out: &mut String, report: &Report) {
    if report.shapes.is_empty() {
        return;
    }
    let _ = writeln!(out, "\nshapes");
    for shape in &report.shapes {
        let _ =
            writeln!(out, "{:<15} {} [{}]: {}", shape.holds.name(), shape.id, shape.machine, shape.detail);
    }
}
