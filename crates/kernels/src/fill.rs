//! Filling memory with words: random ones, or all alike.

use std::sync::Arc;

use pelton_device::{Span, Work};

use crate::library::{Library, cuda_form};
use crate::memory::with_target;
use crate::mix::{WORD_BYTES, random_word};
use crate::sys;

/// Fills `target` with the output of splitmix64 seeded with `seed`: word i holds
/// [`random_word(seed, i)`](crate::random_word), little-endian, the last one cut to what is left.
pub fn fill_random(library: Option<&Arc<Library>>, target: Span, seed: u64) -> Work {
    let (address, bytes) = (target.address(), target.len() as u64);
    let cuda = cuda_form(
        library,
        |entries| entries.fill_random,
        move |launch| sys::FillRandomArgs { target: address, bytes, seed, launch },
    );
    Work::new("fill_random", vec![], vec![target.clone()])
        .with_cuda(cuda)
        .with_host(move || with_target(&target, |bytes| fill(bytes, |index| random_word(seed, index))))
}

/// Fills `target` with `word`, little-endian, again and again, the last one cut to what is left. With 0 it clears.
pub fn fill_word(library: Option<&Arc<Library>>, target: Span, word: u64) -> Work {
    let (address, bytes) = (target.address(), target.len() as u64);
    let cuda = cuda_form(
        library,
        |entries| entries.fill_word,
        move |launch| sys::FillWordArgs { target: address, bytes, word, launch },
    );
    Work::new("fill_word", vec![], vec![target.clone()])
        .with_cuda(cuda)
        .with_host(move || with_target(&target, |bytes| fill(bytes, |_| word)))
}

fn fill(bytes: &mut [u8], word: impl Fn(u64) -> u64) {
    let (whole, rest) = bytes.as_chunks_mut::<WORD_BYTES>();
    let rest_index = whole.len() as u64;
    for (index, target) in (0..).zip(whole) {
        *target = word(index).to_le_bytes();
    }
    let rest_len = rest.len();
    rest.copy_from_slice(&word(rest_index).to_le_bytes()[..rest_len]);
}
