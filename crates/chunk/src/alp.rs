//! Floats that are decimals in disguise, as integers: 12.37 is 1237 with the exponent 2.
//!
//! A page has one exponent `e`; value `v` becomes the integer `d = round(v · 10^e)`, bit-packed, and reads back
//! as `d / 10^e`. Where that is not `v` bit for bit (NaN, infinities, -0.0, more digits), or where `d` is so large
//! that it would widen every row for itself, `v` is kept aside with its position: an exception.
//!
//! ```text
//! body: integers as in the bit-packed layout │ exception rows (u32 each, rising) │ exception values
//! params: base = smallest integer, width, count = exceptions, extra = e
//! ```
//!
//! After Afroozeh, Kuffó, Boncz: "ALP: Adaptive Lossless floating-Point Compression" (2023), with one change: the
//! paper multiplies by 10^f and by 10^-e, an inexact number, and needs large `e` and the second exponent to hit
//! the same bits; a division by 10^e, exact up to 10^22, is correctly rounded, so the number of decimals is
//! the only parameter and every decimal of up to 15 digits is hit. Singles are computed as doubles for the same
//! reason. A division is four to eight cycles for four values, less than the memory traffic of the result.

use pelton_error::Result;

use crate::bitpack;
use crate::format::{PageParams, corrupt};
use crate::lanes::{Lane, VECTOR};
use crate::view::Page;

/// The largest exponent tried.
const EXPONENT_MAX: u8 = 18;

/// Powers of ten, all exact.
const POWERS: [f64; EXPONENT_MAX as usize + 1] =
    [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18];

/// Values looked at to choose a page's exponent.
const EXPONENT_SAMPLE: usize = 64;

/// The word of a float type.
pub(crate) trait FloatLane: Lane {
    /// The integer that stands for the float with these bits under `power`, if it reads back to the same bits.
    fn to_decimal(self, power: f64) -> Option<Self>;
    /// The bits of the float that an integer stands for.
    fn from_decimal(decimal: Self, power: f64) -> Self;
}

impl FloatLane for u64 {
    fn to_decimal(self, power: f64) -> Option<Self> {
        let scaled = (f64::from_bits(self) * power).round_ties_even();
        let decimal = scaled as i64 as u64;
        // Integers beyond 2^51 are not worth it; the bound keeps the conversion back exact.
        (scaled.abs() < DECIMAL_MAX && u64::from_decimal(decimal, power) == self).then_some(decimal)
    }

    fn from_decimal(decimal: Self, power: f64) -> Self {
        (decimal as i64 as f64 / power).to_bits()
    }
}

impl FloatLane for u32 {
    fn to_decimal(self, power: f64) -> Option<Self> {
        let scaled = (f64::from(f32::from_bits(self)) * power).round_ties_even();
        let decimal = scaled as i32 as u32;
        (u32::from_decimal(decimal, power) == self).then_some(decimal)
    }

    fn from_decimal(decimal: Self, power: f64) -> Self {
        ((f64::from(decimal as i32) / power) as f32).to_bits()
    }
}

const DECIMAL_MAX: f64 = (1u64 << 51) as f64;

/// Bytes of a body of `rows` values; `None` where the parameters are impossible for words of `bits`.
pub(crate) fn body_bytes(bits: u32, params: &PageParams, rows: usize) -> Option<u64> {
    let is_possible = params.count as usize <= rows && params.extra <= EXPONENT_MAX;
    let exceptions = u64::from(params.count) * u64::from(4 + bits / 8);
    is_possible.then_some(exceptions + bitpack::body_bytes(bits, params.width, rows)?)
}

/// Appends the body of a page of at least one value, given as float bits.
pub(crate) fn encode<L: FloatLane>(values: &[L], body: &mut Vec<u8>) -> PageParams {
    let exponent = choose_exponent(values);
    let power = POWERS[exponent as usize];
    let decimals: Vec<Option<L>> = values.iter().map(|value| value.to_decimal(power)).collect();
    let frame = cheapest_frame(&decimals);

    let mut exception_rows: Vec<u32> = Vec::new();
    let mut filler = frame.base;
    let packed = decimals.iter().enumerate().map(|(row, decimal)| {
        match decimal {
            Some(decimal) if decimal.wrapping_sub(frame.base).bit_len() <= frame.width => filler = *decimal,
            _ => exception_rows.push(row as u32),
        }
        filler
    });
    let packed: Vec<L> = packed.collect();
    bitpack::pack(&packed, frame.base, frame.width, body);
    exception_rows.iter().for_each(|row| body.extend_from_slice(&row.to_le_bytes()));
    for row in &exception_rows {
        body.extend_from_slice(&values[*row as usize].to_u64().to_le_bytes()[..size_of::<L>()]);
    }
    PageParams {
        base: frame.base.to_u64().into(),
        base_of_bases: 0,
        count: exception_rows.len() as u32,
        width: frame.width as u8,
        extra: exponent,
    }
}

/// The exponent with the smallest estimated page, judged by a few evenly spaced values.
fn choose_exponent<L: FloatLane>(values: &[L]) -> u8 {
    let step = values.len().div_ceil(EXPONENT_SAMPLE);
    let sample: Vec<L> = values.iter().copied().step_by(step).collect();
    (0..=EXPONENT_MAX)
        .min_by_key(|exponent| estimated_bits(&sample, *exponent))
        .expect("the range is not empty")
}

/// Bits that the sample would take with the exponent that suits it best.
pub(crate) fn smallest_estimated_bits<L: FloatLane>(sample: &[L]) -> u64 {
    (0..=EXPONENT_MAX).map(|exponent| estimated_bits(sample, exponent)).min().expect("the range is not empty")
}

fn estimated_bits<L: FloatLane>(sample: &[L], exponent: u8) -> u64 {
    let power = POWERS[exponent as usize];
    let decimals: Vec<Option<L>> = sample.iter().map(|value| value.to_decimal(power)).collect();
    cheapest_frame(&decimals).cost_bits
}

/// Where the packed integers lie; the others are exceptions.
struct Frame<L> {
    base: L,
    width: u32,
    /// Of packed integers and exceptions.
    cost_bits: u64,
}

/// The frame from the smallest integer up that takes the fewest bits: a few large integers (and those that are
/// none) cost less as exceptions than as bits of every row.
fn cheapest_frame<L: FloatLane>(decimals: &[Option<L>]) -> Frame<L> {
    let smallest = decimals.iter().flatten().map(|decimal| *decimal ^ L::SIGN).min();
    let base = smallest.unwrap_or(L::SIGN) ^ L::SIGN;
    let mut width_counts = [0u64; u64::BITS as usize + 1];
    for decimal in decimals.iter().flatten() {
        width_counts[decimal.wrapping_sub(base).bit_len() as usize] += 1;
    }

    let exception_bits = u64::from(32 + L::BITS);
    let mut exceptions = decimals.len() as u64;
    let frames = (0..=L::BITS).map(|width| {
        exceptions -= width_counts[width as usize];
        let cost_bits = decimals.len() as u64 * u64::from(width) + exceptions * exception_bits;
        Frame { base, width, cost_bits }
    });
    frames.min_by_key(|frame| frame.cost_bits).expect("the range is not empty")
}

/// Appends the float bits of a page to `values`.
pub(crate) fn decode<L: FloatLane>(page: &Page<'_>, values: &mut Vec<L>) -> Result<()> {
    let PageParams { base, count, width, extra, .. } = page.params;
    let power = POWERS[usize::from(extra)];
    let rows_start = values.len();
    let mut decimals = [L::default(); VECTOR];
    for packed in bitpack::vectors(page.body, width, page.rows) {
        L::unpack(width.into(), L::from_u64(base as u64), packed, &mut decimals);
        values.extend(decimals.iter().map(|decimal| L::from_decimal(*decimal, power)));
    }
    values.truncate(rows_start + page.rows);

    let exceptions = &page.body[page.body.len() - count as usize * (4 + size_of::<L>())..];
    let (rows, bits) = exceptions.split_at(count as usize * 4);
    let page_values = &mut values[rows_start..];
    for (row, bits) in rows.chunks_exact(4).zip(bits.chunks_exact(size_of::<L>())) {
        let row = u32::from_le_bytes(row.try_into().expect("chunks are exact"));
        let mut word = [0; 8];
        word[..bits.len()].copy_from_slice(bits);
        let value = page_values.get_mut(row as usize);
        *value.ok_or_else(|| corrupt(format!("exception in row {row} of {}", page.rows)))? =
            L::from_u64(u64::from_le_bytes(word));
    }
    Ok(())
}
