//! What is known of a whole column without reading anything but the manifest.

use std::cmp::Ordering;

use pelton_zone::{Scalar, Sketch, ZoneMap};

/// A column over all row groups, recomputed with every commit.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ColumnSummary {
    /// No value is smaller; `None` where every row is NULL (or NaN).
    pub min: Option<Scalar>,
    /// No value is larger; `None` where every row is NULL (or NaN), and for strings that 64 bytes cannot
    /// bound from above.
    pub max: Option<Scalar>,
    /// False where a bound is a cut string and so may be no value of the column.
    pub bounds_exact: bool,
    /// Some value is NaN, which the bounds leave out.
    pub has_nan: bool,
    /// Rows without a value.
    pub null_count: u64,
    /// Distinct values other than NULL, give or take a few percent.
    pub distinct_count: u64,
    /// Bytes of its chunks.
    pub stored_bytes: u64,
    /// Uncompressed bytes, as [`Values::raw_bytes`](pelton_chunk::Values::raw_bytes) counts.
    pub raw_bytes: u64,
    /// Bytes of its zone maps and sketches.
    pub metadata_bytes: u64,
}

/// A summary in the making: row groups are added as they are written.
#[derive(Debug, Clone)]
pub(crate) struct SummaryBuilder {
    summary: ColumnSummary,
    row_count: u64,
    sketch: Sketch,
}

impl SummaryBuilder {
    /// Of no rows.
    pub(crate) fn new() -> Self {
        let summary = ColumnSummary { bounds_exact: true, ..ColumnSummary::default() };
        Self { summary, row_count: 0, sketch: Sketch::new() }
    }

    /// Of `row_count` rows summarised before, whose values `sketch` has counted.
    pub(crate) fn continue_from(summary: ColumnSummary, row_count: u64, sketch: Sketch) -> Self {
        Self { summary, row_count, sketch }
    }

    /// Adds a row group.
    pub(crate) fn add(&mut self, zone_map: &ZoneMap, sketch: &Sketch, stored_bytes: u64, raw_bytes: u64) {
        let summary = &mut self.summary;
        let is_unbounded = |min: &Option<Scalar>, max: &Option<Scalar>| min.is_some() && max.is_none();
        let was_unbounded = is_unbounded(&summary.min, &summary.max);
        widen(&mut summary.min, &zone_map.min, Ordering::Less);
        if was_unbounded || is_unbounded(&zone_map.min, &zone_map.max) {
            summary.max = None;
        } else {
            widen(&mut summary.max, &zone_map.max, Ordering::Greater);
        }
        summary.bounds_exact &= zone_map.bounds_exact;
        summary.has_nan |= zone_map.has_nan;
        summary.null_count += u64::from(zone_map.null_count);
        summary.stored_bytes += stored_bytes;
        summary.raw_bytes += raw_bytes;
        self.row_count += u64::from(zone_map.row_count);
        self.sketch.merge(sketch);
    }

    /// Counts bytes of metadata files.
    pub(crate) fn add_metadata_bytes(&mut self, bytes: u64) {
        self.summary.metadata_bytes += bytes;
    }

    /// The summary of everything added.
    pub(crate) fn finish(mut self) -> ColumnSummary {
        let valid = self.row_count - self.summary.null_count;
        self.summary.distinct_count = self.sketch.estimate().min(valid);
        self.summary
    }
}

fn widen(bound: &mut Option<Scalar>, other: &Option<Scalar>, wanted: Ordering) {
    let Some(other) = other else { return };
    let is_wider = bound.as_ref().is_none_or(|bound| other.compare(bound) == Some(wanted));
    if is_wider {
        *bound = Some(other.clone());
    }
}
