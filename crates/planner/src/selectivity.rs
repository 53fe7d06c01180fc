//! The share of rows that a predicate keeps, and what the predicate says about its columns.
//!
//! ```text
//!   column = literal         (1 - nulls) / domain, nothing outside [min, max]
//!   column IN (k literals)   k times the above
//!   a <= column <= b         the part of [min, max] between a and b, all bounds of a column together
//!   column = column          1 / larger domain
//!   AND, OR, NOT             as if independent
//!   anything else            a default, below
//! ```
//!
//! DataFusion's own `FilterExec` analyses intervals of numbers; strings, dates behind casts and
//! disjunctions get its flat default of 20 %. The defaults here are guesses in the tradition of
//! Selinger et al., "Access path selection in a relational database management system" (1979), table 1.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::common::{ScalarValue, Statistics};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NotExpr,
    TryCastExpr,
};
use datafusion::physical_expr::{
    PhysicalExpr, ScalarFunctionExpr, split_conjunction, utils::split_disjunction,
};

use crate::profile::{ColumnProfile, Profile, Range, number};

/// The name of a function that gives its first argument as it is, of which DataFusion then concludes nothing.
pub const AS_IS: &str = "as_is";

/// `column = literal` when nothing is known about the column. A guess.
const EQUALITY_DEFAULT: f64 = 0.05;
/// `column < literal` when the range is not known. A guess (Selinger's).
const INEQUALITY_DEFAULT: f64 = 1.0 / 3.0;
/// `LIKE` with a wildcard. A guess.
const LIKE_DEFAULT: f64 = 0.1;
/// A predicate of unknown form: DataFusion's default.
const OTHER_DEFAULT: f64 = 0.2;

/// Estimated share of rows, 0..1, that pass `predicate`, given the statistics of its input.
///
/// For scans that evaluate filters themselves: a row count scaled by this, beside distinct counts
/// left as they are stored, gives the join order what it needs.
pub fn predicate_selectivity(predicate: &Arc<dyn PhysicalExpr>, statistics: &Statistics) -> f64 {
    selectivity(predicate, &Profile::from_statistics(statistics, 0).columns)
}

/// Share of rows that pass `predicate`, whose columns index `columns`.
pub(crate) fn selectivity(predicate: &Arc<dyn PhysicalExpr>, columns: &[ColumnProfile]) -> f64 {
    let mut bounds: BTreeMap<usize, Bound> = BTreeMap::new();
    let mut selectivity = 1.0;
    for conjunct in split_conjunction(predicate) {
        match bound(conjunct, columns) {
            Some((column, bound)) => bounds.entry(column).or_default().tighten(&bound),
            None => selectivity *= single(conjunct, columns),
        }
    }
    for (column, bound) in bounds {
        let column = &columns[column];
        let range = column.range.expect("a bound is only made for a known range");
        let part = range.intersect(bound.min, bound.max);
        selectivity *= part.map_or(0.0, |part| range.fraction(&part)) * (1.0 - column.null_fraction);
    }
    selectivity.clamp(0.0, 1.0)
}

/// The rows and columns of `input` that are left behind a filter on `predicate`.
pub(crate) fn filter(input: &Profile, predicate: &Arc<dyn PhysicalExpr>) -> Profile {
    let kept = selectivity(predicate, &input.columns);
    let mut columns = input.columns.clone();
    for conjunct in split_conjunction(predicate) {
        narrow(conjunct, &mut columns);
    }
    Profile { rows: input.rows.map(|rows| rows * kept), columns }
}

/// The column an expression reads, through casts, which keep distinct values apart well enough.
pub(crate) fn column_of(expr: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    if let Some(column) = expr.downcast_ref::<Column>() {
        Some(column.index())
    } else if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        column_of(cast.expr())
    } else if let Some(cast) = expr.downcast_ref::<TryCastExpr>() {
        column_of(cast.expr())
    } else if let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>()
        && let (AS_IS, [inside, ..]) = (call.fun().name(), call.args())
    {
        column_of(inside)
    } else {
        None
    }
}

/// What the conjuncts seen so far leave of a column's range.
struct Bound {
    min: f64,
    max: f64,
}

impl Default for Bound {
    fn default() -> Self {
        Self { min: f64::NEG_INFINITY, max: f64::INFINITY }
    }
}

impl Bound {
    fn tighten(&mut self, other: &Self) {
        self.min = self.min.max(other.min);
        self.max = self.max.min(other.max);
    }
}

/// Reads `column < number` and its kin, in either direction, for a column of known range.
fn bound(expr: &Arc<dyn PhysicalExpr>, columns: &[ColumnProfile]) -> Option<(usize, Bound)> {
    let (column, op, literal) = comparison(expr)?;
    let range = columns[column].range?;
    let (value, _) = number(&literal)?;
    let unbounded = Bound::default();
    let bound = match op {
        Operator::Lt => Bound { max: value - range.step, ..unbounded },
        Operator::LtEq => Bound { max: value, ..unbounded },
        Operator::Gt => Bound { min: value + range.step, ..unbounded },
        Operator::GtEq => Bound { min: value, ..unbounded },
        _ => return None,
    };
    Some((column, bound))
}

/// Reads `column op literal` or `literal op column`.
fn comparison(expr: &Arc<dyn PhysicalExpr>) -> Option<(usize, Operator, ScalarValue)> {
    let binary = expr.downcast_ref::<BinaryExpr>()?;
    if let Some(literal) = literal_of(binary.right()) {
        Some((column_of(binary.left())?, *binary.op(), literal))
    } else {
        Some((column_of(binary.right())?, binary.op().swap()?, literal_of(binary.left())?))
    }
}

/// The value of a literal, through a cast.
fn literal_of(expr: &Arc<dyn PhysicalExpr>) -> Option<ScalarValue> {
    if let Some(literal) = expr.downcast_ref::<Literal>() {
        return Some(literal.value().clone());
    }
    let cast = expr.downcast_ref::<CastExpr>()?;
    literal_of(cast.expr())?.cast_to(cast.cast_type()).ok()
}

/// Selectivity of one conjunct.
fn single(expr: &Arc<dyn PhysicalExpr>, columns: &[ColumnProfile]) -> f64 {
    if let Some(literal) = expr.downcast_ref::<Literal>() {
        return f64::from(u8::from(literal.value() == &ScalarValue::Boolean(Some(true))));
    }
    if let Some(column) = expr.downcast_ref::<Column>() {
        return 0.5 * (1.0 - columns[column.index()].null_fraction);
    }
    if let Some(not) = expr.downcast_ref::<NotExpr>() {
        return 1.0 - selectivity(not.arg(), columns);
    }
    if let Some(is_null) = expr.downcast_ref::<IsNullExpr>() {
        return null_fraction(is_null.arg(), columns);
    }
    if let Some(is_not_null) = expr.downcast_ref::<IsNotNullExpr>() {
        return 1.0 - null_fraction(is_not_null.arg(), columns);
    }
    if let Some(in_list) = expr.downcast_ref::<InListExpr>() {
        return in_list_selectivity(in_list, columns);
    }
    if let Some(like) = expr.downcast_ref::<LikeExpr>() {
        return if like.negated() { 1.0 - LIKE_DEFAULT } else { LIKE_DEFAULT };
    }
    match expr.downcast_ref::<BinaryExpr>() {
        Some(binary) => binary_selectivity(expr, binary, columns),
        None => OTHER_DEFAULT,
    }
}

fn binary_selectivity(expr: &Arc<dyn PhysicalExpr>, binary: &BinaryExpr, columns: &[ColumnProfile]) -> f64 {
    use Operator::*;
    match binary.op() {
        Or => {
            let rejected: f64 = split_disjunction(expr)
                .into_iter()
                .map(|branch| 1.0 - selectivity(branch, columns))
                .product();
            1.0 - rejected
        }
        Eq | IsNotDistinctFrom => equality(binary, columns),
        NotEq | IsDistinctFrom => 1.0 - equality(binary, columns),
        Lt | LtEq | Gt | GtEq => INEQUALITY_DEFAULT,
        LikeMatch | ILikeMatch | RegexMatch | RegexIMatch => LIKE_DEFAULT,
        NotLikeMatch | NotILikeMatch | RegexNotMatch | RegexNotIMatch => 1.0 - LIKE_DEFAULT,
        _ => OTHER_DEFAULT,
    }
}

/// `column = literal` or `expression = expression`.
fn equality(binary: &BinaryExpr, columns: &[ColumnProfile]) -> f64 {
    let operands = [binary.left(), binary.right()];
    for (operand, other) in [(operands[0], operands[1]), (operands[1], operands[0])] {
        if let (Some(column), Some(literal)) = (column_of(operand), literal_of(other)) {
            return equals_literal(&columns[column], &literal);
        }
    }
    operands
        .into_iter()
        .filter_map(column_of)
        .filter_map(|column| columns[column].domain)
        .reduce(f64::max)
        .map_or(EQUALITY_DEFAULT, |domain| 1.0 / domain)
}

fn equals_literal(column: &ColumnProfile, literal: &ScalarValue) -> f64 {
    if let (Some(range), Some((value, _))) = (column.range, number(literal))
        && range.intersect(value, value).is_none()
    {
        return 0.0;
    }
    let share = column.domain.map_or(EQUALITY_DEFAULT, |domain| 1.0 / domain);
    share * (1.0 - column.null_fraction)
}

fn in_list_selectivity(in_list: &InListExpr, columns: &[ColumnProfile]) -> f64 {
    let column = column_of(in_list.expr()).map(|column| &columns[column]);
    let matched: f64 = in_list
        .list()
        .iter()
        .map(|item| match (column, literal_of(item)) {
            (Some(column), Some(literal)) => equals_literal(column, &literal),
            _ => EQUALITY_DEFAULT,
        })
        .sum();
    let matched = matched.min(1.0);
    if in_list.negated() { 1.0 - matched } else { matched }
}

fn null_fraction(expr: &Arc<dyn PhysicalExpr>, columns: &[ColumnProfile]) -> f64 {
    column_of(expr).map_or(EQUALITY_DEFAULT, |column| columns[column].null_fraction)
}

/// Records in `columns` what holds of every row for which `conjunct` is true.
fn narrow(conjunct: &Arc<dyn PhysicalExpr>, columns: &mut [ColumnProfile]) {
    if let Some((index, bound)) = bound(conjunct, columns) {
        narrow_range(&mut columns[index], &bound);
    } else if let Some((index, Operator::Eq, literal)) = comparison(conjunct) {
        let point = number(&literal)
            .and_then(|(value, _)| columns[index].range.and_then(|range| range.intersect(value, value)));
        narrow_domain(&mut columns[index], 1.0, point);
    } else if let Some(in_list) = conjunct.downcast_ref::<InListExpr>() {
        if let (Some(index), false) = (column_of(in_list.expr()), in_list.negated()) {
            let range = columns[index].range;
            narrow_domain(&mut columns[index], in_list.list().len() as f64, range);
        }
    } else if let Some(is_not_null) = conjunct.downcast_ref::<IsNotNullExpr>() {
        if let Some(index) = column_of(is_not_null.arg()) {
            columns[index].null_fraction = 0.0;
        }
    } else if let Some(binary) = conjunct.downcast_ref::<BinaryExpr>()
        && *binary.op() == Operator::Eq
        && let (Some(left), Some(right)) = (column_of(binary.left()), column_of(binary.right()))
    {
        let common = columns[left].intersect(&columns[right]);
        for index in [left, right] {
            narrow_domain(&mut columns[index], common.domain_or_key(), common.range);
        }
    }
}

fn narrow_range(column: &mut ColumnProfile, bound: &Bound) {
    column.null_fraction = 0.0;
    let Some(range) = column.range else { return };
    let part = range.intersect(bound.min, bound.max);
    let fraction = part.map_or(0.0, |part| range.fraction(&part));
    column.domain = column.domain.map(|domain| (domain * fraction).max(1.0));
    column.range = part.or(Some(range));
}

fn narrow_domain(column: &mut ColumnProfile, count_max: f64, range: Option<Range>) {
    column.null_fraction = 0.0;
    column.domain = Some(column.domain.map_or(count_max, |domain| domain.min(count_max)));
    column.is_counted |= column.domain == Some(count_max);
    column.range = range;
}

#[cfg(test)]
mod tests;
