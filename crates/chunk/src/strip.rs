//! Chunks for readers that cannot decompress: the same chunk without its codec, and what such a reader asks of it.
//!
//! ```text
//!   header, codec zstd │ entries │ dictionary ░░ │ page 0 ░░░ │ page 1 ░ │          as stored
//!   header, codec none │ entries │ dictionary ▓▓▓▓ │ page 0 ▓▓▓▓▓▓ │ page 1 ▓▓▓▓ │  stripped
//! ```
//!
//! The stripped chunk is a valid chunk of the same values: stored lengths are those before the codec, offsets are
//! recomputed, everything else stays. Each page is decompressed straight to its place.

use pelton_error::{Result, ResultExt};

use crate::codec::Codec;
use crate::dictionary;
use crate::encoding::{Layout, Transform};
use crate::format::{
    CHUNK_ALIGN, HEADER_BYTES, Header, PAGE_ENTRY_BYTES, PageEntry, PageNulls, SECTION_ALIGN,
};
use crate::types::{ByteValues, PhysicalType};
use crate::view::ChunkView;

/// The length in bytes of what [`strip_codec`] writes; of a chunk without codec its own length.
pub fn stripped_bytes(view: &ChunkView<'_>) -> usize {
    let mut end = pages_start(&view.header);
    for entry in &view.entries {
        end = end.next_multiple_of(SECTION_ALIGN) + entry.page_bytes as usize;
    }
    end.next_multiple_of(CHUNK_ALIGN)
}

/// Writes the chunk without its codec to `target`, all of it.
///
/// # Errors
///
/// `Corrupt` where a page or the dictionary does not decompress to the length that its entry says.
///
/// # Panics
///
/// If `target` is not [`stripped_bytes`] long.
pub fn strip_codec(view: &ChunkView<'_>, target: &mut [u8]) -> Result<()> {
    assert_eq!(target.len(), stripped_bytes(view), "the caller makes room for the stripped chunk");
    if view.header.encoding.codec == Codec::None {
        target.copy_from_slice(view.bytes);
        return Ok(());
    }
    let header = Header {
        encoding: view.header.encoding.with_codec(Codec::None),
        chunk_bytes: target.len() as u64,
        dictionary_stored_bytes: view.header.dictionary_bytes,
        ..view.header
    };
    target[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
    strip_dictionary(view, target).context(|| "dictionary".into())?;
    let mut end = pages_start(&header);
    for page in 0..view.entries.len() {
        end = strip_page(view, page, end, target).context(|| format!("page {page}"))?;
    }
    target[end..].fill(0);
    Ok(())
}

/// Where pages may start: behind the dictionary before the codec.
fn pages_start(header: &Header) -> usize {
    (header.dictionary_offset() + header.dictionary_bytes as usize).next_multiple_of(SECTION_ALIGN)
}

fn strip_dictionary(view: &ChunkView<'_>, target: &mut [u8]) -> Result<()> {
    let start = view.header.dictionary_offset();
    let end = start + view.header.dictionary_bytes as usize;
    let entries_end = HEADER_BYTES + view.entries.len() * PAGE_ENTRY_BYTES;
    target[entries_end..start].fill(0);
    let stored = &view.bytes[start..][..view.header.dictionary_stored_bytes as usize];
    expand(view, stored, &mut target[start..end])?;
    target[end..pages_start(&view.header)].fill(0);
    Ok(())
}

/// Writes page `page`, whose predecessor ends at `end`, and its entry; answers where it ends.
fn strip_page(view: &ChunkView<'_>, page: usize, end: usize, target: &mut [u8]) -> Result<usize> {
    let entry = &view.entries[page];
    let start = end.next_multiple_of(SECTION_ALIGN);
    let page_end = start + entry.page_bytes as usize;
    target[end..start].fill(0);
    let stored = &view.bytes[entry.byte_offset as usize..][..entry.stored_bytes as usize];
    expand(view, stored, &mut target[start..page_end])?;
    let stripped = PageEntry { byte_offset: start as u64, stored_bytes: entry.page_bytes, ..*entry };
    let at = HEADER_BYTES + page * PAGE_ENTRY_BYTES;
    target[at..at + PAGE_ENTRY_BYTES].copy_from_slice(&stripped.to_bytes());
    Ok(page_end)
}

/// What did not shrink was stored as it is.
fn expand(view: &ChunkView<'_>, stored: &[u8], target: &mut [u8]) -> Result<()> {
    if stored.len() == target.len() {
        target.copy_from_slice(stored);
        return Ok(());
    }
    view.header.encoding.codec.decompress(stored, target)
}

impl ChunkView<'_> {
    /// The byte strings that the codes of this chunk stand for, in order: one for a constant chunk, none where every
    /// row is NULL. `None` where rows are not codes: for values of fixed width and for plain byte strings.
    ///
    /// # Errors
    ///
    /// `Corrupt` where the dictionary section does not hold as many strings as the header says.
    pub fn strings(&self) -> Result<Option<ByteValues>> {
        let has_codes = self.header.encoding.transform == Transform::Dictionary
            || self.header.encoding.layout == Layout::Constant;
        if self.header.ty != PhysicalType::Bytes || !has_codes {
            return Ok(None);
        }
        match self.header.dictionary_count as usize {
            0 => Ok(Some(ByteValues::default())),
            count => dictionary::strings_from_bytes(&self.dictionary_bytes()?, count).map(Some),
        }
    }

    /// The width in bits of each bit-packed page that has values, in order; nothing under other layouts.
    pub fn packed_widths(&self) -> impl Iterator<Item = u8> {
        let is_packed = self.header.encoding.layout == Layout::BitPacked;
        let with_values =
            self.entries.iter().filter(move |entry| is_packed && entry.nulls != PageNulls::AllNull);
        with_values.map(|entry| entry.params.width)
    }
}
