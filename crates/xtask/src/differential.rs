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
//! Takes two minutes on two cores, with kernels that are not optimised.

use std::path::{Path, PathBuf};

use crate::environments;
use crate::process::{self, Result};
use crate::readme::empty;
use crate::test;
use crate::workspace::Workspace;

const TEST: &str = "tests/oracle/differential";

/// Runs it, with further arguments for the test; the Python library is in `target/release`.
pub(crate) fn run(workspace: &Workspace, args: &[&str]) -> Result<()> {
    let python = environments::ORACLE.python(&workspace.root)?;
    let package = assemble(workspace)?;
    let folder = package.to_string_lossy();
    let own_tests = ["-m", "unittest", "discover", "--quiet", TEST];
    process::run(process::command(&workspace.root, &python, &own_tests).env("PELTON_PACKAGE", &package))?;
    let cases = [&[TEST, "--package", &folder], args].concat();
    // The end of a log may be all that somebody sees.
    let mut differing = DifferingCases::default();
    let mut command = process::command(&workspace.root, &python, &cases);
    test::compile_kernels_quickly(&mut command);
    let result = process::run_watched(&mut command, |line| differing.add(line));
    result.map_err(|message| format!("{message}{}", differing.found))
}

/// Each case that differs, with Pelton's statement.
#[derive(Debug, Default)]
struct DifferingCases {
    found: String,
    is_in_case: bool,
}

impl DifferingCases {
    /// Takes `== case 1.2 differs from DuckDB: WHY` into account, and the first line that says what Pelton ran.
    fn add(&mut self, line: &str) {
        let is_first = line.starts_with("== case ");
        let is_statement = self.is_in_case && line.starts_with("  pelton: ");
        if is_first || is_statement {
            self.found.push_str("\n     ");
            self.found.push_str(line);
            self.is_in_case = is_first;
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_said_with_its_statement() {
        let mut differing = DifferingCases::default();
        for line in [
            "seed x",
            "",
            "== case 1.2 differs from DuckDB: a row",
            "  again:  --case 1.2",
            "  pelton: SELECT 1",
        ] {
            differing.add(line);
        }
        for line in ["  duckdb: SELECT 2", "  pelton: again", "1 failed"] {
            differing.add(line);
        }
        assert_eq!(differing.found, "\n     == case 1.2 differs from DuckDB: a row\n       pelton: SELECT 1");
    }
}
