//! The columns of a table: logical types, their Arrow form and the machine type they are stored as.
//!
//! ```text
//!   Arrow, coming in                        logical            stored as      Arrow, going out
//!   Boolean                                 bool               U8 (0, 1)      Boolean
//!   Int8..Int64, UInt8..UInt64              int8..uint64       the same       the same
//!   Float32, Float64                        float32, float64   the same       the same
//!   Decimal32/64/128/256 of <= 18 digits    decimal(p,s)       I64 unscaled   Decimal128
//!   Decimal128/256 of 19..38 digits         decimal(p,s)       I128 unscaled  Decimal128
//!   Date32                                  date               I32 days       Date32
//!   Timestamp                               timestamp(u[,z])   I64            Timestamp
//!   Utf8, LargeUtf8, Utf8View               utf8               Bytes          Utf8View
//!   Binary, LargeBinary, BinaryView, fixed  binary             Bytes          BinaryView
//!   Dictionary of one of these              as its values
//! ```
//!
//! Everything else is refused, by column name, when the schema is taken: never halfway through a load.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use pelton_chunk::PhysicalType;
use pelton_error::{Error, Result};

/// Decimals of at most this many digits are stored as 64-bit integers.
const DECIMAL_DIGITS_OF_I64: u8 = 18;
/// The most digits a decimal may have.
const DECIMAL_DIGITS_MAX: u8 = 38;
/// The most columns a table may have.
const COLUMNS_MAX: usize = 4096;

const SUPPORTED: &str = "bool, 8 to 64-bit integers, float32, float64, decimal to 38 digits, date32, \
     timestamp, string and binary (and dictionaries of these)";

/// What the values of a column mean.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // one variant a type, named as it is
pub enum LogicalType {
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    UInt8,
    UInt16,
    UInt32,
    UInt64,
    Float32,
    Float64,
    /// An exact number of `precision` digits, `scale` of them after the point.
    Decimal {
        precision: u8,
        scale: i8,
    },
    /// Days since 1970-01-01.
    Date,
    /// Units since 1970-01-01, as UTC where there is a zone, as local time where there is none.
    Timestamp {
        unit: TimeUnit,
        zone: Option<String>,
    },
    Utf8,
    Binary,
}

impl LogicalType {
    /// The logical type of Arrow's `data_type`, or `None` where Pelton has none.
    pub fn from_arrow(data_type: &DataType) -> Option<Self> {
        Some(match data_type {
            DataType::Boolean => Self::Bool,
            DataType::Int8 => Self::Int8,
            DataType::Int16 => Self::Int16,
            DataType::Int32 => Self::Int32,
            DataType::Int64 => Self::Int64,
            DataType::UInt8 => Self::UInt8,
            DataType::UInt16 => Self::UInt16,
            DataType::UInt32 => Self::UInt32,
            DataType::UInt64 => Self::UInt64,
            DataType::Float32 => Self::Float32,
            DataType::Float64 => Self::Float64,
            DataType::Decimal32(precision, scale)
            | DataType::Decimal64(precision, scale)
            | DataType::Decimal128(precision, scale)
            | DataType::Decimal256(precision, scale)
                if *precision <= DECIMAL_DIGITS_MAX =>
            {
                Self::Decimal { precision: *precision, scale: *scale }
            }
            DataType::Date32 => Self::Date,
            DataType::Timestamp(unit, zone) => {
                Self::Timestamp { unit: *unit, zone: zone.as_ref().map(ToString::to_string) }
            }
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Self::Utf8,
            DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_) => Self::Binary,
            DataType::Dictionary(_, values) if !matches!(**values, DataType::Dictionary(..)) => {
                Self::from_arrow(values)?
            }
            _ => return None,
        })
    }

    /// The Arrow type in which values go out.
    pub fn to_arrow(&self) -> DataType {
        match self {
            Self::Bool => DataType::Boolean,
            Self::Int8 => DataType::Int8,
            Self::Int16 => DataType::Int16,
            Self::Int32 => DataType::Int32,
            Self::Int64 => DataType::Int64,
            Self::UInt8 => DataType::UInt8,
            Self::UInt16 => DataType::UInt16,
            Self::UInt32 => DataType::UInt32,
            Self::UInt64 => DataType::UInt64,
            Self::Float32 => DataType::Float32,
            Self::Float64 => DataType::Float64,
            Self::Decimal { precision, scale } => DataType::Decimal128(*precision, *scale),
            Self::Date => DataType::Date32,
            Self::Timestamp { unit, zone } => {
                DataType::Timestamp(*unit, zone.as_deref().map(Arc::<str>::from))
            }
            Self::Utf8 => DataType::Utf8View,
            Self::Binary => DataType::BinaryView,
        }
    }

    /// The Arrow type that has the bits in which values are stored: that of [`to_arrow`](Self::to_arrow) but for decimals of
    /// up to 18 digits, which are whole numbers of 64 bits.
    pub fn to_stored_arrow(&self) -> DataType {
        match self {
            Self::Decimal { .. } if self.physical_type() == PhysicalType::I64 => DataType::Int64,
            other => other.to_arrow(),
        }
    }

    /// The machine type in which values are stored.
    pub fn physical_type(&self) -> PhysicalType {
        match self {
            Self::Bool | Self::UInt8 => PhysicalType::U8,
            Self::Int8 => PhysicalType::I8,
            Self::Int16 => PhysicalType::I16,
            Self::Int32 | Self::Date => PhysicalType::I32,
            Self::Int64 | Self::Timestamp { .. } => PhysicalType::I64,
            Self::UInt16 => PhysicalType::U16,
            Self::UInt32 => PhysicalType::U32,
            Self::UInt64 => PhysicalType::U64,
            Self::Float32 => PhysicalType::F32,
            Self::Float64 => PhysicalType::F64,
            Self::Decimal { precision, .. } if *precision <= DECIMAL_DIGITS_OF_I64 => PhysicalType::I64,
            Self::Decimal { .. } => PhysicalType::I128,
            Self::Utf8 | Self::Binary => PhysicalType::Bytes,
        }
    }
}

/// The name under which a type stands in the manifest and in messages: `decimal(15,2)`, `timestamp(us,UTC)`.
impl fmt::Display for LogicalType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decimal { precision, scale } => write!(f, "decimal({precision},{scale})"),
            Self::Timestamp { unit, zone: None } => write!(f, "timestamp({})", unit_name(*unit)),
            Self::Timestamp { unit, zone: Some(zone) } => write!(f, "timestamp({},{zone})", unit_name(*unit)),
            plain => {
                let (name, _) =
                    PLAIN_NAMES.iter().find(|(_, ty)| ty == plain).expect("every plain type has a name");
                f.write_str(name)
            }
        }
    }
}

impl FromStr for LogicalType {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        if let Some((_, ty)) = PLAIN_NAMES.iter().find(|(plain, _)| *plain == name) {
            return Ok(ty.clone());
        }
        parse_parameters(name).ok_or_else(|| Error::corrupt(format!("unknown column type '{name}'")))
    }
}

const PLAIN_NAMES: [(&str, LogicalType); 14] = [
    ("bool", LogicalType::Bool),
    ("int8", LogicalType::Int8),
    ("int16", LogicalType::Int16),
    ("int32", LogicalType::Int32),
    ("int64", LogicalType::Int64),
    ("uint8", LogicalType::UInt8),
    ("uint16", LogicalType::UInt16),
    ("uint32", LogicalType::UInt32),
    ("uint64", LogicalType::UInt64),
    ("float32", LogicalType::Float32),
    ("float64", LogicalType::Float64),
    ("date", LogicalType::Date),
    ("utf8", LogicalType::Utf8),
    ("binary", LogicalType::Binary),
];

fn parse_parameters(name: &str) -> Option<LogicalType> {
    let (kind, rest) = name.split_once('(')?;
    let parameters = rest.strip_suffix(')')?;
    match kind {
        "decimal" => {
            let (precision, scale) = parameters.split_once(',')?;
            let (precision, scale) = (precision.parse().ok()?, scale.parse().ok()?);
            is_valid_decimal(precision, scale).then_some(LogicalType::Decimal { precision, scale })
        }
        "timestamp" => {
            let (unit, zone) = match parameters.split_once(',') {
                Some((unit, zone)) => (unit, Some(zone.to_string())),
                None => (parameters, None),
            };
            let unit = TIME_UNITS.into_iter().find(|&known| unit_name(known) == unit)?;
            Some(LogicalType::Timestamp { unit, zone })
        }
        _ => None,
    }
}

/// Arrow's own rule; scale may be negative.
fn is_valid_decimal(precision: u8, scale: i8) -> bool {
    (1..=DECIMAL_DIGITS_MAX).contains(&precision) && i16::from(scale) <= i16::from(precision)
}

const TIME_UNITS: [TimeUnit; 4] =
    [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond];

fn unit_name(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    }
}

/// One column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnSchema {
    /// The name, unique in the table.
    pub name: String,
    /// What the values mean.
    pub logical: LogicalType,
    /// Whether NULLs may stand in it.
    pub nullable: bool,
}

/// The columns of a table in order; names are unique and there is at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableSchema {
    /// In the order in which they are stored.
    pub columns: Vec<ColumnSchema>,
}

impl TableSchema {
    /// A schema of `columns`; refuses none, too many, and two of one name.
    pub fn new(columns: Vec<ColumnSchema>) -> Result<Self> {
        if columns.is_empty() {
            return Err(Error::invalid_input("a table needs at least one column"));
        }
        if columns.len() > COLUMNS_MAX {
            return Err(Error::invalid_input(format!(
                "{} columns; a table has at most {COLUMNS_MAX}: split it into several tables",
                columns.len()
            )));
        }
        let mut names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Error::invalid_input(format!("two columns are named '{}'; rename one", pair[0])));
        }
        Ok(Self { columns })
    }

    /// Takes an Arrow schema; the first column without a place in Pelton is refused by name.
    pub fn from_arrow(schema: &Schema) -> Result<Self> {
        let columns = schema.fields().iter().map(|field| column_from_field(field)).collect::<Result<_>>()?;
        Self::new(columns)
    }

    /// The Arrow schema in which rows go out.
    pub fn to_arrow(&self) -> SchemaRef {
        let fields: Vec<Field> = self
            .columns
            .iter()
            .map(|column| Field::new(&column.name, column.logical.to_arrow(), column.nullable))
            .collect();
        Arc::new(Schema::new(fields))
    }

    /// The position of the column named `name`.
    pub fn index_of(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// The schema of this table once rows of `appended` are in it: the same columns, nullable where either
    /// is. Refuses the first column that differs in name or type, and a differing number of columns.
    pub fn merged_with(&self, appended: &TableSchema) -> Result<TableSchema> {
        if self.columns.len() != appended.columns.len() {
            return Err(Error::invalid_input(format!(
                "the table has {} columns ({}) and the new rows have {} ({}); append rows of the same columns, or \
                 replace the table",
                self.columns.len(),
                names_of(self),
                appended.columns.len(),
                names_of(appended)
            )));
        }
        let columns =
            self.columns.iter().zip(&appended.columns).map(merged_column).collect::<Result<Vec<_>>>()?;
        Ok(Self { columns })
    }
}

fn column_from_field(field: &Field) -> Result<ColumnSchema> {
    let logical = LogicalType::from_arrow(field.data_type()).ok_or_else(|| {
        Error::invalid_input(format!(
            "column '{}' has type {}, which Pelton does not store; supported are {SUPPORTED}. Leave the column out or \
             convert it",
            field.name(),
            field.data_type()
        ))
    })?;
    if let LogicalType::Decimal { precision, scale } = logical
        && !is_valid_decimal(precision, scale)
    {
        return Err(Error::invalid_input(format!(
            "column '{}' has type {}; a decimal has 1 to {DECIMAL_DIGITS_MAX} digits, at most all of them after the point",
            field.name(),
            field.data_type()
        )));
    }
    Ok(ColumnSchema { name: field.name().clone(), logical, nullable: field.is_nullable() })
}

fn merged_column((stored, appended): (&ColumnSchema, &ColumnSchema)) -> Result<ColumnSchema> {
    if stored.name != appended.name || stored.logical != appended.logical {
        return Err(Error::invalid_input(format!(
            "the table has column '{}' of type {} where the new rows have '{}' of type {}; append rows of the same \
             columns in the same order, or replace the table",
            stored.name, stored.logical, appended.name, appended.logical
        )));
    }
    Ok(ColumnSchema { nullable: stored.nullable || appended.nullable, ..stored.clone() })
}

fn names_of(schema: &TableSchema) -> String {
    schema.columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
