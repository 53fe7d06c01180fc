//! Threads that run when no other wants the core.
//!
//! Niceness alone leaves a thread a share of a core that is wanted, about a tenth at 10. Under Linux's policy for idle
//! work it gets 0.3 of a hundred, and whoever wakes up takes the core from it at once.

#![allow(unsafe_code)]

/// Lets the calling thread, and those that it starts from now on, run only where cores would be idle. For good: a process
/// without privileges may not take it back. False where the system has no such policy or refuses it.
#[cfg(target_os = "linux")]
pub fn run_when_idle() -> bool {
    let least = libc::sched_param { sched_priority: 0 };
    // SAFETY: 0 is the calling thread; the parameter is read during the call alone.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const least) == 0 }
}

/// Lets the calling thread run only where cores would be idle: not known how, here.
#[cfg(not(target_os = "linux"))]
pub fn run_when_idle() -> bool {
    false
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    /// Of the calling thread, as the kernel numbers policies.
    fn policy() -> i32 {
        // SAFETY: 0 is the calling thread, and nothing is written.
        unsafe { libc::sched_getscheduler(0) }
    }

    #[test]
    fn a_thread_and_those_it_starts_are_idle_and_others_are_not() {
        let before = policy();
        let of_idle = std::thread::spawn(|| {
            assert!(run_when_idle());
            (policy(), std::thread::spawn(policy).join().unwrap())
        });
        assert_eq!(of_idle.join().unwrap(), (libc::SCHED_IDLE, libc::SCHED_IDLE));
        assert_eq!(policy(), before);
    }
}
