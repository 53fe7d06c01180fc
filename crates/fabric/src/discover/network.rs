//! Network cards: interfaces with a device behind them, and RDMA devices without an interface.

use crate::Nic;

use super::pci::{self, Endpoint};
use super::tree::Tree;

/// A network card and where it hangs.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) nic: Nic,
    pub(crate) endpoint: Option<Endpoint>,
    pub(crate) limit_bytes_per_s: Option<f64>,
}

/// Finds them, by name; RDMA devices without an interface last.
pub(crate) fn find(tree: &Tree) -> Vec<Found> {
    let rdma: Vec<Rdma> =
        tree.names("sys/class/infiniband").into_iter().map(|name| read_rdma(tree, name)).collect();
    let mut found: Vec<Found> = tree
        .names("sys/class/net")
        .into_iter()
        .filter(|name| tree.exists(format!("sys/class/net/{name}/device")))
        // A virtual function of a card that is listed itself.
        .filter(|name| !tree.exists(format!("sys/class/net/{name}/device/physfn")))
        .map(|name| read(tree, name, &rdma))
        .collect();
    let lone = |rdma: &Rdma| !found.iter().any(|card| is_same(&card.endpoint, &rdma.endpoint));
    let lone: Vec<Found> = rdma.iter().filter(|rdma| lone(rdma)).map(Rdma::as_nic).collect();
    found.extend(lone);
    found
}

struct Rdma {
    name: String,
    endpoint: Option<Endpoint>,
    bytes_per_s: Option<f64>,
}

impl Rdma {
    fn as_nic(&self) -> Found {
        Found {
            nic: Nic { name: self.name.clone(), has_rdma: true },
            endpoint: self.endpoint.clone(),
            limit_bytes_per_s: self.bytes_per_s,
        }
    }
}

fn read_rdma(tree: &Tree, name: String) -> Rdma {
    let endpoint = pci::under(tree, format!("sys/class/infiniband/{name}/device"));
    // Reads `100 Gb/sec (4X EDR)`.
    let rate = tree.text(format!("sys/class/infiniband/{name}/ports/1/rate"));
    let gigabits = rate.and_then(|rate| rate.split_whitespace().next()?.parse::<f64>().ok());
    Rdma { name, endpoint, bytes_per_s: gigabits.filter(|&rate| rate > 0.0).map(|rate| rate * 1e9 / 8.0) }
}

fn read(tree: &Tree, name: String, rdma: &[Rdma]) -> Found {
    let endpoint = pci::under(tree, format!("sys/class/net/{name}/device"));
    let rdma = rdma.iter().find(|rdma| is_same(&rdma.endpoint, &endpoint));
    // In megabits; -1, or unreadable, while the link is down and for virtual cards.
    let megabits = tree.number::<i64>(format!("sys/class/net/{name}/speed")).filter(|&speed| speed > 0);
    let bytes_per_s = megabits.map(|speed| speed as f64 * 1e6 / 8.0);
    Found {
        nic: Nic { name, has_rdma: rdma.is_some() },
        endpoint,
        limit_bytes_per_s: bytes_per_s.or(rdma.and_then(|rdma| rdma.bytes_per_s)),
    }
}

fn is_same(a: &Option<Endpoint>, b: &Option<Endpoint>) -> bool {
    matches!((a, b), (Some(a), Some(b)) if a.address == b.address)
}
