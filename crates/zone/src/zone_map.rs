//! The metadata of one chunk.

use pelton_error::{Error, Result};

use crate::{Bloom, Histogram, Scalar, bloom};

/// Strings longer than this are cut where they serve as bounds.
pub const BOUND_BYTES_MAX: usize = 64;
/// Most histogram bins a zone map can have.
pub(crate) const BINS_MAX: u32 = 65_536;
/// Largest Bloom filter of a chunk.
pub(crate) const BLOOM_BYTES_MAX: usize = 1 << 20;

/// What is known of a column chunk without reading it.
///
/// NULL rows count in `row_count` and `null_count` only. NaN rows count in the distinct count and set
/// `has_nan`; bounds, histogram and filter leave them out.
#[derive(Debug, Clone, PartialEq)]
pub struct ZoneMap {
    /// Rows of the chunk.
    pub row_count: u32,
    /// Rows without a value.
    pub null_count: u32,
    /// Some row is NaN.
    pub has_nan: bool,
    /// No value is below this; `None` where no row has a value, or only NaN.
    pub min: Option<Scalar>,
    /// No value is above this; `None` also where 64 bytes cannot bound a string from above.
    /// A cut bound of text need not be UTF-8.
    pub max: Option<Scalar>,
    /// `min` and `max` are values of the chunk; false where a string was cut.
    pub bounds_exact: bool,
    /// Distinct values, estimated to a few percent; exact for integers of a small range.
    pub distinct_count: u32,
    /// How the values spread between the bounds.
    pub histogram: Option<Histogram>,
    /// The set of values, where it is small enough for the filter.
    pub bloom: Option<Bloom>,
}

impl ZoneMap {
    /// Bytes in a stored section, to be held against those of the data.
    pub fn stored_bytes(&self) -> u64 {
        crate::section::stored_bytes(self)
    }

    /// Rows that hold a value.
    pub(crate) fn valid_count(&self) -> u32 {
        self.row_count - self.null_count
    }

    /// Both bounds, where both are known.
    pub(crate) fn bounds(&self) -> Option<(&Scalar, &Scalar)> {
        self.min.as_ref().zip(self.max.as_ref())
    }
}

/// How much metadata to keep of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ZoneOptions {
    /// Histogram bins, 1 to 65536; 0 for no histogram.
    pub bins: u32,
    /// Bytes of the Bloom filter, a multiple of 32 up to 1 MiB; 0 for no filter.
    pub bloom_bytes: u32,
    /// Bits that the filter sets a value, 1 to 8.
    pub bloom_hashes: u32,
}

impl Default for ZoneOptions {
    fn default() -> Self {
        Self { bins: 256, bloom_bytes: 1024, bloom_hashes: 8 }
    }
}

impl ZoneOptions {
    /// Refuses what [`ZoneMap::build`] cannot do.
    pub fn validate(&self) -> Result<()> {
        if self.bins > BINS_MAX {
            return Err(Error::invalid_input(format!(
                "{} histogram bins asked for; use 0 (none) to {BINS_MAX}",
                self.bins
            )));
        }
        let bytes = self.bloom_bytes as usize;
        if bytes > BLOOM_BYTES_MAX || !bytes.is_multiple_of(bloom::BLOCK_BYTES) {
            return Err(Error::invalid_input(format!(
                "a Bloom filter of {bytes} bytes asked for; use 0 (none) or a multiple of {} up to {BLOOM_BYTES_MAX}",
                bloom::BLOCK_BYTES
            )));
        }
        if !(1..=bloom::HASHES_MAX).contains(&self.bloom_hashes) {
            return Err(Error::invalid_input(format!(
                "{} Bloom filter hashes asked for; use 1 to {}",
                self.bloom_hashes,
                bloom::HASHES_MAX
            )));
        }
        Ok(())
    }
}
