//! Ctrl-C: the first asks the work to stop and clean up, the second ends the process at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use pelton_error::{Error, Result, ResultExt};
use pelton_load::CancelFlag;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Exit status of a process that a signal ended, less the signal.
pub(crate) const BY_SIGNAL: i32 = 128;
/// Of one that Ctrl-C ended.
const INTERRUPTED: i32 = BY_SIGNAL + SIGINT;
/// The signal that work is cancelled by.
static SIGNAL: AtomicI32 = AtomicI32::new(SIGINT);
/// How often the flag is looked at while work goes on.
const FLAG_INTERVAL: Duration = Duration::from_millis(20);

/// Notes that `signal` is what cancels the work.
pub(crate) fn ended_by(signal: i32) {
    SIGNAL.store(signal, Ordering::SeqCst);
}

/// The exit status of cancelled work.
pub(crate) fn exit_status() -> u8 {
    u8::try_from(BY_SIGNAL + SIGNAL.load(Ordering::SeqCst)).unwrap_or(u8::MAX)
}

/// A flag that Ctrl-C, a termination request or the end of the terminal sets.
pub(crate) fn flag_on_ctrl_c() -> Result<CancelFlag> {
    let cancel = CancelFlag::new();
    let flag = cancel.as_atomic();
    let hangup = (!ignores_hangup()).then_some(SIGHUP);
    for signal in [SIGINT, SIGTERM].into_iter().chain(hangup) {
        // Registered in this order, a second signal finds the flag set and exits.
        signal_hook::flag::register_conditional_shutdown(signal, INTERRUPTED, Arc::clone(&flag))
            .context(|| "installing the Ctrl-C handler".into())?;
        signal_hook::flag::register(signal, Arc::clone(&flag))
            .context(|| "installing the Ctrl-C handler".into())?;
    }
    Ok(cancel)
}

/// True where whoever started this process has it outlive its terminal, as `nohup` does.
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask & 1 << (SIGHUP - 1) != 0)
}

/// The result of work that other threads do, or the cancellation, whichever comes first. This thread wakes by
/// itself: all others may be deep in a join.
pub(crate) fn wait_blocking<T>(receiver: &Receiver<Result<T>>, flag: &CancelFlag) -> Result<T> {
    loop {
        match receiver.recv_timeout(FLAG_INTERVAL) {
            Ok(result) => return result,
            Err(RecvTimeoutError::Timeout) if flag.is_cancelled() => return Err(Error::cancelled()),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => panic!("the work ended without a result"),
        }
    }
}
