//! Lanes: chunks that follow one another over one route, several hops at once.
//!
//! ```text
//!   host ──► device 1 ──► device 0        hop 0: chunk 2     hop 1: chunk 1     arrived: chunk 0
//!            buffers 0..depth             hop 0 fills buffer c % depth when hop 1 has emptied it of chunk c - depth
//! ```
//!
//! Everything is enqueued when the call returns; nobody waits.

use std::collections::VecDeque;

use pelton_device::{Buffer, Event, Machine, MemoryKind, Place, Span, Stream};
use pelton_error::{Error, Result, ResultExt};

use crate::options::TransferOptions;

/// A transfer under way. Dropping it waits for what was enqueued.
#[derive(Debug)]
pub struct Transfer {
    /// They carry the lanes, and must outlive what is enqueued.
    pub(crate) _streams: Vec<Stream>,
    pub(crate) ends: Vec<Event>,
}

impl Transfer {
    /// Events that are all over when the last byte has arrived.
    pub fn ends(&self) -> &[Event] {
        &self.ends
    }

    /// Waits for the last byte.
    ///
    /// # Errors
    ///
    /// The first error on any hop, once all hops have ended.
    pub fn wait_blocking(&self) -> Result<()> {
        let outcomes: Vec<Result<()>> = self.ends.iter().map(Event::wait_blocking).collect();
        outcomes.into_iter().collect()
    }

    /// True when the last byte has arrived.
    ///
    /// # Errors
    ///
    /// The first error on any hop.
    pub fn is_complete(&self) -> Result<bool> {
        for end in &self.ends {
            if !end.is_complete()? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Copies `source` to `target` over the direct link between their places, in chunks.
///
/// # Errors
///
/// As [`relay`].
pub fn copy(machine: &Machine, source: &Span, target: &Span, options: &TransferOptions) -> Result<Transfer> {
    relay(machine, &[home(source)?, home(target)?], source, target, options)
}

/// Copies `source` to `target` along `route`, which begins and ends at their places.
///
/// # Errors
///
/// `InvalidInput` if the lengths differ or the route does not begin, end and continue where it must; `Unsupported` if
/// two devices that follow each other have no peer access; `OutOfMemory` if the staging buffers between hops do not
/// fit.
pub fn relay(
    machine: &Machine,
    route: &[Place],
    source: &Span,
    target: &Span,
    options: &TransferOptions,
) -> Result<Transfer> {
    options.check()?;
    check_lengths(source, target)?;
    check_route(machine, route, source, target)?;
    let mut lane = Lane::new(machine, route, chunk_bytes(source, options), options)?;
    for (source, target) in source.chunks(options.chunk_bytes).zip(target.chunks(options.chunk_bytes)) {
        options.cancel.check()?;
        lane.enqueue(&source, &target)?;
    }
    let ends = lane.ends()?;
    Ok(Transfer { _streams: lane.into_streams(), ends })
}

/// One route with its streams and the staging buffers between its hops.
pub(crate) struct Lane {
    hops: Vec<Hop>,
    depth: usize,
}

struct Hop {
    stream: Stream,
    /// Where its chunks land, if that is not the target.
    buffers: Vec<Buffer>,
    next_buffer: usize,
    /// Events of this hop's last chunks, which empty the staging buffers before it; oldest first.
    recent: VecDeque<Event>,
}

impl Lane {
    pub(crate) fn new(
        machine: &Machine,
        route: &[Place],
        chunk_bytes: usize,
        options: &TransferOptions,
    ) -> Result<Self> {
        let mut hops = Vec::with_capacity(route.len() - 1);
        for (index, pair) in route.windows(2).enumerate() {
            let is_last = index + 2 == route.len();
            let buffer_count = if is_last { 0 } else { options.depth };
            let kind = memory_at(pair[1]);
            let buffers = (0..buffer_count)
                .map(|_| machine.allocate(kind.clone(), chunk_bytes, options.on_full))
                .collect::<Result<Vec<Buffer>>>()
                .context(|| format!("staging buffers at {}", pair[1]))?;
            let stream = machine.stream(carrier(pair[0], pair[1]))?;
            hops.push(Hop { stream, buffers, next_buffer: 0, recent: VecDeque::new() });
        }
        Ok(Self { hops, depth: options.depth })
    }

    pub(crate) fn enqueue(&mut self, source: &Span, target: &Span) -> Result<()> {
        let mut from = source.clone();
        let mut arrived: Option<Event> = None;
        for index in 0..self.hops.len() {
            let emptied = self.hops.get(index + 1).filter(|next| next.recent.len() == self.depth);
            let emptied = emptied.and_then(|next| next.recent.front().cloned());
            let hop = &mut self.hops[index];
            for event in arrived.iter().chain(&emptied) {
                hop.stream.wait_for(event)?;
            }
            let to = hop.landing(source.len()).unwrap_or_else(|| target.clone());
            hop.stream.copy(&from, &to)?;
            let event = hop.stream.record()?;
            hop.recent.push_back(event.clone());
            if hop.recent.len() > self.depth {
                hop.recent.pop_front();
            }
            arrived = Some(event);
            from = to;
        }
        Ok(())
    }

    /// The end of every hop: an error on an early one must not be lost on the way.
    pub(crate) fn ends(&self) -> Result<Vec<Event>> {
        self.hops.iter().map(|hop| hop.stream.record()).collect()
    }

    pub(crate) fn into_streams(self) -> Vec<Stream> {
        self.hops.into_iter().map(|hop| hop.stream).collect()
    }
}

impl Hop {
    fn landing(&mut self, bytes: usize) -> Option<Span> {
        if self.buffers.is_empty() {
            return None;
        }
        let buffer = self.next_buffer;
        self.next_buffer = (buffer + 1) % self.buffers.len();
        Some(self.buffers[buffer].slice(0..bytes))
    }
}

/// Where the copy of a hop is enqueued: at the device that reads from the host, else at the source.
pub(crate) fn carrier(from: Place, to: Place) -> Place {
    match (from, to) {
        (Place::Host(_), Place::Device(_)) => to,
        _ => from,
    }
}

/// Memory of a place that copies are fastest with.
pub(crate) fn memory_at(place: Place) -> MemoryKind {
    match place {
        Place::Host(node) => MemoryKind::Pinned(node),
        Place::Device(device) => MemoryKind::Device(device),
    }
}

pub(crate) fn home(span: &Span) -> Result<Place> {
    span.kind().home().ok_or_else(|| {
        Error::invalid_input(format!("{} lies at several places; name a route for one of them", span.kind()))
    })
}

pub(crate) fn chunk_bytes(source: &Span, options: &TransferOptions) -> usize {
    options.chunk_bytes.min(source.len().max(1))
}

pub(crate) fn check_lengths(source: &Span, target: &Span) -> Result<()> {
    if source.len() != target.len() {
        return Err(Error::invalid_input(format!(
            "a transfer of {} bytes to a span of {}; cut them to one length",
            source.len(),
            target.len()
        )));
    }
    Ok(())
}

fn check_route(machine: &Machine, route: &[Place], source: &Span, target: &Span) -> Result<()> {
    if route.len() < 2 {
        return Err(Error::invalid_input("a route names at least where it begins and where it ends"));
    }
    if route.first() != Some(&home(source)?) || route.last() != Some(&home(target)?) {
        return Err(Error::invalid_input("a route begins where the bytes are and ends where they shall be"));
    }
    check_peers(machine, route)
}

/// Refuses hops between devices that do not reach each other's memory.
pub(crate) fn check_peers(machine: &Machine, route: &[Place]) -> Result<()> {
    for pair in route.windows(2) {
        if let (Place::Device(from), Place::Device(to)) = (pair[0], pair[1])
            && !machine.is_peer(from, to)
        {
            return Err(Error::unsupported(format!(
                "no peer access from {from} to {to}; route through the host"
            )));
        }
    }
    Ok(())
}
