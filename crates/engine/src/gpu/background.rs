//! Work that gives way to queries.

/// Added to the niceness of a thread in the background: where all cores are busy it gets about a tenth of what another
/// thread gets.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 10;

/// Runs `work` on a thread that gives way to others, as do the threads that it starts, and waits for it.
pub(crate) fn give_way<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            lower_priority();
            work()
        });
        // A panic of the work is a bug, and stays one.
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Of this thread, for good: a process may not raise it again.
#[cfg(target_os = "linux")]
fn lower_priority() {
    // On Linux niceness is a thread's own. What it cannot be set for only runs at the priority of all.
    let _ = rustix::process::nice(NICENESS);
}

#[cfg(not(target_os = "linux"))]
fn lower_priority() {}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    #[test]
    fn work_and_the_threads_it_starts_give_way_and_the_caller_does_not() {
        let niceness = || rustix::process::getpriority_process(None).unwrap();
        let before = niceness();
        let (own, started) = give_way(|| (niceness(), std::thread::spawn(niceness).join().unwrap()));
        assert_eq!((own, started), ((before + NICENESS).min(19), (before + NICENESS).min(19)));
        assert_eq!(niceness(), before);
    }

    #[test]
    fn a_panic_comes_out_again() {
        let caught = std::panic::catch_unwind(|| give_way(|| panic!("of the work")));
        assert!(caught.is_err());
    }
}
