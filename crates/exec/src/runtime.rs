//! Running plans: pipelines after those whose tables they probe, each over morsels, several in flight.
//!
//! ```text
//!   Plan ──► for each pipeline, on one worker or on several
//!              what is stored how ──► source ──► program          (from memory, disk, or compiled)
//!              tables, groups, rows: memory on the device
//!              Prefetcher ──► buffer 0: copy ── kernel ── done     up to `staging_buffers` morsels at once
//!                             buffer 1:    copy ── kernel ── done
//!              rows wait ──► a larger sink, and those rows again
//!            ──► Rows, RunReport
//! ```

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use pelton_device::cuda::{self, CudaOptions};
use pelton_device::host::{self, HostOptions};
use pelton_device::{DeviceId, DeviceKind, Machine, Stream, Turn};
use pelton_error::{CancelFlag, Error, ErrorKind, Result};
use pelton_fabric::profile::Profile;
use pelton_fabric::{self as fabric, Rates, Sources, Topology};
use pelton_io::IoEngine;
use pelton_pipeline::codegen::{self, Generated};
use pelton_pipeline::ir::{Inputs, Op, Plan, Sink, Source, TableScan};
use pelton_pipeline::{CompileReport, Compiler, Effort, Program, Rows, Target, check_source, nvrtc_status};
use pelton_scan::{ColumnCache, ColumnCacheOptions, DataTier, Decompression};
use pelton_trace::Tracer;
use pelton_transfer::{Links, links_for};

use crate::groups_out::TakeGroups;
use crate::host_worker::of_host;
use crate::memory::{HeldLanes, Lanes, is_out_of_memory};
use crate::options::{Filters, HostRows, RuntimeOptions, TargetChoice};
use crate::report::RunReport;
use crate::rows_out::TakeRows;
use crate::team::{Given, Team};
use crate::text_ties::ReadTexts;

/// More than these are forgotten and found out again.
const REPEATING_KEYS_MAX: usize = 10_000;

/// Who looks on at a run.
#[derive(Default, Clone, Copy)]
pub struct RunWith<'r> {
    /// Gets spans.
    pub tracer: Option<&'r Tracer>,
    /// Takes rows of the result as they come, where nothing can make the CPU look at them any more.
    pub rows_taker: Option<&'r dyn TakeRows>,
    /// Bytes at most of rows that the host holds where a device has no room for them: sorted rows to be merged there (also
    /// where several devices have sorted), and hash tables with the rows that wait for them; more of either are an error of
    /// kind `Unsupported`. `None`: any number.
    pub host_bytes_max: Option<u64>,
    /// Takes groups of the result some at a time, where they are many.
    pub groups_taker: Option<&'r dyn TakeGroups>,
    /// Of groups that are the result so many are enough, whichever they are; `None`: all are asked for. There may be more.
    pub groups_enough: Option<u64>,
    /// Whether the host's cores take some of the rows, where the runtime has them as a worker and they do not hold the
    /// devices up.
    pub uses_host: bool,
    /// Has the texts that rows are sorted by; where it is asked for and nobody does, that is an error of kind `Unsupported`.
    pub texts: Option<&'r dyn ReadTexts>,
}

/// Runs plans on one device, or on several together. `Send` and `Sync`; one serves a session.
pub struct Runtime {
    pub(crate) options: RuntimeOptions,
    pub(crate) machine: Machine,
    /// The first brings together what the others have made.
    pub(crate) workers: Vec<Worker>,
    /// The host's cores, which come behind the devices in runs that ask for them.
    pub(crate) host_worker: Option<Worker>,
    compiler: Arc<Compiler>,
    pub(crate) column_cache: Arc<ColumnCache>,
    pub(crate) has_column_cache: bool,
    /// Keys that a table by position was built of in vain, since they repeat.
    repeating_keys: Mutex<HashSet<u64>>,
    rates: Rates,
}

/// A device that takes part in runs.
pub(crate) struct Worker {
    pub(crate) index: usize,
    pub(crate) device: DeviceId,
    target: Target,
    pub(crate) lanes: Lanes,
    /// It is the host's cores behind the devices.
    pub(crate) is_beside: bool,
    /// The kernels that are the same for every query, once they are compiled. Who finds none compiles them, others wait.
    fixed: Mutex<Option<Arc<Program>>>,
}

impl Worker {
    fn open(machine: &Machine, index: usize, device: DeviceId) -> Result<Self> {
        let target = match machine.device(device)?.kind {
            DeviceKind::Cuda { major, minor } => {
                nvrtc_status()?;
                Target::Cuda { device, major, minor }
            }
            DeviceKind::Logical => Target::Host,
            DeviceKind::Simulated => return Err(Error::unsupported("pipelines on a simulated device")),
        };
        let lanes = Lanes::new(Arc::clone(machine.arbiter(device)?));
        Ok(Self { index, device, target, lanes, is_beside: false, fixed: Mutex::default() })
    }

    /// Whether its kernels run on threads of the host.
    pub(crate) fn is_host(&self) -> bool {
        self.target == Target::Host
    }

    /// The first lane of a query or of a part of it, which waits for its turn where even that does not fit.
    pub(crate) fn first_lane(
        &self,
        machine: &Machine,
        turn: &Turn,
        cancel: &CancelFlag,
    ) -> Result<HeldLanes<'_>> {
        loop {
            let refusal = match self.lanes.hold(machine, self.device, 1, 0) {
                Err(refusal) if is_out_of_memory(&refusal) => refusal,
                held => {
                    turn.go_on();
                    return held;
                }
            };
            let wish = if let ErrorKind::OutOfMemory { requested_bytes, .. } = refusal.kind() {
                *requested_bytes
            } else {
                0
            };
            if turn.arbiter().evict(wish) > 0 {
                continue;
            }
            match turn.is_oldest() {
                true if !turn.ask_younger_blocking(cancel)? => return Err(refusal),
                true => {}
                // With room for what it does then, unless the device is too small for that.
                false => {
                    let limit = machine.device(self.device)?.memory_limit_bytes;
                    turn.park_blocking(wish.saturating_mul(16).min(limit / 2), cancel)?;
                }
            }
        }
    }
}

impl Runtime {
    /// Opens the devices and finds a compiler for them.
    ///
    /// # Errors
    ///
    /// `Unsupported` that names what is missing (driver, NVRTC, nvCOMP where it was asked for) and the remedy;
    /// `InvalidInput` for a device that the machine lacks or that is named twice.
    pub fn open(mut options: RuntimeOptions, io: Arc<IoEngine>) -> Result<Arc<Self>> {
        if options.workers == 0 {
            options.workers = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
        }
        let devices = devices_of(&options)?;
        let machine = open_machine(&options, &devices)?;
        check_devices(&machine, &options, &devices)?;
        let workers =
            devices.iter().enumerate().map(|(index, device)| Worker::open(&machine, index, *device));
        let workers = workers.collect::<Result<Vec<_>>>()?;
        let host_worker = options.host_worker_bytes.map(|_| {
            let last = DeviceId(machine.info().devices.len() as u32 - 1);
            Ok(Worker { is_beside: true, ..Worker::open(&machine, workers.len(), last)? })
        });
        let host_worker = host_worker.transpose()?;
        let first = &workers[0];
        let device_cache_bytes = options.device_cache_bytes.unwrap_or(match first.target {
            Target::Cuda { .. } => machine.device(first.device)?.memory_limit_bytes / 2,
            Target::Host => 0,
        });
        let pinned_cache_bytes = options.pinned_cache_bytes.unwrap_or(match first.target {
            Target::Cuda { .. } => machine.pinned_budget().limit_bytes() / 2,
            Target::Host => 0,
        });
        let surveyed = surveyed(&machine, first.target);
        // Links of devices that work themselves are not idle.
        let links = options.links.clone().unwrap_or_else(|| match (workers.len(), &surveyed) {
            (1, Some(surveyed)) => surveyed.links(&machine, first.device),
            _ => Links::default(),
        });
        let rates = surveyed.and_then(|surveyed| surveyed.rates(&machine, first.device)).unwrap_or_default();
        let cache = options.cache.clone();
        let decompression = Decompression::open(options.decompress, &machine, &devices, cache, &rates)?;
        let cache_options = ColumnCacheOptions {
            device_cache_bytes,
            pinned_cache_bytes,
            links,
            decompression,
            in_place: host_worker.as_ref().map(|worker| worker.device),
            ..ColumnCacheOptions::default()
        };
        let column_cache = Arc::new(ColumnCache::new(machine.clone(), io, cache_options));
        let compiler = Arc::new(Compiler::new(options.cache.clone()));
        let has_column_cache = device_cache_bytes > 0 || pinned_cache_bytes > 0;
        for worker in workers.iter().chain(&host_worker) {
            let (cached, device) = (Arc::downgrade(&column_cache), worker.device);
            let evict = move |bytes| cached.upgrade().map_or(0, |cached| cached.evict(device, bytes));
            machine.arbiter(device)?.add_evictable(evict);
        }
        let cached = Arc::downgrade(&column_cache);
        machine.add_pinned_evictable(move |bytes| {
            cached.upgrade().map_or(0, |cached| cached.evict_pinned(bytes))
        });
        Ok(Arc::new(Self {
            options,
            machine,
            workers,
            host_worker,
            compiler,
            column_cache,
            has_column_cache,
            repeating_keys: Mutex::default(),
            rates,
        }))
    }

    /// Where columns are.
    pub fn column_cache(&self) -> &Arc<ColumnCache> {
        &self.column_cache
    }

    /// The machine.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// What the machine reaches and what pipelines cost on it.
    pub fn rates(&self) -> &Rates {
        &self.rates
    }

    /// The device that pipelines run on; of several, the first.
    pub fn device(&self) -> DeviceId {
        self.workers[0].device
    }

    /// All devices that pipelines run on.
    pub fn devices(&self) -> Vec<DeviceId> {
        self.workers.iter().map(|worker| worker.device).collect()
    }

    /// Lets go of streams that no run uses, and of the memory that is kept with them for the next run.
    pub fn release_idle(&self) {
        for worker in self.workers.iter().chain(&self.host_worker) {
            worker.lanes.evict();
        }
    }

    /// How pipelines run.
    pub fn options(&self) -> &RuntimeOptions {
        &self.options
    }

    /// The devices in words.
    pub fn describe(&self) -> String {
        let first = match self.workers[0].target {
            Target::Host => "host target".into(),
            Target::Cuda { device, .. } => {
                let name = self.machine.device(device).map_or("GPU".into(), |info| info.name.clone());
                format!("{name} ({device})")
            }
        };
        match self.workers.len() - 1 {
            0 => first,
            more => format!("{first} and {more} more"),
        }
    }

    /// What `generate` gives for the device of `worker`, whose kernels go through slices or, as it is told, do not. Where
    /// another device is asked for, what it would get is compiled as well.
    pub(crate) fn generate(
        &self,
        worker: &Worker,
        generate: impl Fn(bool) -> Result<Generated>,
    ) -> Result<Generated> {
        let options = &self.options;
        let is_sliced = worker.is_host()
            && options.host_rows == HostRows::Slices
            && options.filters != Filters::Predicated;
        let generated = generate(is_sliced)?;
        if let (true, Some((major, minor))) = (generated.is_sliced, options.check_for) {
            check_source(&generate(false)?.text, major, minor)?;
        }
        Ok(generated)
    }

    /// Compiles `generated` for the device of `worker`; for another one as well, where that is asked for and it is not for
    /// the host alone. For a run in the background, as `cancel` says, it is compiled quickly.
    pub(crate) fn compile(
        &self,
        worker: &Worker,
        generated: &Generated,
        cancel: &CancelFlag,
    ) -> Result<(Arc<Program>, CompileReport)> {
        if let (false, Some((major, minor))) = (generated.is_sliced, self.options.check_for) {
            check_source(&generated.text, major, minor)?;
        }
        // Until a run in the background has ended, its query is left to the CPU: the sooner, the better.
        let effort = if cancel.is_in_background() { Effort::Quick } else { Effort::Full };
        self.compiler.compile_in_turn(&generated.text, worker.target, effort, cancel)
    }

    /// The kernels that are the same for every query, for the device of `worker`; and what compiling them was, unless they
    /// were there.
    pub(crate) fn fixed_program(&self, worker: &Worker) -> Result<(Arc<Program>, Option<CompileReport>)> {
        let mut held = worker.fixed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(program) = &*held {
            return Ok((Arc::clone(program), None));
        }
        let source = codegen::fixed(self.options.equal_hashes);
        if let Some((major, minor)) = self.options.check_for {
            check_source(&source, major, minor)?;
        }
        let (program, report) = self.compiler.compile(&source, worker.target, Effort::Full)?;
        *held = Some(Arc::clone(&program));
        Ok((program, Some(report)))
    }

    /// Keys that a table by position was built of in vain: the next time a hashed one is built at once.
    pub(crate) fn repeating_keys(&self) -> MutexGuard<'_, HashSet<u64>> {
        let mut known = self.repeating_keys.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REPEATING_KEYS_MAX {
            known.clear();
        }
        known
    }

    /// Notes that run number `run` uses these columns, and admits those that it is not the first to use, or of which it
    /// reads most: to the memory of `device`, else to pinned memory. Gives how many were admitted.
    pub(crate) fn admit_used(
        &self,
        device: DeviceId,
        scan: &TableScan,
        run: u64,
        stream: &Stream,
        cancel: &CancelFlag,
    ) -> Result<usize> {
        let mut admitted = 0;
        let cache = &self.column_cache;
        cache.note_uses(&scan.table, &scan.columns, run);
        let is_most = scan.row_groups.len() * 2 > scan.table.row_group_count();
        for &column in &scan.columns {
            let tier = cache.tier(&scan.table, column, device);
            // A run in the background is a trial, which is repeated: its kernels are compiled once, for columns as they lie then.
            let is_again = cancel.is_in_background() || cache.is_used_again(&scan.table, column);
            if matches!(tier, DataTier::Device(_)) || !(is_most || is_again) {
                continue;
            }
            let mut is_admitted =
                where_there_is_room(cache.admit(&scan.table, column, device, stream, cancel))?;
            // What is read once does not stay in the host's memory.
            if !is_admitted && is_again && tier == DataTier::Disk {
                is_admitted = where_there_is_room(cache.admit_to_pinned(&scan.table, column, cancel))?;
            }
            admitted += usize::from(is_admitted);
        }
        Ok(admitted)
    }

    /// Runs `plan` over tables and these inputs and waits for its rows.
    ///
    /// # Errors
    ///
    /// `Unsupported` and `OutOfMemory` where another path should be taken, `Corrupt` for damaged files, `Cancelled`,
    /// `DeviceLost`.
    pub fn run(
        &self,
        plan: &Plan,
        inputs: impl Into<Inputs>,
        cancel: &CancelFlag,
    ) -> Result<(Rows, RunReport)> {
        self.run_with(plan, inputs.into(), cancel, RunWith::default())
    }

    /// As [`run`](Self::run), with what `with` has. Rows that it takes are not among those that this gives.
    ///
    /// # Errors
    ///
    /// Those of [`run`](Self::run), and of who takes rows. Some may have been given out by then.
    pub fn run_with(
        &self,
        plan: &Plan,
        inputs: Inputs,
        cancel: &CancelFlag,
        with: RunWith<'_>,
    ) -> Result<(Rows, RunReport)> {
        let started = Instant::now();
        let given = Given::new(plan, inputs, &with)?;
        let of_host = if with.uses_host { of_host(self, plan) } else { Vec::new() };
        let mut report = RunReport::default();
        let rows = match self.run_as(plan, &given, &of_host, cancel, with.tracer, &mut report) {
            // Nobody has any rows yet: what the host takes part in ends in groups.
            Err(_) if report.is_without_host => {
                self.run_as(plan, &given, &[], cancel, with.tracer, &mut report)?
            }
            rows => rows?,
        };
        report.elapsed = started.elapsed();
        report.is_with_host = !of_host.is_empty() && !report.is_without_host;
        Ok((rows, report))
    }

    /// Runs `plan`; the host's cores take part in the pipelines that `of_host` says. Where it fails and may succeed without
    /// them, `report` says so.
    fn run_as(
        &self,
        plan: &Plan,
        given: &Given<'_>,
        of_host: &[bool],
        cancel: &CancelFlag,
        tracer: Option<&Tracer>,
        report: &mut RunReport,
    ) -> Result<Rows> {
        let cancel = cancel.of_part();
        let mut team = Team::new(self, plan, given, of_host, &cancel, tracer).inspect_err(|error| {
            report.is_without_host = !of_host.is_empty() && may_go_alone(error);
        })?;
        let mut result = Rows::default();
        for stage in stages(plan) {
            cancel.check()?;
            let rows = team.stage(&stage).inspect_err(|error| {
                report.is_without_host = team.has_host_in(&stage) && may_go_alone(error);
            })?;
            result = rows.unwrap_or(result);
        }
        report.pipelines = team.finish();
        Ok(result)
    }
}

/// The machine that a device is of, and what was measured of it.
struct Surveyed {
    topology: Topology,
    profile: Option<Profile>,
}

/// The machine around the GPUs of `machine`; `None` for other targets, and where it cannot be seen.
fn surveyed(machine: &Machine, target: Target) -> Option<Surveyed> {
    if target == Target::Host {
        return None;
    }
    let folder = Profile::default_folder().ok();
    let is_measured = folder.as_ref().is_some_and(|folder| Profile::is_any_in(folder));
    // Looking around takes a while, and nobody would use what is seen.
    if gpu_count(machine) < 2 && !is_measured {
        return None;
    }
    let addresses = machine.info().devices.iter().filter_map(|info| info.pci_address.clone()).collect();
    let survey = fabric::survey(&Sources { device_addresses: addresses, ..Sources::default() }).ok()?;
    let profile = folder.and_then(|folder| Profile::load(&folder, &survey.fingerprint()));
    Some(Surveyed { topology: survey.topology, profile })
}

impl Surveyed {
    /// The links that pay for `device`, by what was measured on this machine or else by what its links promise. Links
    /// of which neither is known are not used.
    fn links(&self, machine: &Machine, device: DeviceId) -> Links {
        if gpu_count(machine) < 2 {
            return Links::default();
        }
        let topology = self.topology.clone();
        let topology = match &self.profile {
            Some(profile) => profile.apply(topology),
            None => topology,
        };
        links_for(&topology, node_of(machine, device), device).unwrap_or_default()
    }

    /// What was measured for `device`, where anything was.
    fn rates(&self, machine: &Machine, device: DeviceId) -> Option<Rates> {
        let profile = self.profile.as_ref()?;
        Some(Rates::measured(profile, node_of(machine, device), device.0))
    }
}

/// GPUs of `machine`, which may have the host's cores as a device too.
fn gpu_count(machine: &Machine) -> usize {
    machine.info().devices.iter().filter(|info| info.kind != DeviceKind::Logical).count()
}

fn node_of(machine: &Machine, device: DeviceId) -> u32 {
    machine.info().devices[device.0 as usize].node.0
}

/// Whether devices may succeed where they and the host's cores together did not.
fn may_go_alone(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::OutOfMemory { .. })
}

/// The pipelines of `plan` by stage. Those of a stage may run at once: none probes a table that another one builds, or
/// reads its groups.
pub fn stages(plan: &Plan) -> Vec<Vec<usize>> {
    let mut stage_of_table = vec![0; plan.table_count];
    let mut stage_of_pipeline = Vec::with_capacity(plan.pipelines.len());
    let mut stages: Vec<Vec<usize>> = Vec::new();
    for (index, pipeline) in plan.pipelines.iter().enumerate() {
        let probed = pipeline.ops.iter().filter_map(|op| match op {
            Op::Probe { table, .. } => Some(stage_of_table[*table]),
            _ => None,
        });
        let read = match pipeline.source {
            Source::Groups(from) => stage_of_pipeline[from] + 1,
            _ => 0,
        };
        let stage = probed.max().unwrap_or(0).max(read);
        stage_of_pipeline.push(stage);
        if let Sink::Build { table, .. } = &pipeline.sink {
            stage_of_table[*table] = stage + 1;
        }
        if stages.len() <= stage {
            stages.resize_with(stage + 1, Vec::new);
        }
        stages[stage].push(index);
    }
    stages
}

/// Whether a column was admitted; where the budgets have no room for it, it was not.
fn where_there_is_room(admitted: Result<bool>) -> Result<bool> {
    match admitted {
        Err(error) if matches!(error.kind(), ErrorKind::OutOfMemory { .. }) => Ok(false),
        admitted => admitted,
    }
}

/// The target's device, then those that work beside it.
fn devices_of(options: &RuntimeOptions) -> Result<Vec<DeviceId>> {
    let first = match options.target {
        TargetChoice::Cuda { device } => device,
        TargetChoice::Host => 0,
    };
    let mut devices = vec![DeviceId(first)];
    for &device in &options.more_devices {
        if devices.contains(&DeviceId(device)) {
            return Err(Error::invalid_input(format!("{} is named twice", DeviceId(device))));
        }
        devices.push(DeviceId(device));
    }
    Ok(devices)
}

/// # Errors
///
/// `InvalidInput` for a device that the machine lacks. The host's cores behind the devices are none that can be named.
fn check_devices(machine: &Machine, options: &RuntimeOptions, devices: &[DeviceId]) -> Result<()> {
    let count = machine.info().devices.len() - usize::from(options.host_worker_bytes.is_some());
    match devices.iter().find(|device| device.0 as usize >= count) {
        Some(device) => Err(Error::invalid_input(format!("no {device}; this machine has {count} devices"))),
        None => Ok(()),
    }
}

fn open_machine(options: &RuntimeOptions, devices: &[DeviceId]) -> Result<Machine> {
    match options.target {
        TargetChoice::Cuda { .. } => cuda::open(&CudaOptions {
            device_memory_limit_bytes: options.device_memory_limit_bytes,
            pinned_memory_limit_bytes: options.pinned_memory_limit_bytes,
            host_device_bytes: options.host_worker_bytes,
        }),
        TargetChoice::Host => {
            let last = devices.iter().map(|device| device.0).max().unwrap_or(0);
            Ok(host::open(&HostOptions {
                device_count: last + 1 + u32::from(options.host_worker_bytes.is_some()),
                device_memory_limit_bytes: options.device_memory_limit_bytes.unwrap_or(HOST_TARGET_BYTES),
                last_device_memory_limit_bytes: options.host_worker_bytes,
                pinned_memory_limit_bytes: options.pinned_memory_limit_bytes.unwrap_or(HOST_TARGET_BYTES),
                ..HostOptions::default()
            }))
        }
    }
}

/// Memory that the host target takes at most where nobody says.
const HOST_TARGET_BYTES: u64 = 4 << 30;
