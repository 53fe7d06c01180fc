//! Range sort: what does not fit on the devices crosses the links twice, and the CPU merges nothing.
//!
//! ```text
//!   1. runs      host ──► chunk, sorted ──► host            all chunks, both directions of every link at once
//!   2. cuts      run 0 ├──┼────┼─┤  run 1 ├───┼──┼──┤       exact, by the host: ranges of equal numbers of rows
//!   3. ranges    its part of every run ──► device, sorted ──► its place in the target
//!
//!   a device     entering ─► │ sorted (with the buffer beside) │ ─► leaving      three buffers in turn, and one beside
//! ```
//!
//! The source paper merges sorted chunks on the CPU, which takes half of its time. Here the rows of a range are gathered
//! from all runs instead, which is a matter of copies, and the device sorts them again. Ranges are cut by rank and not by
//! sampled splitters, so that each fits whatever the keys are: skewed, or all equal, which is then no special case.
//!
//! Traffic: every row twice over a link in each direction; the host's memory is read and written once by each. So it
//! takes 2 N / (duplex rate), and the time of one chunk's sort to begin and to end. Stable.

use pelton_device::Event;
use pelton_error::Result;

use super::rig::{Clock, Gpu, Outcome, Phase, Rig, Streams};
use crate::host::cuts;
use crate::key::{Key, keys_of, mask, with_key};
use crate::options::SortOptions;
use crate::rows::{Rows, Traffic};

/// Buffers that chunks go through in turn; one more is beside.
const RING: usize = 3;

/// Buffers of each device.
pub(crate) const BUFFERS: usize = RING + 1;

/// A device and its buffers in turn.
struct Lane<'a> {
    rig: &'a Rig,
    gpu: &'a Gpu,
    streams: &'a Streams,
    traffic: &'a Traffic,
    /// When each buffer was left last.
    left: [Option<Event>; RING],
    next: usize,
}

/// Sorts `source` into `target`, with `source` to work in, by chunks of at most `chunk_rows`.
pub(crate) fn range(
    rig: &Rig,
    source: &Rows,
    target: &Rows,
    traffic: &Traffic,
    options: &SortOptions,
    chunk_rows: usize,
) -> Result<Outcome> {
    let all_streams = rig.streams()?;
    let count = source.count();
    // As many for each device.
    let rounds = count.div_ceil(chunk_rows).div_ceil(rig.gpus.len());
    let chunk_count = if count <= chunk_rows { 1 } else { rounds * rig.gpus.len() };
    let bounds: Vec<usize> = (0..=chunk_count)
        .map(|chunk| (count as u128 * chunk as u128 / chunk_count as u128) as usize)
        .collect();
    let mut clock = Clock::start(&rig.machine, &all_streams)?;
    let mut lanes: Vec<Lane<'_>> = rig
        .gpus
        .iter()
        .zip(&all_streams)
        .map(|(gpu, streams)| Lane { rig, gpu, streams, traffic, left: [None, None, None], next: 0 })
        .collect();
    let first_target = if chunk_count == 1 { target } else { source };
    for (chunk, pair) in bounds.windows(2).enumerate() {
        rig.cancel.check()?;
        let range = pair[0]..pair[1];
        let device = chunk % rig.gpus.len();
        lanes[device].enqueue(&[source.slice(range.clone())], &first_target.slice(range))?;
    }
    for (index, lane) in lanes.iter().enumerate() {
        clock.end(Phase::HtoD, index, &lane.streams.into)?;
        clock.end(Phase::Sort, index, &lane.streams.compute)?;
    }
    all_streams.iter().try_for_each(Streams::wait_blocking)?;
    if chunk_count > 1 {
        let spec = source.spec();
        let cuts = {
            let bytes = source.keys().host_bytes()?;
            let ranks = &bounds[1..chunk_count];
            let direction = spec.order.direction;
            let threads = options.thread_count;
            with_key!(spec.order.key_type, cuts_at(bytes.as_ref(), &bounds, ranks, direction, threads))
        };
        let starts: Vec<usize> = bounds[..chunk_count].to_vec();
        let ends: Vec<usize> = bounds[1..].iter().zip(&starts).map(|(end, start)| end - start).collect();
        let first = vec![0; chunk_count];
        for chunk in 0..chunk_count {
            rig.cancel.check()?;
            let from = if chunk == 0 { &first } else { &cuts[chunk - 1] };
            let to = if chunk + 1 == chunk_count { &ends } else { &cuts[chunk] };
            let parts: Vec<Rows> = (0..chunk_count)
                .filter(|run| from[*run] < to[*run])
                .map(|run| source.slice(starts[run] + from[run]..starts[run] + to[run]))
                .collect();
            let device = chunk % rig.gpus.len();
            lanes[device].enqueue(&parts, &target.slice(bounds[chunk]..bounds[chunk + 1]))?;
        }
    }
    for (index, lane) in lanes.iter().enumerate() {
        if chunk_count > 1 {
            clock.end(Phase::Merge, index, &lane.streams.compute)?;
        }
        clock.end(Phase::DtoH, index, &lane.streams.out)?;
    }
    all_streams.iter().try_for_each(Streams::wait_blocking)?;
    let (time, phases) = clock.stop()?;
    Ok(Outcome { time, phases, run_count: chunk_count as u64, ..Outcome::default() })
}

impl Lane<'_> {
    /// Enqueues rows: in from `parts`, one after another, sorted, and out to `back`.
    fn enqueue(&mut self, parts: &[Rows], back: &Rows) -> Result<()> {
        let buffer = self.next;
        self.next = (buffer + 1) % RING;
        let count = back.count();
        let [rows, other] = [buffer, RING].map(|buffer| self.gpu.buffers[buffer].slice(0..count));
        let Streams { into, out, compute, .. } = self.streams;
        if let Some(left) = self.left[buffer].take() {
            into.wait_for(&left)?;
        }
        let mut start = 0;
        for part in parts {
            let end = start + part.count();
            self.traffic.copy(into, part, &rows.slice(start..end))?;
            start = end;
        }
        assert_eq!(start, count, "parts are as long as the range");
        compute.wait_for(&into.record()?)?;
        self.rig.sort(compute, &rows, &other, &self.gpu.scratch)?;
        out.wait_for(&compute.record()?)?;
        self.traffic.copy(out, &rows, back)?;
        self.left[buffer] = Some(out.record()?);
        Ok(())
    }
}

/// Cuts of the runs between `bounds` at each of `ranks`.
fn cuts_at<K: Key>(
    bytes: &[u8],
    bounds: &[usize],
    ranks: &[usize],
    direction: pelton_kernels::Direction,
    thread_count: usize,
) -> Vec<Vec<usize>> {
    let keys = keys_of::<K>(bytes);
    let runs: Vec<&[K]> = bounds.windows(2).map(|pair| &keys[pair[0]..pair[1]]).collect();
    let mut all = vec![Vec::new(); ranks.len()];
    let part = ranks.len().div_ceil(thread_count).max(1);
    std::thread::scope(|scope| {
        for (ranks, all) in ranks.chunks(part).zip(all.chunks_mut(part)) {
            let runs = &runs;
            scope.spawn(move || {
                for (rank, found) in ranks.iter().zip(all) {
                    *found = cuts(runs, *rank, mask(direction));
                }
            });
        }
    });
    all
}
