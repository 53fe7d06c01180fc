//! `CREATE EXTERNAL TABLE name STORED AS PELTON LOCATION 'warehouse/table'`.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider, TableProviderFactory};
use datafusion::error::Result;
use datafusion::logical_expr::CreateExternalTable;
use pelton_error::Error;
use pelton_io::IoEngine;

use crate::error::to_datafusion;
use crate::extension::table_in;
use crate::provider::PeltonTable;
use crate::scan::ScanOptions;

/// Makes tables of directories. A table is the snapshot that stood when it was created.
pub(crate) struct PeltonTableFactory {
    io: Arc<IoEngine>,
    scan: ScanOptions,
}

impl PeltonTableFactory {
    /// Its tables are read through `io`.
    pub(crate) fn new(io: Arc<IoEngine>, scan: ScanOptions) -> Self {
        Self { io, scan }
    }

    fn table(&self, command: &CreateExternalTable) -> pelton_error::Result<PeltonTable> {
        check(command)?;
        let [location] = command.locations.as_slice() else {
            return Err(Error::invalid_input(
                "STORED AS PELTON takes one LOCATION, the directory of a table",
            ));
        };
        let directory = location.strip_prefix("file://").unwrap_or(location);
        if directory.contains("://") {
            return Err(Error::unsupported(format!(
                "'{location}': Pelton tables are read from disks of this machine; load the data into one, or query \
                 Parquet files there by URL"
            )));
        }
        Ok(PeltonTable::new(table_in(Path::new(directory))?, Arc::clone(&self.io), self.scan))
    }
}

/// Refuses what a stored table says itself.
fn check(command: &CreateExternalTable) -> pelton_error::Result<()> {
    let refused = [
        (!command.schema.fields().is_empty(), "its columns; leave the list out"),
        (!command.table_partition_cols.is_empty(), "its columns; leave PARTITIONED BY out"),
        (!command.order_exprs.is_empty(), "its order; leave WITH ORDER out"),
        (!command.options.is_empty(), "all there is to say of it; leave OPTIONS out"),
        (command.unbounded, "that it ends; leave UNBOUNDED out"),
    ];
    match refused.iter().find(|(is_given, _)| *is_given) {
        Some((_, what)) => {
            Err(Error::invalid_input(format!("table '{}': a Pelton table knows {what}", command.name)))
        }
        None => Ok(()),
    }
}

impl fmt::Debug for PeltonTableFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PeltonTableFactory")
    }
}

#[async_trait]
impl TableProviderFactory for PeltonTableFactory {
    async fn create(
        &self,
        _state: &dyn Session,
        command: &CreateExternalTable,
    ) -> Result<Arc<dyn TableProvider>> {
        Ok(Arc::new(self.table(command).map_err(to_datafusion)?))
    }
}
