//! Which row groups a scan must read: static predicates, dimension predicates through sideways
//! metadata, and the figures that say what was skipped and why (GOLAP sections 4.1 and 4.3).
//!
//! ```text
//! predicate over own columns ────▶ zone maps of the columns ──────────┐
//! predicate over a dimension ────▶ sideways zone maps of attributes ──┴▶ row groups to read
//! ```
//!
//! Nothing here touches data: zone maps are read once per column and cached by the table snapshot.

use std::sync::Arc;

use pelton_error::Result;
use pelton_store::Table;
use pelton_zone::{Predicate, SkipKind, SkipKinds, Verdict, ZoneMap};

use crate::cores::cores;
use crate::memo::PruneQuestion;

/// What kept a row group from being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SkippedBy {
    /// All values NULL where a value was asked for.
    Nulls,
    /// Outside the chunk's minimum and maximum.
    MinMax,
    /// In an empty bin of the chunk's histogram.
    Histogram,
    /// Not in the chunk's Bloom filter.
    Bloom,
    /// By metadata of a dimension's attributes.
    Sideways,
    /// By a filter that a join or a top-k derived while the query ran.
    Dynamic,
}

impl SkippedBy {
    /// In the order in which they are shown.
    pub const ALL: [Self; 6] =
        [Self::Nulls, Self::MinMax, Self::Histogram, Self::Bloom, Self::Sideways, Self::Dynamic];

    /// The word used in EXPLAIN.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nulls => "nulls",
            Self::MinMax => "minmax",
            Self::Histogram => "histogram",
            Self::Bloom => "bloom",
            Self::Sideways => "sideways",
            Self::Dynamic => "dynamic",
        }
    }
}

impl From<SkipKind> for SkippedBy {
    fn from(kind: SkipKind) -> Self {
        match kind {
            SkipKind::Nulls => Self::Nulls,
            SkipKind::MinMax => Self::MinMax,
            SkipKind::Histogram => Self::Histogram,
            SkipKind::Bloom => Self::Bloom,
        }
    }
}

/// Row groups to read, in table order, and what the others were skipped by.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Pruned {
    pub(crate) kept: Vec<u32>,
    /// Skipped row groups with the metadata that decided.
    pub(crate) skipped: Vec<(u32, SkippedBy)>,
}

impl Pruned {
    /// All row groups of `table`, none skipped.
    pub(crate) fn all(table: &Table) -> Self {
        Self { kept: (0..table.row_group_count() as u32).collect(), skipped: Vec::new() }
    }

    /// The row groups that `question` leaves: own predicates first, then sideways.
    pub(crate) fn of(table: &Table, question: &PruneQuestion) -> Result<Self> {
        let mut pruned = Self::all(table);
        if question.kinds == SkipKinds::NONE {
            return Ok(pruned);
        }
        let zones = ZoneLookup::own(table, &question.own)?;
        pruned.retain(&|row_group| {
            zones.ruled_out(&question.own, row_group, question.kinds).map(SkippedBy::from)
        });
        for predicate in &question.sideways {
            let zones = ZoneLookup::sideways(table, predicate)?;
            pruned.retain(&|row_group| {
                zones.ruled_out(predicate, row_group, question.kinds).map(|_| SkippedBy::Sideways)
            });
        }
        Ok(pruned)
    }

    /// Keeps the row groups for which `decide` finds no reason to skip. It is asked by several threads where there are
    /// many row groups.
    fn retain(&mut self, decide: &(impl Fn(usize) -> Option<SkippedBy> + Sync)) {
        let share = self.kept.len().div_ceil(threads_for(self.kept.len()));
        let decide_all = &|row_groups: &[u32]| -> Vec<Option<SkippedBy>> {
            row_groups.iter().map(|row_group| decide(*row_group as usize)).collect()
        };
        let verdicts: Vec<Option<SkippedBy>> = if share == self.kept.len() {
            decide_all(&self.kept)
        } else {
            std::thread::scope(|threads| {
                let shares = self.kept.chunks(share).map(|share| threads.spawn(move || decide_all(share)));
                let shares: Vec<_> = shares.collect();
                let joined = shares.into_iter().map(|share| match share.join() {
                    Ok(verdicts) => verdicts,
                    Err(panic) => std::panic::resume_unwind(panic),
                });
                joined.flatten().collect()
            })
        };
        let mut verdicts = verdicts.into_iter();
        let skipped = &mut self.skipped;
        self.kept.retain(|&row_group| match verdicts.next().flatten() {
            Some(by) => {
                skipped.push((row_group, by));
                false
            }
            None => true,
        });
    }
}

/// Row groups that one thread tests: about a tenth of a microsecond each, so that a thread's start pays many times over.
const ROW_GROUPS_A_THREAD: usize = 4096;

fn threads_for(row_groups: usize) -> usize {
    row_groups.div_ceil(ROW_GROUPS_A_THREAD).clamp(1, cores())
}

/// The zone maps of the columns a predicate tests, read once.
#[derive(Debug, Clone, Default)]
pub(crate) struct ZoneLookup(Vec<(usize, Arc<Vec<ZoneMap>>)>);

impl ZoneLookup {
    /// Of the table's own columns named in `predicate`.
    pub(crate) fn own(table: &Table, predicate: &Predicate<usize>) -> Result<Self> {
        Self::load(predicate, |column| table.zone_maps(column))
    }

    /// Of the sideways columns named in `predicate`.
    pub(crate) fn sideways(table: &Table, predicate: &Predicate<usize>) -> Result<Self> {
        Self::load(predicate, |column| table.sideways_zone_maps(column))
    }

    fn load(
        predicate: &Predicate<usize>,
        mut zones: impl FnMut(usize) -> Result<Arc<Vec<ZoneMap>>>,
    ) -> Result<Self> {
        let mut columns = Vec::new();
        columns_of(predicate, &mut columns);
        columns.sort_unstable();
        columns.dedup();
        let lookup = columns.into_iter().map(|column| Ok((column, zones(column)?)));
        lookup.collect::<Result<_>>().map(Self)
    }

    /// The zone map of `column` in `row_group`, where it was loaded.
    pub(crate) fn get(&self, column: usize, row_group: usize) -> Option<&ZoneMap> {
        let (_, zones) = self.0.iter().find(|(known, _)| *known == column)?;
        Some(&zones[row_group])
    }

    /// What rules out that `row_group` holds a row for which `predicate` is true; `None`: it must be read.
    pub(crate) fn ruled_out(
        &self,
        predicate: &Predicate<usize>,
        row_group: usize,
        kinds: SkipKinds,
    ) -> Option<SkipKind> {
        match predicate.evaluate(kinds, &|column: &usize| self.get(*column, row_group)) {
            Verdict::May => None,
            Verdict::Never(kind) => Some(kind),
        }
    }

    /// Whether every row of `row_group` surely satisfies `predicate`.
    pub(crate) fn matches_all(&self, predicate: &Predicate<usize>, row_group: usize) -> bool {
        predicate.matches_all(&|column: &usize| self.get(*column, row_group))
    }
}

/// The columns that `predicate` tests, with repetitions.
pub(crate) fn columns_of<C: Copy>(predicate: &Predicate<C>, columns: &mut Vec<C>) {
    match predicate {
        Predicate::And(parts) | Predicate::Or(parts) => {
            for part in parts {
                columns_of(part, columns);
            }
        }
        Predicate::Test { column, .. } => columns.push(*column),
        Predicate::Unknown => {}
    }
}
