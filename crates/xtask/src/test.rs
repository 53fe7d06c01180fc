//! `cargo xtask test`: everything CI runs, cheap checks first.
//!
//! ```text
//!   format ─ tidy ─ build and clippy ─ CUDA library ─ tests ─┬─ Python package ─ guide ────────────────────────────┬─┐
//!                                                            └─ stores ─ README ─ benchmark queries beside DuckDB ─┘ │
//!                                                                                                                    │
//!                profile pages in a browser ─ server beside the ADBC driver ─ random statements beside DuckDB ◀──────┘
//! ```
//!
//! All steps run whatever fails before them, except those that need the command where it does not build.

use std::path::PathBuf;
use std::process::Command;

use crate::process::{self, Result};
use crate::readme::empty;
use crate::steps::{Steps, Task};
use crate::workspace::Workspace;
use crate::{cuda, differential, environments, lint, profile, server, tidy};

/// What is off by default, since it needs protoc, and tested all the same.
pub(crate) const FEATURES: &str = "pelton-cli/substrait";

/// Everything there is to build: see [`build_command`].
const BUILD: [&str; 7] =
    ["build", "--release", "--locked", "--workspace", "--features", FEATURES, "--all-targets"];

/// The random statements of every run are the same, so that a failure is due to a change. `cargo xtask differential` makes new
/// ones each time.
const DIFFERENTIAL: [&str; 2] = ["--seed", "pelton"];

/// Where cargo puts what it builds.
const TARGET_VARIABLE: &str = "CARGO_TARGET_DIR";

/// How much to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Without the steps that run the command on generated data.
    Fast,
    /// All.
    Full,
}

/// A step that needs the build; its remark is for the summary.
type Check = fn(&Workspace) -> Result<String>;

/// Runs the steps and prints the summary.
pub(crate) fn run(workspace: &Workspace, extent: Extent) -> Result<()> {
    if let Some(folder) = folder_of_its_own(workspace) {
        let this = std::env::current_exe().map_err(|error| format!("the program of this task: {error}"))?;
        let args: Vec<String> = std::env::args().skip(1).collect();
        return process::run(process::command(&workspace.root, this, &args).env(TARGET_VARIABLE, folder));
    }
    std::thread::scope(|threads| {
        // What comes from registries, while cargo keeps the cores busy. Who needs it says what is wrong with it.
        let fetching = threads.spawn(|| {
            if extent == Extent::Full {
                let _ = profile::browser(&workspace.root);
                environments::ALL.iter().for_each(|environment| drop(environment.python(&workspace.root)));
            }
        });
        let wait = || drop(fetching.join());
        run_steps(workspace, extent, wait)
    })
}

/// Where a run on a checkout in which nothing is built has cargo put things: see [`lint`]. `None` where somebody has built
/// before, or has said where.
fn folder_of_its_own(workspace: &Workspace) -> Option<PathBuf> {
    let is_said = std::env::var_os(TARGET_VARIABLE).is_some();
    (!is_said && lint::is_clean(workspace)).then(|| workspace.target.join(lint::FOLDER))
}

/// As [`run`]; `wait` returns once everything is there that the last steps need.
fn run_steps(workspace: &Workspace, extent: Extent, wait: impl FnOnce()) -> Result<()> {
    let mut steps = Steps::default();
    steps.run("format", || cargo(workspace, &["fmt", "--all", "--check"]));
    steps.run("tidy", || tidy::run(workspace).map(|()| String::new()));
    let is_built = build_with_clippy(workspace, &mut steps);
    let has_cuda = steps.run("cuda", || cuda::check(workspace));
    steps.run("tests", || cargo_test(workspace, has_cuda));
    wait();
    if extent == Extent::Full {
        after_tests(workspace, is_built, &mut steps)?;
    }
    print!("{}", steps.summary());
    if steps.failed() == 0 { Ok(()) } else { Err(format!("{} steps failed", steps.failed())) }
}

/// The steps that run what was built, or give up where it was not.
fn after_tests(workspace: &Workspace, is_built: bool, steps: &mut Steps) -> Result<()> {
    let task = |name| Task { name, has_remark: false };
    let remarking = |name| Task { name, has_remark: true };
    // The guide has Python in it, for which the package is installed by then.
    let package = [remarking("python"), remarking("guide")];
    let commands = [task("stores"), task("readme"), task("oracle")];
    let (differential, server): (Check, Check) = (
        |workspace| differential::run(workspace, &DIFFERENTIAL).map(|()| String::new()),
        |workspace| server::run(workspace).map(|()| String::new()),
    );
    // These use all cores, or look at the clock.
    let alone = [("differential", differential), ("server", server), ("profile", profile::run)];
    if is_built {
        let folder = workspace.root.join("build/steps");
        empty(&folder)?;
        steps.run_lanes(&[&package, &commands], &folder);
        for (name, step) in alone {
            steps.run(name, || step(workspace));
        }
    } else {
        let names = package.iter().chain(&commands).map(|task| task.name).chain(alone.map(|(name, _)| name));
        names.for_each(|name| steps.give_up(name, "needs the command, which did not build"));
    }
    Ok(())
}

/// Builds and lints everything, in one compilation where nothing is built yet; gives whether there is a command to run, which
/// what lints find does not change.
fn build_with_clippy(workspace: &Workspace, steps: &mut Steps) -> bool {
    if lint::is_clean(workspace) {
        let is_good = steps.run("build and clippy", || {
            let mut command = process::cargo(&workspace.root, &BUILD);
            lint::with_clippy(workspace, &mut command)?;
            process::run(&mut command).map(|()| String::new())
        });
        return is_good || build_command(workspace).is_ok();
    }
    steps.run("clippy", || {
        let what = [&["clippy"], &BUILD[1..], &["--", "-D", "warnings"]].concat();
        cargo(workspace, &what)
    });
    steps.run("build", || build_command(workspace).map(|()| String::new()))
}

/// Builds `target/release/pelton`. With `--all-targets` the libraries below it have the features that the tests
/// gave them; without, a feature that only tests switch on would have DataFusion compiled a second time.
pub(crate) fn build_command(workspace: &Workspace) -> Result<()> {
    cargo(workspace, &BUILD).map(drop)
}

fn cargo(workspace: &Workspace, args: &[&str]) -> Result<String> {
    process::run(&mut process::cargo(&workspace.root, args)).map(|()| String::new())
}

/// Runs all tests, with the CUDA library if it was built; the remark says how many there were.
fn cargo_test(workspace: &Workspace, has_cuda: bool) -> Result<String> {
    let mut counts = TestCounts::default();
    let mut failures = FailedTests::default();
    let what = ["test", "--release", "--locked", "--workspace", "--features", FEATURES, "--no-fail-fast"];
    let mut command = process::cargo(&workspace.root, &what);
    if has_cuda {
        command.env("PELTON_CUDA_LIBRARY", cuda::library(workspace));
    }
    compile_kernels_quickly(&mut command);
    let result = process::run_watched(&mut command, |line| {
        counts.add(line);
        failures.add(line);
    });
    let mut remark = format!("{} tests passed, {} failed", counts.passed, counts.failed);
    for failure in &failures.found {
        remark.push_str("\n     ");
        remark.push_str(failure);
    }
    match result {
        Ok(()) if counts.ignored > 0 => Err(format!("{remark}, {} ignored; none may be", counts.ignored)),
        Ok(()) => Ok(remark),
        Err(message) => Err(format!("{remark}; {message}")),
    }
}

/// Has `command` compile kernels for the host without optimising them. Tests compile thousands, each for a few rows: `-O0`
/// takes half the time of `-O1`, which takes half that of `-O3`, which steps that run the command have.
pub(crate) fn compile_kernels_quickly(command: &mut Command) {
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".into());
    command.env("CXX", format!("{compiler} -O0"));
}

/// Sums over the result lines of test programs.
#[derive(Debug, Default, PartialEq, Eq)]
struct TestCounts {
    passed: u64,
    failed: u64,
    ignored: u64,
}

impl TestCounts {
    /// Takes `test result: ok. 12 passed; 0 failed; 1 ignored; …` into account, and no other line.
    fn add(&mut self, line: &str) {
        let Some(result) = line.strip_prefix("test result: ") else { return };
        for part in result.split([';', '.']) {
            let Some((count, what)) = part.trim().split_once(' ') else { continue };
            let Ok(count) = count.parse::<u64>() else { continue };
            match what {
                "passed" => self.passed += count,
                "failed" => self.failed += count,
                "ignored" => self.ignored += count,
                _ => {}
            }
        }
    }
}

/// The tests that failed, each with the first line of what it said: the end of a log may be all that somebody sees.
#[derive(Debug, Default)]
struct FailedTests {
    found: Vec<String>,
    /// The test whose message is on the next line.
    speaks: Option<String>,
}

impl FailedTests {
    /// Takes `thread 'NAME' (7) panicked at FILE:LINE:COLUMN:` and the line after it.
    fn add(&mut self, line: &str) {
        if let Some(test) = self.speaks.take() {
            self.found.push(format!("{test}: {line}"));
        } else if let Some((test, place)) = line.split_once(" panicked at ") {
            let test = test.strip_prefix("thread ").unwrap_or(test);
            self.speaks = Some(format!("{test} at {}", place.trim_end_matches(':')));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_named_with_what_they_say() {
        let mut failures = FailedTests::default();
        for line in
            ["---- a::b stdout ----", "", "thread 'a::b' (7) panicked at src/a.rs:1:2:", "1 is not 2", "rest"]
        {
            failures.add(line);
        }
        assert_eq!(failures.found, ["'a::b' (7) at src/a.rs:1:2: 1 is not 2"]);
    }

    #[test]
    fn result_lines_of_test_programs_are_summed() {
        let mut counts = TestCounts::default();
        counts.add(
            "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.05s",
        );
        counts.add("test tests::result ... ok");
        counts.add(
            "test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1s",
        );
        assert_eq!(counts, TestCounts { passed: 15, failed: 2, ignored: 1 });
    }
}
