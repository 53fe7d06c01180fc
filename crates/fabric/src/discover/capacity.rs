//! What links and memories reach before anybody has measured them: what they signal, times what is typical.
//!
//! Sources of the typical shares: the reference machine (two H200, PCIe 5, one run of 2026-11-21) and Maltenberger,
//! Ilic, Tolovski, Rabl: Evaluating Multi-GPU Sorting with Modern Interconnects, 2022, section 4. A figure without a
//! source is a guess and says so. Measurements replace all of them.

use crate::{GB_PER_S, Link, LinkKind, Vertex};

use super::facts::PcieLink;

/// Time before the first byte of a copy arrives: starting a DMA transfer takes some microseconds. A guess.
const DMA_LATENCY_S: f64 = 5e-6;
/// Time before the first byte of a read by a core arrives from another socket. A guess.
const SOCKET_LATENCY_S: f64 = 2e-7;

/// One direction, both directions together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Capacity {
    pub(crate) one_way: f64,
    pub(crate) both_ways: f64,
}

impl Capacity {
    /// No more than `limit` in each direction.
    pub(crate) fn capped(self, limit: Option<f64>) -> Capacity {
        let Some(limit) = limit.filter(|&limit| limit > 0.0 && limit < self.one_way) else { return self };
        Capacity { one_way: limit, both_ways: self.both_ways.min(2.0 * limit) }
    }
}

/// PCIe: 55.5 of 63.0 GB/s and 101.8 both ways on PCIe 5 x16 (reference machine); 24 to 25 of 31.5 and 39 both ways
/// on PCIe 4 x16, 12 to 13 of 15.8 on PCIe 3 x16 (the paper's section 4.2).
pub(crate) fn of_pcie(link: PcieLink) -> Capacity {
    // Per lane, after line coding (8b/10b up to generation 2, 128b/130b, then flits).
    let lane = match link.generation {
        0 | 1 => 0.25,
        2 => 0.5,
        3 => 0.985,
        4 => 1.969,
        5 => 3.938,
        _ => 7.563,
    } * GB_PER_S;
    let (share, duplex) = if link.generation >= 5 { (0.88, 1.83) } else { (0.78, 1.6) };
    let one_way = lane * f64::from(link.width.max(1)) * share;
    Capacity { one_way, both_ways: one_way * duplex }
}

/// NVLink: 397 of 478 GB/s signalled by 18 links, 785 both ways (reference machine); 279 of 300 by 12 links, 72 of 75
/// by 3 (the paper's section 4.3).
pub(crate) fn of_nvlinks(signalled_bytes_per_s: f64) -> Capacity {
    let one_way = signalled_bytes_per_s * 0.85;
    Capacity { one_way, both_ways: one_way * 1.97 }
}

/// Between sockets: X-Bus reached 41 of 64 GB/s (the paper's section 4.2); elsewhere a guess.
pub(crate) const SOCKET: Capacity = Capacity { one_way: 40.0 * GB_PER_S, both_ways: 70.0 * GB_PER_S };

/// Between nodes of one package: as fast as the memory of one of them. A guess.
pub(crate) const WITHIN_PACKAGE: Capacity =
    Capacity { one_way: 80.0 * GB_PER_S, both_ways: 150.0 * GB_PER_S };

/// A GPU whose link nobody describes: PCIe 3 x16, the least that a machine of the last ten years has. A guess.
pub(crate) const UNKNOWN_GPU_PCIE: PcieLink = PcieLink { generation: 3, width: 16 };

/// A storage device or network card whose link nobody describes, virtual ones above all: what the reference machine's
/// virtual disk gave to two readers, 1.7 GB/s.
pub(crate) const UNKNOWN_ATTACHMENT: Capacity =
    Capacity { one_way: 1.7 * GB_PER_S, both_ways: 1.7 * GB_PER_S };

/// SATA 3 after line coding and protocol, the most that any such disk gives.
pub(crate) const SATA_BYTES_PER_S: f64 = 0.55 * GB_PER_S;

/// Host memory: 10 GB/s a core until the node's memory is full at 120: the reference machine reads 125 GB/s with 32
/// cores. The figure per core is a guess.
pub(crate) fn host_memory_bytes_per_s(core_count: u32) -> f64 {
    (10.0 * f64::from(core_count.max(1))).min(120.0) * GB_PER_S
}

/// What of that writes alone reach: on the reference machine a copy moves 115 GB/s where reads alone move 125, so half
/// of it took the time of 58 GB/s more reading; 106 of 125 is what that leaves for writes.
pub(crate) const HOST_WRITE_SHARE: f64 = 0.85;

/// Device memory: a copy on an H200 reads and writes 4262 of 4917 GB/s that clock and bus width allow.
pub(crate) fn device_memory_bytes_per_s(signalled_bytes_per_s: Option<f64>) -> f64 {
    // Without a figure: the slowest memory of a data-centre GPU still in use (T4, 320 GB/s). A guess.
    signalled_bytes_per_s.filter(|&rate| rate > 0.0).unwrap_or(320.0 * GB_PER_S) * 0.867
}

/// A link as fast as `capacity` says in either direction, not measured.
pub(crate) fn link(a: Vertex, b: Vertex, kind: LinkKind, capacity: Capacity) -> Link {
    Link {
        a,
        b,
        kind,
        forward_bytes_per_s: capacity.one_way,
        backward_bytes_per_s: capacity.one_way,
        duplex_bytes_per_s: capacity.both_ways,
        bandwidth_by_size: Vec::new(),
        latency_s: if kind == LinkKind::Socket { SOCKET_LATENCY_S } else { DMA_LATENCY_S },
        is_measured: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(actual: f64, expected_gb_per_s: f64, tolerance: f64) {
        let expected = expected_gb_per_s * GB_PER_S;
        assert!((actual / expected - 1.0).abs() <= tolerance, "{actual} is not near {expected}");
    }

    #[test]
    fn typical_capacities_are_near_the_measurements_they_come_from() {
        let x16 = |generation| of_pcie(PcieLink { generation, width: 16 });
        check(x16(5).one_way, 55.5, 0.02);
        check(x16(5).both_ways, 101.8, 0.02);
        check(x16(4).one_way, 24.5, 0.03);
        check(x16(4).both_ways, 39.0, 0.03);
        check(x16(3).one_way, 12.5, 0.05);
        check(of_nvlinks(18.0 * 26.5625 * GB_PER_S).one_way, 397.0, 0.03);
        check(of_nvlinks(12.0 * 25.0 * GB_PER_S).one_way, 279.0, 0.1);
        check(device_memory_bytes_per_s(Some(4917.0 * GB_PER_S)), 4262.0, 0.01);
        check(host_memory_bytes_per_s(32), 120.0, 0.01);
    }

    #[test]
    fn a_limit_lowers_a_capacity_and_never_raises_it() {
        let capacity = Capacity { one_way: 10.0, both_ways: 15.0 };
        assert_eq!(capacity.capped(Some(4.0)), Capacity { one_way: 4.0, both_ways: 8.0 });
        assert_eq!(capacity.capped(Some(9.0)), Capacity { one_way: 9.0, both_ways: 15.0 });
        for limit in [None, Some(10.0), Some(99.0), Some(0.0), Some(-1.0), Some(f64::NAN)] {
            assert_eq!(capacity.capped(limit), capacity);
        }
    }
}
