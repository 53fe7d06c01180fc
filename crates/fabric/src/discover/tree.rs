//! Reading `/sys` and `/proc`, or a recorded copy of them, where any file may be missing, unreadable or garbage.
//!
//! Every answer is an option; the caller decides what a missing one means. Nothing is read beyond [`READ_BYTES_MAX`].

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// More than any file of `/sys` and `/proc` that is looked at here; a bound, not a measurement.
const READ_BYTES_MAX: u64 = 4 << 20;

/// A directory that stands for `/`.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    root: PathBuf,
}

impl Tree {
    pub(crate) fn new(root: &Path) -> Self {
        Self { root: root.to_path_buf() }
    }

    /// The text of a file without surrounding white space; bytes that are no UTF-8 are replaced.
    pub(crate) fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        Some(String::from_utf8_lossy(&self.bytes(path)?).trim().to_string())
    }

    /// A file that holds one number.
    pub(crate) fn number<T: FromStr>(&self, path: impl AsRef<Path>) -> Option<T> {
        self.text(path)?.parse().ok()
    }

    /// What a directory holds, sorted; nothing if it cannot be read.
    pub(crate) fn names(&self, directory: impl AsRef<Path>) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.inside(directory)) else { return Vec::new() };
        let mut names: Vec<String> =
            entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    pub(crate) fn exists(&self, path: impl AsRef<Path>) -> bool {
        self.inside(path).exists()
    }

    /// Where a path leads once links are followed, relative to the root.
    pub(crate) fn real_path(&self, path: impl AsRef<Path>) -> Option<PathBuf> {
        let real = fs::canonicalize(self.inside(path)).ok()?;
        let root = fs::canonicalize(&self.root).ok()?;
        real.strip_prefix(root).map(Path::to_path_buf).ok()
    }

    /// What a file holds, at most [`READ_BYTES_MAX`] of it.
    pub(crate) fn bytes(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(self.inside(path)).ok()?.take(READ_BYTES_MAX).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    /// Absolute paths lie below the root, too.
    fn inside(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }
}

/// The number after `key` in a table such as `/proc/meminfo`, whose lines read `Key:  123 kB`, in bytes.
pub(crate) fn kibibytes_of(table: &str, key: &str) -> Option<u64> {
    let line = table.lines().find_map(|line| line.trim_start().strip_prefix(key)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_meminfo_is_found_by_its_whole_key() {
        let table = "MemTotal:  16 kB\nMemFree: x kB\nSwapTotalX: 1 kB\nSwapTotal: 0 kB";
        assert_eq!(kibibytes_of(table, "MemTotal"), Some(16 << 10));
        assert_eq!(kibibytes_of(table, "SwapTotal"), Some(0));
        assert_eq!(kibibytes_of(table, "MemFree"), None);
        assert_eq!(kibibytes_of(table, "Mem"), None);
        assert_eq!(kibibytes_of("MemTotal: 18446744073709551615 kB", "MemTotal"), None);
    }

    #[test]
    fn what_cannot_be_read_is_nothing() {
        let tree = Tree::new(Path::new("/nonexistent"));
        assert_eq!(tree.text("a"), None);
        assert_eq!(tree.number::<u32>("a"), None);
        assert!(tree.names("a").is_empty());
        assert_eq!(tree.real_path("a"), None);
    }
}
