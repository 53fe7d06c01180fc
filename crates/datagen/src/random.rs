//! A small random number generator with one independent sequence per (seed, table, batch).
//!
//! xoshiro256++ (Blackman, Vigna: Scrambled linear pseudorandom number generators, 2021), its state filled
//! by splitmix64 from a hash of the sequence's name. Everything built on it uses only integer and basic
//! IEEE arithmetic, no `ln` or `exp` of the platform, so the same seed gives the same rows on every machine.

/// A sequence of random numbers.
pub(crate) struct Random {
    state: [u64; 4],
}

impl Random {
    /// The sequence of one batch of one table.
    pub(crate) fn for_batch(seed: u64, table: &str, batch: u64) -> Self {
        let seed = splitmix(seed.wrapping_add(GOLDEN_GAMMA));
        let name = table.bytes().fold(seed, |hash, byte| splitmix(hash ^ u64::from(byte)));
        Self::of(splitmix(name) ^ batch)
    }

    /// The sequence that belongs to a value: what is drawn from it is the same wherever the value occurs.
    pub(crate) fn of(key: u64) -> Self {
        let mut next = key;
        let state = std::array::from_fn(|_| {
            next = next.wrapping_add(GOLDEN_GAMMA);
            splitmix(next)
        });
        Self { state }
    }

    #[inline]
    pub(crate) fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let result = a.wrapping_add(*d).rotate_left(23).wrapping_add(*a);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        result
    }

    /// Uniform in `0..bound`; off uniform by less than `bound / 2^32`.
    #[inline]
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        (((self.next_u64() >> 32) * u64::from(bound)) >> 32) as u32
    }

    /// Uniform in `low..=high`.
    #[inline]
    pub(crate) fn between(&mut self, low: i32, high: i32) -> i32 {
        low + self.below((high - low + 1) as u32) as i32
    }

    /// Uniform in `[0, 1)`, in steps of 2^-53.
    #[inline]
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// True with probability `probability`.
    #[inline]
    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// A rank in `0..count`, `r` or less with probability `(r / count)^(1/3)`: a few ranks come again and
    /// again, and most are rare.
    #[inline]
    pub(crate) fn skewed(&mut self, count: u32) -> u32 {
        let unit = self.unit();
        (unit * unit * unit * f64::from(count)) as u32
    }

    /// About standard normal, never beyond 3.47: the sum of four uniform 16-bit numbers, centred and scaled.
    #[inline]
    pub(crate) fn normal(&mut self) -> f64 {
        const CENTRE: f64 = 4.0 * 65535.0 / 2.0;
        /// The standard deviation of the sum: `65536 * sqrt(4 / 12)`.
        const DEVIATION: f64 = 65536.0 * 0.577_350_269_189_625_8;
        let bits = self.next_u64();
        let sum = (bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48);
        (sum as f64 - CENTRE) / DEVIATION
    }

    /// Log-normal with this median; `deviation` is that of the logarithm.
    #[inline]
    pub(crate) fn log_normal(&mut self, median: f64, deviation: f64) -> f64 {
        median * exp(deviation * self.normal())
    }
}

/// Draws indices with given weights: Walker's alias method (Vose 1991), one number per draw.
pub(crate) struct Weighted {
    /// Per slot: keep the slot's own index below this, take the alias at or above it.
    keep: Vec<(f64, u32)>,
}

impl Weighted {
    pub(crate) fn new(weights: &[f64]) -> Self {
        let mean = weights.iter().sum::<f64>() / weights.len() as f64;
        let mut scaled: Vec<f64> = weights.iter().map(|weight| weight / mean).collect();
        let mut keep: Vec<(f64, u32)> = (0..weights.len() as u32).map(|index| (1.0, index)).collect();
        let (mut small, mut large): (Vec<usize>, Vec<usize>) =
            (0..weights.len()).partition(|&index| scaled[index] < 1.0);
        while let (Some(poor), Some(&rich)) = (small.pop(), large.last()) {
            keep[poor] = (scaled[poor], rich as u32);
            scaled[rich] -= 1.0 - scaled[poor];
            if scaled[rich] < 1.0 {
                large.pop();
                small.push(rich);
            }
        }
        Self { keep }
    }

    #[inline]
    pub(crate) fn draw(&self, random: &mut Random) -> u32 {
        let position = random.unit() * self.keep.len() as f64;
        let slot = position as usize;
        let (below, alias) = self.keep[slot];
        if position - (slot as f64) < below { slot as u32 } else { alias }
    }
}

const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finaliser of splitmix64: a permutation of the 64-bit numbers without fixed structure.
pub(crate) fn splitmix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// `e^x` as `(1 + y + y²/2)^1024` with `y = x / 1024`; off by `|x|³ / 6·2^20` of it, 1.1e-5 at 4.
fn exp(x: f64) -> f64 {
    let y = x / 1024.0;
    let mut power = 1.0 + y + y * y / 2.0;
    for _ in 0..10 {
        power *= power;
    }
    power
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draws<T>(mut draw: impl FnMut(&mut Random) -> T) -> Vec<T> {
        let mut random = Random::for_batch(1, "table", 0);
        (0..100_000).map(|_| draw(&mut random)).collect()
    }

    #[test]
    fn sequences_differ_by_seed_table_and_batch() {
        let first = |seed, table, batch| Random::for_batch(seed, table, batch).next_u64();
        let sequences = [first(1, "a", 0), first(2, "a", 0), first(1, "b", 0), first(1, "a", 1)];
        for (index, sequence) in sequences.iter().enumerate() {
            assert!(!sequences[..index].contains(sequence), "sequence {index} repeats an earlier one");
        }
        assert_eq!(first(1, "a", 0), sequences[0]);
    }

    #[test]
    fn the_sequence_of_a_value_is_its_own() {
        assert_eq!(Random::of(7).next_u64(), Random::of(7).next_u64());
        assert_ne!(Random::of(7).next_u64(), Random::of(8).next_u64());
    }

    #[test]
    fn skewed_ranks_are_few_and_many() {
        let ranks = draws(|random| random.skewed(1000));
        let share = |below| ranks.iter().filter(|rank| **rank < below).count() as f64 / ranks.len() as f64;
        assert!((share(1) - 0.1).abs() < 0.01, "{}", share(1));
        assert!((share(125) - 0.5).abs() < 0.01, "{}", share(125));
        assert_eq!(share(1000), 1.0);
    }

    #[test]
    fn bounded_numbers_cover_their_range_evenly() {
        let mut counts = [0; 10];
        for value in draws(|random| random.below(10)) {
            counts[value as usize] += 1;
        }
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
    }

    #[test]
    fn normal_numbers_have_mean_0_and_deviation_1() {
        let values = draws(Random::normal);
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let variance = values.iter().map(|value| value * value).sum::<f64>() / values.len() as f64;
        assert!(mean.abs() < 0.02, "{mean}");
        assert!((variance - 1.0).abs() < 0.02, "{variance}");
    }

    #[test]
    fn weighted_draws_follow_their_weights() {
        let weighted = Weighted::new(&[1.0, 0.0, 7.0, 2.0]);
        let mut counts = [0i32; 4];
        for index in draws(|random| weighted.draw(random)) {
            counts[index as usize] += 1;
        }
        assert_eq!(counts[1], 0);
        for (count, expected) in counts.iter().zip([10_000, 0, 70_000, 20_000]) {
            assert!((count - expected).abs() < 1_000, "{counts:?}");
        }
    }

    #[test]
    fn the_power_series_is_the_exponential() {
        for x in [-4.0f64, -1.0, 0.0, 0.5, 3.47] {
            assert!((exp(x) / x.exp() - 1.0).abs() < 1.1e-5, "{x}");
        }
    }
}
