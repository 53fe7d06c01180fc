//! Functions whose value is that of another row: lag, lead, first_value, last_value.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, UInt32Array};
use datafusion::arrow::compute::{concat, interleave, take};
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::{WindowFrame, WindowFrameBound, WindowFrameUnits};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_plan::windows::WindowUDFExpr;

use super::around::{Around, Place, Span, copied, evaluate};
use super::function::{Begins, Piece, Running};

/// Rows that a row may look before and after it: as many values are kept or waited for.
const SPAN_MAX: usize = 4096;

/// A value of another row.
#[derive(Debug, Clone)]
pub(super) struct Value {
    of: Of,
    argument: Arc<dyn PhysicalExpr>,
}

/// Which one.
#[derive(Debug, Clone)]
enum Of {
    /// Among the rows around it; the value where there is no such row.
    Near(Span, Pick, ScalarValue),
    /// The first row of the partition.
    First,
    /// The last peer of the row.
    LastPeer,
}

/// Which row of those around one.
#[derive(Debug, Clone, Copy)]
enum Pick {
    /// As many before it as there can be.
    Before,
    /// As many after it.
    After,
    First,
    Last,
}

impl Value {
    /// What `udf` over `frame` and rows of `schema` asks for, if it is one of these.
    pub(super) fn of(
        udf: &WindowUDFExpr,
        frame: &WindowFrame,
        is_ordered: bool,
        schema: &Schema,
    ) -> Option<Self> {
        // Both are not to be had, but show.
        if !format!("{udf:?}").ends_with("is_reversed: false, ignore_nulls: false }") {
            return None;
        }
        let (argument, others) = udf.args().split_first()?;
        let ty = argument.data_type(schema).ok()?;
        if ty.is_nested() || ty.is_null() {
            return None;
        }
        let is_to_row = frame.start_bound.is_unbounded() && frame.end_bound == WindowFrameBound::CurrentRow;
        let of = match (udf.fun().name(), others) {
            (name @ ("lag" | "lead"), others) => {
                let (rows, default) = shift(others, &ty)?;
                let is_before = (name == "lag") == (rows >= 0);
                let rows = usize::try_from(rows.unsigned_abs()).ok()?;
                match is_before {
                    true => Of::Near(Span { before: rows, after: 0 }, Pick::Before, default),
                    false => Of::Near(Span { before: 0, after: rows }, Pick::After, default),
                }
            }
            ("first_value", []) if is_to_row => Of::First,
            // Without an order all of the partition are peers.
            ("last_value", []) if is_to_row && frame.units != WindowFrameUnits::Rows => {
                is_ordered.then_some(Of::LastPeer)?
            }
            (name @ ("first_value" | "last_value"), []) => {
                let span = if is_to_row { Span { before: 0, after: 0 } } else { Span::of(frame)? };
                let pick = if name == "first_value" { Pick::First } else { Pick::Last };
                Of::Near(span, pick, ScalarValue::try_from(&ty).ok()?)
            }
            _ => return None,
        };
        if matches!(of, Of::Near(span, ..) if span.rows() > SPAN_MAX + 1) {
            return None;
        }
        Some(Self { of, argument: Arc::clone(argument) })
    }

    pub(super) fn takes_peers(&self) -> bool {
        matches!(self.of, Of::LastPeer)
    }

    /// Rows that have to be there after one before its value is known.
    pub(super) fn rows_ahead(&self) -> usize {
        match self.of {
            Of::Near(span, ..) => span.after,
            Of::First | Of::LastPeer => 0,
        }
    }

    /// How many rows it looks at around a row.
    pub(super) fn rows_around(&self) -> usize {
        match self.of {
            Of::Near(span, ..) => span.rows(),
            Of::First | Of::LastPeer => 0,
        }
    }

    pub(super) fn start(&self) -> Box<dyn Running> {
        let argument = Arc::clone(&self.argument);
        match self.of.clone() {
            Of::Near(span, pick, default) => {
                Box::new(Near { around: Around::new(argument, span), span, pick, default })
            }
            Of::First => Box::new(First { argument, first: None }),
            Of::LastPeer => Box::new(LastPeer { argument }),
        }
    }
}

/// The arguments of lag and lead but for the first, of type `ty`: a number of rows, and what there is without a row.
fn shift(args: &[Arc<dyn PhysicalExpr>], ty: &DataType) -> Option<(i64, ScalarValue)> {
    let literal =
        |arg: &Arc<dyn PhysicalExpr>| arg.downcast_ref::<Literal>().map(|literal| literal.value().clone());
    let rows = match args.first() {
        None => 1,
        Some(rows) => match literal(rows)? {
            ScalarValue::Int64(Some(rows)) => rows,
            _ => return None,
        },
    };
    let default = match args.get(1).map(literal) {
        None => ScalarValue::try_from(ty).ok()?,
        Some(default) => default?.cast_to(ty).ok()?,
    };
    Some((rows, default))
}

/// `values` at `rows`; `default` where there is no row.
fn at(values: &ArrayRef, rows: Vec<Option<u32>>, default: &ScalarValue) -> Result<ArrayRef> {
    if default.is_null() {
        return Ok(take(values, &UInt32Array::from(rows), None)?);
    }
    let default = default.to_array_of_size(1)?;
    let rows: Vec<(usize, usize)> =
        rows.into_iter().map(|row| row.map_or((1, 0), |row| (0, row as usize))).collect();
    Ok(interleave(&[values.as_ref(), default.as_ref()], &rows)?)
}

struct Near {
    around: Around,
    span: Span,
    pick: Pick,
    default: ScalarValue,
}

impl Running for Near {
    fn values(&mut self, piece: &Piece<'_>) -> Result<ArrayRef> {
        let (values, places) = self.around.next(piece)?;
        let (span, pick) = (self.span, self.pick);
        let row = |place: Place| match pick {
            Pick::Before => (place.row - place.first == span.before).then_some(place.first),
            Pick::After => (place.end - place.row == span.after + 1).then_some(place.end - 1),
            Pick::First => Some(place.first),
            Pick::Last => Some(place.end - 1),
        };
        let rows = places.into_iter().map(|place| row(place).map(|row| row as u32)).collect();
        at(&values, rows, &self.default)
    }
}

struct First {
    argument: Arc<dyn PhysicalExpr>,
    /// The first value of the partition so far.
    first: Option<ArrayRef>,
}

impl Running for First {
    fn values(&mut self, piece: &Piece<'_>) -> Result<ArrayRef> {
        let argument = evaluate(&self.argument, piece.rows)?;
        let (values, kept) = match &self.first {
            None => (argument, 0),
            Some(first) => (concat(&[first.as_ref(), argument.as_ref()])?, 1),
        };
        let mut first = 0;
        let rows = piece.begins.iter().enumerate().map(|(row, begins)| {
            if *begins == Begins::Partition {
                first = kept + row;
            }
            first as u32
        });
        let rows: UInt32Array = rows.collect::<Vec<u32>>().into();
        self.first = Some(copied(&values, first, first + 1)?);
        Ok(take(&values, &rows, None)?)
    }
}

struct LastPeer {
    argument: Arc<dyn PhysicalExpr>,
}

impl Running for LastPeer {
    fn values(&mut self, piece: &Piece<'_>) -> Result<ArrayRef> {
        let mut last: Vec<u32> = (0..piece.begins.len() as u32).collect();
        piece.settle(&mut last);
        Ok(take(&evaluate(&self.argument, piece.rows)?, &UInt32Array::from(last), None)?)
    }
}
