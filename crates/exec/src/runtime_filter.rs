//! The runtime filter of a scan: finished hash tables rule out row groups that planning left, by the range of a table's
//! keys and, where they are few, by each key, which histograms and Bloom filters know of.

use std::cell::Cell;
use std::ops::Bound;
use std::sync::Arc;

use pelton_error::Result;
use pelton_pipeline::ir::TableScan;
use pelton_zone::{ColumnTest, Scalar, SkipKinds, Verdict, ZoneMap};

use super::execution::Kernel;
use super::prepare::Prepared;
use super::report::PipelineReport;

/// What a row group's zone map of one column must not rule out.
struct Test {
    zone_maps: Arc<Vec<ZoneMap>>,
    test: ColumnTest,
}

impl Test {
    fn rules_out(&self, group: u32) -> bool {
        let zone_map = &self.zone_maps[group as usize];
        matches!(zone_map.test(&self.test, SkipKinds::ALL), Verdict::Never(_))
    }
}

/// The tests of one scan. Nothing is tested before the prefetcher asks, and then no row group twice once it is ruled
/// out.
pub(super) struct RuntimeFilter {
    ranges: Vec<Test>,
    keys: Vec<Test>,
    /// Row groups that keys ruled out and ranges did not.
    by_keys: Cell<u64>,
}

impl RuntimeFilter {
    pub(super) fn new(scan: &TableScan, kernel: &Kernel, prepared: &Prepared) -> Result<Self> {
        let mut runtime_filter = Self { ranges: Vec::new(), keys: Vec::new(), by_keys: Cell::new(0) };
        if !scan.uses_runtime_filters {
            return Ok(runtime_filter);
        }
        let zone_maps = |column: usize| scan.table.zone_maps(scan.columns[column]);
        let int = |value: i128| Scalar::Int(value);
        for range in kernel.generated.ranges.iter().filter(|range| range.is_runtime_filter) {
            debug_assert!(prepared.columns[range.column].has_ranges());
            let (lower, upper) = (int(range.low.into()), int(range.high.into()));
            let test = ColumnTest::Range { lower: Bound::Included(lower), upper: Bound::Included(upper) };
            runtime_filter.ranges.push(Test { zone_maps: zone_maps(range.column)?, test });
        }
        for list in &kernel.generated.key_lists {
            let test = ColumnTest::In(list.values.iter().copied().map(int).collect());
            runtime_filter.keys.push(Test { zone_maps: zone_maps(list.column)?, test });
        }
        Ok(runtime_filter)
    }

    /// Whether nothing in a row group finds anything.
    pub(super) fn rules_out(&self, group: u32) -> bool {
        if self.ranges.iter().any(|test| test.rules_out(group)) {
            return true;
        }
        let by_keys = self.keys.iter().any(|test| test.rules_out(group));
        self.by_keys.set(self.by_keys.get() + u64::from(by_keys));
        by_keys
    }

    pub(super) fn add_to(&self, report: &mut PipelineReport) {
        report.row_groups_skipped_by_keys += self.by_keys.get();
    }
}
