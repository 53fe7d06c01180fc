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
use pelton_error::{Error, Result};
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
#[serde(deny_unknown_fields)]
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
    /// What copies of a size reach one after another, latency included; empty where only the latency tells.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bandwidth_by_size: Vec<BandwidthAt>,
    /// Measured on this machine, or stated by a vendor, driver or paper.
    pub is_measured: bool,
}

/// A point of a measured curve: bandwidth by the size of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BandwidthAt {
    /// Size of one copy.
    pub bytes: u64,
    /// What copies of that size reach.
    pub bytes_per_s: f64,
}

impl Link {
    /// The end that is not `vertex`; nothing if `vertex` is no end of it.
    pub fn other_end(&self, vertex: Vertex) -> Option<Vertex> {
        if vertex == self.a { Some(self.b) } else { (vertex == self.b).then_some(self.a) }
    }

    /// Capacity in one direction, bytes per second.
    pub fn bytes_per_s(&self, is_forward: bool) -> f64 {
        if is_forward { self.forward_bytes_per_s } else { self.backward_bytes_per_s }
    }

    /// What messages call it.
    pub fn label(&self) -> String {
        format!("link {} - {}", self.a, self.b)
    }
}

/// Memory and cores of a host node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostNode {
    /// Its number.
    pub id: u32,
    /// Logical cores.
    pub core_count: u32,
    /// Memory.
    pub memory_bytes: u64,
    /// What all cores and all devices together may read and write.
    pub memory_bytes_per_s: f64,
    /// What they may write if nobody reads; a write takes more of the memory's time than a read.
    pub memory_write_bytes_per_s: f64,
}

/// A device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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
#[serde(deny_unknown_fields)]
pub struct Switch {
    /// PCI address of its upstream port, or "NVSwitch".
    pub name: String,
}

/// A storage device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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
#[serde(deny_unknown_fields)]
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
#[serde(deny_unknown_fields)]
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

impl Topology {
    /// The same machine as seen from another one: no link counts as measured, whoever measured it there.
    #[must_use]
    pub fn seen_from_elsewhere(mut self) -> Self {
        self.links.iter_mut().for_each(|link| link.is_measured = false);
        self
    }

    /// Reads the JSON form (`docs/specs/topology.md`).
    ///
    /// # Errors
    ///
    /// `InvalidInput` with line and column if it is not that form, or with the part that makes no sense.
    pub fn from_json(text: &str) -> Result<Self> {
        let topology: Topology = serde_json::from_str(text).map_err(|error| {
            Error::invalid_input("reading a topology from JSON; docs/specs/topology.md describes its fields")
                .with_source(error)
        })?;
        topology.validate()?;
        Ok(topology)
    }

    /// The JSON form.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("numbers, texts and lists have a JSON form")
    }

    /// True if the machine has `vertex`.
    pub fn contains(&self, vertex: Vertex) -> bool {
        let (id, count) = match vertex {
            Vertex::Node(id) => (id, self.nodes.len()),
            Vertex::Device(id) => (id, self.devices.len()),
            Vertex::Switch(id) => (id, self.switches.len()),
            Vertex::Storage(id) => (id, self.storages.len()),
            Vertex::Nic(id) => (id, self.nics.len()),
        };
        (id as usize) < count
    }

    /// The links that end at `vertex`, by their places in [`links`](Self::links).
    pub fn links_of(&self, vertex: Vertex) -> impl Iterator<Item = (usize, &Link)> {
        self.links.iter().enumerate().filter(move |(_, link)| link.other_end(vertex).is_some())
    }

    /// The link between two vertices, by its place in [`links`](Self::links).
    pub fn link_between(&self, one: Vertex, other: Vertex) -> Option<usize> {
        self.links.iter().position(|link| link.other_end(one) == Some(other))
    }

    /// Checks that it describes a machine: numbers in order, ends that exist, capacities that are positive.
    ///
    /// # Errors
    ///
    /// `InvalidInput` naming the first node, device or link that makes no sense.
    pub fn validate(&self) -> Result<()> {
        if self.nodes.is_empty() {
            return Err(Error::invalid_input(format!("topology '{}' has no host node; add one", self.name)));
        }
        self.validate_nodes()?;
        self.validate_devices()?;
        for (index, link) in self.links.iter().enumerate() {
            self.validate_link(link)?;
            let is_same = |other: &&Link| other.other_end(link.a) == Some(link.b);
            if let Some(other) = self.links[..index].iter().find(is_same) {
                return Err(Error::invalid_input(format!(
                    "{}: a second link beside {}; add their capacities up in one",
                    link.label(),
                    other.label()
                )));
            }
        }
        Ok(())
    }

    fn validate_nodes(&self) -> Result<()> {
        for (index, node) in self.nodes.iter().enumerate() {
            let name = format!("node{}", node.id);
            require_in_order(&name, node.id, index)?;
            require_positive(&name, "memory_bytes_per_s", node.memory_bytes_per_s)?;
            require_positive(&name, "memory_write_bytes_per_s", node.memory_write_bytes_per_s)?;
            if node.memory_write_bytes_per_s > node.memory_bytes_per_s {
                return Err(Error::invalid_input(format!(
                    "{name}: memory_write_bytes_per_s exceeds memory_bytes_per_s; writes are part of all access"
                )));
            }
        }
        Ok(())
    }

    fn validate_devices(&self) -> Result<()> {
        for (index, device) in self.devices.iter().enumerate() {
            let name = format!("gpu{}", device.id);
            require_in_order(&name, device.id, index)?;
            require_positive(&name, "memory_bytes_per_s", device.memory_bytes_per_s)?;
            if device.copy_engine_count == 0 {
                return Err(Error::invalid_input(format!("{name}: no copy engine; a device has at least 1")));
            }
            if !self.contains(Vertex::Node(device.node)) {
                return Err(Error::invalid_input(format!(
                    "{name}: is of node{}, which is missing",
                    device.node
                )));
            }
        }
        Ok(())
    }

    fn validate_link(&self, link: &Link) -> Result<()> {
        let label = link.label();
        for end in [link.a, link.b] {
            if !self.contains(end) {
                return Err(Error::invalid_input(format!("{label}: ends at {end}, which is missing")));
            }
        }
        if link.a == link.b {
            return Err(Error::invalid_input(format!("{label}: both ends are one; a link joins two")));
        }
        require_positive(&label, "forward_bytes_per_s", link.forward_bytes_per_s)?;
        require_positive(&label, "backward_bytes_per_s", link.backward_bytes_per_s)?;
        require_positive(&label, "duplex_bytes_per_s", link.duplex_bytes_per_s)?;
        if !(link.latency_s.is_finite() && link.latency_s >= 0.0) {
            return Err(Error::invalid_input(format!(
                "{label}: latency_s is {}; it is 0 or more",
                link.latency_s
            )));
        }
        for point in &link.bandwidth_by_size {
            require_positive(&label, "bytes_per_s of bandwidth_by_size", point.bytes_per_s)?;
            if point.bytes == 0 {
                return Err(Error::invalid_input(format!(
                    "{label}: bandwidth_by_size of 0 bytes; leave it out"
                )));
            }
        }
        Ok(())
    }
}

fn require_in_order(name: &str, id: u32, index: usize) -> Result<()> {
    if id as usize != index {
        return Err(Error::invalid_input(format!(
            "{name}: listed at place {index}; list them by number, from 0"
        )));
    }
    Ok(())
}

fn require_positive(name: &str, field: &str, value: f64) -> Result<()> {
    if !(value.is_finite() && value > 0.0) {
        return Err(Error::invalid_input(format!("{name}: {field} is {value}; it is more than 0")));
    }
    Ok(())
}
