//! A Pelton table as DataFusion sees it.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DFSchema, Statistics};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use pelton_error::Error;
use pelton_io::IoEngine;
use pelton_store::Table;

use crate::error::to_datafusion;
use crate::planning;
use crate::scan::{PeltonScanExec, ScanOptions, ScanSource};
use crate::statistics;

/// One snapshot of a table. All filters are evaluated inside the scan, exactly.
pub struct PeltonTable {
    source: ScanSource,
    schema: SchemaRef,
}

impl PeltonTable {
    /// Serves `table` through `io`.
    pub fn new(table: Arc<Table>, io: Arc<IoEngine>, options: ScanOptions) -> Self {
        Self::with_memo(ScanSource { table, memo: Arc::default(), io, options })
    }

    /// Serves the snapshot of `source`, whose memo another provider may share.
    pub(crate) fn with_memo(source: ScanSource) -> Self {
        Self { schema: source.table.arrow_schema(), source }
    }

    /// The snapshot.
    pub(crate) fn table(&self) -> &Arc<Table> {
        &self.source.table
    }

    fn plan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<PeltonScanExec> {
        let schema = DFSchema::try_from(Arc::clone(&self.schema))?;
        let conjuncts = filters
            .iter()
            .flat_map(split_conjunction)
            .map(|expr| state.create_physical_expr(expr.clone(), &schema))
            .collect::<Result<Vec<_>>>()?;
        PeltonScanExec::try_new(
            self.source.clone(),
            projection.map(Vec::as_slice),
            conjuncts,
            limit,
            state.config().target_partitions(),
        )
    }
}

impl fmt::Debug for PeltonTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PeltonTable({})", self.source.table.name())
    }
}

#[async_trait]
impl TableProvider for PeltonTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Exact; filters.len()])
    }

    fn statistics(&self) -> Option<Statistics> {
        Some(statistics::of_table(&self.source.table))
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        planning::check()?;
        Ok(Arc::new(self.plan(state, projection, filters, limit)?))
    }

    async fn insert_into(
        &self,
        _: &dyn Session,
        _: Arc<dyn ExecutionPlan>,
        _: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Err(self.is_loaded_only())
    }

    async fn delete_from(&self, _: &dyn Session, _: Vec<Expr>) -> Result<Arc<dyn ExecutionPlan>> {
        Err(self.is_loaded_only())
    }

    async fn update(
        &self,
        _: &dyn Session,
        _: Vec<(String, Expr)>,
        _: Vec<Expr>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Err(self.is_loaded_only())
    }
}

impl PeltonTable {
    /// Why no statement changes it.
    fn is_loaded_only(&self) -> DataFusionError {
        let name = self.source.table.name();
        to_datafusion(Error::unsupported(format!(
            "'{name}' is changed by loads alone: `pelton load --append` adds rows, `--replace` replaces them"
        )))
    }
}
