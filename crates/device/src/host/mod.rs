//! Logical devices: host memory and threads that stand in for devices.
//!
//! Every algorithm runs on them in tests: several devices, each with its own memory limit, streams that run at the same
//! time, operations that end out of order. Every place is memory of this process, so every device reaches every
//! other; what a real machine may lack ([`Capabilities`]) can be switched off, to test that it is refused.

mod mapped;
mod queue;

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pelton_error::{Error, Result};

use crate::backend::{Backend, EventBackend, RawMemory, StreamBackend};
use crate::machine::Machine;
use crate::memory::Span;
use crate::place::{
    Capabilities, DeviceId, DeviceInfo, DeviceKind, MachineInfo, MemoryKind, NodeId, PageableAccess, Place,
};
use crate::work::Work;

use mapped::IdlePages;
pub(crate) use mapped::{Mapped, map_guarded};
pub(crate) use queue::{Queue, QueueEvent};

/// What logical devices there shall be.
#[derive(Debug, Clone)]
pub struct HostOptions {
    /// How many devices.
    pub device_count: u32,
    /// Limit on the memory of each, bytes.
    pub device_memory_limit_bytes: u64,
    /// Limit on the memory of the last, where it is another one.
    pub last_device_memory_limit_bytes: Option<u64>,
    /// Limit on pinned memory, bytes.
    pub pinned_memory_limit_bytes: u64,
    /// What each can do.
    pub capabilities: Capabilities,
    /// Whether devices reach each other's memory.
    pub has_peer_access: bool,
    /// Which copy between memories fails, by its number from 0, as one over a broken link would; for tests of what
    /// becomes of the rest.
    pub failing_copy: Option<u64>,
}

impl Default for HostOptions {
    fn default() -> Self {
        Self {
            device_count: 1,
            device_memory_limit_bytes: 1 << 30,
            last_device_memory_limit_bytes: None,
            pinned_memory_limit_bytes: 1 << 30,
            capabilities: Capabilities {
                pageable_access: PageableAccess::Hardware,
                concurrent_managed: true,
                host_register: true,
                host_native_atomics: true,
                virtual_memory: true,
                copy_engines: 2,
            },
            has_peer_access: true,
            failing_copy: None,
        }
    }
}

/// A machine of logical devices.
pub fn open(options: &HostOptions) -> Machine {
    crate::priority::start_here();
    let device = |index| {
        let last = options.last_device_memory_limit_bytes.filter(|_| index + 1 == options.device_count);
        DeviceInfo {
            capabilities: options.capabilities.clone(),
            ..logical_device(DeviceId(index), last.unwrap_or(options.device_memory_limit_bytes))
        }
    };
    Machine::new(Host {
        info: MachineInfo {
            name: "host".into(),
            is_simulated: false,
            devices: (0..options.device_count).map(device).collect(),
            node_count: 1,
            pinned_memory_limit_bytes: options.pinned_memory_limit_bytes,
        },
        has_peer_access: options.has_peer_access,
        opened: Instant::now(),
        memory: HostMemory::new(options.device_memory_limit_bytes),
        failure: options.failing_copy.map(|copy| Arc::new(Failure { copy, seen: AtomicU64::new(0) })),
    })
}

/// Device `id`, which is memory and threads of the host.
pub(crate) fn logical_device(id: DeviceId, memory_bytes: u64) -> DeviceInfo {
    DeviceInfo {
        id,
        name: "logical device".into(),
        kind: DeviceKind::Logical,
        memory_bytes,
        memory_limit_bytes: memory_bytes,
        multiprocessors: 1,
        l2_bytes: 0,
        node: NodeId(0),
        pci_address: None,
        capabilities: HostOptions::default().capabilities,
    }
}

#[derive(Debug)]
struct Host {
    info: MachineInfo,
    has_peer_access: bool,
    opened: Instant,
    memory: HostMemory,
    failure: Option<Arc<Failure>>,
}

/// A copy that fails.
#[derive(Debug)]
struct Failure {
    copy: u64,
    seen: AtomicU64,
}

/// So much memory is guarded at once: a process has at most 65,530 mappings, and guarded ones do not join with others.
const GUARDED_MAX: usize = 8192;
/// What is kept of memory that was released, at most, where a quarter of a device's is more.
const IDLE_BYTES_MAX: u64 = 4 << 30;

/// Memory of logical devices.
#[derive(Debug)]
pub(crate) struct HostMemory {
    /// Addresses of the memory that ends at a page of its own that nobody may touch.
    guarded: Mutex<HashSet<u64>>,
    idle: Mutex<IdlePages>,
}

impl HostMemory {
    /// Of devices that have so many bytes each.
    pub(crate) fn new(device_bytes: u64) -> Self {
        let idle = IdlePages::new((device_bytes / 4).min(IDLE_BYTES_MAX) as usize);
        Self { guarded: Mutex::default(), idle: Mutex::new(idle) }
    }

    fn guarded(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.guarded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn idle(&self) -> MutexGuard<'_, IdlePages> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn allocate(&self, kind: &MemoryKind, bytes: usize) -> Result<RawMemory> {
        let is_guarded = matches!(kind, MemoryKind::Device(_)) && self.guarded().len() < GUARDED_MAX;
        // As on devices, memory of every other kind is there before it is used, so that times are those of use.
        let is_there = !matches!(kind, MemoryKind::Pageable(_));
        let known = if is_there { self.idle().take(bytes, is_guarded) } else { None };
        let map = || {
            if is_guarded {
                return map_guarded(bytes);
            }
            let mapped = Mapped::new(bytes, None)?;
            if is_there {
                mapped.populate();
            }
            Ok(mapped.into_raw())
        };
        let memory = match known {
            Some(memory) => memory,
            // What is kept may be what is missing.
            None => map().or_else(|error| if self.idle().give_back() { map() } else { Err(error) })?,
        };
        if is_guarded {
            self.guarded().insert(memory.address);
        }
        Ok(memory)
    }

    pub(crate) fn release(&self, kind: &MemoryKind, memory: RawMemory) {
        let is_guarded = self.guarded().remove(&memory.address);
        // SAFETY: `memory` came from `allocate`, in the way that is remembered, and is released once.
        unsafe {
            match kind {
                MemoryKind::Pageable(_) => drop(Mapped::from_raw(memory)),
                _ => self.idle().keep(memory, is_guarded),
            }
        }
    }
}

impl Backend for Host {
    fn info(&self) -> &MachineInfo {
        &self.info
    }

    fn allocate(&self, kind: &MemoryKind, bytes: usize) -> Result<RawMemory> {
        self.memory.allocate(kind, bytes)
    }

    fn release(&self, kind: &MemoryKind, memory: RawMemory) {
        self.memory.release(kind, memory);
    }

    fn page_lock(&self, address: u64, bytes: usize) -> Result<()> {
        assert_eq!(address % crate::HOST_PAGE_BYTES, 0, "whole pages");
        assert_eq!(bytes as u64 % crate::HOST_PAGE_BYTES, 0, "whole pages");
        if !self.info.devices.iter().all(|device| device.capabilities.host_register) {
            return Err(Error::unsupported("these devices cannot page-lock existing host memory"));
        }
        Ok(())
    }

    fn page_unlock(&self, _address: u64, _bytes: usize) {}

    fn create_stream(&self, place: Place) -> Result<Box<dyn StreamBackend>> {
        let queue = Queue::start(&format!("{place}"))?;
        Ok(Box::new(HostStream { queue, failure: self.failure.clone() }))
    }

    fn is_peer(&self, _device: DeviceId, _peer: DeviceId) -> bool {
        self.has_peer_access
    }

    fn now(&self) -> Duration {
        self.opened.elapsed()
    }
}

struct HostStream {
    queue: Queue,
    failure: Option<Arc<Failure>>,
}

impl StreamBackend for HostStream {
    fn copy(&self, source: &Span, target: &Span) -> Result<()> {
        let failing = self.failure.as_ref().filter(|it| it.seen.fetch_add(1, Ordering::Relaxed) == it.copy);
        self.queue.push(match failing {
            Some(_) => Box::new(|| Err(Error::device_lost("a copy failed, as it was asked to"))),
            None => host_copy(source, target),
        });
        Ok(())
    }

    fn prefetch(&self, _span: &Span, _place: Place) -> Result<()> {
        self.queue.push(Box::new(|| Ok(())));
        Ok(())
    }

    fn run(&self, work: Work) -> Result<()> {
        let form = work
            .host
            .ok_or_else(|| Error::unsupported(format!("'{}' has no form for host threads", work.name)))?;
        self.queue.push(form);
        Ok(())
    }

    fn record(&self) -> Result<Box<dyn EventBackend>> {
        Ok(Box::new(self.queue.record()))
    }

    fn wait_for(&self, event: &dyn EventBackend) -> Result<()> {
        let event = event.as_any().downcast_ref::<QueueEvent>().expect("an event of this machine").clone();
        self.queue.push(Box::new(move || event.wait_blocking()));
        Ok(())
    }

    fn is_idle(&self) -> Result<bool> {
        self.queue.is_idle()
    }
}

/// A copy between two spans that the host's cores reach.
pub(crate) fn host_copy(source: &Span, target: &Span) -> Box<dyn FnOnce() -> Result<()> + Send> {
    let (from, to, bytes) = (source.address(), target.address(), source.len());
    Box::new(move || {
        // SAFETY: both spans are host memory in bounds and alive, since the stream holds leases on them until this is
        // known to be complete. The host's own access is kept out by the same leases; operations that race on one
        // range are the caller's to order by events, as on every device, and leave unspecified bytes. `copy` allows
        // the spans to overlap.
        unsafe { std::ptr::copy(from as *const u8, to as *mut u8, bytes) };
        Ok(())
    })
}

/// Work of a host stream that reads `reads` and writes `writes`, which do not overlap; `run` gets the bytes of each.
///
/// # Errors
///
/// `InvalidInput` if the host cannot read or write the memory, or spans overlap.
pub fn work(
    name: &'static str,
    reads: Vec<Span>,
    writes: Vec<Span>,
    run: impl FnOnce(&[&[u8]], &mut [&mut [u8]]) -> Result<()> + Send + 'static,
) -> Result<Work> {
    for span in reads.iter().chain(&writes) {
        if !span.kind().is_host_visible() || !span.buffer().holds_bytes() {
            return Err(Error::invalid_input(format!("{name}: the host does not reach {}", span.kind())));
        }
    }
    for (index, target) in writes.iter().enumerate() {
        if target.buffer().is_read_only() {
            return Err(Error::invalid_input(format!("{name}: memory that was lent is not written to")));
        }
        if reads.iter().chain(&writes[..index]).any(|other| overlap(other, target)) {
            return Err(Error::invalid_input(format!(
                "{name}: memory that is written overlaps other memory"
            )));
        }
    }
    let (sources, targets) = (reads.clone(), writes.clone());
    let form = move || {
        let read = |span: &Span| -> &[u8] {
            match span.is_empty() {
                true => &[],
                // SAFETY: host memory in bounds that `sources` keeps alive; the stream's lease keeps the host's writers
                // out, and no span of `writes` overlaps. Operations that race are the caller's to order by events.
                false => unsafe { std::slice::from_raw_parts(span.address() as *const u8, span.len()) },
            }
        };
        let write = |span: &Span| -> &mut [u8] {
            match span.is_empty() {
                true => &mut [],
                // SAFETY: as above, and this is the only slice of this memory: no other span overlaps.
                false => unsafe { std::slice::from_raw_parts_mut(span.address() as *mut u8, span.len()) },
            }
        };
        let read: Vec<&[u8]> = sources.iter().map(read).collect();
        let mut written: Vec<&mut [u8]> = targets.iter().map(write).collect();
        run(&read, &mut written)
    };
    Ok(Work::new(name, reads, writes).with_host(form))
}

fn overlap(one: &Span, other: &Span) -> bool {
    let end = |span: &Span| span.address() + span.len() as u64;
    !one.is_empty() && !other.is_empty() && one.address() < end(other) && other.address() < end(one)
}

/// Work of a host stream that fills `target`, as reading from a file does; `fill` gets its bytes.
///
/// # Errors
///
/// `InvalidInput` if the host cannot write to the memory.
pub fn fill(
    name: &'static str,
    target: &Span,
    fill: impl FnOnce(&mut [u8]) -> Result<()> + Send + 'static,
) -> Result<Work> {
    if !target.kind().is_host_visible() || target.buffer().is_read_only() {
        return Err(Error::invalid_input(format!("{name}: the host does not write to {}", target.kind())));
    }
    let kept = target.clone();
    let form = move || {
        let (address, bytes) = (kept.address(), kept.len());
        if bytes == 0 {
            return fill(&mut []);
        }
        // SAFETY: the span is host memory in bounds that `kept` keeps alive; the stream's lease keeps the host out;
        // operations that race on it are the caller's to order by events.
        fill(unsafe { std::slice::from_raw_parts_mut(address as *mut u8, bytes) })
    };
    Ok(Work::new(name, vec![], vec![target.clone()]).with_host(form))
}
