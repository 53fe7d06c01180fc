//! Aggregates of the rows around a row: frames of so many ROWS, each added up anew.
//!
//! A sum of doubles that what leaves the frame is subtracted from keeps what was rounded on the way, and one NaN for the rest
//! of its partition.

use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use datafusion::arrow::datatypes::{ArrowNativeTypeOp, Float64Type, Int64Type};
use datafusion::error::Result;

use super::around::{Around, Place};
use super::function::{Aggregate, Kind, Piece, Running, nulls};
use crate::numbers::{Summand, Total, average, too_large, totals_as, unit_of};

/// Rows of a frame: longer ones are left to DataFusion's operator, with sums of `window_functions`, whose time does not grow with
/// them.
pub(super) const ROWS_MAX: usize = 128;

/// What comes out for each place among values.
pub(super) type Fold = fn(&Aggregate, &ArrayRef, &[Place]) -> Result<ArrayRef>;

pub(super) struct Moving {
    pub(super) of: Aggregate,
    pub(super) around: Around,
    pub(super) fold: Fold,
}

impl Running for Moving {
    fn values(&mut self, piece: &Piece<'_>) -> Result<ArrayRef> {
        let (values, places) = self.around.next(piece)?;
        (self.fold)(&self.of, &values, &places)
    }
}

impl Place {
    fn frame(self) -> Range<usize> {
        self.first..self.end
    }
}

pub(super) fn count(_: &Aggregate, values: &ArrayRef, places: &[Place]) -> Result<ArrayRef> {
    let nulls = values.logical_nulls();
    let counts = places.iter().map(|place| match &nulls {
        None => place.frame().len() as i64,
        Some(nulls) => place.frame().filter(|row| nulls.is_valid(*row)).count() as i64,
    });
    Ok(Arc::new(PrimitiveArray::<Int64Type>::from_iter_values(counts)))
}

pub(super) fn exact<T: Summand<A>, A: Total + Default>(
    of: &Aggregate,
    values: &ArrayRef,
    places: &[Place],
) -> Result<ArrayRef> {
    let values = values.as_primitive::<T>();
    let mut totals = Vec::with_capacity(places.len());
    let mut counts = Vec::with_capacity(places.len());
    for place in places {
        let (mut total, mut count) = (A::default(), 0_u64);
        for row in place.frame().filter(|row| values.is_valid(*row)) {
            let (next, overflows) = total.plus(values.value(row).into());
            if overflows {
                return Err(too_large(&of.name, &of.ty));
            }
            (total, count) = (next, count + 1);
        }
        totals.push(total);
        counts.push(count);
    }
    if of.kind == Kind::Avg {
        let unit = unit_of(&of.from);
        let averages = totals.into_iter().zip(counts);
        let averages = averages.map(|(total, count)| (average(total, count.max(1), unit), count > 0));
        return Ok(of.array::<Float64Type>(averages));
    }
    totals_as(totals, nulls(counts.into_iter().map(|count| count > 0)), &of.ty, &of.name)
}

pub(super) fn inexact(of: &Aggregate, values: &ArrayRef, places: &[Place]) -> Result<ArrayRef> {
    let values = values.as_primitive::<Float64Type>();
    let is_average = of.kind == Kind::Avg;
    let sums = places.iter().map(|place| {
        let rows = place.frame().filter(|row| values.is_valid(*row));
        let (sum, count) = rows.fold((0.0, 0_u64), |(sum, count), row| (sum + values.value(row), count + 1));
        (if is_average { sum / count.max(1) as f64 } else { sum }, count > 0)
    });
    Ok(of.array::<Float64Type>(sums))
}

pub(super) fn extreme<T: ArrowPrimitiveType>(
    of: &Aggregate,
    values: &ArrayRef,
    places: &[Place],
) -> Result<ArrayRef> {
    let values = values.as_primitive::<T>();
    let is_min = of.kind == Kind::Min;
    let extremes =
        places.iter().map(|place| {
            let rows = place.frame().filter(|row| values.is_valid(*row)).map(|row| values.value(row));
            let best = rows.reduce(|best, next| {
                if if is_min { next.is_lt(best) } else { next.is_gt(best) } { next } else { best }
            });
            (best.unwrap_or_default(), best.is_some())
        });
    Ok(of.array::<T>(extremes))
}
