//! What crosses the links of a simulated machine: for utilisation, and to check that no link carries too much.

use pelton_fabric::Hop;

use crate::operation::Flow;

/// What one link has carried.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LinkLoad {
    /// Bytes from its end `a` to its end `b`.
    pub forward_bytes: f64,
    /// Bytes from `b` to `a`.
    pub backward_bytes: f64,
    /// The most that ever went forward at once, bytes per second.
    pub peak_forward_bytes_per_s: f64,
    /// The most that ever went backward at once, bytes per second.
    pub peak_backward_bytes_per_s: f64,
    /// The most that ever went both ways at once, bytes per second.
    pub peak_duplex_bytes_per_s: f64,
}

/// Loads of all links.
pub(super) struct LinkUsage {
    loads: Vec<LinkLoad>,
}

impl LinkUsage {
    pub(super) fn new(link_count: usize) -> Self {
        Self { loads: vec![LinkLoad::default(); link_count] }
    }

    pub(super) fn loads(&self) -> &[LinkLoad] {
        &self.loads
    }

    pub(super) fn add(&mut self, hops: &[Hop], bytes: f64) {
        for hop in hops {
            let load = &mut self.loads[hop.link];
            *(if hop.is_forward { &mut load.forward_bytes } else { &mut load.backward_bytes }) += bytes;
        }
    }

    /// The rates have changed to these.
    pub(super) fn note_rates<'a>(&mut self, flows: impl Iterator<Item = &'a Flow>) {
        let mut rates = vec![(0.0_f64, 0.0_f64); self.loads.len()];
        for flow in flows {
            for hop in &flow.hops {
                let (forward, backward) = &mut rates[hop.link];
                *(if hop.is_forward { forward } else { backward }) += flow.rate;
            }
        }
        for (load, (forward, backward)) in self.loads.iter_mut().zip(rates) {
            load.peak_forward_bytes_per_s = load.peak_forward_bytes_per_s.max(forward);
            load.peak_backward_bytes_per_s = load.peak_backward_bytes_per_s.max(backward);
            load.peak_duplex_bytes_per_s = load.peak_duplex_bytes_per_s.max(forward + backward);
        }
    }
}
