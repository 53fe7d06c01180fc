//! Values as JSON. Numbers that JSON has no way to write are texts: `"NaN"`, `"Infinity"`, `"-Infinity"`. They read
//! back as the numbers that they are where the column is known to hold floats.

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::datatypes::{DataType, FieldRef, Float16Type, Float32Type, Float64Type};
use arrow::error::ArrowError;
use arrow::json::writer::{Encoder, EncoderFactory, EncoderOptions, NullableEncoder, make_encoder};

/// How values are encoded: every field is there, NULL as null.
pub(super) static ENCODING: LazyLock<EncoderOptions> = LazyLock::new(|| {
    EncoderOptions::default().with_explicit_nulls(true).with_encoder_factory(Arc::new(NonFinite))
});

/// How Arrow encodes floats by itself: NaN and the infinities as null.
static PLAIN: LazyLock<EncoderOptions> = LazyLock::new(EncoderOptions::default);

/// Encodes floats of which some are not finite.
#[derive(Debug)]
pub struct NonFinite;

impl EncoderFactory for NonFinite {
    fn make_default_encoder<'a>(
        &self,
        field: &'a FieldRef,
        array: &'a dyn Array,
        _: &'a EncoderOptions,
    ) -> Result<Option<NullableEncoder<'a>>, ArrowError> {
        match array.data_type() {
            DataType::Float16 => encoder(field, array, array.as_primitive::<Float16Type>()),
            DataType::Float32 => encoder(field, array, array.as_primitive::<Float32Type>()),
            DataType::Float64 => encoder(field, array, array.as_primitive::<Float64Type>()),
            _ => Ok(None),
        }
    }
}

fn encoder<'a, T: ArrowPrimitiveType<Native: Into<f64>>>(
    field: &'a FieldRef,
    array: &'a dyn Array,
    floats: &'a PrimitiveArray<T>,
) -> Result<Option<NullableEncoder<'a>>, ArrowError> {
    if floats.values().iter().all(|&value| value.into().is_finite()) {
        return Ok(None);
    }
    let finite = make_encoder(field, array, &PLAIN)?;
    Ok(Some(NullableEncoder::new(Box::new(Floats { floats, finite }), array.nulls().cloned())))
}

struct Floats<'a, T: ArrowPrimitiveType> {
    floats: &'a PrimitiveArray<T>,
    finite: NullableEncoder<'a>,
}

impl<T: ArrowPrimitiveType<Native: Into<f64>>> Encoder for Floats<'_, T> {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        let value: f64 = self.floats.value(row).into();
        match (value.is_nan(), value == f64::INFINITY, value == f64::NEG_INFINITY) {
            (true, ..) => out.extend_from_slice(b"\"NaN\""),
            (_, true, _) => out.extend_from_slice(b"\"Infinity\""),
            (.., true) => out.extend_from_slice(b"\"-Infinity\""),
            _ => self.finite.encode(row, out),
        }
    }
}
