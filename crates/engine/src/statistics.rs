//! What DataFusion's planner is told about a scan: rows, sizes, bounds and distinct counts.
//!
//! An unfiltered scan states exact row counts and bounds, so `COUNT(*)`, `MIN` and `MAX` are answered from
//! metadata. A filtered scan states estimates: per row group, the selectivity that the histograms give
//! (Poosala et al., "Improved Histograms for Selectivity Estimation of Range Predicates", 1996).

use datafusion::arrow::datatypes::TimeUnit;
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, Statistics};
use datafusion::scalar::ScalarValue;
use pelton_error::Result;
use pelton_store::{ColumnSummary, LogicalType, Table};
use pelton_zone::{Predicate, Scalar, SkipKind, SkipKinds};

use crate::prune::ZoneLookup;
use crate::scan::PeltonScanExec;
use crate::spilling::{Bounds, bounds_as};

/// Statistics of all of `scan`'s output, or of one of `divisor` equal shares.
///
/// Sideways skipping is left out on purpose: the join that it anticipates is estimated by the planner.
pub(crate) fn of_scan(scan: &PeltonScanExec, divisor: usize) -> Result<Statistics> {
    let table = scan.table();
    let table_rows = table.row_count();
    let counted = scan.counted();
    let rows = match &counted {
        Some(counted) => counted.rows as f64,
        None => scan.estimated_rows()?,
    };
    let exact = scan.reads_every_row() && divisor == 1;
    let rows = rows.min(scan.fetch_rows().map_or(f64::MAX, |limit| limit as f64));
    let share = (rows / divisor as f64).round() as usize;
    let precision = |value: usize| if exact { Precision::Exact(value) } else { Precision::Inexact(value) };

    let mut raw_bytes = 0;
    let mut column_statistics = Vec::with_capacity(scan.projection().len());
    for &column in scan.projection() {
        let summary = table.column_summary(column);
        let logical = &table.schema().columns[column].logical;
        let width = summary.raw_bytes as f64 / table_rows.max(1) as f64;
        raw_bytes += (width * share as f64) as usize;
        let mut of_column = column_statistics_of(summary, logical, table_rows, share, exact);
        if let Some(bounds) = counted.as_ref().and_then(|counted| counted.bounds.get(&column)) {
            narrow(&mut of_column, bounds);
        }
        column_statistics.push(of_column);
    }
    column_statistics.extend(scan.row_number_output().map(|_| ColumnStatistics::new_unknown()));
    Ok(Statistics {
        num_rows: precision(share),
        total_byte_size: Precision::Inexact(raw_bytes),
        column_statistics,
    })
}

/// What `statistics` of a column of the whole table are of its values within `bounds`.
fn narrow(statistics: &mut ColumnStatistics, bounds: &Bounds) {
    let width = |min: &Precision<ScalarValue>, max: &Precision<ScalarValue>| {
        let distance = max.get_value()?.distance(min.get_value()?)?;
        Some(distance as f64 + 1.0)
    };
    let Some(of) = statistics.min_value.get_value().map(ScalarValue::data_type) else { return };
    let Ok(Some((least, most))) = bounds_as(bounds, &of) else { return };
    let before = width(&statistics.min_value, &statistics.max_value);
    statistics.min_value = Precision::Inexact(least);
    statistics.max_value = Precision::Inexact(most);
    let after = width(&statistics.min_value, &statistics.max_value);
    if let (Some(before), Some(after), Some(count)) = (before, after, statistics.distinct_count.get_value()) {
        // Values are taken for spread evenly over their range.
        let count = (*count as f64 * (after / before).min(1.0)).round().max(1.0);
        statistics.distinct_count = Precision::Inexact(count as usize);
    }
}

/// Statistics of a whole table.
pub(crate) fn of_table(table: &Table) -> Statistics {
    let rows = table.row_count();
    let columns = table.schema().columns.iter().enumerate();
    let column_statistics = columns
        .map(|(column, schema)| {
            column_statistics_of(table.column_summary(column), &schema.logical, rows, rows as usize, true)
        })
        .collect();
    let raw_bytes =
        (0..table.schema().columns.len()).map(|column| table.column_summary(column).raw_bytes).sum::<u64>();
    Statistics {
        num_rows: Precision::Exact(rows as usize),
        total_byte_size: Precision::Inexact(raw_bytes as usize),
        column_statistics,
    }
}

/// Histograms of at most so many row groups are gone through for an estimate. A guess: it bounds the time of planning.
const ESTIMATED_ROW_GROUPS_MAX: usize = 256;

/// Rows of `table` for which `predicate` holds, by zone maps: those of every row group say whether it may hold such
/// rows at all, the histograms of row groups evenly among those that may say which share of them.
pub(crate) fn estimated_rows(table: &Table, predicate: &Predicate<usize>) -> Result<f64> {
    if matches!(predicate, Predicate::And(parts) if parts.is_empty()) {
        return Ok(table.row_count() as f64);
    }
    let zones = ZoneLookup::own(table, predicate)?;
    let bounds = SkipKinds::NONE.with(SkipKind::MinMax);
    let mut candidates: Vec<usize> = (0..table.row_group_count()).collect();
    if candidates.len() > ESTIMATED_ROW_GROUPS_MAX {
        candidates.retain(|row_group| zones.ruled_out(predicate, *row_group, bounds).is_none());
    }
    let rows_of = |row_group: usize| f64::from(table.row_group(row_group).row_count);
    let possible: f64 = candidates.iter().map(|row_group| rows_of(*row_group)).sum();
    let (mut looked_at, mut passing) = (0.0, 0.0);
    for &row_group in candidates.iter().step_by(candidates.len().div_ceil(ESTIMATED_ROW_GROUPS_MAX).max(1)) {
        let selectivity = predicate.selectivity(&|column: &usize| zones.get(*column, row_group));
        looked_at += rows_of(row_group);
        passing += selectivity * rows_of(row_group);
    }
    Ok(if looked_at > 0.0 { passing / looked_at * possible } else { 0.0 })
}

fn column_statistics_of(
    summary: &ColumnSummary,
    logical: &LogicalType,
    table_rows: u64,
    rows: usize,
    exact: bool,
) -> ColumnStatistics {
    let bound =
        |scalar: &Option<Scalar>| match scalar.as_ref().and_then(|scalar| datafusion_scalar(scalar, logical))
        {
            Some(value) if exact && summary.bounds_exact => Precision::Exact(value),
            Some(value) => Precision::Inexact(value),
            None => Precision::Absent,
        };
    let null_count = if exact {
        Precision::Exact(summary.null_count as usize)
    } else {
        let share = summary.null_count as f64 / table_rows.max(1) as f64;
        Precision::Inexact((share * rows as f64) as usize)
    };
    ColumnStatistics {
        null_count,
        min_value: bound(&summary.min),
        max_value: bound(&summary.max),
        sum_value: Precision::Absent,
        // Of the whole table: the join order scales it by what the filters leave.
        distinct_count: Precision::Inexact(summary.distinct_count as usize),
        byte_size: Precision::Absent,
    }
}

/// A zone map's bound as DataFusion compares it; `None` where the planner has no use for it.
fn datafusion_scalar(scalar: &Scalar, logical: &LogicalType) -> Option<ScalarValue> {
    Some(match (logical, scalar) {
        (LogicalType::Bool, Scalar::Int(v)) => ScalarValue::Boolean(Some(*v != 0)),
        (LogicalType::Int8, Scalar::Int(v)) => ScalarValue::Int8(Some(i8::try_from(*v).ok()?)),
        (LogicalType::Int16, Scalar::Int(v)) => ScalarValue::Int16(Some(i16::try_from(*v).ok()?)),
        (LogicalType::Int32, Scalar::Int(v)) => ScalarValue::Int32(Some(i32::try_from(*v).ok()?)),
        (LogicalType::Int64, Scalar::Int(v)) => ScalarValue::Int64(Some(i64::try_from(*v).ok()?)),
        (LogicalType::UInt8, Scalar::Int(v)) => ScalarValue::UInt8(Some(u8::try_from(*v).ok()?)),
        (LogicalType::UInt16, Scalar::Int(v)) => ScalarValue::UInt16(Some(u16::try_from(*v).ok()?)),
        (LogicalType::UInt32, Scalar::Int(v)) => ScalarValue::UInt32(Some(u32::try_from(*v).ok()?)),
        (LogicalType::UInt64, Scalar::Int(v)) => ScalarValue::UInt64(Some(u64::try_from(*v).ok()?)),
        (LogicalType::Decimal { precision, scale }, Scalar::Int(v)) => {
            ScalarValue::Decimal128(Some(*v), *precision, *scale)
        }
        (LogicalType::Date, Scalar::Int(v)) => ScalarValue::Date32(Some(i32::try_from(*v).ok()?)),
        (LogicalType::Timestamp { unit, zone }, Scalar::Int(v)) => {
            let (value, zone) = (Some(i64::try_from(*v).ok()?), zone.as_deref().map(Into::into));
            match unit {
                TimeUnit::Second => ScalarValue::TimestampSecond(value, zone),
                TimeUnit::Millisecond => ScalarValue::TimestampMillisecond(value, zone),
                TimeUnit::Microsecond => ScalarValue::TimestampMicrosecond(value, zone),
                TimeUnit::Nanosecond => ScalarValue::TimestampNanosecond(value, zone),
            }
        }
        (LogicalType::Utf8, Scalar::Bytes(v)) => {
            ScalarValue::Utf8View(Some(String::from_utf8(v.clone()).ok()?))
        }
        // Float bounds leave NaN out, which MIN and MAX do not; the planner must not answer from them.
        _ => return None,
    })
}
