//! Asks NVIDIA's management library, which comes with the driver and is opened at run time.
//!
//! A machine without it has no GPUs as far as this goes. What one call refuses is left open and noted; nothing here
//! fails.

use nvml_wrapper::enum_wrappers::device::{Clock, P2pCapabilitiesIndex, P2pStatus};
use nvml_wrapper::enums::device::SampleValue;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::structs::device::FieldId;
use nvml_wrapper::{Device, Nvml};

use super::facts::{GpuFact, GpuFacts, NvLinkFact, PcieLink};
use super::pci;

/// More links than any GPU has; the library refuses numbers that a GPU lacks.
const NVLINK_COUNT_MAX: u32 = 36;

/// `NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON`: what each link that is up signals, in megabytes per second.
const FIELD_NVLINK_SPEED: FieldId = FieldId(90);

/// NVLink 2 to 4, where the driver does not say.
const NVLINK_BYTES_PER_S: f64 = 25e9;

/// What the driver says, or nothing.
pub(crate) fn facts() -> GpuFacts {
    match Nvml::init() {
        Ok(nvml) => ask(&nvml),
        Err(NvmlError::LibloadingError(_)) => GpuFacts {
            notes: vec!["no GPUs looked for: there is no NVIDIA driver (libnvidia-ml.so.1)".into()],
            ..GpuFacts::default()
        },
        Err(error) => GpuFacts { notes: vec![format!("no GPUs looked for: {error}")], ..GpuFacts::default() },
    }
}

fn ask(nvml: &Nvml) -> GpuFacts {
    let mut facts = GpuFacts { driver_version: nvml.sys_driver_version().ok(), ..GpuFacts::default() };
    let mut devices = Vec::new();
    for index in 0..nvml.device_count().unwrap_or(0) {
        match nvml.device_by_index(index) {
            Ok(device) => devices.push(device),
            Err(error) => facts.notes.push(format!("GPU {index} of the driver is left out: {error}")),
        }
    }
    facts.gpus = devices.iter().map(|device| ask_gpu(device, &mut facts.notes)).collect();
    for (a, device) in devices.iter().enumerate() {
        for (b, other) in devices.iter().enumerate().skip(a + 1) {
            if matches!(device.p2p_status(other, P2pCapabilitiesIndex::NvLink), Ok(P2pStatus::Ok)) {
                facts.nvlink_peers.push((a, b));
            }
        }
    }
    facts
}

fn ask_gpu(device: &Device<'_>, notes: &mut Vec<String>) -> GpuFact {
    let name = device.name().unwrap_or_else(|_| "unknown GPU".to_string());
    let pcie = match (device.max_pcie_link_gen(), device.max_pcie_link_width()) {
        (Ok(generation), Ok(width)) if generation > 0 && width > 0 => Some(PcieLink { generation, width }),
        _ => None,
    };
    let memory_bytes = device.memory_info().map(|memory| memory.total).unwrap_or_else(|error| {
        notes.push(format!("{name}: size of its memory unknown: {error}"));
        0
    });
    GpuFact {
        pci_address: device.pci_info().ok().and_then(|pci| pci::normal_address(&pci.bus_id)),
        memory_bytes,
        memory_bytes_per_s: memory_bytes_per_s(device),
        pcie,
        memory_node: device.numa_node_id().ok(),
        nvlinks: ask_nvlinks(device),
        name,
    }
}

/// Two transfers a clock on every line of the memory bus.
fn memory_bytes_per_s(device: &Device<'_>) -> Option<f64> {
    let megahertz = device.max_clock_info(Clock::Memory).ok()?;
    let lines = device.memory_bus_width().ok()?;
    Some(f64::from(megahertz) * 1e6 * 2.0 * f64::from(lines) / 8.0)
}

fn ask_nvlinks(device: &Device<'_>) -> Vec<NvLinkFact> {
    let bytes_per_s = nvlink_bytes_per_s(device).unwrap_or(NVLINK_BYTES_PER_S);
    // The wrapper's question for the kind of the remote end always answers "unknown", so its address must do.
    (0..NVLINK_COUNT_MAX)
        .map(|number| device.link_wrapper_for(number))
        .filter(|link| link.is_active().unwrap_or(false))
        .map(|link| NvLinkFact {
            remote_address: link.remote_pci_info().ok().map(|pci| pci.bus_id),
            bytes_per_s,
        })
        .collect()
}

fn nvlink_bytes_per_s(device: &Device<'_>) -> Option<f64> {
    let sample = device.field_values_for(&[FIELD_NVLINK_SPEED]).ok()?.into_iter().next()?.ok()?;
    let megabytes = match sample.value.ok()? {
        SampleValue::F64(value) => value,
        SampleValue::U32(value) => f64::from(value),
        SampleValue::U64(value) => value as f64,
        _ => return None,
    };
    (megabytes > 0.0).then_some(megabytes * 1e6)
}
