//! What a probing pipeline has of both sides, and conditions over that.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::JoinSide;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column};
use datafusion::physical_plan::joins::utils::JoinFilter;
use pelton_error::{Error, Result};
use pelton_pipeline::ir::{AggregateFunction, Expr, Type};

use super::super::builder::Flow;
use super::super::expr::Exprs;
use super::super::lower::{Needed, columns_of};
use super::super::value::{Value, kernel_type};

/// A column of one side; of neither, whether the row has a match.
pub(super) type SideColumn = (JoinSide, usize);

/// A probing pipeline and the columns that its matches brought.
pub(super) struct Joined {
    pub(super) probe: Flow,
    pub(super) built: BTreeMap<usize, Value>,
    pub(super) build_side: JoinSide,
    /// The column that says whether a row has a match.
    pub(super) mark: Option<usize>,
}

impl Joined {
    fn value(&self, (side, column): SideColumn) -> Result<Value> {
        if side == JoinSide::None {
            let mark = self.mark.expect("joins with such a column mark rows");
            return Ok(Value::column(mark, DataType::Boolean, false));
        }
        if side != self.build_side {
            return self.probe.output(column).cloned();
        }
        let missing = || Error::unsupported(format!("the table has no column {column} of the build side"));
        self.built.get(&column).cloned().ok_or_else(missing)
    }

    /// Keeps rows that fulfil `filter`.
    pub(super) fn filter(&mut self, filter: &JoinFilter) -> Result<()> {
        let inputs = self.inputs_of(filter)?;
        let schema = filter.schema();
        for conjunct in datafusion::physical_expr::split_conjunction(filter.expression()) {
            let mut exprs = Exprs { builder: &mut self.probe.builder, inputs: &inputs, schema };
            let condition = exprs.condition(conjunct)?;
            self.probe.builder.filter(condition);
        }
        Ok(())
    }

    /// `filter` as the residual condition of a probe that is about to bring `payload` as these columns of the build side,
    /// from column `first` of the pipeline on.
    pub(super) fn residual(
        &mut self,
        filter: &JoinFilter,
        columns: &Needed,
        payload: &[Value],
        first: usize,
    ) -> Result<Expr> {
        let column_count = self.probe.builder.column_count();
        let values = payload.iter().enumerate().map(|(index, value)| Value {
            expr: Expr::Column(first + index),
            // The bytes of a text are in the pipeline that builds.
            late: value.late.clone().map(|late| late.renumbered(|_| None)),
            ..value.clone()
        });
        let before = std::mem::replace(&mut self.built, columns.iter().copied().zip(values).collect());
        let inputs = self.inputs_of(filter)?;
        self.built = before;
        let schema = filter.schema();
        let mut exprs = Exprs { builder: &mut self.probe.builder, inputs: &inputs, schema };
        let condition = exprs.condition(filter.expression())?;
        match self.probe.builder.column_count() == column_count {
            true => Ok(condition),
            false => Err(Error::unsupported("a condition of a join that computes a text")),
        }
    }

    fn inputs_of(&self, filter: &JoinFilter) -> Result<Vec<Option<Value>>> {
        filter_columns(filter).map(|column| self.value(column).map(Some)).collect()
    }

    pub(super) fn into_flow(self, columns: &[SideColumn], needed: &Needed) -> Result<Flow> {
        let mut outputs = vec![None; columns.len()];
        for &index in needed {
            outputs[index] = Some(self.value(columns[index])?);
        }
        Ok(Flow { builder: self.probe.builder, outputs })
    }
}

/// Where `filter` compares the one column of the build side with a value of the probing side: the extremes of the
/// column that tell whether any of its values will do. Of `b < p` the least does, of `b <> p` the least or the greatest.
pub(super) fn extremes_asked(
    filter: &JoinFilter,
    build_side: JoinSide,
    payload: &[Value],
) -> Option<Vec<AggregateFunction>> {
    let [value] = payload else { return None };
    if value.late.is_some() || !matches!(kernel_type(&value.data_type), Ok(Type::I32 | Type::I64)) {
        return None;
    }
    let comparison = filter.expression().downcast_ref::<BinaryExpr>()?;
    let is_build = |column: usize| filter.column_indices()[column].side == build_side;
    let build_column = |expr: &Arc<dyn PhysicalExpr>| {
        expr.downcast_ref::<Column>().is_some_and(|column| is_build(column.index()))
    };
    let is_of_probe = |expr: &Arc<dyn PhysicalExpr>| !columns_of([expr]).into_iter().any(is_build);
    let (left, right) = (comparison.left(), comparison.right());
    let op = match (build_column(left) && is_of_probe(right), build_column(right) && is_of_probe(left)) {
        (true, _) => *comparison.op(),
        (_, true) => comparison.op().swap()?,
        _ => return None,
    };
    match op {
        Operator::Lt | Operator::LtEq => Some(vec![AggregateFunction::Min]),
        Operator::Gt | Operator::GtEq => Some(vec![AggregateFunction::Max]),
        Operator::NotEq => Some(vec![AggregateFunction::Min, AggregateFunction::Max]),
        _ => None,
    }
}

/// The columns of both sides that `filter` names.
pub(super) fn filter_columns(filter: &JoinFilter) -> impl Iterator<Item = SideColumn> + '_ {
    filter.column_indices().iter().map(|column| (column.side, column.index))
}
