//! A folder for the files of one compilation, private to this user.

use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pelton_error::{Result, ResultExt};

/// What the names of such folders begin with.
pub(super) const PREFIX: &str = "pelton-scratch-";

/// Removed when dropped, unless it is to be kept.
pub(super) struct Scratch {
    folder: PathBuf,
    is_kept: AtomicBool,
}

impl Scratch {
    /// A new folder in `preferred` if that can be written, else among the system's temporary files.
    pub(super) fn in_one_of(preferred: Option<&Path>) -> Result<Self> {
        match preferred.map(Self::new) {
            Some(Ok(scratch)) => Ok(scratch),
            _ => Self::new(&std::env::temp_dir()),
        }
    }

    /// A new folder in `parent`: never one that was there, so that nobody else has put anything into it.
    pub(super) fn new(parent: &Path) -> Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let folder = parent.join(format!("{PREFIX}{}-{number}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&folder) {
                Ok(()) => return Ok(Self { folder, is_kept: AtomicBool::new(false) }),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => {
                    return Err(error).context(|| format!("making the folder {}", folder.display()));
                }
            }
        }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Leaves it where it is, for whoever reads an error.
    pub(super) fn keep(&self) {
        self.is_kept.store(true, Ordering::Relaxed);
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.is_kept.load(Ordering::Relaxed) {
            // What cannot be removed is of no harm; the cache removes old ones.
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }
}
