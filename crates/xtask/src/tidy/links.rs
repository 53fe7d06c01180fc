//! Documents point at files that exist: links in Markdown, and mentions of `docs/….md` in comments too.

use std::path::Path;

use crate::markdown;
use crate::rust_text;
use crate::tidy::Finding;
use crate::workspace::File;

/// Relative links of Markdown files lead to a file or folder, and their anchors to a heading.
pub(super) fn links(root: &Path, files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.is_markdown()) {
        for (line, target) in markdown::links(&file.text) {
            findings.extend(broken(root, files, file, &target).map(|why| {
                Finding::new(
                    &file.path,
                    line,
                    format!("the link ({target}) leads nowhere: {why}; correct it"),
                )
            }));
        }
    }
    findings
}

/// Why the link is broken, if it is.
fn broken(root: &Path, files: &[File], file: &File, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (target, anchor) =
        target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    let folder = Path::new(&file.path).parent().unwrap_or(Path::new(""));
    let path = if target.is_empty() { file.path.clone() } else { normal(&folder.join(target)) };
    if !files.iter().any(|file| file.path == path) && !root.join(&path).exists() {
        return Some(format!("there is no {path}"));
    }
    let document = files.iter().find(|file| file.path == path && file.is_markdown())?;
    let anchor = anchor?;
    let is_there = markdown::anchors(&document.text).iter().any(|heading| heading == anchor);
    (!is_there).then(|| format!("{path} has no heading #{anchor}"))
}

/// `a/../b` is `b`, without asking the disk.
fn normal(path: &Path) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.to_str().unwrap_or_default().split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// `docs/….md` named in a comment or a document exists.
pub(super) fn mentions(root: &Path, files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        let comments = file.is_rust().then(|| rust_text::split(&file.text).comments);
        let text = comments.as_ref().unwrap_or(&file.text);
        for (index, line) in text.lines().enumerate() {
            for path in mentioned(line) {
                if !files.iter().any(|file| file.path == path) && !root.join(path).exists() {
                    let message = format!("{path} does not exist; write it or correct the name");
                    findings.push(Finding::new(&file.path, index + 1, message));
                }
            }
        }
    }
    findings
}

/// The paths from the root of the form `docs/….md` in `line`; within a longer path they are not from the root.
fn mentioned(line: &str) -> Vec<&str> {
    let is_part = |char: char| char.is_ascii_alphanumeric() || "/._-".contains(char);
    line.split(|char: char| !is_part(char))
        .map(|word| word.trim_end_matches('.'))
        .filter(|word| word.starts_with("docs/") && word.ends_with(".md"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::file;

    fn nowhere() -> &'static Path {
        Path::new("/pelton-no-such-root")
    }

    fn documents(link: &str) -> Vec<File> {
        vec![
            file("docs/specs/table.md", &format!("# Table\nSee [this]({link}).\n")),
            file("docs/perf/cpu.md", "# Speed\n## Cold, and warm\n"),
            file("README.md", "# Pelton\n"),
        ]
    }

    #[test]
    fn links_to_files_and_headings_that_exist_pass() {
        for link in
            ["../perf/cpu.md", "../perf/cpu.md#cold-and-warm", "#table", "../../README.md", "https://a.b/c"]
        {
            assert_eq!(links(nowhere(), &documents(link)), [], "{link}");
        }
    }

    #[test]
    fn links_to_nowhere_are_found() {
        for link in ["cpu.md", "../perf/cpu.md#lukewarm", "#chair", "README.md"] {
            let findings = links(nowhere(), &documents(link));
            assert_eq!((findings.len(), findings[0].line), (1, 2), "{link}");
        }
    }

    #[test]
    fn mentions_of_missing_documents_are_found_in_sources() {
        let source =
            file("crates/a/src/b.rs", "//! Measured: docs/perf/cpu.md, docs/perf/gpu.md.\n\"docs/no.md\"");
        let findings = mentions(nowhere(), &[source, file("docs/perf/cpu.md", "")]);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].message.starts_with("docs/perf/gpu.md"));
    }
}
