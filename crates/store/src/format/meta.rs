//! The metadata file of a segment: a table of sections at a fixed place, then the sections.
//!
//! ```text
//!   byte    0  8  magic "PELTMETA"
//!           8  4  format version
//!          12  4  section count
//!          16  8  segment id
//!          24  4  row group count
//!          28  4  column count
//!          32  8  checksum of bytes 0 to 31 and of the section table
//!          40     section table, 32 bytes a section:
//!                   0  4  kind          1 chunk directory, 2 zone maps of a column, 3 sketch of a column,
//!                                       4 zone maps of a sideways column
//!                   4  4  index         of the column or sideways column; 0 for the directory
//!                   8  8  byte offset   a multiple of 64
//!                  16  8  bytes
//!                  24  8  checksum of the section
//!                 sections, zeros between them
//! ```
//!
//! The checksum at byte 32 also stands in the manifest, so a segment's files cannot be mixed up. Reading
//! one column's zone maps touches the section table and that section only.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use pelton_error::{Error, Result, ResultExt};
use xxhash_rust::xxh3::Xxh3;

use super::{FORMAT_VERSION, SegmentId, check_version, checksum, u32_at, u64_at};
use crate::segment::open_with_length;

const MAGIC: &[u8; 8] = b"PELTMETA";
const HEADER_BYTES: usize = 40;
const CHECKSUM_AT: usize = 32;
const ENTRY_BYTES: usize = 32;
/// A cache line, and a multiple of the 32 bytes that Bloom filter blocks want.
const SECTION_ALIGN: usize = 64;

/// What a section holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum SectionKind {
    ChunkDirectory = 1,
    ZoneMaps = 2,
    Sketch = 3,
    SidewaysZoneMaps = 4,
}

/// A section to be written.
pub(crate) struct Section {
    pub(crate) kind: SectionKind,
    pub(crate) index: u32,
    pub(crate) bytes: Vec<u8>,
}

/// A metadata file's bytes and the checksum of its section table.
pub(crate) struct MetaBytes {
    pub(crate) bytes: Vec<u8>,
    pub(crate) table_checksum: u64,
}

/// Lays out the metadata file of segment `id`.
pub(crate) fn write_meta(
    id: SegmentId,
    row_group_count: u32,
    column_count: u32,
    sections: &[Section],
) -> MetaBytes {
    let mut head = Vec::with_capacity(HEADER_BYTES + sections.len() * ENTRY_BYTES);
    head.extend_from_slice(MAGIC);
    head.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    head.extend_from_slice(&u32::try_from(sections.len()).expect("columns are few").to_le_bytes());
    head.extend_from_slice(&id.0.to_le_bytes());
    head.extend_from_slice(&row_group_count.to_le_bytes());
    head.extend_from_slice(&column_count.to_le_bytes());
    head.extend_from_slice(&[0; 8]);
    let mut byte_offset = HEADER_BYTES + sections.len() * ENTRY_BYTES;
    for section in sections {
        byte_offset = byte_offset.next_multiple_of(SECTION_ALIGN);
        head.extend_from_slice(&(section.kind as u32).to_le_bytes());
        head.extend_from_slice(&section.index.to_le_bytes());
        head.extend_from_slice(&(byte_offset as u64).to_le_bytes());
        head.extend_from_slice(&(section.bytes.len() as u64).to_le_bytes());
        head.extend_from_slice(&checksum(&section.bytes).to_le_bytes());
        byte_offset += section.bytes.len();
    }
    let table_checksum = head_checksum(&head);
    head[CHECKSUM_AT..HEADER_BYTES].copy_from_slice(&table_checksum.to_le_bytes());
    let mut bytes = head;
    bytes.reserve(byte_offset - bytes.len());
    for section in sections {
        bytes.resize(bytes.len().next_multiple_of(SECTION_ALIGN), 0);
        bytes.extend_from_slice(&section.bytes);
    }
    MetaBytes { bytes, table_checksum }
}

/// Of everything before the sections but the checksum itself.
fn head_checksum(head: &[u8]) -> u64 {
    let mut hasher = Xxh3::new();
    hasher.update(&head[..CHECKSUM_AT]);
    hasher.update(&head[HEADER_BYTES..]);
    hasher.digest()
}

/// What the manifest says of a metadata file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MetaExpectation {
    pub(crate) id: SegmentId,
    pub(crate) bytes: u64,
    pub(crate) table_checksum: u64,
    pub(crate) row_group_count: u32,
    pub(crate) column_count: u32,
}

/// An open metadata file; its section table is read when first asked for.
#[derive(Debug)]
pub(crate) struct MetaFile {
    path: PathBuf,
    file: File,
    expected: MetaExpectation,
    sections: OnceLock<Vec<SectionEntry>>,
}

#[derive(Debug)]
struct SectionEntry {
    kind: u32,
    index: u32,
    byte_offset: u64,
    bytes: u64,
    checksum: u64,
}

impl MetaFile {
    pub(crate) fn open(dir: &Path, expected: MetaExpectation) -> Result<Self> {
        let path = expected.id.meta_path(dir);
        let file = open_with_length(&path, expected.bytes)?;
        Ok(Self { path, file, expected, sections: OnceLock::new() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The verified bytes of one section.
    pub(crate) fn section(&self, kind: SectionKind, index: u32) -> Result<Vec<u8>> {
        let sections = self.sections()?;
        let entry = sections
            .iter()
            .find(|entry| entry.kind == kind as u32 && entry.index == index)
            .ok_or_else(|| self.damaged(&format!("section {kind:?} {index} is missing")))?;
        let mut bytes = vec![0; entry.bytes as usize];
        self.read_at(&mut bytes, entry.byte_offset)?;
        if checksum(&bytes) != entry.checksum {
            return Err(self.damaged(&format!("the checksum of section {kind:?} {index} differs")));
        }
        Ok(bytes)
    }

    fn sections(&self) -> Result<&[SectionEntry]> {
        if let Some(sections) = self.sections.get() {
            return Ok(sections);
        }
        let sections = self.read_section_table()?;
        Ok(self.sections.get_or_init(|| sections))
    }

    fn read_section_table(&self) -> Result<Vec<SectionEntry>> {
        if self.expected.bytes < HEADER_BYTES as u64 {
            return Err(self.damaged("it is shorter than its header"));
        }
        let mut head = vec![0; HEADER_BYTES];
        self.read_at(&mut head, 0)?;
        if &head[..8] != MAGIC {
            return Err(Error::corrupt(format!("{} is not a Pelton metadata file", self.path.display())));
        }
        check_version(&self.path, u32_at(&head, 8))?;
        let table_bytes = u64::from(u32_at(&head, 12)) * ENTRY_BYTES as u64;
        if table_bytes > self.expected.bytes - HEADER_BYTES as u64 {
            return Err(self.damaged("its section table is longer than the file"));
        }
        head.resize(HEADER_BYTES + table_bytes as usize, 0);
        self.read_at(&mut head[HEADER_BYTES..], HEADER_BYTES as u64)?;
        self.check_head(&head)?;
        head[HEADER_BYTES..].chunks_exact(ENTRY_BYTES).map(|entry| self.read_entry(entry)).collect()
    }

    fn check_head(&self, head: &[u8]) -> Result<()> {
        let found = u64_at(head, CHECKSUM_AT);
        if found != head_checksum(head) {
            return Err(self.damaged("the checksum of its section table differs"));
        }
        let says_the_manifest = found == self.expected.table_checksum
            && u64_at(head, 16) == self.expected.id.0
            && u32_at(head, 24) == self.expected.row_group_count
            && u32_at(head, 28) == self.expected.column_count;
        if says_the_manifest { Ok(()) } else { Err(self.damaged("it is not the file the manifest names")) }
    }

    fn read_entry(&self, entry: &[u8]) -> Result<SectionEntry> {
        let entry = SectionEntry {
            kind: u32_at(entry, 0),
            index: u32_at(entry, 4),
            byte_offset: u64_at(entry, 8),
            bytes: u64_at(entry, 16),
            checksum: u64_at(entry, 24),
        };
        if entry.byte_offset.checked_add(entry.bytes).is_none_or(|end| end > self.expected.bytes) {
            return Err(self.damaged("a section lies outside the file"));
        }
        Ok(entry)
    }

    fn read_at(&self, target: &mut [u8], byte_offset: u64) -> Result<()> {
        let read = self.file.read_exact_at(target, byte_offset);
        if read.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::UnexpectedEof) {
            return Err(self.damaged("it was truncated"));
        }
        read.context(|| format!("reading {}", self.path.display()))
    }

    fn damaged(&self, how: &str) -> Error {
        Error::corrupt(format!(
            "{} is damaged: {how}; restore it from a copy or load the table again",
            self.path.display()
        ))
    }
}
