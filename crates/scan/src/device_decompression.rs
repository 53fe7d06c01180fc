//! Which codecs of a scan the device decompresses, and morsels in decompression.
//!
//! ```text
//!   buffer k     copy ── k_place ── decompress ── statuses ─► held against what was to come of each section
//!   buffer k+1      copy ── k_place ── decompress …               before any kernel reads the morsel
//! ```
//!
//! A morsel is given out once every section is known to be whole: what a decoder failed at would make kernels read
//! out of bounds. So that this wait costs nothing, the morsels of all free buffers are enqueued ahead, each on a
//! stream of its buffer.

use std::collections::VecDeque;
use std::time::Duration;

use pelton_chunk::Codec;
use pelton_device::{DeviceId, Event, Place, Stream};
use pelton_error::{Error, Result};
use pelton_store::Table;

use super::ColumnCache;
use super::decompress::{Addresses, Batch, CodecBytes, DeviceDecompressor, Job, Part, Words, batches};
use super::extent::CHUNK_ALIGN;
use super::formats::{estimated_chunk_bytes, section_count};
use super::morsel_layout::MorselLayout;
use super::staging::StagingBuffer;

/// What the device decompresses of a scan.
#[derive(Debug, Default)]
pub(super) struct DecompressionPlan {
    decompressor: Option<DeviceDecompressor>,
    /// Codecs that the device decompresses.
    pub(super) codecs: Vec<Codec>,
    /// Why the host decompresses the others.
    pub(super) host_reason: Option<String>,
    /// Sections under those codecs, at most, and their bytes without codec, by estimate.
    sections: usize,
    bytes: usize,
    section_bytes_max: usize,
}

impl DecompressionPlan {
    /// Of these columns, which `device` reads from disk.
    pub(super) fn of(
        column_cache: &ColumnCache,
        device: DeviceId,
        table: &Table,
        columns: &[usize],
        row_groups: &[u32],
    ) -> Result<Self> {
        let mut scanned: Vec<CodecBytes> = Vec::new();
        for_each_chunk(table, columns, row_groups, |codec, stored, decompressed, _| {
            let at = scanned.iter().position(|seen| seen.codec == codec).unwrap_or_else(|| {
                scanned.push(CodecBytes { codec, stored: 0, decompressed: 0 });
                scanned.len() - 1
            });
            scanned[at].stored += stored as u64;
            scanned[at].decompressed += decompressed as u64;
        })?;
        let mut plan = Self::default();
        for bytes in &scanned {
            match column_cache.options.decompression.choose(device, bytes, column_cache.options.threads) {
                Ok(decompressor) => {
                    plan.decompressor = Some(decompressor);
                    plan.codecs.push(bytes.codec);
                }
                Err(reason) => plan.host_reason = Some(reason),
            }
        }
        let Self { codecs, sections, bytes, section_bytes_max, .. } = &mut plan;
        for_each_chunk(table, columns, row_groups, |codec, _, decompressed, count| {
            if codecs.contains(&codec) {
                *sections += count;
                *bytes += decompressed;
                *section_bytes_max = (*section_bytes_max).max(decompressed / (count - 1).max(1));
            }
        })?;
        Ok(plan)
    }

    /// The host decompresses everything, because the device refused memory.
    pub(super) fn refused(error: &Error) -> Self {
        Self { host_reason: Some(format!("compressed chunks want more memory: {error}")), ..Self::default() }
    }

    /// Memory of each buffer of `staging_bytes` that decoders work in.
    pub(super) fn temp_bytes(&self, staging_bytes: usize) -> Result<usize> {
        let Some(decompressor) = &self.decompressor else { return Ok(0) };
        let count = self.sections.min(self.sections * staging_bytes / self.bytes.max(1) + 1);
        decompressor.buffer_temp_bytes(&self.codecs, count, self.section_bytes_max)
    }

    /// What carries it out over `buffers`; `None` where the host decompresses everything.
    pub(super) fn start(
        self,
        column_cache: &ColumnCache,
        device: DeviceId,
        buffers: usize,
    ) -> Result<Option<DeviceDecompression>> {
        let Some(decompressor) = self.decompressor else { return Ok(None) };
        let streams = (0..buffers).map(|_| column_cache.machine.stream(Place::Device(device)));
        let streams = streams.collect::<Result<Vec<Stream>>>()?;
        Ok(Some(DeviceDecompression { decompressor, streams, ahead: VecDeque::new(), time: Duration::ZERO }))
    }
}

/// Calls `each` with codec, stored bytes, decompressed bytes by estimate and sections at most of each chunk with a
/// codec.
fn for_each_chunk(
    table: &Table,
    columns: &[usize],
    row_groups: &[u32],
    mut each: impl FnMut(Codec, usize, usize, usize),
) -> Result<()> {
    for row_group in row_groups {
        let row_group = *row_group as usize;
        for column in columns {
            let location = table.chunk(row_group, *column)?;
            let codec = location.encoding.codec;
            if codec != Codec::None {
                let decompressed = estimated_chunk_bytes(table, row_group, *column)?;
                each(codec, location.stored_bytes as usize, decompressed, section_count(table, row_group));
            }
        }
    }
    Ok(())
}

/// The compressed part of a morsel, staged.
pub(super) struct Compressed {
    /// Those with sections for the device, in the order of their words.
    parts: Vec<Part>,
    words: Words,
    batches: Vec<Batch>,
}

/// A morsel that is brought ahead.
pub(super) struct Brought {
    buffer: usize,
    pub(super) layout: MorselLayout,
    compressed: Option<Compressed>,
    started: Event,
    done: Event,
    /// With the outcome on the host.
    pub(super) arrived: Event,
}

/// Decompresses the morsels of a prefetcher on the device.
pub(super) struct DeviceDecompression {
    decompressor: DeviceDecompressor,
    /// By buffer.
    streams: Vec<Stream>,
    ahead: VecDeque<Brought>,
    /// Time of the device; that of several morsels may be the same.
    pub(super) time: Duration,
}

impl DeviceDecompression {
    /// What it is called in reports.
    pub(super) fn name(&self) -> String {
        self.decompressor.name()
    }

    /// Where what is brought to `buffer` is enqueued.
    pub(super) fn stream(&self, buffer: usize) -> &Stream {
        &self.streams[buffer]
    }

    /// The buffers from `buffer` on, in turn, that nothing is brought to.
    pub(super) fn buffers_from(&self, buffer: usize) -> impl Iterator<Item = usize> + use<> {
        let (count, taken) = (self.streams.len(), self.ahead.len());
        (taken..count).map(move |turn| (buffer + turn) % count)
    }

    pub(super) fn push(&mut self, brought: Brought) {
        self.ahead.push_back(brought);
    }

    /// The next morsel that was brought.
    pub(super) fn pop(&mut self) -> Option<Brought> {
        self.ahead.pop_front()
    }

    /// Writes the words of `parts`, whose bodies lie in `compressed`, of a morsel of `buffer`.
    pub(super) fn write_words(
        &self,
        buffer: &StagingBuffer,
        layout: &MorselLayout,
        mut parts: Vec<Part>,
        compressed: &mut [u8],
    ) -> Result<Compressed> {
        let batches = batches(&mut parts, buffer.temp.len(), |codec, count, section_bytes_max| {
            self.decompressor.temp_bytes(codec, count, section_bytes_max)
        })?;
        let base = buffer.read_by_kernels().address();
        let at = Addresses {
            compressed: base + layout.compressed().start as u64,
            target: base + layout.decompressed().start as u64,
        };
        let start =
            parts.iter().map(|part| part.compressed.end).max().unwrap_or(0).next_multiple_of(CHUNK_ALIGN);
        let words = Words::write(compressed, start, &parts, at);
        parts.retain(|part| part.section.is_some());
        Ok(Compressed { parts, words, batches })
    }

    /// Enqueues the copy of the compressed part of `buffer`, and its decompression.
    pub(super) fn enqueue(
        &self,
        number: usize,
        buffer: &StagingBuffer,
        layout: MorselLayout,
        compressed: Option<Compressed>,
    ) -> Result<Brought> {
        let stream = &self.streams[number];
        let pinned = buffer.pinned.slice(layout.staged_bytes()..layout.bytes().pinned);
        let on_device = buffer.read_by_kernels().slice(layout.compressed());
        stream.copy(&pinned, &on_device)?;
        let started = stream.record()?;
        if let Some(Compressed { words, batches, .. }) = &compressed {
            let job = Job {
                compressed: on_device.clone(),
                target: buffer.read_by_kernels().slice(layout.decompressed()),
                temp: buffer.temp.span(),
                words: *words,
                batches: batches.clone(),
            };
            self.decompressor.enqueue(stream, &job)?;
        }
        let done = stream.record()?;
        if let Some(Compressed { words, .. }) = &compressed {
            stream.copy(&on_device.slice(words.outcome()), &pinned.slice(words.outcome()))?;
        }
        let arrived = stream.record()?;
        Ok(Brought { buffer: number, layout, compressed, started, done, arrived })
    }

    /// Waits until a morsel is there and holds what came of its sections against what was to come.
    ///
    /// # Errors
    ///
    /// `Corrupt` for a section that does not decompress, `Unsupported` for one of which only the device says so; both
    /// name it. Errors of what was enqueued.
    pub(super) fn arrive(
        &mut self,
        buffers: &[StagingBuffer],
        table: &Table,
        brought: &Brought,
    ) -> Result<()> {
        brought.arrived.wait_blocking()?;
        self.time += brought.done.elapsed_since(&brought.started)?;
        let Some(Compressed { parts, words, .. }) = &brought.compressed else { return Ok(()) };
        buffers[brought.buffer].pinned.with_bytes(|bytes| {
            let compressed = &bytes[brought.layout.staged_bytes()..];
            for (index, part) in parts.iter().enumerate() {
                let (written, status) = words.outcome_of(compressed, index);
                if status != 0 || written != part.target.len() as u64 {
                    let said = format!("{}, {written} bytes", self.decompressor.meaning(status));
                    return Err(self.refusal(table, part, &compressed[part.compressed.clone()], &said));
                }
            }
            Ok(())
        })?
    }

    /// What is wrong with a section that the device did not decompress: the host tries, and knows.
    fn refusal(&self, table: &Table, part: &Part, stored: &[u8], said: &str) -> Error {
        let Some((codec, section)) = &part.section else {
            return Error::invalid_input("a part that is copied");
        };
        let of_host = codec.decompress(stored, &mut vec![0; part.target.len()]);
        let error = of_host.err().unwrap_or_else(|| {
            Error::unsupported(format!(
                "{} does not decompress {} bytes of {codec} that the host does: {said}; --decompress host does without",
                self.decompressor.name(),
                stored.len()
            ))
        });
        table.of_chunk(part.body.row_group, part.body.column, error.context(section.to_string()))
    }
}
