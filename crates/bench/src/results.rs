//! Result rows: aligned text for people, one JSON object a line for machines.

use std::io::Write;
use std::path::Path;

use pelton_error::{Error, ErrorKind, Result, ResultExt};
use serde::Serialize;
use unicode_width::UnicodeWidthStr;

/// A table of text cells, numbers right-aligned.
#[derive(Debug, Default)]
pub struct TextTable {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl TextTable {
    /// An empty table under `header`.
    pub fn new(header: &[&str]) -> Self {
        Self { header: header.iter().map(|cell| (*cell).to_owned()).collect(), rows: Vec::new() }
    }

    /// Adds a row of as many cells as the header has.
    pub fn push(&mut self, row: Vec<String>) {
        assert_eq!(row.len(), self.header.len());
        self.rows.push(row);
    }
}

impl std::fmt::Display for TextTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let lines = || std::iter::once(&self.header).chain(&self.rows);
        let widths: Vec<usize> = (0..self.header.len())
            .map(|column| lines().map(|row| row[column].width()).max().unwrap_or(0))
            .collect();
        for (index, row) in lines().enumerate() {
            for (column, cell) in row.iter().enumerate() {
                let gap = if column == 0 { "" } else { "  " };
                let numeric = cell.starts_with(|c: char| c.is_ascii_digit() || c == '-') || index == 0;
                // Columns of a terminal, of which a Chinese letter takes two.
                let pad = " ".repeat(widths[column] - cell.width());
                if column > 0 && numeric {
                    write!(f, "{gap}{pad}{cell}")?
                } else {
                    write!(f, "{gap}{cell}{pad}")?
                }
            }
            writeln!(f)?;
            if index == 0 {
                let rule: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
                writeln!(f, "{}", rule.join("  "))?;
            }
        }
        Ok(())
    }
}

/// Appends `rows` to `path`, one JSON object a line.
pub fn append_json<T: Serialize>(path: &Path, rows: &[T]) -> Result<()> {
    let mut file = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .context(|| format!("opening '{}'", path.display()))?;
    for row in rows {
        let line = serde_json::to_string(row)
            .map_err(|error| Error::new(ErrorKind::Io, "encoding a result").with_source(error))?;
        writeln!(file, "{line}").context(|| format!("writing '{}'", path.display()))?;
    }
    Ok(())
}

/// The middle of the sorted values; the mean of the two middle ones for an even count.
pub fn median(values: &[f64]) -> f64 {
    assert!(!values.is_empty());
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_odd_and_even_counts() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0]), 2.5);
    }

    #[test]
    fn wide_letters_take_two_columns() {
        let mut table = TextTable::new(&["name", "n"]);
        table.push(vec!["日本".into(), "1".into()]);
        table.push(vec!["ä".into(), "2".into()]);
        assert_eq!(table.to_string(), "name  n\n────  ─\n日本  1\nä     2\n");
    }

    #[test]
    fn numbers_line_up_on_the_right() {
        let mut table = TextTable::new(&["query", "ms"]);
        table.push(vec!["Q1".into(), "5".into()]);
        table.push(vec!["Q10".into(), "123".into()]);
        assert_eq!(table.to_string(), "query   ms\n─────  ───\nQ1       5\nQ10    123\n");
    }
}
