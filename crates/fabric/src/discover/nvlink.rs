//! NVLinks of GPUs, bundled by what is at their other ends.
//!
//! 1. Another GPU of this machine: one link for the pair.
//! 2. A bridge of NVIDIA: an NVSwitch, one link for each GPU.
//! 3. A bridge of IBM: the processor. That link takes the place of PCIe towards the host.
//! 4. Hidden, as in virtual machines: then the driver's word on which GPUs are peers over NVLink decides. Two peers
//!    are joined directly; more, if all are peers of all, through an NVSwitch; else the links of a GPU are shared out
//!    evenly among its peers. Both ways of joining two GPUs behind a switch transfer equally well.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Link, LinkKind, Switch, Vertex};

use super::capacity;
use super::facts::GpuFacts;
use super::pci;
use super::tree::Tree;

/// The NVLinks of each GPU, by place, bundled by their other ends.
#[derive(Debug)]
pub(crate) struct Bundles(Vec<BTreeMap<End, Bundle>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum End {
    Gpu(usize),
    Switch,
    Host,
    Hidden,
}

/// Links of one GPU that lead to the same end.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Bundle {
    count: u32,
    bytes_per_s: f64,
}

impl Bundle {
    fn add(&mut self, other: Bundle) {
        self.count += other.count;
        self.bytes_per_s += other.bytes_per_s;
    }

    fn share(self, of: u32) -> Bundle {
        let count = (self.count / of).max(1);
        Bundle { count, bytes_per_s: self.bytes_per_s / f64::from(self.count) * f64::from(count) }
    }

    fn smaller(self, other: Bundle) -> Bundle {
        if other.bytes_per_s < self.bytes_per_s { other } else { self }
    }
}

/// Bundles the links of all GPUs.
pub(crate) fn bundle(tree: &Tree, facts: &GpuFacts, notes: &mut Vec<String>) -> Bundles {
    let mut bundles: Vec<BTreeMap<End, Bundle>> = facts.gpus.iter().map(|_| BTreeMap::new()).collect();
    for (gpu, fact) in facts.gpus.iter().enumerate() {
        for link in &fact.nvlinks {
            let end = end_of(tree, facts, gpu, link.remote_address.as_deref());
            bundles[gpu].entry(end).or_default().add(Bundle { count: 1, bytes_per_s: link.bytes_per_s });
        }
    }
    resolve_hidden(&mut bundles, &facts.nvlink_peers, notes);
    Bundles(bundles)
}

fn end_of(tree: &Tree, facts: &GpuFacts, gpu: usize, address: Option<&str>) -> End {
    let Some(address) = address.and_then(pci::normal_address) else { return End::Hidden };
    let is_there = |fact: &super::facts::GpuFact| fact.pci_address.as_deref() == Some(address.as_str());
    if let Some(other) = facts.gpus.iter().position(is_there) {
        return if other == gpu { End::Hidden } else { End::Gpu(other) };
    }
    const NVIDIA: u32 = 0x10de;
    const IBM: u32 = 0x1014;
    const CLASS_OTHER_BRIDGE: u32 = 0x0680;
    match pci::vendor_and_class(tree, &address) {
        Some((NVIDIA, class)) if class >> 8 == CLASS_OTHER_BRIDGE => End::Switch,
        Some((IBM, _)) => End::Host,
        _ => End::Hidden,
    }
}

/// Replaces hidden ends by what the driver's peers make of them.
fn resolve_hidden(bundles: &mut [BTreeMap<End, Bundle>], peers: &[(usize, usize)], notes: &mut Vec<String>) {
    let hidden: Vec<usize> =
        (0..bundles.len()).filter(|&gpu| bundles[gpu].contains_key(&End::Hidden)).collect();
    let is_peer = |a: usize, b: usize| peers.contains(&(a, b)) || peers.contains(&(b, a));
    let peers_of =
        |gpu: usize| hidden.iter().copied().filter(move |&other| other != gpu && is_peer(gpu, other));
    let is_complete = hidden.iter().all(|&gpu| peers_of(gpu).count() + 1 == hidden.len());
    for &gpu in &hidden {
        let Some(bundle) = bundles[gpu].remove(&End::Hidden) else { continue };
        let peers: Vec<usize> = peers_of(gpu).collect();
        let said = match peers.len() {
            0 => "no GPU here is its peer, so they are left out".to_string(),
            count if is_complete && count > 1 => {
                bundles[gpu].entry(End::Switch).or_default().add(bundle);
                "all such GPUs are peers, so an NVSwitch is assumed".to_string()
            }
            count => {
                let share = bundle.share(count as u32);
                for &peer in &peers {
                    bundles[gpu].entry(End::Gpu(peer)).or_default().add(share);
                }
                format!("{count} of the GPUs here are its peers, and direct links to them are assumed")
            }
        };
        notes.push(format!("gpu{gpu}: the other ends of {} NVLinks are hidden; {said}", bundle.count));
    }
}

impl Bundles {
    /// GPUs, by place, that reach their node over NVLink.
    pub(crate) fn with_host_link(&self) -> BTreeSet<usize> {
        (0..self.0.len()).filter(|&gpu| self.0[gpu].contains_key(&End::Host)).collect()
    }

    /// The switch that all links to NVSwitches lead to, if there are any.
    pub(crate) fn switch(&self) -> Option<Switch> {
        let is_switched = self.0.iter().any(|ends| ends.contains_key(&End::Switch));
        is_switched.then(|| Switch { name: "NVSwitch".to_string() })
    }

    /// One link for each bundle; `nodes` says which node each GPU belongs to, `switch` which vertex is the NVSwitch.
    pub(crate) fn links(&self, nodes: &[u32], switch: Vertex) -> Vec<Link> {
        let ends = self
            .0
            .iter()
            .enumerate()
            .flat_map(|(gpu, ends)| ends.iter().map(move |(&end, &bundle)| (gpu, end, bundle)));
        ends.filter_map(|(gpu, end, bundle)| self.link(gpu, end, bundle, nodes, switch)).collect()
    }

    fn link(&self, gpu: usize, end: End, bundle: Bundle, nodes: &[u32], switch: Vertex) -> Option<Link> {
        let (other, bundle) = match end {
            End::Gpu(other) => match self.0[other].get(&End::Gpu(gpu)) {
                // The pair is added by its first GPU.
                Some(_) if other < gpu => return None,
                Some(&back) => (Vertex::Device(other as u32), bundle.smaller(back)),
                None => (Vertex::Device(other as u32), bundle),
            },
            End::Switch => (switch, bundle),
            End::Host => (Vertex::Node(nodes[gpu]), bundle),
            End::Hidden => unreachable!("hidden ends are resolved before"),
        };
        let kind = LinkKind::NvLink { count: bundle.count };
        Some(capacity::link(
            Vertex::Device(gpu as u32),
            other,
            kind,
            capacity::of_nvlinks(bundle.bytes_per_s),
        ))
    }
}
