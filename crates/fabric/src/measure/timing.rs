//! Times of operations on a machine, in its own time.

use std::time::Duration;

use pelton_device::Machine;
use pelton_error::Result;

/// The best of `repetitions` runs of `once` after one to warm up; `once` waits for what it began. What disturbs a
/// measurement of a link only ever adds time, so the best run is the link's.
pub(crate) fn best(
    machine: &Machine,
    repetitions: u32,
    mut once: impl FnMut() -> Result<()>,
) -> Result<Duration> {
    once()?;
    let mut best = Duration::MAX;
    for _ in 0..repetitions.max(1) {
        let start = machine.now();
        once()?;
        best = best.min(machine.now().saturating_sub(start));
    }
    Ok(best)
}

/// `amount` per second; infinite time or none gives 0.
pub(crate) fn per_second(amount: f64, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { amount / time.as_secs_f64() }
}
