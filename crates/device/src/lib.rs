//! Devices: memory, streams and events of GPUs, of host threads standing in for GPUs, and of simulated machines.
//!
//! ```text
//!   Machine ── allocate ──► Buffer ── slice ──► Span ─┐
//!      │                      ▲ leases               │
//!      └────── stream ──────► Stream ◄── copy, run ──┘
//!                               └── record ──► Event ── wait_for (a stream), wait_blocking (the host)
//!   ────────────────────────────── Backend ──────────────────────────────
//!      cuda: the driver, found at run time      host: memory and threads      (sim: virtual time)
//! ```
//!
//! The words are CUDA's. A *machine* is what one backend executes: its devices and host memory share one address
//! space. A *buffer* is memory of one kind, taken under a budget; a *span* is a range of it; operations on spans are
//! enqueued in *streams*, ordered by *events*. A method that waits says so; every other enqueues and returns. Every
//! error says which device refused what.
//!
//! Without a driver [`cuda::open`] returns an error that says what is missing and what to install; nothing else here
//! needs one. This is the only crate that names the driver's interface; [`libraries`] is the one place that finds libraries. It does not know what a column is, chooses
//! no routes and measures nothing.

#![deny(unsafe_code)]

mod place;

mod arbiter;
mod budget;
mod evict;

mod backend;
mod work;

#[allow(unsafe_code)]
mod memory;
mod page_lock;

mod machine;
mod stream;

pub mod libraries;
pub mod priority;

#[allow(unsafe_code)]
pub mod cuda;
#[allow(unsafe_code)]
pub mod host;

pub use arbiter::{MemoryArbiter, Turn};
pub use backend::{Backend, EventBackend, RawMemory, StreamBackend};
pub use budget::{Budget, OnFull, Reservation};
pub use machine::{Machine, VIRTUAL_PAGE_BYTES};
pub use memory::{Buffer, ForeignMemory, HostBytes, Span};
pub use page_lock::{HOST_PAGE_BYTES, PageLock};
pub use place::{
    Capabilities, DeviceId, DeviceInfo, DeviceKind, MachineInfo, MemoryKind, NodeId, PageableAccess, Place,
};
pub use stream::{Event, Stream};
pub use work::{Access, Cost, LaunchTarget, Work};
