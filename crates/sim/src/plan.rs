//! What copies, prefetches and work ask of the machine: flows over links and memories, and time to compute.
//!
//! | operation | flows |
//! | --- | --- |
//! | copy, by a device | source memory, the links of the route, target memory; its cap is B_E of the size |
//! | the same from or to pageable memory | through a bounce buffer of the driver, which has a cap of its own |
//! | the same between devices without peer access | through a host node's memory, at the staging efficiency |
//! | copy, by a host's core | reads and writes of the nodes, at most as fast as a core copies |
//! | prefetch | as copies, at its share of B_E |
//! | work | to every place where its spans lie: the links there and the memory, in sequence or at random |

use std::collections::BTreeMap;

use pelton_device::{Access, MachineInfo, MemoryKind, PageableAccess, Place, Span, Work};
use pelton_error::{Error, Result};
use pelton_fabric::Route;

use crate::memory::{Memory, Run};
use crate::operation::{Engine, Flow, Operation};
use crate::options::SimOptions;
use crate::resources::{Resources, Touch};

/// Plans operations of a stream at `place`.
pub(super) struct Planner<'a> {
    pub(super) info: &'a MachineInfo,
    pub(super) resources: &'a Resources,
    pub(super) options: &'a SimOptions,
    pub(super) place: Place,
}

/// What work does to one memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Visit {
    home: Place,
    is_write: bool,
    is_random: bool,
    /// Pages come to the processor at the rate of page faults, instead of the processor going to them.
    moves_pages: bool,
}

/// What work does to one span.
#[derive(Clone, Copy)]
struct Touched {
    bytes: u64,
    is_write: bool,
    is_random: bool,
}

fn touched(listed: &Option<Vec<u64>>, index: usize, span: &Span) -> u64 {
    listed.as_ref().and_then(|bytes| bytes.get(index).copied()).unwrap_or(span.len() as u64)
}

impl Planner<'_> {
    /// A copy between spans of equal lengths.
    pub(super) fn copy(&self, memory: &Memory, source: &Span, target: &Span) -> Result<Operation> {
        let is_bounced = !memory.is_pinned(source) || !memory.is_pinned(target);
        let mut operation = empty();
        for ((from, to), held) in pair_up(memory.runs(source), memory.runs(target)) {
            let bytes = self.scaled(held);
            let flow = match self.place {
                Place::Host(_) => self.core_flow(from, to, bytes)?,
                Place::Device(_) if is_on_host(from) && is_on_host(to) => self.core_flow(from, to, bytes)?,
                Place::Device(_) => self.device_flow(from, to, bytes, is_bounced)?,
            };
            operation.engine = operation.engine.or(self.engine(from, to));
            operation.latency_s = operation.latency_s.max(self.latency_s(from, to));
            operation.flows.push(flow);
        }
        Ok(operation)
    }

    /// Moving managed pages to `target`; they are there for all that is enqueued later.
    pub(super) fn prefetch(&self, memory: &mut Memory, span: &Span, target: Place) -> Result<Operation> {
        let there = vec![Run { place: target, bytes: span.len() as u64 }];
        let mut operation = empty();
        for ((from, to), held) in pair_up(memory.runs(span), there) {
            if from != to {
                let bytes = self.scaled(held);
                let mut flow = self.device_flow(from, to, bytes, false)?;
                flow.cap *= self.options.prefetch_efficiency;
                operation.latency_s = operation.latency_s.max(self.latency_s(from, to));
                operation.flows.push(flow);
            }
        }
        memory.settle(span, target);
        Ok(operation)
    }

    /// Work, without its effect.
    pub(super) fn work(&self, memory: &mut Memory, work: &Work) -> Result<Operation> {
        let cost = &work.cost;
        let is_random = cost.access != Access::Sequential;
        let mut visits = BTreeMap::new();
        for (index, span) in work.reads.iter().enumerate() {
            let touched = touched(&cost.read_bytes, index, span);
            let is_random = is_random && !cost.in_sequence.contains(&index);
            self.visit(memory, span, Touched { bytes: touched, is_write: false, is_random }, &mut visits)?;
        }
        for (index, span) in work.writes.iter().enumerate() {
            let touched = touched(&cost.write_bytes, index, span);
            self.visit(memory, span, Touched { bytes: touched, is_write: true, is_random }, &mut visits)?;
        }
        let mut operation = empty();
        operation.compute_s = work.cost.compute.as_secs_f64() * self.options.scale;
        let named = self.options.work_shares.iter().find(|(name, _)| *name == work.name);
        let share = named.map_or(1.0, |(_, share)| *share);
        for (visit, held) in visits {
            if held > 0.0 {
                let access = if visit.is_random { cost.access } else { Access::Sequential };
                let mut flow = self.visit_flow(visit, held * self.options.scale, access)?;
                flow.uses.iter_mut().for_each(|used| used.weight /= share);
                operation.flows.push(flow);
            }
        }
        Ok(operation)
    }

    /// Bytes of the machine that so many held ones stand for.
    fn scaled(&self, held: u64) -> u64 {
        (held as f64 * self.options.scale).round() as u64
    }

    /// Adds what touching so many bytes of the span comes to, in all, at each place where it lies.
    fn visit(
        &self,
        memory: &mut Memory,
        span: &Span,
        touched: Touched,
        visits: &mut BTreeMap<Visit, f64>,
    ) -> Result<()> {
        if span.is_empty() {
            return Ok(());
        }
        let is_managed = span.kind() == &MemoryKind::Managed;
        let share = touched.bytes as f64 / span.len() as f64;
        let is_pinned = memory.is_pinned(span);
        for run in memory.runs(span) {
            let moves_pages = is_managed && run.place != self.place;
            if !moves_pages {
                self.check_reach(run.place, is_pinned)?;
            }
            let Touched { is_write, is_random, .. } = touched;
            let visit = Visit { home: run.place, is_write, is_random, moves_pages };
            *visits.entry(visit).or_insert(0.0) += run.bytes as f64 * share;
        }
        if is_managed {
            memory.settle(span, self.place);
        }
        Ok(())
    }

    fn visit_flow(&self, visit: Visit, bytes: f64, access: Access) -> Result<Flow> {
        let touch = if visit.is_write { Touch::Write } else { Touch::Read };
        if visit.moves_pages {
            let mut flow = self.device_flow(visit.home, self.place, bytes as u64, false)?;
            flow.cap = flow.cap.min(self.options.managed_fault_bytes_per_s);
            return Ok(flow);
        }
        let mut flow = new_flow(bytes);
        if visit.home != self.place {
            let ends = if visit.is_write { (self.place, visit.home) } else { (visit.home, self.place) };
            let route = self.route(ends.0, ends.1)?;
            self.resources.along(route, access, &mut flow.uses);
            flow.hops = route.hops().to_vec();
        }
        self.resources.at(visit.home, touch, access, &mut flow.uses);
        if visit.is_random && visit.is_write {
            flow.uses.iter_mut().for_each(|used| used.weight *= self.options.random.reads_per_write);
        }
        if access != Access::Sequential {
            flow.pace = flow.uses.iter().map(|used| used.weight).fold(1.0, f64::max).recip();
        }
        Ok(flow)
    }

    fn core_flow(&self, from: Place, to: Place, bytes: u64) -> Result<Flow> {
        if !is_on_host(from) || !is_on_host(to) {
            return Err(Error::unsupported(
                "a host's cores do not reach device memory; use a stream of the device",
            ));
        }
        let mut flow = self.copy_flow(from, to, bytes)?;
        flow.cap = self.options.core_copy_bytes_per_s;
        Ok(flow)
    }

    fn device_flow(&self, from: Place, to: Place, bytes: u64, is_bounced: bool) -> Result<Flow> {
        let mut flow = self.copy_flow(from, to, bytes)?;
        if from != to {
            let route = self.route(from, to)?;
            let share = if route.is_staged() { self.options.staging_efficiency } else { 1.0 };
            flow.cap = self.resources.bytes_per_s(route, bytes) * share;
        }
        let host = [from, to].into_iter().find_map(|place| match place {
            Place::Host(node) => Some(node),
            Place::Device(_) => None,
        });
        if let (true, Some(node)) = (is_bounced, host) {
            let place = Place::Host(node);
            self.resources.at(place, Touch::Write, Access::Sequential, &mut flow.uses);
            self.resources.at(place, Touch::Read, Access::Sequential, &mut flow.uses);
            self.resources.bounced(node, &mut flow.uses);
            flow.cap = flow.cap.min(self.options.pageable_bytes_per_s);
        }
        Ok(flow)
    }

    fn copy_flow(&self, from: Place, to: Place, bytes: u64) -> Result<Flow> {
        let mut flow = new_flow(bytes as f64);
        self.resources.at(from, Touch::Read, Access::Sequential, &mut flow.uses);
        if from != to {
            let route = self.route(from, to)?;
            self.resources.along(route, Access::Sequential, &mut flow.uses);
            flow.hops = route.hops().to_vec();
        }
        self.resources.at(to, Touch::Write, Access::Sequential, &mut flow.uses);
        Ok(flow)
    }

    /// The copy engine of the stream's own device where it takes part, else of the source, else of the target.
    fn engine(&self, from: Place, to: Place) -> Option<Engine> {
        match (from, to) {
            _ if from == to => None,
            (_, Place::Device(device)) if to == self.place => Some(Engine::In(device)),
            (Place::Device(device), _) => Some(Engine::Out(device)),
            (_, Place::Device(device)) => Some(Engine::In(device)),
            (Place::Host(_), Place::Host(_)) => None,
        }
    }

    fn latency_s(&self, from: Place, to: Place) -> f64 {
        match self.place {
            Place::Host(_) => 0.0,
            Place::Device(_) => {
                self.resources.route(from, to).map_or(0.0, |route| route.latency_s(&self.resources.topology))
            }
        }
    }

    fn route(&self, from: Place, to: Place) -> Result<&Route> {
        self.resources
            .route(from, to)
            .ok_or_else(|| Error::unsupported(format!("no links lead from {from} to {to} on this machine")))
    }

    /// Whether loads and stores of the stream's processor reach memory at `home`.
    fn check_reach(&self, home: Place, is_pinned: bool) -> Result<()> {
        match (self.place, home) {
            (Place::Host(_), Place::Host(_)) => Ok(()),
            (Place::Host(_), Place::Device(_)) => Err(Error::unsupported(format!(
                "a host's cores do not reach the memory of {home}; copy it first"
            ))),
            (Place::Device(device), Place::Host(_)) => {
                let access = self.info.devices[device.0 as usize].capabilities.pageable_access;
                if is_pinned || access != PageableAccess::None {
                    return Ok(());
                }
                Err(Error::unsupported(format!(
                    "{device} has no access to pageable memory; pin it or copy it"
                )))
            }
            (Place::Device(device), Place::Device(peer)) => {
                if device == peer || self.route(home, self.place)?.is_peer(&self.resources.topology) {
                    return Ok(());
                }
                Err(Error::unsupported(format!("{device} has no peer access to {peer}; copy it first")))
            }
        }
    }
}

fn is_on_host(place: Place) -> bool {
    matches!(place, Place::Host(_))
}

fn empty() -> Operation {
    Operation { latency_s: 0.0, compute_s: 0.0, flows: Vec::new(), engine: None, effect: None }
}

fn new_flow(bytes: f64) -> Flow {
    Flow { bytes, cap: f64::INFINITY, pace: 1.0, uses: Vec::new(), hops: Vec::new(), rate: 0.0 }
}

/// Bytes by where they come from and go to. Both lists are of equal lengths in all.
fn pair_up(sources: Vec<Run>, targets: Vec<Run>) -> BTreeMap<(Place, Place), u64> {
    let mut pairs = BTreeMap::new();
    let mut targets = targets.into_iter();
    let mut target = Run { place: Place::HOST, bytes: 0 };
    for mut source in sources {
        while source.bytes > 0 {
            if target.bytes == 0 {
                target = targets.next().expect("a copy is of equal lengths");
            }
            let bytes = source.bytes.min(target.bytes);
            *pairs.entry((source.place, target.place)).or_insert(0) += bytes;
            source.bytes -= bytes;
            target.bytes -= bytes;
        }
    }
    pairs
}
