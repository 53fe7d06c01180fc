//! Which histogram bin a value falls into: equal widths between the bounds of the chunk.
//!
//! Building and testing share this arithmetic, so both round alike. It only has to be monotone: then the
//! values between two constants lie in the bins between those of the constants (and a GPU that computes the
//! same 64-bit products, or IEEE doubles without contraction, finds the same bins).
//!
//! ```text
//!   value   ──▶  key, an integer           offset = (key - low) >> shift        bin = offset * scale >> 64
//!   integer      itself
//!   float        not needed: bin = (value - low) * bins / (high - low), in doubles
//!                its bits in order, where that quotient overflows
//!   bytes        8 bytes, big endian, after what all values of the chunk begin with
//! ```

use crate::{Scalar, zone_map::BINS_MAX};

/// The map from values between two bounds to bins.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Bins {
    Int { low: i128, steps: Steps },
    Float { low: f64, bins_per_unit: f64, bins: u32 },
    FloatBits { low: u64, steps: Steps },
    Bytes { prefix_len: usize, low: u64, steps: Steps },
}

impl Bins {
    /// At most `bins_max` bins between `min` and `max`; fewer where there are fewer integers.
    /// `None` where the bounds are of two domains, out of order or NaN.
    pub(crate) fn new(min: &Scalar, max: &Scalar, bins_max: u32) -> Option<Self> {
        if bins_max == 0 || min.compare(max)?.is_gt() {
            return None;
        }
        Some(match (min, max) {
            (Scalar::Int(min), Scalar::Int(max)) => {
                Bins::Int { low: *min, steps: Steps::new(max.wrapping_sub(*min) as u128, bins_max) }
            }
            (Scalar::Float(min), Scalar::Float(max)) => Self::of_floats(*min, *max, bins_max),
            (Scalar::Bytes(min), Scalar::Bytes(max)) => {
                let prefix_len = min.iter().zip(max).take_while(|(a, b)| a == b).count();
                let low = key_after(prefix_len, min, 0);
                let range = key_after(prefix_len, max, 0) - low;
                Bins::Bytes { prefix_len, low, steps: Steps::new(u128::from(range), bins_max) }
            }
            _ => return None,
        })
    }

    fn of_floats(min: f64, max: f64, bins_max: u32) -> Self {
        // Asked of the most bins there can be, so that the answer does not depend on their number.
        let quotient = f64::from(BINS_MAX) / (max - min);
        if quotient.is_finite() && quotient > 0.0 {
            return Bins::Float {
                low: min,
                bins_per_unit: f64::from(bins_max) / (max - min),
                bins: bins_max,
            };
        }
        // One value, an infinity, or a range beyond the doubles on either side.
        let low = float_key(min);
        Bins::FloatBits { low, steps: Steps::new(u128::from(float_key(max) - low), bins_max) }
    }

    /// The number of bins.
    pub(crate) fn count(&self) -> usize {
        match self {
            Bins::Float { bins, .. } => *bins as usize,
            Bins::Int { steps, .. } | Bins::FloatBits { steps, .. } | Bins::Bytes { steps, .. } => {
                steps.bins as usize
            }
        }
    }

    /// The bin of a value between the bounds.
    pub(crate) fn bin_of(&self, value: &Scalar) -> usize {
        match (self, value) {
            (Bins::Int { low, steps }, Scalar::Int(value)) => steps.bin(steps.int_offset(*value, *low)),
            (Bins::Float { .. } | Bins::FloatBits { .. }, Scalar::Float(value)) => self.bin_of_float(*value),
            (Bins::Bytes { .. }, Scalar::Bytes(value)) => self.bin_of_bytes(value),
            _ => unreachable!("bounds and value are of one domain"),
        }
    }

    #[inline]
    pub(crate) fn bin_of_float(&self, value: f64) -> usize {
        match self {
            // The conversion cuts off the fraction and holds at the ends.
            Bins::Float { low, bins_per_unit, bins } => {
                (((value - low) * bins_per_unit) as usize).min(*bins as usize - 1)
            }
            Bins::FloatBits { low, steps } => steps.bin(float_key(value) - low),
            _ => unreachable!("bounds are floats"),
        }
    }

    #[inline]
    pub(crate) fn bin_of_bytes(&self, value: &[u8]) -> usize {
        match self {
            Bins::Bytes { prefix_len, low, steps } => steps.bin(key_after(*prefix_len, value, 0) - low),
            _ => unreachable!("bounds are byte strings"),
        }
    }

    /// The last bin that a value between the bounds and beginning with `prefix` can fall into.
    pub(crate) fn last_bin_of_prefix(&self, prefix: &[u8]) -> usize {
        match self {
            Bins::Bytes { prefix_len, low, steps } => {
                steps.bin((key_after(*prefix_len, prefix, u8::MAX) - low).min(steps.span))
            }
            _ => unreachable!("bounds are byte strings"),
        }
    }

    /// Where `value`, which lies between the bounds, falls on a scale from 0 to the number of bins.
    pub(crate) fn position(&self, value: &Scalar) -> f64 {
        let position = match (self, value) {
            (Bins::Int { low, steps }, Scalar::Int(value)) => steps.position(steps.int_offset(*value, *low)),
            (Bins::Float { low, bins_per_unit, .. }, Scalar::Float(value)) => (value - low) * bins_per_unit,
            (Bins::FloatBits { low, steps }, Scalar::Float(value)) => steps.position(float_key(*value) - low),
            (Bins::Bytes { prefix_len, low, steps }, Scalar::Bytes(value)) => {
                steps.position(key_after(*prefix_len, value, 0) - low)
            }
            _ => unreachable!("bounds and value are of one domain"),
        };
        position.min(self.count() as f64)
    }

    /// Different integers that share a bin; `None` where the domain has no such bound.
    pub(crate) fn integers_per_bin(&self) -> Option<f64> {
        match self {
            Bins::Int { steps, .. } => Some((steps.span as f64 + 1.0) / f64::from(steps.bins)),
            _ => None,
        }
    }
}

/// `offset * bins / (span + 1)` by one 64-bit product.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Steps {
    bins: u32,
    /// Low bits of the distance from the lower bound that are cut off so that the rest fits 64 bits.
    shift: u32,
    /// Offset of the upper bound.
    span: u64,
    /// `(bins << 64) / (span + 1)`, or 0 where every offset has a bin of its own.
    scale: u64,
}

impl Steps {
    fn new(range: u128, bins_max: u32) -> Self {
        let shift = (u128::BITS - range.leading_zeros()).saturating_sub(u64::BITS);
        let span = (range >> shift) as u64;
        let offsets = u128::from(span) + 1;
        if offsets <= u128::from(bins_max) {
            return Self { bins: offsets as u32, shift, span, scale: 0 };
        }
        // Below 2^64, since there are more offsets than bins.
        let scale = ((u128::from(bins_max) << 64) / offsets) as u64;
        Self { bins: bins_max, shift, span, scale }
    }

    #[inline]
    pub(crate) fn bin(&self, offset: u64) -> usize {
        if self.scale == 0 {
            offset as usize
        } else {
            ((u128::from(offset) * u128::from(self.scale)) >> 64) as usize
        }
    }

    #[inline]
    pub(crate) fn shift(&self) -> u32 {
        self.shift
    }

    fn int_offset(&self, value: i128, low: i128) -> u64 {
        (value.wrapping_sub(low) as u128 >> self.shift) as u64
    }

    fn position(&self, offset: u64) -> f64 {
        offset as f64 / (self.span as f64 + 1.0) * f64::from(self.bins)
    }
}

/// The bits of a double as an integer of the same order; -0.0 counts as 0.0.
#[inline]
fn float_key(value: f64) -> u64 {
    let bits = (value + 0.0).to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

/// The 8 bytes of `value` after the first `prefix_len`, big endian, followed by `fill` where it ends.
#[inline]
fn key_after(prefix_len: usize, value: &[u8], fill: u8) -> u64 {
    let rest = value.get(prefix_len..).unwrap_or_default();
    match rest.first_chunk::<8>() {
        Some(key) => u64::from_be_bytes(*key),
        None => {
            let mut key = [fill; 8];
            key[..rest.len()].copy_from_slice(rest);
            u64::from_be_bytes(key)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_rise_with_the_value_and_cover_the_range() {
        let cases = [
            (0, 255, 256),
            (0, 256, 256),
            (-7, 1_000_003, 256),
            (i128::from(i64::MIN), i128::from(u64::MAX), 256),
            (i128::MIN, i128::MAX, 65_536),
            (5, 5, 256),
            (0, 99, 1),
        ];
        for (min, max, bins_max) in cases {
            let bins = Bins::new(&Scalar::Int(min), &Scalar::Int(max), bins_max).unwrap();
            let step = (max.wrapping_sub(min) as u128 / 9_999).max(1);
            let mut last = 0;
            for index in 0..10_000u128 {
                let value = min.wrapping_add((index * step).min(max.wrapping_sub(min) as u128) as i128);
                let bin = bins.bin_of(&Scalar::Int(value));
                assert!(bin >= last, "{min}..{max}");
                last = bin;
            }
            assert_eq!(bins.bin_of(&Scalar::Int(min)), 0, "{min}..{max}");
            assert_eq!(bins.bin_of(&Scalar::Int(max)), bins.count() - 1, "{min}..{max}");
        }
    }

    #[test]
    fn floats_of_any_range_have_bins() {
        let (tiny, huge) = (f64::from_bits(1), f64::MAX);
        for (min, max) in
            [(0.0, 1.0), (-huge, huge), (0.0, tiny), (f64::NEG_INFINITY, 3.0), (2.5, 2.5), (-0.0, 0.0)]
        {
            let bins = Bins::new(&Scalar::Float(min), &Scalar::Float(max), 256).unwrap();
            assert_eq!(bins.bin_of_float(min), 0, "{min}..{max}");
            assert_eq!(bins.bin_of_float(max), bins.count() - 1, "{min}..{max}");
        }
    }

    #[test]
    fn strings_are_told_apart_after_their_common_prefix() {
        let [min, max] = ["Customer#000000001", "Customer#000009999"].map(|text| Scalar::Bytes(text.into()));
        let bins = Bins::new(&min, &max, 256).unwrap();
        assert!(bins.bin_of_bytes(b"Customer#000001000") < bins.bin_of_bytes(b"Customer#000005000"));
        assert!(bins.last_bin_of_prefix(b"Customer#000001") >= bins.bin_of_bytes(b"Customer#000001999"));
        assert_eq!(bins.last_bin_of_prefix(b"Cust"), bins.count() - 1);
    }

    #[test]
    fn bounds_out_of_order_or_domain_have_no_bins() {
        assert!(Bins::new(&Scalar::Int(2), &Scalar::Int(1), 256).is_none());
        assert!(Bins::new(&Scalar::Int(2), &Scalar::Float(3.0), 256).is_none());
        assert!(Bins::new(&Scalar::Float(f64::NAN), &Scalar::Float(3.0), 256).is_none());
    }
}
