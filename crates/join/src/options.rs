//! How rows are joined. Nothing here changes what matches.

use pelton_device::{DeviceId, NodeId};
use pelton_error::{CancelFlag, Error, Result};
use pelton_fabric::Rates;
use pelton_transfer::Method;

/// The algorithm of a join.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Whatever is predicted to be fastest.
    Auto,
    /// One table in memory of a device.
    Gpu,
    /// Partitions on a device that holds both sides.
    Radix,
    /// Partitions of which as many as fit stay on a device, the others in pinned memory of the host meanwhile.
    Hybrid,
    /// The host's cores, one table.
    Nopa,
    /// The host's cores, partitions.
    Pro,
}

impl Algorithm {
    /// All but [`Auto`](Self::Auto).
    pub const ALL: [Algorithm; 5] =
        [Algorithm::Gpu, Algorithm::Radix, Algorithm::Hybrid, Algorithm::Nopa, Algorithm::Pro];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Auto => "auto",
            Algorithm::Gpu => "gpu",
            Algorithm::Radix => "radix",
            Algorithm::Hybrid => "hybrid",
            Algorithm::Nopa => "nopa",
            Algorithm::Pro => "pro",
        }
    }

    /// The algorithm of that name.
    ///
    /// # Errors
    ///
    /// `InvalidInput` that lists the names.
    pub fn parse(name: &str) -> Result<Self> {
        let mut all = std::iter::once(Algorithm::Auto).chain(Self::ALL);
        all.find(|one| one.name() == name).ok_or_else(|| {
            let names = Self::ALL.map(Algorithm::name).join(", ");
            Error::invalid_input(format!("no join '{name}'; there are auto, {names}"))
        })
    }

    /// True if a device does the work.
    pub fn uses_devices(self) -> bool {
        !matches!(self, Algorithm::Nopa | Algorithm::Pro)
    }
}

/// Where the table of `gpu` lies (Lutz et al. 2020, sections 5.2, 5.3 and 6.3). Kernels reach it by loads and stores,
/// wherever that is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum TablePlace {
    /// In memory of the device that joins.
    #[default]
    Device,
    /// In pinned memory of a host node: of any size that this holds, and each access goes over the link.
    Host(NodeId),
    /// One range of addresses whose first part is on the device, as much as the limit leaves room for, the rest in pinned
    /// memory of the device's own node.
    Hybrid,
    /// Pages dealt to these devices in turn, the one that joins among them.
    Interleaved(Vec<DeviceId>),
    /// In memory of another device, over the links between them.
    Peer(DeviceId),
}

/// What is known of the keys of the build side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyRange {
    /// The least key there may be.
    pub first_key: u64,
    /// How many keys there may be from that on.
    pub place_count: u64,
}

/// How rows are joined.
#[derive(Debug, Clone)]
pub struct JoinOptions {
    /// The algorithm; `Auto` takes the one that is predicted to be fastest.
    pub algorithm: Algorithm,
    /// The device.
    pub device: DeviceId,
    /// What a join takes of the device's memory at most, bytes; `None`: what its budget has left. Rows that are there
    /// already do not count.
    pub device_memory_limit_bytes: Option<u64>,
    /// The range of unique build keys, for a table that is an array by key (`gpu`). Should keys turn out to be outside or
    /// not unique, the table is built again as a general one.
    pub key_range: Option<KeyRange>,
    /// How `gpu` comes to rows of the host; `None`: by copies, in the way of their memory.
    pub method: Option<Method>,
    /// Where the table of `gpu` lies.
    pub table: TablePlace,
    /// Threads of the CPU.
    pub thread_count: usize,
    /// Bytes of a chunk that is streamed to a device, at most. The least at which the link is at 0.99 of its rate is
    /// 16 MiB (docs/perf/transfer.md); more leaves longer pieces where chunks are partitioned.
    pub chunk_bytes: usize,
    /// What the machine's parts reach, for predictions.
    pub rates: Rates,
    /// Stops the join.
    pub cancel: CancelFlag,
}

impl Default for JoinOptions {
    fn default() -> Self {
        Self {
            algorithm: Algorithm::Auto,
            device: DeviceId(0),
            device_memory_limit_bytes: None,
            key_range: None,
            method: None,
            table: TablePlace::Device,
            thread_count: std::thread::available_parallelism().map_or(1, usize::from),
            chunk_bytes: 64 << 20,
            rates: Rates::default(),
            cancel: CancelFlag::default(),
        }
    }
}

impl JoinOptions {
    /// Refuses what cannot be.
    ///
    /// # Errors
    ///
    /// `InvalidInput` that names the option and its range.
    pub fn check(&self) -> Result<()> {
        if !(1..=4096).contains(&self.thread_count) {
            return Err(Error::invalid_input("threads of a join: take 1 to 4096"));
        }
        if self.chunk_bytes == 0 {
            return Err(Error::invalid_input("chunks of 0 bytes; take 4 KiB or more"));
        }
        if self.key_range.is_some_and(|range| range.place_count == 0) {
            return Err(Error::invalid_input("a range of no keys; leave it out"));
        }
        if self.table != TablePlace::Device && self.algorithm != Algorithm::Gpu {
            return Err(Error::invalid_input(format!(
                "a place for the table of {}; only gpu puts its table elsewhere than on the device",
                self.algorithm.name()
            )));
        }
        Ok(())
    }
}
