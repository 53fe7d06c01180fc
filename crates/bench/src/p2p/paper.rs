//! What the text of the paper gives: sets of devices and numbers, GB/s.
//!
//! Maltenberger et al. 2022, section 4.2 (CPU-GPU) and 4.3 (P2P). Its figures are bars without numbers; what stands
//! here is in the prose, or follows from it by the arithmetic beside the number. The range of "24-25" is kept as one.

use super::case::{Case, Kind};
use crate::report::Quoted;

use Kind::{BothWays, DeviceToHost, HostToDevice, Peer, PeerPairs};

/// Three NVLinks 2.0, three of them in each of four devices: what the percentages for all four of the AC922 are of.
const AC922_FOUR_IDEAL: f64 = 4.0 * 75.0;

/// The paper's number for `case` on `machine`.
pub(super) fn quote(machine: &str, case: &Case) -> Option<Quoted> {
    match machine {
        "ac922" => ac922(case.kind, &case.devices),
        "delta" => delta(case.kind, &case.devices),
        "dgx-a100" => dgx_a100(case.kind, &case.devices),
        _ => None,
    }
}

fn ac922(kind: Kind, devices: &[u32]) -> Option<Quoted> {
    let quoted = match (kind, devices) {
        (HostToDevice | DeviceToHost, [0 | 1]) => Quoted::stated(72.0),
        (BothWays, [0 | 1]) => Quoted::stated(127.0),
        (HostToDevice, [2 | 3]) => Quoted::stated(41.0),
        (DeviceToHost, [2 | 3]) => Quoted::stated(35.0),
        // "Near peak", which is 150; "up to 3.6x higher than on remote GPUs (2, 3)", which is 39.
        (HostToDevice, [0, 1]) => Quoted::between(140.0, 150.0).derived(),
        (DeviceToHost, [0, 1]) => Quoted::stated(109.0),
        (BothWays, [0, 1]) => Quoted::stated(136.0),
        // "26 % (HtoD) and 19 % (DtoH)" of the ideal, and "twice the throughput" of the remote pair.
        (HostToDevice, [0, 1, 2, 3]) => Quoted::stated(0.26 * AC922_FOUR_IDEAL).derived(),
        (DeviceToHost, [0, 1, 2, 3]) => Quoted::stated(0.19 * AC922_FOUR_IDEAL).derived(),
        (HostToDevice, [2, 3]) => Quoted::stated(0.26 * AC922_FOUR_IDEAL / 2.0).derived(),
        (DeviceToHost, [2, 3]) => Quoted::stated(0.19 * AC922_FOUR_IDEAL / 2.0).derived(),
        (Peer, [0, 1] | [1, 0]) => Quoted::stated(72.0),
        // "46 % of the direct P2P throughput", to GPUs 2 and 3; of the way back the text says nothing.
        (Peer, [0, 2 | 3]) => Quoted::stated(0.46 * 72.0).derived(),
        // "Optimal performance": twice one way.
        (PeerPairs, [0, 1] | [2, 3]) => Quoted::stated(2.0 * 72.0).derived(),
        (PeerPairs, [0, 1, 2, 3]) => Quoted::stated(53.0),
        _ => return None,
    };
    Some(quoted)
}

fn delta(kind: Kind, devices: &[u32]) -> Option<Quoted> {
    let one_way = Quoted::between(12.0, 13.0);
    let quoted = match (kind, devices) {
        (HostToDevice | DeviceToHost, [_]) => one_way,
        // "Almost double the unidirectional throughput (within 77-83 %)".
        (BothWays, [_]) => Quoted::between(0.77 * 2.0 * one_way.low, 0.83 * 2.0 * one_way.high).derived(),
        // "4x higher throughput".
        (HostToDevice | DeviceToHost, [0, 1, 2, 3]) => {
            Quoted::between(4.0 * one_way.low, 4.0 * one_way.high).derived()
        }
        (BothWays, [0, 1, 2, 3]) => {
            Quoted::between(4.0 * 0.77 * 2.0 * one_way.low, 4.0 * 0.83 * 2.0 * one_way.high).derived()
        }
        (Peer, [0, 1 | 2]) => Quoted::stated(48.0),
        (Peer, [0, 3]) => Quoted::stated(9.0),
        // "Optimal throughput": twice one way.
        (PeerPairs, [0, 1]) => Quoted::stated(2.0 * 48.0).derived(),
        // The DGX A100 "achieves up to 35.3x on four GPUs", with 1060 at most.
        (PeerPairs, [0, 1, 2, 3]) => Quoted::stated(1060.0 / 35.3).derived(),
        _ => return None,
    };
    Some(quoted)
}

fn dgx_a100(kind: Kind, devices: &[u32]) -> Option<Quoted> {
    let one_way = Quoted::between(24.0, 25.0);
    let quoted = match (kind, devices) {
        (HostToDevice | DeviceToHost, [_]) => one_way,
        (BothWays, [0..=3]) => Quoted::stated(39.0),
        (BothWays, [_]) => Quoted::stated(32.0),
        // "The throughput does not double": the pair shares the link of its switch.
        (HostToDevice | DeviceToHost, [0, 1]) => one_way.derived(),
        // "It does increase 2x"; for the remote pair "almost the same".
        (HostToDevice | DeviceToHost, [0, 2] | [4, 6]) => {
            Quoted::between(2.0 * one_way.low, 2.0 * one_way.high).derived()
        }
        (BothWays, [0, 2]) => Quoted::stated(82.0),
        (BothWays, [4, 6]) => Quoted::stated(61.0),
        // "Roughly twice the throughput of GPU pair (4, 6)", for four and for eight.
        (BothWays, [0, 2, 4, 6] | [0, 1, 2, 3, 4, 5, 6, 7]) => Quoted::stated(2.0 * 61.0).derived(),
        (Peer, _) => Quoted::stated(279.0),
        // "Up to 5.5x higher throughput on two GPUs": than the slower of the others, which has twice 48.
        (PeerPairs, [_, _]) => Quoted::stated(5.5 * 2.0 * 48.0).derived(),
        (PeerPairs, [_, _, _, _]) => Quoted::between(894.0, 1060.0),
        (PeerPairs, [_, _, _, _, _, _, _, _]) => Quoted::stated(2116.0),
        _ => return None,
    };
    Some(quoted)
}

/// True if the preset of `machine` takes a link or a memory from the paper's figure for this case (`fabric`'s presets
/// say which): simulated, the figure comes out as it went in. What several transfers make of shared links does not.
pub(super) fn is_input(machine: &str, case: &Case) -> bool {
    let devices = &case.devices[..];
    match machine {
        // The X-Bus backwards is fitted to one copy and to two, staged copies to the remote ones of both machines; what
        // node 0 writes is that of two copies.
        "ac922" => match case.kind {
            HostToDevice => devices.len() == 1,
            DeviceToHost => devices.len() == 1 || matches!(devices, [2, 3] | [0, 1]),
            BothWays => matches!(devices, [0 | 1]),
            Peer => matches!(devices, [0, _] | [1, 0]),
            PeerPairs => matches!(devices, [0, 1] | [2, 3]),
        },
        "delta" => match case.kind {
            HostToDevice | DeviceToHost | BothWays => devices.len() == 1,
            Peer => matches!(devices, [0, _]),
            PeerPairs => matches!(devices, [0, 1]),
        },
        "dgx-a100" => match case.kind {
            HostToDevice | DeviceToHost | BothWays => devices.len() == 1,
            Peer => true,
            PeerPairs => devices.len() == 2,
        },
        _ => false,
    }
}

/// The sets that copy from and to the host at once.
pub(super) fn host_sets(machine: &str) -> Option<Vec<Vec<u32>>> {
    let sets = match machine {
        "ac922" => vec![vec![0, 1], vec![2, 3], (0..4).collect()],
        "delta" => vec![vec![0, 1], (0..4).collect()],
        "dgx-a100" => vec![vec![0, 1], vec![0, 2], vec![4, 6], vec![0, 2, 4, 6], (0..8).collect()],
        _ => return None,
    };
    Some(sets)
}

/// The sets that copy among each other.
pub(super) fn peer_sets(machine: &str) -> Option<Vec<Vec<u32>>> {
    let sets = match machine {
        "ac922" => vec![vec![0, 1], vec![2, 3], (0..4).collect()],
        "delta" => vec![vec![0, 1], (0..4).collect()],
        "dgx-a100" => vec![vec![0, 1], (0..4).collect(), vec![0, 2, 4, 6], (0..8).collect()],
        _ => return None,
    };
    Some(sets)
}

/// The figure of the paper; on other machines what it shows.
pub(super) fn figure(machine: &str, kind: Kind, is_set: bool) -> &'static str {
    let shown = match kind {
        Peer => 2,
        PeerPairs => 3,
        HostToDevice | DeviceToHost | BothWays => usize::from(is_set),
    };
    match machine {
        "ac922" => ["2a", "2b", "5a", "5b"][shown],
        "delta" => ["3a", "3b", "6a", "6b"][shown],
        "dgx-a100" => ["4, one", "4, many", "7, one", "7, many"][shown],
        _ => ["CPU-GPU, one", "CPU-GPU, many", "P2P, one", "P2P, many"][shown],
    }
}
