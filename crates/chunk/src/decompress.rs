//! Chunks for readers that cannot decompress: the same chunk without its codec, and what such a reader asks of it.
//!
//! ```text
//!   header, codec zstd │ entries │ dictionary ░░ │ page 0 ░░░ │ page 1 ░ │          as stored
//!   header, codec none │ entries │ dictionary ▓▓▓▓ │ page 0 ▓▓▓▓▓▓ │ page 1 ▓▓▓▓ │  decompressed
//! ```
//!
//! The decompressed chunk is a valid chunk of the same values: stored lengths are those before the codec, offsets are
//! recomputed, everything else stays. Each page is decompressed straight to its place.

use std::fmt;
use std::ops::Range;

use pelton_error::{Result, ResultExt};

use crate::codec::Codec;
use crate::dictionary;
use crate::encoding::{Layout, Transform};
use crate::format::{
    CHUNK_ALIGN, HEADER_BYTES, Header, PAGE_ENTRY_BYTES, PageEntry, PageNulls, SECTION_ALIGN,
};
use crate::types::{ByteValues, PhysicalType};
use crate::view::ChunkView;

/// The length in bytes of what [`decompress_chunk`] writes; of a chunk without codec its own length.
pub fn decompressed_bytes(view: &ChunkView<'_>) -> usize {
    let mut end = pages_start(&view.header);
    for entry in &view.entries {
        end = end.next_multiple_of(SECTION_ALIGN) + entry.page_bytes as usize;
    }
    end.next_multiple_of(CHUNK_ALIGN)
}

/// A part of a chunk that goes through the codec on its own: the dictionary, or a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// The page; `None` for the dictionary.
    pub page: Option<usize>,
    /// Its bytes as stored, in the chunk.
    pub stored: Range<usize>,
    /// Its bytes in the decompressed chunk; of equal length where the codec did not shrink it.
    pub decompressed: Range<usize>,
}

impl Section {
    /// True where its stored bytes are compressed.
    pub fn is_compressed(&self) -> bool {
        self.stored.len() != self.decompressed.len()
    }

    /// Writes the section of `chunk`, whose codec is `codec`, without it to `target`.
    ///
    /// # Errors
    ///
    /// `Corrupt` where it does not decompress to its length; names the section.
    ///
    /// # Panics
    ///
    /// If `target` is not as long as the decompressed section.
    pub fn expand(&self, codec: Codec, chunk: &[u8], target: &mut [u8]) -> Result<()> {
        assert_eq!(target.len(), self.decompressed.len(), "the caller makes room for the section");
        let stored = &chunk[self.stored.clone()];
        if !self.is_compressed() {
            target.copy_from_slice(stored);
            return Ok(());
        }
        codec.decompress(stored, target).context(|| self.to_string())
    }
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.page {
            Some(page) => write!(f, "page {page}"),
            None => f.write_str("dictionary"),
        }
    }
}

/// The sections of a chunk, in order, without empty ones; what lies between them in the decompressed chunk, before
/// them and behind them, is [`write_decompressed_directory`]'s and zeros.
pub fn sections(view: &ChunkView<'_>) -> Vec<Section> {
    let header = &view.header;
    let (stored, decompressed) = (header.dictionary_stored_bytes as usize, header.dictionary_bytes as usize);
    let start = header.dictionary_offset();
    let dictionary =
        Section { page: None, stored: start..start + stored, decompressed: start..start + decompressed };
    let mut end = pages_start(header);
    let pages = view.entries.iter().enumerate().map(|(page, entry)| {
        let (from, to) = (entry.byte_offset as usize, end.next_multiple_of(SECTION_ALIGN));
        end = to + entry.page_bytes as usize;
        Section { page: Some(page), stored: from..from + entry.stored_bytes as usize, decompressed: to..end }
    });
    std::iter::once(dictionary).chain(pages).filter(|section| !section.decompressed.is_empty()).collect()
}

/// The length of what [`write_decompressed_directory`] writes, a multiple of 128.
pub fn directory_bytes(view: &ChunkView<'_>) -> usize {
    view.header.dictionary_offset()
}

/// Writes header and page entries of the decompressed chunk, and the zeros up to its first section.
///
/// # Panics
///
/// If `target` is not [`directory_bytes`] long.
pub fn write_decompressed_directory(view: &ChunkView<'_>, target: &mut [u8]) {
    assert_eq!(target.len(), directory_bytes(view), "the caller makes room for the directory");
    let header = Header {
        encoding: view.header.encoding.with_codec(Codec::None),
        chunk_bytes: decompressed_bytes(view) as u64,
        dictionary_stored_bytes: view.header.dictionary_bytes,
        ..view.header
    };
    target.fill(0);
    target[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
    let mut end = pages_start(&header);
    for (page, entry) in view.entries.iter().enumerate() {
        let start = end.next_multiple_of(SECTION_ALIGN);
        let decompressed = PageEntry { byte_offset: start as u64, stored_bytes: entry.page_bytes, ..*entry };
        let at = HEADER_BYTES + page * PAGE_ENTRY_BYTES;
        target[at..at + PAGE_ENTRY_BYTES].copy_from_slice(&decompressed.to_bytes());
        end = start + entry.page_bytes as usize;
    }
}

/// Writes the chunk without its codec to `target`, all of it.
///
/// # Errors
///
/// `Corrupt` where a page or the dictionary does not decompress to the length that its entry says.
///
/// # Panics
///
/// If `target` is not [`decompressed_bytes`] long.
pub fn decompress_chunk(view: &ChunkView<'_>, target: &mut [u8]) -> Result<()> {
    assert_eq!(target.len(), decompressed_bytes(view), "the caller makes room for the decompressed chunk");
    let codec = view.header.encoding.codec;
    if codec == Codec::None {
        target.copy_from_slice(view.bytes);
        return Ok(());
    }
    let mut end = directory_bytes(view);
    write_decompressed_directory(view, &mut target[..end]);
    for section in sections(view) {
        let Range { start, end: section_end } = section.decompressed;
        target[end..start].fill(0);
        section.expand(codec, view.bytes, &mut target[start..section_end])?;
        end = section_end;
    }
    target[end..].fill(0);
    Ok(())
}

/// Where pages may start: behind the dictionary before the codec.
fn pages_start(header: &Header) -> usize {
    (header.dictionary_offset() + header.dictionary_bytes as usize).next_multiple_of(SECTION_ALIGN)
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
