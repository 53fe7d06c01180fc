//! Rows in host memory: what comes out of a run, and what a caller gives as a host input.

use std::sync::Arc;

use crate::ir::Type;
use crate::text::Dictionary;

/// The values of a column; what stands where a row is NULL is arbitrary.
#[derive(Debug, Clone)]
pub enum RowValues {
    /// 0 and 1.
    Bool(Vec<u8>),
    /// Of type `I32`.
    I32(Vec<i32>),
    /// Of type `I64`.
    I64(Vec<i64>),
    /// Of type `I128`.
    I128(Vec<i128>),
    /// Of type `F64`.
    F64(Vec<f64>),
    /// Numbers of entries.
    Text {
        /// One a row.
        ids: Vec<u32>,
        /// What they stand for.
        dictionary: Arc<Dictionary>,
    },
}

impl RowValues {
    /// The type.
    pub fn ty(&self) -> Type {
        match self {
            RowValues::Bool(_) => Type::Bool,
            RowValues::I32(_) => Type::I32,
            RowValues::I64(_) => Type::I64,
            RowValues::I128(_) => Type::I128,
            RowValues::F64(_) => Type::F64,
            RowValues::Text { .. } => Type::Text,
        }
    }

    /// How many.
    pub fn len(&self) -> usize {
        match self {
            RowValues::Bool(values) => values.len(),
            RowValues::I32(values) => values.len(),
            RowValues::I64(values) => values.len(),
            RowValues::I128(values) => values.len(),
            RowValues::F64(values) => values.len(),
            RowValues::Text { ids, .. } => ids.len(),
        }
    }

    /// True where there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A column of [`Rows`].
#[derive(Debug, Clone)]
pub struct RowColumn {
    /// One a row.
    pub values: RowValues,
    /// Whether each row is not NULL; `None` where none is NULL.
    pub valid: Option<Vec<bool>>,
}

/// Rows, column by column.
#[derive(Debug, Clone, Default)]
pub struct Rows {
    /// How many.
    pub row_count: usize,
    /// All of this length.
    pub columns: Vec<RowColumn>,
}
