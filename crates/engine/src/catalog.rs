//! The warehouse as a DataFusion schema: tables are looked up when a query names them, so a session
//! sees tables that were loaded after it began, each query its own snapshot. Views and external tables
//! that a session creates live beside them, in memory.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{MemorySchemaProvider, SchemaProvider, TableProvider};
use datafusion::error::Result;
use pelton_store::{IoEngine, Warehouse};

use crate::provider;
use crate::scan::ScanOptions;

/// The tables of one warehouse and of this session.
pub(crate) struct WarehouseSchema {
    /// `None`: a session without a warehouse, for files and generated rows.
    pub(crate) warehouse: Option<Arc<Warehouse>>,
    pub(crate) io: Arc<IoEngine>,
    pub(crate) options: ScanOptions,
    session_tables: MemorySchemaProvider,
}

impl fmt::Debug for WarehouseSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WarehouseSchema({:?})", self.table_names())
    }
}

impl WarehouseSchema {
    pub(crate) fn new(warehouse: Option<Arc<Warehouse>>, io: Arc<IoEngine>, options: ScanOptions) -> Self {
        Self { warehouse, io, options, session_tables: MemorySchemaProvider::new() }
    }

    fn stored_names(&self) -> Vec<String> {
        self.warehouse.as_ref().and_then(|warehouse| warehouse.tables().ok()).unwrap_or_default()
    }
}

#[async_trait]
impl SchemaProvider for WarehouseSchema {
    fn table_names(&self) -> Vec<String> {
        let mut names = self.stored_names();
        names.extend(self.session_tables.table_names());
        names
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if let Some(table) = self.session_tables.table(name).await? {
            return Ok(Some(table));
        }
        match &self.warehouse {
            Some(warehouse) if self.stored_names().iter().any(|stored| stored == name) => {
                provider::open(warehouse, name, &self.io, self.options).map(Some)
            }
            _ => Ok(None),
        }
    }

    fn register_table(
        &self,
        name: String,
        table: Arc<dyn TableProvider>,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        self.session_tables.register_table(name, table)
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        self.session_tables.deregister_table(name)
    }

    fn table_exist(&self, name: &str) -> bool {
        self.session_tables.table_exist(name) || self.stored_names().iter().any(|stored| stored == name)
    }
}
