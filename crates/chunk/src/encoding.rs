//! What an encoding is: a transform to integers, a layout of those integers, and a codec over the pages.
//!
//! Written `transform+layout/codec`, without the parts that are absent: `bitpack`, `dict+rle`, `plain/zstd`.

use std::fmt;
use std::str::FromStr;

use pelton_error::{Error, Result};

use crate::codec::Codec;
use crate::types::PhysicalType;

/// How values become the integers that a layout places.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Transform {
    /// The values themselves.
    None = 0,
    /// Positions in the chunk's sorted distinct values.
    Dictionary = 1,
    /// Floats as decimal integers with a power of ten (ALP).
    Alp = 2,
    /// Byte strings as codes of the chunk's symbols of up to 8 bytes (FSST).
    Fsst = 3,
}

/// How integers, or bytes, lie in a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Layout {
    /// One value, or NULL, for every row; there are no pages.
    Constant = 0,
    /// Fixed-width little-endian values; byte strings as lengths and bytes.
    Plain = 1,
    /// Offsets from the page's smallest value, bit-packed in 1024-value FastLanes order.
    BitPacked = 2,
    /// Differences of neighbours, bit-packed.
    Delta = 3,
    /// The last row and the value of each run, bit-packed.
    RunLength = 4,
}

/// The complete recipe of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Encoding {
    /// First step.
    pub transform: Transform,
    /// Second step.
    pub layout: Layout,
    /// Third step.
    pub codec: Codec,
}

const TRANSFORMS: [(Transform, &str); 4] = [
    (Transform::None, ""),
    (Transform::Dictionary, "dict"),
    (Transform::Alp, "alp"),
    (Transform::Fsst, "fsst"),
];

const LAYOUTS: [(Layout, &str); 5] = [
    (Layout::Constant, "constant"),
    (Layout::Plain, "plain"),
    (Layout::BitPacked, "bitpack"),
    (Layout::Delta, "delta"),
    (Layout::RunLength, "rle"),
];

impl Transform {
    /// The transform with this tag in a file, if there is one.
    pub fn from_tag(tag: u8) -> Option<Self> {
        TRANSFORMS.iter().map(|(transform, _)| *transform).find(|transform| *transform as u8 == tag)
    }
}

impl Layout {
    /// The layout with this tag in a file, if there is one.
    pub fn from_tag(tag: u8) -> Option<Self> {
        LAYOUTS.iter().map(|(layout, _)| *layout).find(|layout| *layout as u8 == tag)
    }
}

impl Encoding {
    /// One value for all rows.
    pub const CONSTANT: Self = Self::light(Transform::None, Layout::Constant);

    /// The values as they are; holds every column.
    pub const PLAIN: Self = Self::light(Transform::None, Layout::Plain);

    /// An encoding without a codec.
    pub const fn light(transform: Transform, layout: Layout) -> Self {
        Self { transform, layout, codec: Codec::None }
    }

    /// The same transform and layout under another codec.
    #[must_use]
    pub const fn with_codec(self, codec: Codec) -> Self {
        Self { codec, ..self }
    }

    /// True where chunks of type `ty` can have this encoding at all.
    pub fn applies_to(self, ty: PhysicalType) -> bool {
        use PhysicalType::*;
        let is_float = matches!(ty, F32 | F64);
        match (self.transform, self.layout) {
            (Transform::None, Layout::Constant | Layout::Plain) => true,
            (Transform::None, Layout::BitPacked) => !is_float && ty != Bytes,
            (Transform::None, Layout::Delta) => !is_float && ty != Bytes && ty != I128,
            (Transform::None, Layout::RunLength) => ty != Bytes,
            (Transform::Dictionary, Layout::BitPacked | Layout::RunLength) => true,
            (Transform::Alp, Layout::BitPacked) => is_float,
            (Transform::Fsst, Layout::Plain) => ty == Bytes,
            _ => false,
        }
    }

    /// Every encoding without codec that chunks of type `ty` can have.
    pub fn all_light(ty: PhysicalType) -> impl Iterator<Item = Self> {
        TRANSFORMS
            .iter()
            .flat_map(|(transform, _)| LAYOUTS.iter().map(|(layout, _)| Self::light(*transform, *layout)))
            .filter(move |encoding| encoding.applies_to(ty))
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let transform = TRANSFORMS[self.transform as usize].1;
        let layout = LAYOUTS[self.layout as usize].1;
        let plus = if transform.is_empty() { "" } else { "+" };
        write!(f, "{transform}{plus}{layout}")?;
        match self.codec {
            Codec::None => Ok(()),
            codec => write!(f, "/{codec}"),
        }
    }
}

impl FromStr for Encoding {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (steps, codec) = match text.split_once('/') {
            Some((steps, codec)) => (steps, codec.parse()?),
            None => (text, Codec::None),
        };
        let (transform, layout) = steps.split_once('+').unwrap_or(("", steps));
        let transform = TRANSFORMS.iter().find(|(_, name)| *name == transform);
        let layout = LAYOUTS.iter().find(|(_, name)| *name == layout);
        match (transform, layout) {
            (Some((transform, _)), Some((layout, _))) => {
                Ok(Self { transform: *transform, layout: *layout, codec })
            }
            _ => Err(Error::invalid_input(format!(
                "no encoding '{text}'; write transform+layout/codec, with transform dict, alp or fsst or absent, layout \
                 constant, plain, bitpack, delta or rle, and codec lz4, snappy, zstd or deflate or absent"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_form_reads_back() {
        use PhysicalType::*;
        for ty in [U8, I128, F32, F64, Bytes] {
            for light in Encoding::all_light(ty) {
                for codec in Codec::ALL {
                    let encoding = light.with_codec(codec);
                    assert_eq!(encoding.to_string().parse::<Encoding>().unwrap(), encoding);
                }
            }
        }
        assert_eq!(
            Encoding { transform: Transform::Dictionary, layout: Layout::BitPacked, codec: Codec::Zstd }
                .to_string(),
            "dict+bitpack/zstd"
        );
    }

    #[test]
    fn unknown_names_are_refused_with_the_known_ones() {
        for text in ["", "bitpacked", "dict+", "plain/brotli", "alp+plain+x"] {
            assert!(text.parse::<Encoding>().unwrap_err().to_string().contains("zstd"), "{text}");
        }
    }
}
