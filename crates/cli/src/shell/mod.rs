//! The shell: statements and dot commands, typed or piped in, over one session.
//!
//! ```text
//!   terminal ─▶ editor (history, completion, colours) ─┐
//!   pipe (as it comes), .read, start file ─────────────┼─▶ pieces ─┬▶ statement ─▶ Runner ─▶ rows, pager
//!                                                      │           └▶ dot command
//!                         error: shown, the shell goes on; a script ends
//! ```
//!
//! Ctrl-C cancels what runs and clears what is typed; Ctrl-D leaves. All statements share one session, so views last
//! until the shell ends, whatever fails in between.

mod command;
mod complete;
mod device;
mod editor;
mod files;
mod listing;
mod names;
mod pipe;
mod session;
mod signals;
mod words;

use std::io::IsTerminal;

use pelton_error::{Error, ErrorKind, Result};

use crate::args::ShellArgs;
use crate::console;
use crate::paint::{Paint, Shade};

use editor::{Editor, Typed};
use session::{Next, Shell};
use signals::Signals;

/// Runs the shell on a terminal, or what is piped into it.
///
/// # Errors
///
/// Of opening the session; of a script, its first error.
pub(crate) fn run(args: ShellArgs) -> Result<()> {
    let is_typed = std::io::stdin().is_terminal();
    let signals = Signals::install()?;
    let mut shell = Shell::open(args, signals.cancel_flag(), is_typed)?;
    let result = if is_typed { converse(&mut shell, &signals) } else { pipe::run(&mut shell, &signals) };
    shell.end();
    result
}

/// Reads and runs until the user leaves.
fn converse(shell: &mut Shell, signals: &Signals) -> Result<()> {
    let mut editor = Editor::open(shell.names())?;
    greet();
    let start_file = files::start_file();
    if let Some(path) = start_file.filter(|path| path.exists())
        && let Err(error) = shell.read_file(&path)
    {
        complain(&error);
    }
    loop {
        let typed = {
            let _idle = signals.idle();
            editor.read_blocking()?
        };
        match typed {
            Typed::Input(text) => {
                signals.reset();
                match shell.run_script(&text) {
                    Ok(Next::Leave) => return Ok(()),
                    Ok(Next::Go) => {}
                    Err(_) if signals.is_leaving() => return Err(Error::cancelled()),
                    Err(error) => complain(&error),
                }
            }
            Typed::Nothing => {}
            Typed::End => return Ok(()),
        }
    }
}

fn greet() {
    let version = format!("Pelton {}", env!("CARGO_PKG_VERSION"));
    console::say(format_args!(
        "{}; statements end with a semicolon, .help lists the commands, Ctrl-D leaves",
        Paint::of_stderr().shade(Shade::Strong, version)
    ));
}

/// Shows an error; the shell goes on.
fn complain(error: &Error) {
    let paint = Paint::of_stderr();
    if error.kind() == &ErrorKind::Cancelled {
        console::say(paint.shade(Shade::Dim, error));
    } else {
        console::say(format_args!("{} {error}", paint.shade(Shade::Error, "error:")));
    }
}
