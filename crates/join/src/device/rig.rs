//! What all joins on a device share: memory under a limit, the order of work on tables, and what becomes of matches.

use std::cell::Cell;
use std::sync::Arc;

use pelton_device::{Buffer, Event, Machine, MemoryKind, OnFull, Place, Span, Stream, Work};
use pelton_error::{Error, ErrorKind, Result, ResultExt, Tier};
use pelton_kernels::{JoinOutput, JoinTable, Library, fill_word, join_probe};

use crate::options::JoinOptions;
use crate::rows::{Rows, Target, is_on};

/// Memory is taken in multiples of this, so that parts of it are aligned.
const UNIT_BYTES: usize = 256;
const RESULT_BYTES: usize = 16;

/// A device and what a join may take of it.
pub(crate) struct Rig<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) library: Option<&'a Arc<Library>>,
    pub(crate) options: &'a JoinOptions,
    /// Kernels, where nothing else says.
    pub(crate) stream: Stream,
    /// Bytes that may still be taken.
    left: Cell<u64>,
}

impl<'a> Rig<'a> {
    pub(crate) fn new(
        machine: &'a Machine,
        library: Option<&'a Arc<Library>>,
        options: &'a JoinOptions,
    ) -> Result<Self> {
        let stream = machine.stream(Place::Device(options.device))?;
        let left = Cell::new(available(machine, options)?);
        Ok(Self { machine, library, options, stream, left })
    }

    pub(crate) fn left(&self) -> u64 {
        self.left.get()
    }

    /// Counts memory of the device as taken.
    ///
    /// # Errors
    ///
    /// `OutOfMemory` if so much is not left.
    pub(crate) fn reserve(&self, bytes: u64, what: &str) -> Result<()> {
        let (device, left) = (self.options.device, self.left.get());
        if bytes > left {
            let kind =
                ErrorKind::OutOfMemory { tier: Tier::Device, requested_bytes: bytes, available_bytes: left };
            let message = format!(
                "{device}: {what} of a join takes {bytes} bytes, {left} are left: raise the limit on its memory, or take \
                 hybrid, which needs less"
            );
            return Err(Error::new(kind, message));
        }
        self.left.set(left - bytes);
        Ok(())
    }

    /// Takes memory of the device.
    pub(crate) fn take(&self, bytes: usize, what: &str) -> Result<Span> {
        let whole = bytes.max(1).next_multiple_of(UNIT_BYTES);
        let before = self.left.get();
        self.reserve(whole as u64, what)?;
        let buffer = self
            .machine
            .allocate(MemoryKind::Device(self.options.device), whole, OnFull::Refuse)
            .inspect_err(|_| {
                self.left.set(before);
            });
        Ok(buffer.context(|| format!("{what} of a join"))?.slice(0..bytes))
    }

    /// Takes memory for so many rows.
    pub(crate) fn take_rows(&self, count: usize, width_bytes: usize, what: &str) -> Result<Rows> {
        let column = || self.take(count * width_bytes, what);
        Rows::new(column()?, column()?, width_bytes)
    }

    /// Takes pinned memory of the host.
    pub(crate) fn take_pinned(&self, bytes: usize) -> Result<Buffer> {
        let node = self.machine.device(self.options.device)?.node;
        self.machine.allocate(MemoryKind::Pinned(node), bytes, OnFull::Refuse)
    }

    /// Enqueues that words become `word`.
    pub(crate) fn fill(&self, stream: &Stream, words: &Span, word: u64) -> Result<()> {
        stream.run(fill_word(self.library, words.clone(), word))
    }
}

/// What a join may take of the device's memory, bytes.
pub(crate) fn available(machine: &Machine, options: &JoinOptions) -> Result<u64> {
    let budget = machine.device_budget(options.device)?;
    let free = budget.limit_bytes().saturating_sub(budget.used_bytes());
    Ok(options.device_memory_limit_bytes.map_or(free, |limit| limit.min(free)))
}

/// Work on one table or one result, of several streams, one after the other.
#[derive(Default)]
pub(crate) struct Chain {
    last: Option<Event>,
}

impl Chain {
    pub(crate) fn run(&mut self, stream: &Stream, work: Work) -> Result<()> {
        if let Some(last) = &self.last {
            stream.wait_for(last)?;
        }
        stream.run(work)?;
        self.last = Some(stream.record()?);
        Ok(())
    }
}

/// Where matches go.
pub(crate) struct Emit {
    target: Target,
    /// Whether kernels write to the target themselves.
    is_direct: bool,
    result: Span,
    back: Buffer,
    /// Where pairs are on their way to the host: room for some.
    staging: Option<Rows>,
    /// Pairs that went that way.
    staged_count: u64,
    is_swapped: bool,
}

impl Emit {
    /// Pairs for the host go through memory for at most so many.
    pub(crate) fn new(
        rig: &Rig<'_>,
        target: &Target,
        width_bytes: usize,
        staging_rows: usize,
    ) -> Result<Self> {
        let (is_direct, staging) = match target {
            Target::Sum => (true, None),
            Target::Pairs { build_values, probe_values } => {
                let device = rig.options.device;
                let is_direct = is_on(build_values, device) && is_on(probe_values, device);
                let staging = || rig.take_rows(staging_rows.max(1), width_bytes, "memory for pairs");
                (is_direct, if is_direct { None } else { Some(staging()?) })
            }
        };
        let result = rig.take(RESULT_BYTES, "counts")?;
        let back = rig.take_pinned(RESULT_BYTES)?;
        rig.fill(&rig.stream, &result, 0)?;
        rig.stream.wait_blocking()?;
        Ok(Self {
            target: target.clone(),
            is_direct,
            result,
            back,
            staging,
            staged_count: 0,
            is_swapped: false,
        })
    }

    /// The sides change places.
    pub(crate) fn swap(&mut self) {
        self.is_swapped = !self.is_swapped;
        self.target = self.target.swapped();
    }

    /// What kernels write to, where that is the target itself.
    pub(crate) fn direct(&self) -> Option<JoinOutput> {
        let result = self.result.clone();
        match &self.target {
            Target::Sum => Some(JoinOutput::Sum { result }),
            Target::Pairs { build_values, probe_values } if self.is_direct => Some(JoinOutput::Pairs {
                result,
                build_values: build_values.clone(),
                probe_values: probe_values.clone(),
                window_begin: 0,
            }),
            Target::Pairs { .. } => None,
        }
    }

    /// Looks `rows` up. Waits where pairs go to the host.
    pub(crate) fn probe(
        &mut self,
        rig: &Rig<'_>,
        chain: &mut Chain,
        stream: &Stream,
        table: &JoinTable,
        rows: &Rows,
    ) -> Result<()> {
        if rows.count() == 0 {
            return Ok(());
        }
        if let Some(output) = self.direct() {
            let (keys, values) = (rows.keys().clone(), rows.values().clone());
            return chain.run(stream, join_probe(rig.library, table, keys, values, output));
        }
        let mut window_begin = 0;
        let room = self.staging.as_ref().map_or(0, Rows::count) as u64;
        loop {
            let found = self.stage(rig, chain, stream, table, rows, window_begin)?;
            if window_begin == 0 && found > room && rows.count() > 1 {
                // Again, in halves; what was written is of no use.
                let middle = rows.count() / 2;
                self.probe(rig, chain, stream, table, &rows.slice(0..middle))?;
                return self.probe(rig, chain, stream, table, &rows.slice(middle..rows.count()));
            }
            // One row has its matches in one order, so they can be taken window by window.
            let here = found.saturating_sub(window_begin).min(room);
            self.copy_out(stream, here as usize)?;
            window_begin += here;
            if window_begin >= found {
                return Ok(());
            }
        }
    }

    /// Writes pairs from one number on to the staging memory; how many there are in all.
    fn stage(
        &mut self,
        rig: &Rig<'_>,
        chain: &mut Chain,
        stream: &Stream,
        table: &JoinTable,
        rows: &Rows,
        window_begin: u64,
    ) -> Result<u64> {
        let staging = self.staging.as_ref().expect("pairs for the host are staged");
        let output = JoinOutput::Pairs {
            result: self.result.clone(),
            build_values: staging.keys().clone(),
            probe_values: staging.values().clone(),
            window_begin,
        };
        rig.fill(stream, &self.result, 0)?;
        let (keys, values) = (rows.keys().clone(), rows.values().clone());
        chain.run(stream, join_probe(rig.library, table, keys, values, output))?;
        self.read_back(stream).map(|[count, _]| count)
    }

    fn copy_out(&mut self, stream: &Stream, count: usize) -> Result<()> {
        let Target::Pairs { build_values, probe_values } = &self.target else { return Ok(()) };
        let staging = self.staging.as_ref().expect("pairs for the host are staged");
        let width = staging.width_bytes();
        let room = (build_values.len() / width) as u64;
        let fits = room.saturating_sub(self.staged_count).min(count as u64) as usize;
        let begin = self.staged_count.min(room) as usize;
        let range = begin * width..(begin + fits) * width;
        let pairs = staging.slice(0..fits);
        stream.copy(pairs.keys(), &build_values.slice(range.clone()))?;
        stream.copy(pairs.values(), &probe_values.slice(range))?;
        stream.wait_blocking()?;
        self.staged_count += count as u64;
        Ok(())
    }

    fn read_back(&self, stream: &Stream) -> Result<[u64; 2]> {
        stream.copy(&self.result, &self.back.span())?;
        stream.wait_blocking()?;
        self.back.with_bytes(|bytes| words(bytes).try_into().expect("two words"))
    }

    /// Matches and their sum; all work on them has been waited for.
    pub(crate) fn finish(self, rig: &Rig<'_>) -> Result<[u64; 2]> {
        match self.direct() {
            Some(_) => self.read_back(&rig.stream),
            None => Ok([self.staged_count, 0]),
        }
    }
}

/// Bytes as words.
pub(crate) fn words(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes"))).collect()
}
