//! `pelton serve` beside a client that is not ours: the ADBC driver for Flight SQL, from PyPI.
//!
//! 1. A Python environment of its own in `build/server-venv`, made once, with what `requirements.txt` pins.
//! 2. `tests/server`, against the command that was built.

use crate::environments;
use crate::process::{self, Result};
use crate::workspace::Workspace;

/// Runs the tests; `target/release/pelton` is there.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let python = environments::SERVER.python(&workspace.root)?;
    let tests = ["-m", "unittest", "discover", "tests/server"];
    let mut command = process::command(&workspace.root, &python, &tests);
    process::run(command.env("PELTON", workspace.pelton()))
}
