//! One writer a table: an exclusive `flock` on `<table>/lock`, which the kernel releases however its
//! holder ends. The file names the holder's process, for the message a second writer gets.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use pelton_error::{Error, Result, ResultExt};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::format::LOCK;

/// The right to write a table; given back when dropped.
#[derive(Debug)]
pub(crate) struct TableLock {
    file: File,
}

/// A lock file can vanish (its table was dropped) between opening and locking; then it is made anew.
const TRIES: usize = 10;

impl TableLock {
    /// Takes the lock of table `name`, whose directory is made where it is missing; does not wait.
    pub(crate) fn acquire(dir: &Path, name: &str) -> Result<Self> {
        let path = dir.join(LOCK);
        for _ in 0..TRIES {
            match std::fs::create_dir(dir) {
                Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                    return Err(Error::io(format!("creating {}", dir.display()), error));
                }
                _ => {}
            }
            if let Some(file) = Self::try_acquire(&path, name)? {
                return Ok(Self { file });
            }
        }
        Err(Error::invalid_input(format!(
            "table '{name}' is being dropped and written again and again; try later"
        )))
    }

    fn try_acquire(path: &PathBuf, name: &str) -> Result<Option<File>> {
        let opened = File::options().create(true).truncate(false).read(true).write(true).open(path);
        let mut file = match opened {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io(format!("opening {}", path.display()), error)),
        };
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(is_locked(name, &mut file)),
            Err(error) => return Err(Error::io(format!("locking {}", path.display()), error.into())),
        }
        let is_current = match (file.metadata(), std::fs::metadata(path)) {
            (Ok(locked), Ok(named)) => locked.ino() == named.ino(),
            _ => false,
        };
        if !is_current {
            return Ok(None);
        }
        let writing = || format!("writing {}", path.display());
        file.set_len(0).context(writing)?;
        write!(file, "{}", std::process::id()).context(writing)?;
        Ok(Some(file))
    }
}

impl Drop for TableLock {
    /// Closing the file would do, were there not child processes that hold a copy of it until they exec.
    fn drop(&mut self) {
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

fn is_locked(name: &str, file: &mut File) -> Error {
    let mut holder = String::new();
    let holder = match file.rewind().and_then(|()| file.read_to_string(&mut holder)) {
        Ok(_) if !holder.is_empty() => format!("process {holder}"),
        _ => "another process".to_string(),
    };
    Error::invalid_input(format!(
        "table '{name}' is being written by {holder}; wait until it has finished, or end it"
    ))
}
