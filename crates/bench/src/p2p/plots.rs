//! The figures of the paper, drawn with our bars beside its numbers.

use crate::plot::{Bar, BarChart, BarSeries};
use crate::report::{Outcome, Quoted, Report, Row};

/// A chart for each machine and figure of a report of this experiment: a name for a file, and SVG.
pub fn plots(report: &Report) -> Vec<(String, String)> {
    let mut plots = Vec::new();
    for machine in &report.machines {
        let rows: Vec<&Row> =
            report.rows.iter().filter(|row| row.machine == *machine && !row.is_in_grid).collect();
        let mut figures: Vec<&str> = rows.iter().map(|row| row.figure.as_str()).collect();
        figures.dedup();
        for figure in figures {
            let rows: Vec<&Row> = rows.iter().copied().filter(|row| row.figure == figure).collect();
            plots.push((file_name(machine, figure), chart(machine, figure, &rows).to_svg()));
        }
    }
    plots
}

/// Letters, digits and hyphens.
fn file_name(machine: &str, figure: &str) -> String {
    let mut name = String::from("p2p");
    for char in format!("-{machine}-{figure}").chars().map(|char| char.to_ascii_lowercase()) {
        if char.is_ascii_alphanumeric() {
            name.push(char);
        } else if !name.ends_with('-') {
            name.push('-');
        }
    }
    name
}

fn chart(machine: &str, figure: &str, rows: &[&Row]) -> BarChart {
    let figure = if figure.starts_with(|char: char| char.is_ascii_digit()) {
        format!("Figure {figure}")
    } else {
        figure.to_owned()
    };
    let tag = rows.first().map_or("", |row| row.tag.name());
    let mut series = vec![BarSeries {
        name: format!("here, {tag}"),
        is_reference: false,
        bars: rows.iter().map(|row| ours(row)).collect(),
    }];
    if rows.iter().any(|row| row.paper.is_some()) {
        let bars = rows.iter().map(|row| row.paper.as_ref().map(paper)).collect();
        series.insert(0, BarSeries { name: "paper, text".to_owned(), is_reference: true, bars });
    }
    BarChart {
        title: format!("{machine}, {figure} ({tag})"),
        y_label: "GB/s".to_owned(),
        categories: rows.iter().map(|row| row.what.replace("gpus ", "").replace("gpu ", "")).collect(),
        series,
    }
}

fn ours(row: &Row) -> Option<Bar> {
    match &row.ours {
        Outcome::Done(ours) => Some(Bar { value: ours.mean, error: ours.standard_error }),
        Outcome::Missing(_) => None,
    }
}

/// A range as its middle with half its width.
fn paper(quoted: &Quoted) -> Bar {
    Bar { value: quoted.value(), error: (quoted.high - quoted.low) / 2.0 }
}
