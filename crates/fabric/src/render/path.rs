//! How two places are linked: over the fewest links, of such paths the widest.
//!
//! Bytes pass through switches and host memories; the driver sends nothing through a third device.

use std::collections::BTreeMap;

use crate::{Link, LinkKind, Topology, Vertex};

/// A path between two places.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Path<'a> {
    /// What is between the two.
    pub(super) inner: Vec<Vertex>,
    /// Links in order.
    pub(super) links: Vec<&'a Link>,
    /// The narrowest of them, in the direction of the path.
    pub(super) bytes_per_s: f64,
}

impl Path<'_> {
    /// True if every link of it was measured.
    pub(super) fn is_measured(&self) -> bool {
        self.links.iter().all(|link| link.is_measured)
    }

    /// What a reader wants to know of it in a word.
    pub(super) fn word(&self, topology: &Topology) -> String {
        if let [link] = self.links[..] {
            return super::kind_word(link.kind).replace("NVLink x", "NV").replace("PCIe", "P");
        }
        if self.links.iter().any(|link| link.kind == LinkKind::Network) {
            return "network".to_string();
        }
        if !self.inner.iter().all(|vertex| matches!(vertex, Vertex::Switch(_))) {
            return "host".to_string();
        }
        let is_nv = |vertex: &Vertex| matches!(vertex, Vertex::Switch(id) if is_nv_switch(topology, *id));
        if self.inner.iter().any(is_nv) { "NVSwitch" } else { "switch" }.to_string()
    }
}

/// True if NVLinks lead to the switch.
pub(super) fn is_nv_switch(topology: &Topology, id: u32) -> bool {
    topology.links_of(Vertex::Switch(id)).any(|(_, link)| matches!(link.kind, LinkKind::NvLink { .. }))
}

/// The path from `from` to `to`, if there is one.
pub(super) fn between(topology: &Topology, from: Vertex, to: Vertex) -> Option<Path<'_>> {
    let mut best: BTreeMap<Vertex, Path<'_>> = BTreeMap::new();
    let start = Path { inner: Vec::new(), links: Vec::new(), bytes_per_s: f64::INFINITY };
    let mut reached = BTreeMap::from([(from, start)]);
    // One more link in every round, until nothing new is reached.
    while !reached.is_empty() {
        if let Some(path) = reached.remove(&to) {
            return Some(path);
        }
        let mut next: BTreeMap<Vertex, Path<'_>> = BTreeMap::new();
        for (&vertex, path) in
            reached.iter().filter(|&(&vertex, _)| vertex == from || passes(topology, vertex))
        {
            for (_, link) in topology.links_of(vertex) {
                let Some(other) = link.other_end(vertex) else { continue };
                if best.contains_key(&other) || reached.contains_key(&other) {
                    continue;
                }
                let longer = extended(path, vertex, from, link);
                let is_wider = next.get(&other).is_none_or(|known| known.bytes_per_s < longer.bytes_per_s);
                if is_wider {
                    next.insert(other, longer);
                }
            }
        }
        best.append(&mut reached);
        reached = next;
    }
    None
}

fn extended<'a>(path: &Path<'a>, vertex: Vertex, from: Vertex, link: &'a Link) -> Path<'a> {
    let mut longer = path.clone();
    if vertex != from {
        longer.inner.push(vertex);
    }
    longer.links.push(link);
    longer.bytes_per_s = path.bytes_per_s.min(link.bytes_per_s(link.a == vertex));
    longer
}

/// Network cards pass bytes on to the network and from it.
fn passes(topology: &Topology, vertex: Vertex) -> bool {
    match vertex {
        Vertex::Node(_) | Vertex::Switch(_) => true,
        Vertex::Nic(_) => topology.links_of(vertex).any(|(_, link)| link.kind == LinkKind::Network),
        Vertex::Device(_) | Vertex::Storage(_) => false,
    }
}
