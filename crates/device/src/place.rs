//! Where work runs and where bytes lie: devices, host memory nodes, kinds of memory.

use std::fmt;

/// Number of a device within its machine, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceId(pub u32);

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "device {}", self.0)
    }
}

/// Number of a host memory (NUMA) node, as the operating system counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct NodeId(pub u32);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "host node {}", self.0)
    }
}

/// A processor with its own memory: the cores of a host node, or a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// Cores and memory of one host node.
    Host(NodeId),
    /// A device and its memory.
    Device(DeviceId),
}

impl Place {
    /// The first host node, on most machines the only one.
    pub const HOST: Place = Place::Host(NodeId(0));
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Host(node) => node.fmt(f),
            Place::Device(device) => device.fmt(f),
        }
    }
}

/// What kind of memory a buffer is made of (Lutz et al. 2020, Table 1, and its section 5.3).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum MemoryKind {
    /// Plain host memory. Devices reach it only where the machine offers pageable access.
    Pageable(NodeId),
    /// Page-locked host memory, mapped into the address space of every device.
    Pinned(NodeId),
    /// Memory of one device.
    Device(DeviceId),
    /// Managed (unified) memory: pages move to whoever touches them.
    Managed,
    /// One address range: the first `device_bytes` on `device`, the rest pinned on `node`.
    Hybrid {
        /// Whose memory comes first.
        device: DeviceId,
        /// How much of it, rounded down to whole pages.
        device_bytes: usize,
        /// Where the rest lies.
        node: NodeId,
    },
    /// One address range whose pages are dealt round-robin to these devices.
    Interleaved(Vec<DeviceId>),
}

impl MemoryKind {
    /// Pageable memory of the first host node.
    pub const PAGEABLE: MemoryKind = MemoryKind::Pageable(NodeId(0));
    /// Pinned memory of the first host node.
    pub const PINNED: MemoryKind = MemoryKind::Pinned(NodeId(0));

    /// True if the host's cores may load from and store to it.
    pub fn is_host_visible(&self) -> bool {
        matches!(self, MemoryKind::Pageable(_) | MemoryKind::Pinned(_) | MemoryKind::Managed)
    }

    /// The place whose memory it is, if it is of one place alone.
    pub fn home(&self) -> Option<Place> {
        match self {
            MemoryKind::Pageable(node) | MemoryKind::Pinned(node) => Some(Place::Host(*node)),
            MemoryKind::Device(device) => Some(Place::Device(*device)),
            MemoryKind::Managed | MemoryKind::Hybrid { .. } | MemoryKind::Interleaved(_) => None,
        }
    }
}

impl fmt::Display for MemoryKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MemoryKind::Pageable(node) => write!(f, "pageable memory of {node}"),
            MemoryKind::Pinned(node) => write!(f, "pinned memory of {node}"),
            MemoryKind::Device(device) => write!(f, "memory of {device}"),
            MemoryKind::Managed => f.write_str("managed memory"),
            MemoryKind::Hybrid { device, node, .. } => write!(f, "hybrid memory of {device} and {node}"),
            MemoryKind::Interleaved(devices) => {
                write!(f, "memory interleaved over {} devices", devices.len())
            }
        }
    }
}

/// How a device reaches pageable host memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageableAccess {
    /// It cannot.
    None,
    /// Through the driver's page faults (HMM).
    Software,
    /// Through the host's own page tables (ATS), cache-coherent.
    Hardware,
}

/// What a device can do. What it cannot do is refused by name, never emulated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    /// Access to pageable host memory.
    pub pageable_access: PageableAccess,
    /// Managed memory that host and device may touch at the same time, with prefetch.
    pub concurrent_managed: bool,
    /// Existing host memory can be page-locked.
    pub host_register: bool,
    /// Atomics on host memory are carried out by the link.
    pub host_native_atomics: bool,
    /// Address ranges can be put together from pages of several memories.
    pub virtual_memory: bool,
    /// Copies that can run at once in hardware.
    pub copy_engines: u32,
}

/// What executes a device's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceKind {
    /// A GPU behind the CUDA driver.
    Cuda {
        /// Compute capability, major.
        major: u32,
        /// Compute capability, minor.
        minor: u32,
    },
    /// Host memory and threads standing in for a device.
    Logical,
    /// Nothing executes it: its time is computed.
    Simulated,
}

/// A device as found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Its number.
    pub id: DeviceId,
    /// Name given by the vendor, or "logical device".
    pub name: String,
    /// What executes its work.
    pub kind: DeviceKind,
    /// All of its memory, bytes.
    pub memory_bytes: u64,
    /// What buffers may take of it, bytes.
    pub memory_limit_bytes: u64,
    /// Streaming multiprocessors, or threads of a logical device.
    pub multiprocessors: u32,
    /// Second-level cache, bytes.
    pub l2_bytes: u64,
    /// The host node its host link leads to.
    pub node: NodeId,
    /// PCI address such as `0000:1b:00.0`.
    pub pci_address: Option<String>,
    /// What it can do.
    pub capabilities: Capabilities,
}

/// A machine as its backend sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineInfo {
    /// "cuda", "host", or the name of a simulated preset.
    pub name: String,
    /// True if every time it reports is computed, not measured.
    pub is_simulated: bool,
    /// Its devices, by number.
    pub devices: Vec<DeviceInfo>,
    /// Host nodes, at least one.
    pub node_count: u32,
    /// Page-locked memory that buffers may take in all, bytes.
    pub pinned_memory_limit_bytes: u64,
}
