//! Machines of the literature, for the simulator.
//!
//! | name | machine | from |
//! | --- | --- | --- |
//! | `ac922` | IBM AC922, 4 V100, NVLink 2.0 to the host | Maltenberger et al. 2022, Table 1a, Figures 2 and 5 |
//! | `delta` | DELTA D22x M4 PS, 4 V100, PCIe 3.0 | the same, Table 1b, Figures 3 and 6 |
//! | `dgx-a100` | NVIDIA DGX A100, 8 A100, NVSwitch | the same, Table 1c, Figures 4 and 7 |
//! | `dgx1` | NVIDIA DGX-1, 8 V100, hybrid cube mesh | Paul et al. 2021, section 2; NVIDIA's white paper |
//! | `edr-cluster` | 10 nodes of one V100 and one EDR card | Thostrup et al. 2023, section 6.1 |
//! | `h200-x2` | 2 H200 of one NUMA node, PCIe 5.0, NVLink | measured, 2026-11-21 |
//! | `power9-v100` | 2 POWER9, a V100 each, NVLink 2.0 to the host | Lutz et al. 2020, sections 3 and 7.1 |
//! | `xeon-v100` | 2 Xeon, a V100, PCIe 3.0 | the same |
//!
//! Capacities are of one link: what one transfer reaches in one direction, and two in both. What several transfers
//! over several links reach is for the simulator to say. Where a source gives no number, the comment says guess.

mod builder;
mod clusters;
mod joins;
mod sorting;

use crate::topology::Topology;

/// The names that [`preset`] knows.
pub const PRESET_NAMES: [&str; 8] =
    ["ac922", "delta", "dgx-a100", "dgx1", "edr-cluster", "h200-x2", "power9-v100", "xeon-v100"];

/// The machine of that name; nothing for a name that is not in [`PRESET_NAMES`].
pub fn preset(name: &str) -> Option<Topology> {
    let topology = match name {
        "ac922" => sorting::ac922(),
        "delta" => sorting::delta(),
        "dgx-a100" => sorting::dgx_a100(),
        "dgx1" => clusters::dgx1(),
        "edr-cluster" => clusters::edr_cluster(),
        "h200-x2" => clusters::h200_x2(),
        "power9-v100" => joins::power9_v100(),
        "xeon-v100" => joins::xeon_v100(),
        _ => return None,
    };
    assert!(topology.validate().is_ok(), "preset {name} describes a machine");
    Some(topology)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_a_preset_that_is_called_so() {
        for name in PRESET_NAMES {
            let topology = preset(name).unwrap();
            assert_eq!(topology.name, name);
            topology.validate().unwrap();
        }
        assert!(preset("dgx-2").is_none());
    }
}
