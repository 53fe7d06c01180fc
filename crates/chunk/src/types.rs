//! Columns in memory, before encoding and after decoding: plain vectors, no Arrow.

use pelton_error::{Error, Result};

/// The machine type of a column; logical types (date, decimal, timestamp, bool) map onto these in `store`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PhysicalType {
    /// Unsigned 8 bit; also bool as 0 and 1.
    U8 = 1,
    /// Unsigned 16 bit.
    U16 = 2,
    /// Unsigned 32 bit.
    U32 = 3,
    /// Unsigned 64 bit.
    U64 = 4,
    /// Signed 8 bit.
    I8 = 5,
    /// Signed 16 bit.
    I16 = 6,
    /// Signed 32 bit; also dates as days.
    I32 = 7,
    /// Signed 64 bit; also timestamps, and decimals of up to 18 digits.
    I64 = 8,
    /// Signed 128 bit; decimals of 19 to 38 digits.
    I128 = 9,
    /// IEEE single.
    F32 = 10,
    /// IEEE double.
    F64 = 11,
    /// Byte strings; also UTF-8 text.
    Bytes = 12,
}

impl PhysicalType {
    /// The type with this tag in a file, if there is one.
    pub fn from_tag(tag: u8) -> Option<Self> {
        use PhysicalType::*;
        [U8, U16, U32, U64, I8, I16, I32, I64, I128, F32, F64, Bytes].into_iter().find(|ty| *ty as u8 == tag)
    }

    /// Bytes of one uncompressed value; `None` for byte strings.
    pub fn width_bytes(self) -> Option<usize> {
        use PhysicalType::*;
        match self {
            U8 | I8 => Some(1),
            U16 | I16 => Some(2),
            U32 | I32 | F32 => Some(4),
            U64 | I64 | F64 => Some(8),
            I128 => Some(16),
            Bytes => None,
        }
    }
}

/// Byte strings back to back: value `i` is `data[offsets[i]..offsets[i + 1]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ByteValues {
    /// One more than there are values; starts at 0, never falls.
    pub offsets: Vec<u32>,
    /// The bytes, at most `u32::MAX` of them.
    pub data: Vec<u8>,
}

impl Default for ByteValues {
    fn default() -> Self {
        Self { offsets: vec![0], data: Vec::new() }
    }
}

impl ByteValues {
    /// The number of values.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// True where there is no value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Value `index`.
    pub fn get(&self, index: usize) -> &[u8] {
        &self.data[self.offsets[index] as usize..self.offsets[index + 1] as usize]
    }

    /// All values in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.offsets.windows(2).map(|pair| &self.data[pair[0] as usize..pair[1] as usize])
    }

    /// Appends one value; refused where the bytes would pass 4 GiB.
    pub fn push(&mut self, value: &[u8]) -> Result<()> {
        let end = u32::try_from(self.data.len() + value.len()).map_err(|_| {
            Error::invalid_input("more than 4 GiB of text in one row group; use fewer rows per row group")
        })?;
        self.data.extend_from_slice(value);
        self.offsets.push(end);
        Ok(())
    }
}

/// The values of a column; what stands in a NULL row is undefined but present.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)] // one variant a physical type
pub enum Values {
    U8(Vec<u8>),
    U16(Vec<u16>),
    U32(Vec<u32>),
    U64(Vec<u64>),
    I8(Vec<i8>),
    I16(Vec<i16>),
    I32(Vec<i32>),
    I64(Vec<i64>),
    I128(Vec<i128>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    Bytes(ByteValues),
}

/// Runs `$body` with `$values` bound to the vector inside a [`Values`] of any fixed width.
#[macro_export]
macro_rules! match_fixed_width {
    ($column:expr, $values:ident => $body:expr, bytes $bytes:ident => $bytes_body:expr) => {
        match $column {
            $crate::types::Values::U8($values) => $body,
            $crate::types::Values::U16($values) => $body,
            $crate::types::Values::U32($values) => $body,
            $crate::types::Values::U64($values) => $body,
            $crate::types::Values::I8($values) => $body,
            $crate::types::Values::I16($values) => $body,
            $crate::types::Values::I32($values) => $body,
            $crate::types::Values::I64($values) => $body,
            $crate::types::Values::I128($values) => $body,
            $crate::types::Values::F32($values) => $body,
            $crate::types::Values::F64($values) => $body,
            $crate::types::Values::Bytes($bytes) => $bytes_body,
        }
    };
}

impl Values {
    /// The number of values.
    pub fn len(&self) -> usize {
        match_fixed_width!(self, values => values.len(), bytes values => values.len())
    }

    /// True where there is no value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Uncompressed bytes: what an engine without compression would read (offsets of 4 bytes for strings).
    pub fn raw_bytes(&self) -> u64 {
        match_fixed_width!(self, values => size_of_val(values.as_slice()) as u64,
            bytes values => (values.data.len() + 4 * values.len()) as u64)
    }

    /// The physical type.
    pub fn physical_type(&self) -> PhysicalType {
        match self {
            Values::U8(_) => PhysicalType::U8,
            Values::U16(_) => PhysicalType::U16,
            Values::U32(_) => PhysicalType::U32,
            Values::U64(_) => PhysicalType::U64,
            Values::I8(_) => PhysicalType::I8,
            Values::I16(_) => PhysicalType::I16,
            Values::I32(_) => PhysicalType::I32,
            Values::I64(_) => PhysicalType::I64,
            Values::I128(_) => PhysicalType::I128,
            Values::F32(_) => PhysicalType::F32,
            Values::F64(_) => PhysicalType::F64,
            Values::Bytes(_) => PhysicalType::Bytes,
        }
    }
}

/// Which rows hold a value: bit `i & 7` of byte `i >> 3`, set where valid (Arrow's order).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Validity {
    /// `len.div_ceil(8)` bytes; bits past `len` are zero.
    pub bits: Vec<u8>,
    /// Rows covered.
    pub len: usize,
}

impl Validity {
    /// All of `valid` in order.
    pub fn from_bools(valid: impl ExactSizeIterator<Item = bool>) -> Self {
        let len = valid.len();
        let mut bits = vec![0u8; len.div_ceil(8)];
        for (row, is_valid) in valid.enumerate() {
            bits[row >> 3] |= u8::from(is_valid) << (row & 7);
        }
        Self { bits, len }
    }

    /// True where row `row` holds a value.
    pub fn is_valid(&self, row: usize) -> bool {
        assert!(row < self.len);
        self.bits[row >> 3] >> (row & 7) & 1 == 1
    }

    /// Rows without a value.
    pub fn null_count(&self) -> usize {
        self.len - self.bits.iter().map(|byte| byte.count_ones() as usize).sum::<usize>()
    }
}

/// One column of one row group in memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// The values, one a row.
    pub values: Values,
    /// `None`: every row is valid.
    pub validity: Option<Validity>,
}

impl Column {
    /// A column without NULLs.
    pub fn new(values: Values) -> Self {
        Self { values, validity: None }
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// True where there is no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Rows without a value.
    pub fn null_count(&self) -> usize {
        self.validity.as_ref().map_or(0, Validity::null_count)
    }

    /// True where row `row` holds a value.
    pub fn is_valid(&self, row: usize) -> bool {
        self.validity.as_ref().is_none_or(|validity| validity.is_valid(row))
    }
}
