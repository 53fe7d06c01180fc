//! Where trips begin and end: 265 zones of very unequal popularity.
//!
//! The busiest 55 zones, listed by rank, take 95 % of the trips with weights `1 / (rank + 20)`; the other 210
//! share the rest with weights `1 / rank`, as a city does beyond its centre.

use crate::random::{Random, Weighted};

/// The airports, whose trips are long and have rates of their own.
pub(super) const JFK: i64 = 132;
pub(super) const LA_GUARDIA: i64 = 138;
pub(super) const NEWARK: i64 = 1;

const ZONE_COUNT: u32 = 265;

/// By falling popularity. 264 stands for an unknown zone.
const BUSY: [u32; 55] = [
    237, 236, 161, 132, 162, 186, 170, 142, 48, 239, 230, 234, 141, 138, 163, 107, 68, 79, 238, 140, 263,
    164, 249, 246, 229, 43, 90, 113, 114, 231, 100, 262, 233, 50, 75, 264, 151, 137, 143, 158, 87, 144, 166,
    148, 13, 88, 211, 125, 224, 74, 45, 209, 261, 24, 41,
];
const BUSY_SHARE: f64 = 0.95;

pub(super) struct Zones {
    ids: Vec<u32>,
    popularity: Weighted,
}

impl Zones {
    pub(super) fn new() -> Self {
        let quiet: Vec<u32> = (1..=ZONE_COUNT).filter(|zone| !BUSY.contains(zone)).collect();
        let busy_weights = shares(BUSY_SHARE, (0..BUSY.len()).map(|rank| 1.0 / (rank + 20) as f64));
        let quiet_weights = shares(1.0 - BUSY_SHARE, (0..quiet.len()).map(|rank| 1.0 / (rank + 1) as f64));
        Self {
            ids: [&BUSY[..], &quiet].concat(),
            popularity: Weighted::new(&[busy_weights, quiet_weights].concat()),
        }
    }

    #[inline]
    pub(super) fn draw(&self, random: &mut Random) -> i64 {
        self.ids[self.popularity.draw(random) as usize].into()
    }
}

/// The weights scaled to the sum `total`.
fn shares(total: f64, weights: impl Iterator<Item = f64> + Clone) -> Vec<f64> {
    let sum: f64 = weights.clone().sum();
    weights.map(|weight| weight * total / sum).collect()
}
