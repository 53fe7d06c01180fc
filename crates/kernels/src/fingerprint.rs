//! Fingerprints: two words that tell whether memory holds what it should, wherever it lies.
//!
//! The fingerprint of n words is the sum modulo 2^64, and the exclusive or, of one term a word, each term a mix of
//! the word and its number. So pieces may be processed in any order, by any number of threads and streams, and add
//! up to the fingerprint of the whole. It finds accidents (bytes lost, doubled, moved, changed), not attacks.

use std::fmt;
use std::sync::Arc;

use pelton_device::{Span, Work};

use crate::library::{Library, cuda_form};
use crate::memory::{Accumulator, assert_accumulator, with_source};
use crate::mix::{WORD_BYTES, fingerprint_term, words};
use crate::sys;

/// A fingerprint of bytes; [`Default`] is that of none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Fingerprint {
    /// Sum of all terms, modulo 2^64.
    pub sum: u64,
    /// Exclusive or of all terms.
    pub exclusive_or: u64,
}

impl Fingerprint {
    /// Length of an accumulator, bytes.
    pub const BYTES: usize = 2 * WORD_BYTES;

    /// The fingerprint of `bytes` as a piece of something longer, whose word `first_word` they begin with.
    pub fn of_piece(bytes: &[u8], first_word: u64) -> Self {
        let mut total = Self::default();
        for (index, (word, byte_count)) in (0..).zip(words(bytes)) {
            let term = fingerprint_term(first_word.wrapping_add(index), word, byte_count);
            total = total.with(Self { sum: term, exclusive_or: term });
        }
        total
    }

    /// What an accumulator holds.
    pub fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        let mut words = words(&bytes).map(|(word, _)| word);
        Self { sum: words.next().unwrap_or(0), exclusive_or: words.next().unwrap_or(0) }
    }

    /// This and another piece together.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self { sum: self.sum.wrapping_add(other.sum), exclusive_or: self.exclusive_or ^ other.exclusive_or }
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}{:016x}", self.sum, self.exclusive_or)
    }
}

/// The fingerprint of `bytes`.
pub fn fingerprint_of(bytes: &[u8]) -> Fingerprint {
    Fingerprint::of_piece(bytes, 0)
}

/// Adds the fingerprint of `source` to `accumulator`. `source` is a piece of something longer, and begins with its
/// word `first_word`; pieces but the last are whole words.
///
/// # Panics
///
/// If `accumulator` is not [`Fingerprint::BYTES`] long and aligned to 8 bytes.
pub fn fingerprint(library: Option<&Arc<Library>>, source: Span, first_word: u64, accumulator: Span) -> Work {
    assert_accumulator(&accumulator, 2);
    let (address, bytes, total) = (source.address(), source.len() as u64, accumulator.address());
    let cuda = cuda_form(
        library,
        |entries| entries.fingerprint,
        move |launch| sys::FingerprintArgs { source: address, bytes, first_word, accumulator: total, launch },
    );
    Work::new("fingerprint", vec![source.clone()], vec![accumulator.clone()]).with_cuda(cuda).with_host(
        move || {
            let piece = with_source(&source, |bytes| Fingerprint::of_piece(bytes, first_word))?;
            let total = Accumulator::of(&accumulator)?;
            total.add(0, piece.sum);
            total.exclusive_or(1, piece.exclusive_or);
            Ok(())
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_add_up_to_the_whole() {
        let bytes: Vec<u8> = (0..=255).cycle().take(1001).collect();
        for cut in [0, 8, 16, 496, 1000] {
            let (first, second) = bytes.split_at(cut);
            let second = Fingerprint::of_piece(second, cut as u64 / 8);
            assert_eq!(second.with(fingerprint_of(first)), fingerprint_of(&bytes), "cut at {cut}");
        }
    }

    #[test]
    fn what_accidents_do_to_bytes_shows() {
        let bytes: Vec<u8> = (0..=255).cycle().take(1000).collect();
        let whole = fingerprint_of(&bytes);
        let mut other = bytes.clone();
        other[500] ^= 1;
        assert_ne!(fingerprint_of(&other), whole, "a bit flipped");
        assert_ne!(fingerprint_of(&bytes[..999]), whole, "a byte lost");
        let mut swapped = bytes.clone();
        swapped[0..16].rotate_left(8);
        assert_ne!(fingerprint_of(&swapped), whole, "words swapped");
        assert_ne!(fingerprint_of(&[0; 16]), fingerprint_of(&[0; 8]), "zeros counted");
        assert_ne!(fingerprint_of(&[0; 7]), fingerprint_of(&[0; 8]), "a short word of zeros");
        assert_ne!(fingerprint_of(&[0]), Fingerprint::default(), "a zero is not nothing");
    }

    #[test]
    fn an_accumulator_is_read_as_it_was_written() {
        let one = fingerprint_of(b"Pelton");
        let mut bytes = [0; Fingerprint::BYTES];
        bytes[..8].copy_from_slice(&one.sum.to_le_bytes());
        bytes[8..].copy_from_slice(&one.exclusive_or.to_le_bytes());
        assert_eq!(Fingerprint::from_bytes(bytes), one);
        assert_eq!(one.to_string().len(), 32);
    }
}
