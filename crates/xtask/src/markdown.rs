//! What the checks read of a Markdown file: its lines outside code, tables, links, headings, code blocks.

/// A row of a table.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// Line number in the file, from 1.
    pub(crate) line: usize,
    /// Cells, trimmed, without the backticks of code.
    pub(crate) cells: Vec<String>,
}

/// A fenced code block.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// What follows the opening fence, such as `sh`.
    pub(crate) language: String,
    /// Its lines with their numbers in the file, from 1.
    pub(crate) lines: Vec<(usize, String)>,
}

/// The rows of the first table whose header cells are `header`; `None` if there is no such table.
pub(crate) fn table(text: &str, header: &[&str]) -> Option<Vec<Row>> {
    let mut lines = prose_lines(text).into_iter();
    lines.by_ref().find(|(_, line)| cells(line).is_some_and(|cells| cells == header))?;
    let is_ruler = |line: &str| line.chars().all(|char| "|-: ".contains(char));
    lines.next().filter(|(_, line)| is_ruler(line))?;
    let rows = lines.map_while(|(line, text)| Some(Row { line, cells: cells(text)? }));
    Some(rows.collect())
}

/// The items of a cell: `a, b` gives a and b, an empty cell or a dash gives none.
pub(crate) fn items(cell: &str) -> Vec<&str> {
    cell.split(',').map(str::trim).filter(|item| !item.is_empty() && *item != "-").collect()
}

/// The targets of inline links, `[text](target)`, with their line numbers.
pub(crate) fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose_lines(text) {
        let line = without_code(line);
        let mut rest = line.as_str();
        while let Some(open) = rest.find("](") {
            rest = &rest[open + 2..];
            let Some(close) = rest.find(')') else { break };
            found.push((number, rest[..close].trim().to_owned()));
            rest = &rest[close..];
        }
    }
    found
}

/// The anchors that GitHub makes of the headings.
pub(crate) fn anchors(text: &str) -> Vec<String> {
    let heading = |line: &str| {
        let title = line.trim_start_matches('#');
        (title.len() < line.len() && title.starts_with(' ')).then(|| anchor(title.trim()))
    };
    prose_lines(text).into_iter().filter_map(|(_, line)| heading(line)).collect()
}

/// The fenced code blocks.
pub(crate) fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for (index, line) in text.lines().enumerate() {
        match (line.trim_start().strip_prefix("```"), open.take()) {
            (Some(language), None) => {
                open = Some(Block { language: language.trim().to_owned(), lines: Vec::new() });
            }
            (Some(_), Some(block)) => blocks.push(block),
            (None, Some(mut block)) => {
                block.lines.push((index + 1, line.to_owned()));
                open = Some(block);
            }
            (None, None) => {}
        }
    }
    blocks
}

/// The lines outside fenced code, with their numbers.
pub(crate) fn prose_lines(text: &str) -> Vec<(usize, &str)> {
    let mut is_code = false;
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            found.push((index + 1, line));
        }
    }
    found
}

fn cells(line: &str) -> Option<Vec<String>> {
    let inner = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    Some(inner.split('|').map(|cell| cell.replace('`', "").trim().to_owned()).collect())
}

fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect()
}

fn anchor(title: &str) -> String {
    let kept = title.chars().filter(|char| char.is_alphanumeric() || " -_".contains(*char));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# A title, with `code`
| crate | may use |
| --- | --- |
| `a` | |
| `b` | `a`, c |

See [a](docs/a.md#part) and `[b](not-a-link)`, [c](https://x.y).
```sh
pelton sql
# comment [d](e)
```
";

    #[test]
    fn a_table_is_found_by_its_header() {
        let rows = table(TEXT, &["crate", "may use"]).unwrap();
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[1], Row { line: 5, cells: vec!["b".into(), "a, c".into()] });
        assert_eq!(items(&rows[1].cells[1]), ["a", "c"]);
        assert!(items(&rows[0].cells[1]).is_empty());
        assert_eq!(table(TEXT, &["crate", "only in"]), None);
    }

    #[test]
    fn links_are_found_outside_code() {
        assert_eq!(links(TEXT), [(7, "docs/a.md#part".to_owned()), (7, "https://x.y".to_owned())]);
    }

    #[test]
    fn headings_become_anchors_and_comments_in_code_do_not() {
        assert_eq!(anchors(TEXT), ["a-title-with-code"]);
    }

    #[test]
    fn blocks_keep_language_and_line_numbers() {
        let blocks = blocks(TEXT);
        assert_eq!(blocks.len(), 1);
        assert_eq!(
            (blocks[0].language.as_str(), blocks[0].lines[0].clone()),
            ("sh", (9, "pelton sql".to_owned()))
        );
    }
}
