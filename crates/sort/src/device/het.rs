//! Heterogeneous sort: chunks sorted on devices, then merged by the CPU. Any size that the host's memory holds twice.
//!
//! ```text
//!   two buffers      chunk i-1 leaves one while chunk i enters the other; then chunk i is sorted, with both
//!   three buffers    chunk i is sorted with two of them; at the same time chunk i+1 enters the third, block by block
//!                    where chunk i-1 leaves it: a block is overwritten once it was read
//!
//!   groups of one chunk per device      ├ 0 ┼ 1 ┤├ 2 ┼ 3 ┤├ 4 ┼ 5 ┤
//!   eager merging                       └merged┘ └merged┘  not merged: the last group
//!   at the end                          one merge of everything
//! ```
//!
//! Sorted chunks return to where they came from, and the final merge is out of place. With eager merging they go to the
//! target first and groups are merged back to where they came from, but for the last group, which goes there by itself:
//! so the final merge ends in the target either way. A group that waits to be merged is counted, and devices wait
//! before there are more than allowed.
//!
//! Traffic: every row once over the link in each direction; in host memory read and written once more by the merge, and
//! once more than that by eager merging. Stable.
//!
//! Follows Maltenberger et al. 2022, section 5.3.

use pelton_device::{Event, Place, Stream};
use pelton_error::Result;

use super::rig::{Clock, Gpu, Outcome, Phase, Rig, Streams};
use crate::columns::merge_work;
use crate::options::{Eager, SortOptions};
use crate::rows::{Rows, Traffic};

/// A device's chunks, one after another.
struct Lane<'a> {
    rig: &'a Rig,
    gpu: &'a Gpu,
    streams: &'a Streams,
    traffic: &'a Traffic,
    /// Bytes that leave and enter at a time.
    swap_bytes: usize,
    /// What has to leave each of the buffers that chunks enter.
    leaving: [Option<Leaving>; 2],
    /// Chunks so far.
    count: usize,
    sorted: Option<Event>,
    left: Option<Event>,
}

/// A sorted chunk that is still on its device.
struct Leaving {
    rows: Rows,
    back: Rows,
    sorted: Event,
}

/// Sorts `source` into `target`, with `source` to work in, by chunks of at most `chunk_rows`.
pub(crate) fn het(
    rig: &Rig,
    source: &Rows,
    target: &Rows,
    traffic: &Traffic,
    options: &SortOptions,
    chunk_rows: usize,
) -> Result<Outcome> {
    let all_streams = rig.streams()?;
    let host = rig.machine.stream(Place::HOST)?;
    let count = source.count();
    let group_count = count.div_ceil(chunk_rows).div_ceil(rig.gpus.len());
    // Chunks of equal lengths: the last group is not short.
    let chunk_count = group_count * rig.gpus.len();
    let bound = |chunk: usize| (count as u128 * chunk as u128 / chunk_count.max(1) as u128) as usize;
    let is_eager = options.eager == Eager::On && group_count > 1;
    let mut clock = Clock::start(&rig.machine, &all_streams)?;
    let mut lanes: Vec<Lane<'_>> = rig
        .gpus
        .iter()
        .zip(&all_streams)
        .map(|(gpu, streams)| Lane::new(rig, gpu, streams, traffic, options.swap_bytes))
        .collect();
    let mut groups = Groups::new(options.pending_max);
    for group in 0..group_count {
        rig.cancel.check()?;
        groups.wait_for_room()?;
        let is_last = group + 1 == group_count;
        let chunks = group * lanes.len()..(group + 1) * lanes.len();
        for (chunk, lane) in chunks.clone().zip(&mut lanes) {
            let range = bound(chunk)..bound(chunk + 1);
            // A single run is the result.
            let back = if chunk_count == 1 || (is_eager && !is_last) { target } else { source };
            lane.enqueue(&source.slice(range.clone()), &back.slice(range))?;
        }
        if is_eager && !is_last {
            // With three buffers a chunk leaves as the next but one enters; here it has to leave now.
            for lane in &mut lanes {
                lane.flush()?;
                host.wait_for(&lane.streams.out.record()?)?;
            }
            let (start, end) = (bound(chunks.start), bound(chunks.end));
            let bounds: Vec<usize> = (chunks.start..=chunks.end).map(|chunk| bound(chunk) - start).collect();
            groups.enqueue(&host, &target.slice(start..end), bounds, &source.slice(start..end), options)?;
        }
    }
    for (index, lane) in lanes.iter_mut().enumerate() {
        clock.end(Phase::HtoD, index, &lane.streams.into)?;
        clock.end(Phase::Sort, index, &lane.streams.compute)?;
        lane.flush()?;
        clock.end(Phase::DtoH, index, &lane.streams.out)?;
    }
    all_streams.iter().try_for_each(Streams::wait_blocking)?;
    host.wait_blocking()?;
    if chunk_count == 1 {
        let (time, phases) = clock.stop()?;
        return Ok(Outcome { time, phases, run_count: 1, ..Outcome::default() });
    }
    rig.cancel.check()?;
    let mut bounds: Vec<usize> = (0..=chunk_count).map(bound).collect();
    if is_eager {
        let device_count = rig.gpus.len();
        bounds = (0..group_count)
            .map(|group| bound(group * device_count))
            .chain(((group_count - 1) * device_count + 1..=chunk_count).map(bound))
            .collect();
    }
    let run_count = bounds.len().saturating_sub(1) as u64;
    host.run(merge_work(source, bounds, target, options.thread_count)?)?;
    host.wait_blocking()?;
    let (time, mut phases) = clock.stop()?;
    // Here the merge comes last.
    let before = phases.htod + phases.sort + phases.dtoh;
    phases.merge = time.saturating_sub(before);
    let (eager_merge_count, pending_max) = (groups.merges.len() as u64, groups.pending_most as u64);
    Ok(Outcome { time, phases, run_count, eager_merge_count, pending_max, ..Outcome::default() })
}

impl<'a> Lane<'a> {
    fn new(
        rig: &'a Rig,
        gpu: &'a Gpu,
        streams: &'a Streams,
        traffic: &'a Traffic,
        swap_bytes: usize,
    ) -> Self {
        let leaving = [None, None];
        Self { rig, gpu, streams, traffic, swap_bytes, leaving, count: 0, sorted: None, left: None }
    }

    /// Enqueues a chunk: in from `source`, sorted, and, now or as a later one enters, out to `back`.
    fn enqueue(&mut self, source: &Rows, back: &Rows) -> Result<()> {
        let entry = self.count % 2;
        self.count += 1;
        match self.gpu.buffers.len() {
            2 => self.enqueue_with_two(entry, source, back),
            _ => self.enqueue_with_three(entry, source, back),
        }
    }

    fn enqueue_with_two(&mut self, entry: usize, source: &Rows, back: &Rows) -> Result<()> {
        let count = source.count();
        let [rows, other] = [entry, 1 - entry].map(|buffer| self.gpu.buffers[buffer].slice(0..count));
        let Streams { into, out, compute, .. } = self.streams;
        // The sort before used this buffer, too.
        if let Some(sorted) = &self.sorted {
            into.wait_for(sorted)?;
        }
        self.traffic.copy(into, source, &rows)?;
        compute.wait_for(&into.record()?)?;
        // The chunk before has left the other buffer.
        if let Some(left) = &self.left {
            compute.wait_for(left)?;
        }
        self.rig.sort(compute, &rows, &other, &self.gpu.scratch)?;
        let sorted = compute.record()?;
        out.wait_for(&sorted)?;
        self.traffic.copy(out, &rows, back)?;
        self.left = Some(out.record()?);
        self.sorted = Some(sorted);
        Ok(())
    }

    fn enqueue_with_three(&mut self, entry: usize, source: &Rows, back: &Rows) -> Result<()> {
        let count = source.count();
        let [rows, other] = [entry, 2].map(|buffer| self.gpu.buffers[buffer].slice(0..count));
        let Streams { into, compute, .. } = self.streams;
        let leaving = self.leaving[entry].take();
        self.swap(leaving, Some((source, &rows)))?;
        compute.wait_for(&into.record()?)?;
        self.rig.sort(compute, &rows, &other, &self.gpu.scratch)?;
        self.leaving[entry] = Some(Leaving { rows, back: back.clone(), sorted: compute.record()? });
        Ok(())
    }

    /// Lets rows leave and others enter, block by block.
    fn swap(&self, leaving: Option<Leaving>, entering: Option<(&Rows, &Rows)>) -> Result<()> {
        let Streams { into, out, .. } = self.streams;
        if let Some(leaving) = &leaving {
            out.wait_for(&leaving.sorted)?;
        }
        let block = (self.swap_bytes / self.rig.spec.row_bytes()).max(1);
        let leaving_count = leaving.as_ref().map_or(0, |leaving| leaving.rows.count());
        let entering_count = entering.map_or(0, |(rows, _)| rows.count());
        for start in (0..leaving_count.max(entering_count)).step_by(block) {
            let range = |count: usize| start.min(count)..(start + block).min(count);
            if let Some(Leaving { rows, back, .. }) = &leaving {
                let range = range(leaving_count);
                self.traffic.copy(out, &rows.slice(range.clone()), &back.slice(range))?;
                into.wait_for(&out.record()?)?;
            }
            if let Some((source, rows)) = entering {
                let range = range(entering_count);
                self.traffic.copy(into, &source.slice(range.clone()), &rows.slice(range))?;
            }
        }
        Ok(())
    }

    /// Enqueues the way out of what has not left yet.
    fn flush(&mut self) -> Result<()> {
        // The older one first.
        for step in 0..2 {
            let entry = (self.count + step) % 2;
            let leaving = self.leaving[entry].take();
            self.swap(leaving, None)?;
        }
        // What enters next must not overtake it.
        self.streams.into.wait_for(&self.streams.out.record()?)
    }
}

/// Groups that are merged while devices go on.
struct Groups {
    pending_max: usize,
    merges: Vec<Event>,
    pending_most: usize,
}

impl Groups {
    fn new(pending_max: usize) -> Self {
        Self { pending_max, merges: Vec::new(), pending_most: 0 }
    }

    fn pending(&self) -> Result<usize> {
        let mut count = 0;
        for merge in self.merges.iter().rev() {
            if merge.is_complete()? {
                break;
            }
            count += 1;
        }
        Ok(count)
    }

    /// Waits until one more group may wait.
    fn wait_for_room(&self) -> Result<()> {
        match self.merges.len().checked_sub(self.pending_max) {
            Some(oldest) => self.merges[oldest].wait_blocking(),
            None => Ok(()),
        }
    }

    fn enqueue(
        &mut self,
        host: &Stream,
        source: &Rows,
        bounds: Vec<usize>,
        target: &Rows,
        options: &SortOptions,
    ) -> Result<()> {
        host.run(merge_work(source, bounds, target, options.thread_count)?)?;
        self.merges.push(host.record()?);
        self.pending_most = self.pending_most.max(self.pending()?);
        Ok(())
    }
}
