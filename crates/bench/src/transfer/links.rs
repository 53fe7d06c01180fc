//! Beyond the paper: multi-link transfers, small copies enqueued, files read into device memory.

use std::path::Path;
use std::time::Duration;

use pelton_device::{DeviceId, MemoryKind, OnFull, Place};
use pelton_error::{Error, ErrorKind, Result};
use pelton_transfer::measure::{MeasureOptions, time_storage};
use pelton_transfer::{HelperLink, copy, copy_multi_link};

use super::{GB_PER_S, Stage, summary};
use crate::report::{Outcome, Row};

/// Figures of the rows.
pub(super) const MULTI_LINK: &str = "multi-link transfer";
const ENQUEUED: &str = "enqueueing";
const ALLOCATION: &str = "allocation and release";
const STORAGE: &str = "storage";

/// Copies enqueued to find what one costs the thread that enqueues.
const ENQUEUED_COUNT: usize = 2000;

pub(super) fn measure(stage: &Stage<'_>) -> Result<Vec<Row>> {
    let mut rows = multi_link(stage)?;
    rows.push(enqueueing(stage)?);
    rows.extend(allocations(stage)?);
    if let Some(folder) = &stage.options.storage {
        rows.extend(storage(stage, folder)?);
    }
    Ok(rows)
}

/// The device's own link alone, then with each neighbour's beside it.
fn multi_link(stage: &Stage<'_>) -> Result<Vec<Row>> {
    let machine = stage.machine;
    let bytes = stage.options.bytes();
    let node = machine.device(stage.device)?.node;
    let source = machine.allocate(MemoryKind::Pinned(node), bytes, OnFull::Refuse)?;
    let target = machine.allocate(MemoryKind::Device(stage.device), bytes, OnFull::Refuse)?;
    let rates = |once: &dyn Fn() -> Result<()>| -> Result<Outcome> {
        let mut values = Vec::new();
        for run in 0..=stage.options.repetitions {
            let start = machine.now();
            once()?;
            if run > 0 {
                values.push(bytes as f64 / machine.now().saturating_sub(start).as_secs_f64() / GB_PER_S);
            }
        }
        Ok(summary(&values))
    };
    let transfer = &stage.options.transfer;
    let own = rates(&|| copy(machine, &source.span(), &target.span(), transfer)?.wait_blocking())?;
    let mut rows = vec![stage.row(MULTI_LINK, "own link alone", "GB/s", own)];
    for helper in neighbours(stage) {
        // Equal links: each takes half. A measured profile would say otherwise for unequal ones.
        let helpers = [HelperLink { device: helper, rate: 1.0 }];
        let once = || {
            copy_multi_link(machine, &source.span(), &target.span(), 1.0, &helpers, transfer)
                .and_then(|all| all.wait_blocking())
        };
        rows.push(stage.row(MULTI_LINK, format!("with that of {helper}"), "GB/s", rates(&once)?));
    }
    if rows.len() == 1 {
        let missing = Outcome::Missing("no peer with a link of its own".into());
        rows.push(stage.row(MULTI_LINK, "with a neighbour's", "GB/s", missing));
    }
    Ok(rows)
}

fn neighbours(stage: &Stage<'_>) -> Vec<DeviceId> {
    let all = stage.machine.info().devices.iter().map(|device| device.id);
    all.filter(|device| *device != stage.device && stage.machine.is_peer(*device, stage.device)).collect()
}

/// What one small copy costs the thread that enqueues it.
fn enqueueing(stage: &Stage<'_>) -> Result<Row> {
    let machine = stage.machine;
    let stream = machine.stream(Place::Device(stage.device))?;
    let source = machine.allocate(MemoryKind::PINNED, 4096, OnFull::Refuse)?;
    let target = machine.allocate(MemoryKind::Device(stage.device), 4096, OnFull::Refuse)?;
    let mut values = Vec::new();
    for run in 0..=stage.options.repetitions {
        // Time of the wall: the thread is real, also where the device is not.
        let mut enqueueing = Duration::ZERO;
        for _ in 0..ENQUEUED_COUNT / 100 {
            let start = std::time::Instant::now();
            for _ in 0..100 {
                stream.copy(&source.span(), &target.span())?;
            }
            enqueueing += start.elapsed();
            stream.wait_blocking()?;
        }
        if run > 0 {
            values.push(enqueueing.as_secs_f64() * 1e6 / ENQUEUED_COUNT as f64);
        }
    }
    let outcome = if machine.info().is_simulated {
        Outcome::Missing("nothing is enqueued in a simulation".into())
    } else {
        summary(&values)
    };
    Ok(stage.row(ENQUEUED, "a copy of 4 KiB", "us", outcome))
}

/// What taking memory of each kind costs, which no other figure includes.
fn allocations(stage: &Stage<'_>) -> Result<Vec<Row>> {
    let node = stage.machine.device(stage.device)?.node;
    let kinds = [MemoryKind::Pageable(node), MemoryKind::Pinned(node), MemoryKind::Device(stage.device), {
        MemoryKind::Managed
    }];
    kinds.into_iter().map(|kind| allocation(stage, kind)).collect()
}

fn allocation(stage: &Stage<'_>, kind: MemoryKind) -> Result<Row> {
    let machine = stage.machine;
    let mut values = Vec::new();
    let name = kind.to_string();
    if machine.info().is_simulated {
        let missing = Outcome::Missing("the simulator takes memory in no time".into());
        return Ok(stage.row(ALLOCATION, name, "ms/GiB", missing));
    }
    for run in 0..stage.options.repetitions as usize {
        // Another size each time, so that no pool holds such a block already.
        let bytes = stage.options.bytes() + run * 4096;
        let start = machine.now();
        match machine.allocate(kind.clone(), bytes, OnFull::Refuse) {
            Ok(_) => {}
            Err(error) if error.kind() == &ErrorKind::Unsupported => {
                return Ok(stage.row(ALLOCATION, name, "ms/GiB", Outcome::Missing(error.to_string())));
            }
            Err(error) => return Err(error),
        }
        let time = machine.now().saturating_sub(start);
        values.push(time.as_secs_f64() * 1e3 / (bytes as f64 / f64::from(1 << 30)));
    }
    Ok(stage.row(ALLOCATION, name, "ms/GiB", summary(&values)))
}

fn storage(stage: &Stage<'_>, folder: &Path) -> Result<Vec<Row>> {
    if stage.machine.info().is_simulated {
        let missing = Outcome::Missing("a simulated machine has no files".into());
        return Ok(vec![stage.row(STORAGE, folder.display().to_string(), "GB/s", missing)]);
    }
    let mut options = MeasureOptions { bytes: stage.options.bytes(), ..MeasureOptions::default() };
    let points = match time_storage(stage.machine, folder, &mut options) {
        Ok(points) => points,
        Err(error) if matches!(error.kind(), ErrorKind::Io | ErrorKind::Unsupported) => {
            let missing = Outcome::Missing(Error::to_string(&error));
            return Ok(vec![stage.row(STORAGE, folder.display().to_string(), "GB/s", missing)]);
        }
        Err(error) => return Err(error),
    };
    let row = |point: pelton_fabric::profile::StorageRate| {
        let what = format!("{} KiB, {} at once", point.read_bytes >> 10, point.depth);
        let outcome = summary(&[point.bytes_per_s / GB_PER_S]);
        Row { note: point.path, ..stage.row(STORAGE, what, "GB/s", outcome) }
    };
    Ok(points.into_iter().map(row).collect())
}
