//! What to load and how.

use pelton_chunk::Codec;
use pelton_files::{InputFormat, TextOptions};
use pelton_limits::{MemoryLimit, SpillOptions};
use pelton_store::{Objective, SampleOptions, WriteMode};

/// What a load may hold where nobody knows how much memory there is.
const UNKNOWN_LIMIT_BYTES: u64 = 2 << 30;

/// The order in which rows are stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ClusterBy {
    /// As they come.
    #[default]
    None,
    /// Sorted by the candidates that filters are likely to name, fewest distinct values first, until more
    /// columns would no longer help. Candidates are columns and attributes of declared dimensions; none
    /// given: all of them with 2 to 1000 distinct values.
    Auto(Vec<String>),
    /// Sorted by these, the first being the most significant.
    Columns(Vec<String>),
}

/// Declares that `fact_column` refers to `dimension_key` of `dimension_table`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StarLink {
    /// A column of the table being loaded.
    pub fact_column: String,
    /// A table of the same warehouse.
    pub dimension_table: String,
    /// The column of the dimension that is referred to.
    pub dimension_key: String,
}

/// Which way a table's bytes will come to those who read it: what its encodings are chosen by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Purpose {
    /// From a local disk once, then from memory, to the CPU and to devices: the slower of reading and decoding is as fast as can
    /// be, and codecs only where they pay over a fast disk too.
    #[default]
    Auto,
    /// Over the link of a device: the fewest bytes of what its kernels decode while they read, so without codecs.
    Gpu,
    /// From the page cache to the CPU: the slower of reading that and decoding is as fast as can be.
    Cpu,
    /// Seldom, and from where bytes cost: the fewest bytes.
    Archive,
}

/// What a plain local disk delivers: what decodes slower than that is not chosen for the few bytes it saves.
pub const DISK_BYTES_PER_S: u64 = 1_000_000_000;
/// What a fast local disk delivers, over which codecs have to pay.
const FAST_DISK_BYTES_PER_S: u64 = 4_000_000_000;
/// What all cores together read from the page cache; a guess.
const PAGE_CACHE_BYTES_PER_S: u64 = 10_000_000_000;

impl Purpose {
    /// Among which encodings a sample chooses, and what for.
    pub fn choose(self) -> SampleOptions {
        let all = SampleOptions::default();
        let fastest = |storage_bytes_per_s| Objective::Fastest { storage_bytes_per_s };
        match self {
            Purpose::Auto => SampleOptions {
                objective: fastest(DISK_BYTES_PER_S),
                codec_bytes_per_s: Some(FAST_DISK_BYTES_PER_S),
                ..all
            },
            Purpose::Gpu => {
                SampleOptions { objective: Objective::Smallest, codecs: vec![Codec::None], ..all }
            }
            Purpose::Cpu => SampleOptions { objective: fastest(PAGE_CACHE_BYTES_PER_S), ..all },
            Purpose::Archive => SampleOptions { objective: Objective::Smallest, ..all },
        }
    }
}

/// Sizes and limits of a load.
#[derive(Debug, Clone)]
pub struct LoadOptions {
    /// Among which encodings and sizes the sample chooses, and what for. Appending keeps the table's sizes.
    pub choose: SampleOptions,
    /// Share of the row groups to sample; at least 2 are, and at most `sample_row_groups_max`.
    pub sample_ratio: f64,
    /// The most row groups to sample, whatever their share.
    pub sample_row_groups_max: u64,
    /// Decides which row groups are sampled.
    pub seed: u64,
    /// Bytes of rows held in memory at once; what does not fit is spilled. By default the share of the machine's memory
    /// that any command may take.
    pub memory_limit_bytes: u64,
    /// Where that is, if not in the warehouse, and how much of it.
    pub spill: SpillOptions,
    /// Threads that parse, and as many that encode.
    pub thread_count: usize,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self {
            choose: Purpose::Auto.choose(),
            sample_ratio: 0.1,
            sample_row_groups_max: 8,
            seed: 0,
            memory_limit_bytes: MemoryLimit::default().bytes().unwrap_or(UNKNOWN_LIMIT_BYTES),
            spill: SpillOptions::default(),
            thread_count: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

impl LoadOptions {
    /// For bytes that a device decodes in its kernels, or that do not come from a disk: light encodings, and no codec.
    pub fn light() -> Self {
        let options = Self::default();
        Self { choose: SampleOptions { codecs: vec![Codec::None], ..options.choose }, ..options }
    }
}

/// One load.
#[derive(Debug, Clone)]
pub struct LoadRequest {
    /// The table to make, replace or add to.
    pub table: String,
    /// Which of these.
    pub mode: WriteMode,
    /// Files, globs, directories, and URLs of objects, patterns and folders (`s3://`, `https://`); in this order.
    pub inputs: Vec<String>,
    /// `None`: by the names of the files.
    pub format: Option<InputFormat>,
    /// How text files are written, and how their types are found.
    pub text: TextOptions,
    /// These columns of the files alone, in this order, of new tables; `None`: all. Every file has them, of one type, or
    /// the load is refused as unsupported.
    pub columns: Option<Vec<String>>,
    /// The table need not outlive the process that loads it: nothing waits until it is on the disk.
    pub is_scratch: bool,
    /// The order of the rows.
    pub cluster_by: ClusterBy,
    /// Dimensions whose attributes get metadata on this table's row groups.
    pub star: Vec<StarLink>,
    /// Sizes and limits.
    pub options: LoadOptions,
}

impl LoadRequest {
    /// A load of `inputs` into `table` with everything else at its default.
    pub fn new(table: impl Into<String>, mode: WriteMode, inputs: Vec<String>) -> Self {
        Self {
            table: table.into(),
            mode,
            inputs,
            format: None,
            text: TextOptions::default(),
            columns: None,
            is_scratch: false,
            cluster_by: ClusterBy::None,
            star: Vec::new(),
            options: LoadOptions::default(),
        }
    }
}
