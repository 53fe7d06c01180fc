//! The warehouse as a DataFusion schema: tables are looked up when a query names them, so a session
//! sees tables that were loaded after it began, each query its own snapshot. A snapshot is kept, with the
//! metadata that was read of it, until the table has changed. Views and external tables that a session
//! creates live beside them, in memory.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use datafusion::catalog::{MemorySchemaProvider, SchemaProvider, TableProvider};
use datafusion::error::Result;
use pelton_error::Error;
use pelton_io::IoEngine;
use pelton_store::{Table, TableStamp, Warehouse};

use crate::error::to_datafusion;
use crate::memo::ZoneMemo;
use crate::provider::PeltonTable;
use crate::scan::{ScanOptions, ScanSource};

/// The catalog of a session.
pub(crate) const CATALOG: &str = "pelton";
/// The schema in it that has the warehouse's tables.
pub(crate) const SCHEMA: &str = "public";

/// A snapshot that is kept.
#[derive(Clone)]
struct Snapshot {
    stamp: TableStamp,
    table: Arc<Table>,
    memo: Arc<ZoneMemo>,
}

/// The tables of one warehouse and of this session.
pub(crate) struct WarehouseSchema {
    /// `None`: a session without a warehouse, for files and generated rows.
    pub(crate) warehouse: Option<Arc<Warehouse>>,
    pub(crate) io: Arc<IoEngine>,
    pub(crate) options: ScanOptions,
    session_tables: MemorySchemaProvider,
    snapshots: Mutex<HashMap<String, Snapshot>>,
    /// Counts what was registered and taken away.
    names_generation: AtomicU64,
}

impl fmt::Debug for WarehouseSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WarehouseSchema({:?})", self.table_names())
    }
}

impl WarehouseSchema {
    pub(crate) fn new(warehouse: Option<Arc<Warehouse>>, io: Arc<IoEngine>, options: ScanOptions) -> Self {
        Self {
            warehouse,
            io,
            options,
            session_tables: MemorySchemaProvider::new(),
            snapshots: Mutex::default(),
            names_generation: AtomicU64::new(0),
        }
    }

    /// The newest snapshot of `name`; `None` where the warehouse has no such table.
    fn snapshot(&self, warehouse: &Warehouse, name: &str) -> pelton_error::Result<Option<Snapshot>> {
        let Some(stamp) = warehouse.stamp(name) else {
            self.snapshots().remove(name);
            return Ok(None);
        };
        let known = |snapshots: &HashMap<String, Snapshot>| {
            snapshots.get(name).filter(|known| known.stamp == stamp).cloned()
        };
        if let Some(known) = known(&self.snapshots()) {
            return Ok(Some(known));
        }
        // A commit between stamp and opening leaves an older stamp, so the next query opens the table again.
        let snapshot = Snapshot { stamp, table: warehouse.table(name)?, memo: Arc::default() };
        let mut snapshots = self.snapshots();
        // Of two that opened it, all queries have the first.
        if let Some(known) = known(&snapshots) {
            return Ok(Some(known));
        }
        snapshots.insert(name.to_owned(), snapshot.clone());
        Ok(Some(snapshot))
    }

    fn snapshots(&self) -> MutexGuard<'_, HashMap<String, Snapshot>> {
        self.snapshots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those of `names` that are tables of the warehouse and not open yet.
    pub(crate) fn not_open(&self, names: &BTreeSet<String>) -> Vec<String> {
        let Some(warehouse) = &self.warehouse else { return Vec::new() };
        let is_new = |name: &&String| !self.snapshots().contains_key(*name) && warehouse.has_table(name);
        names.iter().filter(is_new).cloned().collect()
    }

    /// The newest snapshot of table `name`, opened unless it is; `None` where that fails or there is none.
    pub(crate) fn opened(&self, name: &str) -> Option<Arc<Table>> {
        let snapshot = self.snapshot(self.warehouse.as_ref()?, name).ok().flatten();
        snapshot.map(|Snapshot { table, .. }| table)
    }

    /// Changes with the session's own tables and views.
    pub(crate) fn names_generation(&self) -> u64 {
        self.names_generation.load(Ordering::Acquire)
    }

    /// Whether a query that names this table now would read this very snapshot.
    pub(crate) fn is_current(&self, table: &Arc<Table>) -> bool {
        let Some(warehouse) = &self.warehouse else { return false };
        let is_same = |snapshot: Snapshot| Arc::ptr_eq(&snapshot.table, table);
        !self.session_tables.table_exist(table.name())
            && self.snapshot(warehouse, table.name()).ok().flatten().is_some_and(is_same)
    }

    /// True for a table of the warehouse that nothing of the session hides.
    pub(crate) fn is_stored(&self, name: &str) -> bool {
        !self.session_tables.table_exist(name) && self.stored_names().iter().any(|stored| stored == name)
    }

    /// Refuses to drop what the session does not hold.
    ///
    /// # Errors
    ///
    /// `Unsupported` for a stored table.
    pub(crate) fn check_drop(&self, name: &str) -> pelton_error::Result<()> {
        if !self.is_stored(name) {
            return Ok(());
        }
        let message = format!("'{name}' is stored in the warehouse; `pelton drop {name}` deletes it");
        Err(Error::unsupported(message))
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
        let Some(warehouse) = &self.warehouse else { return Ok(None) };
        let snapshot = self.snapshot(warehouse, name).map_err(to_datafusion)?;
        let provider = snapshot.map(|Snapshot { table, memo, .. }| {
            let (io, options) = (Arc::clone(&self.io), self.options);
            Arc::new(PeltonTable::with_memo(ScanSource { table, memo, io, options }))
                as Arc<dyn TableProvider>
        });
        Ok(provider)
    }

    fn register_table(
        &self,
        name: String,
        table: Arc<dyn TableProvider>,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        self.names_generation.fetch_add(1, Ordering::AcqRel);
        self.session_tables.register_table(name, table)
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        self.check_drop(name).map_err(to_datafusion)?;
        self.names_generation.fetch_add(1, Ordering::AcqRel);
        self.session_tables.deregister_table(name)
    }

    fn table_exist(&self, name: &str) -> bool {
        self.session_tables.table_exist(name) || self.stored_names().iter().any(|stored| stored == name)
    }
}
