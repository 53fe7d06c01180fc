//! The words of GLOSSARY.md: one meaning a word, one word a meaning.
//!
//! The table "say, not" lists words that have a better one here. They are looked for as whole words, whatever
//! their case, in code, comments, strings and documents; `row_group`, `RowGroup` and `row-group` are two words.

use crate::markdown;
use crate::tidy::{Finding, GLOSSARY, word_positions};
use crate::workspace::File;

const HEADER: [&str; 2] = ["say", "not"];

/// Finds words that the glossary replaces.
pub(super) fn check(files: &[File], glossary: &str) -> Vec<Finding> {
    let Some(rows) = markdown::table(glossary, &HEADER) else {
        return vec![Finding::new(
            GLOSSARY,
            0,
            format!("no table with the columns {}; add it", HEADER.join(", ")),
        )];
    };
    let banned: Vec<(String, &str)> = rows
        .iter()
        .flat_map(|row| {
            let words = row.cells.get(1).map_or(Vec::new(), |cell| markdown::items(cell));
            words.into_iter().map(|word| (normal(word), row.cells[0].as_str()))
        })
        .collect();
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.path != GLOSSARY) {
        for (index, line) in file.text.lines().enumerate() {
            let line = normal(line);
            for (word, better) in banned.iter().filter(|(word, _)| !word_positions(&line, word).is_empty()) {
                let message = format!("'{word}' is not a word of this project; say {better} ({GLOSSARY})");
                findings.push(Finding::new(&file.path, index + 1, message));
            }
        }
    }
    findings
}

/// Lower case, words apart: `RowGroup`, `row_group` and `row-group` are `row group`.
fn normal(text: &str) -> String {
    let mut words = String::with_capacity(text.len());
    let mut is_after_small = false;
    for char in text.chars() {
        if char.is_uppercase() && is_after_small {
            words.push(' ');
        }
        is_after_small = char.is_lowercase();
        if "_-".contains(char) { words.push(' ') } else { words.extend(char.to_lowercase()) }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::file;

    const TABLE: &str = "\
| say | not |
| --- | --- |
| row group | gizmo, row gadget |
| zone map | zonemop |
";

    fn found(text: &str) -> Vec<usize> {
        check(&[file("crates/a/src/b.rs", text)], TABLE).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn banned_words_are_found_however_they_are_written() {
        assert_eq!(
            found("/// A Gizmo.\nlet row_gadget = 1;\n\"row-gadget\"\nZONEMOP\nRowGadget"),
            [1, 2, 3, 4, 5]
        );
    }

    #[test]
    fn words_that_only_contain_one_are_not() {
        assert_eq!(found("gizmos, ZoneMop, zone mop, arrow gadgets"), [0; 0]);
    }

    #[test]
    fn the_glossary_may_say_them_and_must_have_the_table() {
        assert_eq!(check(&[file("GLOSSARY.md", TABLE)], TABLE), []);
        assert!(check(&[], "").first().is_some_and(|finding| finding.message.contains("no table")));
    }
}
