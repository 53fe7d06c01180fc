//! Compiled programs in a folder, one file each, shared by all processes of a user.
//!
//! ```text
//!   <key in hex>.program     the program's bytes: a shared library, a cubin or PTX
//!                            "PELPROG1"
//!                            key, XXH3-128 of the bytes: 16 bytes each, little endian
//!   pelton-scratch-…         files of a compilation that runs, or that failed
//! ```
//!
//! A file appears by renaming, whole or not at all; one whose tail does not fit is no entry and is replaced. The tail
//! stands at the end because the loader of shared libraries ignores what follows them. After each new file the least
//! recently used go, by their time of modification, which every use renews, until the bound holds.
//!
//! What lies here is run as code of this process. So folder and files are made for their owner alone, and a folder that
//! belongs to another user or that others may write to is not used.

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use pelton_error::{Result, ResultExt};
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use super::scratch::{self, Scratch};

/// What the folder may hold, bytes: some ten thousand programs of 50 kB. A guess.
pub(super) const FOLDER_BYTES_MAX: u64 = 512 << 20;

/// When a scratch folder counts as left over.
const SCRATCH_AGE_MAX: Duration = Duration::from_secs(24 * 3600);

const MAGIC: [u8; 8] = *b"PELPROG1";
const KEY_OFFSET: usize = MAGIC.len();
const HASH_OFFSET: usize = KEY_OFFSET + size_of::<u128>();
const TAIL_BYTES: usize = HASH_OFFSET + size_of::<u128>();
const EXTENSION: &str = "program";

/// A folder that was found fit.
pub(super) struct Cache {
    folder: PathBuf,
    bytes_max: u64,
}

impl Cache {
    /// `programs` in `$PELTON_CACHE`, `$XDG_CACHE_HOME/pelton` or `~/.cache/pelton`.
    pub(super) fn default_folder() -> Option<PathBuf> {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        set("PELTON_CACHE")
            .or_else(|| Some(set("XDG_CACHE_HOME")?.join("pelton")))
            .or_else(|| Some(set("HOME")?.join(".cache").join("pelton")))
            .map(|folder| folder.join("programs"))
    }

    /// The cache in `folder`, which is made if need be; `None` if it cannot be written or others may write to it.
    pub(super) fn open(folder: &Path) -> Option<Self> {
        Self::open_bounded(folder, FOLDER_BYTES_MAX)
    }

    fn open_bounded(folder: &Path, bytes_max: u64) -> Option<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder).ok()?;
        // The loader takes a path without a slash for a name to look for elsewhere.
        let folder = folder.canonicalize().ok()?;
        let probe = Scratch::new(&folder).ok()?;
        let (own, theirs) = (probe.folder().metadata().ok()?, folder.metadata().ok()?);
        is_private(&theirs, own.uid()).then(|| Self { folder: folder.clone(), bytes_max })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file that holds program `key` and the program's bytes, which the file begins with. Counts as a use.
    pub(super) fn find(&self, key: u128) -> Option<(PathBuf, Vec<u8>)> {
        let path = self.path(key);
        let mut bytes = std::fs::read(&path).ok()?;
        bytes.truncate(program_len(&bytes, key)?);
        // A use that goes unrecorded only makes the file look older than it is.
        let _ = File::open(&path).and_then(|file| file.set_modified(SystemTime::now()));
        Some((path, bytes))
    }

    /// Moves the sealed file `from`, which lies in this folder's scratch, to where `key` is looked for. `None` if that
    /// fails: then it stays where it is.
    pub(super) fn take(&self, from: &Path, key: u128) -> Option<PathBuf> {
        let path = self.path(key);
        std::fs::rename(from, &path).ok()?;
        self.sweep(&path);
        Some(path)
    }

    fn path(&self, key: u128) -> PathBuf {
        self.folder.join(format!("{key:032x}.{EXTENSION}"))
    }

    /// Deletes what is too much, but `newest`, and scratch folders that were left over.
    fn sweep(&self, newest: &Path) {
        let mut files: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
        for entry in std::fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let (path, Ok(metadata)) = (entry.path(), entry.metadata()) else { continue };
            let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            if metadata.is_dir() {
                remove_if_left_over(&path, modified);
            } else if path.extension().is_some_and(|extension| extension == EXTENSION) && path != newest {
                files.push((modified, metadata.len(), path));
            }
        }
        files.sort_unstable();
        let newest_bytes = newest.metadata().map_or(0, |metadata| metadata.len());
        let mut sum = files.iter().map(|(_, bytes, _)| bytes).sum::<u64>() + newest_bytes;
        for (_, bytes, path) in files {
            if sum <= self.bytes_max {
                break;
            }
            // One that another process has deleted is gone as well.
            let _ = std::fs::remove_file(path);
            sum -= bytes;
        }
    }
}

fn remove_if_left_over(path: &Path, modified: SystemTime) {
    let is_scratch = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(scratch::PREFIX));
    let is_old = modified.elapsed().is_ok_and(|age| age > SCRATCH_AGE_MAX);
    if is_scratch && is_old {
        let _ = std::fs::remove_dir_all(path);
    }
}

/// True if nobody but `user` may put files into the folder.
fn is_private(folder: &Metadata, user: u32) -> bool {
    const OTHERS_WRITE: u32 = 0o022;
    folder.is_dir() && folder.uid() == user && folder.mode() & OTHERS_WRITE == 0
}

/// XXH3-128 of the parts; each counts with its length, so that none runs into the next.
pub(super) fn key(parts: &[&str]) -> u128 {
    let mut hash = Xxh3::new();
    for part in parts {
        hash.update(&(part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    hash.digest128()
}

/// Writes `program` with its tail to a file in `folder` and returns the file.
pub(super) fn seal(folder: &Path, key: u128, program: &[u8]) -> Result<PathBuf> {
    let path = folder.join("sealed").with_extension(EXTENSION);
    let hash = xxh3_128(program);
    let sealed = [program, &MAGIC, &key.to_le_bytes(), &hash.to_le_bytes()].concat();
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    let written = file.and_then(|mut file| file.write_all(&sealed));
    written.context(|| format!("writing {}", path.display()))?;
    Ok(path)
}

/// The program's length in a sealed file; `None` if the file is damaged or of another key.
fn program_len(sealed: &[u8], key: u128) -> Option<usize> {
    let (program, tail) = sealed.split_last_chunk::<TAIL_BYTES>()?;
    let number = |offset: usize| Some(u128::from_le_bytes(*tail.get(offset..)?.first_chunk()?));
    let is_whole =
        tail.starts_with(&MAGIC) && number(KEY_OFFSET)? == key && number(HASH_OFFSET)? == xxh3_128(program);
    is_whole.then_some(program.len())
}

#[cfg(test)]
mod tests;
