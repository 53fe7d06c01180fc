//! Column chunks: encodings, codecs and skipping metadata. This crate specifies the bytes.
//!
//! It does no I/O, knows no GPU, no Arrow and no SQL. `docs/specs/table.md` is its contract in prose.

pub mod types;
