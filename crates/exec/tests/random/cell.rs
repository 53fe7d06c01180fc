//! Values of rows, as the interpreter has them and as a run gives them.

use std::cmp::Ordering;
use std::sync::Arc;

use pelton_pipeline::{RowColumn, RowValues, Rows};

/// A value. Booleans are 0 and 1, texts their bytes.
#[derive(Debug, Clone)]
pub(crate) enum Cell {
    Null,
    Int(i128),
    Float(f64),
    Text(Arc<[u8]>),
    /// A sum of doubles, which depends on their order, and how far from it another order may lead.
    About(f64, f64),
    /// What an expression that overflows leaves.
    Poison,
}

pub(crate) type Row = Vec<Cell>;

/// Every NaN is one, the two zeros are two.
fn float_bits(value: f64) -> u64 {
    if value.is_nan() { u64::MAX } else { value.to_bits() }
}

impl Cell {
    pub(crate) fn is_null(&self) -> bool {
        matches!(self, Cell::Null)
    }

    pub(crate) fn is_poison(&self) -> bool {
        matches!(self, Cell::Poison)
    }

    pub(crate) fn of_bool(value: bool) -> Self {
        Cell::Int(value.into())
    }

    /// As a key, of which the two zeros are one, and all NaNs.
    pub(crate) fn with_one_zero(self) -> Self {
        match self {
            Cell::Float(0.0) => Cell::Float(0.0),
            // Its sign would decide which of the values is the least.
            Cell::Float(value) if value.is_nan() => Cell::Float(f64::NAN),
            other => other,
        }
    }

    fn rank(&self) -> (u8, i128, u64, &[u8]) {
        match self {
            Cell::Null => (0, 0, 0, &[]),
            Cell::Int(value) => (1, *value, 0, &[]),
            Cell::Float(value) => (2, 0, float_bits(*value), &[]),
            Cell::Text(text) => (3, 0, 0, text),
            Cell::About(..) => (4, 0, 0, &[]),
            Cell::Poison => (5, 0, 0, &[]),
        }
    }

    /// Whether `found` is this value, or close enough to it.
    pub(crate) fn admits(&self, found: &Cell) -> bool {
        match (self, found) {
            (Cell::About(value, slack), Cell::Float(found)) => {
                let is_special = !value.is_finite() || !slack.is_finite();
                (value - found).abs() <= *slack
                    || slack.is_infinite()
                    || (is_special && (value == found || (value.is_nan() && found.is_nan())))
            }
            _ => self == found,
        }
    }
}

impl PartialEq for Cell {
    fn eq(&self, other: &Self) -> bool {
        self.rank() == other.rank()
    }
}

impl Eq for Cell {}

impl PartialOrd for Cell {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Cell {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

/// The rows that came out, or that go in.
pub(crate) fn rows_of(rows: &Rows) -> Vec<Row> {
    let row = |row: usize| rows.columns.iter().map(|column| cell_of(column, row)).collect();
    (0..rows.row_count).map(row).collect()
}

fn cell_of(column: &RowColumn, row: usize) -> Cell {
    if column.valid.as_ref().is_some_and(|valid| !valid[row]) {
        return Cell::Null;
    }
    match &column.values {
        RowValues::Bool(values) => Cell::Int(values[row].into()),
        RowValues::I32(values) => Cell::Int(values[row].into()),
        RowValues::I64(values) => Cell::Int(values[row].into()),
        RowValues::I128(values) => Cell::Int(values[row]),
        RowValues::F64(values) => Cell::Float(values[row]),
        RowValues::Text { ids, dictionary } => {
            Cell::Text(Arc::from(dictionary.entries.get(ids[row] as usize)))
        }
    }
}
