//! Measured capacities into a topology.

use crate::route::direct_route;
use crate::topology::{Link, Topology, Vertex};

use super::{CopyRates, Profile};

impl Profile {
    /// `topology` with what was measured in place of what vendors state.
    ///
    /// What is measured is the way from end to end. It is put into the link at the device's end of the way: to the
    /// host that is the device's own PCIe link, whatever switches lie behind it; to a peer it is the NVLink, or its
    /// link to the NVSwitch.
    #[must_use]
    pub fn apply(&self, mut topology: Topology) -> Topology {
        for there in &self.copies {
            let back = self.copies_between(there.to, there.from);
            let (device, other) = match (there.from, there.to) {
                (Vertex::Device(_), _) => (there.from, there.to),
                _ => (there.to, there.from),
            };
            let is_own_node = match (device, other) {
                (Vertex::Device(id), Vertex::Node(node)) => {
                    topology.devices.get(id as usize).is_some_and(|device| device.node == node)
                }
                _ => there.is_direct,
            };
            let Some(index) = is_own_node.then(|| first_link(&topology, device, other)).flatten() else {
                continue;
            };
            put(&mut topology.links[index], device, there, back);
        }
        for host in &self.host {
            if let Some(node) = topology.nodes.get_mut(host.node as usize) {
                node.memory_bytes_per_s = host.read_bytes_per_s.max(host.copy_bytes_per_s);
                // Writes alone were not measured; what was assumed of them holds within what was.
                node.memory_write_bytes_per_s = node.memory_write_bytes_per_s.min(node.memory_bytes_per_s);
            }
        }
        topology
    }
}

/// The link by which the way from `device` to `other` begins.
fn first_link(topology: &Topology, device: Vertex, other: Vertex) -> Option<usize> {
    let route = direct_route(topology, device, other)?;
    let next = route.vertices().get(1)?;
    topology.link_between(device, *next)
}

fn put(link: &mut Link, device: Vertex, there: &CopyRates, back: Option<&CopyRates>) {
    let outward = if there.from == device { Some(there) } else { back };
    let inward = if there.from == device { back } else { Some(there) };
    let (forward, backward) = if link.a == device { (outward, inward) } else { (inward, outward) };
    if let Some(rates) = forward {
        link.forward_bytes_per_s = rates.peak_bytes_per_s();
        link.bandwidth_by_size.clone_from(&rates.by_size);
    }
    if let Some(rates) = backward {
        link.backward_bytes_per_s = rates.peak_bytes_per_s();
    }
    let least = link.forward_bytes_per_s.max(link.backward_bytes_per_s);
    link.duplex_bytes_per_s = there.duplex_bytes_per_s.max(least);
    link.latency_s = there.latency_s;
    link.is_measured = true;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preset;
    use crate::profile::HostRates;

    #[test]
    fn a_topology_stays_valid_whatever_was_measured_of_the_host() {
        let topology = preset("h200-x2").unwrap();
        for rate in [1e6, 1e9, 1e15] {
            let mut profile = Profile::new("abc".into(), false);
            profile.host.push(HostRates {
                node: 0,
                thread_count: 2,
                read_bytes_per_s: rate,
                copy_bytes_per_s: rate / 2.0,
            });
            let applied = profile.apply(topology.clone());
            applied.validate().unwrap();
            assert_eq!(applied.nodes[0].memory_bytes_per_s.to_bits(), f64::to_bits(rate));
        }
    }
}
