//! Opening the files of a table, whose lengths the manifest knows.

use std::fs::File;
use std::path::{Path, PathBuf};

use pelton_error::{Error, Result, ResultExt};
use pelton_io::OpenFile;

/// Opens the data file `path`, which must be `bytes` long; `table_bytes` is what the whole table stores.
pub(crate) fn open_data_file(path: PathBuf, bytes: u64, table_bytes: u64) -> Result<OpenFile> {
    let file = open_with_length(&path, bytes)?;
    Ok(OpenFile::new(path, file, bytes, table_bytes))
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
