//! Waiting for work that other threads do, as Python wants it: without the interpreter's lock, with signals handled,
//! and with something to look at where it takes long.
//!
//! ```text
//!   recv ──20 ms──▶ handle signals ──▶ show progress, from half a second on, five times a second ──▶ recv …
//!     │                  └ KeyboardInterrupt, or whatever a handler raises: the caller drops the work
//!     └ result
//! ```

use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// How often signals are looked at.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(20);
/// Work that is shorter shows no progress.
const QUIET: Duration = Duration::from_millis(500);
/// How often progress is shown.
const SHOW_INTERVAL: Duration = Duration::from_millis(200);

/// Where progress is shown: a Python object with a method `show(text)`, or nothing.
pub(crate) struct Display<'a> {
    target: Option<&'a Bound<'a, PyAny>>,
    text: &'a dyn Fn(Duration) -> Option<String>,
    started: Instant,
    next: Duration,
}

impl<'a> Display<'a> {
    /// Shows what `text` says of the time since now, on `target`.
    pub(crate) fn new(
        target: Option<&'a Bound<'a, PyAny>>,
        text: &'a dyn Fn(Duration) -> Option<String>,
    ) -> Self {
        Self { target, text, started: Instant::now(), next: QUIET }
    }

    /// Shows nothing.
    pub(crate) fn none() -> Self {
        Self::new(None, &|_| None)
    }

    fn update(&mut self) -> PyResult<()> {
        let elapsed = self.started.elapsed();
        let Some(target) = self.target.filter(|_| elapsed >= self.next) else { return Ok(()) };
        self.next = elapsed + SHOW_INTERVAL;
        match (self.text)(elapsed) {
            Some(text) => target.call_method1("show", (text,)).map(drop),
            None => Ok(()),
        }
    }
}

/// The next message of `receiver`.
///
/// # Errors
///
/// What a signal handler raised, above all `KeyboardInterrupt`; `RuntimeError` if the work ended without a message,
/// which only a bug can do.
pub(crate) fn next<T: Send>(
    py: Python<'_>,
    receiver: &Receiver<T>,
    display: &mut Display<'_>,
) -> PyResult<T> {
    loop {
        match py.detach(|| receiver.recv_timeout(SIGNAL_INTERVAL)) {
            Ok(message) => return Ok(message),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err(
                    "Pelton stopped at an assertion; its text is on standard error. This is a bug",
                ));
            }
        }
        py.check_signals()?;
        display.update()?;
    }
}
