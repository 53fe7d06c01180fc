//! Random expressions and statements, answered by Pelton's CPU, by its kernels on the host target and by DuckDB.
//!
//! ```text
//!   python/pelton + libpelton_python.so ──▶ build/differential/pelton, as the wheel has it
//!                                               │
//!   build/oracle-venv (DuckDB, PyArrow) ────────┴─▶ tests/oracle/differential
//! ```
//!
//! 1. The test's own tests: what the comparison catches, every known difference, the guide's page of semantics.
//! 2. Ten thousand cases, with a seed of the day that is printed; `--seed` makes the same ones again.
//!
//! Takes about four minutes on two cores, more than half of them the C++ compiler's.

use std::path::{Path, PathBuf};

use crate::oracle::environment;
use crate::process::{self, Result};
use crate::readme::empty;
use crate::workspace::Workspace;

const TEST: &str = "tests/oracle/differential";

/// Runs it, with further arguments for the test; the Python library is in `target/release`.
pub(crate) fn run(workspace: &Workspace, args: &[&str]) -> Result<()> {
    let python = environment(&workspace.root, "build/oracle-venv", "tests/oracle/requirements.txt")?;
    let package = assemble(workspace)?;
    let folder = package.to_string_lossy();
    let own_tests = ["-m", "unittest", "discover", "--quiet", TEST];
    process::run(process::command(&workspace.root, &python, &own_tests).env("PELTON_PACKAGE", &package))?;
    let cases = [&[TEST, "--package", &folder], args].concat();
    process::run(&mut process::command(&workspace.root, &python, &cases))
}

/// The folder to import the package from: its Python sources and the library that cargo built, without a wheel.
fn assemble(workspace: &Workspace) -> Result<PathBuf> {
    let folder = workspace.root.join("build/differential");
    let package = folder.join("pelton");
    empty(&package)?;
    let sources = workspace.root.join("python/pelton");
    let found = std::fs::read_dir(&sources).map_err(|error| format!("{}: {error}", sources.display()))?;
    for source in found.flatten().map(|entry| entry.path()).filter(|path| is_python(path)) {
        let name = source.file_name().expect("a file that was listed has a name");
        std::fs::copy(&source, package.join(name))
            .map_err(|error| format!("{}: {error}", source.display()))?;
    }
    let library = workspace.target.join("release/libpelton_python.so");
    std::fs::copy(&library, package.join("_native.abi3.so")).map_err(|error| {
        format!("{}: {error}; `cargo build --release -p pelton-python` makes it", library.display())
    })?;
    Ok(folder)
}

fn is_python(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "py" || ending == "pyi")
}
