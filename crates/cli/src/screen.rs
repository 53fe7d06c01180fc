//! The terminal: how large it is, how wide text is on it, and the pager for what does not fit.

use std::io::Write;
use std::process::{Command, Stdio};

use pelton_error::Result;
pub(crate) use pelton_sqltext::{clipped, columns};

use crate::console;

/// What a terminal is taken for that does not say its size.
const DEFAULT_COLUMNS: usize = 80;

/// Columns and rows of the terminal on standard output; `None` where there is none.
pub(crate) fn size() -> Option<(usize, usize)> {
    let (width, height) = terminal_size::terminal_size_of(std::io::stdout())?;
    // Some say 0 by 0 where nobody has told them.
    (width.0 > 0 && height.0 > 0).then(|| (usize::from(width.0), usize::from(height.0)))
}

/// Columns of the terminal on standard error.
pub(crate) fn stderr_columns() -> usize {
    let size = terminal_size::terminal_size_of(std::io::stderr());
    size.map(|(width, _)| usize::from(width.0)).filter(|columns| *columns > 0).unwrap_or(DEFAULT_COLUMNS)
}

/// True where no line of `text` is wider than the terminal on standard output.
pub(crate) fn is_wide_enough(text: &str) -> bool {
    size().is_none_or(|(width, _)| text.lines().all(|line| columns(line) <= width))
}

/// Writes `text` to standard output, through a pager where that is a terminal too small for it.
///
/// # Errors
///
/// Of writing.
pub(crate) fn show(text: &str, use_pager: bool) -> Result<()> {
    if use_pager
        && let Some(size) = size()
        && !fits(text, size)
        && let Some(command) = pager()
        && paged(text, &command)
    {
        return Ok(());
    }
    console::print(text)
}

/// True where all of `text` and a prompt below it can be seen at once.
fn fits(text: &str, (width, height): (usize, usize)) -> bool {
    text.lines().count() < height && text.lines().all(|line| columns(line) <= width)
}

/// The command of the pager: `$PELTON_PAGER`, else `$PAGER`, else less. None where the variable is empty or `cat`.
fn pager() -> Option<String> {
    let named = std::env::var("PELTON_PAGER").or_else(|_| std::env::var("PAGER"));
    let command = named.unwrap_or_else(|_| "less -SRFX".to_owned());
    let command = command.trim();
    (!command.is_empty() && command != "cat").then(|| command.to_owned())
}

/// Shows `text` with `command`; false where there is no such command.
fn paged(text: &str, command: &str) -> bool {
    // Without `exec` a shell would stand between, and Ctrl-C end the shell but not the pager.
    let is_plain = !command.contains(['|', '&', ';', '<', '>']);
    let line = if is_plain { format!("exec {command}") } else { command.to_owned() };
    let mut child = Command::new("sh");
    child.arg("-c").arg(line).stdin(Stdio::piped());
    for (name, value) in [("LESS", "SRFX"), ("LESSCHARSET", "utf-8")] {
        if std::env::var_os(name).is_none() {
            child.env(name, value);
        }
    }
    let Ok(mut child) = child.spawn() else { return false };
    if let Some(mut input) = child.stdin.take() {
        // A pager that is left early has shown enough.
        let _ = input.write_all(text.as_bytes());
    }
    /// What `sh` ends with where it does not find a command.
    const NOT_FOUND: i32 = 127;
    child.wait().is_ok_and(|status| status.code() != Some(NOT_FOUND))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_longer_or_wider_does_not_fit() {
        assert!(fits("1\n2\n", (80, 3)));
        assert!(!fits("1\n2\n3\n", (80, 3)));
        assert!(fits("12345\n", (5, 3)));
        assert!(!fits("123456\n", (5, 3)));
        assert!(!fits("日本語\n", (5, 3)));
    }

    #[test]
    fn text_is_clipped_between_characters() {
        assert_eq!(clipped("abc", 2), "ab");
        assert_eq!(clipped("日本", 3), "日");
        assert_eq!(clipped("ab", 9), "ab");
    }
}
