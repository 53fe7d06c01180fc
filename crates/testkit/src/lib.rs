//! Random tables and predicates for tests; never a normal dependency.
//!
//! Everything is a function of a seed, so a failing test names the seed that brings it back.

#![forbid(unsafe_code)]

mod predicate;
mod random;
mod rows;

pub use predicate::random_predicate;
pub use random::Random;
pub use rows::{random_rows, schema};
