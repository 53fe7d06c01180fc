//! What all experiments share: sessions, repetitions, and how figures become rows of the report.

use std::path::Path;
use std::time::Instant;

use crate::{Measured, Outcome, Quoted, Row, Shape, Summary, Tag, Verdict};
use arrow::array::RecordBatch;
use datafusion::physical_plan::ExecutionPlan;
use pelton_engine::{
    DeviceChoice, PeltonGpuExec, PeltonScanExec, PeltonSession, ScanOptions, ScanReport, SessionOptions,
};
use pelton_error::{CancelFlag, Error, ErrorKind, Result, ResultExt};
use pelton_io::{IoMode, IoOptions};
use pelton_zone::SkipKinds;
use tokio::runtime::Runtime;

use super::options::GolapOptions;
use crate::queries::same_rows;
use crate::wait::wait_for;

/// Bytes per second in the unit of the report.
pub(super) const MB_PER_S: f64 = 1e6;

/// Shorter scans are not judged by bandwidth: reads may run 5 ms ahead of the storage rate, and what a scan costs
/// whatever its size is of that order too.
pub(super) const JUDGED_S: f64 = 0.02;
/// Shapes that no scan was long enough for.
pub(super) const TOO_SHORT: &str =
    "no scan took 20 ms, so that fixed costs show; take a larger scale or slower storage";

/// Where the experiments take place.
pub(super) struct Stage<'a> {
    pub(super) options: &'a GolapOptions,
    pub(super) cancel: &'a CancelFlag,
    pub(super) say: &'a dyn Fn(&str),
    pub(super) pool: Runtime,
    /// The device that queries run on.
    pub(super) device: DeviceChoice,
    /// Its name in the report.
    pub(super) machine: String,
    /// The CPU engine's name in the report.
    pub(super) cpu: String,
}

/// How a session differs from the usual one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Setup {
    pub(super) device: DeviceChoice,
    /// Whether reads are held to the storage rate; else files lie in the page cache.
    pub(super) is_stored: bool,
    pub(super) scan: ScanOptions,
}

/// A query's repetitions, and what the last one gave.
pub(super) struct Timed {
    /// Text of the query to its last row, each repetition.
    pub(super) seconds: Vec<f64>,
    pub(super) answer: Vec<RecordBatch>,
    pub(super) scans: Vec<ScanReport>,
    /// Empty, or what did not run on the device.
    pub(super) note: String,
}

/// Every kind of metadata, except what finished joins tell: the experiments are about what is known before.
pub(super) fn pruned() -> ScanOptions {
    ScanOptions { dynamic: false, ..ScanOptions::default() }
}

/// Nothing is skipped.
pub(super) fn unpruned() -> ScanOptions {
    ScanOptions { skip: SkipKinds::NONE, sideways: false, dynamic: false, ..ScanOptions::default() }
}

impl<'a> Stage<'a> {
    /// Finds the device and names it.
    pub(super) fn open(
        options: &'a GolapOptions,
        cancel: &'a CancelFlag,
        say: &'a dyn Fn(&str),
    ) -> Result<Self> {
        let pool = Runtime::new().context(|| "starting the thread pool".into())?;
        let cpu = format!("CPU engine, {} threads", options.threads);
        let device = match options.device {
            DeviceChoice::Auto if pelton_device::cuda::status().device_count > 0 => DeviceChoice::Gpu(None),
            DeviceChoice::Auto => DeviceChoice::Cpu,
            chosen => chosen,
        };
        let stage = Self { options, cancel, say, pool, device, machine: String::new(), cpu };
        let machine = stage.device_name()?;
        Ok(Self { machine, ..stage })
    }

    fn device_name(&self) -> Result<String> {
        if self.device == DeviceChoice::Cpu {
            return Ok(self.cpu.clone());
        }
        let setup = Setup { device: self.device, is_stored: false, scan: pruned() };
        let session = PeltonSession::open(None, &self.session_options(setup))?;
        let runtime = session.runtime().ok_or_else(|| Error::unsupported("no device was opened"))?;
        let cores = self.options.threads;
        Ok(match self.device {
            DeviceChoice::Host => format!("{}, {cores} threads, in place of a GPU", runtime.describe()),
            _ => runtime.describe(),
        })
    }

    /// True where queries run on a GPU, or on the host in place of one.
    pub(super) fn has_device(&self) -> bool {
        self.device != DeviceChoice::Cpu
    }

    /// True where queries run on a GPU.
    pub(super) fn has_gpu(&self) -> bool {
        matches!(self.device, DeviceChoice::Gpu(_) | DeviceChoice::GpuAndHost(_))
    }

    /// How table files are read.
    pub(super) fn io_options(&self, is_stored: bool) -> IoOptions {
        IoOptions {
            mode: IoMode::Buffered,
            bytes_per_s_max: is_stored.then_some(self.options.storage_bytes_per_s),
            ..IoOptions::default()
        }
    }

    /// A session as `setup` has it.
    pub(super) fn session_options(&self, setup: Setup) -> SessionOptions {
        let mut options = SessionOptions {
            threads: Some(self.options.threads),
            io: self.io_options(setup.is_stored),
            scan: setup.scan,
            device: setup.device,
            ..SessionOptions::default()
        };
        // Nothing stays on the device between queries: every figure is of data that come from storage.
        options.runtime.device_cache_bytes = Some(0);
        options.runtime.pinned_cache_bytes = Some(0);
        options
    }

    /// Opens a session over the tables in `warehouse`.
    pub(super) fn session(&self, warehouse: &Path, setup: Setup) -> Result<PeltonSession> {
        PeltonSession::open(Some(warehouse.to_owned()), &self.session_options(setup))
    }

    /// Runs `sql` once to warm up and then as often as counts.
    pub(super) fn time(&self, session: &PeltonSession, sql: &str) -> Result<Timed> {
        let mut timed = self.once(session, sql)?;
        timed.seconds.clear();
        for _ in 0..self.options.repetitions {
            self.cancel.check()?;
            let next = self.once(session, sql)?;
            timed.seconds.extend(&next.seconds);
            timed = Timed { seconds: timed.seconds, ..next };
        }
        Ok(timed)
    }

    /// Runs `sql` once.
    pub(super) fn once(&self, session: &PeltonSession, sql: &str) -> Result<Timed> {
        let started = Instant::now();
        self.wait_for(async {
            let query = session.query(sql).await?;
            let answer = query.collect().await?;
            let seconds = vec![started.elapsed().as_secs_f64()];
            let note = self.note(query.physical_plan().as_ref());
            Ok(Timed { seconds, answer, scans: query.scan_reports()?, note })
        })
    }

    /// What `work` comes to, unless it is cancelled.
    pub(super) fn wait_for<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        wait_for(&self.pool, self.cancel, work)
    }

    fn note(&self, plan: &dyn ExecutionPlan) -> String {
        let (mut on_device, mut on_cpu) = (0, 0);
        count_scans(plan, &mut on_device, &mut on_cpu);
        match (on_device, on_cpu) {
            _ if !self.has_device() => String::new(),
            (_, 0) => String::new(),
            (0, _) => "on the CPU engine".into(),
            _ => "partly on the CPU engine".into(),
        }
    }

    /// What the report says of how it was made.
    pub(super) fn settings(&self) -> Vec<(String, String)> {
        let options = self.options;
        let pair = |name: &str, value: String| (name.to_owned(), value);
        vec![
            pair("device", self.machine.clone()),
            pair(
                "storage",
                format!("reads of tables held to {}, up to 5 ms of it in one go", options.storage_text()),
            ),
            pair("data", format!("scale {}, seed {}", options.scale, options.seed)),
            pair("runs", format!("{} after one to warm up", options.repetitions)),
            pair("timed", "text of a query to its last row; sessions and their metadata are open".into()),
            pair("answers", "those of the CPU engine on uncompressed tables, else the run fails".into()),
        ]
    }
}

fn count_scans(plan: &dyn ExecutionPlan, on_device: &mut usize, on_cpu: &mut usize) {
    if plan.is::<PeltonGpuExec>() {
        *on_device += 1;
    }
    if plan.is::<PeltonScanExec>() {
        *on_cpu += 1;
    }
    for child in plan.children() {
        count_scans(child.as_ref(), on_device, on_cpu);
    }
}

impl Timed {
    /// Mean of the repetitions, seconds.
    pub(super) fn mean(&self) -> f64 {
        Summary::of(&self.seconds).mean
    }

    /// Of the mean, seconds.
    pub(super) fn standard_error(&self) -> f64 {
        Summary::of(&self.seconds).standard_error
    }

    /// Refuses an answer that is not the reference's.
    pub(super) fn check(&self, reference: &[RecordBatch], what: &str) -> Result<()> {
        if same_rows(&self.answer, reference) {
            return Ok(());
        }
        let message = format!("{what} gave other rows than the CPU engine on uncompressed tables");
        Err(Error::new(ErrorKind::Corrupt, message))
    }

    /// Uncompressed bytes of the columns needed, all row groups.
    pub(super) fn raw_bytes(&self) -> u64 {
        self.scans.iter().map(|scan| scan.raw_bytes).sum()
    }

    /// Stored bytes that were read.
    pub(super) fn bytes_read(&self) -> u64 {
        self.scans.iter().map(|scan| scan.bytes_read).sum()
    }
}

/// `amount` per second of each repetition.
pub(super) fn rate(amount: f64, seconds: &[f64]) -> Outcome {
    let Summary { mean, standard_error, min, count } = Summary::of(seconds);
    if min <= 0.0 {
        return Outcome::Missing("a clock that sees the time; take more data".into());
    }
    let value = amount / mean;
    // To first order a quotient has the relative error of its divisor.
    Outcome::Done(Measured {
        mean: value,
        standard_error: value * (standard_error / mean),
        best: amount / min,
        repetitions: count,
    })
}

/// A figure that follows from others.
pub(super) fn derived(value: f64) -> Outcome {
    Outcome::Done(Measured { mean: value, standard_error: 0.0, best: value, repetitions: 1 })
}

/// A measured row.
pub(super) fn row(
    machine: &str,
    figure: &str,
    what: impl Into<String>,
    unit: &'static str,
    ours: Outcome,
) -> Row {
    Row {
        figure: figure.into(),
        machine: machine.into(),
        what: what.into(),
        unit,
        paper: None,
        ours,
        tag: Tag::Measured,
        note: String::new(),
        is_input: false,
        is_in_grid: false,
    }
}

/// The row with what the paper says, and how it came about.
pub(super) fn with(row: Row, paper: Option<Quoted>, note: impl Into<String>) -> Row {
    Row { paper, note: note.into(), ..row }
}

/// A finding: the condition and its numbers, or why it cannot be shown.
pub(super) fn shape(machine: &str, id: &str, found: std::result::Result<(bool, String), String>) -> Shape {
    let (holds, detail) = match found {
        Ok((holds, detail)) => (Verdict::of(holds), detail),
        Err(reason) => (Verdict::NotApplicable, reason),
    };
    Shape { id: id.into(), machine: machine.into(), holds, detail }
}
