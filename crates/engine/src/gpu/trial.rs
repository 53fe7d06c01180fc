//! What `auto` learns: how long a part of a plan takes on the CPU, and how long on the device once that is warm.
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
//! GPUs are compiled by other processes, which get a tenth of the cores that queries want (`device/src/cuda/compilers.rs`).
//!
//! Without a GPU, kernels compiled for the host's cores are tried out likewise. They want the cores that queries want, and a
//! compiler takes a fifth of a second for each: so only a quarter of the cores have one, and only queries that have come twice
//! are tried, each plan as a whole alone.
//!
//! Where a GPU won whose memory does not hold all that a plan reads, it is tried out next whether the host's cores and the
//! GPU together are faster (`exec/src/host_worker.rs`).
//!
//! Parts of plans are told apart by what they do, not by the numbers in it.

use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use datafusion::common::Statistics;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildStats, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
    ReplaceChildrenOptions,
};
use futures::StreamExt;
use pelton_error::{Error, ErrorKind, Pace};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::background::Way;
use super::corrections::hash_without_numbers;
use super::describe::pipeline_texts;
use super::device::DeviceHandle;
use super::exec::{Cores, PeltonGpuExec, Tried};
use crate::cores::cores;

/// A trial begins so long after the rows of its query: a process that ends with its query never begins one.
const PAUSE: Duration = Duration::from_millis(50);
/// Runs of a trial at most: the first admits columns and compiles kernels, the second mostly shows how long it takes then.
const RUNS_MAX: usize = 4;
/// A trial that repeats a run is given up after so many times what the CPU took, and [`PATIENCE`].
const SLOWER_MAX: u32 = 4;
/// For what has to be done once and takes longer than the query: a compilation, a column to copy.
const PATIENCE: Duration = Duration::from_millis(500);
/// The same of a first run, which does most of that.
const FIRST_PATIENCE: Duration = Duration::from_secs(60);
/// What one run adds at most to what the device is known to take: one that others held up says little.
const GROWTH_MAX: f64 = 2.0;
/// Trials at once at most, however many cores there are: they share one link, and one device. Below that, one a core: a
/// trial mostly waits for a compiler.
const TRIALS_MAX: usize = 16;
/// Parts of plans that are remembered at most; the rest is forgotten with the first one beyond.
const ENTRIES_MAX: usize = 10_000;
/// What the CPU may take more than the device before the device is preferred: less is noise.
const MARGIN: f64 = 1.0;

/// Cores that help are to save so much of what the device takes alone: less is not worth their time, or noise.
const HELP_MIN: f64 = 0.05;
/// What the device takes at least for it to be tried out, in seconds: the cores begin a few milliseconds later.
const HELPED_S: f64 = 10e-3;

/// How often that is tried out at most where cores took no rows: columns may come to pinned memory later.
const HOST_TRIALS_MAX: u32 = 4;

/// What is known of a part of a plan.
#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    cpu_s: Option<f64>,
    /// How often the CPU ran it.
    cpu_runs: u32,
    device_s: Option<f64>,
    /// Of the device and the host's cores together.
    with_host_s: Option<f64>,
    /// How often that was tried out, and whether it is.
    host_trials: u32,
    is_host_on_trial: bool,
    is_on_trial: bool,
    /// It came again while it was.
    is_awaited: bool,
    /// The device refused it at run time.
    is_refused: bool,
}

impl Entry {
    /// Whether the device is preferred, as far as is known.
    fn is_for_device(&self) -> bool {
        let is_faster = |device_s: f64| self.cpu_s.is_some_and(|cpu_s| device_s * MARGIN < cpu_s);
        !self.is_refused && [self.device_s, self.with_host_s].into_iter().flatten().any(is_faster)
    }

    /// Whether nobody knows what device and cores take together, and it may be found out.
    fn may_try_host(&self) -> bool {
        self.with_host_s.is_none() && !self.is_host_on_trial && self.host_trials < HOST_TRIALS_MAX
    }

    /// Whether the host's cores are to help the device, as far as is known.
    fn is_with_host(&self) -> bool {
        let pair = self.with_host_s.zip(self.device_s);
        pair.is_some_and(|(with_host_s, device_s)| with_host_s < device_s * (1.0 - HELP_MIN))
    }
}

/// What to do with a part of a plan that the device can run.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Verdict {
    /// Run it on the device, for this reason, and this is what the host's cores do meanwhile.
    Device(String, Cores),
    /// Leave it to the CPU, for this reason.
    Cpu(String),
    /// Run it on the CPU, and try the device out afterwards.
    Try,
}

/// How a device is tried out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Manner {
    /// What users call running there.
    pub(super) where_text: &'static str,
    /// Trials that run at once.
    pub(super) at_once: usize,
    /// Times that the CPU has run something before it is tried out.
    pub(super) cpu_runs_min: u32,
    /// A first run, which compiles kernels and admits columns, only gets what others leave, though somebody may wait.
    pub(super) is_idle_first: bool,
}

impl Manner {
    /// Of a GPU: one trial a core, which is mostly a compiler on one thread.
    pub(super) fn of_gpu() -> Self {
        let at_once = cores().min(TRIALS_MAX);
        Self { where_text: "on the device", at_once, cpu_runs_min: 0, is_idle_first: false }
    }

    /// Of the host's cores, which queries want: one trial for four of them, of what comes again.
    pub(super) fn of_host() -> Self {
        let at_once = (cores() / 4).clamp(1, TRIALS_MAX);
        Self { where_text: "in compiled kernels", at_once, cpu_runs_min: 2, is_idle_first: true }
    }
}

/// What was learnt so far; of one device.
pub(super) struct Experience {
    entries: Mutex<HashMap<u64, Entry>>,
    trials: Arc<Semaphore>,
    manner: Manner,
    /// How often something learnt has changed where something runs.
    changes: AtomicU64,
}

impl Experience {
    /// Nothing yet.
    pub(super) fn new(manner: Manner) -> Self {
        Self {
            entries: Mutex::default(),
            trials: Arc::new(Semaphore::new(manner.at_once)),
            manner,
            changes: AtomicU64::default(),
        }
    }

    /// How the device is tried out.
    pub(super) fn manner(&self) -> Manner {
        self.manner
    }

    /// What to do with what is called `key`.
    pub(super) fn verdict(&self, key: u64) -> Verdict {
        let entry = self.with(key, |entry| {
            entry.is_awaited |= entry.is_on_trial;
            *entry
        });
        match (entry.device_s, entry.cpu_s) {
            _ if entry.is_refused => Verdict::Cpu("the device refused it before".into()),
            (Some(device_s), Some(cpu_s)) => {
                let (device, device_ms, cpu_ms) = (self.manner.where_text, device_s * 1e3, cpu_s * 1e3);
                let with_host = match entry.with_host_s {
                    Some(with_host_s) => format!(" ({:.1} with the host's cores)", with_host_s * 1e3),
                    None => String::new(),
                };
                let text = format!("took {device_ms:.1} ms {device}{with_host}, {cpu_ms:.1} ms on the CPU");
                let cores = match entry.is_with_host() {
                    true => Cores::Used,
                    false if entry.may_try_host() && device_s >= HELPED_S => Cores::ToTry,
                    false => Cores::Unused,
                };
                if entry.is_for_device() { Verdict::Device(text, cores) } else { Verdict::Cpu(text) }
            }
            _ => Verdict::Try,
        }
    }

    /// Takes note that the device took so long, or with it the host's cores; of several times the last counts half, but no
    /// more than [`GROWTH_MAX`].
    pub(super) fn took_on_device(&self, key: u64, is_with_host: bool, elapsed: Duration) {
        self.learn(key, |entry| {
            let latest = elapsed.as_secs_f64();
            let with = |known: f64| ((known + latest) / 2.0).min(known * GROWTH_MAX);
            let known = if is_with_host { &mut entry.with_host_s } else { &mut entry.device_s };
            *known = Some(known.map_or(latest, with));
        });
    }

    /// Takes note that the CPU took so long; the least counts.
    fn took_on_cpu(&self, key: u64, elapsed: Duration) {
        self.learn(key, |entry| {
            let latest = elapsed.as_secs_f64();
            entry.cpu_s = Some(entry.cpu_s.map_or(latest, |known| known.min(latest)));
            entry.cpu_runs = entry.cpu_runs.saturating_add(1);
        });
    }

    /// Takes note that the device refused to run it.
    pub(super) fn refused(&self, key: u64) {
        self.learn(key, |entry| entry.is_refused = true);
    }

    /// Changes whenever something learnt changes where something runs: plans made before may be out of date.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    fn learn(&self, key: u64, what: impl FnOnce(&mut Entry)) {
        let is_changed = self.with(key, |entry| {
            let before = (entry.is_for_device(), entry.is_with_host());
            what(entry);
            (entry.is_for_device(), entry.is_with_host()) != before
        });
        if is_changed {
            self.changes.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// How far the trial of `key` gives way to queries.
    fn way(&self, key: u64) -> Way {
        if self.with(key, |entry| entry.is_awaited) { Way::Nice } else { Way::Idle }
    }

    /// True for the first to ask, until the trial has ended; once the CPU has run it often enough.
    fn begins_trial(&self, key: u64) -> bool {
        self.with(key, |entry| {
            entry.cpu_runs >= self.manner.cpu_runs_min
                && !entry.is_refused
                && !std::mem::replace(&mut entry.is_on_trial, true)
        })
    }

    /// True for the first to ask, until that trial has ended.
    fn begins_host_trial(&self, key: u64) -> bool {
        self.with(key, |entry| {
            let begins = entry.may_try_host();
            if begins {
                (entry.host_trials, entry.is_host_on_trial) = (entry.host_trials + 1, true);
            }
            begins
        })
    }

    /// Another trial with the host's cores may begin.
    fn ends_host_trial(&self, key: u64) {
        self.with(key, |entry| entry.is_host_on_trial = false);
    }

    /// Another trial may begin.
    fn ends_trial(&self, key: u64) {
        self.with(key, |entry| entry.is_on_trial = false);
    }

    fn with<T>(&self, key: u64, what: impl FnOnce(&mut Entry) -> T) -> T {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() > ENTRIES_MAX {
            entries.clear();
        }
        what(entries.entry(key).or_default())
    }

    /// The right to run a trial.
    async fn trial(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.trials).acquire_owned().await.ok()
    }

    /// The right to run one alone, once no other runs: those that wait for their turn go first.
    async fn trial_alone(&self) -> OwnedSemaphorePermit {
        loop {
            match Arc::clone(&self.trials).try_acquire_many_owned(self.manner.at_once as u32) {
                Ok(all) => return all,
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    /// What the CPU took, as far as is known.
    fn of_cpu(&self, key: u64) -> Option<Duration> {
        self.with(key, |entry| entry.cpu_s).map(Duration::from_secs_f64)
    }
}

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
}

impl fmt::Debug for TrialPace {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("TrialPace").field("key", &self.key).finish_non_exhaustive()
    }
}

impl Pace for TrialPace {
    fn wait_for(&self, bytes: u64, is_cancelled: &dyn Fn() -> bool) {
        self.device.foreground().wait_for(bytes, is_cancelled);
    }

    fn saves(&self) -> Duration {
        self.device.experience().of_cpu(self.key).unwrap_or_default()
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
    let first = if experience.manner.is_idle_first { Way::Idle } else { experience.way(key) };
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
    fn name(&self) -> &'static str {
        "PeltonTrialExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self.with_input(children.swap_remove(0)))
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
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
        let at_end = futures::stream::once(async move {
            if progress.ended.fetch_add(1, Ordering::AcqRel) + 1 == partitions {
                candidate.device().experience().took_on_cpu(key, started.elapsed());
                tokio::spawn(try_out(candidate, key, context));
            }
        });
        // Rows as they are; what comes last is nothing, and is only polled once all have come.
        let rows = rows.map(Some).chain(at_end.map(|()| None)).filter_map(std::future::ready);
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        Ok(Arc::clone(&inputs[0]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_is_tried_once_and_then_whoever_took_less_runs() {
        let experience = Experience::new(Manner::of_gpu());
        assert_eq!(experience.verdict(1), Verdict::Try);
        assert!(experience.begins_trial(1));
        assert!(!experience.begins_trial(1));
        experience.took_on_cpu(1, Duration::from_millis(300));
        assert_eq!(experience.verdict(1), Verdict::Try);
        assert_eq!(experience.changes(), 0);
        experience.took_on_device(1, false, Duration::from_millis(10));
        assert!(matches!(experience.verdict(1), Verdict::Device(..)));
        assert_eq!(experience.changes(), 1);
        experience.took_on_device(1, false, Duration::from_millis(20));
        assert_eq!(experience.changes(), 1);
        // Others held it up once.
        experience.took_on_device(1, false, Duration::from_millis(1000));
        assert!(matches!(experience.verdict(1), Verdict::Device(..)));
        // Columns were evicted, say.
        (0..5).for_each(|_| experience.took_on_device(1, false, Duration::from_millis(1000)));
        assert!(matches!(experience.verdict(1), Verdict::Cpu(_)));
        assert_eq!(experience.changes(), 2);
        assert_eq!(experience.verdict(2), Verdict::Try);
    }

    #[test]
    fn cores_help_where_both_together_turned_out_to_be_faster() {
        let experience = Experience::new(Manner::of_gpu());
        let cores = || match experience.verdict(1) {
            Verdict::Device(_, cores) => cores,
            other => panic!("{other:?}"),
        };
        experience.took_on_cpu(1, Duration::from_millis(300));
        experience.took_on_device(1, false, Duration::from_millis(2));
        assert_eq!(cores(), Cores::Unused); // it is too short
        (0..5).for_each(|_| experience.took_on_device(1, false, Duration::from_millis(100)));
        assert_eq!(cores(), Cores::ToTry);
        assert!(experience.begins_host_trial(1) && !experience.begins_host_trial(1));
        assert_eq!(cores(), Cores::Unused);
        for _ in 1..HOST_TRIALS_MAX {
            experience.ends_host_trial(1);
            assert_eq!(cores(), Cores::ToTry); // the cores took no rows
            assert!(experience.begins_host_trial(1));
        }
        experience.ends_host_trial(1);
        assert!(!experience.begins_host_trial(1));
        let before = experience.changes();
        experience.took_on_device(1, true, Duration::from_millis(50));
        assert_eq!((cores(), experience.changes()), (Cores::Used, before + 1));
        (0..5).for_each(|_| experience.took_on_device(1, true, Duration::from_millis(110)));
        assert_eq!(cores(), Cores::Unused);
    }

    #[test]
    fn a_trial_is_for_idle_cores_until_its_query_comes_again() {
        let experience = Experience::new(Manner::of_gpu());
        assert_eq!(experience.verdict(1), Verdict::Try); // it is planned before it runs
        assert_eq!(experience.way(1), Way::Idle);
        assert!(experience.begins_trial(1));
        assert_eq!(experience.way(1), Way::Idle);
        assert_eq!(experience.verdict(2), Verdict::Try);
        assert_eq!(experience.way(1), Way::Idle);
        assert_eq!(experience.verdict(1), Verdict::Try);
        assert_eq!((experience.way(1), experience.way(2)), (Way::Nice, Way::Idle));
    }

    #[test]
    fn kernels_of_the_host_are_tried_for_what_comes_again() {
        let experience = Experience::new(Manner::of_host());
        experience.took_on_cpu(1, Duration::from_millis(300));
        assert!(!experience.begins_trial(1));
        experience.took_on_cpu(1, Duration::from_millis(300));
        assert!(experience.begins_trial(1));
    }

    #[test]
    fn what_the_device_refused_is_not_tried_again() {
        let experience = Experience::new(Manner::of_gpu());
        experience.refused(7);
        assert!(matches!(experience.verdict(7), Verdict::Cpu(_)));
        assert!(!experience.begins_trial(7));
    }
}
