//! Both sides partitioned on a device until a build partition fits shared memory, then joined pair by pair.
//!
//! ```text
//!   2^27 rows ─► 512 partitions ─► 256 of each: 2^17 of about 1024 rows       the probe side likewise
//!   build partition ─► table in shared memory; its probe partition is streamed past it
//! ```
//!
//! Partitions larger than shared memory, as equal keys make them, go by pieces. Traffic of a pass: keys twice, values once,
//! both written; then both read once. For rows of 16 bytes and two passes 96 bytes a row.

use pelton_device::{Span, Stream};
use pelton_error::Result;
use pelton_kernels::{
    JOIN_BITS_MAX, JOIN_BUILD_ROWS, JOIN_PROBE_ROWS, JOIN_TILE_ROWS, JoinDigits, JoinSegments,
    exclusive_scan, join_count, join_pairs, join_scatter, join_units, scan_scratch_bytes,
};

use super::rig::{Emit, Rig};
use crate::options::{Algorithm, JoinOptions};
use crate::report::Report;
use crate::rows::{Rows, Target, is_on};

/// Rows of a build partition: half of what shared memory holds, so that uneven ones fit too.
const PARTITION_ROWS: u64 = JOIN_BUILD_ROWS / 2;
/// Bits of the hash that are of partitions on a device: 24 to 47.
const FIRST_BIT: u32 = 24;
const BITS_ALL: u32 = 24;
const WORD_BYTES: usize = 8;

/// Bits of all partitions of so many build rows.
fn partition_bits(build_count: usize) -> u32 {
    (build_count as u64).div_ceil(PARTITION_ROWS).next_power_of_two().ilog2().min(BITS_ALL)
}

/// Bits of each pass: as few passes as there can be, as even as they can be.
fn passes(build_count: usize) -> Vec<u32> {
    let bits = partition_bits(build_count);
    let count = bits.div_ceil(JOIN_BITS_MAX);
    (0..count).map(|pass| bits * (pass + 1) / count - bits * pass / count).collect()
}

/// Bytes of device memory that it takes: rows of the host, two buffers for rows of either side, and counts.
pub(crate) fn radix_bytes(options: &JoinOptions, build: &Rows, probe: &Rows) -> u64 {
    let passes = passes(build.count());
    let buffers = |rows: &Rows| {
        let is_here = rows.is_on(options.device);
        let count = passes.len().min(2) as u64 + u64::from(!is_here);
        count * (rows.bytes() + 1024)
    };
    let words = (1_u64 << partition_bits(build.count())) + 1;
    buffers(build)
        + buffers(probe)
        + 7 * (words * WORD_BYTES as u64 + 256)
        + scan_scratch_bytes(words) as u64
        + 8192
}

/// Memory of partitions of one side.
struct Side {
    source: Rows,
    buffers: Vec<Rows>,
    offsets: [Span; 2],
}

/// Joins.
pub(crate) fn radix(rig: &Rig<'_>, build: &Rows, probe: &Rows, target: &Target) -> Result<Report> {
    let width_bytes = build.width_bytes();
    let passes = passes(build.count());
    let words_bytes = ((1 << partition_bits(build.count())) + 1) * WORD_BYTES;
    let prepare = |rows: &Rows| -> Result<Side> {
        let here = |what| rig.take_rows(rows.count(), width_bytes, what);
        let source = if rows.is_on(rig.options.device) { rows.clone() } else { here("a side")? };
        let buffers = (0..passes.len().min(2)).map(|_| here("partitions")).collect::<Result<_>>()?;
        let offsets = || rig.take(words_bytes, "offsets of partitions");
        Ok(Side { source, buffers, offsets: [offsets()?, offsets()?] })
    };
    let (build_side, probe_side) = (prepare(build)?, prepare(probe)?);
    let scratch = rig.take(scan_scratch_bytes((words_bytes / WORD_BYTES) as u64), "scratch")?;
    let (units, cursors) = (rig.take(words_bytes, "units")?, rig.take(words_bytes, "places")?);
    // Pairs for the host wait on the device until all are there.
    let mut device_target = target.clone();
    if let Target::Pairs { build_values, probe_values } = target
        && !(is_on(build_values, rig.options.device) && is_on(probe_values, rig.options.device))
    {
        let room = |bytes| rig.take(bytes, "memory for all pairs");
        device_target = Target::Pairs {
            build_values: room(build_values.len())?,
            probe_values: room(probe_values.len())?,
        };
    }
    let emit = Emit::new(rig, &device_target, width_bytes, 1)?;
    let output = emit.direct().expect("pairs are written on the device");
    let started = rig.machine.now();
    let stream = &rig.stream;
    let work = Partition { rig, stream, units: &units, cursors: &cursors, scratch: &scratch };
    let mut sides = Vec::new();
    for (rows, side) in [(build, &build_side), (probe, &probe_side)] {
        rig.options.cancel.check()?;
        if !rows.is_on(rig.options.device) {
            rows.copy_to(stream, &side.source)?;
        }
        sides.push(work.side(side, &passes)?);
    }
    stream.wait_blocking()?;
    let mut report = Report::of(Algorithm::Radix);
    report.build_time = rig.machine.now() - started;
    let (build_rows, probe_rows) = (&sides[0], &sides[1]);
    let word_count = build_rows.offsets.len();
    let units = units.slice(0..word_count);
    let [one, other] = [&build_rows.offsets, &probe_rows.offsets].map(Span::clone);
    stream.run(join_units(
        rig.library,
        (one, JOIN_BUILD_ROWS),
        Some((other, JOIN_PROBE_ROWS)),
        units.clone(),
    ))?;
    work.scan(&units)?;
    stream.run(join_pairs(rig.library, build_rows, probe_rows, units, output))?;
    [report.match_count, report.value_sum] = emit.finish(rig)?;
    if let (
        Target::Pairs { build_values, probe_values },
        Target::Pairs { build_values: one, probe_values: other },
    ) = (target, &device_target)
        && one.address() != build_values.address()
    {
        let bytes = build_values.len().min(report.match_count as usize * width_bytes);
        stream.copy(&one.slice(0..bytes), &build_values.slice(0..bytes))?;
        stream.copy(&other.slice(0..bytes), &probe_values.slice(0..bytes))?;
        stream.wait_blocking()?;
    }
    report.time = rig.machine.now() - started;
    report.partition_count = 1 << partition_bits(build.count());
    report.table_count = report.partition_count;
    if let Target::Pairs { .. } = target {
        report.value_sum = 0;
    }
    Ok(report)
}

/// Partitions rows of a device by passes.
pub(super) struct Partition<'a, 'b> {
    pub(super) rig: &'a Rig<'b>,
    pub(super) stream: &'a Stream,
    /// Memory for units and for places, words of the most segments and one.
    pub(super) units: &'a Span,
    pub(super) cursors: &'a Span,
    pub(super) scratch: &'a Span,
}

impl Partition<'_, '_> {
    fn side(&self, side: &Side, passes: &[u32]) -> Result<JoinSegments> {
        let mut segments = self.whole(&side.source, &side.offsets[0])?;
        let mut bits_left: u32 = passes.iter().sum();
        for (pass, bits) in passes.iter().enumerate() {
            bits_left -= bits;
            let digits = JoinDigits { begin_bit: FIRST_BIT + bits_left, bits: *bits };
            segments =
                self.pass(&segments, digits, &side.buffers[pass % 2], &side.offsets[(pass + 1) % 2])?;
        }
        Ok(segments)
    }

    /// All rows as one segment; `offsets` is memory for its bounds.
    pub(super) fn whole(&self, rows: &Rows, offsets: &Span) -> Result<JoinSegments> {
        let offsets = offsets.slice(0..2 * WORD_BYTES);
        self.rig.fill(self.stream, &offsets.slice(0..WORD_BYTES), 0)?;
        self.rig.fill(self.stream, &offsets.slice(WORD_BYTES..2 * WORD_BYTES), rows.count() as u64)?;
        Ok(JoinSegments {
            keys: rows.keys().clone(),
            values: rows.values().clone(),
            offsets,
            width_bytes: rows.width_bytes(),
        })
    }

    /// One pass over all segments: their rows by digit, in `target`; `offsets` is memory for where digits begin.
    pub(super) fn pass(
        &self,
        segments: &JoinSegments,
        digits: JoinDigits,
        target: &Rows,
        offsets: &Span,
    ) -> Result<JoinSegments> {
        let library = self.rig.library;
        let segment_count = segments.offsets.len() / WORD_BYTES - 1;
        let units = self.units.slice(0..segments.offsets.len());
        let words = (segment_count << digits.bits) + 1;
        let offsets = offsets.slice(0..words * WORD_BYTES);
        let cursors = self.cursors.slice(0..words * WORD_BYTES);
        self.stream.run(join_units(
            library,
            (segments.offsets.clone(), JOIN_TILE_ROWS),
            None,
            units.clone(),
        ))?;
        self.scan(&units)?;
        self.rig.fill(self.stream, &offsets, 0)?;
        self.stream.run(join_count(library, segments, units.clone(), digits, offsets.clone()))?;
        self.scan(&offsets)?;
        self.stream.copy(&offsets, &cursors)?;
        let columns = [target.keys().clone(), target.values().clone()];
        self.stream.run(join_scatter(library, segments, units, digits, cursors, columns.clone()))?;
        let [keys, values] = columns;
        Ok(JoinSegments { keys, values, offsets, width_bytes: segments.width_bytes })
    }

    fn scan(&self, words: &Span) -> Result<()> {
        let scratch = self.scratch.clone();
        self.stream.run(exclusive_scan(self.rig.library, WORD_BYTES, words.clone(), words.clone(), scratch))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_are_few_and_even() {
        assert_eq!(passes(0), [0_u32; 0]);
        assert_eq!(passes(1024), [0_u32; 0]);
        assert_eq!(passes(1025), [1]);
        assert_eq!(passes(1 << 19), [9]);
        assert_eq!(passes((1 << 19) + 1), [5, 5]);
        assert_eq!(passes(1 << 27), [8, 9]);
        assert_eq!(passes(1 << 40).iter().sum::<u32>(), 24);
    }
}
