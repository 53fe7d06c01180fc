//! The simulated machine behind the device interface.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use pelton_device::{
    Backend, DeviceId, EventBackend, MachineInfo, MemoryKind, Place, RawMemory, Span, StreamBackend, Work,
};
use pelton_error::{Error, Result};

use crate::memory::copy_effect;
use crate::operation::{Mark, Task};
use crate::shared::Shared;

/// A machine in virtual time.
pub(super) struct SimBackend {
    pub(super) shared: Arc<Shared>,
}

struct SimStream {
    shared: Arc<Shared>,
    id: u64,
    place: Place,
}

struct SimEvent {
    shared: Arc<Shared>,
    mark: Arc<Mark>,
}

impl Backend for SimBackend {
    fn info(&self) -> &MachineInfo {
        &self.shared.info
    }

    fn allocate(&self, kind: &MemoryKind, bytes: usize) -> Result<RawMemory> {
        self.shared.with(|state| state.memory.allocate(kind, bytes))
    }

    fn release(&self, kind: &MemoryKind, memory: RawMemory) {
        self.shared.with(|state| state.memory.release(kind, memory));
    }

    fn page_lock(&self, address: u64, bytes: usize) -> Result<()> {
        let options = &self.shared.options;
        self.shared.pass(bytes as f64 * options.scale / options.page_lock_bytes_per_s)?;
        self.shared.with(|state| state.memory.lock(address, bytes));
        Ok(())
    }

    fn page_unlock(&self, address: u64, _bytes: usize) {
        self.shared.with(|state| state.memory.unlock(address));
    }

    fn create_stream(&self, place: Place) -> Result<Box<dyn StreamBackend>> {
        let exists = match place {
            Place::Host(node) => node.0 < self.shared.info.node_count,
            Place::Device(device) => (device.0 as usize) < self.shared.info.devices.len(),
        };
        if !exists {
            return Err(Error::invalid_input(format!("machine '{}' has no {place}", self.shared.info.name)));
        }
        let id = self.shared.with(|state| state.engine.add_stream());
        Ok(Box::new(SimStream { shared: Arc::clone(&self.shared), id, place }))
    }

    fn is_peer(&self, device: DeviceId, peer: DeviceId) -> bool {
        let route = self.shared.resources.route(Place::Device(peer), Place::Device(device));
        route.is_some_and(|route| route.is_peer(&self.shared.resources.topology))
    }

    fn now(&self) -> Duration {
        Duration::from_secs_f64(self.shared.with(|state| state.engine.now_s()))
    }

    fn count_threads(&self, change: i32) {
        self.shared.count_threads(change);
    }
}

impl StreamBackend for SimStream {
    fn copy(&self, source: &Span, target: &Span) -> Result<()> {
        self.shared.enqueue(self.id, |state| {
            let mut operation = self.shared.planner(self.place).copy(&state.memory, source, target)?;
            operation.effect = self.shared.options.functional.then(|| copy_effect(source, target));
            Ok(Task::Run(operation))
        })
    }

    fn prefetch(&self, span: &Span, place: Place) -> Result<()> {
        self.shared.enqueue(self.id, |state| {
            self.shared.planner(self.place).prefetch(&mut state.memory, span, place).map(Task::Run)
        })
    }

    fn run(&self, mut work: Work) -> Result<()> {
        let host_form = work.host.take().filter(|_| self.shared.options.functional);
        if self.shared.options.functional && host_form.is_none() {
            return Err(Error::unsupported(format!(
                "{}: no form for host threads, which a functional simulation needs; simulate sizes alone",
                work.name
            )));
        }
        self.shared.enqueue(self.id, |state| {
            let mut operation = self.shared.planner(self.place).work(&mut state.memory, &work)?;
            operation.effect = host_form;
            Ok(Task::Run(operation))
        })
    }

    fn record(&self) -> Result<Box<dyn EventBackend>> {
        let mark = self.shared.with(|state| state.engine.record(self.id, self.place));
        Ok(Box::new(SimEvent { shared: Arc::clone(&self.shared), mark }))
    }

    fn wait_for(&self, event: &dyn EventBackend) -> Result<()> {
        let mark = Arc::clone(&own(event, &self.shared)?.mark);
        self.shared.enqueue(self.id, |_| Ok(Task::Wait(mark)))
    }

    fn is_idle(&self) -> Result<bool> {
        self.shared.poll(|state| state.engine.idle_outcome(self.id))
    }
}

impl Drop for SimStream {
    fn drop(&mut self) {
        self.shared.with(|state| state.engine.drop_stream(self.id));
    }
}

impl EventBackend for SimEvent {
    fn is_complete(&self) -> Result<bool> {
        self.shared.poll(|_| self.mark.reached.get().map(|reached| reached.outcome()))
    }

    fn wait_blocking(&self) -> Result<()> {
        self.shared.wait(&self.mark)
    }

    fn elapsed_since(&self, earlier: &dyn EventBackend) -> Result<Duration> {
        let earlier = &own(earlier, &self.shared)?.mark;
        if earlier.place != self.mark.place {
            return Err(Error::invalid_input(format!(
                "time between events of {} and {}; take both in streams of one place",
                earlier.place, self.mark.place
            )));
        }
        match (earlier.reached.get(), self.mark.reached.get()) {
            (Some(from), Some(to)) => Ok(Duration::from_secs_f64((to.at_s - from.at_s).max(0.0))),
            _ => Err(Error::invalid_input("time between events that are not complete; wait for them first")),
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn own<'a>(event: &'a dyn EventBackend, shared: &Arc<Shared>) -> Result<&'a SimEvent> {
    let event = event.as_any().downcast_ref::<SimEvent>();
    event
        .filter(|event| Arc::ptr_eq(&event.shared, shared))
        .ok_or_else(|| Error::invalid_input("an event of another machine; use those of this one"))
}

impl fmt::Debug for SimBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "simulation of '{}'", self.shared.info.name)
    }
}
