//! The spans of one run: phases by the host's clock, copies and kernels by the device's, put on one clock.
//!
//! ```text
//!   host     ── base: an event is recorded and waited for, its moment noted ──────────────▶
//!   device      base ─────── before ══ copy ══ after ─── before ══ kernel ══ after ─────────▶
//! ```
//!
//! A device's event is placed by its time since the base event. The base is off by the time it takes to learn that an
//! event is complete: some microseconds.

use std::cell::Cell;
use std::time::{Duration, Instant};

use pelton_device::{DeviceId, Event, Machine, Stream};
use pelton_error::Result;
use pelton_trace::{Activity, MemoryTier, SpanPlace, SpanSize, Tracer};

/// Lanes of the first worker come first, then those of the second: more buffers than this are not in flight.
const LANES_PER_WORKER: usize = 64;

/// Leaves the spans of one run.
pub(crate) struct RunTrace<'t> {
    tracer: &'t Tracer,
    base: Event,
    base_at: Duration,
    /// Which pipeline is at work.
    pipeline: Cell<u32>,
    worker: usize,
}

impl<'t> RunTrace<'t> {
    /// For what `worker` does in a run, whose device is idle at this moment as far as `stream` goes. Moments of
    /// different devices cannot be compared, so each worker has a base of its own.
    pub(crate) fn new(tracer: &'t Tracer, worker: usize, stream: &Stream) -> Result<Self> {
        let base = stream.record()?;
        base.wait_blocking()?;
        Ok(Self { tracer, base, base_at: tracer.trace().now(), pipeline: Cell::new(0), worker })
    }

    /// For a pipeline that runs beside others.
    pub(crate) fn fork(&self) -> Self {
        Self { base: self.base.clone(), pipeline: Cell::new(0), ..*self }
    }

    /// From here on, spans are those of pipeline `index`.
    pub(crate) fn begin_pipeline(&self, index: usize) {
        self.pipeline.set(index as u32);
    }

    /// A phase of the host that began at `started` and ends now.
    pub(crate) fn phase(&self, activity: Activity, started: Instant) {
        self.tracer.add(self.place(0), activity, started, Instant::now(), 0);
    }

    /// What the host did for the morsel in `lane`.
    pub(crate) fn host(&self, lane: usize, activity: Activity, start: Instant, end: Instant, bytes: u64) {
        self.tracer.add(self.place(lane), activity, start, end, bytes);
    }

    /// What the device did between two events that are complete.
    pub(crate) fn device(
        &self,
        lane: usize,
        activity: Activity,
        events: (&Event, &Event),
        size: SpanSize,
    ) -> Result<()> {
        let start = self.base_at + events.0.elapsed_since(&self.base)?;
        let end = start + events.1.elapsed_since(events.0)?;
        self.tracer.add_at(self.place(lane), activity, start, end, size);
        Ok(())
    }

    /// What the budgets of the first worker's memory and of pinned memory hold now.
    pub(crate) fn memory(&self, machine: &Machine, device: DeviceId) {
        if self.worker > 0 {
            return;
        }
        let trace = self.tracer.trace();
        if let Ok(budget) = machine.device_budget(device) {
            trace.memory(MemoryTier::Device, budget.used_bytes());
        }
        trace.memory(MemoryTier::Pinned, machine.pinned_budget().used_bytes());
        trace.look_at_process();
    }

    fn place(&self, lane: usize) -> SpanPlace {
        SpanPlace { pipeline: self.pipeline.get(), lane: (self.worker * LANES_PER_WORKER + lane) as u32 }
    }
}
