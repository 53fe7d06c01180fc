//! Files to device memory: by cuFile where storage can write there itself, else through pinned memory.
//!
//! ```text
//!   reader 0   read chunk 0 ┐          read chunk 4 ┐
//!   reader 1   read chunk 1 ├ ...                   ├ ...        positioned reads, O_DIRECT, one thread each
//!   device          copy 0 ─ copy 1 ─ copy 2 ─ ...               as each is there
//! ```
//!
//! Which path runs is kept in [`StoragePath`], with the reason. Direct reads take whole pages, so the pages around
//! what is asked for are read and only what is asked for is copied on. Bound: `depth` chunks of pinned memory.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pelton_device::cuda::{CuFile, CuFileHandle};
use pelton_device::{Buffer, DeviceId, DeviceKind, Event, Machine, MemoryKind, Place, Span, Stream, host};
use pelton_error::{CancelFlag, Error, Result, ResultExt};
use rustix::fs::OFlags;

/// Alignment of direct reads.
const PAGE_BYTES: u64 = 4096;

/// How a file comes to a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoragePath {
    /// The storage device writes into device memory (GPUDirect Storage).
    CuFile,
    /// cuFile, but through host memory, since its kernel module is missing.
    CuFileCompatibility,
    /// Reads into pinned memory, then copies.
    Bounce {
        /// Whether the page cache is bypassed.
        is_direct: bool,
        /// Why not cuFile.
        reason: String,
    },
}

impl fmt::Display for StoragePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoragePath::CuFile => f.write_str("cuFile (GPUDirect Storage)"),
            StoragePath::CuFileCompatibility => f.write_str("cuFile in compatibility mode"),
            StoragePath::Bounce { is_direct, reason } => {
                let reads = if *is_direct { "direct reads" } else { "reads through the page cache" };
                write!(f, "pinned bounce buffers, {reads} ({reason})")
            }
        }
    }
}

/// How a file is read.
#[derive(Debug, Clone)]
pub struct StorageOptions {
    /// Bytes of one read.
    pub chunk_bytes: usize,
    /// Reads in flight.
    pub depth: usize,
    /// Takes cuFile even where it only runs in compatibility mode.
    pub allows_compatibility_mode: bool,
    /// Never takes cuFile.
    pub forces_bounce: bool,
    /// Stops the reading.
    pub cancel: CancelFlag,
}

impl Default for StorageOptions {
    fn default() -> Self {
        Self {
            chunk_bytes: 4 << 20,
            depth: 8,
            allows_compatibility_mode: false,
            forces_bounce: false,
            cancel: CancelFlag::default(),
        }
    }
}

/// A file that is read into the memory of one device.
pub struct Storage {
    machine: Machine,
    name: PathBuf,
    options: StorageOptions,
    path: StoragePath,
    source: Source,
}

enum Source {
    CuFile(CuFileHandle),
    Bounce { file: Arc<File>, device: DeviceId, stream: Stream, readers: Vec<Reader> },
}

struct Reader {
    stream: Stream,
    buffer: Buffer,
    /// The copy that last emptied the buffer.
    emptied: Option<Event>,
}

impl Storage {
    /// Opens `name` for reading into `device`.
    ///
    /// # Errors
    ///
    /// `Io` if the file cannot be opened, `OutOfMemory` if the pinned buffers do not fit.
    pub fn open(machine: &Machine, device: DeviceId, name: &Path, options: StorageOptions) -> Result<Self> {
        if options.chunk_bytes == 0 || options.depth == 0 {
            return Err(Error::invalid_input("reads of at least one byte, and at least one at a time"));
        }
        let (file, is_direct) = open_file(name)?;
        let reason = match open_cu_file(machine, device, name, &file, is_direct, &options) {
            Ok((handle, path)) => {
                let machine = machine.clone();
                return Ok(Self {
                    machine,
                    name: name.into(),
                    options,
                    path,
                    source: Source::CuFile(handle),
                });
            }
            Err(error) => error.to_string(),
        };
        let pinned = MemoryKind::Pinned(machine.device(device)?.node);
        let room = options.chunk_bytes.next_multiple_of(PAGE_BYTES as usize) + PAGE_BYTES as usize;
        let reader = |_| -> Result<Reader> {
            let buffer = machine.allocate(pinned.clone(), room, pelton_device::OnFull::Refuse)?;
            Ok(Reader { stream: machine.stream(Place::HOST)?, buffer, emptied: None })
        };
        let readers = (0..options.depth)
            .map(reader)
            .collect::<Result<_>>()
            .context(|| format!("buffers for {name:?}"))?;
        let stream = machine.stream(Place::Device(device))?;
        Ok(Self {
            machine: machine.clone(),
            name: name.into(),
            options,
            path: StoragePath::Bounce { is_direct, reason },
            source: Source::Bounce { file: Arc::new(file), device, stream, readers },
        })
    }

    /// How the file comes to the device.
    pub fn path(&self) -> &StoragePath {
        &self.path
    }

    /// Reads `target.len()` bytes at `file_offset` into `target`, and waits for them.
    ///
    /// # Errors
    ///
    /// `Io` if the file ends early or cannot be read; `Cancelled`.
    pub fn read_blocking(&mut self, file_offset: u64, target: &Span) -> Result<()> {
        if !target.buffer().machine().is_same(&self.machine) {
            return Err(Error::invalid_input("a buffer of another machine"));
        }
        let name = self.name.display().to_string();
        match &mut self.source {
            Source::CuFile(handle) => {
                let mut at = file_offset;
                for piece in target.chunks(self.options.chunk_bytes) {
                    self.options.cancel.check()?;
                    handle.read_blocking(at, &piece).context(|| name.clone())?;
                    at += piece.len() as u64;
                }
                Ok(())
            }
            Source::Bounce { file, device, stream, readers } => {
                let outcome = bounce(file, stream, readers, &self.options, &name, file_offset, target);
                if outcome.is_err() {
                    // A stream that has failed stays failed; the next read starts on fresh ones. Dropping the old
                    // ones waits for what they still write to the target.
                    for reader in readers.iter_mut() {
                        reader.stream = self.machine.stream(Place::HOST)?;
                        reader.emptied = None;
                    }
                    *stream = self.machine.stream(Place::Device(*device))?;
                }
                outcome
            }
        }
    }
}

fn bounce(
    file: &Arc<File>,
    stream: &Stream,
    readers: &mut [Reader],
    options: &StorageOptions,
    name: &str,
    file_offset: u64,
    target: &Span,
) -> Result<()> {
    let reader_count = readers.len();
    let mut at = file_offset;
    for (index, piece) in target.chunks(options.chunk_bytes).enumerate() {
        options.cancel.check()?;
        let reader = &mut readers[index % reader_count];
        if let Some(emptied) = reader.emptied.take() {
            // Bounds what is enqueued, and lets an error of an earlier read end the loop.
            emptied.wait_blocking()?;
        }
        let first = at / PAGE_BYTES * PAGE_BYTES;
        let skipped = (at - first) as usize;
        let pages = reader.buffer.slice(0..(skipped + piece.len()).next_multiple_of(PAGE_BYTES as usize));
        let (file, name, wanted) = (Arc::clone(file), name.to_string(), skipped + piece.len());
        let read =
            host::fill("read file", &pages, move |bytes| read_pages(&file, &name, first, bytes, wanted))?;
        reader.stream.run(read)?;
        stream.wait_for(&reader.stream.record()?)?;
        stream.copy(&pages.slice(skipped..wanted), &piece)?;
        reader.emptied = Some(stream.record()?);
        at += piece.len() as u64;
    }
    stream.wait_blocking()
}

/// Fills `bytes` from `offset` on; the file may end once `wanted` of them are there.
fn read_pages(file: &File, name: &str, offset: u64, bytes: &mut [u8], wanted: usize) -> Result<()> {
    let mut done = 0;
    while done < wanted {
        match file.read_at(&mut bytes[done..], offset + done as u64) {
            Ok(0) => {
                return Err(Error::new(
                    pelton_error::ErrorKind::Io,
                    format!(
                        "{name}: the file ends at byte {}, {wanted} were wanted from {offset} on",
                        offset + done as u64
                    ),
                ));
            }
            Ok(read) => done += read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Error::io(format!("{name}: reading at {offset}"), error)),
        }
    }
    Ok(())
}

fn open_file(name: &Path) -> Result<(File, bool)> {
    let direct = OpenOptions::new().read(true).custom_flags(OFlags::DIRECT.bits() as i32).open(name);
    match direct {
        Ok(file) => Ok((file, true)),
        Err(error) if error.kind() == std::io::ErrorKind::InvalidInput => {
            Ok((File::open(name).context(|| format!("opening {}", name.display()))?, false))
        }
        Err(error) => Err(Error::io(format!("opening {}", name.display()), error)),
    }
}

fn open_cu_file(
    machine: &Machine,
    device: DeviceId,
    name: &Path,
    file: &File,
    is_direct: bool,
    options: &StorageOptions,
) -> Result<(CuFileHandle, StoragePath)> {
    if !matches!(machine.device(device)?.kind, DeviceKind::Cuda { .. }) {
        return Err(Error::unsupported("no CUDA device"));
    }
    if options.forces_bounce {
        return Err(Error::unsupported("asked for"));
    }
    if !is_direct {
        return Err(Error::unsupported("the file system takes no direct reads"));
    }
    let cu_file = CuFile::open(options.allows_compatibility_mode)?;
    let path = if cu_file.is_real() { StoragePath::CuFile } else { StoragePath::CuFileCompatibility };
    let file = file.try_clone().context(|| format!("opening {} once more", name.display()))?;
    Ok((cu_file.register(file)?, path))
}
