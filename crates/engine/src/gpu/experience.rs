//! What `auto` has learnt: how long a part of a plan takes on the CPU, on the device, and on both together.
//!
//! ```text
//!   rows of the CPU ──▶ took_on_cpu    ┐
//!   trials, and runs ─▶ took_on_device ├─▶ Entry, by what the part does ──▶ Verdict: device, CPU, or a trial (trial.rs)
//!   the device ───────▶ refused        ┘
//! ```
//!
//! At most [`ENTRIES_MAX`] parts are remembered, in memory alone.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::background::Way;
use super::exec::Cores;
use crate::cores::cores;

/// A trial begins so long after the rows of its query: a process that ends with its query never begins one.
pub(super) const PAUSE: Duration = Duration::from_millis(50);
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
    pub(super) fn took_on_cpu(&self, key: u64, elapsed: Duration) {
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
    pub(super) fn way(&self, key: u64) -> Way {
        if self.with(key, |entry| entry.is_awaited) { Way::Nice } else { Way::Idle }
    }

    /// True for the first to ask, until the trial has ended; once the CPU has run it often enough.
    pub(super) fn begins_trial(&self, key: u64) -> bool {
        self.with(key, |entry| {
            entry.cpu_runs >= self.manner.cpu_runs_min
                && !entry.is_refused
                && !std::mem::replace(&mut entry.is_on_trial, true)
        })
    }

    /// True for the first to ask, until that trial has ended.
    pub(super) fn begins_host_trial(&self, key: u64) -> bool {
        self.with(key, |entry| {
            let begins = entry.may_try_host();
            if begins {
                (entry.host_trials, entry.is_host_on_trial) = (entry.host_trials + 1, true);
            }
            begins
        })
    }

    /// Another trial with the host's cores may begin.
    pub(super) fn ends_host_trial(&self, key: u64) {
        self.with(key, |entry| entry.is_host_on_trial = false);
    }

    /// Another trial may begin.
    pub(super) fn ends_trial(&self, key: u64) {
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
    pub(super) async fn trial(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.trials).acquire_owned().await.ok()
    }

    /// The right to run one alone, once no other runs: those that wait for their turn go first.
    pub(super) async fn trial_alone(&self) -> OwnedSemaphorePermit {
        loop {
            match Arc::clone(&self.trials).try_acquire_many_owned(self.manner.at_once as u32) {
                Ok(all) => return all,
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    /// What the CPU took, as far as is known.
    pub(super) fn of_cpu(&self, key: u64) -> Option<Duration> {
        self.with(key, |entry| entry.cpu_s).map(Duration::from_secs_f64)
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
