//! What arguments have to be: whole elements, aligned, apart; and bytes as elements.

use pelton_device::Span;

use crate::order::KeyType;

/// How many keys `span` holds.
///
/// # Panics
///
/// If they are not whole or not aligned.
pub(crate) fn key_count(span: &Span, key_type: KeyType) -> u64 {
    element_count(span, key_type.width_bytes())
}

/// How many elements of `width_bytes` there are in `span`.
///
/// # Panics
///
/// If they are not whole or not aligned.
pub(crate) fn element_count(span: &Span, width_bytes: usize) -> u64 {
    assert!(span.len().is_multiple_of(width_bytes), "{} bytes are no elements of {width_bytes}", span.len());
    let is_aligned = !span.buffer().holds_bytes() || span.address().is_multiple_of(width_bytes as u64);
    assert!(span.is_empty() || is_aligned, "elements of {width_bytes} bytes are aligned to as many");
    (span.len() / width_bytes) as u64
}

/// Bytes of each of `count` values in `span`: 4 or 8, and 4 if there are none.
///
/// # Panics
///
/// If they have another width or are not aligned.
pub(crate) fn value_width(span: &Span, count: u64) -> usize {
    let width_bytes = if span.len() as u64 == 8 * count && count > 0 { 8 } else { 4 };
    assert_eq!(element_count(span, width_bytes), count, "a value of 4 or 8 bytes for each key");
    width_bytes
}

/// Where two spans begin.
pub(crate) fn addresses(spans: &[Span; 2]) -> [u64; 2] {
    spans.each_ref().map(Span::address)
}

/// # Panics
///
/// If two of `spans` overlap.
pub(crate) fn assert_apart<'a>(spans: impl IntoIterator<Item = &'a Span>) {
    // Simulated sizes without bytes have addresses that mean nothing.
    let spans = spans.into_iter().filter(|span| !span.is_empty() && span.buffer().holds_bytes());
    let mut ranges: Vec<_> = spans.map(|span| (span.address(), span.address() + span.len() as u64)).collect();
    ranges.sort_unstable();
    for pair in ranges.windows(2) {
        assert!(pair[0].1 <= pair[1].0, "memory of one piece of work overlaps: {pair:x?}");
    }
}

/// # Panics
///
/// If two of `writes` overlap, or one of them and one of `reads`.
pub(crate) fn assert_written_apart(reads: &[Span], writes: &[Span]) {
    assert_apart(writes);
    reads.iter().for_each(|read| assert_apart([read].into_iter().chain(writes)));
}

/// Bytes as elements; the length has been checked.
pub(crate) fn as_elements<const N: usize>(bytes: &[u8]) -> &[[u8; N]] {
    bytes.as_chunks().0
}

/// As [`as_elements`], to write to.
pub(crate) fn as_elements_mut<const N: usize>(bytes: &mut [u8]) -> &mut [[u8; N]] {
    bytes.as_chunks_mut().0
}

/// Counts become the places where runs of as many elements begin.
pub(crate) fn exclusive_sums(counts: &mut [usize]) {
    let mut sum = 0;
    for count in counts {
        sum += std::mem::replace(count, sum);
    }
}
