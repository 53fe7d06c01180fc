//! The machine that a command runs on: CUDA devices, logical devices on the host, or a simulated preset.

use std::sync::Arc;

use pelton_device::Machine;
use pelton_device::cuda::{self, CudaOptions};
use pelton_device::host::{self, HostOptions};
use pelton_error::{Error, Result};
use pelton_kernels::Library;
use pelton_sim::{self as sim, SimOptions};

use crate::console;

/// Logical devices where there are no GPUs: two, so that copies between devices have something to show.
const LOGICAL_DEVICES: u32 = 2;
/// Memory of each: their links are copies within host memory, which a few buffers of this size show as well as more.
const LOGICAL_MEMORY_BYTES: u64 = 256 << 20;

/// A machine with the kernels for its devices.
pub(crate) struct Opened {
    pub(crate) machine: Machine,
    /// Present on CUDA machines whose library was found.
    pub(crate) library: Option<Arc<Library>>,
}

/// Opens `name`: auto, cuda, host or a preset. What `auto` settled on is said on standard error.
pub(crate) fn open(name: &str, device_memory_limit: Option<u64>) -> Result<Opened> {
    match name {
        "auto" => match open_cuda(device_memory_limit) {
            Ok(opened) => Ok(opened),
            Err(error) => {
                console::say(format_args!(
                    "no GPU in use ({error}); {LOGICAL_DEVICES} logical devices on the host stand in"
                ));
                Ok(open_host(device_memory_limit))
            }
        },
        "cuda" => open_cuda(device_memory_limit),
        "host" => Ok(open_host(device_memory_limit)),
        preset => open_preset(preset),
    }
}

/// The GPUs of this machine with their library; its absence is said on standard error and met again where it is
/// needed.
pub(crate) fn open_cuda(device_memory_limit: Option<u64>) -> Result<Opened> {
    let machine = cuda::open(&CudaOptions {
        device_memory_limit_bytes: device_memory_limit,
        ..CudaOptions::default()
    })?;
    let library = match Library::open() {
        Ok(library) => Some(library),
        Err(error) => {
            console::say(error);
            None
        }
    };
    Ok(Opened { machine, library })
}

fn open_host(device_memory_limit: Option<u64>) -> Opened {
    let options = HostOptions {
        device_count: LOGICAL_DEVICES,
        device_memory_limit_bytes: device_memory_limit.unwrap_or(LOGICAL_MEMORY_BYTES),
        ..HostOptions::default()
    };
    Opened { machine: host::open(&options), library: None }
}

fn open_preset(name: &str) -> Result<Opened> {
    let topology = pelton_fabric::preset(name).ok_or_else(|| {
        let known = pelton_fabric::PRESET_NAMES.join(", ");
        Error::invalid_input(format!(
            "no machine '{name}'; there are auto, cuda, host, and the presets {known}"
        ))
    })?;
    let options = SimOptions { functional: false, ..SimOptions::default() };
    Ok(Opened { machine: sim::machine(&topology, options)?, library: None })
}
