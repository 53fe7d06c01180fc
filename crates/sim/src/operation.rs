//! What the engine executes: operations of streams, made of flows and of time.

use std::sync::{Arc, OnceLock};

use pelton_device::{DeviceId, Place};
use pelton_error::{Error, ErrorKind, Result};
use pelton_fabric::Hop;

use crate::share::{Shared, Use};

/// What happens to bytes when an operation completes: a copy, or the host form of work.
pub(super) type Effect = Box<dyn FnOnce() -> Result<()> + Send>;

/// Bytes on their way.
#[derive(Debug, Clone)]
pub(super) struct Flow {
    /// Still to move.
    pub(super) bytes: f64,
    /// No more than this, bytes per second.
    pub(super) cap: f64,
    /// See [`share`](super::share).
    pub(super) pace: f64,
    pub(super) uses: Vec<Use>,
    /// The links it crosses, for whoever counts.
    pub(super) hops: Vec<Hop>,
    /// Now, bytes per second.
    pub(super) rate: f64,
}

impl Shared for Flow {
    fn uses(&self) -> &[Use] {
        &self.uses
    }

    fn cap(&self) -> f64 {
        self.cap
    }

    fn pace(&self) -> f64 {
        self.pace
    }

    fn set_rate(&mut self, bytes_per_s: f64) {
        self.rate = bytes_per_s;
    }
}

/// Direction of a copy as the device that carries it out sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Engine {
    /// Its copies to other places.
    Out(DeviceId),
    /// Its copies from other places.
    In(DeviceId),
}

/// One operation: complete when all flows are through and `compute_s` is over.
///
/// ```text
///   waits for the stream ── waits for an engine ─┬─ latency ── flows ─┬─ effect ── complete
///                                                └───── compute ──────┘
/// ```
pub(super) struct Operation {
    pub(super) latency_s: f64,
    pub(super) compute_s: f64,
    pub(super) flows: Vec<Flow>,
    pub(super) engine: Option<Engine>,
    pub(super) effect: Option<Effect>,
}

/// Why something failed, reported to every waiting caller.
#[derive(Debug, Clone)]
pub(super) struct Failure(Arc<(ErrorKind, String)>);

impl Failure {
    pub(super) fn new(error: &Error) -> Self {
        Failure(Arc::new((error.kind().clone(), error.to_string())))
    }

    pub(super) fn error(&self) -> Error {
        Error::new(self.0.0.clone(), self.0.1.clone())
    }
}

/// A moment in a stream: set when everything before it is complete.
#[derive(Debug)]
pub(super) struct Mark {
    pub(super) id: u64,
    pub(super) place: Place,
    pub(super) reached: OnceLock<Reached>,
}

/// When a mark was reached, and what had failed by then.
#[derive(Debug, Clone)]
pub(super) struct Reached {
    pub(super) at_s: f64,
    pub(super) failure: Option<Failure>,
}

impl Reached {
    pub(super) fn outcome(&self) -> Result<()> {
        self.failure.as_ref().map_or(Ok(()), |failure| Err(failure.error()))
    }
}

/// What waits in a stream.
pub(super) enum Task {
    Run(Operation),
    Record(Arc<Mark>),
    Wait(Arc<Mark>),
}
