//! E5 and E6: one column of moderate ratio, by chunk size and number of pipelines.
//!
//! ```text
//!   pipeline 1   read ─ decode ─ sum | copy        a pipeline holds one row group at a time; with overlap the next is
//!   pipeline 2        read ─ decode ─ sum | copy   read while the last one is worked on
//! ```
//!
//! So as many row groups are under way as there are pipelines, and with overlap one more; the device counts them, and a
//! scan with another number fails the run.
//!
//! On the CPU engine a pipeline is a row group read ahead by each thread; copying to host memory is for devices.

use crate::plot::{LineChart, LineSeries, Scale};
use crate::{Outcome, Shape};
use pelton_datagen::Dataset;
use pelton_engine::bytes_text;
use pelton_error::{Error, ErrorKind, Result};

use super::chunks::COLUMNS;
use super::data::{Data, Form, row_group_rows};
use super::scan::{Pace, Scanned, Scanner, Target, other_answer};
use super::stage::{JUDGED_S, MB_PER_S, TOO_SHORT, derived, rate, row, shape, with};
use super::{Findings, Stage};

/// "A column with moderate compression, a ratio of around 3.2".
const COLUMN: &str = "lo_commitdate";
/// Bytes of a value.
const VALUE_BYTES: f64 = 4.0;

/// Whether a finding holds with its numbers, or why it cannot be shown.
type Found = std::result::Result<(bool, String), String>;

/// One setting and its bandwidth, bytes per second.
#[derive(Clone)]
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
            let groups = scanner.table().row_group_count();
            check_ahead(&scanned, slots, has_overlap, groups)?;
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

/// Refuses figures of a scan that had more or fewer row groups under way than its name says.
fn check_ahead(scanned: &Scanned, slots: usize, has_overlap: bool, row_groups: usize) -> Result<()> {
    let Some(ahead) = scanned.row_groups_ahead_max else { return Ok(()) };
    let most = (slots + usize::from(has_overlap)).min(row_groups);
    let least = if has_overlap { 2.min(row_groups) } else { 1 };
    if (least..=most).contains(&ahead) {
        return Ok(());
    }
    let message =
        format!("{slots} pipelines had {ahead} row groups under way, {least} to {most} were to be expected");
    Err(Error::new(ErrorKind::Corrupt, message))
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

/// "More pipelines: smaller chunks suffice". Fails where the most pipelines read the smallest chunks slower than one.
fn more_pipelines(stage: &Stage<'_>, points: &[Point]) -> Shape {
    shape(&stage.machine, "E5: more pipelines make up for small chunks", make_up_for_small_chunks(points))
}

fn make_up_for_small_chunks(points: &[Point]) -> Found {
    let smallest = points.iter().map(|point| point.row_group_rows).min().unwrap_or(0);
    let mut at_smallest: Vec<&Point> =
        points.iter().filter(|point| point.row_group_rows == smallest).collect();
    at_smallest.sort_by_key(|point| point.slots);
    match (at_smallest.first(), at_smallest.last()) {
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
    }
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
    shape(&stage.machine, "E6 (D10): overlap helps, most with few pipelines", helps_most_with_few(points))
}

/// Fails where scans with overlap are slower than those without, and where overlap gains more with many pipelines than
/// with few.
fn helps_most_with_few(points: &[Point]) -> Found {
    if points.iter().any(|point| point.raw_bytes / point.effective() < JUDGED_S) {
        return Err(TOO_SHORT.into());
    }
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
    // A tenth is what neighbouring runs differ by.
    Ok((all >= 0.95 && with_many <= with_few + 0.1, detail))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A scan of 100 MB of rows that took this long.
    fn point(slots: usize, has_overlap: bool, seconds: f64) -> Point {
        Point { row_group_rows: 1000, slots, has_overlap, seconds: vec![seconds], raw_bytes: 1e8, ratio: 3.0 }
    }

    #[test]
    fn more_pipelines_that_are_slower_fail() {
        let check =
            |many: f64| make_up_for_small_chunks(&[point(1, true, 0.4), point(8, true, many)]).unwrap().0;
        assert!(check(0.2));
        assert!(!check(0.5));
        assert!(make_up_for_small_chunks(&[point(1, true, 0.001)]).is_err(), "too short to judge");
    }

    #[test]
    fn overlap_that_slows_scans_or_gains_most_with_many_pipelines_fails() {
        let check = |one_off: f64, one_on: f64, many_off: f64, many_on: f64| {
            let few = [point(1, false, one_off), point(1, true, one_on)];
            let many = [point(8, false, many_off), point(8, true, many_on)];
            helps_most_with_few(&[few, many].concat()).unwrap().0
        };
        assert!(check(0.8, 0.5, 0.4, 0.4));
        assert!(!check(0.5, 0.8, 0.4, 0.4), "overlap slower than none");
        assert!(!check(0.5, 0.5, 0.8, 0.4), "many pipelines gain more than one");
    }

    #[test]
    fn a_scan_with_other_row_groups_under_way_than_asked_for_is_refused() {
        let scanned = |ahead| Scanned {
            seconds: vec![1.0],
            answer: String::new(),
            row_groups_ahead_max: Some(ahead),
            device_codec_bytes_per_s: None,
        };
        assert!(check_ahead(&scanned(1), 1, false, 8).is_ok());
        assert!(check_ahead(&scanned(2), 1, false, 8).is_err(), "without overlap one at a time");
        assert!(check_ahead(&scanned(2), 1, true, 8).is_ok());
        assert!(check_ahead(&scanned(1), 1, true, 8).is_err(), "with overlap the next is read as well");
        assert!(check_ahead(&scanned(1), 1, true, 1).is_ok(), "there is no next");
        assert!(check_ahead(&scanned(6), 4, true, 8).is_err());
    }
}
