//! What the links alone take for all bytes of a sort, measured with its own memory.

use pelton_device::{Buffer, DeviceId, Machine, MemoryKind, OnFull, Place, Stream};
use pelton_error::Result;
use pelton_sort::{Algorithm, Rows};

/// A piece of a copy, and memory that is taken of a device for it: as large as copies need to be.
const PIECE_BYTES: usize = 64 << 20;

/// Seconds for all bytes over the links of all devices at once, an equal share each.
#[derive(Debug, Clone, Copy)]
pub(super) struct Floors {
    into: f64,
    out: f64,
    both: f64,
}

struct Lane {
    into: Stream,
    out: Stream,
    incoming: Buffer,
    outgoing: Buffer,
}

impl Floors {
    pub(super) fn measure(
        machine: &Machine,
        devices: &[DeviceId],
        source: &Rows,
        target: &Rows,
        limit_bytes: Option<u64>,
    ) -> Result<Self> {
        let piece = (limit_bytes.unwrap_or(u64::MAX) / 2).min(PIECE_BYTES as u64).max(1) as usize;
        let lanes = devices
            .iter()
            .map(|device| {
                let stream = || machine.stream(Place::Device(*device));
                let buffer = || machine.allocate(MemoryKind::Device(*device), piece, OnFull::Refuse);
                Ok(Lane { into: stream()?, out: stream()?, incoming: buffer()?, outgoing: buffer()? })
            })
            .collect::<Result<Vec<Lane>>>()?;
        let time = |enters: bool, leaves: bool| -> Result<f64> {
            let mut best = f64::INFINITY;
            for _ in 0..2 {
                let started = machine.now();
                for (from, to) in source.columns().zip(target.columns()) {
                    for (number, (from, to)) in from.chunks(piece).zip(to.chunks(piece)).enumerate() {
                        let lane = &lanes[number % lanes.len().max(1)];
                        if enters {
                            lane.into.copy(&from, &lane.incoming.slice(0..from.len()))?;
                        }
                        if leaves {
                            lane.out.copy(&lane.outgoing.slice(0..to.len()), &to)?;
                        }
                    }
                }
                for lane in &lanes {
                    lane.into.wait_blocking()?;
                    lane.out.wait_blocking()?;
                }
                best = best.min((machine.now() - started).as_secs_f64());
            }
            Ok(best)
        };
        if lanes.is_empty() {
            return Ok(Self { into: 0.0, out: 0.0, both: 0.0 });
        }
        Ok(Self { into: time(true, false)?, out: time(false, true)?, both: time(true, true)? })
    }

    pub(super) fn named(&self) -> [(&'static str, f64); 3] {
        [
            ("links: all bytes in", self.into),
            ("links: all bytes out", self.out),
            ("links: in and out at once", self.both),
        ]
    }

    /// The least that an algorithm can take over these links; nothing for those that move none.
    pub(super) fn of(&self, algorithm: Algorithm, run_count: u64) -> Option<f64> {
        match algorithm {
            Algorithm::Gpu | Algorithm::P2p | Algorithm::Partitioned => Some(self.into + self.out),
            Algorithm::Het2n | Algorithm::Het3n => Some(self.both),
            Algorithm::Range => Some(if run_count > 1 { 2.0 * self.both } else { self.into + self.out }),
            Algorithm::Cpu | Algorithm::Paradis | Algorithm::Auto => None,
        }
    }
}
