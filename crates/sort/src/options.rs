//! How rows are sorted. Nothing here changes the result, but for the order of equal keys where that is said.

use pelton_device::DeviceId;
use pelton_error::{CancelFlag, Error, Result};
use pelton_fabric::{Rates, Topology};

/// The algorithm that sorts rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Whatever is predicted to be fastest.
    Auto,
    /// The host's cores: a stable parallel radix sort.
    Cpu,
    /// The host's cores: PARADIS, in place, keys alone; the baseline of the source paper.
    Paradis,
    /// One device that holds all rows.
    Gpu,
    /// Devices that hold all rows; the sorted halves are merged over the links between them, recursively.
    P2p,
    /// Devices that hold all rows; each gets one range of keys in one exchange.
    Partitioned,
    /// Chunks sorted on devices with two buffers each and merged by the CPU.
    Het2n,
    /// The same with three buffers.
    Het3n,
    /// Chunks sorted on devices, then ranges of keys gathered from all of them, sorted and written in order.
    Range,
}

impl Algorithm {
    /// All but [`Auto`](Self::Auto).
    pub const ALL: [Algorithm; 8] = [
        Algorithm::Cpu,
        Algorithm::Paradis,
        Algorithm::Gpu,
        Algorithm::P2p,
        Algorithm::Partitioned,
        Algorithm::Het2n,
        Algorithm::Het3n,
        Algorithm::Range,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Auto => "auto",
            Algorithm::Cpu => "cpu",
            Algorithm::Paradis => "paradis",
            Algorithm::Gpu => "gpu",
            Algorithm::P2p => "p2p",
            Algorithm::Partitioned => "rp",
            Algorithm::Het2n => "het-2n",
            Algorithm::Het3n => "het-3n",
            Algorithm::Range => "range",
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
            Error::invalid_input(format!("no sort '{name}'; there are auto, {names}"))
        })
    }

    /// True if devices do the work.
    pub fn uses_devices(self) -> bool {
        !matches!(self, Algorithm::Cpu | Algorithm::Paradis)
    }
}

/// Which chunks of two halves change places where whole chunks do (P2P).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Pairing {
    /// The first with the first: what was in order stays in order, and less is moved afterwards.
    #[default]
    Ordered,
    /// The first with the last, as in the source paper.
    Mirrored,
}

/// Whether groups of runs are merged by the CPU while devices go on (HET).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Eager {
    /// Never: one merge at the end. The source paper finds that faster on all its machines.
    #[default]
    Off,
    /// Whenever a group is back.
    On,
}

/// How rows are sorted.
#[derive(Debug, Clone)]
pub struct SortOptions {
    /// The algorithm; `Auto` takes the one that is predicted to be fastest.
    pub algorithm: Algorithm,
    /// The devices to use, in this order; `None`: all, in the order that the topology makes best.
    pub devices: Option<Vec<DeviceId>>,
    /// What a sort takes of the memory of each device at most, bytes; `None`: what its budget has left.
    pub device_memory_limit_bytes: Option<u64>,
    /// Whether equal keys have to keep the order of their payloads: every algorithm but P2P over more than two devices
    /// and PARADIS keeps it.
    pub is_stable: bool,
    /// Threads of the CPU.
    pub thread_count: usize,
    /// Pieces of the first copy: a piece is sorted while the next one is copied.
    pub piece_count: usize,
    /// The least bytes of such a piece. On PCIe 5 a copy of 16 MiB reaches 0.99 of what large ones do
    /// (docs/perf/transfer.md).
    pub piece_bytes: usize,
    /// Bytes that leave and enter a buffer at a time where it is refilled in place (HET with three buffers).
    pub swap_bytes: usize,
    /// Chunks of P2P that change places.
    pub pairing: Pairing,
    /// Merging by groups.
    pub eager: Eager,
    /// Groups that may wait to be merged; a device waits before there are more.
    pub pending_max: usize,
    /// The links of the machine, for the order of devices and for predictions.
    pub topology: Option<Topology>,
    /// What the machine's parts reach, for predictions.
    pub rates: Rates,
    /// Stops the sort.
    pub cancel: CancelFlag,
}

impl Default for SortOptions {
    fn default() -> Self {
        Self {
            algorithm: Algorithm::Auto,
            devices: None,
            device_memory_limit_bytes: None,
            is_stable: true,
            thread_count: std::thread::available_parallelism().map_or(1, usize::from),
            piece_count: 8,
            piece_bytes: 64 << 20,
            swap_bytes: 16 << 20,
            pairing: Pairing::default(),
            eager: Eager::default(),
            pending_max: 2,
            topology: None,
            rates: Rates::default(),
            cancel: CancelFlag::default(),
        }
    }
}

impl SortOptions {
    /// Refuses what cannot be.
    ///
    /// # Errors
    ///
    /// `InvalidInput` that names the option and its range.
    pub fn check(&self) -> Result<()> {
        let refuse = |what: &str| Err(Error::invalid_input(what.to_owned()));
        if !(1..=4096).contains(&self.thread_count) {
            return refuse("threads of a sort: take 1 to 4096");
        }
        if !(1..=1024).contains(&self.piece_count) {
            return refuse("pieces of the first copy: take 1 to 1024");
        }
        if self.piece_bytes == 0 || self.swap_bytes == 0 {
            return refuse("pieces of 0 bytes; take 4 KiB or more");
        }
        if self.pending_max == 0 {
            return refuse("groups waiting to be merged: take 1 or more");
        }
        if let Some(devices) = &self.devices {
            if devices.is_empty() {
                return refuse("a sort over no devices; name one, or leave them out for all");
            }
            for (index, device) in devices.iter().enumerate() {
                if devices[..index].contains(device) {
                    return Err(Error::invalid_input(format!("{device} named twice; name each once")));
                }
            }
        }
        Ok(())
    }
}
