//! One open data file of a table.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use pelton_error::{Error, Result, ResultExt};
use rustix::fs::OFlags;

/// An open data file; it stays readable while this lives, even after a replace has unlinked it.
#[derive(Debug)]
pub struct SegmentFile {
    path: PathBuf,
    bytes: u64,
    table_bytes: u64,
    file: File,
    direct: OnceLock<std::result::Result<File, String>>,
    /// What automatic mode decided for this snapshot of the table.
    fits_page_cache: OnceLock<bool>,
}

impl SegmentFile {
    /// Opens `path`, which must be `bytes` long; `table_bytes` is what the whole table stores.
    pub(crate) fn open(path: PathBuf, bytes: u64, table_bytes: u64) -> Result<Self> {
        let file = open_with_length(&path, bytes)?;
        Ok(Self { path, bytes, table_bytes, file, direct: OnceLock::new(), fits_page_cache: OnceLock::new() })
    }

    /// Where it is, or was.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its length.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The descriptor for reads through the page cache.
    pub(crate) fn buffered(&self) -> &File {
        &self.file
    }

    /// The descriptor for reads past the page cache, opened on first use (through the open one, so that an
    /// unlinked file still has it); says why where the file system refuses.
    pub(crate) fn direct(&self) -> std::result::Result<&File, &str> {
        let opened = self.direct.get_or_init(|| {
            std::fs::OpenOptions::new()
                .read(true)
                .custom_flags(OFlags::DIRECT.bits() as i32)
                .open(format!("/proc/self/fd/{}", self.file.as_raw_fd()))
                .map_err(|error| error.to_string())
        });
        opened.as_ref().map_err(String::as_str)
    }

    /// True where the whole table fits the page cache: it stores at most half of the memory that was
    /// available when this was first asked. One answer for the life of the snapshot.
    pub(crate) fn fits_page_cache(&self, available_bytes: impl FnOnce() -> u64) -> bool {
        *self.fits_page_cache.get_or_init(|| self.table_bytes <= available_bytes() / 2)
    }
}

/// Opens a file of a table and holds its length against what the manifest says.
pub(crate) fn open_with_length(path: &Path, bytes: u64) -> Result<File> {
    let file = File::open(path).map_err(|error| explained(path, error))?;
    let found = file.metadata().context(|| format!("reading the length of {}", path.display()))?.len();
    if found == bytes {
        return Ok(file);
    }
    let change = if found < bytes { "truncated" } else { "longer than written" };
    Err(Error::corrupt(format!(
        "{} is {change}: it has {found} bytes and the manifest says {bytes}; restore it from a copy or load the table again",
        path.display()
    )))
}

fn explained(path: &Path, error: std::io::Error) -> Error {
    if error.kind() == std::io::ErrorKind::NotFound {
        return Error::corrupt(format!(
            "{} is missing and the manifest names it; restore it from a copy or load the table again",
            path.display()
        ));
    }
    let remedy = match rustix::io::Errno::from_io_error(&error) {
        Some(rustix::io::Errno::MFILE) => {
            " (a table needs two open files a segment; raise `ulimit -n`, or reload the table with replace to make it one \
             segment)"
        }
        Some(rustix::io::Errno::ACCESS) => " (grant read permission on the warehouse to this user)",
        _ => "",
    };
    Error::io(format!("opening {}{remedy}", path.display()), error)
}
