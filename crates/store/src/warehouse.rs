//! A directory of tables.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pelton_error::{Error, Result, ResultExt};

use crate::disk::{remove_segments_except, sync_directory};
use crate::format::manifest::Manifest;
use crate::format::{LOCK, MANIFEST};
use crate::lock::TableLock;
use crate::table::Table;

/// The most bytes of a table's name; file systems take 255.
const NAME_BYTES_MAX: usize = 200;

/// A directory with one directory a table. Holds nothing open.
#[derive(Debug, Clone)]
pub struct Warehouse {
    dir: PathBuf,
}

/// Tells two states of a table apart without reading it: what the file system says of its manifest, which every commit
/// replaces by another file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableStamp {
    device: u64,
    inode: u64,
    changed: (i64, i64),
    bytes: u64,
}

impl Warehouse {
    /// The warehouse at `dir`, which must exist.
    pub fn open(dir: impl Into<PathBuf>) -> Result<Self> {
        let dir = dir.into();
        match std::fs::metadata(&dir) {
            Ok(found) if found.is_dir() => Ok(Self { dir }),
            Ok(_) => {
                Err(Error::invalid_input(format!("'{}' is not a directory; name a warehouse", dir.display())))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(Error::invalid_input(format!(
                "there is no warehouse at '{}'; load a table to make one, or name another directory (--warehouse)",
                dir.display()
            ))),
            Err(error) => Err(Error::io(format!("opening the warehouse '{}'", dir.display()), error)),
        }
    }

    /// The warehouse at `dir`, made where it is missing.
    pub fn open_or_create(dir: impl Into<PathBuf>) -> Result<Self> {
        let dir = dir.into();
        std::fs::create_dir_all(&dir).context(|| format!("creating the warehouse '{}'", dir.display()))?;
        Self::open(dir)
    }

    /// Where it is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The names of its tables, sorted. A directory without a manifest is no table: it is being made, or
    /// its making was interrupted.
    pub fn tables(&self) -> Result<Vec<String>> {
        let listing = || format!("listing the warehouse '{}'", self.dir.display());
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.dir).context(listing)? {
            let entry = entry.context(listing)?;
            if let Ok(name) = entry.file_name().into_string()
                && entry.path().join(MANIFEST).exists()
            {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// True where there is a table of this name.
    pub fn has_table(&self, name: &str) -> bool {
        check_name(name).is_ok() && self.table_dir(name).join(MANIFEST).exists()
    }

    /// The table `name` as it is now; later commits do not change what is returned.
    pub fn table(&self, name: &str) -> Result<Arc<Table>> {
        check_name(name)?;
        match Table::open(&self.table_dir(name), name)? {
            Some(table) => Ok(Arc::new(table)),
            None => Err(self.no_table(name)),
        }
    }

    /// The stamp of table `name` as it is now; `None` where there is none.
    pub fn stamp(&self, name: &str) -> Option<TableStamp> {
        check_name(name).ok()?;
        let manifest = std::fs::metadata(self.table_dir(name).join(MANIFEST)).ok()?;
        Some(TableStamp {
            device: manifest.dev(),
            inode: manifest.ino(),
            changed: (manifest.ctime(), manifest.ctime_nsec()),
            bytes: manifest.len(),
        })
    }

    /// Removes table `name`; where that is a symbolic link, the link alone. Queries that have it open read on.
    pub fn drop_table(&self, name: &str) -> Result<()> {
        check_name(name)?;
        if !self.has_table(name) {
            return Err(self.no_table(name));
        }
        let dir = self.table_dir(name);
        let removing = || format!("removing table '{name}' in {}", dir.display());
        if std::fs::symlink_metadata(&dir).context(removing)?.is_symlink() {
            // The data belongs to wherever the link leads; only the name is this warehouse's.
            std::fs::remove_file(&dir).context(removing)?;
            return sync_directory(&self.dir);
        }
        let _lock = TableLock::acquire(&dir, name)?;
        std::fs::remove_file(dir.join(MANIFEST)).context(removing)?;
        sync_directory(&dir)?;
        remove_segments_except(&dir, &[])?;
        std::fs::remove_file(dir.join(LOCK)).context(removing)?;
        // Files that are not Pelton's keep the directory; the table is gone all the same.
        let _ = std::fs::remove_dir(&dir);
        Ok(())
    }

    pub(crate) fn table_dir(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn no_table(&self, name: &str) -> Error {
        let known = match self.tables() {
            Ok(names) if names.is_empty() => "it has none yet".to_string(),
            Ok(names) => format!("it has {}", names.join(", ")),
            Err(error) => error.to_string(),
        };
        Error::invalid_input(format!("no table '{name}' in the warehouse '{}'; {known}", self.dir.display()))
    }
}

/// Refuses names that are no single, visible directory name.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let is_bad = |c: char| c == '/' || c == '\\' || c.is_control();
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.starts_with('.') || name.contains(is_bad) {
        return Err(Error::invalid_input(format!(
            "'{}' cannot name a table: use 1 to {NAME_BYTES_MAX} bytes without slashes, not starting with a dot",
            name.escape_debug()
        )));
    }
    Ok(())
}

/// The manifest of the table in `dir`, if there is one.
pub(crate) fn read_manifest(dir: &Path) -> Result<Option<Manifest>> {
    Manifest::read(&dir.join(MANIFEST))
}
