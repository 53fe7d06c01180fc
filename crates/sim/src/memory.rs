//! Memory of a simulated machine: addresses, and bytes behind them if it is functional.
//!
//! Of every address it is known where it lies. Managed memory lies page by page where it was touched last, in the
//! order in which operations were enqueued, and on node 0 before that.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::BTreeMap;

use pelton_device::{DeviceId, MemoryKind, NodeId, Place, RawMemory, Span, VIRTUAL_PAGE_BYTES};
use pelton_error::{Error, ErrorKind, Result, Tier};

use crate::operation::Effect;

/// Allocations begin at whole pages, as page locks require.
const ALIGN_BYTES: usize = 4096;

/// Addresses without bytes begin here: no host memory that is lent lies so high, and no sum overflows.
const FIRST_ADDRESS: u64 = 1 << 60;

/// Bytes in a row at one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) place: Place,
    pub(super) bytes: u64,
}

/// Who lies where.
#[derive(Debug)]
pub(super) struct Memory {
    holds_bytes: bool,
    next_address: u64,
    node_free_bytes: Vec<u64>,
    /// Where each page of managed memory lies, by the start of the allocation.
    managed: BTreeMap<u64, Vec<Place>>,
    /// Locked ranges: start and length.
    locked: BTreeMap<u64, u64>,
}

impl Memory {
    pub(super) fn new(holds_bytes: bool, node_bytes: impl Iterator<Item = u64>) -> Self {
        Self {
            holds_bytes,
            next_address: FIRST_ADDRESS,
            node_free_bytes: node_bytes.collect(),
            managed: BTreeMap::new(),
            locked: BTreeMap::new(),
        }
    }

    pub(super) fn allocate(&mut self, kind: &MemoryKind, bytes: usize) -> Result<RawMemory> {
        let host_part = host_part(kind, bytes);
        if let Some((node, host_bytes)) = host_part {
            let free_bytes = self.node_free_bytes[node.0 as usize];
            if host_bytes > free_bytes {
                return Err(exhausted(kind, host_bytes, free_bytes));
            }
        }
        let address = if self.holds_bytes { take_bytes(bytes)? } else { self.take_address(bytes) };
        if let Some((node, host_bytes)) = host_part {
            self.node_free_bytes[node.0 as usize] -= host_bytes;
        }
        if kind == &MemoryKind::Managed {
            self.managed.insert(address, vec![Place::HOST; bytes.div_ceil(VIRTUAL_PAGE_BYTES)]);
        }
        Ok(RawMemory { address, bytes, holds_bytes: self.holds_bytes })
    }

    pub(super) fn release(&mut self, kind: &MemoryKind, memory: RawMemory) {
        if let Some((node, host_bytes)) = host_part(kind, memory.bytes) {
            self.node_free_bytes[node.0 as usize] += host_bytes;
        }
        self.managed.remove(&memory.address);
        if memory.holds_bytes {
            give_bytes_back(memory);
        }
    }

    pub(super) fn lock(&mut self, address: u64, bytes: usize) {
        self.locked.insert(address, bytes as u64);
    }

    pub(super) fn unlock(&mut self, address: u64) {
        self.locked.remove(&address);
    }

    /// True if devices reach the span by themselves: it is not pageable, or its pages are locked.
    pub(super) fn is_pinned(&self, span: &Span) -> bool {
        let end = span.address() + span.len() as u64;
        let locked = self.locked.range(..=span.address()).next_back();
        !matches!(span.kind(), MemoryKind::Pageable(_))
            || locked.is_some_and(|(start, bytes)| start + bytes >= end)
    }

    /// Where the bytes of the span lie, in order.
    pub(super) fn runs(&self, span: &Span) -> Vec<Run> {
        match span.kind() {
            MemoryKind::Pageable(node) | MemoryKind::Pinned(node) => {
                vec![Run { place: Place::Host(*node), bytes: span.len() as u64 }]
            }
            MemoryKind::Device(device) => {
                vec![Run { place: Place::Device(*device), bytes: span.len() as u64 }]
            }
            MemoryKind::Hybrid { device, device_bytes, node } => {
                hybrid_runs(span, Place::Device(*device), *device_bytes, Place::Host(*node))
            }
            MemoryKind::Interleaved(devices) => page_runs(span, |page| device_of(devices, page)),
            MemoryKind::Managed => {
                let pages = &self.managed[&span.buffer().address()];
                page_runs(span, |page| pages[page])
            }
        }
    }

    /// All pages under a managed span lie at `place` now.
    pub(super) fn settle(&mut self, span: &Span, place: Place) {
        let pages =
            span.offset() / VIRTUAL_PAGE_BYTES..(span.offset() + span.len()).div_ceil(VIRTUAL_PAGE_BYTES);
        self.managed.get_mut(&span.buffer().address()).expect("managed memory is known")[pages].fill(place);
    }

    fn take_address(&mut self, bytes: usize) -> u64 {
        let address = self.next_address;
        // A page between allocations, so that an address belongs to one only.
        self.next_address += bytes.next_multiple_of(ALIGN_BYTES) as u64 + ALIGN_BYTES as u64;
        address
    }
}

fn device_of(devices: &[DeviceId], page: usize) -> Place {
    Place::Device(devices[page % devices.len()])
}

fn hybrid_runs(span: &Span, first: Place, device_bytes: usize, rest: Place) -> Vec<Run> {
    let on_device = device_bytes_of_hybrid(span.buffer().len(), device_bytes);
    let before = on_device.saturating_sub(span.offset()).min(span.len());
    let runs = [
        Run { place: first, bytes: before as u64 },
        Run { place: rest, bytes: (span.len() - before) as u64 },
    ];
    runs.into_iter().filter(|run| run.bytes > 0).collect()
}

/// Whole pages only, but all of the buffer if it fits.
fn device_bytes_of_hybrid(bytes: usize, device_bytes: usize) -> usize {
    if device_bytes >= bytes { bytes } else { device_bytes / VIRTUAL_PAGE_BYTES * VIRTUAL_PAGE_BYTES }
}

fn page_runs(span: &Span, place_of: impl Fn(usize) -> Place) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let (mut at, end) = (span.offset(), span.offset() + span.len());
    while at < end {
        let page = at / VIRTUAL_PAGE_BYTES;
        let next = end.min((page + 1) * VIRTUAL_PAGE_BYTES);
        let (place, bytes) = (place_of(page), (next - at) as u64);
        match runs.last_mut().filter(|run| run.place == place) {
            Some(run) => run.bytes += bytes,
            None => runs.push(Run { place, bytes }),
        }
        at = next;
    }
    runs
}

/// The node whose memory an allocation takes, and how much of it.
fn host_part(kind: &MemoryKind, bytes: usize) -> Option<(NodeId, u64)> {
    match kind {
        MemoryKind::Pageable(node) | MemoryKind::Pinned(node) => Some((*node, bytes as u64)),
        MemoryKind::Hybrid { device_bytes, node, .. } => {
            Some((*node, (bytes - device_bytes_of_hybrid(bytes, *device_bytes)) as u64))
        }
        MemoryKind::Device(_) | MemoryKind::Managed | MemoryKind::Interleaved(_) => None,
    }
}

fn exhausted(kind: &MemoryKind, requested_bytes: u64, available_bytes: u64) -> Error {
    let tier = if matches!(kind, MemoryKind::Pageable(_)) { Tier::Host } else { Tier::Pinned };
    Error::new(
        ErrorKind::OutOfMemory { tier, requested_bytes, available_bytes },
        format!(
            "{kind}: {available_bytes} bytes free on the simulated machine; give some back or ask for less"
        ),
    )
}

fn layout(bytes: usize) -> Result<Layout> {
    Layout::from_size_align(bytes, ALIGN_BYTES)
        .map_err(|_| Error::invalid_input(format!("{bytes} bytes: no machine has that many")))
}

fn take_bytes(bytes: usize) -> Result<u64> {
    let layout = layout(bytes)?;
    assert!(bytes > 0, "a backend is not asked for nothing");
    // SAFETY: the size is not zero.
    let start = unsafe { alloc_zeroed(layout) };
    if start.is_null() {
        return Err(Error::new(
            ErrorKind::OutOfMemory { tier: Tier::Host, requested_bytes: bytes as u64, available_bytes: 0 },
            "this host has no room for the simulated memory; ask for less or simulate sizes alone",
        ));
    }
    Ok(start as u64)
}

fn give_bytes_back(memory: RawMemory) {
    let layout = layout(memory.bytes).expect("it was allocated with this layout");
    // SAFETY: `take_bytes` has allocated it with this layout, and the machine gives it back once.
    unsafe { dealloc(memory.address as *mut u8, layout) }
}

/// The copy itself, to be done when its time has come.
pub(super) fn copy_effect(source: &Span, target: &Span) -> Effect {
    let (from, to, bytes) = (source.address(), target.address(), source.len());
    Box::new(move || {
        // SAFETY: both spans are `bytes` long and in bounds, of buffers that hold bytes and stay alive until the
        // stream sees the operation complete, which is after this. Nobody but operations touches them meanwhile, as
        // the leases of the stream keep the host out, and operations happen one at a time. They may overlap.
        unsafe { std::ptr::copy(from as *const u8, to as *mut u8, bytes) };
        Ok(())
    })
}
