//! The machine as a graph: what it is made of, how fast each link is, how bytes get from one place to another.
//!
//! ```text
//!   discover ─┐                             ┌─ render   tables and drawings
//!   preset ───┼──► Topology ──► route ──────┤
//!   JSON ─────┘       ▲                     └─ pelton_sim   a Machine in virtual time
//!                     │ apply                              │
//!   Machine ──► measure ──► Profile                     Machine
//!      └──────────────────► transfer ◄─────────────────────┘
//! ```
//!
//! The crate moves bytes between places and knows what each way costs; it does not know what a column means, and
//! nothing above it knows the machine but through it.

#![forbid(unsafe_code)]

pub mod discover;
pub mod doctor;
pub mod measure;
mod preset;
pub mod render;
mod route;
mod size_curve;
mod topology;
pub mod transfer;

pub use discover::{GpuSource, Sources, Survey, discover, fingerprint, survey};
pub use preset::{PRESET_NAMES, preset};
pub use route::{Hop, Route, STAGING_EFFICIENCY, best_route, direct_route, routes};
pub use size_curve::SizeCurve;
pub use topology::*;
