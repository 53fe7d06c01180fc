//! Variances and standard deviations of integers and decimals, from exact sums.
//!
//! ```text
//!   count n, sum s of x, sum q of x * x      exact, in 128 bits
//!   m = s / n, rounded, and s = m * n + r    so that |r| <= n / 2
//!   sum of (x - m)^2 = q - m * (s + r)       exact
//!   M2 = that - r^2 / n                      in doubles; what is subtracted is at most half of it
//! ```
//!
//! So no digits are lost however far the values lie from 0, where `q - s^2 / n` would lose them all. The CPU goes on from
//! value to value (Welford 1962) and rounds each time; the results differ by that.

use pelton_error::{Error, Result};

/// Which of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Variance {
    /// Divided by one less than there are values.
    is_sample: bool,
    /// The root of it.
    is_deviation: bool,
    /// What unscaled values are multiples of.
    unit: f64,
}

impl Variance {
    /// The function that DataFusion calls `name`, of values that are multiples of 1 / `unit`; `None` for others.
    pub(super) fn of(name: &str, unit: f64) -> Option<Self> {
        let (is_sample, is_deviation) = match name {
            "var" => (true, false),
            "var_pop" => (false, false),
            "stddev" => (true, true),
            "stddev_pop" => (false, true),
            _ => return None,
        };
        Some(Self { is_sample, is_deviation, unit })
    }

    /// Of `count` values with this sum, and this sum of their squares; `None`: NULL.
    ///
    /// # Errors
    ///
    /// `Unsupported` where 128 bits do not hold what is between.
    pub(super) fn value(&self, count: i128, sum: i128, squares: i128) -> Result<Option<f64>> {
        let divisor = if self.is_sample { count - 1 } else { count };
        if divisor <= 0 {
            return Ok(None);
        }
        let too_large = || Error::unsupported("a variance beyond 128 bits, which the CPU looks at");
        let (mut middle, mut rest) = (sum.div_euclid(count), sum.rem_euclid(count));
        if rest > count / 2 {
            (middle, rest) = (middle + 1, rest - count);
        }
        let shift = sum.checked_add(rest).and_then(|sum| middle.checked_mul(sum)).ok_or_else(too_large)?;
        let around_middle = squares.checked_sub(shift).ok_or_else(too_large)?;
        let around_mean = around_middle as f64 - rest as f64 * (rest as f64 / count as f64);
        let variance = around_mean / (self.unit * self.unit) / divisor as f64;
        Ok(Some(if self.is_deviation { variance.sqrt() } else { variance }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, unit: f64, values: &[i128]) -> Option<f64> {
        let squares = values.iter().map(|value| value * value).sum();
        let variance = Variance::of(name, unit).unwrap();
        variance.value(values.len() as i128, values.iter().sum(), squares).unwrap()
    }

    #[test]
    fn few_values_have_no_variance_of_a_sample() {
        assert_eq!(of("var", 1.0, &[]), None);
        assert_eq!(of("var_pop", 1.0, &[]), None);
        assert_eq!(of("stddev", 1.0, &[7]), None);
        assert_eq!(of("stddev_pop", 1.0, &[7]), Some(0.0));
    }

    #[test]
    fn values_far_from_zero_lose_no_digits() {
        let far = 9_007_199_254_740_993;
        for (values, expected) in
            [(vec![1, 2, 3, 4], 1.25), (vec![0, 0, 0, 1], 0.1875), (vec![-5, 5], 25.0), (vec![3, 3, 3], 0.0)]
        {
            for shift in [0, far, -far] {
                let shifted: Vec<i128> = values.iter().map(|value| value + shift).collect();
                assert_eq!(of("var_pop", 1.0, &shifted), Some(expected), "{shifted:?}");
            }
        }
    }

    #[test]
    fn decimals_are_scaled_once() {
        assert_eq!(of("var", 100.0, &[100, 200, 300]), Some(1.0));
        assert_eq!(of("stddev_pop", 10.0, &[0, 40]), Some(2.0));
    }

    #[test]
    fn what_128_bits_do_not_hold_is_the_cpu_s() {
        let variance = Variance::of("var", 1.0).unwrap();
        assert!(variance.value(2, i128::MAX, i128::MAX).is_err());
        assert!(Variance::of("corr", 1.0).is_none());
    }
}
