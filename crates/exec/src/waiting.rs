//! Rows that wait for room in their sink: what is noted of them, and how they get it.
//!
//! ```text
//!   buffer 0   kernel ── count of those that wait ──► 0: the buffer is free
//!   buffer 1   kernel ── count ──► some: all streams are waited for, the sink grows, and every morsel of which rows
//!                                        wait goes through its kernel again, which takes those rows alone
//! ```
//!
//! No row is lost and none is taken twice. A morsel stays in its staging buffer until none of its rows waits.

use std::cell::{Cell, RefCell};

use pelton_device::{Buffer, DeviceId, Event, Machine, MemoryKind, OnFull, Span, Stream};
use pelton_error::Result;
use pelton_pipeline::codegen::Arg;

use super::execution::{Execution, Kernel};
use super::launch::{Launched, Morsel};
use super::memory::{HeldLanes, Lane, download_blocking, host_buffer};
use super::report::PipelineReport;

/// What the kernel notes of the rows of one lane's morsel. Words of undone rows are zero where no row waits.
pub(crate) struct Waiting {
    count: Span,
    /// The count, once it has been brought; zero to be sent.
    pinned: Buffer,
    undone: RefCell<Option<Span>>,
    /// How often the first row of each word has come to the sink.
    emitted: RefCell<Option<Span>>,
    is_clean: Cell<bool>,
}

/// What is noted of rows that wait, on the host while their query is parked.
#[derive(Default)]
pub(super) struct Notes {
    undone: Vec<u8>,
    /// Where rows come to the sink several times.
    emitted: Vec<u8>,
}

/// Bytes that are noted of a vector.
const UNDONE_BYTES: usize = 32 * 4;
/// See `UNDONE_BYTES`.
const EMITTED_BYTES: usize = 32 * 8;

impl Notes {
    /// Those of the vectors before `vectors`.
    pub(super) fn first(&self, vectors: usize) -> Self {
        let first = |bytes: &[u8], each: usize| bytes[..bytes.len().min(vectors * each)].to_vec();
        Self { undone: first(&self.undone, UNDONE_BYTES), emitted: first(&self.emitted, EMITTED_BYTES) }
    }

    /// Those of the vectors from `vectors` on.
    pub(super) fn rest(&self, vectors: usize) -> Self {
        let rest = |bytes: &[u8], each: usize| bytes[bytes.len().min(vectors * each)..].to_vec();
        Self { undone: rest(&self.undone, UNDONE_BYTES), emitted: rest(&self.emitted, EMITTED_BYTES) }
    }
}

impl Waiting {
    pub(super) fn new(machine: &Machine, device: DeviceId, stream: &Stream) -> Result<Self> {
        let pinned = machine.allocate(MemoryKind::PINNED, 8, OnFull::Refuse)?;
        let count = machine.allocate(MemoryKind::Device(device), 8, OnFull::Refuse)?.span();
        let (undone, emitted) = (RefCell::default(), RefCell::default());
        let waiting = Self { count, pinned, undone, emitted, is_clean: Cell::new(true) };
        waiting.reset(stream)?;
        Ok(waiting)
    }

    /// Sets the count to zero.
    fn reset(&self, stream: &Stream) -> Result<()> {
        self.pinned.with_bytes_mut(|bytes| bytes.fill(0))?;
        stream.copy(&self.pinned.span(), &self.count)
    }

    /// Makes room for the rows of so many vectors, none of which waits.
    pub(super) fn make_room(
        &self,
        execution: &Execution<'_>,
        kernel: &Kernel,
        stream: &Stream,
        vectors: usize,
    ) -> Result<()> {
        let (machine, device) = (execution.runtime.machine(), execution.device());
        let allocate = |bytes: usize| {
            let bytes = bytes.next_power_of_two();
            Ok::<_, pelton_error::Error>(
                machine.allocate(MemoryKind::Device(device), bytes, OnFull::Refuse)?.span(),
            )
        };
        let is_short = |span: &RefCell<Option<Span>>, bytes| {
            span.borrow().as_ref().is_none_or(|span| span.len() < bytes)
        };
        let (undone_bytes, emitted_bytes) = (vectors * UNDONE_BYTES, vectors * EMITTED_BYTES);
        if is_short(&self.undone, undone_bytes) {
            execution.refuse_first(Arg::Undone, undone_bytes)?;
            let undone = allocate(undone_bytes)?;
            execution.clear(stream, &undone)?;
            self.undone.replace(Some(undone));
        }
        if kernel.generated.has_repeated_rows() && is_short(&self.emitted, emitted_bytes) {
            self.emitted.replace(Some(allocate(emitted_bytes)?));
        }
        Ok(())
    }

    /// Brings what is noted of the rows of so many vectors to the host.
    pub(super) fn bring_notes(&self, stream: &Stream, vectors: usize) -> Result<Notes> {
        let bring = |span: &RefCell<Option<Span>>, bytes| match &*span.borrow() {
            Some(span) => download_blocking(stream, &span.slice(0..bytes)),
            None => Ok(Vec::new()),
        };
        let undone = bring(&self.undone, vectors * UNDONE_BYTES)?;
        Ok(Notes { undone, emitted: bring(&self.emitted, vectors * EMITTED_BYTES)? })
    }

    /// Sends `notes` back, for which there is room.
    pub(super) fn send_notes(&self, stream: &Stream, notes: &Notes) -> Result<()> {
        for (span, bytes) in [(&self.undone, &notes.undone), (&self.emitted, &notes.emitted)] {
            let Some(span) = span.borrow().clone().filter(|_| !bytes.is_empty()) else { continue };
            let staged = host_buffer(stream.machine(), bytes.len())?;
            staged.with_bytes_mut(|target| target.copy_from_slice(bytes))?;
            stream.copy(&staged.span(), &span.slice(0..bytes.len()))?;
        }
        // The count may still be on its way, and is set again by the launch that comes.
        stream.wait_blocking()
    }

    pub(super) fn undone_address(&self) -> u64 {
        self.undone.borrow().as_ref().map_or(0, Span::address)
    }

    pub(super) fn emitted_address(&self) -> u64 {
        self.emitted.borrow().as_ref().map_or(0, Span::address)
    }

    pub(super) fn count_address(&self) -> u64 {
        self.count.address()
    }

    /// All that a kernel writes.
    pub(super) fn spans(&self) -> Vec<Span> {
        let (undone, emitted) = (self.undone.borrow(), self.emitted.borrow());
        [&self.count].into_iter().chain(&*undone).chain(&*emitted).cloned().collect()
    }

    /// Brings the flags of a pipeline in place of a count: there is nothing to wait for.
    pub(super) fn bring_flags(&self, stream: &Stream, flags: &Span) -> Result<()> {
        self.is_clean.set(false);
        stream.copy(&flags.slice(0..8), &self.pinned.span())
    }

    /// Brings the count of the launch before in `stream`.
    pub(super) fn bring(&self, stream: &Stream) -> Result<()> {
        self.is_clean.set(false);
        stream.copy(&self.count, &self.pinned.span())
    }

    /// How many rows wait, or the flags, once the stream has been waited for.
    pub(super) fn count(&self) -> Result<u64> {
        let count = self.pinned.with_bytes(|bytes| u64::from_le_bytes(bytes.try_into().expect("8 bytes")))?;
        self.is_clean.set(count == 0);
        Ok(count)
    }

    /// Lets go of what is sized by rows; whether no row waits, once the stream has been waited for.
    pub(super) fn let_go(&self) -> bool {
        self.undone.replace(None);
        self.emitted.replace(None);
        self.is_clean.get() || self.count().is_ok_and(|count| count == 0)
    }
}

/// A morsel whose rows may wait.
pub(super) struct Flight {
    pub(super) morsel: Morsel,
    /// After its last launch.
    pub(super) done: Event,
}

/// Those of a scan, by staging buffer.
pub(super) struct Flights {
    list: Vec<Option<Flight>>,
}

impl Flights {
    pub(super) fn new(buffers: usize) -> Self {
        Self { list: (0..buffers).map(|_| None).collect() }
    }

    pub(super) fn add(&mut self, buffer: usize, flight: Flight) {
        self.list[buffer] = Some(flight);
    }

    /// The buffers that hold some.
    pub(super) fn indexes(&self) -> Vec<usize> {
        (0..self.list.len()).filter(|index| self.list[*index].is_some()).collect()
    }

    pub(super) fn get(&self, index: usize) -> &Flight {
        self.list[index].as_ref().expect("a buffer with a morsel")
    }

    fn take(&mut self, index: usize) -> (usize, Event) {
        (index, self.list[index].take().expect("a buffer with a morsel").done)
    }
}

impl Execution<'_> {
    /// Waits until all rows of the morsel in `buffer` are in the sink, however often that grows. Gives the buffers of
    /// whose morsels that can be said by then.
    pub(super) fn settle(
        &self,
        kernel: &mut Kernel,
        lanes: &HeldLanes<'_>,
        flights: &mut Flights,
        buffer: usize,
        launched: &mut Vec<Launched>,
        report: &mut PipelineReport,
    ) -> Result<Vec<(usize, Event)>> {
        let mut free = Vec::new();
        let Some(flight) = &flights.list[buffer] else { return Ok(free) };
        flight.done.wait_blocking()?;
        for index in flights.indexes() {
            if !flights.get(index).done.is_complete()? {
                continue;
            }
            if lanes.list()[index].waiting.count()? > 0 {
                self.make_room_and_redo(kernel, lanes, flights, launched, report)?;
                free.extend(flights.indexes().into_iter().map(|index| flights.take(index)));
                return Ok(free);
            }
            free.push(flights.take(index));
        }
        Ok(free)
    }

    /// Whether the last morsel in `buffer` raised a flag of the table by position that is built: then there will be
    /// another one, and what is left need not be scanned for this.
    pub(super) fn is_in_vain(
        &self,
        kernel: &Kernel,
        lanes: &HeldLanes<'_>,
        launched: &[Launched],
        buffer: usize,
    ) -> Result<bool> {
        let last = launched.iter().rev().find(|launched| launched.buffer == buffer);
        let Some(last) = last.filter(|_| kernel.is_direct_build()) else { return Ok(false) };
        last.done.wait_blocking()?;
        Ok(lanes.list()[buffer].waiting.count()? != 0)
    }

    /// Until no row of any morsel waits: a larger sink, and all that wait again.
    fn make_room_and_redo(
        &self,
        kernel: &mut Kernel,
        lanes: &HeldLanes<'_>,
        flights: &mut Flights,
        launched: &mut Vec<Launched>,
        report: &mut PipelineReport,
    ) -> Result<()> {
        loop {
            lanes.wait_blocking()?;
            self.cancel.check()?;
            let mut waiting = Vec::new();
            for index in flights.indexes() {
                let count = lanes.list()[index].waiting.count()?;
                report.rows_waited += count;
                if count > 0 {
                    waiting.push(index);
                }
            }
            if waiting.is_empty() {
                return Ok(());
            }
            match self.is_table_to_spill(kernel)? {
                true => drop(self.spill_table(kernel, report)?),
                false => self.grow(kernel, report)?,
            }
            for index in waiting {
                let lane = &lanes.list()[index];
                let done = self.redo(kernel, lane, &flights.get(index).morsel)?;
                launched.extend(Launched::without_rows(index, kernel, &done));
                flights.list[index].iter_mut().for_each(|flight| flight.done = done.clone());
            }
        }
    }

    /// Launches the kernel over the rows of `morsel` that wait.
    pub(super) fn redo(&self, kernel: &Kernel, lane: &Lane, morsel: &Morsel) -> Result<Event> {
        lane.waiting.reset(&lane.stream)?;
        self.launch(kernel, lane, morsel, true)?;
        lane.stream.record()
    }
}
