//! Groups of sorted elements: where each begins, and where each element's begins and ends.
//!
//! ```text
//!   words     7 7 7 9 9        sorted; masks say which of their bits tell groups of a level apart
//!   flags     1 0 0 1 0        bit l: a group of level l begins
//!   first     0 0 0 3 3
//!   last      2 2 2 4 4
//! ```
//!
//! Groups of several words are marked word by word. Traffic of an element: 9 bytes to mark the first word, 10 each further
//! one; 5 for an edge.

use std::sync::Arc;

use pelton_device::{Span, Work};

use crate::library::{Library, cuda_form};
use crate::memory::{with_sources, with_target};
use crate::mix::short_word;
use crate::scan::scan_scratch_bytes;
use crate::shape::{assert_apart, element_count};
use crate::sys;

/// Levels of grouping at most: bits of a flag.
pub const GROUP_LEVELS_MAX: usize = sys::GROUP_LEVELS;

/// Bit l of `flags`, a byte a word, becomes whether a group of level l begins there: whether bits `masks[l]` differ from
/// those of the word before, or there is none. Unless it `is_first`, bits that are set stay so.
///
/// # Panics
///
/// If there are more masks than [`GROUP_LEVELS_MAX`], flags are not as many as words, words are not whole or not aligned, or
/// spans overlap.
pub fn mark_groups(
    library: Option<&Arc<Library>>,
    words: Span,
    masks: &[u64],
    flags: Span,
    is_first: bool,
) -> Work {
    assert!(masks.len() <= GROUP_LEVELS_MAX, "{} levels of groups", masks.len());
    let count = element_count(&words, 8);
    assert_eq!(flags.len() as u64, count, "a flag for each word");
    assert_apart([&words, &flags]);
    let mut all = [0; GROUP_LEVELS_MAX];
    all[..masks.len()].copy_from_slice(masks);
    let (from, to) = (words.address(), flags.address());
    let cuda = cuda_form(
        library,
        |entries| entries.mark_groups,
        move |launch| sys::MarkGroupsArgs {
            words: from,
            flags: to,
            count,
            masks: all,
            is_first: is_first.into(),
            launch,
        },
    );
    let reads = if is_first { vec![words.clone()] } else { vec![words.clone(), flags.clone()] };
    Work::new("mark groups", reads, vec![flags.clone()]).with_cuda(cuda).with_host(move || {
        with_sources(&[&words], |sources| {
            with_target(&flags, |flags| {
                let words: Vec<u64> = sources[0].chunks_exact(8).map(short_word).collect();
                for (index, flag) in flags.iter_mut().enumerate() {
                    let differ = index.checked_sub(1).map(|before| words[index] ^ words[before]);
                    let begins = |mask: &u64| differ.is_none_or(|differ| differ & mask != 0);
                    let bits = all.iter().enumerate().map(|(level, mask)| u8::from(begins(mask)) << level);
                    *flag = bits.fold(if is_first { 0 } else { *flag }, |bits, bit| bits | bit);
                }
            })
        })?
    })
}

/// An end of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GroupEdge {
    /// Its first element.
    First,
    /// Its last one.
    Last,
}

/// Element i of `target`, 32 bits, becomes the number of the first or last element of the group of `level` that i is in, by
/// flags of [`mark_groups`]. `scratch` is that of [`scan_scratch_bytes`].
///
/// # Panics
///
/// If flags are not as many as elements or more than 2^32, there is no such level, elements are not whole or not aligned,
/// spans overlap, or scratch is short.
pub fn group_edges(
    library: Option<&Arc<Library>>,
    edge: GroupEdge,
    level: usize,
    flags: Span,
    target: Span,
    scratch: Span,
) -> Work {
    assert!(level < GROUP_LEVELS_MAX, "level {level} of groups");
    let count = element_count(&target, 4);
    assert_eq!(flags.len() as u64, count, "a flag for each element");
    assert!(count <= 1 << 32, "numbers of elements have 32 bits");
    assert!(scratch.len() >= scan_scratch_bytes(count), "scratch of {} bytes is short", scratch.len());
    assert_apart([&flags, &target, &scratch]);
    let flag = 1_u8 << level;
    let args = sys::GroupEdgesArgs {
        flags: flags.address(),
        target: target.address(),
        count,
        scratch: scratch.address(),
        scratch_bytes: scratch.len() as u64,
        flag: flag.into(),
        is_last: (edge == GroupEdge::Last).into(),
        launch: sys::Launch { multiprocessors: 0, policy: 0 },
    };
    let form = move |launch| sys::GroupEdgesArgs { launch, ..args };
    let cuda = cuda_form(library, |entries| entries.group_edges, form);
    let (reads, writes) = (vec![flags.clone()], vec![target.clone(), scratch]);
    Work::new("edges of groups", reads, writes).with_cuda(cuda).with_host(move || {
        with_sources(&[&flags], |sources| {
            with_target(&target, |target| {
                let begins = |index: usize| sources[0][index] & flag != 0;
                let count = sources[0].len();
                let mut of_group = 0_u32;
                let mut put = |index: usize, is_edge: bool| {
                    if is_edge {
                        of_group = index as u32;
                    }
                    target[4 * index..4 * index + 4].copy_from_slice(&of_group.to_le_bytes());
                };
                match edge {
                    GroupEdge::First => (0..count).for_each(|index| put(index, begins(index))),
                    GroupEdge::Last => {
                        (0..count)
                            .rev()
                            .for_each(|index| put(index, index + 1 == count || begins(index + 1)));
                    }
                }
            })
        })?
    })
}
