//! `pelton topology`: the machine as tables, JSON or a drawing, with what was measured of it.

use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;

use pelton_device::Machine;
use pelton_device::host::{self, HostOptions};
use pelton_error::{Result, ResultExt};
use pelton_fabric::discover::{Sources, survey};
use pelton_fabric::profile::Profile;
use pelton_fabric::{Survey, Topology, preset, render};
use pelton_sim::{self as sim, SimOptions};
use pelton_transfer::measure::{self, MeasureOptions};

use crate::args::TopologyArgs;
use crate::machine::{self, Opened};
use crate::{cancel, console};

/// A machine with the name that its measurements are kept under, and what is not known of it.
struct Subject {
    topology: Topology,
    fingerprint: String,
    notes: Vec<String>,
    is_here: bool,
}

pub(crate) fn run(args: &TopologyArgs) -> Result<()> {
    let subject = subject(args)?;
    let folder = Profile::default_folder()?;
    let profile = if args.measure {
        let profile = measure_blocking(&subject, args)?;
        if subject.is_here {
            let name = profile.save(&folder)?;
            console::say(format_args!("kept in {}", name.display()));
        }
        Some(profile)
    } else if subject.is_here {
        Profile::load(&folder, &subject.fingerprint)
    } else {
        None
    };
    let topology = match &profile {
        Some(profile) => profile.apply(subject.topology.clone()),
        None => subject.topology.clone(),
    };
    // Tables and drawings mark what was measured on this machine, and nothing else.
    let shown = match subject.is_here {
        true => topology.clone(),
        false => topology.clone().seen_from_elsewhere(),
    };
    if let Some(name) = &args.svg {
        std::fs::write(name, render::svg(&shown)).context(|| format!("writing {}", name.display()))?;
    }
    if args.json {
        return console::print(json(&topology, profile.as_ref())?);
    }
    let mut text = render::table(&shown);
    if let Some(profile) = &profile {
        text.push_str(&format!("\n{}", render::profile_table(profile)));
    }
    console::print(text)?;
    for note in &subject.notes {
        console::say(format_args!("note: {note}"));
    }
    match &profile {
        Some(profile) if !args.measure => {
            console::say(format_args!("measured {} ago; --measure does it again", age(profile.age())));
        }
        None if subject.is_here => {
            console::say("nothing measured yet: capacities are what the hardware states; --measure measures");
        }
        _ => {}
    }
    Ok(())
}

fn subject(args: &TopologyArgs) -> Result<Subject> {
    let elsewhere = |topology: Topology| Subject {
        fingerprint: pelton_fabric::fingerprint(&topology, None),
        topology,
        notes: Vec::new(),
        is_here: false,
    };
    if let Some(name) = &args.preset {
        let topology = preset(name).ok_or_else(|| {
            let known = pelton_fabric::PRESET_NAMES.join(", ");
            pelton_error::Error::invalid_input(format!("no preset '{name}'; there are {known}"))
        })?;
        return Ok(elsewhere(topology));
    }
    if let Some(path) = &args.from {
        let text = std::fs::read_to_string(path).context(|| format!("reading {}", path.display()))?;
        return Ok(elsewhere(read_topology(&text).context(|| path.display().to_string())?));
    }
    let mut found = survey_here()?;
    let fingerprint = found.fingerprint();
    // The management library does not tell; the driver does.
    for (device, count) in found.topology.devices.iter_mut().zip(pelton_device::cuda::copy_engine_counts()) {
        device.copy_engine_count = count;
    }
    Ok(Subject { fingerprint, notes: found.notes, topology: found.topology, is_here: true })
}

/// What this machine is made of.
pub(crate) fn survey_here() -> Result<Survey> {
    // CUDA's numbers, which CUDA_VISIBLE_DEVICES may change, are everybody's numbers.
    let addresses = pelton_device::cuda::pci_addresses();
    survey(&Sources { device_addresses: addresses, ..Sources::default() })
}

/// A topology as `--json` writes it: alone, or beside what was measured.
fn read_topology(text: &str) -> Result<Topology> {
    let both = serde_json::from_str::<serde_json::Value>(text).ok();
    match both.as_ref().and_then(|value| value.get("topology")) {
        Some(inner) => Topology::from_json(&inner.to_string()),
        None => Topology::from_json(text),
    }
}

/// Measures on a thread of its own, so that Ctrl-C ends it at once.
fn measure_blocking(subject: &Subject, args: &TopologyArgs) -> Result<Profile> {
    let flag = cancel::flag_on_ctrl_c()?;
    let Opened { machine, library } = open(subject)?;
    let (sender, receiver) = channel();
    let (fingerprint, storage, bytes) =
        (subject.fingerprint.clone(), args.storage.clone(), args.bytes as usize);
    std::thread::spawn(move || {
        let mut say = |what: &str| console::say(format_args!("measuring {what}"));
        let options =
            MeasureOptions { bytes, storage, progress: Some(&mut say), ..MeasureOptions::default() };
        let _ = sender.send(measure::measure(&machine, library.as_ref(), fingerprint, options));
    });
    let outcome = cancel::wait_blocking(&receiver, &flag);
    if outcome.is_err() {
        forget_files(args.storage.as_deref());
    }
    outcome
}

fn open(subject: &Subject) -> Result<Opened> {
    if !subject.is_here {
        let options = SimOptions { functional: false, ..SimOptions::default() };
        return Ok(Opened { machine: sim::machine(&subject.topology, options)?, library: None });
    }
    if subject.topology.devices.is_empty() {
        // Without devices, what remains is the host's memory.
        let none = HostOptions {
            device_count: 0,
            pinned_memory_limit_bytes: u64::MAX / 2,
            ..HostOptions::default()
        };
        return Ok(Opened { machine: host::open(&none), library: None });
    }
    machine::open_cuda(None)
}

/// Removes what an interrupted measurement of storage leaves.
pub(crate) fn forget_files(folder: Option<&Path>) {
    if let Some(folder) = folder {
        measure::remove_storage_file(folder);
    }
}

fn json(topology: &Topology, profile: Option<&Profile>) -> Result<String> {
    let Some(profile) = profile else { return Ok(topology.to_json()) };
    let parse = |text: &str| {
        serde_json::from_str::<serde_json::Value>(text)
            .map_err(|error| pelton_error::Error::corrupt("JSON of this program").with_source(error))
    };
    let both =
        serde_json::json!({ "topology": parse(&topology.to_json())?, "profile": parse(&profile.to_json())? });
    Ok(format!("{both:#}\n"))
}

/// Such as "3 minutes" or "12 days".
pub(crate) fn age(time: Duration) -> String {
    let seconds = time.as_secs();
    let (count, unit) = match seconds {
        0..60 => (seconds, "second"),
        60..3600 => (seconds / 60, "minute"),
        3600..86_400 => (seconds / 3600, "hour"),
        _ => (seconds / 86_400, "day"),
    };
    format!("{count} {unit}{}", if count == 1 { "" } else { "s" })
}

/// For messages: which machine this is.
pub(crate) fn name(machine: &Machine) -> String {
    format!("{} ({} devices)", machine.info().name, machine.info().devices.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_told_in_the_largest_whole_unit() {
        assert_eq!(age(Duration::from_secs(1)), "1 second");
        assert_eq!(age(Duration::from_secs(7_300)), "2 hours");
        assert_eq!(age(Duration::from_secs(200_000)), "2 days");
    }
}
