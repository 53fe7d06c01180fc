//! A scan of Parquet files whose columns are encoded once its rows are there.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties};

use super::files::{FileScan, FileSet};
use super::{CopyColumns, FileCopies};
use crate::gpu::DeviceHandle;
use crate::same_rows::{gives_rows_of, then_run};

/// Rows as they are.
pub(super) struct PeltonCopyExec {
    input: Arc<dyn ExecutionPlan>,
    /// What to encode, or why nothing is.
    read: std::result::Result<Read, String>,
    copies: Arc<FileCopies>,
    device: Arc<DeviceHandle>,
    /// Partitions whose rows have all been read.
    ended: Arc<AtomicUsize>,
}

#[derive(Debug, Clone)]
struct Read {
    files: Arc<FileSet>,
    columns: Vec<String>,
}

impl PeltonCopyExec {
    /// `input`, which is the scan `read`.
    pub(super) fn new(
        input: Arc<dyn ExecutionPlan>,
        read: std::result::Result<FileScan<'_>, String>,
        copies: &Arc<FileCopies>,
        device: &Arc<DeviceHandle>,
    ) -> Self {
        let read = read.map(|scan| Read { files: scan.files, columns: scan.columns });
        // What was found out since goes before what may be tried.
        let read = read.and_then(|read| match copies.refusal(&read.files, &read.columns) {
            Some(reason) => Err(reason),
            None => Ok(read),
        });
        let (copies, device) = (Arc::clone(copies), Arc::clone(device));
        Self { input, read, copies, device, ended: Arc::default() }
    }

    fn with_input(&self, input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        let (copies, device) = (Arc::clone(&self.copies), Arc::clone(&self.device));
        Arc::new(Self { input, read: self.read.clone(), copies, device, ended: Arc::default() })
    }
}

/// All rows were read.
async fn at_end(read: Read, copies: Arc<FileCopies>, device: Arc<DeviceHandle>) {
    let Read { files, columns } = read;
    match copies.when {
        CopyColumns::Never => {}
        CopyColumns::Behind => copies.begin(&files, &columns, &device),
        CopyColumns::AtEnd => {
            let work = move || copies.finish_blocking(&files, &columns, &device);
            // A panic of the work is a bug, and stays one.
            if let Err(error) = tokio::task::spawn_blocking(work).await
                && error.is_panic()
            {
                std::panic::resume_unwind(error.into_panic());
            }
        }
    }
}

impl fmt::Debug for PeltonCopyExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeltonCopyExec").field("read", &self.read).finish_non_exhaustive()
    }
}

impl DisplayAs for PeltonCopyExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        match &self.read {
            Ok(read) if read.columns.is_empty() => f.write_str("PeltonCopyExec: no column is read"),
            Ok(read) => write!(
                f,
                "PeltonCopyExec: encodes columns [{}] for the next query once the rows are here",
                read.columns.join(", ")
            ),
            Err(reason) => write!(f, "PeltonCopyExec: Parquet alone, {reason}"),
        }
    }
}

impl ExecutionPlan for PeltonCopyExec {
    gives_rows_of!(input);

    fn name(&self) -> &'static str {
        "PeltonCopyExec"
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self.with_input(children.swap_remove(0)))
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self.with_input(Arc::clone(&self.input)))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.input.execute(partition, context)?;
        let Ok(read) = self.read.clone() else { return Ok(rows) };
        let partitions = self.input.output_partitioning().partition_count();
        let (copies, device, ended) =
            (Arc::clone(&self.copies), Arc::clone(&self.device), Arc::clone(&self.ended));
        let rows = then_run(rows, async move {
            if ended.fetch_add(1, Ordering::AcqRel) + 1 == partitions {
                at_end(read, copies, device).await;
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}
