//! `cargo xtask cuda`: the CUDA library, built by `cuda/build.sh` with whatever nvcc there is.
//!
//! ```text
//!   nvcc of $CUDA_HOME, PATH, /usr/local/cuda ─┐
//!   or from PyPI, in build/cuda-venv ──────────┴─▶ build/cuda/libpelton_cuda.so, if a source has changed
//!                                                     └─▶ python/pelton, for the next wheel
//! ```

use std::path::PathBuf;
use std::time::Instant;

use crate::process::{self, Result};
use crate::workspace::Workspace;

/// Builds the library; `args` are those of `cuda/build.sh`.
pub(crate) fn run(workspace: &Workspace, args: &[&str]) -> Result<()> {
    let words = [&["cuda/build.sh", "--install-toolkit"], args].concat();
    process::run(&mut process::command(&workspace.root, "bash", &words))?;
    give_to_package(workspace)
}

/// Puts the library, if there is one, beside the sources of the Python package: wheels that are built from them have it.
pub(crate) fn give_to_package(workspace: &Workspace) -> Result<()> {
    let (from, to) = (library(workspace), workspace.root.join("python/pelton/libpelton_cuda.so"));
    if !from.is_file() {
        return Ok(());
    }
    let copied = std::fs::copy(&from, &to).map(drop);
    copied.map_err(|error| format!("copying {} to {}: {error}", from.display(), to.display()))
}

/// What CI does: builds, tests what needs no GPU. The remark says how long the library took. Where none is built yet it is for
/// one architecture: no source says different things for them, and each takes as long as the first.
pub(crate) fn check(workspace: &Workspace) -> Result<String> {
    let started = Instant::now();
    let args: &[&str] = if library(workspace).is_file() { &[] } else { &["--arch", "sm_90"] };
    run(workspace, args)?;
    let seconds = started.elapsed().as_secs_f64();
    process::run(&mut process::command(&workspace.root, "bash", &["cuda/test.sh"]))?;
    Ok(format!("library in {seconds:.1} s"))
}

/// Where the library is, once built.
pub(crate) fn library(workspace: &Workspace) -> PathBuf {
    workspace.root.join("build/cuda/libpelton_cuda.so")
}
