//! The commands that README.md shows, run as a reader would: in order, in an empty directory.
//!
//! Code blocks marked `sh` hold them. Lines that begin with `pelton` are run, continued by `\` at the end of a
//! line; the others (make, git, export) are for the reader's machine and are passed over.

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
    let commands = shown(&workspace.file(README)?.text);
    if commands.is_empty() {
        return Err(format!("{README} shows no `pelton` command"));
    }
    let directory = workspace.root.join("build/readme");
    empty(&directory)?;
    let path = path_with(workspace)?;
    let mut failed = Vec::new();
    for command in &commands {
        println!("$ {}", command.text);
        let mut shell = process::command(&directory, "bash", &["-o", "pipefail", "-c", &command.text]);
        shell.env("PATH", &path).env_remove("PELTON_WAREHOUSE");
        if process::run(&mut shell).is_err() {
            failed.push(format!("{README}:{}: {}", command.line, command.text));
        }
    }
    println!("readme: {} commands, {} failed", commands.len(), failed.len());
    if failed.is_empty() { Ok(()) } else { Err(format!("these commands failed:\n{}", failed.join("\n"))) }
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
        let (text, continues) = match line.strip_suffix('\\') {
            Some(text) => (text.trim(), true),
            None => (line.trim(), false),
        };
        match commands.last_mut().filter(|_| is_continued) {
            Some(command) => command.text = format!("{} {text}", command.text),
            None => commands.push(Shown { line: *number, text: text.to_owned() }),
        }
        is_continued = continues;
    }
    commands
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
make demo
pelton load --table a \\
    a.csv
pelton sql 'SELECT 1' | head
```
```text
pelton sql 'not run'
```
";
        let commands = shown(readme);
        assert_eq!(commands.len(), 2);
        assert_eq!(commands[0], Shown { line: 3, text: "pelton load --table a a.csv".into() });
        assert_eq!(commands[1].text, "pelton sql 'SELECT 1' | head");
    }
}
