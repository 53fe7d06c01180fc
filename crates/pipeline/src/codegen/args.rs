//! The words that a generated kernel takes, by meaning.

/// One 64-bit argument. Numbers of tables, payload columns and so on are those of the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Arg {
    /// Addresses of chunks, then of dictionary mappings of text columns, row group after row group.
    Chunks,
    /// Rows of each row group (u32), then the number of the first vector of each (u32).
    RowGroupRows,
    /// Row groups of the morsel.
    RowGroupCount,
    /// Tiles of the largest row group.
    TilesPerGroup,
    /// Rows of a tile.
    TileRows,
    /// A word of flags (u32).
    Flags,
    /// 1 where a launch takes the rows that wait since the last one over the same morsel, 0 where it takes all.
    IsRedo,
    /// The rows that wait: one bit each, a word (u32) a lane and vector.
    Undone,
    /// Of the first row that waits in such a word, how often it has come to the sink before (u64).
    Emitted,
    /// Counts the rows that wait (u64).
    Waiting,
    /// Bounds of a range filter.
    RangeLow(usize),
    /// See `RangeLow`.
    RangeHigh(usize),
    /// A number that columns are compared with.
    Literal(usize),
    /// Results of a text function, by entry.
    Lut(usize),
    /// Whether each is not NULL (u8).
    LutValid(usize),
    /// Texts and lists of texts that texts are held against, as cuda/pipeline/text.h lays them out.
    TextConstants,
    /// Direct table: one bit per packed key.
    Bitmap(usize),
    /// Hashed table: keys by slot.
    TableKeys(usize),
    /// Slots less one.
    TableSlotMask(usize),
    /// First row of each slot, counted from 1 (u32).
    Heads(usize),
    /// Next row of each row, counted from 1 (u32).
    Next(usize),
    /// Bloom filter.
    Bloom(usize),
    /// Its words less one.
    BloomMask(usize),
    /// Most rows of the table that is built.
    TableRowsMax(usize),
    /// Counts rows of the table that is built; then the least and the greatest packed key (i64).
    TableStats(usize),
    /// Payload column of a table.
    Payload(usize, usize),
    /// Whether each value of it is not NULL (u8).
    PayloadValid(usize, usize),
    /// State of the groups, group after group.
    Groups,
    /// Keys of hashed groups.
    GroupKeys,
    /// Slots less one.
    GroupSlotMask,
    /// The texts that the state of the groups leads to, as cuda/pipeline/heap.h lays them out.
    TextHeap,
    /// State of the groups that are the source.
    SourceGroups,
    /// Keys of the hashed groups that are the source.
    SourceGroupKeys,
    /// The texts that their state leads to.
    SourceTextHeap,
    /// The lower 64 bits of a parameter.
    Parameter(usize),
    /// Its upper 64 bits.
    ParameterHigh(usize),
    /// Whether it is not NULL.
    ParameterValid(usize),
    /// The worst key that is still wanted (i64).
    TopThreshold,
    /// Counts the rows that come out.
    OutputCount,
    /// Places for rows.
    OutputCapacity,
    /// Output column.
    Output(usize),
    /// Whether each value of it is not NULL (u8).
    OutputValid(usize),
}

impl Arg {
    /// True for what leads to table `number`, while it is built or probed.
    pub fn is_of_table(&self, number: usize) -> bool {
        match self {
            Arg::Bitmap(table)
            | Arg::TableKeys(table)
            | Arg::TableSlotMask(table)
            | Arg::Heads(table)
            | Arg::Next(table)
            | Arg::Bloom(table)
            | Arg::BloomMask(table)
            | Arg::Payload(table, _)
            | Arg::PayloadValid(table, _) => *table == number,
            _ => false,
        }
    }
}

impl Arg {
    /// True for what leads to rows that come out.
    pub fn is_of_output(&self) -> bool {
        matches!(self, Arg::OutputCount | Arg::OutputCapacity | Arg::Output(_) | Arg::OutputValid(_))
    }
}

/// The arguments of one kernel, in order of first use.
#[derive(Debug, Default, Clone)]
pub(crate) struct Args {
    list: Vec<Arg>,
}

impl Args {
    /// The code that names `arg`.
    pub(crate) fn word(&mut self, arg: Arg) -> String {
        let index = self.list.iter().position(|known| *known == arg).unwrap_or_else(|| {
            self.list.push(arg);
            self.list.len() - 1
        });
        format!("W({index})")
    }

    /// `arg` as a pointer to `c_type`.
    pub(crate) fn pointer(&mut self, arg: Arg, c_type: &str) -> String {
        format!("(({c_type}*){})", self.word(arg))
    }

    /// All, in order.
    pub(crate) fn list(&self) -> &[Arg] {
        &self.list
    }
}
