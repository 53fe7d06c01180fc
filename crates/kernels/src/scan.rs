//! Sums of all that is before: from counts to places.
//!
//! For CUDA it is CUB's scan: one pass, in which blocks look back at the sums of those before them (D. Merrill,
//! M. Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back", 2016). Traffic: each element read once and
//! written once.

use std::sync::Arc;

use pelton_device::{Span, Work};

use crate::library::{Library, cuda_form};
use crate::memory::{with_source, with_target};
use crate::mix::short_word;
use crate::shape::{assert_apart, element_count};
use crate::sys;

/// Bytes of scratch for a scan of `count` elements; needs no device. A bound of what CUB asks for, which is some 20 bytes
/// a tile; that tiles have 512 elements at least is a guess of ours, and scratch that is too short is an error at launch.
pub const fn scan_scratch_bytes(count: u64) -> usize {
    4096 + (count / 512 * 32) as usize
}

/// Element i of `target` becomes the sum of the elements of `source` before i, modulo 2 to their bits. Elements are of
/// `width_bytes`, 4 or 8, without a sign. `target` may be `source`.
///
/// # Panics
///
/// If the width is neither 4 nor 8, the lengths differ, elements are not whole or not aligned, spans overlap otherwise,
/// or `scratch` is shorter than [`scan_scratch_bytes`].
pub fn exclusive_scan(
    library: Option<&Arc<Library>>,
    width_bytes: usize,
    source: Span,
    target: Span,
    scratch: Span,
) -> Work {
    assert!(width_bytes == 4 || width_bytes == 8, "elements of 4 or 8 bytes, not {width_bytes}");
    let count = element_count(&source, width_bytes);
    assert_eq!(element_count(&target, width_bytes), count, "as many sums as elements");
    assert!(scratch.len() >= scan_scratch_bytes(count), "scratch of {} bytes is short", scratch.len());
    if source.address() == target.address() {
        assert_apart([&source, &scratch]);
    } else {
        assert_apart([&source, &target, &scratch]);
    }
    let args = sys::ScanArgs {
        source: source.address(),
        target: target.address(),
        count,
        scratch: scratch.address(),
        scratch_bytes: scratch.len() as u64,
        width_bytes: width_bytes as u64,
        launch: sys::Launch { multiprocessors: 0, policy: 0 },
    };
    let cuda = cuda_form(library, |entries| entries.scan, move |launch| sys::ScanArgs { launch, ..args });
    let (reads, writes) = (vec![source.clone()], vec![target.clone(), scratch]);
    Work::new("scan", reads, writes).with_cuda(cuda).with_host(move || {
        let mut sum = 0_u64;
        let mut before = |element: u64| {
            let before = sum;
            sum = sum.wrapping_add(element);
            before
        };
        // Through a copy: the spans may be one.
        let sums: Vec<u64> = with_source(&source, |source| {
            source.chunks_exact(width_bytes).map(|element| before(short_word(element))).collect()
        })?;
        with_target(&target, |target| {
            for (element, sum) in target.chunks_exact_mut(width_bytes).zip(sums) {
                element.copy_from_slice(&sum.to_le_bytes()[..width_bytes]);
            }
        })
    })
}
