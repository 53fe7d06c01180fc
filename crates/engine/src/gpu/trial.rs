//! Trials, by which `auto` learns how long a part of a plan takes on the CPU, and how long on the device once that is warm.
//!
//! ```text
//!   first time    CPU ──► rows          then, in the background: the same on the device, until it is warm
//!                   │ took 340 ms         │ kernels compiled, columns admitted │ took 12 ms
//!                   └────────────────────┴────────────────────────────────────┴──▶ Experience
//!   from then on  on whichever took less
//! ```
//!
//! A device that has never seen a query is slow: it opens the driver, compiles kernels and copies columns.
//! So no query waits for that. What is tried out has had its rows delivered already, and its result is dropped. Several
//! trials run at once, since most of a trial is a compiler on one thread. They give way to queries: their threads run
//! where cores would be idle, what they bring to the device comes at a fraction of the rate of memory while a query runs
//! (`foreground.rs`), no query waits for a column that they admit, and of a device's memory they have what queries leave.
//! Once a query comes again that is still on trial, what is left of the trial gets some of the cores in any case. Kernels for
//! GPUs are compiled by other processes, few of them while a query runs (`device/src/cuda/compilers.rs`).
//!
//! Without a GPU, kernels compiled for the host's cores are tried out likewise. They want the cores that queries want, and a
//! compiler takes a fifth of a second for each: so only a quarter of the cores have one, and only queries that have come twice
//! are tried, each plan as a whole alone.
//!
//! Where a GPU won whose memory does not hold all that a plan reads, it is tried out next whether the host's cores and the
//! GPU together are faster (`exec/src/host_worker.rs`).
//!
//! Parts of plans are told apart by what they do, not by the numbers in it.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties};
use pelton_error::{Error, ErrorKind, Pace};

use super::background::Way;
use super::corrections::hash_without_numbers;
use super::describe::pipeline_texts;
use super::device::DeviceHandle;
use super::exec::{Cores, PeltonGpuExec, Tried};
use super::experience::PAUSE;
use crate::same_rows::{gives_rows_of, then_run};

/// Runs of a trial at most: the first admits columns and compiles kernels, the second mostly shows how long it takes then.
const RUNS_MAX: usize = 4;
/// A trial that repeats a run is given up after so many times what the CPU took, and [`PATIENCE`].
const SLOWER_MAX: u32 = 4;
/// For what has to be done once and takes longer than the query: a compilation, a column to copy.
const PATIENCE: Duration = Duration::from_millis(500);
/// The same of a first run, which does most of that, and waits for its turn at a compiler.
const FIRST_PATIENCE: Duration = Duration::from_secs(300);

/// How a trial gives way to queries, and which of several goes first: whose query takes longest.
pub(super) struct TrialPace {
    device: Arc<DeviceHandle>,
    key: u64,
}

impl TrialPace {
    /// Of the trial of `key`.
    pub(super) fn of(device: Arc<DeviceHandle>, key: u64) -> Arc<dyn Pace> {
        Arc::new(Self { device, key })
    }

    /// Whether its query has come again.
    fn is_awaited(&self) -> bool {
        self.device.experience().way(self.key) == Way::Nice
    }
}

impl fmt::Debug for TrialPace {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("TrialPace").field("key", &self.key).finish_non_exhaustive()
    }
}

impl Pace for TrialPace {
    fn wait_for(&self, bytes: u64, is_cancelled: &dyn Fn() -> bool) {
        self.device.foreground().wait_for(bytes, self.is_awaited(), is_cancelled);
    }

    fn saves(&self) -> Duration {
        self.device.experience().of_cpu(self.key).unwrap_or_default()
    }

    fn at_once(&self, most: usize) -> usize {
        self.device.foreground().at_once(most, self.is_awaited())
    }
}

/// What `node` does, without the numbers in it.
pub(super) fn key_of(node: &PeltonGpuExec) -> u64 {
    let mut hasher = DefaultHasher::new();
    for text in pipeline_texts(node) {
        hash_without_numbers(&text, &mut hasher);
    }
    for (_, scan) in node.scans() {
        scan.table().id().hash(&mut hasher);
    }
    hasher.finish()
}

/// Rows of the CPU, after which the device is tried out.
#[derive(Debug)]
pub(super) struct PeltonTrialExec {
    input: Arc<dyn ExecutionPlan>,
    candidate: Arc<PeltonGpuExec>,
    key: u64,
    progress: Arc<Progress>,
}

/// How far the partitions of one execution are.
#[derive(Debug, Default)]
struct Progress {
    started: OnceLock<Instant>,
    ended: AtomicUsize,
}

impl PeltonTrialExec {
    /// `input` as it is; the device is tried with `candidate`.
    pub(super) fn new(input: Arc<dyn ExecutionPlan>, candidate: Arc<PeltonGpuExec>, key: u64) -> Self {
        Self { input, candidate, key, progress: Arc::default() }
    }

    /// What the device is tried with.
    pub(super) fn candidate(&self) -> &PeltonGpuExec {
        &self.candidate
    }

    fn with_input(&self, input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        Arc::new(Self::new(input, Arc::clone(&self.candidate), self.key))
    }
}

/// Whether parts of `plan` are yet to be tried out.
pub(crate) fn is_on_trial(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<PeltonTrialExec>() || plan.children().into_iter().any(is_on_trial)
}

/// Runs `candidate` on the device, until it is warm and what it takes is seen.
async fn try_out(candidate: Arc<PeltonGpuExec>, key: u64, context: Arc<TaskContext>) {
    let device = Arc::clone(candidate.device());
    let experience = device.experience();
    if !experience.begins_trial(key) {
        return;
    }
    tokio::time::sleep(PAUSE).await;
    // Looking for a GPU opens its driver, which takes a while. Threads that the driver and the runtime start serve
    // queries later on: nothing here gives way.
    let looking = Arc::clone(&device);
    let found = tokio::task::spawn_blocking(move || {
        let is_any = looking.is_any();
        if is_any {
            let _ = looking.runtime_and_compiler(); // what is missing the run says
        }
        is_any
    });
    if !found.await.unwrap_or(false) {
        return;
    }
    let Some(permit) = experience.trial().await else { return };
    let end = run_until_warm(&candidate, key, &context).await;
    drop(permit);
    let end = match end {
        // Other trials may have held it up: what is not taken for faster is timed again, alone.
        End::Took(elapsed) if experience.of_cpu(key).is_some_and(|cpu| cpu <= elapsed) => {
            let _alone = experience.trial_alone().await;
            match timed_run(&candidate, key, (PATIENCE, experience.way(key), Cores::Unused), &context).await {
                Ok(tried) => End::Took(tried.elapsed.min(elapsed)),
                Err(end) => end,
            }
        }
        end => end,
    };
    match end {
        End::Took(elapsed) => experience.took_on_device(key, false, elapsed),
        End::Refused => experience.refused(key),
        End::Failed => experience.ends_trial(key),
    }
}

/// Runs `candidate` on the device and the host's cores together, until kernels are compiled and what both take is seen.
pub(super) async fn try_with_host(candidate: Arc<PeltonGpuExec>, key: u64, context: Arc<TaskContext>) {
    let experience = candidate.device().experience();
    if !experience.begins_host_trial(key) {
        return;
    }
    tokio::time::sleep(PAUSE).await;
    let _permit = experience.trial_alone().await;
    if let Some(elapsed) = time_with_host(&candidate, key, &context).await {
        experience.took_on_device(key, true, elapsed);
    }
    experience.ends_host_trial(key);
}

/// How long that takes once it is warm; `None` where the cores take no rows, or it cannot be said.
async fn time_with_host(candidate: &PeltonGpuExec, key: u64, context: &Arc<TaskContext>) -> Option<Duration> {
    for run in 1..=RUNS_MAX {
        let patience = if run == 1 { FIRST_PATIENCE } else { PATIENCE };
        let manner = (patience, Way::Nice, Cores::Used);
        match timed_run(candidate, key, manner, context).await {
            Ok(tried) if !tried.is_with_host => return None,
            Ok(tried) if run > 1 && tried.is_warm => return Some(tried.elapsed),
            Ok(_) => {}
            Err(_) => return None,
        }
    }
    None
}

/// How a trial ended.
enum End {
    Took(Duration),
    Refused,
    /// It may go better another time: memory that others hold now, say.
    Failed,
}

async fn run_until_warm(candidate: &PeltonGpuExec, key: u64, context: &Arc<TaskContext>) -> End {
    let experience = candidate.device().experience();
    let first = if experience.manner().is_idle_first { Way::Idle } else { experience.way(key) };
    for run in 1..=RUNS_MAX {
        let tried = match run {
            // It does what has to be done once. How long that takes where others want the cores says nothing.
            1 => match timed_run(candidate, key, (FIRST_PATIENCE, first, Cores::Unused), context).await {
                Err(End::Took(_)) => Err(End::Failed),
                tried => tried,
            },
            _ => timed_run(candidate, key, (PATIENCE, experience.way(key), Cores::Unused), context).await,
        };
        match tried {
            Ok(tried) if run > 1 && (tried.is_warm || run == RUNS_MAX) => return End::Took(tried.elapsed),
            Ok(_) => {}
            // The second run may still compile; the device is taken for slow after a third alone.
            Err(End::Took(_)) if run == 2 => {}
            Err(end) => return end,
        }
    }
    End::Failed
}

/// One run that is given up once it takes much longer than the CPU did and `patience`: it has taken so long then.
async fn timed_run(
    candidate: &PeltonGpuExec,
    key: u64,
    (patience, way, cores): (Duration, Way, Cores),
    context: &Arc<TaskContext>,
) -> std::result::Result<Tried, End> {
    let experience = candidate.device().experience();
    let run = candidate.try_run((way, key), cores, context);
    let Some(cpu) = experience.of_cpu(key) else {
        return run.await.map_err(|error| end_of(&error));
    };
    let limit = cpu * SLOWER_MAX + patience;
    match tokio::time::timeout(limit, run).await {
        Ok(tried) => tried.map_err(|error| end_of(&error)),
        Err(_) => Err(End::Took(limit)),
    }
}

fn end_of(error: &Error) -> End {
    if *error.kind() == ErrorKind::Unsupported { End::Refused } else { End::Failed }
}

impl DisplayAs for PeltonTrialExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("PeltonTrialExec: the device is tried out once the rows are here")
    }
}

impl ExecutionPlan for PeltonTrialExec {
    gives_rows_of!(input);

    fn name(&self) -> &'static str {
        "PeltonTrialExec"
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self.with_input(children.swap_remove(0)))
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self.with_input(Arc::clone(&self.input)))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.input.execute(partition, Arc::clone(&context))?;
        let started = *self.progress.started.get_or_init(Instant::now);
        let partitions = self.input.output_partitioning().partition_count();
        let (progress, candidate, key) = (Arc::clone(&self.progress), Arc::clone(&self.candidate), self.key);
        let rows = then_run(rows, async move {
            if progress.ended.fetch_add(1, Ordering::AcqRel) + 1 == partitions {
                candidate.device().experience().took_on_cpu(key, started.elapsed());
                tokio::spawn(try_out(candidate, key, context));
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}
