//! One device sorts what it holds, while it still arrives.
//!
//! ```text
//!   into      piece 0 │ piece 1 │ piece 2 │ piece 3 │
//!   compute           │ sort 0  │ sort 1  │ sort 2  │ sort 3 │
//!                               │ merge 0+1         │        │ merge 2+3 │ merge 0..4 │
//!   out                                                                               │ result
//! ```
//!
//! Pieces are a power of two, so that runs of one level lie in one buffer: level 0 in the first, level 1 in the second,
//! and so on. What remains after the last piece has arrived is its sort and one merge of each level, together little
//! more than two passes over all rows.
//!
//! Traffic: every row once over the link in each direction; in device memory one radix sort and log2(pieces) merges.

use pelton_error::Result;

use super::rig::{Clock, Gpu, Outcome, Phase, Rig, Streams};
use crate::options::SortOptions;
use crate::rows::{Rows, Traffic};

/// Rows of a device, sorted once the compute stream gets there, and memory for as many.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    pub(crate) rows: Rows,
    pub(crate) other: Rows,
}

/// Enqueues the copy of `source` to the device and its sort.
pub(crate) fn sort_arriving(
    rig: &Rig,
    gpu: &Gpu,
    streams: &Streams,
    source: &Rows,
    traffic: &Traffic,
    options: &SortOptions,
) -> Result<Held> {
    let count = source.count();
    let [first, second] = [0, 1].map(|buffer: usize| gpu.buffers[buffer].slice(0..count));
    let level_count = levels(count * rig.spec.row_bytes(), options);
    let piece_count = 1_usize << level_count;
    let start = |piece: usize| count * piece / piece_count;
    for piece in 0..piece_count {
        rig.cancel.check()?;
        let range = start(piece)..start(piece + 1);
        traffic.copy(&streams.into, &source.slice(range.clone()), &first.slice(range.clone()))?;
        streams.compute.wait_for(&streams.into.record()?)?;
        rig.sort(&streams.compute, &first.slice(range.clone()), &second.slice(range), &gpu.scratch)?;
        for level in 0..level_count {
            let width = 2 << level;
            if !(piece + 1).is_multiple_of(width) {
                break;
            }
            let [from, middle, to] = [piece + 1 - width, piece + 1 - width / 2, piece + 1].map(start);
            let (source, target) = if level % 2 == 0 { (&first, &second) } else { (&second, &first) };
            let runs = [&source.slice(from..middle), &source.slice(middle..to)];
            rig.merge(&streams.compute, runs, &target.slice(from..to))?;
        }
    }
    Ok(match level_count % 2 {
        0 => Held { rows: first, other: second },
        _ => Held { rows: second, other: first },
    })
}

/// Levels of merges: as many as there are pieces for, each of some size.
fn levels(bytes: usize, options: &SortOptions) -> u32 {
    let most = options.piece_count.ilog2();
    (bytes / options.piece_bytes).checked_ilog2().unwrap_or(0).min(most)
}

/// Sorts `source` into `target` on one device that holds all rows twice.
pub(crate) fn gpu(
    rig: &Rig,
    source: &Rows,
    target: &Rows,
    traffic: &Traffic,
    options: &SortOptions,
) -> Result<Outcome> {
    let all_streams = rig.streams()?;
    let (gpu, streams) = (&rig.gpus[0], &all_streams[0]);
    let mut clock = Clock::start(&rig.machine, &all_streams)?;
    let held = sort_arriving(rig, gpu, streams, source, traffic, options)?;
    clock.end(Phase::HtoD, 0, &streams.into)?;
    clock.end(Phase::Sort, 0, &streams.compute)?;
    streams.out.wait_for(&streams.compute.record()?)?;
    traffic.copy(&streams.out, &held.rows, target)?;
    clock.end(Phase::DtoH, 0, &streams.out)?;
    streams.wait_blocking()?;
    let (time, phases) = clock.stop()?;
    Ok(Outcome { time, phases, run_count: 1, ..Outcome::default() })
}
