//! Streams and events: order without waiting.
//!
//! ```text
//!   stream A   copy ── copy ── record e ── copy
//!                                  │
//!   stream B   run ─────── wait_for e ── run ── record f ◄── wait_blocking (the host)
//! ```
//!
//! Everything enqueued holds leases on its buffers until somebody observes that it is complete: a wait, a look at an
//! event, or the marks that a stream leaves among its own operations. Dropping a stream waits for what it was given.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use pelton_error::{Error, ErrorKind, Result, ResultExt};

use crate::backend::{EventBackend, StreamBackend};
use crate::machine::Machine;
use crate::memory::{Lease, Purpose, Span};
use crate::place::{MemoryKind, PageableAccess, Place};
use crate::work::Work;

/// Operations between two marks: few enough to let go of buffers soon, many enough not to be felt.
const OPERATIONS_PER_MARK: u64 = 32;

/// An ordered queue of operations at one place.
pub struct Stream {
    shared: Arc<StreamShared>,
}

pub(crate) struct StreamShared {
    machine: Machine,
    place: Place,
    backend: Box<dyn StreamBackend>,
    queue: Mutex<Queue>,
    /// Held from the moment that leases are taken out of the queue until they are over: who has waited must not meet
    /// those that another thread is letting go of. Taken before the queue's lock.
    retiring: Mutex<()>,
}

#[derive(Default)]
struct Queue {
    /// Operations ever enqueued.
    count: u64,
    /// Leases of those not known to be complete, by number.
    in_flight: VecDeque<(u64, Vec<Lease>)>,
    /// Events among them, by the number of the operation before.
    marks: VecDeque<(u64, Box<dyn EventBackend>)>,
    /// Operations of other streams that are over when later ones of this stream are.
    upstream: Vec<Upstream>,
}

/// Operations of a stream up to a number.
#[derive(Clone)]
struct Upstream {
    stream: Weak<StreamShared>,
    until: u64,
}

/// A moment in a stream, to wait for.
#[derive(Clone)]
pub struct Event {
    inner: Arc<EventInner>,
}

struct EventInner {
    backend: Box<dyn EventBackend>,
    stream: Arc<StreamShared>,
    after: u64,
    /// What is over as well when this event is.
    upstream: Vec<Upstream>,
}

impl Stream {
    pub(crate) fn new(machine: Machine, place: Place, backend: Box<dyn StreamBackend>) -> Self {
        let (queue, retiring) = (Mutex::default(), Mutex::default());
        Self { shared: Arc::new(StreamShared { machine, place, backend, queue, retiring }) }
    }

    pub(crate) fn shared(&self) -> &Arc<StreamShared> {
        &self.shared
    }

    /// Where it runs.
    pub fn place(&self) -> Place {
        self.shared.place
    }

    /// The machine it is of.
    pub fn machine(&self) -> &Machine {
        &self.shared.machine
    }

    /// Copies `source` to `target`, of equal lengths.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if the lengths differ, the target is read-only, or the host holds one of the buffers; what the
    /// backend answers.
    pub fn copy(&self, source: &Span, target: &Span) -> Result<()> {
        if source.len() != target.len() {
            return Err(Error::invalid_input(format!(
                "copy of {} bytes to a span of {}; cut them to one length",
                source.len(),
                target.len()
            )));
        }
        if source.is_empty() {
            return Ok(());
        }
        self.enqueue(std::slice::from_ref(source), std::slice::from_ref(target), |backend| {
            backend.copy(source, target)
        })
        .context(|| format!("{}: copy from {} to {}", self.place(), source.kind(), target.kind()))
    }

    /// Moves the pages of managed memory to `place`.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if the memory is not managed, `Unsupported` if the machine cannot.
    pub fn prefetch(&self, span: &Span, place: Place) -> Result<()> {
        if span.kind() != &crate::MemoryKind::Managed {
            return Err(Error::invalid_input(format!(
                "prefetch of {}; only managed memory moves",
                span.kind()
            )));
        }
        if span.is_empty() {
            return Ok(());
        }
        self.enqueue(&[], std::slice::from_ref(span), |backend| backend.prefetch(span, place))
            .context(|| format!("{}: prefetch to {place}", self.place()))
    }

    /// Runs `work`.
    ///
    /// # Errors
    ///
    /// `Unsupported` if it has no form for this machine, else as [`copy`](Self::copy).
    pub fn run(&self, work: Work) -> Result<()> {
        let name = work.name;
        let (reads, writes) = (work.reads.clone(), work.writes.clone());
        for span in reads.iter().chain(&writes) {
            self.check_reach(span).context(|| format!("{}: {name}", self.place()))?;
        }
        self.enqueue(&reads, &writes, |backend| backend.run(work))
            .context(|| format!("{}: {name}", self.place()))
    }

    /// Marks the end of what is enqueued so far.
    ///
    /// # Errors
    ///
    /// What the backend answers.
    pub fn record(&self) -> Result<Event> {
        let queue = self.shared.lock();
        let backend = self.shared.backend.record().context(|| format!("{}: record", self.place()))?;
        let (after, upstream) = (queue.count, queue.upstream.clone());
        drop(queue);
        let stream = Arc::clone(&self.shared);
        Ok(Event { inner: Arc::new(EventInner { backend, stream, after, upstream }) })
    }

    /// Lets what is enqueued later start only when `event` is complete.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an event of another machine.
    pub fn wait_for(&self, event: &Event) -> Result<()> {
        if !self.shared.machine.is_same(&event.inner.stream.machine) {
            return Err(Error::invalid_input("waiting for an event of another machine"));
        }
        let mut queue = self.shared.lock();
        self.shared
            .backend
            .wait_for(&*event.inner.backend)
            .context(|| format!("{}: wait for event", self.place()))?;
        if !Arc::ptr_eq(&self.shared, &event.inner.stream) {
            queue.follow(Upstream { stream: Arc::downgrade(&event.inner.stream), until: event.inner.after });
            event.inner.upstream.iter().for_each(|upstream| queue.follow(upstream.clone()));
        }
        Ok(())
    }

    /// Waits until everything enqueued so far is complete.
    ///
    /// # Errors
    ///
    /// The first error of an operation.
    pub fn wait_blocking(&self) -> Result<()> {
        self.record()?.wait_blocking()
    }

    fn enqueue(
        &self,
        reads: &[Span],
        writes: &[Span],
        enqueue: impl FnOnce(&dyn StreamBackend) -> Result<()>,
    ) -> Result<()> {
        let mut leases = Vec::with_capacity(reads.len() + writes.len());
        for (spans, purpose) in [(reads, Purpose::OperationReads), (writes, Purpose::OperationWrites)] {
            for span in spans {
                if !span.buffer().machine().is_same(&self.shared.machine) {
                    return Err(Error::invalid_input("a buffer of another machine"));
                }
                if purpose == Purpose::OperationWrites && span.buffer().is_read_only() {
                    return Err(Error::invalid_input("writing to memory that was lent for reading"));
                }
                leases.push(span.lease(purpose)?);
            }
        }
        let mut queue = self.shared.lock();
        // What fails may have been enqueued in part, so its leases are kept like those of what succeeds.
        let outcome = enqueue(&*self.shared.backend);
        queue.count += 1;
        let number = queue.count;
        queue.in_flight.push_back((number, leases));
        if number.is_multiple_of(OPERATIONS_PER_MARK)
            && let Ok(mark) = self.shared.backend.record()
        {
            queue.marks.push_back((number, mark));
            let done = queue.take_complete();
            drop(queue);
            drop(done);
        }
        outcome
    }

    /// Refuses spans that kernels of a device would fault on, which would cost the context.
    fn check_reach(&self, span: &Span) -> Result<()> {
        let Place::Device(device) = self.place() else { return Ok(()) };
        let machine = self.machine();
        let missing = match span.kind() {
            MemoryKind::Pageable(_)
                if machine.device(device)?.capabilities.pageable_access == PageableAccess::None =>
            {
                format!("no pageable access from {device}")
            }
            MemoryKind::Device(owner) | MemoryKind::Hybrid { device: owner, .. }
                if !machine.is_peer(device, *owner) =>
            {
                format!("no peer access from {device} to {owner}")
            }
            MemoryKind::Interleaved(owners) if !owners.contains(&device) => {
                format!(
                    "{device} is not among the {} devices that the memory is interleaved over",
                    owners.len()
                )
            }
            _ => return Ok(()),
        };
        Err(Error::unsupported(missing))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.shared.finish_blocking();
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stream of {}", self.place())
    }
}

impl Queue {
    fn follow(&mut self, upstream: Upstream) {
        self.upstream.retain(|known| known.stream.strong_count() > 0);
        match self.upstream.iter_mut().find(|known| known.stream.ptr_eq(&upstream.stream)) {
            Some(known) => known.until = known.until.max(upstream.until),
            None => self.upstream.push(upstream),
        }
    }

    /// Takes the leases of operations up to `number` out, to be dropped without the lock.
    fn take_until(&mut self, number: u64) -> Vec<Lease> {
        while self.marks.front().is_some_and(|(mark, _)| *mark <= number) {
            self.marks.pop_front();
        }
        let mut done = Vec::new();
        while self.in_flight.front().is_some_and(|(operation, _)| *operation <= number) {
            done.extend(self.in_flight.pop_front().expect("just seen").1);
        }
        done
    }

    /// As [`take_until`](Self::take_until), as far as the marks show completion.
    fn take_complete(&mut self) -> Vec<Lease> {
        let complete = self.marks.iter().take_while(|(_, mark)| mark.is_complete().unwrap_or(true)).last();
        let number = complete.map(|(number, _)| *number);
        number.map_or(Vec::new(), |number| self.take_until(number))
    }
}

impl StreamShared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn retire(&self, number: u64) {
        let _retiring = self.retiring.lock().unwrap_or_else(PoisonError::into_inner);
        let done = self.lock().take_until(number);
        drop(done);
    }

    /// Lets go of what is complete, without waiting.
    pub(crate) fn retire_completed(&self) {
        let Ok(_retiring) = self.retiring.try_lock() else { return };
        // Whoever holds the lock is enqueueing, which may take as long as the driver likes.
        let Ok(mut queue) = self.queue.try_lock() else { return };
        if queue.in_flight.is_empty() {
            return;
        }
        let done = if self.backend.is_idle().unwrap_or(true) {
            let count = queue.count;
            queue.take_until(count)
        } else {
            queue.take_complete()
        };
        drop(queue);
        drop(done);
    }

    /// Waits for everything enqueued and lets go of it. Errors have been or will be reported to whoever waits; here
    /// only the end of all work matters.
    fn finish_blocking(&self) {
        if self.lock().in_flight.is_empty() {
            return;
        }
        let outcome = self.backend.record().and_then(|end| end.wait_blocking());
        let _retiring = self.retiring.lock().unwrap_or_else(PoisonError::into_inner);
        let mut queue = self.lock();
        let count = queue.count;
        let done = queue.take_until(count);
        drop(queue);
        match outcome {
            Err(error) if !is_over(&error, &*self.backend) => {
                // Nobody knows whether the device still works on them: memory lost is better than memory reused.
                std::mem::forget(done);
            }
            _ => drop(done),
        }
    }
}

/// True if a stream that answers with `error` runs nothing any more.
fn is_over(error: &Error, backend: &dyn StreamBackend) -> bool {
    error.kind() == &ErrorKind::DeviceLost || !matches!(backend.is_idle(), Ok(false))
}

impl Event {
    /// True once everything before it is complete.
    ///
    /// # Errors
    ///
    /// The first error of the operations before it.
    pub fn is_complete(&self) -> Result<bool> {
        let complete = self.inner.backend.is_complete().context(|| format!("{}", self.place()));
        if !matches!(complete, Ok(false)) {
            self.retire();
        }
        complete
    }

    /// Waits until everything before it is complete.
    ///
    /// # Errors
    ///
    /// The first error of the operations before it.
    pub fn wait_blocking(&self) -> Result<()> {
        let outcome = self.inner.backend.wait_blocking().context(|| format!("{}", self.place()));
        self.retire();
        outcome
    }

    fn retire(&self) {
        self.inner.stream.retire(self.inner.after);
        for upstream in &self.inner.upstream {
            if let Some(stream) = upstream.stream.upgrade() {
                stream.retire(upstream.until);
            }
        }
    }

    /// Time from `earlier` to this event; both are complete and of one place.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if they are not.
    pub fn elapsed_since(&self, earlier: &Event) -> Result<Duration> {
        self.inner.backend.elapsed_since(&*earlier.inner.backend)
    }

    fn place(&self) -> Place {
        self.inner.stream.place
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "event after operation {} of {}", self.inner.after, self.place())
    }
}
