//! Memory of a run: arrays on the device, words of arguments, small transfers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use pelton_device::{Buffer, DeviceId, Machine, MemoryArbiter, MemoryKind, OnFull, Place, Span, Stream};
use pelton_error::{Error, ErrorKind, Result, Tier};
use pelton_pipeline::codegen::Arg;

use super::waiting::Waiting;

/// Arrays on the device by the argument that leads to them, and the words of arguments.
#[derive(Debug, Default, Clone)]
pub(crate) struct State {
    words: HashMap<Arg, u64>,
    spans: HashMap<Arg, Span>,
    /// Arguments that lead into the array of another one, and how far.
    parts: HashMap<Arg, (Arg, u64)>,
}

impl State {
    /// `arg` is this number.
    pub(crate) fn set(&mut self, arg: Arg, word: u64) {
        self.words.insert(arg, word);
    }

    /// `arg` is an array of `bytes`, at least 8, on `device`.
    pub(crate) fn allocate(
        &mut self,
        machine: &Machine,
        device: DeviceId,
        arg: Arg,
        bytes: usize,
    ) -> Result<Span> {
        let bytes = bytes.max(8).next_multiple_of(8);
        let span = machine.allocate(MemoryKind::Device(device), bytes, OnFull::Refuse)?.span();
        self.set_span(arg, &span);
        Ok(span)
    }

    /// `arg` is this array.
    pub(crate) fn set_span(&mut self, arg: Arg, span: &Span) {
        self.words.insert(arg, span.address());
        self.spans.insert(arg, span.clone());
    }

    /// `arg` is a part of an array of `owner`.
    pub(crate) fn set_part(&mut self, arg: Arg, owner: Arg, byte_offset: u64) {
        self.parts.insert(arg, (owner, byte_offset));
        self.readdress();
    }

    /// Arrays were replaced: words lead to where they are now.
    pub(crate) fn readdress(&mut self) {
        self.words.extend(self.spans.iter().map(|(arg, span)| (*arg, span.address())));
        for (arg, (owner, byte_offset)) in &self.parts {
            if let Some(address) = self.spans.get(owner).map(Span::address) {
                self.words.insert(*arg, address + byte_offset);
            }
        }
    }

    /// The word of `arg`.
    pub(crate) fn word(&self, arg: Arg) -> Option<u64> {
        self.words.get(&arg).copied()
    }

    /// The array of `arg`.
    pub(crate) fn span(&self, arg: Arg) -> Result<&Span> {
        self.spans
            .get(&arg)
            .ok_or_else(|| Error::invalid_input(format!("{arg:?} is no array of this pipeline")))
    }

    /// Takes over what `other` has for the arguments that `is_wanted`.
    pub(crate) fn adopt(&mut self, other: &State, is_wanted: impl Fn(&Arg) -> bool) {
        let words = other.words.iter().filter(|(arg, _)| is_wanted(arg));
        self.words.extend(words.map(|(arg, word)| (*arg, *word)));
        let spans = other.spans.iter().filter(|(arg, _)| is_wanted(arg));
        self.spans.extend(spans.map(|(arg, span)| (*arg, span.clone())));
    }

    /// All arrays.
    pub(crate) fn spans(&self) -> impl Iterator<Item = &Span> {
        self.spans.values()
    }

    /// Lets go of arguments.
    pub(crate) fn forget(&mut self, is_unwanted: impl Fn(&Arg) -> bool) {
        self.words.retain(|arg, _| !is_unwanted(arg));
        self.spans.retain(|arg, _| !is_unwanted(arg));
    }

    /// All arrays, to be replaced; `readdress` comes after.
    pub(crate) fn spans_mut(&mut self) -> impl Iterator<Item = &mut Span> {
        self.spans.values_mut()
    }

    /// Their bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes_of(|_| true)
    }

    /// Bytes of the arrays of the arguments that `is_wanted`.
    pub(crate) fn bytes_of(&self, is_wanted: impl Fn(&Arg) -> bool) -> u64 {
        let wanted = self.spans.iter().filter(|(arg, _)| is_wanted(arg));
        wanted.map(|(_, span)| span.len() as u64).sum()
    }
}

/// Host memory for a copy: pinned, or plain where there is none.
pub(crate) fn host_buffer(machine: &Machine, bytes: usize) -> Result<Buffer> {
    let pinned = machine.allocate(MemoryKind::PINNED, bytes, OnFull::Refuse);
    match pinned.as_ref().is_err_and(is_out_of_memory) {
        true => machine.allocate(MemoryKind::PAGEABLE, bytes, OnFull::Refuse),
        false => pinned,
    }
}

/// Host memory for what stays there a while: pinned while that leaves half of it to others, else plain.
pub(crate) fn lasting_host_buffer(machine: &Machine, bytes: usize) -> Result<Buffer> {
    let budget = machine.pinned_budget();
    match budget.used_bytes().saturating_add(bytes as u64) <= budget.limit_bytes() / 2 {
        true => host_buffer(machine, bytes),
        false => machine.allocate(MemoryKind::PAGEABLE, bytes, OnFull::Refuse),
    }
}

/// Whether the device, or what goes to it, found no room in memory that queries share.
pub(crate) fn is_out_of_memory(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::OutOfMemory { tier: Tier::Device | Tier::Pinned, .. })
}

/// Copies `bytes` to a new array for `arg`; complete when `stream` gets there.
pub(crate) fn upload(
    state: &mut State,
    stream: &Stream,
    device: DeviceId,
    arg: Arg,
    bytes: &[u8],
) -> Result<()> {
    let machine = stream.machine();
    let staged = host_buffer(machine, bytes.len().max(8).next_multiple_of(8))?;
    staged.with_bytes_mut(|target| target[..bytes.len()].copy_from_slice(bytes))?;
    let span = state.allocate(machine, device, arg, bytes.len())?;
    stream.copy(&staged.span(), &span)
}

/// The bytes of `span`, once everything before in `stream` is complete.
pub(crate) fn download_blocking(stream: &Stream, span: &Span) -> Result<Vec<u8>> {
    let staged = host_buffer(stream.machine(), span.len())?;
    stream.copy(span, &staged.span())?;
    stream.wait_blocking()?;
    staged.with_bytes(<[u8]>::to_vec)
}

/// `span` as little-endian words, as above.
pub(crate) fn download_words_blocking(stream: &Stream, span: &Span) -> Result<Vec<u64>> {
    let bytes = download_blocking(stream, span)?;
    Ok(bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes"))).collect())
}

/// The chunk addresses and row counts of a staging buffer's morsel, in pinned memory and on the device.
pub(crate) struct Descriptors {
    pinned: Buffer,
    device: Span,
}

impl Descriptors {
    pub(crate) fn new(machine: &Machine, device: DeviceId, words: usize) -> Result<Self> {
        let bytes = words.max(1) * 8;
        Ok(Self {
            pinned: machine.allocate(MemoryKind::PINNED, bytes, OnFull::Refuse)?,
            device: machine.allocate(MemoryKind::Device(device), bytes, OnFull::Refuse)?.span(),
        })
    }

    /// Sends addresses, then row counts, then the number of the first vector of each row group; gives where each of the
    /// first two is on the device. What was sent before is complete.
    pub(crate) fn send(&self, stream: &Stream, addresses: &[u64], rows: &[u32]) -> Result<(u64, u64)> {
        let address_bytes = addresses.len() * 8;
        let bytes = address_bytes + rows.len() * 8;
        let first_vectors = rows.iter().scan(0, |next, rows| {
            let first = *next;
            *next += rows.div_ceil(VECTOR_ROWS);
            Some(first)
        });
        if bytes > self.device.len() {
            return Err(Error::invalid_input(format!(
                "{} row groups are more than a morsel takes",
                rows.len()
            )));
        }
        self.pinned.with_bytes_mut(|target| {
            for (place, address) in target.chunks_exact_mut(8).zip(addresses) {
                place.copy_from_slice(&address.to_le_bytes());
            }
            let numbers = rows.iter().copied().chain(first_vectors);
            for (place, number) in target[address_bytes..].chunks_exact_mut(4).zip(numbers) {
                place.copy_from_slice(&number.to_le_bytes());
            }
        })?;
        if bytes > 0 {
            stream.copy(&self.pinned.slice(0..bytes), &self.device.slice(0..bytes))?;
        }
        Ok((self.device.address(), self.device.address() + address_bytes as u64))
    }

    pub(crate) fn span(&self) -> &Span {
        &self.device
    }

    /// Words that it has room for.
    fn words(&self) -> usize {
        self.device.len() / 8
    }
}

/// Rows of a vector.
pub(crate) const VECTOR_ROWS: u32 = 1024;

/// Words of descriptors for `row_groups`, of each of which `addresses` are sent.
pub(crate) fn descriptor_words(row_groups: usize, addresses: usize) -> usize {
    row_groups * (addresses + 1)
}

/// A stream with room for the descriptors of its morsels, and for what is noted of their rows that wait.
pub(crate) struct Lane {
    pub(crate) stream: Stream,
    pub(crate) descriptors: Descriptors,
    pub(crate) waiting: Waiting,
}

/// Lanes that nobody uses now: what they are made of costs more than what small queries do with it.
pub(crate) struct Lanes {
    idle: Mutex<Vec<Lane>>,
    arbiter: Arc<MemoryArbiter>,
}

impl Lanes {
    /// None yet; `arbiter` is of the device's memory.
    pub(crate) fn new(arbiter: Arc<MemoryArbiter>) -> Self {
        Self { idle: Mutex::default(), arbiter }
    }

    /// A lane for morsels of at most `words` of descriptors.
    fn take(&self, machine: &Machine, device: DeviceId, words: usize) -> Result<Lane> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = idle.iter().position(|lane| lane.descriptors.words() >= words) {
            return Ok(idle.swap_remove(index));
        }
        drop(idle);
        let words = words.max(DESCRIPTOR_WORDS_MIN).next_power_of_two();
        let stream = machine.stream(Place::Device(device))?;
        let waiting = Waiting::new(machine, device, &stream)?;
        Ok(Lane { stream, descriptors: Descriptors::new(machine, device, words)?, waiting })
    }

    /// So many lanes, until what holds them is dropped.
    pub(crate) fn hold(
        &self,
        machine: &Machine,
        device: DeviceId,
        count: usize,
        words: usize,
    ) -> Result<HeldLanes<'_>> {
        let mut held = HeldLanes { lanes: Vec::with_capacity(count), pool: self };
        for _ in 0..count {
            held.lanes.push(self.take(machine, device, words)?);
        }
        Ok(held)
    }

    /// Lets go of lanes that nobody uses; answers how many bytes of device memory that frees.
    pub(crate) fn evict(&self) -> u64 {
        let idle = std::mem::take(&mut *self.idle.lock().unwrap_or_else(PoisonError::into_inner));
        idle.iter().map(|lane| lane.descriptors.device.len() as u64 + 8).sum()
    }

    /// Takes back a lane whose stream has been waited for; its memory goes to who waits for some.
    fn give_back(&self, lane: Lane) {
        if self.arbiter.parked() > 0 {
            return;
        }
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_LANES_MAX {
            idle.push(lane);
        }
    }
}

/// Lanes of a run. However it ends, what they still do is waited for, and then they are given back.
pub(crate) struct HeldLanes<'l> {
    lanes: Vec<Lane>,
    pool: &'l Lanes,
}

impl HeldLanes<'_> {
    /// All of them.
    pub(crate) fn list(&self) -> &[Lane] {
        &self.lanes
    }

    /// Waits for all that they do.
    pub(crate) fn wait_blocking(&self) -> Result<()> {
        self.lanes.iter().try_for_each(|lane| lane.stream.wait_blocking())
    }
}

impl Drop for HeldLanes<'_> {
    fn drop(&mut self) {
        for lane in self.lanes.drain(..) {
            // A stream that has failed is of no more use, nor are words that still say who waits.
            if lane.stream.wait_blocking().is_ok() && lane.waiting.let_go() {
                self.pool.give_back(lane);
            }
        }
    }
}

/// Descriptors of a few hundred row groups: one size for most scans.
const DESCRIPTOR_WORDS_MIN: usize = 4096;
/// More idle lanes than this are let go.
const IDLE_LANES_MAX: usize = 32;
