//! Files to device memory: by cuFile where storage can write there itself, else through pinned memory.
//!
//! ```text
//!   pelton_io   read 0, 1, 2 ... `depth` of them in flight
//!   host        copy 0 ┐          copy 1 ┐                         to pinned memory, as each is there
//!   device             └ copy 0          └ copy 1 ─ ...
//! ```
//!
//! Files are read by the engine that reads tables, with the same settings, so a rate measured here is one that queries
//! can reach. Which path runs is kept in [`StoragePath`], with the reason. Direct reads take whole pages, so the pages
//! around what is asked for are read and only what is asked for is copied on. Bound: `depth` chunks of pinned memory,
//! and one more than twice as many read buffers: in flight, in hand, and being copied to pinned memory.

use std::collections::VecDeque;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use pelton_device::cuda::{CuFile, CuFileHandle};
use pelton_device::{
    Buffer, DeviceId, DeviceKind, Event, Machine, MemoryKind, OnFull, Place, Span, Stream, host,
};
use pelton_error::{CancelFlag, Error, ErrorKind, Result, ResultExt};
use pelton_io::{ALIGNMENT, AlignedBytes, IoEngine, IoMode, IoOptions, OpenFile, ReadFuture};

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
    /// Past the page cache, where the file system allows it. cuFile reads in no other way.
    pub is_direct: bool,
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
            is_direct: true,
            allows_compatibility_mode: false,
            forces_bounce: false,
            cancel: CancelFlag::default(),
        }
    }
}

/// A file that is read into the memory of one device.
pub struct Storage {
    machine: Machine,
    file: Arc<OpenFile>,
    options: StorageOptions,
    path: StoragePath,
    source: Source,
}

enum Source {
    CuFile(CuFileHandle),
    Bounce(Bounce),
}

/// Reads into pinned memory and copies from there.
struct Bounce {
    io: IoEngine,
    device: DeviceId,
    stream: Stream,
    slots: Vec<Slot>,
}

/// Pinned memory of one chunk.
struct Slot {
    /// Copies to it.
    stream: Stream,
    buffer: Buffer,
    /// The copy that last emptied the buffer.
    emptied: Option<Event>,
}

/// A chunk that is being read.
struct Piece {
    read: ReadFuture,
    /// Bytes read before what was asked for.
    skipped: usize,
    target: Span,
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
        let file = Arc::new(OpenFile::open(name)?);
        let (source, path) = match open_cu_file(machine, device, &file, &options) {
            Ok((handle, path)) => (Source::CuFile(handle), path),
            Err(error) => {
                let is_direct = options.is_direct && file.direct().is_ok();
                let bounce = Bounce::open(machine, device, &options)
                    .context(|| format!("reading {}", name.display()))?;
                (Source::Bounce(bounce), StoragePath::Bounce { is_direct, reason: error.to_string() })
            }
        };
        Ok(Self { machine: machine.clone(), file, options, path, source })
    }

    /// How the file comes to the device.
    pub fn path(&self) -> &StoragePath {
        &self.path
    }

    /// Reads `target.len()` bytes at `file_offset` into `target`, and waits for them.
    ///
    /// # Errors
    ///
    /// `Io` if the file ends early or cannot be read, `Corrupt` if it was truncated while it was open; `Cancelled`.
    pub fn read_blocking(&mut self, file_offset: u64, target: &Span) -> Result<()> {
        if !target.buffer().machine().is_same(&self.machine) {
            return Err(Error::invalid_input("a buffer of another machine"));
        }
        match &mut self.source {
            Source::CuFile(handle) => {
                let mut at = file_offset;
                for piece in target.chunks(self.options.chunk_bytes) {
                    self.options.cancel.check()?;
                    handle.read_blocking(at, &piece).context(|| self.file.path().display().to_string())?;
                    at += piece.len() as u64;
                }
                Ok(())
            }
            Source::Bounce(bounce) => {
                check_length(&self.file, file_offset, target.len())?;
                let outcome = bounce.read_blocking(&self.file, &self.options, file_offset, target);
                if outcome.is_err() {
                    bounce.start_afresh(&self.machine)?;
                }
                if let StoragePath::Bounce { is_direct, .. } = &mut self.path {
                    *is_direct &= bounce.reads_directly();
                }
                outcome
            }
        }
    }
}

impl Bounce {
    fn open(machine: &Machine, device: DeviceId, options: &StorageOptions) -> Result<Self> {
        let pinned = MemoryKind::Pinned(machine.device(device)?.node);
        let slot = |_| -> Result<Slot> {
            let buffer = machine.allocate(pinned.clone(), options.chunk_bytes, OnFull::Refuse)?;
            Ok(Slot { stream: machine.stream(Place::HOST)?, buffer, emptied: None })
        };
        let slots = (0..options.depth).map(slot).collect::<Result<_>>()?;
        // A read of several MiB is several of the engine's, so its own depth stays what it is for tables.
        let of_tables = IoOptions::default();
        let depth = of_tables.depth.max(options.depth as u32);
        let mode = if options.is_direct { IoMode::Direct } else { IoMode::Buffered };
        let io = IoEngine::start(IoOptions { mode, depth, ..of_tables })?;
        Ok(Self { io, device, stream: machine.stream(Place::Device(device))?, slots })
    }

    fn read_blocking(
        &mut self,
        file: &Arc<OpenFile>,
        options: &StorageOptions,
        file_offset: u64,
        target: &Span,
    ) -> Result<()> {
        let mut rest = target.chunks(options.chunk_bytes).scan(file_offset, |at, piece| {
            let start = *at;
            *at += piece.len() as u64;
            Some((start, piece))
        });
        let depth = self.slots.len();
        let mut reads: VecDeque<Piece> =
            rest.by_ref().take(depth).map(|(at, target)| self.begin(file, at, target)).collect();
        let mut turns = (0..depth).cycle();
        while let Some(Piece { read, skipped, target }) = reads.pop_front() {
            options.cancel.check()?;
            let bytes = read.wait_blocking()?;
            reads.extend(rest.next().map(|(at, target)| self.begin(file, at, target)));
            let turn = turns.next().expect("there is a slot, so they never end");
            self.copy_on(turn, bytes, skipped, &target)?;
        }
        self.stream.wait_blocking()
    }

    /// Begins reading what shall come to `target`, from the page on in which it starts.
    fn begin(&self, file: &Arc<OpenFile>, at: u64, target: Span) -> Piece {
        let skipped = (at % ALIGNMENT as u64) as usize;
        Piece { read: self.io.read(file, at - skipped as u64, skipped + target.len()), skipped, target }
    }

    /// Enqueues the copies to pinned memory and to `target`.
    fn copy_on(&mut self, turn: usize, bytes: AlignedBytes, skipped: usize, target: &Span) -> Result<()> {
        let slot = &mut self.slots[turn];
        if let Some(emptied) = slot.emptied.take() {
            // Bounds what is enqueued.
            emptied.wait_blocking()?;
        }
        let pinned = slot.buffer.slice(0..target.len());
        let fill = host::fill("copy what was read", &pinned, move |pinned| {
            pinned.copy_from_slice(&bytes[skipped..]);
            Ok(())
        })?;
        slot.stream.run(fill)?;
        self.stream.wait_for(&slot.stream.record()?)?;
        self.stream.copy(&pinned, target)?;
        slot.emptied = Some(self.stream.record()?);
        Ok(())
    }

    /// After an error: a stream that has failed stays failed, so the next read starts on fresh ones. Dropping the old
    /// ones waits for what they still write to the target.
    fn start_afresh(&mut self, machine: &Machine) -> Result<()> {
        for slot in &mut self.slots {
            slot.stream = machine.stream(Place::HOST)?;
            slot.emptied = None;
        }
        self.stream = machine.stream(Place::Device(self.device))?;
        Ok(())
    }

    /// False where reads past the page cache were refused although the file could be opened for them.
    fn reads_directly(&self) -> bool {
        let counters = self.io.counters();
        counters.direct_bytes > 0 || counters.buffered_bytes + counters.cached_bytes == 0
    }
}

fn check_length(file: &OpenFile, offset: u64, len: usize) -> Result<()> {
    if offset.checked_add(len as u64).is_some_and(|end| end <= file.bytes()) {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Io,
        format!(
            "{}: the file ends at byte {}, {len} were wanted from {offset} on",
            file.path().display(),
            file.bytes()
        ),
    ))
}

fn open_cu_file(
    machine: &Machine,
    device: DeviceId,
    file: &OpenFile,
    options: &StorageOptions,
) -> Result<(CuFileHandle, StoragePath)> {
    if !matches!(machine.device(device)?.kind, DeviceKind::Cuda { .. }) {
        return Err(Error::unsupported("no CUDA device"));
    }
    if options.forces_bounce || !options.is_direct {
        return Err(Error::unsupported("asked for"));
    }
    let direct = file
        .direct()
        .map_err(|reason| Error::unsupported(format!("the file system takes no direct reads: {reason}")))?;
    let cu_file = CuFile::open(options.allows_compatibility_mode)?;
    let path = if cu_file.is_real() { StoragePath::CuFile } else { StoragePath::CuFileCompatibility };
    let again = direct.try_clone().context(|| format!("opening {} once more", file.path().display()))?;
    Ok((cu_file.register(again)?, path))
}
