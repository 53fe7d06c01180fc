//! Processors reading memories by their own loads: the access-path profile of Lutz et al. 2020, Figures 1 and 3.

use std::sync::Arc;
use std::time::Duration;

use pelton_device::{DeviceKind, Machine, NodeId, OnFull, Place, Stream};
use pelton_error::{Error, Result};
use pelton_fabric::profile::{AccessRates, HostRates};
use pelton_kernels::{Chase, Cycle, Gather, Library, chase, fill_cycle, fill_random, gather, read};

use super::MeasureOptions;
use super::timing::{best, least, per_second, runs};
use crate::lane::memory_at;

/// Bytes of one random load, as in the source.
const WIDTH_BYTES: u32 = 4;
/// A cache line of the largest kind: dependent loads never share one.
const STRIDE_BYTES: u32 = 128;
/// Random loads of one run at most, on a GPU and on host threads.
const GPU_LOADS_MAX: u64 = 1 << 26;
const HOST_LOADS_MAX: u64 = 1 << 22;
/// Dependent loads of one run.
const STEPS: u64 = 1 << 14;

/// Every device reading its own memory, its peers', and every host node's; host cores reading each node's.
pub(crate) fn measure_accesses(
    machine: &Machine,
    library: Option<&Arc<Library>>,
    options: &mut MeasureOptions<'_>,
) -> Result<Vec<AccessRates>> {
    let nodes = || (0..machine.info().node_count).map(|node| Place::Host(NodeId(node)));
    let devices = || machine.info().devices.iter().map(|device| device.id);
    let mut results = Vec::new();
    for node in nodes() {
        options.report(&format!("loads of the host from {node}"));
        results.push(measure_access(machine, library, node, node, options)?);
    }
    for device in devices() {
        let peers = devices().filter(|peer| machine.is_peer(device, *peer)).map(Place::Device);
        for memory in peers.chain(nodes()) {
            options.report(&format!("loads of {device} from {memory}"));
            results.push(measure_access(machine, library, Place::Device(device), memory, options)?);
        }
    }
    Ok(results)
}

/// All cores reading and copying each host memory.
pub(crate) fn measure_host(machine: &Machine, options: &mut MeasureOptions<'_>) -> Result<Vec<HostRates>> {
    let thread_count = std::thread::available_parallelism().map_or(1, usize::from);
    let mut results = Vec::new();
    for node in (0..machine.info().node_count).map(NodeId) {
        options.report(&format!("memory of {node}"));
        let place = Place::Host(node);
        let streams: Vec<Stream> = (0..thread_count).map(|_| machine.stream(place)).collect::<Result<_>>()?;
        let take = |bytes| machine.allocate(memory_at(place), bytes, OnFull::Refuse);
        let bytes = host_bytes(machine, options.bytes);
        let (source, target) = (take(bytes)?, take(bytes)?);
        streams[0].run(fill_random(None, source.span(), 1))?;
        streams[0].wait_blocking()?;
        let sums = take(8 * thread_count)?;
        let share = bytes.div_ceil(thread_count).next_multiple_of(4096);
        let wait = || streams.iter().try_for_each(Stream::wait_blocking);
        let reading = best(machine, options.repetitions, || {
            for (index, (stream, span)) in streams.iter().zip(source.span().chunks(share)).enumerate() {
                stream.run(read(None, span, sums.slice(index * 8..index * 8 + 8)))?;
            }
            wait()
        })?;
        let copying = best(machine, options.repetitions, || {
            let pairs = source
                .span()
                .chunks(share)
                .collect::<Vec<_>>()
                .into_iter()
                .zip(target.span().chunks(share).collect::<Vec<_>>());
            for (stream, (from, to)) in streams.iter().zip(pairs) {
                stream.copy(&from, &to)?;
            }
            wait()
        })?;
        results.push(HostRates {
            node: node.0,
            thread_count: thread_count as u32,
            read_bytes_per_s: per_second(bytes as f64, reading),
            copy_bytes_per_s: per_second(2.0 * bytes as f64, copying),
        });
    }
    Ok(results)
}

/// Enough to see memory and not the last-level cache, of which processors have up to a gigabyte, if it fits.
fn host_bytes(machine: &Machine, bytes: usize) -> usize {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/cpu0/cache/index3/size").unwrap_or_default();
    let cache_kib: usize = text.trim().trim_end_matches('K').parse().unwrap_or(0);
    let wanted = bytes.max(4 * (cache_kib << 10));
    let room = machine.info().pinned_memory_limit_bytes / 4;
    if machine.info().is_simulated { bytes } else { wanted.min(room as usize).max(bytes) }
}

fn is_gpu(machine: &Machine, processor: Place) -> bool {
    match processor {
        Place::Host(_) => false,
        Place::Device(device) => {
            machine.device(device).is_ok_and(|device| !matches!(device.kind, DeviceKind::Logical))
        }
    }
}

fn measure_access(
    machine: &Machine,
    library: Option<&Arc<Library>>,
    processor: Place,
    memory: Place,
    options: &MeasureOptions<'_>,
) -> Result<AccessRates> {
    let times = time_access(machine, library, processor, memory, options.bytes, options.repetitions)?;
    Ok(AccessRates {
        processor: processor.into(),
        memory: memory.into(),
        sequential_bytes_per_s: per_second(options.bytes as f64, least(&times.sequential)),
        random_4_byte_per_s: per_second(times.random_count as f64, least(&times.random)),
        latency_s: (!machine.info().is_simulated)
            .then(|| least(&times.dependent).as_secs_f64() / times.dependent_count as f64),
        footprint_bytes: options.bytes as u64,
    })
}

/// What going through a memory took, each repetition.
#[derive(Debug, Clone, PartialEq)]
pub struct AccessTimes {
    /// From one end to the other, all lanes or cores.
    pub sequential: Vec<Duration>,
    /// `random_count` independent loads of 4 bytes.
    pub random: Vec<Duration>,
    /// How many.
    pub random_count: u64,
    /// `dependent_count` loads, each at the place that the one before named.
    pub dependent: Vec<Duration>,
    /// How many.
    pub dependent_count: u64,
}

/// Lets `processor` go through `footprint_bytes` of `memory`, `repetitions` times each way after one to warm up.
///
/// # Errors
///
/// `OutOfMemory` if the footprint does not fit, `Unsupported` without kernels; what the device reports.
pub fn time_access(
    machine: &Machine,
    library: Option<&Arc<Library>>,
    processor: Place,
    memory: Place,
    footprint_bytes: usize,
    repetitions: u32,
) -> Result<AccessTimes> {
    if footprint_bytes < STRIDE_BYTES as usize {
        return Err(Error::invalid_input(format!(
            "{footprint_bytes} bytes to go through; take a page at least"
        )));
    }
    let filler = machine.stream(if matches!(memory, Place::Host(_)) { memory } else { processor })?;
    let stream_count = match processor {
        Place::Host(_) => std::thread::available_parallelism().map_or(1, usize::from),
        Place::Device(_) => 1,
    };
    let streams: Vec<Stream> = (0..stream_count).map(|_| machine.stream(processor)).collect::<Result<_>>()?;
    let take = |place, bytes| machine.allocate(memory_at(place), bytes, OnFull::Refuse);
    let buffer = take(memory, footprint_bytes)?;
    let sums = take(processor, 8 * stream_count)?;
    let sum = |index: usize| sums.slice(index * 8..index * 8 + 8);
    let wait = || streams.iter().try_for_each(Stream::wait_blocking);
    filler.run(fill_random(library, buffer.span(), 1))?;
    filler.wait_blocking()?;

    let share = footprint_bytes.div_ceil(stream_count).next_multiple_of(4096);
    let sequential = runs(machine, repetitions, || {
        for (index, (stream, span)) in streams.iter().zip(buffer.span().chunks(share)).enumerate() {
            stream.run(read(library, span, sum(index)))?;
        }
        wait()
    })?;
    let loads_max = if is_gpu(machine, processor) { GPU_LOADS_MAX } else { HOST_LOADS_MAX };
    let loads = (footprint_bytes as u64 / u64::from(WIDTH_BYTES)).min(loads_max);
    let random = runs(machine, repetitions, || {
        for (index, stream) in streams.iter().enumerate() {
            let what = Gather { width_bytes: WIDTH_BYTES, count: loads, seed: index as u64 };
            stream.run(gather(library, buffer.span(), what, sum(index)))?;
        }
        wait()
    })?;
    let cycle = Cycle { stride_bytes: STRIDE_BYTES, seed: 7 };
    filler.run(fill_cycle(library, buffer.span(), cycle))?;
    filler.wait_blocking()?;
    let slots = cycle.slot_count(footprint_bytes);
    let mut first_slot = 0;
    let dependent = runs(machine, repetitions, || {
        // Elsewhere each time, so that no cache has seen the lines.
        first_slot = (first_slot + slots / 7 + 1) % slots;
        let walk = Chase { cycle, first_slot, step_count: STEPS };
        streams[0].run(chase(library, buffer.span(), walk, sum(0)))?;
        streams[0].wait_blocking()
    })?;
    Ok(AccessTimes {
        sequential,
        random,
        random_count: loads * stream_count as u64,
        dependent,
        dependent_count: STEPS,
    })
}
