//! What a scan read, skipped and answered for: the figures behind EXPLAIN ANALYZE and `make demo`.
//!
//! Effective bandwidth is uncompressed bytes answered for, skipped ones included, over time (GOLAP,
//! section 6.1): the figure by which skipping and compression both show.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet, Time,
};
use pelton_error::Result;
use pelton_store::Table;
use pelton_trace::{Activity, Tracer};

use crate::profile::LaneTrace;
use crate::prune::{Pruned, SkippedBy};

/// Counters of one partition of a scan.
#[derive(Debug, Clone)]
pub(super) struct StreamMetrics {
    pub(super) baseline: BaselineMetrics,
    /// Stored bytes read and verified.
    pub(super) bytes_read: Count,
    /// Raw bytes of the values that were decoded.
    pub(super) bytes_decoded: Count,
    /// Row groups read.
    pub(super) row_groups_read: Count,
    /// Row groups that a dynamic filter skipped, and their stored bytes.
    pub(super) row_groups_skipped_dynamic: Count,
    pub(super) bytes_skipped_dynamic: Count,
    /// Rows that the row filters dropped.
    pub(super) rows_filtered: Count,
    /// Rows that row filters were evaluated on, once for each filter.
    pub(super) rows_tested: Count,
    /// Waiting for reads.
    pub(super) time_read_wait: Time,
    /// Verifying and decoding.
    pub(super) time_decode: Time,
    /// Evaluating row filters.
    pub(super) time_filter: Time,
    /// Where spans go, if the query is traced.
    pub(super) trace: Option<Arc<LaneTrace>>,
}

impl StreamMetrics {
    pub(super) fn new(set: &ExecutionPlanMetricsSet, partition: usize, tracer: Option<Tracer>) -> Self {
        let counter = |name: &'static str| MetricBuilder::new(set).counter(name, partition);
        let time = |name: &'static str| MetricBuilder::new(set).subset_time(name, partition);
        Self {
            baseline: BaselineMetrics::new(set, partition),
            bytes_read: counter("bytes_read"),
            bytes_decoded: counter("bytes_decoded"),
            row_groups_read: counter("row_groups_read"),
            row_groups_skipped_dynamic: counter("row_groups_skipped_dynamic"),
            bytes_skipped_dynamic: counter("bytes_skipped_dynamic"),
            rows_filtered: counter("rows_filtered"),
            rows_tested: counter("rows_tested"),
            time_read_wait: time("time_read_wait"),
            time_decode: time("time_decode"),
            time_filter: time("time_filter"),
            trace: tracer.map(|tracer| Arc::new(LaneTrace::new(tracer, partition))),
        }
    }

    /// The moment, for [`traced`](Self::traced); nothing where nobody traces.
    pub(super) fn now(&self) -> Option<Instant> {
        self.trace.is_some().then(Instant::now)
    }

    /// Leaves a span from `started` to now.
    pub(super) fn traced(&self, activity: Activity, started: Option<Instant>, bytes: u64) {
        if let (Some(trace), Some(started)) = (&self.trace, started) {
            trace.add(activity, started, bytes);
        }
    }
}

/// Bytes that planning already knows.
pub(super) struct PlannedBytes {
    row_groups_total: u64,
    stored_bytes: u64,
    raw_bytes: u64,
    skipped: BTreeMap<SkippedBy, Skipped>,
}

/// Row groups skipped by one kind of metadata.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Skipped {
    /// How many.
    pub row_groups: u64,
    /// Their stored bytes in the needed columns.
    pub stored_bytes: u64,
}

impl PlannedBytes {
    /// Sums the chunk directory over `columns`.
    pub(super) fn of(table: &Table, columns: &[usize], pruned: &Pruned) -> Result<Self> {
        let row_group_bytes = |row_group: usize| -> Result<(u64, u64)> {
            columns.iter().try_fold((0, 0), |(stored, raw), &column| {
                let chunk = table.chunk(row_group, column)?;
                Ok((stored + chunk.stored_bytes, raw + chunk.raw_bytes))
            })
        };
        let (mut stored_bytes, mut raw_bytes) = (0, 0);
        for row_group in 0..table.row_group_count() {
            let (stored, raw) = row_group_bytes(row_group)?;
            stored_bytes += stored;
            raw_bytes += raw;
        }
        let mut skipped: BTreeMap<SkippedBy, Skipped> = BTreeMap::new();
        for (row_group, by) in &pruned.skipped {
            let entry = skipped.entry(*by).or_default();
            entry.row_groups += 1;
            entry.stored_bytes += row_group_bytes(*row_group as usize)?.0;
        }
        Ok(Self { row_groups_total: table.row_group_count() as u64, stored_bytes, raw_bytes, skipped })
    }

    pub(super) fn report(
        mut self,
        table: &str,
        io: String,
        notes: &[String],
        metrics: &MetricsSet,
    ) -> ScanReport {
        let sum = |name: &str| metrics.sum_by_name(name).map_or(0, |value| value.as_usize() as u64);
        let dynamic = Skipped {
            row_groups: sum("row_groups_skipped_dynamic"),
            stored_bytes: sum("bytes_skipped_dynamic"),
        };
        if dynamic != Skipped::default() {
            self.skipped.insert(SkippedBy::Dynamic, dynamic);
        }
        ScanReport {
            table: table.to_owned(),
            row_groups_total: self.row_groups_total,
            row_groups_read: sum("row_groups_read"),
            stored_bytes: self.stored_bytes,
            raw_bytes: self.raw_bytes,
            bytes_read: sum("bytes_read"),
            // The CPU reads files alone.
            pinned_bytes: 0,
            device_bytes: 0,
            bytes_decoded: sum("bytes_decoded"),
            skipped: self.skipped,
            rows_filtered: sum("rows_filtered"),
            output_rows: metrics.output_rows().unwrap_or(0) as u64,
            read_wait_ns: sum("time_read_wait"),
            decode_ns: sum("time_decode"),
            filter_ns: sum("time_filter"),
            io,
            notes: notes.to_vec(),
        }
    }
}

/// One scan of one table, in figures.
#[derive(Debug, Clone, PartialEq)]
pub struct ScanReport {
    /// The table's name.
    pub table: String,
    /// Row groups of the table.
    pub row_groups_total: u64,
    /// Row groups read.
    pub row_groups_read: u64,
    /// Stored bytes of the needed columns, all row groups.
    pub stored_bytes: u64,
    /// Uncompressed bytes of the needed columns, all row groups: what was answered for.
    pub raw_bytes: u64,
    /// Stored bytes read from files.
    pub bytes_read: u64,
    /// Bytes of chunks taken from pinned memory, where they lie without their heavy codec.
    pub pinned_bytes: u64,
    /// Bytes of chunks found in the device's memory, likewise.
    pub device_bytes: u64,
    /// Raw bytes of the values that were decoded, on the CPU or by kernels.
    pub bytes_decoded: u64,
    /// What was not read, by the metadata that decided.
    pub skipped: BTreeMap<SkippedBy, Skipped>,
    /// Rows read but dropped by row filters.
    pub rows_filtered: u64,
    /// Rows handed on.
    pub output_rows: u64,
    /// Waiting for reads, summed over partitions.
    pub read_wait_ns: u64,
    /// Verifying and decoding, summed over partitions.
    pub decode_ns: u64,
    /// Evaluating row filters, summed over partitions.
    pub filter_ns: u64,
    /// How bytes were read, and why not by the fastest way if so.
    pub io: String,
    /// Metadata that could not be used, and why.
    pub notes: Vec<String>,
}

impl ScanReport {
    /// Stored bytes not read.
    pub fn bytes_skipped(&self) -> u64 {
        self.skipped.values().map(|skipped| skipped.stored_bytes).sum()
    }
}
