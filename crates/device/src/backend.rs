//! What executes: the traits that a CUDA driver, host threads or a simulator stand behind.
//!
//! A backend enqueues and answers; leases, budgets, bounds and lifetimes are dealt with above it, in
//! [`Machine`](crate::Machine), [`Stream`](crate::Stream) and [`Buffer`](crate::Buffer). So a backend may assume that
//! spans are of its own buffers, in bounds, of equal lengths, and alive until the operation is over.

use std::any::Any;
use std::fmt;
use std::time::Duration;

use pelton_error::Result;

use crate::memory::Span;
use crate::place::{DeviceId, MachineInfo, MemoryKind, Place};
use crate::work::Work;

/// Memory as a backend gives it out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawMemory {
    /// Where it starts, in the one address space that host and devices share.
    pub address: u64,
    /// Its length.
    pub bytes: usize,
    /// False if there are no bytes behind the address (a simulation of sizes alone).
    pub holds_bytes: bool,
}

/// A machine: allocates memory, makes streams, tells the time.
pub trait Backend: Send + Sync + fmt::Debug {
    /// What the machine is.
    fn info(&self) -> &MachineInfo;

    /// Takes memory. The budget has been asked already.
    ///
    /// # Errors
    ///
    /// `OutOfMemory` if the tier is exhausted all the same, `Unsupported` if the machine lacks this kind of memory.
    fn allocate(&self, kind: &MemoryKind, bytes: usize) -> Result<RawMemory>;

    /// Gives memory back. No operation uses it any more.
    fn release(&self, kind: &MemoryKind, memory: RawMemory);

    /// Page-locks existing host memory; address and length are whole pages.
    ///
    /// # Errors
    ///
    /// `Unsupported` without the capability, `OutOfMemory` at the limit of the operating system.
    fn page_lock(&self, address: u64, bytes: usize) -> Result<()>;

    /// Undoes [`page_lock`](Self::page_lock) of the same range.
    fn page_unlock(&self, address: u64, bytes: usize);

    /// Says how much pinned memory that nobody uses may be kept for reuse, from now on; with `evicts`, at once.
    fn limit_idle_pinned(&self, _bytes: u64, _evicts: bool) {}

    /// Makes a stream at `place`: work of a device, or of host cores.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a place that the machine lacks.
    fn create_stream(&self, place: Place) -> Result<Box<dyn StreamBackend>>;

    /// True if kernels and copy engines of `device` reach the memory of `peer` directly.
    fn is_peer(&self, device: DeviceId, peer: DeviceId) -> bool;

    /// Time since some fixed moment: of the wall, or of the simulation.
    fn now(&self) -> Duration;

    /// Says that `change` more threads use the machine at once, or fewer. A simulation lets time pass only while all of
    /// them wait for it.
    fn count_threads(&self, _change: i32) {}
}

/// An ordered queue of operations. All of its methods enqueue and return, except those that say `wait`.
pub trait StreamBackend: Send + Sync {
    /// Copies `source` to `target`.
    ///
    /// # Errors
    ///
    /// What the driver answers to the enqueueing; later errors appear at the next wait.
    fn copy(&self, source: &Span, target: &Span) -> Result<()>;

    /// Moves the pages of managed memory to `place`.
    ///
    /// # Errors
    ///
    /// As [`copy`](Self::copy).
    fn prefetch(&self, span: &Span, place: Place) -> Result<()>;

    /// Runs `work`.
    ///
    /// # Errors
    ///
    /// `Unsupported` if the work has no form for this backend, else as [`copy`](Self::copy).
    fn run(&self, work: Work) -> Result<()>;

    /// Marks the end of what is enqueued so far.
    ///
    /// # Errors
    ///
    /// As [`copy`](Self::copy).
    fn record(&self) -> Result<Box<dyn EventBackend>>;

    /// Lets what is enqueued later start only when `event` is complete.
    ///
    /// # Errors
    ///
    /// As [`copy`](Self::copy).
    fn wait_for(&self, event: &dyn EventBackend) -> Result<()>;

    /// True if everything enqueued is complete.
    ///
    /// # Errors
    ///
    /// The first error of the operations that have run.
    fn is_idle(&self) -> Result<bool>;
}

/// A moment in a stream.
pub trait EventBackend: Send + Sync {
    /// True once everything before it is complete.
    ///
    /// # Errors
    ///
    /// The first error of the operations before it.
    fn is_complete(&self) -> Result<bool>;

    /// Waits until it is complete.
    ///
    /// # Errors
    ///
    /// The first error of the operations before it.
    fn wait_blocking(&self) -> Result<()>;

    /// Time from `earlier` to this one, both complete and of streams at one place.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if one of them is not complete, or they are of different places.
    fn elapsed_since(&self, earlier: &dyn EventBackend) -> Result<Duration>;

    /// For a backend that meets one of its own.
    fn as_any(&self) -> &dyn Any;
}
