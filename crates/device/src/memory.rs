//! Buffers and spans of them.
//!
//! A buffer is alive as long as a handle or an operation in flight uses it. Operations and the host take *leases* on
//! it: operations never exclude each other (streams and events order them), but the host is let in only when no
//! operation in flight conflicts, and no operation is let in that conflicts with what the host holds:
//!
//! ```text
//!                  operation reads   operation writes   host reads   host writes
//!   host reads     yes               refused            yes          refused
//!   host writes    refused           refused            refused      refused
//! ```

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pelton_error::{Error, Result};

use crate::backend::RawMemory;
use crate::budget::Reservation;
use crate::machine::Machine;
use crate::page_lock::PageGuard;
use crate::place::MemoryKind;

/// Host memory of somebody else that outlives every use of it.
pub type ForeignMemory = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// Memory of one kind; a handle, cheap to clone.
#[derive(Clone)]
pub struct Buffer {
    inner: Arc<BufferInner>,
}

struct BufferInner {
    machine: Machine,
    kind: MemoryKind,
    memory: RawMemory,
    /// Who owns the bytes, if not the machine.
    foreign: Option<ForeignMemory>,
    leases: Mutex<Leases>,
    _reservations: Vec<Reservation>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Leases {
    operation_reads: usize,
    operation_writes: usize,
    host_reads: usize,
    host_writes: usize,
}

/// What a lease is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    OperationReads,
    OperationWrites,
    HostReads,
    HostWrites,
}

impl Leases {
    fn slot(&mut self, purpose: Purpose) -> &mut usize {
        match purpose {
            Purpose::OperationReads => &mut self.operation_reads,
            Purpose::OperationWrites => &mut self.operation_writes,
            Purpose::HostReads => &mut self.host_reads,
            Purpose::HostWrites => &mut self.host_writes,
        }
    }

    fn admits(&self, purpose: Purpose) -> bool {
        match purpose {
            Purpose::OperationReads => self.host_writes == 0,
            Purpose::OperationWrites => self.host_writes == 0 && self.host_reads == 0,
            Purpose::HostReads => self.operation_writes == 0 && self.host_writes == 0,
            Purpose::HostWrites => {
                self.operation_writes == 0
                    && self.operation_reads == 0
                    && self.host_writes == 0
                    && self.host_reads == 0
            }
        }
    }
}

/// Keeps a buffer alive and others' conflicting access out.
pub(crate) struct Lease {
    buffer: Buffer,
    purpose: Purpose,
    _lock: Option<Arc<PageGuard>>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        *self.buffer.leases().slot(self.purpose) -= 1;
    }
}

impl Buffer {
    pub(crate) fn new(
        machine: Machine,
        kind: MemoryKind,
        memory: RawMemory,
        foreign: Option<ForeignMemory>,
        reservations: Vec<Reservation>,
    ) -> Self {
        let leases = Mutex::default();
        Self {
            inner: Arc::new(BufferInner {
                machine,
                kind,
                memory,
                foreign,
                leases,
                _reservations: reservations,
            }),
        }
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.inner.memory.bytes
    }

    /// True if it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What it is made of.
    pub fn kind(&self) -> &MemoryKind {
        &self.inner.kind
    }

    /// The machine it is of.
    pub fn machine(&self) -> &Machine {
        &self.inner.machine
    }

    /// Where it starts in the address space of host and devices.
    pub fn address(&self) -> u64 {
        self.inner.memory.address
    }

    /// False if the machine simulates sizes alone.
    pub fn holds_bytes(&self) -> bool {
        self.inner.memory.holds_bytes
    }

    /// True if it may not be written.
    pub fn is_read_only(&self) -> bool {
        self.inner.foreign.is_some()
    }

    /// All of it.
    pub fn span(&self) -> Span {
        Span { buffer: self.clone(), offset: 0, bytes: self.len(), lock: None }
    }

    /// The bytes of `range`.
    ///
    /// # Panics
    ///
    /// If `range` leaves the buffer.
    pub fn slice(&self, range: Range<usize>) -> Span {
        self.span().slice(range)
    }

    /// Lets `look` see all bytes. Nothing may be writing to them.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if the memory is not the host's, holds no bytes, or an operation in flight writes to it.
    pub fn with_bytes<R>(&self, look: impl FnOnce(&[u8]) -> R) -> Result<R> {
        self.check_host_visible()?;
        let _lease = self.lease(Purpose::HostReads)?;
        if self.is_empty() {
            return Ok(look(&[]));
        }
        // SAFETY: the memory is host-visible, lives while `self` does, and the lease keeps all writers out.
        Ok(look(unsafe { std::slice::from_raw_parts(self.address() as *const u8, self.len()) }))
    }

    /// Lets `change` have all bytes. Nothing else may be using them.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if the memory is not the host's to write, holds no bytes, or an operation in flight uses it.
    pub fn with_bytes_mut<R>(&self, change: impl FnOnce(&mut [u8]) -> R) -> Result<R> {
        self.check_host_visible()?;
        if self.is_read_only() {
            return Err(Error::invalid_input("writing to memory that was lent for reading"));
        }
        let _lease = self.lease(Purpose::HostWrites)?;
        if self.is_empty() {
            return Ok(change(&mut []));
        }
        // SAFETY: as above, and the lease keeps readers out as well.
        Ok(change(unsafe { std::slice::from_raw_parts_mut(self.address() as *mut u8, self.len()) }))
    }

    pub(crate) fn lease(&self, purpose: Purpose) -> Result<Lease> {
        for attempt in 0..2 {
            let mut leases = self.leases();
            if leases.admits(purpose) {
                *leases.slot(purpose) += 1;
                return Ok(Lease { buffer: self.clone(), purpose, _lock: None });
            }
            drop(leases);
            if attempt == 0 {
                self.inner.machine.retire_completed();
            }
        }
        let leases = *self.leases();
        Err(Error::invalid_input(format!(
            "{}: in use by {} operations that read and {} that write, {} host accesses; wait for them first",
            self.kind(),
            leases.operation_reads,
            leases.operation_writes,
            leases.host_reads + leases.host_writes,
        )))
    }

    fn check_host_visible(&self) -> Result<()> {
        if !self.holds_bytes() {
            return Err(Error::invalid_input(format!(
                "{}: simulated sizes have no bytes to look at",
                self.kind()
            )));
        }
        if !self.kind().is_host_visible() {
            return Err(Error::invalid_input(format!(
                "{}: copy it to host memory to look at it",
                self.kind()
            )));
        }
        Ok(())
    }

    fn leases(&self) -> MutexGuard<'_, Leases> {
        self.inner.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of {} at {:#x}", self.len(), self.kind(), self.address())
    }
}

impl Drop for BufferInner {
    fn drop(&mut self) {
        self.machine.release(&self.kind, self.memory, self.foreign.is_some());
    }
}

/// Bytes of host memory that nobody writes to, for as long as this lives.
pub struct HostBytes {
    span: Span,
    _lease: Lease,
}

impl AsRef<[u8]> for HostBytes {
    fn as_ref(&self) -> &[u8] {
        if self.span.is_empty() {
            return &[];
        }
        // SAFETY: the memory is host-visible, lives while the span does, and the lease keeps all writers out.
        unsafe { std::slice::from_raw_parts(self.span.address() as *const u8, self.span.len()) }
    }
}

impl fmt::Debug for HostBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, read by the host", self.span)
    }
}

/// A range of bytes of a buffer; keeps the buffer alive.
#[derive(Clone)]
pub struct Span {
    buffer: Buffer,
    offset: usize,
    bytes: usize,
    /// Keeps its pages locked.
    lock: Option<Arc<PageGuard>>,
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at {} of {:?}", self.bytes, self.offset, self.buffer)
    }
}

impl Span {
    /// The buffer it is of.
    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// Where it starts in the buffer, bytes.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// True if it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Where it starts in the address space of host and devices.
    pub fn address(&self) -> u64 {
        self.buffer.address() + self.offset as u64
    }

    /// What it is made of.
    pub fn kind(&self) -> &MemoryKind {
        self.buffer.kind()
    }

    /// The bytes of `range`, counted from the start of this span.
    ///
    /// # Panics
    ///
    /// If `range` leaves the span.
    pub fn slice(&self, range: Range<usize>) -> Span {
        assert!(range.start <= range.end, "range {range:?} runs backwards");
        assert!(range.end <= self.bytes, "range {range:?} leaves a span of {} bytes", self.bytes);
        Span {
            buffer: self.buffer.clone(),
            offset: self.offset + range.start,
            bytes: range.end - range.start,
            lock: self.lock.clone(),
        }
    }

    /// Its bytes, to be read without a copy: the buffer lives, and nothing is let write to it, until that is dropped.
    ///
    /// # Errors
    ///
    /// As [`Buffer::with_bytes`].
    pub fn host_bytes(&self) -> Result<HostBytes> {
        self.buffer.check_host_visible()?;
        Ok(HostBytes { span: self.clone(), _lease: self.lease(Purpose::HostReads)? })
    }

    pub(crate) fn with_lock(mut self, lock: Arc<PageGuard>) -> Self {
        self.lock = Some(lock);
        self
    }

    /// Keeps the buffer, and its pages locked if they are, for an operation.
    pub(crate) fn lease(&self, purpose: Purpose) -> Result<Lease> {
        let mut lease = self.buffer.lease(purpose)?;
        lease._lock.clone_from(&self.lock);
        Ok(lease)
    }

    /// The span cut into pieces of `chunk_bytes`, the last one short.
    ///
    /// # Panics
    ///
    /// If `chunk_bytes` is 0.
    pub fn chunks(&self, chunk_bytes: usize) -> impl Iterator<Item = Span> + '_ {
        assert!(chunk_bytes > 0, "chunks of no bytes never end");
        (0..self.bytes)
            .step_by(chunk_bytes)
            .map(move |start| self.slice(start..self.bytes.min(start + chunk_bytes)))
    }
}
