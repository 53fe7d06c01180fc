//! Which devices a sort takes, and how much of the memory of each.

use pelton_device::{DeviceId, Machine};
use pelton_error::{Error, Result};

use crate::device::{range_buffers, scratch_bytes};
use crate::key::{Payload, SortSpec};
use crate::options::{Algorithm, SortOptions};
use crate::order::best_order;
use crate::predict::predict;
use crate::report::Prediction;
use crate::sorter::does_not_fit;

/// A choice that has been made.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) algorithm: Algorithm,
    /// In the order of their parts.
    pub(crate) devices: Vec<DeviceId>,
    /// Buffers of each.
    pub(crate) buffer_count: usize,
    /// Rows of each buffer.
    pub(crate) buffer_rows: usize,
}

/// The fewest rows of a chunk.
const CHUNK_ROWS_MIN: usize = 2;

/// Ranges of a range sort have as many parts as there are chunks. Of copies of 8 MiB a link loses some 2 %
/// (docs/perf/transfer.md), and larger chunks take longer to begin and to end.
const PART_BYTES: f64 = (8 << 20) as f64;

/// The plan of an algorithm.
///
/// # Errors
///
/// As [`Sorter::prepare`](crate::Sorter::prepare).
pub(crate) fn plan(
    machine: &Machine,
    spec: SortSpec,
    row_count: usize,
    algorithm: Algorithm,
    options: &SortOptions,
) -> Result<Plan> {
    if !algorithm.uses_devices() {
        if algorithm == Algorithm::Paradis && spec.payload != Payload::None {
            return Err(Error::unsupported(
                "PARADIS sorts keys without payload; take cpu, which carries one",
            ));
        }
        return Ok(Plan { algorithm, devices: Vec::new(), buffer_count: 0, buffer_rows: 0 });
    }
    let devices = devices(machine, algorithm, spec, options)?;
    let count = devices.len();
    let buffer_count = match algorithm {
        Algorithm::Het3n => 3,
        Algorithm::Range => range_buffers(),
        _ => 2,
    };
    let is_chunked = matches!(algorithm, Algorithm::Het2n | Algorithm::Het3n | Algorithm::Range);
    let mut buffer_rows = row_count.div_ceil(count);
    if algorithm == Algorithm::Range {
        let worthwhile = (PART_BYTES * (row_count * spec.row_bytes()) as f64).sqrt() as usize;
        buffer_rows = buffer_rows.min(worthwhile.div_ceil(spec.row_bytes()));
    }
    let needed = |rows: usize| (buffer_count * rows * spec.row_bytes() + scratch_bytes(spec, rows)) as u64;
    for device in &devices {
        let available = available(machine, *device, options)?;
        if needed(buffer_rows) <= available {
            continue;
        }
        if !is_chunked {
            let remedy = "name more devices, or sort by chunks: range, het-2n or het-3n";
            return Err(does_not_fit(*device, needed(buffer_rows), available, remedy));
        }
        let (mut low, mut high) = (0, buffer_rows);
        while low < high {
            let middle = high - (high - low) / 2;
            if needed(middle) <= available { low = middle } else { high = middle - 1 }
        }
        buffer_rows = low;
        if buffer_rows < CHUNK_ROWS_MIN {
            let remedy = "raise the limit on the device's memory, or sort on the CPU";
            return Err(does_not_fit(*device, needed(CHUNK_ROWS_MIN), available, remedy));
        }
    }
    Ok(Plan { algorithm, devices, buffer_count, buffer_rows })
}

/// The plan that is predicted to be fastest, and what was predicted of the others.
///
/// # Errors
///
/// As [`plan`], if no algorithm can do it.
pub(crate) fn plan_auto(
    machine: &Machine,
    spec: SortSpec,
    row_count: usize,
    options: &SortOptions,
) -> Result<(Plan, Vec<Prediction>)> {
    let mut best: Option<(std::time::Duration, Plan)> = None;
    let mut predictions = Vec::new();
    for algorithm in Algorithm::ALL {
        let planned = plan(machine, spec, row_count, algorithm, options).ok();
        // PARADIS is there to be compared with.
        let planned = planned.filter(|_| algorithm != Algorithm::Paradis);
        let time = planned.as_ref().map(|plan| predict(machine, spec, row_count, plan, options));
        predictions.push(Prediction { algorithm, time });
        if let (Some(plan), Some(time)) = (planned, time)
            && best.as_ref().is_none_or(|(least, _)| time < *least)
        {
            best = Some((time, plan));
        }
    }
    let (_, plan) = best.expect("the CPU sorts anything");
    Ok((plan, predictions))
}

fn devices(
    machine: &Machine,
    algorithm: Algorithm,
    spec: SortSpec,
    options: &SortOptions,
) -> Result<Vec<DeviceId>> {
    let all: Vec<DeviceId> = match &options.devices {
        Some(devices) => devices.clone(),
        None => machine.info().devices.iter().map(|device| device.id).collect(),
    };
    for device in &all {
        machine.device(*device)?;
    }
    if all.is_empty() {
        return Err(Error::unsupported("no device to sort on; sort on the CPU"));
    }
    let count = match algorithm {
        Algorithm::Gpu => 1,
        Algorithm::P2p if all.len().is_power_of_two() => all.len(),
        Algorithm::P2p if options.devices.is_some() => {
            return Err(Error::invalid_input(format!(
                "a P2P sort over {} devices; it takes 1, 2, 4, 8, …, and rp any number",
                all.len()
            )));
        }
        Algorithm::P2p => 1 << all.len().ilog2(),
        _ => all.len(),
    };
    if algorithm == Algorithm::P2p && count > 2 && options.is_stable && spec.payload != Payload::None {
        return Err(Error::unsupported(
            "a P2P sort over more than two devices does not keep the order of equal keys; take rp, which does",
        ));
    }
    match (&options.devices, &options.topology) {
        (None, Some(topology)) => Ok(best_order(topology, &all, count, algorithm, options.pairing)),
        _ => Ok(all[..count].to_vec()),
    }
}

fn available(machine: &Machine, device: DeviceId, options: &SortOptions) -> Result<u64> {
    let budget = machine.device_budget(device)?;
    let free = budget.limit_bytes().saturating_sub(budget.used_bytes());
    Ok(options.device_memory_limit_bytes.map_or(free, |limit| limit.min(free)))
}
