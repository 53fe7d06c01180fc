//! What backend, streams and events of one simulated machine share, and who drives time.
//!
//! The host takes no time to enqueue. Time moves when somebody waits: the thread that waits drives the engine until
//! what it waits for is complete. Effects (copies of bytes, host forms of work) happen on that thread, one at a time,
//! without the lock; other threads that wait sleep until it has done so. Somebody who only polls would wait for ever,
//! so that after [`POLLS_PER_STEP`] vain looks in a row, with nothing enqueued between, time moves to the next event.
//!
//! Of threads that are counted ([`Backend::count_threads`](pelton_device::Backend::count_threads)), none drives before
//! all of them wait and each has seen that what it waits for is not complete yet. Otherwise one would drive past the
//! moment at which another was to go on.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

use pelton_device::{MachineInfo, Place};
use pelton_error::{Error, Result};

use crate::engine::{Engine, Step};
use crate::memory::Memory;
use crate::operation::{Mark, Task};
use crate::options::SimOptions;
use crate::plan::Planner;
use crate::resources::Resources;

/// Enough for a scheduler that looks at all of its events once, few enough for a loop that spins.
const POLLS_PER_STEP: u32 = 256;

pub(super) struct Shared {
    pub(super) info: MachineInfo,
    pub(super) resources: Resources,
    pub(super) options: SimOptions,
    state: Mutex<State>,
    /// Somebody has driven, or has stopped to.
    changed: Condvar,
}

pub(super) struct State {
    pub(super) engine: Engine,
    pub(super) memory: Memory,
    /// The thread on which an effect happens now.
    busy_thread: Option<ThreadId>,
    /// How many threads are to wait before time passes.
    thread_count: i32,
    /// Steps so far.
    step_count: u64,
    /// Threads that wait, and have looked since the last step.
    looked_count: i32,
    vain_polls: u32,
}

impl State {
    /// Whoever waits is to look again.
    fn count_step(&mut self) {
        self.step_count += 1;
        self.looked_count = 0;
    }
}

impl Shared {
    pub(super) fn new(info: MachineInfo, resources: Resources, options: SimOptions) -> Arc<Self> {
        let engine = Engine::new(&resources, options.seed, options.jitter);
        let node_bytes =
            resources.topology.nodes.iter().map(|node| crate::held(node.memory_bytes, options.scale));
        let memory = Memory::new(options.functional, node_bytes);
        let state = Mutex::new(State {
            engine,
            memory,
            busy_thread: None,
            thread_count: 1,
            step_count: 0,
            looked_count: 0,
            vain_polls: 0,
        });
        Arc::new(Self { info, resources, options, state, changed: Condvar::new() })
    }

    /// Lets `change` have the state; effects that it discards are dropped after the lock.
    pub(super) fn with<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.lock();
        let result = change(&mut state);
        let discarded = state.engine.take_discarded();
        drop(state);
        drop(discarded);
        result
    }

    /// Enqueues what `plan` makes of the state.
    pub(super) fn enqueue(&self, stream: u64, plan: impl FnOnce(&mut State) -> Result<Task>) -> Result<()> {
        self.with(|state| {
            let task = plan(state)?;
            state.vain_polls = 0;
            state.engine.enqueue(stream, task);
            Ok(())
        })
    }

    pub(super) fn planner(&self, place: Place) -> Planner<'_> {
        Planner { info: &self.info, resources: &self.resources, options: &self.options, place }
    }

    /// Drives until the mark is reached.
    ///
    /// # Errors
    ///
    /// What failed before it; `InvalidInput` if it can never be reached.
    pub(super) fn wait(&self, mark: &Mark) -> Result<()> {
        self.drive(|_| mark.reached.get().is_some())?;
        mark.reached.get().map_or(Ok(()), |reached| reached.outcome())
    }

    /// Lets `seconds` pass.
    pub(super) fn pass(&self, seconds: f64) -> Result<()> {
        let until_s = self.with(|state| state.engine.set_alarm(seconds));
        self.drive(|state| state.engine.now_s() >= until_s)
    }

    /// True if `look` finds something; if it finds nothing, time may pass, see the module.
    ///
    /// # Errors
    ///
    /// What `look` finds to have failed.
    pub(super) fn poll(&self, look: impl Fn(&State) -> Option<Result<()>>) -> Result<bool> {
        let (found, spins_since_s) = self.with(|state| {
            let found = look(state);
            state.vain_polls = if found.is_some() { 0 } else { state.vain_polls + 1 };
            let spins = state.vain_polls >= POLLS_PER_STEP && state.busy_thread.is_none();
            (found, spins.then(|| state.engine.now_s()))
        });
        if let Some(since_s) = spins_since_s {
            self.with(|state| state.vain_polls = 0);
            self.drive(|state| state.engine.now_s() > since_s || look(state).is_some())?;
        }
        found.map_or(Ok(false), |outcome| outcome.map(|()| true))
    }

    /// More threads are to wait before time passes, or fewer.
    pub(super) fn count_threads(&self, change: i32) {
        self.with(|state| state.thread_count += change);
        self.changed.notify_all();
    }

    fn drive(&self, is_done: impl Fn(&State) -> bool) -> Result<()> {
        let me = std::thread::current().id();
        let mut state = self.lock();
        // The step after which this thread was counted as one that has looked.
        let mut looked_at = None;
        while !is_done(&state) {
            if state.busy_thread == Some(me) {
                return Err(Error::invalid_input(
                    "waiting inside an operation of the simulated machine, for what can only happen after it; \
                     wait for it outside",
                ));
            }
            if looked_at != Some(state.step_count) {
                looked_at = Some(state.step_count);
                state.looked_count += 1;
            }
            if state.busy_thread.is_none() && state.looked_count >= state.thread_count {
                state.count_step();
                state = self.step(state, me)?;
                // Others may have looked during an effect, before it was complete.
                state.count_step();
                self.changed.notify_all();
            } else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
        // What it waited for may have been completed without a step.
        if looked_at == Some(state.step_count) {
            state.looked_count -= 1;
        }
        let discarded = state.engine.take_discarded();
        drop(state);
        drop(discarded);
        Ok(())
    }

    fn step<'a>(&'a self, mut state: MutexGuard<'a, State>, me: ThreadId) -> Result<MutexGuard<'a, State>> {
        match state.engine.step() {
            Step::Moved => Ok(state),
            Step::Effect(id, effect) => {
                state.busy_thread = Some(me);
                drop(state);
                let outcome = catch_unwind(AssertUnwindSafe(effect));
                let (outcome, panic) = match outcome {
                    Ok(outcome) => (outcome, None),
                    Err(panic) => (Err(Error::invalid_input("an operation panicked")), Some(panic)),
                };
                let mut state = self.lock();
                state.busy_thread = None;
                state.engine.finish(id, outcome);
                self.changed.notify_all();
                panic.map_or(Ok(state), |panic| resume_unwind(panic))
            }
            Step::Idle => Err(Error::invalid_input(
                "waiting for a moment that no operation leads to; record it in a stream of this machine",
            )),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
