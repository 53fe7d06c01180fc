//! A pseudo-terminal with the shell on it, and the screen that a user would see.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nix::pty::{Winsize, openpty};
use tempfile::TempDir;

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const PROMPT: &str = "pelton>";
pub(crate) const ENTER: &str = "\r";
pub(crate) const TAB: &str = "\t";
pub(crate) const UP: &str = "\x1b[A";
pub(crate) const DOWN: &str = "\x1b[B";
/// Ctrl-L.
pub(crate) const CLEAR: &str = "\x0c";
pub(crate) const CTRL_C: &str = "\x03";
pub(crate) const CTRL_D: &str = "\x04";
pub(crate) const CTRL_E: &str = "\x05";

/// A home, a warehouse and temporary files of one test.
pub(crate) struct Place {
    directory: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        for name in ["tmp", "home"] {
            std::fs::create_dir(directory.path().join(name)).unwrap();
        }
        Self { directory }
    }

    /// With a warehouse of table `fruit`: id, name, price.
    pub(crate) fn with_fruit() -> Self {
        let place = Self::new();
        let rows = place.file("fruit.csv", "id,name,price\n1,apple,1.5\n2,pear,2.25\n3,plum,0.75\n");
        let run = place.command(&["load", "--quiet", "--table", "fruit", &rows]).output().unwrap();
        assert!(run.status.success(), "{run:?}");
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes `text` as file `name` and gives its path.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        std::fs::write(self.path(name), text).unwrap();
        self.path(name).display().to_string()
    }

    /// The command in these surroundings.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pelton"));
        command.args(args);
        self.surround(&mut command);
        command.stdin(Stdio::null());
        command
    }

    fn surround(&self, command: &mut Command) {
        command.current_dir(self.directory.path());
        let unset =
            ["PELTON_PAGER", "NO_COLOR", "LESS", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "PELTON_WAREHOUSE"];
        for name in unset {
            command.env_remove(name);
        }
        command.env("PAGER", "cat").env("TERM", "xterm");
        command.env("TMPDIR", self.path("tmp")).env("HOME", self.path("home"));
    }

    /// Runs the shell with `input` on a pipe.
    pub(crate) fn pipe(&self, args: &[&str], input: &str) -> Output {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A shell that does not read its input has ended, which its status shows.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        child.wait_with_output().unwrap()
    }

    /// Files in the place for temporary ones, at any depth, folders left out.
    pub(crate) fn temporary_files(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        let mut folders = vec![self.path("tmp")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                if entry.path().is_dir() { folders.push(entry.path()) } else { files.push(entry.path()) }
            }
        }
        files
    }

    /// The shell on a terminal of 40 rows and 100 columns, ready for input.
    pub(crate) fn shell(&self) -> Terminal {
        self.shell_with(40, 100, &[])
    }

    /// The shell on a terminal of this size, with these variables, ready for input.
    pub(crate) fn shell_with(&self, rows: u16, columns: u16, variables: &[(&str, &str)]) -> Terminal {
        let mut terminal = self.terminal(rows, columns, variables, &[]);
        terminal.wait_for_prompt();
        terminal
    }

    /// The command on a terminal.
    pub(crate) fn terminal(
        &self,
        rows: u16,
        columns: u16,
        variables: &[(&str, &str)],
        args: &[&str],
    ) -> Terminal {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(&size, None).unwrap();
        // A program of its own makes the terminal the controlling one: only so Ctrl-C becomes a signal.
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg(env!("CARGO_BIN_EXE_pelton")).args(args);
        self.surround(&mut command);
        command.envs(variables.iter().copied());
        let end = |fd: &OwnedFd| Stdio::from(fd.try_clone().unwrap());
        command.stdin(end(&pty.slave)).stdout(end(&pty.slave)).stderr(end(&pty.slave));
        let child = command.spawn().unwrap();
        let screen =
            Arc::new(Mutex::new(Screen { parser: vt100::Parser::new(rows, columns, 0), raw: Vec::new() }));
        let (master, reader) = (File::from(pty.master.try_clone().unwrap()), File::from(pty.master));
        let shown = Arc::clone(&screen);
        std::thread::spawn(move || show(reader, &shown));
        Terminal { child, master, screen }
    }
}

struct Screen {
    parser: vt100::Parser,
    raw: Vec<u8>,
}

/// Draws what comes out of the terminal until it is closed.
fn show(mut reader: File, screen: &Mutex<Screen>) {
    let mut buffer = [0; 4096];
    while let Ok(length @ 1..) = reader.read(&mut buffer) {
        let mut screen = screen.lock().unwrap();
        screen.parser.process(&buffer[..length]);
        screen.raw.extend_from_slice(&buffer[..length]);
    }
}

/// The command on its terminal.
pub(crate) struct Terminal {
    child: Child,
    master: File,
    screen: Arc<Mutex<Screen>>,
}

impl Terminal {
    /// Presses keys.
    pub(crate) fn press(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    /// Types `line` and Enter, and waits until the shell asks for more.
    pub(crate) fn enter(&mut self, line: &str) -> String {
        let before = self.prompt_count();
        self.press(&format!("{line}{ENTER}"));
        let start = Instant::now();
        while self.prompt_count() == before {
            assert!(start.elapsed() < PATIENCE, "no prompt after {line}; the screen:\n{}", self.text());
            std::thread::sleep(Duration::from_millis(10));
        }
        self.wait_for_prompt();
        self.text()
    }

    /// How often the shell has begun to read a line: it then asks for pasted text to be marked.
    fn prompt_count(&self) -> usize {
        self.raw().matches("\x1b[?2004h").count()
    }

    /// Waits until the shell asks for input.
    pub(crate) fn wait_for_prompt(&mut self) {
        self.wait_until("the prompt", |lines| lines.last().is_some_and(|last| last == PROMPT));
    }

    /// Waits until `text` is on the screen.
    pub(crate) fn wait_for(&mut self, text: &str) {
        self.wait_until(text, |lines| lines.iter().any(|line| line.contains(text)));
    }

    /// Waits until the lines of the screen, but for blank ones at the end, are as `condition` says.
    pub(crate) fn wait_until(&mut self, what: &str, condition: impl Fn(&[String]) -> bool) {
        let start = Instant::now();
        let mut has_ended = false;
        loop {
            // What a command wrote last may come after its end.
            if condition(&self.lines()) {
                return;
            }
            assert!(!has_ended, "{what} did not come before the end; the screen:\n{}", self.text());
            has_ended = self.child.try_wait().unwrap().is_some();
            if has_ended {
                std::thread::sleep(Duration::from_millis(300));
            }
            assert!(start.elapsed() < PATIENCE, "{what} did not come; the screen:\n{}", self.text());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The lines of the screen without blanks at their ends; blank lines at the end left out.
    pub(crate) fn lines(&self) -> Vec<String> {
        let screen = self.screen.lock().unwrap();
        let contents = screen.parser.screen().contents();
        let mut lines: Vec<String> = contents.lines().map(|line| line.trim_end().to_owned()).collect();
        while lines.last().is_some_and(String::is_empty) {
            lines.pop();
        }
        lines
    }

    /// The screen as one text.
    pub(crate) fn text(&self) -> String {
        self.lines().join("\n")
    }

    /// All that came out of the terminal, with its control codes.
    pub(crate) fn raw(&self) -> String {
        String::from_utf8_lossy(&self.screen.lock().unwrap().raw).into_owned()
    }

    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// The exit status, which must come.
    pub(crate) fn status(&mut self) -> Option<i32> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(start.elapsed() < PATIENCE, "the command did not end; the screen:\n{}", self.text());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // A test that failed leaves a shell that waits for input.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
