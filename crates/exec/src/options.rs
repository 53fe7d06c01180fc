//! How pipelines run: on what, by which kernels, in how much memory. None of it changes results.

use std::path::PathBuf;

use pelton_scan::Decompress;
use pelton_transfer::Links;

/// What pipelines run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetChoice {
    /// This GPU.
    Cuda {
        /// Its number.
        device: u32,
    },
    /// Threads of the host, by a logical device: the same pipelines, compiled by the system's C++ compiler.
    Host,
}

/// How kernels drop the rows that conditions are not true for (Lutz et al., "Pump Up the Volume", 2020).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Filters {
    /// Condition by condition; what one drops, the next does not look at.
    #[default]
    Branching,
    /// All conditions of each row are computed and combined without branches, and sums without groups add 0 for rows
    /// that do not pass. Where a row must pass before anything is done with it (payloads of a hash table, groups,
    /// rows that come out), one branch stands there.
    Predicated,
}

/// How kernels of the host target go through rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum HostRows {
    /// 32 that follow each other at a time, as far as no text without a dictionary is read.
    #[default]
    Slices,
    /// As kernels of a GPU do, of which this is a test.
    Lanes,
}

/// Where kernels check arithmetic for overflow. Either way no number wraps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum OverflowChecks {
    /// Where the bounds of columns do not show that results fit.
    #[default]
    WhereNeeded,
    /// In all arithmetic of integers and decimals, whose sums take 128 bits: a measure of what bounds save.
    Everywhere,
}

/// Memory that is made short on purpose, to test what queries do then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum MemoryTest {
    /// Memory is as short as it is.
    #[default]
    Off,
    /// Each array and buffer of a pipeline is refused when it is first asked for, and the query parks.
    RefuseOnce,
    /// Groups found by hashing are spilled after every morsel.
    SpillAlways,
    /// Hash tables are spilled after every morsel, and when they are built: all that probes one runs in partitions.
    SpillTables,
}

/// How pipelines run. None of it changes results.
#[derive(Debug, Clone)]
pub struct RuntimeOptions {
    /// The GPU or the host threads that run the kernels.
    pub target: TargetChoice,
    /// Devices that work beside the target's, by number; on the host target, logical devices from 1 on. Large scans are
    /// divided among all, small tables are built on each.
    pub more_devices: Vec<u32>,
    /// Memory of the host's cores as a worker behind the devices, bytes: it takes part in the runs that ask for it
    /// ([`RunWith::uses_host`](crate::RunWith::uses_host)). `None`: there is no such worker.
    pub host_worker_bytes: Option<u64>,
    /// Bytes of a scan that come over the link at least for the host's cores to take some of its rows: 3 ms of the link.
    pub host_link_bytes_min: u64,
    /// The host's cores take part wherever they can, whatever that costs: a test.
    pub always_with_host: bool,
    /// The most memory of each device that is taken, bytes; `None`: all that is free.
    pub device_memory_limit_bytes: Option<u64>,
    /// The most pinned memory that is taken, bytes; `None`: half of the machine's.
    pub pinned_memory_limit_bytes: Option<u64>,
    /// Folder of compiled programs; `None`: the user's cache.
    pub cache: Option<PathBuf>,
    /// Whether the next morsel is read and copied while one is worked on. Without it, `staging_buffers` morsels at most
    /// are under way from their read to their result.
    pub overlap: bool,
    /// All keys hash alike: a test of collisions.
    pub equal_hashes: bool,
    /// Rows, or groups, that tables, groups and rows that come out have room for at first; `None`: as many as are
    /// expected. They grow as need be: a test of growth.
    pub first_rows: Option<u64>,
    /// Groups that are worth a sort on the device at least: of fewer the host's sort takes less time than the kernel that
    /// gathers them. Planners read it, runs do not. A guess.
    pub sorted_groups_min: u64,
    /// Bytes of sorted runs that the host holds at most for the query that is planned; `None`: any number. Planners read it,
    /// runs are told by [`RunWith`](crate::RunWith).
    pub sorted_bytes_max: Option<u64>,
    /// Rows of a result that are worth being dealt to all cores at least, where the CPU goes on with them. Planners read
    /// it, runs do not. Two batches: of one nothing can be dealt.
    pub dealt_rows_min: u64,
    /// Memory that is made short: a test.
    pub memory_test: MemoryTest,
    /// How conditions are computed.
    pub filters: Filters,
    /// How the host target goes through rows; one by one where filters are predicated.
    pub host_rows: HostRows,
    /// Where arithmetic is checked.
    pub overflow_checks: OverflowChecks,
    /// Bytes of chunks that are moved in one go.
    pub morsel_bytes: usize,
    /// Row groups of a morsel at most.
    pub row_groups_max: usize,
    /// Morsels in flight.
    pub staging_buffers: usize,
    /// Bytes of each device's memory for the column cache; `None`: half of its memory on a GPU, nothing on the host target.
    pub device_cache_bytes: Option<u64>,
    /// Bytes of pinned memory for the column cache: columns that the devices have no room for; `None`: half of what
    /// pinned memory may be taken on a GPU, nothing on the host target.
    pub pinned_cache_bytes: Option<u64>,
    /// Links of other devices that pinned chunks may come over; `None`: those that are predicted to pay, where one GPU
    /// works alone.
    pub links: Option<Links>,
    /// Who decompresses heavy codecs of what is read from disk.
    pub decompress: Decompress,
    /// Threads of the host target; 0: all cores.
    pub workers: u32,
    /// Compiles every source for this compute capability (major, minor) as well and refuses what does not compile: a
    /// test of the host target.
    pub check_for: Option<(u32, u32)>,
}

impl Default for RuntimeOptions {
    fn default() -> Self {
        Self {
            target: TargetChoice::Cuda { device: 0 },
            more_devices: Vec::new(),
            host_worker_bytes: None,
            host_link_bytes_min: 160 << 20,
            always_with_host: false,
            device_memory_limit_bytes: None,
            pinned_memory_limit_bytes: None,
            cache: None,
            overlap: true,
            equal_hashes: false,
            first_rows: None,
            sorted_groups_min: 1 << 16,
            sorted_bytes_max: None,
            dealt_rows_min: 2 * 8192,
            memory_test: MemoryTest::Off,
            filters: Filters::Branching,
            host_rows: HostRows::Slices,
            overflow_checks: OverflowChecks::WhereNeeded,
            morsel_bytes: 32 << 20,
            row_groups_max: 4096,
            staging_buffers: 4,
            device_cache_bytes: None,
            pinned_cache_bytes: None,
            links: None,
            decompress: Decompress::Auto,
            workers: 0,
            check_for: None,
        }
    }
}
