//! Work that gives way to queries.

use pelton_device::priority::Priority;

/// Added to the niceness of a thread in the background: where all cores are busy it gets about a tenth of what another
/// thread gets.
const NICENESS: i32 = 10;

/// How far work gives way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// It runs where cores would be idle: nobody has asked for what it finds out.
    Idle,
    /// It gets a tenth of what others get: somebody has asked.
    Nice,
}

/// Runs `work` on a thread that gives way to others, as do the threads that it starts, and waits for it. So nothing that
/// lives longer than the work may start threads in it.
pub(super) fn give_way<T: Send>(way: Way, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            let own = Priority::of_this_thread();
            match way {
                Way::Idle => own.idle().take(),
                Way::Nice => own.nicer_by(NICENESS).take(),
            }
            work()
        });
        // A panic of the work is a bug, and stays one.
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    /// How the kernel schedules the calling thread: the policy's number, and its niceness.
    fn scheduled() -> (u32, i32) {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        // Behind the name, which may have spaces: fields 3 and up; 19 is the niceness, 41 the policy.
        let fields: Vec<&str> = stat[stat.rfind(')').unwrap() + 2..].split(' ').collect();
        (fields[41 - 3].parse().unwrap(), fields[19 - 3].parse().unwrap())
    }

    const IDLE: u32 = 5;

    #[test]
    fn work_and_the_threads_it_starts_give_way_and_the_caller_does_not() {
        let before = scheduled();
        let both = || (scheduled(), std::thread::spawn(scheduled).join().unwrap());
        let nice = (before.0, (before.1 + NICENESS).min(19));
        assert_eq!(give_way(Way::Nice, both), (nice, nice));
        let ((own, _), (started, _)) = give_way(Way::Idle, both);
        assert_eq!((own, started), (IDLE, IDLE));
        assert_eq!(scheduled(), before);
    }

    #[test]
    fn a_panic_comes_out_again() {
        let caught = std::panic::catch_unwind(|| give_way(Way::Idle, || panic!("of the work")));
        assert!(caught.is_err());
    }
}
