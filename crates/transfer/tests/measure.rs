//! A machine is measured, its profile kept, and its topology filled in; logical and simulated machines alike.

use pelton_device::cuda::{self, CudaOptions};
use pelton_device::host::{self, HostOptions};
use pelton_device::{DeviceId, Machine};
use pelton_fabric::profile::Profile;
use pelton_fabric::{Vertex, preset};
use pelton_kernels::Library;
use pelton_sim::{self as sim, SimOptions};
use pelton_transfer::measure::{MeasureOptions, measure};
use pelton_transfer::{Method, MethodRates};

fn quick(bytes: usize) -> MeasureOptions<'static> {
    MeasureOptions { bytes, repetitions: 1, ..MeasureOptions::default() }
}

#[test]
fn every_path_of_a_machine_has_a_positive_rate() {
    let options = HostOptions { device_count: 2, ..HostOptions::default() };
    let mut beds: Vec<(Machine, Option<_>)> = vec![(host::open(&options), None)];
    match (cuda::open(&CudaOptions::default()), Library::open()) {
        (Ok(machine), Ok(library)) => beds.push((machine, Some(library))),
        (Err(error), _) | (_, Err(error)) => println!("SKIPPED on CUDA devices: {error}"),
    }
    for (machine, library) in beds {
        let folder = tempfile::tempdir().unwrap();
        let options = MeasureOptions { storage: Some(folder.path().into()), ..quick(1 << 20) };
        let profile = measure(&machine, library.as_ref(), "test".into(), options).unwrap();
        let devices = machine.info().devices.len();
        assert_eq!(profile.copies.len(), 2 * devices + devices * (devices - 1));
        for copies in &profile.copies {
            assert!(copies.peak_bytes_per_s() > 0.0 && copies.duplex_bytes_per_s > 0.0, "{copies:?}");
            assert!(copies.latency_s > 0.0);
            assert!(copies.by_size.windows(2).all(|pair| pair[0].bytes < pair[1].bytes));
        }
        for access in &profile.accesses {
            assert!(access.sequential_bytes_per_s > 0.0 && access.random_4_byte_per_s > 0.0, "{access:?}");
            assert!(access.latency_s.is_some_and(|latency| latency > 0.0));
        }
        assert_eq!(profile.methods.len(), devices * Method::ALL.len());
        for method in &profile.methods {
            assert_eq!(method.bytes_per_s.is_none(), !method.missing.is_empty(), "{method:?}");
        }
        assert!(!MethodRates::of(&profile, DeviceId(0)).0.is_empty());
        assert!(profile.host.iter().all(|host| host.read_bytes_per_s > 0.0 && host.copy_bytes_per_s > 0.0));
        assert!(!profile.storage.is_empty());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "the file that was read is gone");
        assert_eq!(Profile::load(folder.path(), "test"), None);
    }
}

#[test]
fn a_simulated_machine_measures_as_its_links_say() {
    let topology = preset("h200-x2").unwrap();
    let machine = sim::machine(&topology, SimOptions { functional: false, ..SimOptions::default() }).unwrap();
    let profile = measure(&machine, None, "simulated".into(), quick(256 << 20)).unwrap();
    assert!(profile.is_simulated);
    assert!(profile.accesses.iter().all(|access| access.latency_s.is_none()));
    let down = profile.copies_between(Vertex::Node(0), Vertex::Device(0)).unwrap();
    assert!((down.peak_bytes_per_s() / 55.5e9 - 1.0).abs() < 0.03, "{}", down.peak_bytes_per_s());
    let peer = profile.copies_between(Vertex::Device(0), Vertex::Device(1)).unwrap();
    assert!((peer.peak_bytes_per_s() / 397e9 - 1.0).abs() < 0.05, "{}", peer.peak_bytes_per_s());
    let both = &profile.sets[0];
    assert!((both.bytes_per_s / 110.4e9 - 1.0).abs() < 0.05, "both links at once: {}", both.bytes_per_s);
    let applied = profile.apply(topology);
    let link = applied.link_between(Vertex::Node(0), Vertex::Device(0));
    assert!(link.is_none_or(|link| applied.links[link].is_measured));
    applied.validate().unwrap();
}

#[test]
fn too_few_bytes_are_refused() {
    let machine = host::open(&HostOptions::default());
    assert!(measure(&machine, None, "few".into(), quick(1000)).unwrap_err().to_string().contains("64 KiB"));
}
