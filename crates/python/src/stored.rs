//! What a warehouse holds and how, as JSON.

use std::sync::Arc;

use arrow::array::{ArrayRef, Decimal128Array, Int32Array, Int64Array};
use arrow::compute::cast;
use arrow::error::ArrowError;
use arrow::util::display::array_value_to_string;
use pelton_error::Result;
use pelton_store::{ColumnChoice, ColumnSummary, LogicalType, SidewaysColumn, Table, Warehouse};
use pelton_zone::Scalar;
use serde_json::{Value, json};

/// Every table with its sizes.
pub(crate) fn tables(warehouse: &Warehouse) -> Result<String> {
    let tables = warehouse.tables()?;
    let tables: Result<Vec<Value>> = tables.iter().map(|name| Ok(sizes(&*warehouse.table(name)?))).collect();
    Ok(Value::from(tables?).to_string())
}

fn sizes(table: &Table) -> Value {
    let columns = table.schema().columns.len();
    let sum = |figure: fn(&ColumnSummary) -> u64| {
        (0..columns).map(|column| figure(table.column_summary(column))).sum::<u64>()
    };
    json!({
        "table": table.name(),
        "rows": table.row_count(),
        "columns": columns,
        "row_groups": table.row_group_count(),
        "raw_bytes": sum(|summary| summary.raw_bytes),
        "stored_bytes": sum(|summary| summary.stored_bytes),
        "metadata_bytes": sum(|summary| summary.metadata_bytes),
    })
}

/// How the columns of table `name` are stored, and what else was tried.
pub(crate) fn inspect(warehouse: &Warehouse, name: &str) -> Result<String> {
    let table = warehouse.table(name)?;
    let columns: Vec<Value> =
        (0..table.schema().columns.len()).map(|column| column_json(&table, column)).collect();
    let sideways: Vec<Value> = table.sideways().iter().map(sideways_json).collect();
    Ok(json!({
        "table": table.name(),
        "rows": table.row_count(),
        "row_groups": table.row_group_count(),
        "row_group_rows": table.row_group_rows(),
        "segments": table.segment_count(),
        "generation": table.generation(),
        "id": table.id().to_string(),
        "cluster_by": table.cluster_by(),
        "columns": columns,
        "sideways": sideways,
    })
    .to_string())
}

fn column_json(table: &Table, column: usize) -> Value {
    let (schema, summary) = (&table.schema().columns[column], table.column_summary(column));
    let choice = table.choices().get(column);
    let bound = |scalar: &Option<Scalar>| scalar.as_ref().map(|scalar| scalar_json(scalar, &schema.logical));
    json!({
        "column": schema.name,
        "type": schema.logical.to_string(),
        "encoding": choice.map(|choice| choice.encoding.to_string()),
        "raw_bytes": summary.raw_bytes,
        "stored_bytes": summary.stored_bytes,
        "metadata_bytes": summary.metadata_bytes,
        "distinct": summary.distinct_count,
        "nulls": summary.null_count,
        "min": bound(&summary.min),
        "max": bound(&summary.max),
        "tried": choice.map_or(Vec::new(), tried_json),
    })
}

fn tried_json(choice: &ColumnChoice) -> Vec<Value> {
    let candidate = |candidate: &pelton_store::Candidate| {
        json!({
            "encoding": candidate.encoding.to_string(),
            "ratio": choice.ratio(candidate),
            "decode_bytes_per_s": candidate.decode_bytes_per_s,
        })
    };
    choice.candidates.iter().map(candidate).collect()
}

fn sideways_json(sideways: &SidewaysColumn) -> Value {
    let hop = |hop: &pelton_store::SidewaysLink| {
        format!("{} = {}.{}", hop.fact_column, hop.dimension_table, hop.dimension_key)
    };
    let through: Vec<String> = sideways.path.iter().map(hop).collect();
    json!({ "attribute": sideways.column, "type": sideways.logical.to_string(), "through": through })
}

/// A bound: numbers as numbers, everything else as the text that a query would show.
fn scalar_json(scalar: &Scalar, logical: &LogicalType) -> Value {
    match (scalar, logical) {
        (Scalar::Int(value), LogicalType::Bool) => json!(*value != 0),
        (
            Scalar::Int(value),
            LogicalType::Decimal { .. } | LogicalType::Date | LogicalType::Timestamp { .. },
        ) => {
            json!(shown(*value, logical).unwrap_or_else(|_| value.to_string()))
        }
        (Scalar::Int(value), _) => match (i64::try_from(*value), u64::try_from(*value)) {
            (Ok(value), _) => json!(value),
            (_, Ok(value)) => json!(value),
            _ => json!(value.to_string()),
        },
        (Scalar::Float(value), _) => json!(value),
        (Scalar::Bytes(bytes), _) => json!(String::from_utf8_lossy(bytes)),
    }
}

fn shown(value: i128, logical: &LogicalType) -> std::result::Result<String, ArrowError> {
    let array: ArrayRef = match logical {
        LogicalType::Decimal { precision, scale } => {
            Arc::new(Decimal128Array::from(vec![value]).with_precision_and_scale(*precision, *scale)?)
        }
        LogicalType::Date => Arc::new(Int32Array::from(vec![i32::try_from(value).unwrap_or_default()])),
        _ => Arc::new(Int64Array::from(vec![i64::try_from(value).unwrap_or_default()])),
    };
    array_value_to_string(&cast(&array, &logical.to_arrow())?, 0)
}
