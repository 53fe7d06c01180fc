//! The DGX-1 of MG-Join, the cluster of the distributed GPU joins, and the H200 machine. Rates in GB/s.

use super::builder::{Gpu, HOP_LATENCY_S, NVLINK_LATENCY_S, Node, PCIE_LATENCY_S, Rates, machine};
use crate::topology::{LinkKind, Topology};

const GB: u64 = 1_000_000_000;
const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;
const KIB: u64 = 1 << 10;

const PCIE_3: LinkKind = LinkKind::Pcie { generation: 3, width: 16 };

/// PCIe 3.0 as Maltenberger et al. 2022 (Figure 3) measure it: 12.5 of the 16 promised, 20 in both directions.
const PCIE_3_RATES: Rates = Rates(12.5, 12.5, 20.0);

/// NVLinks of the hybrid cube mesh, as NVIDIA's DGX-1 white paper (V100) draws them: (one, other, count). Six links
/// a device, 16 pairs.
const CUBE_MESH: [(usize, usize, u32); 16] = [
    (0, 1, 1),
    (0, 2, 1),
    (0, 3, 2),
    (0, 4, 2),
    (1, 2, 2),
    (1, 3, 1),
    (1, 5, 2),
    (2, 3, 2),
    (2, 6, 1),
    (3, 7, 1),
    (4, 5, 1),
    (4, 6, 1),
    (4, 7, 2),
    (5, 6, 2),
    (5, 7, 1),
    (6, 7, 2),
];

/// Paul, Lu, He: "MG-Join: A Scalable Join for Massively Parallel Multi-GPU Architectures", 2021.
pub(super) fn dgx1() -> Topology {
    let mut m = machine("dgx1");
    // 60: 0.78 of 4 channels of DDR4-2400, the memory of the Xeon E5-2698 v4. Writes alone: a guess.
    let node = || Node { core_count: 40, memory_bytes: 256 * GB, memory: 60.0, memory_write: 60.0 };
    let nodes = [m.add_node(node()), m.add_node(node())];
    // 25.6 per QPI link (section 2.1); this processor has two. 0.8 of them arrives: a guess.
    m.add_link((nodes[0], nodes[1]), LinkKind::Socket, Rates::full_duplex(41.0), HOP_LATENCY_S);
    // 900 promised (section 5); 740 as for the other V100s.
    let v100 =
        Gpu { name: "Tesla V100-SXM2-32GB", memory_bytes: 32 * GIB, memory: 740.0, copy_engine_count: 6 };
    let mut gpus = Vec::new();
    for pair in 0..4_usize {
        let node = nodes[pair / 2];
        let switch = m.add_switch(&format!("PCIe switch {pair}"));
        m.add_link((node, switch), PCIE_3, PCIE_3_RATES, HOP_LATENCY_S);
        for _ in 0..2 {
            let gpu = m.add_device(node, v100);
            m.add_link((switch, gpu), PCIE_3, PCIE_3_RATES, PCIE_LATENCY_S);
            gpus.push(gpu);
        }
    }
    for (one, other, count) in CUBE_MESH {
        // 25 promised a link (section 2.1); 24 arrive, by the 72 that Maltenberger et al. measure over three.
        let rates = Rates::full_duplex(24.0 * f64::from(count));
        m.add_link((gpus[one], gpus[other]), LinkKind::NvLink { count }, rates, NVLINK_LATENCY_S);
    }
    m
}

/// Thostrup, Doci, Boeschen, Luthra, Binnig: "Distributed GPU Joins on Fast RDMA-capable Networks", 2023.
///
/// Five machines of two sockets, each socket a node of its own with a device and a network card behind one PCIe
/// switch; traffic between nodes takes the network, also within a machine (section 6.2).
pub(super) fn edr_cluster() -> Topology {
    let mut m = machine("edr-cluster");
    let network = m.add_switch("InfiniBand");
    let v100 =
        Gpu { name: "Tesla V100-PCIE-16GB", memory_bytes: 16 * GIB, memory: 740.0, copy_engine_count: 6 };
    for index in 0..10 {
        // 14 cores; 90: 0.78 of 6 channels of DDR4-2400. Writes alone: a guess.
        let node =
            m.add_node(Node { core_count: 28, memory_bytes: 256 * GB, memory: 90.0, memory_write: 90.0 });
        let switch = m.add_switch(&format!("PCIe switch {index}"));
        m.add_link((node, switch), PCIE_3, PCIE_3_RATES, HOP_LATENCY_S);
        let gpu = m.add_device(node, v100);
        m.add_link((switch, gpu), PCIE_3, PCIE_3_RATES, PCIE_LATENCY_S);
        let nic = m.add_nic(&format!("mlx5_{index}"));
        m.add_link((switch, nic), PCIE_3, PCIE_3_RATES, HOP_LATENCY_S);
        // 100 Gb/s per card and direction (section 6.1); 1 us is a guess.
        m.add_link((nic, network), LinkKind::Network, Rates::full_duplex(12.5), 1e-6);
    }
    m
}

/// Two H200 of a virtual machine with one NUMA node, measured on 2026-11-21 (CUDA 13.0, driver 580.159.04).
pub(super) fn h200_x2() -> Topology {
    let mut m = machine("h200-x2");
    // Reads 125. A copy reaches 115, half of it writes: 57.5 of reads leave 0.54 of the time for 57.5 of writes,
    // which makes 106.5 if nobody reads.
    let node =
        m.add_node(Node { core_count: 32, memory_bytes: 256 * GIB, memory: 125.0, memory_write: 106.5 });
    // 139.8 GiB; 4262 in a copy, reads and writes together. 3 copy engines, as the driver reports for Hopper.
    let h200 = Gpu { name: "H200", memory_bytes: 1398 * GIB / 10, memory: 4262.0, copy_engine_count: 3 };
    let gpus = [m.add_device(node, h200), m.add_device(node, h200)];
    for gpu in gpus {
        // Host to device 55.5, device to host 55.4, both 101.8. Pieces are host to device. The latency is a guess;
        // the pieces contain it, so predictions do not depend on it.
        m.add_link((node, gpu), LinkKind::Pcie { generation: 5, width: 16 }, Rates(55.5, 55.4, 101.8), 1e-6);
        m.measure_last_link(&[
            (MIB, 48.4),
            (2 * MIB, 51.7),
            (4 * MIB, 53.5),
            (16 * MIB, 55.0),
            (256 * MIB, 55.5),
        ]);
    }
    // 397 one way, 785 both; copies of one stream, one after another.
    m.add_link((gpus[0], gpus[1]), LinkKind::NvLink { count: 18 }, Rates(397.0, 397.0, 785.0), 1e-6);
    m.measure_last_link(&[
        (64 * KIB, 24.0),
        (256 * KIB, 82.0),
        (MIB, 204.0),
        (2 * MIB, 267.0),
        (8 * MIB, 347.0),
        (16 * MIB, 366.0),
        (256 * MIB, 397.0),
    ]);
    m
}
