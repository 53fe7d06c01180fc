//! The line editor: whole statements over several lines, history, completion, colours.

use std::borrow::Cow;
use std::path::PathBuf;

use pelton_error::{Error, Result};
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Behavior, CompletionType, Config, Context, Helper};

use super::names::SessionNames;
use super::{command, complete, files};
use crate::paint::{Paint, Shade};
use crate::{console, screen};
use pelton_sqltext::{Kind, is_complete, tokens};

/// Before the first line of a statement. Later lines have none: the editor places its cursor as if nothing stood before
/// them.
const PROMPT: &str = "pelton> ";
/// Statements that the history keeps.
const HISTORY_MAX: usize = 10_000;

/// Reads statements from the terminal.
pub(super) struct Editor {
    line: rustyline::Editor<Assistant, DefaultHistory>,
    history: Option<PathBuf>,
}

/// What the user typed.
pub(super) enum Typed {
    /// One or more whole statements, or a dot command.
    Input(String),
    /// Nothing to run: a blank line, or Ctrl-C.
    Nothing,
    /// Ctrl-D.
    End,
}

impl Editor {
    /// Prepares the terminal. A history that cannot be kept is a warning.
    ///
    /// # Errors
    ///
    /// Of the terminal.
    pub(super) fn open(names: SessionNames) -> Result<Self> {
        let mut config = Config::builder()
            .max_history_size(HISTORY_MAX)
            .map_err(terminal_error)?
            .completion_type(CompletionType::List)
            .completion_show_all_if_ambiguous(true)
            .auto_add_history(false);
        if screen::size().is_none() {
            config = config.behavior(Behavior::PreferTerm); // rows go elsewhere, the prompt does not
        }
        let mut line = rustyline::Editor::with_config(config.build()).map_err(terminal_error)?;
        line.set_helper(Some(Assistant { names, paint: Paint::of_stdout() }));
        let mut editor = Self { line, history: None };
        match files::history_file().map(|path| files::make_private(&path).map(|()| path)).transpose() {
            Ok(path) => editor.load(path),
            Err(error) => console::say(format_args!("no history is kept: {error}")),
        }
        Ok(editor)
    }

    fn load(&mut self, path: Option<PathBuf>) {
        if let Some(path) = &path
            && let Err(error) = self.line.load_history(path)
        {
            console::say(format_args!("the history in '{}' could not be read: {error}", path.display()));
        }
        self.history = path;
    }

    /// Waits for input.
    ///
    /// # Errors
    ///
    /// Of the terminal.
    pub(super) fn read_blocking(&mut self) -> Result<Typed> {
        match self.line.readline(PROMPT) {
            Ok(text) if text.trim().is_empty() => Ok(Typed::Nothing),
            Ok(text) => {
                self.remember(text.trim_end());
                Ok(Typed::Input(text))
            }
            Err(ReadlineError::Interrupted) => Ok(Typed::Nothing),
            Err(ReadlineError::Eof) => Ok(Typed::End),
            Err(error) => Err(terminal_error(error)),
        }
    }

    /// What starts with a blank is meant to be forgotten: it may hold a secret.
    fn remember(&mut self, text: &str) {
        if text.starts_with(' ') {
            return;
        }
        let is_new = self.line.add_history_entry(text).unwrap_or(false);
        if let Some(path) = self.history.as_ref().filter(|_| is_new)
            && let Err(error) = self.line.append_history(path)
        {
            console::say(format_args!("the history in '{}' is no longer kept: {error}", path.display()));
            self.history = None;
        }
    }
}

fn terminal_error(error: ReadlineError) -> Error {
    Error::io("using the terminal", std::io::Error::other(error))
}

/// What the editor asks while a statement is typed.
struct Assistant {
    names: SessionNames,
    paint: Paint,
}

impl Helper for Assistant {}

impl Hinter for Assistant {
    type Hint = String;
}

impl Validator for Assistant {
    fn validate(&self, context: &mut ValidationContext) -> rustyline::Result<ValidationResult> {
        let is_complete = is_complete(context.input());
        Ok(if is_complete { ValidationResult::Valid(None) } else { ValidationResult::Incomplete })
    }
}

impl Completer for Assistant {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let offer = command::complete(line, position, &self.names);
        Ok(offer.unwrap_or_else(|| complete::complete(line, position, &self.names)))
    }
}

impl Highlighter for Assistant {
    fn highlight<'l>(&self, line: &'l str, _position: usize) -> Cow<'l, str> {
        if !self.paint.is_on() {
            return Cow::Borrowed(line);
        }
        Cow::Owned(coloured(line, self.paint))
    }

    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(&'s self, prompt: &'p str, _is_default: bool) -> Cow<'b, str> {
        Cow::Owned(self.paint.shade(Shade::Strong, prompt))
    }

    fn highlight_char(&self, _line: &str, _position: usize, kind: CmdKind) -> bool {
        self.paint.is_on() && kind != CmdKind::MoveCursor
    }
}

/// `line` with its keywords, strings, numbers and comments in colours; a dot command as it is.
fn coloured(line: &str, paint: Paint) -> String {
    if line.trim_start().starts_with('.') {
        return line.to_owned();
    }
    let mut text = String::with_capacity(line.len() * 2);
    let mut end = 0;
    for token in tokens(line) {
        text.push_str(&line[end..token.start]);
        let shade = match token.kind {
            Kind::Word if complete::is_keyword(token.text) => Some(Shade::Keyword),
            Kind::Text => Some(Shade::Text),
            Kind::Number => Some(Shade::Number),
            Kind::Comment => Some(Shade::Dim),
            _ => None,
        };
        match shade {
            Some(shade) => text.push_str(&paint.shade(shade, token.text)),
            None => text.push_str(token.text),
        }
        end = token.end();
    }
    text.push_str(&line[end..]);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_change_nothing_else() {
        let line = "SELECT 'a', 1 -- x\n FROM t ;";
        let text = coloured(line, Paint::on());
        assert!(text.contains("\x1b[1;34mSELECT\x1b[0m") && text.contains("\x1b[32m'a'\x1b[0m"), "{text}");
        let mut plain = text;
        for code in ["\x1b[1;34m", "\x1b[32m", "\x1b[35m", "\x1b[2m", "\x1b[0m"] {
            plain = plain.replace(code, "");
        }
        assert_eq!(plain, line);
        assert_eq!(coloured(".read from.sql", Paint::on()), ".read from.sql");
    }
}
