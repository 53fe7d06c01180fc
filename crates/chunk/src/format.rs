//! The chunk's header and page directory: constants, reading and writing. `docs/specs/chunk.md` in code.
//!
//! ```text
//! header (64) │ page entry (48) × pages │ pad │ dictionary │ pad │ page 0 │ pad │ page 1 │ … │ pad
//!                                             128                128            128            8
//! ```

use pelton_error::{Error, Result};

use crate::codec::Codec;
use crate::encoding::{Encoding, Layout, Transform};
use crate::fsst;
use crate::lanes::VECTOR;
use crate::types::PhysicalType;

/// The newest version this crate reads; a chunk is written in the oldest one that has its encoding.
pub(crate) const VERSION: u8 = 2;
pub(crate) const HEADER_BYTES: usize = 64;
pub(crate) const PAGE_ENTRY_BYTES: usize = 48;
/// Dictionary and pages start at multiples of this, so that a warp's loads are whole cache lines.
pub(crate) const SECTION_ALIGN: usize = 128;
/// A chunk is a whole number of these.
pub(crate) const CHUNK_ALIGN: usize = 8;
/// Validity bits of a vector.
pub(crate) const VECTOR_BITMAP_BYTES: usize = VECTOR / 8;

/// Rows of a page where nobody chose otherwise.
pub const DEFAULT_PAGE_ROWS: u32 = 16 * 1024;
/// Most rows of a page; keeps every length within a page below 4 GiB except text, which is checked.
pub const PAGE_ROWS_MAX: u32 = 1 << 20;

/// Flag: every row is NULL.
const FLAG_ALL_NULL: u8 = 1;

/// The fixed part at a chunk's start.
///
/// ```text
///  0 u8  version            8 u32 row_count         32 u32 dictionary_count
///  1 u8  physical type     12 u32 page_rows         36 u32 dictionary_bytes
///  2 u8  transform         16 u64 chunk_bytes       40 u32 dictionary_stored_bytes
///  3 u8  layout            24 u64 raw_bytes         44 20 bytes zero
///  4 u8  codec
///  5 u8  flags
///  6 u16 zero
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) ty: PhysicalType,
    pub(crate) encoding: Encoding,
    /// Only with [`Layout::Constant`].
    pub(crate) all_null: bool,
    pub(crate) row_count: u32,
    pub(crate) page_rows: u32,
    /// Of the whole chunk.
    pub(crate) chunk_bytes: u64,
    /// Of the column before encoding; for information.
    pub(crate) raw_bytes: u64,
    /// Entries.
    pub(crate) dictionary_count: u32,
    /// Before the codec.
    pub(crate) dictionary_bytes: u32,
    /// Equal to `dictionary_bytes` where the codec did not shrink it.
    pub(crate) dictionary_stored_bytes: u32,
}

/// Which rows of a page hold values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum PageNulls {
    AllValid = 0,
    /// The page has no payload.
    AllNull = 1,
    /// The payload starts with 128 bytes of validity bits for each vector.
    Bitmap = 2,
}

/// What the layout needs to know about a page apart from its payload; which fields are used, and for what, is
/// said by the layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PageParams {
    /// Bits of the smallest value, zero-extended; for `I128` the value.
    pub(crate) base: i128,
    pub(crate) base_of_bases: u64,
    pub(crate) count: u32,
    pub(crate) width: u8,
    pub(crate) extra: u8,
}

/// A page's line in the directory.
///
/// ```text
///  0 u64 byte_offset       16 i128 base             40 u32 count
///  8 u32 stored_bytes      32 u64  base_of_bases    44 u8  nulls
/// 12 u32 page_bytes                                 45 u8  width
///                                                   46 u8  extra
///                                                   47 u8  zero
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageEntry {
    /// From the chunk's start.
    pub(crate) byte_offset: u64,
    /// Equal to `page_bytes` where the codec did not shrink the page.
    pub(crate) stored_bytes: u32,
    /// Before the codec.
    pub(crate) page_bytes: u32,
    pub(crate) params: PageParams,
    pub(crate) nulls: PageNulls,
}

impl Header {
    pub(crate) fn page_count(&self) -> usize {
        self.row_count.div_ceil(self.page_rows) as usize
    }

    /// Entries in the directory: a constant chunk has rows but no pages.
    pub(crate) fn directory_len(&self) -> usize {
        if self.encoding.layout == Layout::Constant { 0 } else { self.page_count() }
    }

    pub(crate) fn page_row_count(&self, page: usize) -> usize {
        let start = page * self.page_rows as usize;
        (self.row_count as usize - start).min(self.page_rows as usize)
    }

    pub(crate) fn dictionary_offset(&self) -> usize {
        (HEADER_BYTES + self.directory_len() * PAGE_ENTRY_BYTES).next_multiple_of(SECTION_ALIGN)
    }

    pub(crate) fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0] = version_of(self.encoding);
        bytes[1] = self.ty as u8;
        bytes[2] = self.encoding.transform as u8;
        bytes[3] = self.encoding.layout as u8;
        bytes[4] = self.encoding.codec as u8;
        bytes[5] = if self.all_null { FLAG_ALL_NULL } else { 0 };
        bytes[8..12].copy_from_slice(&self.row_count.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.page_rows.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.chunk_bytes.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.raw_bytes.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.dictionary_count.to_le_bytes());
        bytes[36..40].copy_from_slice(&self.dictionary_bytes.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.dictionary_stored_bytes.to_le_bytes());
        bytes
    }

    /// Reads and checks what the header alone can show.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let bytes: &[u8; HEADER_BYTES] =
            bytes.first_chunk().ok_or_else(|| corrupt("chunk is shorter than its header"))?;
        if bytes[0] > VERSION {
            return Err(Error::unsupported(format!(
                "chunk has format version {}, this build reads up to {VERSION}; use a newer pelton",
                bytes[0]
            )));
        }
        if bytes[0] == 0 || bytes[5] & !FLAG_ALL_NULL != 0 || bytes[6..8] != [0; 2] || bytes[44..] != [0; 20]
        {
            return Err(corrupt("chunk header has bits that no version sets"));
        }
        let encoding = Encoding {
            transform: Transform::from_tag(bytes[2])
                .ok_or_else(|| corrupt("chunk has an unknown transform"))?,
            layout: Layout::from_tag(bytes[3]).ok_or_else(|| corrupt("chunk has an unknown layout"))?,
            codec: Codec::from_tag(bytes[4]).ok_or_else(|| corrupt("chunk has an unknown codec"))?,
        };
        if bytes[0] < version_of(encoding) {
            return Err(corrupt(format!(
                "chunk of format version {} claims the encoding {encoding}",
                bytes[0]
            )));
        }
        let header = Self {
            ty: PhysicalType::from_tag(bytes[1])
                .ok_or_else(|| corrupt("chunk has an unknown physical type"))?,
            encoding,
            all_null: bytes[5] & FLAG_ALL_NULL != 0,
            row_count: u32_at(bytes, 8),
            page_rows: u32_at(bytes, 12),
            chunk_bytes: u64_at(bytes, 16),
            raw_bytes: u64_at(bytes, 24),
            dictionary_count: u32_at(bytes, 32),
            dictionary_bytes: u32_at(bytes, 36),
            dictionary_stored_bytes: u32_at(bytes, 40),
        };
        header.check()?;
        Ok(header)
    }

    fn check(&self) -> Result<()> {
        let Encoding { transform, layout, .. } = self.encoding;
        if !self.encoding.applies_to(self.ty) {
            return Err(corrupt(format!("chunk of {:?} claims the encoding {}", self.ty, self.encoding)));
        }
        if !is_page_rows(self.page_rows) {
            return Err(corrupt(format!("chunk has pages of {} rows", self.page_rows)));
        }
        if self.all_null && layout != Layout::Constant {
            return Err(corrupt("chunk without values has pages"));
        }
        let entries = match (transform, layout) {
            (Transform::None, Layout::Constant) => u32::from(!self.all_null)..=u32::from(!self.all_null),
            (Transform::Dictionary, _) => 1..=crate::dictionary::ENTRIES_MAX as u32,
            (Transform::Fsst, _) => 0..=fsst::SYMBOLS_MAX as u32,
            _ => 0..=0,
        };
        if !entries.contains(&self.dictionary_count) {
            return Err(corrupt(format!("chunk has a dictionary of {} entries", self.dictionary_count)));
        }
        self.check_dictionary_bytes()
    }

    fn check_dictionary_bytes(&self) -> Result<()> {
        let count = u64::from(self.dictionary_count);
        let bytes = u64::from(self.dictionary_bytes);
        let is_size_right = match self.ty.width_bytes() {
            _ if count == 0 => bytes == 0,
            _ if self.encoding.transform == Transform::Fsst => {
                bytes == count * fsst::SYMBOL_STORED_BYTES as u64
            }
            Some(width) => bytes == count * width as u64,
            None => bytes >= (count + 1) * 4,
        };
        if !is_size_right {
            return Err(corrupt(format!("dictionary of {count} entries claims {bytes} bytes")));
        }
        check_stored(self.encoding.codec, self.dictionary_stored_bytes, self.dictionary_bytes)
    }
}

impl PageEntry {
    pub(crate) fn to_bytes(self) -> [u8; PAGE_ENTRY_BYTES] {
        let mut bytes = [0; PAGE_ENTRY_BYTES];
        bytes[..8].copy_from_slice(&self.byte_offset.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.stored_bytes.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.page_bytes.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.params.base.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.params.base_of_bases.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.params.count.to_le_bytes());
        bytes[44] = self.nulls as u8;
        bytes[45] = self.params.width;
        bytes[46] = self.params.extra;
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8; PAGE_ENTRY_BYTES]) -> Result<Self> {
        let nulls = match bytes[44] {
            0 => PageNulls::AllValid,
            1 => PageNulls::AllNull,
            2 => PageNulls::Bitmap,
            _ => return Err(corrupt("unknown kind of validity")),
        };
        if bytes[47] != 0 {
            return Err(corrupt("directory entry has bits that no version sets"));
        }
        Ok(Self {
            byte_offset: u64_at(bytes, 0),
            stored_bytes: u32_at(bytes, 8),
            page_bytes: u32_at(bytes, 12),
            params: PageParams {
                base: i128::from_le_bytes(bytes[16..32].try_into().expect("16 bytes")),
                base_of_bases: u64_at(bytes, 32),
                count: u32_at(bytes, 40),
                width: bytes[45],
                extra: bytes[46],
            },
            nulls,
        })
    }

    /// Bytes of the validity bits in front of the body.
    pub(crate) fn bitmap_bytes(&self, rows: usize) -> usize {
        if self.nulls == PageNulls::Bitmap { rows.div_ceil(VECTOR) * VECTOR_BITMAP_BYTES } else { 0 }
    }
}

/// The oldest version that has this encoding.
fn version_of(encoding: Encoding) -> u8 {
    if encoding.transform == Transform::Fsst { 2 } else { 1 }
}

/// True where `page_rows` may be a chunk's.
pub(crate) fn is_page_rows(page_rows: u32) -> bool {
    (1..=PAGE_ROWS_MAX).contains(&page_rows) && (page_rows as usize).is_multiple_of(VECTOR)
}

/// Checks that `stored_bytes` can stand for `bytes`: the same, or fewer and expandable by the codec.
pub(crate) fn check_stored(codec: Codec, stored_bytes: u32, bytes: u32) -> Result<()> {
    let is_raw = stored_bytes == bytes;
    let is_compressed = codec != Codec::None
        && stored_bytes < bytes
        && u64::from(bytes) <= codec.expansion_max(stored_bytes.into());
    if is_raw || is_compressed {
        return Ok(());
    }
    Err(corrupt(format!("{stored_bytes} stored bytes cannot stand for {bytes} under codec {codec}")))
}

pub(crate) fn corrupt(message: impl Into<String>) -> Error {
    Error::corrupt(message)
}

fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(bytes[offset..offset + 4].try_into().expect("4 bytes"))
}

fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(bytes[offset..offset + 8].try_into().expect("8 bytes"))
}
