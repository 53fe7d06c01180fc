//! Copying by a kernel, between whatever memories a device reaches, where no copy engine is wanted.

use std::sync::Arc;

use pelton_device::{Span, Work};

use crate::library::{Library, cuda_form};
use crate::memory::{with_source, with_target};
use crate::sys;

/// Copies `source` to `target`. Fastest where both are equally far from a multiple of 16 bytes.
///
/// # Panics
///
/// If the lengths differ or the spans overlap.
pub fn copy(library: Option<&Arc<Library>>, source: Span, target: Span) -> Work {
    assert_eq!(source.len(), target.len(), "a copy is as long as what it is of");
    let bytes = source.len() as u64;
    let (source_address, target_address) = (source.address(), target.address());
    // Simulated sizes without bytes have addresses that mean nothing.
    let is_apart = !source.buffer().holds_bytes() || source_address.abs_diff(target_address) >= bytes;
    assert!(bytes == 0 || is_apart, "source and target overlap: {source:?}, {target:?}");
    let cuda = cuda_form(
        library,
        |entries| entries.copy,
        move |launch| sys::CopyArgs { source: source_address, target: target_address, bytes, launch },
    );
    Work::new("copy", vec![source.clone()], vec![target.clone()])
        .with_cuda(cuda)
        .with_host(move || with_source(&source, |from| with_target(&target, |to| to.copy_from_slice(from)))?)
}
