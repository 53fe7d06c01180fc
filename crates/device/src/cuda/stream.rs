//! Streams and events of a CUDA machine, at devices and at the host.
//!
//! A host stream is a thread. Device streams and host streams order each other without anyone waiting on the calling
//! thread:
//!
//! ```text
//!   host stream waits for a device event      its thread waits for the event
//!   device stream waits for a host event      the GPU waits for a word of pinned memory, which the thread counts up
//! ```
//!
//! A device stream that waited for a host stream reports that stream's error at its own next wait.

use std::any::Any;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cudarc::driver::sys;
use pelton_error::{Error, Result};

use super::driver::{Context, check};
use crate::backend::{EventBackend, StreamBackend};
use crate::host::{Queue, QueueEvent, host_copy};
use crate::memory::Span;
use crate::place::{DeviceId, MemoryKind, NodeId, Place};
use crate::work::{LaunchTarget, Work};

/// Events are made once and used again: making one costs more than recording it.
#[derive(Debug)]
pub(crate) struct EventPool {
    context: Context,
    idle: Mutex<Vec<RawEvent>>,
}

#[derive(Debug)]
struct RawEvent(sys::CUevent);

// SAFETY: an event may be recorded, queried and waited for from any thread.
unsafe impl Send for RawEvent {}
// SAFETY: as above.
unsafe impl Sync for RawEvent {}

impl EventPool {
    pub(crate) fn new(context: Context) -> Arc<Self> {
        Arc::new(Self { context, idle: Mutex::default() })
    }

    fn take(&self) -> Result<RawEvent> {
        if let Some(event) = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop() {
            return Ok(event);
        }
        let mut event = std::ptr::null_mut();
        let flags = sys::CUevent_flags::CU_EVENT_DEFAULT as u32;
        // SAFETY: the caller has made the context current; `event` outlives the call.
        check(unsafe { sys::cuEventCreate(&raw mut event, flags) }, || {
            format!("{}: creating an event", self.context.id)
        })?;
        Ok(RawEvent(event))
    }
}

impl Drop for EventPool {
    fn drop(&mut self) {
        if self.context.bind().is_ok() {
            for event in self.idle.get_mut().unwrap_or_else(PoisonError::into_inner) {
                // SAFETY: the event is ours and used by nobody.
                let _ = unsafe { sys::cuEventDestroy_v2(event.0) };
            }
        }
    }
}

/// A stream of a device.
pub(crate) struct DeviceStream {
    context: Context,
    stream: sys::CUstream,
    multiprocessors: u32,
    events: Arc<EventPool>,
    /// Host streams that it waited for, whose errors are its own.
    upstream: Mutex<Vec<QueueEvent>>,
}

// SAFETY: a stream may be used from any thread; the caller's lock orders the calls.
unsafe impl Send for DeviceStream {}
// SAFETY: as above.
unsafe impl Sync for DeviceStream {}

impl DeviceStream {
    pub(crate) fn new(context: Context, multiprocessors: u32, events: Arc<EventPool>) -> Result<Self> {
        context.bind()?;
        let mut stream = std::ptr::null_mut();
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: `stream` outlives the call.
        check(unsafe { sys::cuStreamCreate(&raw mut stream, flags) }, || {
            format!("{}: creating a stream", context.id)
        })?;
        Ok(Self { context, stream, multiprocessors, events, upstream: Mutex::default() })
    }

    /// Host events not yet seen to be over; those that are over well are dropped.
    fn pending_upstream(&self) -> Vec<QueueEvent> {
        let mut upstream = self.upstream.lock().unwrap_or_else(PoisonError::into_inner);
        upstream.retain(|event| !matches!(event.is_complete(), Ok(true)));
        upstream.clone()
    }
}

impl Drop for DeviceStream {
    fn drop(&mut self) {
        if self.context.bind().is_ok() {
            // SAFETY: the stream is ours; the driver finishes what is enqueued.
            let _ = unsafe { sys::cuStreamDestroy_v2(self.stream) };
        }
    }
}

impl StreamBackend for DeviceStream {
    fn copy(&self, source: &Span, target: &Span) -> Result<()> {
        self.context.bind()?;
        // SAFETY: both spans are in bounds and stay alive until the copy is known to be complete.
        let code =
            unsafe { sys::cuMemcpyAsync(target.address(), source.address(), source.len(), self.stream) };
        check(code, || format!("{} bytes", source.len()))
    }

    fn prefetch(&self, span: &Span, place: Place) -> Result<()> {
        self.context.bind()?;
        let location = match place {
            Place::Device(device) => super::memory::device_location(device.0 as i32),
            Place::Host(NodeId(_)) => {
                sys::CUmemLocation { type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST, id: 0 }
            }
        };
        // SAFETY: the span is managed memory in bounds and alive.
        let code =
            unsafe { sys::cuMemPrefetchAsync_v2(span.address(), span.len(), location, 0, self.stream) };
        check(code, || format!("{} bytes", span.len()))
    }

    fn run(&self, work: Work) -> Result<()> {
        let form =
            work.cuda.ok_or_else(|| Error::unsupported(format!("'{}' has no form for CUDA", work.name)))?;
        self.context.bind()?;
        form(LaunchTarget {
            device: self.context.id,
            stream: self.stream.cast(),
            multiprocessors: self.multiprocessors,
        })
    }

    fn record(&self) -> Result<Box<dyn EventBackend>> {
        self.context.bind()?;
        let event = self.events.take()?;
        // SAFETY: event and stream are of this context and alive.
        check(unsafe { sys::cuEventRecord(event.0, self.stream) }, || "recording an event".into())?;
        let raw = Some(event);
        let inner = DeviceEventInner { context: self.context, raw, pool: Arc::clone(&self.events) };
        Ok(Box::new(DeviceEvent { inner: Arc::new(inner), upstream: self.pending_upstream() }))
    }

    fn wait_for(&self, event: &dyn EventBackend) -> Result<()> {
        self.context.bind()?;
        if let Some(event) = event.as_any().downcast_ref::<DeviceEvent>() {
            // SAFETY: the event has been recorded and is alive.
            let code = unsafe { sys::cuStreamWaitEvent(self.stream, event.inner.raw(), 0) };
            check(code, || "waiting for an event of a device".into())?;
            let mut upstream = self.upstream.lock().unwrap_or_else(PoisonError::into_inner);
            upstream.extend(event.upstream.iter().cloned());
            return Ok(());
        }
        let event = event.as_any().downcast_ref::<HostEvent>().expect("an event of this machine");
        let geq = sys::CUstreamWaitValue_flags::CU_STREAM_WAIT_VALUE_GEQ as u32;
        // SAFETY: the word is pinned memory that lives as long as the machine. The thread counts on after failures as
        // well, so the wait ends.
        let code =
            unsafe { sys::cuStreamWaitValue32_v2(self.stream, event.word_address, event.counted, geq) };
        check(code, || "waiting for an event of the host".into())?;
        let mut upstream = self.upstream.lock().unwrap_or_else(PoisonError::into_inner);
        upstream.retain(|event| !matches!(event.is_complete(), Ok(true)));
        upstream.push(event.event.clone());
        Ok(())
    }

    fn is_idle(&self) -> Result<bool> {
        self.context.bind()?;
        // SAFETY: the stream is alive.
        let idle = completion(unsafe { sys::cuStreamQuery(self.stream) })?;
        if idle {
            self.pending_upstream().iter().try_for_each(|event| event.is_complete().map(|_| ()))?;
        }
        Ok(idle)
    }
}

fn completion(code: sys::CUresult) -> Result<bool> {
    if code == sys::CUresult::CUDA_ERROR_NOT_READY {
        return Ok(false);
    }
    check(code, || "an operation enqueued earlier".into()).map(|()| true)
}

struct DeviceEvent {
    inner: Arc<DeviceEventInner>,
    upstream: Vec<QueueEvent>,
}

struct DeviceEventInner {
    context: Context,
    /// Taken only by drop.
    raw: Option<RawEvent>,
    pool: Arc<EventPool>,
}

impl DeviceEventInner {
    fn raw(&self) -> sys::CUevent {
        self.raw.as_ref().expect("until dropped").0
    }

    fn wait_blocking(&self) -> Result<()> {
        self.context.bind()?;
        // SAFETY: the event has been recorded and is alive.
        check(unsafe { sys::cuEventSynchronize(self.raw()) }, || "an operation enqueued earlier".into())
    }
}

impl Drop for DeviceEventInner {
    fn drop(&mut self) {
        let raw = self.raw.take().expect("dropped once");
        self.pool.idle.lock().unwrap_or_else(PoisonError::into_inner).push(raw);
    }
}

impl EventBackend for DeviceEvent {
    fn is_complete(&self) -> Result<bool> {
        self.inner.context.bind()?;
        // SAFETY: the event has been recorded and is alive.
        let complete = completion(unsafe { sys::cuEventQuery(self.inner.raw()) })?;
        if complete {
            self.upstream.iter().try_for_each(|event| event.is_complete().map(|_| ()))?;
        }
        Ok(complete)
    }

    fn wait_blocking(&self) -> Result<()> {
        self.inner.wait_blocking()?;
        self.upstream.iter().try_for_each(QueueEvent::wait_blocking)
    }

    fn elapsed_since(&self, earlier: &dyn EventBackend) -> Result<Duration> {
        let Some(earlier) = earlier.as_any().downcast_ref::<DeviceEvent>() else {
            return Err(Error::invalid_input("elapsed time between events of different places"));
        };
        self.inner.context.bind()?;
        let mut milliseconds = 0.0;
        // SAFETY: both events have been recorded and are alive; the result outlives the call.
        let code = unsafe {
            sys::cuEventElapsedTime_v2(&raw mut milliseconds, earlier.inner.raw(), self.inner.raw())
        };
        check(code, || "time between events that are not both complete".into())?;
        Ok(Duration::from_secs_f64(f64::from(milliseconds.max(0.0)) / 1e3))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Words of pinned memory that say how many operations of host streams are over. A word that a stream has left is
/// counted on by the next, never set back, so a device that still looks at it sees what it waits for.
#[derive(Debug)]
pub(crate) struct CounterPool {
    context: Context,
    idle: Mutex<Vec<Counter>>,
}

#[derive(Debug)]
struct Counter {
    word: *mut AtomicU32,
    /// What it stood at when the present stream began.
    base: u32,
}

// SAFETY: the word is an atomic in memory that lives as long as the pool.
unsafe impl Send for Counter {}
// SAFETY: as above.
unsafe impl Sync for Counter {}

impl CounterPool {
    pub(crate) fn new(context: Context) -> Arc<Self> {
        Arc::new(Self { context, idle: Mutex::default() })
    }

    fn take(&self) -> Result<Counter> {
        if let Some(counter) = self.idle().pop() {
            return Ok(counter);
        }
        self.context.bind()?;
        let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
        let mut word = std::ptr::null_mut();
        // SAFETY: `word` outlives the call.
        check(unsafe { sys::cuMemHostAlloc(&raw mut word, size_of::<AtomicU32>(), flags) }, || {
            "taking pinned memory for a counter".into()
        })?;
        let word = word.cast::<AtomicU32>();
        // SAFETY: the memory is ours alone, aligned to pages, and large enough.
        unsafe { word.write(AtomicU32::new(0)) };
        Ok(Counter { word, base: 0 })
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Counter>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for CounterPool {
    fn drop(&mut self) {
        if self.context.bind().is_ok() {
            for counter in self.idle().drain(..) {
                // SAFETY: the machine and with it every stream is gone.
                let _ = unsafe { sys::cuMemFreeHost(counter.word.cast()) };
            }
        }
    }
}

impl Counter {
    fn address(&self) -> u64 {
        self.word as u64
    }

    fn value(&self) -> u32 {
        // SAFETY: the word lives as long as the pool, which outlives its counters; devices only read it.
        unsafe { &*self.word }.load(Ordering::Acquire)
    }

    fn count_to(&self, done: u64) {
        // SAFETY: as above.
        unsafe { &*self.word }.store(self.base.wrapping_add(done as u32), Ordering::Release);
    }
}

/// A stream of host cores, on a machine with CUDA devices; or of these cores as a device.
pub(crate) struct HostStream {
    /// Taken only by drop.
    queue: Option<Queue>,
    counter: Arc<Counter>,
    counters: Arc<CounterPool>,
    /// Whose work it is, where the cores are a device.
    device: Option<DeviceId>,
}

impl HostStream {
    pub(crate) fn new(counters: Arc<CounterPool>, place: Place) -> Result<Self> {
        let counter = Arc::new(counters.take()?);
        let counted = Arc::clone(&counter);
        let queue =
            Queue::start_with(&format!("{place}"), Some(Box::new(move |done| counted.count_to(done))))?;
        let device = match place {
            Place::Device(device) => Some(device),
            Place::Host(_) => None,
        };
        Ok(Self { queue: Some(queue), counter, counters, device })
    }

    /// # Errors
    ///
    /// `Unsupported` for memory of a GPU.
    fn check_reaches(&self, span: &Span) -> Result<()> {
        let is_own = matches!(span.kind(), MemoryKind::Device(device) if Some(*device) == self.device);
        match is_own || span.kind().is_host_visible() {
            true => Ok(()),
            false => Err(Error::unsupported(format!(
                "host cores do not reach {}; use a device's stream",
                span.kind()
            ))),
        }
    }

    fn queue(&self) -> &Queue {
        self.queue.as_ref().expect("until dropped")
    }
}

impl Drop for HostStream {
    fn drop(&mut self) {
        // Ends the thread, so that nobody counts any more.
        let queue = self.queue.take().expect("dropped once");
        if !queue.finish() {
            // The thread itself dropped the stream and counts once more: the word stays with it.
            return;
        }
        let (word, base) = (self.counter.word, self.counter.value());
        self.counters.idle().push(Counter { word, base });
    }
}

impl StreamBackend for HostStream {
    fn copy(&self, source: &Span, target: &Span) -> Result<()> {
        self.check_reaches(source)?;
        self.check_reaches(target)?;
        self.queue().push(host_copy(source, target));
        Ok(())
    }

    fn prefetch(&self, _span: &Span, _place: Place) -> Result<()> {
        Err(Error::unsupported("pages are moved by a device's stream, not by the host's"))
    }

    fn run(&self, work: Work) -> Result<()> {
        let form = work
            .host
            .ok_or_else(|| Error::unsupported(format!("'{}' has no form for host threads", work.name)))?;
        work.reads.iter().chain(&work.writes).try_for_each(|span| self.check_reaches(span))?;
        self.queue().push(form);
        Ok(())
    }

    fn record(&self) -> Result<Box<dyn EventBackend>> {
        let event = self.queue().record();
        let counted = self.counter.base.wrapping_add(event.number() as u32);
        Ok(Box::new(HostEvent { event, word_address: self.counter.address(), counted }))
    }

    fn wait_for(&self, event: &dyn EventBackend) -> Result<()> {
        if let Some(event) = event.as_any().downcast_ref::<HostEvent>() {
            let event = event.event.clone();
            self.queue().push(Box::new(move || event.wait_blocking()));
        } else {
            let event = event.as_any().downcast_ref::<DeviceEvent>().expect("an event of this machine");
            let (inner, upstream) = (Arc::clone(&event.inner), event.upstream.clone());
            self.queue().push(Box::new(move || {
                inner.wait_blocking()?;
                upstream.iter().try_for_each(QueueEvent::wait_blocking)
            }));
        }
        Ok(())
    }

    fn is_idle(&self) -> Result<bool> {
        self.queue().is_idle()
    }
}

struct HostEvent {
    event: QueueEvent,
    word_address: u64,
    /// What the word says, or has passed, when the event is over.
    counted: u32,
}

impl EventBackend for HostEvent {
    fn is_complete(&self) -> Result<bool> {
        self.event.is_complete()
    }

    fn wait_blocking(&self) -> Result<()> {
        self.event.wait_blocking()
    }

    fn elapsed_since(&self, earlier: &dyn EventBackend) -> Result<Duration> {
        let Some(earlier) = earlier.as_any().downcast_ref::<HostEvent>() else {
            return Err(Error::invalid_input("elapsed time between events of different places"));
        };
        self.event.elapsed_since(&earlier.event)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
