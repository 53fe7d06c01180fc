//! A machine in virtual time: the same streams, buffers and events as on CUDA, but every time is computed.
//!
//! ```text
//!   copy, prefetch, run          plan: which links and memories, how many bytes, at most how fast
//!        │                         │
//!        ▼                         ▼
//!     streams ─► copy engines ─► flows that share links and memories (max-min fair) ─► events, bytes
//! ```
//!
//! Flows share each direction of each link, both directions together, the memory of host nodes (DMA and cores alike)
//! and of devices. A transfer that is alone takes `latency + bytes / B_E(bytes)`. Nothing sleeps: `now` moves when
//! somebody waits, and the host itself takes no time but to lock pages. With one calling thread, the same calls give
//! the same times, to the bit; with several, what they enqueue depends on the scheduler, as on a real machine, except that
//! no thread of [`Machine::at_once`] is late.
//!
//! What is known to be missing: the time to launch a kernel, to allocate and to map memory; caches; translation
//! misses; a host core that moves bytes for a copy of pageable memory is not taken from anybody.
//!
//! The crate knows links and memories from a [`Topology`], wherever that comes from; it chooses no route for anybody,
//! cuts no transfer into chunks, and says of every machine that it is simulated.

#![deny(unsafe_code)]

mod backend;
mod engine;
#[allow(unsafe_code)]
mod memory;
mod operation;
mod options;
mod plan;
mod resources;
mod share;
mod shared;
mod usage;

use std::sync::Arc;

use pelton_device::{
    Capabilities, DeviceId, DeviceInfo, DeviceKind, Machine, MachineInfo, NodeId, PageableAccess,
};
use pelton_error::{Error, Result};
use pelton_fabric::{DeviceVertex, LinkKind, Topology, Vertex};

use crate::backend::SimBackend;
use crate::resources::Resources;
use crate::shared::Shared;

pub use options::{AccessRates, SimOptions};
pub use usage::LinkLoad;

/// Sees what crosses the links of a simulated machine.
#[derive(Clone)]
pub struct Probe {
    shared: Arc<Shared>,
}

impl Probe {
    /// What each link has carried up to now, in the order of [`Topology::links`].
    pub fn link_loads(&self) -> Vec<LinkLoad> {
        self.shared.with(|state| state.engine.usage.loads().to_vec())
    }
}

/// A machine of this topology in virtual time.
///
/// # Errors
///
/// `InvalidInput` if the topology or an option makes no sense.
pub fn machine(topology: &Topology, options: SimOptions) -> Result<Machine> {
    observed(topology, options).map(|(machine, _)| machine)
}

/// The same, and a probe to see its links by.
///
/// # Errors
///
/// As [`machine`].
pub fn observed(topology: &Topology, options: SimOptions) -> Result<(Machine, Probe)> {
    topology.validate()?;
    check_options(&options)?;
    let resources = Resources::new(topology, &options);
    let shared = Shared::new(machine_info(topology, options.scale), resources, options);
    Ok((Machine::new(SimBackend { shared: Arc::clone(&shared) }), Probe { shared }))
}

fn check_options(options: &SimOptions) -> Result<()> {
    let random = &options.random;
    let positive = [
        ("core_copy_bytes_per_s", options.core_copy_bytes_per_s),
        ("pageable_bytes_per_s", options.pageable_bytes_per_s),
        ("page_lock_bytes_per_s", options.page_lock_bytes_per_s),
        ("managed_fault_bytes_per_s", options.managed_fault_bytes_per_s),
        ("prefetch_efficiency", options.prefetch_efficiency),
        ("staging_efficiency", options.staging_efficiency),
        ("random.device_memory", random.device_memory),
        ("random.host_memory", random.host_memory),
        ("random.nvlink", random.nvlink),
        ("random.pcie", random.pcie),
        ("random.socket", random.socket),
        ("random.network", random.network),
        ("random.reads_per_write", random.reads_per_write),
        ("scale", options.scale),
    ];
    for (name, value) in positive.into_iter().chain(options.work_shares.iter().copied()) {
        if !(value.is_finite() && value > 0.0) {
            return Err(Error::invalid_input(format!("simulation: {name} is {value}; it is more than 0")));
        }
    }
    if !(options.jitter.is_finite() && options.jitter >= 0.0) {
        return Err(Error::invalid_input(format!(
            "simulation: jitter is {}; it is 0 or more",
            options.jitter
        )));
    }
    Ok(())
}

fn machine_info(topology: &Topology, scale: f64) -> MachineInfo {
    MachineInfo {
        name: topology.name.clone(),
        is_simulated: true,
        devices: topology.devices.iter().map(|device| device_info(topology, device, scale)).collect(),
        node_count: topology.nodes.len() as u32,
        pinned_memory_limit_bytes: topology.nodes.iter().map(|node| held(node.memory_bytes, scale)).sum(),
    }
}

/// What is held of a memory of so many bytes.
fn held(bytes: u64, scale: f64) -> u64 {
    (bytes as f64 / scale) as u64
}

fn device_info(topology: &Topology, device: &DeviceVertex, scale: f64) -> DeviceInfo {
    let (multiprocessors, l2_bytes) = processor(&device.name);
    // NVLink to the host is cache-coherent (Lutz et al. 2020, section 2.2): the host's page tables and atomics.
    let to_host = topology.link_between(Vertex::Node(device.node), Vertex::Device(device.id));
    let is_coherent =
        to_host.is_some_and(|link| matches!(topology.links[link].kind, LinkKind::NvLink { .. }));
    DeviceInfo {
        id: DeviceId(device.id),
        name: device.name.clone(),
        kind: DeviceKind::Simulated,
        memory_bytes: held(device.memory_bytes, scale),
        memory_limit_bytes: held(device.memory_bytes, scale),
        multiprocessors,
        l2_bytes,
        node: NodeId(device.node),
        pci_address: device.pci_address.clone(),
        capabilities: Capabilities {
            pageable_access: if is_coherent { PageableAccess::Hardware } else { PageableAccess::None },
            concurrent_managed: true,
            host_register: true,
            host_native_atomics: is_coherent,
            virtual_memory: true,
            copy_engines: device.copy_engine_count,
        },
    }
}

/// Multiprocessors and bytes of second-level cache by the vendor's name; those of a V100 for a name unknown.
fn processor(name: &str) -> (u32, u64) {
    let known = [("H200", 132, 60), ("H100", 132, 50), ("A100", 108, 40), ("V100", 80, 6)];
    let (_, multiprocessors, l2_mib) =
        known.into_iter().find(|(part, ..)| name.contains(part)).unwrap_or(known[3]);
    (multiprocessors, l2_mib << 20)
}
