//! The way in: what is to be sorted is planned, memory is taken, and then it is sorted, as often as one likes.

use std::sync::Arc;

use pelton_device::{DeviceId, Machine, Place};
use pelton_error::{Error, ErrorKind, Result, ResultExt, Tier};
use pelton_kernels::Library;

use crate::columns::{copy_work, paradis_work, sort_work};
use crate::device::{self, Gpu, Outcome, Rig};
use crate::key::SortSpec;
use crate::options::{Algorithm, SortOptions};
use crate::plan::{Plan, plan, plan_auto};
use crate::report::{Phases, Prediction, Report};
use crate::rows::{Rows, Traffic};

/// Sorts on a machine.
#[derive(Debug, Clone)]
pub struct Sorter {
    machine: Machine,
    library: Option<Arc<Library>>,
}

/// A sort with its memory taken.
pub struct Prepared {
    rig: Rig,
    plan: Plan,
    predictions: Vec<Prediction>,
    options: SortOptions,
    row_count: usize,
}

impl Sorter {
    /// Sorts on `machine`; GPUs need the CUDA library.
    pub fn new(machine: Machine, library: Option<Arc<Library>>) -> Self {
        Self { machine, library }
    }

    /// Chooses an algorithm if there is a choice, and takes the memory of the devices for sorts of `row_count` rows.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for options that cannot be; `Unsupported` if the algorithm cannot do this; `OutOfMemory` if the
    /// rows do not fit on the devices, with the algorithm that would do.
    pub fn prepare(&self, spec: SortSpec, row_count: usize, options: SortOptions) -> Result<Prepared> {
        options.check()?;
        let (plan, predictions) = match options.algorithm {
            Algorithm::Auto => plan_auto(&self.machine, spec, row_count, &options)?,
            algorithm => (plan(&self.machine, spec, row_count, algorithm, &options)?, Vec::new()),
        };
        let gpus = plan
            .devices
            .iter()
            .map(|id| Gpu::new(&self.machine, spec, *id, plan.buffer_count, plan.buffer_rows))
            .collect::<Result<Vec<Gpu>>>()?;
        let (machine, library) = (self.machine.clone(), self.library.clone());
        let rig = Rig { machine, library, spec, gpus, cancel: options.cancel.clone() };
        Ok(Prepared { rig, plan, predictions, options, row_count })
    }

    /// Prepares and sorts once; see [`Prepared::sort`].
    ///
    /// # Errors
    ///
    /// As [`prepare`](Self::prepare) and [`Prepared::sort`].
    pub fn sort(&self, source: &Rows, target: &Rows, options: SortOptions) -> Result<Report> {
        self.prepare(source.spec(), source.count(), options)?.sort(source, target)
    }

    /// The machine.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }
}

impl Prepared {
    /// The algorithm that was chosen.
    pub fn algorithm(&self) -> Algorithm {
        self.plan.algorithm
    }

    /// The devices that take part, in order.
    pub fn devices(&self) -> &[DeviceId] {
        &self.plan.devices
    }

    /// Sorts `source` into `target`, rows of host memory that do not overlap. Copies are fast where both are pinned.
    /// What is in `source` afterwards is unspecified: algorithms work in it. Waits.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if rows are not those that this was prepared for, or not in host memory; what devices answer. Then
    /// nothing of the sort is under way any more, and what is in either is unspecified.
    pub fn sort(&mut self, source: &Rows, target: &Rows) -> Result<Report> {
        for rows in [source, target] {
            let is_host = rows.columns().all(|column| column.kind().is_host_visible());
            if rows.spec() != self.rig.spec || rows.count() != self.row_count || !is_host {
                return Err(Error::invalid_input(format!(
                    "{} rows of {:?}; this sort was prepared for {} of {:?} in host memory",
                    rows.count(),
                    rows.spec(),
                    self.row_count,
                    self.rig.spec,
                )));
            }
        }
        let algorithm = self.plan.algorithm;
        let traffic = Traffic::default();
        let outcome = self.run(source, target, &traffic).context(|| format!("{} sort", algorithm.name()))?;
        Ok(Report {
            algorithm,
            devices: self.plan.devices.clone(),
            row_count: self.row_count as u64,
            time: outcome.time,
            phases: outcome.phases,
            links: traffic.links(),
            stages: outcome.stages,
            run_count: outcome.run_count,
            eager_merge_count: outcome.eager_merge_count,
            pending_max: outcome.pending_max,
            spilled_bytes: 0,
            is_staged: outcome.is_staged,
            predictions: self.predictions.clone(),
        })
    }

    fn run(&self, source: &Rows, target: &Rows, traffic: &Traffic) -> Result<Outcome> {
        let (rig, options, chunk_rows) = (&self.rig, &self.options, self.plan.buffer_rows);
        rig.cancel.check()?;
        if self.row_count == 0 {
            return Ok(Outcome { run_count: 1, ..Outcome::default() });
        }
        match self.plan.algorithm {
            Algorithm::Auto => unreachable!("a plan names an algorithm"),
            Algorithm::Cpu => self.on_host(|| sort_work(source, target, options.thread_count)),
            Algorithm::Paradis => {
                // In place, so the result would be in the source; this copy is not the algorithm's.
                let host = rig.machine.stream(Place::HOST)?;
                host.run(copy_work(source, target, options.thread_count)?)?;
                host.wait_blocking()?;
                self.on_host(|| paradis_work(target, options.thread_count))
            }
            Algorithm::Gpu => device::gpu(rig, source, target, traffic, options),
            Algorithm::P2p => device::p2p(rig, source, target, traffic, options),
            Algorithm::Partitioned => device::partitioned(rig, source, target, traffic, options),
            Algorithm::Het2n | Algorithm::Het3n => {
                device::het(rig, source, target, traffic, options, chunk_rows)
            }
            Algorithm::Range => device::range(rig, source, target, traffic, options, chunk_rows),
        }
    }

    fn on_host(&self, work: impl FnOnce() -> Result<pelton_device::Work>) -> Result<Outcome> {
        let machine = &self.rig.machine;
        let host = machine.stream(Place::HOST)?;
        let started = machine.now();
        host.run(work()?)?;
        host.wait_blocking()?;
        let time = machine.now() - started;
        let phases = Phases { sort: time, ..Phases::default() };
        Ok(Outcome { time, phases, run_count: 1, ..Outcome::default() })
    }
}

/// That rows do not fit on a device, with the remedy.
pub(crate) fn does_not_fit(device: DeviceId, needed: u64, available: u64, remedy: &str) -> Error {
    let kind =
        ErrorKind::OutOfMemory { tier: Tier::Device, requested_bytes: needed, available_bytes: available };
    Error::new(
        kind,
        format!("{device}: a sort needs {needed} bytes of its memory, {available} are free: {remedy}"),
    )
}
