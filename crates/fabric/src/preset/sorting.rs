//! The three machines of multi-GPU sorting: Maltenberger, Ilic, Tolovski, Rabl: "Evaluating Multi-GPU Sorting with
//! Modern Interconnects", 2022, section 4. Rates in GB/s.
//!
//! In the paper all host buffers are on node 0, so that between sockets one direction is host to device and the
//! other device to host.

use super::builder::{Gpu, HOP_LATENCY_S, NVLINK_LATENCY_S, Node, PCIE_LATENCY_S, Rates, machine};
use crate::topology::{LinkKind, Topology, Vertex};

const GB: u64 = 1_000_000_000;
const GIB: u64 = 1 << 30;

/// V100. Copies within its memory are five times as fast as over three NVLinks (72), section 5.2: 720 to 740 of
/// reads and writes together, where 900 is promised.
const V100_32: Gpu =
    Gpu { name: "Tesla V100-SXM2-32GB", memory_bytes: 32 * GIB, memory: 740.0, copy_engine_count: 6 };

/// A100. The vendor promises 1555; 0.9 of it is a guess, and about three times the NVLinks (279), section 5.2.
const A100_40: Gpu =
    Gpu { name: "A100-SXM4-40GB", memory_bytes: 40 * GIB, memory: 1400.0, copy_engine_count: 5 };

const PCIE_3: LinkKind = LinkKind::Pcie { generation: 3, width: 16 };
const PCIE_4: LinkKind = LinkKind::Pcie { generation: 4, width: 16 };

/// ```text
///   node 0 ═══ X-Bus ═══ node 1
///    │   │                │   │       three NVLinks each
///   gpu0─gpu1            gpu2─gpu3
/// ```
pub(super) fn ac922() -> Topology {
    let mut m = machine("ac922");
    // 170: 8 channels of DDR4-2666. Writes: two devices that copy to host memory at once reach 109 (Figure 2b).
    let node = || Node { core_count: 64, memory_bytes: 256 * GB, memory: 170.0, memory_write: 109.0 };
    let (node0, node1) = (m.add_node(node()), m.add_node(node()));
    // Forward 41: one copy to a remote device (Figure 2a). Backward: one copy reaches 35, two together 28.7 (82 %);
    // a link has one capacity, and 31 is within 15 % of both. No number for both directions is in the text: 41 + 31.
    m.add_link((node0, node1), LinkKind::Socket, Rates(41.0, 31.0, 72.0), HOP_LATENCY_S);
    let gpus = [node0, node0, node1, node1].map(|node| m.add_device(node, V100_32));
    let nvlink = LinkKind::NvLink { count: 3 };
    for (gpu, node) in gpus.into_iter().zip([node0, node0, node1, node1]) {
        // 72 in one direction, 127 in both (Figure 2a).
        m.add_link((node, gpu), nvlink, Rates(72.0, 72.0, 127.0), NVLINK_LATENCY_S);
    }
    for pair in [(gpus[0], gpus[1]), (gpus[2], gpus[3])] {
        // 72, and pairs reach "optimal performance" in both directions (Figures 5a and 5b).
        m.add_link(pair, nvlink, Rates::full_duplex(72.0), NVLINK_LATENCY_S);
    }
    m
}

/// ```text
///   node 0 ═════ UPI ═════ node 1
///    ║    ║                ║    ║      PCIe 3.0, a switch for each device
///   gpu0 ┄ gpu1           gpu2 ┄ gpu3  two NVLinks; also gpu0 ┄ gpu2 and gpu1 ┄ gpu3
/// ```
pub(super) fn delta() -> Topology {
    let mut m = machine("delta");
    // 100: 0.78 of 6 channels of DDR4-2666; section 5.3 finds 75 to 80 % of what is promised. Writes alone: a guess.
    let node = || Node { core_count: 40, memory_bytes: 755 * GB, memory: 100.0, memory_write: 100.0 };
    let (node0, node1) = (m.add_node(node()), m.add_node(node()));
    // 62 per direction (section 4.3).
    m.add_link((node0, node1), LinkKind::Socket, Rates::full_duplex(62.0), HOP_LATENCY_S);
    let gpus = [node0, node0, node1, node1].map(|node| m.add_device(node, V100_32));
    for (gpu, node) in gpus.into_iter().zip([node0, node0, node1, node1]) {
        // 12 to 13 in one direction; both reach 77 to 83 % of twice that (Figure 3a). The switch is the device's own.
        m.add_link((node, gpu), PCIE_3, Rates(12.5, 12.5, 20.0), PCIE_LATENCY_S);
    }
    // 48 of 50 from 0 to 1 and 2 (Figure 6a); none from 0 to 3 and 1 to 2. That 2 and 3 are connected follows from
    // section 6.1.2, where their merge is fast; that 1 and 3 are is a guess by symmetry.
    for (one, other) in [(0, 1), (0, 2), (1, 3), (2, 3)] {
        let nvlink = LinkKind::NvLink { count: 2 };
        m.add_link((gpus[one], gpus[other]), nvlink, Rates::full_duplex(48.0), NVLINK_LATENCY_S);
    }
    m
}

/// ```text
///        node 0 ═══ Infinity Fabric ═══ node 1
///        ║    ║                         ║    ║       PCIe 4.0
///   switch0  switch1               switch2  switch3
///    ║  ║     ║  ║                  ║  ║     ║  ║
///    0  1     2  3                  4  5     6  7    and each device to the NVSwitch
/// ```
pub(super) fn dgx_a100() -> Topology {
    let mut m = machine("dgx-a100");
    // 160: 0.78 of 8 channels of DDR4-3200, as for delta. Writes alone: a guess.
    let node = || Node { core_count: 128, memory_bytes: 512 * GB, memory: 160.0, memory_write: 160.0 };
    let nodes = [m.add_node(node()), m.add_node(node())];
    // "High enough" (section 4.2); 100 is a guess.
    m.add_link((nodes[0], nodes[1]), LinkKind::Socket, Rates::full_duplex(100.0), HOP_LATENCY_S);
    let nvswitch = m.add_switch("NVSwitch");
    for pair in 0..4_usize {
        let node = nodes[pair / 2];
        let switch = m.add_switch(&format!("PCIe switch {pair}"));
        // 24 to 25 in one direction. Both: 39 for devices of node 0; 32 for those of node 1, measured from node 0
        // only, with a cause that the paper leaves open. No other link explains that two of them reach 61.
        let rates = if pair < 2 { Rates(24.5, 24.5, 39.0) } else { Rates(24.5, 24.5, 32.0) };
        m.add_link((node, switch), PCIE_4, rates, HOP_LATENCY_S);
        for _ in 0..2 {
            add_a100(&mut m, node, switch, nvswitch, rates);
        }
    }
    m
}

fn add_a100(m: &mut Topology, node: Vertex, switch: Vertex, nvswitch: Vertex, pcie: Rates) {
    let gpu = m.add_device(node, A100_40);
    m.add_link((switch, gpu), PCIE_4, pcie, PCIE_LATENCY_S);
    // 279 in one direction (Figure 7). Two devices reach 5.5 times the 96 of delta's (section 4.3) in both: 528.
    m.add_link(
        (nvswitch, gpu),
        LinkKind::NvLink { count: 12 },
        Rates(279.0, 279.0, 528.0),
        NVLINK_LATENCY_S / 2.0,
    );
}
