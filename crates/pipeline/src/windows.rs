//! Window functions of rows in order: what they are computed of, and over which frames.
//!
//! ```text
//!   rows      sorted by partition keys, then by order keys
//!   partition rows with equal partition keys; in it, peers are rows with equal order keys
//!   frame     the rows of the partition that the function of a row looks at, from one to another
//!   result    columns of the rows, and results of functions
//! ```

use crate::ir::Literal;

/// What is computed of rows once they are sorted.
#[derive(Debug, Clone)]
pub struct Windows {
    /// What comes out.
    pub outputs: Vec<WindowOutput>,
    /// What is computed.
    pub functions: Vec<WindowFunction>,
    /// Somebody has to look at the results before they are given out: a type might not hold one of them.
    pub may_overflow: bool,
}

/// A column that comes out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WindowOutput {
    /// This one of the rows' columns.
    Column(usize),
    /// The results of this function.
    Function(usize),
}

/// What is computed of the rows.
#[derive(Debug, Clone)]
pub struct WindowFunction {
    /// What the plan calls it, for EXPLAIN.
    pub name: String,
    /// Rows with equal values of the first so many keys of the order are of one partition.
    pub partition_keys: usize,
    /// Those with equal values of the first so many keys are peers; at least `partition_keys`.
    pub peer_keys: usize,
    /// What is computed.
    pub kind: WindowKind,
}

/// What is computed for each row. Columns are numbers of the rows' columns.
#[derive(Debug, Clone)]
pub enum WindowKind {
    /// Its number in its partition, from 1 (`I64`).
    RowNumber,
    /// 1 and the number of rows before its peers (`I64`).
    Rank,
    /// 1 and the number of different keys before its own (`I64`).
    DenseRank,
    /// The rows before its peers as a share of all others of the partition (`F64`), 0 where there are none.
    PercentRank,
    /// The rows up to its peers as a share of the partition (`F64`).
    CumeDist,
    /// Which of so many parts of the partition, at least one, the longer ones first (`I64`).
    Ntile(u64),
    /// The value of the row so many rows after it in its partition, before it if negative; of the column's type.
    Shift {
        /// Of which column.
        column: usize,
        /// How far.
        rows: i64,
        /// Where there is no such row; `None`: NULL. No text.
        default: Option<Literal>,
    },
    /// The value of a row of the frame; NULL where there is none.
    Pick {
        /// Of which column.
        column: usize,
        /// From 1 at the first row, from -1 at the last.
        number: i64,
        /// The frame.
        frame: Frame,
    },
    /// The number of rows of the frame, or of those where a column is not NULL (`I64`).
    Count {
        /// Of which column.
        column: Option<usize>,
        /// The frame.
        frame: Frame,
    },
    /// The sum of the values of the frame that are not NULL, NULL without any: exact; of integers `I64` where their bounds
    /// show that it holds the sum, else `I128`. Doubles only over frames that begin with the partition.
    Sum {
        /// Of which column.
        column: usize,
        /// The frame.
        frame: Frame,
    },
    /// The sum as a double, divided by the number of values times `unit`, likewise (`F64`).
    Average {
        /// Of which column.
        column: usize,
        /// What the values are multiples of one part of.
        unit: f64,
        /// The frame.
        frame: Frame,
    },
    /// The least value of the frame, of integers and doubles, these in the order of their bits; only over frames that begin
    /// with the partition.
    Min {
        /// Of which column.
        column: usize,
        /// The frame.
        frame: Frame,
    },
    /// The greatest, likewise.
    Max {
        /// Of which column.
        column: usize,
        /// The frame.
        frame: Frame,
    },
}

/// From which row to which: none where the end is before the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Frame {
    /// Its first row.
    pub start: FrameEdge,
    /// Its last row.
    pub end: FrameEdge,
    /// What distances are of.
    pub key: Option<FrameKey>,
}

/// The key that rows are in the order of within partitions, where frames go by distances of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FrameKey {
    /// The number of the column, of `I32` or `I64`. No value of it and distance of the frame together pass 64 bits.
    pub column: usize,
    /// The greatest comes first.
    pub is_descending: bool,
    /// NULLs come first.
    pub has_nulls_first: bool,
}

impl Frame {
    /// By rows and peers.
    pub fn new(start: FrameEdge, end: FrameEdge) -> Self {
        Self { start, end, key: None }
    }

    /// Whether it may have no rows at all.
    pub fn may_be_empty(self) -> bool {
        self.start.distance() > 0 || self.end.distance() < 0
    }
}

/// Where a frame begins or ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FrameEdge {
    /// With the partition.
    Partition,
    /// With the peers of the row.
    Peers,
    /// So many rows after the row, before it if negative, but in its partition.
    Rows(i64),
    /// So many groups of peers after those of the row, likewise.
    Groups(i64),
    /// So far after the frame's key of the row, along its order, likewise. Of a row whose key is NULL it is its peers.
    Distance(i64),
}

impl FrameEdge {
    /// How far from the row it is, where it is so far.
    fn distance(self) -> i64 {
        match self {
            FrameEdge::Partition | FrameEdge::Peers => 0,
            FrameEdge::Rows(distance) | FrameEdge::Groups(distance) | FrameEdge::Distance(distance) => {
                distance
            }
        }
    }
}
