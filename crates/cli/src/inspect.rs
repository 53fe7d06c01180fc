//! `pelton inspect`: how a table's columns are stored, what sampling chose and what it passed over.

use arrow::array::PrimitiveArray;
use arrow::datatypes::{
    ArrowPrimitiveType, Date32Type, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use pelton_bench::results::TextTable;
use pelton_engine::{bytes_text, counted};
use pelton_error::Result;
use pelton_store::{Candidate, ColumnChoice, LogicalType, Table, Warehouse};
use pelton_zone::Scalar;

use crate::args::InspectArgs;
use crate::console::{self, Keep, escaped};

/// Characters of a bound that are shown.
const BOUND_CHARS_MAX: usize = 24;

pub(crate) fn run(args: &InspectArgs) -> Result<()> {
    let table = Warehouse::open(&args.warehouse.warehouse)?.table(&args.table)?;
    let head = format!(
        "{}: {} in {} of {} rows, {}, generation {}, id {}\n",
        table.name(),
        counted(table.row_count(), "row"),
        counted(table.row_group_count() as u64, "row group"),
        table.row_group_rows(),
        counted(table.segment_count() as u64, "segment"),
        table.generation(),
        table.id(),
    );
    let sections =
        [columns_table(&table).to_string(), choices_text(&table, args.runners_up), sideways_text(&table)];
    let sections = sections.iter().filter(|text| !text.is_empty()).map(|text| format!("\n{text}"));
    console::print(head + &sections.collect::<String>())
}

fn columns_table(table: &Table) -> TextTable {
    let mut text = TextTable::new(&[
        "column", "type", "encoding", "raw", "stored", "ratio", "metadata", "distinct", "nulls", "min", "max",
    ]);
    for (column, schema) in table.schema().columns.iter().enumerate() {
        let summary = table.column_summary(column);
        let bound =
            |scalar: &Option<Scalar>| scalar.as_ref().map_or("-".into(), |s| bound_text(s, &schema.logical));
        text.push(vec![
            escaped(&schema.name, Keep::Nothing),
            schema.logical.to_string(),
            table.choices().get(column).map_or("-".into(), |choice| choice.encoding.to_string()),
            bytes_text(summary.raw_bytes),
            bytes_text(summary.stored_bytes),
            format!("{:.2}", summary.raw_bytes as f64 / summary.stored_bytes.max(1) as f64),
            bytes_text(summary.metadata_bytes),
            summary.distinct_count.to_string(),
            summary.null_count.to_string(),
            bound(&summary.min),
            bound(&summary.max),
        ]);
    }
    text
}

fn bound_text(scalar: &Scalar, logical: &LogicalType) -> String {
    match (scalar, logical) {
        (Scalar::Int(value), LogicalType::Decimal { scale, .. }) if *scale > 0 => {
            decimal_text(*value, *scale as u32)
        }
        (Scalar::Int(days), LogicalType::Date) => shown::<Date32Type>(*days),
        (Scalar::Int(at), LogicalType::Timestamp { unit, .. }) => match unit {
            TimeUnit::Second => shown::<TimestampSecondType>(*at),
            TimeUnit::Millisecond => shown::<TimestampMillisecondType>(*at),
            TimeUnit::Microsecond => shown::<TimestampMicrosecondType>(*at),
            TimeUnit::Nanosecond => shown::<TimestampNanosecondType>(*at),
        },
        (Scalar::Int(value), LogicalType::Bool) => (*value != 0).to_string(),
        (Scalar::Int(value), _) => value.to_string(),
        (Scalar::Float(value), _) => value.to_string(),
        (Scalar::Bytes(bytes), _) => {
            let text = escaped(&String::from_utf8_lossy(bytes), Keep::Nothing);
            let mut shown: String = text.chars().take(BOUND_CHARS_MAX).collect();
            if text.chars().count() > BOUND_CHARS_MAX {
                shown.push('…');
            }
            shown
        }
    }
}

fn decimal_text(unscaled: i128, scale: u32) -> String {
    let factor = 10u128.pow(scale);
    let sign = if unscaled < 0 { "-" } else { "" };
    let (whole, fraction) = (unscaled.unsigned_abs() / factor, unscaled.unsigned_abs() % factor);
    format!("{sign}{whole}.{fraction:0width$}", width = scale as usize)
}

/// A number as a value of `T`, as Arrow displays it; the number where it is none.
fn shown<T: ArrowPrimitiveType>(number: i128) -> String
where
    T::Native: TryFrom<i128>,
{
    let Ok(native) = T::Native::try_from(number) else { return number.to_string() };
    let array = PrimitiveArray::<T>::from_iter_values([native]);
    let options = FormatOptions::default();
    ArrayFormatter::try_new(&array, &options).map_or(number.to_string(), |one| one.value(0).to_string())
}

fn choices_text(table: &Table, runners_up: usize) -> String {
    let compared: Vec<&ColumnChoice> =
        table.choices().iter().filter(|choice| choice.candidates.len() > 1).collect();
    if compared.is_empty() || runners_up == 0 {
        return String::new();
    }
    let mut text = TextTable::new(&["column", "tried", "ratio", "decode GB/s", "chosen"]);
    for choice in compared {
        let chosen =
            choice.candidates.iter().filter(|candidate| candidate.encoding == choice.encoding).take(1);
        let others = choice
            .candidates
            .iter()
            .filter(|candidate| candidate.encoding != choice.encoding)
            .take(runners_up);
        for candidate in chosen.chain(others) {
            text.push(candidate_row(choice, candidate));
        }
    }
    format!("encodings tried on the sample, best first\n{text}")
}

fn candidate_row(choice: &ColumnChoice, candidate: &Candidate) -> Vec<String> {
    let is_chosen = candidate.encoding == choice.encoding;
    vec![
        if is_chosen { escaped(&choice.column, Keep::Nothing) } else { String::new() },
        candidate.encoding.to_string(),
        format!("{:.2}", choice.ratio(candidate)),
        match candidate.decode_bytes_per_s {
            0 => "-".into(),
            rate => format!("{:.2}", rate as f64 / 1e9),
        },
        if is_chosen { "chosen".into() } else { String::new() },
    ]
}

fn sideways_text(table: &Table) -> String {
    if table.sideways().is_empty() {
        return String::new();
    }
    let mut text = TextTable::new(&["attribute", "type", "through"]);
    for sideways in table.sideways() {
        let hops: Vec<String> = sideways
            .path
            .iter()
            .map(|hop| format!("{} = {}.{}", hop.fact_column, hop.dimension_table, hop.dimension_key))
            .collect();
        text.push(vec![sideways.column.clone(), sideways.logical.to_string(), hops.join(", ")]);
    }
    format!("metadata of dimension attributes, kept for each row group\n{text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_read_as_values_of_their_type() {
        let decimal = LogicalType::Decimal { precision: 15, scale: 2 };
        assert_eq!(bound_text(&Scalar::Int(-105), &decimal), "-1.05");
        assert_eq!(bound_text(&Scalar::Int(0), &LogicalType::Date), "1970-01-01");
        let at = LogicalType::Timestamp { unit: TimeUnit::Millisecond, zone: None };
        assert_eq!(bound_text(&Scalar::Int(86_400_500), &at), "1970-01-02T00:00:00.500");
        assert_eq!(bound_text(&Scalar::Int(1), &LogicalType::Bool), "true");
        let long = Scalar::Bytes("x".repeat(30).into_bytes());
        assert_eq!(bound_text(&long, &LogicalType::Utf8), format!("{}…", "x".repeat(24)));
    }
}
