//! The first rows by a key, out of all that come: what is kept after each morsel, and the threshold for the next.
//!
//! ```text
//!   row groups   those whose zone maps promise the best keys, then the others as they lie
//!   morsels      of 1, 2, 4, … row groups: a threshold early, then large ones
//!
//!   morsel ── kernel drops what is beyond the threshold ──► rows ──► the best k of all so far ──┐
//!      ▲                                                                                        │
//!      └── row groups whose zone maps lie beyond it are not read ◄── threshold: the worst of k ─┘
//! ```
//!
//! Several workers each begin with the best of their own row groups, keep the best k of their own rows, and tell each other the worst rank of those: as many rows as
//! are wanted have at least that one. In the end the best k of all that they kept are taken.
//!
//! Keys are compared as *ranks*, of which the greatest are the best: the key itself, or its complement where the least
//! keys come first. Rows without a key pass every threshold, since a sort may put them on either end.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::HashSet;
use std::sync::Arc;

use pelton_error::Result;
use pelton_pipeline::codegen::{Arg, RowsLayout, SinkLayout, TopLayout};
use pelton_pipeline::ir::TableScan;
use pelton_pipeline::{RowColumn, RowValues, Rows};
use pelton_zone::{ColumnTest, CompareOp, Scalar, SkipKinds, Verdict, ZoneMap};

use super::execution::Kernel;
use super::report::PipelineReport;
use super::results::retain;
use super::tasks::Tasks;

/// The row groups that are read first hold about this many rows for each that is wanted: a guess at how many of them
/// conditions drop.
const LEADING_ROWS_PER_ROW: u64 = 64;

/// A top-k under way.
pub(super) struct Top {
    layout: TopLayout,
    /// Of the key, where it is a column of the table.
    zone_maps: Option<Arc<Vec<ZoneMap>>>,
    /// The least rank that is still wanted, once as many rows as are wanted have come.
    least: Option<i64>,
    /// The worst rank of those, which some row must have that is kept in the end.
    worst: Option<i64>,
    row_groups_next: usize,
    row_groups_beyond: Cell<u64>,
}

impl Top {
    /// The top-k that `kernel` ends in, if it does. `scan`: what it reads, if that is a table.
    pub(super) fn of(kernel: &Kernel, scan: Option<&TableScan>) -> Result<Option<Self>> {
        let SinkLayout::Rows(rows) = &kernel.generated.sink else { return Ok(None) };
        let Some(mut top) = Self::of_rows(rows) else { return Ok(None) };
        if let (Some(scan), Some(column)) = (scan, top.layout.source_column) {
            top.zone_maps = Some(scan.table.zone_maps(scan.columns[column])?);
        }
        Ok(Some(top))
    }

    /// Of rows that have come.
    pub(super) fn of_rows(rows: &RowsLayout) -> Option<Self> {
        let (layout, row_groups_beyond) = (rows.top.clone()?, Cell::new(0));
        Some(Self {
            layout,
            zone_maps: None,
            least: None,
            worst: None,
            row_groups_next: 1,
            row_groups_beyond,
        })
    }

    /// These row groups, those first that may hold the best keys, if zone maps tell.
    pub(super) fn in_order(&self, row_groups: &[u32]) -> Vec<u32> {
        let mut best_first = row_groups.to_vec();
        let Some(zone_maps) = &self.zone_maps else { return best_first };
        best_first.sort_by_key(|group| Reverse(self.best_rank(&zone_maps[*group as usize])));
        let wanted = self.layout.row_count.saturating_mul(LEADING_ROWS_PER_ROW);
        let mut rows = 0;
        best_first.retain(|group| {
            let is_wanted = rows < wanted;
            rows += u64::from(zone_maps[*group as usize].row_count);
            is_wanted
        });
        let leading: HashSet<u32> = best_first.iter().copied().collect();
        best_first.extend(row_groups.iter().filter(|group| !leading.contains(group)));
        best_first
    }

    /// The best rank that a row group may have, as far as bounds tell.
    fn best_rank(&self, zone_map: &ZoneMap) -> Option<i128> {
        let bound = if self.layout.is_descending { &zone_map.max } else { &zone_map.min };
        match bound {
            Some(Scalar::Int(bound)) if self.layout.is_descending => Some(*bound),
            Some(Scalar::Int(bound)) => Some(!*bound),
            _ => None,
        }
    }

    /// Row groups of the next morsel at most: twice those of the last one.
    pub(super) fn row_groups_max(&mut self, most: usize) -> usize {
        let next = self.row_groups_next.min(most);
        self.row_groups_next = next.saturating_mul(2);
        next
    }

    /// Tells other workers of `tasks` how far this one is, and learns how far they are. Rows like the worst one stay
    /// wanted: a try that fails begins again with what the others know by then.
    pub(super) fn exchange(&mut self, tasks: &Tasks) {
        let of_all = tasks.raise_least_rank(self.worst);
        self.least = self.least.max(of_all);
    }

    /// Gives the kernel the threshold.
    pub(super) fn set_threshold(&self, kernel: &mut Kernel) {
        let key = self.key_of(self.least.unwrap_or(i64::MIN));
        let Some(range) = self.layout.range else {
            kernel.state.set(Arg::TopThreshold, key as u64);
            return;
        };
        let known = &kernel.generated.ranges[range];
        let (low, high) = match self.layout.is_descending {
            true => (known.low.max(key), known.high),
            false => (known.low, known.high.min(key)),
        };
        kernel.state.set(Arg::RangeLow(range), low as u64);
        kernel.state.set(Arg::RangeHigh(range), high as u64);
    }

    /// Whether no row of a row group is wanted.
    pub(super) fn rules_out(&self, group: u32) -> bool {
        let is_beyond = self.layout.row_count == 0 || self.is_beyond(group);
        self.row_groups_beyond.set(self.row_groups_beyond.get() + u64::from(is_beyond));
        is_beyond
    }

    fn is_beyond(&self, group: u32) -> bool {
        let (Some(zone_maps), Some(least)) = (&self.zone_maps, self.least) else { return false };
        let zone_map = &zone_maps[group as usize];
        let op = if self.layout.is_descending { CompareOp::GtEq } else { CompareOp::LtEq };
        let test = ColumnTest::Compare(op, Scalar::Int(self.key_of(least).into()));
        zone_map.null_count == 0 && matches!(zone_map.test(&test, SkipKinds::ALL), Verdict::Never(_))
    }

    /// Keeps of all rows so far those that are wanted, and raises the threshold.
    pub(super) fn keep_best(&mut self, rows: &mut Rows) {
        let Some(keys) = rows.columns.last() else { return };
        let ranks = self.ranks(keys);
        let wanted = usize::try_from(self.layout.row_count).unwrap_or(usize::MAX);
        let mut known: Vec<i64> = ranks.iter().flatten().copied().collect();
        let worst = match wanted.checked_sub(1) {
            None => None,
            Some(last) if last < known.len() => {
                Some(*known.select_nth_unstable_by_key(last, |rank| Reverse(*rank)).1)
            }
            Some(_) => Some(i64::MIN),
        };
        let mut choice = Choice::new(worst, wanted, self.layout.keeps_ties, &known);
        let is_kept: Vec<bool> = ranks.iter().map(|rank| choice.keeps(*rank)).collect();
        retain(rows, &is_kept);
        if known.len() >= wanted {
            // Of rows like the worst one there are enough, unless further keys decide between them.
            let step = i64::from(!self.layout.keeps_ties);
            self.least = worst.map(|worst| worst.saturating_add(step));
            self.worst = worst;
        }
    }

    fn ranks(&self, keys: &RowColumn) -> Vec<Option<i64>> {
        let is_valid = |row: usize| keys.valid.as_ref().is_none_or(|valid| valid[row]);
        let rank = |row: usize, key: i64| is_valid(row).then(|| self.key_of(key));
        match &keys.values {
            RowValues::I32(keys) => {
                keys.iter().enumerate().map(|(row, key)| rank(row, (*key).into())).collect()
            }
            RowValues::I64(keys) => keys.iter().enumerate().map(|(row, key)| rank(row, *key)).collect(),
            RowValues::I128(keys) => {
                keys.iter().enumerate().map(|(row, key)| rank(row, *key as i64)).collect()
            }
            other => unreachable!("a top-k by {:?} is refused", other.ty()),
        }
    }

    /// From ranks to keys, and from keys to ranks.
    fn key_of(&self, rank: i64) -> i64 {
        if self.layout.is_descending { rank } else { !rank }
    }

    pub(super) fn add_to(&self, report: &mut PipelineReport) {
        report.row_groups_beyond_top += self.row_groups_beyond.get();
    }
}

/// Which rows stay: better ones than the worst that is wanted, and as many like it as there is room for.
struct Choice {
    /// `None` where none is wanted.
    worst: Option<i64>,
    ties_left: usize,
    unknown_left: usize,
}

impl Choice {
    fn new(worst: Option<i64>, wanted: usize, keeps_ties: bool, ranks: &[i64]) -> Self {
        let better = ranks.iter().filter(|rank| worst.is_some_and(|worst| **rank > worst)).count();
        let (ties_left, unknown_left) = match keeps_ties {
            true => (usize::MAX, usize::MAX),
            false => (wanted.saturating_sub(better), wanted),
        };
        Self { worst, ties_left, unknown_left }
    }

    fn keeps(&mut self, rank: Option<i64>) -> bool {
        let Some(worst) = self.worst else { return false };
        let left = match rank {
            Some(rank) if rank != worst => return rank > worst,
            Some(_) => &mut self.ties_left,
            None => &mut self.unknown_left,
        };
        let is_kept = *left > 0;
        *left = left.saturating_sub(1);
        is_kept
    }
}
