//! Threads: whether the system starts as many as a pool needs.
//!
//! Pools of libraries panic, or wait for ever, where a thread cannot be started, so it is tried before: so many threads that do
//! nothing are alive at once, for as long as it takes to start them. About 20 µs each; a guess.

use std::sync::{Mutex, PoisonError};
use std::thread::Builder;

use pelton_error::{Error, ErrorKind, Result};

/// The stack of a thread that is only tried. Systems round it up to what they need.
const TRIED_STACK_BYTES: usize = 64 << 10;
/// Threads beside those of a pool: they read files, draw, and wait for signals.
const OTHERS: usize = 4;

/// That a pool of `threads` threads (`None`: one a core) can be started.
///
/// # Errors
///
/// `Io` names the limit and the remedy.
pub fn check_threads(threads: Option<usize>) -> Result<()> {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let wanted = threads.unwrap_or_else(cores);
    try_threads(wanted + OTHERS, |work| work())
}

/// That `count` threads can be alive at once; `start_by` starts one by what it is given, or fails in its place.
fn try_threads(
    count: usize,
    start_by: impl Fn(&dyn Fn() -> std::io::Result<()>) -> std::io::Result<()>,
) -> Result<()> {
    let gate = &Mutex::new(());
    let held = gate.lock().unwrap_or_else(PoisonError::into_inner);
    std::thread::scope(|scope| {
        let start = || {
            let thread = Builder::new().stack_size(TRIED_STACK_BYTES);
            thread.spawn_scoped(scope, move || drop(gate.lock())).map(|_| ())
        };
        let started = (0..count).find_map(|number| start_by(&start).err().map(|error| (number, error)));
        drop(held);
        match started {
            Some((number, error)) => Err(refused(number, count, error)),
            None => Ok(()),
        }
    })
}

/// The error where thread `started` of `count` was refused.
fn refused(started: usize, count: usize, source: std::io::Error) -> Error {
    Error::new(
        ErrorKind::Io,
        format!(
            "the system starts {started} of {count} threads: a limit on processes and threads is reached (ulimit -u, or \
             pids.max of the container); raise it, or use fewer threads (--threads 1)"
        ),
    )
    .with_source(source)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn threads_that_can_be_started_are() {
        check_threads(Some(3)).unwrap();
        check_threads(None).unwrap();
    }

    #[test]
    fn a_refused_thread_names_the_limit_and_the_remedy() {
        let left = Cell::new(2);
        let third_fails = |start: &dyn Fn() -> std::io::Result<()>| match left.replace(left.get() - 1) {
            0 => Err(std::io::ErrorKind::WouldBlock.into()),
            _ => start(),
        };
        let message = try_threads(5, third_fails).unwrap_err().to_string();
        assert!(message.starts_with("the system starts 2 of 5 threads"), "{message}");
        assert!(message.contains("ulimit -u") && message.contains("--threads 1"), "{message}");
    }
}
