//! Asking work to stop, and holding back work that nobody waits for.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::{Error, Result};

/// Holds back work in the background while somebody waits for other work.
pub trait Pace: fmt::Debug + Send + Sync {
    /// Waits until so many bytes more may be brought to or from memory, or until `is_cancelled`.
    fn wait_for(&self, bytes: u64, is_cancelled: &dyn Fn() -> bool);

    /// What the work may save once it is done: of several that wait for the same, the one that saves most goes first.
    fn saves(&self) -> Duration {
        Duration::ZERO
    }

    /// Of pieces of work of which `most` could be done at once, how many are to be right now.
    fn at_once(&self, most: usize) -> usize {
        most
    }
}

/// Asks work to stop; clones share one flag. Safe to set from a signal handler.
///
/// It goes wherever the work does. So it also says how fast work in the background may bring bytes.
#[derive(Debug, Clone, Default)]
pub struct CancelFlag {
    flag: Arc<AtomicBool>,
    /// The flag of what this work is a part of.
    whole: Option<Arc<CancelFlag>>,
    /// Of work in the background.
    pace: Option<Arc<dyn Pace>>,
}

impl CancelFlag {
    /// A flag that is not set.
    pub fn new() -> Self {
        Self::default()
    }

    /// The flag itself, for `signal_hook::flag::register`.
    pub fn as_atomic(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.flag)
    }

    /// A flag for a part of the work: setting it stops the part alone, setting this one stops both.
    pub fn of_part(&self) -> Self {
        Self { flag: Arc::default(), whole: Some(Arc::new(self.clone())), pace: self.pace.clone() }
    }

    /// This flag, for work in the background that keeps to `pace`.
    pub fn at_pace(self, pace: Arc<dyn Pace>) -> Self {
        Self { pace: Some(pace), ..self }
    }

    /// Whether nobody waits for the work.
    pub fn is_in_background(&self) -> bool {
        self.pace.is_some()
    }

    /// What work in the background may save once it is done; nothing for other work.
    pub fn saves(&self) -> Duration {
        self.pace.as_ref().map_or(Duration::ZERO, |pace| pace.saves())
    }

    /// Of pieces of work of which `most` could be done at once, how many are to be right now: fewer where they are in the
    /// background, and somebody waits for other work.
    pub fn at_once(&self, most: usize) -> usize {
        self.pace.as_ref().map_or(most, |pace| pace.at_once(most))
    }

    /// Asked before so many bytes are brought to or from memory: passes at once for work that somebody waits for.
    ///
    /// # Errors
    ///
    /// `Cancelled`.
    pub fn before_bringing(&self, bytes: u64) -> Result<()> {
        if let Some(pace) = &self.pace {
            pace.wait_for(bytes, &|| self.is_cancelled());
        }
        self.check()
    }

    /// Asks for the stop.
    pub fn cancel(&self) {
        self.flag.store(true, Ordering::Relaxed);
    }

    /// True once the stop was asked for.
    pub fn is_cancelled(&self) -> bool {
        self.flag.load(Ordering::Relaxed) || self.whole.as_ref().is_some_and(|whole| whole.is_cancelled())
    }

    /// Passes until the stop was asked for.
    ///
    /// # Errors
    ///
    /// `Cancelled`.
    pub fn check(&self) -> Result<()> {
        if self.is_cancelled() { Err(Error::cancelled()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default)]
    struct Asked(std::sync::Mutex<Vec<u64>>);

    impl Pace for Asked {
        fn wait_for(&self, bytes: u64, _is_cancelled: &dyn Fn() -> bool) {
            self.0.lock().unwrap().push(bytes);
        }
    }

    #[test]
    fn work_in_the_background_and_its_parts_ask_before_they_bring_bytes() {
        let asked = Arc::new(Asked::default());
        let flag = CancelFlag::new().at_pace(Arc::clone(&asked) as Arc<dyn Pace>);
        let part = flag.of_part();
        assert!(flag.is_in_background() && part.is_in_background());
        flag.before_bringing(3).unwrap();
        part.before_bringing(4).unwrap();
        assert_eq!(*asked.0.lock().unwrap(), [3, 4]);
        flag.cancel();
        assert!(part.before_bringing(5).is_err());
        assert!(!CancelFlag::new().is_in_background());
    }

    #[test]
    fn a_part_stops_alone_and_with_the_whole() {
        let whole = CancelFlag::new();
        let (part, other) = (whole.of_part(), whole.clone().of_part());
        part.cancel();
        assert!(part.is_cancelled() && !whole.is_cancelled() && !other.is_cancelled());
        whole.cancel();
        assert!(other.is_cancelled() && other.of_part().check().is_err());
    }
}
