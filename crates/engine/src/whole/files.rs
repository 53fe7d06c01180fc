//! What is written to files: where DataFusion's sinks are told otherwise.
//!
//! | DataFusion | here |
//! |---|---|
//! | NULL and the empty text are one in CSV | as `--output` writes them ([`Delimited`]); nested values are JSON |
//! | JSON leaves out keys whose value is NULL | every line has every key |
//! | NULL names the folder of 0, of 1970-01-01 or of the empty text | a folder of its own (`folders.rs`) |
//! | COPY adds files to a folder that has some | refused |
//! | a device without an ending becomes a folder | it gets the bytes |

use std::fmt;
use std::sync::Arc;

use arrow::json::WriterBuilder as JsonBuilder;
use arrow::json::writer::LineDelimited;
use bytes::Bytes;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::runtime::SpawnedTask;
use datafusion::datasource::file_format::csv::CsvSink;
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::file_format::json::JsonSink;
use datafusion::datasource::file_format::parquet::ParquetSink;
use datafusion::datasource::file_format::write::demux::DemuxedStreamReceiver;
use datafusion::datasource::file_format::write::orchestration::spawn_writer_tasks_and_join;
use datafusion::datasource::file_format::write::{BatchSerializer, get_writer_schema};
use datafusion::datasource::physical_plan::{FileOutputMode, FileSink, FileSinkConfig};
use datafusion::datasource::sink::{DataSink, DataSinkExec};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType};
use futures::StreamExt;
use object_store::ObjectStore;
use pelton_error::Error;
use tokio::sync::mpsc;

use super::folders;
use crate::error::to_datafusion;
use crate::rows::{Delimited, NonFinite};

/// The sink of `writing`, which writes files.
#[derive(Debug)]
pub(super) struct Files {
    writing: DataSinkExec,
    config: FileSinkConfig,
}

impl Files {
    /// `None` for a sink that writes no files, and for that of Arrow files, which DataFusion keeps to itself.
    pub(super) fn of(writing: &DataSinkExec) -> Option<Self> {
        let config = located(file_sink(writing.sink())?.config().clone());
        Some(Self { writing: writing.clone(), config })
    }

    pub(super) async fn write(
        &self,
        data: SendableRecordBatchStream,
        context: &Arc<TaskContext>,
    ) -> Result<u64> {
        self.check_folder(context).await?;
        if self.config.table_partition_cols.is_empty() {
            return FileSink::write_all(self, data, context).await;
        }
        let store = context.runtime_env().object_store(&self.config.object_store_url)?;
        let batches_max =
            context.session_config().options().execution.max_buffered_batches_per_output_file.get();
        let (sender, files) = mpsc::unbounded_channel();
        let demux = SpawnedTask::spawn(folders::split(data, self.config.clone(), batches_max, sender));
        self.spawn_writer_tasks_and_join(context, demux, files, store).await
    }

    /// Refuses to mix the files of a COPY with others. INSERT adds files to a table, and has no text that names them.
    async fn check_folder(&self, context: &Arc<TaskContext>) -> Result<()> {
        let (config, path) = (&self.config, &self.config.table_paths[0]);
        let is_file =
            config.table_partition_cols.is_empty() && config.file_output_mode.single_file_output(path);
        if config.original_url.is_empty() || is_file {
            return Ok(());
        }
        let store = context.runtime_env().object_store(&config.object_store_url)?;
        // A bucket may be open for writing and not for listing.
        let Some(Ok(found)) = store.list(Some(path.prefix())).next().await else { return Ok(()) };
        let name = found.location.filename().unwrap_or_default();
        Err(to_datafusion(Error::invalid_input(format!(
            "COPY writes to an empty folder, and '{}' has files, such as '{name}'; name another folder or remove them. \
             CREATE EXTERNAL TABLE and INSERT INTO add to a folder",
            config.original_url
        ))))
    }

    /// What makes text of rows, in place of DataFusion's, and how the text is compressed.
    fn text(&self) -> Option<(Arc<dyn BatchSerializer>, FileCompressionType, Option<u32>)> {
        if let Some(json) = self.writing.sink().downcast_ref::<JsonSink>() {
            let options = json.writer_options();
            return Some((Arc::new(JsonLines), options.compression.into(), options.compression_level));
        }
        let options = self.writing.sink().downcast_ref::<CsvSink>()?.writer_options();
        // DataFusion's reader, which reads tables that take INSERT, skips the empty line that is NULL in a single column.
        if self.config.original_url.is_empty() && get_writer_schema(&self.config).fields().len() == 1 {
            return None;
        }
        let has_header = options.writer_options.header();
        let lines = CsvLines { delimited: Delimited::of(&options.writer_options)?, has_header };
        Some((Arc::new(lines), options.compression.into(), options.compression_level))
    }
}

/// The sink of files that `sink` is.
fn file_sink(sink: &dyn DataSink) -> Option<&dyn FileSink> {
    if let Some(sink) = sink.downcast_ref::<CsvSink>() {
        return Some(sink);
    }
    if let Some(sink) = sink.downcast_ref::<JsonSink>() {
        return Some(sink);
    }
    sink.downcast_ref::<ParquetSink>().map(|sink| sink as &dyn FileSink)
}

/// `config` with what is there and no folder as the only file.
fn located(mut config: FileSinkConfig) -> FileSinkConfig {
    let path = &config.table_paths[0];
    let is_there = path.scheme() == "file"
        && path.get_url().to_file_path().is_ok_and(|path| path.exists() && !path.is_dir());
    if is_there && config.file_output_mode == FileOutputMode::Automatic {
        config.file_output_mode = FileOutputMode::SingleFile;
    }
    config
}

impl DisplayAs for Files {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.writing.sink().fmt_as(format, f)
    }
}

#[async_trait::async_trait]
impl DataSink for Files {
    fn schema(&self) -> &SchemaRef {
        self.writing.sink().schema()
    }

    async fn write_all(&self, data: SendableRecordBatchStream, context: &Arc<TaskContext>) -> Result<u64> {
        self.write(data, context).await
    }
}

#[async_trait::async_trait]
impl FileSink for Files {
    fn config(&self) -> &FileSinkConfig {
        &self.config
    }

    async fn spawn_writer_tasks_and_join(
        &self,
        context: &Arc<TaskContext>,
        demux: SpawnedTask<Result<()>>,
        files: DemuxedStreamReceiver,
        store: Arc<dyn ObjectStore>,
    ) -> Result<u64> {
        if let Some((text, compression, level)) = self.text() {
            return spawn_writer_tasks_and_join(context, text, compression, level, store, demux, files).await;
        }
        let sink = file_sink(self.writing.sink()).expect("Files::of has looked");
        sink.spawn_writer_tasks_and_join(context, demux, files, store).await
    }
}

/// Rows as lines of fields.
struct CsvLines {
    delimited: Delimited,
    has_header: bool,
}

impl BatchSerializer for CsvLines {
    fn serialize(&self, batch: RecordBatch, is_first: bool) -> Result<Bytes> {
        let mut text = Vec::new();
        if self.has_header && is_first {
            self.delimited.write_header(&mut text, &batch.schema())?;
        }
        self.delimited.write_rows(&mut text, &batch)?;
        Ok(text.into())
    }
}

/// Rows as an object per line, NULL as null.
struct JsonLines;

impl BatchSerializer for JsonLines {
    fn serialize(&self, batch: RecordBatch, _: bool) -> Result<Bytes> {
        let mut text = Vec::new();
        let json = JsonBuilder::new().with_explicit_nulls(true).with_encoder_factory(Arc::new(NonFinite));
        let mut writer = json.build::<_, LineDelimited>(&mut text);
        writer.write(&batch)?;
        writer.finish()?;
        drop(writer);
        Ok(text.into())
    }
}
