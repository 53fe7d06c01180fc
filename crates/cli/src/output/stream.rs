//! Where bytes of rows go: standard output or a file, compressed or not. A file has its name only once it is complete; what is no file (a pipe, a device such as `/dev/null`) is written as it is.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use flate2::write::GzEncoder;
use pelton_error::{Result, ResultExt};
use pelton_limits::NewFile;

use super::ending::Compression;
use crate::console;

/// Bytes gathered before they are written.
const BUFFER_BYTES: usize = 1 << 20;

type Raw = Box<dyn Write + Send>;

/// A buffered, perhaps compressing writer, which [`finish`](Self::finish) completes.
pub(super) enum Out {
    Plain(BufWriter<Raw>),
    Gzip(BufWriter<GzEncoder<Raw>>),
    Zstd(BufWriter<zstd::Encoder<'static, Raw>>),
}

impl Out {
    fn new(raw: Raw, compression: Compression) -> std::io::Result<Self> {
        Ok(match compression {
            Compression::None => Self::Plain(BufWriter::with_capacity(BUFFER_BYTES, raw)),
            Compression::Gzip => {
                let encoder = GzEncoder::new(raw, flate2::Compression::default());
                Self::Gzip(BufWriter::with_capacity(BUFFER_BYTES, encoder))
            }
            Compression::Zstd => {
                let encoder = zstd::Encoder::new(raw, zstd::DEFAULT_COMPRESSION_LEVEL)?;
                Self::Zstd(BufWriter::with_capacity(BUFFER_BYTES, encoder))
            }
        })
    }

    /// Writes what is left, the end of the compressed stream too.
    pub(super) fn finish(&mut self) -> std::io::Result<()> {
        self.flush()?;
        match self {
            Self::Plain(_) => Ok(()),
            Self::Gzip(out) => out.get_mut().try_finish().and_then(|()| out.get_mut().get_mut().flush()),
            Self::Zstd(out) => out.get_mut().do_finish().and_then(|()| out.get_mut().get_mut().flush()),
        }
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Self::Plain(out) => out.write(bytes),
            Self::Gzip(out) => out.write(bytes),
            Self::Zstd(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Self::Plain(out) => out.flush(),
            Self::Gzip(out) => out.flush(),
            Self::Zstd(out) => out.flush(),
        }
    }
}

/// Where bytes go, and what makes them visible.
pub(super) enum Target {
    StandardOutput,
    /// Something that is there already and no file: it gets the bytes as they come.
    Device,
    File {
        new: NewFile,
        path: PathBuf,
    },
}

impl Target {
    /// Opens `path`, or standard output.
    ///
    /// # Errors
    ///
    /// Names the file that cannot be made.
    pub(super) fn open(path: Option<&Path>, compression: Compression) -> Result<(Self, Out)> {
        let (target, raw): (Self, Raw) = match path {
            None => (Self::StandardOutput, Box::new(console::standard_output())),
            Some(path) if std::fs::metadata(path).is_ok_and(|found| !found.is_file()) => {
                let file = File::options().write(true).open(path);
                (Self::Device, Box::new(file.context(|| format!("opening '{}'", path.display()))?))
            }
            Some(path) => {
                let new = NewFile::create(path)?;
                let file = new.writer()?;
                (Self::File { new, path: path.to_owned() }, Box::new(file))
            }
        };
        let out = Out::new(raw, compression).context(|| "starting to compress".into())?;
        Ok((target, out))
    }

    /// Makes what was written visible.
    ///
    /// # Errors
    ///
    /// Of renaming; names the file.
    pub(super) fn publish(&mut self) -> Result<()> {
        if let Self::File { new, .. } = self {
            new.finish()?;
        }
        *self = Self::StandardOutput;
        Ok(())
    }
}
