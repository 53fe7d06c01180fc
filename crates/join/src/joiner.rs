//! The way in: an algorithm is chosen if there is a choice, and joins.

use std::sync::Arc;
use std::time::Duration;

use pelton_device::{Machine, Place, Span, host as device_host};
use pelton_error::{Error, Result, ResultExt};
use pelton_kernels::Library;
use zerocopy::IntoBytes;

use crate::device::{self, Rig};
use crate::host::{self, Kept, Side, Sum, Word};
use crate::options::{Algorithm, JoinOptions};
use crate::predict::predict;
use crate::report::{Prediction, Report};
use crate::rows::{Rows, Target};

/// Joins on a machine.
#[derive(Debug, Clone)]
pub struct Joiner {
    machine: Machine,
    library: Option<Arc<Library>>,
}

impl Joiner {
    /// Joins on `machine`; GPUs need the CUDA library.
    pub fn new(machine: Machine, library: Option<Arc<Library>>) -> Self {
        Self { machine, library }
    }

    /// The machine.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Joins `build` with `probe`. Rows are in memory of the device or of the host; the host's cores reach the latter
    /// only. Copies are fast where memory is pinned. Waits.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for options that cannot be and for sides of different widths; `Unsupported` if the algorithm cannot
    /// do this; `OutOfMemory` if the rows do not fit, with what would do; what devices answer. Nothing of the join is
    /// under way then, and what is in the target is unspecified.
    pub fn join(&self, build: &Rows, probe: &Rows, target: &Target, options: &JoinOptions) -> Result<Report> {
        options.check()?;
        if build.width_bytes() != probe.width_bytes() {
            return Err(Error::invalid_input(format!(
                "keys of {} and of {} bytes do not join; widen one side",
                build.width_bytes(),
                probe.width_bytes()
            )));
        }
        target.check(build.width_bytes())?;
        options.cancel.check()?;
        let mut predictions = Vec::new();
        let mut algorithm = options.algorithm;
        if algorithm == Algorithm::Auto {
            predictions = self.predict(build, probe, target, options);
            let possible = predictions.iter().filter_map(|one| one.time.map(|time| (time, one.algorithm)));
            algorithm =
                possible.min_by_key(|(time, _)| *time).map(|(_, algorithm)| algorithm).ok_or_else(|| {
                    Error::unsupported(
                        "no algorithm joins rows of these places in this memory; raise the device's limit",
                    )
                })?;
        }
        let report = self
            .run(algorithm, build, probe, target, options)
            .context(|| format!("{} join", algorithm.name()))?;
        Ok(Report { predictions, ..report })
    }

    /// How long each algorithm is predicted to take.
    pub fn predict(
        &self,
        build: &Rows,
        probe: &Rows,
        target: &Target,
        options: &JoinOptions,
    ) -> Vec<Prediction> {
        let time = |algorithm| predict(&self.machine, algorithm, build, probe, target, options);
        Algorithm::ALL.into_iter().map(|algorithm| Prediction { algorithm, time: time(algorithm) }).collect()
    }

    fn run(
        &self,
        algorithm: Algorithm,
        build: &Rows,
        probe: &Rows,
        target: &Target,
        options: &JoinOptions,
    ) -> Result<Report> {
        let rig = || Rig::new(&self.machine, self.library.as_ref(), options);
        match algorithm {
            Algorithm::Auto => unreachable!("a choice has been made"),
            Algorithm::Gpu => device::single(&rig()?, build, probe, target),
            Algorithm::Radix => device::radix(&rig()?, build, probe, target),
            Algorithm::Hybrid => device::hybrid(&rig()?, build, probe, target),
            Algorithm::Nopa | Algorithm::Pro => {
                if !(build.is_host_visible() && probe.is_host_visible()) {
                    return Err(Error::unsupported("rows in memory of a device; copy them, or join there"));
                }
                if algorithm == Algorithm::Nopa && build.count() > host::TABLE_ROWS_MAX {
                    let (rows, most) = (build.count(), host::TABLE_ROWS_MAX);
                    return Err(Error::unsupported(format!(
                        "a table of {rows} rows; {most} are the most, take pro"
                    )));
                }
                match build.width_bytes() {
                    4 => self.on_host::<u32>(algorithm, build, probe, target, options),
                    _ => self.on_host::<u64>(algorithm, build, probe, target, options),
                }
            }
        }
    }

    fn on_host<W: Word>(
        &self,
        algorithm: Algorithm,
        build: &Rows,
        probe: &Rows,
        target: &Target,
        options: &JoinOptions,
    ) -> Result<Report> {
        let bytes = |rows: &Rows| Ok((rows.keys().host_bytes()?, rows.values().host_bytes()?));
        let ((build_keys, build_values), (probe_keys, probe_values)) = (bytes(build)?, bytes(probe)?);
        let build = Side::<W>::of(build_keys.as_ref(), build_values.as_ref());
        let probe = Side::<W>::of(probe_keys.as_ref(), probe_values.as_ref());
        let mut report = Report::of(algorithm);
        match target {
            Target::Sum => {
                for part in self.on_cores::<W, Sum>(build, probe, options.thread_count, &mut report) {
                    report.match_count += part.match_count;
                    report.value_sum = report.value_sum.wrapping_add(part.value_sum);
                }
            }
            Target::Pairs { build_values, probe_values } => {
                let started = self.machine.now();
                for part in self.on_cores::<W, Kept<W>>(build, probe, options.thread_count, &mut report) {
                    let begin = report.match_count;
                    self.write(build_values, begin, &part.build_values)?;
                    self.write(probe_values, begin, &part.probe_values)?;
                    report.match_count += part.build_values.len() as u64;
                }
                report.time = self.machine.now() - started;
            }
        }
        Ok(report)
    }

    fn on_cores<W: Word, S: host::Sink<W>>(
        &self,
        build: Side<'_, W>,
        probe: Side<'_, W>,
        thread_count: usize,
        report: &mut Report,
    ) -> Vec<S> {
        let table = (report.algorithm == Algorithm::Nopa).then(|| host::Table::new(build.keys.len()));
        let started = self.machine.now();
        let mut build_time = Duration::ZERO;
        let built = || build_time = self.machine.now() - started;
        let sinks = match &table {
            Some(table) => host::single(table, build, probe, thread_count, built),
            None => host::radix(build, probe, thread_count, built),
        };
        report.time = self.machine.now() - started;
        report.build_time = build_time;
        report.table_count = 1;
        sinks
    }

    /// Writes values from place `begin` on, as many as there is room for.
    fn write<W: Word>(&self, target: &Span, begin: u64, values: &[W]) -> Result<()> {
        let width = size_of::<W>();
        let room = (target.len() / width) as u64;
        let count = room.saturating_sub(begin).min(values.len() as u64) as usize;
        if count == 0 {
            return Ok(());
        }
        let bytes = values[..count].as_bytes().to_vec();
        let begin = begin as usize * width;
        let span = target.slice(begin..begin + bytes.len());
        let stream = self.machine.stream(Place::HOST)?;
        stream.run(device_host::fill("write pairs", &span, move |target| {
            target.copy_from_slice(&bytes);
            Ok(())
        })?)?;
        stream.wait_blocking()
    }
}
