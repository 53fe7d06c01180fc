//! Finds out what this machine is made of.
//!
//! ```text
//!   /sys, /proc ──► host nodes, sockets ──┐
//!   NVML ──► GPUs, NVLinks ───────────────┼──► topology, notes on what is not known
//!   /sys ──► PCI tree, storage, network ──┘
//! ```
//!
//! Whatever cannot be read is left out or assumed, and noted; only a machine without memory is an error. Capacities
//! are estimates (`capacity.rs`) until somebody measures. Takes milliseconds, and what a driver takes to wake up.

mod attach;
mod capacity;
mod facts;
mod fingerprint;
mod host;
mod network;
mod nvlink;
mod nvml;
mod pci;
mod storage;
pub(crate) mod tree;

use std::path::PathBuf;

use pelton_error::{Error, Result};

use crate::{DeviceVertex, Origin, Topology, Vertex};

use attach::Leaf;
use tree::Tree;

pub use facts::{GpuFact, GpuFacts, NvLinkFact, PcieLink};
pub use fingerprint::fingerprint;

/// Where to look.
#[derive(Debug, Clone)]
pub struct Sources {
    /// Directory that holds `sys` and `proc`: `/`, or a recorded copy.
    pub root: PathBuf,
    /// Who knows about GPUs.
    pub gpus: GpuSource,
    /// PCI addresses in the order in which devices are numbered; GPUs that are not named are left out. Empty: all, in
    /// the order of the management library, which need not be CUDA's.
    pub device_addresses: Vec<String>,
}

impl Default for Sources {
    fn default() -> Self {
        Self { root: PathBuf::from("/"), gpus: GpuSource::Driver, device_addresses: Vec::new() }
    }
}

/// Who knows about GPUs.
#[derive(Debug, Clone, PartialEq)]
pub enum GpuSource {
    /// The management library of NVIDIA's driver, if there is one.
    Driver,
    /// These facts, such as those recorded on another machine.
    Given(GpuFacts),
}

/// A machine as found.
#[derive(Debug, Clone, PartialEq)]
pub struct Survey {
    /// What it is made of.
    pub topology: Topology,
    /// Version of the GPU driver, if there is one.
    pub driver_version: Option<String>,
    /// What could not be found out and was assumed, in sentences.
    pub notes: Vec<String>,
}

impl Survey {
    /// The name under which measurements of this machine are kept.
    pub fn fingerprint(&self) -> String {
        fingerprint(&self.topology, self.driver_version.as_deref())
    }
}

/// What this machine is made of.
///
/// # Errors
///
/// `Unsupported` if neither `sys` nor `proc` says how much memory there is.
pub fn discover(sources: &Sources) -> Result<Topology> {
    survey(sources).map(|survey| survey.topology)
}

/// What this machine is made of, and what is not known of it.
///
/// # Errors
///
/// `Unsupported` if neither `sys` nor `proc` says how much memory there is.
pub fn survey(sources: &Sources) -> Result<Survey> {
    let tree = Tree::new(&sources.root);
    let facts = match &sources.gpus {
        GpuSource::Driver => nvml::facts(),
        GpuSource::Given(facts) => facts.clone(),
    };
    let mut facts = numbered(facts, &sources.device_addresses);
    let device_nodes: Vec<u32> = facts.gpus.iter().filter_map(|gpu| gpu.memory_node).collect();
    let host = host::find(&tree, &device_nodes);
    if host.nodes.is_empty() {
        return Err(Error::unsupported(format!(
            "no host memory found under '{}': mount sysfs at sys and procfs at proc there",
            sources.root.display()
        )));
    }
    let mut topology = Topology {
        name: tree.text("proc/sys/kernel/hostname").unwrap_or_else(|| "this machine".to_string()),
        origin: Origin::Discovered,
        nodes: host.nodes,
        devices: Vec::new(),
        switches: Vec::new(),
        storages: Vec::new(),
        nics: Vec::new(),
        links: host.links,
    };
    let mut notes = std::mem::take(&mut facts.notes);
    for (index, system_id) in host.system_ids.iter().enumerate().filter(|(index, id)| *index != **id as usize)
    {
        notes.push(format!("node{index} is what the operating system calls node {system_id}"));
    }
    let mut nodes = NodeNames { system_ids: host.system_ids, notes };
    attach_all(&tree, &facts, &mut topology, &mut nodes);
    Ok(Survey { topology, driver_version: facts.driver_version, notes: nodes.notes })
}

/// Puts the GPUs into the order of `addresses`.
fn numbered(facts: GpuFacts, addresses: &[String]) -> GpuFacts {
    if addresses.is_empty() {
        return facts;
    }
    let place_of = |address: &String| {
        let address = pci::normal_address(address)?;
        facts.gpus.iter().position(|gpu| gpu.pci_address.as_deref() == Some(address.as_str()))
    };
    let mut notes = facts.notes.clone();
    let mut order = Vec::new();
    for address in addresses {
        match place_of(address) {
            Some(place) => order.push(place),
            None => notes.push(format!("no GPU at '{address}'; it is left out")),
        }
    }
    let renumbered = |old: usize| order.iter().position(|&place| place == old);
    let peers = facts.nvlink_peers.iter();
    GpuFacts {
        gpus: order.iter().map(|&place| facts.gpus[place].clone()).collect(),
        nvlink_peers: peers.filter_map(|&(a, b)| Some((renumbered(a)?, renumbered(b)?))).collect(),
        driver_version: facts.driver_version.clone(),
        notes,
    }
}

/// Which node a device is of, and what had to be assumed on the way.
struct NodeNames {
    system_ids: Vec<u32>,
    notes: Vec<String>,
}

impl NodeNames {
    /// The first node, with a note, where the firmware of a machine of several does not say.
    fn node_of(&mut self, endpoint: Option<&pci::Endpoint>, name: &str) -> u32 {
        let stated = endpoint.and_then(|endpoint| endpoint.node);
        let index = stated.and_then(|stated| self.system_ids.iter().position(|&id| id == stated));
        if index.is_none() && self.system_ids.len() > 1 {
            self.notes.push(format!("{name}: its node is not known; node0 is assumed"));
        }
        index.unwrap_or(0) as u32
    }
}

/// Hangs GPUs, storage and network cards on the nodes that `topology` holds.
fn attach_all(tree: &Tree, facts: &GpuFacts, topology: &mut Topology, names: &mut NodeNames) {
    let mut leaves = gpu_leaves(tree, facts, topology, names);
    for (index, found) in storage::find(tree).into_iter().enumerate() {
        let vertex = Vertex::Storage(index as u32);
        let node = names.node_of(found.endpoint.as_ref(), &found.storage.name);
        topology.storages.push(found.storage);
        let (endpoint, limit_bytes_per_s) = (found.endpoint, found.limit_bytes_per_s);
        leaves.push(Leaf { vertex, node, endpoint, stated_link: None, limit_bytes_per_s });
    }
    for (index, found) in network::find(tree).into_iter().enumerate() {
        let vertex = Vertex::Nic(index as u32);
        let node = names.node_of(found.endpoint.as_ref(), &found.nic.name);
        topology.nics.push(found.nic);
        let (endpoint, limit_bytes_per_s) = (found.endpoint, found.limit_bytes_per_s);
        leaves.push(Leaf { vertex, node, endpoint, stated_link: None, limit_bytes_per_s });
    }
    let nvlinks = nvlink::bundle(tree, facts, &mut names.notes);
    // GPUs that NVLink joins to their node do not copy over PCIe.
    let host_linked = nvlinks.with_host_link();
    leaves.retain(|leaf| !matches!(leaf.vertex, Vertex::Device(id) if host_linked.contains(&(id as usize))));
    let (switches, links) = attach::attach(tree, &leaves);
    let nv_switch = Vertex::Switch(switches.len() as u32);
    topology.switches = switches;
    topology.switches.extend(nvlinks.switch());
    let nodes: Vec<u32> = topology.devices.iter().map(|device| device.node).collect();
    topology.links.extend(links);
    topology.links.extend(nvlinks.links(&nodes, nv_switch));
}

/// Enters the GPUs into `topology`; says where they hang.
fn gpu_leaves(tree: &Tree, facts: &GpuFacts, topology: &mut Topology, names: &mut NodeNames) -> Vec<Leaf> {
    let mut leaves = Vec::new();
    for (index, gpu) in facts.gpus.iter().enumerate() {
        let id = index as u32;
        let endpoint = gpu.pci_address.as_deref().and_then(|address| pci::at(tree, address));
        let node = names.node_of(endpoint.as_ref(), &format!("gpu{id}"));
        if gpu.pcie.is_none() && endpoint.as_ref().is_none_or(|endpoint| endpoint.link.is_none()) {
            names
                .notes
                .push(format!("gpu{id}: its PCIe link is not known; generation 3 with 16 lanes is assumed"));
        }
        topology.devices.push(DeviceVertex {
            id,
            name: gpu.name.clone(),
            node,
            memory_bytes: gpu.memory_bytes,
            memory_bytes_per_s: capacity::device_memory_bytes_per_s(gpu.memory_bytes_per_s),
            // One in each direction, which every GPU of a server has; the management library does not count them.
            copy_engine_count: 2,
            pci_address: gpu.pci_address.clone(),
        });
        let vertex = Vertex::Device(id);
        leaves.push(Leaf { vertex, node, endpoint, stated_link: gpu.pcie, limit_bytes_per_s: None });
    }
    leaves
}
