//! E8: chunk size, compression and skipping on SSB Q1.1 to Q1.3, and what each kind of metadata skips.
//!
//! ```text
//!   small chunks   skip finely, compress badly, cost requests
//!   large chunks   compress and decode well, skip little         best of both somewhere between
//! ```
//!
//! Closed form beside the best chunk size found: bandwidth = size / max(time to read what is kept, time to decode it),
//! with kept and ratio as measured at that size and the decoding rate from memory.

use std::path::Path;

use crate::plot::{LineChart, LineSeries, Scale};
use crate::{Outcome, Quoted, Shape};
use pelton_datagen::Dataset;
use pelton_engine::{DeviceChoice, ScanOptions, bytes_text};
use pelton_error::Result;
use pelton_zone::{SkipKind, SkipKinds};

use super::data::{Data, Form, row_group_rows};
use super::end_to_end::{Question, Setting, questions};
use super::stage::{MB_PER_S, Setup, Timed, derived, pruned, row, shape, with};
use super::{Findings, Stage};

/// What SSB Q1 reads of the fact table, and the column of E5 and E6.
pub(super) const COLUMNS: [&str; 5] =
    ["lo_orderdate", "lo_quantity", "lo_discount", "lo_extendedprice", "lo_commitdate"];
/// Bytes of their values.
const VALUE_BYTES: f64 = 4.0;
/// A column of 1.2 billion values, at the paper's scale.
const PAPER_COLUMN_BYTES: f64 = 4.8e9;
/// "Less than 1 % of total query time".
const PRUNE_COST: f64 = 0.01;
/// Of shorter queries one hundredth is less than what planning the same query twice differs by.
const COST_JUDGED_S: f64 = 0.1;

/// The kinds of metadata of Figure 14.
const TECHNIQUES: [(&str, &[SkipKind]); 4] = [
    ("minmax", &[SkipKind::MinMax]),
    ("bloom", &[SkipKind::Bloom]),
    ("histogram", &[SkipKind::Histogram]),
    ("all", &SkipKind::ALL),
];

/// A chunk size and what came out; bandwidths in bytes per second.
struct Size {
    rows: u32,
    /// Mean effective bandwidth by setting.
    effective: [f64; 4],
    /// Mean share of row groups skipped by technique.
    skipped: [f64; 4],
    /// By the closed form, compressed and pruned.
    predicted: f64,
    /// Planning with skipping less planning without, over the time of a query.
    cost: f64,
    /// The time of the shortest of those queries, seconds.
    query_s: f64,
}

impl Size {
    fn megabytes(&self) -> f64 {
        f64::from(self.rows) * VALUE_BYTES / 1e6
    }

    fn what(&self) -> String {
        format!("{} rows ({})", self.rows, bytes_text((f64::from(self.rows) * VALUE_BYTES) as u64))
    }
}

/// E8.
pub(super) fn run(stage: &Stage<'_>) -> Result<Findings> {
    let data = Data::prepare(stage, Dataset::Ssb)?;
    let asked = questions(stage, &data, &["Q1."])?;
    let parts: &[u64] = if stage.options.is_quick { &[64, 8] } else { &[4096, 1024, 256, 64, 16, 4] };
    let mut rows: Vec<u32> = parts.iter().map(|parts| row_group_rows(data.fact_rows, *parts)).collect();
    rows.dedup();
    let mut sizes = Vec::new();
    for rows in rows {
        stage.cancel.check()?;
        sizes.push(measure(stage, &data, &asked, rows)?);
        (stage.say)(&format!("row groups of {rows} rows done"));
    }
    let mut findings = Findings::default();
    sizes.iter().for_each(|size| push(stage, size, &mut findings));
    crossover(stage, data.fact_rows, &sizes, &mut findings);
    findings.shapes.extend(shapes(stage, &sizes));
    findings.figures = figures(stage, &sizes);
    Ok(findings)
}

fn measure(stage: &Stage<'_>, data: &Data, asked: &[Question], rows: u32) -> Result<Size> {
    let mut effective = [0.0; 4];
    let mut both = Vec::new();
    for (index, setting) in Setting::ALL.into_iter().enumerate() {
        let warehouse = data.narrow_warehouse(stage, &COLUMNS, setting.form, rows)?;
        let session = stage.session(&warehouse, setting.setup(stage.device, true))?;
        for question in asked {
            let timed = question.time(stage, &session, &format!("{}, {rows} rows", setting.name()))?;
            effective[index] += question.raw_bytes as f64 / timed.mean() / asked.len() as f64;
            if index == 3 {
                both.push(timed);
            }
        }
    }
    let warehouse = data.narrow_warehouse(stage, &COLUMNS, Form::Compressed, rows)?;
    let skipped = skipped(stage, &warehouse, asked)?;
    let (cost, query_s) = cost(stage, &warehouse, asked)?;
    let predicted = predicted(stage, &warehouse, asked, &both)?;
    Ok(Size { rows, effective, skipped, predicted, cost, query_s })
}

/// Mean share of the fact table's row groups that each technique skips: the same on every device.
fn skipped(stage: &Stage<'_>, warehouse: &Path, asked: &[Question]) -> Result<[f64; 4]> {
    let mut shares = [0.0; 4];
    for (index, (_, kinds)) in TECHNIQUES.iter().enumerate() {
        let skip = kinds.iter().fold(SkipKinds::NONE, |kinds, kind| kinds.with(*kind));
        let setup =
            Setup { device: DeviceChoice::Cpu, is_stored: false, scan: ScanOptions { skip, ..pruned() } };
        let session = stage.session(warehouse, setup)?;
        for question in asked {
            let timed = stage.once(&session, &question.sql)?;
            timed
                .check(&question.answer, &format!("{} skipping by {}", question.name, TECHNIQUES[index].0))?;
            shares[index] += share_skipped(&timed) / asked.len() as f64;
        }
    }
    Ok(shares)
}

/// Of the largest table.
fn share_skipped(timed: &Timed) -> f64 {
    let fact = timed.scans.iter().max_by_key(|scan| scan.raw_bytes);
    fact.map_or(0.0, |scan| {
        let skipped: u64 = scan.skipped.values().map(|skipped| skipped.row_groups).sum();
        skipped as f64 / scan.row_groups_total.max(1) as f64
    })
}

/// Planning with and without skipping, as a share of the time of the unpruned query from storage; and the shortest of
/// those times, seconds.
fn cost(stage: &Stage<'_>, warehouse: &Path, asked: &[Question]) -> Result<(f64, f64)> {
    const PLANS: usize = 15;
    let [_, _, compressed, both] = Setting::ALL;
    let planning = |setting: Setting| -> Result<Vec<f64>> {
        let session = stage.session(warehouse, setting.setup(DeviceChoice::Cpu, false))?;
        let plan = |question: &Question| -> Result<f64> {
            stage.once(&session, &question.sql)?;
            let mut seconds = Vec::new();
            for _ in 0..PLANS {
                let started = std::time::Instant::now();
                stage.pool.block_on(session.query(&question.sql))?;
                seconds.push(started.elapsed().as_secs_f64());
            }
            Ok(seconds.into_iter().fold(f64::INFINITY, f64::min))
        };
        asked.iter().map(plan).collect()
    };
    let (with, without) = (planning(both)?, planning(compressed)?);
    let session = stage.session(warehouse, compressed.setup(stage.device, true))?;
    let (mut share, mut shortest) = (0.0, f64::INFINITY);
    for (question, (with, without)) in asked.iter().zip(with.iter().zip(&without)) {
        let query = stage.once(&session, &question.sql)?.mean();
        share += (with - without).max(0.0) / query / asked.len() as f64;
        shortest = shortest.min(query);
    }
    Ok((share, shortest))
}

/// size / max(io(size) x kept(size), decode(size)), bytes per second.
fn predicted(stage: &Stage<'_>, warehouse: &Path, asked: &[Question], both: &[Timed]) -> Result<f64> {
    let [_, _, compressed, _] = Setting::ALL;
    let session = stage.session(warehouse, compressed.setup(stage.device, false))?;
    let mut mean = 0.0;
    for (question, pruned) in asked.iter().zip(both) {
        let whole = stage.time(&session, &question.sql)?;
        let stored: u64 = whole.scans.iter().map(|scan| scan.stored_bytes).sum();
        let kept = 1.0 - share_skipped(pruned);
        let io = stored as f64 / stage.options.storage_bytes_per_s as f64;
        mean += question.raw_bytes as f64 / (io * kept).max(whole.mean() * kept) / asked.len() as f64;
    }
    Ok(mean)
}

fn push(stage: &Stage<'_>, size: &Size, findings: &mut Findings) {
    for (setting, value) in Setting::ALL.into_iter().zip(size.effective) {
        let what = format!("{}, {}", size.what(), setting.name());
        findings.rows.push(row(&stage.machine, "13", what, "MB/s", derived(value / MB_PER_S)));
    }
    let what = format!("{}, both by the closed form", size.what());
    findings.rows.push(row(
        &stage.machine,
        "13, closed form",
        what,
        "MB/s",
        derived(size.predicted / MB_PER_S),
    ));
    for ((name, _), share) in TECHNIQUES.into_iter().zip(size.skipped) {
        let what = format!("{}, {name}", size.what());
        findings.rows.push(row(&stage.cpu, "14", what, "% of chunks skipped", derived(100.0 * share)));
    }
    let paper = Some(Quoted::between(0.0, 100.0 * PRUNE_COST));
    let cost = row(&stage.cpu, "14, cost", size.what(), "% of the query", derived(100.0 * size.cost));
    findings.rows.push(with(cost, paper, "planning with skipping less planning without"));
}

/// The chunk size where skipping less outweighs decoding faster, as a share of the column, so that scales compare.
fn crossover(stage: &Stage<'_>, fact_rows: u64, sizes: &[Size], findings: &mut Findings) {
    let best = |value: fn(&Size) -> f64| sizes.iter().max_by(|a, b| value(a).total_cmp(&value(b)));
    let bests = [
        ("best chunk for both, measured", best(|size| size.effective[3])),
        ("the same, by the closed form", best(|size| size.predicted)),
    ];
    let paper = |mebibytes: f64| 1e3 * mebibytes * f64::from(1 << 20) / PAPER_COLUMN_BYTES;
    for (what, size) in bests {
        let share = |size: &Size| derived(1e3 * f64::from(size.rows) / fact_rows as f64);
        let ours = size.map_or(Outcome::Missing("chunk sizes".into()), share);
        let quoted = Some(Quoted::between(paper(16.0), paper(64.0)).derived());
        let note = size.map_or(String::new(), Size::what);
        let row = row(&stage.machine, "13, best", what, "per mille of the column", ours);
        findings.rows.push(with(row, quoted, note));
    }
}

/// The first fails where a histogram alone skips less than bounds alone, the second where the largest chunks skip as much
/// as the smallest, the third where deciding takes a hundredth of a query.
fn shapes(stage: &Stage<'_>, sizes: &[Size]) -> Vec<Shape> {
    let dominates = histograms_dominate(sizes);
    let shares = |technique: usize| -> String {
        let all: Vec<String> =
            sizes.iter().map(|size| format!("{:.0}", 100.0 * size.skipped[technique])).collect();
        all.join(", ")
    };
    let detail = format!("histogram {} %, min/max {} %, by growing chunks", shares(2), shares(0));
    let falls = match (sizes.first(), sizes.last()) {
        (Some(small), Some(large)) => small.skipped[3] > large.skipped[3],
        _ => false,
    };
    let worst = sizes.iter().map(|size| size.cost).fold(0.0, f64::max);
    let cost_detail = format!("{:.2} % at most", 100.0 * worst);
    let is_long = sizes.iter().all(|size| size.query_s >= COST_JUDGED_S);
    let cost = match is_long {
        true => Ok((worst < PRUNE_COST, cost_detail)),
        false => Err(format!("queries take less than 0.1 s, planning any of them counts; {cost_detail}")),
    };
    vec![
        shape(&stage.cpu, "E8 (D9): histograms skip at least what min/max skip", Ok((dominates, detail))),
        shape(&stage.cpu, "E8 (D9): larger chunks skip less", Ok((falls, format!("all: {} %", shares(3))))),
        shape(&stage.cpu, "E8: deciding what to skip costs less than 1 %", cost),
    ]
}

fn histograms_dominate(sizes: &[Size]) -> bool {
    sizes.iter().all(|size| size.skipped[2] >= size.skipped[0])
}

fn figures(stage: &Stage<'_>, sizes: &[Size]) -> Vec<(String, String)> {
    let lines = |name: &str, value: &dyn Fn(&Size) -> f64| LineSeries {
        name: name.into(),
        is_reference: name == "uncompressed",
        points: sizes.iter().map(|size| (size.megabytes(), value(size))).collect(),
    };
    let chart = |title: &str, y_label: &str, series: Vec<LineSeries>| {
        let chart = LineChart {
            title: format!(
                "SSB Q1.x, {}, storage {} (measured), {title}",
                stage.machine,
                stage.options.storage_text()
            ),
            x_label: "uncompressed chunk, MB".into(),
            y_label: y_label.into(),
            x_scale: Scale::Log10,
            y_scale: Scale::Linear,
            series,
        };
        chart.to_svg()
    };
    let settings = Setting::ALL.into_iter().enumerate();
    let settings =
        settings.map(|(index, setting)| lines(setting.name(), &|size| size.effective[index] / MB_PER_S));
    let techniques = TECHNIQUES.into_iter().enumerate();
    let techniques = techniques.map(|(index, (name, _))| lines(name, &|size| 100.0 * size.skipped[index]));
    vec![
        ("golap-13-chunks".into(), chart("Figure 13", "effective bandwidth, MB/s", settings.collect())),
        ("golap-14-skipped".into(), chart("Figure 14", "% of chunks skipped", techniques.collect())),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_that_skip_less_than_bounds_fail() {
        let size = |min_max, histogram| Size {
            rows: 1000,
            effective: [1.0; 4],
            skipped: [min_max, 0.0, histogram, 0.9],
            predicted: 1.0,
            cost: 0.0,
            query_s: 1.0,
        };
        assert!(histograms_dominate(&[size(0.5, 0.6), size(0.2, 0.2)]));
        assert!(!histograms_dominate(&[size(0.5, 0.6), size(0.2, 0.1)]));
    }
}
