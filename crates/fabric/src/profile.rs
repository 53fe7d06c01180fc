//! What was measured of a machine, kept per machine.
//!
//! A profile is valid for the machine whose fingerprint it carries, and says when it was taken. It is kept as JSON
//! (`docs/specs/profile.md`) in the user's cache folder, written beside and renamed, so that a reader meets a whole
//! profile or none.

mod apply;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pelton_error::{Error, Result, ResultExt};
use serde::{Deserialize, Serialize};

use crate::topology::{BandwidthAt, Vertex};

/// The version of the form below.
const FORMAT: u32 = 1;

/// Everything that was measured of one machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Version of this form.
    pub format: u32,
    /// Which machine it is of.
    pub fingerprint: String,
    /// When it was taken, seconds since 1970.
    pub taken_at_s: u64,
    /// True if a simulator computed it.
    pub is_simulated: bool,
    /// Host memories.
    pub host: Vec<HostRates>,
    /// Copies between two places, by size.
    pub copies: Vec<CopyRates>,
    /// Copies over several links at once.
    pub sets: Vec<SetRate>,
    /// Processors reading memories (Lutz et al. 2020, Figure 3).
    pub accesses: Vec<AccessRates>,
    /// Transfer methods, by device.
    pub methods: Vec<MethodResult>,
    /// Reads from storage, by size and depth.
    pub storage: Vec<StorageRate>,
}

/// A host memory, all cores at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostRates {
    /// Node.
    pub node: u32,
    /// Threads used.
    pub thread_count: u32,
    /// Reading, bytes per second.
    pub read_bytes_per_s: f64,
    /// Copying, bytes read and written per second.
    pub copy_bytes_per_s: f64,
}

/// Copies from one place to another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CopyRates {
    /// Source.
    pub from: Vertex,
    /// Target.
    pub to: Vertex,
    /// From enqueueing one byte until it is known to have arrived, seconds.
    pub latency_s: f64,
    /// Bandwidth of copies of a size enqueued one behind the other, by rising size.
    pub by_size: Vec<BandwidthAt>,
    /// Both directions at once, large copies, in all, bytes per second.
    pub duplex_bytes_per_s: f64,
    /// False if the driver stages it through the host.
    pub is_direct: bool,
}

/// Several copies at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SetRate {
    /// Each copy's source and target.
    pub copies: Vec<(Vertex, Vertex)>,
    /// In all, bytes per second.
    pub bytes_per_s: f64,
}

/// A processor reading a memory by its own loads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AccessRates {
    /// Whose loads.
    pub processor: Vertex,
    /// Whose memory.
    pub memory: Vertex,
    /// From one end to the other, bytes per second.
    pub sequential_bytes_per_s: f64,
    /// Independent loads of 4 bytes at random places of the footprint, per second.
    pub random_4_byte_per_s: f64,
    /// One load that depends on the one before, seconds; none in a simulation, which knows rates alone.
    pub latency_s: Option<f64>,
    /// Bytes scanned.
    pub footprint_bytes: u64,
}

/// What a transfer method reached, or what is missing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MethodResult {
    /// To which device.
    pub device: u32,
    /// Name of the method.
    pub method: String,
    /// Bytes per second into a kernel that reads them once; none if something is missing.
    pub bytes_per_s: Option<f64>,
    /// Random accesses per second, for methods that pull.
    pub random_accesses_per_s: Option<f64>,
    /// The missing capability, else empty.
    pub missing: String,
}

/// Reads of a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StorageRate {
    /// The folder that was read in.
    pub folder: String,
    /// To which place.
    pub to: Vertex,
    /// How: cuFile, or bounce buffers.
    pub path: String,
    /// Bytes of one read.
    pub read_bytes: u64,
    /// Reads in flight.
    pub depth: u32,
    /// Bytes per second.
    pub bytes_per_s: f64,
}

impl Profile {
    /// A profile of nothing yet, taken now.
    pub fn new(fingerprint: String, is_simulated: bool) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            format: FORMAT,
            fingerprint,
            taken_at_s: now.as_secs(),
            is_simulated,
            host: Vec::new(),
            copies: Vec::new(),
            sets: Vec::new(),
            accesses: Vec::new(),
            methods: Vec::new(),
            storage: Vec::new(),
        }
    }

    /// How long ago it was taken.
    pub fn age(&self) -> Duration {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        now.saturating_sub(Duration::from_secs(self.taken_at_s))
    }

    /// The copies from `from` to `to`, if they were measured.
    pub fn copies_between(&self, from: Vertex, to: Vertex) -> Option<&CopyRates> {
        self.copies.iter().find(|copies| copies.from == from && copies.to == to)
    }

    /// As JSON.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("numbers and names always serialise");
        text.push('\n');
        text
    }

    /// Keeps it in `folder`.
    ///
    /// # Errors
    ///
    /// `Io` if the folder cannot be written.
    pub fn save(&self, folder: &Path) -> Result<PathBuf> {
        std::fs::create_dir_all(folder).context(|| format!("making {}", folder.display()))?;
        let name = file_name(folder, &self.fingerprint);
        let beside = name.with_extension(format!("{}.new", std::process::id()));
        let write = || -> std::io::Result<()> {
            let mut file = std::fs::File::create(&beside)?;
            file.write_all(self.to_json().as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&beside, &name)
        };
        write().context(|| format!("writing {}", name.display()))?;
        Ok(name)
    }

    /// The profile of the machine with this fingerprint, if one is kept in `folder`. One of another form, or that does
    /// not parse, counts as none: measuring again replaces it.
    pub fn load(folder: &Path, fingerprint: &str) -> Option<Self> {
        let text = std::fs::read_to_string(file_name(folder, fingerprint)).ok()?;
        let profile: Profile = serde_json::from_str(&text).ok()?;
        (profile.format == FORMAT && profile.fingerprint == fingerprint).then_some(profile)
    }

    /// Whether a profile of any machine is kept in `folder`.
    pub fn is_any_in(folder: &Path) -> bool {
        let is_profile = |name: &str| name.starts_with("profile-") && name.ends_with(".json");
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.into_iter().any(|entry| entry.file_name().to_str().is_some_and(is_profile))
    }

    /// Where profiles are kept: `$PELTON_CACHE`, `$XDG_CACHE_HOME/pelton` or `~/.cache/pelton`.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if none of the three is set.
    pub fn default_folder() -> Result<PathBuf> {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        set("PELTON_CACHE")
            .or_else(|| Some(set("XDG_CACHE_HOME")?.join("pelton")))
            .or_else(|| Some(set("HOME")?.join(".cache").join("pelton")))
            .ok_or_else(|| Error::invalid_input("nowhere to keep measurements; set PELTON_CACHE to a folder"))
    }
}

impl CopyRates {
    /// Bandwidth of the largest copies, bytes per second.
    pub fn peak_bytes_per_s(&self) -> f64 {
        self.by_size.iter().map(|rate| rate.bytes_per_s).fold(0.0, f64::max)
    }
}

fn file_name(folder: &Path, fingerprint: &str) -> PathBuf {
    let safe: String = fingerprint.chars().filter(char::is_ascii_alphanumeric).collect();
    folder.join(format!("profile-{safe}.json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_found_again_for_its_machine_alone() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!Profile::is_any_in(folder.path()) && !Profile::is_any_in(&folder.path().join("none")));
        let mut profile = Profile::new("abc".into(), false);
        profile.sets.push(SetRate { copies: vec![(Vertex::Node(0), Vertex::Device(1))], bytes_per_s: 5e9 });
        let name = profile.save(folder.path()).unwrap();
        assert!(Profile::is_any_in(folder.path()));
        assert_eq!(Profile::load(folder.path(), "abc"), Some(profile));
        assert_eq!(Profile::load(folder.path(), "abd"), None);
        std::fs::write(&name, "{\"format\": 1, \"finger").unwrap();
        assert_eq!(Profile::load(folder.path(), "abc"), None, "half a file counts as none");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn an_unwritable_folder_is_an_error_that_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let error = Profile::new("abc".into(), false).save(&file.join("under")).unwrap_err();
        assert!(error.to_string().contains("under"), "{error}");
    }
}
