//! Arithmetic of decimals, checked a batch at a time.
//!
//! ```text
//!   DECIMAL(p1,s1) ± DECIMAL(p2,s2)   at scale s = max(s1, s2), then added
//!   DECIMAL(p1,s1) * DECIMAL(p2,s2)   unscaled values multiplied, scales added
//! ```
//!
//! Where both operands of all rows fit in 64 bits, which is nearly always, no result has more than 38 digits: a product
//! is below 2^126, and a sum too, while its operands grow by at most 18 digits. Those batches take one multiplication of
//! words a row. The others are checked row by row.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Decimal128Array};
use datafusion::arrow::datatypes::{DataType, Decimal128Type, DecimalType};

use super::checked::{CheckedOp, Operand};
use super::ints::{first_valid, valid_rows, zip};

/// Digits that a word may grow by without leaving 38: 2^63 * 10^18 is below 10^37.
const WORD_DIGITS_MAX: u32 = 18;

/// `left op right` as a decimal of type `result`.
///
/// # Errors
///
/// The operands, as text, of the first valid row whose result does not fit.
pub(super) fn binary(
    op: CheckedOp,
    left: &Operand,
    right: &Operand,
    result: &DataType,
) -> Result<ArrayRef, String> {
    let &DataType::Decimal128(precision, scale) = result else { unreachable!("{result} is no DECIMAL") };
    let (left_values, right_values) =
        (left.array.as_primitive::<Decimal128Type>(), right.array.as_primitive::<Decimal128Type>());
    let growth = Growth::of(op, left_values.scale(), right_values.scale(), scale);
    let (l, r) = (left_values.values(), right_values.values());
    let nulls = valid_rows(left, right);
    let values = if growth.keeps_words_small() && are_words(l) && are_words(r) {
        let zip = |f: fn(i128, i128, Growth) -> i128| {
            zip(l, left.is_constant, r, right.is_constant, |l, r| f(l, r, growth))
        };
        match (op, growth.is_none()) {
            (CheckedOp::Multiply, _) => zip_words(l, left, r, right, |l, r| i128::from(l) * i128::from(r)),
            (CheckedOp::Add, true) => zip_words(l, left, r, right, |l, r| i128::from(l) + i128::from(r)),
            (CheckedOp::Subtract, true) => zip_words(l, left, r, right, |l, r| i128::from(l) - i128::from(r)),
            (CheckedOp::Add, false) => zip(|l, r, growth| l * growth.left + r * growth.right),
            (CheckedOp::Subtract, false) => zip(|l, r, growth| l * growth.left - r * growth.right),
            (CheckedOp::Negate | CheckedOp::Divide, _) => unreachable!("decimals have no such function"),
        }
    } else {
        let limit = 10_i128.pow(u32::from(precision)) - 1;
        let exact = |l, r| checked(op, l, r, growth).filter(|value| (-limit..=limit).contains(value));
        let operands = |row: usize| (l[left.index(row)], r[right.index(row)]);
        let mut overflows = false;
        let values = zip(l, left.is_constant, r, right.is_constant, |l, r| {
            let value = exact(l, r);
            overflows |= value.is_none();
            value.unwrap_or_default()
        });
        let is_wrong = |row: &usize| {
            let (l, r) = operands(*row);
            exact(l, r).is_none()
        };
        if overflows && let Some(row) = first_valid(values.len(), nulls.as_ref(), is_wrong) {
            let (l, r) = operands(row);
            let text = |value, array: &Decimal128Array| {
                Decimal128Type::format_decimal(value, array.precision(), array.scale())
            };
            return Err(format!("{} {} {}", text(l, left_values), op.sign(), text(r, right_values)));
        }
        values
    };
    let array = Decimal128Array::new(values.into(), nulls);
    Ok(Arc::new(array.with_data_type(DataType::Decimal128(precision, scale))))
}

/// What the operands of a sum are multiplied by to have its scale.
#[derive(Debug, Clone, Copy)]
struct Growth {
    left: i128,
    right: i128,
    digits: u32,
}

impl Growth {
    fn of(op: CheckedOp, left: i8, right: i8, result: i8) -> Self {
        if op == CheckedOp::Multiply {
            return Self { left: 1, right: 1, digits: 0 };
        }
        let digits = |from: i8| u32::from(result.abs_diff(from));
        Self {
            left: 10_i128.pow(digits(left)),
            right: 10_i128.pow(digits(right)),
            digits: digits(left).max(digits(right)),
        }
    }

    fn is_none(self) -> bool {
        self.digits == 0
    }

    fn keeps_words_small(self) -> bool {
        self.digits <= WORD_DIGITS_MAX
    }
}

/// Whether all of `values` fit in 64 bits.
fn are_words(values: &[i128]) -> bool {
    values.iter().fold(0, |more, &value| more | (value ^ i128::from(value as i64))) == 0
}

fn zip_words(
    l: &[i128],
    left: &Operand,
    r: &[i128],
    right: &Operand,
    f: impl Fn(i64, i64) -> i128,
) -> Vec<i128> {
    zip(l, left.is_constant, r, right.is_constant, |l, r| f(l as i64, r as i64))
}

fn checked(op: CheckedOp, left: i128, right: i128, growth: Growth) -> Option<i128> {
    match op {
        CheckedOp::Multiply => left.checked_mul(right),
        CheckedOp::Add => left.checked_mul(growth.left)?.checked_add(right.checked_mul(growth.right)?),
        CheckedOp::Subtract => left.checked_mul(growth.left)?.checked_sub(right.checked_mul(growth.right)?),
        CheckedOp::Negate | CheckedOp::Divide => unreachable!("decimals have no such function"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operand(value: i128, precision: u8, scale: i8) -> Operand {
        let array = Decimal128Array::from(vec![value]).with_precision_and_scale(precision, scale).unwrap();
        Operand { array: Arc::new(array), is_constant: false }
    }

    #[test]
    fn results_are_those_of_wide_integers_or_errors() {
        let max = 10_i128.pow(38) - 1;
        let word = i128::from(i64::MAX);
        for (left, right) in [(1, 1), (-3, 7), (word, word), (word + 1, word), (max, 1), (max, -1), (-max, 2)]
        {
            for (op, exact) in [
                (CheckedOp::Add, left.checked_add(right)),
                (CheckedOp::Subtract, left.checked_sub(right)),
                (CheckedOp::Multiply, left.checked_mul(right)),
            ] {
                let result = DataType::Decimal128(38, 0);
                let found = binary(op, &operand(left, 38, 0), &operand(right, 38, 0), &result);
                let found = found.map(|array| array.as_primitive::<Decimal128Type>().value(0)).ok();
                assert_eq!(found, exact.filter(|value| value.abs() <= max), "{left} {op:?} {right}");
            }
        }
    }

    #[test]
    fn sums_take_the_larger_scale() {
        let of = |right_scale, result_scale| {
            let result = DataType::Decimal128(38, result_scale);
            let sum = binary(CheckedOp::Add, &operand(150, 5, 2), &operand(1, 38, right_scale), &result);
            sum.map(|array| array.as_primitive::<Decimal128Type>().value(0))
        };
        assert_eq!(of(0, 2), Ok(250));
        assert_eq!(of(20, 20), Ok(150 * 10_i128.pow(18) + 1));
        assert_eq!(of(37, 37), Ok(15 * 10_i128.pow(36) + 1));
        assert_eq!(of(38, 38), Err("1.50 + 0.00000000000000000000000000000000000001".to_owned()));
    }
}
