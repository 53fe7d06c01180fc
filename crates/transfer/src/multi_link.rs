//! Multi-link transfers: host memory to a device over its own host link and, at the same time, those of idle
//! neighbours.
//!
//! ```text
//!   host ──────────────────────► device 0        own link
//!     └──────► device 1 ────────────┘            the neighbour's link, then the peer link
//! ```
//!
//! Chunks are dealt so that all lanes end together, by the rates that they are given, as in "Vortex: Overcoming Memory
//! Capacity Limitations in GPU-Accelerated Large-Scale Data Analytics", 2025. Whether a neighbour's
//! lane pays follows from the topology: it does where it shares no link with those in use already.

use pelton_device::{DeviceId, Machine, Place, Span, Stream};
use pelton_error::{CancelFlag, Error, Result};
use pelton_fabric::{Route, Topology, Vertex, direct_route};

use crate::lane::{Lane, Transfer, carrier, check_lengths, check_peers, chunk_bytes, home};
use crate::options::TransferOptions;

/// A lane that adds less than this share of the own link's rate is not worth its neighbour's memory. A guess.
const WORTH_SHARE: f64 = 0.1;
/// Rates are compared for transfers of this size, bytes: bandwidth decides.
const TYPICAL_BYTES: u64 = 64 << 20;

/// The host link of a neighbour that carries part of a transfer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HelperLink {
    /// The neighbour.
    pub device: DeviceId,
    /// What its lane carries, relative to the other lanes: bytes per second of the slower of its host link and the
    /// peer link.
    pub rate: f64,
}

/// The links that `device` may take bytes from host node `node` over.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Links {
    /// Its own, bytes per second.
    pub own_rate: f64,
    /// Neighbours whose lanes add to it, fastest first.
    pub helpers: Vec<HelperLink>,
}

/// Which neighbours' links are predicted to pay for `device`: each reaches it as a peer, over links that neither the
/// device's own route to the host nor the lanes of helpers before it cross.
///
/// `None` where the topology has no way from `node` to `device`.
pub fn links_for(topology: &Topology, node: u32, device: DeviceId) -> Option<Links> {
    let (from, to) = (Vertex::Node(node), Vertex::Device(device.0));
    let own = direct_route(topology, from, to)?;
    let own_rate = own.bytes_per_s(topology, TYPICAL_BYTES);
    let mut lanes: Vec<(HelperLink, Vec<Route>)> = Vec::new();
    for neighbour in (0..topology.devices.len() as u32).filter(|other| *other != device.0) {
        let (Some(first), Some(second)) = (
            direct_route(topology, from, Vertex::Device(neighbour)),
            direct_route(topology, Vertex::Device(neighbour), to).filter(|route| route.is_peer(topology)),
        ) else {
            continue;
        };
        let rate =
            first.bytes_per_s(topology, TYPICAL_BYTES).min(second.bytes_per_s(topology, TYPICAL_BYTES));
        if rate >= own_rate * WORTH_SHARE {
            lanes.push((HelperLink { device: DeviceId(neighbour), rate }, vec![first, second]));
        }
    }
    lanes.sort_by(|(one, _), (other, _)| other.rate.total_cmp(&one.rate));
    let mut in_use = vec![own];
    let mut helpers = Vec::new();
    for (helper, routes) in lanes {
        let is_apart = |route: &Route| in_use.iter().all(|used| used.shared_links(route).is_empty());
        if routes.iter().all(is_apart) {
            in_use.extend(routes);
            helpers.push(helper);
        }
    }
    Some(Links { own_rate, helpers })
}

/// Copies `source` in host memory to `target` on a device, over the device's own link at `own_rate` and at the same
/// time over the links of `helpers`.
///
/// # Errors
///
/// As [`relay`](crate::relay), for every lane; `InvalidInput` for rates that are not positive.
pub fn copy_multi_link(
    machine: &Machine,
    source: &Span,
    target: &Span,
    own_rate: f64,
    helpers: &[HelperLink],
    options: &TransferOptions,
) -> Result<Transfer> {
    let (from, to) = (home(source)?, home(target)?);
    check_peers(machine, &[from, to])?;
    // What is smaller than a chunk takes no more of helpers' memory than its own length.
    let options = TransferOptions { chunk_bytes: chunk_bytes(source, options), ..options.clone() };
    let mut copier = MultiLinkCopier::between(machine, from, to, (own_rate, helpers), &options)?;
    let own = machine.stream(carrier(from, to))?;
    copier.copy(&own, source, target)?;
    copier.into_transfer(own)
}

/// Copies from one host node to one device, one after another, over the device's own link and those of helpers.
/// Staging buffers at the helpers are taken once.
pub struct MultiLinkCopier {
    /// Of helpers.
    lanes: Vec<Lane>,
    /// The own link's first.
    rates: Vec<f64>,
    /// When each lane would have carried what it was dealt, seconds; the own one first.
    busy_until: Vec<f64>,
    chunk_bytes: usize,
    cancel: CancelFlag,
    /// Bytes that came over helpers' links.
    helper_link_bytes: u64,
}

impl MultiLinkCopier {
    /// Takes the helpers' staging buffers: `options.depth` of `options.chunk_bytes` each.
    ///
    /// # Errors
    ///
    /// `Unsupported` for a helper that is no peer, `OutOfMemory` if its buffers do not fit, `InvalidInput` for rates
    /// that are not positive.
    pub fn open(
        machine: &Machine,
        from: Place,
        device: DeviceId,
        links: &Links,
        options: &TransferOptions,
    ) -> Result<Self> {
        Self::between(machine, from, Place::Device(device), (links.own_rate, &links.helpers), options)
    }

    fn between(
        machine: &Machine,
        from: Place,
        to: Place,
        (own_rate, helpers): (f64, &[HelperLink]),
        options: &TransferOptions,
    ) -> Result<Self> {
        options.check()?;
        check_rate(own_rate)?;
        let mut lanes = Vec::with_capacity(helpers.len());
        for helper in helpers {
            check_rate(helper.rate)?;
            check_is_other(helper, to)?;
            let route = [from, Place::Device(helper.device), to];
            check_peers(machine, &route)?;
            lanes.push(Lane::new(machine, &route, options.chunk_bytes, options)?);
        }
        let rates: Vec<f64> =
            [own_rate].into_iter().chain(helpers.iter().map(|helper| helper.rate)).collect();
        let busy_until = vec![0.0; rates.len()];
        let (chunk_bytes, cancel) = (options.chunk_bytes, options.cancel.clone());
        Ok(Self { lanes, rates, busy_until, chunk_bytes, cancel, helper_link_bytes: 0 })
    }

    /// Enqueues the copy of `source`, in memory of the host node, to `target` on the device: the own link's share on
    /// `own`. `target` must be free already. Call [`join`](Self::join) before `own` goes on to what reads the bytes.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if the lengths differ; `Cancelled`; what the devices report.
    pub fn copy(&mut self, own: &Stream, source: &Span, target: &Span) -> Result<()> {
        check_lengths(source, target)?;
        for (source, target) in source.chunks(self.chunk_bytes).zip(target.chunks(self.chunk_bytes)) {
            self.cancel.check()?;
            match deal(&mut self.busy_until, &self.rates, source.len()) {
                0 => own.copy(&source, &target)?,
                lane => {
                    self.lanes[lane - 1].enqueue(&source, &target)?;
                    self.helper_link_bytes += source.len() as u64;
                }
            }
        }
        Ok(())
    }

    /// Lets `own` wait for what was enqueued on helpers' lanes so far.
    ///
    /// # Errors
    ///
    /// What the devices report.
    pub fn join(&mut self, own: &Stream) -> Result<()> {
        for lane in &self.lanes {
            lane.ends()?.iter().try_for_each(|end| own.wait_for(end))?;
        }
        // Only differences matter, and sums that grow for ever lose them.
        let least = self.busy_until.iter().copied().fold(f64::INFINITY, f64::min);
        self.busy_until.iter_mut().for_each(|until| *until -= least);
        Ok(())
    }

    /// All that was enqueued, on `own` and on helpers' lanes, as one transfer.
    fn into_transfer(self, own: Stream) -> Result<Transfer> {
        let mut ends = vec![own.record()?];
        for lane in &self.lanes {
            ends.extend(lane.ends()?);
        }
        let streams = [own].into_iter().chain(self.lanes.into_iter().flat_map(Lane::into_streams));
        Ok(Transfer { _streams: streams.collect(), ends })
    }

    /// Bytes that came over helpers' links.
    pub fn helper_link_bytes(&self) -> u64 {
        self.helper_link_bytes
    }
}

fn check_rate(rate: f64) -> Result<()> {
    match rate.is_finite() && rate > 0.0 {
        true => Ok(()),
        false => Err(Error::invalid_input(format!("a lane of {rate} bytes per second; rates are positive"))),
    }
}

fn check_is_other(helper: &HelperLink, target: Place) -> Result<()> {
    match Place::Device(helper.device) == target {
        true => Err(Error::invalid_input(format!("{} as its own helper link", helper.device))),
        false => Ok(()),
    }
}

/// The lane that would have carried `bytes` first; the lowest of equals.
fn deal(busy_until: &mut [f64], rates: &[f64], bytes: usize) -> usize {
    let ends = busy_until.iter().zip(rates).map(|(busy, rate)| busy + bytes as f64 / rate);
    let (lane, end) = ends
        .enumerate()
        .min_by(|(_, a), (_, b)| a.total_cmp(b))
        .expect("a transfer has at least its own lane");
    busy_until[lane] = end;
    lane
}

#[cfg(test)]
mod tests {
    use super::*;
    use pelton_fabric::preset;

    #[test]
    fn chunks_are_dealt_in_proportion_to_the_rates() {
        let mut busy = vec![0.0; 2];
        let lanes: Vec<usize> = (0..9).map(|_| deal(&mut busy, &[2.0, 1.0], 10)).collect();
        assert_eq!(lanes.iter().filter(|lane| **lane == 1).count(), 3);
    }

    fn helpers_of(name: &str, device: u32) -> Vec<u32> {
        let topology = preset(name).unwrap();
        let links = links_for(&topology, 0, DeviceId(device)).unwrap();
        links.helpers.iter().map(|helper| helper.device.0).collect()
    }

    #[test]
    fn a_neighbour_helps_where_it_shares_no_link() {
        assert_eq!(helpers_of("h200-x2", 0), [1]);
        assert_eq!(helpers_of("ac922", 0), [1], "the other two are no peers");
        let of_dgx = helpers_of("dgx-a100", 0);
        assert!(!of_dgx.contains(&1), "GPUs 0 and 1 share a switch's uplink: {of_dgx:?}");
        assert!(of_dgx.contains(&2), "{of_dgx:?}");
    }

    #[test]
    fn there_are_no_links_for_a_device_that_the_machine_lacks() {
        assert_eq!(links_for(&preset("h200-x2").unwrap(), 0, DeviceId(2)), None);
    }
}
