//! Keys to sort: the distributions of the source paper (its section 6.3) and two that hurt.
//!
//! Every key is a function of the seed and its number, so that any number of threads give the same keys. Keys go over
//! the whole range of their type, NaNs left out.

use pelton_error::{Error, Result};
use pelton_kernels::{KeyType, random_word as word_at};

use crate::key::{Bits, Key, keys_of_mut, with_key};

/// How keys are distributed, and in which order they come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Distribution {
    /// Any key as likely as any other.
    Uniform,
    /// Around the middle of the range, with a twelfth of it as standard deviation (of a sum of twelve).
    Normal,
    /// Ascending.
    Sorted,
    /// Descending.
    Reverse,
    /// Ascending but for one key in a hundred, which is any.
    NearlySorted,
    /// A thousand distinct keys, the r-th with a share proportional to 1/r.
    Zipf,
    /// One key.
    AllEqual,
}

impl Distribution {
    /// All of them.
    pub const ALL: [Distribution; 7] = [
        Distribution::Uniform,
        Distribution::Normal,
        Distribution::Sorted,
        Distribution::Reverse,
        Distribution::NearlySorted,
        Distribution::Zipf,
        Distribution::AllEqual,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Distribution::Uniform => "uniform",
            Distribution::Normal => "normal",
            Distribution::Sorted => "sorted",
            Distribution::Reverse => "reverse",
            Distribution::NearlySorted => "nearly-sorted",
            Distribution::Zipf => "zipf",
            Distribution::AllEqual => "all-equal",
        }
    }

    /// The distribution of that name.
    ///
    /// # Errors
    ///
    /// `InvalidInput` that lists the names.
    pub fn parse(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name).ok_or_else(|| {
            let names = Self::ALL.map(Distribution::name).join(", ");
            Error::invalid_input(format!("no distribution '{name}'; there are {names}"))
        })
    }
}

/// Word `index` of the random words of `seed`.
pub fn random_word(seed: u64, index: u64) -> u64 {
    word_at(seed, index)
}

/// Fills `bytes` with keys of `key`, by `thread_count` threads.
///
/// # Panics
///
/// If they are no whole keys, or not aligned.
pub fn generate(key: KeyType, distribution: Distribution, seed: u64, bytes: &mut [u8], thread_count: usize) {
    with_key!(key, fill(bytes, distribution, seed, thread_count));
}

fn fill<K: Key>(bytes: &mut [u8], distribution: Distribution, seed: u64, thread_count: usize) {
    let keys = keys_of_mut::<K>(bytes);
    let count = keys.len();
    let part = count.div_ceil(thread_count.max(1)).max(1);
    let shares = Shares::new(distribution);
    std::thread::scope(|scope| {
        for (number, keys) in keys.chunks_mut(part).enumerate() {
            let shares = &shares;
            scope.spawn(move || {
                for (row, key) in (number * part..).zip(keys) {
                    *key = at::<K>(shares.of(seed, row as u64, count as u64), seed);
                }
            });
        }
    });
}

/// The key at a place in the range of all that are numbers, in units of 2^-64; an equal key for an equal place.
fn at<K: Key>(share: u64, seed: u64) -> K {
    let share = u128::from(share);
    let word = match K::Bits::COUNT {
        128 => share << 64 | u128::from(random_word(!seed, share as u64)),
        count => (share * ((1 << count) - K::NAN_COUNT)) >> 64,
    };
    K::of_bits(K::Bits::of_word(word))
}

struct Shares {
    distribution: Distribution,
    /// Of Zipf: sums of shares up to each rank, in units of 2^-64.
    sums: Vec<u64>,
}

const RANKS: usize = 1000;

impl Shares {
    fn new(distribution: Distribution) -> Self {
        let mut sums = Vec::new();
        if distribution == Distribution::Zipf {
            let total: f64 = (1..=RANKS).map(|rank| 1.0 / rank as f64).sum();
            let mut sum = 0.0;
            for rank in 1..=RANKS {
                sum += 1.0 / rank as f64 / total;
                sums.push((sum * u64::MAX as f64) as u64);
            }
        }
        Self { distribution, sums }
    }

    /// The place of key `row` of `count` in the range of all keys, in units of 2^-64.
    fn of(&self, seed: u64, row: u64, count: u64) -> u64 {
        let any = random_word(seed, row);
        let along = |row: u64| (u128::from(row) * u128::from(u64::MAX) / u128::from(count.max(1))) as u64;
        match self.distribution {
            Distribution::Uniform => any,
            Distribution::Normal => (0..12).map(|term| random_word(seed ^ (term + 1), row) / 12).sum(),
            Distribution::Sorted => along(row),
            Distribution::Reverse => along(count - 1 - row),
            Distribution::NearlySorted if random_word(!seed, row).is_multiple_of(100) => any,
            Distribution::NearlySorted => along(row),
            Distribution::Zipf => {
                random_word(seed, 1 << 40 | self.sums.partition_point(|sum| *sum < any) as u64)
            }
            Distribution::AllEqual => random_word(seed, 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::keys_of;

    fn keys(distribution: Distribution) -> Vec<f64> {
        let mut bytes = vec![0; 8 * 10_000];
        generate(KeyType::F64, distribution, 7, &mut bytes, 3);
        let mut again = vec![0; bytes.len()];
        generate(KeyType::F64, distribution, 7, &mut again, 1);
        assert!(bytes == again, "any number of threads gives the same keys");
        keys_of(&bytes).to_vec()
    }

    #[test]
    fn distributions_are_what_they_are_called() {
        assert!(keys(Distribution::Sorted).is_sorted());
        assert!(keys(Distribution::Reverse).is_sorted_by(|one, other| one >= other));
        let steps = keys(Distribution::NearlySorted).windows(2).filter(|pair| pair[0] > pair[1]).count();
        assert!((50..150).contains(&steps), "{steps} of 10,000 displaced keys show");
        let mut few = keys(Distribution::Zipf);
        few.sort_by(f64::total_cmp);
        few.dedup();
        assert!((300..=RANKS).contains(&few.len()), "{}", few.len());
        assert!(keys(Distribution::AllEqual).windows(2).all(|pair| pair[0] == pair[1]));
        let near = keys(Distribution::Normal).iter().filter(|key| key.abs() < 1.0).count();
        assert!(near > 9900, "within three standard deviations, a quarter of the range to each side: {near}");
        assert!(!keys(Distribution::Uniform).iter().any(|key| key.is_nan()));
    }
}
