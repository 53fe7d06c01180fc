//! How files are read, and the directory that holds the warehouse.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{OFlags, major, minor, statvfs};

use crate::discover::tree::Tree;

use super::report::{Finding, Group, State};
use super::system::gibibytes;

/// Less is likely to run out during the first load. A guess.
const FREE_BYTES_MIN: u64 = 1 << 30;

/// Looks at all of them.
pub(super) fn examine(tree: &Tree, warehouse: Option<&Path>) -> Vec<Finding> {
    let mut findings = vec![io_uring(tree)];
    if let Some(warehouse) = warehouse {
        findings.extend(directory(tree, warehouse));
    }
    findings
}

fn io_uring(tree: &Tree) -> Finding {
    let gives = "many reads in flight without a thread for each";
    let finding = |detail: &str| Finding::ok(Group::Storage, "io_uring", gives, detail);
    let fix = "sudo sysctl -w kernel.io_uring_disabled=0";
    match tree.number::<u32>("proc/sys/kernel/io_uring_disabled") {
        Some(0) => finding("allowed"),
        Some(1) => finding("only for the group kernel.io_uring_group").but(State::Limited, fix),
        Some(_) => finding("forbidden").but(State::Missing, fix),
        None => finding("not forbidden (a kernel before 6.6 has no switch)"),
    }
}

fn directory(tree: &Tree, warehouse: &Path) -> Vec<Finding> {
    let gives = "a place for tables";
    let finding = |detail: String| Finding::ok(Group::Storage, "warehouse", gives, detail).required();
    let Some((existing, device)) = nearest(warehouse) else {
        let detail = format!("{}: neither it nor any directory above it can be read", warehouse.display());
        return vec![finding(detail).but(State::Missing, "name a directory that exists")];
    };
    let trial = existing.join(format!(".pelton-doctor-{}", std::process::id()));
    if let Err(error) = open_new(&trial, 0) {
        let detail = format!("{}: cannot write there: {error}", existing.display());
        return vec![
            finding(detail).but(State::Missing, format!("sudo chown $USER '{}'", existing.display())),
        ];
    }
    let note = if existing == warehouse { "" } else { ", to be created" };
    vec![
        finding(format!("{}{note}", warehouse.display())),
        free_space(&existing),
        direct_reads(&trial),
        disk_kind(tree, device),
    ]
}

/// The directory itself, or the nearest above it that exists; and the device it is on.
fn nearest(path: &Path) -> Option<(PathBuf, u64)> {
    let path = std::path::absolute(path).ok()?;
    path.ancestors().find_map(|path| {
        let metadata = fs::metadata(path).ok().filter(fs::Metadata::is_dir)?;
        Some((path.to_path_buf(), metadata.dev()))
    })
}

/// Opens a new file with these flags, and removes it.
fn open_new(path: &Path, flags: i32) -> std::io::Result<()> {
    let opened = OpenOptions::new().write(true).create_new(true).custom_flags(flags).open(path);
    // A file system without direct I/O creates the file before it refuses the flag.
    if opened.as_ref().err().is_none_or(|error| error.kind() != std::io::ErrorKind::AlreadyExists) {
        let _ = fs::remove_file(path);
    }
    opened.map(|_| ())
}

fn free_space(directory: &Path) -> Finding {
    let gives = "room for tables and for what spills";
    let free = statvfs(directory).map(|system| system.f_bavail.saturating_mul(system.f_frsize)).ok();
    let detail = free.map_or("unknown".to_string(), gibibytes);
    let finding = Finding::ok(Group::Storage, "free space", gives, detail);
    match free {
        Some(free) if free < FREE_BYTES_MIN => {
            finding.but(State::Limited, "free some, or name another directory")
        }
        _ => finding,
    }
}

fn direct_reads(trial: &Path) -> Finding {
    let gives = "reads at the disk's speed that leave the page cache alone";
    let finding = |detail: String| Finding::ok(Group::Storage, "direct I/O", gives, detail);
    match open_new(trial, OFlags::DIRECT.bits() as i32) {
        Ok(()) => finding("works (O_DIRECT)".to_string()),
        Err(error) => finding(format!("refused: {error}")).but(
            State::Limited,
            "put the warehouse on ext4, XFS or Btrfs; reads go through the page cache until then",
        ),
    }
}

fn disk_kind(tree: &Tree, device: u64) -> Finding {
    let gives = "tables larger than memory at a good speed";
    let finding = |detail: String| Finding::ok(Group::Storage, "disk", gives, detail);
    let number = format!("sys/dev/block/{}:{}", major(device), minor(device));
    let Some(name) = tree.real_path(number).and_then(|path| disk_of(tree, &path)) else {
        return finding("not a local disk (network, overlay or memory)".to_string());
    };
    let model = tree.text(format!("sys/block/{name}/device/model")).unwrap_or_default();
    let is_rotational = tree.number::<u32>(format!("sys/block/{name}/queue/rotational")) == Some(1);
    match name.as_str() {
        name if name.starts_with("nvme") => finding(format!("{name}, NVMe, {model}")),
        // Virtual disks often claim to rotate.
        name if name.starts_with("vd") || name.starts_with("xvd") => finding(format!("{name}, virtual")).but(
            State::Limited,
            "a local NVMe drive, if the machine offers one; a virtual disk gives 1 to 2 GB/s",
        ),
        name if is_rotational => finding(format!("{name}, rotating, {model}"))
            .but(State::Limited, "an SSD; a rotating disk gives about 0.2 GB/s"),
        name => finding(format!("{name}, no rotation, {model}")),
    }
}

/// The disk of a block device: itself, or the one whose partition it is.
fn disk_of(tree: &Tree, path: &Path) -> Option<String> {
    let is_disk = |name: &&str| tree.exists(format!("sys/block/{name}"));
    path.iter().rev().filter_map(|name| name.to_str()).find(is_disk).map(str::to_string)
}
