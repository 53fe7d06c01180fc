//! The transfer methods, each delivering to a kernel that reads everything once (Lutz et al. 2020, Figure 12).

use std::sync::Arc;

use pelton_device::{Buffer, DeviceId, Machine, MemoryKind, OnFull, Place};
use pelton_error::{ErrorKind, Result};
use pelton_kernels::{Gather, Library, fill_random, gather, read};

use super::MeasureOptions;
use super::profile::MethodResult;
use super::timing::per_second;
use crate::transfer::{Column, Delivery, Method, TransferOptions};

/// Random accesses of 8 bytes in one run, at most.
const LOADS_MAX: u64 = 1 << 22;

/// Every method to every device.
pub(crate) fn measure_methods(
    machine: &Machine,
    library: Option<&Arc<Library>>,
    options: &mut MeasureOptions<'_>,
) -> Result<Vec<MethodResult>> {
    let mut results = Vec::new();
    for device in machine.info().devices.iter().map(|device| device.id) {
        for method in Method::ALL {
            options.report(&format!("{method} to {device}"));
            results.push(measure_method(machine, library, device, method, options)?);
        }
    }
    Ok(results)
}

fn measure_method(
    machine: &Machine,
    library: Option<&Arc<Library>>,
    device: DeviceId,
    method: Method,
    options: &MeasureOptions<'_>,
) -> Result<MethodResult> {
    let missing = |reason: String| MethodResult {
        device: device.0,
        method: method.name().into(),
        bytes_per_s: None,
        random_accesses_per_s: None,
        missing: reason,
    };
    match time_method(machine, library, device, method, options) {
        Ok((bytes_per_s, random)) => Ok(MethodResult {
            bytes_per_s: Some(bytes_per_s),
            random_accesses_per_s: random,
            ..missing(String::new())
        }),
        Err(error) if error.kind() == &ErrorKind::Unsupported => Ok(missing(error.to_string())),
        Err(error) => Err(error),
    }
}

fn time_method(
    machine: &Machine,
    library: Option<&Arc<Library>>,
    device: DeviceId,
    method: Method,
    options: &MeasureOptions<'_>,
) -> Result<(f64, Option<f64>)> {
    method.check(machine, device)?;
    let node = machine.device(device)?.node;
    let source = machine.allocate(method.source_kind(node), options.bytes, OnFull::Refuse)?;
    let sums = machine.allocate(MemoryKind::Device(device), 8, OnFull::Refuse)?;
    let mut best = std::time::Duration::MAX;
    for _ in 0..=options.repetitions {
        refill(machine, &source, node)?;
        let start = machine.now();
        let column = Column { span: source.span(), row_bytes: 1 };
        let transfer = TransferOptions { keeps_page_locks: false, ..TransferOptions::default() };
        let mut delivery = Delivery::open(machine, device, method, vec![column], transfer)?;
        while let Some(chunk) = delivery.next_chunk()? {
            delivery.stream(&chunk).run(read(library, chunk.spans[0].clone(), sums.span()))?;
        }
        delivery.wait_blocking()?;
        best = best.min(machine.now().saturating_sub(start));
    }
    let random = if method.is_push() || method == Method::UnifiedMigration {
        None
    } else {
        Some(time_gather(machine, library, device, &source, &sums)?)
    };
    Ok((per_second(options.bytes as f64, best), random))
}

/// Brings the source to the host: pages of managed memory start there in every run, and cold pages get memory.
fn refill(machine: &Machine, source: &Buffer, node: pelton_device::NodeId) -> Result<()> {
    let stream = machine.stream(Place::Host(node))?;
    stream.run(fill_random(None, source.span(), 3))?;
    stream.wait_blocking()
}

fn time_gather(
    machine: &Machine,
    library: Option<&Arc<Library>>,
    device: DeviceId,
    source: &Buffer,
    sums: &Buffer,
) -> Result<f64> {
    let stream = machine.stream(Place::Device(device))?;
    let count = (source.len() as u64 / 8).min(LOADS_MAX);
    let what = Gather { width_bytes: 8, count, seed: 5 };
    let time = super::timing::best(machine, 2, || {
        stream.run(gather(library, source.span(), what, sums.span()))?;
        stream.wait_blocking()
    })?;
    Ok(per_second(count as f64, time))
}
