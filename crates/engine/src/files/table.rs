//! A set of files of one format, listed once, with the columns that their folders name.
//!
//! Filters on partition columns rule out files before they are opened; other filters go to the format's own scan, which
//! may use them and need not.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, DFSchema, Statistics};
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::listing::helpers::{expr_applicable_for_cols, filter_partitioned_file};
use datafusion::datasource::object_store::ObjectStoreUrl;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder};
use datafusion::datasource::table_schema::TableSchemaBuilder;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::scalar::ScalarValue;
use futures::{StreamExt, TryStreamExt};
use object_store::ObjectMeta;
use pelton_remote::{PartitionColumn, PartitionType, PartitionValue, Partitions};

/// Files as a table.
#[derive(Debug)]
pub(super) struct FilesTable {
    store_url: ObjectStoreUrl,
    format: Arc<dyn FileFormat>,
    /// What the files hold.
    file_schema: SchemaRef,
    /// What their folders say, where the files do not.
    folders: Vec<FieldRef>,
    /// Both, in this order.
    schema: SchemaRef,
    files: Vec<PartitionedFile>,
}

impl FilesTable {
    /// Of `objects`, whose folders say `partitions`.
    pub(super) fn new(
        store_url: ObjectStoreUrl,
        format: Arc<dyn FileFormat>,
        file_schema: &SchemaRef,
        objects: Vec<ObjectMeta>,
        partitions: Partitions,
    ) -> Result<Self> {
        let is_folder = |column: &PartitionColumn| file_schema.field_with_name(&column.name).is_err();
        let used: Vec<bool> = partitions.columns.iter().map(is_folder).collect();
        let fields = partitions.columns.iter().zip(&used).filter(|(_, used)| **used);
        let folders: Vec<FieldRef> = fields.map(|(column, _)| Arc::new(field_of(column))).collect();
        let files = objects.into_iter().zip(partitions.values).map(|(object, values)| {
            let values = values.into_iter().zip(&used).filter(|(_, used)| **used);
            let mut file = PartitionedFile::from(object);
            file.partition_values = values.map(|(value, _)| scalar_of(value)).collect();
            file
        });
        let all: Vec<FieldRef> = file_schema.fields().iter().chain(&folders).cloned().collect();
        let schema = Schema::new_with_metadata(all, file_schema.metadata().clone());
        Ok(Self {
            store_url,
            format,
            file_schema: Arc::clone(file_schema),
            files: files.collect(),
            folders,
            schema: Arc::new(schema),
        })
    }

    fn is_of_folders(&self, filter: &Expr) -> bool {
        let names: Vec<&str> = self.folders.iter().map(|field| field.name().as_str()).collect();
        !names.is_empty() && expr_applicable_for_cols(&names, filter)
    }

    /// The files that those of `filters` which look at folders alone leave.
    fn files_left(&self, filters: &[Expr]) -> Result<Vec<PartitionedFile>> {
        let of_folders: Vec<Expr> =
            filters.iter().filter(|filter| self.is_of_folders(filter)).cloned().collect();
        if of_folders.is_empty() {
            return Ok(self.files.clone());
        }
        let schema = DFSchema::try_from(Schema::new(self.folders.clone()))?;
        let left =
            |file: &PartitionedFile| filter_partitioned_file(file.clone(), &of_folders, &schema).transpose();
        self.files.iter().filter_map(left).collect()
    }

    /// The files with what their footers say of rows and bounds, in order.
    async fn with_statistics(
        &self,
        state: &dyn Session,
        files: Vec<PartitionedFile>,
    ) -> Result<Vec<PartitionedFile>> {
        if !state.config().collect_statistics() {
            return Ok(files);
        }
        let store = state.runtime_env().object_store(&self.store_url)?;
        let known = files.into_iter().map(|file| {
            let store = &store;
            async move {
                let schema = Arc::clone(&self.file_schema);
                let known = self.format.infer_stats(state, store, schema, &file.object_meta).await?;
                Ok(with_nulls(file.with_statistics(Arc::new(known)), self.file_schema.fields().len()))
            }
        });
        let at_once = state.config_options().execution.meta_fetch_concurrency.get();
        futures::stream::iter(known.collect::<Vec<_>>()).buffered(at_once).try_collect().await
    }
}

/// Corrects what is said of the folders' columns, from `first` on, where their value is NULL: DataFusion takes any value
/// of a folder for one that is there.
fn with_nulls(mut file: PartitionedFile, first: usize) -> PartitionedFile {
    if let Some(statistics) = &mut file.statistics
        && file.partition_values.iter().any(ScalarValue::is_null)
    {
        let statistics = Arc::make_mut(statistics);
        let rows = statistics.num_rows;
        for (column, value) in statistics.column_statistics[first..].iter_mut().zip(&file.partition_values) {
            if value.is_null() {
                *column = ColumnStatistics { null_count: rows, ..ColumnStatistics::new_unknown() };
            }
        }
    }
    file
}

fn field_of(column: &PartitionColumn) -> Field {
    let data_type = match column.kind {
        PartitionType::Int64 => DataType::Int64,
        PartitionType::Date => DataType::Date32,
        PartitionType::Text => DataType::Utf8View,
    };
    Field::new(&column.name, data_type, true)
}

pub(super) fn scalar_of(value: PartitionValue) -> ScalarValue {
    match value {
        PartitionValue::Int64(value) => ScalarValue::Int64(value),
        PartitionValue::Date(value) => ScalarValue::Date32(value),
        PartitionValue::Text(value) => ScalarValue::Utf8View(value),
    }
}

/// Statistics of all `files` together; nothing is known where one file says nothing.
fn merged(files: &[PartitionedFile], schema: &Schema) -> Statistics {
    let each: Option<Vec<&Statistics>> = files.iter().map(|file| file.statistics.as_deref()).collect();
    let all = each.filter(|all| !all.is_empty());
    all.and_then(|all| Statistics::try_merge_iter(all, schema).ok())
        .unwrap_or_else(|| Statistics::new_unknown(schema))
}

/// The limit, where the first files are known to hold as many rows: how many files those are.
fn files_needed(files: &[PartitionedFile], limit: usize) -> usize {
    let mut rows = 0;
    for (index, file) in files.iter().enumerate() {
        match file.statistics.as_ref().map(|statistics| statistics.num_rows) {
            Some(Precision::Exact(count)) => rows += count,
            _ => return files.len(),
        }
        if rows >= limit {
            return index + 1;
        }
    }
    files.len()
}

#[async_trait]
impl TableProvider for FilesTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let support = |filter: &&Expr| match self.is_of_folders(filter) {
            true => TableProviderFilterPushDown::Exact,
            false => TableProviderFilterPushDown::Inexact,
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
        let mut files = self.with_statistics(state, self.files_left(filters)?).await?;
        // What the folder of a file without rows says is no value of the table.
        let is_empty = |known: &Arc<Statistics>| known.num_rows == Precision::Exact(0);
        files.retain(|file| !file.statistics.as_ref().is_some_and(is_empty));
        let filters_rows = filters.iter().any(|filter| !self.is_of_folders(filter));
        if let (Some(limit), false) = (limit, filters_rows) {
            files.truncate(files_needed(&files, limit).max(1));
        }
        if files.is_empty() {
            let schema = match projection {
                Some(columns) => Arc::new(self.schema.project(columns)?),
                None => self.schema(),
            };
            return Ok(Arc::new(EmptyExec::new(schema)));
        }
        let statistics = merged(&files, &self.schema);
        let groups = FileGroup::new(files).split_files(state.config().target_partitions().max(1));
        let table_schema = TableSchemaBuilder::from(&self.file_schema)
            .with_table_partition_cols(self.folders.clone())
            .build();
        let source = self.format.file_source(table_schema);
        let config = FileScanConfigBuilder::new(self.store_url.clone(), source)
            .with_file_groups(groups)
            .with_statistics(statistics)
            .with_projection_indices(projection.cloned())?
            .with_limit(limit)
            .build();
        self.format.create_physical_plan(state, config).await
    }
}
