//! Which sections are decompressed at once, in the memory that decoders may work in.

use pelton_chunk::Codec;
use pelton_error::Result;

use super::DeviceDecompressor;
use super::job::{Batch, Part, SECTION_BYTES_MAX};

/// Memory of a buffer at most that decoders work in. A guess: Zstd works in three times what it gives, so this is a
/// morsel of 32 MiB in one go.
const TEMP_BYTES_MAX: usize = 128 << 20;

impl DeviceDecompressor {
    /// What a buffer needs so that up to `count` sections of up to `section_bytes_max` bytes of each codec are one
    /// batch, within [`TEMP_BYTES_MAX`], and any section fits.
    pub(crate) fn buffer_temp_bytes(
        &self,
        codecs: &[Codec],
        count: usize,
        section_bytes_max: usize,
    ) -> Result<usize> {
        let mut most = 0;
        for codec in codecs {
            let least = self.temp_bytes(*codec, 1, SECTION_BYTES_MAX)?;
            let wanted = self.temp_bytes(*codec, count.max(1), section_bytes_max.min(SECTION_BYTES_MAX))?;
            most = most.max(least).max(wanted.min(TEMP_BYTES_MAX));
        }
        Ok(most)
    }
}

/// Puts the parts with sections in the order of batches, behind all others, and answers the batches: of one codec, the
/// largest sections first, as many as `temp_bytes` says fit `room`.
///
/// # Errors
///
/// Of `temp_bytes`.
pub(crate) fn batches(
    parts: &mut [Part],
    room: usize,
    temp_bytes: impl Fn(Codec, usize, usize) -> Result<usize>,
) -> Result<Vec<Batch>> {
    parts.sort_by_key(|part| {
        let codec = part.section.as_ref().map(|(codec, _)| *codec);
        (codec, std::cmp::Reverse(part.target.len()))
    });
    let mut batches: Vec<Batch> = Vec::new();
    for part in parts.iter() {
        let Some((codec, _)) = &part.section else { continue };
        if let Some(last) = batches.last_mut()
            && last.codec == *codec
            && temp_bytes(*codec, last.count + 1, last.section_bytes_max)? <= room
        {
            last.count += 1;
            continue;
        }
        let first = batches.last().map_or(0, |last| last.first + last.count);
        batches.push(Batch { codec: *codec, first, count: 1, section_bytes_max: part.target.len() });
    }
    Ok(batches)
}
