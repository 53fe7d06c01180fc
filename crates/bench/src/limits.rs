//! `pelton bench limits`: operations that need memory, each in a process of its own under a memory limit.
//!
//! ```text
//!   this process ── starts ──▶ pelton bench limits --child OPERATION --memory-limit L    ── one line of JSON ──▶
//!        │                     python peer.py … OPERATION                                  (DuckDB, where it is found)
//!        │                          │
//!        └── looks at VmHWM of ─────┘ while it runs, so that one that is killed has a figure too
//! ```
//!
//! An operation has *finished* where its answer is that of the same operation without a limit, cell for cell, and in the
//! same order where it has one. DuckDB's answers are compared by rows and by sums of integer columns.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use pelton_engine::bytes_text;
use pelton_error::{CancelFlag, Error, ErrorKind, Result, ResultExt};
use serde::Serialize;

use crate::results::{TextTable, median};

mod child;
mod data;
mod operations;

pub use child::run_one;
pub use operations::{OPERATIONS, Operation};

use child::{Answer, Printed};
use data::Tables;

/// How often a child is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// What runs DuckDB.
const PEER: &str = include_str!("limits/peer.py");

/// One operation over tables of one size.
#[derive(Debug, Clone)]
pub struct Case {
    /// The operation's name.
    pub operation: String,
    /// Rows of the large tables.
    pub rows: u64,
    /// Folder of all tables.
    pub dir: PathBuf,
}

/// How to run.
#[derive(Debug, Clone)]
pub struct LimitsOptions {
    /// Rows of the large tables.
    pub rows: u64,
    /// Limits to run under, bytes; without one, everything runs first.
    pub limits: Vec<u64>,
    /// Operations to run, by the beginning of their names; empty for all.
    pub only: Vec<String>,
    /// Runs of each operation under each limit.
    pub runs: u32,
    /// Threads of each engine.
    pub threads: usize,
    /// Folder of tables, and of what is spilled.
    pub dir: PathBuf,
    /// The `pelton` to start.
    pub program: PathBuf,
    /// Python that has DuckDB; `None`: no peer.
    pub python: Option<PathBuf>,
    /// When a run is given up.
    pub time_limit: Duration,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum Ended {
    /// With the right answer.
    Right,
    /// With another answer than without a limit.
    Wrong,
    /// With an error, in these words.
    Failed(String),
    /// Without a word: by a signal, or past the time limit.
    Killed,
}

/// One engine's runs of one operation under one limit.
#[derive(Debug, Clone, Serialize)]
pub struct Runs {
    /// `pelton` or `duckdb`.
    pub engine: &'static str,
    /// The operation.
    pub operation: &'static str,
    /// Bytes; `None`: no limit.
    pub limit_bytes: Option<u64>,
    /// How each run ended.
    pub ended: Vec<Ended>,
    /// Median of all runs.
    pub seconds: f64,
    /// The most of all runs.
    pub peak_bytes: u64,
}

impl Runs {
    /// True where all runs gave the right answer.
    pub fn finished(&self) -> bool {
        self.ended.iter().all(|ended| *ended == Ended::Right)
    }

    /// True where all runs ended alike.
    pub fn is_steady(&self) -> bool {
        let kind = |ended: &Ended| std::mem::discriminant(ended);
        self.ended.iter().all(|ended| kind(ended) == kind(&self.ended[0]))
    }
}

/// Runs everything; `say` is told each step.
///
/// # Errors
///
/// Of making the tables, of starting a child; an operation that fails without a limit.
pub fn run(options: &LimitsOptions, cancel: &CancelFlag, say: &dyn Fn(&str)) -> Result<Vec<Runs>> {
    let wanted =
        |name: &str| options.only.is_empty() || options.only.iter().any(|start| name.starts_with(start));
    let operations: Vec<Operation> =
        OPERATIONS.into_iter().filter(|operation| wanted(operation.name)).collect();
    if operations.is_empty() || options.runs == 0 {
        return Err(Error::invalid_input("nothing to run: see --only and --runs"));
    }
    let tables = Tables::new(&options.dir, options.rows);
    tables.prepare(cancel, say)?;
    let bench = Bench { options, tables: &tables, cancel, script: tables.dir.join("peer.py") };
    bench.prepare_peer(say)?;
    let mut all = Vec::new();
    for operation in operations {
        let mut right = None;
        for limit in std::iter::once(None).chain(options.limits.iter().copied().map(Some)) {
            cancel.check()?;
            let ours = bench.runs("pelton", operation, limit, &mut right)?;
            say(&line(&ours));
            if limit.is_none() && !ours.finished() {
                return Err(Error::new(ErrorKind::Io, format!("without a limit: {}", line(&ours))));
            }
            all.push(ours);
            if options.python.is_some() {
                let theirs = bench.runs("duckdb", operation, limit, &mut right)?;
                say(&line(&theirs));
                all.push(theirs);
            }
        }
    }
    Ok(all)
}

/// The Python `program`, if it has DuckDB and what its rows are counted with.
pub fn python_with_peer(program: &str) -> Option<PathBuf> {
    let mut command = Command::new(program);
    command.args(["-c", "import duckdb, pyarrow.compute"]).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success()).then(|| PathBuf::from(program))
}

/// The operation called `name`.
pub(crate) fn operation(name: &str) -> Result<Operation> {
    Operation::named(name).ok_or_else(|| Error::invalid_input(format!("no operation is called '{name}'")))
}

struct Bench<'a> {
    options: &'a LimitsOptions,
    tables: &'a Tables,
    cancel: &'a CancelFlag,
    script: PathBuf,
}

impl Bench<'_> {
    /// Has DuckDB make its tables, unless it has.
    fn prepare_peer(&self, say: &dyn Fn(&str)) -> Result<()> {
        if self.options.python.is_none() {
            return Ok(());
        }
        std::fs::write(&self.script, PEER).context(|| format!("writing '{}'", self.script.display()))?;
        let database = self.tables.dir.join("peer.duckdb");
        if database.exists() {
            return Ok(());
        }
        let status = self.peer(None, "").status().context(|| "starting DuckDB".into())?;
        if !status.success() {
            return Err(Error::new(ErrorKind::Io, "DuckDB could not make its tables"));
        }
        say("made the tables of DuckDB");
        Ok(())
    }

    fn peer(&self, limit: Option<u64>, sql: &str) -> Command {
        let mut command = Command::new(self.options.python.as_deref().unwrap_or(Path::new("python3")));
        command.arg(&self.script).arg(&self.tables.dir).arg(self.tables.dir.join("peer.duckdb"));
        command.arg(limit.map_or("none".to_owned(), |limit| limit.to_string()));
        command.arg(self.options.threads.to_string()).arg(self.spill_dir()).arg(sql);
        command
    }

    fn ours(&self, limit: Option<u64>, operation: Operation) -> Command {
        let mut command = Command::new(&self.options.program);
        command.args(["bench", "limits", "--child", operation.name]);
        command.arg("--memory-limit").arg(limit.map_or("none".to_owned(), |limit| limit.to_string()));
        command.arg("--rows").arg(self.tables.rows.to_string()).arg("--dir").arg(&self.options.dir);
        command.arg("--threads").arg(self.options.threads.to_string());
        command.arg("--spill-dir").arg(self.spill_dir());
        command
    }

    fn spill_dir(&self) -> PathBuf {
        self.tables.dir.join("spill")
    }

    /// Runs `operation` as often as it is to be; the first answer of all, which has no limit, is the right one.
    fn runs(
        &self,
        engine: &'static str,
        operation: Operation,
        limit: Option<u64>,
        right: &mut Option<Answer>,
    ) -> Result<Runs> {
        let (mut ended, mut seconds, mut peak) = (Vec::new(), Vec::new(), 0);
        for _ in 0..self.options.runs {
            let command = match engine {
                "pelton" => self.ours(limit, operation),
                _ => self.peer(limit, &operation.sql(self.tables.rows)),
            };
            let (printed, took, peak_seen) = self.child(command)?;
            ended.push(match &printed {
                Some(Printed { answer: Some(answer), .. }) => {
                    let right = right.get_or_insert_with(|| answer.clone());
                    if same(answer, right) { Ended::Right } else { Ended::Wrong }
                }
                Some(Printed { error: Some(error), .. }) => Ended::Failed(error.clone()),
                _ => Ended::Killed,
            });
            peak = peak.max(peak_seen).max(printed.as_ref().map_or(0, |printed| printed.peak_bytes));
            seconds.push(printed.map_or(took.as_secs_f64(), |printed| printed.seconds));
        }
        let (seconds, operation) = (median(&seconds), operation.name);
        Ok(Runs { engine, operation, limit_bytes: limit, ended, seconds, peak_bytes: peak })
    }

    /// Runs a child to its end: what it printed, if that was all of it, its time, and the most that was seen of it.
    fn child(&self, mut command: Command) -> Result<(Option<Printed>, Duration, u64)> {
        let started = Instant::now();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context(|| format!("starting {:?}", command.get_program()))?;
        let (mut peak, id) = (0, child.id().to_string());
        // What a child prints is a line or two: it fits the pipes.
        let status = loop {
            if let Some(status) = child.try_wait().context(|| "waiting for a run".into())? {
                break Some(status);
            }
            peak = peak_bytes(&id).unwrap_or(0).max(peak);
            if started.elapsed() > self.options.time_limit || self.cancel.is_cancelled() {
                let _ = child.kill();
                let _ = child.wait();
                self.cancel.check()?;
                break None;
            }
            std::thread::sleep(LOOK);
        };
        let read = |pipe: Option<&mut dyn Read>| {
            let mut text = String::new();
            pipe.into_iter().for_each(|pipe| drop(pipe.read_to_string(&mut text)));
            text
        };
        let printed = read(child.stdout.as_mut().map(|pipe| pipe as _));
        let complaint = read(child.stderr.as_mut().map(|pipe| pipe as _));
        let printed = match (status, serde_json::from_str::<Printed>(printed.trim())) {
            (None, _) => None,
            (Some(_), Ok(printed)) => Some(printed),
            // One that ended itself says why.
            (Some(status), Err(_)) if status.code().is_some() => Some(Printed {
                answer: None,
                error: Some(complaint.lines().last().unwrap_or("no words").to_owned()),
                seconds: started.elapsed().as_secs_f64(),
                peak_bytes: peak,
            }),
            _ => None,
        };
        Ok((printed, started.elapsed(), peak))
    }
}

fn same(answer: &Answer, right: &Answer) -> bool {
    // Another engine's answer has no checksum, and numbers only where both have them.
    let sums = answer.sums.iter().zip(&right.sums);
    let same_sums = sums.filter(|(a, b)| !a.is_empty() && !b.is_empty()).all(|(a, b)| a == b);
    answer.rows == right.rows
        && same_sums
        && answer.sums.len() == right.sums.len()
        && (answer.checksum.is_empty() || answer.checksum == right.checksum)
}

/// The most memory that a process had resident, as the kernel counts it.
pub(crate) fn peak_bytes(process: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib << 10)
}

fn limit_text(limit: Option<u64>) -> String {
    limit.map_or("none".to_owned(), bytes_text)
}

fn line(runs: &Runs) -> String {
    let ended = match runs.ended.iter().find(|ended| **ended != Ended::Right) {
        None => "ok".to_owned(),
        Some(Ended::Failed(why)) => why.chars().take(160).collect(),
        Some(other) => format!("{other:?}").to_uppercase(),
    };
    format!(
        "{} {} under {}: {ended}, {:.2} s, {} resident",
        runs.engine,
        runs.operation,
        limit_text(runs.limit_bytes),
        runs.seconds,
        bytes_text(runs.peak_bytes)
    )
}

/// Of each limit and engine: what finished, memory beyond the limit, and time in terms of the peer's.
pub fn table(all: &[Runs]) -> TextTable {
    let header =
        ["limit", "engine", "finished", "one outcome", "most beyond", "slowest ratio", "not finished"];
    let mut table = TextTable::new(&header);
    let mut limits: Vec<Option<u64>> = Vec::new();
    for runs in all {
        if !limits.contains(&runs.limit_bytes) {
            limits.push(runs.limit_bytes);
        }
    }
    for limit in limits {
        for engine in ["pelton", "duckdb"] {
            let these: Vec<&Runs> =
                all.iter().filter(|runs| runs.engine == engine && runs.limit_bytes == limit).collect();
            if these.is_empty() {
                continue;
            }
            let finished = these.iter().filter(|runs| runs.finished()).count();
            let steady = these.iter().filter(|runs| runs.is_steady()).count();
            let peak = these.iter().map(|runs| runs.peak_bytes).max().unwrap_or(0);
            let failed: Vec<&str> =
                these.iter().filter(|runs| !runs.finished()).map(|runs| runs.operation).collect();
            table.push(vec![
                limit_text(limit),
                engine.to_owned(),
                format!("{finished} of {}", these.len()),
                format!("{steady} of {}", these.len()),
                limit.map_or(bytes_text(peak), |limit| bytes_text(peak.saturating_sub(limit))),
                slowest(all, &these).unwrap_or_else(|| "-".to_owned()),
                failed.join(" "),
            ]);
        }
    }
    table
}

/// The largest ratio of Pelton's time to the peer's, where both finished.
fn slowest(all: &[Runs], these: &[&Runs]) -> Option<String> {
    let ratio = |ours: &Runs| {
        let is_peer = |runs: &&Runs| {
            (runs.engine, runs.operation, runs.limit_bytes) == ("duckdb", ours.operation, ours.limit_bytes)
        };
        let theirs = all.iter().find(is_peer).filter(|theirs| theirs.finished() && ours.finished())?;
        Some((ours.seconds / theirs.seconds, ours.operation))
    };
    let ours = these.iter().filter(|runs| runs.engine == "pelton");
    let worst = ours.filter_map(|runs| ratio(runs)).max_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(format!("{:.1} ({})", worst.0, worst.1))
}

/// Every operation under every limit, one line each.
pub fn details(all: &[Runs]) -> TextTable {
    let mut table = TextTable::new(&["operation", "limit", "engine", "ended", "s", "resident"]);
    for runs in all {
        let ended = match runs.ended.iter().find(|ended| **ended != Ended::Right) {
            None => "ok",
            Some(Ended::Failed(_)) => "error",
            Some(Ended::Wrong) => "WRONG",
            _ => "killed",
        };
        table.push(vec![
            runs.operation.to_owned(),
            limit_text(runs.limit_bytes),
            runs.engine.to_owned(),
            if runs.is_steady() { ended.to_owned() } else { format!("{ended} at times") },
            format!("{:.2}", runs.seconds),
            bytes_text(runs.peak_bytes),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(rows: u64, checksum: &str, sums: &[&str]) -> Answer {
        let sums = sums.iter().map(|sum| (*sum).to_owned()).collect();
        Answer { rows, checksum: checksum.to_owned(), sums }
    }

    #[test]
    fn answers_of_another_engine_are_compared_by_rows_and_sums() {
        let right = answer(2, "ab", &["7", ""]);
        assert!(same(&right, &right) && same(&answer(2, "", &["7", "5"]), &right));
        for wrong in [answer(3, "", &["7", ""]), answer(2, "", &["8", ""]), answer(2, "ac", &["7", ""])] {
            assert!(!same(&wrong, &right), "{wrong:?}");
        }
        assert!(!same(&answer(2, "", &["7"]), &right), "a column is missing");
    }

    #[test]
    fn runs_that_end_in_two_ways_are_not_steady() {
        let runs = |ended: Vec<Ended>| Runs {
            engine: "pelton",
            operation: "sort_int",
            limit_bytes: Some(1),
            ended,
            seconds: 1.0,
            peak_bytes: 3,
        };
        let (failed, other) = (Ended::Failed("a".into()), Ended::Failed("b".into()));
        assert!(runs(vec![failed.clone(), other]).is_steady());
        let mixed = runs(vec![Ended::Right, failed]);
        assert!(!mixed.is_steady() && !mixed.finished());
        assert!(table(&[mixed]).to_string().contains("0 of 1"));
    }
}
