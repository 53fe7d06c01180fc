//! Reading memory from one end to the other: what bandwidth is measured with.

use std::sync::Arc;

use pelton_device::{Span, Work};

use crate::library::{Library, cuda_form};
use crate::memory::{Accumulator, assert_accumulator, with_source};
use crate::mix::{WORD_BYTES, short_word};
use crate::sys;

/// Reads all of `source` and adds the sum of its words, modulo 2^64, to `accumulator`; see [`sum_of_words`]. A source
/// aligned to 16 bytes is read fastest.
///
/// # Panics
///
/// If `accumulator` is not 8 bytes long and aligned to 8 bytes.
pub fn read(library: Option<&Arc<Library>>, source: Span, accumulator: Span) -> Work {
    assert_accumulator(&accumulator, 1);
    let (address, bytes, total) = (source.address(), source.len() as u64, accumulator.address());
    let cuda = cuda_form(
        library,
        |entries| entries.read,
        move |launch| sys::ReadArgs { source: address, bytes, accumulator: total, launch },
    );
    Work::new("read", vec![source.clone()], vec![accumulator.clone()]).with_cuda(cuda).with_host(move || {
        let sum = with_source(&source, sum_of_words)?;
        Accumulator::of(&accumulator)?.add(0, sum);
        Ok(())
    })
}

/// The sum, modulo 2^64, of `bytes` as little-endian words of 8 bytes; zeros follow a last one that is cut short.
pub fn sum_of_words(bytes: &[u8]) -> u64 {
    let (whole, rest) = bytes.as_chunks::<WORD_BYTES>();
    let sum = whole.iter().fold(0_u64, |sum, word| sum.wrapping_add(u64::from_le_bytes(*word)));
    sum.wrapping_add(short_word(rest))
}
