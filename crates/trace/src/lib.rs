//! What a query did when, on the CPU and on devices alike: spans and the memory of each tier, on one clock.
//!
//! ```text
//!   scans on the CPU ──┐
//!   scans to a device ─┼── Tracer ──► Trace ──► spans, memory curves ──► the profile of a query
//!   kernels, copies ───┘
//! ```
//!
//! Invariants: who is not traced pays for one look at an `Option`; what a trace holds is bounded, and what did not fit
//! is counted. Deliberately absent: devices and their events, which whoever has them puts on the host's clock; plans;
//! what a page looks like. It depends on nothing.

#![forbid(unsafe_code)]

mod trace;

pub use trace::{
    Activity, CURVE_POINTS_MAX, MemoryCurve, MemoryTier, SPANS_MAX, SpanPlace, SpanSize, Trace, TraceSpan,
    Tracer,
};
