//! Whether decompressing on the device pays, predicted from bytes alone.
//!
//! ```text
//!   host     bytes / min(threads × rate of a core, link)
//!   device   fixed + max(bytes / rate of the device, stored bytes / link)
//! ```
//!
//! Bytes are those without codec; rates are the machine's ([`Rates`]). The fixed part leaves few sections to the host.

use pelton_chunk::Codec;
use pelton_fabric::{CodecRate, Rates};

/// What a scan reads from disk under a codec, by estimate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CodecBytes {
    pub(crate) codec: Codec,
    /// With it.
    pub(crate) stored: u64,
    /// Without it.
    pub(crate) decompressed: u64,
}

fn rate_of(codec: Codec, rates: &Rates) -> CodecRate {
    match codec {
        Codec::None => CodecRate { device_bytes_per_s: f64::INFINITY, core_bytes_per_s: f64::INFINITY },
        Codec::Lz4 => rates.codecs.lz4,
        Codec::Snappy => rates.codecs.snappy,
        Codec::Zstd => rates.codecs.zstd,
        Codec::Deflate => rates.codecs.deflate,
    }
}

/// Passes what the device is predicted to decompress faster than `threads` of the host; else why not.
pub(super) fn pays(scanned: &CodecBytes, threads: usize, rates: &Rates) -> Result<(), String> {
    let rate = rate_of(scanned.codec, rates);
    let link_bytes_per_s = rates.scan_link_bytes_per_s();
    let (stored, decompressed) = (scanned.stored as f64, scanned.decompressed as f64);
    let host_s = decompressed / (rate.core_bytes_per_s * threads as f64).min(link_bytes_per_s);
    let copy_s = stored / link_bytes_per_s;
    let device_s = rates.codecs.device_fixed_s + (decompressed / rate.device_bytes_per_s).max(copy_s);
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
            let predicted = pays(&scanned, threads, &Rates::of_preset());
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
        let reason = pays(&scanned, 1, &Rates::of_preset()).unwrap_err();
        assert!(reason.contains("1.3 MB of zstd predicted 1.00 ms on 1 threads"), "{reason}");
        assert!(reason.contains("--decompress device"), "{reason}");
    }
}
