//! Room that sinks begin with: what is found by hashing grows, so a guess will do.

use pelton_error::Result;
use pelton_pipeline::ir::{Expr, Op, Pipeline, ProbeKind, Sink, Source};

use super::execution::{Execution, Kernel};
use super::prepare::Prepared;

/// Groups that a hashed aggregation starts with room for at least.
const FIRST_GROUPS: u64 = 1 << 20;
/// Rows that a hash table begins with room for at least, unless fewer come.
const FIRST_TABLE_ROWS: u64 = 1 << 16;
/// How many times as many rows may find their key as would if all keys were as frequent. A guess; groups grow.
const PROBED_SHARE: f64 = 2.0;
/// The share of the rows that tables of filtered rows begin with room for on the host, where memory that nobody needs is cleared
/// by the cores that would run the query: that takes longer than moving a table. A guess.
const HOST_FILTERED_SHARE: u64 = 4;

impl Execution<'_> {
    /// Rows of a table, or of a result.
    pub(super) fn rows_to_begin_with(
        &self,
        kernel: &Kernel,
        pipeline: &Pipeline,
        prepared: &Prepared,
    ) -> u64 {
        if let Some(rows) = self.runtime.options.first_rows {
            return rows.max(1);
        }
        if !kernel.generated.sink.may_be_full() {
            return prepared.row_count.max(1);
        }
        let is_filtered = pipeline.ops.iter().any(|op| matches!(op, Op::Filter(_)));
        let most = self.rows_after_probes(pipeline, prepared);
        let found = if is_filtered && self.worker.is_host() { most / HOST_FILTERED_SHARE } else { most };
        found.max(FIRST_TABLE_ROWS).min(prepared.row_count).max(1)
    }

    /// Room for those that are expected and a quarter more, where a quarter of the memory holds them; no more than rows
    /// may come.
    pub(super) fn groups_to_begin_with(&self, pipeline: &Pipeline, prepared: &Prepared) -> Result<u64> {
        let most = prepared.row_count.max(64);
        if let Some(groups) = self.runtime.options.first_rows {
            return Ok(groups.clamp(1, most));
        }
        let Sink::Aggregate { aggregates, expected: Some(expected), .. } = &pipeline.sink else {
            return Ok(FIRST_GROUPS.min(most));
        };
        // Two places a group: a key, a count of rows, and at most three words an aggregate.
        let group_bytes = 2 * 8 * (2 + 3 * aggregates.len() as u64);
        let in_memory = (self.device_memory_limit()? / 4 / group_bytes).max(FIRST_GROUPS);
        let expected = expected.saturating_add(expected / 4).min(self.rows_after_probes(pipeline, prepared));
        Ok(expected.clamp(FIRST_GROUPS, in_memory).min(most))
    }

    /// About how many rows find the key that they look up, where it is a column of a table: of its distinct values as
    /// many as the hash table has rows, and [`PROBED_SHARE`] times that to be sure. Whoever planned the query did not know.
    fn rows_after_probes(&self, pipeline: &Pipeline, prepared: &Prepared) -> u64 {
        let Source::Table(scan) = &pipeline.source else { return prepared.row_count };
        let shares = pipeline.ops.iter().filter_map(|op| {
            let Op::Probe { table, keys, kind: ProbeKind::Inner | ProbeKind::Semi, .. } = op else {
                return None;
            };
            let [Expr::Column(column)] = keys.as_slice() else { return None };
            let distinct = scan.table.column_summary(*scan.columns.get(*column)?).distinct_count;
            let built = self.built.get(*table)?.as_ref()?;
            Some(built.row_count as f64 / distinct.max(1) as f64 * PROBED_SHARE)
        });
        (prepared.row_count as f64 * shares.fold(1.0, f64::min)) as u64
    }
}
