//! Where an input file is, and opening it there.

use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::path::{Path, PathBuf};

use pelton_error::{Error, Result, ResultExt};
use pelton_remote::{Object, ObjectReader};

/// Where a file is.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    /// On a disk of this machine.
    Disk(PathBuf),
    /// In an object store or on a server.
    Store(Object),
}

/// What can be read from any position.
pub(crate) trait ReadSeek: Read + Seek + Send {}

impl<T: Read + Seek + Send> ReadSeek for T {}

impl Place {
    /// As it is named in messages.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Disk(path) => path.display().to_string(),
            Self::Store(object) => object.url().to_owned(),
        }
    }

    /// A path whose ending tells the format.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Disk(path) => path,
            Self::Store(object) => Path::new(object.path().as_ref()),
        }
    }

    /// Opens it at its start.
    pub(crate) fn open(&self) -> Result<Box<dyn ReadSeek>> {
        Ok(match self {
            Self::Disk(path) => Box::new(File::open(path).context(|| format!("opening {}", path.display()))?),
            Self::Store(object) => Box::new(ObjectReader::new(object.clone())),
        })
    }

    /// The same, with a buffer for many small reads.
    pub(crate) fn open_buffered(&self) -> Result<BufReader<Box<dyn ReadSeek>>> {
        Ok(BufReader::new(self.open()?))
    }
}

/// The error of a store that `error` carries: what a format library was told while it read.
pub(crate) fn of_store(error: &(dyn std::error::Error + 'static)) -> Option<Error> {
    let mut source = Some(error);
    while let Some(current) = source {
        if let Some(ours) = current.downcast_ref::<Error>() {
            return Some(Error::new(ours.kind().clone(), ours.to_string()));
        }
        // The source of an I/O error is the source of what it holds, which is thus looked at by itself.
        let held = current.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        source = match held {
            Some(held) => Some(held as &(dyn std::error::Error + 'static)),
            None => current.source(),
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use arrow::error::ArrowError;

    use super::*;

    #[test]
    fn the_error_of_a_store_is_found_below_those_of_format_libraries() {
        let io = std::io::Error::other(Error::cancelled());
        let wrapped = ArrowError::IoError("reading".into(), io);
        assert_eq!(of_store(&wrapped).unwrap().kind(), Error::cancelled().kind());
        assert!(of_store(&ArrowError::ParseError("not this".into())).is_none());
    }
}
