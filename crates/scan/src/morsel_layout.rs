//! The layout of a morsel: where its chunks lie in a staging buffer. Arithmetic alone.
//!
//! ```text
//!   buffer │ staged: chunks read from disk │ decompressed │ run of a pinned column │ run of another │ … │ compressed
//!
//!   pinned │ chunk 3 │ chunk 4 │░ 5 ░│ chunk 6 │ chunk 7      one run, one copy: 5 is not wanted but small
//! ```
//!
//! Compressed chunks are decompressed on the device, from the end of the buffer to the decompressed part. A run is
//! copied as it lies, so chunks keep their distances and their alignment in it.

use std::ops::Range;

use super::extent::{CHUNK_ALIGN, ChunkPlace};

/// Unwanted bytes between wanted chunks that are copied along rather than starting another copy: that takes 3 us
/// longer than its bytes do, in which the link moves 170 KB (measured on an H200, 2026-11-22).
const GAP_BYTES_MAX: usize = 128 << 10;

/// A chunk of a row group that may be added to a morsel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece {
    /// From disk, of this length.
    Staged(usize),
    /// From disk, decompressed on the device.
    Compressed {
        /// Its length without codec.
        decompressed: usize,
        /// Bytes that go over the link for it, a multiple of 128.
        compressed: usize,
    },
    /// In pinned memory.
    Pinned(ChunkPlace),
    /// In the device's memory, at this address.
    Cached(u64),
}

/// Neighbouring bytes of an extent, one copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Run {
    /// Of the scan.
    pub(super) column: usize,
    pub(super) extent: usize,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// Bytes that something takes in a staging buffer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct StagingBytes {
    /// On the device: all.
    pub(super) device: usize,
    /// In pinned memory: what comes from disk, compressed where it is.
    pub(super) pinned: usize,
}

impl StagingBytes {
    pub(super) fn fits(self, room: StagingBytes) -> bool {
        self.device <= room.device && self.pinned <= room.pinned
    }

    pub(super) fn max(self, other: StagingBytes) -> Self {
        Self { device: self.device.max(other.device), pinned: self.pinned.max(other.pinned) }
    }

    /// No more than `bytes` of either.
    pub(super) fn at_most(self, bytes: usize) -> Self {
        Self { device: self.device.min(bytes), pinned: self.pinned.min(bytes) }
    }
}

impl std::ops::Add for StagingBytes {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { device: self.device + other.device, pinned: self.pinned + other.pinned }
    }
}

/// The layout of a morsel, as row groups are added to it.
#[derive(Debug, Default)]
pub(super) struct MorselLayout {
    pub(super) row_groups: Vec<u32>,
    /// Row group major.
    spots: Vec<Spot>,
    staged_bytes: usize,
    /// Of compressed chunks, without codec.
    decompressed_bytes: usize,
    compressed_bytes: usize,
    runs: Vec<Run>,
    run_bytes: usize,
}

#[derive(Debug)]
enum Spot {
    /// At this byte of the staged part.
    Staged(usize),
    /// At this byte of the decompressed part.
    Decompressed(usize),
    /// At this byte of a run's extent.
    Run {
        run: usize,
        at: usize,
    },
    Cached(u64),
}

impl MorselLayout {
    /// What it takes.
    pub(super) fn bytes(&self) -> StagingBytes {
        StagingBytes {
            device: self.compressed_start() + self.compressed_bytes,
            pinned: self.staged_bytes + self.compressed_bytes,
        }
    }

    /// Bytes of chunks that are copied as they are staged, from the start of both memories.
    pub(super) fn staged_bytes(&self) -> usize {
        self.staged_bytes
    }

    /// The part of the buffer that compressed chunks are decompressed to.
    pub(super) fn decompressed(&self) -> Range<usize> {
        self.staged_bytes..self.staged_bytes + self.decompressed_bytes
    }

    /// The part of the buffer that compressed chunks come to.
    pub(super) fn compressed(&self) -> Range<usize> {
        self.compressed_start()..self.compressed_start() + self.compressed_bytes
    }

    /// Bytes of the runs of pinned columns.
    pub(super) fn run_bytes(&self) -> usize {
        self.run_bytes
    }

    fn compressed_start(&self) -> usize {
        self.decompressed().end + self.run_bytes
    }

    /// What a further row group with these chunks, one a column, would take.
    pub(super) fn growth(&self, pieces: &[Piece]) -> StagingBytes {
        let mut growth = StagingBytes::default();
        for (column, piece) in pieces.iter().enumerate() {
            match piece {
                Piece::Staged(bytes) => {
                    let room = bytes.next_multiple_of(CHUNK_ALIGN);
                    growth = growth + StagingBytes { device: room, pinned: room };
                }
                Piece::Compressed { decompressed, compressed } => {
                    let room = decompressed.next_multiple_of(CHUNK_ALIGN);
                    growth = growth + StagingBytes { device: room + compressed, pinned: *compressed };
                }
                Piece::Pinned(place) => {
                    growth.device +=
                        self.extendable(column, place).map_or(place.room(), |run| place.end() - run.end);
                }
                Piece::Cached(_) => {}
            }
        }
        growth
    }

    /// Adds a row group.
    pub(super) fn push(&mut self, row_group: u32, pieces: &[Piece]) {
        self.row_groups.push(row_group);
        for (column, piece) in pieces.iter().enumerate() {
            let spot = match piece {
                Piece::Staged(bytes) => {
                    let at = self.staged_bytes;
                    self.staged_bytes += bytes.next_multiple_of(CHUNK_ALIGN);
                    Spot::Staged(at)
                }
                Piece::Compressed { decompressed, compressed } => {
                    let at = self.decompressed_bytes;
                    self.decompressed_bytes += decompressed.next_multiple_of(CHUNK_ALIGN);
                    self.compressed_bytes += compressed;
                    Spot::Decompressed(at)
                }
                Piece::Pinned(place) => Spot::Run { run: self.run_of(column, place), at: place.start },
                Piece::Cached(address) => Spot::Cached(*address),
            };
            self.spots.push(spot);
        }
    }

    /// The run that holds `place` from now on.
    fn run_of(&mut self, column: usize, place: &ChunkPlace) -> usize {
        let (start, end) = (place.start, place.end());
        if self.extendable(column, place).is_some() {
            let run = self.last_run(column).expect("just seen");
            self.run_bytes += end - self.runs[run].end;
            self.runs[run].end = end;
            return run;
        }
        self.run_bytes += end - start;
        self.runs.push(Run { column, extent: place.extent, start, end });
        self.runs.len() - 1
    }

    /// The run that `place` may continue.
    fn extendable(&self, column: usize, place: &ChunkPlace) -> Option<&Run> {
        let run = &self.runs[self.last_run(column)?];
        let gap = place.start.checked_sub(run.end)?;
        (run.extent == place.extent && gap <= GAP_BYTES_MAX).then_some(run)
    }

    fn last_run(&self, column: usize) -> Option<usize> {
        self.runs.iter().rposition(|run| run.column == column)
    }

    /// The copies of pinned runs, with the byte of the buffer at which each is put.
    pub(super) fn copies(&self) -> impl Iterator<Item = (usize, &Run)> {
        let mut target = self.decompressed().end;
        self.runs.iter().map(move |run| {
            let at = target;
            target += run.end - run.start;
            (at, run)
        })
    }

    /// The addresses of all chunks, row group major, in a buffer that starts at `base`.
    pub(super) fn addresses(&self, base: u64) -> Vec<u64> {
        let targets: Vec<(usize, &Run)> = self.copies().collect();
        let address = |spot: &Spot| match spot {
            Spot::Staged(at) => base + *at as u64,
            Spot::Decompressed(at) => base + (self.staged_bytes + at) as u64,
            Spot::Run { run, at } => {
                let (target, run) = targets[*run];
                base + (target + at - run.start) as u64
            }
            Spot::Cached(address) => *address,
        };
        self.spots.iter().map(address).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pinned(extent: usize, start: usize, bytes: usize) -> Piece {
        Piece::Pinned(ChunkPlace { extent, start, bytes })
    }

    /// Adds row groups, holding growth against what is added; answers the runs as (column, start, end).
    fn check(row_groups: &[&[Piece]]) -> (MorselLayout, Vec<(usize, usize, usize)>) {
        let mut layout = MorselLayout::default();
        for (row_group, pieces) in row_groups.iter().enumerate() {
            let expected = layout.bytes() + layout.growth(pieces);
            layout.push(row_group as u32, pieces);
            assert_eq!(layout.bytes(), expected);
        }
        let runs = layout.runs.iter().map(|run| (run.column, run.start, run.end)).collect();
        (layout, runs)
    }

    #[test]
    fn neighbours_are_one_run() {
        let (layout, runs) = check(&[
            &[pinned(0, 0, 100), pinned(0, 0, 128)],
            &[pinned(0, 128, 120), pinned(0, 128, 129)],
            &[pinned(0, 256, 128), pinned(0, 384, 8)],
        ]);
        assert_eq!(runs, [(0, 0, 384), (1, 0, 512)]);
        assert_eq!(layout.addresses(1000), [1000, 1384, 1128, 1512, 1256, 1768]);
        assert_eq!(layout.bytes(), StagingBytes { device: 896, pinned: 0 });
    }

    #[test]
    fn a_small_gap_is_copied_along_and_a_large_one_is_not() {
        let after = |gap| check(&[&[pinned(0, 0, 128)], &[pinned(0, 128 + gap, 128)]]);
        assert_eq!(after(GAP_BYTES_MAX).1, [(0, 0, GAP_BYTES_MAX + 256)]);
        assert_eq!(after(GAP_BYTES_MAX + 128).1.len(), 2);
        let (layout, _) = after(GAP_BYTES_MAX + 128);
        assert_eq!(layout.addresses(0), [0, 128]);
    }

    #[test]
    fn a_run_ends_with_its_extent() {
        let (layout, runs) = check(&[&[pinned(0, 1024, 128)], &[pinned(1, 1152, 128)], &[pinned(2, 0, 128)]]);
        assert_eq!(runs.len(), 3);
        assert_eq!(layout.addresses(0), [0, 128, 256]);
    }

    #[test]
    fn staged_chunks_come_first_and_kept_ones_take_nothing() {
        let (layout, _) = check(&[
            &[pinned(0, 0, 200), Piece::Staged(130), Piece::Cached(77)],
            &[pinned(0, 256, 200), Piece::Staged(1), Piece::Cached(99)],
        ]);
        assert_eq!(layout.addresses(10_000), [10_384, 10_000, 77, 10_640, 10_256, 99]);
        assert_eq!(layout.bytes(), StagingBytes { device: 384 + 512, pinned: 384 });
        assert_eq!(layout.copies().map(|(target, _)| target).collect::<Vec<_>>(), [384]);
    }

    #[test]
    fn compressed_chunks_are_at_the_end_and_decompressed_behind_staged_ones() {
        let compressed = |decompressed, compressed| Piece::Compressed { decompressed, compressed };
        let (layout, _) = check(&[
            &[compressed(1000, 256), Piece::Staged(130), pinned(0, 0, 200)],
            &[compressed(100, 128), Piece::Staged(1), pinned(0, 256, 200)],
        ]);
        assert_eq!(layout.addresses(10_000), [10_384, 10_000, 11_536, 11_408, 10_256, 11_792]);
        assert_eq!((layout.decompressed(), layout.compressed()), (384..1536, 2048..2432));
        assert_eq!(layout.bytes(), StagingBytes { device: 2432, pinned: 384 + 384 });
    }
}
