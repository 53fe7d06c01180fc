//! The manifest: the one file that says what a table is. Whoever renames it into place commits.
//!
//! ```text
//!   PELTON 2 89ab01cd45ef6723\n      magic, format version, checksum of the body in hexadecimal
//!   {"id":"…","generation":3,…}      the body: one JSON object
//! ```
//!
//! Numbers that may pass 2^53 (ids, checksums) are hexadecimal strings. The `…Record` types here are the
//! JSON's shape and nothing else; the rest of the crate uses [`Manifest`].

mod records;

use std::path::Path;

use pelton_error::{Error, Result, ResultExt};

use self::records::ManifestRecord;
use super::{FORMAT_VERSION, SegmentId, check_version, checksum};
use crate::plan::{ColumnChoice, validate_sizes};
use crate::schema::TableSchema;
use crate::sideways::{SidewaysColumn, TableId};
use crate::summary::ColumnSummary;

const MAGIC: &str = "PELTON";
/// The header line is short; what is longer is no manifest.
const HEADER_BYTES_MAX: usize = 64;

/// One state of a table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Manifest {
    pub(crate) id: TableId,
    /// Counts commits.
    pub(crate) generation: u64,
    pub(crate) schema: TableSchema,
    pub(crate) row_group_rows: u32,
    pub(crate) page_rows: u32,
    pub(crate) segments: Vec<SegmentEntry>,
    /// One a column.
    pub(crate) summaries: Vec<ColumnSummary>,
    /// One a column, or none at all (a table without rows).
    pub(crate) choices: Vec<ColumnChoice>,
    pub(crate) sideways: Vec<SidewaysColumn>,
    /// The columns by which the rows of each write are sorted, most significant first.
    pub(crate) cluster_by: Vec<String>,
}

/// What the manifest says of a segment.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SegmentEntry {
    pub(crate) id: SegmentId,
    pub(crate) data_bytes: u64,
    pub(crate) meta_bytes: u64,
    /// Of the metadata file's section table.
    pub(crate) meta_checksum: u64,
    pub(crate) row_count: u64,
    /// For each sideways column of the table, the index of its section in this segment.
    pub(crate) sideways: Vec<u32>,
}

impl SegmentEntry {
    /// All row groups have `row_group_rows` rows but the last.
    pub(crate) fn row_group_count(&self, row_group_rows: u32) -> u64 {
        self.row_count.div_ceil(u64::from(row_group_rows))
    }
}

impl Manifest {
    pub(crate) fn row_count(&self) -> u64 {
        self.segments.iter().map(|segment| segment.row_count).sum()
    }

    pub(crate) fn stored_bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.data_bytes + segment.meta_bytes).sum()
    }

    /// The file's bytes.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let body = serde_json::to_string(&ManifestRecord::from(self)).expect("records have string keys only");
        format!("{MAGIC} {FORMAT_VERSION} {:016x}\n{body}", checksum(body.as_bytes())).into_bytes()
    }

    /// Reads the manifest at `path`; `NotFound` is left to the caller to explain.
    pub(crate) fn read(path: &Path) -> Result<Option<Self>> {
        match std::fs::read(path) {
            Ok(bytes) => Self::parse(&bytes, path).map(Some),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io(format!("reading {}", path.display()), error)),
        }
    }

    fn parse(bytes: &[u8], path: &Path) -> Result<Self> {
        let damaged = |how: &str| {
            Error::corrupt(format!(
                "{} is damaged: {how}; restore it from a copy or load the table again",
                path.display()
            ))
        };
        let line_end = bytes.iter().take(HEADER_BYTES_MAX).position(|&byte| byte == b'\n');
        let (header, body) = bytes.split_at(line_end.ok_or_else(|| damaged("it has no header line"))?);
        let header = std::str::from_utf8(header).map_err(|_| damaged("its header is not text"))?;
        let body = &body[1..];
        let mut words = header.split(' ');
        if words.next() != Some(MAGIC) {
            return Err(damaged("it does not start with PELTON"));
        }
        let version = words.next().and_then(|word| word.parse().ok());
        check_version(path, version.ok_or_else(|| damaged("its header has no version"))?)?;
        let expected = words.next().and_then(|word| u64::from_str_radix(word, 16).ok());
        if expected != Some(checksum(body)) || words.next().is_some() {
            return Err(damaged("its checksum differs"));
        }
        let record: ManifestRecord =
            serde_json::from_slice(body).map_err(|error| damaged(&error.to_string()))?;
        let manifest = Self::try_from(record).context(|| format!("reading {}", path.display()))?;
        manifest.check().context(|| format!("reading {}", path.display()))?;
        Ok(manifest)
    }

    /// What the rest of the crate relies on, for a manifest from a disk.
    fn check(&self) -> Result<()> {
        validate_sizes(self.row_group_rows, self.page_rows)
            .map_err(|error| Error::corrupt(error.to_string()))?;
        let columns = self.schema.columns.len();
        let fits = self.summaries.len() == columns
            && (self.choices.is_empty() || self.choices.len() == columns)
            && self.segments.iter().all(|segment| segment.sideways.len() == self.sideways.len());
        let counts_fit = self.segments.iter().all(|segment| {
            segment.row_count > 0 && u32::try_from(segment.row_group_count(self.row_group_rows)).is_ok()
        });
        let rows = self.segments.iter().try_fold(0u64, |total, segment| total.checked_add(segment.row_count));
        let row_groups: u64 =
            self.segments.iter().map(|segment| segment.row_group_count(self.row_group_rows)).sum();
        // Every row group has a chunk of at least 4 KiB in some data file.
        let stored: u64 =
            self.segments.iter().fold(0, |total, segment| total.saturating_add(segment.data_bytes));
        if fits && counts_fit && rows.is_some() && row_groups <= stored / super::ALIGNMENT as u64 {
            return Ok(());
        }
        Err(Error::corrupt("the manifest contradicts itself"))
    }
}

#[cfg(test)]
mod tests;
