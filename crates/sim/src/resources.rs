//! What flows share: each direction of each link, both together, and the memories.
//!
//! ```text
//!   link i      3i forward    3i+1 backward    3i+2 both directions
//!   then        one for each node's memory, one for each device's
//! ```
//!
//! Memory is charged by time: reading a byte costs 1 unit of a node's capacity, writing one
//! `memory_bytes_per_s / memory_write_bytes_per_s` units. DMA and cores draw on it alike.

use std::collections::HashMap;

use pelton_device::{Access, DeviceId, NodeId, Place};

use pelton_fabric::{Hop, LinkKind, Route, SizeCurve, Topology, Vertex, direct_route};

use crate::options::{AccessRates, SimOptions};
use crate::share::Use;

/// Bytes that a memory or link moves at least for one random access.
const SECTOR_BYTES: f64 = 32.0;

/// What is done to a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Touch {
    Read,
    Write,
}

/// Capacities, and routes between all places.
#[derive(Debug)]
pub(super) struct Resources {
    pub(super) topology: Topology,
    pub(super) capacities: Vec<f64>,
    routes: HashMap<(Place, Place), Route>,
    curves: Vec<[SizeCurve; 2]>,
    random: AccessRates,
    staging_efficiency: f64,
}

/// The use of `hop`'s direction of its link.
pub(super) fn direction_of(hop: Hop) -> usize {
    3 * hop.link + usize::from(!hop.is_forward)
}

/// The use of both directions of a link.
pub(super) fn duplex_of(hop: Hop) -> usize {
    3 * hop.link + 2
}

impl Resources {
    pub(super) fn new(topology: &Topology, options: &SimOptions) -> Self {
        let mut capacities = Vec::new();
        for link in &topology.links {
            capacities.extend([link.forward_bytes_per_s, link.backward_bytes_per_s, link.duplex_bytes_per_s]);
        }
        capacities.extend(topology.nodes.iter().map(|node| node.memory_bytes_per_s));
        capacities.extend(topology.devices.iter().map(|device| device.memory_bytes_per_s));
        capacities.extend(topology.nodes.iter().map(|_| options.pageable_bytes_per_s));
        Self {
            capacities,
            routes: all_routes(topology),
            curves: topology
                .links
                .iter()
                .map(|link| [true, false].map(|way| SizeCurve::of(link, way)))
                .collect(),
            random: options.random,
            staging_efficiency: options.staging_efficiency,
            topology: topology.clone(),
        }
    }

    /// What the driver's own copying from and to pageable memory of a node takes: all its copies share one rate.
    pub(super) fn bounced(&self, NodeId(node): NodeId, uses: &mut Vec<Use>) {
        let before = 3 * self.topology.links.len() + self.topology.nodes.len() + self.topology.devices.len();
        add(uses, before + node as usize, 1.0);
    }

    /// How bytes get from one place to another; nothing if no links lead there.
    pub(super) fn route(&self, from: Place, to: Place) -> Option<&Route> {
        self.routes.get(&(from, to))
    }

    /// B_E of the slowest link, bytes per second.
    pub(super) fn bytes_per_s(&self, route: &Route, bytes: u64) -> f64 {
        let slowest = |rate: f64, hop: &Hop| {
            rate.min(self.curves[hop.link][usize::from(!hop.is_forward)].bytes_per_s(bytes))
        };
        route.hops().iter().fold(f64::INFINITY, slowest)
    }

    /// What one byte over `route` takes of its links, and of the memory where it is staged.
    pub(super) fn along(&self, route: &Route, access: Access, uses: &mut Vec<Use>) {
        let share = if route.is_staged() { self.staging_efficiency } else { 1.0 };
        for hop in route.hops() {
            let (resource, kind) = (direction_of(*hop), self.topology.links[hop.link].kind);
            let weight = self.weight(resource, self.link_accesses_per_s(kind), access) / share;
            add(uses, resource, weight);
            add(uses, duplex_of(*hop), weight);
        }
        if let (true, Some(node)) = (route.is_staged(), route.staging_node()) {
            let place = Place::Host(NodeId(node));
            self.at(place, Touch::Write, Access::Sequential, uses);
            self.at(place, Touch::Read, Access::Sequential, uses);
        }
    }

    /// What touching one byte takes of the memory of `place`.
    pub(super) fn at(&self, place: Place, touch: Touch, access: Access, uses: &mut Vec<Use>) {
        let links = 3 * self.topology.links.len();
        match place {
            Place::Host(NodeId(id)) => {
                let node = &self.topology.nodes[id as usize];
                let cost = match touch {
                    Touch::Read => 1.0,
                    Touch::Write => node.memory_bytes_per_s / node.memory_write_bytes_per_s,
                };
                let resource = links + id as usize;
                add(uses, resource, cost * self.weight(resource, self.random.host_memory, access));
            }
            Place::Device(DeviceId(id)) => {
                let resource = links + self.topology.nodes.len() + id as usize;
                add(uses, resource, self.weight(resource, self.random.device_memory, access));
            }
        }
    }

    /// Units per byte: chosen such that the resource is full at its rate of random accesses, one if in sequence.
    fn weight(&self, resource: usize, accesses_per_s: f64, access: Access) -> f64 {
        match access {
            Access::Sequential => 1.0,
            Access::Random { width_bytes } => {
                let width = f64::from(width_bytes.max(1));
                (self.capacities[resource] / (accesses_per_s * width)).max(SECTOR_BYTES / width).max(1.0)
            }
        }
    }

    fn link_accesses_per_s(&self, kind: LinkKind) -> f64 {
        match kind {
            LinkKind::Pcie { .. } | LinkKind::Attachment => self.random.pcie,
            LinkKind::NvLink { .. } => self.random.nvlink,
            LinkKind::Socket => self.random.socket,
            LinkKind::Network => self.random.network,
        }
    }
}

/// A resource stands once in the list, so that sharing counts it once.
fn add(uses: &mut Vec<Use>, resource: usize, weight: f64) {
    match uses.iter_mut().find(|used| used.resource == resource) {
        Some(used) => used.weight += weight,
        None => uses.push(Use { resource, weight }),
    }
}

fn all_routes(topology: &Topology) -> HashMap<(Place, Place), Route> {
    let nodes = topology.nodes.iter().map(|node| Place::Host(NodeId(node.id)));
    let devices = topology.devices.iter().map(|device| Place::Device(DeviceId(device.id)));
    let places: Vec<Place> = nodes.chain(devices).collect();
    let mut routes = HashMap::new();
    for from in &places {
        for to in places.iter().filter(|to| *to != from) {
            if let Some(route) = direct_route(topology, Vertex::from(*from), Vertex::from(*to)) {
                routes.insert((*from, *to), route);
            }
        }
    }
    routes
}
