//! The Python package, tested as users have it: built as a wheel, installed, imported from there.
//!
//! ```text
//!   build/python-venv        made once, with what python/tests/requirements.txt pins
//!     maturin ──▶ build/wheel/pelton-….whl ──pip install──▶ build/python-venv
//!                        │                                      │
//!                        └ below 60 MB                          ├─▶ pytest: python/tests, README.md's example
//!                                                               ├─▶ doctests of the installed package
//!                                                               └─▶ mypy --strict, stubtest
//! ```
//!
//! Needs Python 3.10 or later with `venv`, and PyPI the first time. The wheel comes from cargo's own build of the
//! workspace: after it, this takes a minute or two.

use std::path::{Path, PathBuf};

use crate::process::{self, Result};
use crate::readme::empty;
use crate::workspace::Workspace;
use crate::{cuda, environments};

/// PyPI takes files of up to 100 MB; nobody likes to wait for them.
const WHEEL_BYTES_MAX: u64 = 60_000_000;

/// Builds the wheel and runs all checks; the remark says how large it is.
pub(crate) fn run(workspace: &Workspace) -> Result<String> {
    let python = environments::PACKAGE.python(&workspace.root)?;
    let wheel = build(workspace, &python)?;
    let bytes = std::fs::metadata(&wheel).map_err(|error| format!("{}: {error}", wheel.display()))?.len();
    if bytes > WHEEL_BYTES_MAX {
        return Err(format!("{} has {bytes} bytes; {WHEEL_BYTES_MAX} are the limit", wheel.display()));
    }
    let text = wheel.to_string_lossy();
    let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--force-reinstall"];
    process::run(&mut process::command(
        &workspace.root,
        &python,
        &[&install[..], &["--no-deps", &text]].concat(),
    ))?;
    check(workspace, &python)?;
    Ok(format!("wheel of {:.1} MB", bytes as f64 / 1e6))
}

/// Builds the wheel, with the CUDA library if that was built.
fn build(workspace: &Workspace, python: &Path) -> Result<PathBuf> {
    cuda::give_to_package(workspace)?;
    let folder = workspace.root.join("build/wheel");
    empty(&folder)?;
    let out = folder.to_string_lossy();
    let args = ["-m", "maturin", "build", "--release", "--locked", "--features", "substrait", "--out", &out];
    let mut command = process::command(&workspace.root, python, &args);
    // As cargo was told, where it was told: the wheel shares its build.
    process::run(command.env("CARGO_TARGET_DIR", &workspace.target))?;
    let found = std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut wheels = found.flatten().map(|entry| entry.path());
    wheels
        .find(|path| path.extension().is_some_and(|ending| ending == "whl"))
        .ok_or_else(|| format!("maturin left no wheel in {}", folder.display()))
}

fn check(workspace: &Workspace, python: &Path) -> Result<()> {
    let checks: [&[&str]; 4] = [
        &["-m", "pytest", "--quiet", "python/tests"],
        &["-m", "pytest", "--quiet", "--doctest-modules", "--pyargs", "pelton", "--ignore-glob=*__main__.py"],
        &["-m", "mypy", "--cache-dir=build/mypy"],
        &[
            "-m",
            "mypy.stubtest",
            "pelton",
            "--mypy-config-file=pyproject.toml",
            "--allowlist=python/tests/stubtest.txt",
            "--ignore-unused-allowlist",
        ],
    ];
    for args in checks {
        let mut command = process::command(&workspace.root, python, args);
        command.env("PYTHONDONTWRITEBYTECODE", "1").env_remove("PELTON_WAREHOUSE");
        process::run(&mut command)?;
    }
    Ok(())
}
