//! What a machine is made of: places, switches, storage, network cards, and the links between them.
//!
//! ```text
//!   node 0 ══ node 1            host memories, joined by the sockets' interconnect
//!     ║         ║
//!   switch    device 1          PCIe, directly or through switches; a switch's uplink is shared by what hangs on it
//!    ║  ║       ┊
//!  dev 0 dev 2┄┄┘               NVLinks, or an NVSwitch with one link to each device
//! ```
//!
//! A [`Link`] is a physical connection with its own capacity in each direction and in both at once. Two routes share
//! a link or they do not; nothing else is said about contention, and everything that is predicted follows from it.
//! The same structure is discovered on this machine, imported from JSON (`docs/specs/topology.md`), or taken from a
//! preset of a machine of the literature.

use std::fmt;

use pelton_device::{DeviceId, NodeId, Place};
use serde::{Deserialize, Serialize};

/// Bytes per second in the unit that papers and vendors use: 10^9.
pub const GB_PER_S: f64 = 1e9;

/// An end of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Vertex {
    /// Memory and cores of a host node.
    Node(u32),
    /// A device.
    Device(u32),
    /// A switch: PCIe or NVSwitch, by its place in [`Topology::switches`].
    Switch(u32),
    /// A storage device, by its place in [`Topology::storages`].
    Storage(u32),
    /// A network card, by its place in [`Topology::nics`].
    Nic(u32),
}

impl From<Place> for Vertex {
    fn from(place: Place) -> Self {
        match place {
            Place::Host(NodeId(node)) => Vertex::Node(node),
            Place::Device(DeviceId(device)) => Vertex::Device(device),
        }
    }
}

impl fmt::Display for Vertex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Vertex::Node(id) => write!(f, "node{id}"),
            Vertex::Device(id) => write!(f, "gpu{id}"),
            Vertex::Switch(id) => write!(f, "switch{id}"),
            Vertex::Storage(id) => write!(f, "storage{id}"),
            Vertex::Nic(id) => write!(f, "nic{id}"),
        }
    }
}

/// What a link is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkKind {
    /// PCI Express.
    Pcie {
        /// Generation, 1 to 6.
        generation: u32,
        /// Lanes.
        width: u32,
    },
    /// NVLink.
    NvLink {
        /// Physical links bundled into this one.
        count: u32,
    },
    /// Between sockets: QPI, UPI, X-Bus, Infinity Fabric.
    Socket,
    /// Between a storage device or network card and its node, where its PCIe link is not known.
    Attachment,
    /// Between machines.
    Network,
}

/// A physical connection. Capacities are what transfers reach, bytes per second, not what the signalling rate promises.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// One end.
    pub a: Vertex,
    /// The other end.
    pub b: Vertex,
    /// What it is.
    pub kind: LinkKind,
    /// From `a` to `b`.
    pub forward_bytes_per_s: f64,
    /// From `b` to `a`.
    pub backward_bytes_per_s: f64,
    /// Both directions at once, in all.
    pub duplex_bytes_per_s: f64,
    /// Time before the first byte arrives.
    pub latency_s: f64,
    /// Measured on this machine, or stated by a vendor, driver or paper.
    pub is_measured: bool,
}

/// Memory and cores of a host node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostNode {
    /// Its number.
    pub id: u32,
    /// Logical cores.
    pub core_count: u32,
    /// Memory.
    pub memory_bytes: u64,
    /// What all cores and all devices together may read and write.
    pub memory_bytes_per_s: f64,
}

/// A device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeviceVertex {
    /// Its number.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// The node that its host link leads to.
    pub node: u32,
    /// Its memory.
    pub memory_bytes: u64,
    /// Reading and writing together, in a copy within its memory.
    pub memory_bytes_per_s: f64,
    /// Copies that run at once.
    pub copy_engine_count: u32,
    /// PCI address such as `0000:1b:00.0`.
    pub pci_address: Option<String>,
}

/// A switch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Switch {
    /// PCI address of its upstream port, or "NVSwitch".
    pub name: String,
}

/// A storage device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Storage {
    /// Its kernel name, such as `nvme0n1`.
    pub name: String,
    /// Its vendor's name.
    pub model: String,
    /// Its size.
    pub bytes: u64,
    /// True if it speaks NVMe.
    pub is_nvme: bool,
}

/// A network card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nic {
    /// Its kernel name, such as `eth0`.
    pub name: String,
    /// True if it offers RDMA.
    pub has_rdma: bool,
}

/// Where a topology comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Found on this machine.
    Discovered,
    /// A machine of the literature.
    Preset,
    /// Read from a file.
    Imported,
}

/// A machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Topology {
    /// Its name.
    pub name: String,
    /// Where this comes from.
    pub origin: Origin,
    /// Host nodes, by number; at least one.
    pub nodes: Vec<HostNode>,
    /// Devices, by number.
    pub devices: Vec<DeviceVertex>,
    /// Switches.
    pub switches: Vec<Switch>,
    /// Storage devices.
    pub storages: Vec<Storage>,
    /// Network cards.
    pub nics: Vec<Nic>,
    /// Links.
    pub links: Vec<Link>,
}
