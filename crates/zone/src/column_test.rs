//! Tests of one column against constants, decided from its zone map where that is possible.
//!
//! ```text
//!   Compare, Range, StartsWith ──▶ is there an overlap with [min, max]? ──▶ an occupied bin in the overlap?
//!   Eq, each value of In       ──▶ the same for the one value           ──▶ is it in the Bloom filter?
//! ```
//!
//! [`ZoneMap::test`] says Never only where no reading of the test finds a row. Two readings of floats are
//! around: IEEE (no order with NaN, -0.0 = 0.0) and total order (-NaN < -0.0 < 0.0 < NaN), and `NOT x < 5`
//! arrives as `x >= 5`, which are not the same for NaN. Therefore a range on a chunk with NaN is never ruled
//! out, and a bound of zero is taken as included.
//! [`ZoneMap::matches_all`] says yes only where every reading finds every row.
//! A constant of another domain than the column rules out nothing.

use std::{cmp::Ordering, ops::Bound};

use crate::{Scalar, SkipKind, SkipKinds, Verdict, ZoneMap, hash_scalar};

/// A comparison of a column with a constant, column on the left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the six comparisons of SQL
pub enum CompareOp {
    Eq,
    NotEq,
    Lt,
    LtEq,
    Gt,
    GtEq,
}

impl CompareOp {
    /// The comparison that holds where this one does not.
    pub fn negate(self) -> Self {
        match self {
            CompareOp::Eq => CompareOp::NotEq,
            CompareOp::NotEq => CompareOp::Eq,
            CompareOp::Lt => CompareOp::GtEq,
            CompareOp::LtEq => CompareOp::Gt,
            CompareOp::Gt => CompareOp::LtEq,
            CompareOp::GtEq => CompareOp::Lt,
        }
    }
}

/// A test of one column that zone maps understand; NULL rows pass [`ColumnTest::IsNull`] only.
#[derive(Debug, Clone, PartialEq)]
pub enum ColumnTest {
    /// The value compares so with the constant.
    Compare(CompareOp, Scalar),
    /// The value lies between two constants.
    Range {
        /// Where values start.
        lower: Bound<Scalar>,
        /// Where values end.
        upper: Bound<Scalar>,
    },
    /// The value is one of these; none of them, none matches.
    In(Vec<Scalar>),
    /// There is no value.
    IsNull,
    /// There is a value.
    IsNotNull,
    /// The bytes of the value begin with these.
    StartsWith(Vec<u8>),
}

impl ColumnTest {
    /// The two bounds of a comparison or range; `None` for what is no single range.
    pub(crate) fn as_range(&self) -> Option<(Bound<&Scalar>, Bound<&Scalar>)> {
        use Bound::{Excluded, Included, Unbounded};
        Some(match self {
            ColumnTest::Compare(CompareOp::Lt, value) => (Unbounded, Excluded(value)),
            ColumnTest::Compare(CompareOp::LtEq, value) => (Unbounded, Included(value)),
            ColumnTest::Compare(CompareOp::Gt, value) => (Excluded(value), Unbounded),
            ColumnTest::Compare(CompareOp::GtEq, value) => (Included(value), Unbounded),
            ColumnTest::Range { lower, upper } => (lower.as_ref(), upper.as_ref()),
            _ => return None,
        })
    }
}

impl ZoneMap {
    /// May a row of this chunk pass `test`? Uses the kinds of metadata that are `enabled`.
    pub fn test(&self, test: &ColumnTest, enabled: SkipKinds) -> Verdict {
        let no_value = self.null_count == self.row_count && enabled.contains(SkipKind::Nulls);
        match test {
            ColumnTest::IsNull if self.null_count > 0 || !enabled.contains(SkipKind::Nulls) => Verdict::May,
            ColumnTest::IsNull => Verdict::Never(SkipKind::Nulls),
            _ if no_value => Verdict::Never(SkipKind::Nulls),
            ColumnTest::IsNotNull => Verdict::May,
            ColumnTest::Compare(CompareOp::Eq, value) => self.test_equal(value, enabled),
            ColumnTest::Compare(CompareOp::NotEq, value) => self.test_not_equal(value, enabled),
            ColumnTest::In(values) => {
                let verdicts = values.iter().map(|value| self.test_equal(value, enabled));
                any_of(verdicts).unwrap_or_else(|| enabled.never())
            }
            ColumnTest::StartsWith(prefix) => self.test_prefix(prefix, enabled),
            ColumnTest::Compare(..) | ColumnTest::Range { .. } => {
                let (lower, upper) = test.as_range().expect("the remaining comparisons are ranges");
                self.test_range(lower, upper, enabled)
            }
        }
    }

    fn test_equal(&self, value: &Scalar, enabled: SkipKinds) -> Verdict {
        if value.is_nan() {
            let is_absent = !self.has_nan && matches!(self.min, Some(Scalar::Float(_)));
            return self.bounds_kind(enabled).filter(|_| is_absent).map_or(Verdict::May, Verdict::Never);
        }
        let in_range = self.test_numbers(Bound::Included(value), Bound::Included(value), enabled);
        if in_range != Verdict::May || !self.is_of_domain(value) {
            return in_range;
        }
        match &self.bloom {
            Some(bloom) if enabled.contains(SkipKind::Bloom) && !bloom.may_contain(hash_scalar(value)) => {
                Verdict::Never(SkipKind::Bloom)
            }
            _ => Verdict::May,
        }
    }

    fn test_not_equal(&self, value: &Scalar, enabled: SkipKinds) -> Verdict {
        match self.bounds_kind(enabled) {
            Some(kind) if self.holds_only(value) && !self.has_nan => Verdict::Never(kind),
            _ => Verdict::May,
        }
    }

    fn test_range(&self, lower: Bound<&Scalar>, upper: Bound<&Scalar>, enabled: SkipKinds) -> Verdict {
        if self.has_nan { Verdict::May } else { self.test_numbers(lower, upper, enabled) }
    }

    /// The test of a range on the values that are not NaN.
    fn test_numbers(&self, lower: Bound<&Scalar>, upper: Bound<&Scalar>, enabled: SkipKinds) -> Verdict {
        let Some(bounds_kind) = self.bounds_kind(enabled) else { return Verdict::May };
        if !constant_of(lower).into_iter().chain(constant_of(upper)).all(|value| self.is_of_domain(value)) {
            return Verdict::May;
        }
        let (lower, upper) = (widen_zero(lower), widen_zero(upper));
        let [min, max] =
            [&self.min, &self.max].map(|known| known.as_ref().map_or(Bound::Unbounded, Bound::Included));
        if is_empty(lower, max) || is_empty(min, upper) || is_empty(lower, upper) {
            return Verdict::Never(bounds_kind);
        }
        self.test_bins(enabled, |zone| zone.bins_between(lower, upper))
    }

    fn test_prefix(&self, prefix: &[u8], enabled: SkipKinds) -> Verdict {
        let Some(bounds_kind) = self.bounds_kind(enabled) else { return Verdict::May };
        let Some(Scalar::Bytes(min)) = &self.min else { return Verdict::May };
        let is_below = matches!(&self.max, Some(Scalar::Bytes(max)) if max.as_slice() < prefix);
        if is_below || (min.as_slice() > prefix && !min.starts_with(prefix)) {
            return Verdict::Never(bounds_kind);
        }
        self.test_bins(enabled, |zone| zone.bins_of_prefix(prefix))
    }

    /// Never, where the histogram may be used and none of the bins in question holds a row.
    fn test_bins(&self, enabled: SkipKinds, bins: impl Fn(&Self) -> Option<(usize, usize)>) -> Verdict {
        match (&self.histogram, bins(self)) {
            (Some(histogram), Some((first, last)))
                if enabled.contains(SkipKind::Histogram) && !histogram.is_occupied(first, last) =>
            {
                Verdict::Never(SkipKind::Histogram)
            }
            _ => Verdict::May,
        }
    }

    /// First and last bin that values of a range which overlaps the bounds can fall into.
    fn bins_between(&self, lower: Bound<&Scalar>, upper: Bound<&Scalar>) -> Option<(usize, usize)> {
        let (bins, (min, max)) = (self.histogram.as_ref()?.bins(), self.bounds()?);
        let first = match (lower, constant_of(lower)) {
            // The range overlaps the bounds, so the next integer lies between them.
            (Bound::Excluded(_), Some(constant @ Scalar::Int(value))) if !is_less(constant, min) => {
                bins.bin_of(&Scalar::Int(value + 1))
            }
            (_, Some(value)) if is_less(min, value) => bins.bin_of(value),
            _ => 0,
        };
        let last = match (upper, constant_of(upper)) {
            (Bound::Excluded(_), Some(constant @ Scalar::Int(value))) if !is_less(max, constant) => {
                bins.bin_of(&Scalar::Int(value - 1))
            }
            (_, Some(value)) if is_less(value, max) => bins.bin_of(value),
            _ => bins.count() - 1,
        };
        Some((first, last))
    }

    /// First and last bin that values with a prefix which overlaps the bounds can fall into.
    pub(crate) fn bins_of_prefix(&self, prefix: &[u8]) -> Option<(usize, usize)> {
        let bins = self.histogram.as_ref()?.bins();
        let (Scalar::Bytes(min), Scalar::Bytes(max)) = self.bounds()? else { return None };
        let first = if min.as_slice() < prefix { bins.bin_of_bytes(prefix) } else { 0 };
        let is_last_inside = max.as_slice() < prefix || max.starts_with(prefix);
        Some((first, if is_last_inside { bins.count() - 1 } else { bins.last_bin_of_prefix(prefix) }))
    }

    /// The enabled kind that may compare with the bounds: a histogram lies between them and implies them.
    fn bounds_kind(&self, enabled: SkipKinds) -> Option<SkipKind> {
        if enabled.contains(SkipKind::MinMax) {
            return Some(SkipKind::MinMax);
        }
        (enabled.contains(SkipKind::Histogram) && self.histogram.is_some()).then_some(SkipKind::Histogram)
    }

    /// True where the chunk has a value that `value` can be compared with.
    fn is_of_domain(&self, value: &Scalar) -> bool {
        self.min.as_ref().is_some_and(|min| min.compare(value).is_some())
    }

    /// True where every value of the chunk that is not NaN equals `value` by any reading.
    fn holds_only(&self, value: &Scalar) -> bool {
        self.bounds_exact
            && !value.is_float_zero()
            && self.min.as_ref() == Some(value)
            && self.max.as_ref() == Some(value)
    }
}

impl ZoneMap {
    /// Does every row of this chunk surely pass `test`? Then it need not be evaluated row by row.
    pub fn matches_all(&self, test: &ColumnTest) -> bool {
        match test {
            ColumnTest::IsNull => return self.null_count == self.row_count,
            ColumnTest::IsNotNull => return self.null_count == 0,
            _ if self.null_count > 0 || self.has_nan => return false,
            _ => {}
        }
        match test {
            ColumnTest::Compare(CompareOp::Eq, value) => self.holds_only(value),
            ColumnTest::Compare(CompareOp::NotEq, value) => self.lies_beside(value),
            ColumnTest::In(values) => values.iter().any(|value| self.holds_only(value)),
            ColumnTest::StartsWith(prefix) => {
                matches!(self.bounds(), Some((Scalar::Bytes(min), Scalar::Bytes(max)))
                    if min.starts_with(prefix) && max.starts_with(prefix))
            }
            _ => test.as_range().is_some_and(|(lower, upper)| self.lies_within(lower, upper)),
        }
    }

    /// True where `value` is outside the bounds.
    fn lies_beside(&self, value: &Scalar) -> bool {
        self.min.as_ref().is_some_and(|min| is_less(value, min))
            || self.max.as_ref().is_some_and(|max| is_less(max, value))
    }

    /// True where both bounds are inside the range.
    fn lies_within(&self, lower: Bound<&Scalar>, upper: Bound<&Scalar>) -> bool {
        let is_above = match lower {
            Bound::Unbounded => true,
            Bound::Included(value) | Bound::Excluded(value) => self.min.as_ref().is_some_and(|min| {
                is_less(value, min) || (matches!(lower, Bound::Included(_)) && is_same(value, min))
            }),
        };
        let is_below = match upper {
            Bound::Unbounded => true,
            Bound::Included(value) | Bound::Excluded(value) => self.max.as_ref().is_some_and(|max| {
                is_less(max, value) || (matches!(upper, Bound::Included(_)) && is_same(value, max))
            }),
        };
        is_above && is_below
    }
}

/// The verdict on a disjunction; `None` for one of nothing.
pub(crate) fn any_of(mut verdicts: impl Iterator<Item = Verdict>) -> Option<Verdict> {
    let mut verdict = verdicts.next()?;
    while verdict != Verdict::May {
        match verdicts.next() {
            Some(next) => verdict = verdict.or(next),
            None => break,
        }
    }
    Some(verdict)
}

/// The constant at which a range starts or ends.
pub(crate) fn constant_of(bound: Bound<&Scalar>) -> Option<&Scalar> {
    match bound {
        Bound::Included(value) | Bound::Excluded(value) => Some(value),
        Bound::Unbounded => None,
    }
}

/// By total order -0.0 is below 0.0 although zone maps hold both as 0.0.
fn widen_zero(bound: Bound<&Scalar>) -> Bound<&Scalar> {
    match bound {
        Bound::Excluded(value) if value.is_float_zero() => Bound::Included(value),
        other => other,
    }
}

fn is_less(a: &Scalar, b: &Scalar) -> bool {
    a.compare(b) == Some(Ordering::Less)
}

/// Equal by any reading.
fn is_same(a: &Scalar, b: &Scalar) -> bool {
    a.compare(b) == Some(Ordering::Equal) && !a.is_float_zero()
}

/// True where nothing lies between two bounds of one domain.
fn is_empty(lower: Bound<&Scalar>, upper: Bound<&Scalar>) -> bool {
    let (Some(low), Some(high)) = (constant_of(lower), constant_of(upper)) else { return false };
    let both_included = matches!((lower, upper), (Bound::Included(_), Bound::Included(_)));
    match low.compare(high) {
        Some(Ordering::Greater) => true,
        Some(Ordering::Equal) => !both_included,
        _ => false,
    }
}
