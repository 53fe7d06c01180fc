//! A chunk's bytes, checked: every length and offset in the header and the page directory holds.

use std::borrow::Cow;
use std::ops::Range;

use pelton_error::{Result, ResultExt};

use crate::encoding::{Encoding, Layout, Transform};
use crate::format::{
    CHUNK_ALIGN, HEADER_BYTES, Header, PAGE_ENTRY_BYTES, PageEntry, PageNulls, PageParams, SECTION_ALIGN,
    check_stored, corrupt,
};
use crate::types::PhysicalType;
use crate::{alp, bitpack, delta, fsst, plain, runs};

/// An encoded chunk whose structure has been checked; decoding is in `decode.rs`.
#[derive(Debug, Clone)]
pub struct ChunkView<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) header: Header,
    /// One for each page; none for a constant chunk.
    pub(crate) entries: Vec<PageEntry>,
}

/// A page's values, decompressed, without its validity bits.
pub(crate) struct Page<'a> {
    pub(crate) rows: usize,
    pub(crate) params: PageParams,
    /// Of the length that the layout computes from `params` and `rows`.
    pub(crate) body: &'a [u8],
}

impl<'a> ChunkView<'a> {
    /// Checks the header and the page directory of a chunk that its table says is of type `ty` and has
    /// `row_count` rows.
    pub fn parse(bytes: &'a [u8], ty: PhysicalType, row_count: u32) -> Result<Self> {
        let header = Header::from_bytes(bytes)?;
        if header.ty != ty || header.row_count != row_count {
            return Err(corrupt(format!(
                "chunk holds {} rows of {:?}, its table says {row_count} of {ty:?}",
                header.row_count, header.ty
            )));
        }
        if header.chunk_bytes != bytes.len() as u64 {
            return Err(corrupt(format!("chunk of {} bytes, {} given", header.chunk_bytes, bytes.len())));
        }
        let raw_bytes = ty.width_bytes().map(|width| width as u64 * u64::from(row_count));
        if raw_bytes.is_some_and(|raw_bytes| raw_bytes != header.raw_bytes) {
            return Err(corrupt(format!("chunk of {row_count} rows claims {} raw bytes", header.raw_bytes)));
        }

        let dictionary_end = header.dictionary_offset() as u64 + u64::from(header.dictionary_stored_bytes);
        if dictionary_end > bytes.len() as u64 {
            return Err(corrupt("chunk ends before its pages"));
        }
        let mut end = dictionary_end.next_multiple_of(SECTION_ALIGN as u64);
        let mut entries = Vec::with_capacity(header.directory_len());
        for page in 0..header.directory_len() {
            let entry =
                Self::parse_entry(bytes, &header, page, &mut end).context(|| format!("page {page}"))?;
            entries.push(entry);
        }
        if end.next_multiple_of(CHUNK_ALIGN as u64) != bytes.len() as u64 {
            return Err(corrupt("chunk does not end with its last page"));
        }
        Ok(Self { bytes, header, entries })
    }

    /// Reads directory entry `page`, whose page follows the one that ends at `end`.
    fn parse_entry(bytes: &[u8], header: &Header, page: usize, end: &mut u64) -> Result<PageEntry> {
        let entry_bytes = bytes[HEADER_BYTES + page * PAGE_ENTRY_BYTES..].first_chunk();
        let entry = PageEntry::from_bytes(entry_bytes.expect("the directory lies in the chunk"))?;
        let byte_offset = end.next_multiple_of(SECTION_ALIGN as u64);
        *end = byte_offset + u64::from(entry.stored_bytes);
        if entry.byte_offset != byte_offset || *end > bytes.len() as u64 {
            return Err(corrupt(format!("does not lie at byte {byte_offset} of the chunk")));
        }

        let rows = header.page_row_count(page);
        let page_bytes = match entry.nulls {
            PageNulls::AllNull => Some(0),
            PageNulls::AllValid | PageNulls::Bitmap => body_bytes(header, &entry.params, rows)
                .map(|body_bytes| body_bytes + entry.bitmap_bytes(rows) as u64),
        };
        if page_bytes != Some(entry.page_bytes.into()) {
            return Err(corrupt(format!("{} bytes do not hold {rows} rows", entry.page_bytes)));
        }
        check_stored(header.encoding.codec, entry.stored_bytes, entry.page_bytes)?;
        Ok(entry)
    }

    /// The bytes at the start of a chunk of so many pages that say where its parts lie.
    pub fn head_bytes(page_count: usize) -> usize {
        HEADER_BYTES + page_count * PAGE_ENTRY_BYTES
    }

    /// Where the parts of a chunk lie that some of its pages are decoded from: all before the first page, then those
    /// pages. `head` is the chunk's first [`head_bytes`](Self::head_bytes).
    ///
    /// # Errors
    ///
    /// `Corrupt` where these bytes are no head of a chunk of `chunk_bytes` with as many pages.
    pub fn ranges_of_pages(head: &[u8], chunk_bytes: usize, pages: &[bool]) -> Result<Vec<Range<usize>>> {
        let header = Header::from_bytes(head)?;
        if header.chunk_bytes != chunk_bytes as u64 || header.page_count() != pages.len() {
            return Err(corrupt(format!(
                "chunk of {chunk_bytes} bytes with {} pages has another head",
                pages.len()
            )));
        }
        let mut end = header.dictionary_offset() as u64 + u64::from(header.dictionary_stored_bytes);
        let mut ranges = Vec::with_capacity(pages.len() + 1);
        ranges.push(0..end as usize);
        end = end.next_multiple_of(SECTION_ALIGN as u64);
        if HEADER_BYTES + header.directory_len() * PAGE_ENTRY_BYTES > head.len() || end > chunk_bytes as u64 {
            return Err(corrupt("chunk ends before its pages"));
        }
        for page in 0..header.directory_len() {
            let entry_bytes = head[HEADER_BYTES + page * PAGE_ENTRY_BYTES..].first_chunk();
            let entry = PageEntry::from_bytes(entry_bytes.expect("the directory lies in the head"))?;
            let start = entry.byte_offset as usize;
            let range = start..start.saturating_add(entry.stored_bytes as usize);
            if range.end > chunk_bytes {
                return Err(corrupt(format!("page {page} ends after its chunk")));
            }
            if pages[page] {
                ranges.push(range);
            }
        }
        Ok(ranges)
    }

    /// How the values are encoded.
    pub fn encoding(&self) -> Encoding {
        self.header.encoding
    }

    /// Rows in the chunk.
    pub fn row_count(&self) -> usize {
        self.header.row_count as usize
    }

    /// Rows of each page but the last, which may have fewer.
    pub fn page_rows(&self) -> u32 {
        self.header.page_rows
    }

    /// Pages that [`ChunkView::decode_pages`] selects from; a constant chunk has them in name only.
    pub fn page_count(&self) -> usize {
        self.header.page_count()
    }

    /// Bytes of the column before encoding, as [`crate::Values::raw_bytes`] counts them.
    pub fn raw_bytes(&self) -> u64 {
        self.header.raw_bytes
    }

    /// The dictionary section, decompressed.
    pub(crate) fn dictionary_bytes(&self) -> Result<Cow<'a, [u8]>> {
        let stored =
            &self.bytes[self.header.dictionary_offset()..][..self.header.dictionary_stored_bytes as usize];
        if stored.len() == self.header.dictionary_bytes as usize {
            return Ok(Cow::Borrowed(stored));
        }
        let mut bytes = vec![0; self.header.dictionary_bytes as usize];
        self.header.encoding.codec.decompress(stored, &mut bytes).context(|| "dictionary".into())?;
        Ok(Cow::Owned(bytes))
    }

    /// The payload of a page, decompressed, in `scratch` if need be.
    pub(crate) fn payload<'b>(&'b self, page: usize, scratch: &'b mut Vec<u8>) -> Result<&'b [u8]> {
        let entry = &self.entries[page];
        let stored = &self.bytes[entry.byte_offset as usize..][..entry.stored_bytes as usize];
        if entry.stored_bytes == entry.page_bytes {
            return Ok(stored);
        }
        if scratch.len() < entry.page_bytes as usize {
            scratch.resize(entry.page_bytes as usize, 0);
        }
        let payload = &mut scratch[..entry.page_bytes as usize];
        self.header.encoding.codec.decompress(stored, payload)?;
        Ok(payload)
    }
}

/// The length of a page's body, or `None` where the parameters are impossible.
fn body_bytes(header: &Header, params: &PageParams, rows: usize) -> Option<u64> {
    let width_bytes = header.ty.width_bytes();
    let word_bits = match (header.encoding.transform, width_bytes) {
        // Codes and text lengths are 32-bit words, 128-bit values are 64-bit offsets.
        (Transform::Dictionary, _) | (_, None) => u32::BITS,
        (_, Some(width_bytes)) => (width_bytes as u32 * 8).min(u64::BITS),
    };
    match (header.encoding.transform, header.encoding.layout) {
        (Transform::Alp, _) => alp::body_bytes(word_bits, params, rows),
        (Transform::Fsst, _) => fsst::body_bytes(params, rows),
        (_, Layout::BitPacked) => bitpack::body_bytes(word_bits, params.width, rows),
        (_, Layout::Delta) => delta::body_bytes(word_bits, params, rows),
        (_, Layout::RunLength) => runs::body_bytes(word_bits, params, rows),
        (_, Layout::Plain) => match width_bytes {
            Some(width_bytes) => Some((rows * width_bytes) as u64),
            None => plain::strings_body_bytes(params, rows),
        },
        (_, Layout::Constant) => None,
    }
}
