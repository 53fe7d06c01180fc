//! Ctrl-C: the first asks the work to stop and clean up, the second ends the process at once.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use pelton_error::{Error, Result, ResultExt};
use pelton_load::CancelFlag;
use signal_hook::consts::{SIGINT, SIGTERM};

/// Exit status of a process that Ctrl-C ended.
const INTERRUPTED: i32 = 130;
/// How often the flag is looked at while work goes on.
const FLAG_INTERVAL: Duration = Duration::from_millis(20);

/// A flag that Ctrl-C (or a termination request) sets.
pub(crate) fn flag_on_ctrl_c() -> Result<CancelFlag> {
    let cancel = CancelFlag::new();
    let flag = cancel.as_atomic();
    for signal in [SIGINT, SIGTERM] {
        // Registered in this order, a second signal finds the flag set and exits.
        signal_hook::flag::register_conditional_shutdown(signal, INTERRUPTED, Arc::clone(&flag))
            .context(|| "installing the Ctrl-C handler".into())?;
        signal_hook::flag::register(signal, Arc::clone(&flag))
            .context(|| "installing the Ctrl-C handler".into())?;
    }
    Ok(cancel)
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
