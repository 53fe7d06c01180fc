//! Measuring a machine: every link, every method, host memory, storage.
//!
//! ```text
//!   Machine ──► copies, sets, accesses, host, methods, storage ──► Profile ──► kept per machine
//!                                                                     └──► Topology with measured capacities
//! ```
//!
//! Times are the machine's own, so a simulated machine is measured like any other, and its profile says so. The best
//! of a few runs counts: what disturbs a link only adds time.

mod accesses;
mod copies;
mod methods;
mod storage;
mod timing;

use std::path::PathBuf;
use std::sync::Arc;

use pelton_device::Machine;
use pelton_error::{Error, Result, ResultExt};
use pelton_fabric::profile::Profile;
use pelton_kernels::Library;

pub use accesses::{AccessTimes, time_access};
pub use methods::{MethodTimes, time_method};
pub use storage::{remove_storage_file, time_storage};

/// How a machine is measured.
pub struct MeasureOptions<'a> {
    /// Bytes moved or scanned in one run of the largest size.
    pub bytes: usize,
    /// Runs that count.
    pub repetitions: u32,
    /// A folder on the storage to measure, if any.
    pub storage: Option<PathBuf>,
    /// Told what is being measured.
    pub progress: Option<&'a mut dyn FnMut(&str)>,
}

impl Default for MeasureOptions<'_> {
    fn default() -> Self {
        Self { bytes: 256 << 20, repetitions: 3, storage: None, progress: None }
    }
}

impl MeasureOptions<'_> {
    fn report(&mut self, what: &str) {
        if let Some(progress) = &mut self.progress {
            progress(what);
        }
    }
}

/// Measures `machine`, whose devices take kernels from `library`; it is the machine with this `fingerprint`.
///
/// # Errors
///
/// `InvalidInput` if the bytes are too few to say anything; `OutOfMemory` if they do not fit; whatever a device
/// reports.
pub fn measure(
    machine: &Machine,
    library: Option<&Arc<Library>>,
    fingerprint: String,
    mut options: MeasureOptions<'_>,
) -> Result<Profile> {
    if options.bytes < 1 << 16 {
        return Err(Error::invalid_input(
            "measuring with less than 64 KiB shows caches, not links; take more",
        ));
    }
    let options = &mut options;
    let mut profile = Profile::new(fingerprint, machine.info().is_simulated);
    profile.host = accesses::measure_host(machine, options).context(|| "measuring host memory".into())?;
    profile.copies = copies::measure_copies(machine, options).context(|| "measuring copies".into())?;
    profile.sets =
        copies::measure_sets(machine, options).context(|| "measuring several links at once".into())?;
    if library.is_some() || !needs_library(machine) {
        profile.accesses =
            accesses::measure_accesses(machine, library, options).context(|| "measuring loads".into())?;
        profile.methods =
            methods::measure_methods(machine, library, options).context(|| "measuring methods".into())?;
    } else {
        profile.methods = methods::without_library(machine);
    }
    if let Some(folder) = options.storage.clone()
        && !machine.info().devices.is_empty()
        && !machine.info().is_simulated
    {
        profile.storage =
            storage::time_storage(machine, &folder, options).context(|| "measuring storage".into())?;
    }
    Ok(profile)
}

/// True if kernels of the machine come from the CUDA library.
fn needs_library(machine: &Machine) -> bool {
    machine.info().devices.iter().any(|device| matches!(device.kind, pelton_device::DeviceKind::Cuda { .. }))
}
