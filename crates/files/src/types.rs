//! Column types: their names in flags and messages, and the type that holds the values of two without a loss.

use std::sync::Arc;

use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, Field, FieldRef, Fields, TimeUnit};
use pelton_error::{Error, Result};

/// The zone of timestamps that are inferred from texts with a zone or an offset.
pub(crate) const UTC: &str = "+00:00";

/// The type that SQL calls `text`. Names of other systems and of messages (`int64`) are known too.
///
/// # Errors
///
/// `InvalidInput` lists what is known.
pub fn parse_type(text: &str) -> Result<DataType> {
    let lower = text.trim().to_ascii_lowercase();
    let (name, arguments) = match lower.split_once('(') {
        Some((name, rest)) => {
            let (inside, after) = rest.split_once(')').ok_or_else(|| unknown(text))?;
            let numbers = inside.split(',').map(|number| number.trim().parse::<u8>());
            let numbers = numbers.collect::<std::result::Result<Vec<_>, _>>().map_err(|_| unknown(text))?;
            (format!("{}{}", name.trim(), after), numbers)
        }
        None => (lower, Vec::new()),
    };
    let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
    let unit = || match arguments[..] {
        [] | [9] => Some(TimeUnit::Nanosecond),
        [6] => Some(TimeUnit::Microsecond),
        [3] => Some(TimeUnit::Millisecond),
        [0] => Some(TimeUnit::Second),
        _ => None,
    };
    let found = match name.as_str() {
        "boolean" | "bool" => Some(DataType::Boolean),
        "tinyint" | "int1" => Some(DataType::Int8),
        "smallint" | "int2" | "int16" => Some(DataType::Int16),
        "integer" | "int" | "int4" | "int32" => Some(DataType::Int32),
        "bigint" | "int8" | "int64" | "long" => Some(DataType::Int64),
        "utinyint" | "tinyint unsigned" | "uint8" => Some(DataType::UInt8),
        "usmallint" | "smallint unsigned" | "uint16" => Some(DataType::UInt16),
        "uinteger" | "integer unsigned" | "int unsigned" | "uint32" => Some(DataType::UInt32),
        "ubigint" | "bigint unsigned" | "uint64" => Some(DataType::UInt64),
        "real" | "float" | "float4" | "float32" => Some(DataType::Float32),
        "double" | "double precision" | "float8" | "float64" => Some(DataType::Float64),
        "date" => Some(DataType::Date32),
        "timestamp" | "timestamp without time zone" | "datetime" => {
            unit().map(|unit| DataType::Timestamp(unit, None))
        }
        "timestamptz" | "timestamp with time zone" => {
            unit().map(|unit| DataType::Timestamp(unit, Some(UTC.into())))
        }
        "decimal" | "numeric" => match arguments[..] {
            [] => Some(DataType::Decimal128(DECIMAL128_MAX_PRECISION, 10)),
            [precision] => decimal(precision, 0),
            [precision, scale] => decimal(precision, scale),
            _ => None,
        },
        "varchar" | "text" | "string" | "char" | "character varying" | "utf8" => Some(DataType::Utf8),
        "bytea" | "blob" | "binary" | "varbinary" => Some(DataType::Binary),
        _ => None,
    };
    found.ok_or_else(|| unknown(text))
}

fn decimal(precision: u8, scale: u8) -> Option<DataType> {
    let fits = (1..=DECIMAL128_MAX_PRECISION).contains(&precision) && scale <= precision;
    fits.then_some(DataType::Decimal128(precision, scale as i8))
}

fn unknown(text: &str) -> Error {
    Error::invalid_input(format!(
        "unknown type '{}'; known are BOOLEAN, TINYINT, SMALLINT, INTEGER, BIGINT (each also UNSIGNED), REAL, DOUBLE, \
         DECIMAL(p,s), DATE, TIMESTAMP(0|3|6|9), TIMESTAMPTZ, VARCHAR and BYTEA",
        text.trim()
    ))
}

/// The name of a type in messages; [`parse_type`] knows it.
pub fn type_name(data_type: &DataType) -> String {
    let name = match data_type {
        DataType::Boolean => "BOOLEAN",
        DataType::Int8 => "TINYINT",
        DataType::Int16 => "SMALLINT",
        DataType::Int32 => "INTEGER",
        DataType::Int64 => "BIGINT",
        DataType::UInt8 => "TINYINT UNSIGNED",
        DataType::UInt16 => "SMALLINT UNSIGNED",
        DataType::UInt32 => "INTEGER UNSIGNED",
        DataType::UInt64 => "BIGINT UNSIGNED",
        DataType::Float32 => "REAL",
        DataType::Float64 => "DOUBLE",
        DataType::Date32 => "DATE",
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "VARCHAR",
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "BYTEA",
        DataType::Dictionary(_, values) => return type_name(values),
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => return format!("DECIMAL({precision},{scale})"),
        DataType::Timestamp(unit, zone) => {
            let name = if zone.is_some() { "TIMESTAMPTZ" } else { "TIMESTAMP" };
            return format!("{name}({})", fraction_digits(*unit));
        }
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => "list",
        DataType::Struct(_) => "struct",
        other => return other.to_string(),
    };
    name.to_owned()
}

/// Digits after the point of a second.
pub(crate) fn fraction_digits(unit: TimeUnit) -> u32 {
    match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    }
}

/// The type that holds all values of both without a loss; `None` where there is none.
pub(crate) fn common_type(a: &DataType, b: &DataType) -> Option<DataType> {
    use DataType::{Float32, Float64, Null, Timestamp};
    if a == b {
        return Some(a.clone());
    }
    let (a, b) = (plain(a), plain(b));
    match (&a, &b) {
        _ if a == b => Some(a),
        (Null, other) | (other, Null) => Some(other.clone()),
        _ if a.is_integer() && b.is_integer() => common_integer(&a, &b),
        (Float32, Float64) | (Float64, Float32) => Some(Float64),
        (Timestamp(one, zone), Timestamp(other, other_zone)) if zone == other_zone => {
            let finer = if fraction_digits(*one) > fraction_digits(*other) { one } else { other };
            Some(Timestamp(*finer, zone.clone()))
        }
        (DataType::Date32, Timestamp(unit, None)) | (Timestamp(unit, None), DataType::Date32) => {
            Some(Timestamp(*unit, None))
        }
        (DataType::Decimal128(p, s), DataType::Decimal128(q, t)) => {
            let scale = (*s).max(*t);
            let whole = (i16::from(*p) - i16::from(*s)).max(i16::from(*q) - i16::from(*t));
            let precision = u8::try_from(whole + i16::from(scale)).ok()?;
            (precision <= DECIMAL128_MAX_PRECISION).then_some(DataType::Decimal128(precision, scale))
        }
        (DataType::List(one), DataType::List(other)) => {
            Some(DataType::List(Arc::new(common_field(one, other)?)))
        }
        (DataType::Struct(one), DataType::Struct(other)) => common_members(one, other),
        _ => None,
    }
}

/// A field that holds the values of both.
fn common_field(a: &Field, b: &Field) -> Option<Field> {
    let data_type = common_type(a.data_type(), b.data_type())?;
    Some(a.clone().with_data_type(data_type).with_nullable(a.is_nullable() || b.is_nullable()))
}

/// A struct of the members of both, those of `a` first. What one of them lacks is NULL there.
fn common_members(a: &Fields, b: &Fields) -> Option<DataType> {
    let find = |fields: &Fields, name: &str| fields.iter().find(|field| field.name() == name).cloned();
    let lacking = |field: &FieldRef| field.as_ref().clone().with_nullable(true);
    let of_a = a.iter().map(|field| match find(b, field.name()) {
        Some(other) => common_field(field, &other),
        None => Some(lacking(field)),
    });
    let of_b = b.iter().filter(|field| find(a, field.name()).is_none()).map(|field| Some(lacking(field)));
    let members = of_a.chain(of_b).collect::<Option<Vec<Field>>>()?;
    Some(DataType::Struct(members.into()))
}

/// Whether `from` has all members of the structs in `to`. Arrow casts structs by name then, and else by the order of members.
pub(crate) fn has_members_of(from: &DataType, to: &DataType) -> bool {
    match (from, to) {
        (DataType::List(from), DataType::List(to)) => has_members_of(from.data_type(), to.data_type()),
        (DataType::Struct(from), DataType::Struct(to)) => to.iter().all(|wanted| {
            let found = from.iter().find(|field| field.name() == wanted.name());
            found.is_some_and(|found| has_members_of(found.data_type(), wanted.data_type()))
        }),
        _ => true,
    }
}

/// The type without what only says how values are laid out.
pub(crate) fn plain(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Dictionary(_, values) => plain(values),
        DataType::LargeUtf8 | DataType::Utf8View => DataType::Utf8,
        DataType::LargeBinary | DataType::BinaryView => DataType::Binary,
        DataType::Decimal32(p, s) | DataType::Decimal64(p, s) => DataType::Decimal128(*p, *s),
        other => other.clone(),
    }
}

fn common_integer(a: &DataType, b: &DataType) -> Option<DataType> {
    let bits = |data_type: &DataType| 8 * data_type.primitive_width().expect("an integer has a width");
    let needed = |data_type: &DataType, signed: bool| {
        bits(data_type) + usize::from(signed && data_type.is_unsigned_integer())
    };
    let signed = a.is_signed_integer() || b.is_signed_integer();
    Some(match (signed, needed(a, signed).max(needed(b, signed))) {
        (false, 16) => DataType::UInt16,
        (false, 32) => DataType::UInt32,
        (false, _) => DataType::UInt64,
        (true, ..=16) => DataType::Int16,
        (true, ..=32) => DataType::Int32,
        (true, ..=64) => DataType::Int64,
        (true, _) => DataType::Decimal128(20, 0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_every_type_is_known_again() {
        let names = [
            "BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "REAL", "DOUBLE", "DATE", "VARCHAR",
            "BYTEA",
        ];
        let more = ["TIMESTAMP(3)", "TIMESTAMPTZ(9)", "DECIMAL(10,2)", "BIGINT UNSIGNED", "TINYINT UNSIGNED"];
        for name in names.into_iter().chain(more) {
            assert_eq!(type_name(&parse_type(name).unwrap()), name);
            assert_eq!(parse_type(&name.to_lowercase()).unwrap(), parse_type(name).unwrap());
        }
        assert_eq!(parse_type("timestamp(6) with time zone").unwrap(), parse_type("TIMESTAMPTZ(6)").unwrap());
        for wrong in ["", "DECIMAL(39,0)", "TIMESTAMP(2)", "DECIMAL(", "DECIMAL(2,3)", "LIST"] {
            assert!(parse_type(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn two_types_have_one_that_loses_nothing_or_none() {
        let cases = [
            ("INTEGER", "BIGINT", Some("BIGINT")),
            ("TINYINT UNSIGNED", "TINYINT", Some("SMALLINT")),
            ("INTEGER UNSIGNED", "SMALLINT", Some("BIGINT")),
            ("BIGINT UNSIGNED", "BIGINT", Some("DECIMAL(20,0)")),
            ("REAL", "DOUBLE", Some("DOUBLE")),
            ("DATE", "TIMESTAMP(3)", Some("TIMESTAMP(3)")),
            ("TIMESTAMP(0)", "TIMESTAMP(9)", Some("TIMESTAMP(9)")),
            ("DECIMAL(10,2)", "DECIMAL(12,6)", Some("DECIMAL(14,6)")),
            ("DECIMAL(38,0)", "DECIMAL(38,10)", None),
            ("TIMESTAMP(0)", "TIMESTAMPTZ(0)", None),
            ("BIGINT", "DOUBLE", None),
            ("BIGINT", "VARCHAR", None),
        ];
        for (a, b, expected) in cases {
            let (left, right) = (parse_type(a).unwrap(), parse_type(b).unwrap());
            let name = |found: Option<DataType>| found.map(|found| type_name(&found));
            assert_eq!(name(common_type(&left, &right)).as_deref(), expected, "{a} and {b}");
            assert_eq!(name(common_type(&right, &left)).as_deref(), expected, "{b} and {a}");
        }
    }

    #[test]
    fn structs_have_the_members_of_both_by_name() {
        let member = |name: &str, data_type| Field::new(name, data_type, false);
        let one = DataType::Struct(vec![member("a", DataType::Int32), member("b", DataType::Utf8)].into());
        let other = DataType::Struct(vec![member("c", DataType::Utf8), member("a", DataType::Int64)].into());
        let both = vec![
            member("a", DataType::Int64),
            member("b", DataType::Utf8).with_nullable(true),
            member("c", DataType::Utf8).with_nullable(true),
        ];
        let both = DataType::Struct(both.into());
        assert_eq!(common_type(&one, &other), Some(both.clone()));
        let list = |inner: &DataType| DataType::List(Arc::new(Field::new_list_field(inner.clone(), true)));
        assert_eq!(common_type(&list(&one), &list(&other)), Some(list(&both)));
        assert!(has_members_of(&list(&both), &list(&one)) && !has_members_of(&list(&one), &list(&other)));
        let number = DataType::Struct(vec![member("b", DataType::Int64)].into());
        assert_eq!(common_type(&one, &number), None);
    }
}
