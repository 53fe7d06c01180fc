//! Work: one operation of a stream besides copies, in the forms that backends execute.
//!
//! A piece of work names the spans that it reads and writes, so that they stay alive and are not touched by the host
//! meanwhile, and brings a form for each backend that can run it: a launch for CUDA, a function for host threads, a
//! cost for the simulator.

use std::ffi::c_void;
use std::fmt;
use std::time::Duration;

use pelton_error::Result;

use crate::memory::Span;
use crate::place::DeviceId;

/// How memory is scanned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// From one end to the other, coalesced.
    Sequential,
    /// Independent accesses of `width_bytes` each at places without order.
    Random {
        /// Bytes of one access.
        width_bytes: u32,
    },
}

/// What work costs, for whoever computes times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cost {
    /// How it goes through the spans that it reads and writes.
    pub access: Access,
    /// Spans of `reads`, by number, that it goes through in sequence whatever `access` says.
    pub in_sequence: Vec<usize>,
    /// Bytes read of each span in `reads`; without entries, all of each.
    pub read_bytes: Option<Vec<u64>>,
    /// Bytes written of each span in `writes`; without entries, all of each.
    pub write_bytes: Option<Vec<u64>>,
    /// Time of the processor itself, on top of which memory may be the slower.
    pub compute: Duration,
}

impl Cost {
    /// Goes through everything once, in order, and computes nothing worth mentioning.
    pub const STREAMING: Cost = Cost {
        access: Access::Sequential,
        in_sequence: Vec::new(),
        read_bytes: None,
        write_bytes: None,
        compute: Duration::ZERO,
    };
}

/// A CUDA stream as a launch needs it.
#[derive(Debug, Clone, Copy)]
pub struct LaunchTarget {
    /// The device, whose context is current on this thread.
    pub device: DeviceId,
    /// A `CUstream`, which the runtime API calls `cudaStream_t`.
    pub stream: *mut c_void,
    /// The device's multiprocessors, to size a grid by.
    pub multiprocessors: u32,
}

type CudaForm = Box<dyn FnOnce(LaunchTarget) -> Result<()> + Send>;
type HostForm = Box<dyn FnOnce() -> Result<()> + Send>;

/// One operation, to be run by [`Stream::run`](crate::Stream::run).
pub struct Work {
    /// What it does, for messages and traces.
    pub name: &'static str,
    /// What it reads.
    pub reads: Vec<Span>,
    /// What it writes.
    pub writes: Vec<Span>,
    /// What it costs.
    pub cost: Cost,
    /// Enqueues it on a CUDA stream; called at once.
    pub cuda: Option<CudaForm>,
    /// Carries it out; called on a thread of the stream, in turn.
    pub host: Option<HostForm>,
}

impl Work {
    /// Work without a form yet; it costs one pass over its spans.
    pub fn new(name: &'static str, reads: Vec<Span>, writes: Vec<Span>) -> Self {
        Self { name, reads, writes, cost: Cost::STREAMING, cuda: None, host: None }
    }

    /// With this form for CUDA.
    #[must_use]
    pub fn with_cuda(mut self, form: impl FnOnce(LaunchTarget) -> Result<()> + Send + 'static) -> Self {
        self.cuda = Some(Box::new(form));
        self
    }

    /// With this form for host threads.
    #[must_use]
    pub fn with_host(mut self, form: impl FnOnce() -> Result<()> + Send + 'static) -> Self {
        self.host = Some(Box::new(form));
        self
    }

    /// With this cost.
    #[must_use]
    pub fn with_cost(mut self, cost: Cost) -> Self {
        self.cost = cost;
        self
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Work").field("name", &self.name).field("cost", &self.cost).finish_non_exhaustive()
    }
}
