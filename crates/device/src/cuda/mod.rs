//! CUDA devices behind the driver, which is found at run time.
//!
//! ```text
//!   open ──► driver.rs    libcuda, its version, contexts           an error names what is missing and the remedy
//!              │
//!            memory.rs    pools, pinned memory kept for reuse, managed
//!            ranges.rs    address ranges put together from pages: hybrid, interleaved
//!            stream.rs    device streams, events; host streams beside them, ordered by a word of pinned memory
//!            module.rs    kernels compiled at run time
//!            nvrtc.rs     their compiler, which needs no driver
//!            compilers.rs the same in processes of their own
//!            nvcomp.rs    decoders of general-purpose codecs
//!            file.rs      storage to device by cuFile
//! ```
//!
//! Without a driver nothing here panics or prints.

mod backend;
mod compilers;
mod driver;
mod file;
mod memory;
mod module;
mod nvcomp;
mod nvrtc;
mod ranges;
mod stream;

pub use backend::{CudaOptions, copy_engine_counts, memory_info, open, pci_addresses};
pub use compilers::{compile_with, serve_compiler};
pub use driver::{DriverStatus, status};
pub use file::{CuFile, CuFileHandle};
pub use module::{Function, Grid, Module};
pub use nvcomp::{Nvcomp, NvcompBatch, NvcompCodec, nvcomp};
pub use nvrtc::{Nvrtc, NvrtcArchitecture, nvrtc};
