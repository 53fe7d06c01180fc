//! One value of a column or a query, in the three domains that zone maps tell apart.

use std::cmp::Ordering;

/// A value outside a column; NULL is never one.
#[derive(Debug, Clone, PartialEq)]
pub enum Scalar {
    /// Integers, booleans (0 and 1), dates, timestamps, and decimals by their unscaled value.
    Int(i128),
    /// Singles (widened, which is exact) and doubles.
    Float(f64),
    /// Strings and binary, compared byte by byte.
    Bytes(Vec<u8>),
}

impl Scalar {
    /// The order of two values of one domain; `None` across domains and where either is NaN.
    pub fn compare(&self, other: &Scalar) -> Option<Ordering> {
        match (self, other) {
            (Scalar::Int(a), Scalar::Int(b)) => Some(a.cmp(b)),
            (Scalar::Float(a), Scalar::Float(b)) => a.partial_cmp(b),
            (Scalar::Bytes(a), Scalar::Bytes(b)) => Some(a.cmp(b)),
            _ => None,
        }
    }

    /// True for the float that is not a number.
    pub fn is_nan(&self) -> bool {
        matches!(self, Scalar::Float(value) if value.is_nan())
    }

    /// True for 0.0 and -0.0, which IEEE calls equal and total order does not.
    pub(crate) fn is_float_zero(&self) -> bool {
        matches!(self, Scalar::Float(value) if *value == 0.0)
    }
}
