//! How long each algorithm takes, from the rates of the machine; the least one is chosen.
//!
//! ```text
//!   gpu      in + out                         + what is left to do when the last piece has arrived
//!   p2p      the same of a device's share     + (g - 1)/2 of all keys over the links between, + merges
//!   rp       the same                         + (g - 1)/g of a share, + log2 g merges
//!   het      in and out at once               + sorts (two buffers), + the CPU's merge
//!   range    in and out at once, twice        + a chunk to begin and to end each
//!   cpu      passes over the host's memory
//! ```
//!
//! Copies of all devices together are no faster than the host's memory. Shares of rates that are reached are of one
//! H200 (`ceilings` of docs/perf, 2^30 random keys, 2026-11) unless called guesses.

use std::time::Duration;

use pelton_device::{DeviceId, Machine};
use pelton_fabric::{Vertex, direct_route};

use crate::key::SortSpec;
use crate::options::{Algorithm, SortOptions};
use crate::plan::Plan;

/// What each direction keeps of its rate if both are in use: 101.8 of 2 x 55.5 GB/s.
const DUPLEX_SHARE: f64 = 0.92;
/// What a radix sort's passes reach of the device's memory: 49.7 G keys/s of 4 bytes are 1.8 of 4.26 TB/s, 16.4 G of
/// 8 bytes 2.2.
const SORT_SHARE: f64 = 0.45;
/// The same of a merge: a guess.
const MERGE_SHARE: f64 = 0.6;
/// What copies between devices reach where no topology tells: a guess for NVLink; without peer access a share of the
/// host link.
const PEER_BYTES_PER_S: f64 = 350e9;
/// Rows that a core merges per second, with two runs; each doubling of runs adds half as much time. A guess.
const MERGE_ROWS_PER_S: f64 = 400e6;
/// Bytes of keys that a core sorts per second, with 4 passes; a guess.
const SORT_BYTES_PER_S: f64 = 350e6;
/// To start and to end anything: streams, launches, waits. A guess.
const FIXED_S: f64 = 200e-6;

/// The time of a plan.
pub(crate) fn predict(
    machine: &Machine,
    spec: SortSpec,
    row_count: usize,
    plan: &Plan,
    options: &SortOptions,
) -> Duration {
    let model = Model { machine, spec, options, devices: &plan.devices };
    let (rows, share) = (row_count as f64, row_count as f64 / plan.devices.len().max(1) as f64);
    let count = plan.devices.len() as f64;
    let chunk = plan.buffer_rows as f64;
    let arriving = model.one_way(share) + model.tail(share);
    let time = match plan.algorithm {
        Algorithm::Auto => unreachable!("a plan names an algorithm"),
        Algorithm::Cpu | Algorithm::Paradis => model.cpu_sort(rows),
        Algorithm::Gpu => arriving + model.one_way(share),
        Algorithm::P2p => {
            // Uniform keys move (g - 1)/2 N in all, half of that in each direction, over g/2 pairs at once.
            let exchange = if count > 1.0 { (count - 1.0) / 2.0 * share } else { 0.0 };
            let stages = 2.0 * count.log2();
            arriving + model.peer(exchange) + stages * model.merge(share) + model.one_way(share)
        }
        Algorithm::Partitioned => {
            let exchange = (count - 1.0) / count * share;
            arriving + model.peer(exchange) + count.log2().ceil() * model.merge(share) + model.one_way(share)
        }
        Algorithm::Het2n | Algorithm::Het3n => {
            let runs = (rows / chunk).ceil().max(1.0);
            let chunk = chunk.min(share);
            let (stream, sort) = (model.both_ways(share), model.sort(share));
            let both = if plan.algorithm == Algorithm::Het2n { stream + sort } else { stream.max(sort) };
            // The first chunk goes in, the last one out, with the other direction idle.
            both + model.one_way(chunk) + model.cpu_merge(rows, runs)
        }
        Algorithm::Range => {
            let passes = if rows > chunk { 2.0 } else { 1.0 };
            let each =
                model.both_ways(share).max(model.sort(share)) + model.one_way(chunk) + model.sort(chunk);
            passes * each
        }
    };
    Duration::from_secs_f64(time + FIXED_S)
}

struct Model<'a> {
    machine: &'a Machine,
    spec: SortSpec,
    options: &'a SortOptions,
    devices: &'a [DeviceId],
}

impl Model<'_> {
    fn bytes(&self, rows: f64) -> f64 {
        rows * self.spec.row_bytes() as f64
    }

    /// Time for every device to get or give so many rows.
    fn one_way(&self, rows: f64) -> f64 {
        let rates = &self.options.rates;
        let all = rates.host_memory.bytes_per_s / self.devices.len() as f64;
        self.bytes(rows) / rates.link.bytes_per_s.min(all)
    }

    /// Time for every device to get and give so many rows.
    fn both_ways(&self, rows: f64) -> f64 {
        let rates = &self.options.rates;
        let all = rates.host_memory.bytes_per_s / self.devices.len() as f64 / 2.0;
        self.bytes(rows) / (rates.link.bytes_per_s * DUPLEX_SHARE).min(all)
    }

    fn sort(&self, rows: f64) -> f64 {
        let passes = self.spec.key_bytes() as f64;
        let moved = passes * 2.0 * self.bytes(rows) + rows * self.spec.key_bytes() as f64;
        moved / (self.options.rates.device_memory.bytes_per_s * SORT_SHARE)
    }

    fn merge(&self, rows: f64) -> f64 {
        2.0 * self.bytes(rows) / (self.options.rates.device_memory.bytes_per_s * MERGE_SHARE)
    }

    /// What is left when the last piece of so many rows has arrived: its sort, and merges of 1, 1/2, 1/4, ….
    fn tail(&self, rows: f64) -> f64 {
        self.sort(rows / self.options.piece_count as f64) + 2.0 * self.merge(rows)
    }

    /// Time for so many rows from device to device, of all at once.
    fn peer(&self, rows: f64) -> f64 {
        let [Some(one), Some(other)] = [self.devices.first(), self.devices.last()] else { return 0.0 };
        let between = self.options.topology.as_ref().and_then(|topology| {
            let route = direct_route(topology, Vertex::Device(one.0), Vertex::Device(other.0))?;
            Some(route.bytes_per_s(topology, 64 << 20))
        });
        let rate = between.unwrap_or_else(|| match self.machine.is_peer(*one, *other) {
            true => PEER_BYTES_PER_S,
            false => self.options.rates.link.bytes_per_s * pelton_fabric::STAGING_EFFICIENCY,
        });
        self.bytes(rows) / rate
    }

    fn cpu_merge(&self, rows: f64, runs: f64) -> f64 {
        if runs <= 1.0 {
            return 2.0 * self.bytes(rows) / self.options.rates.host_memory.bytes_per_s;
        }
        let per_row = (1.0 + runs.log2()) / 2.0 / MERGE_ROWS_PER_S;
        let compute = rows * per_row / self.options.thread_count as f64;
        // A write reads what it replaces.
        compute.max(3.0 * self.bytes(rows) / self.options.rates.host_memory.bytes_per_s)
    }

    fn cpu_sort(&self, rows: f64) -> f64 {
        let passes = self.spec.key_bytes() as f64 / 4.0;
        let compute = self.bytes(rows) * passes / SORT_BYTES_PER_S / self.options.thread_count as f64;
        compute.max(4.0 * passes * self.bytes(rows) / self.options.rates.host_memory.bytes_per_s)
    }
}
