//! Values of equal bit width one after the other, for short lists whose length is not a multiple of 1024.
//!
//! Value `i` of width `w` takes bits `i·w` to `i·w + w - 1`, counted from the low end of little-endian 64-bit
//! words. A stream has a word more than it needs, so that a reader may load the pair of words a value could
//! straddle without looking.

/// Bytes of a stream of `count` values of `width` bits.
pub(crate) fn stream_bytes(count: u32, width: u8) -> usize {
    (count as usize * usize::from(width) / 64 + 2) * 8
}

/// Appends `values`, each below 2^`width`.
pub(crate) fn write(values: impl ExactSizeIterator<Item = u64>, width: u8, bytes: &mut Vec<u8>) {
    let end = bytes.len() + stream_bytes(values.len() as u32, width);
    let mut word = 0u64;
    let mut used_bits = 0;
    for value in values {
        word |= value << used_bits;
        used_bits += u32::from(width);
        if used_bits >= 64 {
            bytes.extend_from_slice(&word.to_le_bytes());
            used_bits -= 64;
            let taken_bits = u32::from(width) - used_bits;
            word = value.checked_shr(taken_bits).unwrap_or(0);
        }
    }
    bytes.extend_from_slice(&word.to_le_bytes());
    bytes.resize(end, 0);
}

/// A stream in a page.
#[derive(Clone, Copy)]
pub(crate) struct BitStream<'a> {
    bytes: &'a [u8],
    width: usize,
    mask: u64,
}

impl<'a> BitStream<'a> {
    /// A stream of `width` bits over exactly its bytes.
    pub(crate) fn new(bytes: &'a [u8], width: u8) -> Self {
        let mask = 1u64.checked_shl(width.into()).map_or(u64::MAX, |bit| bit - 1);
        Self { bytes, width: width.into(), mask }
    }

    /// Value `index`, which must be below the stream's count.
    pub(crate) fn get(&self, index: usize) -> u64 {
        let bit = index * self.width;
        let pair = &self.bytes[bit / 64 * 8..][..16];
        let low = u64::from_le_bytes(pair[..8].try_into().expect("8 bytes"));
        let high = u64::from_le_bytes(pair[8..].try_into().expect("8 bytes"));
        let shift = bit % 64;
        // Two shifts, because a shift by 64 is not one.
        (low >> shift | high << 1 << (63 - shift)) & self.mask
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_width_reads_back() {
        for width in 0..=64u8 {
            let mask = BitStream::new(&[], width).mask;
            for count in [1, 63, 64, 65, 200] {
                let values: Vec<u64> =
                    (1..=count).map(|i| 0x9E37_79B9_7F4A_7C15u64.wrapping_mul(i) & mask).collect();
                let mut bytes = vec![];
                write(values.iter().copied(), width, &mut bytes);
                assert_eq!(bytes.len(), stream_bytes(count as u32, width), "{width} {count}");
                let stream = BitStream::new(&bytes, width);
                assert!(
                    values.iter().enumerate().all(|(i, value)| stream.get(i) == *value),
                    "{width} {count}"
                );
            }
        }
    }
}
