//! The rows around a row: what offsets and frames of so many ROWS look at.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch, UInt32Array};
use datafusion::arrow::compute::{concat, take};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::{WindowFrame, WindowFrameBound, WindowFrameUnits};
use datafusion::physical_expr::PhysicalExpr;

use super::function::{Begins, Piece};

/// Values of an argument, with those before and after that rows ask for.
pub(super) struct Around {
    argument: Arc<dyn PhysicalExpr>,
    span: Span,
    /// The last values so far, `span.before` at most.
    kept: Option<ArrayRef>,
    /// Rows of the partition so far.
    since: usize,
}

/// How many rows before and after a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) before: usize,
    pub(super) after: usize,
}

/// Where a row is among the values, and which of those around it belong to its partition: `first..end`.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) first: usize,
    pub(super) row: usize,
    pub(super) end: usize,
}

impl Span {
    /// The rows that `frame` has, where it says how many.
    pub(super) fn of(frame: &WindowFrame) -> Option<Self> {
        if frame.units != WindowFrameUnits::Rows {
            return None;
        }
        let rows = |value: &ScalarValue| match value {
            ScalarValue::UInt64(Some(rows)) => usize::try_from(*rows).ok(),
            _ => None,
        };
        let before = match &frame.start_bound {
            WindowFrameBound::Preceding(value) => rows(value)?,
            WindowFrameBound::CurrentRow => 0,
            WindowFrameBound::Following(_) => return None,
        };
        let after = match &frame.end_bound {
            WindowFrameBound::Following(value) => rows(value)?,
            WindowFrameBound::CurrentRow => 0,
            WindowFrameBound::Preceding(_) => return None,
        };
        Some(Self { before, after })
    }

    /// All of them.
    pub(super) fn rows(self) -> usize {
        self.before.saturating_add(self.after).saturating_add(1)
    }
}

impl Around {
    pub(super) fn new(argument: Arc<dyn PhysicalExpr>, span: Span) -> Self {
        Self { argument, span, kept: None, since: 0 }
    }

    /// Values, and where the rows of the next piece are among them.
    pub(super) fn next(&mut self, piece: &Piece<'_>) -> Result<(ArrayRef, Vec<Place>)> {
        let rows = piece.rows.num_rows();
        let mut values: Vec<ArrayRef> = self.kept.take().into_iter().collect();
        let kept = values.first().map_or(0, |kept| kept.len());
        values.push(evaluate(&self.argument, piece.rows)?);
        let mut begins = piece.begins.to_vec();
        for (rows, next) in &piece.ahead {
            let count = (piece.begins.len() + self.span.after - begins.len()).min(rows.num_rows());
            if count == 0 {
                break;
            }
            values.push(evaluate(&self.argument, &rows.slice(0, count))?);
            begins.extend_from_slice(&next[..count]);
        }
        let values = match &values[..] {
            [values] => Arc::clone(values),
            _ => concat(&values.iter().map(AsRef::as_ref).collect::<Vec<&dyn Array>>())?,
        };

        let mut places = Vec::with_capacity(rows);
        for (row, begins) in piece.begins.iter().enumerate() {
            if *begins == Begins::Partition {
                self.since = 0;
            }
            let row = kept + row;
            // What was kept of it is as much as a row looks back.
            places.push(Place { first: row - self.since.min(self.span.before), row, end: 0 });
            self.since += 1;
        }
        let mut end = begins.len();
        for row in (0..begins.len()).rev() {
            if let Some(place) = places.get_mut(row) {
                place.end = kept + end.min(row + self.span.after + 1);
            }
            if begins[row] == Begins::Partition {
                end = row;
            }
        }
        let seen = kept + rows;
        self.kept = Some(copied(&values, seen - self.span.before.min(seen), seen)?);
        Ok((values, places))
    }
}

/// `expr` for `rows`.
pub(super) fn evaluate(expr: &Arc<dyn PhysicalExpr>, rows: &RecordBatch) -> Result<ArrayRef> {
    expr.evaluate(rows)?.into_array(rows.num_rows())
}

/// Rows `from..to` of `values`, which hold on to no buffers of the others.
pub(super) fn copied(values: &ArrayRef, from: usize, to: usize) -> Result<ArrayRef> {
    let rows = take(values, &UInt32Array::from_iter_values(from as u32..to as u32), None)?;
    Ok(match rows.data_type() {
        DataType::Utf8View => Arc::new(rows.as_string_view().gc()),
        DataType::BinaryView => Arc::new(rows.as_binary_view().gc()),
        _ => rows,
    })
}
