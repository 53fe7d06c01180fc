//! `lag` and `lead`.
//!
//! ```text
//!   lag(x, 2), lag(x, 2, 0)                                    DataFusion's, or `running`
//!   lead(x, 2 IGNORE NULLS), lag(x, n), lag(x, 1, y), lag(x, NULL)      over all rows of a partition at once
//! ```
//!
//! DataFusion 55 loses count at the second NULL that `lead` passes over, takes NULL rows for none, casts the default to the type
//! of the first argument, and has both from constants alone. Here both are computed for each row, of no row where their number
//! is NULL, and argument and default have a common type: lag(1, 1, 0.5) is a DECIMAL.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, new_null_array};
use datafusion::arrow::compute::{cast, interleave};
use datafusion::arrow::datatypes::{DataType, FieldRef, Int64Type};
use datafusion::common::plan_err;
use datafusion::error::Result;
use datafusion::functions_window::lead_lag::{lag_udwf, lead_udwf};
use datafusion::logical_expr::function::{ExpressionArgs, PartitionEvaluatorArgs, WindowUDFFieldArgs};
use datafusion::logical_expr::type_coercion::binary::type_union_resolution;
use datafusion::logical_expr::{
    Documentation, LimitEffect, PartitionEvaluator, ReversedUDWF, Signature, Volatility, WindowUDF,
    WindowUDFImpl,
};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::scalar::ScalarValue;

use crate::coalesce::common_binary;

/// `lag` and `lead`, in place of DataFusion's.
pub(super) fn both() -> [Arc<WindowUDF>; 2] {
    [(lag_udwf(), true), (lead_udwf(), false)].map(|(other, is_lag)| {
        let names = ["expr", "offset", "default"].map(str::to_owned).to_vec();
        let signature = Signature::user_defined(Volatility::Immutable).with_parameter_names(names);
        let signature = signature.expect("three names that differ");
        Arc::new(WindowUDF::from(Shift { other, is_lag, passes_over_nulls: false, signature }))
    })
}

/// `function` for calls with IGNORE NULLS, if it is one of ours and not yet that.
pub(super) fn passing_over_nulls(function: &WindowUDF) -> Option<WindowUDF> {
    let shift = function.inner().downcast_ref::<Shift>().filter(|shift| !shift.passes_over_nulls)?;
    Some(WindowUDF::from(Shift { passes_over_nulls: true, ..shift.clone() }))
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Shift {
    /// DataFusion's.
    other: Arc<WindowUDF>,
    is_lag: bool,
    /// Whether all its calls have IGNORE NULLS, and may look at rows farther than they say.
    passes_over_nulls: bool,
    signature: Signature,
}

impl WindowUDFImpl for Shift {
    fn name(&self) -> &str {
        self.other.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let name = self.name();
        let (argument, others) = match types {
            [argument, others @ ..] if others.len() <= 2 => (argument, others),
            _ => return plan_err!("{name} takes a value, and may take a number of rows and a default"),
        };
        let mut coerced = vec![argument.clone()];
        if let Some(rows) = others.first() {
            if !(rows.is_integer() || rows.is_null() || rows.is_string()) {
                return plan_err!("{name} takes an integer as its number of rows, not {rows}");
            }
            coerced.push(DataType::Int64);
        }
        if let Some(default) = others.get(1) {
            let Some(common) = common_type(argument, default) else {
                return plan_err!(
                    "{name} of {argument} cannot have a default of {default}; cast one of them"
                );
            };
            coerced[0] = common.clone();
            coerced.push(common);
        }
        Ok(coerced)
    }

    fn field(&self, args: WindowUDFFieldArgs) -> Result<FieldRef> {
        self.other.field(args)
    }

    /// All arguments: those in columns are not known before there are rows.
    fn expressions(&self, args: ExpressionArgs) -> Vec<Arc<dyn PhysicalExpr>> {
        args.input_exprs().to_vec()
    }

    fn partition_evaluator(&self, args: PartitionEvaluatorArgs) -> Result<Box<dyn PartitionEvaluator>> {
        let others = args.input_exprs().get(1..).unwrap_or_default();
        let is_constant = others.iter().all(|arg| arg.is::<Literal>());
        let is_of_no_row = others.first().and_then(literal).is_some_and(ScalarValue::is_null);
        if is_constant && !is_of_no_row && !args.ignore_nulls() {
            return self.other.partition_evaluator_factory(args);
        }
        let is_backward = self.is_lag != args.is_reversed();
        Ok(Box::new(WholePartition { is_backward, passes_over_nulls: args.ignore_nulls() }))
    }

    fn reverse_expr(&self) -> ReversedUDWF {
        ReversedUDWF::Reversed(Arc::new(WindowUDF::from(self.clone())))
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.other.documentation()
    }

    fn limit_effect(&self, args: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        let rows = match args.get(1).map(literal) {
            None => 1,
            Some(Some(ScalarValue::Int64(rows))) => rows.unwrap_or(0),
            Some(_) => return LimitEffect::Unknown,
        };
        let rows_ahead = if self.is_lag { rows.saturating_neg() } else { rows };
        match usize::try_from(rows_ahead) {
            Err(_) | Ok(0) => LimitEffect::None,
            Ok(_) if self.passes_over_nulls => LimitEffect::Unknown,
            Ok(rows) => LimitEffect::Relative(rows),
        }
    }
}

fn literal(arg: &Arc<dyn PhysicalExpr>) -> Option<&ScalarValue> {
    arg.downcast_ref::<Literal>().map(Literal::value)
}

/// The type of both the argument and the default. Literals of integers are BIGINT and fit exact numbers of any type, and texts
/// may be literals of any type: neither changes that of the argument.
fn common_type(argument: &DataType, default: &DataType) -> Option<DataType> {
    let is_exact = |data_type: &DataType| data_type.is_numeric() && !data_type.is_floating();
    let keeps_argument = default.is_null()
        || argument == default
        || (is_exact(argument) && *default == DataType::Int64)
        || (argument.is_floating() && is_exact(default))
        || (default.is_string() && !argument.is_string());
    match keeps_argument {
        _ if argument.is_null() => Some(default.clone()),
        true => Some(argument.clone()),
        false => {
            let types = [argument.clone(), default.clone()];
            common_binary(&types).or_else(|| type_union_resolution(&types))
        }
    }
}

/// The values of a partition that is there with all its rows.
#[derive(Debug)]
struct WholePartition {
    is_backward: bool,
    passes_over_nulls: bool,
}

impl PartitionEvaluator for WholePartition {
    fn evaluate_all(&mut self, values: &[ArrayRef], num_rows: usize) -> Result<ArrayRef> {
        let argument = &values[0];
        let data_type = argument.data_type();
        let shifts = values.get(1).map(|rows| cast(rows, &DataType::Int64)).transpose()?;
        let shifts = shifts.as_ref().map(|rows| rows.as_primitive::<Int64Type>());
        let default = values.get(2).map(|default| cast(default, data_type)).transpose()?;
        let null = new_null_array(data_type, 1);
        let places = self.passes_over_nulls.then(|| Places::of(argument));

        // Of which of the three below, and which row of it.
        let place_of = |row: usize| {
            let shift = match &shifts {
                None => 1,
                Some(shifts) if shifts.is_valid(row) => i128::from(shifts.value(row)),
                Some(_) => return (2, 0),
            };
            let shift = if self.is_backward { -shift } else { shift };
            let found = match &places {
                Some(places) => places.at(row, shift),
                None => usize::try_from(row as i128 + shift).ok().filter(|row| *row < num_rows),
            };
            match (found, &default) {
                (Some(found), _) => (0, found),
                (None, Some(_)) => (1, row),
                (None, None) => (2, 0),
            }
        };
        let places: Vec<(usize, usize)> = (0..num_rows).map(place_of).collect();
        let default = default.as_ref().unwrap_or(&null);
        Ok(interleave(&[argument.as_ref(), default.as_ref(), null.as_ref()], &places)?)
    }
}

/// Where values are that are not NULL.
struct Places {
    /// Their rows.
    rows: Vec<usize>,
    /// How many of them there are before each row, and before the end.
    before: Vec<usize>,
}

impl Places {
    fn of(values: &ArrayRef) -> Self {
        let nulls = values.logical_nulls();
        let mut places = Self { rows: Vec::new(), before: vec![0] };
        for row in 0..values.len() {
            if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) {
                places.rows.push(row);
            }
            places.before.push(places.rows.len());
        }
        places
    }

    /// The row that is `shift` such values after `row`, or before it where that is negative; `row` itself for 0.
    fn at(&self, row: usize, shift: i128) -> Option<usize> {
        if shift == 0 {
            return Some(row);
        }
        let next = if shift > 0 { self.before[row + 1] as i128 - 1 } else { self.before[row] as i128 };
        self.rows.get(usize::try_from(next + shift).ok()?).copied()
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::Int64Array;

    use super::*;

    fn shifted(
        (is_backward, passes_over_nulls): (bool, bool),
        columns: &[Vec<Option<i64>>],
    ) -> Vec<Option<i64>> {
        let columns: Vec<ArrayRef> =
            columns.iter().map(|column| Arc::new(Int64Array::from(column.clone())) as ArrayRef).collect();
        let found =
            WholePartition { is_backward, passes_over_nulls }.evaluate_all(&columns, columns[0].len());
        found.unwrap().as_primitive::<Int64Type>().iter().collect()
    }

    #[test]
    fn nulls_are_passed_over() {
        let values = vec![Some(1), None, Some(2), None, None, Some(3)];
        for shift in 1..4 {
            let present = |row: &usize| values[*row].is_some();
            let after = |row: usize| (row + 1..6).filter(present).nth(shift - 1).and_then(|row| values[row]);
            let before =
                |row: usize| (0..row).rev().filter(present).nth(shift - 1).and_then(|row| values[row]);
            let columns = [values.clone(), vec![Some(shift as i64); 6]];
            let lead: Vec<Option<i64>> = (0..6).map(after).collect();
            let lag: Vec<Option<i64>> = (0..6).map(before).collect();
            assert_eq!(shifted((false, true), &columns), lead, "{shift}");
            assert_eq!(shifted((true, true), &columns), lag, "{shift}");
            let negative = [values.clone(), vec![Some(-(shift as i64)); 6]];
            assert_eq!(shifted((false, true), &negative), lag, "{shift}");
        }
        assert_eq!(shifted((true, true), &[values.clone(), vec![Some(0); 6]]), values);
    }

    #[test]
    fn rows_and_defaults_are_those_of_the_row() {
        let values = vec![Some(10), Some(20), None, Some(40)];
        let rows = vec![Some(1), Some(1), None, Some(-1)];
        let defaults = vec![Some(-1), Some(-2), Some(-3), None];
        assert_eq!(
            shifted((true, false), &[values.clone(), rows.clone(), defaults.clone()]),
            [Some(-1), Some(10), None, None]
        );
        assert_eq!(shifted((false, false), &[values.clone(), rows]), [Some(20), None, None, None]);
        let far = vec![Some(i64::MIN), Some(i64::MAX), Some(0), Some(3)];
        assert_eq!(shifted((true, false), &[values, far, defaults]), [Some(-1), Some(-2), None, Some(10)]);
    }

    #[test]
    fn argument_and_default_have_a_common_type() {
        use DataType::*;
        for (argument, default, common) in [
            (Int64, Decimal128(1, 1), Some(Decimal128(21, 1))),
            (Int32, Int64, Some(Int32)),
            (Decimal128(9, 2), Int64, Some(Decimal128(9, 2))),
            (Int64, Float64, Some(Float64)),
            (Float64, Decimal128(2, 1), Some(Float64)),
            (Date32, Utf8, Some(Date32)),
            (Utf8View, Null, Some(Utf8View)),
            (Null, Int64, Some(Int64)),
            (Boolean, Int64, None),
        ] {
            assert_eq!(common_type(&argument, &default), common, "{argument} {default}");
        }
    }
}
