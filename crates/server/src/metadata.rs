//! Answers about what there is: catalogs, schemas, tables, types. Each is one small batch.
//!
//! The ticket of such an answer is the question itself, so nothing is kept for it.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow_flight::error::Result;
use arrow_flight::sql::Command;
use tonic::Status;

use crate::shared::Shared;
use crate::{sql_info, wire};

/// What tables are called that hold rows.
const TABLE: &str = "TABLE";
/// What tables are called that are queries.
const VIEW: &str = "VIEW";

/// The columns of the answer to `question`; `None` where it is no question about what there is.
pub(crate) fn schema(question: &Command) -> Option<SchemaRef> {
    Some(match question.clone() {
        Command::CommandGetCatalogs(question) => question.into_builder().schema(),
        Command::CommandGetDbSchemas(question) => question.into_builder().schema(),
        Command::CommandGetTables(question) => question.into_builder().schema(),
        Command::CommandGetTableTypes(question) => question.into_builder().schema(),
        Command::CommandGetSqlInfo(_) => {
            arrow_flight::sql::metadata::SqlInfoDataBuilder::schema().clone().into()
        }
        Command::CommandGetXdbcTypeInfo(_) => sql_info::types().ok()?.schema(),
        Command::CommandGetPrimaryKeys(_) => primary_keys(),
        Command::CommandGetExportedKeys(_)
        | Command::CommandGetImportedKeys(_)
        | Command::CommandGetCrossReference(_) => foreign_keys(),
        _ => return None,
    })
}

/// The answer to `question`, which [`schema`] knows.
pub(crate) async fn answer(
    shared: &Arc<Shared>,
    question: Command,
) -> std::result::Result<RecordBatch, Status> {
    let here = Arc::clone(shared);
    shared.on_queries(async move { rows(&here, question).await.map_err(Status::from) }).await
}

async fn rows(shared: &Shared, question: Command) -> Result<RecordBatch> {
    match question {
        Command::CommandGetCatalogs(question) => {
            let mut answer = question.into_builder();
            shared.session.context().catalog_names().into_iter().for_each(|name| answer.append(name));
            answer.build()
        }
        Command::CommandGetDbSchemas(question) => {
            let mut answer = question.into_builder();
            for (catalog, schema) in shared.session.list_schemas() {
                answer.append(catalog, schema);
            }
            answer.build()
        }
        Command::CommandGetTables(question) => tables(shared, question).await,
        Command::CommandGetTableTypes(question) => {
            let mut answer = question.into_builder();
            [TABLE, VIEW].into_iter().for_each(|name| answer.append(name));
            answer.build()
        }
        Command::CommandGetSqlInfo(question) => question.into_builder(&sql_info::facts()?).build(),
        Command::CommandGetXdbcTypeInfo(question) => question.into_builder(&sql_info::types()?).build(),
        // Star links are hints for skipping: nothing is enforced, so tables have no keys to report.
        other => Ok(RecordBatch::new_empty(schema(&other).unwrap_or_else(|| Arc::new(Schema::empty())))),
    }
}

async fn tables(shared: &Shared, question: arrow_flight::sql::CommandGetTables) -> Result<RecordBatch> {
    let mut answer = question.into_builder();
    for table in shared.session.list_tables(&|_, _, _| true).await {
        // A table that cannot be read is still there; the error is for those who query it.
        let (schema, is_view) = table.columns.unwrap_or_else(|_| (Arc::new(Schema::empty()), false));
        let kind = if is_view { VIEW } else { TABLE };
        answer.append(table.catalog, table.schema, table.name, kind, &wire::schema(&schema))?;
    }
    answer.build()
}

fn primary_keys() -> SchemaRef {
    Arc::new(Schema::new(vec![
        text("catalog_name", true),
        text("db_schema_name", true),
        text("table_name", false),
        text("column_name", false),
        Field::new("key_sequence", DataType::Int32, false),
        text("key_name", true),
    ]))
}

fn foreign_keys() -> SchemaRef {
    let mut fields = Vec::new();
    for side in ["pk", "fk"] {
        fields.push(text(&format!("{side}_catalog_name"), true));
        fields.push(text(&format!("{side}_db_schema_name"), true));
        fields.push(text(&format!("{side}_table_name"), false));
        fields.push(text(&format!("{side}_column_name"), false));
    }
    fields.push(Field::new("key_sequence", DataType::Int32, false));
    fields.push(text("fk_key_name", true));
    fields.push(text("pk_key_name", true));
    fields.push(Field::new("update_rule", DataType::UInt8, false));
    fields.push(Field::new("delete_rule", DataType::UInt8, false));
    Arc::new(Schema::new(fields))
}

fn text(name: &str, is_nullable: bool) -> Field {
    Field::new(name, DataType::Utf8, is_nullable)
}
