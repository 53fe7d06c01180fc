//! What sampling decided and a writer follows: an encoding a column, and the sizes of row groups and pages.

use pelton_chunk::{DEFAULT_PAGE_ROWS, Encoding, PAGE_ROWS_MAX};
use pelton_error::{Error, Result};
use pelton_zone::ZoneOptions;

/// Rows of a row group where nobody chose otherwise: 1 MiB of 64-bit values, enough for a codec and few
/// enough to skip by.
pub const DEFAULT_ROW_GROUP_ROWS: u32 = 128 * 1024;
/// The most rows of a row group.
pub const ROW_GROUP_ROWS_MAX: u32 = 1 << 24;
/// Pages are whole vectors of the bit-packing order.
const PAGE_ROWS_STEP: u32 = 1024;

/// What an encoding is chosen for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Objective {
    /// The fewest stored bytes.
    Smallest,
    /// The shortest scan: the slower of reading the stored bytes at this rate and decoding them.
    Fastest {
        /// What the storage delivers.
        storage_bytes_per_s: u64,
    },
}

/// One encoding that was tried, with what it gave on the sample.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// The recipe.
    pub encoding: Encoding,
    /// Rows of a row group it was tried with.
    pub row_group_rows: u32,
    /// Stored bytes of the sample.
    pub stored_bytes: u64,
    /// Uncompressed bytes decoded a second by one core; 0 where it was not measured.
    pub decode_bytes_per_s: u64,
    /// The objective: bytes for [`Objective::Smallest`], nanoseconds for [`Objective::Fastest`].
    pub cost: f64,
}

/// What was chosen for a column, from what.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnChoice {
    /// The column's name.
    pub column: String,
    /// The recipe to write with.
    pub encoding: Encoding,
    /// True where the user asked for this encoding: it is left only where it cannot hold the values.
    pub forced: bool,
    /// Rows looked at.
    pub sample_rows: u64,
    /// Their uncompressed bytes.
    pub sample_raw_bytes: u64,
    /// What was tried, best first and so starting with the choice; empty where nothing was compared.
    pub candidates: Vec<Candidate>,
}

impl ColumnChoice {
    /// `encoding` without a comparison.
    pub fn fixed(column: impl Into<String>, encoding: Encoding) -> Self {
        Self {
            column: column.into(),
            encoding,
            forced: true,
            sample_rows: 0,
            sample_raw_bytes: 0,
            candidates: Vec::new(),
        }
    }

    /// Uncompressed over stored bytes of the sample for `candidate`.
    pub fn ratio(&self, candidate: &Candidate) -> f64 {
        self.sample_raw_bytes as f64 / candidate.stored_bytes.max(1) as f64
    }

    /// Stored bytes a row to be expected, where the choice rests on a sample.
    pub(crate) fn expected_bytes_per_row(&self) -> Option<f64> {
        let chosen = self.candidates.first().filter(|_| self.sample_rows > 0)?;
        Some(chosen.stored_bytes as f64 / self.sample_rows as f64)
    }
}

/// How a table is written.
#[derive(Debug, Clone, PartialEq)]
pub struct TablePlan {
    /// One a column, in order.
    pub columns: Vec<ColumnChoice>,
    /// Rows of every row group but the last of a write.
    pub row_group_rows: u32,
    /// Rows of every page but the last of a chunk.
    pub page_rows: u32,
    /// What zone maps hold.
    pub zone: ZoneOptions,
}

impl TablePlan {
    /// The default sizes and these choices.
    pub fn new(columns: Vec<ColumnChoice>) -> Self {
        Self {
            columns,
            row_group_rows: DEFAULT_ROW_GROUP_ROWS,
            page_rows: DEFAULT_PAGE_ROWS,
            zone: ZoneOptions::default(),
        }
    }

    /// Refuses sizes that cannot be written, saying what can.
    pub fn validate(&self) -> Result<()> {
        validate_sizes(self.row_group_rows, self.page_rows)?;
        self.zone.validate()
    }
}

/// Refuses row group and page sizes that cannot be written, saying what can.
pub(crate) fn validate_sizes(row_group_rows: u32, page_rows: u32) -> Result<()> {
    if !(1..=ROW_GROUP_ROWS_MAX).contains(&row_group_rows) {
        return Err(Error::invalid_input(format!(
            "{row_group_rows} rows a row group; choose 1 to {ROW_GROUP_ROWS_MAX}"
        )));
    }
    if !(PAGE_ROWS_STEP..=PAGE_ROWS_MAX).contains(&page_rows) || !page_rows.is_multiple_of(PAGE_ROWS_STEP) {
        return Err(Error::invalid_input(format!(
            "{page_rows} rows a page; choose a multiple of {PAGE_ROWS_STEP} up to {PAGE_ROWS_MAX}"
        )));
    }
    Ok(())
}
