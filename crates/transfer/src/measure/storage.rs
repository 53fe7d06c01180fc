//! Reads from storage, by size and depth, into the memory of the first device.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use pelton_device::{DeviceId, Machine, MemoryKind, OnFull, Place};
use pelton_error::{Result, ResultExt};
use pelton_fabric::Vertex;
use pelton_fabric::profile::StorageRate;

use super::MeasureOptions;
use super::timing::{best, per_second};
use crate::{Storage, StorageOptions};

/// (bytes of one read, reads in flight): what shows where latency ends and the device's bandwidth begins.
const POINTS: [(usize, usize); 7] =
    [(64 << 10, 1), (64 << 10, 8), (256 << 10, 8), (1 << 20, 1), (1 << 20, 8), (4 << 20, 4), (4 << 20, 16)];

/// Reads a file of `options.bytes` that is made in `folder` and removed again.
///
/// # Errors
///
/// `Io` if the folder cannot be written or the file not read; `OutOfMemory` if the bytes do not fit on the device.
pub fn time_storage(
    machine: &Machine,
    folder: &Path,
    options: &mut MeasureOptions<'_>,
) -> Result<Vec<StorageRate>> {
    let device = DeviceId(0);
    options.report(&format!("reads from {}", folder.display()));
    let name = file_name(folder);
    let removed = Removed(&name);
    write_file(&name, options.bytes)?;
    let target = machine.allocate(MemoryKind::Device(device), options.bytes, OnFull::Refuse)?;
    let mut results = Vec::new();
    for (chunk_bytes, depth) in POINTS {
        // Small reads one at a time say what they have to say about a part of the file.
        let span = target.slice(0..options.bytes.min(chunk_bytes * depth * 256));
        let storage_options = StorageOptions { chunk_bytes, depth, ..StorageOptions::default() };
        let mut storage = Storage::open(machine, device, &name, storage_options)?;
        let time = best(machine, 1, || storage.read_blocking(0, &span))?;
        results.push(StorageRate {
            folder: folder.display().to_string(),
            to: Vertex::from(Place::Device(device)),
            path: storage.path().to_string(),
            read_bytes: chunk_bytes as u64,
            depth: depth as u32,
            bytes_per_s: per_second(span.len() as f64, time),
        });
    }
    drop(removed);
    Ok(results)
}

/// Removes the file that [`time_storage`] reads, for a process that is ended in the middle of it.
pub fn remove_storage_file(folder: &Path) {
    drop(Removed(&file_name(folder)));
}

fn file_name(folder: &Path) -> PathBuf {
    folder.join(format!(".pelton-measure-{}", std::process::id()))
}

struct Removed<'a>(&'a Path);

impl Drop for Removed<'_> {
    fn drop(&mut self) {
        // If it is gone already, that is what was wanted.
        let _ = std::fs::remove_file(self.0);
    }
}

/// Bytes without a pattern that storage could compress or leave out.
fn write_file(name: &Path, bytes: usize) -> Result<()> {
    let write = || -> std::io::Result<()> {
        let mut file = File::create(name)?;
        let mut block = vec![0_u8; 1 << 20];
        let mut left = bytes;
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        while left > 0 {
            for word in block.chunks_exact_mut(8) {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                word.copy_from_slice(&(state ^ (state >> 31)).to_le_bytes());
            }
            let part = left.min(block.len());
            file.write_all(&block[..part])?;
            left -= part;
        }
        file.sync_all()
    };
    write()
        .context(|| format!("writing {bytes} bytes to {}; take another folder or free space", name.display()))
}
