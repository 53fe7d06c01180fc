//! Which kind of metadata may rule out a chunk, and which one did.

use std::fmt;

/// A kind of metadata, weakest and cheapest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SkipKind {
    /// Row and NULL counts.
    Nulls,
    /// The bounds.
    MinMax,
    /// Occupied histogram bins, which lie between the bounds and so imply them.
    Histogram,
    /// The Bloom filter.
    Bloom,
}

impl SkipKind {
    /// Every kind, weakest first.
    pub const ALL: [SkipKind; 4] = [SkipKind::Nulls, SkipKind::MinMax, SkipKind::Histogram, SkipKind::Bloom];
}

impl fmt::Display for SkipKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SkipKind::Nulls => "nulls",
            SkipKind::MinMax => "min/max",
            SkipKind::Histogram => "histogram",
            SkipKind::Bloom => "bloom",
        })
    }
}

/// A set of kinds: those a query may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SkipKinds {
    bits: u8,
}

impl SkipKinds {
    /// Every kind.
    pub const ALL: SkipKinds = SkipKinds { bits: 0b1111 };
    /// No kind: nothing is skipped.
    pub const NONE: SkipKinds = SkipKinds { bits: 0 };

    /// This set and `kind`.
    #[must_use]
    pub fn with(self, kind: SkipKind) -> Self {
        Self { bits: self.bits | 1 << kind as u8 }
    }

    /// This set without `kind`.
    #[must_use]
    pub fn without(self, kind: SkipKind) -> Self {
        Self { bits: self.bits & !(1 << kind as u8) }
    }

    /// True where `kind` is in the set.
    pub fn contains(self, kind: SkipKind) -> bool {
        self.bits >> kind as u8 & 1 == 1
    }

    /// The verdict on what no row can match, whatever its chunk holds: it goes to the weakest kind enabled.
    pub(crate) fn never(self) -> Verdict {
        SkipKind::ALL.into_iter().find(|kind| self.contains(*kind)).map_or(Verdict::May, Verdict::Never)
    }
}

impl Default for SkipKinds {
    fn default() -> Self {
        Self::ALL
    }
}

impl FromIterator<SkipKind> for SkipKinds {
    fn from_iter<I: IntoIterator<Item = SkipKind>>(kinds: I) -> Self {
        kinds.into_iter().fold(Self::NONE, Self::with)
    }
}

/// What metadata says of a chunk and a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Some row may match; the chunk must be read.
    May,
    /// No row matches, by the weakest kind that suffices.
    Never(SkipKind),
}

impl Verdict {
    /// The verdict on rows that must pass both tests: the weaker of the kinds that rule them out.
    pub(crate) fn and(self, other: Verdict) -> Verdict {
        match (self, other) {
            (Verdict::Never(a), Verdict::Never(b)) => Verdict::Never(a.min(b)),
            (Verdict::May, never) | (never, Verdict::May) => never,
        }
    }

    /// The verdict on rows that may pass either test: the stronger of the kinds that were needed.
    pub(crate) fn or(self, other: Verdict) -> Verdict {
        match (self, other) {
            (Verdict::Never(a), Verdict::Never(b)) => Verdict::Never(a.max(b)),
            _ => Verdict::May,
        }
    }
}

/// Row groups skipped, by the kind that ruled them out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SkipCounts {
    counts: [u64; SkipKind::ALL.len()],
}

impl SkipCounts {
    /// Counts one row group.
    pub fn add(&mut self, kind: SkipKind) {
        self.counts[kind as usize] += 1;
    }

    /// Counts what `other` has counted, too.
    pub fn merge(&mut self, other: &SkipCounts) {
        for (mine, theirs) in self.counts.iter_mut().zip(other.counts) {
            *mine += theirs;
        }
    }

    /// Row groups that `kind` ruled out.
    pub fn get(&self, kind: SkipKind) -> u64 {
        self.counts[kind as usize]
    }

    /// Row groups skipped.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }
}
