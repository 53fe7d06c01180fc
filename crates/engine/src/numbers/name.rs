//! Types and expressions as a user of SQL writes them, for error messages.

use datafusion::arrow::datatypes::{DataType, Decimal128Type, DecimalType};
use datafusion::logical_expr::{BinaryExpr, Expr};
use datafusion::scalar::ScalarValue;

use super::checked::Checked;

/// Characters of an expression that a message shows.
const CHARS_MAX: usize = 100;
/// Operators of an expression below each other that a message shows; deeper ones are `…`.
const DEPTH_MAX: usize = 6;

/// `data_type` as SQL calls it.
pub(super) fn sql_type(data_type: &DataType) -> String {
    let name = match data_type {
        DataType::Int8 => "TINYINT",
        DataType::Int16 => "SMALLINT",
        DataType::Int32 => "INTEGER",
        DataType::Int64 => "BIGINT",
        DataType::UInt8 => "TINYINT UNSIGNED",
        DataType::UInt16 => "SMALLINT UNSIGNED",
        DataType::UInt32 => "INTEGER UNSIGNED",
        DataType::UInt64 => "BIGINT UNSIGNED",
        DataType::Float32 => "FLOAT",
        DataType::Float64 => "DOUBLE",
        DataType::Decimal32(p, s)
        | DataType::Decimal64(p, s)
        | DataType::Decimal128(p, s)
        | DataType::Decimal256(p, s) => return format!("DECIMAL({p},{s})"),
        other => return other.to_string().to_uppercase(),
    };
    name.to_owned()
}

/// `-operand` about as it was written.
pub(super) fn negated(operand_expr: &Expr) -> String {
    cut(format!("-{}", operand(operand_expr, DEPTH_MAX)))
}

/// `left op right` about as it was written.
pub(super) fn infix(left: &Expr, op: &str, right: &Expr) -> String {
    cut(format!("{} {op} {}", operand(left, DEPTH_MAX), operand(right, DEPTH_MAX)))
}

fn cut(text: String) -> String {
    match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn text(expr: &Expr, depth: usize) -> String {
    if depth == 0 {
        return "…".to_owned();
    }
    match expr {
        Expr::Alias(alias) => text(&alias.expr, depth),
        Expr::Cast(cast) => text(&cast.expr, depth),
        Expr::Column(column) => column.name.clone(),
        Expr::OuterReferenceColumn(_, column) => column.name.clone(),
        Expr::Literal(value, _) => value_text(value),
        Expr::Negative(inner) => format!("-{}", operand(inner, depth - 1)),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            format!("{} {op} {}", operand(left, depth - 1), operand(right, depth - 1))
        }
        Expr::ScalarFunction(call) => {
            match (call.func.inner().downcast_ref::<Checked>(), call.args.as_slice()) {
                (Some(checked), [left, right]) => {
                    format!(
                        "{} {} {}",
                        operand(left, depth - 1),
                        checked.op().sign(),
                        operand(right, depth - 1)
                    )
                }
                (Some(_), [inner]) => format!("-{}", operand(inner, depth - 1)),
                (_, args) => {
                    let args: Vec<String> = args.iter().map(|arg| text(arg, depth - 1)).collect();
                    format!("{}({})", call.func.name(), args.join(", "))
                }
            }
        }
        Expr::AggregateFunction(call) => {
            let args: Vec<String> = call.params.args.iter().map(|arg| text(arg, depth - 1)).collect();
            format!("{}({})", call.func.name(), args.join(", "))
        }
        Expr::ScalarSubquery(_) => "(SELECT …)".to_owned(),
        Expr::Case(_) => "CASE … END".to_owned(),
        _ => "…".to_owned(),
    }
}

/// What stands beside an operator: an operator of its own in parentheses.
fn operand(expr: &Expr, depth: usize) -> String {
    let is_infix = match expr {
        Expr::BinaryExpr(_) => true,
        Expr::ScalarFunction(call) => call.func.inner().is::<Checked>() && call.args.len() == 2,
        Expr::Cast(cast) => return operand(&cast.expr, depth),
        Expr::Alias(alias) => return operand(&alias.expr, depth),
        _ => false,
    };
    let text = text(expr, depth);
    if is_infix && depth > 0 { format!("({text})") } else { text }
}

/// A constant as it is written in SQL.
pub(super) fn value_text(value: &ScalarValue) -> String {
    match value {
        ScalarValue::Decimal128(Some(number), precision, scale) => {
            Decimal128Type::format_decimal(*number, *precision, *scale)
        }
        ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text)) => format!("'{text}'"),
        other => other.to_string(),
    }
}
