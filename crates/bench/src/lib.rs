//! Everything that measures: queries beside a peer, storage, encodings, and published experiments reproduced.
//!
//! ```text
//!   workload, export    data sets as files and tables
//!   queries, storage, sampling, golap ──► results: text tables, JSON lines
//!                                 └─────────────┐
//!   Machine (CUDA, logical devices, simulated)  │
//!      │                                        │
//!      ▼  cases, each repeated by the harness   ▼
//!   p2p, transfer ──► Report { rows beside the paper's numbers, shapes that hold or do not }
//!                        ├──► text    (tables for people)
//!                        ├──► JSON    (docs/specs/experiment.md)
//!                        └──► plot    (SVG)
//! ```
//!
//! Each experiment checks its answers, or the bytes that arrived, before it reports a time, names the phases that a time
//! includes, and prints ratios to something measured in the same run. A row of a published experiment says what the
//! paper's text says, what came out here, their ratio, and whether that was measured or simulated; the two never share a
//! table. What a machine cannot do is a row that names what is missing. An experiment also judges its *shapes*: the
//! qualitative findings that should hold on any machine of that kind.
//!
//! Nothing here tunes: it calls what other crates offer and takes the time. `join`, `p2p`, `sort` and `transfer` know no table and no
//! SQL.

#![forbid(unsafe_code)]

pub mod export;
pub mod workload;

pub mod queries;
pub mod sampling;
pub mod storage;
mod wait;

pub mod results;

mod figure;
mod harness;
pub mod plot;
mod report;

pub mod golap;
pub mod join;
pub mod limits;
pub mod p2p;
pub mod sort;
pub mod transfer;

pub use harness::{Harness, Summary, Times};
pub use report::{Grid, Measured, Outcome, Quoted, Report, Row, Shape, Tag, Verdict};
