//! Times of operations on a machine, in its own time.

use std::time::Duration;

use pelton_device::Machine;
use pelton_error::Result;

/// Times of `repetitions` runs of `once` after one to warm up; `once` waits for what it began.
pub(crate) fn runs(
    machine: &Machine,
    repetitions: u32,
    mut once: impl FnMut() -> Result<()>,
) -> Result<Vec<Duration>> {
    once()?;
    (0..repetitions.max(1))
        .map(|_| {
            let start = machine.now();
            once()?;
            Ok(machine.now().saturating_sub(start))
        })
        .collect()
}

/// The best of [`runs`]: what disturbs a measurement of a link only ever adds time.
pub(crate) fn best(
    machine: &Machine,
    repetitions: u32,
    once: impl FnMut() -> Result<()>,
) -> Result<Duration> {
    runs(machine, repetitions, once).map(|times| least(&times))
}

/// The shortest.
pub(crate) fn least(times: &[Duration]) -> Duration {
    times.iter().min().copied().unwrap_or_default()
}

/// `amount` per second; infinite time or none gives 0.
pub(crate) fn per_second(amount: f64, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { amount / time.as_secs_f64() }
}
