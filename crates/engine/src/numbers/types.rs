//! Types of arithmetic on decimals, before DataFusion brings operands to one type.
//!
//! ```text
//!   DECIMAL / DECIMAL, DECIMAL / integer, integer / DECIMAL   a DOUBLE; a zero divisor is an error
//!   DECIMAL beside DOUBLE or FLOAT                            the decimal as a DOUBLE
//!   DECIMAL beside text                                       both as DOUBLE; a text constant as the decimal it spells
//!   DECIMAL +, -, * an integer constant                       the constant as a decimal of just its digits
//!   text that is no constant, a date or time in a UNION       the date or time as text, as in DuckDB
//!   floor and ceil of a DECIMAL with digits after the point   of one with a digit more, which 9.5 needs to become 10.0
//! ```
//!
//! "Beside" is: in arithmetic, comparisons, BETWEEN, IN lists, among the results of a CASE, the arguments of a function,
//! the columns of a UNION and the keys of a join; of IN, ANY and ALL with a subquery where no text is involved. DataFusion
//! alone would bring doubles to DECIMAL(30,15) there, which rounds small ones to zero and refuses large ones.
//!
//! Division is planned here for SQL ([`DecimalDivision`]) so that types are right from the first plan on; the rule
//! ([`NumberTypes`]) finds it in plans that come from elsewhere.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, Field};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, ExprSchema};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::expr::{
    Between, BinaryExpr, Case, InList, InSubquery, ScalarFunction, SetComparison,
};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::expr_schema::cast_subquery;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    AggregateUDF, Expr, ExprSchemable, Join, LogicalPlan, LogicalPlanBuilder, Operator, Subquery, Union,
    cast, lit,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::optimizer::analyzer::type_coercion::coerce_union_schema;
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::BinaryOperator;

use super::checked::{Checked, CheckedOp};
use super::literals::decimal_of;
use super::name::value_text;

/// The types that `function` takes in place of `arguments`.
pub(super) fn coerced_by(function: &AggregateUDF, arguments: &[DataType]) -> Result<Vec<DataType>> {
    let fields: Vec<_> =
        arguments.iter().map(|data_type| Field::new("", data_type.clone(), true).into()).collect();
    Ok(fields_with_udf(&fields, function)?.iter().map(|field| field.data_type().clone()).collect())
}

/// What a type is to arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Integer,
    Decimal,
    Float,
    Text,
    /// A NULL that nothing gives a type.
    Null,
    Other,
}

fn kind_of(data_type: &DataType) -> Kind {
    match data_type {
        integer if integer.is_integer() => Kind::Integer,
        decimal if decimal.is_decimal() => Kind::Decimal,
        float if float.is_floating() => Kind::Float,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Kind::Text,
        DataType::Dictionary(_, values) => kind_of(values),
        DataType::Null => Kind::Null,
        _ => Kind::Other,
    }
}

/// The kind of `expr`; of arithmetic without computing its type, which would take its depth squared.
fn kind(expr: &Expr, schema: &DFSchema) -> Kind {
    match expr {
        Expr::Alias(alias) => kind(&alias.expr, schema),
        Expr::Column(column) => {
            schema.field_from_column(column).map_or(Kind::Other, |field| kind_of(field.data_type()))
        }
        Expr::Literal(value, _) => kind_of(&value.data_type()),
        Expr::Negative(operand) => kind(operand, schema),
        Expr::ScalarFunction(call) if let Some(checked) = call.func.inner().downcast_ref::<Checked>() => {
            kind_of(checked.data_type())
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_arithmetic(*op) => {
            match (kind(left, schema), kind(right, schema)) {
                (Kind::Float, _) | (_, Kind::Float) => Kind::Float,
                (Kind::Decimal, Kind::Decimal | Kind::Integer) | (Kind::Integer, Kind::Decimal) => {
                    Kind::Decimal
                }
                (Kind::Integer, Kind::Integer) => Kind::Integer,
                _ => typed_kind(expr, schema),
            }
        }
        other => typed_kind(other, schema),
    }
}

fn typed_kind(expr: &Expr, schema: &DFSchema) -> Kind {
    expr.get_type(schema).map_or(Kind::Other, |data_type| kind_of(&data_type))
}

fn is_arithmetic(op: Operator) -> bool {
    use Operator::*;
    matches!(op, Plus | Minus | Multiply | Divide | Modulo)
}

/// Plans `/` of decimals in SQL.
#[derive(Debug)]
pub(super) struct DecimalDivision;

impl ExprPlanner for DecimalDivision {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        if expr.op == BinaryOperator::Divide && gives_quotient(&expr.left, &expr.right, schema) {
            return Ok(PlannerResult::Planned(quotient(expr.left, expr.right)));
        }
        Ok(PlannerResult::Original(expr))
    }
}

fn gives_quotient(left: &Expr, right: &Expr, schema: &DFSchema) -> bool {
    use Kind::{Decimal, Integer, Null};
    matches!(
        (kind(left, schema), kind(right, schema)),
        (Decimal, Decimal | Integer | Null) | (Integer | Null, Decimal)
    )
}

fn quotient(left: Expr, right: Expr) -> Expr {
    Checked::binary(CheckedOp::Divide, left, right, DataType::Float64)
}

/// Gives decimals the types above, in whole plans.
#[derive(Debug)]
pub(super) struct NumberTypes;

impl AnalyzerRule for NumberTypes {
    fn name(&self) -> &str {
        "number_types"
    }

    /// From the inputs up: what a UNION makes of its inputs is known where it is read.
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let of_node = |plan: LogicalPlan| {
            node_rewritten(plan, rewrite)?.transform_data(|plan| match plan {
                LogicalPlan::Union(union) => unite(union),
                LogicalPlan::Join(join) => join_keys(join),
                other => Ok(Transformed::no(other)),
            })
        };
        plan.transform_up_with_subqueries(of_node).map(|plan| plan.data)
    }
}

/// `plan` with each expression `rewrite`n from the leaves up; columns keep their names.
pub(super) fn rewrite_expressions(
    plan: LogicalPlan,
    rewrite: fn(Expr, &DFSchema) -> Result<Transformed<Expr>>,
) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|plan| node_rewritten(plan, rewrite)).map(|plan| plan.data)
}

/// The same of `plan` without its inputs.
fn node_rewritten(
    plan: LogicalPlan,
    rewrite: fn(Expr, &DFSchema) -> Result<Transformed<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    let mut schema = merge_schema(&plan.inputs());
    if let LogicalPlan::TableScan(scan) = &plan {
        schema.merge(&DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?);
    }
    let names = NamePreserver::new(&plan);
    let rewritten = plan.map_expressions(|expr| {
        let name = names.save(&expr);
        let rewritten = expr.transform_up(|expr| rewrite(expr, &schema))?;
        Ok(rewritten.update_data(|expr| name.restore(expr)))
    })?;
    // A type below may have changed although this node's expressions did not.
    rewritten.map_data(LogicalPlan::recompute_schema)
}

fn rewrite(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    Ok(match expr {
        Expr::Literal(value, metadata) => match as_double(&value) {
            Some(double) => Transformed::yes(lit(double)),
            None => Transformed::no(Expr::Literal(value, metadata)),
        },
        Expr::BinaryExpr(binary) => return rewrite_binary(binary, schema),
        Expr::Between(Between { expr, negated, low, high }) => {
            let mut sides = [*expr, *low, *high];
            let changed = bring_together(&mut sides.iter_mut().collect::<Vec<_>>(), schema)?;
            let [expr, low, high] = sides.map(Box::new);
            transformed(Expr::Between(Between { expr, negated, low, high }), changed)
        }
        Expr::InList(InList { expr, list, negated }) => {
            let (mut expr, mut list) = (expr, list);
            let mut sides: Vec<&mut Expr> = std::iter::once(expr.as_mut()).chain(list.iter_mut()).collect();
            let changed = bring_together(&mut sides, schema)?;
            transformed(Expr::InList(InList { expr, list, negated }), changed)
        }
        Expr::InSubquery(InSubquery { mut expr, mut subquery, negated }) => {
            let changed = beside_rows(&mut expr, &mut subquery, schema)?;
            transformed(Expr::InSubquery(InSubquery { expr, subquery, negated }), changed)
        }
        Expr::SetComparison(SetComparison { mut expr, mut subquery, op, quantifier }) => {
            let changed = beside_rows(&mut expr, &mut subquery, schema)?;
            transformed(Expr::SetComparison(SetComparison { expr, subquery, op, quantifier }), changed)
        }
        Expr::Case(case) => rewrite_case(case, schema)?,
        Expr::ScalarFunction(call) if call.func.inner().is::<Checked>() => {
            Transformed::no(Expr::ScalarFunction(call))
        }
        Expr::ScalarFunction(ScalarFunction { func, mut args }) => {
            let is_rounded = matches!(func.name(), "floor" | "ceil") && args.len() == 1;
            let changed = match is_rounded {
                true => widen(&mut args[0], schema),
                false => has_floats(&mut args.iter_mut().collect::<Vec<_>>(), schema)?,
            };
            transformed(Expr::ScalarFunction(ScalarFunction { func, args }), changed)
        }
        other => Transformed::no(other),
    })
}

fn transformed(expr: Expr, changed: bool) -> Transformed<Expr> {
    if changed { Transformed::yes(expr) } else { Transformed::no(expr) }
}

/// The double that a literal means whose digits no DECIMAL holds: `1e40`, or more than 38 digits.
fn as_double(value: &ScalarValue) -> Option<f64> {
    match value {
        ScalarValue::Decimal128(Some(number), _, scale) if *scale < 0 => {
            format!("{number}e{}", -scale).parse().ok()
        }
        ScalarValue::Decimal256(Some(number), _, scale) => format!("{number}e{}", -scale).parse().ok(),
        _ => None,
    }
}

fn rewrite_binary(binary: BinaryExpr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let BinaryExpr { mut left, op, mut right } = binary;
    if op == Operator::Divide && gives_quotient(&left, &right, schema) {
        return Ok(Transformed::yes(quotient(*left, *right)));
    }
    let changed = if is_arithmetic(op) {
        let narrowed = matches!(op, Operator::Plus | Operator::Minus | Operator::Multiply)
            && (narrow(&mut left, &right, schema) || narrow(&mut right, &left, schema));
        has_floats(&mut [left.as_mut(), right.as_mut()], schema)? || narrowed
    } else if is_comparison(op) {
        bring_together(&mut [left.as_mut(), right.as_mut()], schema)?
    } else {
        false
    };
    Ok(transformed(Expr::BinaryExpr(BinaryExpr { left, op, right }), changed))
}

fn is_comparison(op: Operator) -> bool {
    use Operator::*;
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

/// Makes an integer constant beside a decimal a decimal of just its digits, where DataFusion would take 20.
fn narrow(side: &mut Expr, other: &Expr, schema: &DFSchema) -> bool {
    let Expr::Literal(ScalarValue::Int64(Some(number)), _) = side else { return false };
    if kind(other, schema) != Kind::Decimal {
        return false;
    }
    let digits = number.unsigned_abs().checked_ilog10().unwrap_or(0) + 1;
    *side = lit(ScalarValue::Decimal128(Some(i128::from(*number)), digits as u8, 0));
    true
}

/// Gives a decimal with digits after the point one more before it, if there is room.
fn widen(argument: &mut Expr, schema: &DFSchema) -> bool {
    let Ok(DataType::Decimal128(precision, scale)) = argument.get_type(schema) else { return false };
    if scale <= 0 || precision >= DECIMAL128_MAX_PRECISION {
        return false;
    }
    *argument = cast(argument.clone(), DataType::Decimal128(precision + 1, scale));
    true
}

fn rewrite_case(case: Case, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Case { mut expr, mut when_then_expr, mut else_expr } = case;
    let mut changed = false;
    if let Some(subject) = &mut expr {
        let whens = when_then_expr.iter_mut().map(|(when, _)| when.as_mut());
        let mut compared: Vec<&mut Expr> = std::iter::once(subject.as_mut()).chain(whens).collect();
        changed |= bring_together(&mut compared, schema)?;
    }
    let thens = when_then_expr.iter_mut().map(|(_, then)| then.as_mut());
    let mut results: Vec<&mut Expr> = thens.chain(else_expr.iter_mut().map(|expr| expr.as_mut())).collect();
    changed |= has_floats(&mut results, schema)?;
    Ok(transformed(Expr::Case(Case { expr, when_then_expr, else_expr }), changed))
}

/// Brings what is compared together: decimals beside floats and texts.
fn bring_together(sides: &mut [&mut Expr], schema: &DFSchema) -> Result<bool> {
    let kinds: Vec<Kind> = sides.iter().map(|side| kind(side, schema)).collect();
    if !kinds.contains(&Kind::Decimal) {
        return Ok(false);
    }
    let mut changed = false;
    let mut texts_are_doubles = false;
    for (side, _) in sides.iter_mut().zip(&kinds).filter(|(_, kind)| **kind == Kind::Text) {
        match text_constant(side).and_then(decimal_of) {
            Some(number) => **side = lit(number),
            None => {
                texts_are_doubles = true;
                **side = cast(side.clone(), DataType::Float64);
            }
        }
        changed = true;
    }
    Ok(has_floats(sides, schema)? || changed || texts_are_doubles)
}

fn text_constant(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Literal(value, _) => value.try_as_str().flatten(),
        _ => None,
    }
}

/// Makes decimals doubles where a float stands beside them; whether there is one.
fn has_floats(sides: &mut [&mut Expr], schema: &DFSchema) -> Result<bool> {
    // What nests is one argument beside constants and columns, as a rule: its type is computed where it can matter.
    let could_mix =
        |side: &Expr| !is_plain(side) || matches!(kind(side, schema), Kind::Float | Kind::Decimal);
    if sides.iter().filter(|side| could_mix(side)).nth(1).is_none() {
        return Ok(false);
    }
    let kinds: Vec<Kind> = sides.iter().map(|side| kind(side, schema)).collect();
    if !kinds.contains(&Kind::Float) || !kinds.contains(&Kind::Decimal) {
        return Ok(false);
    }
    for (side, _) in sides.iter_mut().zip(&kinds).filter(|(_, kind)| **kind == Kind::Decimal) {
        **side = to_double(side.clone());
    }
    Ok(true)
}

/// Makes `value`, or the column of `subquery` that it is compared with, doubles where one is a decimal and the other a float;
/// whether they are.
fn beside_rows(value: &mut Expr, subquery: &mut Subquery, schema: &DFSchema) -> Result<bool> {
    let Some(column) = subquery.subquery.schema().fields().first() else { return Ok(false) };
    match (kind(value, schema), kind_of(column.data_type())) {
        (Kind::Decimal, Kind::Float) => *value = to_double(value.clone()),
        (Kind::Float, Kind::Decimal) => *subquery = cast_subquery(subquery.clone(), &DataType::Float64)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// True for what has its type written on it.
fn is_plain(expr: &Expr) -> bool {
    matches!(expr, Expr::Column(_) | Expr::Literal(..))
}

/// `expr` as a double; of a constant the one nearest to its digits.
fn to_double(expr: Expr) -> Expr {
    match &expr {
        Expr::Literal(value @ ScalarValue::Decimal128(Some(_), ..), _) => value_text(value)
            .parse()
            .map_or_else(|_| cast(expr.clone(), DataType::Float64), |double: f64| lit(double)),
        _ => cast(expr, DataType::Float64),
    }
}

/// A UNION with the types that its rows have: columns are doubles that are decimals in one input and floats in another.
///
/// DataFusion gives it those of its first input until types are coerced, which hides what a UNION in it becomes:
///
/// ```text
///   (1 UNION ALL 1.5) UNION ALL 1e-20          a DECIMAL and a DOUBLE, not a BIGINT and a DOUBLE
/// ```
fn unite(union: Union) -> Result<Transformed<LogicalPlan>> {
    let column_count = union.schema.fields().len();
    if union.inputs.iter().any(|input| input.schema().fields().len() != column_count) {
        return Ok(Transformed::no(LogicalPlan::Union(union)));
    }
    let targets: Vec<Option<DataType>> =
        (0..column_count).map(|column| united(&union.inputs, column)).collect();
    if targets.iter().all(Option::is_none) {
        return typed(union);
    }
    let inputs = union.inputs.into_iter().map(|input| {
        let columns = (0..column_count).map(|column| {
            let (qualifier, field) = input.schema().qualified_field(column);
            let expr = Expr::Column((qualifier, field).into());
            match &targets[column] {
                Some(target) if gives_way(field.data_type(), target) => {
                    cast(expr, target.clone()).alias_qualified(qualifier.cloned(), field.name())
                }
                _ => expr,
            }
        });
        let columns: Vec<Expr> = columns.collect();
        Ok(Arc::new(LogicalPlanBuilder::from(Arc::unwrap_or_clone(input)).project(columns)?.build()?))
    });
    let inputs = inputs.collect::<Result<Vec<_>>>()?;
    let schema = union.schema;
    Ok(Transformed::yes(typed(Union { inputs, schema })?.data))
}

/// The type that some of `inputs` have to take in a column that others have already; `None` where DataFusion's choice will do.
fn united(inputs: &[Arc<LogicalPlan>], column: usize) -> Option<DataType> {
    let data_type = |input: &LogicalPlan| input.schema().field(column).data_type().clone();
    let any = |holds: &dyn Fn(&LogicalPlan) -> bool| inputs.iter().any(|input| holds(input));
    let of = |kind| any(&|input| kind_of(&data_type(input)) == kind);
    let is_text =
        |input: &LogicalPlan| kind_of(&data_type(input)) == Kind::Text && !is_constant(input, column);
    if of(Kind::Decimal) && of(Kind::Float) {
        return Some(DataType::Float64);
    }
    (any(&is_text) && any(&|input| data_type(input).is_temporal())).then_some(DataType::Utf8)
}

/// Whether a column of type `data_type` is cast to `target`, the type of [`united`].
fn gives_way(data_type: &DataType, target: &DataType) -> bool {
    match target {
        DataType::Float64 => kind_of(data_type) == Kind::Decimal,
        _ => data_type.is_temporal(),
    }
}

/// True where a column is a constant as it is written, which is read as whatever stands beside it.
fn is_constant(plan: &LogicalPlan, column: usize) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => {
            let mut expr = &projection.expr[column];
            while let Expr::Alias(alias) = expr {
                expr = &alias.expr;
            }
            matches!(expr, Expr::Literal(..))
        }
        LogicalPlan::Union(union) => union.inputs.iter().all(|input| is_constant(input, column)),
        _ => false,
    }
}

/// `union` with the types of its columns that DataFusion brings those of its inputs to.
fn typed(mut union: Union) -> Result<Transformed<LogicalPlan>> {
    let coerced = coerce_union_schema(&union.inputs)?;
    let pairs = || union.schema.iter().zip(coerced.fields());
    if pairs().all(|((_, field), coerced)| field.data_type() == coerced.data_type()) {
        return Ok(Transformed::no(LogicalPlan::Union(union)));
    }
    let fields = pairs().map(|((qualifier, field), coerced)| {
        let field = field.as_ref().clone().with_data_type(coerced.data_type().clone());
        (qualifier.cloned(), Arc::new(field))
    });
    let schema = DFSchema::new_with_metadata(fields.collect(), union.schema.as_arrow().metadata().clone())?;
    union.schema = Arc::new(schema);
    Ok(Transformed::yes(LogicalPlan::Union(union)))
}

/// A join on a decimal and a float.
fn join_keys(mut join: Join) -> Result<Transformed<LogicalPlan>> {
    let mut changed = false;
    for (left, right) in &mut join.on {
        let kinds = (kind(left, join.left.schema()), kind(right, join.right.schema()));
        match kinds {
            (Kind::Decimal, Kind::Float) => *left = to_double(left.clone()),
            (Kind::Float, Kind::Decimal) => *right = to_double(right.clone()),
            _ => continue,
        }
        changed = true;
    }
    let join = LogicalPlan::Join(join);
    Ok(if changed { Transformed::yes(join) } else { Transformed::no(join) })
}
