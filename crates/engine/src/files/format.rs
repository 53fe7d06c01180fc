//! Parquet as DataFusion reads and writes it, with statistics that say no more than footers do ([`super::footer`]).

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::Session;
use datafusion::common::{GetExt, Statistics};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::file_format::{FileFormat, FileFormatFactory, FileMeta};
use datafusion::datasource::physical_plan::parquet::metadata::DFParquetMetadata;
use datafusion::datasource::physical_plan::{FileScanConfig, FileSinkConfig, FileSource};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_expr::{LexOrdering, LexRequirement};
use datafusion::physical_plan::ExecutionPlan;
use object_store::{ObjectMeta, ObjectStore};

use super::footer::told;

/// Puts it in the place of DataFusion's own, for files in queries and for CREATE EXTERNAL TABLE.
pub(super) fn install(builder: &mut SessionStateBuilder) {
    for factory in builder.file_formats().iter_mut().flatten() {
        if factory.get_ext() == "parquet" && !factory.is::<ParquetFactory>() {
            *factory = Arc::new(ParquetFactory(Arc::clone(factory)));
        }
    }
}

#[derive(Debug)]
struct ParquetFactory(Arc<dyn FileFormatFactory>);

impl GetExt for ParquetFactory {
    fn get_ext(&self) -> String {
        self.0.get_ext()
    }
}

impl FileFormatFactory for ParquetFactory {
    fn create(&self, state: &dyn Session, options: &HashMap<String, String>) -> Result<Arc<dyn FileFormat>> {
        Ok(Arc::new(Parquet(self.0.create(state, options)?)))
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        Arc::new(Parquet(self.0.default()))
    }
}

#[derive(Debug)]
struct Parquet(Arc<dyn FileFormat>);

impl Parquet {
    /// `statistics` of `object`, as far as its footer tells them.
    async fn told(
        &self,
        statistics: Statistics,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        schema: &SchemaRef,
        object: &ObjectMeta,
    ) -> Result<Statistics> {
        let cache = state.runtime_env().cache_manager.get_file_metadata_cache();
        let metadata = DFParquetMetadata::new(store.as_ref(), object).with_file_metadata_cache(Some(cache));
        Ok(told(statistics, metadata.fetch_metadata().await?.as_ref(), schema))
    }
}

#[async_trait]
impl FileFormat for Parquet {
    fn get_ext(&self) -> String {
        self.0.get_ext()
    }

    fn get_ext_with_compression(&self, compression: &FileCompressionType) -> Result<String> {
        self.0.get_ext_with_compression(compression)
    }

    fn compression_type(&self) -> Option<FileCompressionType> {
        self.0.compression_type()
    }

    async fn infer_schema(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        objects: &[ObjectMeta],
    ) -> Result<SchemaRef> {
        self.0.infer_schema(state, store, objects).await
    }

    async fn infer_stats(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<Statistics> {
        let found = self.0.infer_stats(state, store, Arc::clone(&table_schema), object).await?;
        self.told(found, state, store, &table_schema, object).await
    }

    async fn infer_ordering(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<Option<LexOrdering>> {
        self.0.infer_ordering(state, store, table_schema, object).await
    }

    async fn infer_stats_and_ordering(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<FileMeta> {
        let found = self.0.infer_stats_and_ordering(state, store, Arc::clone(&table_schema), object).await?;
        let statistics = self.told(found.statistics, state, store, &table_schema, object).await?;
        Ok(FileMeta::new(statistics).with_ordering(found.ordering))
    }

    async fn create_physical_plan(
        &self,
        state: &dyn Session,
        config: FileScanConfig,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.0.create_physical_plan(state, config).await
    }

    async fn create_writer_physical_plan(
        &self,
        input: Arc<dyn ExecutionPlan>,
        state: &dyn Session,
        config: FileSinkConfig,
        order: Option<LexRequirement>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.0.create_writer_physical_plan(input, state, config, order).await
    }

    fn file_source(&self, table_schema: TableSchema) -> Arc<dyn FileSource> {
        self.0.file_source(table_schema)
    }
}
