//! The machine as a graph: what it is made of, how fast each link is, how bytes get from one place to another.

#![deny(unsafe_code)]

mod topology;

pub use topology::*;
