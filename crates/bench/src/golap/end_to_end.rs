//! E3 and E1: whole queries, with and without compression and skipping.
//!
//! ```text
//!                    nothing skipped    skipped
//!   uncompressed     uncompressed       pruned          each on throttled storage,
//!   compressed       compressed         both            Figure 9
//! ```
//!
//! E1 takes SSB Q1.1 through the same on the CPU engine, from memory and from storage, and on the device (Figure 1).

use std::borrow::Cow;

use crate::plot::{Bar, BarChart, BarSeries};
use crate::{Outcome, Quoted, Row, Shape};
use arrow::array::RecordBatch;
use pelton_datagen::Dataset;
use pelton_engine::{DeviceChoice, PeltonSession};
use pelton_error::{Error, Result, ResultExt};

use super::data::{Data, Form};
use super::options::PAPER_STORAGE_BYTES_PER_S;
use super::stage::{
    JUDGED_S, MB_PER_S, Setup, TOO_SHORT, Timed, derived, pruned, rate, row, shape, unpruned, with,
};
use super::{Findings, Stage};

/// A way to store and skip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) form: Form,
    pub(super) is_pruned: bool,
}

impl Setting {
    /// In the order of the paper's bars.
    pub(super) const ALL: [Self; 4] = [
        Self { form: Form::Plain, is_pruned: false },
        Self { form: Form::Plain, is_pruned: true },
        Self { form: Form::Compressed, is_pruned: false },
        Self { form: Form::Compressed, is_pruned: true },
    ];

    /// As reports write it.
    pub(super) fn name(self) -> &'static str {
        match (self.form, self.is_pruned) {
            (Form::Plain, false) => "uncompressed",
            (Form::Plain, true) => "pruned",
            (Form::Compressed | Form::Light, false) => "compressed",
            (Form::Compressed | Form::Light, true) => "both",
        }
    }

    /// What a session is told.
    pub(super) fn setup(self, device: DeviceChoice, is_stored: bool) -> Setup {
        Setup { device, is_stored, scan: if self.is_pruned { pruned() } else { unpruned() } }
    }
}

/// A query with its answer and the uncompressed bytes of its columns.
pub(super) struct Question {
    pub(super) name: &'static str,
    pub(super) sql: Cow<'static, str>,
    pub(super) answer: Vec<RecordBatch>,
    pub(super) raw_bytes: u64,
}

/// The queries of these names (or, before a full stop, of all names that begin so), answered by the CPU engine on
/// uncompressed tables.
pub(super) fn questions(stage: &Stage<'_>, data: &Data, wanted: &[&str]) -> Result<Vec<Question>> {
    let warehouse = data.warehouse(stage, Form::Plain, data.usual_rows())?;
    let session = stage.session(&warehouse, Setting::ALL[0].setup(DeviceChoice::Cpu, false))?;
    let chosen = pelton_datagen::queries(data.workload.dataset).iter();
    let is = |name: &str, wanted: &str| name == wanted || (wanted.ends_with('.') && name.starts_with(wanted));
    let chosen = chosen.filter(|query| wanted.iter().any(|wanted| is(query.name, wanted)));
    let mut all = Vec::new();
    for query in chosen {
        let sql = query.sql_for_scale(stage.options.scale);
        let timed = stage.once(&session, &sql).context(|| query.name.into())?;
        all.push(Question { name: query.name, sql, raw_bytes: timed.raw_bytes(), answer: timed.answer });
    }
    Ok(all)
}

impl Question {
    /// Timed in `session`, its answer compared.
    pub(super) fn time(&self, stage: &Stage<'_>, session: &PeltonSession, how: &str) -> Result<Timed> {
        let timed = stage.time(session, &self.sql).context(|| format!("{} {how}", self.name))?;
        timed.check(&self.answer, &format!("{} {how}", self.name))?;
        Ok(timed)
    }
}

/// A query's times under the four settings.
struct Bars {
    dataset: Dataset,
    question: Question,
    /// In the order of [`Setting::ALL`].
    timed: Vec<Timed>,
    /// Uncompressed over stored bytes of its columns.
    ratio: f64,
}

/// E3.
pub(super) fn settings(stage: &Stage<'_>) -> Result<Findings> {
    let mut bars = Vec::new();
    for (dataset, wanted) in query_sets(stage.options.is_quick) {
        let data = Data::prepare(stage, dataset)?;
        bars.extend(measure(stage, &data, wanted)?);
    }
    let mut findings = Findings::default();
    for query in &bars {
        findings.rows.extend(query.rows(stage));
    }
    findings.shapes = vec![best_together(stage, &bars), gain_is_the_ratio(stage, &bars)];
    findings.figures.push(("golap-9-end-to-end".into(), chart(stage, &bars)));
    Ok(findings)
}

/// The paper's queries; the text leaves the last of TPC-H out, Q6 stands in.
fn query_sets(is_quick: bool) -> Vec<(Dataset, &'static [&'static str])> {
    match is_quick {
        true => vec![(Dataset::Ssb, &["Q1."])],
        false => vec![
            (Dataset::Ssb, &["Q1."]),
            (Dataset::Taxi, &["Q1."]),
            (Dataset::Tpch, &["Q1", "Q3", "Q5", "Q6"]),
        ],
    }
}

fn measure(stage: &Stage<'_>, data: &Data, wanted: &[&str]) -> Result<Vec<Bars>> {
    let questions = questions(stage, data, wanted)?;
    let mut timed: Vec<Vec<Timed>> = questions.iter().map(|_| Vec::new()).collect();
    for setting in Setting::ALL {
        let warehouse = data.warehouse(stage, setting.form, data.usual_rows())?;
        let session = stage.session(&warehouse, setting.setup(stage.device, true))?;
        for (question, timed) in questions.iter().zip(&mut timed) {
            timed.push(question.time(stage, &session, setting.name())?);
        }
        (stage.say)(&format!("{}: {} done", data.workload.dataset, setting.name()));
    }
    let bars = questions.into_iter().zip(timed).map(|(question, timed)| {
        let stored: u64 = timed[2].scans.iter().map(|scan| scan.stored_bytes).sum();
        let ratio = question.raw_bytes as f64 / stored.max(1) as f64;
        Bars { dataset: data.workload.dataset, question, timed, ratio }
    });
    Ok(bars.collect())
}

impl Bars {
    fn name(&self) -> String {
        format!("{} {}", self.dataset, self.question.name)
    }

    /// Effective bandwidth under each setting, bytes per second.
    fn effective(&self) -> Vec<f64> {
        self.timed.iter().map(|timed| self.question.raw_bytes as f64 / timed.mean()).collect()
    }

    fn rows(&self, stage: &Stage<'_>) -> Vec<Row> {
        let effective = self.effective();
        let mut rows = Vec::new();
        for ((setting, timed), value) in Setting::ALL.into_iter().zip(&self.timed).zip(&effective) {
            let what = format!("{}, {}", self.name(), setting.name());
            let ours = rate(self.question.raw_bytes as f64 / MB_PER_S, &timed.seconds);
            rows.push(with(row(&stage.machine, "9", what.clone(), "MB/s", ours), None, self.note(timed)));
            let gain = derived(value / effective[0]);
            let paper = self.paper(setting);
            rows.push(with(row(&stage.machine, "9, gain", what, "x uncompressed", gain), paper, ""));
        }
        rows
    }

    fn note(&self, timed: &Timed) -> String {
        let taken = timed.bytes_read() as f64 / 1e6;
        let of = self.question.raw_bytes as f64 / 1e6;
        let gap = if timed.note.is_empty() { "" } else { "; " };
        format!("{taken:.2} MB taken for {of:.2} MB uncompressed{gap}{}", timed.note)
    }

    /// The text of section 6.2. What holds for all queries of the figure is quoted for each of them.
    fn paper(&self, setting: Setting) -> Option<Quoted> {
        let ratio = match self.dataset {
            Dataset::Ssb => Quoted::stated(2.8),
            Dataset::Taxi => Quoted::stated(2.6),
            Dataset::Tpch => Quoted::between(2.7, 5.0),
            // No table of the paper.
            Dataset::Hits => return None,
        };
        match setting.name() {
            "pruned" if self.dataset == Dataset::Tpch && self.question.name == "Q5" => {
                Some(Quoted::stated(3.0))
            }
            // "Small speedups".
            "pruned" if self.dataset == Dataset::Tpch && self.question.name == "Q1" => None,
            "pruned" => Some(Quoted::between(3.0, 8.0)),
            "compressed" => Some(ratio),
            "both" => Some(Quoted::stated(8.0)),
            _ => None,
        }
    }
}

/// D7, with two standard errors for what repetitions differ by. Fails where one technique alone is faster than both.
fn best_together(stage: &Stage<'_>, bars: &[Bars]) -> Shape {
    let shares = bars.iter().filter_map(|query| {
        let single = query.timed[..3].iter().min_by(|a, b| a.mean().total_cmp(&b.mean()))?;
        let both = query.timed[3].mean() - 2.0 * query.timed[3].standard_error();
        let share = (single.mean() + 2.0 * single.standard_error()) / both.max(f64::MIN_POSITIVE);
        (single.mean() >= JUDGED_S).then(|| (share, query.name()))
    });
    let shares: Vec<(f64, String)> = shares.collect();
    let found = shares.iter().min_by(|a, b| a.0.total_cmp(&b.0)).ok_or_else(|| TOO_SHORT.to_owned());
    let found = found.map(|(share, name)| {
        let of = format!("{} of {} queries long enough", shares.len(), bars.len());
        (
            *share >= 0.95,
            format!("at least {share:.2} of the best single one, give or take two errors ({name}); {of}"),
        )
    });
    shape(&stage.machine, "E3 (D7): compression and skipping together are the best", found)
}

/// "More than 2.5x, closely aligning with the compression ratios."
fn gain_is_the_ratio(stage: &Stage<'_>, bars: &[Bars]) -> Shape {
    let shares: Vec<f64> =
        bars.iter().map(|query| query.effective()[2] / query.effective()[0] / query.ratio).collect();
    let least = shares.iter().copied().fold(f64::INFINITY, f64::min);
    let most = shares.iter().copied().fold(0.0, f64::max);
    let found = match stage.has_gpu() {
        true => Ok((least >= 0.8, format!("gains are {least:.2} to {most:.2} of the ratios"))),
        false => Err(format!("the paper's is a GPU's; here gains are {least:.2} to {most:.2} of the ratios")),
    };
    shape(&stage.machine, "E3: compression gains its ratio", found)
}

fn chart(stage: &Stage<'_>, bars: &[Bars]) -> String {
    let series = Setting::ALL.into_iter().enumerate().map(|(index, setting)| BarSeries {
        name: setting.name().into(),
        is_reference: index == 0,
        bars: bars
            .iter()
            .map(|query| bar(rate(query.question.raw_bytes as f64 / MB_PER_S, &query.timed[index].seconds)))
            .collect(),
    });
    let chart = BarChart {
        title: format!("{}, storage {} (measured), Figure 9", stage.machine, stage.options.storage_text()),
        y_label: "effective bandwidth, MB/s".into(),
        categories: bars.iter().map(Bars::name).collect(),
        series: series.collect(),
    };
    chart.to_svg()
}

fn bar(outcome: Outcome) -> Option<Bar> {
    match outcome {
        Outcome::Done(measured) => Some(Bar { value: measured.mean, error: measured.standard_error }),
        Outcome::Missing(_) => None,
    }
}

/// A way of Figure 1.
struct Way {
    name: &'static str,
    is_device: bool,
    is_stored: bool,
    setting: Setting,
    /// In the order of magnitude that the text gives: bytes per second over those of storage.
    paper: Option<Quoted>,
}

/// Figure 1: "more than 100 GiB/s" with skipping. In memory is 3.5 times the CPU from storage.
fn figure_1() -> Vec<Way> {
    let of_storage =
        |gib: f64| Quoted::stated(gib * (1u64 << 30) as f64 / PAPER_STORAGE_BYTES_PER_S).derived();
    let way = |name, is_device, is_stored, setting, paper| Way { name, is_device, is_stored, setting, paper };
    let [plain, plain_pruned, compressed, both] = Setting::ALL;
    vec![
        way("CPU, memory", false, false, plain, Some(Quoted::stated(3.5).derived())),
        way("CPU, memory, pruned", false, false, plain_pruned, None),
        way("CPU, storage", false, true, plain, Some(Quoted::stated(1.0).derived())),
        way("CPU, storage, pruned", false, true, plain_pruned, None),
        way("CPU, storage, compressed", false, true, compressed, None),
        way("CPU, storage, compressed, pruned", false, true, both, None),
        way("device, storage, compressed", true, true, compressed, None),
        way("device, storage, compressed, pruned", true, true, both, Some(of_storage(100.0))),
    ]
}

/// E1.
pub(super) fn ways(stage: &Stage<'_>) -> Result<Findings> {
    let data = Data::prepare(stage, Dataset::Ssb)?;
    let mut questions = questions(stage, &data, &["Q1.1"])?;
    let question = questions.pop().ok_or_else(|| Error::invalid_input("SSB has no Q1.1"))?;
    let mut findings = Findings::default();
    let mut values = Vec::new();
    for way in figure_1() {
        let (ours, note) = measure_way(stage, &data, &question, &way)?;
        let machine = if way.is_device { &stage.machine } else { &stage.cpu };
        let measured = row(machine, "1", way.name, "MB/s", ours);
        let value = measured.value();
        findings.rows.push(with(measured, None, note));
        if let Some(value) = value {
            let share = derived(value * MB_PER_S / stage.options.storage_bytes_per_s as f64);
            findings.rows.push(with(
                row(machine, "1, of storage", way.name, "x storage rate", share),
                way.paper,
                "",
            ));
        }
        values.push((way.name, value));
    }
    findings.shapes = figure_1_shapes(stage, &values);
    findings.figures.push(("golap-1-ways".into(), figure_1_chart(stage, &values)));
    Ok(findings)
}

fn measure_way(stage: &Stage<'_>, data: &Data, question: &Question, way: &Way) -> Result<(Outcome, String)> {
    if way.is_device && !stage.has_device() {
        return Ok((Outcome::Missing("a GPU; --device host stands in for one".into()), String::new()));
    }
    let warehouse = data.warehouse(stage, way.setting.form, data.usual_rows())?;
    let device = if way.is_device { stage.device } else { DeviceChoice::Cpu };
    let session = stage.session(&warehouse, way.setting.setup(device, way.is_stored))?;
    let timed = question.time(stage, &session, way.name)?;
    let note = if way.is_device { timed.note.clone() } else { String::new() };
    Ok((rate(question.raw_bytes as f64 / MB_PER_S, &timed.seconds), note))
}

/// That memory is faster than storage is no finding: the experiment throttles storage. The first fails where the device
/// is slower than the CPU on the same bytes, the second where skipping does not pay on it.
fn figure_1_shapes(stage: &Stage<'_>, values: &[(&str, Option<f64>)]) -> Vec<Shape> {
    let of = |name: &str| {
        let found = values.iter().find(|(way, _)| *way == name).and_then(|(_, value)| *value);
        found.ok_or_else(|| "needs a GPU, or --device host".to_owned())
    };
    let against = |ours: &str, theirs: &str, factor: f64| -> std::result::Result<(bool, String), String> {
        let (ours, theirs) = (of(ours)?, of(theirs)?);
        Ok((ours >= factor * theirs, format!("{ours:.1} and {theirs:.1} MB/s")))
    };
    vec![
        shape(
            &stage.machine,
            "E1: the device on compressed storage is no slower than the CPU on it",
            against("device, storage, compressed", "CPU, storage, compressed", 0.95),
        ),
        shape(
            &stage.machine,
            "E1: skipping lifts the device further",
            against("device, storage, compressed, pruned", "device, storage, compressed", 1.0),
        ),
    ]
}

fn figure_1_chart(stage: &Stage<'_>, values: &[(&str, Option<f64>)]) -> String {
    let bars = values.iter().map(|(_, value)| value.map(|value| Bar { value, error: 0.0 })).collect();
    let chart = BarChart {
        title: format!("SSB Q1.1, device: {} (measured), Figure 1", stage.machine),
        y_label: "effective bandwidth, MB/s".into(),
        categories: values.iter().map(|(name, _)| (*name).to_owned()).collect(),
        series: vec![BarSeries { name: "here".into(), is_reference: false, bars }],
    };
    chart.to_svg()
}
