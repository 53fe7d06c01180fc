//! A file that is open for reading, in both ways.

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use pelton_error::{Result, ResultExt};
use rustix::fs::OFlags;

/// An open file; it stays readable while this lives, even after it was unlinked.
#[derive(Debug)]
pub struct OpenFile {
    path: PathBuf,
    bytes: u64,
    whole_bytes: u64,
    file: File,
    direct: OnceLock<std::result::Result<File, String>>,
    /// What automatic mode decided for it.
    fits_page_cache: OnceLock<bool>,
}

impl OpenFile {
    /// Opens `path`, a file that is read by itself.
    ///
    /// # Errors
    ///
    /// `Io` if it cannot be opened.
    pub fn open(path: &Path) -> Result<Self> {
        let opened = File::open(path).and_then(|file| Ok((file.metadata()?.len(), file)));
        let (bytes, file) = opened.context(|| format!("opening {}", path.display()))?;
        Ok(Self::new(path.into(), file, bytes, bytes))
    }

    /// `file`, which was opened at `path` and is `bytes` long. `whole_bytes` is the length of all files that are read
    /// together with it, those of a table: automatic mode decides by it.
    pub fn new(path: PathBuf, file: File, bytes: u64, whole_bytes: u64) -> Self {
        Self { path, bytes, whole_bytes, file, direct: OnceLock::new(), fits_page_cache: OnceLock::new() }
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
    pub fn buffered(&self) -> &File {
        &self.file
    }

    /// The descriptor for reads past the page cache, opened on first use (through the open one, so that an
    /// unlinked file still has it); says why where the file system refuses.
    pub fn direct(&self) -> std::result::Result<&File, &str> {
        let opened = self.direct.get_or_init(|| {
            OpenOptions::new()
                .read(true)
                .custom_flags(OFlags::DIRECT.bits() as i32)
                .open(format!("/proc/self/fd/{}", self.file.as_raw_fd()))
                .map_err(|error| error.to_string())
        });
        opened.as_ref().map_err(String::as_str)
    }

    /// True where the whole fits the page cache: it is at most half of the memory that was available when this
    /// was first asked. One answer for as long as the file is open.
    pub(crate) fn fits_page_cache(&self, available_bytes: impl FnOnce() -> u64) -> bool {
        *self.fits_page_cache.get_or_init(|| self.whole_bytes <= available_bytes() / 2)
    }
}
