//! Distinct-count sketch: HyperLogLog with 4096 one-byte registers.
//!
//! ```text
//!   hash   63 ......... 52 | 51 ................................. 0
//!          register 0..4095  rank = leading zeros + 1, at most 53
//! ```
//!
//! A register keeps the highest rank it has met, so that merging is a maximum a register and the order of
//! values does not matter. Standard error 1.04 / sqrt(4096) = 1.6 %.
//!
//! The estimate is the corrected raw estimator of Ertl (New cardinality estimation algorithms for HyperLogLog
//! sketches, 2017), which needs neither bias tables nor a switch between ranges.

use pelton_error::{Error, Result};

const REGISTER_BITS: u32 = 12;
const REGISTERS: usize = 1 << REGISTER_BITS;
/// Hash bits that are left for the rank.
const RANK_BITS: u32 = 64 - REGISTER_BITS;
const RANK_MAX: u8 = RANK_BITS as u8 + 1;

/// Counts distinct values without keeping them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sketch {
    registers: Box<[u8; REGISTERS]>,
}

impl Default for Sketch {
    fn default() -> Self {
        Self::new()
    }
}

impl Sketch {
    /// Bytes of a stored sketch.
    pub const BYTES: usize = REGISTERS;

    /// A sketch that has seen nothing.
    pub fn new() -> Self {
        Self { registers: Box::new([0; REGISTERS]) }
    }

    /// Counts the value with this hash, see [`crate::hash_scalar`].
    #[inline]
    pub fn add_hash(&mut self, hash: u64) {
        let register = (hash >> RANK_BITS) as usize;
        // The bit put below the hash ends the count of zeros where all of the hash is zero.
        let rank = ((hash << REGISTER_BITS) | (1 << (REGISTER_BITS - 1))).leading_zeros() as u8 + 1;
        let highest = &mut self.registers[register];
        if rank > *highest {
            *highest = rank;
        }
    }

    /// Counts what `other` has counted, too.
    pub fn merge(&mut self, other: &Sketch) {
        for (mine, theirs) in self.registers.iter_mut().zip(other.registers.iter()) {
            *mine = (*mine).max(*theirs);
        }
    }

    /// How many distinct values were added, give or take a few percent.
    pub fn estimate(&self) -> u64 {
        let mut with_rank = [0u32; RANK_MAX as usize + 1];
        for rank in self.registers.iter() {
            with_rank[usize::from(*rank)] += 1;
        }
        let registers = REGISTERS as f64;
        let full = registers - f64::from(with_rank[usize::from(RANK_MAX)]);
        let mut harmonic = registers * tau(full / registers);
        for rank in (1..RANK_MAX).rev() {
            harmonic = 0.5 * (harmonic + f64::from(with_rank[usize::from(rank)]));
        }
        harmonic += registers * sigma(f64::from(with_rank[0]) / registers);
        let estimate = registers * registers / (2.0 * std::f64::consts::LN_2 * harmonic);
        estimate.round() as u64
    }

    /// The registers in order, one byte each.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.registers.to_vec()
    }

    /// A sketch from [`Sketch::to_bytes`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let registers: Box<[u8; REGISTERS]> = bytes.to_vec().into_boxed_slice().try_into().map_err(|_| {
            Error::corrupt(format!("a distinct-count sketch has {REGISTERS} bytes, found {}", bytes.len()))
        })?;
        match registers.iter().find(|rank| **rank > RANK_MAX) {
            None => Ok(Self { registers }),
            Some(rank) => Err(Error::corrupt(format!(
                "a distinct-count sketch holds ranks to {RANK_MAX}, found {rank}"
            ))),
        }
    }
}

/// Weight of the registers that met nothing: x + sum of x^(2^k) 2^(k-1) over k >= 1; infinite at 1.
fn sigma(empty_share: f64) -> f64 {
    if empty_share == 1.0 {
        return f64::INFINITY;
    }
    let (mut power, mut weight, mut sum) = (empty_share, 1.0, empty_share);
    loop {
        power *= power;
        let before = sum;
        sum += power * weight;
        weight += weight;
        if sum == before {
            return sum;
        }
    }
}

/// Weight of the registers at the highest rank: (1 - x - sum of (1 - x^(2^-k))^2 2^-k over k >= 1) / 3.
fn tau(open_share: f64) -> f64 {
    if open_share == 0.0 || open_share == 1.0 {
        return 0.0;
    }
    let (mut root, mut weight, mut sum) = (open_share, 1.0, 1.0 - open_share);
    loop {
        root = root.sqrt();
        let before = sum;
        weight *= 0.5;
        sum -= (1.0 - root) * (1.0 - root) * weight;
        if sum == before {
            return sum / 3.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::{hash_bytes, hash_i64};

    fn sketch_of(values: impl Iterator<Item = i64>) -> Sketch {
        let mut sketch = Sketch::new();
        values.for_each(|value| sketch.add_hash(hash_i64(value)));
        sketch
    }

    fn assert_close(sketch: &Sketch, distinct: u64) {
        let error = (sketch.estimate() as f64 - distinct as f64).abs() / distinct as f64;
        assert!(error < 0.05, "{} for {distinct}", sketch.estimate());
    }

    #[test]
    fn estimate_is_within_five_percent_from_ten_to_a_million() {
        for distinct in
            [1, 10, 30, 100, 300, 1_000, 3_000, 10_000, 20_000, 30_000, 100_000, 300_000, 1_000_000]
        {
            assert_close(&sketch_of(0..distinct), distinct as u64);
            assert_close(&sketch_of((0..distinct).map(|value| value * 86_400_000_000 - 7)), distinct as u64);
        }
    }

    #[test]
    fn strings_are_counted_like_integers() {
        let mut sketch = Sketch::new();
        (0..50_000)
            .for_each(|number| sketch.add_hash(hash_bytes(format!("Customer#{number:09}").as_bytes())));
        assert_close(&sketch, 50_000);
    }

    #[test]
    fn nothing_is_estimated_as_zero() {
        assert_eq!(Sketch::new().estimate(), 0);
    }

    #[test]
    fn merging_is_adding() {
        let mut left = sketch_of(0..60_000);
        left.merge(&sketch_of(40_000..100_000));
        assert_eq!(left, sketch_of(0..100_000));
    }

    #[test]
    fn extreme_hashes_and_full_registers_are_held() {
        let mut sketch = Sketch::new();
        sketch.add_hash(0);
        sketch.add_hash(u64::MAX);
        assert_eq!(sketch.estimate(), 2);
        let full = Sketch::from_bytes(&[RANK_MAX; REGISTERS]).unwrap();
        assert!(full.estimate() > 1 << 60);
    }

    #[test]
    fn bytes_round_trip_and_bad_ones_are_refused() {
        let sketch = sketch_of(0..1000);
        assert_eq!(Sketch::from_bytes(&sketch.to_bytes()).unwrap(), sketch);
        assert!(Sketch::from_bytes(&[0; REGISTERS - 1]).is_err());
        assert!(Sketch::from_bytes(&[RANK_MAX + 1; REGISTERS]).is_err());
    }
}
