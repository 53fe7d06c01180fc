//! The device that queries may use, and the runtime that drives it, opened when it is first needed.
//!
//! ```text
//!   auto   the first GPU, for subtrees that it turned out to be faster at; without one, kernels compiled for the host's
//!          cores likewise, where there is a C++ compiler and memory for them
//!   cpu    DataFusion alone
//!   gpu    everything that kernels can do, on this GPU
//!   gpu+host   the same, and the host's cores take some of the rows that come over its link
//!   host   the same, with kernels compiled for the host's cores: for tests, on machines without a GPU
//! ```

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use pelton_device::cuda;
use pelton_error::{CancelFlag, Error, ErrorKind, Result, ResultExt};
use pelton_exec::{Runtime, RuntimeOptions, TargetChoice};
use pelton_fabric::Rates;
use pelton_io::IoEngine;
use pelton_pipeline::ir::{Pipeline, Source};
use pelton_pipeline::{Dictionary, TextSource};
use pelton_scan::DataTier;
use pelton_store::Table;

use super::corrections::Corrections;
use super::experience::{Experience, Manner};
use super::foreground::Foreground;
use super::text_pages::TextPages;

/// Where queries run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeviceChoice {
    /// On the first GPU where that turned out to be faster, else on the CPU. Where there is none, kernels compiled for
    /// the host's cores are tried out in its place.
    #[default]
    Auto,
    /// On the CPU.
    Cpu,
    /// On a GPU, by number (the first where there is none), whatever can run there.
    Gpu(Option<u32>),
    /// As `Gpu`, and the host's cores take some of the rows of scans whose columns are in pinned memory.
    GpuAndHost(Option<u32>),
    /// As on a GPU, but with kernels compiled for the host.
    Host,
    /// As `Auto`, but with kernels compiled for the host, and small queries are tried out too: for tests.
    AutoHost,
}

impl FromStr for DeviceChoice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let unknown = || {
            Error::invalid_input(format!(
                "'{text}' is no device; choose auto, cpu, gpu, gpu:<number>, or gpu+host, gpu:<number>+host"
            ))
        };
        if let Some(gpu) = text.strip_suffix("+host") {
            return match gpu.parse() {
                Ok(Self::Gpu(number)) => Ok(Self::GpuAndHost(number)),
                _ => Err(unknown()),
            };
        }
        match text.split_once(':') {
            Some(("gpu", number)) => Ok(Self::Gpu(Some(number.parse().map_err(|_| unknown())?))),
            Some(_) => Err(unknown()),
            None => match text {
                "auto" => Ok(Self::Auto),
                "cpu" => Ok(Self::Cpu),
                "gpu" => Ok(Self::Gpu(None)),
                "host" => Ok(Self::Host),
                "auto-host" => Ok(Self::AutoHost),
                _ => Err(unknown()),
            },
        }
    }
}

impl DeviceChoice {
    /// The number of the first device that this names.
    fn first(self) -> u32 {
        match self {
            Self::Gpu(device) | Self::GpuAndHost(device) => device.unwrap_or(0),
            Self::Auto | Self::Cpu | Self::Host | Self::AutoHost => 0,
        }
    }

    /// Whether kernels of the host are tried out: this is `Auto`, there is no GPU, and there is a C++ compiler.
    pub(crate) fn tries_host(self) -> bool {
        self == Self::Auto && !is_gpu_likely() && pelton_pipeline::may_compile_for_host()
    }

    /// Whether kernels of the host may work beside those of a GPU.
    pub(crate) fn works_beside_gpu(self) -> bool {
        match self {
            Self::Auto => is_gpu_likely() && pelton_pipeline::may_compile_for_host(),
            Self::GpuAndHost(_) => true,
            Self::Cpu | Self::Gpu(_) | Self::Host | Self::AutoHost => false,
        }
    }

    /// Whether it was asked for by name, so that what it lacks is said at once.
    pub(crate) fn is_by_name(self) -> bool {
        matches!(self, Self::Gpu(_) | Self::GpuAndHost(_) | Self::Host)
    }

    /// The numbers of the `count` devices behind the first.
    pub(crate) fn following(self, count: u32) -> Vec<u32> {
        (1..=count).map(|index| self.first().saturating_add(index)).collect()
    }
}

/// One of these is there wherever there is a GPU: of the driver on Linux, and under Windows.
const GPU_FILES: [&str; 2] = ["/dev/nvidiactl", "/dev/dxg"];

fn is_gpu_likely() -> bool {
    GPU_FILES.iter().any(|file| Path::new(file).exists())
}

/// Memory of the host's cores beside a GPU, where nobody says.
const BESIDE_BYTES: u64 = 4 << 30;

/// The share of the memory for kernels of the host that bounce buffers may take.
const HOST_BUFFERS_SHARE: u64 = 4;

/// The device of a session, which may be none. Shared by its rule, its plans and whoever asks what became of them.
pub struct DeviceHandle {
    choice: DeviceChoice,
    /// As they were given.
    given: RuntimeOptions,
    options: RuntimeOptions,
    io: Arc<IoEngine>,
    /// Threads that the CPU would use.
    threads: usize,
    /// Whether `Auto` found a GPU, once it has looked.
    is_gpu_there: OnceLock<bool>,
    /// Memory for kernels of the host where `Auto` has no GPU; 0: none are used then.
    host_kernel_bytes: u64,
    experience: Experience,
    foreground: OnceLock<Arc<Foreground>>,
    text_pages: TextPages,
    corrections: Corrections,
    /// Until the runtime is open, which has those of the machine.
    preset: Rates,
    runtime: OnceLock<std::result::Result<Arc<Runtime>, (ErrorKind, String)>>,
}

impl DeviceHandle {
    /// The device that `choice` names. `options` say how it is driven; their target follows from `choice`. `threads`
    /// is how many the CPU would use, for `Auto` to compare with, and `host_kernel_bytes` what kernels of the host may
    /// take where that finds no GPU. Nothing is opened yet.
    pub fn new(
        choice: DeviceChoice,
        options: RuntimeOptions,
        io: Arc<IoEngine>,
        threads: usize,
        host_kernel_bytes: u64,
    ) -> Arc<Self> {
        let tries_host = host_kernel_bytes > 0 && choice.tries_host();
        let given = options.clone();
        let options = match choice {
            DeviceChoice::Auto if tries_host => with_host_kernels(options, host_kernel_bytes, threads),
            DeviceChoice::Host | DeviceChoice::AutoHost => {
                RuntimeOptions { target: TargetChoice::Host, ..options }
            }
            DeviceChoice::Gpu(_) | DeviceChoice::GpuAndHost(_) | DeviceChoice::Auto | DeviceChoice::Cpu => {
                let beside_bytes = match (choice, host_kernel_bytes) {
                    (DeviceChoice::GpuAndHost(_), 0) => Some(BESIDE_BYTES),
                    (DeviceChoice::GpuAndHost(_), bytes) => Some(bytes),
                    (_, bytes) => Some(bytes).filter(|bytes| *bytes > 0 && choice.works_beside_gpu()),
                };
                let target = TargetChoice::Cuda { device: choice.first() };
                let workers = if beside_bytes.is_some() { threads as u32 } else { options.workers };
                RuntimeOptions { target, host_worker_bytes: beside_bytes, workers, ..options }
            }
        };
        let manner = if tries_host { Manner::of_host() } else { Manner::of_gpu() };
        let (is_gpu_there, runtime) = (OnceLock::new(), OnceLock::new());
        Arc::new(Self {
            choice,
            given,
            options,
            io,
            threads,
            is_gpu_there,
            host_kernel_bytes,
            experience: Experience::new(manner),
            foreground: OnceLock::new(),
            text_pages: TextPages::default(),
            corrections: Corrections::default(),
            preset: Rates::of_preset(),
            runtime,
        })
    }

    /// Another device in place of this one, driven by the same options, with as many beside it. Nothing is opened yet.
    pub fn with_choice(&self, choice: DeviceChoice) -> Arc<Self> {
        let more_devices = choice.following(self.options.more_devices.len() as u32);
        let options = RuntimeOptions { more_devices, ..self.given.clone() };
        Self::new(choice, options, Arc::clone(&self.io), self.threads, self.host_kernel_bytes)
    }

    /// What was chosen.
    pub fn choice(&self) -> DeviceChoice {
        self.choice
    }

    /// What was learnt of how long things take.
    pub(super) fn experience(&self) -> &Experience {
        &self.experience
    }

    /// What runs in the foreground of this session.
    pub(crate) fn foreground(&self) -> &Arc<Foreground> {
        self.foreground.get_or_init(|| Foreground::new(&self.preset))
    }

    /// Whether somebody may try the device out while queries run.
    pub(crate) fn tries_out(&self) -> bool {
        matches!(self.choice, DeviceChoice::Auto | DeviceChoice::AutoHost) && !self.is_none_for_sure()
    }

    /// What was learnt of how far predictions are off.
    pub(super) fn corrections(&self) -> &Corrections {
        &self.corrections
    }

    /// What the machine reaches, as far as is known: opens nothing.
    pub(super) fn rates(&self) -> &Rates {
        self.opened().map_or(&self.preset, |runtime| runtime.rates())
    }

    /// What reads tables.
    pub(super) fn io(&self) -> &Arc<IoEngine> {
        &self.io
    }

    /// Pages of texts that rows of results were fetched from.
    pub(super) fn text_pages(&self) -> &TextPages {
        &self.text_pages
    }

    /// Threads that the CPU would use.
    pub(super) fn threads(&self) -> usize {
        self.threads
    }

    /// Whether `Auto` tries out kernels of the host, as it has no GPU.
    pub(crate) fn tries_host(&self) -> bool {
        self.choice == DeviceChoice::Auto && self.options.target == TargetChoice::Host
    }

    /// What users call running there.
    pub(crate) fn where_text(&self) -> &'static str {
        self.experience.manner().where_text
    }

    /// False where everything runs on the CPU: by choice, or because `Auto` finds no GPU and compiles nothing for the host.
    /// Looks for the driver, once.
    pub fn is_any(&self) -> bool {
        match self.choice {
            DeviceChoice::Cpu => false,
            DeviceChoice::Gpu(_)
            | DeviceChoice::GpuAndHost(_)
            | DeviceChoice::Host
            | DeviceChoice::AutoHost => true,
            DeviceChoice::Auto if self.tries_host() => true,
            DeviceChoice::Auto => *self.is_gpu_there.get_or_init(|| cuda::status().device_count > 0),
        }
    }

    /// True where it is known already that everything runs on the CPU. Opens nothing: a driver takes a while.
    pub(crate) fn is_none_for_sure(&self) -> bool {
        match self.choice {
            DeviceChoice::Cpu => true,
            DeviceChoice::Auto if self.tries_host() => false,
            DeviceChoice::Auto => match self.is_gpu_there.get() {
                Some(is_there) => !is_there,
                None => !is_gpu_likely(),
            },
            DeviceChoice::Gpu(_)
            | DeviceChoice::GpuAndHost(_)
            | DeviceChoice::Host
            | DeviceChoice::AutoHost => false,
        }
    }

    /// Whether the host's cores may work beside the device.
    pub(super) fn has_host_worker(&self) -> bool {
        self.options.host_worker_bytes.is_some()
    }

    /// Whether they do in every run, as was asked for.
    pub(super) fn always_uses_host(&self) -> bool {
        self.has_host_worker() && self.choice.is_by_name()
    }

    /// How many devices each query runs on.
    pub(super) fn device_count(&self) -> usize {
        1 + self.options.more_devices.len()
    }

    /// Groups that a device sorts at least.
    pub(super) fn sorted_groups_min(&self) -> u64 {
        self.options.sorted_groups_min
    }

    /// Bytes of sorted runs that the host holds at most, to merge them; `None`: any number.
    pub(super) fn sorted_bytes_max(&self) -> Option<u64> {
        self.options.sorted_bytes_max
    }

    /// Rows of a result that are dealt to all cores at least.
    pub(super) fn dealt_rows_min(&self) -> u64 {
        self.options.dealt_rows_min
    }

    /// Whether the device can sort.
    ///
    /// # Errors
    ///
    /// `Unsupported` that says what is missing.
    pub(super) fn check_sorts(&self) -> Result<()> {
        pelton_exec::check_sorts(self.options.target)
    }

    /// Memory of the device that may be taken, bytes; `None` while the runtime is not open.
    pub(super) fn memory_limit_bytes(&self) -> Option<u64> {
        let runtime = self.opened()?;
        let budget = runtime.machine().device_budget(runtime.device()).ok()?;
        Some(budget.limit_bytes())
    }

    /// Changes whenever something learnt changes where something runs.
    pub(crate) fn changes(&self) -> u64 {
        self.experience.changes()
    }

    /// The runtime; the first call opens it.
    ///
    /// # Errors
    ///
    /// What is missing: the driver, NVRTC, a C++ compiler.
    pub fn runtime(&self) -> Result<Arc<Runtime>> {
        let opened = self.runtime.get_or_init(|| {
            let opened = Runtime::open(self.options.clone(), Arc::clone(&self.io));
            opened.map_err(|error| (error.kind().clone(), error.to_string()))
        });
        opened.clone().map_err(|(kind, message)| Error::new(kind, message))
    }

    /// The runtime, and meanwhile the compiler of kernels for GPUs, which has to be loaded before it compiles.
    pub(super) fn runtime_and_compiler(&self) -> Result<Arc<Runtime>> {
        std::thread::scope(|scope| {
            if matches!(self.options.target, TargetChoice::Cuda { .. }) {
                scope.spawn(cuda::nvrtc);
            }
            self.runtime()
        })
    }

    /// The runtime, if it is open.
    pub fn opened(&self) -> Option<&Arc<Runtime>> {
        self.runtime.get().and_then(|opened| opened.as_ref().ok())
    }

    /// Loads `table` into pinned memory.
    ///
    /// # Errors
    ///
    /// What is missing, or what of memory; names the table.
    pub fn pin(&self, table: &Arc<Table>) -> Result<()> {
        let doing = || format!("pinning table '{}'", table.name());
        if self.choice == DeviceChoice::Cpu || self.tries_host() {
            let error = Error::invalid_input("the CPU alone has no use for it; choose a GPU with --device");
            return Err(error).context(doing);
        }
        let runtime = self.runtime().context(doing)?;
        runtime.column_cache().pin(table, None, &CancelFlag::new())?;
        Ok(())
    }
}

/// `options` for kernels of the host that `threads` run in so much memory.
fn with_host_kernels(options: RuntimeOptions, memory_bytes: u64, threads: usize) -> RuntimeOptions {
    let buffer_bytes = memory_bytes / HOST_BUFFERS_SHARE;
    let device_bytes = options.device_memory_limit_bytes.unwrap_or(memory_bytes - buffer_bytes);
    RuntimeOptions {
        target: TargetChoice::Host,
        more_devices: Vec::new(),
        workers: threads as u32,
        device_memory_limit_bytes: Some(device_bytes),
        device_cache_bytes: Some(options.device_cache_bytes.unwrap_or(device_bytes / 2)),
        pinned_memory_limit_bytes: Some(options.pinned_memory_limit_bytes.unwrap_or(buffer_bytes)),
        pinned_cache_bytes: Some(0),
        ..options
    }
}

/// What planning and EXPLAIN ask; none of it opens anything.
impl DeviceHandle {
    /// Whether a column that `plan` reads was pinned by somebody.
    pub(super) fn has_pinned(&self, plan: &[Pipeline]) -> bool {
        let Some(runtime) = self.opened() else { return false };
        let is_pinned = |table: &Table, column| runtime.column_cache().is_pinned_by_name(table, column);
        plan.iter().any(|pipeline| match &pipeline.source {
            Source::Table(scan) => scan.columns.iter().any(|&column| is_pinned(&scan.table, column)),
            _ => false,
        })
    }

    /// Whether all that `plan` reads of tables is in memory of the device now.
    pub(super) fn holds_all_of(&self, plan: &[Pipeline]) -> bool {
        plan.iter().all(|pipeline| match &pipeline.source {
            Source::Table(scan) => scan
                .columns
                .iter()
                .all(|&column| matches!(self.tier(&scan.table, column), Some(DataTier::Device(_)))),
            _ => true,
        })
    }

    /// Where column `column` of `table` would be read from, in parentheses; nothing while that is not known.
    pub(super) fn tier_text(&self, table: &Table, column: usize) -> &'static str {
        match self.tier(table, column) {
            Some(DataTier::Device(_)) => " (device)",
            Some(DataTier::Pinned) => " (pinned)",
            Some(DataTier::Disk) => " (disk)",
            None => "",
        }
    }

    /// Where column `column` of `table` would be read from; `None` while the runtime is not open.
    pub(super) fn tier(&self, table: &Table, column: usize) -> Option<DataTier> {
        self.opened().map(|runtime| runtime.column_cache().tier(table, column, runtime.device()))
    }
}

impl fmt::Debug for DeviceHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceHandle").field("choice", &self.choice).finish_non_exhaustive()
    }
}

/// The dictionary of a text column of a table, read when a kernel first needs it.
pub(super) struct TableText {
    table: Arc<Table>,
    column: usize,
    device: Arc<DeviceHandle>,
}

impl TableText {
    /// Of column `column` of `table`.
    pub(super) fn new(table: &Arc<Table>, column: usize, device: &Arc<DeviceHandle>) -> Self {
        Self { table: Arc::clone(table), column, device: Arc::clone(device) }
    }
}

impl fmt::Debug for TableText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TableText({}.{})", self.table.name(), self.table.schema().columns[self.column].name)
    }
}

impl TextSource for TableText {
    fn dictionary(&self) -> Result<Arc<Dictionary>> {
        self.device.runtime()?.column_cache().text(&self.table, self.column).dictionary()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_named_on_the_command_line() {
        let parsed = |text: &str| text.parse::<DeviceChoice>();
        assert_eq!(parsed("auto").unwrap(), DeviceChoice::Auto);
        assert_eq!(parsed("gpu").unwrap(), DeviceChoice::Gpu(None));
        assert_eq!(parsed("gpu:3").unwrap(), DeviceChoice::Gpu(Some(3)));
        assert_eq!(parsed("host").unwrap(), DeviceChoice::Host);
        assert_eq!(parsed("gpu+host").unwrap(), DeviceChoice::GpuAndHost(None));
        assert_eq!(parsed("gpu:3+host").unwrap(), DeviceChoice::GpuAndHost(Some(3)));
        for wrong in ["tpu", "gpu:", "gpu:x", "cpu:1", "cpu+host", "gpu+cpu", "+host"] {
            assert!(parsed(wrong).unwrap_err().to_string().contains(wrong), "{wrong}");
        }
    }
}
