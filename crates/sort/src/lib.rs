//! Sorting at the rate of links and memories: on a GPU, on several, on the CPU, and what fits on none of them.
//!
//! ```text
//!   Sorter ── prepare ──► Prepared ── sort(source, target) ──► Report
//!              plan: algorithm, devices, memory taken      rows of host memory, of any machine's backend
//!
//!   gpu            one device holds all rows                       device/local.rs
//!   p2p            2^k devices, halves merged over their links     device/p2p.rs
//!   rp             any number, one exchange of ranges              device/partitioned.rs
//!   het-2n, -3n    chunks sorted on devices, merged by the CPU     device/het.rs
//!   range          chunks sorted, then ranges of them; no merge    device/range.rs
//!   cpu, paradis   the host's cores                                host/
//!   auto           what is predicted to be fastest                 predict.rs
//!   ExternalSort   runs on disk, for what the host does not hold   external.rs
//! ```
//!
//! Rows are a column of keys and, if there is one, a column of payloads of fixed width. All memory is taken before
//! anything is timed, under the budgets of the machine; however a sort ends, nothing of it is under way afterwards. An
//! algorithm changes times and never the result, but for the order of equal keys where that is said.
//!
//! The crate chooses no place for tables, parses nothing and knows no SQL, no Arrow and no columns but these two.
//!
//! Source: Maltenberger, Ilic, Tolovski, Rabl, "Evaluating Multi-GPU Sorting with Modern Interconnects", 2022.

#![forbid(unsafe_code)]

mod key;
mod options;
mod report;

mod rows;

mod columns;
mod device;
pub mod host;

mod order;
mod plan;
mod predict;
mod sorter;

mod external;

pub mod generate;
mod verify;

pub use external::{ExternalOptions, ExternalReport, ExternalSort, Sink};
pub use key::{Bits, Carried, Key, Payload, SortSpec, key_name, parse_key};
pub use options::{Algorithm, Eager, Pairing, SortOptions};
pub use order::best_order;
pub use pelton_kernels::Direction;
pub use report::{LinkBytes, Phases, Prediction, Report, Stage};
pub use rows::Rows;
pub use sorter::{Prepared, Sorter};
pub use verify::{Fingerprint, fingerprint, verify};
