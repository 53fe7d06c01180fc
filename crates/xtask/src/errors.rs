//! `cargo xtask errors`: the page of the guide that lists what Pelton says when something goes wrong.
//!
//! Messages are literals where an error is made, `Error::unsupported("…")` or `Error::unsupported(format!("…"))`; they
//! name the thing and the remedy, so that the list is a page to search in. `tidy` holds the page against the sources.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::process::Result;
use crate::workspace::{File, Workspace};

/// The page.
pub(crate) const PAGE: &str = "docs/guide/errors.md";

/// Constructors, with the heading that their messages come under.
const KINDS: [(&str, &str); 6] = [
    ("Error::invalid_input(", "Invalid input"),
    ("Error::unsupported(", "Unsupported"),
    ("ErrorKind::OutOfMemory", "Out of memory"),
    ("Error::corrupt(", "Corrupt"),
    ("Error::io(", "Input and output"),
    ("Error::device_lost(", "Device lost"),
];

const INTRODUCTION: [&str; 6] = [
    "You asked for something that cannot be. The message names it; change the query, the flag or the file.",
    "This path cannot run this. A query goes on on the CPU where it can, and EXPLAIN ANALYZE shows the message as the \
     reason.",
    "A tier has no room. The message names the tier and the knob that gives more.",
    "A file disagrees with its checksum or its own layout. Restore it from a copy or load the table again.",
    "The operating system refused; its own words follow the message.",
    "The context of a GPU is lost. Start the process again.",
];

/// Writes the page.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let path = workspace.root.join(PAGE);
    std::fs::write(&path, page(&workspace.files)).map_err(|error| format!("{}: {error}", path.display()))
}

/// What the page must say.
pub(crate) fn page(files: &[File]) -> String {
    let mut by_kind: BTreeMap<usize, BTreeMap<String, String>> = BTreeMap::new();
    for file in files.iter().filter(|file| is_shipped(file)) {
        let name = file.crate_name().unwrap_or_default();
        for (kind, message) in messages(&file.text) {
            by_kind.entry(kind).or_default().insert(message, name.to_owned());
        }
    }
    let mut page = "# Every error text\n\nWhat Pelton says, by kind; `…` stands for names and numbers. In front of a \
                    message stands what was being done (`pinning table 'trips': …`). The crate in brackets is where to \
                    look in the sources. Messages of DataFusion (unknown columns, types that do not fit) and of the \
                    operating system are not listed. Written by `cargo xtask errors`.\n"
        .to_owned();
    for (kind, messages) in by_kind {
        write!(page, "\n## {}\n\n{}\n\n", KINDS[kind].1, INTRODUCTION[kind]).expect("a string takes all");
        for (message, name) in messages {
            writeln!(page, "- {message} [{name}]").expect("a string takes all");
        }
    }
    page
}

fn is_shipped(file: &File) -> bool {
    let in_sources = file.path.starts_with("crates/") && file.path.contains("/src/");
    let is_tool = ["xtask", "testkit", "sqltest"].contains(&file.crate_name().unwrap_or_default());
    file.is_rust() && in_sources && !is_tool && !file.path.ends_with("/tests.rs")
}

/// The kinds and messages of the errors that a source makes, outside its tests.
fn messages(source: &str) -> Vec<(usize, String)> {
    let source = source.split("#[cfg(test)]").next().unwrap_or_default();
    let mut found = Vec::new();
    for (kind, (constructor, _)) in KINDS.iter().enumerate() {
        for (at, _) in source.match_indices(constructor) {
            let rest = &source[at + constructor.len()..];
            let literal =
                if constructor.ends_with('(') { first_argument(rest) } else { literal_nearby(rest) };
            found.extend(literal.filter(|text| text.contains(' ')).map(|text| (kind, text)));
        }
    }
    found
}

/// The literal that an argument list begins with, in `format!` or plainly.
fn first_argument(arguments: &str) -> Option<String> {
    let inner = arguments.trim_start();
    let inner = inner.strip_prefix("format!(").unwrap_or(inner).trim_start();
    literal(inner)
}

/// The next literal, if it is within the same statement.
fn literal_nearby(rest: &str) -> Option<String> {
    let statement = rest.split(";\n").next()?;
    literal(&statement[statement.find('"')?..])
}

/// The string literal at the beginning of `text`, with `…` in place of what is filled in; `None` where there is none.
fn literal(text: &str) -> Option<String> {
    let mut chars = text.strip_prefix('"')?.chars().peekable();
    let mut message = String::new();
    loop {
        match chars.next()? {
            '"' => break,
            '\\' => match chars.next()? {
                '\n' => while chars.next_if(|next| next.is_whitespace()).is_some() {},
                'n' => message.push(' '),
                other => message.push(other),
            },
            '{' if chars.next_if_eq(&'{').is_some() => message.push('{'),
            '}' if chars.next_if_eq(&'}').is_some() => message.push('}'),
            '{' => {
                while chars.next()? != '}' {}
                message.push('…');
            }
            other => message.push(other),
        }
    }
    // A page of Markdown shows them as they are.
    Some(message.replace('<', "&lt;").replace('*', "\\*").replace('|', "\\|").replace('_', "\\_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_found_where_errors_are_made() {
        let source = r#"
            return Err(Error::invalid_input(format!("no table '{name}'; {} there are", count)));
            Error::unsupported("kernels have \
                no such thing")
            Error::corrupt(message)
            #[cfg(test)]
            Error::corrupt("of a test");
        "#;
        let expected =
            vec![(0, "no table '…'; … there are".to_owned()), (1, "kernels have no such thing".to_owned())];
        assert_eq!(messages(source), expected);
    }

    #[test]
    fn braces_and_markdown_are_shown_as_they_are() {
        assert_eq!(literal("\"a {{b}} <c> {d:?}_\" rest").unwrap(), "a {b} &lt;c> …\\_");
        assert_eq!(literal("no literal"), None);
    }
}
