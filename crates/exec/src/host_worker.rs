//! The host's cores as one more worker (Lutz et al. 2020, "Pump Up the Volume", 6: heterogeneous morsels; each processor
//! has its own copy of every table, as with its GPU + Het): which pipelines they take part in.
//!
//! ```text
//!   GPU          morsels of 32 MiB  ─┐
//!                                    ├── row groups, taken one by one by whoever comes      ─► groups of each, added up
//!   host's cores morsels of 8 MiB   ─┘
//! ```
//!
//! They help where the device waits for its link and they have nothing to do: with columns in pinned memory, which they read
//! where they are. A scan whose columns lie in the device's memory is over before they have begun; for one from files it
//! is the cores that bring the bytes, which leaves less of them for rows (docs/perf/join.md). What both probe, both
//! build: so tables have to be small beside the rows that look them up; and groups of the cores are copied and added up
//! in the end: so these have to be few. What the cores cannot do, the devices do alone, from the start of the run.

use pelton_pipeline::ir::{Op, Pipeline, Plan, Sink, Source, TableScan};
use pelton_scan::DataTier;

use super::Runtime;

/// A table is built by the cores too where so many times its rows come to look it up. They are four to ten times slower
/// than a GPU that reads over its link, and it waits for them: 16 rows looked up save what one built costs. A guess.
const ROWS_PER_BUILT_ROW: u64 = 16;
/// Groups of the cores at most.
const GROUPS_MAX: u64 = 1 << 16;
/// Rows of a morsel of the cores at most: what they have begun last, the device waits for.
pub(super) const MORSEL_ROWS_MAX: u64 = 1 << 19;
/// Their morsels are so many times smaller than those of a device (a power of two), for the same reason.
pub(super) const MORSEL_HALVINGS: u32 = 2;
/// Their morsels in flight: while one ends, others keep the cores busy.
pub(super) const STAGING_BUFFERS: usize = 4;

/// For each pipeline of `plan`, whether the host's cores take some of its rows; nothing where they take none at all.
pub(crate) fn of_host(runtime: &Runtime, plan: &Plan) -> Vec<bool> {
    if runtime.host_worker.is_none() {
        return Vec::new();
    }
    let is_shared = |pipeline: &Pipeline| {
        let (Sink::Aggregate { keys, expected, .. }, Source::Table(scan)) =
            (&pipeline.sink, &pipeline.source)
        else {
            return false;
        };
        let Some(built) = built_rows(plan, pipeline) else { return false };
        let has_few_groups = keys.is_empty() || expected.is_some_and(|groups| groups <= GROUPS_MAX);
        let is_worth_it = runtime.options.always_with_host
            || (has_few_groups
                && built.saturating_mul(ROWS_PER_BUILT_ROW) <= rows_of(scan)
                && link_bytes(runtime, scan) >= runtime.options.host_link_bytes_min.max(1));
        is_worth_it && scan.row_groups.len() > runtime.workers.len()
    };
    let shared: Vec<bool> = plan.pipelines.iter().map(is_shared).collect();
    if shared.contains(&true) { shared } else { Vec::new() }
}

/// The rows of tables that go into the hash tables that `pipeline` probes, and into those probed for these; `None` where they
/// are made of groups, which only the first worker has.
fn built_rows(plan: &Plan, pipeline: &Pipeline) -> Option<u64> {
    let mut is_counted = vec![false; plan.table_count];
    let mut rows = 0_u64;
    let mut probing = vec![pipeline];
    while let Some(pipeline) = probing.pop() {
        for op in &pipeline.ops {
            let Op::Probe { table, .. } = op else { continue };
            if std::mem::replace(&mut is_counted[*table], true) {
                continue;
            }
            let builds =
                |other: &&Pipeline| matches!(&other.sink, Sink::Build { table: built, .. } if built == table);
            let built = plan.pipelines.iter().find(builds)?;
            rows += match &built.source {
                Source::Table(scan) => rows_of(scan),
                Source::HostInput(_) => 0,
                Source::Groups(_) => return None,
            };
            probing.push(built);
        }
    }
    Some(rows)
}

fn rows_of(scan: &TableScan) -> u64 {
    scan.row_groups.iter().map(|group| u64::from(scan.table.row_group(*group as usize).row_count)).sum()
}

/// Bytes of `scan` that come over the link of the first device from pinned memory; 0 where some come from files.
fn link_bytes(runtime: &Runtime, scan: &TableScan) -> u64 {
    let (cache, device) = (runtime.column_cache(), runtime.device());
    let mut bytes = 0;
    for &column in &scan.columns {
        match cache.tier(&scan.table, column, device) {
            DataTier::Device(_) => continue,
            DataTier::Pinned => {}
            DataTier::Disk => return 0,
        }
        let stored = |group: &u32| {
            // Whoever reads a damaged directory next says so.
            scan.table.chunk(*group as usize, column).map_or(0, |chunk| chunk.stored_bytes)
        };
        bytes += scan.row_groups.iter().map(stored).sum::<u64>();
    }
    bytes
}
