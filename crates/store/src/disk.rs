//! What writing a table asks of the file system, with errors that name path, bytes and remedy.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use pelton_error::{Error, ErrorKind, Result, ResultExt, Tier};
use rustix::io::Errno;

use crate::format::MANIFEST_TEMPORARY;
use crate::format::manifest::SegmentEntry;

/// Removes segment files, and a half-written manifest, that `keep` does not name. Other files are not ours.
pub(crate) fn remove_segments_except(dir: &Path, keep: &[SegmentEntry]) -> Result<()> {
    let listing = || format!("listing {}", dir.display());
    let kept: Vec<PathBuf> =
        keep.iter().flat_map(|segment| [segment.id.data_path(dir), segment.id.meta_path(dir)]).collect();
    for entry in std::fs::read_dir(dir).context(listing)? {
        let path = entry.context(listing)?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let is_segment = (name.starts_with("data-") || name.starts_with("meta-")) && name.ends_with(".pel");
        if (is_segment && !kept.contains(&path)) || name == MANIFEST_TEMPORARY {
            std::fs::remove_file(&path).context(|| format!("removing {}", path.display()))?;
        }
    }
    Ok(())
}

/// Makes renames and new names in `dir` durable.
pub(crate) fn sync_directory(dir: &Path) -> Result<()> {
    let synced = File::open(dir).and_then(|dir| dir.sync_all());
    synced.context(|| format!("syncing the directory {}", dir.display()))
}

/// Writes a whole file and waits until it is on the disk.
pub(crate) fn write_synced(path: &Path, bytes: &[u8]) -> Result<()> {
    let written = File::create(path).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    written.map_err(|error| write_error(path, bytes.len() as u64, error))
}

/// Explains a failed write: a full disk by path, bytes and remedy.
pub(crate) fn write_error(path: &Path, bytes: u64, error: std::io::Error) -> Error {
    let full = [Errno::NOSPC, Errno::DQUOT];
    if !Errno::from_io_error(&error).is_some_and(|errno| full.contains(&errno)) {
        return Error::io(format!("writing {}", path.display()), error);
    }
    let available_bytes =
        rustix::fs::statvfs(path.parent().unwrap_or(path)).map_or(0, |disk| disk.f_bavail * disk.f_frsize);
    let kind = ErrorKind::OutOfMemory { tier: Tier::Disk, requested_bytes: bytes, available_bytes };
    let message = format!(
        "the disk is full: writing {} needs {bytes} more bytes and {available_bytes} are free; free some space or use a \
         warehouse on another disk",
        path.display()
    );
    Error::new(kind, message).with_source(error)
}

/// 64 bits from the kernel.
pub(crate) fn random_u64() -> Result<u64> {
    getrandom::u64().map_err(|error| Error::new(ErrorKind::Io, "drawing a random id").with_source(error))
}
