//! Between Arrow arrays and columns in memory; both directions are on the hot path.
//!
//! ```text
//!   in:   any Arrow flavour of the logical type -> one Column: plain vectors, offsets from 0
//!   out:  fixed width     the decoded vector becomes the Arrow buffer, nothing is copied
//!         decimals <= 18  widened from 64 to 128 bits (DataFusion computes on Decimal128), or as they are
//!         plain strings   16-byte views over the decoded bytes, which are shared, not copied
//!         dictionaries    views of the entries are made once, then gathered by code
//! ```
//!
//! Rows may be chosen on the way out: of the narrow forms, codes and whole numbers, so that no more is widened or gathered.
//!
//! UTF-8 is checked once: over the bytes of a chunk where strings are plain, over the entries where
//! there is a dictionary. Stored bytes that are not UTF-8 are corrupt.
//! Traffic out: 16 bytes a string row written, 4 (offset or code) read.

mod from_arrow;
mod to_arrow;

pub use from_arrow::column_from_arrow;
pub use to_arrow::{column_to_arrow, column_to_stored_arrow};

#[cfg(test)]
mod tests;
