//! The two machines of the joins over fast interconnects: Lutz, Breß, Zeuch, Rabl, Markl: "Pump Up the Volume: Processing
//! Large Data on GPUs with Fast Interconnects", 2020, sections 3 and 7.1. Rates in GB/s.
//!
//! The figures of the paper are bars without numbers; its text gives 12 for PCIe 3.0, 75 for three NVLinks and ratios of
//! the others to these.

use super::builder::{Gpu, HOP_LATENCY_S, NVLINK_LATENCY_S, Node, PCIE_LATENCY_S, Rates, machine};
use crate::topology::{LinkKind, Topology};

const GIB: u64 = 1 << 30;

/// What a kernel's loads reach over three NVLinks: "within 14 % of the maximum" of 75 (section 7.2.1).
const NVLINK: f64 = 64.5;

/// Memory as of the other V100s.
const fn v100(name: &'static str) -> Gpu {
    Gpu { name, memory_bytes: 16 * GIB, memory: 740.0, copy_engine_count: 6 }
}

/// ```text
///   node 0 ═══ X-Bus ═══ node 1
///    │                    │          three NVLinks each
///   gpu0                 gpu1
/// ```
pub(super) fn power9_v100() -> Topology {
    let mut m = machine("power9-v100");
    // "65 % higher than NVLink" (section 3). Writes alone: a guess.
    let memory = 1.65 * NVLINK;
    let node = || Node { core_count: 64, memory_bytes: 128 * GIB, memory, memory_write: memory };
    let nodes = [m.add_node(node()), m.add_node(node())];
    // NVLink has "twice as much as X-Bus".
    m.add_link((nodes[0], nodes[1]), LinkKind::Socket, Rates::full_duplex(NVLINK / 2.0), HOP_LATENCY_S);
    for node in nodes {
        let gpu = m.add_device(node, v100("Tesla V100-SXM2-16GB"));
        m.add_link((node, gpu), LinkKind::NvLink { count: 3 }, Rates::full_duplex(NVLINK), NVLINK_LATENCY_S);
    }
    m
}

/// ```text
///   node 0 ═══ UPI ═══ node 1
///    ║                            PCIe 3.0
///   gpu0
/// ```
pub(super) fn xeon_v100() -> Topology {
    let mut m = machine("xeon-v100");
    // "28 % higher than NVLink". Writes alone: a guess.
    let memory = 1.28 * NVLINK;
    let node = || Node { core_count: 24, memory_bytes: 768 * GIB, memory, memory_write: memory };
    let nodes = [m.add_node(node()), m.add_node(node())];
    m.add_link((nodes[0], nodes[1]), LinkKind::Socket, Rates::full_duplex(NVLINK / 2.0), HOP_LATENCY_S);
    let gpu = m.add_device(nodes[0], v100("Tesla V100-PCIE-16GB"));
    let pcie = LinkKind::Pcie { generation: 3, width: 16 };
    // "The peak transfer bandwidth of 12 GB/s"; both ways as of the other PCIe 3.0.
    m.add_link((nodes[0], gpu), pcie, Rates(12.0, 12.0, 19.2), PCIE_LATENCY_S);
    m
}
