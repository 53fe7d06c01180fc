//! Priorities of threads: work keeps that of who gave it, whoever carries it out.
//!
//! ```text
//!   a trial's thread, idle ──▶ a stream's queue, as all ──▶ workers of its kernel, idle
//! ```
//!
//! A thread begins with the priority of the one that started it, and cannot raise its own again. So threads that are kept
//! are started by one that never lowered its.
//!
//! Niceness leaves a thread a share of a core that is wanted, about a tenth at 10. Under Linux's policy for idle work it gets
//! 0.3 of a hundred, and whoever wakes up takes the core from it at once.

#![allow(unsafe_code)]

use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::thread::{Builder, JoinHandle};

/// How far a thread gives way to others. Of two the greater one gives way more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Priority {
    /// It runs only where cores would be idle.
    is_idle: bool,
    niceness: i32,
}

impl Priority {
    /// That of the calling thread. Where threads have none of their own, all are the same.
    pub fn of_this_thread() -> Self {
        #[cfg(target_os = "linux")]
        let priority = Self {
            // SAFETY: 0 is the calling thread, and nothing is written.
            is_idle: unsafe { libc::sched_getscheduler(0) } == libc::SCHED_IDLE,
            niceness: rustix::process::getpriority_process(None).unwrap_or(0),
        };
        #[cfg(not(target_os = "linux"))]
        let priority = Self::default();
        priority
    }

    /// A share of cores that others want, less than they get.
    pub fn nicer_by(self, niceness: i32) -> Self {
        Self { niceness: (self.niceness + niceness).min(19), ..self }
    }

    /// Only what cores are idle.
    pub fn idle(self) -> Self {
        Self { is_idle: true, ..self }
    }

    /// Gives it to the calling thread, and to those that it starts from now on, for good: a process without privileges may
    /// not take it back. What the system refuses or does not know runs as before.
    pub fn take(self) {
        #[cfg(target_os = "linux")]
        {
            let _ = rustix::process::setpriority_process(None, self.niceness);
            let least = libc::sched_param { sched_priority: 0 };
            // SAFETY: 0 is the calling thread; the parameter is read during the call alone.
            if self.is_idle && unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const least) } != 0
            {
                let _ = rustix::process::setpriority_process(None, 19);
            }
        }
    }
}

type Start = Box<dyn FnOnce() + Send>;

/// Lets threads be started at the priority that the calling one has, for as long as the process runs; the first call
/// counts.
pub(crate) fn start_here() {
    starter();
}

struct Starter {
    priority: Priority,
    starts: Sender<Start>,
}

/// `None` where the system starts no thread.
fn starter() -> Option<&'static Starter> {
    static STARTER: OnceLock<Option<Starter>> = OnceLock::new();
    let begin = || {
        let (starts, receiver) = channel::<Start>();
        let serve = move || receiver.into_iter().for_each(|start| start());
        let thread = Builder::new().name("pelton-starter".to_owned()).spawn(serve);
        thread.is_ok().then(|| Starter { priority: Priority::of_this_thread(), starts })
    };
    STARTER.get_or_init(begin).as_ref()
}

/// Starts a thread that gives way to nobody, though the calling one may.
///
/// # Errors
///
/// Of the system.
pub fn start(name: String, work: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    let builder = Builder::new().name(name);
    let Some(starter) = starter().filter(|starter| starter.priority < Priority::of_this_thread()) else {
        return builder.spawn(work);
    };
    let (answer, started) = channel();
    let begin = move || {
        let _ = answer.send(builder.spawn(work));
    };
    starter.starts.send(Box::new(begin)).expect("it serves as long as the process runs");
    started.recv().expect("it answers")
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    /// Of a thread that took `priority`, of one that it started, and of one that is kept.
    fn of_three(priority: Priority) -> [Priority; 3] {
        let taken = std::thread::spawn(move || {
            priority.take();
            let (answer, of_kept) = channel();
            let tell = move || answer.send(Priority::of_this_thread()).unwrap();
            start("kept".to_owned(), tell).unwrap().join().unwrap();
            let of_started = std::thread::spawn(Priority::of_this_thread).join().unwrap();
            [Priority::of_this_thread(), of_started, of_kept.recv().unwrap()]
        });
        taken.join().unwrap()
    }

    #[test]
    fn threads_that_are_kept_are_started_at_the_priority_of_all_by_those_that_give_way() {
        start_here();
        let own = Priority::of_this_thread();
        for lower in [own.nicer_by(7), own.idle()] {
            assert!(own < lower);
            assert_eq!(of_three(lower), [lower, lower, own]);
        }
        assert_eq!(of_three(own), [own; 3]);
        assert_eq!(Priority::of_this_thread(), own);
    }
}
