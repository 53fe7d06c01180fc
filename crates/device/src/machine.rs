//! A machine: its devices, its budgets, its streams.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use pelton_error::{Error, ErrorKind, Result, ResultExt, Tier};

use crate::arbiter::{MemoryArbiter, Turn};
use crate::backend::{Backend, RawMemory};
use crate::budget::{Budget, OnFull, Reservation};
use crate::evict::Evictables;
use crate::memory::{Buffer, ForeignMemory, Span};
use crate::page_lock::{PageLock, PageLocks};
use crate::place::{DeviceId, DeviceInfo, MachineInfo, MemoryKind, Place};
use crate::stream::{Stream, StreamShared};

/// Pages of hybrid and interleaved memory: the granularity of CUDA's virtual memory management.
pub const VIRTUAL_PAGE_BYTES: usize = 2 << 20;

/// Devices, host memory and the budgets of both; a handle, cheap to clone.
#[derive(Clone)]
pub struct Machine {
    inner: Arc<MachineInner>,
}

struct MachineInner {
    device_budgets: Vec<Arc<Budget>>,
    arbiters: Vec<Arc<MemoryArbiter>>,
    pinned_budget: Arc<Budget>,
    /// In pinned memory.
    pinned_cached: Evictables,
    page_locks: PageLocks,
    streams: Mutex<Vec<Weak<StreamShared>>>,
    /// Last, so that it outlives what the others still hold.
    backend: Box<dyn Backend>,
}

impl Machine {
    /// A machine that `backend` executes.
    pub fn new(backend: impl Backend + 'static) -> Self {
        let info = backend.info();
        assert!(info.node_count > 0, "a machine has host memory");
        let device_budgets: Vec<Arc<Budget>> = info
            .devices
            .iter()
            .map(|device| {
                Budget::new(Tier::Device, format!("memory of {}", device.id), device.memory_limit_bytes)
            })
            .collect();
        let pinned_budget = Budget::new(Tier::Pinned, "pinned host memory", info.pinned_memory_limit_bytes);
        let queries = Arc::default();
        Self {
            inner: Arc::new(MachineInner {
                arbiters: device_budgets
                    .iter()
                    .map(|budget| MemoryArbiter::new(Arc::clone(budget), &queries))
                    .collect(),
                device_budgets,
                page_locks: PageLocks::new(Arc::clone(&pinned_budget)),
                pinned_budget,
                pinned_cached: Evictables::default(),
                streams: Mutex::default(),
                backend: Box::new(backend),
            }),
        }
    }

    /// What it is.
    pub fn info(&self) -> &MachineInfo {
        self.inner.backend.info()
    }

    /// A device of it.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if it has no such device.
    pub fn device(&self, device: DeviceId) -> Result<&DeviceInfo> {
        self.info().devices.get(device.0 as usize).ok_or_else(|| {
            Error::invalid_input(format!(
                "no {device}; this machine has {} devices",
                self.info().devices.len()
            ))
        })
    }

    /// The budget of a device's memory.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if it has no such device.
    pub fn device_budget(&self, device: DeviceId) -> Result<&Arc<Budget>> {
        self.device(device)?;
        Ok(&self.inner.device_budgets[device.0 as usize])
    }

    /// Who decides between queries when a device's memory is short.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if it has no such device.
    pub fn arbiter(&self, device: DeviceId) -> Result<&Arc<MemoryArbiter>> {
        self.device(device)?;
        Ok(&self.inner.arbiters[device.0 as usize])
    }

    /// The turns of a query that starts now on these devices, one each.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if it has no such device.
    pub fn turns(&self, devices: &[DeviceId]) -> Result<Vec<Turn>> {
        let arbiters = devices.iter().map(|device| self.arbiter(*device).cloned());
        Ok(MemoryArbiter::turns(&arbiters.collect::<Result<Vec<_>>>()?))
    }

    /// As [`turns`](Self::turns) of work that nobody waits for: it comes after all queries, those to come too.
    ///
    /// # Errors
    ///
    /// Likewise.
    pub fn turns_in_background(&self, devices: &[DeviceId]) -> Result<Vec<Turn>> {
        let arbiters = devices.iter().map(|device| self.arbiter(*device).cloned());
        Ok(MemoryArbiter::turns_in_background(&arbiters.collect::<Result<Vec<_>>>()?))
    }

    /// The budget of page-locked host memory: pinned buffers and page locks.
    pub fn pinned_budget(&self) -> &Arc<Budget> {
        &self.inner.pinned_budget
    }

    /// Registers what is cached in pinned memory and may be evicted when others need it: `evict` frees up to so many
    /// bytes that nobody uses and answers how many. It is called without a lock.
    pub fn add_pinned_evictable(&self, evict: impl Fn(u64) -> u64 + Send + Sync + 'static) {
        self.inner.pinned_cached.add(evict);
    }

    /// Takes `bytes` of memory of `kind`. What is in it is unspecified.
    ///
    /// # Errors
    ///
    /// `OutOfMemory` if a budget is exhausted and `on_full` says so, `Unsupported` if the machine lacks the kind,
    /// `InvalidInput` for a device or node that it lacks.
    pub fn allocate(&self, kind: MemoryKind, bytes: usize, on_full: OnFull) -> Result<Buffer> {
        self.check_kind(&kind)?;
        if bytes == 0 {
            let nothing = RawMemory { address: 0, bytes: 0, holds_bytes: true };
            return Ok(Buffer::new(self.clone(), kind, nothing, None, Vec::new()));
        }
        if bytes > isize::MAX as usize / 2 {
            return Err(Error::invalid_input(format!(
                "{bytes} bytes; no machine has an address space for that"
            )));
        }
        let reservations = match self.reserve(&kind, bytes, OnFull::Refuse) {
            Ok(reservations) => reservations,
            Err(_) => self.reserve_of_idle(&kind, bytes, on_full)?,
        };
        let pinned = &self.inner.pinned_budget;
        let room = pinned.limit_bytes() - pinned.used_bytes();
        self.inner.backend.limit_idle_pinned(room, matches!(kind, MemoryKind::Hybrid { .. }));
        let memory = self
            .inner
            .backend
            .allocate(&kind, bytes)
            .context(|| format!("allocating {bytes} bytes of {kind}"))?;
        assert_eq!(memory.bytes, bytes, "a backend gives what was asked for");
        Ok(Buffer::new(self.clone(), kind, memory, None, reservations))
    }

    /// Memory of somebody else as a buffer to read from, pageable; `owner` is kept until the last use.
    pub fn lend(&self, owner: ForeignMemory) -> Buffer {
        let bytes = (*owner).as_ref();
        let memory = RawMemory { address: bytes.as_ptr() as u64, bytes: bytes.len(), holds_bytes: true };
        Buffer::new(self.clone(), MemoryKind::PAGEABLE, memory, Some(owner), Vec::new())
    }

    /// Page-locks the pages under `span` until the guard is dropped; ranges may overlap. With `keep`, the pages stay
    /// locked for the next caller, until the budget of pinned memory is needed for something else.
    ///
    /// # Errors
    ///
    /// `InvalidInput` unless the memory is pageable, `OutOfMemory` at the budget or the limit of the operating
    /// system, `Unsupported` without the capability.
    pub fn page_lock(&self, span: &Span, keep: bool) -> Result<PageLock> {
        if !matches!(span.kind(), MemoryKind::Pageable(_)) {
            return Err(Error::invalid_input(format!(
                "page-locking {}; only pageable memory needs it",
                span.kind()
            )));
        }
        if !span.buffer().machine().is_same(self) {
            return Err(Error::invalid_input("a buffer of another machine"));
        }
        self.inner.page_locks.lock(&*self.inner.backend, span, keep)
    }

    /// A stream of operations at `place`.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a place that the machine lacks.
    pub fn stream(&self, place: Place) -> Result<Stream> {
        self.check_place(place)?;
        let backend =
            self.inner.backend.create_stream(place).context(|| format!("{place}: creating a stream"))?;
        let stream = Stream::new(self.clone(), place, backend);
        let mut streams = self.inner.streams.lock().unwrap_or_else(PoisonError::into_inner);
        streams.retain(|stream| stream.strong_count() > 0);
        streams.push(Arc::downgrade(stream.shared()));
        Ok(stream)
    }

    /// True if `device` reaches the memory of `peer` directly.
    pub fn is_peer(&self, device: DeviceId, peer: DeviceId) -> bool {
        let count = self.info().devices.len() as u32;
        device.0 < count && peer.0 < count && (device == peer || self.inner.backend.is_peer(device, peer))
    }

    /// Time since some fixed moment, of the wall or of the simulation.
    pub fn now(&self) -> Duration {
        self.inner.backend.now()
    }

    /// Runs both at once, each on a thread of its own. Where time is simulated, it passes only while both wait, so that
    /// neither is late because its thread was.
    ///
    /// # Panics
    ///
    /// If one of them does.
    pub fn at_once<A: Send, B>(&self, one: impl FnOnce() -> A + Send, other: impl FnOnce() -> B) -> (A, B) {
        /// Dropped where one of both ends, by a panic too. The first to end is no longer waited for; in the place of
        /// the last this thread goes on, so that no time passes between.
        struct Ending<'a>(&'a dyn Backend, &'a AtomicBool);
        impl Drop for Ending<'_> {
            fn drop(&mut self) {
                if !self.1.swap(true, Ordering::AcqRel) {
                    self.0.count_threads(-1);
                }
            }
        }
        let (backend, has_one_ended) = (self.inner.backend.as_ref(), &AtomicBool::new(false));
        backend.count_threads(1);
        std::thread::scope(|scope| {
            let one = scope.spawn(move || {
                let _ending = Ending(backend, has_one_ended);
                one()
            });
            let other = {
                let _ending = Ending(backend, has_one_ended);
                other()
            };
            (one.join().expect("what runs at once does not panic"), other)
        })
    }

    /// True if both are handles of one machine.
    pub fn is_same(&self, other: &Machine) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Lets go of buffers whose operations are complete, without waiting.
    pub fn retire_completed(&self) {
        let streams: Vec<Arc<StreamShared>> = {
            let streams = self.inner.streams.lock().unwrap_or_else(PoisonError::into_inner);
            streams.iter().filter_map(Weak::upgrade).collect()
        };
        for stream in streams {
            stream.retire_completed();
        }
    }

    /// The last user of a buffer is gone; memory that was lent is not the machine's to give back.
    pub(crate) fn release(&self, kind: &MemoryKind, memory: RawMemory, is_lent: bool) {
        if memory.bytes == 0 {
            return;
        }
        if matches!(kind, MemoryKind::Pageable(_)) {
            self.inner.page_locks.forget(&*self.inner.backend, memory.address, memory.bytes);
        }
        if !is_lent {
            self.inner.backend.release(kind, memory);
        }
    }

    /// Frees what nobody needs: buffers whose last operation is over but was never looked at, page locks kept for
    /// reuse.
    fn free_idle(&self) {
        self.retire_completed();
        self.inner.page_locks.release_idle(&*self.inner.backend);
    }

    pub(crate) fn unlock_pages(&self, starts: &[u64], keep: bool) {
        self.inner.page_locks.unlock(&*self.inner.backend, starts, keep);
    }

    /// As [`reserve`](Self::reserve), once what nobody needs is freed and, for pinned memory, enough of what is cached.
    fn reserve_of_idle(&self, kind: &MemoryKind, bytes: usize, on_full: OnFull) -> Result<Vec<Reservation>> {
        self.free_idle();
        let is_pinned =
            |refused: &Error| matches!(refused.kind(), ErrorKind::OutOfMemory { tier: Tier::Pinned, .. });
        match self.reserve(kind, bytes, OnFull::Refuse) {
            Err(refused) if is_pinned(&refused) => self.evict_pinned_for(bytes as u64),
            Err(_) => {}
            reserved => return reserved,
        }
        self.reserve(kind, bytes, on_full)
    }

    /// Evicts what is missing of `bytes` of pinned memory, as far as so much is cached.
    fn evict_pinned_for(&self, bytes: u64) {
        let budget = &self.inner.pinned_budget;
        let missing = (budget.used_bytes() + bytes).saturating_sub(budget.limit_bytes());
        if missing > 0 {
            self.inner.pinned_cached.evict(missing);
        }
    }

    fn reserve(&self, kind: &MemoryKind, bytes: usize, on_full: OnFull) -> Result<Vec<Reservation>> {
        let device = |device: DeviceId, bytes: usize| {
            let budget = &self.inner.device_budgets[device.0 as usize];
            budget.reserve_polling(bytes as u64, on_full, || self.retire_completed())
        };
        let pinned = |bytes: usize| {
            self.inner.pinned_budget.reserve_polling(bytes as u64, on_full, || {
                self.free_idle();
                self.evict_pinned_for(bytes as u64); // what was in use before may not be now
            })
        };
        match kind {
            MemoryKind::Pageable(_) => Ok(Vec::new()),
            MemoryKind::Pinned(_) => Ok(vec![pinned(bytes)?]),
            MemoryKind::Device(id) => Ok(vec![device(*id, bytes)?]),
            // Its pages may all move to any one device, and must fit there: oversubscription can hang a driver.
            MemoryKind::Managed => self.info().devices.iter().map(|info| device(info.id, bytes)).collect(),
            MemoryKind::Hybrid { device: id, device_bytes, .. } => {
                let (first, rest) = hybrid_split(bytes, *device_bytes);
                Ok(vec![device(*id, first)?, pinned(rest)?])
            }
            MemoryKind::Interleaved(devices) => {
                let mut shares: Vec<(DeviceId, usize)> =
                    devices.iter().copied().zip(interleaved_shares(bytes, devices.len())).collect();
                // Everybody reserves in the order of devices, pinned memory last: so no two wait for each other.
                shares.sort_unstable();
                shares.into_iter().map(|(id, share)| device(id, share)).collect()
            }
        }
    }

    fn check_place(&self, place: Place) -> Result<()> {
        match place {
            Place::Device(device) => self.device(device).map(|_| ()),
            Place::Host(node) if node.0 < self.info().node_count => Ok(()),
            Place::Host(node) => Err(Error::invalid_input(format!(
                "no {node}; this machine has {} nodes",
                self.info().node_count
            ))),
        }
    }

    fn check_kind(&self, kind: &MemoryKind) -> Result<()> {
        match kind {
            MemoryKind::Pageable(node) | MemoryKind::Pinned(node) => self.check_place(Place::Host(*node)),
            MemoryKind::Device(device) => self.device(*device).map(|_| ()),
            MemoryKind::Managed => {
                if let Some(without) = self.info().devices.iter().find(|d| !d.capabilities.concurrent_managed)
                {
                    return Err(Error::unsupported(format!(
                        "{} has no concurrent managed access",
                        without.id
                    )));
                }
                Ok(())
            }
            MemoryKind::Hybrid { device, node, .. } => {
                self.check_place(Place::Host(*node))?;
                self.check_virtual_memory(*device)
            }
            MemoryKind::Interleaved(devices) => self.check_interleaved(devices),
        }
    }

    fn check_interleaved(&self, devices: &[DeviceId]) -> Result<()> {
        if devices.is_empty() {
            return Err(Error::invalid_input("memory interleaved over no devices"));
        }
        for (index, device) in devices.iter().enumerate() {
            self.check_virtual_memory(*device)?;
            if devices[..index].contains(device) {
                return Err(Error::invalid_input(format!(
                    "{device} named twice; each device holds one share"
                )));
            }
            for peer in &devices[..index] {
                if !self.is_peer(*device, *peer) || !self.is_peer(*peer, *device) {
                    return Err(Error::unsupported(format!("no peer access between {device} and {peer}")));
                }
            }
        }
        Ok(())
    }

    fn check_virtual_memory(&self, device: DeviceId) -> Result<()> {
        if !self.device(device)?.capabilities.virtual_memory {
            return Err(Error::unsupported(format!("{device} has no virtual memory management")));
        }
        Ok(())
    }
}

/// Device bytes (whole pages) and host bytes of a hybrid buffer.
pub(crate) fn hybrid_split(bytes: usize, device_bytes: usize) -> (usize, usize) {
    let whole = bytes.next_multiple_of(VIRTUAL_PAGE_BYTES);
    let first =
        if device_bytes >= bytes { whole } else { device_bytes / VIRTUAL_PAGE_BYTES * VIRTUAL_PAGE_BYTES };
    (first, whole - first)
}

/// Bytes that each of `device_count` devices holds of an interleaved buffer.
pub(crate) fn interleaved_shares(bytes: usize, device_count: usize) -> impl Iterator<Item = usize> {
    let pages = bytes.div_ceil(VIRTUAL_PAGE_BYTES);
    (0..device_count).map(move |index| {
        (pages / device_count + usize::from(index < pages % device_count)) * VIRTUAL_PAGE_BYTES
    })
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "machine '{}' with {} devices", self.info().name, self.info().devices.len())
    }
}
