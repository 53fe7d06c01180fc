//! Whether decompressing on the device pays, predicted from bytes alone.
//!
//! ```text
//!   host     bytes / min(threads × rate of a core, link)
//!   device   2 ms + max(bytes / rate of the device, stored bytes / link)
//! ```
//!
//! Bytes are those without codec. The device's rates are those of one H200 (nvCOMP 6.0, chunks of 64 KiB, 2026-11), the
//! slowest of the columns that compress; a core's are of `pelton-chunk`'s example `decode_rates` on the same columns
//! (2026-11-22). 2 ms is what a decoder takes for a single section of that size, so that few sections are the host's.

use pelton_chunk::Codec;

/// A link of PCIe 5.
const LINK_BYTES_PER_S: f64 = 50e9;
/// However few the sections are. A guess from 33 GB/s over some 1000 sections at once.
const DEVICE_FIXED_S: f64 = 0.002;

/// What a scan reads from disk under a codec, by estimate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CodecBytes {
    pub(crate) codec: Codec,
    /// With it.
    pub(crate) stored: u64,
    /// Without it.
    pub(crate) decompressed: u64,
}

/// Bytes without codec per second: of a device, of one core.
fn rates(codec: Codec) -> (f64, f64) {
    match codec {
        Codec::None => (f64::INFINITY, f64::INFINITY),
        Codec::Lz4 => (48e9, 3.5e9),
        Codec::Snappy => (106e9, 1.3e9),
        Codec::Zstd => (33e9, 1.3e9),
        Codec::Deflate => (15e9, 1.2e9),
    }
}

/// Passes what the device is predicted to decompress faster than `threads` of the host; else why not.
pub(super) fn pays(scanned: &CodecBytes, threads: usize) -> Result<(), String> {
    let (device_rate, core_rate) = rates(scanned.codec);
    let (stored, decompressed) = (scanned.stored as f64, scanned.decompressed as f64);
    let host_s = decompressed / (core_rate * threads as f64).min(LINK_BYTES_PER_S);
    let device_s = DEVICE_FIXED_S + (decompressed / device_rate).max(stored / LINK_BYTES_PER_S);
    if device_s < host_s {
        return Ok(());
    }
    Err(format!(
        "for {:.1} MB of {} predicted {:.2} ms on {threads} threads, {:.2} ms on the device; --decompress device \
         decides otherwise",
        decompressed / 1e6,
        scanned.codec,
        host_s * 1e3,
        device_s * 1e3
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn much_is_the_devices_where_its_decoder_is_faster_than_the_cores_and_little_is_the_hosts() {
        let check = |codec, megabytes: u64, threads, expected: bool| {
            let scanned =
                CodecBytes { codec, stored: megabytes * 500_000, decompressed: megabytes * 1_000_000 };
            let predicted = pays(&scanned, threads);
            assert_eq!(
                predicted.is_ok(),
                expected,
                "{codec} {megabytes} MB {threads} threads: {predicted:?}"
            );
        };
        for codec in [Codec::Lz4, Codec::Snappy, Codec::Zstd, Codec::Deflate] {
            check(codec, 1, 16, false);
            check(codec, 1000, 2, true);
        }
        check(Codec::Snappy, 1000, 16, true);
        check(Codec::Zstd, 1000, 16, true);
        check(Codec::Zstd, 1000, 32, false);
        check(Codec::Deflate, 1000, 16, false);
        check(Codec::Lz4, 1000, 16, false);
    }

    #[test]
    fn the_reason_tells_both_times_and_the_knob() {
        let scanned = CodecBytes { codec: Codec::Zstd, stored: 500_000, decompressed: 1_300_000 };
        let reason = pays(&scanned, 1).unwrap_err();
        assert!(reason.contains("1.3 MB of zstd predicted 1.00 ms on 1 threads"), "{reason}");
        assert!(reason.contains("--decompress device"), "{reason}");
    }
}
