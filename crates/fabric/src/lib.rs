//! The machine as a graph: what it is made of, how fast each link is, how bytes get from one place to another.

#![deny(unsafe_code)]

pub mod discover;
mod topology;
pub mod transfer;

pub use discover::{GpuSource, Sources, Survey, discover, fingerprint, survey};
pub use topology::*;
