//! Standard output and standard error. This file is the only way to either, so that no command panics because nobody
//! reads, or because a disk is full.
//!
//! | | reader gone (closed pipe) | full or broken |
//! |---|---|---|
//! | standard output | the command ends quietly with status 0 | one line of error, status 1 |
//! | standard error | the message is lost, the command goes on | the same |
//!
//! What a command did is done whether or not its messages could be written, so they never change its exit status.
//!
//! Text goes to terminals with its control characters escaped: values of a table must not move the cursor or rename
//! the window. Files and pipes get the bytes as they are.

use std::fmt::Display;
use std::io::{self, ErrorKind as IoKind, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use pelton_error::{Error, Result};

/// Whether the last write to standard output found that nobody reads it. Writers of formats turn the system's error
/// into text, so it cannot be told from theirs.
static READER_IS_GONE: AtomicBool = AtomicBool::new(false);

/// The source of an error that means: whoever read standard output has had enough.
#[derive(Debug)]
struct ReaderGone;

impl std::fmt::Display for ReaderGone {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str("nobody reads standard output any more")
    }
}

impl std::error::Error for ReaderGone {}

/// Writes `text` to standard output and flushes it.
///
/// # Errors
///
/// Where standard output is full, broken or closed; see [`reader_is_gone`].
pub(crate) fn print(text: impl Display) -> Result<()> {
    let mut text = text.to_string();
    let mut out = standard_output();
    if std::mem::take(&mut out.is_terminal) {
        text = escaped(&text, Keep::Colours);
    }
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|error| write_error("writing to standard output", error))
}

/// Writes `message` and a line end to standard error. A message that nobody can get is dropped.
pub(crate) fn say(message: impl Display) {
    let mut text = format!("{message}\n");
    let mut error = io::stderr().lock();
    if error.is_terminal() {
        text = escaped(&text, Keep::Colours);
    }
    let _ = error.write_all(text.as_bytes()).and_then(|()| error.flush());
}

/// Standard output for rows: escapes control characters on a terminal, and notes a reader that goes away.
pub(crate) fn standard_output() -> StandardOutput {
    let out = io::stdout();
    StandardOutput { is_terminal: out.is_terminal(), partial: Vec::new(), out }
}

/// True for an error that came of a reader of standard output that went away: it has had what it wanted.
pub(crate) fn reader_is_gone(error: &Error) -> bool {
    std::error::Error::source(error).is_some_and(|source| source.is::<ReaderGone>())
}

/// The error of a write to standard output that failed while `doing`.
pub(crate) fn write_error(doing: &str, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    let failed = Error::new(pelton_error::ErrorKind::Io, doing);
    if READER_IS_GONE.load(Ordering::Relaxed) {
        failed.with_source(ReaderGone)
    } else {
        failed.with_source(error)
    }
}

/// See [`standard_output`].
pub(crate) struct StandardOutput {
    out: io::Stdout,
    is_terminal: bool,
    /// The start of a character whose other bytes have not come yet.
    partial: Vec<u8>,
}

impl StandardOutput {
    fn note<T>(result: io::Result<T>) -> io::Result<T> {
        let is_gone = matches!(&result, Err(error) if error.kind() == IoKind::BrokenPipe);
        READER_IS_GONE.store(is_gone, Ordering::Relaxed);
        result
    }
}

impl Write for StandardOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.is_terminal {
            return Self::note(self.out.write(bytes));
        }
        self.partial.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.partial) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => self.partial.len(),
        };
        let text = String::from_utf8_lossy(&self.partial[..whole]);
        Self::note(self.out.write_all(escaped(&text, Keep::Layout).as_bytes()))?;
        self.partial.drain(..whole);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Self::note(self.out.flush())
    }
}

/// What [`escaped`] leaves as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// Nothing: for a value inside of a line.
    Nothing,
    /// Line ends and tabs.
    Layout,
    /// Those, and the colours that [`crate::paint`] writes.
    Colours,
}

/// `text` with its control characters written out: `\n`, `\t`, `\x1b`, `\u{9b}`.
pub(crate) fn escaped(text: &str, keep: Keep) -> String {
    if !text.contains(char::is_control) {
        return text.to_owned();
    }
    let mut shown = String::with_capacity(text.len() + 8);
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let colour = if keep == Keep::Colours { colour_length(rest) } else { None };
        let length = colour.unwrap_or(next.len_utf8());
        let is_layout = matches!(next, '\n' | '\t') && keep != Keep::Nothing;
        match next {
            _ if colour.is_some() || is_layout || !next.is_control() => shown.push_str(&rest[..length]),
            '\n' | '\t' | '\r' => shown.extend(next.escape_default()),
            _ if next.is_ascii() => shown.push_str(&format!("\\x{:02x}", u32::from(next))),
            _ => shown.extend(next.escape_unicode()),
        }
        rest = &rest[length..];
    }
    shown
}

/// The length of the colour that `text` starts with: `ESC [`, digits and semicolons, `m`.
fn colour_length(text: &str) -> Option<usize> {
    let numbers = text.strip_prefix("\x1b[")?;
    let end = numbers.find(|c: char| !c.is_ascii_digit() && c != ';')?;
    numbers[end..].starts_with('m').then_some(end + 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_written_out_and_text_is_not() {
        let cases = [
            ("grün 日本\u{200d}", Keep::Nothing, "grün 日本\u{200d}"),
            ("a\tb\nc", Keep::Nothing, "a\\tb\\nc"),
            ("a\tb\nc\r", Keep::Layout, "a\tb\nc\\r"),
            (
                "\0\x07\x1b]0;title\x07\x7f\u{9b}2J",
                Keep::Layout,
                "\\x00\\x07\\x1b]0;title\\x07\\x7f\\u{9b}2J",
            ),
            ("\x1b[1;31mred\x1b[0m \x1b[2J", Keep::Layout, "\\x1b[1;31mred\\x1b[0m \\x1b[2J"),
            ("\x1b[1;31mred\x1b[0m \x1b[2J\x1b[", Keep::Colours, "\x1b[1;31mred\x1b[0m \\x1b[2J\\x1b["),
        ];
        for (text, keep, expected) in cases {
            assert_eq!(escaped(text, keep), expected, "{text:?} {keep:?}");
        }
    }
}
