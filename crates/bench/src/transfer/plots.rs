//! The figures, drawn.

use super::{accesses, methods};
use crate::plot::{Bar, BarChart, BarSeries};
use crate::report::{Outcome, Report, Row};

/// A name for a file, and SVG, for each figure of a report of this experiment.
pub fn plots(report: &Report) -> Vec<(String, String)> {
    let figures = [
        (methods::RATES, "transfer-methods", "GB/s"),
        (methods::SHARES, "transfer-methods-share", "share of zero-copy"),
        (accesses::SEQUENTIAL, "transfer-loads-in-order", "GB/s"),
        (accesses::RANDOM, "transfer-loads-at-random", "G loads/s"),
        (accesses::LATENCY, "transfer-loads-dependent", "ns"),
    ];
    let mut plots = Vec::new();
    for (figure, name, unit) in figures {
        let rows: Vec<&Row> = report.rows.iter().filter(|row| row.figure == figure).collect();
        if !rows.is_empty() {
            plots.push((name.to_string(), chart(figure, unit, &rows).to_svg()));
        }
    }
    plots
}

fn chart(figure: &str, unit: &str, rows: &[&Row]) -> BarChart {
    let tag = rows[0].tag.name();
    let mut series = vec![BarSeries {
        name: format!("here, {tag}"),
        is_reference: false,
        bars: rows.iter().map(|row| ours(row)).collect(),
    }];
    if rows.iter().any(|row| row.paper.is_some()) {
        let paper = |row: &&Row| {
            row.paper.map(|paper| Bar { value: paper.value(), error: (paper.high - paper.low) / 2.0 })
        };
        let bars = rows.iter().map(paper).collect();
        series.insert(0, BarSeries { name: "paper, PCIe 3".into(), is_reference: true, bars });
    }
    BarChart {
        title: format!("{}, Figure {figure} ({tag})", rows[0].machine),
        y_label: unit.into(),
        categories: rows.iter().map(|row| row.what.clone()).collect(),
        series,
    }
}

fn ours(row: &Row) -> Option<Bar> {
    match &row.ours {
        Outcome::Done(measured) => Some(Bar { value: measured.mean, error: measured.standard_error }),
        Outcome::Missing(_) => None,
    }
}
