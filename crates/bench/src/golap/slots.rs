//! E5 and E6: one column of moderate ratio, by chunk size and number of pipelines.
//!
//! ```text
//!   pipeline 1   read ─ decode ─ sum | copy        a pipeline holds one row group at a time; with overlap the next is
//!   pipeline 2        read ─ decode ─ sum | copy   read while the last one is worked on
//! ```
//!
//! On the CPU engine a pipeline is a row group read ahead by each thread; copying to host memory is for devices.

use pelton_datagen::Dataset;
use pelton_engine::bytes_text;
use pelton_error::Result;
use pelton_experiment::plot::{LineChart, LineSeries, Scale};
use pelton_experiment::{Outcome, Shape};

use super::chunks::COLUMNS;
use super::data::{Data, Form, row_group_rows};
use super::scan::{Pace, Scanner, Target, other_answer};
use super::stage::{JUDGED_S, MB_PER_S, TOO_SHORT, derived, rate, row, shape, with};
use super::{Findings, Stage};

/// "A column with moderate compression, a ratio of around 3.2".
const COLUMN: &str = "lo_commitdate";
/// Bytes of a value.
const VALUE_BYTES: f64 = 4.0;

/// One setting and its bandwidth, bytes per second.
struct Point {
    row_group_rows: u32,
    slots: usize,
    has_overlap: bool,
    seconds: Vec<f64>,
    raw_bytes: f64,
    ratio: f64,
}

impl Point {
    fn effective(&self) -> f64 {
        self.raw_bytes * self.seconds.len() as f64 / self.seconds.iter().sum::<f64>()
    }
}

/// Parts that the column is cut into, and pipelines.
fn grid(stage: &Stage<'_>) -> (&'static [u64], &'static [usize]) {
    match stage.options.is_quick {
        true => (&[128, 8], &[1, 4]),
        false => (&[2048, 512, 128, 32, 8], &[1, 2, 4, 8, 16]),
    }
}

fn measure(stage: &Stage<'_>, overlaps: &[bool], target: Target) -> Result<Vec<Point>> {
    let data = Data::prepare(stage, Dataset::Ssb)?;
    let (parts, slots) = grid(stage);
    let mut sizes: Vec<u32> = parts.iter().map(|parts| row_group_rows(data.fact_rows, *parts)).collect();
    sizes.dedup();
    let mut points = Vec::new();
    let mut expected: Option<String> = None;
    for row_group_rows in sizes {
        let warehouse = data.narrow_warehouse(stage, &COLUMNS, Form::Compressed, row_group_rows)?;
        for (slots, has_overlap) in
            slots.iter().flat_map(|slots| overlaps.iter().map(move |overlap| (*slots, *overlap)))
        {
            let pace = Pace { slots: Some(slots), has_overlap };
            let scanner = Scanner::open(stage, &warehouse, data.fact, true, pace)?;
            let column = column_of(&scanner);
            let scanned = scanner.time(stage, column, target)?;
            if *expected.get_or_insert_with(|| scanned.answer.clone()) != scanned.answer {
                return Err(other_answer(scanner.table(), column));
            }
            let (raw_bytes, stored_bytes) = scanner.bytes(column);
            let ratio = raw_bytes / stored_bytes.max(1.0);
            points.push(Point {
                row_group_rows,
                slots,
                has_overlap,
                seconds: scanned.seconds,
                raw_bytes,
                ratio,
            });
        }
    }
    Ok(points)
}

fn column_of(scanner: &Scanner) -> usize {
    let columns = &scanner.table().schema().columns;
    columns.iter().position(|column| column.name == COLUMN).unwrap_or(0)
}

/// E5.
pub(super) fn pipelines(stage: &Stage<'_>) -> Result<Findings> {
    let points = measure(stage, &[true], Target::Sum)?;
    let mut findings = Findings::default();
    for point in &points {
        push(stage, "11", point, &mut findings);
    }
    let storage = stage.options.storage_bytes_per_s as f64;
    let mut seen: Vec<u32> = Vec::new();
    for point in &points {
        if !seen.contains(&point.row_group_rows) {
            seen.push(point.row_group_rows);
            let what = format!("{} rows, ratio x storage rate", point.row_group_rows);
            let bound = derived(point.ratio * storage / MB_PER_S);
            findings.rows.push(row(&stage.machine, "11, bound", what, "MB/s", bound));
        }
    }
    findings.shapes.push(more_pipelines(stage, &points));
    findings.figures.push(("golap-11-pipelines".into(), chart(stage, &points, 11)));
    Ok(findings)
}

/// "More pipelines: smaller chunks suffice".
fn more_pipelines(stage: &Stage<'_>, points: &[Point]) -> Shape {
    let smallest = points.iter().map(|point| point.row_group_rows).min().unwrap_or(0);
    let mut at_smallest: Vec<&Point> =
        points.iter().filter(|point| point.row_group_rows == smallest).collect();
    at_smallest.sort_by_key(|point| point.slots);
    let found = match (at_smallest.first(), at_smallest.last()) {
        (Some(one), _) if one.raw_bytes / one.effective() < JUDGED_S => Err(TOO_SHORT.into()),
        (Some(one), Some(many)) => {
            let (one_value, many_value) = (one.effective() / MB_PER_S, many.effective() / MB_PER_S);
            let detail = format!(
                "{smallest} rows: {one_value:.1} MB/s with {}, {many_value:.1} with {}",
                one.slots, many.slots
            );
            Ok((many_value >= 0.95 * one_value, detail))
        }
        _ => Err("not measured".into()),
    };
    shape(&stage.machine, "E5: more pipelines make up for small chunks", found)
}

/// E6.
pub(super) fn overlap(stage: &Stage<'_>) -> Result<Findings> {
    let mut findings = Findings::default();
    if !stage.has_device() {
        let missing = Outcome::Missing("a GPU; --device host stands in for one".into());
        findings.rows.push(row(&stage.machine, "12", format!("{COLUMN} to host memory"), "MB/s", missing));
        return Ok(findings);
    }
    let points = measure(stage, &[false, true], Target::Copy)?;
    for point in &points {
        push(stage, "12", point, &mut findings);
    }
    findings.shapes.push(overlap_helps(stage, &points));
    findings.figures.push(("golap-12-overlap".into(), chart(stage, &points, 12)));
    Ok(findings)
}

/// D10.
fn overlap_helps(stage: &Stage<'_>, points: &[Point]) -> Shape {
    let gain = |of: &dyn Fn(&Point) -> bool| {
        let mean = |has_overlap: bool| {
            let chosen: Vec<f64> = points
                .iter()
                .filter(|point| of(point) && point.has_overlap == has_overlap)
                .map(Point::effective)
                .collect();
            chosen.iter().sum::<f64>() / chosen.len().max(1) as f64
        };
        mean(true) / mean(false)
    };
    let slots = points.iter().map(|point| point.slots);
    let (few, many) = (slots.clone().min().unwrap_or(1), slots.max().unwrap_or(1));
    let all = gain(&|_| true);
    let (with_few, with_many) = (gain(&|point| point.slots == few), gain(&|point| point.slots == many));
    let detail =
        format!("{all:.2}x on average; {with_few:.2}x with {few} pipelines, {with_many:.2}x with {many}");
    let found = match stage.has_gpu() {
        // A tenth is what neighbouring runs differ by.
        true => Ok((all >= 0.95 && with_many <= with_few + 0.1, detail)),
        false => Err(format!("the host's cores copy and compute in turn; {detail}")),
    };
    shape(&stage.machine, "E6 (D10): overlap helps, most with few pipelines", found)
}

fn push(stage: &Stage<'_>, figure: &str, point: &Point, findings: &mut Findings) {
    let chunk = bytes_text((f64::from(point.row_group_rows) * VALUE_BYTES) as u64);
    let overlap = if point.has_overlap { "" } else { ", no overlap" };
    let what = format!("{} rows ({chunk}), pipelines: {}{overlap}", point.row_group_rows, point.slots);
    let ours = rate(point.raw_bytes / MB_PER_S, &point.seconds);
    let of = point.effective() / (point.ratio * stage.options.storage_bytes_per_s as f64);
    let note = format!("ratio {:.2}, {of:.2} of ratio x storage rate", point.ratio);
    findings.rows.push(with(row(&stage.machine, figure, what, "MB/s", ours), None, note));
}

fn chart(stage: &Stage<'_>, points: &[Point], figure: u32) -> String {
    let mut lines: Vec<(usize, bool)> = points.iter().map(|point| (point.slots, point.has_overlap)).collect();
    lines.sort_unstable();
    lines.dedup();
    let series = lines.into_iter().map(|(slots, has_overlap)| LineSeries {
        name: format!("pipelines: {slots}{}", if has_overlap { "" } else { ", no overlap" }),
        is_reference: false,
        points: points
            .iter()
            .filter(|point| point.slots == slots && point.has_overlap == has_overlap)
            .map(|point| (f64::from(point.row_group_rows) * VALUE_BYTES / 1e6, point.effective() / MB_PER_S))
            .collect(),
    });
    let chart = LineChart {
        title: format!(
            "{COLUMN}, {}, storage {} (measured), Figure {figure}",
            stage.machine,
            stage.options.storage_text()
        ),
        x_label: "uncompressed chunk, MB".into(),
        y_label: "effective bandwidth, MB/s".into(),
        x_scale: Scale::Log10,
        y_scale: Scale::Linear,
        series: series.collect(),
    };
    chart.to_svg()
}
