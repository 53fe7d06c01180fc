//! Transfers: bytes from one place to another, by every method that hardware offers.
//!
//! ```text
//!   Delivery   columns in host memory ──► row ranges that kernels of a device may read       method.rs, delivery.rs
//!   relay      span ──► hop ──► hop ──► span, chunks in flight on every hop at once           lane.rs
//!   multi-link span ──► own link ─────────────────► span                                      multi_link.rs
//!                └────► a neighbour's link ─► peer link ─┘
//!   Storage    file ──► device memory, by cuFile or through pinned memory                     storage.rs
//!   measure    a machine ──► its Profile: every link, every method, host memory, storage      measure/mod.rs
//! ```
//!
//! All of them cut what they move into chunks and keep some in flight; what a chunk waits for is said by events, so
//! nothing here blocks but [`Delivery::next_chunk`] on its oldest chunk, and methods that say so. An operator states
//! how it goes through its input and where; [`choose`] picks the method by what was measured. What the machine cannot
//! do is an error that names the capability, never a silent substitute.
//!
//! Traffic: every byte once over every link of its route; staged copies read and write host memory once more.
//!
//! Queries and measurements use the same transfers, and files are read by `pelton_io` as tables are, so what was measured
//! is what a query gets. The crate asks a topology which links there are; it finds no machine, keeps no profile, and does
//! not know what a column means.

#![forbid(unsafe_code)]

mod choose;
mod delivery;
mod lane;
pub mod measure;
mod method;
mod multi_link;
mod options;
mod storage;

pub use choose::{Choice, MethodRate, MethodRates, choose};
pub use delivery::{Chunk, Column, Delivery};
pub use lane::{Transfer, copy, relay};
pub use method::Method;
pub use multi_link::{HelperLink, Links, MultiLinkCopier, copy_multi_link, links_for};
pub use options::TransferOptions;
pub use storage::{Storage, StorageOptions, StoragePath};
