//! Spans as the host forms of work see them: slices of bytes, and accumulators.
//!
//! The forms run on a thread of their stream, in turn, while the stream holds leases on their spans. What one thread
//! of the host may touch is decided here: memory of the host, and memory of devices that are no hardware.

use std::sync::atomic::{AtomicU64, Ordering};

use pelton_device::{DeviceKind, Span};
use pelton_error::{Error, Result};

use crate::mix::WORD_BYTES;

/// Lets `look` see the bytes of `span`.
///
/// # Errors
///
/// `Unsupported` if the host's cores do not reach them.
pub(crate) fn with_source<R>(span: &Span, look: impl FnOnce(&[u8]) -> R) -> Result<R> {
    check_reach(span)?;
    if span.is_empty() {
        return Ok(look(&[]));
    }
    // SAFETY: the memory is the host's to reach and in bounds. It is alive: `span` keeps its buffer. The host's own
    // writers are kept out by the lease that the stream holds for this work; operations of other streams that write
    // to it are the caller's to order by events, as on every device.
    Ok(look(unsafe { std::slice::from_raw_parts(span.address() as *const u8, span.len()) }))
}

/// Lets `look` see the bytes of each of `spans`.
///
/// # Errors
///
/// As [`with_source`].
pub(crate) fn with_sources<R>(spans: &[&Span], look: impl FnOnce(&[&[u8]]) -> R) -> Result<R> {
    let bytes = spans.iter().map(|span| {
        check_reach(span)?;
        if span.is_empty() {
            return Ok(&[][..]);
        }
        // SAFETY: as in `with_source`; the spans outlive the call.
        Ok(unsafe { std::slice::from_raw_parts(span.address() as *const u8, span.len()) })
    });
    Ok(look(&bytes.collect::<Result<Vec<&[u8]>>>()?))
}

/// Lets `change` have the bytes of `span`.
///
/// # Errors
///
/// `Unsupported` if the host's cores do not reach them.
pub(crate) fn with_target<R>(span: &Span, change: impl FnOnce(&mut [u8]) -> R) -> Result<R> {
    check_reach(span)?;
    if span.is_empty() {
        return Ok(change(&mut []));
    }
    // SAFETY: as above; and the lease for writing keeps the host's own readers out as well.
    Ok(change(unsafe { std::slice::from_raw_parts_mut(span.address() as *mut u8, span.len()) }))
}

/// Words that results are added to.
pub(crate) struct Accumulator<'a> {
    span: &'a Span,
}

impl<'a> Accumulator<'a> {
    /// The words of `span`, which [`assert_accumulator`] has seen.
    ///
    /// # Errors
    ///
    /// `Unsupported` if the host's cores do not reach them.
    pub(crate) fn of(span: &'a Span) -> Result<Self> {
        check_reach(span)?;
        Ok(Self { span })
    }

    /// Adds `value` to word `index`, modulo 2^64.
    pub(crate) fn add(&self, index: usize, value: u64) {
        self.word(index).fetch_add(value, Ordering::Relaxed);
    }

    /// Combines `value` with word `index` by exclusive or.
    pub(crate) fn exclusive_or(&self, index: usize, value: u64) {
        self.word(index).fetch_xor(value, Ordering::Relaxed);
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        assert!((index + 1) * WORD_BYTES <= self.span.len(), "word {index} of an accumulator of fewer");
        let address = self.span.address() as usize + index * WORD_BYTES;
        assert!(address.is_multiple_of(WORD_BYTES), "an accumulator is aligned to words");
        // SAFETY: the word is in bounds, aligned and alive, as for slices. All forms of work touch accumulators by
        // atomics alone, so streams may share one.
        unsafe { AtomicU64::from_ptr(address as *mut u64) }
    }
}

/// Panics unless `span` holds `word_count` words of an accumulator.
pub(crate) fn assert_accumulator(span: &Span, word_count: usize) {
    assert_eq!(span.len(), word_count * WORD_BYTES, "an accumulator of {word_count} words");
    assert!(span.address().is_multiple_of(WORD_BYTES as u64), "an accumulator is aligned to words");
}

fn check_reach(span: &Span) -> Result<()> {
    let buffer = span.buffer();
    if !buffer.holds_bytes() {
        return Err(Error::unsupported(format!("{}: simulated sizes have no bytes to work on", span.kind())));
    }
    let is_hardware = |kind: &DeviceKind| matches!(kind, DeviceKind::Cuda { .. });
    let devices = &buffer.machine().info().devices;
    if !span.kind().is_host_visible() && devices.iter().any(|device| is_hardware(&device.kind)) {
        return Err(Error::unsupported(format!(
            "host cores do not reach {}; use a stream of a device",
            span.kind()
        )));
    }
    Ok(())
}
