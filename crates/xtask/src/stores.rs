//! `cargo xtask stores`: loads and queries against object stores that this machine plays.
//!
//! 1. A Python environment of its own in `build/stores-venv`, made once, with what `requirements.txt` pins.
//! 2. `tests/stores/serve.py` serves S3 and HTTP on free ports of the loopback interface, and says which.
//! 3. The test `stores` of the command gets that line in `PELTON_TEST_STORES`.
//! 4. The servers end with the pipe that they read from, however this program ends.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use crate::environments;
use crate::process::{self, Result};
use crate::test::FEATURES;
use crate::workspace::Workspace;

/// Runs the tests with the stores they need.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let python = environments::STORES.python(&workspace.root)?;
    let mut serve = process::command(&workspace.root, &python, &["tests/stores/serve.py"]);
    let serve = serve.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut server = serve.spawn().map_err(|error| format!("cannot start tests/stores/serve.py: {error}"))?;
    let result = first_line(&mut server).and_then(|stores| {
        let what =
            ["test", "--release", "--locked", "--workspace", "--features", FEATURES, "--test", "stores"];
        process::run(process::cargo(&workspace.root, &what).env("PELTON_TEST_STORES", stores))
    });
    drop(server.stdin.take());
    server.wait().map_err(|error| format!("waiting for tests/stores/serve.py: {error}"))?;
    result
}

/// What the servers say of themselves.
fn first_line(server: &mut Child) -> Result<String> {
    let stdout = server.stdout.take().ok_or("tests/stores/serve.py has no standard output")?;
    let mut line = String::new();
    BufReader::new(stdout)
        .read_line(&mut line)
        .map_err(|error| format!("reading what tests/stores/serve.py says: {error}"))?;
    match line.trim() {
        "" => Err("tests/stores/serve.py ended before it served; run it with build/stores-venv/bin/python to see why".into()),
        stores => Ok(stores.to_owned()),
    }
}
