//! Intervals compare by their length, with months of 30 days and days of 24 hours, as in PostgreSQL and DuckDB.
//!
//! Arrow compares intervals by months, then by days, then by nanoseconds, so that no number of hours reaches a day. The
//! difference of two timestamps is a duration; beside an interval DataFusion 55 makes an interval of nanoseconds of it:
//!
//! ```text
//!                                      SQL      DataFusion
//!   end - start < INTERVAL '1 day'     by time  always true for timestamps, however far apart
//!   INTERVAL '24 hours' = '1 day'      true     false
//!   INTERVAL '1 month' > '31 days'     false    true
//! ```
//!
//! This rule compares `interval_length(x)`, the number of nanoseconds as a DECIMAL(38,0), which holds the length of every
//! interval and duration:
//!
//! ```text
//!   = <> < <= > >=, IS DISTINCT FROM, BETWEEN, IN, CASE x WHEN     lengths for all operands
//!   JOIN … USING, INTERSECT, EXCEPT                                lengths for the keys
//!   ORDER BY, PARTITION BY, also of windows and aggregates         lengths for the keys
//!   DISTINCT ON, count(DISTINCT i)                                 lengths for the keys
//!   GROUP BY i, DISTINCT, UNION                                    GROUP BY interval_length(i), with min(i) for i
//!   min(i), max(i)                                                 first_value(i ORDER BY interval_length(i))
//!   greatest(i, j), least(i, j)                                    longest(i, j), shortest(i, j)
//!   nullif(i, j)                                                   CASE WHEN i = j THEN NULL ELSE i END, by lengths
//! ```
//!
//! Of intervals of one length a group gives back one that is in it, the least as Arrow has it, whichever thread saw which
//! first. GROUPING SETS, WITH RECURSIVE, and aggregates over windows other than by their keys still compare as Arrow
//! does. Two durations are compared by Arrow, which is right.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, Decimal128Array, new_null_array,
};
use datafusion::arrow::compute::interleave;
use datafusion::arrow::datatypes::{
    DataType, Decimal128Type, DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType,
    DurationSecondType, Field, FieldRef, IntervalDayTimeType, IntervalMonthDayNanoType, IntervalUnit,
    IntervalYearMonthType, TimeUnit,
};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::functions::core::coalesce;
use datafusion::functions_aggregate::expr_fn::min;
use datafusion::functions_aggregate::first_last::first_value_udaf;
use datafusion::logical_expr::expr::{AggregateFunction, Case, InList};
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Cast, ColumnarValue, Distinct, Expr, ExprSchemable, LogicalPlan,
    LogicalPlanBuilder, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    SortExpr, Volatility, lit, when,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::scalar::ScalarValue;

use crate::simplify::map_expressions;

/// The type of a length. The longest interval has 25 digits, and the longest duration 28.
const LENGTH: DataType = DataType::Decimal128(38, 0);

/// The column of an interval that a group gives back; no user's name begins like this.
const GIVEN_BACK: &str = "__pelton_interval";

/// Nanoseconds.
const MICROSECOND: i128 = 1_000;
const MILLISECOND: i128 = 1_000_000;
const SECOND: i128 = 1_000_000_000;
const DAY: i128 = 86_400 * SECOND;
const MONTH: i128 = 30 * DAY;

/// Runs after types are coerced, so that all operands of a comparison are intervals or none is, and after conditions over
/// subqueries have become comparisons.
#[derive(Debug)]
pub(crate) struct IntervalLengths;

impl AnalyzerRule for IntervalLengths {
    fn name(&self) -> &str {
        "pelton_interval_lengths"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(by_length)?.data)
    }
}

fn by_length(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if !may_have_intervals(&plan) {
        return Ok(Transformed::no(plan));
    }
    let place = Place { schema: merge_schema(&plan.inputs()) };
    let compared = map_expressions(plan, &|expr| expr.transform_up(|expr| place.by_length(expr)))?;
    compared.transform_data(|plan| place.with_keys_by_length(plan))
}

/// Whether an expression of `plan` may be an interval; cheap to tell and mostly false.
fn may_have_intervals(plan: &LogicalPlan) -> bool {
    let in_rows =
        |plan: &LogicalPlan| plan.schema().fields().iter().any(|field| is_interval(field.data_type()));
    let in_expr = |expr: &Expr| {
        expr.exists(|expr| {
            Ok(match expr {
                Expr::Literal(value, _) => is_interval(&value.data_type()),
                Expr::Cast(cast) => is_interval(cast.field.data_type()),
                Expr::TryCast(cast) => is_interval(cast.field.data_type()),
                Expr::OuterReferenceColumn(field, _) => is_interval(field.data_type()),
                Expr::ScalarFunction(_) | Expr::ScalarSubquery(_) => true,
                _ => false,
            })
        })
        .unwrap_or(true)
    };
    plan.inputs().into_iter().any(in_rows) || plan.expressions().iter().any(in_expr)
}

fn is_interval(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Interval(_))
}

fn is_comparison(op: Operator) -> bool {
    use Operator::*;
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

/// Rows that an expression is about.
struct Place {
    schema: DFSchema,
}

impl Place {
    fn is_interval(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Alias(alias) => self.is_interval(&alias.expr),
            // Sums are long, and computing their type walks all of them.
            Expr::BinaryExpr(BinaryExpr { left, right, .. })
                if !self.is_interval(left) && !self.is_interval(right) =>
            {
                false
            }
            other => other.get_type(&self.schema).is_ok_and(|data_type| is_interval(&data_type)),
        }
    }

    fn has_interval(&self, keys: &[SortExpr]) -> bool {
        keys.iter().any(|key| self.is_interval(&key.expr))
    }

    /// The length of `expr`; of a duration that was cast to an interval, which may not hold it, the duration's.
    fn length(&self, expr: Expr) -> Expr {
        static FUNCTION: LazyLock<Arc<ScalarUDF>> =
            LazyLock::new(|| Arc::new(ScalarUDF::from(IntervalLength::new())));
        let is_duration = |expr: &Expr| matches!(expr.get_type(&self.schema), Ok(DataType::Duration(_)));
        let measured = match expr {
            Expr::Cast(Cast { expr, .. }) if is_duration(&expr) => *expr,
            other => other,
        };
        FUNCTION.call(vec![measured])
    }

    /// The length of `expr` where it is an interval, else `expr`.
    fn keyed(&self, expr: Expr) -> Expr {
        if self.is_interval(&expr) { self.length(expr) } else { expr }
    }

    fn sorted(&self, keys: Vec<SortExpr>) -> Vec<SortExpr> {
        keys.into_iter().map(|key| SortExpr { expr: self.keyed(key.expr), ..key }).collect()
    }

    /// `expr` with lengths where it compares intervals itself.
    fn by_length(&self, expr: Expr) -> Result<Transformed<Expr>> {
        Ok(Transformed::yes(match expr {
            Expr::BinaryExpr(BinaryExpr { left, op, right })
                if is_comparison(op) && (self.is_interval(&left) || self.is_interval(&right)) =>
            {
                let (left, right) = (Box::new(self.length(*left)), Box::new(self.length(*right)));
                Expr::BinaryExpr(BinaryExpr { left, op, right })
            }
            Expr::Between(mut between) if self.is_interval(&between.expr) => {
                between.expr = Box::new(self.length(*between.expr));
                between.low = Box::new(self.length(*between.low));
                between.high = Box::new(self.length(*between.high));
                Expr::Between(between)
            }
            Expr::InList(InList { expr, list, negated }) if self.is_interval(&expr) => {
                let list = list.into_iter().map(|item| self.length(item)).collect();
                Expr::InList(InList { expr: Box::new(self.length(*expr)), list, negated })
            }
            Expr::InSubquery(mut query) if self.is_interval(&query.expr) => {
                query.subquery.subquery = Arc::new(self.lengths_of_rows(&query.subquery.subquery)?);
                query.expr = Box::new(self.length(*query.expr));
                Expr::InSubquery(query)
            }
            Expr::Case(Case { expr: Some(value), when_then_expr, else_expr }) if self.is_interval(&value) => {
                let whens = when_then_expr.into_iter();
                let whens = whens.map(|(when, then)| (Box::new(self.length(*when)), then)).collect();
                Expr::Case(Case::new(Some(Box::new(self.length(*value))), whens, else_expr))
            }
            Expr::ScalarFunction(call)
                if matches!(call.name(), "greatest" | "least")
                    && call.args.iter().any(|arg| self.is_interval(arg)) =>
            {
                let is_longest = call.name() == "greatest";
                ScalarUDF::from(Farthest::new(is_longest)).call(call.args)
            }
            Expr::ScalarFunction(call)
                if call.name() == "nullif"
                    && call.args.iter().any(|arg| self.is_interval(arg))
                    && !call.args[0].is_volatile() =>
            {
                self.null_if(call.args)?
            }
            Expr::AggregateFunction(call) => return Ok(self.aggregated(call)),
            Expr::WindowFunction(mut call)
                if self.has_interval(&call.params.order_by)
                    || call.params.partition_by.iter().any(|key| self.is_interval(key)) =>
            {
                let params = &mut call.params;
                let keys = std::mem::take(&mut params.partition_by).into_iter();
                params.partition_by = keys.map(|key| self.keyed(key)).collect();
                params.order_by = self.sorted(std::mem::take(&mut params.order_by));
                Expr::WindowFunction(call)
            }
            other => return Ok(Transformed::no(other)),
        }))
    }

    /// `nullif(a, b)` as the CASE that the SQL standard defines it by.
    fn null_if(&self, mut args: Vec<Expr>) -> Result<Expr> {
        let (b, a) = (args.pop().expect("nullif takes two"), args.pop().expect("nullif takes two"));
        let null = ScalarValue::try_new_null(&a.get_type(&self.schema)?)?;
        when(self.length(a.clone()).eq(self.length(b)), lit(null)).otherwise(a)
    }

    /// `call`: a minimum or maximum as the first value by length, others with keys by length. Keys of a DISTINCT aggregate
    /// have to be its arguments, which only a count does not give back.
    fn aggregated(&self, mut call: AggregateFunction) -> Transformed<Expr> {
        if let Some(key) = self.key_of_extreme(&call) {
            call.func = first_value_udaf();
            call.params.distinct = false;
            call.params.order_by = vec![key];
            return Transformed::yes(Expr::AggregateFunction(call));
        }
        if call.params.distinct && call.func.name() == "count" {
            let values = std::mem::take(&mut call.params.args).into_iter();
            call.params.args = values.map(|value| self.keyed(value)).collect();
            return Transformed::yes(Expr::AggregateFunction(call));
        }
        if call.params.distinct || !self.has_interval(&call.params.order_by) {
            return Transformed::no(Expr::AggregateFunction(call));
        }
        call.params.order_by = self.sorted(std::mem::take(&mut call.params.order_by));
        Transformed::yes(Expr::AggregateFunction(call))
    }

    /// What to order the values of `call` by so that its result comes first; `None` where it is no minimum or maximum of
    /// intervals. NULLs come last, so they are the result only where there is nothing else.
    fn key_of_extreme(&self, call: &AggregateFunction) -> Option<SortExpr> {
        let is_min = match call.func.name() {
            "min" => true,
            "max" => false,
            _ => return None,
        };
        match call.params.args.as_slice() {
            [value] if self.is_interval(value) => Some(self.length(value.clone()).sort(is_min, false)),
            _ => None,
        }
    }

    /// `plan`, which has one column, with its lengths under the same name.
    fn lengths_of_rows(&self, plan: &Arc<LogicalPlan>) -> Result<LogicalPlan> {
        let lengths = plan.schema().columns().into_iter().map(|column| {
            let (relation, name) = (column.relation.clone(), column.name.clone());
            self.length(Expr::Column(column)).alias_qualified(relation, name)
        });
        let lengths: Vec<Expr> = lengths.collect();
        LogicalPlanBuilder::new_from_arc(Arc::clone(plan)).project(lengths)?.build()
    }

    fn with_keys_by_length(&self, plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        let plan = match plan {
            LogicalPlan::Sort(mut sort) if self.has_interval(&sort.expr) => {
                sort.expr = self.sorted(sort.expr);
                LogicalPlan::Sort(sort)
            }
            LogicalPlan::Join(mut join) if join.on.iter().any(|(left, _)| self.is_interval(left)) => {
                let keys = join.on.into_iter();
                join.on = keys.map(|(left, right)| (self.keyed(left), self.keyed(right))).collect();
                LogicalPlan::Join(join)
            }
            LogicalPlan::Aggregate(aggregate)
                if aggregate.group_expr.iter().any(|key| self.groups_by(key)) =>
            {
                self.grouped(aggregate)?
            }
            LogicalPlan::Distinct(Distinct::All(input))
                if input.schema().fields().iter().any(|field| is_interval(field.data_type())) =>
            {
                let columns = input.schema().columns().into_iter().map(Expr::Column).collect();
                self.grouped(Aggregate::try_new(input, columns, Vec::new())?)?
            }
            LogicalPlan::Distinct(Distinct::On(mut distinct))
                if distinct.on_expr.iter().any(|key| self.is_interval(key)) =>
            {
                distinct.on_expr = distinct.on_expr.into_iter().map(|key| self.keyed(key)).collect();
                distinct.sort_expr = distinct.sort_expr.map(|keys| self.sorted(keys));
                LogicalPlan::Distinct(Distinct::On(distinct))
            }
            other => return Ok(Transformed::no(other)),
        };
        Ok(Transformed::yes(plan))
    }

    /// Whether rows are grouped by the length of `key`: an interval that is the same whenever it is computed.
    fn groups_by(&self, key: &Expr) -> bool {
        self.is_interval(key) && !key.is_volatile()
    }

    /// `aggregate` by lengths in place of intervals, which it gives back all the same, under the same names.
    fn grouped(&self, aggregate: Aggregate) -> Result<LogicalPlan> {
        let mut output: Vec<Expr> = aggregate.schema.columns().into_iter().map(Expr::Column).collect();
        let (mut keys, mut calls) = (Vec::new(), aggregate.aggr_expr);
        for (at, key) in aggregate.group_expr.into_iter().enumerate() {
            if !self.groups_by(&key) {
                keys.push(key);
                continue;
            }
            let (relation, field) = aggregate.schema.qualified_field(at);
            let name = format!("{GIVEN_BACK}_{at}");
            let mut value = Expr::Column(Column::new_unqualified(&name));
            if !field.is_nullable() {
                // There is one in each group; only the aggregate is declared to give NULL.
                value = coalesce().call(vec![value, lit(ScalarValue::new_default(field.data_type())?)]);
            }
            output[at] = value.alias_qualified(relation.cloned(), field.name());
            let key = key.unalias();
            calls.push(min(key.clone()).alias(name));
            keys.push(self.length(key));
        }
        let grouped = LogicalPlan::Aggregate(Aggregate::try_new(aggregate.input, keys, calls)?);
        LogicalPlanBuilder::from(grouped).project(output)?.build()
    }
}

/// `interval_length(x)`: the nanoseconds of an interval or a duration.
#[derive(Debug, PartialEq, Eq, Hash)]
struct IntervalLength {
    signature: Signature,
}

impl IntervalLength {
    fn new() -> Self {
        Self { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for IntervalLength {
    fn name(&self) -> &str {
        "interval_length"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(LENGTH)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let is_nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Field::new(self.name(), LENGTH, is_nullable).into())
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.swap_remove(0) {
            ColumnarValue::Array(values) => Ok(ColumnarValue::Array(lengths(&values)?)),
            ColumnarValue::Scalar(value) => {
                let length = ScalarValue::try_from_array(&lengths(&value.to_array()?)?, 0)?;
                Ok(ColumnarValue::Scalar(length))
            }
        }
    }

    fn evaluate_bounds(&self, _: &[&Interval]) -> Result<Interval> {
        Interval::make_unbounded(&LENGTH)
    }
}

/// `longest(…)` and `shortest(…)` of intervals: the first of the longest or shortest that are not NULL.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Farthest {
    signature: Signature,
    is_longest: bool,
}

impl Farthest {
    fn new(is_longest: bool) -> Self {
        Self { signature: Signature::variadic_any(Volatility::Immutable), is_longest }
    }
}

impl ScalarUDFImpl for Farthest {
    fn name(&self) -> &str {
        if self.is_longest { "longest" } else { "shortest" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types.iter().find(|data_type| is_interval(data_type)).unwrap_or(&types[0]).clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = args.args.iter().map(|arg| arg.to_array(args.number_rows));
        let mut arrays = arrays.collect::<Result<Vec<ArrayRef>>>()?;
        // What has another type is NULL.
        arrays.retain(|values| values.data_type() == args.return_field.data_type());
        let found = arrays.iter().map(|values| Ok(lengths(values)?.as_primitive::<Decimal128Type>().clone()));
        let found = found.collect::<Result<Vec<Decimal128Array>>>()?;
        let places = (0..args.number_rows).map(|row| {
            let mut farthest: Option<(i128, usize)> = None;
            for (number, lengths) in found.iter().enumerate().filter(|(_, lengths)| lengths.is_valid(row)) {
                let length = lengths.value(row);
                let is_farther = |other: i128| if self.is_longest { length > other } else { length < other };
                if farthest.is_none_or(|(other, _)| is_farther(other)) {
                    farthest = Some((length, number));
                }
            }
            (farthest.map_or(0, |(_, number)| number), row)
        });
        let places: Vec<(usize, usize)> = places.collect();
        let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
        Ok(ColumnarValue::Array(match arrays.is_empty() {
            true => new_null_array(args.return_field.data_type(), args.number_rows),
            false => interleave(&arrays, &places)?,
        }))
    }
}

fn lengths(values: &ArrayRef) -> Result<ArrayRef> {
    match values.data_type() {
        DataType::Interval(IntervalUnit::YearMonth) => {
            lengths_of::<IntervalYearMonthType>(values, |months| i128::from(months) * MONTH)
        }
        DataType::Interval(IntervalUnit::DayTime) => lengths_of::<IntervalDayTimeType>(values, |value| {
            i128::from(value.days) * DAY + i128::from(value.milliseconds) * MILLISECOND
        }),
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            lengths_of::<IntervalMonthDayNanoType>(values, |value| {
                let days = i128::from(value.months) * MONTH + i128::from(value.days) * DAY;
                days + i128::from(value.nanoseconds)
            })
        }
        DataType::Duration(TimeUnit::Second) => {
            lengths_of::<DurationSecondType>(values, |count| i128::from(count) * SECOND)
        }
        DataType::Duration(TimeUnit::Millisecond) => {
            lengths_of::<DurationMillisecondType>(values, |count| i128::from(count) * MILLISECOND)
        }
        DataType::Duration(TimeUnit::Microsecond) => {
            lengths_of::<DurationMicrosecondType>(values, |count| i128::from(count) * MICROSECOND)
        }
        DataType::Duration(TimeUnit::Nanosecond) => lengths_of::<DurationNanosecondType>(values, i128::from),
        // To find out what a condition is for NULLs, rules compute it of NULLs of any type.
        _ if values.logical_null_count() == values.len() => Ok(new_null_array(&LENGTH, values.len())),
        other => internal_err!("interval_length of {other}"),
    }
}

fn lengths_of<T: ArrowPrimitiveType>(
    values: &ArrayRef,
    length: impl Fn(T::Native) -> i128,
) -> Result<ArrayRef> {
    let lengths = values.as_primitive::<T>().unary::<_, Decimal128Type>(length);
    Ok(Arc::new(lengths.with_precision_and_scale(38, 0)?))
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{
        DurationMillisecondArray, DurationSecondArray, Int32Array, IntervalDayTimeArray,
        IntervalMonthDayNanoArray, IntervalYearMonthArray, NullArray,
    };

    use super::*;

    fn check(values: impl Array + 'static, expected: &[Option<i128>]) {
        let lengths = lengths(&(Arc::new(values) as ArrayRef)).unwrap();
        assert_eq!(lengths.data_type(), &LENGTH);
        let lengths: Vec<Option<i128>> = lengths.as_primitive::<Decimal128Type>().iter().collect();
        assert_eq!(lengths, expected);
    }

    #[test]
    fn lengths_are_nanoseconds_with_months_of_thirty_days() {
        let value = IntervalMonthDayNanoType::make_value;
        check(
            IntervalMonthDayNanoArray::from(vec![
                Some(value(1, 0, 0)),
                Some(value(0, 30, 0)),
                Some(value(0, 1, -1)),
                None,
            ]),
            &[Some(2_592_000_000_000_000), Some(2_592_000_000_000_000), Some(86_399_999_999_999), None],
        );
        check(
            IntervalDayTimeArray::from(vec![Some(IntervalDayTimeType::make_value(-1, 3_600_000)), None]),
            &[Some(-82_800_000_000_000), None],
        );
        check(IntervalYearMonthArray::from(vec![Some(-2)]), &[Some(-5_184_000_000_000_000)]);
        check(DurationMillisecondArray::from(vec![Some(1_500), None]), &[Some(1_500_000_000), None]);
    }

    #[test]
    fn no_length_overflows() {
        let longest = IntervalMonthDayNanoType::make_value(i32::MAX, i32::MAX, i64::MAX);
        check(
            IntervalMonthDayNanoArray::from(vec![Some(longest)]),
            &[Some(5_751_829_423_496_836_854_775_807)],
        );
        check(
            DurationSecondArray::from(vec![Some(i64::MAX)]),
            &[Some(9_223_372_036_854_775_807_000_000_000)],
        );
    }

    #[test]
    fn the_first_of_the_longest_and_shortest_is_found_row_by_row() {
        let value = IntervalMonthDayNanoType::make_value;
        let (month, days, long) = (value(1, 0, 0), value(0, 30, 0), value(0, 31, 0));
        let columns = [
            vec![Some(month), Some(days), None, None, Some(long)],
            vec![Some(days), Some(month), Some(month), None, Some(month)],
        ];
        let columns: Vec<ArrayRef> = columns
            .into_iter()
            .map(|values| Arc::new(IntervalMonthDayNanoArray::from(values)) as ArrayRef)
            .collect();
        let interval = columns[0].data_type().clone();
        for (is_longest, last) in [(true, long), (false, month)] {
            let args = columns.iter().cloned().chain([Arc::new(NullArray::new(5)) as ArrayRef]);
            let args: Vec<ColumnarValue> = args.map(ColumnarValue::Array).collect();
            let types: Vec<DataType> = args.iter().map(ColumnarValue::data_type).collect();
            let function = Farthest::new(is_longest);
            assert_eq!(function.return_type(&types).unwrap(), interval);
            let found = function.invoke_with_args(ScalarFunctionArgs {
                args,
                arg_fields: Vec::new(),
                number_rows: 5,
                return_field: Field::new("found", interval.clone(), true).into(),
                config_options: Arc::new(ConfigOptions::default()),
            });
            let found = found.unwrap().to_array(5).unwrap();
            let found: Vec<_> = found.as_primitive::<IntervalMonthDayNanoType>().iter().collect();
            assert_eq!(found, [Some(month), Some(days), Some(month), None, Some(last)]);
        }
    }

    #[test]
    fn nulls_of_any_type_have_no_length_and_other_values_are_refused() {
        check(NullArray::new(2), &[None, None]);
        check(Int32Array::from(vec![None::<i32>]), &[None]);
        assert!(lengths(&(Arc::new(Int32Array::from(vec![1])) as ArrayRef)).is_err());
    }
}
