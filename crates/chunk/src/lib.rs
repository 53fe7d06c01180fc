//! Column chunks: encodings, codecs and their bytes.
//!
//! A chunk is one column of one row group, self-contained. This crate turns a [`Column`] into the bytes of a
//! chunk and back; it does no I/O, knows no GPU, no Arrow and no SQL. `docs/specs/chunk.md` is its contract,
//! byte by byte.
//!
//! ```text
//!   Column ──transform──▶ integers ──layout──▶ pages ──codec──▶ chunk
//!            dictionary               bit-packed       lz4, snappy,
//!            alp, fsst                delta            zstd, deflate
//!                                     run length
//! ```
//!
//! ```
//! use pelton_chunk::{ChunkView, Column, DecodedValues, PhysicalType, Values, encode_chunk};
//!
//! let column = Column::new(Values::I32((0..5000).map(|row| 700 + row % 50).collect()));
//! let chunk = encode_chunk(&column, "bitpack".parse()?, 1024)?;
//! assert!(chunk.len() < 5000);
//!
//! let view = ChunkView::parse(&chunk, PhysicalType::I32, 5000)?;
//! assert_eq!(view.decode()?.values, DecodedValues::Plain(column.values));
//! # Ok::<(), pelton_error::Error>(())
//! ```
//!
//! Reading is safe on arbitrary bytes: [`ChunkView::parse`] checks every length and offset, decoding checks what
//! only the payload can show, and no allocation is larger than the rows asked for and the codec's greatest
//! expansion justify. Whether bytes are the ones that were written is for the checksum one level up.

#![deny(unsafe_code)]

pub mod types;

mod alp;
mod analysis;
mod bitpack;
mod bitstream;
mod codec;
mod decode;
mod decompress;
mod delta;
mod dictionary;
mod encode;
mod encoding;
mod format;
mod fsst;
mod lanes;
mod plain;
mod runs;
mod view;
mod writer;

pub use analysis::{best_light, candidates};
pub use codec::Codec;
pub use decode::{DecodedColumn, DecodedValues};
pub use decompress::{
    Section, decompress_chunk, decompressed_bytes, directory_bytes, sections, write_decompressed_directory,
};
pub use encode::encode_chunk;
pub use encoding::{Encoding, Layout, Transform};
pub use format::{DEFAULT_PAGE_ROWS, PAGE_ROWS_MAX};
pub use types::{ByteValues, Column, PhysicalType, Validity, Values};
pub use view::ChunkView;
