//! What this machine is and what it lacks, as JSON.

use std::path::PathBuf;

use pelton_device::cuda;
use pelton_error::{Error, Result};
use pelton_fabric::discover::{Sources, survey};
use pelton_fabric::doctor::{DoctorOptions, Environment, examine};
use pelton_fabric::profile::Profile;
use pelton_fabric::{PRESET_NAMES, preset};
use pelton_kernels::Library;
use pyo3::prelude::*;
use serde_json::{Value, json};

use crate::error::OrRaise;

/// The graph of this machine, or of one of the literature, with what was measured of it before.
#[pyfunction]
#[pyo3(signature = (preset))]
pub(crate) fn topology(py: Python<'_>, preset: Option<String>) -> PyResult<String> {
    py.detach(|| match preset {
        Some(name) => of_preset(&name),
        None => of_this_machine(),
    })
    .or_raise(py)
}

fn of_preset(name: &str) -> Result<String> {
    let Some(topology) = preset(name) else {
        let known = PRESET_NAMES.join(", ");
        return Err(Error::invalid_input(format!("no preset '{name}'; there are {known}")));
    };
    let none: [String; 0] = [];
    Ok(json!({ "topology": parsed(&topology.to_json())?, "profile": null, "notes": none }).to_string())
}

fn of_this_machine() -> Result<String> {
    // CUDA's numbers, which CUDA_VISIBLE_DEVICES may change, are everybody's numbers.
    let device_addresses = cuda::pci_addresses();
    let mut found = survey(&Sources { device_addresses, ..Sources::default() })?;
    let fingerprint = found.fingerprint();
    // The management library does not tell; the driver does.
    for (device, count) in found.topology.devices.iter_mut().zip(cuda::copy_engine_counts()) {
        device.copy_engine_count = count;
    }
    let profile = Profile::load(&Profile::default_folder()?, &fingerprint);
    let topology = match &profile {
        Some(profile) => profile.apply(found.topology),
        None => found.topology,
    };
    let profile = profile.map(|profile| parsed(&profile.to_json())).transpose()?;
    let topology = parsed(&topology.to_json())?;
    Ok(json!({ "topology": topology, "profile": profile, "notes": found.notes }).to_string())
}

fn parsed(text: &str) -> Result<Value> {
    serde_json::from_str(text).map_err(|error| Error::corrupt("JSON of this program").with_source(error))
}

/// What was found and what is missing; `folders` are those where the package finds libraries and the loader does not.
#[pyfunction]
#[pyo3(signature = (warehouse, folders))]
pub(crate) fn doctor(py: Python<'_>, warehouse: Option<PathBuf>, folders: Vec<String>) -> String {
    py.detach(|| {
        let mut environment = Environment::of_process();
        environment.library_path = format!("{}:{}", folders.join(":"), environment.library_path);
        let report = examine(&DoctorOptions {
            root: PathBuf::from("/"),
            driver: cuda::status(),
            cuda_library: Library::open().ok().map(|library| library.path().to_path_buf()),
            warehouse,
            environment,
        });
        report.to_json()
    })
}
