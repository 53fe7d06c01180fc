//! Subtrees of plans on a device: lowered to pipelines, run, and shown.
//!
//! ```text
//!   rule.rs      the largest subtrees that can run there, from the top, each lowered once (tries.rs); subquery.rs: with scalar
//!                subqueries that read the same as they do; raw_keys.rs: groups by texts of which the host computes the
//!                keys; full.rs: FULL joins
//!     lower.rs   a subtree as pipelines: scan.rs, join.rs, aggregate.rs (functions.rs, distinct.rs), top.rs, sort.rs;
//!                expr.rs, arithmetic.rs, dates.rs, text.rs
//!     enough.rs  limits without an order above it
//!     cost.rs    what it is predicted to take, corrected by what took how long (corrections.rs); experience.rs: what
//!                was learnt by trying (trial.rs)
//!   exec.rs      the plan node: host inputs (host_input.rs), the run (run.rs), its rows as batches (result.rs, of_groups.rs,
//!                variance.rs, rows_out.rs), late texts (late.rs, text_pages.rs), the way back to the CPU (again.rs)
//!   describe.rs  EXPLAIN
//!   foreground.rs, background.rs   how trials give way to queries
//!   device.rs    what was chosen, and the runtime, opened when it is first needed
//! ```
//!
//! Kernels are the business of `pelton-pipeline`; here a query becomes what that takes, and no answer depends on where
//! it was computed.

mod again;
mod aggregate;
mod arithmetic;
mod background;
mod builder;
mod contract;
mod corrections;
mod cost;
mod dates;
mod describe;
mod device;
mod distinct;
mod enough;
mod exec;
mod experience;
mod expr;
mod foreground;
mod full;
mod functions;
mod host_input;
mod join;
mod late;
mod lower;
mod of_groups;
mod raw_keys;
mod result;
mod rows_out;
mod rule;
mod run;
mod scan;
mod sort;
mod subquery;
mod text;
mod text_kernel;
mod text_key;
mod text_pages;
mod top;
mod trial;
mod tries;
mod value;
mod variance;
mod windows;

pub(crate) use again::anew;
pub(crate) use describe::{device_text, pipeline_texts, reason_on_cpu, why_text};
pub use device::{DeviceChoice, DeviceHandle};
pub use exec::{PeltonGpuExec, StepTime};
pub(crate) use rule::GpuRule;
pub(crate) use trial::is_on_trial;
