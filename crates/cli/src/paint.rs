//! Colours of what people read on standard error, only where it is a terminal and they are wanted.

use std::fmt::Display;
use std::io::IsTerminal;

/// Colours, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Paint {
    on: bool,
}

/// What a text is, and so which colour it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shade {
    Error,
    Hint,
    Strong,
    Dim,
    Keyword,
    Text,
    Number,
}

impl Paint {
    /// For standard error: on where that is a terminal and nothing speaks against it (`NO_COLOR`, `TERM=dumb`).
    pub(crate) fn of_stderr() -> Self {
        Self { on: std::io::stderr().is_terminal() && is_wanted() }
    }

    /// For standard output, by the same rule.
    pub(crate) fn of_stdout() -> Self {
        Self { on: std::io::stdout().is_terminal() && is_wanted() }
    }

    /// No colours.
    pub(crate) fn off() -> Self {
        Self { on: false }
    }

    /// Colours whatever standard error is.
    #[cfg(test)]
    pub(crate) fn on() -> Self {
        Self { on: true }
    }

    /// True where text is coloured.
    pub(crate) fn is_on(self) -> bool {
        self.on
    }

    /// `text` in the colour of `shade`.
    pub(crate) fn shade(self, shade: Shade, text: impl Display) -> String {
        if !self.on {
            return text.to_string();
        }
        let code = match shade {
            Shade::Error => "1;31",
            Shade::Hint => "36",
            Shade::Strong => "1",
            Shade::Dim => "2",
            Shade::Keyword => "1;34",
            Shade::Text => "32",
            Shade::Number => "35",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

/// See no-color.org: any value but the empty one.
fn is_wanted() -> bool {
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    !no_color && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}
