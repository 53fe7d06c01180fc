//! A sequence of named steps: each is announced and timed, all run, a summary closes.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::process::{self, Result};

/// What has been run so far.
#[derive(Default)]
pub(crate) struct Steps {
    done: Vec<Step>,
    /// No step begins after it, but those that everything else needs.
    deadline: Option<Deadline>,
}

/// When there is no time for another step.
#[derive(Clone, Copy)]
struct Deadline {
    at: Instant,
    minutes: u64,
}

impl Deadline {
    /// What is said of a step that does not begin any more.
    fn passed(of: Option<Self>) -> Option<String> {
        let passed = of.filter(|deadline| deadline.at <= Instant::now())?;
        Some(format!("not run: {} minutes are over ({MINUTES_VARIABLE})", passed.minutes))
    }
}

/// After how many minutes no step begins that can be left out: on a slow machine, something that was to be seen is said to be
/// unseen, in place of nothing at all.
const MINUTES_VARIABLE: &str = "PELTON_TEST_MINUTES";

struct Step {
    name: &'static str,
    seconds: f64,
    /// A remark for the summary, or what went wrong.
    result: Result<String>,
    is_left_out: bool,
}

/// A task of this program, in a process of its own.
pub(crate) struct Task {
    /// How it is called.
    pub(crate) name: &'static str,
    /// Its last line is a remark for the summary.
    pub(crate) has_remark: bool,
}

impl Task {
    fn run(&self, folder: &Path, deadline: Option<Deadline>) -> Step {
        let (name, started) = (self.name, Instant::now());
        if let Some(why) = Deadline::passed(deadline) {
            return Step { name, seconds: 0.0, result: Ok(why), is_left_out: true };
        }
        let path = folder.join(format!("{name}.log"));
        let result = self.run_to(&path);
        let seconds = started.elapsed().as_secs_f64();
        let said = std::fs::read_to_string(&path).unwrap_or_default();
        // One write, since another lane may show something at the same time.
        print!("== {name}\n{}\n== {name}: {seconds:.0} s\n", said.trim_end());
        let remark = if self.has_remark { said.trim_end().lines().last().unwrap_or_default() } else { "" };
        Step { name, seconds, result: result.map(|()| remark.to_owned()), is_left_out: false }
    }

    fn run_to(&self, path: &Path) -> Result<()> {
        let cannot = |error: std::io::Error| format!("{}: {error}", path.display());
        let file = std::fs::File::create(path).map_err(cannot)?;
        let mut command = Command::new(std::env::current_exe().map_err(cannot)?);
        command.arg(self.name).stdout(file.try_clone().map_err(cannot)?).stderr(file);
        process::run(&mut command)
    }
}

impl Steps {
    /// None yet; the environment may say how long there is time to begin some.
    pub(crate) fn begin() -> Self {
        let minutes = std::env::var(MINUTES_VARIABLE).ok().and_then(|text| text.parse::<u64>().ok());
        let deadline = minutes
            .map(|minutes| Deadline { at: Instant::now() + Duration::from_secs(60 * minutes), minutes });
        Self { deadline, ..Self::default() }
    }

    /// As [`run`](Self::run), while there is time.
    pub(crate) fn run_in_time(&mut self, name: &'static str, step: impl FnOnce() -> Result<String>) {
        match Deadline::passed(self.deadline) {
            Some(why) => self.done.push(Step { name, seconds: 0.0, result: Ok(why), is_left_out: true }),
            None => {
                self.run(name, step);
            }
        }
    }

    /// Runs one step; a failure is kept for the summary.
    pub(crate) fn run(&mut self, name: &'static str, step: impl FnOnce() -> Result<String>) -> bool {
        println!("== {name}");
        let started = Instant::now();
        let result = step();
        if let Err(message) = &result {
            eprintln!("xtask: {name}: {message}");
        }
        let (is_ok, seconds) = (result.is_ok(), started.elapsed().as_secs_f64());
        // The summary says it again, unless something stops the run before it.
        println!("== {name}: {seconds:.0} s");
        self.done.push(Step { name, seconds, result, is_left_out: false });
        is_ok
    }

    /// Runs tasks of this program, those of a lane one after the other and the lanes at once: most tasks wait now and then.
    /// What a task says goes to a file in `folder`, and is shown once the task has ended.
    pub(crate) fn run_lanes(&mut self, lanes: &[&[Task]], folder: &Path) {
        let deadline = self.deadline;
        let run = |lane: &[Task]| lane.iter().map(|task| task.run(folder, deadline)).collect::<Vec<Step>>();
        let done: Vec<Step> = std::thread::scope(|threads| {
            let lanes: Vec<_> = lanes.iter().map(|lane| threads.spawn(move || run(lane))).collect();
            lanes.into_iter().flat_map(|lane| lane.join().expect("a lane does not panic")).collect()
        });
        self.done.extend(done);
    }

    /// Counts a step as failed without running it.
    pub(crate) fn give_up(&mut self, name: &'static str, why: &str) {
        self.done.push(Step { name, seconds: 0.0, result: Err(why.to_owned()), is_left_out: false });
    }

    /// One line a step, and at last how many passed.
    pub(crate) fn summary(&self) -> String {
        let width = self.done.iter().map(|step| step.name.len()).max().unwrap_or(0);
        let mut text = String::from("== summary\n");
        for step in &self.done {
            let (mark, remark) = match &step.result {
                Ok(why) if step.is_left_out => ("LEFT", why),
                Ok(remark) => ("ok  ", remark),
                Err(message) => ("FAIL", message),
            };
            let line = format!("{mark} {:width$} {:7.1} s  {remark}", step.name, step.seconds);
            text.push_str(line.trim_end());
            text.push('\n');
        }
        let failed = self.failed();
        let left_out = self.done.iter().filter(|step| step.is_left_out).count();
        text += &format!("{} passed, {failed} failed", self.done.len() - failed - left_out);
        if left_out > 0 {
            text += &format!(", {left_out} NOT RUN for lack of time");
        }
        text + "\n"
    }

    /// How many failed.
    pub(crate) fn failed(&self) -> usize {
        self.done.iter().filter(|step| step.result.is_err()).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_run_their_tasks_in_order_and_show_what_they_said() {
        let folder = tempfile();
        let mut steps = Steps::default();
        // No task is called so: this program, which is that of the tests here, finds nothing to run and succeeds.
        let task = |name| Task { name, has_remark: false };
        steps.run_lanes(&[&[task("no-a"), task("no-b")], &[task("no-c")]], &folder);
        let summary = steps.summary();
        assert!(summary.ends_with("3 passed, 0 failed\n"), "{summary}");
        let at = |name: &str| summary.find(name).unwrap();
        assert!(at("no-a") < at("no-b") && at("no-b") < at("no-c"), "{summary}");
        assert!(std::fs::read_to_string(folder.join("no-a.log")).unwrap().contains("0 tests"));
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_there_is_no_time_for_is_said_and_is_neither_passed_nor_failed() {
        let deadline = Some(Deadline { at: Instant::now(), minutes: 7 });
        let mut steps = Steps { deadline, ..Steps::default() };
        assert!(steps.run("needed", || Ok(String::new())));
        steps.run_in_time("late", || panic!("it is not to run"));
        steps.run_lanes(&[&[Task { name: "later", has_remark: false }]], Path::new("/nowhere"));
        let summary = steps.summary();
        assert!(
            summary.contains("LEFT later") && summary.contains("not run: 7 minutes are over"),
            "{summary}"
        );
        assert!(summary.ends_with("1 passed, 0 failed, 2 NOT RUN for lack of time\n"), "{summary}");
        assert_eq!(steps.failed(), 0);
        let mut in_time = Steps::default();
        in_time.run_in_time("first", || Ok(String::new()));
        assert!(in_time.summary().ends_with("1 passed, 0 failed\n"));
    }

    fn tempfile() -> std::path::PathBuf {
        let folder = std::env::temp_dir().join(format!("pelton-xtask-steps-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn a_failed_step_does_not_stop_the_next_and_is_counted() {
        let mut steps = Steps::default();
        assert!(!steps.run("first", || Err("it broke".into())));
        assert!(steps.run("second", || Ok("3 tests".into())));
        steps.give_up("third", "needs the first");
        let summary = steps.summary();
        assert!(summary.contains("FAIL first") && summary.contains("it broke"), "{summary}");
        assert!(summary.contains("ok   second") && summary.contains("3 tests"), "{summary}");
        assert!(summary.ends_with("1 passed, 2 failed\n"), "{summary}");
    }
}
