//! `unsafe` has few homes, and ARCHITECTURE.md names them.
//!
//! The compiler forbids it elsewhere only where a crate asks for that, so this check asks: a crate without a
//! home says `#![forbid(unsafe_code)]` at its root, a crate with one says `#![deny(unsafe_code)]`.

use crate::markdown;
use crate::rust_text;
use crate::tidy::{ARCHITECTURE, Finding, word_positions};
use crate::workspace::File;

const HEADER: [&str; 2] = ["file with unsafe code", "what for"];

/// Holds sources against the table of homes.
pub(super) fn check(files: &[File], architecture: &str) -> Vec<Finding> {
    let Some(rows) = markdown::table(architecture, &HEADER) else {
        let message = format!("no table with the columns {}; add it", HEADER.join(", "));
        return vec![Finding::new(ARCHITECTURE, 0, message)];
    };
    let homes: Vec<&str> = rows.iter().map(|row| row.cells[0].as_str()).collect();
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let code = rust_text::split(&file.text).code;
        if !homes.contains(&file.path.as_str()) {
            findings.extend(outside(file, &code));
        }
        if is_root(&file.path) {
            findings.extend(missing_attribute(file, &code, &homes));
        }
    }
    findings.extend(rows.iter().filter(|row| !has_unsafe(files, &row.cells[0])).map(|row| {
        let message = format!("{} has no unsafe code; remove the row", row.cells[0]);
        Finding::new(ARCHITECTURE, row.line, message)
    }));
    findings
}

fn outside(file: &File, code: &str) -> Vec<Finding> {
    let is_unsafe = |line: &str| !keyword_positions(line).is_empty();
    let lines = code.lines().enumerate().filter(|(_, line)| is_unsafe(line));
    lines
        .map(|(index, _)| {
            let message = format!("unsafe outside its homes; use the safe modules that {ARCHITECTURE} lists");
            Finding::new(&file.path, index + 1, message)
        })
        .collect()
}

/// `unsafe` as a word of its own: `unsafe_code` is a lint's name.
fn keyword_positions(line: &str) -> Vec<usize> {
    let is_keyword =
        |at: &usize| !line[at + "unsafe".len()..].starts_with('_') && !line[..*at].ends_with('_');
    word_positions(line, "unsafe").into_iter().filter(is_keyword).collect()
}

fn has_unsafe(files: &[File], path: &str) -> bool {
    files
        .iter()
        .find(|file| file.path == path)
        .is_some_and(|file| !keyword_positions(&rust_text::split(&file.text).code).is_empty())
}

/// The file whose attributes hold for a whole crate.
fn is_root(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    matches!(parts[..], ["crates", _, "src", "lib.rs" | "main.rs"])
}

fn missing_attribute(file: &File, code: &str, homes: &[&str]) -> Option<Finding> {
    let folder = format!("crates/{}/", file.crate_name()?);
    let has_home = homes.iter().any(|home| home.starts_with(&folder));
    let attribute = if has_home { "#![deny(unsafe_code)]" } else { "#![forbid(unsafe_code)]" };
    let is_there = code.lines().any(|line| line.trim() == attribute);
    (!is_there)
        .then(|| Finding::new(&file.path, 0, format!("the crate's root does not say {attribute}; add it")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::file;

    const TABLE: &str = "\
| file with unsafe code | what for |
| --- | --- |
| `crates/chunk/src/lanes.rs` | casts |
";

    fn good() -> Vec<File> {
        vec![
            file("crates/chunk/src/lib.rs", "//! A.\n#![deny(unsafe_code)]\n"),
            file("crates/chunk/src/lanes.rs", "//! B.\n#![allow(unsafe_code)]\nfn f() { unsafe { g() } }\n"),
            file("crates/zone/src/lib.rs", "//! No unsafe here.\n#![forbid(unsafe_code)]\n"),
        ]
    }

    #[test]
    fn unsafe_in_its_home_passes() {
        assert_eq!(check(&good(), TABLE), []);
    }

    #[test]
    fn unsafe_elsewhere_is_found_with_its_line() {
        let mut files = good();
        files.push(file("crates/zone/src/bloom.rs", "//! C.\n\npub unsafe fn f() {}\n"));
        let findings = check(&files, TABLE);
        assert_eq!(
            (findings.len(), findings[0].path.as_str(), findings[0].line),
            (1, "crates/zone/src/bloom.rs", 3)
        );
    }

    #[test]
    fn the_word_in_comments_and_strings_is_no_code() {
        let mut files = good();
        files.push(file("crates/zone/src/bloom.rs", "// unsafe\nconst A: &str = \"unsafe {\";\n"));
        assert_eq!(check(&files, TABLE), []);
    }

    #[test]
    fn a_root_without_its_attribute_is_found() {
        let mut files = good();
        files[2] = file("crates/zone/src/lib.rs", "//! A.\n");
        assert!(check(&files, TABLE)[0].message.contains("#![forbid(unsafe_code)]"));
        files[2] = good().swap_remove(2);
        files[0] = file("crates/chunk/src/lib.rs", "//! A.\n#![forbid(unsafe_code)]\n");
        assert!(check(&files, TABLE)[0].message.contains("#![deny(unsafe_code)]"));
    }

    #[test]
    fn a_home_without_unsafe_code_is_found() {
        let mut files = good();
        files[1] = file("crates/chunk/src/lanes.rs", "//! B.\n");
        assert!(check(&files, TABLE)[0].message.contains("remove the row"));
        assert!(check(&files, "nothing")[0].message.contains("no table"));
    }
}
