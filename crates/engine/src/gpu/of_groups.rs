//! What the host makes of the groups of a run that ends in them: averages, variances, and projections above the aggregate.
//!
//! ```text
//!   rows of groups   keys │ count, sum │ sum        as the device leaves them
//!     aggregate      keys │ average    │ sum
//!       projections  what the plan computes of these, by DataFusion
//! ```
//!
//! One more pipeline over the groups would do the same and takes longer to launch than few rows take here. Sums that
//! the type of the plan does not hold, and whatever DataFusion refuses, are the CPU's, which runs the subtree anew.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Float64Array, RecordBatch, RecordBatchOptions};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::{DataType, FieldRef, SchemaRef};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::projection::ProjectionExpr;
use pelton_error::{Error, Result};
use pelton_pipeline::{RowColumn, RowValues, Rows};

use super::result::{array, wrong_type};
use super::variance::Variance;

/// How a column of an aggregate comes from columns of its groups.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum OfState {
    /// It is this one.
    Whole(usize),
    /// It is this one, a count, 0 where that is NULL.
    Count(usize),
    /// The sum behind this count, divided by the count times `unit`.
    Average { count: usize, unit: f64 },
    /// Of this count, the sum behind it, and the sum of squares behind that.
    Variance { count: usize, variance: Variance },
}

/// What the host makes of groups.
#[derive(Debug, Clone)]
pub(super) struct OfGroups {
    /// Columns of the aggregate.
    columns: Vec<OfState>,
    schema: SchemaRef,
    /// From the aggregate up, each with what it gives.
    projections: Vec<(Arc<[ProjectionExpr]>, SchemaRef)>,
    /// There is a group even of no rows, which a run does not give.
    has_total: bool,
}

impl OfGroups {
    /// The columns of an aggregate, which has this schema, and `projections` above it, the lowest first.
    pub(super) fn new(
        columns: Vec<OfState>,
        schema: SchemaRef,
        projections: Vec<(Arc<[ProjectionExpr]>, SchemaRef)>,
    ) -> Self {
        assert_eq!(columns.len(), schema.fields().len());
        Self { columns, schema, projections, has_total: false }
    }

    /// The same of an aggregate that has a group even of no rows.
    pub(super) fn with_total(self) -> Self {
        Self { has_total: true, ..self }
    }

    /// The schema of the aggregate, whose first columns are the keys.
    pub(super) fn aggregate_schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// What it computes, for EXPLAIN.
    pub(super) fn texts(&self) -> Vec<String> {
        let is_computed = |(column, _): &(&OfState, _)| {
            matches!(column, OfState::Average { .. } | OfState::Variance { .. })
        };
        let of_states = self.columns.iter().zip(self.schema.fields()).filter(is_computed);
        let of_states = of_states.map(|(_, field)| field.name().clone());
        let computed = self.projections.iter().flat_map(|(exprs, _)| exprs.iter());
        let computed = computed.filter(|computed| !computed.expr.is::<Column>());
        of_states.chain(computed.map(|computed| format!("{} = {}", computed.alias, computed.expr))).collect()
    }

    /// Whether it makes something of whatever groups there are; `is_held`: an array of this type holds all that may be in
    /// this column of them.
    pub(super) fn is_sure(&self, is_held: impl Fn(usize, &DataType) -> bool) -> bool {
        let of_column = |(column, field): (&OfState, &FieldRef)| match *column {
            OfState::Whole(state) | OfState::Count(state) => is_held(state, field.data_type()),
            OfState::Average { .. } => true,
            OfState::Variance { .. } => false,
        };
        let mut computed = self.projections.iter().flat_map(|(exprs, _)| exprs.iter());
        !self.has_total
            && self.columns.iter().zip(self.schema.fields()).all(of_column)
            && computed.all(|computed| computed.expr.is::<Column>())
    }

    /// Batches of at most `batch_rows` of what is made of `rows`; columns that were `fetched` are as they are.
    ///
    /// # Errors
    ///
    /// `Unsupported` where the CPU is to look; as [`super::result::batches`].
    pub(super) fn batches(
        &self,
        mut rows: Rows,
        fetched: Vec<Option<ArrayRef>>,
        batch_rows: usize,
    ) -> Result<Vec<RecordBatch>> {
        if rows.row_count == 0 {
            return match self.has_total {
                true => Err(Error::unsupported("the grand total of no rows, which the CPU gives")),
                false => Ok(Vec::new()),
            };
        }
        let mut fetched = fetched.into_iter().chain(std::iter::repeat(None));
        let mut columns = Vec::with_capacity(self.columns.len());
        for (column, field) in self.columns.iter().zip(self.schema.fields()) {
            let fetched = fetched.next().flatten();
            columns.push(match (*column, fetched) {
                (_, Some(fetched)) => fetched,
                (OfState::Whole(state), None) => array(taken(&mut rows, state)?, field.data_type())?,
                (OfState::Count(state), None) => {
                    // What counts nothing is 0 already.
                    array(RowColumn { valid: None, ..taken(&mut rows, state)? }, field.data_type())?
                }
                (OfState::Variance { count, variance }, None) => {
                    let states = [0, 1, 2].map(|state| taken(&mut rows, count + state));
                    variances(states, variance)?
                }
                (OfState::Average { count, unit }, None) => {
                    averages(&taken(&mut rows, count)?, &taken(&mut rows, count + 1)?, unit)?
                }
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows.row_count));
        let whole = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options);
        let mut batch = whole.map_err(wrong_type)?;
        for (exprs, schema) in &self.projections {
            batch = projected(&batch, exprs, schema)?;
        }
        let starts = (0..batch.num_rows()).step_by(batch_rows.max(1));
        Ok(starts.map(|start| batch.slice(start, batch_rows.min(batch.num_rows() - start))).collect())
    }
}

/// Column `state` of `rows`, which nobody takes twice.
fn taken(rows: &mut Rows, state: usize) -> Result<RowColumn> {
    let gone = || RowColumn { values: RowValues::Bool(Vec::new()), valid: None };
    match rows.columns.get_mut(state) {
        Some(column) => Ok(std::mem::replace(column, gone())),
        None => Err(Error::invalid_input(format!("a run gave no column {state}"))),
    }
}

/// `sums / (counts * unit)` as doubles, which is how the CPU divides; NULL where the sum is.
fn averages(counts: &RowColumn, sums: &RowColumn, unit: f64) -> Result<ArrayRef> {
    let other = || Error::invalid_input("a run gave the states of an average as other types");
    let doubles = |column: &RowColumn| match &column.values {
        RowValues::I64(values) => Ok(values.iter().map(|value| *value as f64).collect()),
        RowValues::I128(values) => Ok(values.iter().map(|value| *value as f64).collect()),
        RowValues::F64(values) => Ok(values.clone()),
        _ => Err(other()),
    };
    let (numerators, counts): (Vec<f64>, Vec<f64>) = (doubles(sums)?, doubles(counts)?);
    let quotients = numerators.iter().zip(&counts).map(|(sum, count)| sum / (count * unit));
    let nulls = sums.valid.clone().map(NullBuffer::from);
    Ok(Arc::new(Float64Array::new(quotients.collect::<Vec<_>>().into(), nulls)))
}

/// A variance of each group.
fn variances(states: [Result<RowColumn>; 3], variance: Variance) -> Result<ArrayRef> {
    let integers = |column: Result<RowColumn>| match column?.values {
        RowValues::I64(values) => Ok(values.into_iter().map(i128::from).collect::<Vec<i128>>()),
        RowValues::I128(values) => Ok(values),
        _ => Err(Error::invalid_input("a run gave the states of a variance as other types")),
    };
    let [counts, sums, squares] = states.map(integers);
    let (counts, sums, squares) = (counts?, sums?, squares?);
    let of_group = |(count, (sum, squares)): (&i128, (&i128, &i128))| variance.value(*count, *sum, *squares);
    let values = counts.iter().zip(sums.iter().zip(&squares)).map(of_group);
    Ok(Arc::new(values.collect::<Result<Float64Array>>()?))
}

/// What `exprs` are of `batch`.
fn projected(batch: &RecordBatch, exprs: &[ProjectionExpr], schema: &SchemaRef) -> Result<RecordBatch> {
    let row_count = batch.num_rows();
    let columns = exprs.iter().map(|computed| {
        let value = computed.expr.evaluate(batch).and_then(|value| value.into_array(row_count));
        value.map_err(|error| Error::unsupported(format!("{error}, which the CPU looks at")))
    });
    let options = RecordBatchOptions::new().with_row_count(Some(row_count));
    let columns = columns.collect::<Result<_>>()?;
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options).map_err(wrong_type)
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Array, AsArray};
    use datafusion::arrow::datatypes::{DataType, Field, Float64Type, Int64Type, Schema};
    use datafusion::logical_expr::Operator;
    use datafusion::physical_expr::PhysicalExpr;
    use datafusion::physical_expr::expressions::{BinaryExpr, col, lit};
    use pelton_error::ErrorKind;

    use super::*;

    fn schema(fields: &[(&str, DataType)]) -> SchemaRef {
        let fields = fields.iter().map(|(name, ty)| Field::new(*name, ty.clone(), true));
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    fn column(values: RowValues, valid: Option<Vec<bool>>) -> RowColumn {
        RowColumn { values, valid }
    }

    /// Groups by `k` with an average and a sum `s`; above them `k`, the average, and `s + most`.
    fn check(sums: Vec<i64>, most: i64) -> Result<Vec<RecordBatch>> {
        let int = || DataType::Int64;
        let groups = schema(&[("k", int()), ("a", DataType::Float64), ("s", int())]);
        // As plans have it: no number wraps.
        let added = BinaryExpr::new(col("s", &groups).unwrap(), Operator::Plus, lit(most));
        let added: Arc<dyn PhysicalExpr> = Arc::new(added.with_fail_on_overflow(true));
        let plus = |alias: &str, expr| ProjectionExpr { expr, alias: alias.to_owned() };
        let exprs = [
            plus("k", col("k", &groups).unwrap()),
            plus("a", col("a", &groups).unwrap()),
            plus("more", added),
        ];
        let states = vec![OfState::Whole(0), OfState::Average { count: 1, unit: 100.0 }, OfState::Whole(3)];
        let above = schema(&[("k", int()), ("a", DataType::Float64), ("more", int())]);
        let of_groups = OfGroups::new(states, groups, vec![(exprs.into(), above)]);
        assert_eq!(of_groups.texts(), ["a".to_owned(), format!("more = s@2 + {most}")]);
        let rows = Rows {
            row_count: 3,
            columns: vec![
                column(RowValues::I64(vec![7, 8, 9]), None),
                column(RowValues::I64(vec![2, 0, 3]), None),
                column(RowValues::I128(vec![500, 0, 50]), Some(vec![true, false, true])),
                column(RowValues::I64(sums), None),
            ],
        };
        of_groups.batches(rows, Vec::new(), 2)
    }

    #[test]
    fn averages_and_projections_are_computed_of_groups() {
        let batches = check(vec![1, 2, 3], 10).unwrap();
        assert_eq!(batches.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [2, 1]);
        let averages = batches[0].column(1).as_primitive::<Float64Type>();
        assert!(averages.value(0) == 2.5 && averages.is_null(1));
        assert_eq!(batches[1].column(2).as_primitive::<Int64Type>().values(), &[13]);
    }

    #[test]
    fn what_the_projection_refuses_is_the_cpu_s() {
        let kind = check(vec![1, 2, 3], i64::MAX).unwrap_err().kind().clone();
        assert_eq!(kind, ErrorKind::Unsupported);
    }

    #[test]
    fn no_groups_are_no_rows() {
        let of_groups = OfGroups::new(vec![OfState::Whole(0)], schema(&[("k", DataType::Int64)]), Vec::new());
        assert!(of_groups.batches(Rows::default(), Vec::new(), 8).unwrap().is_empty());
    }
}
