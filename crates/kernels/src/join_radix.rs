//! Radix partitions of the rows of a join by bits of hashes, and the join of pairs of partitions in shared memory.
//!
//! ```text
//!   offsets ── join_units, scan ──► units of work ──┐
//!   rows ── join_count ──► counts ── scan ──► where partitions begin ── join_scatter ──► rows, by partition
//!                                                                                         └─ again, each on its own
//!   partitions of both sides ── join_units, scan ── join_pairs ──► matches
//! ```
//!
//! Offsets are words, one more than there are segments; units are the [exclusive sums](crate::exclusive_scan), in place,
//! of what [`join_units`] writes. Rows of a partition are in any order.

use std::ops::Range;
use std::sync::Arc;

use pelton_device::{Span, Work};
use pelton_error::Result;

use crate::join::{JoinOutput, join_hash, rows_of, set_word, word_at};
use crate::join_args as args;
use crate::library::{Library, cuda_form};
use crate::memory::{with_source, with_target};
use crate::shape::{assert_apart, element_count};
use crate::sys;

/// Most bits of a pass: `K_JOIN_BITS_MAX`.
pub const JOIN_BITS_MAX: u32 = 9;
/// Rows of a unit of a partition: `K_JOIN_TILE_ROWS`.
pub const JOIN_TILE_ROWS: u64 = 4096;
/// Rows of a build partition that a table in shared memory holds: `K_JOIN_BUILD_ROWS`.
pub const JOIN_BUILD_ROWS: u64 = 2048;
/// Rows of a probe partition that one unit looks up: `K_JOIN_PROBE_ROWS`.
pub const JOIN_PROBE_ROWS: u64 = 16384;

/// Key and value of each row, and the rows of each segment.
type SegmentRows = (Vec<(u64, u64)>, Vec<Range<usize>>);

/// Rows in segments.
#[derive(Debug, Clone)]
pub struct JoinSegments {
    /// Keys, words of `width_bytes`.
    pub keys: Span,
    /// As many values.
    pub values: Span,
    /// Words: where segments begin, and the end.
    pub offsets: Span,
    /// Bytes of a key and of a value, 4 or 8.
    pub width_bytes: usize,
}

impl JoinSegments {
    fn check(&self) -> u64 {
        assert!(self.width_bytes == 4 || self.width_bytes == 8, "keys of 4 or 8 bytes");
        let count = element_count(&self.keys, self.width_bytes);
        assert_eq!(element_count(&self.values, self.width_bytes), count, "a value for each key");
        segment_count(&self.offsets)
    }

    fn spans(&self) -> [Span; 3] {
        [self.keys.clone(), self.values.clone(), self.offsets.clone()]
    }

    /// Key and value of each row, and the rows of each segment.
    fn read(&self) -> Result<SegmentRows> {
        let rows = with_source(&self.keys, |keys| {
            with_source(&self.values, |values| rows_of(self.width_bytes, keys, values))
        })??;
        Ok((rows, with_source(&self.offsets, segments)?))
    }
}

fn segment_count(offsets: &Span) -> u64 {
    let count = element_count(offsets, 8);
    assert!(count > 0, "offsets have an end");
    count - 1
}

fn segments(offsets: &[u8]) -> Vec<Range<usize>> {
    let word = |index| word_at(offsets, 8, index) as usize;
    (1..offsets.len() / 8).map(|end| word(end - 1)..word(end)).collect()
}

/// Word s of `units` becomes the number of pieces that segment s of `first` makes, offsets with rows of a piece, times that
/// of the same segment of `second`, if there is one; its last word becomes 0.
///
/// # Panics
///
/// If a piece has no rows, or offsets and units are not as many words.
pub fn join_units(
    library: Option<&Arc<Library>>,
    first: (Span, u64),
    second: Option<(Span, u64)>,
    units: Span,
) -> Work {
    let segment_count = segment_count(&first.0);
    for offsets in std::iter::once(&units).chain(second.as_ref().map(|(offsets, _)| offsets)) {
        assert_eq!(element_count(offsets, 8), segment_count + 1, "a word for each segment, and the last one");
    }
    assert!(first.1 > 0 && second.as_ref().is_none_or(|(_, rows)| *rows > 0), "pieces have rows");
    let args = args::UnitsArgs {
        first_offsets: first.0.address(),
        second_offsets: second.as_ref().map_or(0, |(offsets, _)| offsets.address()),
        segment_count,
        first_rows: first.1,
        second_rows: second.as_ref().map_or(1, |(_, rows)| *rows),
        units: units.address(),
        launch: sys::Launch { multiprocessors: 0, policy: 0 },
    };
    let cuda =
        cuda_form(library, |entries| entries.join_units, move |launch| args::UnitsArgs { launch, ..args });
    let mut reads = vec![first.0.clone()];
    reads.extend(second.iter().map(|(offsets, _)| offsets.clone()));
    assert_apart(reads.iter().chain([&units]));
    Work::new("count units", reads, vec![units.clone()]).with_cuda(cuda).with_host(move || {
        let pieces = |(offsets, rows): &(Span, u64)| -> Result<Vec<u64>> {
            let segments = with_source(offsets, segments)?;
            Ok(segments.into_iter().map(|segment| (segment.len() as u64).div_ceil(*rows)).collect())
        };
        let mut counts = pieces(&first)?;
        if let Some(second) = &second {
            counts.iter_mut().zip(pieces(second)?).for_each(|(count, other)| *count *= other);
        }
        counts.push(0);
        with_target(&units, |units| {
            counts.iter().enumerate().for_each(|(index, count)| set_word(units, 8, index, *count));
        })
    })
}

/// A pass of a partition: by `bits` bits of the hash from `begin_bit` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JoinDigits {
    /// The lowest bit.
    pub begin_bit: u32,
    /// How many, at most [`JOIN_BITS_MAX`].
    pub bits: u32,
}

impl JoinDigits {
    fn check(self) {
        assert!(self.bits <= JOIN_BITS_MAX && self.begin_bit + self.bits <= 64, "digits {self:?}");
    }

    fn of(self, key: u64) -> usize {
        (join_hash(key).checked_shr(self.begin_bit).unwrap_or(0) & ((1 << self.bits) - 1)) as usize
    }
}

/// Adds to word (s << bits | d) of `counts` how many rows of segment s have digit d; there is one word more, which makes
/// their exclusive sums offsets.
///
/// # Panics
///
/// If rows, offsets, units and counts do not go together.
pub fn join_count(
    library: Option<&Arc<Library>>,
    rows: &JoinSegments,
    units: Span,
    digits: JoinDigits,
    counts: Span,
) -> Work {
    let args = partition_args(rows, &units, digits, &counts, [0, 0]);
    let cuda = cuda_form(
        library,
        |entries| entries.join_count,
        move |launch| args::PartitionArgs { launch, ..args },
    );
    let [keys, _, offsets] = rows.spans();
    let rows = rows.clone();
    Work::new("count digits of hashes", vec![keys, offsets, units], vec![counts.clone()])
        .with_cuda(cuda)
        .with_host(move || {
            let (rows, segments) = rows.read()?;
            with_target(&counts, |counts| {
                for (number, segment) in segments.into_iter().enumerate() {
                    for (key, _) in &rows[segment] {
                        let index = number << digits.bits | digits.of(*key);
                        set_word(counts, 8, index, word_at(counts, 8, index) + 1);
                    }
                }
            })
        })
}

/// Puts rows where `cursors` say that their digits begin, in `target` of keys and of values; what cursors are afterwards is
/// unspecified.
///
/// # Panics
///
/// As [`join_count`], and if the target is not as long as the rows.
pub fn join_scatter(
    library: Option<&Arc<Library>>,
    rows: &JoinSegments,
    units: Span,
    digits: JoinDigits,
    cursors: Span,
    target: [Span; 2],
) -> Work {
    for (target, source) in target.iter().zip([&rows.keys, &rows.values]) {
        assert_eq!(target.len(), source.len(), "the target is as long as the rows");
        element_count(target, rows.width_bytes);
    }
    let args = partition_args(rows, &units, digits, &cursors, [target[0].address(), target[1].address()]);
    let cuda = cuda_form(
        library,
        |entries| entries.join_scatter,
        move |launch| args::PartitionArgs { launch, ..args },
    );
    let mut reads = rows.spans().to_vec();
    reads.push(units);
    let writes = vec![cursors.clone(), target[0].clone(), target[1].clone()];
    assert_apart(reads.iter().chain(&writes));
    let rows = rows.clone();
    Work::new("partition by hashes", reads, writes).with_cuda(cuda).with_host(move || {
        let width = rows.width_bytes;
        let (rows, segments) = rows.read()?;
        with_target(&cursors, |cursors| {
            with_target(&target[0], |keys| {
                with_target(&target[1], |values| {
                    for (number, segment) in segments.into_iter().enumerate() {
                        for (key, value) in &rows[segment] {
                            let index = number << digits.bits | digits.of(*key);
                            let place = word_at(cursors, 8, index);
                            set_word(cursors, 8, index, place + 1);
                            set_word(keys, width, place as usize, *key);
                            set_word(values, width, place as usize, *value);
                        }
                    }
                })
            })
        })??
    })
}

fn partition_args(
    rows: &JoinSegments,
    units: &Span,
    digits: JoinDigits,
    counts: &Span,
    target: [u64; 2],
) -> args::PartitionArgs {
    digits.check();
    let segment_count = rows.check();
    assert_eq!(element_count(units, 8), segment_count + 1, "units of all segments, and the end");
    assert!(
        element_count(counts, 8) >= segment_count << digits.bits,
        "a count for each digit of each segment"
    );
    args::PartitionArgs {
        keys: rows.keys.address(),
        values: rows.values.address(),
        offsets: rows.offsets.address(),
        units: units.address(),
        segment_count,
        counts: counts.address(),
        target: target[0],
        target_values: target[1],
        begin_bit: digits.begin_bit,
        bits: digits.bits,
        width_bytes: rows.width_bytes as u64,
        launch: sys::Launch { multiprocessors: 0, policy: 0 },
    }
}

/// Joins each segment of `build` with the same segment of `probe`; `units` are of [`JOIN_BUILD_ROWS`] and
/// [`JOIN_PROBE_ROWS`].
///
/// # Panics
///
/// If both sides differ in width or segments, or spans do not go together.
pub fn join_pairs(
    library: Option<&Arc<Library>>,
    build: &JoinSegments,
    probe: &JoinSegments,
    units: Span,
    output: JoinOutput,
) -> Work {
    let segment_count = build.check();
    assert_eq!(probe.check(), segment_count, "segments of both sides");
    assert_eq!(build.width_bytes, probe.width_bytes, "keys of both sides have one width");
    assert_eq!(element_count(&units, 8), segment_count + 1, "units of all segments, and the end");
    let width_bytes = build.width_bytes;
    output.check(width_bytes);
    let args = args::PairsArgs {
        build_keys: build.keys.address(),
        build_values: build.values.address(),
        build_offsets: build.offsets.address(),
        probe_keys: probe.keys.address(),
        probe_values: probe.values.address(),
        probe_offsets: probe.offsets.address(),
        units: units.address(),
        segment_count,
        output: output.args(width_bytes),
        width_bytes: width_bytes as u64,
        launch: sys::Launch { multiprocessors: 0, policy: 0 },
    };
    let cuda =
        cuda_form(library, |entries| entries.join_pairs, move |launch| args::PairsArgs { launch, ..args });
    let mut reads = build.spans().to_vec();
    reads.extend(probe.spans());
    reads.push(units);
    let writes = output.spans();
    assert_apart(reads.iter().chain(&writes));
    let (build, probe) = (build.clone(), probe.clone());
    Work::new("join partitions", reads, writes).with_cuda(cuda).with_host(move || {
        let (mut build_rows, build_segments) = build.read()?;
        let (probe_rows, probe_segments) = probe.read()?;
        let mut matches = Vec::new();
        for (build, probe) in build_segments.into_iter().zip(probe_segments) {
            let build = &mut build_rows[build];
            build.sort_unstable();
            for (key, value) in &probe_rows[probe] {
                let begin = build.partition_point(|(other, _)| other < key);
                let of_key = build[begin..].iter().take_while(|(other, _)| other == key);
                matches.extend(of_key.map(|(_, build_value)| (*build_value, *value)));
            }
        }
        output.add(width_bytes, &matches)
    })
}
