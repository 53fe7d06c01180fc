//! Which devices take part, and in which order: what shares a link should not use it at the same time.
//!
//! ```text
//!   (i, j), (k, l)   halves are merged within pairs       (i, l), (j, k)   and then across them
//! ```
//!
//! Every set and order of up to eight devices is tried against the links of the topology: a phase takes as long as its
//! most loaded link, in its most loaded direction. Beyond eight devices the first ones are taken as they come.
//!
//! Follows Maltenberger et al. 2022, section 5.4.

use pelton_device::DeviceId;
use pelton_fabric::{Topology, Vertex, direct_route};

use crate::options::{Algorithm, Pairing};

/// Beyond that, orders are too many to try.
const TRIED_MAX: usize = 8;

/// A link, by its number in the topology, in one direction.
type Hop = (usize, bool);

/// The links of a topology between places, looked up once.
struct Links<'a> {
    topology: &'a Topology,
    /// From the host to each device, and back; from device to device.
    to_device: Vec<Vec<Hop>>,
    from_device: Vec<Vec<Hop>>,
    between: Vec<Vec<Vec<Hop>>>,
}

/// The best `count` of `all` for this algorithm; of equally good ones those with the lowest numbers.
pub fn best_order(
    topology: &Topology,
    all: &[DeviceId],
    count: usize,
    algorithm: Algorithm,
    pairing: Pairing,
) -> Vec<DeviceId> {
    if all.len() > TRIED_MAX || all.iter().any(|device| device.0 as usize >= topology.devices.len()) {
        return all[..count].to_vec();
    }
    let links = Links::of(topology);
    let mut best: Option<(f64, Vec<usize>)> = None;
    let exchanges = matches!(algorithm, Algorithm::P2p);
    let all: Vec<usize> = all.iter().map(|device| device.0 as usize).collect();
    each_order(&all, count, !exchanges, &mut Vec::new(), &mut |order| {
        let mut time = links.host_time(order);
        if exchanges {
            time += links.merge_time(order, pairing);
        }
        if best.as_ref().is_none_or(|(least, _)| time < least * (1.0 - 1e-9)) {
            best = Some((time, order.to_vec()));
        }
    });
    let (_, order) = best.expect("there is one order at least");
    order.into_iter().map(|device| DeviceId(device as u32)).collect()
}

/// Calls `visit` with every order, or only with ascending ones, of `count` of `all`, in the order of their numbers.
fn each_order(
    all: &[usize],
    count: usize,
    is_ascending: bool,
    chosen: &mut Vec<usize>,
    visit: &mut impl FnMut(&[usize]),
) {
    if chosen.len() == count {
        return visit(chosen);
    }
    for device in all {
        if chosen.contains(device) || (is_ascending && chosen.last().is_some_and(|last| last > device)) {
            continue;
        }
        chosen.push(*device);
        each_order(all, count, is_ascending, chosen, visit);
        chosen.pop();
    }
}

impl<'a> Links<'a> {
    fn of(topology: &'a Topology) -> Self {
        let count = topology.devices.len() as u32;
        let hops = |from: Vertex, to: Vertex| {
            let route = direct_route(topology, from, to);
            route.map_or(Vec::new(), |route| {
                route.hops().iter().map(|hop| (hop.link, hop.is_forward)).collect()
            })
        };
        // Where the paper's buffers are, and most machines have no other node.
        let (node, device) = (Vertex::Node(0), Vertex::Device);
        Self {
            topology,
            to_device: (0..count).map(|to| hops(node, device(to))).collect(),
            from_device: (0..count).map(|from| hops(device(from), node)).collect(),
            between: (0..count)
                .map(|from| (0..count).map(|to| hops(device(from), device(to))).collect())
                .collect(),
        }
    }

    /// Time per byte that each of these devices holds, there and back again.
    fn host_time(&self, order: &[usize]) -> f64 {
        let into = order.iter().map(|device| (&self.to_device[*device], 1.0));
        let out = order.iter().map(|device| (&self.from_device[*device], 1.0));
        self.time(into) + self.time(out)
    }

    /// Time per byte that each of these devices holds, of all stages, for uniform keys.
    fn merge_time(&self, order: &[usize], pairing: Pairing) -> f64 {
        let mut time = 0.0;
        let mut width = 2;
        while width <= order.len() {
            // All groups of a width merge at once. Within the recursion, a width is met again in every wider one.
            let repeats = 1 << (order.len() / width).ilog2();
            let flows = order.chunks(width).flat_map(|group| pairs(group, pairing)).flat_map(
                |(one, other, share)| {
                    [(&self.between[one][other], share), (&self.between[other][one], share)]
                },
            );
            time += f64::from(repeats) * self.time(flows);
            width *= 2;
        }
        time
    }

    /// Time of flows at once, each of so many bytes: that of the most loaded link.
    fn time<'h>(&self, flows: impl Iterator<Item = (&'h Vec<Hop>, f64)>) -> f64 {
        let mut loads = vec![[0.0_f64; 2]; self.topology.links.len()];
        for (hops, bytes) in flows {
            hops.iter().for_each(|(link, is_forward)| loads[*link][usize::from(*is_forward)] += bytes);
        }
        let time = |(link, load): (&pelton_fabric::Link, &[f64; 2])| {
            let [backward, forward] = *load;
            (forward / link.forward_bytes_per_s)
                .max(backward / link.backward_bytes_per_s)
                .max((forward + backward) / link.duplex_bytes_per_s)
        };
        self.topology.links.iter().zip(&loads).map(time).fold(0.0, f64::max)
    }
}

/// Which devices exchange how much of what they hold when a group merges its halves of uniform keys.
fn pairs(group: &[usize], pairing: Pairing) -> Vec<(usize, usize, f64)> {
    let half = group.len() / 2;
    if half == 1 {
        return vec![(group[0], group[1], 0.5)];
    }
    let whole = half / 2;
    let pair = |index: usize| match pairing {
        Pairing::Mirrored => (group[half - 1 - index], group[half + index], 1.0),
        Pairing::Ordered => (group[half - whole + index], group[half + index], 1.0),
    };
    (0..whole).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pelton_fabric::preset;

    fn order(machine: &str, count: usize) -> Vec<u32> {
        let topology = preset(machine).unwrap();
        let all: Vec<DeviceId> = (0..topology.devices.len() as u32).map(DeviceId).collect();
        let best = best_order(&topology, &all, count, Algorithm::P2p, Pairing::Mirrored);
        best.into_iter().map(|device| device.0).collect()
    }

    #[test]
    fn the_paper_s_sets_are_chosen() {
        assert_eq!(order("ac922", 2), [0, 1]);
        assert_eq!(order("ac922", 4), [0, 1, 2, 3]);
        assert_eq!(order("dgx-a100", 2), [0, 2]);
        assert_eq!(order("dgx-a100", 4), [0, 2, 4, 6]);
    }

    #[test]
    fn devices_are_chosen_once_each() {
        for machine in ["delta", "dgx-a100", "h200-x2"] {
            let most = preset(machine).unwrap().devices.len();
            for count in [1, 2, 4, 8].into_iter().filter(|count| *count <= most) {
                let mut chosen = order(machine, count);
                chosen.sort_unstable();
                chosen.dedup();
                assert_eq!(chosen.len(), count, "{machine}");
            }
        }
    }
}
