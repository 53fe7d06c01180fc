//! The machine as a graph: what it is made of, how fast each link is, how bytes get from one place to another.
//!
//! ```text
//!   discover ─┐                             ┌─ render       tables and drawings
//!   preset ───┼──► Topology ──► route ──────┼─ pelton_sim   a Machine in virtual time
//!   JSON ─────┘       ▲                     │                        │
//!                     │ apply               └─ pelton_transfer ──► Machine
//!                  Profile ◄────────────────────── measure ◄─────────┘
//! ```
//!
//! The crate knows what a machine is made of and what each way through it costs; it moves no byte and measures nothing
//! itself. It does not know what a column means, and nothing above it knows the machine but through it.

#![forbid(unsafe_code)]

pub mod discover;
pub mod doctor;
mod preset;
pub mod profile;
mod rates;
pub mod render;
mod route;
mod size_curve;
mod topology;

pub use discover::{GpuSource, Sources, Survey, discover, fingerprint, survey};
pub use preset::{PRESET_NAMES, preset};
pub use rates::{CodecRate, CodecRates, PipelineRates, Rate, RateOrigin, Rates};
pub use route::{Hop, Route, STAGING_EFFICIENCY, best_route, direct_route, routes};
pub use size_curve::SizeCurve;
pub use topology::*;
