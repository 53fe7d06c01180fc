//! Types as SQL calls them, wherever people read what columns there are.
//!
//! ```text
//!   Int64, Utf8View, Timestamp(µs), List(Int32)        BIGINT, VARCHAR, TIMESTAMP, INTEGER[]
//!
//!   DESCRIBE t, DESCRIBE SELECT …                      rows of a table in memory
//!   information_schema.columns, SHOW COLUMNS           DataFusion's rows with `data_type` looked up again
//! ```
//!
//! DataFusion 55 shows Arrow's names there. `arrow_typeof` still does.

use std::fmt::Write;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, FieldRef, SchemaRef, TimeUnit};
use datafusion::catalog::{CatalogProviderList, Session, TableProvider};
use datafusion::common::TableReference;
use datafusion::common::cast::as_string_array;
use datafusion::common::tree_node::Transformed;
use datafusion::datasource::{MemTable, provider_as_source, source_as_provider};
use datafusion::error::Result;
use datafusion::logical_expr::{DescribeTable, Expr, LogicalPlan, LogicalPlanBuilder, TableScan, TableType};
use datafusion::physical_plan::{ExecutionPlan, collect};
use pelton_files::type_name;

/// The name of `data_type` in SQL.
pub fn sql_type_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Null => "NULL".to_owned(),
        DataType::Date64 => "DATE".to_owned(),
        DataType::FixedSizeBinary(_) => "BYTEA".to_owned(),
        DataType::Time32(_) | DataType::Time64(_) => "TIME".to_owned(),
        DataType::Interval(_) | DataType::Duration(_) => "INTERVAL".to_owned(),
        DataType::Timestamp(unit, zone) => {
            let digits = match unit {
                TimeUnit::Second => "(0)",
                TimeUnit::Millisecond => "(3)",
                TimeUnit::Microsecond | TimeUnit::Nanosecond => "",
            };
            format!("TIMESTAMP{digits}{}", if zone.is_some() { " WITH TIME ZONE" } else { "" })
        }
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item) => format!("{}[]", sql_type_name(item.data_type())),
        DataType::FixedSizeList(item, length) => format!("{}[{length}]", sql_type_name(item.data_type())),
        DataType::Struct(fields) => format!("STRUCT({})", members(fields)),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(entry) if entry.len() == 2 => {
                let [key, value] = [0, 1].map(|place| sql_type_name(entry[place].data_type()));
                format!("MAP({key}, {value})")
            }
            other => format!("MAP({})", sql_type_name(other)),
        },
        DataType::Dictionary(_, values) => sql_type_name(values),
        DataType::RunEndEncoded(_, values) => sql_type_name(values.data_type()),
        other => type_name(other),
    }
}

/// The fields of a struct, each with its type.
fn members(fields: &[FieldRef]) -> String {
    let mut text = String::new();
    for (place, field) in fields.iter().enumerate() {
        let separator = if place > 0 { ", " } else { "" };
        // A string takes all that is written.
        let _ = write!(text, "{separator}{} {}", quoted(field.name()), sql_type_name(field.data_type()));
    }
    text
}

/// `name` as SQL reads it.
fn quoted(name: &str) -> String {
    let is_plain = name.starts_with(|char: char| char.is_ascii_lowercase() || char == '_')
        && name.chars().all(|char| char.is_ascii_lowercase() || char.is_ascii_digit() || char == '_');
    if is_plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// Whether `table` lists the columns of all tables.
pub(crate) fn lists_columns(table: &TableReference) -> bool {
    table.schema() == Some("information_schema") && table.table().eq_ignore_ascii_case("columns")
}

/// `plan` with SQL's names of types where it shows them; of the columns of all tables where these are the `catalogs`.
///
/// # Errors
///
/// None of its own; those of putting a plan together.
pub(crate) fn write_types(
    plan: LogicalPlan,
    catalogs: Option<&Arc<dyn CatalogProviderList>>,
) -> Result<LogicalPlan> {
    if let LogicalPlan::DescribeTable(table) = &plan {
        return described(table);
    }
    let Some(catalogs) = catalogs else { return Ok(plan) };
    let written = plan.transform_up_with_subqueries(|plan| match plan {
        LogicalPlan::TableScan(scan) if lists_columns(&scan.table_name) => {
            let listed = source_as_provider(&scan.source)?;
            let columns = ListedColumns { listed, catalogs: Arc::clone(catalogs) };
            let source = provider_as_source(Arc::new(columns));
            Ok(Transformed::yes(LogicalPlan::TableScan(TableScan { source, ..scan })))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(written.data)
}

/// The columns of `table`, as rows.
fn described(table: &DescribeTable) -> Result<LogicalPlan> {
    let schema: SchemaRef = Arc::new(table.output_schema.as_arrow().clone());
    let fields = || table.schema.fields().iter();
    let names = fields().map(|field| field.name().as_str());
    let types = fields().map(|field| sql_type_name(field.data_type()));
    let nullable = fields().map(|field| if field.is_nullable() { "YES" } else { "NO" });
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from_iter_values(names)),
        Arc::new(StringArray::from_iter_values(types)),
        Arc::new(StringArray::from_iter_values(nullable)),
    ];
    let rows = RecordBatch::try_new(Arc::clone(&schema), columns)?;
    let table = MemTable::try_new(schema, vec![vec![rows]])?;
    LogicalPlanBuilder::scan("columns", provider_as_source(Arc::new(table)), None)?.build()
}

/// DataFusion's list of all columns, with SQL's names of their types; read anew by each query.
#[derive(Debug)]
struct ListedColumns {
    listed: Arc<dyn TableProvider>,
    catalogs: Arc<dyn CatalogProviderList>,
}

#[async_trait]
impl TableProvider for ListedColumns {
    fn schema(&self) -> SchemaRef {
        self.listed.schema()
    }

    fn table_type(&self) -> TableType {
        self.listed.table_type()
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let listed = self.listed.scan(state, None, &[], None).await?;
        let mut rows = Vec::new();
        for batch in collect(listed, state.task_ctx()).await? {
            rows.push(self.with_types(&batch).await?);
        }
        let table = MemTable::try_new(self.schema(), vec![rows])?;
        table.scan(state, projection, filters, limit).await
    }
}

/// Catalog, schema and name of a table.
type FullName = (String, String, String);

impl ListedColumns {
    /// `batch` with the types of its columns as SQL calls them. The columns of a table follow each other, so it is looked
    /// up once.
    async fn with_types(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let [catalogs, schemas, tables] =
            [texts(batch, "table_catalog")?, texts(batch, "table_schema")?, texts(batch, "table_name")?];
        let (columns, types) = (texts(batch, "column_name")?, texts(batch, "data_type")?);
        let mut table = FullName::default();
        let mut schema = None;
        let mut names = Vec::with_capacity(batch.num_rows());
        for row in 0..batch.num_rows() {
            let (of_catalog, of_schema, of_table) =
                (catalogs.value(row), schemas.value(row), tables.value(row));
            if (of_catalog, of_schema, of_table) != (table.0.as_str(), table.1.as_str(), table.2.as_str()) {
                table = (of_catalog.to_owned(), of_schema.to_owned(), of_table.to_owned());
                schema = self.schema_of(&table).await?;
            }
            let field = schema.as_ref().and_then(|schema| schema.field_with_name(columns.value(row)).ok());
            // A table that was dropped meanwhile keeps what was listed.
            names.push(match field {
                Some(field) => sql_type_name(field.data_type()),
                None => types.value(row).to_owned(),
            });
        }
        let mut arrays = batch.columns().to_vec();
        arrays[batch.schema_ref().index_of("data_type")?] = Arc::new(StringArray::from(names));
        Ok(RecordBatch::try_new(batch.schema(), arrays)?)
    }

    async fn schema_of(&self, (catalog, schema, table): &FullName) -> Result<Option<SchemaRef>> {
        let found = self.catalogs.catalog(catalog).and_then(|catalog| catalog.schema(schema));
        let Some(found) = found else { return Ok(None) };
        Ok(found.table(table).await?.map(|table| table.schema()))
    }
}

fn texts<'a>(batch: &'a RecordBatch, name: &str) -> Result<&'a StringArray> {
    as_string_array(batch.column(batch.schema_ref().index_of(name)?))
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::{Field, Fields, IntervalUnit};

    use super::*;

    #[test]
    fn types_are_called_as_in_sql() {
        let field = |name: &str, data_type: DataType| Field::new(name, data_type, true);
        let item = |data_type: DataType| Arc::new(field("item", data_type));
        let fields = Fields::from(vec![field("a", DataType::Int32), field("B c", DataType::Utf8View)]);
        for (data_type, expected) in [
            (DataType::Int64, "BIGINT"),
            (DataType::Float64, "DOUBLE"),
            (DataType::Utf8View, "VARCHAR"),
            (DataType::Boolean, "BOOLEAN"),
            (DataType::Date32, "DATE"),
            (DataType::Decimal128(12, 2), "DECIMAL(12,2)"),
            (DataType::Timestamp(TimeUnit::Microsecond, None), "TIMESTAMP"),
            (DataType::Timestamp(TimeUnit::Nanosecond, None), "TIMESTAMP"),
            (DataType::Timestamp(TimeUnit::Millisecond, None), "TIMESTAMP(3)"),
            (DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())), "TIMESTAMP WITH TIME ZONE"),
            (DataType::Interval(IntervalUnit::MonthDayNano), "INTERVAL"),
            (DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)), "VARCHAR"),
            (DataType::List(item(DataType::Int32)), "INTEGER[]"),
            (DataType::List(item(DataType::List(item(DataType::Date32)))), "DATE[][]"),
            (DataType::Struct(fields), "STRUCT(a INTEGER, \"B c\" VARCHAR)"),
        ] {
            assert_eq!(sql_type_name(&data_type), expected);
        }
    }
}
