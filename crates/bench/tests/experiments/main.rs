//! Published experiments on the machine layer: how they are timed, what their reports say, what their plots show.
//!
//! One program, so that DataFusion, which none of them needs, is linked once.

mod common;
mod harness;
mod join;
mod p2p;
mod plots;
mod report;
mod sort;
mod transfer;
