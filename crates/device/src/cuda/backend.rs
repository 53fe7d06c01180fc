//! The machine that the CUDA driver executes.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cudarc::driver::sys;
use pelton_error::{Error, Result};

use super::driver::{Context, check, driver};
use super::memory::{DevicePool, Memory, page_lock, page_unlock};
use super::stream::{CounterPool, DeviceStream, EventPool, HostStream};
use crate::backend::{Backend, RawMemory, StreamBackend};
use crate::host::{HostMemory, logical_device};
use crate::machine::Machine;
use crate::place::{
    Capabilities, DeviceId, DeviceInfo, DeviceKind, MachineInfo, MemoryKind, NodeId, PageableAccess, Place,
};

/// Memory of a device left to contexts, kernels and others.
const DEVICE_RESERVE_BYTES: u64 = 1 << 30;

/// Limits of a CUDA machine.
#[derive(Debug, Clone, Default)]
pub struct CudaOptions {
    /// Limit on each device's memory, bytes; by default what is free now less 1 GiB.
    pub device_memory_limit_bytes: Option<u64>,
    /// Limit on pinned host memory, bytes; by default half of the host's memory.
    pub pinned_memory_limit_bytes: Option<u64>,
    /// Memory of a logical device behind the GPUs, bytes: the host's cores as one device more. `None`: there is none.
    pub host_device_bytes: Option<u64>,
}

/// Opens the CUDA devices of this machine.
///
/// # Errors
///
/// `Unsupported` without a driver, with one too old, or without a device, saying what to install.
pub fn open(options: &CudaOptions) -> Result<Machine> {
    let contexts = &driver()?.devices;
    if contexts.is_empty() {
        return Err(Error::unsupported(
            "the CUDA driver shows no device; 'nvidia-smi' lists what is there, CUDA_VISIBLE_DEVICES may hide it",
        ));
    }
    let peers = enable_peers(contexts)?;
    let mut devices =
        contexts.iter().map(|context| describe(context, options)).collect::<Result<Vec<DeviceInfo>>>()?;
    let node_count = count_nodes();
    let pinned_memory_limit_bytes =
        options.pinned_memory_limit_bytes.unwrap_or_else(|| host_memory_bytes() / 2);
    let pools = contexts
        .iter()
        .zip(&devices)
        .map(|(context, info)| {
            let reach: Vec<Context> = contexts
                .iter()
                .filter(|peer| peers[peer.id.0 as usize][info.id.0 as usize])
                .copied()
                .collect();
            DevicePool::new(*context, info.memory_limit_bytes, &reach)
        })
        .collect::<Result<Vec<DevicePool>>>()?;
    let host_device = options.host_device_bytes.map(|memory_bytes| {
        let id = DeviceId(devices.len() as u32);
        devices.push(logical_device(id, memory_bytes));
        HostDevice { id, memory: HostMemory::new(memory_bytes) }
    });
    Ok(Machine::new(Cuda {
        host_device,
        events: contexts.iter().map(|context| EventPool::new(*context)).collect(),
        counters: CounterPool::new(contexts[0]),
        memory: Memory::new(contexts, pools, node_count),
        contexts: contexts.clone(),
        peers,
        info: MachineInfo {
            name: "cuda".into(),
            is_simulated: false,
            devices,
            node_count,
            pinned_memory_limit_bytes,
        },
        opened: Instant::now(),
    }))
}

/// PCI addresses of the CUDA devices in CUDA's order, which environment variables can change; none without a driver.
pub fn pci_addresses() -> Vec<String> {
    driver().map_or(Vec::new(), |driver| driver.devices.iter().map(pci_address).collect())
}

/// Copies that each CUDA device runs at once, in CUDA's order; none without a driver.
pub fn copy_engine_counts() -> Vec<u32> {
    let count = |context: &Context| {
        context.attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT).max(0) as u32
    };
    driver().map_or(Vec::new(), |driver| driver.devices.iter().map(count).collect())
}

/// Bytes of a device's memory that are free, and all of them, as the driver counts: what other processes hold and what
/// pools keep is not free.
///
/// # Errors
///
/// `Unsupported` without a driver, `InvalidInput` without such a device.
pub fn memory_info(device: DeviceId) -> Result<(u64, u64)> {
    let context = driver()?.devices.get(device.0 as usize);
    let context = context.ok_or_else(|| Error::invalid_input(format!("no {device}")))?;
    context.bind()?;
    let (mut free, mut total) = (0, 0);
    // SAFETY: both outlive the call; the context is current.
    let code = unsafe { sys::cuMemGetInfo_v2(&raw mut free, &raw mut total) };
    check(code, || format!("{device}: asking for its memory"))?;
    Ok((free as u64, total as u64))
}

#[derive(Debug)]
struct Cuda {
    info: MachineInfo,
    contexts: Vec<Context>,
    /// `peers[i][j]`: device i reaches the memory of device j.
    peers: Vec<Vec<bool>>,
    events: Vec<Arc<EventPool>>,
    counters: Arc<CounterPool>,
    memory: Memory,
    host_device: Option<HostDevice>,
    opened: Instant,
}

/// The host's cores as a device.
#[derive(Debug)]
struct HostDevice {
    id: DeviceId,
    memory: HostMemory,
}

impl Cuda {
    /// The memory of the host's cores as a device, if that is what `kind` is.
    fn host_device_memory(&self, kind: &MemoryKind) -> Option<&HostMemory> {
        let is_its = |host: &&HostDevice| *kind == MemoryKind::Device(host.id);
        self.host_device.as_ref().filter(is_its).map(|host| &host.memory)
    }
}

impl Backend for Cuda {
    fn info(&self) -> &MachineInfo {
        &self.info
    }

    fn allocate(&self, kind: &MemoryKind, bytes: usize) -> Result<RawMemory> {
        if let MemoryKind::Hybrid { device, .. } = kind
            && !self.contexts[device.0 as usize].maps_host_pages()
        {
            return Err(Error::unsupported(format!("{device} cannot map host pages into an address range")));
        }
        match self.host_device_memory(kind) {
            Some(host) => host.allocate(kind, bytes),
            None => self.memory.allocate(kind, bytes),
        }
    }

    fn release(&self, kind: &MemoryKind, memory: RawMemory) {
        match self.host_device_memory(kind) {
            Some(host) => host.release(kind, memory),
            None => self.memory.release(kind, memory),
        }
    }

    fn page_lock(&self, address: u64, bytes: usize) -> Result<()> {
        if let Some(without) = self.info.devices.iter().find(|device| !device.capabilities.host_register) {
            return Err(Error::unsupported(format!("{} cannot page-lock existing host memory", without.id)));
        }
        page_lock(&self.contexts[0], address, bytes)
    }

    fn page_unlock(&self, address: u64, _bytes: usize) {
        page_unlock(&self.contexts[0], address);
    }

    fn limit_idle_pinned(&self, bytes: u64, evicts: bool) {
        self.memory.limit_idle_pinned(bytes, evicts);
    }

    fn create_stream(&self, place: Place) -> Result<Box<dyn StreamBackend>> {
        match place {
            Place::Host(_) => Ok(Box::new(HostStream::new(Arc::clone(&self.counters), place)?)),
            Place::Device(device) if self.host_device.as_ref().is_some_and(|host| host.id == device) => {
                Ok(Box::new(HostStream::new(Arc::clone(&self.counters), place)?))
            }
            Place::Device(device) => {
                let index = device.0 as usize;
                let multiprocessors = self.info.devices[index].multiprocessors;
                let events = Arc::clone(&self.events[index]);
                Ok(Box::new(DeviceStream::new(self.contexts[index], multiprocessors, events)?))
            }
        }
    }

    fn is_peer(&self, device: DeviceId, peer: DeviceId) -> bool {
        let reached = self.peers.get(device.0 as usize).and_then(|reached| reached.get(peer.0 as usize));
        reached.copied().unwrap_or(false)
    }

    fn now(&self) -> Duration {
        self.opened.elapsed()
    }
}

fn enable_peers(contexts: &[Context]) -> Result<Vec<Vec<bool>>> {
    let reaches = |context: &Context| {
        contexts
            .iter()
            .map(|peer| if peer.id == context.id { Ok(false) } else { context.enable_peer(peer) })
            .collect::<Result<Vec<bool>>>()
    };
    contexts.iter().map(reaches).collect()
}

fn describe(context: &Context, options: &CudaOptions) -> Result<DeviceInfo> {
    use sys::CUdevice_attribute as Attribute;
    let (free, total) = memory_info(context.id)?;
    let free_limit = free.saturating_sub(DEVICE_RESERVE_BYTES);
    let number = |attribute| context.attribute(attribute).max(0) as u32;
    let has = |attribute| context.attribute(attribute) != 0;
    let pageable_access = match (
        has(Attribute::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS),
        has(Attribute::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES),
    ) {
        (false, _) => PageableAccess::None,
        (true, false) => PageableAccess::Software,
        (true, true) => PageableAccess::Hardware,
    };
    let pci_address = pci_address(context);
    Ok(DeviceInfo {
        id: context.id,
        name: name(context)?,
        kind: DeviceKind::Cuda {
            major: number(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
            minor: number(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
        },
        memory_bytes: total,
        memory_limit_bytes: options
            .device_memory_limit_bytes
            .map_or(free_limit, |limit| limit.min(free_limit)),
        multiprocessors: number(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
        l2_bytes: u64::from(number(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)),
        node: node_of(&pci_address),
        pci_address: Some(pci_address),
        capabilities: Capabilities {
            pageable_access,
            concurrent_managed: has(Attribute::CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS),
            host_register: has(Attribute::CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED),
            host_native_atomics: has(Attribute::CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED),
            virtual_memory: has(Attribute::CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED),
            copy_engines: number(Attribute::CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT),
        },
    })
}

fn name(context: &Context) -> Result<String> {
    let mut name = [0_i8; 128];
    // SAFETY: the buffer outlives the call and has the length said.
    let code = unsafe { sys::cuDeviceGetName(name.as_mut_ptr().cast(), name.len() as i32, context.device) };
    check(code, || format!("{}: asking for its name", context.id))?;
    let bytes: Vec<u8> = name.iter().take_while(|byte| **byte != 0).map(|byte| *byte as u8).collect();
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn pci_address(context: &Context) -> String {
    use sys::CUdevice_attribute as Attribute;
    format!(
        "{:04x}:{:02x}:{:02x}.0",
        context.attribute(Attribute::CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID),
        context.attribute(Attribute::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID),
        context.attribute(Attribute::CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID)
    )
}

/// The node of a PCI device; machines with one node often say -1.
fn node_of(pci_address: &str) -> NodeId {
    let path = format!("/sys/bus/pci/devices/{pci_address}/numa_node");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    NodeId(text.trim().parse().unwrap_or(0))
}

fn count_nodes() -> u32 {
    let exists = |node: &u32| Path::new(&format!("/sys/devices/system/node/node{node}")).exists();
    (0..).take_while(exists).count().max(1) as u32
}

/// Memory that this process may use: the machine's, or the limit of its control group if that is less.
fn host_memory_bytes() -> u64 {
    let mem_info = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = mem_info
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))
        .and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse::<u64>().ok())
        .map_or(8 << 30, |kib| kib << 10);
    let limit = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"]
        .iter()
        .find_map(|path| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok());
    limit.map_or(total, |limit| limit.min(total))
}
