//! Integer arithmetic, checked a batch at a time.
//!
//! ```text
//!   values  = wrapped results of all rows     one loop without branches, which the compiler vectorises
//!   flags  |= bits that differ on overflow
//!   flags say so: look for a valid row that overflowed, name its operands
//! ```

use std::fmt::Display;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::{
    DataType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};

use super::checked::{CheckedOp, Operand};

/// An integer that says whether it wrapped.
pub(super) trait Int: Copy + Default + Display {
    /// The wrapped result, and a word that is "set" (see [`Int::is_set`]) where it is not the true one.
    fn plus(self, other: Self) -> (Self, Self);
    fn minus(self, other: Self) -> (Self, Self);
    fn times(self, other: Self) -> (Self, Self);
    fn or(self, other: Self) -> Self;
    fn is_set(flags: Self) -> bool;
}

macro_rules! signed {
    ($narrow:ty, $product:expr) => {
        impl Int for $narrow {
            fn plus(self, other: Self) -> (Self, Self) {
                let sum = self.wrapping_add(other);
                (sum, (self ^ sum) & (other ^ sum))
            }

            fn minus(self, other: Self) -> (Self, Self) {
                let difference = self.wrapping_sub(other);
                (difference, (self ^ other) & (self ^ difference))
            }

            fn times(self, other: Self) -> (Self, Self) {
                $product(self, other)
            }

            fn or(self, other: Self) -> Self {
                self | other
            }

            fn is_set(flags: Self) -> bool {
                flags < 0
            }
        }
    };
}

macro_rules! unsigned {
    ($narrow:ty, $product:expr) => {
        impl Int for $narrow {
            fn plus(self, other: Self) -> (Self, Self) {
                let sum = self.wrapping_add(other);
                (sum, Self::from(sum < self))
            }

            fn minus(self, other: Self) -> (Self, Self) {
                (self.wrapping_sub(other), Self::from(self < other))
            }

            fn times(self, other: Self) -> (Self, Self) {
                $product(self, other)
            }

            fn or(self, other: Self) -> Self {
                self | other
            }

            fn is_set(flags: Self) -> bool {
                flags != 0
            }
        }
    };
}

/// The product in twice the bits, and whether its upper half is more than the sign.
macro_rules! widened {
    ($narrow:ty, $wide:ty, $set:expr) => {
        |left: $narrow, right: $narrow| {
            let product = <$wide>::from(left) * <$wide>::from(right);
            let wrapped = product as $narrow;
            (wrapped, if <$wide>::from(wrapped) == product { 0 } else { $set })
        }
    };
}

/// For 64 bits, whose doubles no vector unit multiplies.
macro_rules! overflowing {
    ($word:ty, $set:expr) => {
        |left: $word, right: $word| {
            let (product, overflows) = left.overflowing_mul(right);
            (product, if overflows { $set } else { 0 })
        }
    };
}

signed!(i8, widened!(i8, i16, i8::MIN));
signed!(i16, widened!(i16, i32, i16::MIN));
signed!(i32, widened!(i32, i64, i32::MIN));
signed!(i64, overflowing!(i64, i64::MIN));
unsigned!(u8, widened!(u8, u16, 1));
unsigned!(u16, widened!(u16, u32, 1));
unsigned!(u32, widened!(u32, u64, 1));
unsigned!(u64, overflowing!(u64, 1));

/// `left op right`.
///
/// # Errors
///
/// The operands, as text, of the first valid row that overflows.
pub(super) fn binary(op: CheckedOp, left: &Operand, right: &Operand) -> Result<ArrayRef, String> {
    match left.array.data_type() {
        DataType::Int8 => binary_of::<Int8Type>(op, left, right),
        DataType::Int16 => binary_of::<Int16Type>(op, left, right),
        DataType::Int32 => binary_of::<Int32Type>(op, left, right),
        DataType::Int64 => binary_of::<Int64Type>(op, left, right),
        DataType::UInt8 => binary_of::<UInt8Type>(op, left, right),
        DataType::UInt16 => binary_of::<UInt16Type>(op, left, right),
        DataType::UInt32 => binary_of::<UInt32Type>(op, left, right),
        DataType::UInt64 => binary_of::<UInt64Type>(op, left, right),
        other => unreachable!("{other} is no integer"),
    }
}

/// `-operand`, which is zero minus it.
///
/// # Errors
///
/// As [`binary`].
pub(super) fn negate(operand: &Operand) -> Result<ArrayRef, String> {
    match operand.array.data_type() {
        DataType::Int8 => negate_of::<Int8Type>(operand),
        DataType::Int16 => negate_of::<Int16Type>(operand),
        DataType::Int32 => negate_of::<Int32Type>(operand),
        DataType::Int64 => negate_of::<Int64Type>(operand),
        other => unreachable!("{other} has no unary minus"),
    }
}

fn binary_of<T: ArrowPrimitiveType<Native: Int>>(
    op: CheckedOp,
    left: &Operand,
    right: &Operand,
) -> Result<ArrayRef, String> {
    match op {
        CheckedOp::Add => computed::<T>(left, right, "+", T::Native::plus),
        CheckedOp::Multiply => computed::<T>(left, right, "*", T::Native::times),
        CheckedOp::Subtract => computed::<T>(left, right, "-", T::Native::minus),
        CheckedOp::Negate | CheckedOp::Divide => unreachable!("integers have no such function"),
    }
}

fn negate_of<T: ArrowPrimitiveType<Native: Int>>(operand: &Operand) -> Result<ArrayRef, String> {
    let zero = PrimitiveArray::<T>::from_value(T::Native::default(), 1);
    let zero = Operand { array: Arc::new(zero), is_constant: true };
    computed::<T>(&zero, operand, "-", T::Native::minus)
        .map_err(|text| format!("-({})", text.trim_start_matches("0 - ")))
}

fn computed<T: ArrowPrimitiveType<Native: Int>>(
    left: &Operand,
    right: &Operand,
    sign: &str,
    op: impl Fn(T::Native, T::Native) -> (T::Native, T::Native),
) -> Result<ArrayRef, String> {
    let (left_values, right_values) = (left.array.as_primitive::<T>(), right.array.as_primitive::<T>());
    let mut flags = T::Native::default();
    let values =
        zip(left_values.values(), left.is_constant, right_values.values(), right.is_constant, |l, r| {
            let (value, flag) = op(l, r);
            flags = flags.or(flag);
            value
        });
    let nulls = valid_rows(left, right);
    if Int::is_set(flags) {
        let overflows = |row: &usize| {
            let operands = (left_values.value(left.index(*row)), right_values.value(right.index(*row)));
            Int::is_set(op(operands.0, operands.1).1)
        };
        if let Some(row) = first_valid(values.len(), nulls.as_ref(), overflows) {
            let operands = (left_values.value(left.index(row)), right_values.value(right.index(row)));
            return Err(format!("{} {sign} {}", operands.0, operands.1));
        }
    }
    Ok(Arc::new(PrimitiveArray::<T>::new(values.into(), nulls)))
}

/// `f` of the operands of all rows.
pub(super) fn zip<T: Copy, U>(
    left: &[T],
    left_is_constant: bool,
    right: &[T],
    right_is_constant: bool,
    mut f: impl FnMut(T, T) -> U,
) -> Vec<U> {
    match (left_is_constant, right_is_constant) {
        (false, false) => left.iter().zip(right).map(|(&left, &right)| f(left, right)).collect(),
        (false, true) => {
            let right = right[0];
            left.iter().map(|&left| f(left, right)).collect()
        }
        (true, false) => {
            let left = left[0];
            right.iter().map(|&right| f(left, right)).collect()
        }
        (true, true) => vec![f(left[0], right[0])],
    }
}

/// The rows where both operands are valid. A constant is never NULL here.
pub(super) fn valid_rows(left: &Operand, right: &Operand) -> Option<NullBuffer> {
    let of = |operand: &Operand| (!operand.is_constant).then(|| operand.array.nulls().cloned()).flatten();
    NullBuffer::union(of(left).as_ref(), of(right).as_ref())
}

/// The first valid row of `count` that `is_wrong`.
pub(super) fn first_valid(
    count: usize,
    nulls: Option<&NullBuffer>,
    is_wrong: impl FnMut(&usize) -> bool,
) -> Option<usize> {
    (0..count).filter(|&row| nulls.is_none_or(|nulls| nulls.is_valid(row))).find(is_wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{Array, Int8Array, Int32Array, Int64Array, UInt8Array};

    fn column(array: impl Array + 'static) -> Operand {
        Operand { array: Arc::new(array), is_constant: false }
    }

    /// Every pair of values of a byte, against arithmetic in wider integers.
    #[test]
    fn bytes_overflow_where_wider_integers_leave_their_range() {
        for left in i8::MIN..=i8::MAX {
            let rights: Vec<i8> = (i8::MIN..=i8::MAX).collect();
            for (op, of) in [
                (CheckedOp::Add, (|l, r| l + r) as fn(i16, i16) -> i16),
                (CheckedOp::Subtract, |l, r| l - r),
                (CheckedOp::Multiply, |l, r| l * r),
            ] {
                for &right in &rights {
                    let found = binary(
                        op,
                        &column(Int8Array::from(vec![left])),
                        &column(Int8Array::from(vec![right])),
                    );
                    let found = found.map(|array| array.as_primitive::<Int8Type>().value(0)).ok();
                    let expected = i8::try_from(of(left.into(), right.into())).ok();
                    assert_eq!(found, expected, "{left} {op:?} {right}");
                }
            }
        }
    }

    #[test]
    fn unsigned_bytes_too() {
        for left in 0..=u8::MAX {
            for right in [0, 1, 2, 15, 16, 17, 127, 128, 254, 255_u8] {
                for (op, expected) in [
                    (CheckedOp::Add, left.checked_add(right)),
                    (CheckedOp::Subtract, left.checked_sub(right)),
                    (CheckedOp::Multiply, left.checked_mul(right)),
                ] {
                    let found = binary(
                        op,
                        &column(UInt8Array::from(vec![left])),
                        &column(UInt8Array::from(vec![right])),
                    );
                    let found = found.map(|array| array.as_primitive::<UInt8Type>().value(0)).ok();
                    assert_eq!(found, expected, "{left} {op:?} {right}");
                }
            }
        }
    }

    #[test]
    fn rows_that_are_null_may_overflow() {
        let nulls = NullBuffer::from(vec![true, false]);
        let left = column(Int32Array::new(vec![1, i32::MAX].into(), Some(nulls)));
        let right = column(Int32Array::from(vec![1, 1]));
        let sum = binary(CheckedOp::Add, &left, &right).unwrap();
        assert_eq!(sum.as_primitive::<Int32Type>().iter().collect::<Vec<_>>(), [Some(2), None]);
    }

    #[test]
    fn errors_name_the_first_operands_that_overflow() {
        let left = column(Int64Array::from(vec![1, 9, i64::MAX]));
        let two = Operand { array: Arc::new(Int64Array::from(vec![2])), is_constant: true };
        assert_eq!(binary(CheckedOp::Multiply, &left, &two).unwrap_err(), "9223372036854775807 * 2");
        assert_eq!(negate(&column(Int64Array::from(vec![i64::MIN]))).unwrap_err(), "-(-9223372036854775808)");
    }
}
