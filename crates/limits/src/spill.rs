//! Space on disk for what does not fit in memory: files that have no name, so that they are gone with the process
//! however it ends, and a limit on what they take together.
//!
//! ```text
//! <temporary folder>/pelton-spill-<user>/      or --spill-dir
//!     (files without a name)                   where the file system makes them (O_TMPFILE: ext4, xfs, btrfs, tmpfs, …)
//!     .spill-<pid>-<n>/                        elsewhere: a folder of the process, locked (flock) while it lives,
//!         <number>                             with files that lose their name as soon as they are open
//! ```
//!
//! A process that is killed between making a file and taking its name away leaves a folder that nobody has locked; the
//! next process that spills there removes it. Space that files without a name take shows in `df`, not in `du`.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pelton_error::{Error, Result, ResultExt, Tier};

use crate::size::{bytes_text, parse_size};

/// What the folders of processes are called; a warehouse does not take them for tables.
const PREFIX: &str = ".spill-";
/// The share of the free space that may be taken by default.
const DEFAULT_PERCENT: f64 = 80.0;

/// How much may be spilled, as a user gives it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SpillLimit {
    /// That many bytes.
    Bytes(u64),
    /// A share of what is free when the first file is made.
    Percent(f64),
}

impl Default for SpillLimit {
    fn default() -> Self {
        Self::Percent(DEFAULT_PERCENT)
    }
}

impl FromStr for SpillLimit {
    type Err = String;

    /// A size, a share of the free space, or `none`, which is all of it; 0 forbids spilling.
    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let text = text.trim();
        if text == "0" {
            return Ok(Self::Bytes(0));
        }
        if text.eq_ignore_ascii_case("none") {
            return Ok(Self::Bytes(u64::MAX));
        }
        let Some(percent) = text.strip_suffix('%') else {
            let bytes = parse_size(text);
            return bytes
                .map(Self::Bytes)
                .map_err(|error| format!("{error}; or a share such as 50%, or none"));
        };
        match percent.trim().parse::<f64>() {
            Ok(percent) if percent > 0.0 && percent <= 100.0 => Ok(Self::Percent(percent)),
            _ => Err(format!("'{text}' is not a share of the free space between 0% and 100%")),
        }
    }
}

/// Where to spill and how much.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SpillOptions {
    /// The folder; `None`: [`default_spill_dir`].
    pub directory: Option<PathBuf>,
    /// Bytes of all files together.
    pub limit: SpillLimit,
}

/// The folder in which this user's processes spill unless told otherwise: `pelton-spill-<user id>` in `$TMPDIR` or
/// `/tmp`.
pub fn default_spill_dir() -> PathBuf {
    std::env::temp_dir().join(format!("pelton-spill-{}", rustix::process::getuid().as_raw()))
}

/// A place for files, bounded.
#[derive(Debug)]
pub struct SpillSpace {
    directory: PathBuf,
    /// The folder was not named by anybody: it has to be this user's own.
    is_default: bool,
    limit: SpillLimit,
    place: Mutex<Option<Place>>,
    held_bytes: AtomicU64,
    written_bytes: AtomicU64,
    file_count: AtomicU64,
    /// Tests: as on a file system where every file has a name.
    is_named: bool,
}

/// What the first file found out.
#[derive(Debug)]
struct Place {
    limit_bytes: u64,
    /// Made when a file could not be had without a name.
    folder: Option<Folder>,
}

impl SpillSpace {
    /// A place as `options` say. Nothing is made before the first file.
    pub fn new(options: &SpillOptions) -> Arc<Self> {
        let directory = options.directory.clone();
        Arc::new(Self {
            is_default: directory.is_none(),
            directory: directory.unwrap_or_else(default_spill_dir),
            limit: options.limit,
            place: Mutex::new(None),
            held_bytes: AtomicU64::new(0),
            written_bytes: AtomicU64::new(0),
            file_count: AtomicU64::new(0),
            is_named: false,
        })
    }

    /// Where files are.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Bytes written since the beginning.
    pub fn written_bytes(&self) -> u64 {
        self.written_bytes.load(Ordering::Relaxed)
    }

    /// Bytes that files hold now.
    pub fn held_bytes(&self) -> u64 {
        self.held_bytes.load(Ordering::Relaxed)
    }

    /// Makes an empty file.
    ///
    /// # Errors
    ///
    /// Names the folder and the flag.
    pub fn file(self: &Arc<Self>) -> Result<SpillFile> {
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        let place = match &mut *place {
            Some(place) => place,
            none => none.insert(self.prepare()?),
        };
        let (space, limit_bytes) = (Arc::clone(self), place.limit_bytes);
        let file = self.open(place).map_err(|error| self.refused("making a file", error))?;
        Ok(SpillFile { file, space, limit_bytes, len: AtomicU64::new(0) })
    }

    /// Makes a folder for files with names, which is gone once it is dropped: of a process that was killed the next process
    /// that spills here removes it. What is written there is not held against the limit; see [`limit_bytes`](Self::limit_bytes).
    ///
    /// # Errors
    ///
    /// Names the folder and the flag.
    pub fn folder(&self) -> Result<SpillFolder> {
        self.limit_bytes()?;
        let folder = Folder::create(&self.directory);
        folder.map(SpillFolder).map_err(|error| self.refused("making a folder", error))
    }

    /// What all files together may take: of a share of the free space, of that when the first was made or this first asked.
    ///
    /// # Errors
    ///
    /// Names the folder and the flag.
    pub fn limit_bytes(&self) -> Result<u64> {
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        let place = match &mut *place {
            Some(place) => place,
            none => none.insert(self.prepare()?),
        };
        Ok(place.limit_bytes)
    }

    /// Makes the folder, removes what killed processes left there, and sees what is free.
    fn prepare(&self) -> Result<Place> {
        let shown = self.directory.display();
        let doing = || format!("making the folder to spill to, '{shown}' (--spill-dir names another)");
        DirBuilder::new().recursive(true).mode(0o700).create(&self.directory).context(doing)?;
        let owner = fs::metadata(&self.directory).context(doing)?.uid();
        if self.is_default && owner != rustix::process::getuid().as_raw() {
            return Err(Error::invalid_input(format!(
                "the folder to spill to, '{shown}', is another user's; remove it, or name another with --spill-dir"
            )));
        }
        remove_abandoned(&self.directory)?;
        let limit_bytes = match self.limit {
            SpillLimit::Bytes(bytes) => bytes,
            SpillLimit::Percent(percent) => {
                self.free_bytes().map_or(u64::MAX, |free| (free as f64 / 100.0 * percent) as u64)
            }
        };
        Ok(Place { limit_bytes, folder: None })
    }

    fn free_bytes(&self) -> Option<u64> {
        rustix::fs::statvfs(&self.directory).ok().map(|disk| disk.f_bavail * disk.f_frsize)
    }

    fn open(&self, place: &mut Place) -> io::Result<File> {
        if !self.is_named && place.folder.is_none() {
            let mut options = OpenOptions::new();
            options.read(true).write(true).mode(0o600).custom_flags(libc::O_TMPFILE);
            match options.open(&self.directory) {
                Err(error) if !has_no_nameless_files(&error) => return Err(error),
                Ok(file) => return Ok(file),
                Err(_) => {}
            }
        }
        let folder = match &mut place.folder {
            Some(folder) => folder,
            none => none.insert(Folder::create(&self.directory)?),
        };
        let path = folder.path.join(self.file_count.fetch_add(1, Ordering::Relaxed).to_string());
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        fs::remove_file(&path)?;
        Ok(file)
    }

    /// An error of the system, with folder and remedy.
    fn refused(&self, doing: &str, error: io::Error) -> Error {
        let shown = self.directory.display();
        let is_full = matches!(
            error.kind(),
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge
        );
        if !is_full {
            return Error::io(format!("{doing} in '{shown}', to spill to (--spill-dir)"), error);
        }
        let free = self.free_bytes().unwrap_or(0);
        let message = format!(
            "the disk is full: '{shown}' holds {} of spilled rows and {} are free there ({error}); free some space, name \
             a folder on a larger disk with --spill-dir, raise --memory-limit or select less",
            bytes_text(self.held_bytes()),
            bytes_text(free),
        );
        Error::new(disk_is_full(0, free), message)
    }

    fn past_limit(&self, bytes: u64, limit_bytes: u64) -> Error {
        let held = self.held_bytes();
        let message = format!(
            "spill limit reached: '{}' holds {} of spilled rows, {} more are to be written, and {} is the limit; raise \
             --spill-limit, name a folder on a larger disk with --spill-dir, raise --memory-limit or select less",
            self.directory.display(),
            bytes_text(held),
            bytes_text(bytes),
            bytes_text(limit_bytes),
        );
        Error::new(disk_is_full(bytes, limit_bytes.saturating_sub(held)), message)
    }
}

fn disk_is_full(requested_bytes: u64, available_bytes: u64) -> pelton_error::ErrorKind {
    pelton_error::ErrorKind::OutOfMemory { tier: Tier::Disk, requested_bytes, available_bytes }
}

/// True where the file system, or the kernel, makes no files without a name.
fn has_no_nameless_files(error: &io::Error) -> bool {
    [libc::EOPNOTSUPP, libc::EISDIR, libc::ENOENT, libc::EINVAL, libc::ENOSYS]
        .iter()
        .any(|code| error.raw_os_error() == Some(*code))
}

/// A file in a [`SpillSpace`]: written at its end, read anywhere, gone when dropped.
#[derive(Debug)]
pub struct SpillFile {
    file: File,
    space: Arc<SpillSpace>,
    limit_bytes: u64,
    len: AtomicU64,
}

impl SpillFile {
    /// Bytes written.
    pub fn len(&self) -> u64 {
        self.len.load(Ordering::Relaxed)
    }

    /// True before anything is written.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes `bytes` at the end. Not for several threads at once.
    ///
    /// # Errors
    ///
    /// That the limit is reached or the disk full, with folder and remedy.
    pub fn append(&self, bytes: &[u8]) -> Result<()> {
        let (space, count) = (&self.space, bytes.len() as u64);
        let held = space.held_bytes.fetch_add(count, Ordering::Relaxed) + count;
        if held > self.limit_bytes {
            space.held_bytes.fetch_sub(count, Ordering::Relaxed);
            return Err(space.past_limit(count, self.limit_bytes));
        }
        if let Err(error) = self.file.write_all_at(bytes, self.len()) {
            space.held_bytes.fetch_sub(count, Ordering::Relaxed);
            return Err(space.refused("writing", error));
        }
        self.len.fetch_add(count, Ordering::Relaxed);
        space.written_bytes.fetch_add(count, Ordering::Relaxed);
        Ok(())
    }

    /// Reads into `bytes` what stands from `offset` on; gives how much that is.
    ///
    /// # Errors
    ///
    /// Of the system; names the folder.
    pub fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<usize> {
        self.file.read_at(bytes, offset).map_err(|error| self.space.refused("reading back", error))
    }
}

impl Drop for SpillFile {
    fn drop(&mut self) {
        self.space.held_bytes.fetch_sub(self.len(), Ordering::Relaxed);
    }
}

/// `io::Write` at the end of the file; an error carries Pelton's own as its source.
impl Write for &SpillFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.append(bytes).map_err(carried)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads a file from its start, with a position of its own.
#[derive(Debug)]
pub struct SpillReader {
    file: Arc<SpillFile>,
    offset: u64,
}

impl SpillReader {
    /// At the start of `file`.
    pub fn new(file: Arc<SpillFile>) -> Self {
        Self { file, offset: 0 }
    }
}

impl Read for SpillReader {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(bytes, self.offset).map_err(carried)?;
        self.offset += count as u64;
        Ok(count)
    }
}

impl Seek for SpillReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let target = match to {
            SeekFrom::Start(offset) => Some(offset),
            SeekFrom::End(by) => self.file.len().checked_add_signed(by),
            SeekFrom::Current(by) => self.offset.checked_add_signed(by),
        };
        self.offset = target.ok_or_else(|| io::Error::from(ErrorKind::InvalidInput))?;
        Ok(self.offset)
    }
}

/// `error` inside an `io::Error`, where those who look through sources find it: `io::Error` hides what it was made of.
fn carried(error: Error) -> io::Error {
    #[derive(Debug)]
    struct Carrier(Error);
    impl std::fmt::Display for Carrier {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            self.0.fmt(f)
        }
    }
    impl std::error::Error for Carrier {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&self.0)
        }
    }
    io::Error::other(Carrier(error))
}

/// A folder in a [`SpillSpace`], gone with all in it when dropped. Files that are open are read on.
#[derive(Debug)]
pub struct SpillFolder(Folder);

impl SpillFolder {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0.path
    }
}

/// A locked folder of this process, removed on drop.
#[derive(Debug)]
struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    fn create(directory: &Path) -> io::Result<Self> {
        for attempt in 0.. {
            let path = directory.join(format!("{PREFIX}{}-{attempt}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error),
            }
            // Another process may take the new folder for an abandoned one before the lock is ours.
            let Ok(lock) = File::open(&path) else { continue };
            if lock.try_lock().is_ok() && path.exists() {
                return Ok(Self { path, _lock: lock });
            }
        }
        unreachable!("a free name is found before the counter ends")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that stays is found and removed by the next process that spills here.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes the folders of processes that have ended: those that nobody holds a lock on. Whoever else uses `directory`
/// keeps what is not named like such a folder.
fn remove_abandoned(directory: &Path) -> Result<()> {
    let doing = || format!("looking for abandoned files in '{}'", directory.display());
    for entry in fs::read_dir(directory).context(doing)? {
        let entry = entry.context(doing)?;
        let name = entry.file_name();
        let numbers = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split_once('-'));
        let is_ours = numbers.is_some_and(|(pid, number)| {
            let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            is_number(pid) && is_number(number)
        });
        if !is_ours {
            continue;
        }
        let Ok(folder) = File::open(entry.path()) else { continue };
        match folder.try_lock() {
            // Another process may be removing it as well; another user's stays.
            Ok(()) => drop(fs::remove_dir_all(entry.path())),
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(directory: &Path, limit: SpillLimit) -> Arc<SpillSpace> {
        SpillSpace::new(&SpillOptions { directory: Some(directory.to_owned()), limit })
    }

    fn named(directory: &Path) -> Arc<SpillSpace> {
        let mut space = space(directory, SpillLimit::default());
        Arc::get_mut(&mut space).unwrap().is_named = true;
        space
    }

    fn entries(directory: &Path) -> usize {
        fs::read_dir(directory).unwrap().count()
    }

    #[test]
    fn what_was_written_is_read_back_and_nothing_has_a_name() {
        let directory = tempfile::tempdir().unwrap();
        for (space, folders) in
            [(space(directory.path(), SpillLimit::default()), 0), (named(directory.path()), 1)]
        {
            let file = Arc::new(space.file().unwrap());
            (&*file).write_all(b"spilled ").unwrap();
            (&*file).write_all(b"rows").unwrap();
            assert_eq!((file.len(), space.held_bytes(), space.written_bytes()), (12, 12, 12));
            let mut reader = SpillReader::new(Arc::clone(&file));
            reader.seek(SeekFrom::End(-4)).unwrap();
            let mut text = String::new();
            reader.read_to_string(&mut text).unwrap();
            assert_eq!(text, "rows");
            assert_eq!(entries(directory.path()), folders);
            drop((file, reader));
            assert_eq!(space.held_bytes(), 0);
            drop(space);
            assert_eq!(entries(directory.path()), 0);
        }
    }

    #[test]
    fn the_limit_names_folder_and_flags_and_counts_what_is_held() {
        let directory = tempfile::tempdir().unwrap();
        let space = space(directory.path(), SpillLimit::Bytes(10));
        let (first, second) = (space.file().unwrap(), space.file().unwrap());
        first.append(&[0; 8]).unwrap();
        let error = second.append(&[0; 3]).unwrap_err();
        assert!(matches!(error.kind(), pelton_error::ErrorKind::OutOfMemory { tier: Tier::Disk, .. }));
        let folder = directory.path().display().to_string();
        for part in [folder.as_str(), "--spill-limit", "--spill-dir", "--memory-limit", "10 B"] {
            assert!(error.to_string().contains(part), "{error}");
        }
        drop(first);
        second.append(&[0; 3]).unwrap();
    }

    #[test]
    fn an_error_is_found_among_the_sources_of_what_io_gives() {
        let directory = tempfile::tempdir().unwrap();
        let file = space(directory.path(), SpillLimit::Bytes(0)).file().unwrap();
        let error = (&file).write_all(b"x").unwrap_err();
        let source = std::error::Error::source(&error).unwrap();
        assert!(source.downcast_ref::<Error>().unwrap().to_string().contains("spill limit reached"));
    }

    #[test]
    fn folders_of_processes_that_ended_go_and_others_stay() {
        let directory = tempfile::tempdir().unwrap();
        let living = named(directory.path());
        let _file = living.file().unwrap();
        for name in [".spill-1-0", ".spill-data-1", "2026"] {
            fs::create_dir(directory.path().join(name)).unwrap();
            fs::write(directory.path().join(name).join("0"), b"left by a kill").unwrap();
        }
        assert_eq!(entries(directory.path()), 4);
        drop(named(directory.path()).file().unwrap());
        assert!(!directory.path().join(".spill-1-0").exists());
        assert_eq!(
            entries(directory.path()),
            3,
            "that of a living process stays, and what is named otherwise"
        );
    }

    #[test]
    fn limits_are_sizes_shares_or_none() {
        let limit = |text: &str| text.parse::<SpillLimit>();
        assert_eq!(limit("10GB"), Ok(SpillLimit::Bytes(10_000_000_000)));
        assert_eq!(limit("25%"), Ok(SpillLimit::Percent(25.0)));
        assert_eq!(limit("none"), Ok(SpillLimit::Bytes(u64::MAX)));
        assert_eq!(limit("0"), Ok(SpillLimit::Bytes(0)));
        assert!(limit("0%").is_err() && limit("lots").is_err());
    }
}
