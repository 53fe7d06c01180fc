//! A sequence of named steps: each is announced and timed, all run, a summary closes.

use std::time::Instant;

use crate::process::Result;

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
