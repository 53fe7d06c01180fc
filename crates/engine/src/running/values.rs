//! Functions whose value is that of another row: lag, lead, first_value, last_value.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch, UInt32Array};
use datafusion::arrow::compute::{concat, interleave, take};
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::{WindowFrame, WindowFrameBound, WindowFrameUnits};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_plan::windows::WindowUDFExpr;

use super::function::{Begins, Piece, Running};

/// Rows that lag and lead may be away: as many values are kept or waited for.
const SHIFT_MAX: i64 = 4096;

/// A value of another row.
#[derive(Debug, Clone)]
pub(super) struct Value {
    of: Of,
    argument: Arc<dyn PhysicalExpr>,
}

/// Which one.
#[derive(Debug, Clone)]
enum Of {
    /// So many rows before this one; the value where there is none.
    Before(usize, ScalarValue),
    /// So many rows after it.
    After(usize, ScalarValue),
    First,
    /// The last peer, or the row itself.
    Last {
        takes_peers: bool,
    },
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
                let rows = rows.unsigned_abs() as usize;
                if is_before { Of::Before(rows, default) } else { Of::After(rows, default) }
            }
            ("first_value", []) if is_to_row => Of::First,
            // Without an order all of the partition are peers.
            ("last_value", []) if is_to_row && (is_ordered || frame.units == WindowFrameUnits::Rows) => {
                Of::Last { takes_peers: frame.units != WindowFrameUnits::Rows }
            }
            _ => return None,
        };
        Some(Self { of, argument: Arc::clone(argument) })
    }

    pub(super) fn takes_peers(&self) -> bool {
        matches!(self.of, Of::Last { takes_peers: true })
    }

    /// Rows that have to be there after one before its value is known.
    pub(super) fn rows_ahead(&self) -> usize {
        match self.of {
            Of::After(rows, _) => rows,
            Of::Before(..) | Of::First | Of::Last { .. } => 0,
        }
    }

    pub(super) fn start(&self) -> Box<dyn Running> {
        let argument = Arc::clone(&self.argument);
        match self.of.clone() {
            Of::Before(rows, default) => Box::new(Lag { argument, rows, default, kept: None, since: 0 }),
            Of::After(rows, default) => Box::new(Lead { argument, rows, default }),
            Of::First => Box::new(First { argument, first: None }),
            Of::Last { takes_peers } => Box::new(Last { argument, takes_peers }),
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
            ScalarValue::Int64(Some(rows)) if rows.abs() <= SHIFT_MAX => rows,
            _ => return None,
        },
    };
    let default = match args.get(1).map(literal) {
        None => ScalarValue::try_from(ty).ok()?,
        Some(default) => default?.cast_to(ty).ok()?,
    };
    Some((rows, default))
}

fn evaluate(expr: &Arc<dyn PhysicalExpr>, rows: &RecordBatch) -> Result<ArrayRef> {
    expr.evaluate(rows)?.into_array(rows.num_rows())
}

/// Rows `from..to` of `values`, which hold on to no buffers of the others.
fn copied(values: &ArrayRef, from: usize, to: usize) -> Result<ArrayRef> {
    let rows = take(values, &UInt32Array::from_iter_values(from as u32..to as u32), None)?;
    Ok(match rows.data_type() {
        DataType::Utf8View => Arc::new(rows.as_string_view().gc()),
        DataType::BinaryView => Arc::new(rows.as_binary_view().gc()),
        _ => rows,
    })
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

struct Lag {
    argument: Arc<dyn PhysicalExpr>,
    rows: usize,
    default: ScalarValue,
    /// The last values so far, `rows` at most.
    kept: Option<ArrayRef>,
    /// Rows of the partition so far.
    since: usize,
}

impl Running for Lag {
    fn values(&mut self, piece: &Piece<'_>) -> Result<ArrayRef> {
        let argument = evaluate(&self.argument, piece.rows)?;
        let (values, kept) = match &self.kept {
            None => (argument, 0),
            Some(kept) => (concat(&[kept.as_ref(), argument.as_ref()])?, kept.len()),
        };
        let mut before = Vec::with_capacity(piece.begins.len());
        for (row, begins) in piece.begins.iter().enumerate() {
            if *begins == Begins::Partition {
                self.since = 0;
            }
            before.push((self.since >= self.rows).then(|| (kept + row - self.rows) as u32));
            self.since += 1;
        }
        let len = values.len();
        self.kept = Some(copied(&values, len - self.rows.min(len), len)?);
        at(&values, before, &self.default)
    }
}

struct Lead {
    argument: Arc<dyn PhysicalExpr>,
    rows: usize,
    default: ScalarValue,
}

impl Running for Lead {
    fn values(&mut self, piece: &Piece<'_>) -> Result<ArrayRef> {
        let mut values = vec![evaluate(&self.argument, piece.rows)?];
        let mut begins = piece.begins.to_vec();
        let mut missing = self.rows;
        for (rows, next) in &piece.ahead {
            let count = missing.min(rows.num_rows());
            if count == 0 {
                break;
            }
            values.push(evaluate(&self.argument, &rows.slice(0, count))?);
            begins.extend_from_slice(&next[..count]);
            missing -= count;
        }
        let values = match &values[..] {
            [values] => Arc::clone(values),
            _ => concat(&values.iter().map(AsRef::as_ref).collect::<Vec<&dyn Array>>())?,
        };
        // Where the partition of a row ends.
        let mut end = begins.len();
        let mut after = vec![None; piece.begins.len()];
        for row in (0..begins.len()).rev() {
            if let Some(after) = after.get_mut(row) {
                *after = (row + self.rows < end).then(|| (row + self.rows) as u32);
            }
            if begins[row] == Begins::Partition {
                end = row;
            }
        }
        at(&values, after, &self.default)
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

struct Last {
    argument: Arc<dyn PhysicalExpr>,
    takes_peers: bool,
}

impl Running for Last {
    fn values(&mut self, piece: &Piece<'_>) -> Result<ArrayRef> {
        let argument = evaluate(&self.argument, piece.rows)?;
        if !self.takes_peers {
            return Ok(argument);
        }
        let mut last: Vec<u32> = (0..piece.begins.len() as u32).collect();
        piece.settle(&mut last);
        Ok(take(&argument, &UInt32Array::from(last), None)?)
    }
}
