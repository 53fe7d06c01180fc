//! CSV, JSON and Arrow IPC files as a table, read by the readers of `pelton load`.
//!
//! Filters on the columns that folders name rule out files before they are opened.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{FieldRef, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::DFSchema;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::listing::helpers::{expr_applicable_for_cols, filter_partitioned_file};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use pelton_files::Sources;

use super::exec::FilesExec;
use super::table::scalar_of;

/// Files as a table.
#[derive(Debug)]
pub(super) struct TextTable {
    sources: Arc<Sources>,
    /// Columns that folders name.
    folders: Vec<FieldRef>,
}

impl TextTable {
    pub(super) fn new(sources: Arc<Sources>) -> Self {
        let field = |(column, _)| Arc::clone(&sources.schema().fields()[column]);
        let folders = match sources.file_count() {
            0 => Vec::new(),
            _ => sources.folders(0).map(field).collect(),
        };
        Self { sources, folders }
    }

    fn is_of_folders(&self, filter: &Expr) -> bool {
        let names: Vec<&str> = self.folders.iter().map(|field| field.name().as_str()).collect();
        !names.is_empty() && expr_applicable_for_cols(&names, filter)
    }

    /// The files that those of `filters` which look at folders alone leave.
    fn files_left(&self, filters: &[Expr]) -> Result<Vec<usize>> {
        let of_folders: Vec<Expr> =
            filters.iter().filter(|filter| self.is_of_folders(filter)).cloned().collect();
        let all = 0..self.sources.file_count();
        if of_folders.is_empty() {
            return Ok(all.collect());
        }
        let schema = DFSchema::try_from(Schema::new(self.folders.clone()))?;
        let mut left = Vec::new();
        for file in all {
            let mut named = PartitionedFile::new(self.sources.file_name(file), self.sources.file_bytes(file));
            named.partition_values =
                self.sources.folders(file).map(|(_, value)| scalar_of(value.clone())).collect();
            if filter_partitioned_file(named, &of_folders, &schema)?.is_some() {
                left.push(file);
            }
        }
        Ok(left)
    }
}

#[async_trait]
impl TableProvider for TextTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(self.sources.schema())
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let support = |filter: &&Expr| match self.is_of_folders(filter) {
            true => TableProviderFilterPushDown::Exact,
            false => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(support).collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let all = || (0..self.sources.schema().fields().len()).collect();
        let columns = projection.cloned().unwrap_or_else(all);
        let schema = Arc::new(self.sources.schema().project(&columns)?);
        let files = self.files_left(filters)?;
        if files.is_empty() {
            return Ok(Arc::new(EmptyExec::new(schema)));
        }
        let view = self.sources.view_of(columns, schema);
        let partition_count = state.config().target_partitions();
        Ok(Arc::new(FilesExec::new(view, files, partition_count, limit)))
    }
}
