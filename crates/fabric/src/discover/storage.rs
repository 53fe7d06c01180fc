//! Storage devices: what `/sys/block` lists, without what is made of memory, of files or of other devices.

use crate::Storage;

use super::capacity;
use super::pci::{self, Endpoint};
use super::tree::Tree;

/// A storage device and where it hangs.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) storage: Storage,
    pub(crate) endpoint: Option<Endpoint>,
    pub(crate) limit_bytes_per_s: Option<f64>,
}

/// Not devices of their own: loop, RAM and network disks, device mapper, RAID, optical and floppy drives.
const NOT_STORAGE: [&str; 10] = ["loop", "ram", "zram", "dm-", "md", "sr", "fd", "nbd", "mtd", "bcache"];

/// `/sys/block/*/size` counts these, whatever the device's own sectors.
const SECTOR_BYTES: u64 = 512;

/// Finds them, by name.
pub(crate) fn find(tree: &Tree) -> Vec<Found> {
    let names = tree.names("sys/block");
    names
        .iter()
        .filter(|name| !NOT_STORAGE.iter().any(|prefix| name.starts_with(prefix)))
        .filter_map(|name| read(tree, name))
        .collect()
}

fn read(tree: &Tree, name: &str) -> Option<Found> {
    let directory = format!("sys/block/{name}");
    let is_set = |file: &str| tree.number::<u32>(format!("{directory}/{file}")) == Some(1);
    let bytes = tree.number::<u64>(format!("{directory}/size"))?.checked_mul(SECTOR_BYTES)?;
    // Hidden: one path of several to an NVMe device that is listed by its own name.
    if bytes == 0 || is_set("removable") || is_set("hidden") {
        return None;
    }
    let is_nvme = name.starts_with("nvme");
    let speaks_scsi = name.starts_with("sd");
    let endpoint = pci::under(tree, &directory).or_else(|| {
        let controller = name.split('n').nth(1).map(|number| format!("n{number}"))?;
        is_nvme.then(|| pci::under(tree, format!("sys/class/nvme/{controller}")))?
    });
    Some(Found {
        storage: Storage { name: name.to_string(), model: model_of(tree, &directory, name), bytes, is_nvme },
        // The link of a disk controller is not the link of the disk.
        endpoint: endpoint.map(|endpoint| Endpoint { link: endpoint.link.filter(|_| is_nvme), ..endpoint }),
        limit_bytes_per_s: speaks_scsi.then_some(capacity::SATA_BYTES_PER_S),
    })
}

fn model_of(tree: &Tree, directory: &str, name: &str) -> String {
    let model = tree.text(format!("{directory}/device/model")).filter(|model| !model.is_empty());
    let is_virtual = name.starts_with("vd") || name.starts_with("xvd");
    model.unwrap_or_else(|| if is_virtual { "virtual disk" } else { "unknown" }.to_string())
}
