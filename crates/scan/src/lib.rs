//! Chunks of stored columns, brought to where kernels read them.
//!
//! ```text
//!   ColumnCache   which columns are in device memory, in pinned memory, or on disk alone
//!     ├ admit       a column to the device, the least recently used out; cache: those of one device
//!     └ text        the dictionary of a text column, the union of those of its chunks
//!   Prefetcher    the row groups of a scan in morsels, several in flight
//!     ├ read_ahead             chunks asked of files before their turn; checksums; codecs off on the host
//!     ├ morsel_layout, staging where each chunk lies in the buffer of its morsel
//!     ├ device_decompression   codecs off on the device, where that is predicted to be faster
//!     └ multi_link             over the links of neighbours too, where they pay
//! ```
//!
//! Invariants: every chunk has passed its checksum before it gets anywhere; whichever tier a chunk comes from and
//! whoever takes its codec off, kernels see the same bytes; memory is reserved before it is used, and where it is short
//! there are fewer buffers, not an error; a chunk that somebody reads is not evicted. Deliberately absent: what kernels
//! do with chunks; which row groups are wanted, which the caller says; writing.

#![deny(unsafe_code)]

mod column_cache;

mod admission;
mod admit;
mod cache;
mod extent;
mod formats;
mod text;
mod uses;

mod device_decompression;
mod morsel_layout;
mod multi_link;
pub mod parallel;
mod prefetcher;
mod read_ahead;
mod staging;
mod timings;

mod decompress;

pub use column_cache::{ColumnCache, ColumnCacheOptions, DataTier, PinReport};
pub use decompress::{Decompress, Decompression};
pub use formats::{TextForm, formats, may_have_dictionary, text_form, text_supported};
pub use prefetcher::{Morsel, PrefetchOptions, PrefetchReport, Prefetcher};
pub use read_ahead::RowGroups;
pub use text::{ColumnText, TableText, column_dictionary};
pub use timings::{Lap, MorselTimings};
