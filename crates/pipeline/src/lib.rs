//! Query pipelines over column chunks, on GPUs and on the host.
//!
//! ```text
//!   Plan ──► Runtime ──► Rows
//!              ├ codegen    a kernel for each pipeline, as source
//!              ├ program    compiled for a GPU by NVRTC, for the host by the system's compiler; cached
//!              ├ tier       where columns are: disk, pinned memory, device memory; prefetching them to the device
//!              └ run        morsels in flight, tables and groups on the device, what to do when they are too small
//! ```
//!
//! One source serves both targets, so that pipelines are tested without a GPU (docs/decisions/0007). The parts of it
//! that do not depend on the query are in `cuda/pipeline`. Invariants: a plan gives the rows that the same query gives
//! on the CPU, or an error of kind `Unsupported` or `OutOfMemory` that sends it there; memory is taken under the
//! device's budget; nothing is compiled twice. Deliberately absent: SQL, DataFusion, Arrow; the choice of what runs
//! where; more than one device at a time.

#![deny(unsafe_code)]

pub mod ir;

mod rows;
mod text;
mod text_results;
mod trace;

mod codegen;
mod program;
mod run;
mod tier;

pub use pelton_transfer::Links;
pub use program::{
    CompileReport, Compiler, Launch, Origin, Program, Target, compile_for_check, nvrtc_status,
};
pub use rows::{RowColumn, RowValues, Rows};
pub use run::{Filters, OverflowChecks, PipelineReport, RunReport, Runtime, RuntimeOptions, TargetChoice};
pub use text::{Dictionary, TextSource};
pub use tier::{
    ColumnCache, ColumnCacheOptions, ColumnText, DataTier, Decompress, Decompression, Morsel, PinReport,
    PrefetchOptions, PrefetchReport, Prefetcher, TableText, column_dictionary, formats, text_supported,
};
pub use trace::{
    Activity, CURVE_POINTS_MAX, MemoryCurve, MemoryTier, SPANS_MAX, SpanPlace, SpanSize, Trace, TraceSpan,
    Tracer,
};
