//! From a column in memory to its zone map: the step that groups over every value loaded.
//!
//! ```text
//!   column ──▶ valid values ──▶ bounds ──▶ integers of a small range?
//!                                            yes: count each of them; then once a distinct value:
//!                                            no:  in pieces of 1024 values, once a value:
//!                                                 hash ──▶ sketch, Bloom filter until it saturates
//!                                                 bin  ──▶ counts
//! ```
//!
//! Repeated strings are mostly taken as one. Bounds: 256 KiB of counters, 4 KiB of sketch, the valid values
//! once more where there are NULLs, 8 bytes a string.

use std::borrow::Cow;

use pelton_chunk::types::{ByteValues, Column, Validity, Values};

use crate::{
    BOUND_BYTES_MAX, Bloom, Histogram, Scalar, Sketch, ZoneMap, ZoneOptions,
    bins::Bins,
    hash::{hash_bytes, hash_float, hash_i64, hash_i128},
    strings::{StringGroup, string_groups},
};

/// Values hashed at a time, so that hashes stay in the nearest cache.
const PIECE: usize = 1024;
/// Largest range of integers that are counted one by one; a guess at what fits the second-level cache.
const COUNTED_RANGE_MAX: u64 = 1 << 16;

impl ZoneMap {
    /// The zone map of a column chunk, and the sketch of its values to be merged with those of other chunks.
    ///
    /// `options` must pass [`ZoneOptions::validate`]; the column has fewer than 2^32 rows.
    pub fn build(column: &Column, options: &ZoneOptions) -> (ZoneMap, Sketch) {
        assert!(options.validate().is_ok(), "{options:?}");
        let validity = column.validity.as_ref();
        assert!(validity.is_none_or(|validity| validity.len == column.len()));
        let zone = ZoneMap {
            row_count: u32::try_from(column.len()).expect("a chunk has fewer than 2^32 rows"),
            null_count: column.null_count() as u32,
            has_nan: false,
            min: None,
            max: None,
            bounds_exact: true,
            distinct_count: 0,
            histogram: None,
            bloom: None,
        };
        let builder = Builder { zone, distinct: Distinct::new(options), options };
        match &column.values {
            Values::U8(values) => builder.integers(&valid_values(values, validity)),
            Values::U16(values) => builder.integers(&valid_values(values, validity)),
            Values::U32(values) => builder.integers(&valid_values(values, validity)),
            Values::U64(values) => builder.integers(&valid_values(values, validity)),
            Values::I8(values) => builder.integers(&valid_values(values, validity)),
            Values::I16(values) => builder.integers(&valid_values(values, validity)),
            Values::I32(values) => builder.integers(&valid_values(values, validity)),
            Values::I64(values) => builder.integers(&valid_values(values, validity)),
            Values::I128(values) => builder.integers(&valid_values(values, validity)),
            Values::F32(values) => builder.floats(&valid_values(values, validity)),
            Values::F64(values) => builder.floats(&valid_values(values, validity)),
            Values::Bytes(values) => builder.strings(values, &string_groups(values, validity)),
        }
    }
}

struct Builder<'a> {
    zone: ZoneMap,
    distinct: Distinct,
    options: &'a ZoneOptions,
}

impl Builder<'_> {
    fn integers<T: Integer>(mut self, values: &[T]) -> (ZoneMap, Sketch) {
        let Some((min, max)) = bounds(values) else { return self.finish(None) };
        self.set_bounds(Scalar::Int(min.into()), Scalar::Int(max.into()));
        let range = max.offset(min, 0);
        let is_narrow = max.into().wrapping_sub(min.into()) as u128 == u128::from(range);
        if is_narrow && range < COUNTED_RANGE_MAX.min(2 * values.len() as u64) {
            return self.counted_integers(values, min, range as usize + 1);
        }
        self.distinct.add_all(values, T::hash);
        self.zone.histogram = self.bins().map(|bins| {
            let Bins::Int { steps, .. } = bins else { unreachable!("bounds are integers") };
            let mut counts = vec![0u32; bins.count()];
            for value in values {
                counts[steps.bin(value.offset(min, steps.shift()))] += 1;
            }
            Histogram::new(bins, &counts)
        });
        self.finish(None)
    }

    /// Few different integers: one increment a row, everything else once a distinct value.
    fn counted_integers<T: Integer>(mut self, values: &[T], min: T, range: usize) -> (ZoneMap, Sketch) {
        let mut rows_of = vec![0u32; range];
        for value in values {
            rows_of[value.offset(min, 0) as usize] += 1;
        }
        let present = || rows_of.iter().enumerate().filter(|(_, rows)| **rows > 0);
        let low: i128 = min.into();
        let hashes: Vec<u64> = present().map(|(offset, _)| hash_i128(low + offset as i128)).collect();
        self.distinct.add_all(&hashes, |hash| hash);
        self.zone.histogram = self.bins().map(|bins| {
            let mut counts = vec![0u32; bins.count()];
            for (offset, rows) in present() {
                counts[bins.bin_of(&Scalar::Int(low + offset as i128))] += rows;
            }
            Histogram::new(bins, &counts)
        });
        self.finish(Some(hashes.len() as u32))
    }

    fn floats<T: Copy + Into<f64>>(mut self, values: &[T]) -> (ZoneMap, Sketch) {
        // Adding 0.0 turns -0.0 into 0.0, so that bounds do not depend on the order of rows.
        let mut numbers: Vec<f64> = values.iter().map(|value| (*value).into() + 0.0).collect();
        numbers.retain(|value| !value.is_nan());
        if numbers.len() < values.len() {
            self.zone.has_nan = true;
            self.distinct.sketch.add_hash(hash_float(f64::NAN));
        }
        let Some((min, max)) = bounds(&numbers) else { return self.finish(None) };
        self.set_bounds(Scalar::Float(min), Scalar::Float(max));
        self.distinct.add_all(&numbers, hash_float);
        self.zone.histogram = self.bins().map(|bins| {
            let mut counts = vec![0u32; bins.count()];
            for value in &numbers {
                counts[bins.bin_of_float(*value)] += 1;
            }
            Histogram::new(bins, &counts)
        });
        self.finish(None)
    }

    fn strings(mut self, values: &ByteValues, groups: &[StringGroup]) -> (ZoneMap, Sketch) {
        let Some(first) = groups.first() else { return self.finish(None) };
        let first = values.get(first.row as usize);
        let (min, max) = groups.iter().map(|group| values.get(group.row as usize)).fold(
            (first, first),
            |(min, max), value| {
                (if value < min { value } else { min }, if value > max { value } else { max })
            },
        );
        self.zone.bounds_exact = min.len() <= BOUND_BYTES_MAX && max.len() <= BOUND_BYTES_MAX;
        self.zone.min = Some(Scalar::Bytes(min[..min.len().min(BOUND_BYTES_MAX)].to_vec()));
        self.zone.max = cut_above(max).map(Scalar::Bytes);
        self.distinct.add_all(groups, |group| hash_bytes(values.get(group.row as usize)));
        self.zone.histogram = self.bins().map(|bins| {
            let mut counts = vec![0u32; bins.count()];
            for group in groups {
                counts[bins.bin_of_bytes(values.get(group.row as usize))] += group.rows;
            }
            Histogram::new(bins, &counts)
        });
        self.finish(None)
    }

    fn set_bounds(&mut self, min: Scalar, max: Scalar) {
        self.zone.min = Some(min);
        self.zone.max = Some(max);
    }

    fn bins(&self) -> Option<Bins> {
        let (min, max) = self.zone.bounds()?;
        Bins::new(min, max, self.options.bins)
    }

    fn finish(self, distinct_count: Option<u32>) -> (ZoneMap, Sketch) {
        let Distinct { sketch, bloom, .. } = self.distinct;
        let mut zone = self.zone;
        let valid = u64::from(zone.valid_count());
        zone.distinct_count = distinct_count.unwrap_or_else(|| sketch.estimate().min(valid) as u32);
        zone.bloom = bloom.filter(|bloom| zone.min.is_some() && !is_saturated(bloom));
        (zone, sketch)
    }
}

/// Sketch and filter, which see every distinct value once or more.
struct Distinct {
    sketch: Sketch,
    /// `None` where not wanted, or saturated.
    bloom: Option<Bloom>,
    /// Values added so far, and at how many the filter is looked at next.
    added: usize,
    look_at: usize,
}

impl Distinct {
    fn new(options: &ZoneOptions) -> Self {
        let bytes = options.bloom_bytes as usize;
        let bloom = (bytes > 0).then(|| Bloom::new(bytes, options.bloom_hashes));
        Self { sketch: Sketch::new(), bloom, added: 0, look_at: PIECE }
    }

    fn add_all<T: Copy>(&mut self, values: &[T], hash: impl Fn(T) -> u64) {
        let mut hashes = [0u64; PIECE];
        for piece in values.chunks(PIECE) {
            let hashes = &mut hashes[..piece.len()];
            for (slot, value) in hashes.iter_mut().zip(piece) {
                *slot = hash(*value);
            }
            self.add(hashes);
        }
    }

    fn add(&mut self, hashes: &[u64]) {
        for hash in hashes {
            self.sketch.add_hash(*hash);
        }
        let Some(bloom) = &mut self.bloom else { return };
        for hash in hashes {
            bloom.insert(*hash);
        }
        self.added += hashes.len();
        if self.added >= self.look_at {
            // Looked at after 1, 2, 4, … pieces: most filters saturate in the first or never.
            self.look_at *= 2;
            if is_saturated(bloom) {
                self.bloom = None;
            }
        }
    }
}

fn is_saturated(bloom: &Bloom) -> bool {
    bloom.fill() > 0.5
}

/// What the integer types have in common.
trait Integer: Copy + PartialOrd + Into<i128> {
    fn hash(self) -> u64;
    /// The distance from `low`, without its lowest `shift` bits; cut to 64 bits.
    fn offset(self, low: Self, shift: u32) -> u64;
}

macro_rules! integer {
    ($($type:ty as $unsigned:ty, $hash:expr;)*) => {$(
        impl Integer for $type {
            #[inline]
            fn hash(self) -> u64 {
                $hash(self)
            }

            #[inline]
            fn offset(self, low: Self, shift: u32) -> u64 {
                (self.wrapping_sub(low) as $unsigned >> shift) as u64
            }
        }
    )*};
}

integer! {
    u8 as u8, |value| hash_i64(i64::from(value));
    u16 as u16, |value| hash_i64(i64::from(value));
    u32 as u32, |value| hash_i64(i64::from(value));
    u64 as u64, |value| hash_i128(i128::from(value));
    i8 as u8, |value| hash_i64(i64::from(value));
    i16 as u16, |value| hash_i64(i64::from(value));
    i32 as u32, |value| hash_i64(i64::from(value));
    i64 as u64, hash_i64;
    i128 as u128, hash_i128;
}

/// Least and greatest of values without NaN.
fn bounds<T: Copy + PartialOrd>(values: &[T]) -> Option<(T, T)> {
    let first = *values.first()?;
    Some(values.iter().fold((first, first), |(min, max), value| {
        (if *value < min { *value } else { min }, if *value > max { *value } else { max })
    }))
}

/// The values of the valid rows in order.
fn valid_values<'a, T: Copy + Default>(values: &'a [T], validity: Option<&Validity>) -> Cow<'a, [T]> {
    let Some(validity) = validity else { return Cow::Borrowed(values) };
    let mut valid = vec![T::default(); values.len()];
    let mut len = 0;
    for (piece, bits) in values.chunks(8).zip(&validity.bits) {
        for (bit, value) in piece.iter().enumerate() {
            // Written always, kept where valid: no branch to mispredict.
            valid[len] = *value;
            len += usize::from(bits >> bit & 1);
        }
    }
    valid.truncate(len);
    Cow::Owned(valid)
}

/// An upper bound of at most 64 bytes: a longer string is cut and rounded up in its last byte that can be.
fn cut_above(max: &[u8]) -> Option<Vec<u8>> {
    if max.len() <= BOUND_BYTES_MAX {
        return Some(max.to_vec());
    }
    let len = max[..BOUND_BYTES_MAX].iter().rposition(|byte| *byte < u8::MAX)? + 1;
    let mut bound = max[..len].to_vec();
    bound[len - 1] += 1;
    Some(bound)
}
