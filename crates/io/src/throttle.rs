//! A limit on bytes read per second, for experiments that ask for a storage rate.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A token bucket: reads are let go so that the bytes of any stretch of time stay near the rate.
pub(super) struct Throttle {
    bytes_per_s: u64,
    /// When the bytes let go so far would have been delivered at the rate.
    delivered_at: Mutex<Instant>,
}

/// Reads may run ahead of the rate by this much, so that short sleeps do not lower it.
const BURST: Duration = Duration::from_millis(5);

impl Throttle {
    pub(super) fn new(bytes_per_s: u64) -> Self {
        Self { bytes_per_s: bytes_per_s.max(1), delivered_at: Mutex::new(Instant::now()) }
    }

    /// Sleeps until `bytes` more may be read.
    pub(super) fn wait_blocking(&self, bytes: usize) {
        let cost = Duration::from_secs_f64(bytes as f64 / self.bytes_per_s as f64);
        let ready_at = {
            let mut delivered_at = self.delivered_at.lock().unwrap_or_else(PoisonError::into_inner);
            let start = (*delivered_at).max(Instant::now().checked_sub(BURST).unwrap_or(*delivered_at));
            *delivered_at = start + cost;
            *delivered_at
        };
        std::thread::sleep(ready_at.saturating_duration_since(Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_is_kept_within_its_burst() {
        let throttle = Throttle::new(10_000_000);
        let start = Instant::now();
        for _ in 0..10 {
            throttle.wait_blocking(50_000);
        }
        assert!(start.elapsed() >= Duration::from_millis(50) - BURST);
    }
}
