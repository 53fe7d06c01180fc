//! Asking work to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{Error, Result};

/// Asks work to stop; clones share one flag. Safe to set from a signal handler.
#[derive(Debug, Clone, Default)]
pub struct CancelFlag {
    flag: Arc<AtomicBool>,
    /// The flag of what this work is a part of.
    whole: Option<Arc<CancelFlag>>,
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
        Self { flag: Arc::default(), whole: Some(Arc::new(self.clone())) }
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
