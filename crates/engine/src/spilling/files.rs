//! Rows in files, and rows in files by the hash of their keys.
//!
//! ```text
//!   batches ──▶ buffer, to some hundred KiB ──▶ rows of part 0, 1, … ──▶ one file each, of Arrow IPC
//! ```
//!
//! Parts of a buffer are written as one batch each, so that small parts do not make tiny batches.

use std::io::{BufWriter, IntoInnerError};
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListArray, RecordBatch};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::compute::interleave_record_batch;
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::arrow::ipc::writer::StreamWriter;
use datafusion::common::NullEquality;
use datafusion::common::hash_utils::{RandomState, create_hashes};
use datafusion::common::utils::memory::RecordBatchMemoryCounter;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, SpillFile, SpillWriter, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::SpillManager;
use datafusion::physical_plan::metrics::SpillMetrics;
use datafusion::physical_plan::spill::get_record_batch_memory_size;

/// Rows in files, of one schema.
#[derive(Clone, Default)]
pub(crate) struct Rows {
    files: Vec<Arc<dyn SpillFile>>,
    /// How many.
    pub(crate) rows: usize,
    /// Bytes in memory.
    pub(crate) bytes: usize,
    /// Of the largest batch.
    pub(crate) batch_bytes: usize,
    pub(crate) batch_rows: usize,
}

impl Rows {
    /// These and `other`.
    pub(crate) fn append(&mut self, other: Self) {
        self.files.extend(other.files);
        self.rows += other.rows;
        self.bytes += other.bytes;
        self.batch_bytes = self.batch_bytes.max(other.batch_bytes);
        self.batch_rows = self.batch_rows.max(other.batch_rows);
    }

    /// Reads them, file by file.
    pub(crate) fn read(&self, spill: &Spill) -> Result<SendableRecordBatchStream> {
        use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
        use futures::TryStreamExt;
        let (spill, files) = (spill.clone(), self.files.clone());
        let schema = Arc::clone(spill.manager.schema());
        let streams = files.into_iter().map(move |file| spill.manager.read_spill_as_stream(file, None));
        let rows = futures::stream::iter(streams).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}

/// Where rows of one schema go.
#[derive(Clone)]
pub(crate) struct Spill {
    manager: Arc<SpillManager>,
    context: Arc<TaskContext>,
    metrics: SpillMetrics,
}

impl Spill {
    /// Files of the query that `context` is of.
    pub(crate) fn new(context: &Arc<TaskContext>, metrics: &SpillMetrics, schema: SchemaRef) -> Self {
        let manager = SpillManager::new(context.runtime_env(), metrics.clone(), schema);
        // Two batches ahead of the reader, as DataFusion's operators have it, are too many where there are many readers.
        let manager = Arc::new(manager.with_batch_read_buffer_capacity(1));
        Self { manager, context: Arc::clone(context), metrics: metrics.clone() }
    }

    /// What is written.
    pub(crate) fn schema(&self) -> &SchemaRef {
        self.manager.schema()
    }
}

/// A file that rows are being written to.
type Open = (Arc<dyn SpillFile>, StreamWriter<BufWriter<Box<dyn SpillWriter>>>);

/// A batch is a dozen pieces, most of some bytes: each would be a write of its own.
const WRITE_BYTES: usize = 16 << 10;

/// One file while it is written; it is made with its first rows.
pub(crate) struct Writer {
    spill: Spill,
    writer: Option<Open>,
    written: Rows,
}

impl Writer {
    /// Of rows that `spill` is for.
    pub(crate) fn new(spill: Spill) -> Self {
        Self { spill, writer: None, written: Rows::default() }
    }

    /// What was written so far, in bytes in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.written.bytes
    }

    /// Appends `batch`.
    ///
    /// # Errors
    ///
    /// Of the file: the limit, a full disk.
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let batch = compact(batch)?;
        let batch = batch.with_schema(Arc::clone(self.spill.schema()))?;
        if self.writer.is_none() {
            let file = self.spill.context.runtime_env().disk_manager.create_tmp_file("rows by key")?;
            let writer = BufWriter::with_capacity(WRITE_BYTES, file.open_writer()?);
            let writer = StreamWriter::try_new(writer, self.spill.schema())?;
            self.writer = Some((file, writer));
            self.spill.metrics.spill_file_count.add(1);
        }
        if let Some((_, writer)) = &mut self.writer {
            writer.write(&batch)?;
        }
        let bytes = get_record_batch_memory_size(&batch);
        self.spill.metrics.spilled_rows.add(batch.num_rows());
        self.spill.metrics.spilled_bytes.add(bytes);
        self.written.rows += batch.num_rows();
        self.written.bytes += bytes;
        self.written.batch_bytes = self.written.batch_bytes.max(bytes);
        self.written.batch_rows = self.written.batch_rows.max(batch.num_rows());
        Ok(())
    }

    /// What was written.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    pub(crate) fn end(mut self) -> Result<Rows> {
        if let Some((file, mut writer)) = self.writer.take() {
            writer.finish()?;
            let mut writer = writer.into_inner()?.into_inner().map_err(IntoInnerError::into_error)?;
            writer.finish()?;
            self.written.files.push(file);
        }
        Ok(self.written)
    }
}

/// `batch` with texts in buffers of their own: slices and rows that were picked keep all that they were picked from.
fn compact(batch: &RecordBatch) -> Result<RecordBatch> {
    let columns = batch.columns().iter().map(compacted).collect::<Result<_>>()?;
    Ok(RecordBatch::try_new(batch.schema(), columns)?)
}

fn compacted(column: &ArrayRef) -> Result<ArrayRef> {
    Ok(match column.data_type() {
        DataType::Utf8View => Arc::new(column.as_string_view().gc()),
        DataType::BinaryView => Arc::new(column.as_binary_view().gc()),
        // What distinct values of groups are.
        DataType::List(item) => {
            let (lists, offsets) = (column.as_list::<i32>(), column.as_list::<i32>().offsets());
            let (first, end) = (offsets[0], offsets[lists.len()]);
            let values = compacted(&lists.values().slice(first as usize, (end - first) as usize))?;
            let offsets = OffsetBuffer::from_lengths(offsets.lengths());
            Arc::new(ListArray::try_new(Arc::clone(item), offsets, values, lists.nulls().cloned())?)
        }
        _ => Arc::clone(column),
    })
}

/// What decides which part a row goes to.
#[derive(Clone)]
pub(crate) struct Keys {
    /// The keys, over the rows.
    pub(crate) exprs: Vec<Arc<dyn PhysicalExpr>>,
    /// Whether NULL is a key like others; where it is not, rows with one are dealt out, as they match nothing.
    pub(crate) nulls: NullEquality,
    /// Another at each level, so that parts of a part differ.
    pub(crate) seed: u64,
}

/// Deals rows out to files.
pub(crate) struct Partitioner {
    keys: Keys,
    writers: Vec<Writer>,
    buffer: Vec<RecordBatch>,
    /// Of what is in the buffer. Batches may be slices of the same memory: of a scan, all those of a row group are.
    buffered: RecordBatchMemoryCounter,
    buffer_bytes: usize,
    /// Rows with a NULL key so far.
    null_rows: usize,
}

impl Partitioner {
    /// To `parts` files; at most about `buffer_bytes` wait in memory.
    pub(crate) fn new(keys: Keys, parts: usize, buffer_bytes: usize, spill: &Spill) -> Self {
        let writers = (0..parts).map(|_| Writer::new(spill.clone())).collect();
        Self {
            keys,
            writers,
            buffer: Vec::new(),
            buffered: RecordBatchMemoryCounter::new(),
            buffer_bytes,
            null_rows: 0,
        }
    }

    /// Takes `batch`.
    ///
    /// # Errors
    ///
    /// Of the files, and of expressions.
    pub(crate) fn add(&mut self, batch: RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        self.buffered.count_batch(&batch);
        self.buffer.push(batch);
        if self.buffered.memory_usage() >= self.buffer_bytes { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        let batches = std::mem::take(&mut self.buffer);
        self.buffered = RecordBatchMemoryCounter::new();
        let mut places: Vec<Vec<(usize, usize)>> = vec![Vec::new(); self.writers.len()];
        for (number, batch) in batches.iter().enumerate() {
            for (row, part) in self.parts(batch)?.into_iter().enumerate() {
                places[part].push((number, row));
            }
        }
        let batches: Vec<&RecordBatch> = batches.iter().collect();
        for (writer, places) in self.writers.iter_mut().zip(places) {
            if !places.is_empty() {
                writer.write(&interleave_record_batch(&batches, &places)?)?;
            }
        }
        Ok(())
    }

    /// The part of each row.
    fn parts(&mut self, batch: &RecordBatch) -> Result<Vec<usize>> {
        let rows = batch.num_rows();
        let keys = self.keys.exprs.iter().map(|key| key.evaluate(batch)?.into_array(rows));
        let keys = keys.collect::<Result<Vec<ArrayRef>>>()?;
        let mut hashes = vec![0; rows];
        create_hashes(&keys, &RandomState::with_seed(self.keys.seed), &mut hashes)?;
        let count = self.writers.len() as u64;
        // The upper half: tables use the lower bits.
        let mut parts: Vec<usize> =
            hashes.into_iter().map(|hash| (((hash >> 32) * count) >> 32) as usize).collect();
        for nulls in keys.iter().filter_map(|key| key.logical_nulls()) {
            for row in (0..rows).filter(|&row| nulls.is_null(row)) {
                if self.keys.nulls == NullEquality::NullEqualsNothing {
                    parts[row] = self.null_rows % self.writers.len();
                }
                self.null_rows += 1;
            }
        }
        Ok(parts)
    }

    /// The parts, and how many rows had a NULL in their key.
    ///
    /// # Errors
    ///
    /// As [`add`](Self::add).
    pub(crate) fn end(mut self) -> Result<(Vec<Rows>, usize)> {
        self.flush()?;
        let rows = self.writers.into_iter().map(Writer::end).collect::<Result<_>>()?;
        Ok((rows, self.null_rows))
    }
}
