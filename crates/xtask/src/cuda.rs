//! `cargo xtask cuda`: the CUDA library, built by `cuda/build.sh` with whatever nvcc there is.
//!
//! ```text
//!   nvcc of $CUDA_HOME, PATH, /usr/local/cuda ─┐
//!   or from PyPI, in build/cuda-venv ──────────┴─▶ build/cuda/libpelton_cuda.so, if a source has changed
//! ```

use std::path::PathBuf;
use std::time::Instant;

use crate::process::{self, Result};
use crate::workspace::Workspace;

/// Builds the library; `args` are those of `cuda/build.sh`.
pub(crate) fn run(workspace: &Workspace, args: &[&str]) -> Result<()> {
    let words = [&["cuda/build.sh", "--install-toolkit"], args].concat();
    process::run(&mut process::command(&workspace.root, "bash", &words))
}

/// What CI does: builds for all architectures, tests what needs no GPU. The remark says how long the library took.
pub(crate) fn check(workspace: &Workspace) -> Result<String> {
    let started = Instant::now();
    run(workspace, &[])?;
    let seconds = started.elapsed().as_secs_f64();
    process::run(&mut process::command(&workspace.root, "bash", &["cuda/test.sh"]))?;
    Ok(format!("library in {seconds:.1} s"))
}

/// Where the library is, once built.
pub(crate) fn library(workspace: &Workspace) -> PathBuf {
    workspace.root.join("build/cuda/libpelton_cuda.so")
}
