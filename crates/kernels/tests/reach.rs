//! Host forms touch no memory that the cores of the host do not reach.

use std::time::Duration;

use pelton_device::{
    Backend, Capabilities, DeviceId, DeviceInfo, DeviceKind, Machine, MachineInfo, MemoryKind, NodeId,
    OnFull, PageableAccess, Place, RawMemory, StreamBackend, Work,
};
use pelton_error::{Error, ErrorKind, Result};
use pelton_kernels::{copy, fill_random, read};

/// A machine whose memory is addresses with nothing behind them.
#[derive(Debug)]
struct Hollow {
    info: MachineInfo,
    holds_bytes: bool,
}

impl Backend for Hollow {
    fn info(&self) -> &MachineInfo {
        &self.info
    }

    fn allocate(&self, _kind: &MemoryKind, bytes: usize) -> Result<RawMemory> {
        Ok(RawMemory { address: 64, bytes, holds_bytes: self.holds_bytes })
    }

    fn release(&self, _kind: &MemoryKind, _memory: RawMemory) {}

    fn page_lock(&self, _address: u64, _bytes: usize) -> Result<()> {
        Ok(())
    }

    fn page_unlock(&self, _address: u64, _bytes: usize) {}

    fn create_stream(&self, _place: Place) -> Result<Box<dyn StreamBackend>> {
        Err(Error::unsupported("no streams here"))
    }

    fn is_peer(&self, _device: DeviceId, _peer: DeviceId) -> bool {
        false
    }

    fn now(&self) -> Duration {
        Duration::ZERO
    }
}

fn hollow(kind: DeviceKind, holds_bytes: bool) -> Machine {
    let device = DeviceInfo {
        id: DeviceId(0),
        name: "hollow".into(),
        kind,
        memory_bytes: 1 << 20,
        memory_limit_bytes: 1 << 20,
        multiprocessors: 1,
        l2_bytes: 0,
        node: NodeId(0),
        pci_address: None,
        capabilities: Capabilities {
            pageable_access: PageableAccess::None,
            concurrent_managed: false,
            host_register: false,
            host_native_atomics: false,
            virtual_memory: false,
            copy_engines: 1,
        },
    };
    let info = MachineInfo {
        name: "hollow".into(),
        is_simulated: !holds_bytes,
        devices: vec![device],
        node_count: 1,
        pinned_memory_limit_bytes: 1 << 20,
    };
    Machine::new(Hollow { info, holds_bytes })
}

fn refusals(machine: &Machine, kind: &MemoryKind) -> Vec<Error> {
    let span = |bytes| machine.allocate(kind.clone(), bytes, OnFull::Refuse).unwrap().span();
    let works: [Work; 3] = [
        fill_random(None, span(100), 1),
        read(None, span(100), span(8)),
        copy(None, span(100).slice(0..10), span(100).slice(50..60)),
    ];
    works.into_iter().map(|work| work.host.expect("every kernel has a host form")().unwrap_err()).collect()
}

#[test]
fn memory_of_a_gpu_is_left_to_streams_of_devices() {
    let gpu = hollow(DeviceKind::Cuda { major: 9, minor: 0 }, true);
    for error in refusals(&gpu, &MemoryKind::Device(DeviceId(0))) {
        assert_eq!(error.kind(), &ErrorKind::Unsupported);
        assert!(error.to_string().contains("use a stream of a device"), "{error}");
    }
}

#[test]
fn simulated_sizes_are_not_worked_on() {
    let simulated = hollow(DeviceKind::Simulated, false);
    for kind in [MemoryKind::Device(DeviceId(0)), MemoryKind::PINNED] {
        for error in refusals(&simulated, &kind) {
            assert!(error.to_string().contains("no bytes to work on"), "{error}");
        }
    }
}
