//! A file that has its name only once it is complete: `pelton sql --output`, which may end at any moment.
//!
//! It is written without a name where the file system allows (O_TMPFILE), and gets one by a link and a rename. Elsewhere
//! it is called `<name>.part` until then, and is removed when it is dropped; a process that is killed leaves it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use pelton_error::{Result, ResultExt};
use rustix::fs::{AtFlags, CWD, linkat};

/// See the module.
#[derive(Debug)]
pub struct NewFile {
    file: File,
    path: PathBuf,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Gone unless it is finished.
    Nameless,
    /// Under its `.part` name.
    Part,
    /// A device or pipe that was there, or finished.
    Done,
}

impl NewFile {
    /// Begins a file that will be `path`, in place of what is there. What is no file, such as a pipe, is written to at
    /// once.
    ///
    /// # Errors
    ///
    /// Names the file.
    pub fn create(path: &Path) -> Result<Self> {
        let doing = || format!("creating '{}'", path.display());
        let new = |file, state| Self { file, path: path.to_owned(), state };
        if fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
            return Ok(new(OpenOptions::new().write(true).open(path).context(doing)?, State::Done));
        }
        match nameless(path) {
            Ok(file) => Ok(new(file, State::Nameless)),
            Err(_) => Ok(new(File::create(part(path)).context(doing)?, State::Part)),
        }
    }

    /// What to write to.
    ///
    /// # Errors
    ///
    /// Of the system, which has no handle left.
    pub fn writer(&self) -> Result<File> {
        self.file.try_clone().context(|| format!("creating '{}'", self.path.display()))
    }

    /// Gives the file its name.
    ///
    /// # Errors
    ///
    /// Names the file; it is gone then.
    pub fn finish(&mut self) -> Result<()> {
        if self.state == State::Done {
            return Ok(());
        }
        let (doing, part) = (|| format!("naming '{}'", self.path.display()), part(&self.path));
        if self.state == State::Nameless {
            // One that a killed process left is in the way of a link.
            let _ = fs::remove_file(&part);
            let file = format!("/proc/self/fd/{}", self.file.as_raw_fd());
            linkat(CWD, file, CWD, &part, AtFlags::SYMLINK_FOLLOW).map_err(io::Error::from).context(doing)?;
            self.state = State::Part;
        }
        fs::rename(&part, &self.path).context(doing)?;
        self.state = State::Done;
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if self.state == State::Part {
            let _ = fs::remove_file(part(&self.path)); // an unfinished file is of no use to anyone
        }
    }
}

/// A file without a name beside `path`, which can be given one.
fn nameless(path: &Path) -> io::Result<File> {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let file = OpenOptions::new().write(true).custom_flags(libc::O_TMPFILE).open(folder)?;
    // Without /proc there is no way to a name.
    fs::symlink_metadata(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    Ok(file)
}

fn part(path: &Path) -> PathBuf {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    part.into()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_file_shows_when_it_is_complete_and_replaces_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.csv");
        fs::write(&path, "old").unwrap();
        fs::write(part(&path), "left by a kill").unwrap();
        let mut new = NewFile::create(&path).unwrap();
        new.writer().unwrap().write_all(b"new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        new.finish().unwrap();
        drop(new);
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(names(folder.path()), ["rows.csv"]);
    }

    #[test]
    fn a_file_that_is_not_finished_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.csv");
        drop(NewFile::create(&path).unwrap());
        let named = NewFile { file: File::create(part(&path)).unwrap(), path, state: State::Part };
        assert_eq!(names(folder.path()), ["rows.csv.part"]);
        drop(named);
        assert_eq!(names(folder.path()), [""; 0]);
    }

    #[test]
    fn a_device_is_written_to_and_not_replaced() {
        let mut new = NewFile::create(Path::new("/dev/null")).unwrap();
        new.writer().unwrap().write_all(b"x").unwrap();
        new.finish().unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let error = NewFile::create(Path::new("/no/such/folder/rows.csv")).unwrap_err();
        assert!(error.to_string().contains("/no/such/folder/rows.csv"), "{error}");
    }
}
