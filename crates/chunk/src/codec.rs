//! General-purpose codecs over a page or a dictionary: whole buffer in, whole buffer out.
//!
//! All of them have a decoder in nvCOMP too; the streams are the bare ones that it reads (LZ4 block, Snappy raw,
//! Zstd frame, Deflate without zlib header). The uncompressed length is kept by the chunk, not in the stream.

use std::cell::RefCell;
use std::fmt;
use std::str::FromStr;

use pelton_error::{Error, Result};

/// A general-purpose codec.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Codec {
    /// Bytes as they are.
    None = 0,
    /// LZ4 block format.
    Lz4 = 1,
    /// Snappy raw format.
    Snappy = 2,
    /// Zstandard frame, level 3.
    Zstd = 3,
    /// Raw Deflate, level 4.
    Deflate = 4,
}

const ZSTD_LEVEL: i32 = 3;
// On the columns of examples/decode_rates.rs level 6 is 4 % smaller and takes twice the time; level 1 is 8 % larger.
const DEFLATE_LEVEL: i32 = 4;

// Contexts of up to a megabyte that take as long to set up as a page takes to decompress; one of each for a thread.
thread_local! {
    static ZSTD_COMPRESSOR: RefCell<zstd::bulk::Compressor<'static>> =
        RefCell::new(zstd::bulk::Compressor::new(ZSTD_LEVEL).expect("the level is valid"));
    static ZSTD_DECOMPRESSOR: RefCell<zstd::bulk::Decompressor<'static>> =
        RefCell::new(zstd::bulk::Decompressor::new().expect("a context without a dictionary"));
    static DEFLATE_COMPRESSOR: RefCell<libdeflater::Compressor> = RefCell::new(libdeflater::Compressor::new(
        libdeflater::CompressionLvl::new(DEFLATE_LEVEL).expect("the level is valid"),
    ));
    static DEFLATE_DECOMPRESSOR: RefCell<libdeflater::Decompressor> =
        RefCell::new(libdeflater::Decompressor::new());
}

const NAMES: [&str; 5] = ["none", "lz4", "snappy", "zstd", "deflate"];

impl Codec {
    /// Every codec, in tag order.
    pub const ALL: [Self; 5] = [Self::None, Self::Lz4, Self::Snappy, Self::Zstd, Self::Deflate];

    /// The codec with this tag in a file, if there is one.
    pub fn from_tag(tag: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|codec| *codec as u8 == tag)
    }

    /// Compresses `input`; `None` where the result would not be shorter (and always for [`Codec::None`]).
    pub fn compress(self, input: &[u8]) -> Option<Vec<u8>> {
        let output = match self {
            Codec::None => return None,
            Codec::Lz4 => lz4_flex::block::compress(input),
            // Refuses inputs near 4 GiB.
            Codec::Snappy => snap::raw::Encoder::new().compress_vec(input).ok()?,
            Codec::Zstd => ZSTD_COMPRESSOR
                .with_borrow_mut(|zstd| zstd.compress(input))
                .expect("the output has room for the bound"),
            Codec::Deflate => deflate(input),
        };
        (output.len() < input.len()).then_some(output)
    }

    /// Decompresses `input` into exactly `output`.
    pub fn decompress(self, input: &[u8], output: &mut [u8]) -> Result<()> {
        let written = match self {
            Codec::None => copy(input, output),
            Codec::Lz4 => lz4_flex::block::decompress_into(input, output).map_err(|e| self.refused(e))?,
            Codec::Snappy => {
                snap::raw::Decoder::new().decompress(input, output).map_err(|e| self.refused(e))?
            }
            Codec::Zstd => ZSTD_DECOMPRESSOR
                .with_borrow_mut(|zstd| zstd.decompress_to_buffer(input, output))
                .map_err(|e| self.refused(e))?,
            Codec::Deflate => DEFLATE_DECOMPRESSOR
                .with_borrow_mut(|deflate| deflate.deflate_decompress(input, output))
                .map_err(|e| self.refused(e))?,
        };
        if written == output.len() {
            return Ok(());
        }
        Err(Error::corrupt(format!("{self} gave {written} bytes where {} were stored", output.len())))
    }

    /// The most bytes that `stored_bytes` of this codec's format can stand for.
    ///
    /// Per format: an LZ4 length byte adds 255; a Snappy copy of 3 bytes gives 64; a Zstd block of
    /// 4 bytes gives 128 KiB; Deflate gives 258 for 2 bits.
    pub(crate) fn expansion_max(self, stored_bytes: u64) -> u64 {
        match self {
            Codec::None => stored_bytes,
            Codec::Lz4 => stored_bytes * 255 + 64,
            Codec::Snappy => stored_bytes * 32 + 64,
            Codec::Zstd => stored_bytes * (128 << 10) / 4 + (128 << 10),
            Codec::Deflate => stored_bytes * 258 * 4 + 258,
        }
    }

    fn refused(self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        Error::corrupt(format!("{self} cannot decompress")).with_source(source)
    }
}

fn deflate(input: &[u8]) -> Vec<u8> {
    DEFLATE_COMPRESSOR.with_borrow_mut(|compressor| {
        let mut output = vec![0; compressor.deflate_compress_bound(input.len())];
        let written =
            compressor.deflate_compress(input, &mut output).expect("the output has room for the bound");
        output.truncate(written);
        output
    })
}

fn copy(input: &[u8], output: &mut [u8]) -> usize {
    if input.len() == output.len() {
        output.copy_from_slice(input);
    }
    input.len()
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NAMES[*self as usize])
    }
}

impl FromStr for Codec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|codec| NAMES[*codec as usize] == text).ok_or_else(|| {
            Error::invalid_input(format!("no codec '{text}'; there are none, lz4, snappy, zstd and deflate"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_codec_gives_back_what_it_took() {
        for codec in Codec::ALL {
            for input in [vec![7u8; 100_000], (0..9000u32).flat_map(|i| (i / 7).to_le_bytes()).collect()] {
                let Some(stored) = codec.compress(&input) else {
                    assert_eq!(codec, Codec::None);
                    continue;
                };
                assert!(codec.expansion_max(stored.len() as u64) >= input.len() as u64, "{codec}");
                let mut output = vec![0; input.len()];
                codec.decompress(&stored, &mut output).unwrap();
                assert_eq!(output, input, "{codec}");
            }
        }
    }

    #[test]
    fn a_wrong_length_is_corrupt() {
        let input = vec![7u8; 1000];
        for codec in Codec::ALL {
            let stored = codec.compress(&input).unwrap_or_else(|| input.clone());
            for wrong in [0, 999, 1001] {
                let error = codec.decompress(&stored, &mut vec![0; wrong]).unwrap_err();
                assert_eq!(error.kind(), &pelton_error::ErrorKind::Corrupt, "{codec} {wrong}");
            }
        }
    }

    #[test]
    fn what_does_not_shrink_is_left_alone() {
        for codec in Codec::ALL {
            assert_eq!(codec.compress(&[]), None);
            assert_eq!(codec.compress(b"a1z"), None);
        }
    }
}
