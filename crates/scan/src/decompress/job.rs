//! A compressed morsel: what is copied over the link, and the words that say how it is decompressed.
//!
//! ```text
//!   compressed │ body of chunk │ body of chunk │ … │ words                                                │
//!   body       │ directory, without codec │ section │ section │ …          each at a multiple of 128
//!   words      │ moves: source, target, bytes, zeros                                                      │
//!              │ sources │ stored bytes │ targets │ target bytes │ written bytes │ statuses (32 bits)      │
//! ```
//!
//! The last six are arrays with an entry for each section that the device decompresses. Written bytes and statuses are
//! the device's to write; they go over the link as all ones, so that a section that nobody decompressed is found out.

use std::ops::Range;

use pelton_chunk::{
    ChunkView, Codec, Section, decompressed_bytes, directory_bytes, sections, write_decompressed_directory,
};
use pelton_device::Span;
use pelton_error::Result;

use crate::extent::CHUNK_ALIGN;

/// Larger sections are the host's: a device goes through one section at some 30 MB/s (an H200 through 1000 at once at
/// 33 GB/s, nvCOMP 6.0, Zstd), a core at 1 GB/s, so one of this size keeps a morsel waiting for 8 ms.
pub(crate) const SECTION_BYTES_MAX: usize = 256 << 10;
/// A warp moves so much at most, so that large parts are shared among many. A guess.
const MOVE_BYTES_MAX: usize = 32 << 10;
const MOVE_WORDS: usize = 4;
const WORD_BYTES: usize = 8;
const MOVE_BYTES: usize = MOVE_WORDS * WORD_BYTES;
/// Five words and a status, rounded up.
const SECTION_WORDS_BYTES: usize = 6 * WORD_BYTES;

/// What a compressed chunk takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CompressedSize {
    /// Of compressed bytes: its body.
    pub(crate) body: usize,
    /// Of compressed bytes: its share of the words, at most.
    words: usize,
}

impl CompressedSize {
    /// Of a chunk that is here.
    pub(crate) fn of(view: &ChunkView<'_>) -> Self {
        let directory = directory_bytes(view);
        let mut compressed_size = Self { body: directory, words: moves_of(directory) * MOVE_BYTES };
        for section in sections(view) {
            compressed_size.body += compressed_section_bytes(&section).next_multiple_of(CHUNK_ALIGN);
            compressed_size.words += match is_for_device(&section) {
                // A move for the zeros behind it.
                true => MOVE_BYTES + SECTION_WORDS_BYTES,
                false => moves_of(section.decompressed.len()) * MOVE_BYTES,
            };
        }
        compressed_size
    }

    /// Of a chunk of which the directory of chunks is all that is known.
    pub(crate) fn estimated(stored_bytes: usize, decompressed_bytes: usize, section_count: usize) -> Self {
        let moves = section_count + 1 + decompressed_bytes / MOVE_BYTES_MAX;
        Self {
            body: stored_bytes.next_multiple_of(CHUNK_ALIGN),
            words: moves * MOVE_BYTES + section_count * SECTION_WORDS_BYTES,
        }
    }

    /// Both.
    pub(crate) fn bytes(&self) -> usize {
        self.body + self.words.next_multiple_of(CHUNK_ALIGN)
    }
}

fn moves_of(bytes: usize) -> usize {
    bytes.div_ceil(MOVE_BYTES_MAX).max(1)
}

fn is_for_device(section: &Section) -> bool {
    section.is_compressed() && section.decompressed.len() <= SECTION_BYTES_MAX
}

fn compressed_section_bytes(section: &Section) -> usize {
    if is_for_device(section) { section.stored.len() } else { section.decompressed.len() }
}

/// A chunk of a morsel and where it goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Body {
    pub(crate) row_group: usize,
    pub(crate) column: usize,
    /// Its first byte in the compressed bytes.
    pub(crate) compressed: usize,
    /// Its first byte among the decompressed ones.
    pub(crate) target: usize,
}

/// A part of a body.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) body: Body,
    /// What the device decompresses; `None` where it is copied.
    pub(crate) section: Option<(Codec, Section)>,
    /// Of the compressed bytes.
    pub(crate) compressed: Range<usize>,
    /// Of the decompressed bytes.
    pub(crate) target: Range<usize>,
    /// Zeros behind it.
    zeros: usize,
}

/// Writes the body of a verified chunk to `compressed`, all of it; answers its parts, in order.
///
/// # Errors
///
/// `Corrupt` where a section that is the host's does not decompress.
pub(crate) fn write_body(
    view: &ChunkView<'_>,
    chunk: &[u8],
    body: Body,
    compressed: &mut [u8],
) -> Result<Vec<Part>> {
    let codec = view.encoding().codec;
    let mut end = directory_bytes(view);
    write_decompressed_directory(view, &mut compressed[..end]);
    let directory = Part { body, section: None, compressed: 0..end, target: 0..end, zeros: 0 };
    let mut parts = vec![directory];
    for section in sections(view) {
        let room = end..end + compressed_section_bytes(&section);
        let target = section.decompressed.clone();
        let bytes = &mut compressed[room.clone()];
        let section = match is_for_device(&section) {
            true => {
                bytes.copy_from_slice(&chunk[section.stored.clone()]);
                Some((codec, section))
            }
            false => {
                section.expand(codec, chunk, bytes)?;
                None
            }
        };
        end = room.end.next_multiple_of(CHUNK_ALIGN);
        parts.push(Part { body, section, compressed: room, target, zeros: 0 });
    }
    fill_gaps(&mut parts, decompressed_bytes(view).next_multiple_of(CHUNK_ALIGN));
    for part in &mut parts {
        part.compressed = part.compressed.start + body.compressed..part.compressed.end + body.compressed;
        part.target = part.target.start + body.target..part.target.end + body.target;
    }
    Ok(parts)
}

/// Zeros from each part's end to the next one's start, and from the last one's to `room`.
fn fill_gaps(parts: &mut [Part], room: usize) {
    let starts: Vec<usize> = parts.iter().skip(1).map(|part| part.target.start).chain([room]).collect();
    for (part, next) in parts.iter_mut().zip(starts) {
        part.zeros = next - part.target.end;
    }
}

/// The decompression of a morsel.
#[derive(Debug)]
pub(crate) struct Job {
    /// On the device, words included.
    pub(crate) compressed: Span,
    /// The chunks without codec.
    pub(crate) target: Span,
    /// What decoders work in.
    pub(crate) temp: Span,
    pub(crate) words: Words,
    /// Sections from the first on, as many as each says.
    pub(crate) batches: Vec<Batch>,
}

/// Sections that are decompressed at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Batch {
    pub(crate) codec: Codec,
    pub(crate) first: usize,
    pub(crate) count: usize,
    /// Decompressed, of the largest.
    pub(crate) section_bytes_max: usize,
}

impl Job {
    /// The address of the moves, and their number.
    pub(super) fn moves(&self) -> (u64, usize) {
        (self.compressed.address() + self.words.start as u64, self.words.moves)
    }
}

/// Where the words are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Words {
    /// Of the compressed bytes, a multiple of 8.
    start: usize,
    moves: usize,
    /// Sections that the device decompresses.
    pub(crate) sections: usize,
}

/// Addresses of what a job is about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Addresses {
    pub(crate) compressed: u64,
    pub(crate) target: u64,
}

impl Words {
    /// Writes the words of `parts` to `compressed` from byte `start` on. Sections are numbered in the order of their
    /// parts.
    pub(crate) fn write(compressed: &mut [u8], start: usize, parts: &[Part], at: Addresses) -> Self {
        let mut end = start;
        let mut put = |word: u64| {
            compressed[end..end + WORD_BYTES].copy_from_slice(&word.to_le_bytes());
            end += WORD_BYTES;
        };
        let moves: Vec<[u64; MOVE_WORDS]> = parts.iter().flat_map(|part| part.moves(at)).collect();
        moves.iter().flatten().for_each(|word| put(*word));
        let sections: Vec<&Part> = parts.iter().filter(|part| part.section.is_some()).collect();
        sections.iter().for_each(|part| put(at.compressed + part.compressed.start as u64));
        sections.iter().for_each(|part| put(part.compressed.len() as u64));
        sections.iter().for_each(|part| put(at.target + part.target.start as u64));
        sections.iter().for_each(|part| put(part.target.len() as u64));
        let words = Self { start, moves: moves.len(), sections: sections.len() };
        compressed[words.outcome()].fill(0xFF);
        words
    }

    /// Array `index` of those with an entry for each section, in bytes of the compressed ones.
    fn array(&self, index: usize) -> usize {
        self.start + self.moves * MOVE_BYTES + index * self.sections * WORD_BYTES
    }

    pub(super) fn sources(&self) -> usize {
        self.array(0)
    }

    pub(super) fn stored_bytes(&self) -> usize {
        self.array(1)
    }

    pub(super) fn targets(&self) -> usize {
        self.array(2)
    }

    pub(super) fn target_bytes(&self) -> usize {
        self.array(3)
    }

    pub(super) fn written_bytes(&self) -> usize {
        self.array(4)
    }

    pub(super) fn statuses(&self) -> usize {
        self.array(5)
    }

    /// What the device writes: written bytes and statuses.
    pub(crate) fn outcome(&self) -> Range<usize> {
        self.written_bytes()..self.statuses() + self.sections * size_of::<i32>()
    }

    /// Written bytes and status of section `index`, from compressed bytes that hold its outcome.
    pub(crate) fn outcome_of(&self, compressed: &[u8], index: usize) -> (u64, i32) {
        let written = &compressed[self.written_bytes() + index * WORD_BYTES..][..WORD_BYTES];
        let status = &compressed[self.statuses() + index * size_of::<i32>()..][..size_of::<i32>()];
        (
            u64::from_le_bytes(written.try_into().expect("8 bytes")),
            i32::from_le_bytes(status.try_into().expect("4 bytes")),
        )
    }
}

impl Part {
    /// What is copied for it, and its zeros.
    fn moves(&self, at: Addresses) -> Vec<[u64; MOVE_WORDS]> {
        let word = |base: u64, offset: usize| base + offset as u64;
        if self.section.is_some() {
            let zeros = [at.compressed, word(at.target, self.target.end), 0, self.zeros as u64];
            return if self.zeros == 0 { Vec::new() } else { vec![zeros] };
        }
        let starts = (0..self.compressed.len().max(1)).step_by(MOVE_BYTES_MAX);
        starts
            .map(|start| {
                let bytes = (self.compressed.len() - start).min(MOVE_BYTES_MAX);
                let is_last = start + bytes == self.compressed.len();
                let zeros = if is_last { self.zeros } else { 0 };
                let (source, target) = (self.compressed.start + start, self.target.start + start);
                [word(at.compressed, source), word(at.target, target), bytes as u64, zeros as u64]
            })
            .collect()
    }
}
