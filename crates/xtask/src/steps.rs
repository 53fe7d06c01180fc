//! A sequence of named steps: each is announced and timed, all run, a summary closes.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::process::{self, Result};

/// What has been run so far.
#[derive(Default)]
pub(crate) struct Steps {
    done: Vec<Step>,
}

struct Step {
    name: &'static str,
    seconds: f64,
    /// A remark for the summary, or what went wrong.
    result: Result<String>,
}

/// A task of this program, in a process of its own.
pub(crate) struct Task {
    /// How it is called.
    pub(crate) name: &'static str,
    /// Its last line is a remark for the summary.
    pub(crate) has_remark: bool,
}

impl Task {
    fn run(&self, folder: &Path) -> Step {
        let (name, started) = (self.name, Instant::now());
        let path = folder.join(format!("{name}.log"));
        let result = self.run_to(&path);
        let seconds = started.elapsed().as_secs_f64();
        let said = std::fs::read_to_string(&path).unwrap_or_default();
        // One write, since another lane may show something at the same time.
        print!("== {name}\n{}\n== {name}: {seconds:.0} s\n", said.trim_end());
        let remark = if self.has_remark { said.trim_end().lines().last().unwrap_or_default() } else { "" };
        Step { name, seconds, result: result.map(|()| remark.to_owned()) }
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
        self.done.push(Step { name, seconds, result });
        is_ok
    }

    /// Runs tasks of this program, those of a lane one after the other and the lanes at once: most tasks wait now and then.
    /// What a task says goes to a file in `folder`, and is shown once the task has ended.
    pub(crate) fn run_lanes(&mut self, lanes: &[&[Task]], folder: &Path) {
        let run = |lane: &[Task]| lane.iter().map(|task| task.run(folder)).collect::<Vec<Step>>();
        let done: Vec<Step> = std::thread::scope(|threads| {
            let lanes: Vec<_> = lanes.iter().map(|lane| threads.spawn(move || run(lane))).collect();
            lanes.into_iter().flat_map(|lane| lane.join().expect("a lane does not panic")).collect()
        });
        self.done.extend(done);
    }

    /// Counts a step as failed without running it.
    pub(crate) fn give_up(&mut self, name: &'static str, why: &str) {
        self.done.push(Step { name, seconds: 0.0, result: Err(why.to_owned()) });
    }

    /// One line a step, and at last how many passed.
    pub(crate) fn summary(&self) -> String {
        let width = self.done.iter().map(|step| step.name.len()).max().unwrap_or(0);
        let mut text = String::from("== summary\n");
        for step in &self.done {
            let (mark, remark) = match &step.result {
                Ok(remark) => ("ok  ", remark),
                Err(message) => ("FAIL", message),
            };
            let line = format!("{mark} {:width$} {:7.1} s  {remark}", step.name, step.seconds);
            text.push_str(line.trim_end());
            text.push('\n');
        }
        let failed = self.failed();
        text + &format!("{} passed, {failed} failed\n", self.done.len() - failed)
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
