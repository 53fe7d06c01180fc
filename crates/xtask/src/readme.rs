//! The commands that README.md shows, run as a reader would: in order, in an empty directory.
//!
//! Code blocks marked `sh` hold them. Lines that begin with `pelton` are run, with the lines that continue them: after
//! a `\` at the end of a line, or within quotes. The others (make, git, export) are for the reader's machine and are
//! passed over.

use std::ffi::OsString;
use std::path::Path;

use crate::markdown;
use crate::process::{self, Result};
use crate::workspace::Workspace;

const README: &str = "README.md";

/// A command with the line it begins at.
#[derive(Debug, PartialEq, Eq)]
struct Shown {
    line: usize,
    text: String,
}

/// Runs them all and says which failed.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let count = run_page(workspace, README, &workspace.root.join("build/readme"))?;
    if count == 0 {
        return Err(format!("{README} shows no `pelton` command"));
    }
    Ok(())
}

/// Runs the commands of `page` in `directory`, which is empty at first; gives their number.
pub(crate) fn run_page(workspace: &Workspace, page: &str, directory: &Path) -> Result<usize> {
    let commands = shown(&workspace.file(page)?.text);
    empty(directory)?;
    let path = path_with(workspace)?;
    let mut failed = Vec::new();
    for command in &commands {
        println!("$ {}", command.text);
        let mut shell = process::command(directory, "bash", &["-o", "pipefail", "-c", &command.text]);
        shell.env("PATH", &path).env_remove("PELTON_WAREHOUSE");
        if process::run(&mut shell).is_err() {
            failed.push(format!("{page}:{}: {}", command.line, command.text));
        }
    }
    println!("{page}: {} commands, {} failed", commands.len(), failed.len());
    match failed.is_empty() {
        true => Ok(commands.len()),
        false => Err(format!("these commands failed:\n{}", failed.join("\n"))),
    }
}

/// The `pelton` commands of all `sh` blocks.
fn shown(readme: &str) -> Vec<Shown> {
    let blocks = markdown::blocks(readme).into_iter().filter(|block| block.language == "sh");
    let commands = blocks.flat_map(|block| joined(&block.lines));
    commands.filter(|command| command.text.starts_with("pelton ")).collect()
}

/// Lines with their continuations.
fn joined(lines: &[(usize, String)]) -> Vec<Shown> {
    let mut commands: Vec<Shown> = Vec::new();
    let mut is_continued = false;
    for (number, line) in lines {
        let text = line.trim();
        match commands.last_mut().filter(|_| is_continued) {
            Some(command) => command.text = format!("{} {text}", command.text),
            None => commands.push(Shown { line: *number, text: text.to_owned() }),
        }
        let command = &mut commands.last_mut().expect("a command was pushed or continued").text;
        let unescaped = command.strip_suffix('\\').map(|text| text.trim_end().to_owned());
        is_continued = unescaped.is_some() || is_in_quotes(command);
        if let Some(text) = unescaped {
            *command = text;
        }
    }
    commands
}

/// Whether a quote of the shell that opened in `command` is still open at its end.
fn is_in_quotes(command: &str) -> bool {
    let mut open = None;
    let mut chars = command.chars();
    while let Some(char) = chars.next() {
        match (open, char) {
            (None, '#') => return false,
            (None, '"' | '\'') => open = Some(char),
            (Some('"') | None, '\\') => drop(chars.next()),
            (Some(quote), char) if char == quote => open = None,
            _ => {}
        }
    }
    open.is_some()
}

/// `$PATH` with the freshly built command in front.
fn path_with(workspace: &Workspace) -> Result<OsString> {
    let binary = workspace.pelton();
    let folder = binary.parent().expect("the command lies in the target directory").to_owned();
    let rest = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths(std::iter::once(folder).chain(std::env::split_paths(&rest)))
        .map_err(|error| format!("extending PATH: {error}"))
}

/// Makes `directory` and removes what an earlier run left in it.
pub(crate) fn empty(directory: &Path) -> Result<()> {
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(format!("removing {}: {error}", directory.display()));
        }
        _ => {}
    }
    std::fs::create_dir_all(directory).map_err(|error| format!("creating {}: {error}", directory.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_come_from_sh_blocks_with_their_continuations() {
        let readme = "\
```sh
make demo  # what's this
pelton load --table a \\
    a.csv
pelton sql \"SELECT 'x'
            FROM t\"
pelton sql 'SELECT 1' | head
```
```text
pelton sql 'not run'
```
";
        let commands = shown(readme);
        assert_eq!(commands.len(), 3);
        assert_eq!(commands[0], Shown { line: 3, text: "pelton load --table a a.csv".into() });
        assert_eq!(commands[1], Shown { line: 5, text: "pelton sql \"SELECT 'x' FROM t\"".into() });
        assert_eq!(commands[2].text, "pelton sql 'SELECT 1' | head");
    }

    #[test]
    fn quotes_open_and_close_as_in_the_shell() {
        for text in ["a 'b", "a \"b 'c'", "a \"b \\\" c"] {
            assert!(is_in_quotes(text), "{text}");
        }
        for text in ["a 'b'", "a \"b ' c\"", "a \"b \\\" c\"", "a # it's"] {
            assert!(!is_in_quotes(text), "{text}");
        }
    }
}
