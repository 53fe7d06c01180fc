//! Child processes: started in a directory, their failure a message that shows the command.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// A message for the person at the terminal.
pub(crate) type Result<T> = std::result::Result<T, String>;

/// A program and its arguments, to be run in `dir`.
pub(crate) fn command<A: AsRef<std::ffi::OsStr>>(
    dir: &Path,
    program: impl AsRef<std::ffi::OsStr>,
    args: &[A],
) -> Command {
    let mut command = Command::new(program);
    command.current_dir(dir).args(args);
    // What cargo told this program of itself: build scripts look at some of it, and would run again, and everything
    // above them be compiled again, whenever a task and a person build in turn.
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_of_this_program(&name.to_string_lossy())) {
        command.env_remove(name);
    }
    command
}

fn is_of_this_program(variable: &str) -> bool {
    variable.starts_with("CARGO_PKG_") || variable.starts_with("CARGO_MANIFEST_")
}

/// The cargo that started this program.
pub(crate) fn cargo(dir: &Path, args: &[&str]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    command(dir, program, args)
}

/// Runs it with this program's terminal; an exit status other than 0 is an error.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().map_err(|error| cannot_start(command, &error))?;
    if status.success() { Ok(()) } else { Err(format!("`{}` ended with {status}", text(command))) }
}

/// Runs it and returns its standard output.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command.stderr(Stdio::inherit()).output().map_err(|error| cannot_start(command, &error))?;
    if !output.status.success() {
        return Err(format!("`{}` ended with {}", text(command), output.status));
    }
    String::from_utf8(output.stdout)
        .map_err(|_| format!("`{}` wrote bytes that are not UTF-8", text(command)))
}

/// Runs it, passes its standard output on line by line and shows each line to `see`.
pub(crate) fn run_watched(command: &mut Command, mut see: impl FnMut(&str)) -> Result<()> {
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(|error| cannot_start(command, &error))?;
    let stdout = child.stdout.take().expect("standard output is piped");
    for line in BufReader::new(stdout).lines() {
        let line = line.map_err(|error| format!("reading the output of `{}`: {error}", text(command)))?;
        println!("{line}");
        see(&line);
    }
    let status = child.wait().map_err(|error| format!("waiting for `{}`: {error}", text(command)))?;
    if status.success() { Ok(()) } else { Err(format!("`{}` ended with {status}", text(command))) }
}

/// The command as one would type it.
pub(crate) fn text(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

fn cannot_start(command: &Command, error: &std::io::Error) -> String {
    format!("cannot start `{}`: {error}", text(command))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_shows_the_command_and_its_status() {
        let message = run(&mut command(Path::new("/"), "sh", &["-c", "exit 3"])).unwrap_err();
        assert!(message.contains("`sh -c exit 3`") && message.contains('3'), "{message}");
        let message = run(&mut command(Path::new("/"), "pelton-no-such-program", &[""; 0])).unwrap_err();
        assert!(message.starts_with("cannot start `pelton-no-such-program`"), "{message}");
    }

    #[test]
    fn watched_lines_are_all_seen() {
        let mut lines = Vec::new();
        run_watched(&mut command(Path::new("/"), "sh", &["-c", "echo a; echo b"]), |line| {
            lines.push(line.to_owned())
        })
        .unwrap();
        assert_eq!(lines, ["a", "b"]);
    }
}
