//! Where a device hangs in the PCI tree: the bridges above it, its node, its link.
//!
//! ```text
//!   /sys/devices/pci0000:16/0000:16:01.0/0000:17:00.0/0000:18:00.0/0000:19:00.0
//!                 root      root port    switch,      switch,      the device
//!                                        upstream     downstream
//! ```
//!
//! Below the device come names of the kernel (`nvme/nvme0`), which are no addresses and end the chain.

use std::path::Path;

use super::facts::PcieLink;
use super::tree::Tree;

/// A device in the PCI tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// Such as `0000:19:00.0`.
    pub(crate) address: String,
    /// The bridges from the root port down to the one it hangs on.
    pub(crate) bridges: Vec<String>,
    /// Its host node, if the firmware says so.
    pub(crate) node: Option<u32>,
    /// What it could do itself, whatever it is plugged into.
    pub(crate) link: Option<PcieLink>,
}

/// The device at `address`.
pub(crate) fn at(tree: &Tree, address: &str) -> Option<Endpoint> {
    under(tree, device_directory(address))
}

/// The PCI device that the device at `path` is a part of.
pub(crate) fn under(tree: &Tree, path: impl AsRef<Path>) -> Option<Endpoint> {
    let real = tree.real_path(path)?;
    let names = real.iter().filter_map(|name| name.to_str());
    let mut bridges: Vec<String> = names.filter(|name| is_address(name)).map(str::to_string).collect();
    let address = bridges.pop()?;
    let node = tree.number::<i64>(format!("{}/numa_node", device_directory(&address)));
    Some(Endpoint {
        // The kernel says -1 where the firmware does not say.
        node: node.and_then(|node| u32::try_from(node).ok()),
        link: link_of(tree, &address),
        address,
        bridges,
    })
}

/// The fastest link that the device or port at `address` can have.
pub(crate) fn link_of(tree: &Tree, address: &str) -> Option<PcieLink> {
    let directory = device_directory(address);
    let generation = generation_of(&tree.text(format!("{directory}/max_link_speed"))?)?;
    let width = tree.number::<u32>(format!("{directory}/max_link_width"))?;
    // 0 and 255 are how ports without a link, and registers of devices that are asleep, read.
    (1..=32).contains(&width).then_some(PcieLink { generation, width })
}

/// Vendor and class as the kernel writes them: `0x10de`, `0x068000`.
pub(crate) fn vendor_and_class(tree: &Tree, address: &str) -> Option<(u32, u32)> {
    let read = |file: &str| {
        let text = tree.text(format!("{}/{file}", device_directory(address)))?;
        u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()
    };
    Some((read("vendor")?, read("class")?))
}

/// `00000000:1B:00.0`, as NVML writes, to `0000:1b:00.0`, as the kernel writes.
pub(crate) fn normal_address(text: &str) -> Option<String> {
    let text = text.trim().to_ascii_lowercase();
    if !is_address(&text) {
        return None;
    }
    let (domain, rest) = text.split_once(':')?;
    let domain = u32::from_str_radix(domain, 16).ok()?;
    Some(format!("{domain:04x}:{rest}"))
}

fn device_directory(address: &str) -> String {
    format!("sys/bus/pci/devices/{address}")
}

/// `domain:bus:device.function`, the domain of 4 to 8 digits.
fn is_address(name: &str) -> bool {
    let hex = |text: &str, lengths: std::ops::RangeInclusive<usize>| {
        lengths.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let mut parts = name.split(':');
    let (Some(domain), Some(bus), Some(rest), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    let Some((device, function)) = rest.split_once('.') else { return false };
    hex(domain, 4..=8) && hex(bus, 2..=2) && hex(device, 2..=2) && hex(function, 1..=1)
}

/// `16.0 GT/s PCIe` to 4.
fn generation_of(speed: &str) -> Option<u32> {
    let rate: f64 = speed.split_whitespace().next()?.parse().ok()?;
    [2.5, 5.0, 8.0, 16.0, 32.0, 64.0].iter().position(|&known| known == rate).map(|index| index as u32 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_told_from_other_names() {
        for name in ["0000:19:00.0", "10000:01:00.0", "00000000:1B:00.0"] {
            assert!(is_address(name), "{name}");
        }
        for name in
            ["pci0000:16", "nvme0", "0000:19:00", "0000:19:00.0.1", "000:19:00.0", "0000:1g:00.0", "", ":::."]
        {
            assert!(!is_address(name), "{name}");
        }
    }

    #[test]
    fn addresses_of_nvml_become_those_of_the_kernel() {
        assert_eq!(normal_address("00000000:1B:00.0").as_deref(), Some("0000:1b:00.0"));
        assert_eq!(normal_address("00010000:01:00.0").as_deref(), Some("10000:01:00.0"));
        assert_eq!(normal_address("garbage"), None);
    }

    #[test]
    fn speeds_become_generations() {
        assert_eq!(generation_of("2.5 GT/s PCIe"), Some(1));
        assert_eq!(generation_of("32.0 GT/s PCIe"), Some(5));
        assert_eq!(generation_of("8 GT/s"), Some(3));
        for text in ["Unknown", "", "nan GT/s", "-1"] {
            assert_eq!(generation_of(text), None, "{text}");
        }
    }
}
