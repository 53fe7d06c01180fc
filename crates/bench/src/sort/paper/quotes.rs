//! Numbers of the paper's text that several experiments need.

/// Seconds that PARADIS takes for a number of keys, from the paper's text: what it says of it are speed-ups over it.
pub(super) struct Paradis {
    pub(super) million_keys: u64,
    pub(super) seconds: f64,
}

/// Of two billion keys: "up to" so many times what the fastest P2P sort takes (sections 6.1.1 to 6.1.3).
pub(super) fn paradis(machine: &str) -> Paradis {
    let seconds = match machine {
        "ac922" => 14.0 * 0.24,
        // Two GPUs take three times what those of the AC922 take, and 1.86 / 2.1 of that is what four take.
        "delta" => 9.0 * 3.0 * 0.24 * 1.86 / 2.1,
        _ => 7.8 * 0.24,
    };
    Paradis { million_keys: 2000, seconds }
}

/// Of large data, where the text gives HET's time as well (section 6.2): of the DGX A100 2.6 times 2 x 5 s, of the AC922
/// 2.3 to 2.5 times 13 s.
pub(super) fn paradis_large(machine: &str) -> Option<Paradis> {
    match machine {
        "ac922" => Some(Paradis { million_keys: 32_000, seconds: 2.4 * 13.0 }),
        "dgx-a100" => Some(Paradis { million_keys: 60_000, seconds: 2.6 * 10.0 }),
        _ => None,
    }
}
