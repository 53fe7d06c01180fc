//! Runs the built command over a directory of its own.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A directory with a warehouse, inputs, and a place for temporary files, all removed at the end.
pub(crate) struct Place {
    directory: TempDir,
}

/// What a finished command left.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) status: Option<i32>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Place {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        std::fs::create_dir(directory.path().join("tmp")).unwrap();
        Self { directory }
    }

    /// As [`new`](Self::new), with a warehouse without tables, for queries that need none.
    pub(crate) fn with_warehouse() -> Self {
        let place = Self::new();
        std::fs::create_dir(place.path("warehouse")).unwrap();
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn text_path(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// Writes `text` as file `name` and gives its path.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        std::fs::write(self.path(name), text).unwrap();
        self.text_path(name)
    }

    /// The command, with the warehouse and temporary files of this place.
    pub(crate) fn pelton(&self) -> Command {
        self.prepared(env!("CARGO_BIN_EXE_pelton"))
    }

    /// As from a terminal that may go away: a program that ignores that, as under `nohup`, hands it on to its children.
    pub(crate) fn pelton_of_terminal(&self) -> Command {
        let mut command = self.prepared("env");
        command.args(["--default-signal=HUP", env!("CARGO_BIN_EXE_pelton")]);
        command
    }

    /// Any program in the same surroundings.
    pub(crate) fn prepared(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.directory.path())
            .env("PELTON_WAREHOUSE", self.path("warehouse"))
            .env("TMPDIR", self.path("tmp"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Outcome {
        outcome(self.pelton().args(args).spawn().unwrap())
    }

    /// Runs what must succeed; gives standard output.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let outcome = self.run(args);
        assert_eq!(outcome.status, Some(0), "pelton {args:?}: {}", outcome.stderr);
        String::from_utf8(outcome.stdout).unwrap()
    }

    /// Runs what must fail with status 1 and nothing on standard output; gives the message.
    pub(crate) fn fails(&self, args: &[&str]) -> String {
        let outcome = self.run(args);
        assert_eq!(outcome.status, Some(1), "pelton {args:?}: {}", outcome.stderr);
        assert_eq!(outcome.stdout, b"", "pelton {args:?}");
        assert!(outcome.stderr.starts_with("pelton: "), "{}", outcome.stderr);
        outcome.stderr
    }

    /// The rows of a query, one line each, without the header.
    pub(crate) fn rows(&self, query: &str) -> Vec<String> {
        let text = self.ok(&["sql", "--format", "csv", query]);
        text.lines().skip(1).map(str::to_owned).collect()
    }

    /// The names of all files and folders below the warehouse but locks, sorted.
    pub(crate) fn warehouse_files(&self) -> Vec<String> {
        let mut names = Vec::new();
        list(&self.path("warehouse"), &self.path("warehouse"), &mut names);
        names.retain(|name| !name.ends_with("/lock"));
        names.sort();
        names
    }

    /// Files that were left in the place for temporary files; the folder to spill to stays, empty.
    pub(crate) fn temporary_files(&self) -> Vec<String> {
        let mut names = Vec::new();
        list(&self.path("tmp"), &self.path("tmp"), &mut names);
        names.retain(|name| !name.starts_with("pelton-spill-") || name.contains('/'));
        names
    }
}

fn list(root: &Path, directory: &Path, names: &mut Vec<String>) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries {
        let path = entry.unwrap().path();
        names.push(path.strip_prefix(root).unwrap().display().to_string());
        list(root, &path, names);
    }
}

/// Waits for the end of `child`, which must come.
pub(crate) fn outcome(child: Child) -> Outcome {
    let pid = Pid::from_child(&child);
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let _ = sender.send(child.wait_with_output().unwrap());
    });
    match receiver.recv_timeout(PATIENCE) {
        Ok(output) => Outcome {
            status: output.status.code(),
            stdout: output.stdout,
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        },
        Err(_) => {
            let _ = kill_process(pid, Signal::KILL);
            panic!("the command did not end within {PATIENCE:?}");
        }
    }
}

/// Sends Ctrl-C.
pub(crate) fn interrupt(child: &Child) {
    // The process may have ended by itself, which the caller's check of its status shows.
    let _ = kill_process(Pid::from_child(child), Signal::INT);
}

/// Waits until `condition` holds or `child` has ended; true where it holds.
pub(crate) fn wait_until(child: &mut Child, condition: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    while !condition() {
        if child.try_wait().unwrap().is_some() {
            return condition();
        }
        assert!(start.elapsed() < PATIENCE, "what was waited for did not happen");
        std::thread::sleep(Duration::from_millis(2));
    }
    true
}

/// True once the process handles Ctrl-C itself.
pub(crate) fn handles_interrupts(pid: u32) -> bool {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = text.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    caught.is_some_and(|mask| mask & 1 << (Signal::INT.as_raw() - 1) != 0)
}

/// Bytes of the files below `folder` that process `pid` has open and that have no name.
pub(crate) fn nameless_bytes(pid: u32, folder: &str) -> u64 {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return 0 };
    let bytes = entries.filter_map(|entry| {
        let path = entry.ok()?.path();
        let target = std::fs::read_link(&path).ok()?.into_os_string().into_string().ok()?;
        let is_nameless = target.starts_with(folder) && target.ends_with(" (deleted)");
        is_nameless.then(|| std::fs::metadata(&path).map_or(0, |file| file.len()))
    });
    bytes.sum()
}

/// A line of `/proc/<pid>/status`, in bytes.
pub(crate) fn status_bytes(pid: u32, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim_start_matches(':').trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// Runs `child` to its end; gives its status and the most memory it was seen to hold.
pub(crate) fn watched(mut child: Child) -> (ExitStatus, u64) {
    let mut peak = 0;
    loop {
        peak = status_bytes(child.id(), "VmHWM").unwrap_or(0).max(peak);
        if let Some(status) = child.try_wait().unwrap() {
            return (status, peak);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// CSV of `row_count` rows: `k` ascends from `first`, `g` has a hundred values, `x` is a price, `t` is text.
pub(crate) fn csv(first: u64, row_count: u64) -> String {
    let mut text = String::with_capacity(row_count as usize * 40 + 16);
    text.push_str("k,g,x,t\n");
    for k in first..first + row_count {
        let mixed = k.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        writeln!(text, "{k},{},{}.{:02},text number {mixed}", mixed % 100, mixed % 10_000, mixed % 100)
            .unwrap();
    }
    text
}
