//! The native half of the Python package: `pelton._native`, which `python/pelton` wraps.
//!
//! ```text
//!   python/pelton            what users see: connect, Connection, Result, errors
//!        │ _native
//!        ▼
//!   session ── run ──▶ query ── collect ──▶ rows      ──▶ Arrow C stream
//!      │                  └──── stream ───▶ stream    ──▶ Arrow C stream, batch by batch
//!      ├─ load, register ◀── Arrow C stream
//!      └─ tables, inspect ──▶ JSON                 machine: topology, doctor ──▶ JSON
//! ```
//!
//! Work runs on threads of its own. The thread that called waits in `wait` without the interpreter's lock, and wakes a
//! few times a second to let Python handle signals: Ctrl-C cancels the work and raises `KeyboardInterrupt`. Batches
//! cross in both directions as Arrow's C structures, which share buffers and copy none.

#![forbid(unsafe_code)]

mod error;
mod load;
mod machine;
mod options;
mod preview;
mod query;
mod rows;
mod session;
mod stored;
mod stream;
mod wait;

use std::ffi::OsString;
use std::path::PathBuf;

use pelton_device::libraries;
use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;

/// Of the memory that this library takes; Python and other libraries keep theirs.
#[global_allocator]
static ALLOCATOR: pelton_limits::Heap = pelton_limits::Heap;

/// The native half of the package; `pelton` is what programs use.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    if let Some(feature) = pelton_cli::missing_cpu_feature() {
        return Err(PyImportError::new_err(format!(
            "this build of pelton needs a CPU with {feature}; build it from source on this machine without \
             .cargo/config.toml"
        )));
    }
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<session::Session>()?;
    module.add_class::<query::Query>()?;
    module.add_class::<rows::Rows>()?;
    module.add_class::<stream::Batches>()?;
    module.add_function(wrap_pyfunction!(run_command, module)?)?;
    module.add_function(wrap_pyfunction!(set_command, module)?)?;
    module.add_function(wrap_pyfunction!(set_folders, module)?)?;
    module.add_function(wrap_pyfunction!(machine::topology, module)?)?;
    module.add_function(wrap_pyfunction!(machine::doctor, module)?)
}

/// Runs the `pelton` command with these arguments, the first of which is its name, and returns its exit status.
#[pyfunction]
fn run_command(py: Python<'_>, args: Vec<OsString>) -> u8 {
    py.detach(|| pelton_cli::status(args))
}

/// Says how the `pelton` command is started, which compiles kernels in processes of its own. Called once, before anything else.
#[pyfunction]
fn set_command(command: Vec<OsString>) {
    pelton_cli::compile_kernels_with(command);
}

/// Says where the package lies, which may hold the CUDA library, and where wheels that hold NVRTC do. Called once, before
/// anything else.
#[pyfunction]
fn set_folders(package: PathBuf, nvrtc: Vec<PathBuf>) {
    libraries::look_for_cuda_library_in(package);
    libraries::look_for_nvrtc_in(nvrtc);
}
