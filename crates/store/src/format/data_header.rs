//! The first 4 KiB of a data file: whose chunks follow.
//!
//! ```text
//!   byte    0  8  magic "PELTDATA"
//!           8  4  format version
//!          12  4  zero
//!          16  8  segment id
//!          24  8  checksum of bytes 0 to 23
//!          32     zero to byte 4095
//! ```

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use pelton_error::{Error, Result, ResultExt};

use super::{ALIGNMENT, FORMAT_VERSION, SegmentId, check_version, checksum, u32_at, u64_at};

const MAGIC: &[u8; 8] = b"PELTDATA";
const HEADER_BYTES: usize = 32;

/// The header page of a segment's data file.
pub(crate) fn header_page(id: SegmentId) -> Vec<u8> {
    let mut page = Vec::with_capacity(ALIGNMENT);
    page.extend_from_slice(MAGIC);
    page.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    page.extend_from_slice(&[0; 4]);
    page.extend_from_slice(&id.0.to_le_bytes());
    page.extend_from_slice(&checksum(&page).to_le_bytes());
    page.resize(ALIGNMENT, 0);
    page
}

/// Checks that `file` is the data file of segment `id`.
pub(crate) fn check_header(file: &File, path: &Path, id: SegmentId) -> Result<()> {
    let mut header = [0; HEADER_BYTES];
    file.read_exact_at(&mut header, 0).context(|| format!("reading the header of {}", path.display()))?;
    if &header[..8] != MAGIC {
        return Err(Error::corrupt(format!("{} is not a Pelton data file", path.display())));
    }
    check_version(path, u32_at(&header, 8))?;
    if u64_at(&header, 24) != checksum(&header[..24]) || u64_at(&header, 16) != id.0 {
        return Err(Error::corrupt(format!(
            "the header of {} is damaged or belongs to another file; restore it from a copy or load the table again",
            path.display()
        )));
    }
    Ok(())
}
