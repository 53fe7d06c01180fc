//! Form of source files: a head that says what the file is for, nothing unfinished, a length one can read.

use crate::rust_text;
use crate::tidy::{Finding, word_positions};
use crate::workspace::File;

/// Above this a file tells more than one story.
const LINES_MAX: usize = 800;

/// Every file of a crate opens with `//!`.
pub(super) fn heads(files: &[File]) -> Vec<Finding> {
    let is_headless = |file: &&File| is_crate_source(&file.path) && !file.text.starts_with("//! ");
    let message = "the first line is no `//!`; say in one sentence what the file is for";
    files.iter().filter(is_headless).map(|file| Finding::new(&file.path, 1, message)).collect()
}

/// `crates/<name>/src/**.rs`.
fn is_crate_source(path: &str) -> bool {
    let mut parts = path.split('/');
    parts.next() == Some("crates") && parts.nth(1) == Some("src") && path.ends_with(".rs")
}

/// Marks that say "later", in comments and documents, and their forms in code.
pub(super) fn unfinished(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        let (code, prose) = if file.is_rust() {
            let halves = rust_text::split(&file.text);
            (halves.code, halves.comments)
        } else {
            (String::new(), file.text.clone())
        };
        for (text, marks) in
            [(prose, &["TODO", "FIXME", "XXX"][..]), (code, &["todo!", "unimplemented!", "#[ignore"])]
        {
            for (index, line) in text.lines().enumerate() {
                let mark = marks.iter().find(|mark| contains_mark(line, mark));
                findings.extend(mark.map(|mark| {
                    Finding::new(
                        &file.path,
                        index + 1,
                        format!("{mark} is left; finish it, or take it out and write it down as an issue"),
                    )
                }));
            }
        }
    }
    findings
}

/// Words by their borders, forms of code anywhere.
fn contains_mark(line: &str, mark: &str) -> bool {
    if mark.chars().all(char::is_alphabetic) {
        !word_positions(line, mark).is_empty()
    } else {
        line.contains(mark)
    }
}

/// No source file is longer than [`LINES_MAX`].
pub(super) fn lengths(files: &[File]) -> Vec<Finding> {
    let is_long = |(_, lines): &(&File, usize)| *lines > LINES_MAX;
    let counted = files.iter().filter(|file| file.is_rust()).map(|file| (file, file.text.lines().count()));
    counted
        .filter(is_long)
        .map(|(file, lines)| {
            Finding::new(
                &file.path,
                0,
                format!("{lines} lines, more than {LINES_MAX}; look for the seam and split it"),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::file;

    #[test]
    fn a_file_without_a_head_is_found() {
        let headless = file("crates/a/src/b.rs", "use std::fmt;\n//! Late.\n");
        let good = file("crates/a/src/b/tests.rs", "//! What holds.\n");
        let elsewhere = file("crates/a/tests/c.rs", "use std::fmt;\n");
        let findings = heads(&[headless, good, elsewhere]);
        assert_eq!((findings.len(), findings[0].path.as_str()), (1, "crates/a/src/b.rs"));
    }

    #[test]
    fn unfinished_work_is_found_in_code_comments_and_documents() {
        let marks = [
            ("a.rs", concat!("// TO", "DO: later\n")),
            ("a.rs", concat!("/* FIX", "ME */ fn f() {}\n")),
            ("a.rs", "fn f() { todo!() }\n"),
            ("a.rs", "fn f() { unimplemented!(\"b\") }\n"),
            ("a.rs", "#[ignore = \"slow\"]\nfn f() {}\n"),
            ("a.md", concat!("Figures: TO", "DO\n")),
        ];
        for (path, text) in marks {
            assert_eq!(unfinished(&[file(path, text)]).len(), 1, "{text}");
        }
    }

    #[test]
    fn strings_and_longer_words_are_not_marks() {
        assert_eq!(unfinished(&[file("a.rs", "// TODOS, ignored\nlet a = \"#[ignore] TODO\";\n")]), []);
    }

    #[test]
    fn a_file_that_is_too_long_is_found_by_name() {
        let lines = |count: usize| "//! A.\n".repeat(count);
        let findings =
            lengths(&[file("a.rs", &lines(801)), file("b.rs", &lines(800)), file("c.md", &lines(900))]);
        assert_eq!((findings.len(), findings[0].path.as_str()), (1, "a.rs"));
        assert!(findings[0].message.contains("801 lines"));
    }
}
