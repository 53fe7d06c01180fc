//! Assembles a chunk: pages one after the other through the codec, then header, directory and dictionary.

use std::ops::Range;

use pelton_error::{Error, Result};

use crate::encoding::Encoding;
use crate::format::{CHUNK_ALIGN, Header, PageEntry, PageNulls, PageParams, SECTION_ALIGN};
use crate::lanes::VECTOR;
use crate::types::{Column, Validity};

/// A chunk under construction.
pub(crate) struct ChunkWriter<'a> {
    header: Header,
    validity: Option<&'a Validity>,
    /// As stored.
    dictionary: Vec<u8>,
    entries: Vec<PageEntry>,
    /// All pages as stored, the first at offset 0.
    pages: Vec<u8>,
}

impl<'a> ChunkWriter<'a> {
    pub(crate) fn new(column: &'a Column, encoding: Encoding, page_rows: u32) -> Self {
        let header = Header {
            ty: column.values.physical_type(),
            encoding,
            all_null: false,
            row_count: column.len() as u32,
            page_rows,
            chunk_bytes: 0,
            raw_bytes: column.values.raw_bytes(),
            dictionary_count: 0,
            dictionary_bytes: 0,
            dictionary_stored_bytes: 0,
        };
        let validity = column.validity.as_ref();
        Self { header, validity, dictionary: Vec::new(), entries: Vec::new(), pages: Vec::new() }
    }

    /// Marks a constant chunk as all NULL.
    pub(crate) fn set_all_null(&mut self) {
        self.header.all_null = true;
    }

    /// Sets the dictionary section.
    pub(crate) fn set_dictionary(&mut self, count: usize, bytes: &[u8]) -> Result<()> {
        self.header.dictionary_count = count as u32;
        self.header.dictionary_bytes = length(bytes, "dictionary")?;
        self.dictionary = self.header.encoding.codec.compress(bytes).unwrap_or_else(|| bytes.to_vec());
        self.header.dictionary_stored_bytes = self.dictionary.len() as u32;
        Ok(())
    }

    /// Writes every page; `encode` appends the body for a range of rows, at least one of them valid.
    pub(crate) fn write_pages(
        &mut self,
        mut encode: impl FnMut(Range<usize>, &mut Vec<u8>) -> Result<PageParams>,
    ) -> Result<()> {
        let mut payload = Vec::new();
        for page in 0..self.header.page_count() {
            let start = page * self.header.page_rows as usize;
            let rows = start..start + self.header.page_row_count(page);
            payload.clear();
            let nulls = write_bitmap(self.validity, rows.clone(), &mut payload);
            let params = match nulls {
                PageNulls::AllNull => PageParams::default(),
                PageNulls::AllValid | PageNulls::Bitmap => encode(rows, &mut payload)?,
            };
            self.push_page(&payload, nulls, params)?;
        }
        Ok(())
    }

    fn push_page(&mut self, payload: &[u8], nulls: PageNulls, params: PageParams) -> Result<()> {
        let page_bytes = length(payload, "page")?;
        let byte_offset = self.pages.len() as u64;
        match self.header.encoding.codec.compress(payload) {
            Some(stored) => self.pages.extend_from_slice(&stored),
            None => self.pages.extend_from_slice(payload),
        }
        let stored_bytes = (self.pages.len() as u64 - byte_offset) as u32;
        self.pages.resize(self.pages.len().next_multiple_of(SECTION_ALIGN), 0);
        self.entries.push(PageEntry { byte_offset, stored_bytes, page_bytes, params, nulls });
        Ok(())
    }

    /// The bytes of the chunk.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        let dictionary_offset = self.header.dictionary_offset();
        let pages_offset = (dictionary_offset + self.dictionary.len()).next_multiple_of(SECTION_ALIGN);
        let end = match self.entries.last() {
            Some(last) => pages_offset + last.byte_offset as usize + last.stored_bytes as usize,
            None => pages_offset,
        };
        self.header.chunk_bytes = end.next_multiple_of(CHUNK_ALIGN) as u64;

        let mut chunk = Vec::with_capacity(pages_offset + self.pages.len());
        chunk.extend_from_slice(&self.header.to_bytes());
        for entry in &self.entries {
            let byte_offset = entry.byte_offset + pages_offset as u64;
            chunk.extend_from_slice(&PageEntry { byte_offset, ..*entry }.to_bytes());
        }
        chunk.resize(dictionary_offset, 0);
        chunk.extend_from_slice(&self.dictionary);
        chunk.resize(pages_offset, 0);
        chunk.extend_from_slice(&self.pages);
        // The last page's padding goes to the chunk's own, smaller, alignment.
        chunk.resize(self.header.chunk_bytes as usize, 0);
        chunk
    }
}

/// Appends the validity bits of `rows`, padded to whole vectors, where some but not all are NULL.
fn write_bitmap(validity: Option<&Validity>, rows: Range<usize>, payload: &mut Vec<u8>) -> PageNulls {
    let Some(validity) = validity else { return PageNulls::AllValid };
    // Pages start at multiples of 1024 rows; bits past the last row of all are zero.
    let bits = &validity.bits[rows.start / 8..rows.end.div_ceil(8)];
    let valid_count: usize = bits.iter().map(|byte| byte.count_ones() as usize).sum();
    if valid_count == rows.len() {
        return PageNulls::AllValid;
    }
    if valid_count == 0 {
        return PageNulls::AllNull;
    }
    payload.extend_from_slice(bits);
    payload.resize(rows.len().div_ceil(VECTOR) * crate::format::VECTOR_BITMAP_BYTES, 0);
    PageNulls::Bitmap
}

fn length(bytes: &[u8], what: &str) -> Result<u32> {
    u32::try_from(bytes.len())
        .map_err(|_| Error::unsupported(format!("a {what} of more than 4 GiB; use fewer rows per row group")))
}

const _: () = assert!(SECTION_ALIGN.is_multiple_of(CHUNK_ALIGN));
