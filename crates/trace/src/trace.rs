//! What a query did when: spans of reads, copies and kernels, and the memory of each tier, all on one clock.
//!
//! ```text
//!   Trace    one for a query: its clock, its spans, its memory curves
//!     Tracer   one for each plan node that leaves spans: the same trace, and whose spans they are
//! ```
//!
//! Who traces holds an `Option<Tracer>` and looks at it once a morsel or chunk; without one nothing is recorded.
//! Bounds: [`SPANS_MAX`] spans, later ones are counted only; [`CURVE_POINTS_MAX`] points a curve, which gets coarser
//! and keeps the highest of what it merges.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Spans that a trace keeps: a guess at what a page draws at once without a delay that is felt.
pub const SPANS_MAX: usize = 20_000;
/// Points of a memory curve: more than a screen has columns.
pub const CURVE_POINTS_MAX: usize = 2_000;
/// The finest that a curve tells moments apart.
const CURVE_STEP: Duration = Duration::from_micros(20);

/// What somebody was busy with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Activity {
    /// Looking up how columns are stored, reading dictionaries, copying a host input.
    Prepare,
    /// Generating the source of a kernel.
    Generate,
    /// Compiling it, or loading what was compiled before.
    Compile,
    /// Taking and clearing device memory.
    Allocate,
    /// Copying columns to the column cache in device memory.
    Admit,
    /// Asking files for chunks; what lies in the page cache is copied meanwhile.
    Read,
    /// Waiting for chunks that files were asked for.
    ReadWait,
    /// Waiting for a buffer whose kernel is still at work.
    BufferWait,
    /// Checksums, codecs off, into pinned memory.
    Stage,
    /// A copy over the link to the device, by the device's clock.
    Copy,
    /// A kernel, by the device's clock.
    Kernel,
    /// Bringing the result to the host.
    Result,
    /// Verifying and decoding on the CPU.
    Decode,
    /// Evaluating filters on the CPU.
    Filter,
}

impl Activity {
    /// The word used in profiles.
    pub fn name(self) -> &'static str {
        match self {
            Self::Prepare => "prepare",
            Self::Generate => "generate",
            Self::Compile => "compile",
            Self::Allocate => "allocate",
            Self::Admit => "admit",
            Self::Read => "read",
            Self::ReadWait => "read_wait",
            Self::BufferWait => "buffer_wait",
            Self::Stage => "stage",
            Self::Copy => "copy",
            Self::Kernel => "kernel",
            Self::Result => "result",
            Self::Decode => "decode",
            Self::Filter => "filter",
        }
    }
}

/// One stretch of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceSpan {
    /// Whose it is: the number that the [`Tracer`] was made with.
    pub owner: usize,
    /// Which pipeline of its owner; of a scan on the CPU, 0.
    pub pipeline: u32,
    /// Which of several that go on at once: a staging buffer, a partition of a scan.
    pub lane: u32,
    /// What was done.
    pub activity: Activity,
    /// Since the trace began.
    pub start: Duration,
    /// Since the trace began; not before `start`.
    pub end: Duration,
    /// Bytes that were moved or scanned; 0 where nobody counted.
    pub bytes: u64,
    /// Rows likewise.
    pub rows: u64,
}

/// Where memory is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MemoryTier {
    /// Memory of the device, as its budget counts it.
    Device,
    /// Pinned host memory, as its budget counts it.
    Pinned,
    /// What joins, sorts and aggregates on the CPU have reserved.
    Pool,
    /// What the process holds of physical memory, by the operating system.
    Process,
}

/// Bytes over time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemoryCurve {
    /// The most at any moment, bytes; also of moments that the points merge.
    pub peak_bytes: u64,
    /// Moments since the trace began, rising, with the bytes held from then on.
    pub points: Vec<(Duration, u64)>,
    /// What is held since the last change, which a point with a higher value may hide.
    latest_bytes: u64,
    /// Points are at least this far apart; 0 until there was one.
    step: Duration,
}

impl MemoryCurve {
    fn add(&mut self, at: Duration, bytes: u64) {
        self.peak_bytes = self.peak_bytes.max(bytes);
        self.step = self.step.max(CURVE_STEP);
        self.put(at, bytes);
        if self.points.len() > CURVE_POINTS_MAX {
            self.step *= 2;
            let latest_bytes = self.latest_bytes;
            for (at, bytes) in std::mem::take(&mut self.points) {
                self.put(at, bytes);
            }
            self.latest_bytes = latest_bytes;
        }
    }

    /// Within a step the highest counts; what it fell to follows a step later.
    fn put(&mut self, at: Duration, bytes: u64) {
        self.settle(at);
        match self.points.last_mut() {
            Some((last_at, last)) if at < *last_at + self.step => *last = bytes.max(*last),
            Some((_, last)) if *last == bytes => {}
            _ => self.points.push((at, bytes)),
        }
        self.latest_bytes = bytes;
    }

    /// Shows what memory fell to within the last point's step, where that is over at `at`.
    fn settle(&mut self, at: Duration) {
        if let Some(&(last_at, last)) = self.points.last()
            && last != self.latest_bytes
            && at >= last_at + self.step
        {
            self.points.push((last_at + self.step, self.latest_bytes));
        }
    }

    /// To be read at `at`.
    fn settled(mut self, at: Duration) -> Self {
        self.settle(at.max(self.points.last().map_or(at, |(last_at, _)| *last_at + self.step)));
        self
    }
}

/// What one query did when. `Send` and `Sync`.
#[derive(Debug)]
pub struct Trace {
    started: Instant,
    record: Mutex<Record>,
}

#[derive(Debug, Default)]
struct Record {
    spans: Vec<TraceSpan>,
    spans_dropped: u64,
    curves: [MemoryCurve; 4],
    process_looked_at: Option<Instant>,
}

/// How often the memory of the process is looked at, at most: the operating system takes some ten microseconds to tell,
/// which every 5 ms was 0.6 % of all time in a profiler, on two busy cores.
const PROCESS_INTERVAL: Duration = Duration::from_millis(20);

impl Trace {
    /// A trace that begins now.
    pub fn start() -> Arc<Self> {
        Arc::new(Self { started: Instant::now(), record: Mutex::default() })
    }

    /// When it began.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// Time since it began.
    pub fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Keeps `span`, while there is room.
    pub fn add(&self, span: TraceSpan) {
        let mut record = self.lock();
        if record.spans.len() < SPANS_MAX {
            record.spans.push(span);
        } else {
            record.spans_dropped += 1;
        }
    }

    /// From now on, `tier` holds `bytes`.
    pub fn memory(&self, tier: MemoryTier, bytes: u64) {
        let at = self.now();
        self.lock().curves[tier as usize].add(at, bytes);
    }

    /// Looks at what the process holds, unless somebody has just done so. Nothing where the system does not tell.
    pub fn look_at_process(&self) {
        let now = Instant::now();
        {
            let mut record = self.lock();
            if record.process_looked_at.is_some_and(|last| now.duration_since(last) < PROCESS_INTERVAL) {
                return;
            }
            record.process_looked_at = Some(now);
        }
        if let Some(bytes) = resident_bytes() {
            self.memory(MemoryTier::Process, bytes);
        }
    }

    /// The spans so far, in the order in which they ended up here, and how many more there were.
    pub fn spans(&self) -> (Vec<TraceSpan>, u64) {
        let record = self.lock();
        (record.spans.clone(), record.spans_dropped)
    }

    /// What `tier` held so far; without points where nobody said.
    pub fn curve(&self, tier: MemoryTier) -> MemoryCurve {
        let now = self.now();
        self.lock().curves[tier as usize].clone().settled(now)
    }

    fn lock(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Physical memory of this process, bytes.
fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// A trace, and whose spans are added to it.
#[derive(Debug, Clone)]
pub struct Tracer {
    trace: Arc<Trace>,
    owner: usize,
}

impl Tracer {
    /// Adds spans of `owner`, any number that the reader of the trace knows again.
    pub fn new(trace: Arc<Trace>, owner: usize) -> Self {
        Self { trace, owner }
    }

    /// The trace.
    pub fn trace(&self) -> &Arc<Trace> {
        &self.trace
    }

    /// Adds a span from `start` to `end` by the host's clock.
    pub fn add(&self, place: SpanPlace, activity: Activity, start: Instant, end: Instant, bytes: u64) {
        let since = |moment: Instant| moment.saturating_duration_since(self.trace.started);
        self.add_at(place, activity, since(start), since(end), SpanSize { bytes, rows: 0 });
    }

    /// Adds a span from `start` to `end`, since the trace began.
    pub fn add_at(
        &self,
        place: SpanPlace,
        activity: Activity,
        start: Duration,
        end: Duration,
        size: SpanSize,
    ) {
        let SpanPlace { pipeline, lane } = place;
        let SpanSize { bytes, rows } = size;
        let end = end.max(start);
        self.trace.add(TraceSpan { owner: self.owner, pipeline, lane, activity, start, end, bytes, rows });
    }
}

/// Where a span belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpanPlace {
    /// See [`TraceSpan::pipeline`].
    pub pipeline: u32,
    /// See [`TraceSpan::lane`].
    pub lane: u32,
}

/// How much a span went through.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpanSize {
    /// See [`TraceSpan::bytes`].
    pub bytes: u64,
    /// See [`TraceSpan::rows`].
    pub rows: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(trace: &Trace) -> TraceSpan {
        TraceSpan {
            owner: 1,
            pipeline: 0,
            lane: 0,
            activity: Activity::Kernel,
            start: trace.now(),
            end: trace.now(),
            bytes: 0,
            rows: 0,
        }
    }

    #[test]
    fn spans_beyond_the_bound_are_counted_and_not_kept() {
        let trace = Trace::start();
        for _ in 0..SPANS_MAX + 3 {
            trace.add(span(&trace));
        }
        let (spans, dropped) = trace.spans();
        assert_eq!((spans.len(), dropped), (SPANS_MAX, 3));
    }

    #[test]
    fn a_curve_stays_bounded_and_keeps_its_peak() {
        let mut curve = MemoryCurve::default();
        for moment in 0..100_000_u64 {
            let bytes = if moment == 77_777 { 1 << 40 } else { moment % 1000 };
            curve.add(Duration::from_micros(moment * 50), bytes);
        }
        assert_eq!(curve.peak_bytes, 1 << 40);
        assert!(curve.points.len() <= CURVE_POINTS_MAX, "{}", curve.points.len());
        assert!(curve.points.iter().any(|(_, bytes)| *bytes == 1 << 40), "the peak is drawn as well");
        assert!(curve.points.is_sorted_by(|a, b| a.0 < b.0), "moments rise");
    }

    #[test]
    fn a_curve_falls_again_when_memory_is_given_back() {
        let mut curve = MemoryCurve::default();
        for (moment, bytes) in [(0, 10), (1000, 500), (2000, 0)] {
            curve.add(Duration::from_micros(moment), bytes);
        }
        assert_eq!(curve.points.last(), Some(&(Duration::from_micros(2000), 0)));
        curve.add(Duration::from_micros(9000), 700);
        curve.add(Duration::from_micros(9001), 3);
        let points = curve.settled(Duration::from_micros(9002)).points;
        assert_eq!(
            points[points.len() - 2..],
            [(Duration::from_micros(9000), 700), (Duration::from_micros(9020), 3)]
        );
    }

    #[test]
    fn the_process_is_looked_at_once_in_a_while() {
        let trace = Trace::start();
        for _ in 0..1000 {
            trace.look_at_process();
        }
        let points = trace.curve(MemoryTier::Process).points.len();
        assert!(points <= trace.now().as_millis() as usize / 20 + 2, "{points} points");
    }
}
