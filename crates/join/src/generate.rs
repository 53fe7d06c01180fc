//! Workloads of joins with the answers that they must have, the same for any number of threads.
//!
//! The build side has unique keys 0 to n - 1 in a random order, a value that follows from each key; probe rows draw
//! keys uniformly or by Zipf's law, or keys that no build row has. So the number of matches and the sum of the products
//! of their values are added up while rows are drawn, without a table.
//!
//! Zipf: W. Hörmann, G. Derflinger, "Rejection-inversion to generate variates from monotone discrete distributions",
//! 1996.

use pelton_error::{Error, Result};
use pelton_kernels::random_word;
use zerocopy::FromBytes;

/// What a workload is made of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Workload {
    /// Bytes of keys and of values: 4 or 8.
    pub width_bytes: usize,
    /// Build rows.
    pub build_count: u64,
    /// Probe rows.
    pub probe_count: u64,
    /// Exponent of Zipf's law, from 0 (uniform) on: the r-th key is drawn with a share proportional to r^-zipf.
    pub zipf: f64,
    /// Share of probe rows with a match, 0 to 1.
    pub selectivity: f64,
    /// Everything random follows from it.
    pub seed: u64,
}

/// What a join of a workload finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Expected {
    /// Matches.
    pub match_count: u64,
    /// Sum of the products of the values of both sides, modulo 2^64.
    pub value_sum: u64,
}

impl Workload {
    /// Refuses what cannot be.
    ///
    /// # Errors
    ///
    /// `InvalidInput` that names the parameter and its range.
    pub fn check(&self) -> Result<()> {
        if self.width_bytes != 4 && self.width_bytes != 8 {
            return Err(Error::invalid_input("keys of a workload: take 4 or 8 bytes"));
        }
        if !(0.0..=1.0).contains(&self.selectivity) {
            return Err(Error::invalid_input("selectivity: take 0 to 1"));
        }
        if !(0.0..=8.0).contains(&self.zipf) {
            return Err(Error::invalid_input("exponent of Zipf's law: take 0 to 8"));
        }
        let key_count = if self.width_bytes == 4 { 1 << 32 } else { 1 << 48 };
        if self.build_count > key_count / 2 {
            return Err(Error::invalid_input("more build rows than half of all keys; take keys of 8 bytes"));
        }
        Ok(())
    }

    /// Key and value of a build row.
    pub fn build_row(&self, row: u64) -> (u64, u64) {
        let key = self.shuffled(row);
        (key, self.build_value(key))
    }

    fn build_value(&self, key: u64) -> u64 {
        random_word(self.seed ^ 0xB01D, key) & self.mask()
    }

    fn mask(&self) -> u64 {
        u64::MAX >> (64 - 8 * self.width_bytes)
    }

    /// Where a place below the number of build rows goes: steps that are bijections of 2^bits places, again and again
    /// until one is in range.
    fn shuffled(&self, place: u64) -> u64 {
        let bits = 64 - self.build_count.saturating_sub(1).leading_zeros();
        let mask = if bits == 0 { 0 } else { u64::MAX >> (64 - bits) };
        let half = bits.div_ceil(2).max(1);
        let mut value = place;
        loop {
            for round in 0..3 {
                value = value.wrapping_mul(0xD6E8_FEB8_6659_FD93).wrapping_add(random_word(self.seed, round))
                    & mask;
                value ^= value >> half;
            }
            if value < self.build_count {
                return value;
            }
        }
    }

    /// Fills bytes of build keys and values, by `thread_count` threads.
    ///
    /// # Panics
    ///
    /// If they are not of as many rows, or not aligned.
    pub fn fill_build(&self, keys: &mut [u8], values: &mut [u8], thread_count: usize) {
        self.fill(keys, values, self.build_count, thread_count, |row| (self.build_row(row), None));
    }

    /// Fills bytes of probe keys and values, and answers what the join finds.
    ///
    /// # Panics
    ///
    /// As [`fill_build`](Self::fill_build).
    pub fn fill_probe(&self, keys: &mut [u8], values: &mut [u8], thread_count: usize) -> Expected {
        let zipf = Zipf::new(self.build_count, self.zipf);
        let limit = (self.selectivity * 2.0_f64.powi(64)) as u128;
        self.fill(keys, values, self.probe_count, thread_count, |row| {
            let value = random_word(self.seed ^ 0x960B_E000, row) & self.mask();
            let draw = |attempt: u64| random_word(self.seed ^ 0xD5A3_0001, (row << 8).wrapping_add(attempt));
            let is_match = self.build_count > 0 && u128::from(draw(255)) < limit;
            if !is_match {
                // As many keys above those of the build side match nothing.
                return ((self.build_count + below(draw(0), self.build_count.max(1)), value), None);
            }
            let key = self.shuffled(zipf.draw(draw));
            ((key, value), Some(self.build_value(key).wrapping_mul(value)))
        })
    }

    fn fill(
        &self,
        keys: &mut [u8],
        values: &mut [u8],
        count: u64,
        thread_count: usize,
        row: impl Fn(u64) -> ((u64, u64), Option<u64>) + Sync,
    ) -> Expected {
        assert_eq!(keys.len() as u64, count * self.width_bytes as u64, "keys of all rows");
        assert_eq!(values.len(), keys.len(), "values of all rows");
        let part = (count as usize).div_ceil(thread_count.max(1)).max(1);
        let part_bytes = part * self.width_bytes;
        let parts = keys.chunks_mut(part_bytes).zip(values.chunks_mut(part_bytes)).enumerate();
        std::thread::scope(|scope| {
            let row = &row;
            let threads: Vec<_> = parts
                .map(|(number, (keys, values))| {
                    let begin = (number * part) as u64;
                    scope.spawn(move || match self.width_bytes {
                        4 => fill_part::<u32>(keys, values, begin, row),
                        _ => fill_part::<u64>(keys, values, begin, row),
                    })
                })
                .collect();
            threads.into_iter().fold(Expected::default(), |sum, thread| {
                let part = thread.join().expect("a thread that draws rows");
                Expected {
                    match_count: sum.match_count + part.match_count,
                    value_sum: sum.value_sum.wrapping_add(part.value_sum),
                }
            })
        })
    }
}

fn fill_part<W: crate::host::Word>(
    keys: &mut [u8],
    values: &mut [u8],
    begin: u64,
    row: &(impl Fn(u64) -> ((u64, u64), Option<u64>) + Sync),
) -> Expected {
    let keys = <[W]>::mut_from_bytes(keys).expect("whole keys, aligned");
    let values = <[W]>::mut_from_bytes(values).expect("whole values, aligned");
    let mut expected = Expected::default();
    for ((number, key), value) in (begin..).zip(keys).zip(values) {
        let ((drawn_key, drawn_value), product) = row(number);
        (*key, *value) = (W::of(drawn_key), W::of(drawn_value));
        if let Some(product) = product {
            expected.match_count += 1;
            expected.value_sum = expected.value_sum.wrapping_add(product);
        }
    }
    expected
}

/// A random word as a number below `limit`.
fn below(word: u64, limit: u64) -> u64 {
    ((u128::from(word) * u128::from(limit)) >> 64) as u64
}

/// Numbers 0 to n - 1, the r-th from 1 with a share proportional to r^-exponent.
struct Zipf {
    count: u64,
    exponent: f64,
    integral_first: f64,
    integral_last: f64,
    near: f64,
}

impl Zipf {
    fn new(count: u64, exponent: f64) -> Self {
        let mut zipf = Self { count, exponent, integral_first: 0.0, integral_last: 0.0, near: 0.0 };
        zipf.integral_first = zipf.integral(1.5) - 1.0;
        zipf.integral_last = zipf.integral(count as f64 + 0.5);
        zipf.near = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.share(2.0));
        zipf
    }

    fn share(&self, x: f64) -> f64 {
        x.powf(-self.exponent)
    }

    /// Of shares from 1 to x; the logarithm where the exponent is 1.
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        let scaled = (1.0 - self.exponent) * log;
        log * if scaled.abs() < 1e-8 { 1.0 + scaled / 2.0 } else { scaled.exp_m1() / scaled }
    }

    fn inverse(&self, integral: f64) -> f64 {
        let scaled = (integral * (1.0 - self.exponent)).max(-1.0);
        (integral * if scaled.abs() < 1e-8 { 1.0 - scaled / 2.0 } else { scaled.ln_1p() / scaled }).exp()
    }

    fn draw(&self, word: impl Fn(u64) -> u64) -> u64 {
        if self.exponent == 0.0 {
            return below(word(0), self.count);
        }
        // Nearly all are accepted at once; a row that is not after 200 draws takes the first number.
        for attempt in 0..200 {
            let share = (word(attempt) >> 11) as f64 / (1_u64 << 53) as f64;
            let at = self.integral_last + share * (self.integral_first - self.integral_last);
            let x = self.inverse(at);
            let rank = x.round().clamp(1.0, self.count as f64);
            if rank - x <= self.near || at >= self.integral(rank + 0.5) - self.share(rank) {
                return (rank as u64 - 1).min(self.count - 1);
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(workload: &Workload, threads: usize) -> (Vec<u64>, Vec<u64>, Vec<u64>, Vec<u64>, Expected) {
        let words = |count: u64| vec![0_u64; count as usize];
        let [mut keys, mut values] = [words(workload.build_count), words(workload.build_count)];
        let [mut probe_keys, mut probe_values] = [words(workload.probe_count), words(workload.probe_count)];
        use zerocopy::IntoBytes;
        workload.fill_build(keys.as_mut_bytes(), values.as_mut_bytes(), threads);
        let expected = workload.fill_probe(probe_keys.as_mut_bytes(), probe_values.as_mut_bytes(), threads);
        (keys, values, probe_keys, probe_values, expected)
    }

    #[test]
    fn workloads_have_unique_dense_keys_and_the_answer_that_they_ship() {
        for (build_count, zipf, selectivity) in [
            (1, 0.0, 1.0),
            (2, 1.0, 1.0),
            (1000, 0.0, 0.5),
            (1023, 1.0, 1.0),
            (1024, 1.75, 0.9),
            (0, 1.0, 1.0),
            (7, 0.5, 0.0),
        ] {
            let workload =
                Workload { width_bytes: 8, build_count, probe_count: 5000, zipf, selectivity, seed: 3 };
            let (keys, values, probe_keys, probe_values, expected) = rows(&workload, 3);
            assert_eq!(rows(&workload, 1).2, probe_keys, "any number of threads draws the same rows");
            let mut sorted = keys.clone();
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..build_count));
            let table: std::collections::HashMap<u64, u64> = keys.into_iter().zip(values).collect();
            let mut found = Expected::default();
            for (key, value) in probe_keys.iter().zip(&probe_values) {
                if let Some(build) = table.get(key) {
                    found.match_count += 1;
                    found.value_sum = found.value_sum.wrapping_add(build.wrapping_mul(*value));
                }
            }
            assert_eq!(found, expected, "{workload:?}");
        }
    }

    #[test]
    fn zipf_draws_ranks_by_their_shares() {
        for exponent in [0.5, 1.0, 1.5, 1.75] {
            let zipf = Zipf::new(1000, exponent);
            let mut counts = [0_u64; 3];
            for row in 0..100_000 {
                let rank = zipf.draw(|attempt| random_word(9, row << 8 | attempt));
                assert!(rank < 1000);
                if rank < 3 {
                    counts[rank as usize] += 1;
                }
            }
            let total: f64 = (1..=1000).map(|rank| f64::from(rank).powf(-exponent)).sum();
            for (rank, count) in counts.into_iter().enumerate() {
                let share = (rank as f64 + 1.0).powf(-exponent) / total;
                assert!(
                    (count as f64 / 1e5 - share).abs() < 0.01,
                    "{exponent}: rank {rank} {count} of {share}"
                );
            }
        }
    }
}
