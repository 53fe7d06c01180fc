//! How many rows of a chunk pass a test, estimated from its metadata.
//!
//! A range is the rows below its end less the rows below its start, read off the histogram and spread evenly
//! within a bin. Equality is the rows of the bin, spread evenly over the distinct values of a bin. Without a
//! histogram the whole chunk is one bin. What is estimated is the share of all rows; NULLs never pass.

use std::ops::Bound;

use crate::{ColumnTest, CompareOp, Scalar, SkipKinds, Verdict, ZoneMap, bins::Bins};

/// Share of rows assumed to pass where nothing is known. A guess.
pub(crate) const UNKNOWN_SELECTIVITY: f64 = 1.0 / 3.0;

impl ZoneMap {
    /// Estimated share of the rows that pass `test`, 0 to 1.
    pub fn selectivity(&self, test: &ColumnTest) -> f64 {
        if self.test(test, SkipKinds::ALL) != Verdict::May {
            return 0.0;
        }
        if self.matches_all(test) {
            return 1.0;
        }
        let valid = f64::from(self.valid_count()) / f64::from(self.row_count);
        let one_row = 1.0 / f64::from(self.row_count);
        let share = match test {
            ColumnTest::IsNull => return 1.0 - valid,
            ColumnTest::IsNotNull => return valid,
            ColumnTest::Compare(CompareOp::Eq, value) => self.share_equal(value),
            ColumnTest::Compare(CompareOp::NotEq, value) => 1.0 - self.share_equal(value),
            ColumnTest::In(values) => values.iter().map(|value| self.share_in(value)).sum(),
            ColumnTest::StartsWith(prefix) => self.share_of_prefix(prefix),
            ColumnTest::Compare(..) | ColumnTest::Range { .. } => {
                let (lower, upper) = test.as_range().expect("the remaining comparisons are ranges");
                self.share_to(upper, true) - self.share_to(lower, false)
            }
        };
        (share * valid).clamp(one_row, valid.max(one_row))
    }

    /// The share of one value of a list: none where it surely is absent.
    fn share_in(&self, value: &Scalar) -> f64 {
        let test = ColumnTest::Compare(CompareOp::Eq, value.clone());
        if self.test(&test, SkipKinds::ALL) == Verdict::May { self.share_equal(value) } else { 0.0 }
    }

    /// The share of valid rows before the bound of a range: below its start, or not above its end.
    fn share_to(&self, bound: Bound<&Scalar>, is_end: bool) -> f64 {
        match bound {
            Bound::Unbounded => f64::from(is_end),
            Bound::Included(value) if is_end => self.share_below(value) + self.share_equal(value),
            Bound::Excluded(value) if !is_end => self.share_below(value) + self.share_equal(value),
            Bound::Included(value) | Bound::Excluded(value) => self.share_below(value),
        }
    }

    fn share_below(&self, value: &Scalar) -> f64 {
        let Some((min, max)) = self.bounds() else { return UNKNOWN_SELECTIVITY };
        let (Some(to_min), Some(to_max)) = (value.compare(min), value.compare(max)) else {
            return UNKNOWN_SELECTIVITY;
        };
        if to_min.is_le() || to_max.is_gt() {
            return f64::from(to_max.is_gt());
        }
        match &self.histogram {
            Some(histogram) => histogram.rows_below(histogram.bins().position(value)) / histogram.rows(),
            None => Bins::new(min, max, 1).map_or(UNKNOWN_SELECTIVITY, |whole| whole.position(value)),
        }
    }

    fn share_equal(&self, value: &Scalar) -> f64 {
        let distinct = f64::from(self.distinct_count.max(1));
        let Some((min, max)) = self.bounds() else { return 1.0 / distinct };
        let (Some(to_min), Some(to_max)) = (value.compare(min), value.compare(max)) else {
            return 1.0 / distinct;
        };
        if to_min.is_lt() || to_max.is_gt() {
            return 0.0;
        }
        let Some(histogram) = &self.histogram else { return 1.0 / distinct };
        let bins = histogram.bins();
        let in_bin = (distinct / histogram.occupied_count().max(1) as f64).max(1.0);
        let in_bin = bins.integers_per_bin().map_or(in_bin, |integers| in_bin.min(integers.max(1.0)));
        histogram.rows_in(bins.bin_of(value)) / histogram.rows() / in_bin
    }

    fn share_of_prefix(&self, prefix: &[u8]) -> f64 {
        match (&self.histogram, self.bins_of_prefix(prefix)) {
            (Some(histogram), Some((first, last))) => {
                let rows: f64 = (first..=last).map(|bin| histogram.rows_in(bin)).sum();
                rows / histogram.rows()
            }
            _ => UNKNOWN_SELECTIVITY,
        }
    }
}
