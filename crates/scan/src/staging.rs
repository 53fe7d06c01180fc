//! The staging buffers of a prefetcher, which morsels use in turn.

use pelton_device::{Buffer, DeviceId, Event, MemoryKind, NodeId, OnFull};
use pelton_error::{Error, ErrorKind, Result, ResultExt, Tier};

use super::ColumnCache;
use super::morsel_layout::StagingBytes;

/// Where a prefetcher's buffers are taken from.
#[derive(Debug, Clone, Copy)]
pub(super) struct StagingSource<'a> {
    pub(super) column_cache: &'a ColumnCache,
    pub(super) device: DeviceId,
    /// What decoders work in, of each buffer.
    pub(super) temp_bytes: usize,
}

impl StagingSource<'_> {
    /// Whether the device reads pinned memory where it is.
    fn is_in_place(&self) -> bool {
        self.column_cache.options.in_place == Some(self.device)
    }
}

/// Memory for one morsel.
pub(super) struct StagingBuffer {
    device: Buffer,
    /// Chunks from disk, on their way.
    pub(super) pinned: Buffer,
    /// What decoders on the device work in.
    pub(super) temp: Buffer,
    /// When its morsel has been read.
    done: Option<Event>,
    /// Given out, and not released yet.
    pub(super) is_out: bool,
    /// Kernels read `pinned`.
    is_in_place: bool,
}

/// What the row groups of a scan take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Need {
    /// The largest of them.
    pub(super) largest: StagingBytes,
    /// All together.
    pub(super) all: StagingBytes,
    /// Of all: runs of pinned columns.
    pub(super) runs: usize,
}

impl Need {
    /// What a buffer takes for morsels of `morsel_bytes`.
    pub(super) fn buffer(&self, morsel_bytes: usize) -> StagingBytes {
        self.all.at_most(morsel_bytes).max(self.largest)
    }
}

/// Takes up to `count` buffers for morsels of up to `morsel_bytes`: on refusal fewer, two at the least; then of smaller
/// morsels; at last one for the largest row group.
pub(super) fn take_buffers(
    source: StagingSource<'_>,
    need: Need,
    count: usize,
    mut morsel_bytes: usize,
) -> Result<Vec<StagingBuffer>> {
    loop {
        let bytes = need.buffer(morsel_bytes);
        let is_smallest = bytes == need.largest;
        let mut buffers = Vec::new();
        let refusal = loop {
            if buffers.len() == count {
                return Ok(buffers);
            }
            match source.take(bytes) {
                Ok(buffer) => buffers.push(buffer),
                Err(error) if matches!(error.kind(), ErrorKind::OutOfMemory { .. }) => break error,
                Err(error) => return Err(error),
            }
        };
        if buffers.len() >= 2 || (is_smallest && !buffers.is_empty()) {
            return Ok(buffers);
        }
        if is_smallest {
            return Err(refusal.context(refused(bytes)));
        }
        morsel_bytes /= 2;
    }
}

fn refused(bytes: StagingBytes) -> String {
    format!(
        "the smallest buffer of a scan, for its largest row group, takes {} bytes of device memory and {} of pinned \
         memory",
        bytes.device, bytes.pinned
    )
}

impl StagingSource<'_> {
    /// A buffer; cached columns that are not in use are evicted to make room.
    fn take(&self, bytes: StagingBytes) -> Result<StagingBuffer> {
        let is_in_place = self.is_in_place();
        let device_bytes = if is_in_place { 0 } else { bytes.device };
        let device = self.allocate(MemoryKind::Device(self.device), device_bytes)?;
        let node = self.column_cache.machine().device(self.device)?.node;
        let pinned = self.allocate(MemoryKind::Pinned(self.near(node)), bytes.pinned)?;
        let temp = self.allocate(MemoryKind::Device(self.device), self.temp_bytes)?;
        Ok(StagingBuffer { device, pinned, temp, done: None, is_out: false, is_in_place })
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

impl StagingBuffer {
    /// What it has room for.
    pub(super) fn room(&self) -> StagingBytes {
        StagingBytes { device: self.read_by_kernels().len(), pinned: self.pinned.len() }
    }

    /// Where kernels find the morsel.
    pub(super) fn read_by_kernels(&self) -> &Buffer {
        if self.is_in_place { &self.pinned } else { &self.device }
    }

    /// The memory that what is pinned is copied to, unless kernels read it there.
    pub(super) fn copied_to(&self) -> Option<&Buffer> {
        (!self.is_in_place).then_some(&self.device)
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
        assert!(self.is_out, "a buffer is released once for each morsel");
        self.is_out = false;
        self.done = Some(done);
    }

    /// Makes it large enough for a row group that is larger than was to be expected.
    pub(super) fn grow(&mut self, source: StagingSource<'_>, bytes: StagingBytes) -> Result<()> {
        let bytes = bytes.max(self.room());
        // What it has is given back first.
        let nothing = StagingBytes::default();
        *self = StagingSource { temp_bytes: 0, ..source }.take(nothing)?;
        *self = source.take(bytes).context(|| refused(bytes))?;
        Ok(())
    }
}
