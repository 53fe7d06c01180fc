//! Floats that are decimals in disguise, as integers: 12.37 is 1237 with the exponent 2.
//!
//! A page has one exponent `e`; value `v` becomes the integer `d = round(v · 10^e)`, bit-packed, and reads back
//! as `d / 10^e`. Where that is not `v` bit for bit (NaN, infinities, -0.0, more digits), `v` is kept aside with
//! its position: an exception.
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
    let mut exceptions: Vec<u32> = Vec::new();
    let mut decimals: Vec<L> = Vec::with_capacity(values.len());
    let mut filler = values.iter().find_map(|value| value.to_decimal(power)).unwrap_or_default();
    for (row, value) in values.iter().enumerate() {
        match value.to_decimal(power) {
            Some(decimal) => filler = decimal,
            None => exceptions.push(row as u32),
        }
        decimals.push(filler);
    }

    let params = bitpack::encode(&decimals, L::SIGN, body);
    exceptions.iter().for_each(|row| body.extend_from_slice(&row.to_le_bytes()));
    for row in &exceptions {
        body.extend_from_slice(&values[*row as usize].to_u64().to_le_bytes()[..size_of::<L>()]);
    }
    PageParams { count: exceptions.len() as u32, extra: exponent, ..params }
}

/// The exponent with the smallest estimated page, judged by a few evenly spaced values.
fn choose_exponent<L: FloatLane>(values: &[L]) -> u8 {
    let step = values.len().div_ceil(EXPONENT_SAMPLE);
    let sample: Vec<L> = values.iter().copied().step_by(step).collect();
    (0..=EXPONENT_MAX)
        .min_by_key(|exponent| estimated_bits(&sample, *exponent))
        .expect("the range is not empty")
}

/// Bits that the sample would take with this exponent.
pub(crate) fn estimated_bits<L: FloatLane>(sample: &[L], exponent: u8) -> u64 {
    let power = POWERS[exponent as usize];
    let decimals: Vec<L> = sample.iter().filter_map(|value| value.to_decimal(power)).collect();
    let width = if decimals.is_empty() { 0 } else { bitpack::frame(&decimals, L::SIGN).1 };
    let exception_count = (sample.len() - decimals.len()) as u64;
    u64::from(width) * sample.len() as u64 + exception_count * u64::from(32 + L::BITS)
}

/// Bits that the sample would take with the exponent that suits it best.
pub(crate) fn smallest_estimated_bits<L: FloatLane>(sample: &[L]) -> u64 {
    (0..=EXPONENT_MAX).map(|exponent| estimated_bits(sample, exponent)).min().expect("the range is not empty")
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
