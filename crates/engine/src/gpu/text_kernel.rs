//! Functions of one text that kernels compute from its bytes, where it has no dictionary.
//!
//! ```text
//!   substr(phone, 1, 2) IN ('13', '31')   ─▶   In { input: Substring { 1, 2 }, values: 13, 31 }
//! ```
//!
//! What is not among them stays with the dictionary or with the CPU.

use std::sync::Arc;

use datafusion::functions::regex::regexpreplace::RegexpReplaceFunc;
use datafusion::functions::string::contains::ContainsFunc;
use datafusion::functions::string::ends_with::EndsWithFunc;
use datafusion::functions::string::octet_length::OctetLengthFunc;
use datafusion::functions::string::starts_with::StartsWithFunc;
use datafusion::functions::unicode::character_length::CharacterLengthFunc;
use datafusion::functions::unicode::left::LeftFunc;
use datafusion::functions::unicode::substr::SubstrFunc;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, InListExpr, LikeExpr, Literal, NotExpr,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use pelton_pipeline::ir::{LikePattern, SHORT_TEXT_BYTES, TextExtract, TextKernel, TextPart};

use super::arithmetic::compare_op;
use super::value::is_text;
use crate::bounded::unbounded;
use crate::extract::pattern_of;

/// What kernels compute in place of `expr`, which is a function of one text and constants.
pub(super) fn kernel_of(expr: &Arc<dyn PhysicalExpr>) -> Option<TextKernel> {
    if let Some(not) = expr.downcast_ref::<NotExpr>() {
        return Some(TextKernel::Not(Box::new(condition(not.arg())?)));
    }
    if let Some(like) = expr.downcast_ref::<LikeExpr>() {
        if like.case_insensitive() {
            return None;
        }
        let pattern = LikePattern::parse(&text_constant(like.pattern())?, None);
        return Some(TextKernel::Like { input: part(like.expr())?, pattern, is_negated: like.negated() });
    }
    if let Some(list) = expr.downcast_ref::<InListExpr>() {
        let values = list.list().iter().map(|value| text_constant(value).map(String::into_bytes));
        let values = values.collect::<Option<_>>()?;
        return Some(TextKernel::In { input: part(list.expr())?, values, is_negated: list.negated() });
    }
    if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
        return of_two(binary);
    }
    if let Some(function) = expr.downcast_ref::<ScalarFunctionExpr>() {
        return of_function(function).or_else(|| short(expr));
    }
    short(expr)
}

/// A kernel that is true or false, as one part of a larger condition.
fn condition(expr: &Arc<dyn PhysicalExpr>) -> Option<TextKernel> {
    kernel_of(expr).filter(|kernel| kernel.ty() == pelton_pipeline::ir::Type::Bool)
}

/// A part of a text that fits a short one for all that is known here; one with longer characters ends the run.
fn short(expr: &Arc<dyn PhysicalExpr>) -> Option<TextKernel> {
    match part(expr)? {
        part @ TextPart::Substring { length: Some(length), .. } if length <= SHORT_TEXT_BYTES as u64 => {
            Some(TextKernel::Text(part))
        }
        _ => None,
    }
}

fn of_two(binary: &BinaryExpr) -> Option<TextKernel> {
    match binary.op() {
        Operator::And => Some(TextKernel::And(vec![condition(binary.left())?, condition(binary.right())?])),
        Operator::Or => Some(TextKernel::Or(vec![condition(binary.left())?, condition(binary.right())?])),
        op => {
            let (input, constant, op) = match text_constant(binary.right()) {
                Some(constant) => (binary.left(), constant, *op),
                None => (binary.right(), text_constant(binary.left())?, op.swap()?),
            };
            Some(TextKernel::Compare {
                op: compare_op(op)?,
                input: part(input)?,
                with: constant.into_bytes(),
            })
        }
    }
}

fn of_function(function: &ScalarFunctionExpr) -> Option<TextKernel> {
    let (inner, args) = (function.fun().inner(), function.args());
    if inner.is::<OctetLengthFunc>() {
        return Some(TextKernel::ByteLength(part(args.first()?)?));
    }
    if inner.is::<CharacterLengthFunc>() {
        return Some(TextKernel::CharacterLength(part(args.first()?)?));
    }
    let [text, piece] = args else { return None };
    let is_start_anchored = inner.is::<StartsWithFunc>();
    let is_end_anchored = inner.is::<EndsWithFunc>();
    if !is_start_anchored && !is_end_anchored && !inner.is::<ContainsFunc>() {
        return None;
    }
    let piece = text_constant(piece)?.into_bytes();
    let pieces = if piece.is_empty() { Vec::new() } else { vec![piece] };
    // Every text has an empty one in it, at its start and at its end.
    let is_anchored = !pieces.is_empty();
    let pattern = LikePattern {
        pieces,
        is_start_anchored: is_start_anchored && is_anchored,
        is_end_anchored: is_end_anchored && is_anchored,
    };
    Some(TextKernel::Like { input: part(text)?, pattern, is_negated: false })
}

/// The part of the one text column that `expr` is.
fn part(expr: &Arc<dyn PhysicalExpr>) -> Option<TextPart> {
    if expr.is::<Column>() {
        return Some(TextPart::Whole);
    }
    if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        return if is_text(cast.cast_type()) { part(cast.expr()) } else { None };
    }
    let function = expr.downcast_ref::<ScalarFunctionExpr>()?;
    let (inner, args) = (function.fun().inner(), function.args());
    if part(args.first()?)? != TextPart::Whole {
        return None;
    }
    if let Some(extract) = extract_of(function) {
        return Some(TextPart::Extract(extract));
    }
    // Sums of larger numbers may overflow, of which the CPU has errors.
    let place = |expr| integer_constant(expr).filter(|place| i32::try_from(*place).is_ok());
    let count = |expr| place(expr).and_then(|count| u64::try_from(count).ok());
    match args {
        [_, start] if inner.is::<SubstrFunc>() => {
            Some(TextPart::Substring { start: place(start)?, length: None })
        }
        [_, start, length] if inner.is::<SubstrFunc>() => {
            Some(TextPart::Substring { start: place(start)?, length: Some(count(length)?) })
        }
        [_, length] if inner.is::<LeftFunc>() => {
            Some(TextPart::Substring { start: 1, length: Some(count(length)?) })
        }
        _ => None,
    }
}

/// What `function`, which is `regexp_replace`, takes out of its first argument; `None` where it does something else.
pub(super) fn extract_of(function: &ScalarFunctionExpr) -> Option<Arc<TextExtract>> {
    let [_, pattern, replacement] = function.args() else { return None };
    if !unbounded(function.fun()).inner().is::<RegexpReplaceFunc>() {
        return None;
    }
    pattern_of(&text_constant(pattern)?, &text_constant(replacement)?)
}

fn text_constant(expr: &Arc<dyn PhysicalExpr>) -> Option<String> {
    let constant = match expr.downcast_ref::<CastExpr>() {
        Some(cast) if is_text(cast.cast_type()) => cast.expr(),
        _ => expr,
    };
    let value = constant.downcast_ref::<Literal>()?.value();
    value.try_as_str().flatten().map(str::to_owned)
}

fn integer_constant(expr: &Arc<dyn PhysicalExpr>) -> Option<i64> {
    let value = expr.downcast_ref::<Literal>()?.value();
    match value.cast_to(&datafusion::arrow::datatypes::DataType::Int64).ok()? {
        datafusion::scalar::ScalarValue::Int64(value) => value,
        _ => None,
    }
}
