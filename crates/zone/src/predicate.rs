//! Trees of column tests, evaluated on the zone maps of whole row groups.
//!
//! ```text
//!        And                    a row group is skipped where one part of an And never holds,
//!       /   \                   or every part of an Or; what is Unknown may always hold
//!     Or    d_year = 1997
//!    /  \
//!  a<3  Unknown                 NOT is pushed to the leaves beforehand: `negate`
//! ```
//!
//! Ranges of one column under one And are intersected first: neither `x >= 5` nor `x <= 6` may meet an empty
//! bin where `x BETWEEN 5 AND 6` does.

use std::{cmp::Ordering, ops::Bound};

use crate::{
    ColumnTest, CompareOp, Scalar, SkipCounts, SkipKinds, Verdict, ZoneMap,
    column_test::{any_of, constant_of},
    selectivity::UNKNOWN_SELECTIVITY,
};

/// A condition on rows; `C` names a column.
#[derive(Debug, Clone, PartialEq)]
pub enum Predicate<C> {
    /// Every part holds; of no parts, always.
    And(Vec<Predicate<C>>),
    /// Some part holds; of no parts, never.
    Or(Vec<Predicate<C>>),
    /// A test of one column.
    Test {
        /// The column.
        column: C,
        /// The test.
        test: ColumnTest,
    },
    /// What metadata cannot tell, such as a comparison of two columns.
    Unknown,
}

/// What [`prune`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PruneResult {
    /// For each row group: must it be read?
    pub keep: Vec<bool>,
    /// The others, by the kind of metadata that ruled them out.
    pub skipped_by: SkipCounts,
}

/// Which of `count` row groups may hold a row that passes `predicate`.
///
/// `lookup` gives the zone map of a column in a row group, or `None` where there is none.
pub fn prune<'z, C: Clone + PartialEq>(
    predicate: &Predicate<C>,
    count: usize,
    enabled: SkipKinds,
    lookup: impl Fn(usize, &C) -> Option<&'z ZoneMap>,
) -> PruneResult {
    let predicate = predicate.clone().intersect_ranges();
    let mut skipped_by = SkipCounts::default();
    let keep = (0..count).map(|row_group| {
        match predicate.evaluate(enabled, &|column: &C| lookup(row_group, column)) {
            Verdict::May => true,
            Verdict::Never(kind) => {
                skipped_by.add(kind);
                false
            }
        }
    });
    PruneResult { keep: keep.collect(), skipped_by }
}

impl<C> Predicate<C> {
    /// May a row of the row group whose zone maps `lookup` gives pass?
    ///
    /// Skips more after [`Predicate::intersect_ranges`].
    pub fn evaluate<'z>(&self, enabled: SkipKinds, lookup: &impl Fn(&C) -> Option<&'z ZoneMap>) -> Verdict {
        match self {
            Predicate::And(parts) => {
                parts.iter().fold(Verdict::May, |verdict, part| verdict.and(part.evaluate(enabled, lookup)))
            }
            Predicate::Or(parts) => any_of(parts.iter().map(|part| part.evaluate(enabled, lookup)))
                .unwrap_or_else(|| enabled.never()),
            Predicate::Test { column, test } => {
                lookup(column).map_or(Verdict::May, |zone| zone.test(test, enabled))
            }
            Predicate::Unknown => Verdict::May,
        }
    }

    /// Does every row of the row group surely pass?
    pub fn matches_all<'z>(&self, lookup: &impl Fn(&C) -> Option<&'z ZoneMap>) -> bool {
        match self {
            Predicate::And(parts) => parts.iter().all(|part| part.matches_all(lookup)),
            Predicate::Or(parts) => parts.iter().any(|part| part.matches_all(lookup)),
            Predicate::Test { column, test } => lookup(column).is_some_and(|zone| zone.matches_all(test)),
            Predicate::Unknown => false,
        }
    }

    /// Estimated share of the rows of a row group that pass, 0 to 1.
    ///
    /// Parts of an And are taken as correlated: the most selective counts in full, the next by its square
    /// root, the next by its fourth root, and so on (exponential backoff, as in SQL Server since 2014). Parts
    /// of an Or are taken as independent. Sharper after [`Predicate::intersect_ranges`].
    pub fn selectivity<'z>(&self, lookup: &impl Fn(&C) -> Option<&'z ZoneMap>) -> f64 {
        match self {
            Predicate::And(parts) => {
                let mut shares: Vec<f64> = parts.iter().map(|part| part.selectivity(lookup)).collect();
                shares.sort_by(f64::total_cmp);
                let exponents = std::iter::successors(Some(1.0), |exponent| Some(exponent / 2.0));
                shares
                    .iter()
                    .zip(exponents)
                    .map(|(share, exponent): (&f64, f64)| share.powf(exponent))
                    .product()
            }
            Predicate::Or(parts) => {
                1.0 - parts.iter().map(|part| 1.0 - part.selectivity(lookup)).product::<f64>()
            }
            Predicate::Test { column, test } => {
                lookup(column).map_or(UNKNOWN_SELECTIVITY, |zone| zone.selectivity(test))
            }
            Predicate::Unknown => UNKNOWN_SELECTIVITY,
        }
    }
}

impl<C: Clone> Predicate<C> {
    /// The predicate that rows pass for which this one is false; rows for which it is NULL pass neither.
    #[must_use]
    pub fn negate(self) -> Self {
        let negate_all = |parts: Vec<Self>| parts.into_iter().map(Predicate::negate).collect();
        match self {
            Predicate::And(parts) => Predicate::Or(negate_all(parts)),
            Predicate::Or(parts) => Predicate::And(negate_all(parts)),
            Predicate::Test { column, test } => negate_test(column, test),
            Predicate::Unknown => Predicate::Unknown,
        }
    }
}

fn negate_test<C: Clone>(column: C, test: ColumnTest) -> Predicate<C> {
    let compare = |op: CompareOp, value: Scalar| Predicate::Test {
        column: column.clone(),
        test: ColumnTest::Compare(op, value),
    };
    match test {
        ColumnTest::Compare(op, value) => compare(op.negate(), value),
        ColumnTest::In(values) => {
            Predicate::And(values.into_iter().map(|value| compare(CompareOp::NotEq, value)).collect())
        }
        ColumnTest::IsNull => Predicate::Test { column, test: ColumnTest::IsNotNull },
        ColumnTest::IsNotNull => Predicate::Test { column, test: ColumnTest::IsNull },
        ColumnTest::Range { lower, upper } => {
            let below = match lower {
                Bound::Included(value) => Some(compare(CompareOp::Lt, value)),
                Bound::Excluded(value) => Some(compare(CompareOp::LtEq, value)),
                Bound::Unbounded => None,
            };
            let above = match upper {
                Bound::Included(value) => Some(compare(CompareOp::Gt, value)),
                Bound::Excluded(value) => Some(compare(CompareOp::GtEq, value)),
                Bound::Unbounded => None,
            };
            Predicate::Or(below.into_iter().chain(above).collect())
        }
        ColumnTest::StartsWith(_) => Predicate::Unknown,
    }
}

impl<C: PartialEq> Predicate<C> {
    /// The same predicate with nested Ands made one and the ranges of a column under an And made one.
    #[must_use]
    pub fn intersect_ranges(self) -> Self {
        match self {
            Predicate::And(parts) => {
                let mut merged = Vec::with_capacity(parts.len());
                for part in parts.into_iter().map(Predicate::intersect_ranges) {
                    match part {
                        Predicate::And(inner) => {
                            inner.into_iter().for_each(|part| add_part(&mut merged, part))
                        }
                        part => add_part(&mut merged, part),
                    }
                }
                Predicate::And(merged)
            }
            Predicate::Or(parts) => {
                Predicate::Or(parts.into_iter().map(Predicate::intersect_ranges).collect())
            }
            leaf => leaf,
        }
    }
}

/// Adds a part to an And: into the range of its column, where there is one already.
fn add_part<C: PartialEq>(merged: &mut Vec<Predicate<C>>, part: Predicate<C>) {
    if let Predicate::Test { column, test } = &part {
        for earlier in merged.iter_mut() {
            let Predicate::Test { column: other, test: other_test } = earlier else { continue };
            if other == column
                && let Some(both) = intersect(other_test, test)
            {
                *other_test = both;
                return;
            }
        }
    }
    merged.push(part);
}

/// The range in which both ranges hold; `None` where one is no range or their constants have no order.
fn intersect(a: &ColumnTest, b: &ColumnTest) -> Option<ColumnTest> {
    let ((a_lower, a_upper), (b_lower, b_upper)) = (a.as_range()?, b.as_range()?);
    let lower = tighter(a_lower, b_lower, Ordering::Greater)?;
    let upper = tighter(a_upper, b_upper, Ordering::Less)?;
    let is_ordered = match (constant_of(lower), constant_of(upper)) {
        (Some(low), Some(high)) => low.compare(high).is_some(),
        _ => true,
    };
    is_ordered.then(|| ColumnTest::Range { lower: lower.cloned(), upper: upper.cloned() })
}

/// The bound that lets fewer values pass: the one on the `inner` side of the other.
fn tighter<'a>(a: Bound<&'a Scalar>, b: Bound<&'a Scalar>, inner: Ordering) -> Option<Bound<&'a Scalar>> {
    let (Some(a_value), Some(b_value)) = (constant_of(a), constant_of(b)) else {
        return Some(if constant_of(a).is_some() { a } else { b });
    };
    Some(match a_value.compare(b_value)? {
        Ordering::Equal if matches!(a, Bound::Excluded(_)) => a,
        order if order == inner => a,
        _ => b,
    })
}
