//! What the experiment is called with, and the sizes that follow from it.

use pelton_device::{Machine, NodeId};
use pelton_error::{Error, Result};

use crate::harness::Harness;

/// Bytes of one copy in the paper.
pub(super) const PAPER_BYTES: u64 = 4_000_000_000;

/// A copy takes at most this part of what a device's buffers may take.
const DEVICE_SHARE: u64 = 4;

/// The machines of the paper, as presets.
const PAPER_MACHINES: [&str; 3] = ["ac922", "delta", "dgx-a100"];

/// What the experiment is carried out on.
#[derive(Debug, Clone)]
pub enum Subject {
    /// A preset of a machine, simulated.
    Preset(String),
    /// A machine that the caller opened.
    Machine(Machine),
}

/// What to copy, how often, and where.
#[derive(Debug, Clone)]
pub struct P2pOptions {
    /// The machines.
    pub subjects: Vec<Subject>,
    /// Bytes of one copy at scale 1. A device's buffers take at most half of what it may use, so less if need be.
    pub bytes: u64,
    /// Share of `bytes` to copy.
    pub scale: f64,
    /// Pieces that a copy is cut into, bytes; without, it is one operation.
    pub chunk_bytes: Option<u64>,
    /// Repetitions.
    pub harness: Harness,
    /// Where the host buffers lie.
    pub host_node: NodeId,
    /// Devices to copy to and from at once; without, those of the paper, or halves and wholes of the machine.
    pub host_sets: Option<Vec<Vec<u32>>>,
    /// Devices to pair, the first with the last and so on; without, likewise.
    pub peer_sets: Option<Vec<Vec<u32>>>,
    /// Compare what arrived with what was sent, where there are bytes.
    pub check_bytes: bool,
    /// Seed of the simulator.
    pub seed: u64,
}

impl P2pOptions {
    /// The paper's machines, simulated.
    pub fn on_presets() -> Self {
        Self::of(PAPER_MACHINES.map(|name| Subject::Preset(name.to_owned())).to_vec())
    }

    /// One machine.
    pub fn on_machine(machine: Machine) -> Self {
        Self::of(vec![Subject::Machine(machine)])
    }

    /// These subjects, else as in the paper.
    pub fn of(subjects: Vec<Subject>) -> Self {
        Self {
            subjects,
            bytes: PAPER_BYTES,
            scale: 1.0,
            chunk_bytes: None,
            harness: Harness::default(),
            host_node: NodeId(0),
            host_sets: None,
            peer_sets: None,
            check_bytes: true,
            seed: 0,
        }
    }

    /// What can be refused without a machine.
    pub(super) fn check(&self) -> Result<()> {
        if self.subjects.is_empty() {
            return Err(Error::invalid_input("no machine to copy on; name a preset or open this machine"));
        }
        if !self.scale.is_finite() || self.scale <= 0.0 {
            return Err(Error::invalid_input(format!("scale {}; it is a finite number above 0", self.scale)));
        }
        if self.scaled_bytes() == 0 {
            return Err(Error::invalid_input(format!(
                "{} bytes at scale {} are none; copy 1 at least",
                self.bytes, self.scale
            )));
        }
        if self.chunk_bytes == Some(0) {
            return Err(Error::invalid_input("pieces of 0 bytes; leave the size out to copy in one piece"));
        }
        Ok(())
    }

    fn scaled_bytes(&self) -> u64 {
        (self.bytes as f64 * self.scale) as u64
    }

    /// Bytes of one copy on `machine`: each device holds two buffers of them, and so does the host for each device.
    pub(super) fn bytes_on(&self, machine: &Machine) -> Result<usize> {
        let info = machine.info();
        let device_limit = info.devices.iter().map(|device| device.memory_limit_bytes / DEVICE_SHARE).min();
        let pinned_limit = info.pinned_memory_limit_bytes / (2 * info.devices.len() as u64).max(1);
        let bytes = self.scaled_bytes().min(device_limit.unwrap_or(0)).min(pinned_limit);
        if bytes == 0 {
            return Err(Error::invalid_input(format!(
                "{}: its memory limits leave nothing for buffers; raise the limit of device or pinned memory",
                info.name
            )));
        }
        usize::try_from(bytes)
            .map_err(|_| Error::invalid_input(format!("{bytes} bytes exceed the address space")))
    }
}
