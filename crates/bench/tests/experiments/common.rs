//! A machine whose clock is set by hand and whose copies do nothing, to see that time and bytes are looked at.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pelton_device::{
    Backend, Capabilities, DeviceId, DeviceInfo, DeviceKind, EventBackend, Machine, MachineInfo, MemoryKind,
    NodeId, PageableAccess, Place, RawMemory, Span, StreamBackend, Work,
};
use pelton_error::Result;

/// Nanoseconds that the machine's clock shows.
pub(crate) type Clock = Arc<AtomicU64>;

/// The machine, with this many devices, and its clock.
pub(crate) fn idle_machine(device_count: u32) -> (Machine, Clock) {
    let clock = Clock::default();
    let device = |index| DeviceInfo {
        id: DeviceId(index),
        name: "idle device".into(),
        kind: DeviceKind::Logical,
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
        name: "idle".into(),
        is_simulated: false,
        devices: (0..device_count).map(device).collect(),
        node_count: 1,
        pinned_memory_limit_bytes: 1 << 20,
    };
    (Machine::new(Idle { info, clock: Arc::clone(&clock) }), clock)
}

#[derive(Debug)]
struct Idle {
    info: MachineInfo,
    clock: Clock,
}

impl Backend for Idle {
    fn info(&self) -> &MachineInfo {
        &self.info
    }

    fn allocate(&self, _kind: &MemoryKind, bytes: usize) -> Result<RawMemory> {
        // Never freed: the buffers are few and small.
        let memory = Box::leak(vec![0_u8; bytes].into_boxed_slice());
        Ok(RawMemory { address: memory.as_mut_ptr() as u64, bytes, holds_bytes: true })
    }

    fn release(&self, _kind: &MemoryKind, _memory: RawMemory) {}

    fn page_lock(&self, _address: u64, _bytes: usize) -> Result<()> {
        Ok(())
    }

    fn page_unlock(&self, _address: u64, _bytes: usize) {}

    fn create_stream(&self, _place: Place) -> Result<Box<dyn StreamBackend>> {
        Ok(Box::new(Nothing(Arc::clone(&self.clock))))
    }

    fn is_peer(&self, _device: DeviceId, _peer: DeviceId) -> bool {
        true
    }

    fn now(&self) -> Duration {
        Duration::from_nanos(self.clock.load(Ordering::SeqCst))
    }
}

/// A stream on which a copy takes a microsecond and moves nothing, and its events.
struct Nothing(Clock);

impl StreamBackend for Nothing {
    fn copy(&self, _source: &Span, _target: &Span) -> Result<()> {
        self.0.fetch_add(1000, Ordering::SeqCst);
        Ok(())
    }

    fn prefetch(&self, _span: &Span, _place: Place) -> Result<()> {
        Ok(())
    }

    fn run(&self, _work: Work) -> Result<()> {
        Ok(())
    }

    fn record(&self) -> Result<Box<dyn EventBackend>> {
        Ok(Box::new(Nothing(Arc::clone(&self.0))))
    }

    fn wait_for(&self, _event: &dyn EventBackend) -> Result<()> {
        Ok(())
    }

    fn is_idle(&self) -> Result<bool> {
        Ok(true)
    }
}

impl EventBackend for Nothing {
    fn is_complete(&self) -> Result<bool> {
        Ok(true)
    }

    fn wait_blocking(&self) -> Result<()> {
        Ok(())
    }

    fn elapsed_since(&self, _earlier: &dyn EventBackend) -> Result<Duration> {
        Ok(Duration::ZERO)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
