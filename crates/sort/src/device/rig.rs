//! What all algorithms on devices share: memory taken beforehand, streams, primitives on rows, and the clock.

use std::sync::Arc;
use std::time::Duration;

use pelton_device::{Buffer, DeviceId, Event, Machine, MemoryKind, OnFull, Place, Span, Stream};
use pelton_error::{CancelFlag, Result, ResultExt};
use pelton_kernels::{Library, RadixSort, merge_keys, merge_pairs, sort_keys, sort_pairs};

use crate::key::SortSpec;
use crate::report::{Phases, Stage};
use crate::rows::{Rows, Traffic};

/// A device and the memory that a sort has taken of it.
#[derive(Debug)]
pub(crate) struct Gpu {
    pub(crate) id: DeviceId,
    /// Equally large.
    pub(crate) buffers: Vec<Rows>,
    /// For the radix sort.
    pub(crate) scratch: Span,
    /// Pinned: keys that the host looks at, and where they are.
    pub(crate) probes: Buffer,
}

impl Gpu {
    /// Takes the memory of `buffer_count` buffers of `row_count` rows.
    pub(crate) fn new(
        machine: &Machine,
        spec: SortSpec,
        id: DeviceId,
        buffer_count: usize,
        row_count: usize,
    ) -> Result<Self> {
        let kind = MemoryKind::Device(id);
        let remedy = || format!("{buffer_count} buffers of {row_count} rows on {id}, to sort in");
        let buffers = (0..buffer_count)
            .map(|_| Rows::allocate(machine, spec, &kind, row_count))
            .collect::<Result<Vec<Rows>>>()
            .context(remedy)?;
        let scratch = machine
            .allocate(kind, scratch_bytes(spec, row_count), OnFull::Refuse)
            .context(|| format!("scratch of the radix sort on {id}"))?
            .span();
        let node = machine.device(id)?.node;
        let probes = machine
            .allocate(MemoryKind::Pinned(node), PROBE_BYTES, OnFull::Refuse)
            .context(|| format!("memory to look at keys of {id}"))?;
        Ok(Self { id, buffers, scratch, probes })
    }
}

/// Keys of 16 bytes and as many numbers of rows: what is looked at in one go.
pub(crate) const PROBES_MAX: usize = 4096;
const PROBE_BYTES: usize = PROBES_MAX * (16 + 8);

/// Scratch of the radix sort for so many rows.
pub(crate) fn scratch_bytes(spec: SortSpec, row_count: usize) -> usize {
    radix_sort(spec).scratch_bytes(row_count as u64)
}

fn radix_sort(spec: SortSpec) -> RadixSort {
    RadixSort::by(spec.order.key_type, spec.order.direction)
}

/// Streams of a device for one sort. Dropping them waits for what they were given, so that nothing is under way when a
/// sort has returned, whatever it returned.
pub(crate) struct Streams {
    /// Host to device.
    pub(crate) into: Stream,
    /// Device to host.
    pub(crate) out: Stream,
    /// To other devices.
    pub(crate) peer: Stream,
    /// Kernels, and copies within the device.
    pub(crate) compute: Stream,
}

impl Streams {
    fn new(machine: &Machine, device: DeviceId) -> Result<Self> {
        let stream = || machine.stream(Place::Device(device));
        Ok(Self { into: stream()?, out: stream()?, peer: stream()?, compute: stream()? })
    }

    /// Waits for everything; the first error.
    pub(crate) fn wait_blocking(&self) -> Result<()> {
        let outcomes = [&self.into, &self.compute, &self.peer, &self.out].map(Stream::wait_blocking);
        outcomes.into_iter().collect()
    }
}

/// Everything that a sort on devices works with.
pub(crate) struct Rig {
    pub(crate) machine: Machine,
    pub(crate) library: Option<Arc<Library>>,
    pub(crate) spec: SortSpec,
    pub(crate) gpus: Vec<Gpu>,
    pub(crate) cancel: CancelFlag,
}

impl Rig {
    /// Streams of all devices.
    pub(crate) fn streams(&self) -> Result<Vec<Streams>> {
        self.gpus.iter().map(|gpu| Streams::new(&self.machine, gpu.id)).collect()
    }

    /// Enqueues the sort of `rows`, which stay where they are; `other` is as long, and of no use afterwards.
    pub(crate) fn sort(&self, stream: &Stream, rows: &Rows, other: &Rows, scratch: &Span) -> Result<()> {
        if rows.count() < 2 {
            return Ok(());
        }
        let sort = radix_sort(self.spec);
        assert_eq!(sort.result_index(), 0, "all bits of every key type take an even number of passes");
        let library = self.library.as_ref();
        let keys = [rows.keys().clone(), other.keys().clone()];
        let work = match (rows.payloads(), other.payloads()) {
            (Some(one), Some(another)) => {
                sort_pairs(library, sort, keys, [one.clone(), another.clone()], scratch.clone())
            }
            _ => sort_keys(library, sort, keys, scratch.clone()),
        };
        stream.run(work)
    }

    /// Enqueues the merge of two sorted runs into `target`.
    pub(crate) fn merge(&self, stream: &Stream, runs: [&Rows; 2], target: &Rows) -> Result<()> {
        if target.count() == 0 {
            return Ok(());
        }
        if let Some(empty) = runs.iter().position(|run| run.count() == 0) {
            return Traffic::default().copy(stream, runs[1 - empty], target);
        }
        let library = self.library.as_ref();
        let keys = runs.map(|run| run.keys().clone());
        let payloads = runs.map(Rows::payloads);
        let work = match (payloads, target.payloads()) {
            ([Some(one), Some(other)], Some(to)) => merge_pairs(
                library,
                self.spec.order,
                keys,
                [one.clone(), other.clone()],
                target.keys().clone(),
                to.clone(),
            ),
            _ => merge_keys(library, self.spec.order, keys, target.keys().clone()),
        };
        stream.run(work)
    }

    /// Enqueues merges of neighbouring runs, again and again, until one is left; `bounds` are where runs begin, and the
    /// end. Stable. Answers true if the result is in `other`.
    pub(crate) fn merge_all(
        &self,
        stream: &Stream,
        rows: &Rows,
        other: &Rows,
        bounds: &[usize],
    ) -> Result<bool> {
        let mut bounds = bounds.to_vec();
        let mut is_other = false;
        while bounds.len() > 2 {
            let (from, to) = if is_other { (other, rows) } else { (rows, other) };
            let mut next = vec![bounds[0]];
            let mut run = 0;
            while run + 1 < bounds.len() {
                let middle = bounds[run + 1];
                let end = bounds.get(run + 2).copied().unwrap_or(middle);
                let runs = [&from.slice(bounds[run]..middle), &from.slice(middle..end)];
                self.merge(stream, runs, &to.slice(bounds[run]..end))?;
                next.push(end);
                run += 2;
            }
            bounds = next;
            is_other = !is_other;
        }
        Ok(is_other)
    }
}

/// The parts that a sort consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    HtoD,
    Sort,
    Merge,
    DtoH,
}

/// When devices left each phase.
pub(crate) struct Clock {
    machine: Machine,
    started: Duration,
    starts: Vec<Event>,
    ends: Vec<(Phase, usize, Event)>,
    host_ends: Vec<(Phase, Duration)>,
}

impl Clock {
    /// Starts now.
    pub(crate) fn start(machine: &Machine, streams: &[Streams]) -> Result<Self> {
        let started = machine.now();
        let starts = streams.iter().map(|streams| streams.into.record()).collect::<Result<_>>()?;
        Ok(Self { machine: machine.clone(), started, starts, ends: Vec::new(), host_ends: Vec::new() })
    }

    /// Device `index` leaves `phase` when `stream` gets here.
    pub(crate) fn end(&mut self, phase: Phase, index: usize, stream: &Stream) -> Result<()> {
        self.ends.push((phase, index, stream.record()?));
        Ok(())
    }

    /// The host leaves `phase` now.
    pub(crate) fn host_end(&mut self, phase: Phase) {
        self.host_ends.push((phase, self.machine.now() - self.started));
    }

    /// Time since the start, and of each phase; everything is complete.
    pub(crate) fn stop(self) -> Result<(Duration, Phases)> {
        let time = self.machine.now() - self.started;
        let mut last = [Duration::ZERO; 4];
        for (phase, index, event) in &self.ends {
            let end = event.elapsed_since(&self.starts[*index])?;
            last[*phase as usize] = last[*phase as usize].max(end);
        }
        for (phase, end) in &self.host_ends {
            last[*phase as usize] = last[*phase as usize].max(*end);
        }
        let mut before = Duration::ZERO;
        let mut lengths = [Duration::ZERO; 4];
        for (length, end) in lengths.iter_mut().zip(last) {
            *length = end.saturating_sub(before);
            before = before.max(end);
        }
        let [htod, sort, merge, dtoh] = lengths;
        Ok((time, Phases { htod, sort, merge, dtoh }))
    }
}

/// What an algorithm has to say of its run.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) time: Duration,
    pub(crate) phases: Phases,
    pub(crate) stages: Vec<Stage>,
    pub(crate) run_count: u64,
    pub(crate) eager_merge_count: u64,
    pub(crate) pending_max: u64,
    pub(crate) is_staged: bool,
}
