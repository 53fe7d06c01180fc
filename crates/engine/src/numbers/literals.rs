//! Numbers as they are written.
//!
//! ```text
//!   42                    BIGINT, or BIGINT UNSIGNED where that is too small
//!   1.50                  DECIMAL(3,2): just its digits
//!   more than 38 digits   DOUBLE
//!   1.5e0                 DOUBLE
//! ```
//!
//! DataFusion reads the first two so when `datafusion.sql_parser.parse_float_as_decimal` is set, and takes the others for
//! decimals too. So they are made casts of text before it sees them: `CAST('1.5e0' AS DOUBLE)`.

use std::convert::Infallible;
use std::ops::ControlFlow;

use datafusion::scalar::ScalarValue;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    CastKind, DataType as SqlType, ExactNumberInfo, Expr, Value, VisitorMut,
};

use crate::parse::visit_sql;

/// Digits of a DECIMAL.
const DIGITS_MAX: usize = 38;

/// Makes the numbers of `statement` doubles that are not decimals.
pub(crate) fn write_doubles(statement: &mut Statement) {
    let _ = visit_sql(statement, &mut Doubles);
}

struct Doubles;

impl VisitorMut for Doubles {
    type Break = Infallible;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Infallible> {
        if let Expr::Value(value) = expr
            && let Value::Number(text, _) = &value.value
            && is_double(text)
        {
            let mut text_value = value.clone();
            text_value.value = Value::SingleQuotedString(text.replace('_', ""));
            *expr = Expr::Cast {
                kind: CastKind::Cast,
                expr: Box::new(Expr::Value(text_value)),
                data_type: SqlType::Double(ExactNumberInfo::None),
                array: false,
                format: None,
            };
        }
        ControlFlow::Continue(())
    }
}

/// True for a number with an exponent or with more digits than a DECIMAL holds.
fn is_double(number: &str) -> bool {
    let is_hexadecimal = number.starts_with("0x") || number.starts_with("0X");
    let has_exponent = number.contains(['e', 'E']);
    let digits = number.trim_start_matches(['0', '_']).chars().filter(char::is_ascii_digit).count();
    !is_hexadecimal && (has_exponent || digits > DIGITS_MAX)
}

/// The number that `text` spells: a decimal of just its digits, else a double.
pub(super) fn decimal_of(text: &str) -> Option<ScalarValue> {
    let text = text.trim();
    let double = || text.parse().ok().map(|double| ScalarValue::Float64(Some(double)));
    if is_double(text) {
        return double();
    }
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all = format!("{whole}{fraction}");
    if all.is_empty() || !all.bytes().all(|byte| byte.is_ascii_digit()) || fraction.len() > DIGITS_MAX {
        return double();
    }
    let precision = all.trim_start_matches('0').len().max(fraction.len()).max(1);
    let number = all.parse::<i128>().ok()?;
    Some(ScalarValue::Decimal128(Some(sign * number), precision as u8, fraction.len() as i8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_decimals_of_just_their_digits() {
        let check = |text: &str, number, precision, scale| {
            assert_eq!(
                decimal_of(text),
                Some(ScalarValue::Decimal128(Some(number), precision, scale)),
                "{text}"
            );
        };
        check("1.50", 150, 3, 2);
        check("-0.05", -5, 2, 2);
        check(" 007 ", 7, 1, 0);
        check(".5", 5, 1, 1);
        check("0", 0, 1, 0);
        assert_eq!(decimal_of("1e3"), Some(ScalarValue::Float64(Some(1000.0))));
        assert_eq!(decimal_of("no number"), None);
    }

    #[test]
    fn exponents_and_too_many_digits_are_doubles() {
        for (number, expected) in [
            ("1.5", false),
            ("1e3", true),
            ("1.5E-3", true),
            ("99999999999999999999999999999999999999", false),
            ("999999999999999999999999999999999999990", true),
            ("0.000000000000000000000000000000000000001", true),
        ] {
            assert_eq!(is_double(number), expected, "{number}");
        }
    }
}
