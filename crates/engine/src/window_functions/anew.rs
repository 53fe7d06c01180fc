//! Aggregates that nothing can be taken out of, over frames that move on: each frame is aggregated anew, as in PostgreSQL.
//! A row costs as much as its frame has rows.

use std::collections::VecDeque;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::compute::concat;
use datafusion::arrow::datatypes::{FieldRef, Schema};
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{Accumulator, AggregateUDF};
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr};
use datafusion::scalar::ScalarValue;

/// Pieces that are joined to one: a frame that moves on by single rows comes in pieces of a row.
const PIECES_MAX: usize = 32;

#[derive(Debug)]
pub(super) struct Anew {
    function: Arc<AggregateUDF>,
    call: Call,
    /// The arguments of the rows in the frame, in pieces none of which is empty.
    pieces: VecDeque<Vec<ArrayRef>>,
}

/// What [`AccumulatorArgs`] refer to.
#[derive(Debug)]
struct Call {
    return_field: FieldRef,
    schema: Schema,
    ignore_nulls: bool,
    order_bys: Vec<PhysicalSortExpr>,
    is_reversed: bool,
    name: String,
    is_distinct: bool,
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    expr_fields: Vec<FieldRef>,
}

impl Anew {
    pub(super) fn new(function: &Arc<AggregateUDF>, args: &AccumulatorArgs<'_>) -> Self {
        let call = Call {
            return_field: Arc::clone(&args.return_field),
            schema: args.schema.clone(),
            ignore_nulls: args.ignore_nulls,
            order_bys: args.order_bys.to_vec(),
            is_reversed: args.is_reversed,
            name: args.name.to_owned(),
            is_distinct: args.is_distinct,
            exprs: args.exprs.to_vec(),
            expr_fields: args.expr_fields.to_vec(),
        };
        Self { function: Arc::clone(function), call, pieces: VecDeque::new() }
    }

    /// Joins many pieces to one.
    fn join(&mut self) -> Result<()> {
        if self.pieces.len() <= PIECES_MAX {
            return Ok(());
        }
        let column = |index: usize| {
            let parts: Vec<&dyn Array> = self.pieces.iter().map(|piece| piece[index].as_ref()).collect();
            concat(&parts)
        };
        let joined = (0..self.pieces[0].len()).map(column).collect::<std::result::Result<Vec<_>, _>>()?;
        self.pieces = VecDeque::from([joined]);
        Ok(())
    }
}

impl Call {
    fn args(&self) -> AccumulatorArgs<'_> {
        AccumulatorArgs {
            return_field: Arc::clone(&self.return_field),
            schema: &self.schema,
            ignore_nulls: self.ignore_nulls,
            order_bys: &self.order_bys,
            is_reversed: self.is_reversed,
            name: &self.name,
            is_distinct: self.is_distinct,
            exprs: &self.exprs,
            expr_fields: &self.expr_fields,
        }
    }
}

impl Accumulator for Anew {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        if values.first().is_some_and(|column| !column.is_empty()) {
            self.pieces.push_back(values.to_vec());
        }
        Ok(())
    }

    /// Rows leave in the order in which they came.
    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let mut rows = values.first().map_or(0, |column| column.len());
        while rows > 0
            && let Some(piece) = self.pieces.front_mut()
        {
            let piece_rows = piece[0].len();
            if rows < piece_rows {
                piece.iter_mut().for_each(|column| *column = column.slice(rows, piece_rows - rows));
                return Ok(());
            }
            self.pieces.pop_front();
            rows -= piece_rows;
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.join()?;
        let mut aggregate = self.function.accumulator(self.call.args())?;
        for piece in &self.pieces {
            aggregate.update_batch(piece)?;
        }
        aggregate.evaluate()
    }

    /// Without the rows, which the window holds anyway.
    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        internal_err!("the aggregate of a frame is not merged with others")
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        internal_err!("the aggregate of a frame is not merged with others")
    }
}
