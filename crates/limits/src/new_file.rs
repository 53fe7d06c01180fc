//! A file that has its name only once it is complete: `pelton sql --output` and COPY, which may end at any moment.
//!
//! It is written without a name where the file system allows (O_TMPFILE), and gets one by a link and a rename. Elsewhere
//! it is called `<name>.part` until then, and is removed when it is dropped; a process that is killed leaves it.
//!
//! A file that is replaced hands its mode on, and where the name is a symbolic link, the file it leads to is replaced.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use pelton_error::{Result, ResultExt};
use rustix::fs::{AtFlags, CWD, linkat};

/// Symbolic links that are followed to a file, as many as Linux follows.
const LINKS_MAX: usize = 40;

/// See the module.
#[derive(Debug)]
pub struct NewFile {
    /// `None` once it is parked.
    file: Option<File>,
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
        let found = fs::metadata(path).ok();
        if found.as_ref().is_some_and(|found| !found.is_file() && !found.is_dir()) {
            let file = OpenOptions::new().write(true).open(path).context(doing)?;
            return Ok(Self { file: Some(file), path: path.to_owned(), state: State::Done });
        }
        let path = resolved(path);
        let (file, state) = match nameless(&path) {
            Ok(file) => (file, State::Nameless),
            Err(_) => (File::create(part(&path)).context(doing)?, State::Part),
        };
        let new = Self { file: Some(file), path, state };
        if let (Some(found), Some(file)) = (found.filter(fs::Metadata::is_file), &new.file)
            && file.metadata().context(doing)?.permissions() != found.permissions()
        {
            file.set_permissions(found.permissions()).context(doing)?;
        }
        Ok(new)
    }

    /// What to write to.
    ///
    /// # Errors
    ///
    /// Of the system, which has no handle left.
    pub fn writer(&self) -> Result<File> {
        let file = self.file.as_ref().ok_or_else(|| io::Error::other("the file is parked"));
        file.and_then(File::try_clone).context(|| format!("creating '{}'", self.path.display()))
    }

    /// Closes the file until it is finished, for those that hold many. It is called `<name>.part` from now on.
    ///
    /// # Errors
    ///
    /// Names the file.
    pub fn park(&mut self) -> Result<()> {
        self.link()?;
        self.file = None;
        Ok(())
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
        self.link()?;
        fs::rename(part(&self.path), &self.path).context(|| format!("naming '{}'", self.path.display()))?;
        self.state = State::Done;
        Ok(())
    }

    /// Gives a file without a name its `.part` name.
    fn link(&mut self) -> Result<()> {
        let (State::Nameless, Some(file)) = (self.state, &self.file) else { return Ok(()) };
        let part = part(&self.path);
        // One that a killed process left is in the way of a link.
        let _ = fs::remove_file(&part);
        let file = format!("/proc/self/fd/{}", file.as_raw_fd());
        let linked = linkat(CWD, file, CWD, &part, AtFlags::SYMLINK_FOLLOW).map_err(io::Error::from);
        linked.context(|| format!("naming '{}'", self.path.display()))?;
        self.state = State::Part;
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

/// Where the symbolic links of `path` lead, be a file there or not.
fn resolved(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        let Ok(target) = fs::read_link(&path) else { break };
        path = path.parent().map_or_else(|| target.clone(), |folder| folder.join(&target));
    }
    path
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
        let file = Some(File::create(part(&path)).unwrap());
        let named = NewFile { file, path, state: State::Part };
        assert_eq!(names(folder.path()), ["rows.csv.part"]);
        drop(named);
        assert_eq!(names(folder.path()), [""; 0]);
    }

    #[test]
    fn a_parked_file_is_finished_without_its_handle_or_gone() {
        let folder = tempfile::tempdir().unwrap();
        for finishes in [false, true] {
            let mut new = NewFile::create(&folder.path().join("rows.csv")).unwrap();
            new.writer().unwrap().write_all(b"new").unwrap();
            new.park().unwrap();
            assert_eq!(names(folder.path()), ["rows.csv.part"]);
            assert!(new.writer().is_err());
            if finishes {
                new.finish().unwrap();
            }
            drop(new);
            let expected: &[&str] = if finishes { &["rows.csv"] } else { &[] };
            assert_eq!(names(folder.path()), expected);
        }
    }

    #[test]
    fn a_link_stays_and_the_file_it_leads_to_is_replaced_with_its_mode() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().unwrap();
        let [rows, link, chain, dangling, later] =
            ["rows.csv", "link.csv", "chain.csv", "dangling.csv", "later.csv"]
                .map(|name| folder.path().join(name));
        fs::write(&rows, "old").unwrap();
        fs::set_permissions(&rows, fs::Permissions::from_mode(0o600)).unwrap();
        symlink("rows.csv", &link).unwrap();
        symlink(&link, &chain).unwrap();
        symlink("later.csv", &dangling).unwrap();
        let write = |path: &Path, text: &str| {
            let mut new = NewFile::create(path).unwrap();
            new.writer().unwrap().write_all(text.as_bytes()).unwrap();
            new.finish().unwrap();
        };
        write(&chain, "new");
        assert_eq!(fs::read_to_string(&rows).unwrap(), "new");
        assert_eq!(fs::metadata(&rows).unwrap().permissions().mode() & 0o777, 0o600);
        assert!([&link, &chain].iter().all(|path| fs::symlink_metadata(path).unwrap().is_symlink()));
        write(&dangling, "first");
        assert_eq!(fs::read_to_string(&later).unwrap(), "first");
        assert!(fs::symlink_metadata(&dangling).unwrap().is_symlink());
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
