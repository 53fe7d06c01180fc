//! The engine: what is asked for, who reads it, and how it is counted.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use futures::channel::oneshot;
use pelton_error::{Error, Result};

use crate::ALIGNMENT;
use crate::buffer::{AlignedBytes, BufferPool};
use crate::file::OpenFile;
use crate::positioned::PositionedReaders;
use crate::request::Request;
use crate::ring::Ring;
use crate::throttle::Throttle;

/// Whether reads go through the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IoMode {
    /// Past the page cache, with O_DIRECT.
    Direct,
    /// Through the page cache.
    Buffered,
    /// Buffered for files of tables that fit the page cache, direct for those of larger ones; decided for each table.
    Auto,
}

/// How an [`IoEngine`] reads.
#[derive(Debug, Clone)]
pub struct IoOptions {
    /// Through the page cache or past it.
    pub mode: IoMode,
    /// Reads in flight at once.
    pub depth: u32,
    /// Use io_uring where the kernel has it.
    pub ring: bool,
    /// The most bytes kept in free buffers.
    pub pool_bytes: usize,
    /// Read no faster than this; for experiments.
    pub bytes_per_s_max: Option<u64>,
    /// Taken as the memory available, in place of asking the kernel; for tests of [`IoMode::Auto`].
    pub available_bytes: Option<u64>,
}

impl Default for IoOptions {
    fn default() -> Self {
        Self {
            mode: IoMode::Auto,
            depth: 32,
            ring: true,
            pool_bytes: 128 << 20,
            bytes_per_s_max: None,
            available_bytes: None,
        }
    }
}

/// Bytes read since the engine started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IoCounters {
    /// Past the page cache.
    pub direct_bytes: u64,
    /// Through the page cache, not in it when asked for.
    pub buffered_bytes: u64,
    /// Found in the page cache.
    pub cached_bytes: u64,
    /// Reads asked for.
    pub read_count: u64,
}

/// What the threads share with the engine.
pub(super) struct Shared {
    pool: Arc<BufferPool>,
    throttle: Option<Throttle>,
    direct_refusal: OnceLock<String>,
}

/// Counts the reads of one [`IoEngine::tallied`], and so of the engine that it is part of.
#[derive(Debug, Default)]
pub(super) struct Tally {
    direct_bytes: AtomicU64,
    buffered_bytes: AtomicU64,
    cached_bytes: AtomicU64,
    read_count: AtomicU64,
    whole: Option<Arc<Tally>>,
}

impl Tally {
    fn add(&self, counter: fn(&Self) -> &AtomicU64, count: u64) {
        counter(self).fetch_add(count, Ordering::Relaxed);
        if let Some(whole) = &self.whole {
            whole.add(counter, count);
        }
    }

    /// Bytes that the disk gave, or the page cache for it.
    pub(super) fn count(&self, direct: bool, bytes: usize) {
        self.add(if direct { |of| &of.direct_bytes } else { |of| &of.buffered_bytes }, bytes as u64);
    }

    pub(super) fn count_cached(&self, bytes: usize) {
        self.add(|of| &of.cached_bytes, bytes as u64);
    }
}

enum Backend {
    Ring(Ring),
    Positioned(PositionedReaders),
}

/// Reads ranges of data files. `Send` and `Sync`; the threads of one serve a process.
pub struct IoEngine {
    threads: Arc<Threads>,
    tally: Arc<Tally>,
}

/// What reads, whoever counts it.
struct Threads {
    options: IoOptions,
    shared: Arc<Shared>,
    backend: Backend,
    ring_refusal: Option<String>,
}

impl IoEngine {
    /// Starts the threads. Where io_uring cannot be set up reads are positioned, and
    /// [`fallback`](Self::fallback) says so.
    pub fn start(options: IoOptions) -> Result<Self> {
        let shared = Arc::new(Shared {
            pool: BufferPool::new(options.pool_bytes),
            throttle: options.bytes_per_s_max.map(Throttle::new),
            direct_refusal: OnceLock::new(),
        });
        let depth = options.depth.clamp(1, 4096);
        let ring = match options.ring {
            true => Ring::start(depth, &shared).map_err(|error| {
                format!(
                    "io_uring cannot be set up ({error}), reads are positioned: it needs Linux 5.6 or newer and must not be \
                     forbidden by seccomp or kernel.io_uring_disabled"
                )
            }),
            false => Err("io_uring is switched off, reads are positioned".to_string()),
        };
        let (backend, ring_refusal) = match ring {
            Ok(ring) => (Backend::Ring(ring), None),
            Err(reason) => (Backend::Positioned(PositionedReaders::start(depth, &shared)?), Some(reason)),
        };
        let threads = Arc::new(Threads { options, shared, backend, ring_refusal });
        Ok(Self { threads, tally: Arc::default() })
    }

    /// The same threads with counters that start at nothing: for one scan, whose reads count here too.
    #[must_use]
    pub fn tallied(&self) -> Self {
        let tally = Tally { whole: Some(Arc::clone(&self.tally)), ..Tally::default() };
        Self { threads: Arc::clone(&self.threads), tally: Arc::new(tally) }
    }

    /// Starts reading `len` bytes from `byte_offset`. The read is under way when this returns; the future
    /// is only needed for the result.
    ///
    /// O_DIRECT is used where the mode says so and `byte_offset` is a multiple of 4 KiB, as all chunks are.
    pub fn read(&self, file: &Arc<OpenFile>, byte_offset: u64, len: usize) -> ReadFuture {
        match self.begin(file, byte_offset, len) {
            Ok(future) => future,
            Err(error) => ReadFuture(State::Done(Some(Err(error)))),
        }
    }

    fn begin(&self, file: &Arc<OpenFile>, byte_offset: u64, len: usize) -> Result<ReadFuture> {
        let Threads { shared, backend, .. } = &*self.threads;
        self.tally.add(|of| &of.read_count, 1);
        if byte_offset.checked_add(len as u64).is_none_or(|end| end > file.bytes()) {
            return Err(Error::corrupt(format!(
                "{len} bytes at byte {byte_offset} are beyond the end of {} ({} bytes)",
                file.path().display(),
                file.bytes()
            )));
        }
        let buffer = shared.pool.take(len)?;
        let (reply, answer) = oneshot::channel();
        let direct = byte_offset.is_multiple_of(ALIGNMENT as u64) && self.threads.wants_direct(file);
        let tally = Arc::clone(&self.tally);
        let mut request = Request::new(Arc::clone(file), byte_offset, len, buffer, direct, tally, reply);
        if !direct && shared.throttle.is_none() && request.take_from_page_cache() {
            return Ok(ReadFuture(State::Done(Some(Ok(request.into_buffer())))));
        }
        match backend {
            Backend::Ring(ring) => ring.submit(request),
            Backend::Positioned(readers) => readers.submit(request),
        }
        Ok(ReadFuture(State::Waiting(answer)))
    }

    /// How reads are done now, where it is not as asked: why io_uring or O_DIRECT is not used.
    pub fn fallback(&self) -> Option<String> {
        let reasons: Vec<&str> = [
            self.threads.ring_refusal.as_deref(),
            self.threads.shared.direct_refusal.get().map(String::as_str),
        ]
        .into_iter()
        .flatten()
        .collect();
        (!reasons.is_empty()).then(|| reasons.join("; "))
    }

    /// True where reads go through io_uring.
    pub fn uses_ring(&self) -> bool {
        matches!(self.threads.backend, Backend::Ring(_))
    }

    /// Bytes read so far by this one, and by those tallied from it.
    pub fn counters(&self) -> IoCounters {
        IoCounters {
            direct_bytes: self.tally.direct_bytes.load(Ordering::Relaxed),
            buffered_bytes: self.tally.buffered_bytes.load(Ordering::Relaxed),
            cached_bytes: self.tally.cached_bytes.load(Ordering::Relaxed),
            read_count: self.tally.read_count.load(Ordering::Relaxed),
        }
    }
}

impl Threads {
    fn wants_direct(&self, file: &OpenFile) -> bool {
        let wanted = match self.options.mode {
            IoMode::Direct => true,
            IoMode::Buffered => false,
            IoMode::Auto => {
                !file.fits_page_cache(|| self.options.available_bytes.unwrap_or_else(memory_available_bytes))
            }
        };
        wanted
            && match file.direct() {
                Ok(_) => true,
                Err(reason) => {
                    self.shared.refuse_direct(file, reason);
                    false
                }
            }
    }
}

impl Shared {
    pub(super) fn refuse_direct(&self, file: &OpenFile, reason: &str) {
        self.direct_refusal.get_or_init(|| {
            format!(
                "the file system of {} refuses O_DIRECT ({reason}), reads go through the page cache",
                file.path().display()
            )
        });
    }

    pub(super) fn throttle(&self, bytes: usize) {
        if let Some(throttle) = &self.throttle {
            throttle.wait_blocking(bytes);
        }
    }
}

/// What the kernel says it could give without swapping, page cache included; nothing where it does not say.
fn memory_available_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// The bytes of one read, when they have arrived.
pub struct ReadFuture(State);

enum State {
    Done(Option<Result<AlignedBytes>>),
    Waiting(oneshot::Receiver<Result<AlignedBytes>>),
}

impl ReadFuture {
    /// Blocks this thread until the bytes are here.
    pub fn wait_blocking(self) -> Result<AlignedBytes> {
        futures::executor::block_on(self)
    }
}

impl Future for ReadFuture {
    type Output = Result<AlignedBytes>;

    fn poll(mut self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            State::Done(result) => {
                Poll::Ready(result.take().expect("a future is not polled after it is ready"))
            }
            State::Waiting(answer) => Pin::new(answer).poll(ctx).map(|answer| {
                answer.unwrap_or_else(|_| Err(Error::cancelled().context("the read engine was shut down")))
            }),
        }
    }
}

#[cfg(test)]
mod tests;
