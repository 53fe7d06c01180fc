//! Which method: the fastest that reads the memory, suits the access and is within the device's capabilities.

use pelton_device::{Access, DeviceId, Machine, MemoryKind};
use pelton_error::{Error, Result};
use pelton_fabric::profile::{MethodResult, Profile};

use crate::method::Method;

/// What a method reached on a device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MethodRate {
    /// The method.
    pub method: Method,
    /// From one end to the other, bytes per second.
    pub sequential_bytes_per_s: f64,
    /// Independent accesses per second, for methods that pull.
    pub random_accesses_per_s: Option<f64>,
}

/// What was measured on one device.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MethodRates(pub Vec<MethodRate>);

impl MethodRates {
    /// Those that were measured on `device` of the machine that `profile` is of.
    pub fn of(profile: &Profile, device: DeviceId) -> Self {
        let of_device = profile.methods.iter().filter(|result| result.device == device.0);
        let rate = |result: &MethodResult| {
            Some(MethodRate {
                method: result.method.parse::<Method>().ok()?,
                sequential_bytes_per_s: result.bytes_per_s?,
                random_accesses_per_s: result.random_accesses_per_s,
            })
        };
        Self(of_device.filter_map(rate).collect())
    }
}

/// A method and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// The method.
    pub method: Method,
    /// For EXPLAIN: what it was preferred to and by how much.
    pub reason: String,
}

/// Picks the method for going through memory of `source` kind as `access` says, from work on `device`.
///
/// # Errors
///
/// `Unsupported` if no method suits, naming what each lacks.
pub fn choose(
    machine: &Machine,
    device: DeviceId,
    source: &MemoryKind,
    access: Access,
    rates: &MethodRates,
) -> Result<Choice> {
    let mut lacking = Vec::new();
    let mut candidates = Vec::new();
    for method in Method::ALL.into_iter().filter(|method| method.reads(source)) {
        if matches!(access, Access::Random { .. }) && method.is_push() {
            lacking.push(format!("{method} moves chunks in order"));
        } else if let Err(error) = method.check(machine, device) {
            lacking.push(error.to_string());
        } else {
            candidates.push(method);
        }
    }
    let rate_of = |method: Method| {
        let rate = rates.0.iter().find(|rate| rate.method == method)?;
        match access {
            Access::Sequential => Some(rate.sequential_bytes_per_s),
            Access::Random { .. } => rate.random_accesses_per_s,
        }
    };
    let measured = candidates.iter().filter_map(|method| Some((*method, rate_of(*method)?)));
    if let Some((method, rate)) = measured.max_by(|(_, a), (_, b)| a.total_cmp(b)) {
        return Ok(Choice { method, reason: format!("measured {}, the fastest here", shown(access, rate)) });
    }
    // Unmeasured: copy engines before loads over the link, both before the CPU's copies, page faults last.
    const PREFERENCE: [Method; 8] = [
        Method::PinnedCopy,
        Method::ZeroCopy,
        Method::StagedCopy,
        Method::UnifiedPrefetch,
        Method::Coherence,
        Method::DynamicPinning,
        Method::PageableCopy,
        Method::UnifiedMigration,
    ];
    let method = PREFERENCE.into_iter().find(|method| candidates.contains(method)).ok_or_else(|| {
        let lacking = if lacking.is_empty() { "no method reads it".into() } else { lacking.join("; ") };
        Error::unsupported(format!("{device} cannot go through {source} like this: {lacking}"))
    })?;
    Ok(Choice { method, reason: "nothing measured yet; 'pelton topology --measure' does".into() })
}

fn shown(access: Access, rate: f64) -> String {
    match access {
        Access::Sequential => format!("{:.1} GB/s", rate / 1e9),
        Access::Random { .. } => format!("{:.3} G accesses/s", rate / 1e9),
    }
}
