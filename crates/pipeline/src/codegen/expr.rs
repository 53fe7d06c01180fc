//! Expressions to C++: each step a constant of its own, with its validity and its bounds.
//!
//! Bounds make arithmetic cheap: a product of two decimals is computed in 64 bits where its bounds fit, in 128 where
//! they do not, and is checked only where even its type might not hold it (`arithmetic.rs`). CASE, AND and OR compute
//! all that they have for every row; what SQL would not have evaluated is kept from counting as an overflow by guards.

use std::sync::Arc;

use pelton_error::{Error, Result};

use super::args::Arg;
use super::arithmetic::{self, in_form};
use super::block::Block;
use super::dates;
use super::scope::Scope;
use super::value::{Form, Value, both_valid, constant, type_bounds, union};
use crate::ir::{Bounds, CompareOp, Expr, Literal, SignChange, Type};
use crate::text::Dictionary;

/// Values of a list that come with the arguments at most.
const IN_ARGUMENTS_MAX: usize = 16;

/// Generates `expr` into `block`; columns come from `scope`.
pub(crate) fn generate(expr: &Expr, scope: &mut dyn Scope, block: &mut Block) -> Result<Value> {
    match expr {
        Expr::Column(column) => scope.column(*column, block),
        Expr::Literal(literal) => Ok(literal_value(*literal)),
        Expr::RowNumber => scope.row_number(block),
        Expr::Parameter { number, ty } => parameter(*number, *ty, scope, block),
        Expr::Arithmetic { op, left, right } => {
            let (left, right) = (generate(left, scope, block)?, generate(right, scope, block)?);
            arithmetic::arithmetic(*op, &left, &right, scope, block)
        }
        Expr::Compare { op, left, right } => {
            let (left, right) = (compared(left, scope, block)?, compared(right, scope, block)?);
            compare(*op, &left, &right, block)
        }
        Expr::And(inputs) => connective(inputs, scope, block, true),
        Expr::Or(inputs) => connective(inputs, scope, block, false),
        Expr::Not(input) => {
            let input = generate(input, scope, block)?;
            let code = block.define("bool", "b", format!("!{}", input.code));
            Ok(Value::new(code, Type::Bool, None).with_valid(input.valid))
        }
        Expr::IsNull(input) => {
            let input = generate(input, scope, block)?;
            let code =
                input.valid.map_or("false".into(), |valid| block.define("bool", "b", format!("!{valid}")));
            Ok(Value::new(code, Type::Bool, None))
        }
        Expr::In { input, values } => {
            let input = generate(input, scope, block)?;
            is_in(&input, values, scope, block)
        }
        Expr::Case { branches, otherwise } => case(branches, otherwise.as_deref(), scope, block),
        Expr::Where { input, condition } => {
            let condition = generate(condition, scope, block)?.is_true();
            scope.guards().push(condition.clone());
            let input = generate(input, scope, block)?;
            scope.guards().pop();
            let valid =
                both_valid(&Some(condition), &input.valid).map(|valid| block.define("bool", "n", valid));
            Ok(input.with_valid(valid))
        }
        Expr::Cast { input, to } => {
            let input = generate(input, scope, block)?;
            arithmetic::cast(&input, *to, scope, block)
        }
        Expr::Within { input, bounds } => {
            let input = generate(input, scope, block)?;
            arithmetic::checked_within(&input, *bounds, scope, block)
        }
        Expr::FloatKey { input } => {
            let input = generate(input, scope, block)?;
            if input.ty != Type::F64 {
                return Err(Error::unsupported(format!("a key of doubles of {:?}", input.ty)));
            }
            let code = block.define("f64", "f", format!("float_key({})", input.code));
            Ok(Value::new(code, Type::F64, None).with_valid(input.valid))
        }
        Expr::WithSign { input, sign } => {
            let input = generate(input, scope, block)?;
            if input.ty != Type::F64 {
                return Err(Error::unsupported(format!("the sign of {:?}", input.ty)));
            }
            let bits = match sign {
                SignChange::Flipped => format!("bits_of({}) ^ 1ull << 63", input.code),
                SignChange::Cleared => format!("bits_of({}) & ~(1ull << 63)", input.code),
            };
            let code = block.define("f64", "f", format!("of_bits({bits})"));
            Ok(Value::new(code, Type::F64, None).with_valid(input.valid))
        }
        Expr::NonZero { input } => {
            let input = generate(input, scope, block)?;
            arithmetic::checked_non_zero(&input, scope, block)
        }
        Expr::DatePart { part, input } => {
            let input = generate(input, scope, block)?;
            Ok(dates::part(*part, &input, block))
        }
        Expr::DateTrunc { unit, input } => {
            let input = generate(input, scope, block)?;
            Ok(dates::trunc(*unit, &input, block))
        }
        Expr::AddMonths { input, months } => {
            let input = generate(input, scope, block)?;
            dates::add_months(&input, *months, block)
        }
        Expr::FloorDivide { input, by } => {
            let input = generate(input, scope, block)?;
            arithmetic::floor_divide(&input, *by, block)
        }
        Expr::Modulo { input, by } => {
            let input = generate(input, scope, block)?;
            arithmetic::modulo(&input, *by, block)
        }
        Expr::OfText { column, function } => scope.of_text(*column, function, block),
    }
}

/// The value of a parameter, which comes with the arguments: another value is no other program.
fn parameter(number: usize, ty: Type, scope: &mut dyn Scope, block: &mut Block) -> Result<Value> {
    let args = scope.args();
    let (word, valid) = (args.word(Arg::Parameter(number)), args.word(Arg::ParameterValid(number)));
    let code = match ty {
        Type::Bool => format!("{word} != 0"),
        Type::I32 => format!("i32(i64({word}))"),
        Type::I64 => format!("i64({word})"),
        Type::F64 => format!("of_bits({word})"),
        Type::I128 => {
            let high = args.word(Arg::ParameterHigh(number));
            format!("i128((u128({high}) << 64) | u128({word}))")
        }
        Type::Text => return Err(Error::unsupported("a text that is known only when the plan is run")),
    };
    let form = Form::of(ty, None);
    let code = block.define(form.c_type(), "p", code);
    let valid = block.define("bool", "n", format!("{valid} != 0"));
    Ok(Value::new(code, ty, None).with_valid(Some(valid)))
}

/// A side of a comparison. A number comes with the arguments where 64 bits hold it: another one is no other program.
fn compared(expr: &Expr, scope: &mut dyn Scope, block: &mut Block) -> Result<Value> {
    let Expr::Literal(literal) = expr else { return generate(expr, scope, block) };
    let (bits, ty) = match *literal {
        Literal::I32(value) => (i64::from(value) as u64, Type::I32),
        Literal::I64(value) => (value as u64, Type::I64),
        Literal::F64(value) => (value.to_bits(), Type::F64),
        Literal::I128(value) => match i64::try_from(value) {
            Ok(value) => (value as u64, Type::I128),
            Err(_) => return Ok(literal_value(*literal)),
        },
        Literal::Bool(_) | Literal::Null(_) => return Ok(literal_value(*literal)),
    };
    let Some(word) = scope.literal(bits) else { return Ok(literal_value(*literal)) };
    let code = match ty {
        Type::I32 => format!("i32(i64({word}))"),
        Type::F64 => format!("of_bits({word})"),
        _ => format!("i64({word})"),
    };
    Ok(Value::new(code, ty, (ty == Type::I128).then(|| type_bounds(Type::I64)).flatten()))
}

pub(super) fn literal_value(literal: Literal) -> Value {
    let exact = |value: i128, ty| {
        let bounds = Some(Bounds { min: value, max: value });
        let form = Form::of(ty, bounds);
        Value { bounds, ..Value::new(constant(value, form), ty, bounds) }
    };
    match literal {
        Literal::Bool(value) => exact(value.into(), Type::Bool),
        Literal::I32(value) => exact(value.into(), Type::I32),
        Literal::I64(value) => exact(value.into(), Type::I64),
        Literal::I128(value) => exact(value, Type::I128),
        Literal::F64(value) => Value::new(double_constant(value), Type::F64, None),
        Literal::Null(ty) => {
            let zero = Some(Bounds { min: 0, max: 0 });
            let mut value = Value::new(constant(0, Form::of(ty, zero)), ty, zero);
            value.dictionary = (ty == Type::Text).then(|| Arc::new(Dictionary::of_one(b"")));
            value.with_valid(Some("false".into()))
        }
    }
}

/// Exact: decimal digits that lead back to the same double, or the bits of what has none. (The quotient of two zeros is
/// a NaN of either sign, as the processor likes.)
fn double_constant(value: f64) -> String {
    if value.is_finite() { format!("{value:e}") } else { format!("of_bits({:#x}ull)", value.to_bits()) }
}

fn compare(op: CompareOp, left: &Value, right: &Value, block: &mut Block) -> Result<Value> {
    let is_short = left.form == Form::Short && right.form == Form::Short;
    if left.ty != right.ty || (left.ty == Type::Text && !is_short) {
        return Err(Error::unsupported(format!("comparing {:?} with {:?}", left.ty, right.ty)));
    }
    let sign = match op {
        CompareOp::Eq => "==",
        CompareOp::Ne => "!=",
        CompareOp::Lt => "<",
        CompareOp::Le => "<=",
        CompareOp::Gt => ">",
        CompareOp::Ge => ">=",
    };
    let (a, b) = match left.ty {
        Type::F64 => (format!("total_order({})", left.code), format!("total_order({})", right.code)),
        _ => {
            let form = if left.form == right.form { left.form } else { Form::I128 };
            (in_form(left, form), in_form(right, form))
        }
    };
    let code = block.define("bool", "b", format!("{a} {sign} {b}"));
    Ok(Value::new(code, Type::Bool, None).with_valid(both_valid(&left.valid, &right.valid)))
}

/// AND and OR in three-valued logic: what decides (false for AND, true for OR) decides even beside NULL.
fn connective(inputs: &[Expr], scope: &mut dyn Scope, block: &mut Block, is_and: bool) -> Result<Value> {
    let mut values: Vec<Value> = Vec::with_capacity(inputs.len());
    let depth = scope.guards().len();
    for input in inputs {
        let value = generate(input, scope, block)?;
        scope.guards().push(if is_and { value.may_be_true() } else { value.may_be_false() });
        values.push(value);
    }
    scope.guards().truncate(depth);
    let sign = if is_and { " && " } else { " || " };
    let code: Vec<String> = values.iter().map(|value| value.code.clone()).collect();
    if values.iter().all(|value| value.valid.is_none()) {
        let code = if code.is_empty() { is_and.to_string() } else { code.join(sign) };
        return Ok(Value::new(block.define("bool", "b", code), Type::Bool, None));
    }
    let valid = |value: &Value| value.valid.clone().unwrap_or("true".into());
    let decided =
        |value: &Value| format!("({} && {}{})", valid(value), if is_and { "!" } else { "" }, value.code);
    let decides: Vec<String> = values.iter().map(decided).collect();
    let decided = block.define("bool", "b", decides.join(" || "));
    let all_valid: Vec<String> = values.iter().map(valid).collect();
    let known = block.define("bool", "n", format!("{decided} || ({})", all_valid.join(" && ")));
    // Where nothing decides and all are known, AND is true and OR is false.
    let result = if is_and { format!("!{decided}") } else { decided };
    let code = block.define("bool", "b", result);
    Ok(Value::new(code, Type::Bool, None).with_valid(Some(known)))
}

/// Few values come with the arguments, as those of comparisons do.
fn is_in(input: &Value, values: &[i128], scope: &mut dyn Scope, block: &mut Block) -> Result<Value> {
    let bounds = match input.form {
        Form::I32 => type_bounds(Type::I32),
        Form::I64 => type_bounds(Type::I64),
        Form::I128 => None,
        _ => return Err(Error::unsupported(format!("IN over {:?}", input.ty))),
    };
    let fits = |value: &&i128| bounds.is_none_or(|bounds| (bounds.min..=bounds.max).contains(*value));
    let c_type = input.form.c_type();
    let mut tests = Vec::with_capacity(values.len());
    for value in values.iter().filter(fits) {
        let argument = match i64::try_from(*value) {
            Ok(bits) if values.len() <= IN_ARGUMENTS_MAX => scope.literal(bits as u64),
            _ => None,
        };
        let code = match argument {
            Some(word) => format!("{c_type}(i64({word}))"),
            None => constant(*value, input.form),
        };
        tests.push(format!("{} == {code}", input.code));
    }
    let code = if tests.is_empty() { "false".into() } else { tests.join(" || ") };
    let code = block.define("bool", "b", code);
    Ok(Value::new(code, Type::Bool, None).with_valid(input.valid.clone()))
}

/// A value of a CASE. What 64 bits do not hold comes with the arguments: hashes of texts differ from process to process,
/// and programs are kept longer.
fn chosen_value(expr: &Expr, scope: &mut dyn Scope, block: &mut Block) -> Result<Value> {
    let value = match *expr {
        Expr::Literal(Literal::I128(value)) if i64::try_from(value).is_err() => value,
        _ => return generate(expr, scope, block),
    };
    let bits = value as u128;
    let Some((low, high)) = scope.literal(bits as u64).zip(scope.literal((bits >> 64) as u64)) else {
        return generate(expr, scope, block);
    };
    let code = format!("i128((u128({high}) << 64) | u128({low}))");
    Ok(Value::new(code, Type::I128, Some(Bounds { min: value, max: value })))
}

fn case(
    branches: &[(Expr, Expr)],
    otherwise: Option<&Expr>,
    scope: &mut dyn Scope,
    block: &mut Block,
) -> Result<Value> {
    let mut conditions = Vec::with_capacity(branches.len());
    let mut values = Vec::with_capacity(branches.len() + 1);
    let depth = scope.guards().len();
    for (condition, value) in branches {
        let condition = generate(condition, scope, block)?.is_true();
        scope.guards().push(condition.clone());
        values.push(chosen_value(value, scope, block)?);
        scope.guards().pop();
        scope.guards().push(format!("!{condition}"));
        conditions.push(condition);
    }
    let Some(first) = values.first() else { return Err(Error::unsupported("CASE without a branch")) };
    let ty = first.ty;
    values.push(match otherwise {
        Some(otherwise) => chosen_value(otherwise, scope, block)?,
        None => literal_value(Literal::Null(ty)),
    });
    scope.guards().truncate(depth);
    if ty == Type::Text || values.iter().any(|value| value.ty != ty) {
        return Err(Error::unsupported("CASE of text, or of values of several types"));
    }
    let bounds = values.iter().map(|value| value.bounds).reduce(union).flatten();
    let form = Form::of(ty, bounds.or(type_bounds(ty)));
    let choose = |parts: Vec<String>| {
        let (last, chosen) = parts.split_last().expect("branches and an otherwise");
        let chain: Vec<String> =
            conditions.iter().zip(chosen).map(|(c, part)| format!("{c} ? {part} : ")).collect();
        format!("{}{last}", chain.concat())
    };
    let code =
        block.define(form.c_type(), "c", choose(values.iter().map(|value| in_form(value, form)).collect()));
    let valid = values
        .iter()
        .any(|value| value.valid.is_some())
        .then(|| choose(values.iter().map(|value| value.valid.clone().unwrap_or("true".into())).collect()));
    let valid = valid.map(|valid| block.define("bool", "n", valid));
    Ok(Value::new(code, ty, bounds).with_valid(valid))
}
