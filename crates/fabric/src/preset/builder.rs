//! Puts a preset together, one part a line.

use crate::topology::{
    BandwidthAt, DeviceVertex, GB_PER_S, HostNode, Link, LinkKind, Nic, Origin, Switch, Topology, Vertex,
};

/// Time of a copy over PCIe before bytes flow.
///
/// On the H200 machine copies of 1 to 16 MiB take 2.8 us longer than their bytes at full rate (2026-11-21); for the
/// other machines it is a guess.
pub(super) const PCIE_LATENCY_S: f64 = 2.8e-6;

/// The same over NVLink: 2.6 us for copies of 64 KiB to 2 MiB.
pub(super) const NVLINK_LATENCY_S: f64 = 2.6e-6;

/// What a switch or a hop between sockets adds: a guess.
pub(super) const HOP_LATENCY_S: f64 = 0.5e-6;

/// A host node; rates in GB/s.
pub(super) struct Node {
    pub(super) core_count: u32,
    pub(super) memory_bytes: u64,
    pub(super) memory: f64,
    pub(super) memory_write: f64,
}

/// A device; rates in GB/s.
#[derive(Clone, Copy)]
pub(super) struct Gpu {
    pub(super) name: &'static str,
    pub(super) memory_bytes: u64,
    pub(super) memory: f64,
    pub(super) copy_engine_count: u32,
}

/// Rates of a link in GB/s: one direction, the other, both at once.
#[derive(Clone, Copy)]
pub(super) struct Rates(pub(super) f64, pub(super) f64, pub(super) f64);

impl Rates {
    /// The same both ways, each unaffected by the other.
    pub(super) fn full_duplex(rate: f64) -> Self {
        Rates(rate, rate, 2.0 * rate)
    }
}

/// A machine without parts.
pub(super) fn machine(name: &str) -> Topology {
    Topology {
        name: name.to_owned(),
        origin: Origin::Preset,
        nodes: Vec::new(),
        devices: Vec::new(),
        switches: Vec::new(),
        storages: Vec::new(),
        nics: Vec::new(),
        links: Vec::new(),
    }
}

impl Topology {
    pub(super) fn add_node(&mut self, node: Node) -> Vertex {
        let id = self.nodes.len() as u32;
        self.nodes.push(HostNode {
            id,
            core_count: node.core_count,
            memory_bytes: node.memory_bytes,
            memory_bytes_per_s: node.memory * GB_PER_S,
            memory_write_bytes_per_s: node.memory_write * GB_PER_S,
        });
        Vertex::Node(id)
    }

    pub(super) fn add_device(&mut self, node: Vertex, gpu: Gpu) -> Vertex {
        let Vertex::Node(node) = node else { panic!("a device is of a host node") };
        let id = self.devices.len() as u32;
        self.devices.push(DeviceVertex {
            id,
            name: gpu.name.to_owned(),
            node,
            memory_bytes: gpu.memory_bytes,
            memory_bytes_per_s: gpu.memory * GB_PER_S,
            copy_engine_count: gpu.copy_engine_count,
            pci_address: None,
        });
        Vertex::Device(id)
    }

    pub(super) fn add_switch(&mut self, name: &str) -> Vertex {
        self.switches.push(Switch { name: name.to_owned() });
        Vertex::Switch(self.switches.len() as u32 - 1)
    }

    pub(super) fn add_nic(&mut self, name: &str) -> Vertex {
        self.nics.push(Nic { name: name.to_owned(), has_rdma: true });
        Vertex::Nic(self.nics.len() as u32 - 1)
    }

    pub(super) fn add_link(&mut self, ends: (Vertex, Vertex), kind: LinkKind, rates: Rates, latency_s: f64) {
        self.links.push(Link {
            a: ends.0,
            b: ends.1,
            kind,
            forward_bytes_per_s: rates.0 * GB_PER_S,
            backward_bytes_per_s: rates.1 * GB_PER_S,
            duplex_bytes_per_s: rates.2 * GB_PER_S,
            latency_s,
            bandwidth_by_size: Vec::new(),
            is_measured: false,
        });
    }

    /// The link added last was measured: copies of the given size reach the given rate, latency included.
    pub(super) fn measure_last_link(&mut self, pieces: &[(u64, f64)]) {
        let link = self.links.last_mut().expect("a link was added");
        link.is_measured = true;
        link.bandwidth_by_size =
            pieces.iter().map(|&(bytes, rate)| BandwidthAt { bytes, bytes_per_s: rate * GB_PER_S }).collect();
    }
}
