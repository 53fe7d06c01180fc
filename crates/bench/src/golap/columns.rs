//! E4: for each column of the fact table, its compression ratio and the effective bandwidth of scanning it.
//!
//! ```text
//!   bandwidth │        ________  decoding, measured on its own
//!             │      /· ·  ·
//!             │    /·
//!             │  /·      ratio x storage rate
//!             └──────────────────── ratio
//! ```
//!
//! Where the two lines meet a scan turns from storage-bound to decoder-bound: at the ratio that is the decoding rate
//! over the storage rate. Text is counted by its bytes, whatever width a device holds it in.

use std::path::Path;
use std::sync::Arc;

use crate::Quoted;
use crate::plot::{LineChart, LineSeries, Scale};
use pelton_datagen::Dataset;
use pelton_error::{Result, ResultExt};
use pelton_store::Table;

use super::data::{Data, Form};
use super::decoding::{self, Work};
use super::scan::{Pace, Scanner, Target, other_answer};
use super::stage::{JUDGED_S, MB_PER_S, TOO_SHORT, derived, rate, row, shape, with};
use super::{Findings, Stage};

/// A scan at least this share of what storage allows is storage-bound.
const STORAGE_BOUND: f64 = 0.9;
/// Columns of a quick run.
const QUICK: [&str; 4] = ["lo_orderkey", "lo_quantity", "lo_revenue", "lo_commitdate"];
/// Decoder-bound "with compression ratios greater than 10".
const PAPER_TURN: Quoted = Quoted::stated(10.0);

/// A column's figures; bandwidths in bytes per second.
struct Point {
    name: String,
    ratio: f64,
    seconds: Vec<f64>,
    raw_bytes: f64,
    effective: f64,
    /// Of the decoder alone.
    roof: f64,
    /// The same scan from memory, for the plot.
    from_memory: f64,
}

/// E4.
pub(super) fn run(stage: &Stage<'_>) -> Result<Findings> {
    let data = Data::prepare(stage, Dataset::Ssb)?;
    let warehouse = data.warehouse(stage, Form::Compressed, data.usual_rows())?;
    let (mut points, left_out) = measure(stage, &warehouse, data.fact)?;
    points.sort_by(|a, b| a.ratio.total_cmp(&b.ratio));
    let storage = stage.options.storage_bytes_per_s as f64;
    let mut findings = Findings::default();
    for point in &points {
        let ours = rate(point.raw_bytes / MB_PER_S, &point.seconds);
        let bound = (point.ratio * storage).min(point.roof);
        let note = format!(
            "ratio {:.2}, {:.2} of the bound; decoding {:.0} MB/s",
            point.ratio,
            point.effective / bound,
            point.roof / MB_PER_S
        );
        findings.rows.push(with(row(&stage.machine, "10", point.name.clone(), "MB/s", ours), None, note));
    }
    for (name, reason) in left_out {
        findings.rows.push(row(&stage.machine, "10", name, "MB/s", crate::Outcome::Missing(reason)));
    }
    findings.shapes.push(shape(
        &stage.machine,
        "E4 (D8): scans reach storage or decoder",
        bounded(&points, storage),
    ));
    crossover(stage, &points, storage, &mut findings);
    findings.figures.push(("golap-10-columns".into(), chart(stage, &points, storage)));
    Ok(findings)
}

/// D8. Fails where a scan falls short of storage and decoder by more than a fifth.
fn bounded(points: &[Point], storage: f64) -> std::result::Result<(bool, String), String> {
    let judged = points.iter().filter(|point| point.raw_bytes / point.effective >= JUDGED_S);
    let shares = judged.map(|point| point.effective / (point.ratio * storage).min(point.roof));
    let least = shares.clone().reduce(f64::min).ok_or(TOO_SHORT)?;
    let detail = format!(
        "at least {least:.2} of min(ratio x storage, decoding), {} of {} columns long enough",
        shares.count(),
        points.len()
    );
    Ok((least >= 0.8, detail))
}

type Skipped = Vec<(String, String)>;

/// From storage and from memory, the answers compared with the CPU engine's.
fn measure(stage: &Stage<'_>, warehouse: &Path, fact: &str) -> Result<(Vec<Point>, Skipped)> {
    let stored = Scanner::open(stage, warehouse, fact, true, Pace::USUAL)?;
    let in_memory = Scanner::open(stage, warehouse, fact, false, Pace::USUAL)?;
    let reference = Scanner::engine(stage, warehouse, fact, false, Pace::USUAL)?;
    let table = stored.table();
    let (mut points, mut left_out) = (Vec::new(), Vec::new());
    for (column, schema) in table.schema().columns.iter().enumerate() {
        if stage.options.is_quick && !QUICK.contains(&schema.name.as_str()) {
            continue;
        }
        if let (true, Err(reason)) = (stage.has_device(), pelton_scan::text_supported(table, column)) {
            left_out.push((schema.name.clone(), reason));
            continue;
        }
        let scanned = stored.time(stage, column, Target::Sum).context(|| schema.name.clone())?;
        let from_memory = in_memory.time(stage, column, Target::Sum)?;
        let expected = reference.once(stage, column, Target::Sum)?;
        if [&scanned.answer, &from_memory.answer].iter().any(|answer| **answer != expected.answer) {
            return Err(other_answer(table, column));
        }
        let (raw_bytes, stored_bytes) = stored.bytes(column);
        let per_s = |seconds: &[f64]| raw_bytes * seconds.len() as f64 / seconds.iter().sum::<f64>();
        points.push(Point {
            name: schema.name.clone(),
            ratio: raw_bytes / stored_bytes.max(1.0),
            raw_bytes,
            effective: per_s(&scanned.seconds),
            roof: decoder_rate(stage, table, column, from_memory.device_codec_bytes_per_s)?,
            from_memory: per_s(&from_memory.seconds),
            seconds: scanned.seconds,
        });
    }
    Ok((points, left_out))
}

/// Uncompressed bytes per second of what decodes the column: the device where it decompresses, by its events; the host's
/// threads that decompress for a GPU; else those that decode.
fn decoder_rate(stage: &Stage<'_>, table: &Arc<Table>, column: usize, device: Option<f64>) -> Result<f64> {
    let work = if stage.has_gpu() { Work::Decompress } else { Work::Decode };
    device.map_or_else(|| decoding::rate(table, column, work, stage.options.threads), Ok)
}

/// Appendix: where scans stop being storage-bound, found and computed.
fn crossover(stage: &Stage<'_>, points: &[Point], storage: f64, findings: &mut Findings) {
    let is_bound = |point: &&Point| point.effective >= STORAGE_BOUND * point.ratio * storage;
    let turn = points.iter().find(|point| !is_bound(point) && point.roof < point.ratio * storage);
    let median = median_roof(points) / storage;
    let figure = "10, turn";
    let ours = match turn {
        Some(point) => derived(point.ratio),
        None => crate::Outcome::Missing("a column that decodes slower than storage allows".into()),
    };
    let note = "lowest ratio of a column that is decoder-bound";
    let found = row(&stage.machine, figure, "ratio where decoding takes over, measured", "ratio", ours);
    findings.rows.push(with(found, Some(PAPER_TURN), note));
    let computed = row(&stage.machine, figure, "the same, computed", "ratio", derived(median));
    findings.rows.push(with(computed, Some(PAPER_TURN), "median decoding rate / storage rate"));
}

fn median_roof(points: &[Point]) -> f64 {
    if points.is_empty() {
        return 0.0;
    }
    crate::results::median(&points.iter().map(|point| point.roof).collect::<Vec<f64>>())
}

fn chart(stage: &Stage<'_>, points: &[Point], storage: f64) -> String {
    let series = |name: &str, is_reference, y: &dyn Fn(&Point) -> f64| LineSeries {
        name: name.into(),
        is_reference,
        points: points.iter().map(|point| (point.ratio, y(point) / MB_PER_S)).collect(),
    };
    let chart = LineChart {
        title: format!("{}, storage {} (measured), Figure 10", stage.machine, stage.options.storage_text()),
        x_label: "compression ratio".into(),
        y_label: "effective bandwidth, MB/s".into(),
        x_scale: Scale::Log10,
        y_scale: Scale::Log10,
        series: vec![
            series("ratio x storage rate", true, &|point| point.ratio * storage),
            series("from storage", false, &|point| point.effective),
            series("from memory", false, &|point| point.from_memory),
            series("decoding alone", true, &|point| point.roof),
        ],
    };
    chart.to_svg()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A column of 100 MB at ratio 4 that is decoded at 1 GB/s and was scanned at this rate.
    fn point(effective: f64) -> Point {
        Point {
            name: "c".into(),
            ratio: 4.0,
            seconds: vec![1e8 / effective],
            raw_bytes: 1e8,
            effective,
            roof: 1e9,
            from_memory: effective,
        }
    }

    #[test]
    fn a_scan_below_both_storage_and_decoder_fails() {
        let check = |effective: f64, storage: f64| bounded(&[point(effective)], storage).unwrap().0;
        assert!(check(390e6, 100e6), "4 x 100 MB/s of storage");
        assert!(!check(300e6, 100e6));
        assert!(check(900e6, 1e9), "decoding at 1 GB/s");
        assert!(!check(700e6, 1e9));
        assert!(bounded(&[point(1e11)], 1e12).is_err(), "1 ms is too short to judge");
    }
}
