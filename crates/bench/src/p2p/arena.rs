//! Buffers and streams of the experiment, taken once, and the copies that cases time.
//!
//! ```text
//!   host                          device i                         device j
//!   source_i ──── inbound_i ────► incoming_i
//!   target_i ◄─── outbound_i ──── outgoing_i ──── outbound_i ────► incoming_j
//! ```
//!
//! Every source of device i holds the same pattern, another one for each device, so that what arrived shows where it
//! came from. Before a case its targets are set to zeros; after it they are compared, byte by byte.

use pelton_device::{Buffer, DeviceId, Machine, MemoryKind, OnFull, Place, Span, Stream};
use pelton_error::{Error, Result};

use super::case::{Case, Kind};
use super::options::P2pOptions;
use crate::harness::Times;

/// Everything that belongs to one device.
struct Slot {
    source: Buffer,
    target: Buffer,
    outgoing: Buffer,
    incoming: Buffer,
    inbound: Stream,
    outbound: Stream,
}

/// One copy of a case.
struct Copy<'a> {
    stream: &'a Stream,
    from: &'a Buffer,
    to: &'a Buffer,
    /// The device whose pattern is copied.
    pattern: u32,
    /// The device whose buffers are the target.
    owner: u32,
    is_to_host: bool,
}

/// Buffers and streams of all devices.
pub(super) struct Arena {
    machine: Machine,
    slots: Vec<Slot>,
    bytes: usize,
    is_checked: bool,
}

impl Arena {
    /// Takes the buffers, each of `bytes`, and fills the sources.
    pub(super) fn new(machine: &Machine, options: &P2pOptions, bytes: usize) -> Result<Self> {
        let pinned = MemoryKind::Pinned(options.host_node);
        let slot = |device: DeviceId| -> Result<Slot> {
            let allocate = |kind: &MemoryKind| machine.allocate(kind.clone(), bytes, OnFull::Refuse);
            let stream = || machine.stream(Place::Device(device));
            Ok(Slot {
                source: allocate(&pinned)?,
                target: allocate(&pinned)?,
                outgoing: allocate(&MemoryKind::Device(device))?,
                incoming: allocate(&MemoryKind::Device(device))?,
                inbound: stream()?,
                outbound: stream()?,
            })
        };
        let slots: Vec<Slot> =
            machine.info().devices.iter().map(|device| slot(device.id)).collect::<Result<_>>()?;
        let holds_bytes = slots.iter().all(|slot| slot.source.holds_bytes());
        let arena =
            Self { machine: machine.clone(), slots, bytes, is_checked: options.check_bytes && holds_bytes };
        if arena.is_checked {
            arena.fill_sources()?;
        }
        Ok(arena)
    }

    /// True if targets are compared with their sources.
    pub(super) fn is_checked(&self) -> bool {
        self.is_checked
    }

    /// What the copies of `case` move in all, bytes.
    pub(super) fn bytes(&self, case: &Case) -> usize {
        self.bytes * self.copies(case).len()
    }

    /// Takes the time of `case`.
    pub(super) fn time(&self, case: &Case, options: &P2pOptions) -> Result<Times> {
        let copies = self.copies(case);
        if self.is_checked {
            copies.iter().try_for_each(|copy| self.clear(copy))?;
        }
        let pieces = pieces(&copies, options.chunk_bytes.unwrap_or(u64::MAX));
        let times = options.harness.measure(&self.machine, || {
            for (stream, source, target) in &pieces {
                stream.copy(source, target)?;
            }
            copies.iter().try_for_each(|copy| copy.stream.wait_blocking())
        })?;
        if self.is_checked {
            // Looking at a device's memory goes through the host buffers, so these are looked at first.
            let (to_host, to_device): (Vec<&Copy<'_>>, Vec<_>) =
                copies.iter().partition(|copy| copy.is_to_host);
            to_host.into_iter().chain(to_device).try_for_each(|copy| self.compare(copy))?;
        }
        Ok(times)
    }

    fn copies(&self, case: &Case) -> Vec<Copy<'_>> {
        let each = |copy: fn(&Self, u32) -> Copy<'_>| {
            case.devices.iter().map(|device| copy(self, *device)).collect()
        };
        match case.kind {
            Kind::HostToDevice => each(Self::to_device),
            Kind::DeviceToHost => each(Self::to_host),
            Kind::BothWays => case
                .devices
                .iter()
                .flat_map(|device| [self.to_device(*device), self.to_host(*device)])
                .collect(),
            Kind::Peer | Kind::PeerPairs => {
                case.pairs().into_iter().map(|(source, target)| self.to_peer(source, target)).collect()
            }
        }
    }

    fn to_device(&self, device: u32) -> Copy<'_> {
        let Slot { inbound, source, incoming, .. } = self.slot(device);
        Copy {
            stream: inbound,
            from: source,
            to: incoming,
            pattern: device,
            owner: device,
            is_to_host: false,
        }
    }

    fn to_host(&self, device: u32) -> Copy<'_> {
        let Slot { outbound, outgoing, target, .. } = self.slot(device);
        Copy {
            stream: outbound,
            from: outgoing,
            to: target,
            pattern: device,
            owner: device,
            is_to_host: true,
        }
    }

    fn to_peer(&self, source: u32, target: u32) -> Copy<'_> {
        let Slot { outbound, outgoing, .. } = self.slot(source);
        let incoming = &self.slot(target).incoming;
        Copy {
            stream: outbound,
            from: outgoing,
            to: incoming,
            pattern: source,
            owner: target,
            is_to_host: false,
        }
    }

    fn slot(&self, device: u32) -> &Slot {
        &self.slots[device as usize]
    }

    fn fill_sources(&self) -> Result<()> {
        for (device, slot) in self.slots.iter().enumerate() {
            slot.source.with_bytes_mut(|bytes| fill(bytes, device as u64))?;
            slot.inbound.copy(&slot.source.span(), &slot.outgoing.span())?;
            slot.inbound.wait_blocking()?;
        }
        Ok(())
    }

    /// Sets the target of `copy` to zeros.
    fn clear(&self, copy: &Copy<'_>) -> Result<()> {
        let Slot { target, incoming, inbound, .. } = self.slot(copy.owner);
        target.with_bytes_mut(|bytes| bytes.fill(0))?;
        if copy.is_to_host {
            return Ok(());
        }
        inbound.copy(&target.span(), &incoming.span())?;
        inbound.wait_blocking()
    }

    /// Holds the target of `copy` against the pattern that it should hold.
    fn compare(&self, copy: &Copy<'_>) -> Result<()> {
        let Slot { target, outbound, .. } = self.slot(copy.owner);
        if !copy.is_to_host {
            outbound.copy(&copy.to.span(), &target.span())?;
            outbound.wait_blocking()?;
        }
        let sent = &self.slot(copy.pattern).source;
        let is_equal = sent.with_bytes(|sent| target.with_bytes(|arrived| sent == arrived))??;
        if is_equal {
            return Ok(());
        }
        Err(Error::corrupt(format!(
            "{}: what arrived in {} differs from what was sent; figures of this machine are worth nothing",
            copy.stream.place(),
            copy.to.kind()
        )))
    }
}

/// The copies cut into pieces of `chunk_bytes`, in turns, so that none of them starts late.
fn pieces<'a>(copies: &[Copy<'a>], chunk_bytes: u64) -> Vec<(&'a Stream, Span, Span)> {
    let chunk_bytes = usize::try_from(chunk_bytes).unwrap_or(usize::MAX);
    let cut =
        |buffer: &Buffer| -> Vec<Span> { buffer.span().chunks(chunk_bytes.min(buffer.len())).collect() };
    let cut_copies: Vec<_> = copies.iter().map(|copy| (copy.stream, cut(copy.from), cut(copy.to))).collect();
    let rounds = cut_copies.iter().map(|(_, sources, _)| sources.len()).max().unwrap_or(0);
    (0..rounds)
        .flat_map(|round| {
            cut_copies.iter().map(move |(stream, sources, targets)| {
                (*stream, sources[round].clone(), targets[round].clone())
            })
        })
        .collect()
}

/// The pattern of a device: no two neighbouring words are equal, and no two devices agree in a word.
fn fill(bytes: &mut [u8], device: u64) {
    // An odd multiplier makes a permutation of the 64-bit numbers (the step of splitmix64).
    let word = |index: u64| (index + (device << 48) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
    let mut words = bytes.chunks_exact_mut(8);
    let mut count = 0;
    for piece in &mut words {
        piece.copy_from_slice(&word(count));
        count += 1;
    }
    let rest = words.into_remainder();
    let len = rest.len();
    rest.copy_from_slice(&word(count)[..len]);
}
