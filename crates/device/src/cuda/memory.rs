//! Memory of a CUDA machine.
//!
//! | kind | comes from | goes to |
//! | --- | --- | --- |
//! | device | the driver's stream-ordered pool, one per device, which keeps up to the limit for reuse | the pool |
//! | pinned | pages mapped, touched and registered with the driver | kept for reuse up to the limit |
//! | pageable | pages mapped | the operating system |
//! | managed | the driver | the driver |
//! | hybrid, interleaved | `ranges.rs` | the driver |
//!
//! Registering pages that are there already takes an eighth of the time that the driver needs to allocate pinned
//! memory (docs/decisions/0005), and lets the pages lie on the node that is asked for.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use cudarc::driver::sys;
use pelton_error::{Error, ErrorKind, Result, Tier};

use super::driver::{Context, check};
use super::ranges::AddressRange;
use crate::backend::RawMemory;
use crate::host::Mapped;
use crate::place::{DeviceId, MemoryKind, NodeId};

/// A pool of one device's memory.
#[derive(Debug)]
pub(crate) struct DevicePool {
    context: Context,
    pool: sys::CUmemoryPool,
    /// On which the pool's own operations are ordered.
    stream: sys::CUstream,
}

// SAFETY: the driver's handles may be used from any thread; each call orders itself on `stream`.
unsafe impl Send for DevicePool {}
// SAFETY: as above.
unsafe impl Sync for DevicePool {}

impl DevicePool {
    /// A pool that keeps up to `keep_bytes` and whose memory `peers` reach as well.
    pub(crate) fn new(context: Context, keep_bytes: u64, peers: &[Context]) -> Result<Self> {
        context.bind()?;
        let mut properties = sys::CUmemPoolProps {
            allocType: sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
            handleTypes: sys::CUmemAllocationHandleType(0),
            location: device_location(context.device),
            win32SecurityAttributes: std::ptr::null_mut(),
            maxSize: 0,
            usage: 0,
            reserved: [0; 54],
        };
        let mut pool = std::ptr::null_mut();
        let mut stream = std::ptr::null_mut();
        let mut keep = keep_bytes;
        // SAFETY: every pointer is to a local that outlives its call.
        unsafe {
            check(sys::cuMemPoolCreate(&raw mut pool, &raw mut properties), || {
                format!("{}: making a memory pool", context.id)
            })?;
            let attribute = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
            check(sys::cuMemPoolSetAttribute(pool, attribute, (&raw mut keep).cast()), || {
                format!("{}: setting up its memory pool", context.id)
            })?;
            let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
            check(sys::cuStreamCreate(&raw mut stream, flags), || {
                format!("{}: creating a stream", context.id)
            })?;
        }
        let access: Vec<sys::CUmemAccessDesc> = peers.iter().map(|peer| read_write(peer.device)).collect();
        if !access.is_empty() {
            // SAFETY: `access` outlives the call and has the length said.
            check(unsafe { sys::cuMemPoolSetAccess(pool, access.as_ptr(), access.len()) }, || {
                format!("{}: opening its memory pool to peers", context.id)
            })?;
        }
        Ok(Self { context, pool, stream })
    }

    fn allocate(&self, bytes: usize) -> Result<u64> {
        self.context.bind()?;
        let mut address = 0;
        // SAFETY: pool and stream are alive; `address` outlives the call. After the wait any stream may use it.
        unsafe {
            check(sys::cuMemAllocFromPoolAsync(&raw mut address, bytes, self.pool, self.stream), || {
                format!("{}: taking {bytes} bytes", self.context.id)
            })?;
            check(sys::cuStreamSynchronize(self.stream), || format!("{}: taking memory", self.context.id))?;
        }
        Ok(address)
    }

    /// Gives what is kept for reuse back to the driver.
    fn trim(&self) {
        if self.context.bind().is_ok() {
            // SAFETY: pool and stream are alive. If the driver refuses, the next attempt to take memory says so.
            unsafe {
                let _ = sys::cuStreamSynchronize(self.stream);
                let _ = sys::cuMemPoolTrimTo(self.pool, 0);
            }
        }
    }

    fn release(&self, address: u64) {
        let outcome = self.context.bind().and_then(|()| {
            // SAFETY: the address came from this pool, and no operation uses it any more.
            let code = unsafe { sys::cuMemFreeAsync(address, self.stream) };
            check(code, || format!("{}: giving memory back", self.context.id))
        });
        // Only a lost context refuses; then the memory is gone with it.
        let _ = outcome;
    }
}

impl Drop for DevicePool {
    fn drop(&mut self) {
        if self.context.bind().is_ok() {
            // SAFETY: both are ours, and everything allocated has been given back.
            unsafe {
                let _ = sys::cuStreamSynchronize(self.stream);
                let _ = sys::cuStreamDestroy_v2(self.stream);
                let _ = sys::cuMemPoolDestroy(self.pool);
            }
        }
    }
}

/// All memory of a machine.
#[derive(Debug)]
pub(crate) struct Memory {
    contexts: Vec<Context>,
    pools: Vec<DevicePool>,
    pinned: Mutex<PinnedPool>,
    ranges: Mutex<HashMap<u64, AddressRange>>,
    /// Whether pages are bound to the node asked for.
    binds_nodes: bool,
}

/// Pinned blocks that nobody uses, oldest first.
#[derive(Debug, Default)]
struct PinnedPool {
    /// What they may take in all: the part of the limit that is not in use. Machines set it before they take more.
    limit_bytes: u64,
    idle_bytes: u64,
    idle: VecDeque<(NodeId, Mapped)>,
}

impl Memory {
    pub(crate) fn new(contexts: &[Context], pools: Vec<DevicePool>, node_count: u32) -> Self {
        Self {
            contexts: contexts.to_vec(),
            pools,
            pinned: Mutex::default(),
            ranges: Mutex::default(),
            binds_nodes: node_count > 1,
        }
    }

    pub(crate) fn allocate(&self, kind: &MemoryKind, bytes: usize) -> Result<RawMemory> {
        let raw = |address| RawMemory { address, bytes, holds_bytes: true };
        match kind {
            MemoryKind::Pageable(node) => Ok(Mapped::new(bytes, self.binding(*node))?.into_raw()),
            MemoryKind::Pinned(node) => self.allocate_pinned(*node, bytes),
            MemoryKind::Device(device) => {
                self.with_room(|| self.pools[device.0 as usize].allocate(bytes)).map(raw)
            }
            MemoryKind::Managed => self.with_room(|| self.allocate_managed(bytes)).map(raw),
            MemoryKind::Hybrid { device, device_bytes, node } => {
                let make = || AddressRange::hybrid(&self.contexts, *device, *device_bytes, *node, bytes);
                let range = self.with_room(make)?;
                Ok(raw(self.keep_range(range)))
            }
            MemoryKind::Interleaved(devices) => {
                let range = self.with_room(|| AddressRange::interleaved(&self.contexts, devices, bytes))?;
                Ok(raw(self.keep_range(range)))
            }
        }
    }

    pub(crate) fn release(&self, kind: &MemoryKind, memory: RawMemory) {
        match kind {
            // SAFETY: it came from `into_raw` in `allocate`, and is released once.
            MemoryKind::Pageable(_) => drop(unsafe { Mapped::from_raw(memory) }),
            MemoryKind::Pinned(node) => {
                // SAFETY: as above.
                let mapped = unsafe { Mapped::from_raw(memory) };
                let mut pinned = self.pinned();
                pinned.idle_bytes += mapped.mapped_bytes() as u64;
                pinned.idle.push_back((*node, mapped));
            }
            MemoryKind::Device(device) => self.release_device(*device, memory.address),
            MemoryKind::Managed => self.release_managed(memory.address),
            MemoryKind::Hybrid { .. } | MemoryKind::Interleaved(_) => {
                let range = self.ranges().remove(&memory.address);
                drop(range.expect("a range is released once"));
            }
        }
    }

    fn release_device(&self, device: DeviceId, address: u64) {
        self.pools[device.0 as usize].release(address);
    }

    fn allocate_pinned(&self, node: NodeId, bytes: usize) -> Result<RawMemory> {
        let mut pinned = self.pinned();
        let fits = |(at, mapped): &(NodeId, Mapped)| *at == node && mapped.is_length_of(bytes);
        if let Some(index) = pinned.idle.iter().rposition(fits) {
            let (_, mapped) = pinned.idle.remove(index).expect("just found");
            pinned.idle_bytes -= mapped.mapped_bytes() as u64;
            return Ok(mapped.resized(bytes).into_raw());
        }
        pinned.evict(&self.contexts[0]);
        drop(pinned);
        let mapped = Mapped::new(bytes, self.binding(node))?;
        mapped.populate();
        page_lock(&self.contexts[0], mapped.address(), mapped.mapped_bytes())?;
        Ok(mapped.into_raw())
    }

    /// What blocks that nobody uses may take from now on; with `evicts`, the rest goes at once.
    pub(crate) fn limit_idle_pinned(&self, bytes: u64, evicts: bool) {
        let mut pinned = self.pinned();
        pinned.limit_bytes = bytes;
        if evicts {
            pinned.evict(&self.contexts[0]);
        }
    }

    /// Runs `take`; if the device is full, gives back what its pool keeps for reuse and tries once more.
    fn with_room<T>(&self, take: impl Fn() -> Result<T>) -> Result<T> {
        take().or_else(|error| {
            if !matches!(error.kind(), ErrorKind::OutOfMemory { .. }) {
                return Err(error);
            }
            self.pools.iter().for_each(DevicePool::trim);
            take()
        })
    }

    fn allocate_managed(&self, bytes: usize) -> Result<u64> {
        self.contexts[0].bind()?;
        let mut address = 0;
        let flags = sys::CUmemAttach_flags::CU_MEM_ATTACH_GLOBAL as u32;
        // SAFETY: `address` outlives the call.
        check(unsafe { sys::cuMemAllocManaged(&raw mut address, bytes, flags) }, || {
            format!("taking {bytes} bytes of managed memory")
        })?;
        Ok(address)
    }

    fn release_managed(&self, address: u64) {
        if self.contexts[0].bind().is_ok() {
            // SAFETY: it came from `allocate_managed`, and no operation uses it any more.
            // Only a lost context refuses.
            let _ = unsafe { sys::cuMemFree_v2(address) };
        }
    }

    fn keep_range(&self, range: AddressRange) -> u64 {
        let address = range.address();
        self.ranges().insert(address, range);
        address
    }

    fn binding(&self, node: NodeId) -> Option<NodeId> {
        self.binds_nodes.then_some(node)
    }

    fn pinned(&self) -> MutexGuard<'_, PinnedPool> {
        self.pinned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ranges(&self) -> MutexGuard<'_, HashMap<u64, AddressRange>> {
        self.ranges.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        for (_, mapped) in self.pinned().idle.drain(..) {
            page_unlock(&self.contexts[0], mapped.address());
        }
    }
}

impl PinnedPool {
    /// Lets the oldest go until the limit is kept.
    fn evict(&mut self, context: &Context) {
        while self.idle_bytes > self.limit_bytes
            && let Some((_, oldest)) = self.idle.pop_front()
        {
            self.idle_bytes -= oldest.mapped_bytes() as u64;
            page_unlock(context, oldest.address());
        }
    }
}

/// Page-locks host memory for all devices and maps it into their address space, at the same address.
pub(crate) fn page_lock(context: &Context, address: u64, bytes: usize) -> Result<()> {
    context.bind()?;
    let flags = sys::CU_MEMHOSTREGISTER_PORTABLE | sys::CU_MEMHOSTREGISTER_DEVICEMAP;
    // SAFETY: the range is host memory that outlives its registration: whoever releases it unlocks it first.
    let code = unsafe { sys::cuMemHostRegister_v2(address as *mut _, bytes, flags) };
    if code == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY {
        let kind =
            ErrorKind::OutOfMemory { tier: Tier::Pinned, requested_bytes: bytes as u64, available_bytes: 0 };
        return Err(Error::new(
            kind,
            format!(
                "page-locking {bytes} bytes of host memory: refused by the operating system; lower the limit on pinned \
                 memory, free host memory, or raise the limit ('ulimit -l')"
            ),
        ));
    }
    check(code, || format!("page-locking {bytes} bytes of host memory"))?;
    let mut mapped = 0;
    // SAFETY: the range has just been registered; `mapped` outlives the call.
    let code = unsafe { sys::cuMemHostGetDevicePointer_v2(&raw mut mapped, address as *mut _, 0) };
    let found = check(code, || "finding page-locked memory in the devices' address space".into());
    if let Err(error) = found {
        page_unlock(context, address);
        return Err(error);
    }
    if mapped != address {
        page_unlock(context, address);
        return Err(Error::unsupported(
            "devices see page-locked host memory at another address than the host does; one address space is needed",
        ));
    }
    Ok(())
}

/// Undoes [`page_lock`].
pub(crate) fn page_unlock(context: &Context, address: u64) {
    if context.bind().is_ok() {
        // SAFETY: the address was registered, and no operation uses it any more. Only a lost context refuses.
        let _ = unsafe { sys::cuMemHostUnregister(address as *mut _) };
    }
}

pub(crate) fn device_location(device: sys::CUdevice) -> sys::CUmemLocation {
    sys::CUmemLocation { type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, id: device }
}

pub(crate) fn node_location(node: NodeId) -> sys::CUmemLocation {
    sys::CUmemLocation { type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST_NUMA, id: node.0 as i32 }
}

/// Full access for a device.
pub(crate) fn read_write(device: sys::CUdevice) -> sys::CUmemAccessDesc {
    sys::CUmemAccessDesc {
        location: device_location(device),
        flags: sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
    }
}
