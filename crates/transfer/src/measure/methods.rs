//! The transfer methods, each delivering to a kernel that reads everything once (Lutz et al. 2020, Figure 12).

use std::sync::Arc;
use std::time::Duration;

use pelton_device::{Buffer, DeviceId, Machine, MemoryKind, NodeId, OnFull, Place};
use pelton_error::{Error, ErrorKind, Result};
use pelton_fabric::profile::MethodResult;
use pelton_kernels::{Gather, Library, fill_random, gather, read};

use super::MeasureOptions;
use super::timing::{best, least, per_second};
use crate::{Column, Delivery, Method, TransferOptions};

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

/// Every method to every device, as missing for want of kernels.
pub(crate) fn without_library(machine: &Machine) -> Vec<MethodResult> {
    let devices = machine.info().devices.iter().map(|device| device.id.0);
    let missing = |device, method: Method| MethodResult {
        device,
        method: method.name().into(),
        bytes_per_s: None,
        random_accesses_per_s: None,
        missing: "no CUDA library of Pelton; 'make cuda' builds it".into(),
    };
    devices.flat_map(|device| Method::ALL.map(|method| missing(device, method))).collect()
}

fn measure_method(
    machine: &Machine,
    library: Option<&Arc<Library>>,
    device: DeviceId,
    method: Method,
    options: &MeasureOptions<'_>,
) -> Result<MethodResult> {
    let result = |bytes_per_s, random_accesses_per_s, missing| MethodResult {
        device: device.0,
        method: method.name().into(),
        bytes_per_s,
        random_accesses_per_s,
        missing,
    };
    let transfer = TransferOptions { keeps_page_locks: false, ..TransferOptions::default() };
    match time_method(machine, library, device, method, options.bytes, options.repetitions, &transfer) {
        Ok(times) => {
            let sequential = per_second(options.bytes as f64, least(&times.sequential));
            let random = times.random.map(|time| per_second(times.random_count as f64, time));
            Ok(result(Some(sequential), random, String::new()))
        }
        Err(error) if error.kind() == &ErrorKind::Unsupported => Ok(result(None, None, error.to_string())),
        Err(error) => Err(error),
    }
}

/// What one method took.
#[derive(Debug, Clone, PartialEq)]
pub struct MethodTimes {
    /// Everything delivered to a kernel that reads it, each repetition.
    pub sequential: Vec<Duration>,
    /// `random_count` independent accesses of 8 bytes, for methods that pull without moving pages.
    pub random: Option<Duration>,
    /// How many.
    pub random_count: u64,
}

/// Delivers `bytes` to a kernel of `device` by `method`, `repetitions` times after one to warm up. Preparing the
/// source and taking memory for chunks is not part of the times: pages of managed memory start at the host in every repetition.
///
/// # Errors
///
/// `Unsupported` if the device lacks the capability or kernels are missing; `OutOfMemory`; what the device reports.
pub fn time_method(
    machine: &Machine,
    library: Option<&Arc<Library>>,
    device: DeviceId,
    method: Method,
    bytes: usize,
    repetitions: u32,
    options: &TransferOptions,
) -> Result<MethodTimes> {
    if bytes == 0 {
        return Err(Error::invalid_input("a transfer of 0 bytes has no rate"));
    }
    method.check(machine, device)?;
    let node = machine.device(device)?.node;
    let source = machine.allocate(method.source_kind(node), bytes, OnFull::Refuse)?;
    let sums = machine.allocate(MemoryKind::Device(device), 8, OnFull::Refuse)?;
    let moves_pages = source.kind() == &MemoryKind::Managed;
    let mut sequential = Vec::new();
    for run in 0..=repetitions {
        if run == 0 || moves_pages {
            fill_from_host(machine, &source, node)?;
        }
        let column = Column { span: source.span(), row_bytes: 1 };
        let mut delivery = Delivery::open(machine, device, method, vec![column], options.clone())?;
        let start = machine.now();
        while let Some(chunk) = delivery.next_chunk()? {
            delivery.stream(&chunk).run(read(library, chunk.spans[0].clone(), sums.span()))?;
        }
        delivery.wait_blocking()?;
        if run > 0 {
            sequential.push(machine.now().saturating_sub(start));
        }
    }
    let random_count = (bytes as u64 / 8).min(LOADS_MAX);
    let pulls = !method.is_push() && !moves_pages;
    let random =
        pulls.then(|| time_gather(machine, library, device, &source, &sums, random_count)).transpose()?;
    Ok(MethodTimes { sequential, random, random_count })
}

/// Writes to all of `buffer` with the cores of `node`, so that every page is there.
fn fill_from_host(machine: &Machine, buffer: &Buffer, node: NodeId) -> Result<()> {
    let thread_count = std::thread::available_parallelism().map_or(1, usize::from);
    let share = buffer.len().div_ceil(thread_count).next_multiple_of(4096);
    let mut streams = Vec::with_capacity(thread_count);
    for (index, span) in buffer.span().chunks(share).enumerate() {
        let stream = machine.stream(Place::Host(node))?;
        stream.run(fill_random(None, span, index as u64))?;
        streams.push(stream);
    }
    streams.iter().try_for_each(pelton_device::Stream::wait_blocking)
}

fn time_gather(
    machine: &Machine,
    library: Option<&Arc<Library>>,
    device: DeviceId,
    source: &Buffer,
    sums: &Buffer,
    count: u64,
) -> Result<Duration> {
    let stream = machine.stream(Place::Device(device))?;
    let what = Gather { width_bytes: 8, count, seed: 5 };
    best(machine, 2, || {
        stream.run(gather(library, source.span(), what, sums.span()))?;
        stream.wait_blocking()
    })
}
