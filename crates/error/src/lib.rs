//! The workspace error: kinds are named by what the caller does next, not by where they arose.
//!
//! An [`Error`] is a kind, a chain of contexts (outermost first) and an optional source. Build one with
//! a constructor named after its kind, add context on the way up with [`ResultExt::context`]:
//!
//! ```
//! use pelton_error::{Error, ErrorKind, Result, ResultExt};
//!
//! fn open(name: &str) -> Result<()> {
//!     Err(Error::invalid_input(format!("no table '{name}'"))).context(|| "planning the query".into())
//! }
//! let error = open("lineorder").unwrap_err();
//! assert_eq!(error.kind(), &ErrorKind::InvalidInput);
//! assert_eq!(error.to_string(), "planning the query: no table 'lineorder'");
//! ```
//!
//! Bugs are not errors: they are assertions.

#![forbid(unsafe_code)]

mod cancel;
mod guard;

pub use cancel::{CancelFlag, Pace};
pub use guard::{guarded, guarded_async, guarded_items};

use std::fmt;

/// Where bytes can live, fastest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tier {
    /// Memory of a device.
    Device,
    /// Page-locked host memory, which devices read and write by themselves.
    Pinned,
    /// Host memory.
    Host,
    /// Local disk.
    Disk,
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Tier::Device => "device memory",
            Tier::Pinned => "pinned host memory",
            Tier::Host => "host memory",
            Tier::Disk => "disk",
        })
    }
}

/// What went wrong, as seen by the code that must decide what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ErrorKind {
    /// A tier has no room. The caller spills, shrinks its reservation or waits.
    OutOfMemory {
        /// The tier that is exhausted.
        tier: Tier,
        /// What was asked for.
        requested_bytes: u64,
        /// What was left.
        available_bytes: u64,
    },
    /// This path cannot run this. The caller takes another path or shows the message.
    Unsupported,
    /// The user asked for something that cannot be. The caller shows the message.
    InvalidInput,
    /// The query or load was cancelled. The caller releases and returns.
    Cancelled,
    /// A file disagrees with its checksum or its own layout. The query fails.
    Corrupt,
    /// The operating system refused. The caller may retry.
    Io,
    /// The context of a device is lost. The caller fences the device off.
    DeviceLost,
}

/// An error with its kind, its contexts and, where there is one, its source.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    /// Innermost first; shown outermost first.
    messages: Vec<String>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// `std::result::Result` with the workspace error.
pub type Result<T> = std::result::Result<T, Error>;

const _: () = assert!(size_of::<Error>() == size_of::<usize>(), "a Result should not pay for its error");

impl Error {
    /// An error of `kind` that says `message`.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner { kind, messages: vec![message.into()], source: None }))
    }

    /// The user asked for something that cannot be; say what and what would work.
    pub fn invalid_input(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidInput, message)
    }

    /// This path cannot run this; another may.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, message)
    }

    /// Stored bytes fail a check; name the file, the column and the chunk.
    pub fn corrupt(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Corrupt, message)
    }

    /// A device no longer answers; every later operation on it fails as well.
    pub fn device_lost(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::DeviceLost, message)
    }

    /// The work was cancelled.
    pub fn cancelled() -> Self {
        Self::new(ErrorKind::Cancelled, "cancelled")
    }

    /// The operating system refused; `doing` names the file and the operation.
    pub fn io(doing: impl Into<String>, source: std::io::Error) -> Self {
        Self::new(ErrorKind::Io, doing).with_source(source)
    }

    /// Keeps `source` as the cause; its text is shown last.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// Puts `message` in front.
    #[must_use]
    pub fn context(mut self, message: impl Into<String>) -> Self {
        self.0.messages.push(message.into());
        self
    }

    /// The kind, to decide by.
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, message) in self.0.messages.iter().rev().enumerate() {
            if index > 0 {
                f.write_str(": ")?;
            }
            f.write_str(message)?;
        }
        if let Some(source) = &self.0.source {
            write!(f, ": {source}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}({self})", self.0.kind)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

/// Adds context to the error of a `Result`.
pub trait ResultExt<T> {
    /// Puts `message` in front of the error's own; evaluated only on failure.
    fn context(self, message: impl FnOnce() -> String) -> Result<T>;
}

impl<T> ResultExt<T> for Result<T> {
    fn context(self, message: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| error.context(message()))
    }
}

impl<T> ResultExt<T> for std::io::Result<T> {
    fn context(self, message: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| Error::io(message(), error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_read_outermost_first() {
        let error = Error::corrupt("checksum differs").context("chunk 3").context("reading 't'");
        assert_eq!(error.to_string(), "reading 't': chunk 3: checksum differs");
    }

    #[test]
    fn source_is_shown_last_and_kept() {
        let missing = std::io::Error::new(std::io::ErrorKind::NotFound, "gone");
        let error = Error::io("opening manifest", missing);
        assert_eq!(error.to_string(), "opening manifest: gone");
        assert!(std::error::Error::source(&error).is_some());
    }
}
