//! Partitioned sort over several devices: each gets one range of keys, in one exchange.
//!
//! ```text
//!   device 0   ├── sorted run ──┤           cut where N/g, 2 N/g, … of all rows are before:
//!   device 1   ├── sorted run ──┤           ranges of exactly equal numbers of rows
//!                 ╲  ╱╲  ╱
//!   exchange       each device fetches its range of every run
//!   device 0   ├ of 0 ┼ of 1 ┤   merged     rows 0 .. N/g
//!   device 1   ├ of 0 ┼ of 1 ┤   merged     rows N/g .. 2 N/g
//! ```
//!
//! Radix-partitioned sorts of the literature choose the ranges before they sort, by a histogram of the keys' highest
//! bits, or by sampled splitters where bits do not balance. Here rows are sorted first, which costs nothing: sorts of
//! pieces hide behind the copies from the host. Ranges are then cut exactly, by multi-sequence selection on the devices,
//! so no distribution of keys unbalances them, not even equal keys, and what arrives is runs to be merged, which takes a
//! fraction of the time of a sort.
//!
//! Traffic: (g - 1)/g of all rows over the links between devices for uniform keys, none for sorted ones. Any number of
//! devices. Stable.

use pelton_error::Result;
use pelton_kernels::{IndexType, take};

use super::local::{Held, sort_arriving};
use super::rig::{Clock, Gpu, Outcome, PROBES_MAX, Phase, Rig, Streams};
use super::select::cuts_by_looks;
use crate::options::SortOptions;
use crate::report::Stage;
use crate::rows::{Rows, Traffic};

/// Sorts `source` into `target` on devices that hold all rows.
pub(crate) fn partitioned(
    rig: &Rig,
    source: &Rows,
    target: &Rows,
    traffic: &Traffic,
    options: &SortOptions,
) -> Result<Outcome> {
    let all_streams = rig.streams()?;
    let (device_count, count) = (rig.gpus.len(), source.count());
    let bound = |index: usize| (count as u128 * index as u128 / device_count as u128) as usize;
    let mut clock = Clock::start(&rig.machine, &all_streams)?;
    let mut held = Vec::with_capacity(device_count);
    for (index, (gpu, streams)) in rig.gpus.iter().zip(&all_streams).enumerate() {
        let part = source.slice(bound(index)..bound(index + 1));
        held.push(sort_arriving(rig, gpu, streams, &part, traffic, options)?);
        clock.end(Phase::HtoD, index, &streams.into)?;
        clock.end(Phase::Sort, index, &streams.compute)?;
    }
    all_streams.iter().try_for_each(|streams| streams.compute.wait_blocking())?;
    let ranks: Vec<usize> = (0..=device_count).map(bound).collect();
    let cuts = cuts_on_devices(rig, &all_streams, &held, &ranks)?;
    rig.cancel.check()?;
    let mut keys_moved = 0;
    let mut arrived = Vec::with_capacity(device_count);
    let mut bounds = Vec::with_capacity(device_count);
    for (to, streams) in all_streams.iter().enumerate() {
        // Ranges and parts are equally long, so the other buffer has room.
        let mut ends = vec![0];
        for from in 0..device_count {
            let range = cuts[to][from]..cuts[to + 1][from];
            let start = ends[from];
            ends.push(start + range.len());
            if from != to {
                keys_moved += range.len() as u64;
            }
            let (source, place) = (held[from].rows.slice(range.clone()), start..start + range.len());
            traffic.copy(&streams.peer, &source, &held[to].other.slice(place))?;
        }
        arrived.push(streams.peer.record()?);
        bounds.push(ends);
    }
    let mut is_other = Vec::with_capacity(device_count);
    for (index, streams) in all_streams.iter().enumerate() {
        // The buffers that runs lay in are written to once all devices have fetched from them.
        arrived.iter().try_for_each(|event| streams.compute.wait_for(event))?;
        let Held { rows, other } = &held[index];
        is_other.push(!rig.merge_all(&streams.compute, other, rows, &bounds[index])?);
        clock.end(Phase::Merge, index, &streams.compute)?;
    }
    for (index, streams) in all_streams.iter().enumerate() {
        streams.out.wait_for(&streams.compute.record()?)?;
        let result = if is_other[index] { &held[index].other } else { &held[index].rows };
        traffic.copy(&streams.out, result, &target.slice(bound(index)..bound(index + 1)))?;
        clock.end(Phase::DtoH, index, &streams.out)?;
    }
    all_streams.iter().try_for_each(Streams::wait_blocking)?;
    let (time, phases) = clock.stop()?;
    let devices: Vec<_> = rig.gpus.iter().map(|gpu| gpu.id).collect();
    let reaches = |one| devices.iter().all(|other| rig.machine.is_peer(one, *other));
    let is_staged = !devices.iter().all(|device| reaches(*device));
    let stages = vec![Stage { devices, keys_moved }];
    Ok(Outcome { time, phases, stages, run_count: device_count as u64, is_staged, ..Outcome::default() })
}

/// Cuts of the devices' runs at `ranks`, by looks at many keys at a time.
fn cuts_on_devices(
    rig: &Rig,
    all_streams: &[Streams],
    held: &[Held],
    ranks: &[usize],
) -> Result<Vec<Vec<usize>>> {
    let lengths: Vec<usize> = held.iter().map(|held| held.rows.count()).collect();
    cuts_by_looks(&lengths, ranks, |asked| {
        let mut words = vec![0; asked.len()];
        // What is asked of each device, and to which answer it belongs.
        let mut of_run: Vec<Vec<(usize, usize)>> = vec![Vec::new(); held.len()];
        for (index, (run, place)) in asked.iter().enumerate() {
            of_run[*run].push((index, *place));
        }
        let rounds = of_run.iter().map(|asked| asked.len().div_ceil(PROBES_MAX)).max().unwrap_or(0);
        for round in 0..rounds {
            let part = |run: usize| of_run[run].chunks(PROBES_MAX).nth(round).unwrap_or_default();
            for (run, gpu) in rig.gpus.iter().enumerate() {
                let places = part(run).iter().map(|(_, place)| *place);
                enqueue_look(rig, gpu, &all_streams[run], &held[run].rows, places)?;
            }
            for (run, gpu) in rig.gpus.iter().enumerate() {
                all_streams[run].compute.wait_blocking()?;
                for ((index, _), word) in part(run).iter().zip(looked_at(rig, gpu, part(run).len())?) {
                    words[*index] = word;
                }
            }
        }
        Ok(words)
    })
}

/// Where numbers of rows begin among the bytes to look at keys by.
const NUMBERS_AT: usize = PROBES_MAX * 16;

fn enqueue_look(
    rig: &Rig,
    gpu: &Gpu,
    streams: &Streams,
    rows: &Rows,
    places: impl ExactSizeIterator<Item = usize>,
) -> Result<()> {
    let count = places.len();
    if count == 0 {
        return Ok(());
    }
    gpu.probes.with_bytes_mut(|bytes| {
        let (numbers, _) = bytes[NUMBERS_AT..].as_chunks_mut::<8>();
        numbers.iter_mut().zip(places).for_each(|(number, place)| *number = (place as u64).to_le_bytes());
    })?;
    let key_bytes = rig.spec.key_bytes();
    let indices = gpu.probes.slice(NUMBERS_AT..NUMBERS_AT + 8 * count);
    let target = gpu.probes.slice(0..key_bytes * count);
    let library = rig.library.as_ref();
    streams.compute.run(take(library, key_bytes, rows.keys().clone(), IndexType::U64, indices, target))
}

fn looked_at(rig: &Rig, gpu: &Gpu, count: usize) -> Result<Vec<u128>> {
    let key_bytes = rig.spec.key_bytes();
    gpu.probes.with_bytes(|bytes| {
        let keys = bytes[..key_bytes * count].chunks_exact(key_bytes);
        let word = |key: &[u8]| {
            let mut bytes = [0; 16];
            bytes[..key_bytes].copy_from_slice(key);
            rig.spec.order.word(u128::from_le_bytes(bytes))
        };
        keys.map(word).collect()
    })
}
