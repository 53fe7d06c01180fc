//! What is known about the rows and columns of a plan: the currency of every estimate.
//!
//! A profile differs from DataFusion's `Statistics` in one way that matters for join order. For each
//! column it keeps the size of the *domain* - the distinct count of the stored relation, reduced only
//! by predicates on that very column - instead of the distinct count of the rows that are left:
//!
//! ```text
//!   customer 150,000 rows ── filter segment = 'BUILDING' ──► 30,000 rows
//!        custkey: domain 150,000                                custkey: domain 150,000
//!        segment: domain 5                                      segment: domain 1
//! ```
//!
//! Joining with orders then keeps 30,000 / 150,000 of them, which is what independence of the filter
//! and the key predicts; a distinct count of 30,000 would keep them all.

use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};

/// Seconds in a day: dates and timestamps share the unit of seconds, so that a cast between them
/// does not disturb a range.
const SECONDS_PER_DAY: f64 = 86_400.0;

/// Least share of a column that is taken to be within the range of another: estimates of nothing at all would hide what is
/// above. A guess.
const COMMON_SHARE_MIN: f64 = 1e-6;

/// Estimated rows of a plan and what is known about each of its output columns.
#[derive(Debug, Clone)]
pub(crate) struct Profile {
    /// Estimated rows, not rounded; `None` when nothing is known.
    pub(crate) rows: Option<f64>,
    /// One entry per output column.
    pub(crate) columns: Vec<ColumnProfile>,
}

/// What is known about one column.
#[derive(Debug, Clone)]
pub(crate) struct ColumnProfile {
    /// Distinct values of the domain, as described above.
    pub(crate) domain: Option<f64>,
    /// Whether `domain` was counted, rather than derived from the width of the range.
    pub(crate) is_counted: bool,
    /// Smallest and largest value, for types with an order that numbers can express.
    pub(crate) range: Option<Range>,
    /// Share of NULLs, 0..1.
    pub(crate) null_fraction: f64,
    /// The relation the column was read from.
    pub(crate) source: Source,
    /// Columns that joins have made equal share a class.
    pub(crate) class: Option<usize>,
}

/// The stored relation (or derived relation, such as an aggregate) a column comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Source {
    /// Tells sources apart within one plan.
    pub(crate) id: usize,
    /// Rows of the source before any filter; bounds the distinct count of every column set of it.
    pub(crate) rows: f64,
}

/// A closed interval of numbers; `step` is the distance of neighbouring values, 0 if continuous.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Range {
    pub(crate) min: f64,
    pub(crate) max: f64,
    pub(crate) step: f64,
}

impl Profile {
    /// The profile of a leaf of the plan, from its own statistics.
    pub(crate) fn from_statistics(statistics: &Statistics, source_id: usize) -> Self {
        let rows = statistics.num_rows.get_value().map(|rows| *rows as f64);
        let distinct_count_max = statistics
            .column_statistics
            .iter()
            .filter_map(|column| column.distinct_count.get_value())
            .max()
            .copied()
            .unwrap_or(0) as f64;
        // A scan that filters reports the rows that pass beside distinct counts of the whole.
        let source = Source { id: source_id, rows: rows.unwrap_or(0.0).max(distinct_count_max) };
        let columns = statistics
            .column_statistics
            .iter()
            .map(|column| ColumnProfile::from_statistics(column, source))
            .collect();
        Self { rows, columns }
    }

    /// A profile about which only the row count may be known.
    pub(crate) fn unknown(rows: Option<f64>, column_count: usize, source_id: usize) -> Self {
        let source = Source { id: source_id, rows: rows.unwrap_or(0.0) };
        Self { rows, columns: vec![ColumnProfile::unknown(source); column_count] }
    }

    /// Keeps the columns at `projection`, in that order.
    pub(crate) fn project(self, projection: Option<&[usize]>) -> Self {
        match projection {
            None => self,
            Some(indices) => {
                Self { rows: self.rows, columns: indices.iter().map(|&i| self.columns[i].clone()).collect() }
            }
        }
    }

    /// At most `fetch` rows.
    pub(crate) fn limit(mut self, fetch: Option<usize>) -> Self {
        if let Some(fetch) = fetch {
            self.rows = self.rows.map(|rows| rows.min(fetch as f64));
        }
        self
    }
}

impl ColumnProfile {
    /// A column of `source` about which nothing else is known.
    pub(crate) fn unknown(source: Source) -> Self {
        Self { domain: None, is_counted: false, range: None, null_fraction: 0.0, source, class: None }
    }

    fn from_statistics(statistics: &ColumnStatistics, source: Source) -> Self {
        let range = Range::from_statistics(statistics);
        let distinct_count = statistics.distinct_count.get_value().copied();
        let is_constant = statistics.min_value.get_value().is_some()
            && statistics.min_value.get_value() == statistics.max_value.get_value();
        let domain = match (distinct_count, range) {
            (Some(count), _) => Some(count as f64),
            (None, _) if is_constant => Some(1.0),
            (None, Some(range)) if range.step > 0.0 => Some(range.value_count().min(source.rows)),
            (None, _) => None,
        };
        let null_fraction = match statistics.null_count {
            Precision::Exact(count) | Precision::Inexact(count) if source.rows > 0.0 => {
                (count as f64 / source.rows).min(1.0)
            }
            _ => 0.0,
        };
        Self {
            domain: domain.map(|count| count.max(1.0)),
            is_counted: distinct_count.is_some() || is_constant,
            range,
            null_fraction,
            source,
            class: None,
        }
    }

    /// Distinct values, or the rows of the source: a column nobody counted is taken for a key.
    pub(crate) fn domain_or_key(&self) -> f64 {
        self.domain.unwrap_or(self.source.rows).max(1.0)
    }

    /// It, within a part of its range: this share of it.
    pub(crate) fn cut(&self, share: f64) -> Self {
        Self { domain: self.domain.map(|domain| (domain * share).max(1.0)), ..self.clone() }
    }

    /// The shares of this column and of `other` that are within what their ranges have in common, values taken for spread
    /// evenly.
    pub(crate) fn common_shares(&self, other: &Self) -> (f64, f64) {
        let (Some(own), Some(others)) = (self.range, other.range) else { return (1.0, 1.0) };
        let share = |of: Range, other: Range| {
            of.intersect(other.min, other.max).map_or(0.0, |part| of.fraction(&part)).max(COMMON_SHARE_MIN)
        };
        (share(own, others), share(others, own))
    }

    /// The values two joined columns have in common: of the part that their ranges share, those of the smaller domain, and
    /// no NULL.
    pub(crate) fn intersect(&self, other: &Self) -> Self {
        let (own_share, others_share) = self.common_shares(other);
        let (own, others) = (self.cut(own_share), other.cut(others_share));
        let is_own = match (own.domain, others.domain) {
            (Some(own), Some(others)) => own <= others,
            (Some(_), None) => true,
            (None, None) => self.source.rows <= other.source.rows,
            (None, Some(_)) => false,
        };
        let (smaller, larger) = if is_own { (own, others) } else { (others, own) };
        let common =
            smaller.range.zip(larger.range).and_then(|(one, other)| one.intersect(other.min, other.max));
        Self { null_fraction: 0.0, range: common.or(smaller.range).or(larger.range), ..smaller }
    }

    /// It with rows more in which it is NULL: this share of all.
    pub(crate) fn missing(self, share: f64) -> Self {
        Self { null_fraction: share + (1.0 - share) * self.null_fraction, ..self }
    }
}

impl Range {
    fn from_statistics(statistics: &ColumnStatistics) -> Option<Self> {
        let min_value = statistics.min_value.get_value()?;
        let (min, step) = number(min_value)?;
        let (max, _) = number(statistics.max_value.get_value()?)?;
        (min <= max).then_some(Self { min, max, step })
    }

    /// Values in the range; meaningless for a continuous one.
    fn value_count(&self) -> f64 {
        (self.max - self.min) / self.step + 1.0
    }

    /// The part of this range inside `other`, `None` if there is none.
    pub(crate) fn intersect(&self, min: f64, max: f64) -> Option<Self> {
        let (min, max) = (self.min.max(min), self.max.min(max));
        (min <= max).then_some(Self { min, max, ..*self })
    }

    /// Share of this range's values that lie in `part`, assuming that they are spread evenly.
    pub(crate) fn fraction(&self, part: &Self) -> f64 {
        let width = self.max - self.min + self.step;
        if width <= 0.0 {
            return 1.0;
        }
        ((part.max - part.min + self.step) / width).clamp(0.0, 1.0)
    }
}

/// A scalar as a number and the distance to its neighbour, `None` for types without a useful one.
pub(crate) fn number(value: &ScalarValue) -> Option<(f64, f64)> {
    use ScalarValue::*;
    let integer = |value: f64| Some((value, 1.0));
    let decimal = |value: f64, scale: i8| {
        let step = 10f64.powi(-i32::from(scale));
        Some((value * step, step))
    };
    match value {
        Boolean(Some(v)) => integer(f64::from(u8::from(*v))),
        Int8(Some(v)) => integer(f64::from(*v)),
        Int16(Some(v)) => integer(f64::from(*v)),
        Int32(Some(v)) => integer(f64::from(*v)),
        Int64(Some(v)) => integer(*v as f64),
        UInt8(Some(v)) => integer(f64::from(*v)),
        UInt16(Some(v)) => integer(f64::from(*v)),
        UInt32(Some(v)) => integer(f64::from(*v)),
        UInt64(Some(v)) => integer(*v as f64),
        Float32(Some(v)) if v.is_finite() => Some((f64::from(*v), 0.0)),
        Float64(Some(v)) if v.is_finite() => Some((*v, 0.0)),
        Decimal32(Some(v), _, scale) => decimal(f64::from(*v), *scale),
        Decimal64(Some(v), _, scale) => decimal(*v as f64, *scale),
        Decimal128(Some(v), _, scale) => decimal(*v as f64, *scale),
        Date32(Some(v)) => Some((f64::from(*v) * SECONDS_PER_DAY, SECONDS_PER_DAY)),
        Date64(Some(v)) => Some((*v as f64 / 1e3, SECONDS_PER_DAY)),
        TimestampSecond(Some(v), _) => integer(*v as f64),
        TimestampMillisecond(Some(v), _) => Some((*v as f64 / 1e3, 1e-3)),
        TimestampMicrosecond(Some(v), _) => Some((*v as f64 / 1e6, 1e-6)),
        TimestampNanosecond(Some(v), _) => Some((*v as f64 / 1e9, 1e-9)),
        Dictionary(_, inner) => number(inner),
        _ => None,
    }
}
