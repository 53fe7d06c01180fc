//! Arithmetic and casts of integers and decimals: in the narrowest form that bounds allow, checked where they do not
//! show that the result fits its type.
//!
//! ```text
//!   Type    held as      leaves its type beyond
//!   I32     i32          32 bits
//!   I64     i64          64 bits
//!   I128    i64, i128    10^38 - 1, the most that a decimal has
//! ```

use pelton_error::{Error, Result};

use super::block::Block;
use super::scope::Scope;
use super::value::{Form, Value, both_valid, constant, fits_i64, type_bounds, within};
use crate::ir::{ArithmeticOp, Bounds, Type};

/// What decimals lie between.
const DECIMALS: Bounds = Bounds { min: -(10_i128.pow(38) - 1), max: 10_i128.pow(38) - 1 };

/// `left op right`, both of one type.
pub(super) fn arithmetic(
    op: ArithmeticOp,
    left: &Value,
    right: &Value,
    scope: &mut dyn Scope,
    block: &mut Block,
) -> Result<Value> {
    let refused = || Err(Error::unsupported(format!("{op:?} of {:?} and {:?}", left.ty, right.ty)));
    if left.ty != right.ty {
        return refused();
    }
    match (left.ty, op) {
        (Type::F64, ArithmeticOp::Remainder) => refused(),
        (Type::F64, _) => {
            let code = format!("{} {} {}", left.code, sign(op), right.code);
            let value = Value::new(block.define("f64", "f", code), Type::F64, None);
            Ok(value.with_valid(both_valid(&left.valid, &right.valid)))
        }
        (Type::I128, ArithmeticOp::Divide | ArithmeticOp::Remainder) => refused(),
        (Type::I32 | Type::I64 | Type::I128, _) => Ok(integers(op, left, right, scope, block)),
        _ => refused(),
    }
}

fn sign(op: ArithmeticOp) -> &'static str {
    match op {
        ArithmeticOp::Add => "+",
        ArithmeticOp::Subtract => "-",
        ArithmeticOp::Multiply => "*",
        ArithmeticOp::Divide => "/",
        ArithmeticOp::Remainder => "%",
    }
}

/// What values of a type lie between, without leaving it.
fn limits(ty: Type) -> Bounds {
    type_bounds(ty).unwrap_or(DECIMALS)
}

/// What the exact result lies between; `None` where nobody can say, and for quotients by what may be 0.
fn result_bounds(op: ArithmeticOp, left: Option<Bounds>, right: Option<Bounds>) -> Option<Bounds> {
    let (a, b) = (left?, right?);
    let corners = |of: fn(i128, i128) -> Option<i128>| {
        let all = [of(a.min, b.min)?, of(a.min, b.max)?, of(a.max, b.min)?, of(a.max, b.max)?];
        Some(Bounds { min: *all.iter().min()?, max: *all.iter().max()? })
    };
    match op {
        ArithmeticOp::Add => corners(i128::checked_add),
        ArithmeticOp::Subtract => corners(i128::checked_sub),
        ArithmeticOp::Multiply => corners(i128::checked_mul),
        _ if b.min <= 0 && b.max >= 0 => None,
        ArithmeticOp::Divide => corners(i128::checked_div),
        ArithmeticOp::Remainder => {
            let most = b.min.unsigned_abs().max(b.max.unsigned_abs()) as i128 - 1;
            Some(Bounds { min: if a.min < 0 { -most } else { 0 }, max: if a.max > 0 { most } else { 0 } })
        }
    }
}

fn integers(
    op: ArithmeticOp,
    left: &Value,
    right: &Value,
    scope: &mut dyn Scope,
    block: &mut Block,
) -> Value {
    let (ty, limits) = (left.ty, limits(left.ty));
    let valid = both_valid(&left.valid, &right.valid);
    let exact = result_bounds(op, left.bounds, right.bounds);
    let fits = exact.is_some_and(|bounds| within(bounds, limits));
    if !scope.checks().is_needed(fits) {
        return plain(op, left, right, exact, block).with_valid(valid);
    }
    // Decimals are computed in 128 bits, where a product of two values of 64 bits always fits.
    let form = if ty == Type::I128 { Form::I128 } else { left.form };
    let function = match op {
        ArithmeticOp::Add => "checked_add",
        ArithmeticOp::Subtract => "checked_subtract",
        ArithmeticOp::Multiply => "checked_multiply",
        ArithmeticOp::Divide => "checked_divide",
        ArithmeticOp::Remainder => "checked_remainder",
    };
    let code = format!("{function}({}, {})", in_form(left, form), in_form(right, form));
    let result = block.define(&format!("Checked<{}>", form.c_type()), "i", code);
    let what = format!("{op:?} of {} and {}", values_text(left), values_text(right));
    scope.note_overflow(&format!("{result}.overflows"), &valid, what, block);
    let value = Value { form, ..Value::new(format!("{result}.value"), ty, None) };
    // Within the type already, unless it is a decimal.
    let value = if ty == Type::I128 { inside(value, limits, &valid, scope, block) } else { value };
    let bounds = exact.filter(|_| fits).or(value.bounds);
    in_bounds(value, bounds, block).with_valid(valid)
}

/// Without a check: bounds have shown that the result fits.
fn plain(op: ArithmeticOp, left: &Value, right: &Value, bounds: Option<Bounds>, block: &mut Block) -> Value {
    let (ty, sign) = (left.ty, sign(op));
    let form = Form::of(ty, bounds);
    if matches!(op, ArithmeticOp::Divide | ArithmeticOp::Remainder) {
        // The divisor may be 0 where the value is NULL.
        let function = if op == ArithmeticOp::Divide { "checked_divide" } else { "checked_remainder" };
        let code = format!("{function}({}, {}).value", in_form(left, form), in_form(right, form));
        return Value::new(block.define(form.c_type(), "i", code), ty, bounds);
    }
    // Every intermediate is a result here, so the widest of three forms does.
    let wide = if left.form == Form::I128 || right.form == Form::I128 { Form::I128 } else { form };
    // What is NULL may be anything, which overflows without meaning anything.
    let unsigned = match wide {
        Form::I32 => "u32",
        Form::I64 => "u64",
        _ => "u128",
    };
    let (a, b) = (in_form(left, wide), in_form(right, wide));
    let code = format!("{}({unsigned}({a}) {sign} {unsigned}({b}))", form.c_type());
    Value::new(block.define(form.c_type(), "i", code), ty, bounds)
}

/// `input` where it lies in `bounds`; anything else is an overflow.
pub(super) fn checked_within(
    input: &Value,
    bounds: Bounds,
    scope: &mut dyn Scope,
    block: &mut Block,
) -> Result<Value> {
    if !matches!(input.ty, Type::I32 | Type::I64 | Type::I128) {
        return Err(Error::unsupported(format!("bounds of {:?}", input.ty)));
    }
    let fits = input.bounds.is_some_and(|known| within(known, bounds));
    if !scope.checks().is_needed(fits) {
        return Ok(input.clone());
    }
    let known = input.bounds.filter(|_| fits);
    let value = inside(input.clone(), bounds, &input.valid, scope, block);
    let bounds = known.or(value.bounds);
    Ok(in_bounds(value, bounds, block).with_valid(input.valid.clone()))
}

/// `input`, of which 0 is an overflow.
pub(super) fn checked_non_zero(input: &Value, scope: &mut dyn Scope, block: &mut Block) -> Result<Value> {
    if !matches!(input.ty, Type::I32 | Type::I64 | Type::I128) {
        return Err(Error::unsupported(format!("a divisor of {:?}", input.ty)));
    }
    let is_shown = input.bounds.is_some_and(|bounds| bounds.min > 0 || bounds.max < 0);
    if scope.checks().is_needed(is_shown) {
        let what = format!("division by {}", values_text(input));
        scope.note_overflow(&format!("{} == 0", input.code), &input.valid, what, block);
    }
    Ok(input.clone())
}

/// `value` or, where it lies outside of `bounds`, which is an overflow, one of them.
fn inside(
    value: Value,
    bounds: Bounds,
    valid: &Option<String>,
    scope: &mut dyn Scope,
    block: &mut Block,
) -> Value {
    let form = value.form;
    let reach = type_bounds(match form {
        Form::I32 => Type::I32,
        Form::I64 => Type::I64,
        _ => Type::I128,
    });
    let mut outside = Vec::new();
    if reach.is_none_or(|reach| reach.min < bounds.min) {
        outside.push(format!("{} < {}", value.code, constant(bounds.min, form)));
    }
    if reach.is_none_or(|reach| reach.max > bounds.max) {
        outside.push(format!("{} > {}", value.code, constant(bounds.max, form)));
    }
    if outside.is_empty() {
        return value;
    }
    let known = value.bounds.or(reach).unwrap_or(bounds);
    let left = Bounds { min: bounds.min.max(known.min), max: bounds.max.min(known.max) };
    let left = if left.min <= left.max { left } else { bounds };
    let outside = block.define("bool", "b", outside.join(" || "));
    let what = format!("{} within {}", values_text(&value), bounds_text(Some(bounds)));
    scope.note_overflow(&outside, valid, what, block);
    let code = format!("{outside} ? {} : {}", constant(left.min, form), value.code);
    let code = block.define(form.c_type(), "i", code);
    Value { code, bounds: Some(left), ..value }
}

/// `value`, which lies between `bounds`, in the form that goes with them.
fn in_bounds(value: Value, bounds: Option<Bounds>, block: &mut Block) -> Value {
    let form = Form::of(value.ty, bounds);
    if form == value.form {
        return Value { bounds, ..value };
    }
    let code = block.define(form.c_type(), "i", in_form(&value, form));
    Value { code, form, bounds, ..value }
}

/// To another numeric type; to narrower integers checked.
pub(super) fn cast(input: &Value, to: Type, scope: &mut dyn Scope, block: &mut Block) -> Result<Value> {
    match (input.ty, to) {
        (from, to) if from == to => return Ok(input.clone()),
        (Type::Text | Type::F64, _) | (_, Type::Text | Type::Bool) => {
            return Err(Error::unsupported(format!("a cast from {:?} to {to:?}", input.ty)));
        }
        (_, Type::F64) => {
            let code = block.define("f64", "f", format!("f64({})", input.code));
            return Ok(Value::new(code, to, None).with_valid(input.valid.clone()));
        }
        _ => {}
    }
    let limits = type_bounds(to);
    let is_narrower = |limits| input.bounds.is_none_or(|bounds| !within(bounds, limits));
    let input = match limits {
        Some(limits) if is_narrower(limits) => checked_within(input, limits, scope, block)?,
        _ => input.clone(),
    };
    let bounds = input.bounds.or(type_bounds(input.ty));
    let form = Form::of(to, bounds);
    let code = match input.form == form {
        true => input.code.clone(),
        false => block.define(form.c_type(), "i", in_form(&input, form)),
    };
    Ok(Value::new(code, to, bounds).with_valid(input.valid))
}

/// The quotient rounded down. What is never negative is divided as unsigned, which rounds down by itself.
pub(super) fn floor_divide(input: &Value, by: i64, block: &mut Block) -> Result<Value> {
    let (bounds, by) = (integer_bounds(input)?, positive(by)?);
    let of = i128::from(by);
    let quotient = Bounds { min: bounds.min.div_euclid(of), max: bounds.max.div_euclid(of) };
    let code = match bounds.min >= 0 {
        true => format!("u64({}) / {by}ull", input.code),
        false => format!("floor_divide({}, {by}ll)", input.code),
    };
    let c_type = input.form.c_type();
    let code = block.define(c_type, "i", format!("{c_type}({code})"));
    Ok(Value::new(code, input.ty, Some(quotient)).with_valid(input.valid.clone()))
}

/// What [`floor_divide`] leaves.
pub(super) fn modulo(input: &Value, by: i64, block: &mut Block) -> Result<Value> {
    let quotient = floor_divide(input, by, block)?;
    let c_type = input.form.c_type();
    let code = format!("{c_type}({} - i64({}) * {by}ll)", input.code, quotient.code);
    let bounds = Some(Bounds { min: 0, max: i128::from(by) - 1 });
    Ok(Value::new(block.define(c_type, "i", code), input.ty, bounds).with_valid(input.valid.clone()))
}

fn integer_bounds(input: &Value) -> Result<Bounds> {
    let bounds = matches!(input.ty, Type::I32 | Type::I64).then_some(input.bounds).flatten();
    bounds.ok_or_else(|| Error::unsupported(format!("whole quotients of {:?}", input.ty)))
}

fn positive(by: i64) -> Result<i64> {
    (by > 0).then_some(by).ok_or_else(|| Error::unsupported(format!("whole quotients by {by}")))
}

/// The value in another form of the same type, or of a wider one.
pub(super) fn in_form(value: &Value, form: Form) -> String {
    if value.form == form { value.code.clone() } else { format!("{}({})", form.c_type(), value.code) }
}

fn values_text(value: &Value) -> String {
    format!("{:?} {}", value.ty, bounds_text(value.bounds))
}

fn bounds_text(bounds: Option<Bounds>) -> String {
    bounds.map_or("of unknown bounds".into(), |bounds| format!("[{}, {}]", bounds.min, bounds.max))
}

/// True where the sum of `row_count` values between `bounds` stays between `limits`.
fn sum_stays(bounds: Bounds, row_count: u64, limits: Bounds) -> bool {
    let rows = i128::from(row_count.max(1));
    let (min, max) = (bounds.min.min(0).checked_mul(rows), bounds.max.max(0).checked_mul(rows));
    min.zip(max).is_some_and(|(min, max)| within(Bounds { min, max }, limits))
}

/// How many bits a sum takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SumWidth {
    /// 64.
    Narrow,
    /// 128.
    Wide,
    /// 128, perhaps more: what leaves them is an overflow.
    Checked,
}

/// What the sum of `row_count` values like this needs.
pub(super) fn sum_width(value: &Value, row_count: u64, scope: &mut dyn Scope) -> SumWidth {
    let bounds = value.bounds.unwrap_or(Bounds { min: i128::MIN, max: i128::MAX });
    let i128_bounds = Bounds { min: i128::MIN, max: i128::MAX };
    let is_narrow = fits_i64(bounds)
        && sum_stays(bounds, row_count, Bounds { min: i64::MIN.into(), max: i64::MAX.into() });
    match () {
        () if scope.checks().is_needed(sum_stays(bounds, row_count, i128_bounds)) => SumWidth::Checked,
        () if is_narrow => SumWidth::Narrow,
        () => SumWidth::Wide,
    }
}
