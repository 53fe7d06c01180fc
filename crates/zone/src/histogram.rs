//! Histogram of a chunk: one byte a bin, for skipping (is it 0?) and for estimates (how many, to 3 %).
//!
//! A byte is 0 for an empty bin, else 1 + round(12 log2(rows)), held at 255 (2.3 million rows). Twelve steps
//! an octave put the error of a count at 2^(1/24) - 1 = 2.9 % at most. Encoding compares integers only.

use std::sync::LazyLock;

use crate::{Scalar, bins::Bins};

/// Steps in which the logarithm of a count is kept, per doubling.
const STEPS_PER_OCTAVE: u32 = 12;
/// `2^(31 + (2 step - 1) / 24)` for steps 1 to 12, rounded up: where the logarithm rounds up to the step.
const STEP_STARTS: [u32; STEPS_PER_OCTAVE as usize] = [
    2_210_409_723,
    2_341_847_524,
    2_481_101_025,
    2_628_634_969,
    2_784_941_738,
    2_950_542_992,
    3_125_991_408,
    3_311_872_530,
    3_508_806_719,
    3_717_451_224,
    3_938_502_376,
    4_172_697_915,
];

/// How the values of a chunk spread between its bounds.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    bins: Bins,
    logs: Vec<u8>,
}

impl Histogram {
    /// A histogram of rows per bin.
    pub(crate) fn new(bins: Bins, counts: &[u32]) -> Self {
        assert_eq!(counts.len(), bins.count());
        Self { bins, logs: counts.iter().map(|count| log_of(*count)).collect() }
    }

    /// A stored histogram between `min` and `max`; `None` where they do not make that many bins.
    pub(crate) fn from_bytes(min: &Scalar, max: &Scalar, logs: &[u8]) -> Option<Self> {
        let bins = Bins::new(min, max, u32::try_from(logs.len()).ok()?)?;
        (bins.count() == logs.len()).then(|| Self { bins, logs: logs.to_vec() })
    }

    /// One byte a bin, as stored.
    pub fn as_bytes(&self) -> &[u8] {
        &self.logs
    }

    /// The number of bins.
    pub fn bin_count(&self) -> usize {
        self.logs.len()
    }

    /// Bins that hold a row.
    pub fn occupied_count(&self) -> usize {
        self.logs.iter().filter(|log| **log > 0).count()
    }

    /// Rows in bin `bin`, to 3 %.
    pub fn rows_in(&self, bin: usize) -> f64 {
        count_of(self.logs[bin])
    }

    pub(crate) fn bins(&self) -> &Bins {
        &self.bins
    }

    /// True where a bin from `first` to `last`, both included, holds a row.
    pub(crate) fn is_occupied(&self, first: usize, last: usize) -> bool {
        first <= last && self.logs[first..=last].iter().any(|log| *log > 0)
    }

    /// Rows in all bins.
    pub(crate) fn rows(&self) -> f64 {
        self.logs.iter().map(|log| count_of(*log)).sum()
    }

    /// Rows below `position` on a scale from 0 to the number of bins, spread evenly within a bin.
    pub(crate) fn rows_below(&self, position: f64) -> f64 {
        let whole = (position as usize).min(self.logs.len());
        let below: f64 = self.logs[..whole].iter().map(|log| count_of(*log)).sum();
        let within = self.logs.get(whole).map_or(0.0, |log| count_of(*log) * (position - whole as f64));
        below + within
    }
}

fn log_of(count: u32) -> u8 {
    if count == 0 {
        return 0;
    }
    let octave = count.ilog2();
    let mantissa = count << (31 - octave);
    let step = STEP_STARTS.iter().take_while(|start| mantissa >= **start).count() as u32;
    u8::try_from(1 + octave * STEPS_PER_OCTAVE + step).unwrap_or(u8::MAX)
}

/// The counts of all logarithms: estimates add up hundreds of bins for each of thousands of chunks.
static COUNTS: LazyLock<[f64; 256]> = LazyLock::new(|| {
    std::array::from_fn(
        |log| if log == 0 { 0.0 } else { ((log - 1) as f64 / f64::from(STEPS_PER_OCTAVE)).exp2() },
    )
});

fn count_of(log: u8) -> f64 {
    COUNTS[usize::from(log)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_kept_to_three_percent() {
        for count in (1..10_000).chain((10_000..2_300_000).step_by(997)) {
            let error = (count_of(log_of(count)) / f64::from(count) - 1.0).abs();
            assert!(error < 0.03, "{count}: {error}");
        }
    }

    #[test]
    fn only_an_empty_bin_is_zero_and_the_rest_rise() {
        assert_eq!(log_of(0), 0);
        assert_eq!(log_of(1), 1);
        assert_eq!(log_of(1 << 17), 205);
        assert_eq!(log_of(u32::MAX), 255);
        assert!((1..100_000).all(|count| log_of(count) <= log_of(count + 1)));
    }

    #[test]
    fn steps_start_where_the_logarithm_rounds_up() {
        for (index, start) in STEP_STARTS.iter().enumerate() {
            let exact = (31.0 + (2 * index + 1) as f64 / 24.0).exp2();
            assert_eq!(*start, exact.ceil() as u32, "step {}", index + 1);
        }
    }

    #[test]
    fn rows_below_a_position_are_spread_within_its_bin() {
        let bins = Bins::new(&Scalar::Int(0), &Scalar::Int(3), 4).unwrap();
        let histogram = Histogram::new(bins, &[8, 0, 16, 1]);
        assert_eq!(histogram.rows_below(0.5), 4.0);
        assert_eq!(histogram.rows_below(2.25), 12.0);
        assert_eq!(histogram.rows_below(4.0), histogram.rows());
        assert!(!histogram.is_occupied(1, 1));
        assert!(histogram.is_occupied(1, 2));
    }
}
