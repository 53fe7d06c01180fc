//! A thread that carries out operations in order: what a stream is on the host.
//!
//! The first error stays with the queue: later operations are skipped, and every caller waiting for the failed one or a
//! later one is told. A device stream that waits for a host stream is let through all the same, so that it never
//! hangs; what it then computes is computed from bytes that are not there, and its own wait reports the error. So
//! kernels that take their input from a host stream must bear any bytes.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pelton_error::{Error, ErrorKind, Result};

use crate::backend::EventBackend;
use crate::priority;

type Operation = Box<dyn FnOnce() -> Result<()> + Send>;

/// Called by the thread with the number of operations done, after each.
pub(crate) type OnProgress = Box<dyn Fn(u64) + Send>;

/// Operations in order, on a thread of their own.
pub(crate) struct Queue {
    sender: Option<Sender<Operation>>,
    pushed: AtomicU64,
    progress: Arc<Progress>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Progress {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    done: u64,
    /// Which operation failed first, and how.
    failure: Option<(u64, ErrorKind, String)>,
}

impl Queue {
    /// Starts the thread; `name` is shown by debuggers.
    pub(crate) fn start(name: &str) -> Result<Self> {
        Self::start_with(name, None)
    }

    /// As [`start`](Self::start), and tells `on_progress` of every operation that is over.
    pub(crate) fn start_with(name: &str, on_progress: Option<OnProgress>) -> Result<Self> {
        let (sender, receiver) = channel();
        let progress = Arc::new(Progress::default());
        let thread = {
            let progress = Arc::clone(&progress);
            let serve = move || carry_out(&receiver, &progress, on_progress.as_deref());
            priority::start(name.chars().take(15).collect(), serve)
                .map_err(|error| Error::io(format!("{name}: starting a thread"), error))?
        };
        Ok(Self { sender: Some(sender), pushed: AtomicU64::new(0), progress, thread: Some(thread) })
    }

    /// Appends `operation`; answers its number. Callers take turns (a stream holds its lock).
    pub(crate) fn push(&self, operation: Operation) -> u64 {
        let number = self.pushed.fetch_add(1, Ordering::Relaxed) + 1;
        let sender = self.sender.as_ref().expect("open until dropped");
        sender.send(operation).expect("the thread runs until the queue is dropped");
        number
    }

    /// The moment when everything pushed so far is done.
    pub(crate) fn record(&self) -> QueueEvent {
        let reached = Arc::new(OnceLock::new());
        let mark = Arc::clone(&reached);
        let number = self.push(Box::new(move || {
            mark.set(Instant::now()).expect("a mark is reached once");
            Ok(())
        }));
        QueueEvent { progress: Arc::clone(&self.progress), number, reached }
    }

    /// True if everything pushed is done.
    pub(crate) fn is_idle(&self) -> Result<bool> {
        let state = self.progress.lock();
        state.outcome(u64::MAX)?;
        Ok(state.done == self.pushed.load(Ordering::Relaxed))
    }
}

impl Queue {
    /// Ends the thread when everything is done, and waits for that; false if it is this thread.
    pub(crate) fn finish(mut self) -> bool {
        self.end()
    }

    fn end(&mut self) -> bool {
        drop(self.sender.take());
        let Some(thread) = self.thread.take() else { return true };
        if thread.thread().id() == std::thread::current().id() {
            return false;
        }
        // Panics of operations are caught where they happen.
        let _ = thread.join();
        true
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.end();
    }
}

fn carry_out(
    receiver: &Receiver<Operation>,
    progress: &Progress,
    on_progress: Option<&(dyn Fn(u64) + Send)>,
) {
    while let Ok(operation) = receiver.recv() {
        let has_failed = progress.lock().failure.is_some();
        let outcome = if has_failed { Ok(()) } else { run(operation) };
        let mut state = progress.lock();
        if let Err(error) = outcome {
            let number = state.done + 1;
            state.failure.get_or_insert_with(|| (number, error.kind().clone(), error.to_string()));
        }
        state.done += 1;
        let done = state.done;
        drop(state);
        progress.changed.notify_all();
        if let Some(on_progress) = on_progress {
            on_progress(done);
        }
    }
}

fn run(operation: Operation) -> Result<()> {
    catch_unwind(AssertUnwindSafe(operation)).unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<&str>()
            .map(|text| (*text).to_string())
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "no message".into());
        Err(Error::new(ErrorKind::Io, format!("an operation panicked: {text}")))
    })
}

impl Progress {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Of operations up to `number`.
    fn outcome(&self, number: u64) -> Result<()> {
        match &self.failure {
            Some((failed, kind, message)) if *failed <= number => {
                Err(Error::new(kind.clone(), message.clone()))
            }
            _ => Ok(()),
        }
    }
}

/// A moment of a queue.
#[derive(Clone)]
pub(crate) struct QueueEvent {
    progress: Arc<Progress>,
    number: u64,
    reached: Arc<OnceLock<Instant>>,
}

impl QueueEvent {
    /// Which operation of its queue it is.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }
}

impl EventBackend for QueueEvent {
    fn is_complete(&self) -> Result<bool> {
        let state = self.progress.lock();
        if state.done < self.number {
            return Ok(false);
        }
        state.outcome(self.number).map(|()| true)
    }

    fn wait_blocking(&self) -> Result<()> {
        let mut state = self.progress.lock();
        while state.done < self.number {
            state = self.progress.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.outcome(self.number)
    }

    fn elapsed_since(&self, earlier: &dyn EventBackend) -> Result<Duration> {
        let earlier = earlier.as_any().downcast_ref::<QueueEvent>();
        let times = earlier.and_then(|earlier| Some((*earlier.reached.get()?, *self.reached.get()?)));
        times.map(|(from, until)| until.saturating_duration_since(from)).ok_or_else(|| {
            Error::invalid_input("elapsed time between events that are not both complete and of one place")
        })
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
