//! Routes: chains of links from one place to another, and how long bytes take over them.
//!
//! ```text
//!   gpu0 ── switch0 ── node0 ══ node1 ── switch1 ── gpu2       staged: the host's memory is in between
//!   gpu0 ┄┄┄┄┄┄┄┄┄┄┄┄ gpu1 ┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄ gpu2       over NVLink, if somebody forwards on gpu1
//! ```
//!
//! A copy engine or driver takes the [`direct_route`], which never crosses another device; a router that forwards
//! packets chooses among all [`routes`]. The time of a transfer alone is the sum of the latencies and the bytes over
//! the slowest link at that size; what several transfers do to each other is the simulator's business.

use std::cmp::Ordering;
use std::time::Duration;

use crate::size_curve::SizeCurve;
use crate::topology::{LinkKind, Topology, Vertex};

/// What of the slowest link remains for a copy between devices that the driver stages in host memory.
///
/// Multi-GPU sorting (Maltenberger et al. 2022, section 4.3) measures 9 GB/s over PCIe links of 12.5 (0.72), and
/// 33 GB/s over an X-Bus of 41 (0.81). This lies between.
pub const STAGING_EFFICIENCY: f64 = 0.78;

/// Routes are compared at this size where the caller names none: large enough for bandwidth to decide.
const TYPICAL_BYTES: u64 = 64 << 20;

/// One link of a route, in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hop {
    /// The link, by its place in [`Topology::links`].
    pub link: usize,
    /// True from the link's end `a` to its end `b`.
    pub is_forward: bool,
}

/// A chain of links without loops.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    vertices: Vec<Vertex>,
    hops: Vec<Hop>,
}

impl Route {
    /// From its beginning to its end, both included.
    pub fn vertices(&self) -> &[Vertex] {
        &self.vertices
    }

    /// Its links, one fewer than its vertices.
    pub fn hops(&self) -> &[Hop] {
        &self.hops
    }

    /// The vertices between beginning and end.
    pub fn intermediates(&self) -> &[Vertex] {
        self.vertices.get(1..self.vertices.len() - 1).unwrap_or(&[])
    }

    /// True if it goes from device to device through a host node: bytes rest in the host's memory on their way.
    pub fn is_staged(&self) -> bool {
        let ends = [self.vertices.first(), self.vertices.last()];
        let joins_devices = ends.iter().all(|end| matches!(end, Some(Vertex::Device(_))));
        joins_devices && self.staging_node().is_some()
    }

    /// The first host node between its ends.
    pub fn staging_node(&self) -> Option<u32> {
        self.intermediates().iter().find_map(|vertex| match vertex {
            Vertex::Node(node) => Some(*node),
            _ => None,
        })
    }

    /// True if two devices reach each other's memory over it: nothing but switches of the machine is in between.
    pub fn is_peer(&self, topology: &Topology) -> bool {
        let is_inside = |hop: &Hop| {
            let kind = topology.links[hop.link].kind;
            !matches!(kind, LinkKind::Network | LinkKind::Attachment)
        };
        self.intermediates().iter().all(|vertex| matches!(vertex, Vertex::Switch(_)))
            && self.hops.iter().all(is_inside)
    }

    /// Links that both routes cross, in whichever direction: transfers over both slow each other down there.
    pub fn shared_links(&self, other: &Route) -> Vec<usize> {
        let theirs = |link: usize| other.hops.iter().any(|hop| hop.link == link);
        self.hops.iter().map(|hop| hop.link).filter(|link| theirs(*link)).collect()
    }

    /// Time before the first byte arrives, seconds.
    pub fn latency_s(&self, topology: &Topology) -> f64 {
        self.hops.iter().map(|hop| topology.links[hop.link].latency_s).sum()
    }

    /// B_E of the slowest link at this size, bytes per second; staging is not counted.
    pub fn bytes_per_s(&self, topology: &Topology, bytes: u64) -> f64 {
        let slowest = |rate: f64, hop: &Hop| {
            rate.min(SizeCurve::of(&topology.links[hop.link], hop.is_forward).bytes_per_s(bytes))
        };
        self.hops.iter().fold(f64::INFINITY, slowest)
    }

    /// Time of a transfer of `bytes` that is alone on the machine.
    pub fn predict(&self, topology: &Topology, bytes: u64) -> Duration {
        if self.hops.is_empty() {
            return Duration::ZERO;
        }
        let efficiency = if self.is_staged() { STAGING_EFFICIENCY } else { 1.0 };
        let rate = self.bytes_per_s(topology, bytes) * efficiency;
        Duration::from_secs_f64(self.latency_s(topology) + bytes as f64 / rate)
    }
}

/// All routes without loops from `from` to `to` with at most `max_intermediates` vertices in between.
///
/// They come by number of hops, then by the vertices. There are none between vertices that the machine lacks.
pub fn routes(topology: &Topology, from: Vertex, to: Vertex, max_intermediates: usize) -> Vec<Route> {
    let mut found = search(topology, from, to, max_intermediates, &|_| true);
    found.sort_by(by_hops);
    found
}

/// The route that a transfer of `bytes` takes the least time over; fewer hops, then smaller numbers, break ties.
pub fn best_route(
    topology: &Topology,
    from: Vertex,
    to: Vertex,
    max_intermediates: usize,
    bytes: u64,
) -> Option<Route> {
    let time = |route: &Route| route.predict(topology, bytes);
    let routes = routes(topology, from, to, max_intermediates);
    routes.into_iter().min_by(|one, other| time(one).cmp(&time(other)))
}

/// The route that a copy takes by itself: around other devices, and around host memory if there is a way.
pub fn direct_route(topology: &Topology, from: Vertex, to: Vertex) -> Option<Route> {
    let passes = |vertex| matches!(vertex, Vertex::Switch(_) | Vertex::Node(_) | Vertex::Nic(_));
    let rank = |route: &Route| {
        let nodes = route.intermediates().iter().filter(|vertex| matches!(vertex, Vertex::Node(_))).count();
        (nodes, route.predict(topology, TYPICAL_BYTES))
    };
    let found = search(topology, from, to, usize::MAX, &passes);
    found.into_iter().min_by(|one, other| rank(one).cmp(&rank(other)).then_with(|| by_hops(one, other)))
}

fn by_hops(one: &Route, other: &Route) -> Ordering {
    one.hops.len().cmp(&other.hops.len()).then_with(|| one.vertices.cmp(&other.vertices))
}

fn search(
    topology: &Topology,
    from: Vertex,
    to: Vertex,
    max_intermediates: usize,
    passes: &dyn Fn(Vertex) -> bool,
) -> Vec<Route> {
    let mut found = Vec::new();
    if topology.contains(from) && topology.contains(to) {
        let mut route = Route { vertices: vec![from], hops: Vec::new() };
        extend(topology, to, max_intermediates, passes, &mut route, &mut found);
    }
    found
}

/// Depth first: `route` is extended by every link that leads somewhere new.
fn extend(
    topology: &Topology,
    to: Vertex,
    intermediates_left: usize,
    passes: &dyn Fn(Vertex) -> bool,
    route: &mut Route,
    found: &mut Vec<Route>,
) {
    let at = route.vertices[route.vertices.len() - 1];
    if at == to {
        found.push(route.clone());
        return;
    }
    for (link_index, link) in topology.links_of(at) {
        let next = if link.a == at { link.b } else { link.a };
        let may_pass = next == to || (intermediates_left > 0 && passes(next));
        if route.vertices.contains(&next) || !may_pass {
            continue;
        }
        route.vertices.push(next);
        route.hops.push(Hop { link: link_index, is_forward: link.a == at });
        extend(topology, to, intermediates_left.saturating_sub(1), passes, route, found);
        route.vertices.pop();
        route.hops.pop();
    }
}
