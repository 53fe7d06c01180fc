//! Elements at the places that an index names: rows brought into the order of a sort.
//!
//! Access: indices and target in order, the source at random; fastest where neighbouring indices are near each other.
//! Traffic: each index read once, each element written once, and for each at least a sector (32 bytes) of the source.

use std::sync::Arc;
use std::time::Duration;

use pelton_device::{Access, Cost, Span, Work};
use pelton_error::Result;

use crate::library::{Library, cuda_form};
use crate::memory::{with_source, with_target};
use crate::shape::{as_elements, as_elements_mut, assert_apart, element_count};
use crate::sys;

/// What names places.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum IndexType {
    /// 32 bits.
    U32 = 4,
    /// 64 bits.
    U64 = 8,
}

impl IndexType {
    /// Bytes of an index.
    pub const fn width_bytes(self) -> usize {
        self as usize
    }
}

/// Element i of `target` becomes element `indices[i]` of `source`; zeros where there is none, so that an index of all
/// ones can stand for a row that does not exist. Elements are of `width_bytes`: 1, 2, 4, 8 or 16.
///
/// # Panics
///
/// If the width is none of these, `target` has another number of elements than there are indices, or spans are not
/// whole elements, not aligned to them, or overlap.
pub fn take(
    library: Option<&Arc<Library>>,
    width_bytes: usize,
    source: Span,
    index_type: IndexType,
    indices: Span,
    target: Span,
) -> Work {
    assert!(
        matches!(width_bytes, 1 | 2 | 4 | 8 | 16),
        "elements of 1, 2, 4, 8 or 16 bytes, not {width_bytes}"
    );
    let source_count = element_count(&source, width_bytes);
    let count = element_count(&indices, index_type.width_bytes());
    assert_eq!(element_count(&target, width_bytes), count, "an element for each index");
    let (from, index, to) = (source.address(), indices.address(), target.address());
    let cuda = cuda_form(
        library,
        |entries| entries.take,
        move |launch| sys::TakeArgs {
            source: from,
            source_count,
            indices: index,
            count,
            target: to,
            width_bytes: width_bytes as u32,
            index_bytes: index_type as u32,
            launch,
        },
    );
    work(
        "take",
        width_bytes,
        count,
        source,
        indices,
        target,
        move |source, indices, target| match width_bytes {
            1 => host_take::<1>(source, index_type, indices, target),
            2 => host_take::<2>(source, index_type, indices, target),
            4 => host_take::<4>(source, index_type, indices, target),
            8 => host_take::<8>(source, index_type, indices, target),
            _ => host_take::<16>(source, index_type, indices, target),
        },
    )
    .with_cuda(cuda)
}

/// Bit i of `target` becomes bit `indices[i]` of the `bit_count` bits in `source`, 0 where there is none: validity as
/// Arrow has it, bit i being bit i modulo 8 of byte i / 8. Bits of the last byte beyond the last index become 0.
///
/// # Panics
///
/// If `source` has fewer bits, `target` is not as many bytes as bits of all indices need, indices are not whole or
/// not aligned, or spans overlap.
pub fn take_bits(
    library: Option<&Arc<Library>>,
    source: Span,
    bit_count: u64,
    index_type: IndexType,
    indices: Span,
    target: Span,
) -> Work {
    assert!(bit_count.div_ceil(8) <= source.len() as u64, "{bit_count} bits in {} bytes", source.len());
    let count = element_count(&indices, index_type.width_bytes());
    assert_eq!(target.len() as u64, count.div_ceil(8), "a bit for each index");
    let (from, index, to) = (source.address(), indices.address(), target.address());
    let cuda = cuda_form(
        library,
        |entries| entries.take_bits,
        move |launch| sys::TakeBitsArgs {
            source: from,
            source_count: bit_count,
            indices: index,
            count,
            target: to,
            index_bytes: index_type as u64,
            launch,
        },
    );
    work("take bits", 1, count, source, indices, target, move |source, indices, target| {
        let bit = |index: u64| index < bit_count && source[(index / 8) as usize] >> (index % 8) & 1 == 1;
        target.fill(0);
        for (place, index) in each_index(index_type, indices).enumerate() {
            target[place / 8] |= u8::from(bit(index)) << (place % 8);
        }
    })
    .with_cuda(cuda)
}

fn work(
    name: &'static str,
    width_bytes: usize,
    count: u64,
    source: Span,
    indices: Span,
    target: Span,
    host: impl FnOnce(&[u8], &[u8], &mut [u8]) + Send + 'static,
) -> Work {
    assert_apart([&source, &indices, &target]);
    // One access for all three: random, as the source is, though indices and target are not.
    let cost = Cost {
        access: Access::Random { width_bytes: width_bytes as u32 },
        read_bytes: Some(vec![count * width_bytes as u64, indices.len() as u64]),
        compute: Duration::ZERO,
        ..Cost::STREAMING
    };
    let (reads, writes) = (vec![source.clone(), indices.clone()], vec![target.clone()]);
    Work::new(name, reads, writes).with_cost(cost).with_host(move || -> Result<()> {
        with_source(&source, |source| {
            with_source(&indices, |indices| with_target(&target, |target| host(source, indices, target)))
        })??
    })
}

fn host_take<const N: usize>(source: &[u8], index_type: IndexType, indices: &[u8], target: &mut [u8]) {
    let source = as_elements::<N>(source);
    for (element, index) in as_elements_mut::<N>(target).iter_mut().zip(each_index(index_type, indices)) {
        *element = usize::try_from(index).ok().and_then(|index| source.get(index)).copied().unwrap_or([0; N]);
    }
}

fn each_index(index_type: IndexType, indices: &[u8]) -> impl Iterator<Item = u64> + '_ {
    indices.chunks_exact(index_type.width_bytes()).map(crate::mix::short_word)
}
