//! `.tables` and `.schema`: what there is to query.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use pelton_bench::results::TextTable;
use pelton_engine::{PeltonSession, bytes_text, from_datafusion, sql_type_name};
use pelton_error::{Error, Result};

use pelton_sqltext::nearest;

/// A table of all tables and views. A table that cannot be read has its error in place of its figures.
pub(super) async fn tables(session: Arc<PeltonSession>) -> Result<String> {
    let mut text = TextTable::new(&["table", "kind", "columns", "rows", "raw"]);
    for name in session.table_names() {
        let row = match session.context().table_provider(as_reference(&name)).await {
            Ok(table) => {
                let statistics = table.statistics();
                let rows = statistics.as_ref().and_then(|known| known.num_rows.get_value().copied());
                let bytes = statistics.and_then(|known| known.total_byte_size.get_value().copied());
                [
                    format!("{:?}", table.table_type()).to_lowercase().replace("base", "table"),
                    table.schema().fields().len().to_string(),
                    rows.map_or("-".to_owned(), |rows| rows.to_string()),
                    bytes.map_or("-".to_owned(), |bytes| bytes_text(bytes as u64)),
                ]
            }
            Err(error) => {
                [from_datafusion(error).to_string(), "-".to_owned(), "-".to_owned(), "-".to_owned()]
            }
        };
        text.push([name].into_iter().chain(row).collect());
    }
    Ok(text.to_string())
}

/// The columns of one table, or of all.
///
/// # Errors
///
/// Where there is no such table: names the nearest.
pub(super) async fn schema(session: Arc<PeltonSession>, table: Option<String>) -> Result<String> {
    let names = session.table_names();
    let wanted = match table {
        Some(name) => vec![name],
        None => names.clone(),
    };
    let mut text = String::new();
    for name in wanted {
        let found = session.context().table_provider(as_reference(&name)).await;
        let provider = found.map_err(|error| match nearest(&name, names.iter().map(String::as_str)) {
            Some(near) if near != name => {
                Error::invalid_input(format!("no table '{name}'; did you mean {near}?"))
            }
            _ if names.is_empty() => Error::invalid_input(format!("no table '{name}': there are none yet")),
            _ if !names.contains(&name) => {
                Error::invalid_input(format!("no table '{name}'; there are {}", names.join(", ")))
            }
            _ => from_datafusion(error),
        })?;
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&format!("{name}\n{}", columns(&provider.schema())));
    }
    Ok(text)
}

fn columns(schema: &SchemaRef) -> TextTable {
    let mut text = TextTable::new(&["column", "type", "NULL"]);
    for field in schema.fields() {
        let nullable = if field.is_nullable() { "yes" } else { "no" };
        text.push(vec![field.name().clone(), sql_type_name(field.data_type()), nullable.to_owned()]);
    }
    text
}

/// `name` with quotes, so that its dots and capitals are its own.
fn as_reference(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
