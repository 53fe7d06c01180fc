//! The chunk directory of a segment: where each chunk lies. Row group by row group, column by column.
//!
//! ```text
//!   entry of 40 bytes
//!   byte    0  8  byte offset in the data file, a multiple of 4096
//!           8  8  stored bytes; zeros follow to the next multiple of 4096
//!          16  8  raw bytes: uncompressed, 4 a string for its offset
//!          24  8  checksum of the stored bytes
//!          32  1  transform, 1  layout, 1  codec (the tags of chunk.md)
//!          35  5  zero
//! ```

use pelton_chunk::{Codec, Encoding, Layout, Transform};
use pelton_error::{Error, Result};

use super::{ALIGNMENT, u64_at};

const ENTRY_BYTES: usize = 40;

/// Where one column of one row group lies, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChunkLocation {
    /// The segment, as [`Table::segment_file`](crate::Table::segment_file) counts them.
    pub segment: usize,
    /// Where it starts in the data file; a multiple of 4 KiB.
    pub byte_offset: u64,
    /// Its length; the file goes on to the next multiple of 4 KiB.
    pub stored_bytes: u64,
    /// Uncompressed, as [`Values::raw_bytes`](pelton_chunk::Values::raw_bytes) counts.
    pub raw_bytes: u64,
    /// XXH3-64 of the stored bytes.
    pub checksum: u64,
    /// What it was written with (the chunk itself says so too).
    pub encoding: Encoding,
}

/// The directory section of `chunks`, in order.
pub(crate) fn write_directory(chunks: &[ChunkLocation]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(chunks.len() * ENTRY_BYTES);
    for chunk in chunks {
        for field in [chunk.byte_offset, chunk.stored_bytes, chunk.raw_bytes, chunk.checksum] {
            bytes.extend_from_slice(&field.to_le_bytes());
        }
        let Encoding { transform, layout, codec } = chunk.encoding;
        bytes.extend_from_slice(&[transform as u8, layout as u8, codec as u8, 0, 0, 0, 0, 0]);
    }
    bytes
}

/// Reads a directory of exactly `count` chunks of `segment`, which all lie within `data_bytes`.
pub(crate) fn read_directory(
    bytes: &[u8],
    count: usize,
    segment: usize,
    data_bytes: u64,
) -> Result<Vec<ChunkLocation>> {
    if Some(bytes.len()) != count.checked_mul(ENTRY_BYTES) {
        return Err(Error::corrupt(format!(
            "the chunk directory has {} bytes where {count} chunks need {ENTRY_BYTES} each",
            bytes.len()
        )));
    }
    // A collection of results would not know how many there are, and a table has a million of them.
    let mut chunks = Vec::with_capacity(count);
    for entry in bytes.chunks_exact(ENTRY_BYTES) {
        chunks.push(read_entry(entry, segment, data_bytes)?);
    }
    Ok(chunks)
}

fn read_entry(entry: &[u8], segment: usize, data_bytes: u64) -> Result<ChunkLocation> {
    let damaged = |what: &str| Error::corrupt(format!("an entry of the chunk directory has {what}"));
    let transform = Transform::from_tag(entry[32]).ok_or_else(|| damaged("an unknown transform"))?;
    let layout = Layout::from_tag(entry[33]).ok_or_else(|| damaged("an unknown layout"))?;
    let codec = Codec::from_tag(entry[34]).ok_or_else(|| damaged("an unknown codec"))?;
    let chunk = ChunkLocation {
        segment,
        byte_offset: u64_at(entry, 0),
        stored_bytes: u64_at(entry, 8),
        raw_bytes: u64_at(entry, 16),
        checksum: u64_at(entry, 24),
        encoding: Encoding { transform, layout, codec },
    };
    let end = chunk.byte_offset.checked_add(chunk.stored_bytes);
    if !chunk.byte_offset.is_multiple_of(ALIGNMENT as u64) || end.is_none_or(|end| end > data_bytes) {
        return Err(damaged("a place outside its data file"));
    }
    Ok(chunk)
}
