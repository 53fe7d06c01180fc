//! The files of a table: constants and the modules that write and read them. `docs/specs/table.md` in code.
//!
//! ```text
//!   WAREHOUSE/<table>/
//!     manifest          what the table is: schema, segments, summaries; replaced by rename
//!     lock              held by the one writer, names its process
//!     data-<id>.pel     a segment's chunks: 4 KiB header, then chunks at 4 KiB boundaries
//!     meta-<id>.pel     a segment's metadata: section table, then checksummed sections
//! ```
//!
//! Integers are little endian; checksums are XXH3-64 with seed 0.

pub(crate) mod data_header;
pub(crate) mod directory;
pub(crate) mod manifest;
pub(crate) mod meta;

use std::path::{Path, PathBuf};

use pelton_error::{Error, Result};
use xxhash_rust::xxh3::xxh3_64;

/// The version this Pelton writes, and the newest it reads.
pub const FORMAT_VERSION: u32 = 2;
/// The oldest version this Pelton reads.
const FORMAT_VERSION_MIN: u32 = 1;
/// Chunks start at multiples of this in a data file, so that direct I/O can read them.
pub const ALIGNMENT: usize = 4096;

const _: () =
    assert!(ALIGNMENT.is_multiple_of(pelton_io::ALIGNMENT), "what begins at a chunk can be read directly");

pub(crate) const MANIFEST: &str = "manifest";
pub(crate) const MANIFEST_TEMPORARY: &str = "manifest.tmp";
pub(crate) const LOCK: &str = "lock";

/// Names a segment: random, unique in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SegmentId(pub(crate) u64);

impl SegmentId {
    pub(crate) fn data_path(self, dir: &Path) -> PathBuf {
        dir.join(format!("data-{:016x}.pel", self.0))
    }

    pub(crate) fn meta_path(self, dir: &Path) -> PathBuf {
        dir.join(format!("meta-{:016x}.pel", self.0))
    }
}

/// The checksum of chunks, sections, headers and the manifest's body.
pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    xxh3_64(bytes)
}

/// Refuses files this Pelton cannot read because they are newer (or older than any it knows).
pub(crate) fn check_version(path: &Path, found: u32) -> Result<()> {
    if found > FORMAT_VERSION {
        return Err(Error::unsupported(format!(
            "{} is written in format version {found}, this Pelton reads up to version {FORMAT_VERSION}; upgrade Pelton",
            path.display()
        )));
    }
    if found < FORMAT_VERSION_MIN {
        return Err(Error::corrupt(format!(
            "{} says format version {found}, which never was",
            path.display()
        )));
    }
    Ok(())
}

/// The little-endian integer at `offset`; `bytes` were checked to reach that far.
pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(bytes[offset..offset + 4].try_into().expect("4 bytes"))
}

/// The little-endian integer at `offset`; `bytes` were checked to reach that far.
pub(crate) fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(bytes[offset..offset + 8].try_into().expect("8 bytes"))
}
