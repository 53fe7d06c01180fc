//! The slots of a feed: memory that morsels take in turn.

use pelton_device::{Buffer, DeviceId, Event, MemoryKind, NodeId, OnFull};
use pelton_error::{Error, ErrorKind, Result, ResultExt, Tier};

use super::ColumnCache;
use super::draft::SlotBytes;

/// Where a feed's slots are taken from.
#[derive(Debug, Clone, Copy)]
pub(super) struct SlotSource<'a> {
    pub(super) column_cache: &'a ColumnCache,
    pub(super) device: DeviceId,
    /// What decoders work in, of each slot.
    pub(super) temp_bytes: usize,
}

/// Memory for one morsel.
pub(super) struct Slot {
    pub(super) device: Buffer,
    /// Chunks from disk, on their way.
    pub(super) staging: Buffer,
    /// What decoders on the device work in.
    pub(super) temp: Buffer,
    /// When its morsel has been read.
    done: Option<Event>,
    /// Given out, and not released yet.
    pub(super) is_out: bool,
}

/// What the row groups of a scan take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Need {
    /// The largest of them.
    pub(super) largest: SlotBytes,
    /// All together.
    pub(super) all: SlotBytes,
    /// Of all: runs of pinned columns.
    pub(super) runs: usize,
}

impl Need {
    /// Of a slot for morsels of `morsel_bytes`.
    pub(super) fn slot(&self, morsel_bytes: usize) -> SlotBytes {
        self.all.at_most(morsel_bytes).max(self.largest)
    }
}

/// Takes up to `count` slots for morsels of up to `morsel_bytes`: on refusal fewer, two at the least; then of smaller
/// morsels; at last one for the largest row group.
pub(super) fn take_slots(
    source: SlotSource<'_>,
    need: Need,
    count: usize,
    mut morsel_bytes: usize,
) -> Result<Vec<Slot>> {
    loop {
        let bytes = need.slot(morsel_bytes);
        let is_smallest = bytes == need.largest;
        let mut slots = Vec::new();
        let refusal = loop {
            if slots.len() == count {
                return Ok(slots);
            }
            match source.take(bytes) {
                Ok(slot) => slots.push(slot),
                Err(error) if matches!(error.kind(), ErrorKind::OutOfMemory { .. }) => break error,
                Err(error) => return Err(error),
            }
        };
        if slots.len() >= 2 || (is_smallest && !slots.is_empty()) {
            return Ok(slots);
        }
        if is_smallest {
            return Err(refusal.context(refused(bytes)));
        }
        morsel_bytes /= 2;
    }
}

fn refused(bytes: SlotBytes) -> String {
    format!(
        "the smallest slot of a scan, for its largest row group, takes {} bytes of device memory and {} of pinned \
         memory",
        bytes.device, bytes.pinned
    )
}

impl SlotSource<'_> {
    /// A slot; cached columns that are not in use are evicted to make room.
    fn take(&self, bytes: SlotBytes) -> Result<Slot> {
        let device = self.allocate(MemoryKind::Device(self.device), bytes.device)?;
        let node = self.column_cache.machine().device(self.device)?.node;
        let staging = self.allocate(MemoryKind::Pinned(self.near(node)), bytes.pinned)?;
        let temp = self.allocate(MemoryKind::Device(self.device), self.temp_bytes)?;
        Ok(Slot { device, staging, temp, done: None, is_out: false })
    }

    fn near(&self, node: NodeId) -> NodeId {
        if node.0 < self.column_cache.machine().info().node_count { node } else { NodeId(0) }
    }

    fn allocate(&self, kind: MemoryKind, bytes: usize) -> Result<Buffer> {
        loop {
            match self.column_cache.machine().allocate(kind.clone(), bytes, OnFull::Refuse) {
                Err(error) if is_device_full(&error) && self.column_cache.evict(self.device, 1) > 0 => {}
                allocated => return allocated,
            }
        }
    }
}

/// True where evicting from a device may help.
pub(super) fn is_device_full(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::OutOfMemory { tier: Tier::Device, .. })
}

impl Slot {
    /// What it has room for.
    pub(super) fn room(&self) -> SlotBytes {
        SlotBytes { device: self.device.len(), pinned: self.staging.len() }
    }

    /// Waits until its last morsel has been read.
    pub(super) fn wait_free(&mut self) -> Result<()> {
        self.done.take().map_or(Ok(()), |done| done.wait_blocking())
    }

    /// True where it can be filled without waiting.
    pub(super) fn is_free(&self) -> Result<bool> {
        let is_read = self.done.as_ref().map_or(Ok(true), Event::is_complete)?;
        Ok(!self.is_out && is_read)
    }

    /// Its morsel will have been read at `done`.
    pub(super) fn release(&mut self, done: Event) {
        assert!(self.is_out, "a slot is released once for each morsel");
        self.is_out = false;
        self.done = Some(done);
    }

    /// Makes it large enough for a row group that is larger than was to be expected.
    pub(super) fn grow(&mut self, source: SlotSource<'_>, bytes: SlotBytes) -> Result<()> {
        let bytes = bytes.max(self.room());
        // What it has is given back first.
        let nothing = SlotBytes::default();
        *self = SlotSource { temp_bytes: 0, ..source }.take(nothing)?;
        *self = source.take(bytes).context(|| refused(bytes))?;
        Ok(())
    }
}
