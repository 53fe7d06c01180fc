//! What a reviewer should not have to say.
//!
//! | check | what it holds against what |
//! |---|---|
//! | `imports` | dependencies of each crate against the tables of ARCHITECTURE.md |
//! | `unsafe_homes` | `unsafe` in sources against the list of ARCHITECTURE.md |
//! | `words` | sources and documents against the table "say, not" of GLOSSARY.md |
//! | `sources` | heads of files, marks of unfinished work, length |
//! | `console` | macros that panic on a closed output, in sources of the programs |
//! | `links` | links and mentions of documents against the files there are |
//!
//! Every check is a function from texts to findings. A finding says where, what is wrong and the remedy.

mod console;
mod imports;
mod links;
mod sources;
mod unsafe_homes;
mod words;

use std::fmt;

use crate::process::Result;
use crate::workspace::Workspace;

const ARCHITECTURE: &str = "ARCHITECTURE.md";
const GLOSSARY: &str = "GLOSSARY.md";

/// Something to put right.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    /// From 1; 0 is the file as a whole.
    line: usize,
    /// What is wrong, and the remedy behind a semicolon.
    message: String,
}

impl Finding {
    fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.message),
            line => write!(f, "{}:{line}: {}", self.path, self.message),
        }
    }
}

/// Runs all checks, prints what they find, and fails if that is anything.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let findings = check(workspace)?;
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => {
            println!(
                "tidy: {} files, {} crates, nothing to say",
                workspace.files.len(),
                workspace.packages.len()
            );
            Ok(())
        }
        count => Err(format!("tidy: {count} to put right")),
    }
}

fn check(workspace: &Workspace) -> Result<Vec<Finding>> {
    let architecture = workspace.file(ARCHITECTURE)?;
    let glossary = workspace.file(GLOSSARY)?;
    let files = &workspace.files;
    let mut findings = [
        imports::tables(&workspace.packages, &architecture.text),
        imports::unused(&workspace.packages, files),
        imports::described(&workspace.packages, &architecture.text),
        unsafe_homes::check(files, &architecture.text),
        words::check(files, &glossary.text),
        sources::heads(files),
        sources::unfinished(files),
        sources::lengths(files),
        console::check(files),
        links::links(&workspace.root, files),
        links::mentions(&workspace.root, files),
    ]
    .concat();
    findings.sort();
    Ok(findings)
}

/// Positions of `word` in `line` that are not inside a longer word; letters and digits make words.
fn word_positions(line: &str, word: &str) -> Vec<usize> {
    let is_border = |char: Option<char>| char.is_none_or(|char| !char.is_alphanumeric());
    line.match_indices(word)
        .filter(|(at, _)| {
            is_border(line[..*at].chars().next_back()) && is_border(line[at + word.len()..].chars().next())
        })
        .map(|(at, _)| at)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::File;

    /// For the tests of the checks.
    pub(super) fn file(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn a_finding_reads_as_file_line_and_remedy() {
        assert_eq!(Finding::new("a.rs", 3, "wrong; do right").to_string(), "a.rs:3: wrong; do right");
        assert_eq!(Finding::new("a.rs", 0, "too long").to_string(), "a.rs: too long");
    }

    #[test]
    fn words_have_borders() {
        assert_eq!(word_positions("unsafe { unsafer }", "unsafe"), [0]);
        assert_eq!(word_positions("gizmo_count, regizmo", "gizmo"), [0]);
        assert!(word_positions("ungizmoed", "gizmo").is_empty());
    }
}
