//! How wide text is on a terminal.

use unicode_width::UnicodeWidthChar;

/// Columns that `text`, one line, takes.
pub fn columns(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

/// The start of `text` that fits into this many columns.
pub fn clipped(text: &str, columns: usize) -> &str {
    let mut used = 0;
    for (at, c) in text.char_indices() {
        used += c.width().unwrap_or(0);
        if used > columns {
            return &text[..at];
        }
    }
    text
}
