//! Query pipelines over column chunks, on GPUs and on the host: plans, and the kernels that they become.
//!
//! ```text
//!   Plan (ir) ──► codegen    a kernel for each pipeline, as source, and how its arguments and results lie
//!             ──► program    compiled for a GPU by NVRTC, for the host by the system's compiler; cached
//! ```
//!
//! One source serves both targets, so that pipelines are tested without a GPU (docs/decisions/0007). The parts of it
//! that do not depend on the query are in `cuda/pipeline`. Invariants: what a kernel cannot compute exactly as the CPU
//! would is refused by name; nothing is compiled twice. Deliberately absent: bytes of columns and runs; SQL, DataFusion, Arrow.

#![deny(unsafe_code)]

pub mod ir;

mod cut;
mod rows;
mod same;
mod text;
mod text_extract;
mod text_hash;
mod text_kernel;
mod text_results;
mod windows;

pub mod codegen;
mod program;

pub use cut::Cut;
pub use program::{
    CompileReport, Compiler, Effort, Launch, Origin, Program, Target, check_source, compile_for_check,
    may_compile_for_host, nvrtc_status,
};
pub use rows::{RowColumn, RowValues, Rows};
pub use text::{Dictionary, TextSource};
