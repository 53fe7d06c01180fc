//! Cases: which devices copy in which direction, and which cases a machine is given.

use std::fmt;

use pelton_error::{Error, Result};

use super::options::P2pOptions;
use super::paper;

/// Which way bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// From the host to each device.
    HostToDevice,
    /// From each device to the host.
    DeviceToHost,
    /// Both at once, over distinct buffers.
    BothWays,
    /// From the first device to the second.
    Peer,
    /// Between the first and the last device, the second and the last but one, and so on, both ways.
    PeerPairs,
}

/// One thing to take the time of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Case {
    pub(super) kind: Kind,
    pub(super) devices: Vec<u32>,
}

/// The kinds between host and devices.
pub(super) const HOST_KINDS: [Kind; 3] = [Kind::HostToDevice, Kind::DeviceToHost, Kind::BothWays];

impl Case {
    pub(super) fn new(kind: Kind, devices: &[u32]) -> Self {
        Self { kind, devices: devices.to_vec() }
    }

    /// Source and target of each copy between devices.
    pub(super) fn pairs(&self) -> Vec<(u32, u32)> {
        match self.kind {
            Kind::Peer => vec![(self.devices[0], self.devices[1])],
            Kind::PeerPairs => self.devices.iter().copied().zip(self.devices.iter().rev().copied()).collect(),
            Kind::HostToDevice | Kind::DeviceToHost | Kind::BothWays => Vec::new(),
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.devices.iter().map(u32::to_string).collect();
        let devices = match names.as_slice() {
            [one] => format!("gpu {one}"),
            several => format!("gpus ({})", several.join(",")),
        };
        match self.kind {
            Kind::HostToDevice => write!(f, "{devices} HtoD"),
            Kind::DeviceToHost => write!(f, "{devices} DtoH"),
            Kind::BothWays => write!(f, "{devices} both ways"),
            Kind::Peer => write!(f, "gpu {} to gpu {}", self.devices[0], self.devices[1]),
            Kind::PeerPairs => write!(f, "pairs of {devices}"),
        }
    }
}

/// All cases for the machine called `name`, in the order of the paper.
pub(super) fn cases(name: &str, device_count: usize, options: &P2pOptions) -> Result<Vec<Case>> {
    let count =
        u32::try_from(device_count).map_err(|_| Error::invalid_input("more devices than can be numbered"))?;
    let host_sets = match &options.host_sets {
        Some(sets) => sets.clone(),
        None => paper::host_sets(name).unwrap_or_else(|| default_sets(count)),
    };
    let peer_sets = match &options.peer_sets {
        Some(sets) => sets.clone(),
        None => paper::peer_sets(name).unwrap_or_else(|| default_sets(count - count % 2)),
    };
    for set in host_sets.iter().chain(&peer_sets) {
        check_set(set, count)?;
    }
    if let Some(odd) = peer_sets.iter().find(|set| set.len() % 2 == 1) {
        return Err(Error::invalid_input(format!(
            "{} devices {odd:?} to pair; name an even number",
            odd.len()
        )));
    }
    let mut cases = Vec::new();
    let single = (0..count).map(|device| vec![device]);
    for set in single.chain(host_sets) {
        cases.extend(HOST_KINDS.map(|kind| Case::new(kind, &set)));
    }
    for source in 0..count {
        let targets = (0..count).filter(|target| *target != source);
        cases.extend(targets.map(|target| Case::new(Kind::Peer, &[source, target])));
    }
    cases.extend(peer_sets.iter().map(|set| Case::new(Kind::PeerPairs, set)));
    Ok(cases)
}

/// For 2, 4, 8 and so on: that many devices from the first on, and as many with even numbers, which often do not
/// share a switch; then all.
fn default_sets(count: u32) -> Vec<Vec<u32>> {
    let powers = (1..u32::BITS).map(|bit| 1 << bit).take_while(|size| *size <= count);
    let mut sets: Vec<Vec<u32>> = Vec::new();
    for size in powers {
        sets.push((0..size).collect());
        if 2 * size <= count {
            sets.push((0..size).map(|index| 2 * index).collect());
        }
    }
    if count > 1 && !count.is_power_of_two() {
        sets.push((0..count).collect());
    }
    sets
}

fn check_set(set: &[u32], count: u32) -> Result<()> {
    if set.is_empty() {
        return Err(Error::invalid_input("a set of no devices; name one at least"));
    }
    if let Some(unknown) = set.iter().find(|device| **device >= count) {
        return Err(Error::invalid_input(format!(
            "no gpu {unknown}; this machine has {count} devices, from 0 on"
        )));
    }
    let repeated = (1..set.len()).find(|index| set[..*index].contains(&set[*index]));
    match repeated {
        Some(index) => Err(Error::invalid_input(format!("gpu {} named twice in {set:?}", set[index]))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_paired_with_the_last_both_ways() {
        let case = Case::new(Kind::PeerPairs, &[0, 2, 4, 6]);
        assert_eq!(case.pairs(), [(0, 6), (2, 4), (4, 2), (6, 0)]);
        assert_eq!(case.to_string(), "pairs of gpus (0,2,4,6)");
    }

    #[test]
    fn sets_grow_to_the_whole_machine() {
        assert_eq!(default_sets(1), [] as [Vec<u32>; 0]);
        assert_eq!(default_sets(2), [vec![0, 1]]);
        assert_eq!(default_sets(3), [vec![0, 1], vec![0, 1, 2]]);
        assert_eq!(default_sets(4), [vec![0, 1], vec![0, 2], vec![0, 1, 2, 3]]);
        assert_eq!(default_sets(8).last().unwrap().len(), 8);
    }

    #[test]
    fn unknown_and_repeated_devices_are_refused() {
        assert!(check_set(&[0, 1], 2).is_ok());
        assert!(check_set(&[0, 2], 2).unwrap_err().to_string().contains("no gpu 2"));
        assert!(check_set(&[1, 1], 2).unwrap_err().to_string().contains("named twice"));
        assert!(check_set(&[], 2).is_err());
    }
}
