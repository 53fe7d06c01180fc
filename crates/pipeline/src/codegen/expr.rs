//! Expressions to C++: each step a constant of its own, with its validity and its bounds.
//!
//! Bounds are what makes decimals cheap and safe: a product of two decimals is computed in 64 bits where its bounds
//! fit, in 128 where they do not, and refused where even those might overflow, because the CPU would report that.

use pelton_error::{Error, Result};

use super::block::Block;
use super::dates;
use super::scope::Scope;
use super::value::{Form, Value, both_valid, constant, fits_i64, type_bounds, union, within};
use crate::ir::{ArithmeticOp, Bounds, CompareOp, Expr, Literal, Type};

/// Generates `expr` into `block`; columns come from `scope`.
pub(crate) fn generate(expr: &Expr, scope: &mut dyn Scope, block: &mut Block) -> Result<Value> {
    match expr {
        Expr::Column(column) => scope.column(*column, block),
        Expr::Literal(literal) => Ok(literal_value(*literal)),
        Expr::Arithmetic { op, left, right } => {
            let (left, right) = (generate(left, scope, block)?, generate(right, scope, block)?);
            arithmetic(*op, &left, &right, block)
        }
        Expr::Compare { op, left, right } => {
            let (left, right) = (generate(left, scope, block)?, generate(right, scope, block)?);
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
            is_in(&input, values, block)
        }
        Expr::Case { branches, otherwise } => case(branches, otherwise.as_deref(), scope, block),
        Expr::Cast { input, to } => {
            let input = generate(input, scope, block)?;
            cast(&input, *to, block)
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
            floor_divide(&input, *by, block)
        }
        Expr::Modulo { input, by } => {
            let input = generate(input, scope, block)?;
            modulo(&input, *by, block)
        }
        Expr::OfText { column, function } => scope.of_text(*column, function, block),
    }
}

fn literal_value(literal: Literal) -> Value {
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
            let value = Value::new(constant(0, Form::of(ty, zero)), ty, zero);
            value.with_valid(Some("false".into()))
        }
    }
}

/// Exact: decimal digits that lead back to the same double, or the bits of what has none. (The quotient of two zeros is
/// a NaN of either sign, as the processor likes.)
fn double_constant(value: f64) -> String {
    if value.is_finite() { format!("{value:e}") } else { format!("of_bits({:#x}ull)", value.to_bits()) }
}

/// The value in another form of the same type, or of a wider one.
fn in_form(value: &Value, form: Form) -> String {
    if value.form == form { value.code.clone() } else { format!("{}({})", form.c_type(), value.code) }
}

fn arithmetic(op: ArithmeticOp, left: &Value, right: &Value, block: &mut Block) -> Result<Value> {
    if left.ty != right.ty {
        return Err(Error::unsupported(format!("arithmetic on {:?} and {:?}", left.ty, right.ty)));
    }
    let valid = both_valid(&left.valid, &right.valid);
    let value = match left.ty {
        Type::F64 => {
            let code = format!("{} {} {}", left.code, symbol(op), right.code);
            Value::new(block.define("f64", "f", code), Type::F64, None)
        }
        Type::I32 | Type::I64 if op != ArithmeticOp::Divide => wrapping(op, left, right, block),
        Type::I128 if op != ArithmeticOp::Divide => decimal(op, left, right, block)?,
        ty => return Err(Error::unsupported(format!("{op:?} of {ty:?}"))),
    };
    Ok(value.with_valid(valid))
}

fn symbol(op: ArithmeticOp) -> &'static str {
    match op {
        ArithmeticOp::Add => "+",
        ArithmeticOp::Subtract => "-",
        ArithmeticOp::Multiply => "*",
        ArithmeticOp::Divide => "/",
    }
}

/// What the result lies between, if computed without overflow; `None` where even 128 bits might not hold it.
fn result_bounds(op: ArithmeticOp, left: Option<Bounds>, right: Option<Bounds>) -> Option<Bounds> {
    let (a, b) = (left?, right?);
    match op {
        ArithmeticOp::Add => Some(Bounds { min: a.min.checked_add(b.min)?, max: a.max.checked_add(b.max)? }),
        ArithmeticOp::Subtract => {
            Some(Bounds { min: a.min.checked_sub(b.max)?, max: a.max.checked_sub(b.min)? })
        }
        ArithmeticOp::Multiply => {
            let mut products = [0; 4];
            for (at, (x, y)) in
                [(a.min, b.min), (a.min, b.max), (a.max, b.min), (a.max, b.max)].iter().enumerate()
            {
                products[at] = x.checked_mul(*y)?;
            }
            Some(Bounds { min: *products.iter().min()?, max: *products.iter().max()? })
        }
        ArithmeticOp::Divide => None,
    }
}

fn wrapping(op: ArithmeticOp, left: &Value, right: &Value, block: &mut Block) -> Value {
    let (signed, unsigned) = if left.ty == Type::I32 { ("i32", "u32") } else { ("i64", "u64") };
    let code = format!("{signed}({unsigned}({}) {} {unsigned}({}))", left.code, symbol(op), right.code);
    let all = type_bounds(left.ty);
    let bounds = result_bounds(op, left.bounds, right.bounds)
        .filter(|bounds| all.is_some_and(|all| within(*bounds, all)));
    Value::new(block.define(signed, "i", code), left.ty, bounds)
}

fn decimal(op: ArithmeticOp, left: &Value, right: &Value, block: &mut Block) -> Result<Value> {
    let bounds = result_bounds(op, left.bounds, right.bounds).ok_or_else(|| {
        Error::unsupported(format!(
            "{op:?} of decimals between {} and {} may overflow, which the CPU reports",
            bounds_text(left.bounds),
            bounds_text(right.bounds)
        ))
    })?;
    // Every intermediate is a result here, so the widest of three forms does.
    let is_narrow = fits_i64(bounds) && left.form == Form::I64 && right.form == Form::I64;
    let form = if is_narrow { Form::I64 } else { Form::I128 };
    let code = format!("{} {} {}", in_form(left, form), symbol(op), in_form(right, form));
    let name = block.define(form.c_type(), "d", code);
    let mut value = Value::new(name, Type::I128, Some(bounds));
    if value.form != form {
        value.code = block.define("i64", "d", format!("i64({})", value.code));
    }
    Ok(value)
}

/// The quotient rounded down. What is never negative is divided as unsigned, which rounds down by itself.
fn floor_divide(input: &Value, by: i64, block: &mut Block) -> Result<Value> {
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

fn modulo(input: &Value, by: i64, block: &mut Block) -> Result<Value> {
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

fn bounds_text(bounds: Option<Bounds>) -> String {
    bounds.map_or("unknown bounds".into(), |bounds| format!("[{}, {}]", bounds.min, bounds.max))
}

fn compare(op: CompareOp, left: &Value, right: &Value, block: &mut Block) -> Result<Value> {
    if left.ty != right.ty || left.ty == Type::Text {
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
    let mut values = Vec::with_capacity(inputs.len());
    for input in inputs {
        values.push(generate(input, scope, block)?);
    }
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

fn is_in(input: &Value, values: &[i128], block: &mut Block) -> Result<Value> {
    if !matches!(input.form, Form::I32 | Form::I64 | Form::I128) {
        return Err(Error::unsupported(format!("IN over {:?}", input.ty)));
    }
    let fitting =
        values.iter().filter(|value| input.bounds.is_none_or(|b| **value >= b.min && **value <= b.max));
    let tests: Vec<String> =
        fitting.map(|value| format!("{} == {}", input.code, constant(*value, input.form))).collect();
    let code = if tests.is_empty() { "false".into() } else { tests.join(" || ") };
    let code = block.define("bool", "b", code);
    Ok(Value::new(code, Type::Bool, None).with_valid(input.valid.clone()))
}

fn case(
    branches: &[(Expr, Expr)],
    otherwise: Option<&Expr>,
    scope: &mut dyn Scope,
    block: &mut Block,
) -> Result<Value> {
    let mut conditions = Vec::with_capacity(branches.len());
    let mut values = Vec::with_capacity(branches.len() + 1);
    for (condition, value) in branches {
        conditions.push(generate(condition, scope, block)?.is_true());
        values.push(generate(value, scope, block)?);
    }
    let Some(first) = values.first() else { return Err(Error::unsupported("CASE without a branch")) };
    let ty = first.ty;
    values.push(match otherwise {
        Some(otherwise) => generate(otherwise, scope, block)?,
        None => literal_value(Literal::Null(ty)),
    });
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

fn cast(input: &Value, to: Type, block: &mut Block) -> Result<Value> {
    let refuse = || Error::unsupported(format!("a cast from {:?} to {to:?}", input.ty));
    let target = match (input.ty, to) {
        (from, to) if from == to => return Ok(input.clone()),
        (Type::Text | Type::F64, _) | (_, Type::Text | Type::Bool) => return Err(refuse()),
        (_, Type::F64) => {
            let code = block.define("f64", "f", format!("f64({})", input.code));
            return Ok(Value::new(code, to, None).with_valid(input.valid.clone()));
        }
        (_, to) => type_bounds(to),
    };
    let bounds = input.bounds.or(type_bounds(input.ty));
    let fits =
        target.is_none() || bounds.is_some_and(|bounds| target.is_some_and(|target| within(bounds, target)));
    if !fits {
        return Err(Error::unsupported(format!(
            "a cast from {:?} to {to:?} of values between {}, some of which may not fit",
            input.ty,
            bounds_text(bounds)
        )));
    }
    let form = Form::of(to, bounds);
    let code = if input.form == form {
        input.code.clone()
    } else {
        block.define(form.c_type(), "i", in_form(input, form))
    };
    Ok(Value::new(code, to, bounds).with_valid(input.valid.clone()))
}
