//! Ctrl-C: the first asks the work to stop and clean up, the second ends the process at once.

use std::sync::Arc;

use pelton_error::{Error, Result, ResultExt};
use pelton_load::CancelFlag;
use signal_hook::consts::{SIGINT, SIGTERM};

/// Exit status of a process that Ctrl-C ended.
const INTERRUPTED: i32 = 130;

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

/// Completes when `flag` is set.
pub(crate) async fn cancelled(flag: CancelFlag) -> Error {
    while !flag.is_cancelled() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    Error::cancelled()
}
