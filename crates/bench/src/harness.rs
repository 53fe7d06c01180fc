//! Repetition: warm up until the time is steady, repeat, summarise.
//!
//! ```text
//!   once ─ once ─ ... until two in a row differ by less than 5 %, at most `warm_up_max`
//!   once ─ once ─ ... `repetitions` times ──► mean, standard error, best
//! ```
//!
//! Times are those of [`Machine::now`]: of the wall, or of the simulation. What is repeated ends with a wait, and
//! allocates nothing.

use std::time::Duration;

use pelton_device::Machine;
use pelton_error::{Error, Result};

/// Two times in a row that differ by less than this share of the longer one are steady.
const STEADY_SHARE: f64 = 0.05;

/// How often something is repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Harness {
    /// Repetitions that count.
    pub repetitions: u32,
    /// Repetitions before that, at most.
    pub warm_up_max: u32,
}

impl Default for Harness {
    fn default() -> Self {
        Self { repetitions: 10, warm_up_max: 5 }
    }
}

/// Mean and spread of numbers of one unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard error of the mean; 0 for a single number.
    pub standard_error: f64,
    /// The smallest.
    pub min: f64,
    /// How many.
    pub count: u32,
}

/// Times of the repetitions that counted.
#[derive(Debug, Clone, PartialEq)]
pub struct Times {
    seconds: Vec<f64>,
    warm_up_count: u32,
}

impl Harness {
    /// Warms up and takes the time of `once`, which waits for what it began.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for no repetitions; the first error of `once`.
    pub fn measure(&self, machine: &Machine, mut once: impl FnMut() -> Result<()>) -> Result<Times> {
        if self.repetitions == 0 {
            return Err(Error::invalid_input(
                "0 repetitions measure nothing; ask for 1 at least, 10 as a rule",
            ));
        }
        let mut timed = || -> Result<Duration> {
            let start = machine.now();
            once()?;
            Ok(machine.now().saturating_sub(start))
        };
        let mut previous: Option<Duration> = None;
        let mut warm_up_count = 0;
        while warm_up_count < self.warm_up_max {
            let time = timed()?;
            warm_up_count += 1;
            if previous.replace(time).is_some_and(|previous| is_steady(previous, time)) {
                break;
            }
        }
        let seconds = (0..self.repetitions).map(|_| Ok(timed()?.as_secs_f64())).collect::<Result<_>>()?;
        Ok(Times { seconds, warm_up_count })
    }
}

fn is_steady(previous: Duration, time: Duration) -> bool {
    previous.abs_diff(time).as_secs_f64() < STEADY_SHARE * previous.max(time).as_secs_f64()
        || previous == time
}

impl Summary {
    /// Of `values`.
    ///
    /// # Panics
    ///
    /// If there are none.
    pub fn of(values: &[f64]) -> Self {
        assert!(!values.is_empty(), "nothing has no mean");
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let standard_error = if values.len() < 2 { 0.0 } else { (squares / (count - 1.0) / count).sqrt() };
        let min = values.iter().copied().fold(f64::INFINITY, f64::min);
        Self { mean, standard_error, min, count: u32::try_from(values.len()).unwrap_or(u32::MAX) }
    }
}

impl Times {
    /// Their mean and spread, seconds.
    pub fn seconds(&self) -> Summary {
        Summary::of(&self.seconds)
    }

    /// Repetitions spent on warming up.
    pub fn warm_up_count(&self) -> u32 {
        self.warm_up_count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_standard_error_are_those_of_the_textbook() {
        let summary = Summary::of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]);
        assert_eq!((summary.mean, summary.min, summary.count), (5.0, 2.0, 8));
        // Squares of the deviations sum to 32; the variance of the mean is 32 / 7 / 8.
        assert!((summary.standard_error - (32.0_f64 / 56.0).sqrt()).abs() < 1e-12);
    }

    #[test]
    fn a_single_number_has_no_spread() {
        assert_eq!(Summary::of(&[3.5]), Summary { mean: 3.5, standard_error: 0.0, min: 3.5, count: 1 });
    }

    #[test]
    fn five_percent_apart_is_no_longer_steady() {
        let check = |a, b| is_steady(Duration::from_nanos(a), Duration::from_nanos(b));
        assert!(check(1000, 951) && check(951, 1000) && check(0, 0));
        assert!(!check(1000, 950) && !check(950, 1000) && !check(0, 1));
    }
}
