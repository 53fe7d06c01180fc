//! Reading files: one engine per process, asynchronous, with or without the page cache.
//!
//! ```text
//!   read(file, offset, len)                                                    engine.rs
//!     │ takes a 4 KiB aligned buffer from the pool                             buffer.rs
//!     ├─ buffered: what lies in the page cache is copied at once, by the caller; all of it: done
//!     └─ the rest is queued                                                    request.rs
//!          ├─ ring:        one thread feeds io_uring, `depth` reads of at most 1 MiB in flight
//!          └─ positioned:  up to 8 threads call pread (no io_uring here, or not wanted)
//!   the future gives the buffer, or the error that names file and offset
//! ```
//!
//! Dropping the future is always safe: the engine owns the buffer until the kernel is done with it. A
//! read that nobody waits for any more is not started.
//!
//! Which mode: [`IoMode::Auto`] reads a file through the page cache where all the bytes that belong together with it,
//! those of a table, are at most half of the memory available when it is first read, because queries that come again
//! are then served from memory; a file of a larger table is read with O_DIRECT, because it would evict everything and
//! still miss.
//!
//! Bounds: at most `depth` reads of 1 MiB in the kernel; free buffers at most `pool_bytes`. Buffers in
//! use are the callers': a scan bounds its read-ahead.
//!
//! It writes nothing, keeps no data, and does not know what the bytes mean.

#![deny(unsafe_code)]

mod file;

mod buffer;
mod request;

mod engine;

mod positioned;
mod ring;
mod throttle;

pub use buffer::AlignedBytes;
pub use engine::{IoCounters, IoEngine, IoMode, IoOptions, ReadFuture};
pub use file::OpenFile;

/// What direct reads ask for: they begin at multiples of this in a file and in memory.
pub const ALIGNMENT: usize = 4096;
