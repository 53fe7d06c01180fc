//! A short name for what a machine is made of, under which measurements of it are kept.
//!
//! Two machines of the same parts in the same places have the same one. What is measured or estimated does not enter, nor
//! how much memory a node has: that of a virtual machine grows as it is used.

use std::fmt::Write;

use crate::Topology;

/// Of what a machine is made of: nodes, devices, switches, storage, network cards, links and the driver; 16
/// hexadecimal digits, the same in every run and on every platform.
pub fn fingerprint(topology: &Topology, driver_version: Option<&str>) -> String {
    format!("{:016x}", fnv1a(description(topology, driver_version).as_bytes()))
}

/// Every part on a line of its own; names are quoted, so that none can pose as another line.
fn description(topology: &Topology, driver_version: Option<&str>) -> String {
    let mut text = format!("driver {driver_version:?}\n");
    let mut line = |arguments: std::fmt::Arguments<'_>| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{arguments}");
    };
    for node in &topology.nodes {
        line(format_args!("node {} {}", node.id, node.core_count));
    }
    for device in &topology.devices {
        let (name, address) = (&device.name, &device.pci_address);
        // Drivers reserve a little more or less.
        let memory = device.memory_bytes.div_ceil(1 << 30);
        line(format_args!("device {} {name:?} {} {memory} {address:?}", device.id, device.node));
    }
    for switch in &topology.switches {
        line(format_args!("switch {:?}", switch.name));
    }
    for storage in &topology.storages {
        line(format_args!("storage {:?} {:?} {}", storage.name, storage.model, storage.bytes));
    }
    for nic in &topology.nics {
        line(format_args!("nic {:?} {}", nic.name, nic.has_rdma));
    }
    for link in &topology.links {
        line(format_args!("link {} {} {:?}", link.a, link.b, link.kind));
    }
    text
}

/// Fowler, Noll, Vo: 64 bits, variant 1a. Chance collisions are what it must avoid, not malice.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_matches_its_published_values() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }
}
