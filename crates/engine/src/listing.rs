//! What there is to query: catalogs, schemas, tables and their columns, for those who show them to users.

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::datasource::TableType;
use futures::future::BoxFuture;

use crate::error::from_datafusion;
use crate::session::PeltonSession;

/// A table or view by its full name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedTable {
    /// The catalog it is in.
    pub catalog: String,
    /// The schema of that catalog it is in.
    pub schema: String,
    /// Its name in that schema.
    pub name: String,
    /// Its columns and whether it is a view; the error of reading them, where it cannot be read.
    pub columns: Result<(SchemaRef, bool), String>,
}

impl PeltonSession {
    /// Tables and views that a statement may name without saying where they are, in alphabetical order.
    pub fn table_names(&self) -> Vec<String> {
        let state = self.context().state();
        let catalog = &state.config_options().catalog;
        let schema = self.context().catalog(&catalog.default_catalog);
        let schema = schema.and_then(|found| found.schema(&catalog.default_schema));
        let mut names = schema.map(|schema| schema.table_names()).unwrap_or_default();
        names.sort();
        names.dedup();
        names
    }

    /// Every schema, as catalog and name.
    pub fn list_schemas(&self) -> Vec<(String, String)> {
        let mut schemas = Vec::new();
        for catalog in self.context().catalog_names() {
            let provider = self.context().catalog(&catalog);
            let names = provider.map(|provider| provider.schema_names()).unwrap_or_default();
            schemas.extend(names.into_iter().map(|name| (catalog.clone(), name)));
        }
        schemas
    }

    /// The tables and views whose full name `wanted` accepts, given catalog, schema and name. Reads the newest
    /// manifest of each.
    pub fn list_tables<'a>(
        &'a self,
        wanted: &'a (dyn Fn(&str, &str, &str) -> bool + Sync),
    ) -> BoxFuture<'a, Vec<ListedTable>> {
        Box::pin(async move {
            let mut tables = Vec::new();
            for (catalog, schema) in self.list_schemas() {
                let provider = self.context().catalog(&catalog).and_then(|provider| provider.schema(&schema));
                let Some(provider) = provider else { continue };
                for name in provider.table_names() {
                    if !wanted(&catalog, &schema, &name) {
                        continue;
                    }
                    let columns = match provider.table(&name).await {
                        Ok(Some(table)) => Ok((table.schema(), table.table_type() == TableType::View)),
                        Ok(None) => continue, // dropped since the names were read
                        Err(error) => Err(from_datafusion(error).to_string()),
                    };
                    tables.push(ListedTable {
                        catalog: catalog.clone(),
                        schema: schema.clone(),
                        name,
                        columns,
                    });
                }
            }
            tables
        })
    }
}
