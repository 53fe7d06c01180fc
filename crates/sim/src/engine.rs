//! The event loop: streams, copy engines, flows and timers in virtual time.
//!
//! ```text
//!   streams ──► copy engines ──► timers (latency, compute) ──► flows ──► through
//!      ▲                                                                    │
//!      └────────────── next task, marks reached ◄── effect ◄────────────────┘
//! ```
//!
//! Time moves only in [`Engine::step`], from one event to the next: a timer fires or a flow is through. Rates change
//! only when flows come or go. Everything is kept in the order in which it was enqueued, nothing depends on hashes,
//! addresses or the wall's clock: the same calls give the same times, to the bit.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, OnceLock};

use pelton_device::Place;
use pelton_error::Result;

use crate::operation::{self, Effect, Failure, Flow, Mark, Operation, Reached, Task};
use crate::resources::Resources;
use crate::share::share;
use crate::usage::LinkUsage;

/// A flow is through when less than this is left: far below a byte, far above the error of adding doubles.
const THROUGH_BYTES: f64 = 1e-3;

type StreamId = u64;
type OperationId = u64;

/// Everything that goes on.
pub(super) struct Engine {
    now_s: f64,
    capacities: Vec<f64>,
    engine_slots: BTreeMap<operation::Engine, Slots>,
    streams: BTreeMap<StreamId, StreamQueue>,
    active: BTreeMap<OperationId, Active>,
    flows: BTreeMap<(OperationId, usize), Flow>,
    /// By time, whose bits sort like the number, as it is never negative; then by order of setting.
    timers: BTreeMap<(u64, u64), Timer>,
    waiting: BTreeMap<u64, Vec<StreamId>>,
    /// Complete but for their effects, in order.
    through: VecDeque<OperationId>,
    /// Effects that will not happen, see [`take_discarded`](Self::take_discarded).
    discarded: Vec<Effect>,
    rates_are_stale: bool,
    last_id: u64,
    jitter: Jitter,
    pub(super) usage: LinkUsage,
}

struct StreamQueue {
    tasks: VecDeque<Task>,
    /// An operation of it is active or waits for an engine.
    is_busy: bool,
    is_dropped: bool,
    failure: Option<Failure>,
}

struct Slots {
    free: u32,
    queue: VecDeque<(StreamId, Operation)>,
}

struct Active {
    stream: StreamId,
    /// Flows and timers still to come.
    parts_left: usize,
    latent: Vec<Flow>,
    effect: Option<Effect>,
    engine: Option<operation::Engine>,
}

#[derive(Clone, Copy)]
enum Timer {
    /// The latency of the operation is over: its flows begin.
    Begin(OperationId),
    /// Its computing is over.
    Computed(OperationId),
    /// The host looks up.
    Alarm,
}

/// What a step has brought.
pub(super) enum Step {
    /// Time moved, or something completed.
    Moved,
    /// This is to happen, without the lock, before [`Engine::finish`] is called with its outcome.
    Effect(OperationId, Effect),
    /// Nothing is under way.
    Idle,
}

impl Engine {
    pub(super) fn new(resources: &Resources, seed: u64, jitter: f64) -> Self {
        let engines = resources.topology.devices.iter().flat_map(|device| {
            let id = pelton_device::DeviceId(device.id);
            let slots = || Slots { free: device.copy_engine_count, queue: VecDeque::new() };
            [(operation::Engine::Out(id), slots()), (operation::Engine::In(id), slots())]
        });
        Self {
            now_s: 0.0,
            capacities: resources.capacities.clone(),
            engine_slots: engines.collect(),
            streams: BTreeMap::new(),
            active: BTreeMap::new(),
            flows: BTreeMap::new(),
            timers: BTreeMap::new(),
            waiting: BTreeMap::new(),
            through: VecDeque::new(),
            discarded: Vec::new(),
            rates_are_stale: false,
            last_id: 0,
            jitter: Jitter { state: seed, share: jitter },
            usage: LinkUsage::new(resources.topology.links.len()),
        }
    }

    pub(super) fn now_s(&self) -> f64 {
        self.now_s
    }

    pub(super) fn add_stream(&mut self) -> StreamId {
        let id = self.next_id();
        let queue = StreamQueue { tasks: VecDeque::new(), is_busy: false, is_dropped: false, failure: None };
        self.streams.insert(id, queue);
        id
    }

    /// Nobody enqueues any more; the stream goes when it is empty.
    pub(super) fn drop_stream(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.is_dropped = true;
        }
        self.pump(id);
    }

    pub(super) fn enqueue(&mut self, id: StreamId, task: Task) {
        self.streams.get_mut(&id).expect("a stream lives while somebody enqueues").tasks.push_back(task);
        self.pump(id);
    }

    /// A mark at the end of the stream.
    pub(super) fn record(&mut self, id: StreamId, place: Place) -> Arc<Mark> {
        let mark = Arc::new(Mark { id: self.next_id(), place, reached: OnceLock::new() });
        self.enqueue(id, Task::Record(Arc::clone(&mark)));
        mark
    }

    /// Nothing if the stream has something to do, else what has failed in it.
    pub(super) fn idle_outcome(&self, id: StreamId) -> Option<Result<()>> {
        let stream = self.streams.get(&id)?;
        let is_idle = !stream.is_busy && stream.tasks.is_empty();
        is_idle.then(|| stream.failure.as_ref().map_or(Ok(()), |failure| Err(failure.error())))
    }

    /// Makes a step end `after_s` from now, whatever else happens; the time of that moment.
    pub(super) fn set_alarm(&mut self, after_s: f64) -> f64 {
        let at_s = self.now_s + after_s;
        self.set_timer(at_s, Timer::Alarm);
        at_s
    }

    /// Effects that will not happen. They may hold the last handle of a buffer: drop them without the lock.
    pub(super) fn take_discarded(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.discarded)
    }

    /// Goes to the next event.
    pub(super) fn step(&mut self) -> Step {
        if let Some(id) = self.through.pop_front() {
            return match self.active.get_mut(&id).and_then(|active| active.effect.take()) {
                Some(effect) => Step::Effect(id, effect),
                None => {
                    self.finish(id, Ok(()));
                    Step::Moved
                }
            };
        }
        self.refresh_rates();
        let Some(next_s) = self.next_event_s() else { return Step::Idle };
        self.move_to(next_s);
        Step::Moved
    }

    /// The operation is complete; its stream goes on.
    pub(super) fn finish(&mut self, id: OperationId, outcome: Result<()>) {
        let active = self.active.remove(&id).expect("an operation completes once");
        if let Some(engine) = active.engine {
            self.free_engine(engine);
        }
        if let Some(stream) = self.streams.get_mut(&active.stream) {
            stream.is_busy = false;
            if let Err(error) = outcome {
                stream.failure.get_or_insert(Failure::new(&error));
            }
        }
        self.pump(active.stream);
    }

    /// Starts what can start in the stream, and in those that wait for its marks.
    fn pump(&mut self, first: StreamId) {
        let mut ready = VecDeque::from([first]);
        while let Some(id) = ready.pop_front() {
            while let Some(task) = self.next_task(id) {
                match task {
                    Task::Run(operation) => self.launch(id, operation),
                    Task::Record(mark) => {
                        let failure = self.streams[&id].failure.clone();
                        let _ = mark.reached.set(Reached { at_s: self.now_s, failure });
                        ready.extend(self.waiting.remove(&mark.id).unwrap_or_default());
                    }
                    Task::Wait(mark) => self.wait(id, mark),
                }
            }
            if self
                .streams
                .get(&id)
                .is_some_and(|stream| stream.is_dropped && self.idle_outcome(id).is_some())
            {
                self.streams.remove(&id);
            }
        }
    }

    /// The next task if it can begin; a wait for a mark that is not reached stays where it is.
    fn next_task(&mut self, id: StreamId) -> Option<Task> {
        let stream = self.streams.get_mut(&id)?;
        if stream.is_busy {
            return None;
        }
        if let Some(Task::Wait(mark)) = stream.tasks.front()
            && mark.reached.get().is_none()
        {
            let waiting = self.waiting.entry(mark.id).or_default();
            if !waiting.contains(&id) {
                waiting.push(id);
            }
            return None;
        }
        stream.tasks.pop_front()
    }

    fn wait(&mut self, id: StreamId, mark: Arc<Mark>) {
        let failure = mark.reached.get().and_then(|reached| reached.failure.clone());
        let stream = self.streams.get_mut(&id).expect("it had a task");
        if let Some(failure) = failure {
            stream.failure.get_or_insert(failure);
        }
    }

    fn launch(&mut self, id: StreamId, mut operation: Operation) {
        let stream = self.streams.get_mut(&id).expect("it had a task");
        if stream.failure.is_some() {
            self.discarded.extend(operation.effect.take());
            return;
        }
        stream.is_busy = true;
        if let Some(engine) = operation.engine {
            let slots = self.engine_slots.get_mut(&engine).expect("every device has engines");
            if slots.free == 0 {
                slots.queue.push_back((id, operation));
                return;
            }
            slots.free -= 1;
        }
        self.start(id, operation);
    }

    fn free_engine(&mut self, engine: operation::Engine) {
        let slots = self.engine_slots.get_mut(&engine).expect("every device has engines");
        match slots.queue.pop_front() {
            Some((stream, operation)) => self.start(stream, operation),
            None => slots.free += 1,
        }
    }

    fn start(&mut self, stream: StreamId, mut operation: Operation) {
        let id = self.next_id();
        let stretch = self.jitter.next();
        let mut parts_left = 0;
        if operation.compute_s > 0.0 {
            self.set_timer(self.now_s + operation.compute_s * stretch, Timer::Computed(id));
            parts_left += 1;
        }
        if !operation.flows.is_empty() {
            operation.flows.iter_mut().for_each(|flow| flow.cap /= stretch);
            self.set_timer(self.now_s + operation.latency_s * stretch, Timer::Begin(id));
            parts_left += 1;
        }
        let (effect, engine) = (operation.effect, operation.engine);
        self.active.insert(id, Active { stream, parts_left, latent: operation.flows, effect, engine });
        if parts_left == 0 {
            self.through.push_back(id);
        }
    }

    fn set_timer(&mut self, at_s: f64, timer: Timer) {
        let order = self.next_id();
        self.timers.insert((at_s.to_bits(), order), timer);
    }

    fn refresh_rates(&mut self) {
        if std::mem::take(&mut self.rates_are_stale) {
            share(&self.capacities, self.flows.values_mut());
            self.usage.note_rates(self.flows.values());
        }
    }

    fn next_event_s(&self) -> Option<f64> {
        let timer_s = self.timers.keys().next().map(|(bits, _)| f64::from_bits(*bits));
        let through_s = self.flows.values().map(|flow| self.now_s + flow.bytes / flow.rate);
        through_s.chain(timer_s).min_by(f64::total_cmp)
    }

    fn move_to(&mut self, next_s: f64) {
        let step_s = next_s - self.now_s;
        self.now_s = next_s;
        let mut done = Vec::new();
        for (key, flow) in &mut self.flows {
            let moved = flow.bytes.min(flow.rate * step_s);
            self.usage.add(&flow.hops, moved);
            flow.bytes -= moved;
            // The next moment that a double can name may be later than the end of the flow.
            if flow.bytes <= THROUGH_BYTES || next_s + flow.bytes / flow.rate <= next_s {
                self.usage.add(&flow.hops, flow.bytes);
                done.push(*key);
            }
        }
        for key in done {
            self.flows.remove(&key);
            self.rates_are_stale = true;
            self.part_done(key.0);
        }
        while let Some(entry) = self.timers.first_entry().filter(|entry| entry.key().0 <= next_s.to_bits()) {
            match entry.remove() {
                Timer::Begin(id) => self.begin(id),
                Timer::Computed(id) => self.part_done(id),
                Timer::Alarm => {}
            }
        }
    }

    fn begin(&mut self, id: OperationId) {
        let active = self.active.get_mut(&id).expect("its timer was set");
        active.parts_left += active.latent.len();
        for (index, flow) in std::mem::take(&mut active.latent).into_iter().enumerate() {
            self.flows.insert((id, index), flow);
        }
        self.rates_are_stale = true;
        self.part_done(id);
    }

    fn part_done(&mut self, id: OperationId) {
        let active = self.active.get_mut(&id).expect("it had parts left");
        active.parts_left -= 1;
        if active.parts_left == 0 {
            self.through.push_back(id);
        }
    }

    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }
}

/// Random stretching of operations: splitmix64.
struct Jitter {
    state: u64,
    share: f64,
}

impl Jitter {
    /// From 1 to 1 + share.
    fn next(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        1.0 + self.share * (mixed >> 11) as f64 / (1_u64 << 53) as f64
    }
}
