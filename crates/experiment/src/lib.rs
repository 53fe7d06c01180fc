//! Published experiments reproduced, on this machine and on simulated machines of the literature.
//!
//! ```text
//!   Machine (CUDA, logical devices, simulated)
//!      │
//!      ▼  cases of one experiment, each repeated by the harness
//!   p2p, transfer ──► Report { rows beside the paper's numbers, shapes that hold or do not }
//!                │
//!                ├──► text    (tables for people)
//!                ├──► JSON    (docs/specs/experiment.md)
//!                └──► plots   (SVG)
//! ```
//!
//! Every row says what the paper's text says, what came out here, their ratio, and whether that was measured or
//! simulated; the two never share a table. What a machine cannot do is a row that names what is missing. An
//! experiment also judges its *shapes*: the qualitative findings that should hold on any machine of that kind.
//!
//! Nothing here knows a table or SQL, and nothing here tunes: it calls what other crates offer and takes the time.

#![forbid(unsafe_code)]

mod harness;
pub mod p2p;
pub mod plot;
mod report;
pub mod transfer;

pub use harness::{Harness, Summary, Times};
pub use report::{Grid, Measured, Outcome, Quoted, Report, Row, Shape, Tag, Verdict};
