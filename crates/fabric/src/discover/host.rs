//! Host nodes: their cores, their memory, and how sockets are joined.
//!
//! Nodes of one package are joined pairwise. Packages are joined through their first nodes, so that all traffic
//! between two packages shares one link, unless a third package is nearer to both of them.

use std::collections::{BTreeMap, BTreeSet};

use crate::{HostNode, Link, LinkKind, Vertex};

use super::capacity;
use super::tree::{Tree, kibibytes_of};

/// Cores beyond this number are garbage: the kernel itself supports 8192.
const CORE_ID_MAX: u32 = 1 << 16;

/// Nodes and the links between them, numbered from 0 without gaps.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Host {
    /// What the operating system calls each of them.
    pub(crate) system_ids: Vec<u32>,
    pub(crate) nodes: Vec<HostNode>,
    pub(crate) links: Vec<Link>,
}

/// What a node's directory says.
struct Found {
    node: HostNode,
    system_id: u32,
    /// The processor package of its cores, if it has any and they say so.
    package: Option<u32>,
    /// To all nodes of the machine, by what the operating system calls them.
    distances: BTreeMap<u32, u32>,
}

/// Finds the nodes. Those in `device_nodes` are the memory of devices and belong to them.
pub(crate) fn find(tree: &Tree, device_nodes: &[u32]) -> Host {
    let ids: BTreeSet<u32> = tree
        .names("sys/devices/system/node")
        .iter()
        .filter_map(|name| name.strip_prefix("node")?.parse().ok())
        .collect();
    let online = tree.text("sys/devices/system/cpu/online").map(|text| core_ids(&text));
    let mut found: Vec<Found> = ids
        .iter()
        .filter(|id| !device_nodes.contains(id))
        .map(|&id| read_node(tree, id, &ids, online.as_ref()))
        .filter(|found| found.node.core_count > 0 || found.node.memory_bytes > 0)
        .collect();
    if found.is_empty() {
        let nodes = whole_machine(tree, online.as_ref()).into_iter().collect();
        return Host { system_ids: vec![0], nodes, links: Vec::new() };
    }
    for (index, found) in found.iter_mut().enumerate() {
        found.node.id = index as u32;
    }
    let system_ids = found.iter().map(|found| found.system_id).collect();
    let links = links_between(&found);
    Host { system_ids, nodes: found.into_iter().map(|found| found.node).collect(), links }
}

fn read_node(tree: &Tree, id: u32, ids: &BTreeSet<u32>, online: Option<&BTreeSet<u32>>) -> Found {
    let directory = format!("sys/devices/system/node/node{id}");
    let mut cores = core_ids(&tree.text(format!("{directory}/cpulist")).unwrap_or_default());
    if let Some(online) = online {
        cores.retain(|core| online.contains(core));
    }
    let memory = tree.text(format!("{directory}/meminfo")).unwrap_or_default();
    // Lines read `Node 0 MemTotal:   16345300 kB`.
    let memory_bytes =
        memory.lines().find_map(|line| kibibytes_of(&line[line.find("MemTotal")?..], "MemTotal"));
    let package = cores.first().and_then(|core| {
        tree.number(format!("sys/devices/system/cpu/cpu{core}/topology/physical_package_id"))
    });
    let distances = tree.text(format!("{directory}/distance")).unwrap_or_default();
    Found {
        node: host_node(id, cores.len(), memory_bytes.unwrap_or(0)),
        system_id: id,
        package,
        distances: ids.iter().copied().zip(distances.split_whitespace().flat_map(str::parse)).collect(),
    }
}

/// The machine as one node, where the kernel knows no nodes.
fn whole_machine(tree: &Tree, online: Option<&BTreeSet<u32>>) -> Option<HostNode> {
    let memory_bytes = kibibytes_of(&tree.text("proc/meminfo")?, "MemTotal")?;
    let listed = || {
        let processors = tree.text("proc/cpuinfo").unwrap_or_default();
        processors.lines().filter(|line| line.starts_with("processor")).count()
    };
    let core_count = online.map_or_else(listed, BTreeSet::len);
    Some(host_node(0, core_count.max(1), memory_bytes))
}

fn host_node(id: u32, core_count: usize, memory_bytes: u64) -> HostNode {
    let core_count = core_count as u32;
    let memory_bytes_per_s = capacity::host_memory_bytes_per_s(core_count);
    let memory_write_bytes_per_s = memory_bytes_per_s * capacity::HOST_WRITE_SHARE;
    HostNode { id, core_count, memory_bytes, memory_bytes_per_s, memory_write_bytes_per_s }
}

/// `0-3,8` to 0, 1, 2, 3, 8; pieces that make no sense are left out.
fn core_ids(list: &str) -> BTreeSet<u32> {
    let range = |piece: &str| {
        let (first, last) = piece.split_once('-').unwrap_or((piece, piece));
        let (first, last) = (first.trim().parse::<u32>().ok()?, last.trim().parse::<u32>().ok()?);
        (last < CORE_ID_MAX).then_some(first..=last)
    };
    list.split(',').filter_map(range).flatten().collect()
}

fn links_between(found: &[Found]) -> Vec<Link> {
    let mut packages: BTreeMap<(bool, u32), Vec<&Found>> = BTreeMap::new();
    for node in found {
        // A node whose package is unknown is a package of its own.
        let key = node.package.map_or((false, node.node.id), |package| (true, package));
        packages.entry(key).or_default().push(node);
    }
    let mut links = Vec::new();
    for nodes in packages.values() {
        for (index, a) in nodes.iter().enumerate() {
            links.extend(nodes[index + 1..].iter().map(|b| socket_link(a, b, capacity::WITHIN_PACKAGE)));
        }
    }
    let firsts: Vec<&Found> = packages.values().map(|nodes| nodes[0]).collect();
    for (index, a) in firsts.iter().enumerate() {
        for b in &firsts[index + 1..] {
            let is_nearer =
                |via: &&Found| distance(a, via) < distance(a, b) && distance(via, b) < distance(a, b);
            if !firsts.iter().any(is_nearer) {
                links.push(socket_link(a, b, capacity::SOCKET));
            }
        }
    }
    links
}

/// As the firmware states it; very far if it does not say, and from a node to itself.
fn distance(from: &Found, to: &Found) -> u32 {
    if from.system_id == to.system_id {
        return u32::MAX;
    }
    from.distances.get(&to.system_id).copied().unwrap_or(u32::MAX)
}

fn socket_link(a: &Found, b: &Found, capacity: capacity::Capacity) -> Link {
    capacity::link(Vertex::Node(a.node.id), Vertex::Node(b.node.id), LinkKind::Socket, capacity)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_lists_are_read_and_garbage_is_left_out() {
        let check = |list: &str, expected: &[u32]| {
            assert_eq!(core_ids(list).into_iter().collect::<Vec<_>>(), expected, "{list}");
        };
        check("0-3,8", &[0, 1, 2, 3, 8]);
        check("5", &[5]);
        check("", &[]);
        check("x,1-,3-1,-2,7, 9 ", &[7, 9]);
        check("0-4294967295", &[]);
    }

    fn found(id: u32, package: u32, distances: &[u32]) -> Found {
        let distances = distances.iter().enumerate().map(|(to, &distance)| (to as u32, distance)).collect();
        Found { node: host_node(id, 1, 1), system_id: id, package: Some(package), distances }
    }

    fn pairs(nodes: &[Found]) -> Vec<(Vertex, Vertex)> {
        links_between(nodes).iter().map(|link| (link.a, link.b)).collect()
    }

    #[test]
    fn four_sockets_in_a_ring_are_joined_as_a_ring() {
        let ring = [
            found(0, 0, &[10, 20, 30, 20]),
            found(1, 1, &[20, 10, 20, 30]),
            found(2, 2, &[30, 20, 10, 20]),
            found(3, 3, &[20, 30, 20, 10]),
        ];
        let link = |a, b| (Vertex::Node(a), Vertex::Node(b));
        assert_eq!(pairs(&ring), [link(0, 1), link(0, 3), link(1, 2), link(2, 3)]);
    }

    #[test]
    fn nodes_of_two_packages_share_one_link_between_the_packages() {
        let nodes = [
            found(0, 0, &[10, 12, 32, 32]),
            found(1, 0, &[12, 10, 32, 32]),
            found(2, 1, &[32, 32, 10, 12]),
            found(3, 1, &[32, 32, 12, 10]),
        ];
        let link = |a, b| (Vertex::Node(a), Vertex::Node(b));
        assert_eq!(pairs(&nodes), [link(0, 1), link(2, 3), link(0, 2)]);
    }
}
