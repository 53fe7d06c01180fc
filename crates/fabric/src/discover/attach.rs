//! Hangs GPUs, storage devices and network cards on their nodes, through the PCIe switches between them.
//!
//! A bridge that more than one of them lies below is a switch: they share its uplink. Of a row of bridges above the
//! same devices (root port, upstream port) the lowest stands for all.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Link, LinkKind, Switch, Vertex};

use super::capacity::{self, Capacity};
use super::facts::PcieLink;
use super::pci::{self, Endpoint};
use super::tree::Tree;

/// Something to hang on a node.
#[derive(Debug)]
pub(crate) struct Leaf {
    pub(crate) vertex: Vertex,
    /// The node at the top.
    pub(crate) node: u32,
    /// Where it is in the PCI tree, if it is in it.
    pub(crate) endpoint: Option<Endpoint>,
    /// Its link as its driver states it; what bridges of virtual machines say of themselves is not asked then.
    pub(crate) stated_link: Option<PcieLink>,
    /// What it is known not to exceed, bytes per second in each direction.
    pub(crate) limit_bytes_per_s: Option<f64>,
}

/// Switches and the links that lead to every leaf.
pub(crate) fn attach(tree: &Tree, leaves: &[Leaf]) -> (Vec<Switch>, Vec<Link>) {
    let mut plan = Plan::default();
    let members = members_of_bridges(leaves);
    for leaf in leaves {
        plan.hang(tree, leaf, leaves, &members);
    }
    (plan.switches, plan.links)
}

/// The leaves below each bridge.
type Members<'a> = BTreeMap<&'a str, BTreeSet<usize>>;

fn members_of_bridges(leaves: &[Leaf]) -> Members<'_> {
    let mut members = Members::new();
    for (index, leaf) in leaves.iter().enumerate() {
        for bridge in leaf.endpoint.iter().flat_map(|endpoint| &endpoint.bridges) {
            members.entry(bridge).or_default().insert(index);
        }
    }
    members
}

#[derive(Default)]
struct Plan {
    switches: Vec<Switch>,
    links: Vec<Link>,
}

impl Plan {
    /// Walks from the node down to `leaf`, adding what is not there yet.
    fn hang(&mut self, tree: &Tree, leaf: &Leaf, leaves: &[Leaf], members: &Members<'_>) {
        let mut upper = Vertex::Node(leaf.node);
        let mut section = None;
        let bridges: &[String] = leaf.endpoint.as_ref().map_or(&[], |endpoint| &endpoint.bridges);
        for (index, bridge) in bridges.iter().enumerate() {
            section = narrower(section, pci::link_of(tree, bridge));
            let below = bridges.get(index + 1).map(|next| &members[next.as_str()]);
            let here = &members[bridge.as_str()];
            if here.len() > 1 && below != Some(here) {
                let uplink = section.or_else(|| widest(here.iter().map(|&index| &leaves[index])));
                upper = self.switch_below(upper, bridge, uplink);
                section = None;
            }
        }
        let own = leaf.endpoint.as_ref().and_then(|endpoint| endpoint.link);
        // A device without a link of its own (virtual, integrated) is not made faster by the bridge above it.
        let link = leaf.stated_link.or_else(|| own.and_then(|own| narrower(Some(own), section)));
        self.join(upper, leaf.vertex, link, leaf.limit_bytes_per_s);
    }

    fn switch_below(&mut self, upper: Vertex, bridge: &str, uplink: Option<PcieLink>) -> Vertex {
        if let Some(index) = self.switches.iter().position(|switch| switch.name == bridge) {
            return Vertex::Switch(index as u32);
        }
        let vertex = Vertex::Switch(self.switches.len() as u32);
        self.switches.push(Switch { name: bridge.to_string() });
        self.join(upper, vertex, uplink, None);
        vertex
    }

    fn join(&mut self, upper: Vertex, lower: Vertex, link: Option<PcieLink>, limit: Option<f64>) {
        let is_gpu = matches!(lower, Vertex::Device(_));
        let (kind, capacity) = match link.or(is_gpu.then_some(capacity::UNKNOWN_GPU_PCIE)) {
            Some(link) => (pcie(link), capacity::of_pcie(link).capped(limit)),
            None => (LinkKind::Attachment, unknown(limit)),
        };
        self.links.push(capacity::link(upper, lower, kind, capacity));
    }
}

/// Where the link is not known, what the device is known not to exceed is the better guess.
fn unknown(limit: Option<f64>) -> Capacity {
    limit.map_or(capacity::UNKNOWN_ATTACHMENT, |limit| Capacity { one_way: limit, both_ways: 2.0 * limit })
}

fn pcie(link: PcieLink) -> LinkKind {
    LinkKind::Pcie { generation: link.generation, width: link.width }
}

fn narrower(a: Option<PcieLink>, b: Option<PcieLink>) -> Option<PcieLink> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.narrower(b)),
        (a, b) => a.or(b),
    }
}

/// The fastest link among these: an uplink that says nothing of itself is taken to be no slower.
fn widest<'a>(leaves: impl Iterator<Item = &'a Leaf>) -> Option<PcieLink> {
    leaves
        .filter_map(|leaf| leaf.stated_link.or(leaf.endpoint.as_ref()?.link))
        .max_by(|a, b| capacity::of_pcie(*a).one_way.total_cmp(&capacity::of_pcie(*b).one_way))
}
