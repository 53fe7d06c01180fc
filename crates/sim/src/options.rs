//! What a topology does not say: rates of processors and drivers.

/// How a simulated machine behaves beyond its links. The default is the H200 machine's, measured 2026-11-21, unless a
/// field says otherwise.
#[derive(Debug, Clone, PartialEq)]
pub struct SimOptions {
    /// True: buffers hold bytes, copies and host forms of work happen, in the order of virtual time. False: sizes
    /// alone, so that gigabytes cost nothing.
    pub functional: bool,
    /// What jitter is drawn from. The same seed and calls give the same times, to the bit.
    pub seed: u64,
    /// Up to which share operations take longer than computed, at random; 0 turns it off.
    pub jitter: f64,
    /// What one core copies, bytes per second: 12 GB/s, a guess.
    pub core_copy_bytes_per_s: f64,
    /// What a device copies from and to pageable memory, which the driver stages, bytes per second.
    pub pageable_bytes_per_s: f64,
    /// How fast pages are locked, bytes per second; the caller waits.
    pub page_lock_bytes_per_s: f64,
    /// How fast pages of managed memory move when they are touched, bytes per second.
    pub managed_fault_bytes_per_s: f64,
    /// Share of a link that a prefetch of managed memory reaches.
    pub prefetch_efficiency: f64,
    /// Share of the slowest link that a copy between devices without peer access reaches.
    pub staging_efficiency: f64,
    /// Random accesses.
    pub random: AccessRates,
    /// Bytes of the machine that each byte held here stands for: what memories hold is divided by it, and bytes moved
    /// and time computed are multiplied, so that a functional simulation shows times of data that no host holds.
    /// Latencies, and sizes that callers choose for pieces, are not scaled.
    pub scale: f64,
    /// Share of the rates of memories and links that work of this name reaches; all of them if it is not named.
    pub work_shares: Vec<(&'static str, f64)>,
}

/// Random accesses per second, by where the memory lies as seen from who accesses it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AccessRates {
    /// A device in its own memory.
    pub device_memory: f64,
    /// All cores of a node in its own memory: a guess.
    pub host_memory: f64,
    /// Over an NVLink.
    pub nvlink: f64,
    /// Over PCIe.
    pub pcie: f64,
    /// Between sockets: a guess.
    pub socket: f64,
    /// Over a network: a guess.
    pub network: f64,
    /// How many reads a write takes as long as, wherever it goes.
    pub reads_per_write: f64,
}

impl Default for SimOptions {
    fn default() -> Self {
        Self {
            functional: false,
            seed: 0,
            jitter: 0.0,
            core_copy_bytes_per_s: 12e9,
            pageable_bytes_per_s: 9.4e9,
            // 4 GiB in 0.22 s.
            page_lock_bytes_per_s: 19.5e9,
            managed_fault_bytes_per_s: 12.2e9,
            // 48.7 of 55.5 GB/s.
            prefetch_efficiency: 0.88,
            staging_efficiency: pelton_fabric::STAGING_EFFICIENCY,
            random: AccessRates {
                device_memory: 41.1e9,
                host_memory: 1e9,
                nvlink: 6.69e9,
                pcie: 0.048e9,
                socket: 0.5e9,
                network: 0.01e9,
                reads_per_write: 1.0,
            },
            scale: 1.0,
            work_shares: Vec::new(),
        }
    }
}
