//! Who hangs below whom in a drawing: under each node its switches, GPUs, storage and network cards.
//!
//! Only links that lead away from a node make the forest: PCIe, attachments, NVLinks of a processor. A switch that only
//! GPUs or the network lead to stays outside and is drawn at the bottom, as is every link between two GPUs.

use std::collections::{BTreeMap, VecDeque};

use crate::{LinkKind, Topology, Vertex};

/// Parents and children.
pub(super) struct Forest {
    /// The vertex above, and the link to it by its place.
    parents: BTreeMap<Vertex, (Vertex, usize)>,
    /// In the order in which they are drawn.
    children: BTreeMap<Vertex, Vec<Vertex>>,
}

impl Forest {
    pub(super) fn new(topology: &Topology) -> Self {
        let mut parents = BTreeMap::new();
        let mut children: BTreeMap<Vertex, Vec<Vertex>> = BTreeMap::new();
        let mut open: VecDeque<Vertex> = topology.nodes.iter().map(|node| Vertex::Node(node.id)).collect();
        while let Some(upper) = open.pop_front() {
            for (index, link) in topology.links_of(upper) {
                let Some(lower) = link.other_end(upper) else { continue };
                let leads_down = !matches!(link.kind, LinkKind::Socket | LinkKind::Network);
                if !leads_down || matches!(lower, Vertex::Node(_)) || parents.contains_key(&lower) {
                    continue;
                }
                parents.insert(lower, (upper, index));
                children.entry(upper).or_default().push(lower);
                if matches!(lower, Vertex::Switch(_)) {
                    open.push_back(lower);
                }
            }
        }
        let mut forest = Self { parents, children: BTreeMap::new() };
        for (upper, mut lower) in children.clone() {
            lower.sort_by_key(|&vertex| (first_device(&children, vertex), vertex));
            forest.children.insert(upper, lower);
        }
        forest
    }

    /// The vertex above, and the link to it by its place.
    pub(super) fn parent(&self, vertex: Vertex) -> Option<(Vertex, usize)> {
        self.parents.get(&vertex).copied()
    }

    /// What hangs directly below, in the order in which it is drawn: by its first GPU.
    pub(super) fn children(&self, vertex: Vertex) -> &[Vertex] {
        self.children.get(&vertex).map_or(&[], Vec::as_slice)
    }

    /// How many switches are above `vertex`, itself included.
    pub(super) fn depth(&self, vertex: Vertex) -> usize {
        match (vertex, self.parent(vertex)) {
            (Vertex::Switch(_), Some((upper, _))) => 1 + self.depth(upper),
            (_, Some((upper, _))) => self.depth(upper),
            _ => 0,
        }
    }
}

/// The first GPU at or below `vertex`; things without GPUs come after those with.
fn first_device(children: &BTreeMap<Vertex, Vec<Vertex>>, vertex: Vertex) -> u32 {
    match vertex {
        Vertex::Device(id) => id,
        _ => children
            .get(&vertex)
            .into_iter()
            .flatten()
            .map(|&lower| first_device(children, lower))
            .min()
            .unwrap_or(u32::MAX),
    }
}
