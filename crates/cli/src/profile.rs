//! `pelton sql --profile FILE`: the profile of a query as a page or as JSON, beside what the links were measured to do.

use std::path::{Path, PathBuf};
use std::time::Duration;

use pelton_engine::{Ceiling, Ceilings, DeviceChoice, ProfileContext, Query};
use pelton_error::{Error, Result, ResultExt};
use pelton_fabric::Vertex;
use pelton_fabric::profile::Profile;

use crate::topology;

/// A profile on its way to a file, which appears when it is complete.
#[derive(Debug)]
pub(crate) struct ProfileFile {
    path: PathBuf,
    /// What is written first, beside it.
    part: PathBuf,
    is_page: bool,
}

impl ProfileFile {
    /// The file named on the command line; its ending says what is written. That it can be written is known from here
    /// on, before a query runs in vain.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an ending that is neither .html nor .json, `Io` where no file can be made.
    pub(crate) fn begin(path: &Path) -> Result<Self> {
        let is_page = is_page(path)?;
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        let part = PathBuf::from(part);
        std::fs::File::create(&part).context(|| format!("creating '{}'", part.display()))?;
        Ok(Self { path: path.to_owned(), part, is_page })
    }

    /// Where it will be.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the profile of `query`, which was planned in `planning` from `sql`, beside its name, then renames it.
    pub(crate) fn write(
        &self,
        query: &Query,
        sql: &str,
        planning: Duration,
        device: DeviceChoice,
    ) -> Result<()> {
        let context = ProfileContext {
            sql: Some(sql.to_owned()),
            planning: Some(planning),
            ceilings: ceilings(device),
        };
        let profile = query.profile(context).context(|| "taking the profile of the query".into())?;
        let text = if self.is_page { profile.to_html() } else { profile.to_json() };
        std::fs::write(&self.part, text).context(|| format!("writing '{}'", self.part.display()))?;
        std::fs::rename(&self.part, &self.path).context(|| format!("renaming to '{}'", self.path.display()))
    }
}

impl Drop for ProfileFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.part); // there only where nothing came of it
    }
}

/// Whether the file named so is to be a page, rather than data.
fn is_page(path: &Path) -> Result<bool> {
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
    match ending.as_deref() {
        Some("html" | "htm") => Ok(true),
        Some("json") => Ok(false),
        _ => Err(Error::invalid_input(format!(
            "--profile '{}': name a file that ends in .html for a page or in .json for data",
            path.display()
        ))),
    }
}

/// What was measured of the links of this machine that `device` uses. What is not known is said, and is no error.
fn ceilings(device: DeviceChoice) -> Ceilings {
    let remedy = "not measured on this machine: `pelton topology --measure` measures it".to_owned();
    let files_remedy =
        "not measured on this machine: `pelton topology --measure --storage DIR` measures reads under \
                        DIR, where there is a GPU"
            .to_owned();
    let unknown = Ceilings { remedy, files_remedy, ..Ceilings::default() };
    let profile = Profile::default_folder().ok().and_then(|folder| {
        let fingerprint = topology::survey_here().ok()?.fingerprint();
        Profile::load(&folder, &fingerprint)
    });
    match profile {
        Some(profile) => measured(&profile, device, unknown),
        None => unknown,
    }
}

fn measured(profile: &Profile, device: DeviceChoice, unknown: Ceilings) -> Ceilings {
    let source = |what: &str| format!("{what}, measured {} ago", topology::age(profile.age()));
    let ceiling = |bytes_per_s: f64, what: &str| Ceiling { bytes_per_s, source: source(what) };
    let host = profile.host.first();
    let host_memory = host.map(|host| ceiling(host.read_bytes_per_s, "all cores reading host memory"));
    let files = profile.storage.iter().map(|rate| rate.bytes_per_s).reduce(f64::max);
    let files = files.map(|rate| ceiling(rate, "reads of files"));
    let known = Ceilings { files, host_memory: host_memory.clone(), ..unknown };
    if device == DeviceChoice::Host {
        // What stands in for a device is host memory: a copy reads and writes every byte there.
        let to_device = host.map(|host| ceiling(host.copy_bytes_per_s / 2.0, "copies within host memory"));
        return Ceilings { to_device, device_memory: host_memory, ..known };
    }
    let place = Vertex::Device(match device {
        DeviceChoice::Gpu(Some(number)) | DeviceChoice::GpuAndHost(Some(number)) => number,
        _ => 0,
    });
    let copies = profile.copies.iter().filter(|copies| copies.to == place);
    let copies = copies.filter(|copies| matches!(copies.from, Vertex::Node(_)));
    let peak = copies.map(pelton_fabric::profile::CopyRates::peak_bytes_per_s).reduce(f64::max);
    let loads = profile.accesses.iter().find(|access| access.processor == place && access.memory == place);
    Ceilings {
        to_device: peak.map(|rate| ceiling(rate, "copies from pinned memory")),
        device_memory: loads
            .map(|loads| ceiling(loads.sequential_bytes_per_s, "kernels reading device memory")),
        ..known
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pelton_fabric::profile::{AccessRates, CopyRates, HostRates};

    fn profile() -> Profile {
        let mut profile = Profile::new("abc".into(), false);
        profile.host.push(HostRates {
            node: 0,
            thread_count: 2,
            read_bytes_per_s: 40e9,
            copy_bytes_per_s: 30e9,
        });
        for (device, rate) in [(0, 25e9), (1, 50e9)] {
            profile.copies.push(CopyRates {
                from: Vertex::Node(0),
                to: Vertex::Device(device),
                latency_s: 1e-6,
                by_size: vec![pelton_fabric::BandwidthAt { bytes: 1 << 20, bytes_per_s: rate }],
                duplex_bytes_per_s: rate,
                is_direct: true,
            });
            profile.accesses.push(AccessRates {
                processor: Vertex::Device(device),
                memory: Vertex::Device(device),
                sequential_bytes_per_s: rate * 100.0,
                random_4_byte_per_s: 1.0,
                latency_s: None,
                footprint_bytes: 1,
            });
        }
        profile
    }

    fn rates(device: DeviceChoice) -> (f64, f64) {
        let known = measured(&profile(), device, Ceilings::default());
        (known.to_device.unwrap().bytes_per_s, known.device_memory.unwrap().bytes_per_s)
    }

    #[test]
    fn ceilings_are_those_of_the_device_that_was_chosen() {
        assert_eq!(rates(DeviceChoice::Auto), (25e9, 2.5e12));
        assert_eq!(rates(DeviceChoice::Gpu(Some(1))), (50e9, 5e12));
        assert_eq!(rates(DeviceChoice::Host), (15e9, 40e9));
    }

    #[test]
    fn the_ending_says_what_is_written() {
        assert!(is_page(Path::new("a.HTML")).unwrap());
        assert!(!is_page(Path::new("a.json")).unwrap());
        let error = is_page(Path::new("a.txt")).unwrap_err().to_string();
        assert!(error.contains("a.txt") && error.contains(".html"), "{error}");
    }
}
