//! Sums, averages and variances of doubles over frames that move on, without a subtraction.
//!
//! ```text
//!   values of the frame      a   b   c │ d   e          f enters: the rest becomes def
//!   suffixes               abc  bc   c │   rest: de     a leaves: its suffix does too
//!                                                       result:   the first suffix and the rest, abc + de
//! ```
//!
//! Two stacks make a queue: when the suffixes are used up, those of all values in the frame are computed, each value once. So a
//! row costs O(1) on average, whatever the frame. Frames of few values are folded from their first to their last, as
//! PostgreSQL folds every frame; longer ones may differ from that by the rounding of another order of additions.

use std::collections::VecDeque;
use std::fmt::Debug;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::Float64Type;
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::logical_expr::Accumulator;
use datafusion::scalar::ScalarValue;

/// Values that are folded for each row, as `running::moving` does for frames of that many ROWS.
const FEW: usize = 128;

pub(crate) fn sum() -> Box<dyn Accumulator> {
    folded::<Sum>(|sum| (sum.count > 0).then_some(sum.sum))
}

pub(crate) fn average() -> Box<dyn Accumulator> {
    folded::<Sum>(|sum| (sum.count > 0).then(|| sum.sum / sum.count as f64))
}

/// The variance, of a sample or of a population.
pub(super) fn variance(is_of_sample: bool) -> Box<dyn Accumulator> {
    match is_of_sample {
        true => folded::<Spread>(of_sample),
        false => folded::<Spread>(of_population),
    }
}

/// The standard deviation, of a sample or of a population.
pub(super) fn deviation(is_of_sample: bool) -> Box<dyn Accumulator> {
    match is_of_sample {
        true => folded::<Spread>(|spread| of_sample(spread).map(f64::sqrt)),
        false => folded::<Spread>(|spread| of_population(spread).map(f64::sqrt)),
    }
}

fn of_sample(spread: Spread) -> Option<f64> {
    (spread.count > 1).then(|| spread.squares / (spread.count - 1) as f64)
}

/// Of one value it is 0, as without a window, whatever the value.
fn of_population(spread: Spread) -> Option<f64> {
    match spread.count {
        0 => None,
        1 => Some(0.0),
        count => Some(spread.squares / count as f64),
    }
}

/// What some values add up to.
trait Part: Copy + Default + Debug + Send + Sync + 'static {
    fn add(&mut self, value: f64);

    /// With the values of `later`, which follow those of `self`.
    fn merged(self, later: Self) -> Self;
}

#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    count: u64,
    sum: f64,
}

impl Part for Sum {
    fn add(&mut self, value: f64) {
        self.count += 1;
        self.sum += value;
    }

    fn merged(self, later: Self) -> Self {
        Self { count: self.count + later.count, sum: self.sum + later.sum }
    }
}

/// How far values are from their mean, by Welford's method (Technometrics 4, 1962) and the merge of Chan, Golub and LeVeque (1979).
/// Of equal values all differences are 0, and so are the squares.
#[derive(Debug, Clone, Copy, Default)]
struct Spread {
    count: u64,
    mean: f64,
    /// The sum of the squares of the differences from the mean.
    squares: f64,
}

impl Part for Spread {
    fn add(&mut self, value: f64) {
        self.count += 1;
        let before = value - self.mean;
        self.mean += before / self.count as f64;
        self.squares += before * (value - self.mean);
    }

    fn merged(self, later: Self) -> Self {
        if self.count == 0 || later.count == 0 {
            return if self.count == 0 { later } else { self };
        }
        let count = self.count + later.count;
        let difference = later.mean - self.mean;
        let share = later.count as f64 / count as f64;
        Self {
            count,
            mean: self.mean + difference * share,
            squares: self.squares + later.squares + difference * difference * self.count as f64 * share,
        }
    }
}

/// See the module. NULL is no value.
#[derive(Debug)]
struct Folded<P> {
    values: VecDeque<f64>,
    /// Of as many of the first values: each together with those after it up to the last of these; the first value's is last.
    suffixes: Vec<P>,
    /// Of the values after those; without suffixes it means nothing.
    rest: P,
    result: fn(P) -> Option<f64>,
}

fn folded<P: Part>(result: fn(P) -> Option<f64>) -> Box<dyn Accumulator> {
    Box::new(Folded { values: VecDeque::new(), suffixes: Vec::new(), rest: P::default(), result })
}

impl<P: Part> Folded<P> {
    fn enter(&mut self, value: f64) {
        self.values.push_back(value);
        if !self.suffixes.is_empty() {
            self.rest.add(value);
        }
    }

    fn leave(&mut self) {
        self.values.pop_front();
        self.suffixes.pop();
    }

    fn all(&mut self) -> P {
        if self.values.len() <= FEW {
            let mut all = P::default();
            self.values.iter().for_each(|value| all.add(*value));
            return all;
        }
        if self.suffixes.is_empty() {
            let mut suffix = P::default();
            for value in self.values.iter().rev() {
                let mut first = P::default();
                first.add(*value);
                suffix = first.merged(suffix);
                self.suffixes.push(suffix);
            }
            self.rest = P::default();
        }
        let first = self.suffixes.last().copied().unwrap_or_default();
        first.merged(self.rest)
    }
}

impl<P: Part> Accumulator for Folded<P> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = values[0].as_primitive::<Float64Type>();
        values.iter().flatten().for_each(|value| self.enter(value));
        Ok(())
    }

    /// Rows leave in the order in which they came.
    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for _ in 0..values[0].len() - values[0].null_count() {
            self.leave();
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let all = self.all();
        Ok(ScalarValue::Float64((self.result)(all)))
    }

    fn size(&self) -> usize {
        size_of::<Self>()
            + self.values.capacity() * size_of::<f64>()
            + self.suffixes.capacity() * size_of::<P>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        internal_err!("the aggregate of a frame is not merged with others")
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        internal_err!("the aggregate of a frame is not merged with others")
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;
    use std::sync::Arc;

    use datafusion::arrow::array::Float64Array;

    use super::*;

    /// What `aggregate` gives for each frame; these move on.
    fn over_frames(
        mut aggregate: Box<dyn Accumulator>,
        values: &[Option<f64>],
        frames: impl Iterator<Item = Range<usize>>,
    ) -> Vec<Option<f64>> {
        let column =
            |range: Range<usize>| -> [ArrayRef; 1] { [Arc::new(Float64Array::from(values[range].to_vec()))] };
        let mut last = 0..0;
        let result = |frame: Range<usize>| {
            aggregate.update_batch(&column(last.end..frame.end)).unwrap();
            aggregate.retract_batch(&column(last.start..frame.start)).unwrap();
            last = frame;
            match aggregate.evaluate().unwrap() {
                ScalarValue::Float64(result) => result,
                other => panic!("{other}"),
            }
        };
        frames.map(result).collect()
    }

    /// Frames of about `rows` rows, some of them empty, and those from each row to the end.
    fn frames(count: usize, rows: usize) -> Vec<Vec<Range<usize>>> {
        let around = (0..count).map(|row| row.saturating_sub(rows / 2)..(row + rows / 2).min(count));
        let behind = (0..count).map(|row| row.saturating_sub(2 * rows)..row.saturating_sub(rows));
        let to_end = (0..count).map(|row| row..count);
        vec![around.collect(), behind.collect(), to_end.collect()]
    }

    #[test]
    fn frames_have_what_their_values_make() {
        // Quarters, whose sums are exact.
        let value = |row: usize| (row % 7 != 3).then_some((row * row % 101) as f64 / 4.0);
        let values: Vec<Option<f64>> = (0..1000).map(value).collect();
        for frames in [3, 100, 128, 129, 300].into_iter().flat_map(|rows| frames(1000, rows)) {
            let sums = over_frames(sum(), &values, frames.iter().cloned());
            let averages = over_frames(average(), &values, frames.iter().cloned());
            let variances = over_frames(variance(true), &values, frames.iter().cloned());
            for (row, frame) in frames.into_iter().enumerate() {
                let present: Vec<f64> = values[frame.clone()].iter().flatten().copied().collect();
                let count = present.len() as f64;
                let total: f64 = present.iter().sum();
                assert_eq!(sums[row], (count > 0.0).then_some(total), "{frame:?}");
                assert_eq!(averages[row], (count > 0.0).then(|| total / count), "{frame:?}");
                let squares: f64 = present.iter().map(|value| (value - total / count).powi(2)).sum();
                let expected = (count > 1.0).then(|| squares / (count - 1.0));
                let is_near = |(found, expected): (f64, f64)| (found - expected).abs() < 1e-9;
                assert_eq!(variances[row].is_some(), expected.is_some(), "{frame:?}");
                assert!(variances[row].zip(expected).is_none_or(is_near), "{frame:?}");
            }
        }
    }

    #[test]
    fn what_has_left_leaves_nothing_behind() {
        for first in [1e20, f64::INFINITY, f64::NAN] {
            for rows in [2, 200] {
                let values: Vec<Option<f64>> = [first].into_iter().chain([0.1; 1000]).map(Some).collect();
                let frames = (0..1001).map(|row: usize| row.saturating_sub(rows - 1)..row + 1);
                let after = rows + 1..1001;
                for aggregate in [variance(true), variance(false), deviation(true), deviation(false)] {
                    let found = over_frames(aggregate, &values, frames.clone());
                    assert!(after.clone().all(|row| found[row] == Some(0.0)), "{first} {rows}");
                }
                let sums = over_frames(sum(), &values, frames);
                let is_near = |sum: f64| (sum - 0.1 * rows as f64).abs() < 1e-9;
                assert!(after.clone().all(|row| sums[row].is_some_and(is_near)), "{first} {rows}");
            }
        }
    }

    #[test]
    fn few_values_have_no_spread() {
        let values = [None, Some(f64::NAN), Some(3.0)];
        let frames = || (0..3_usize).map(|row| row..row + 1);
        assert_eq!(over_frames(variance(true), &values, frames()), [None, None, None]);
        assert_eq!(over_frames(deviation(false), &values, frames()), [None, Some(0.0), Some(0.0)]);
        assert_eq!(over_frames(sum(), &[None, None, None], frames()), [None, None, None]);
    }
}
