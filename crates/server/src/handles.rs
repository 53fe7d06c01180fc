//! Handles: names for what the server keeps for a client. Nobody can guess one, and none lives for ever.
//!
//! A handle is 16 random bytes from the operating system. What is kept is bounded in number and in time; the time
//! starts anew with each use where that is wanted.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tonic::Status;

/// Bytes of a handle.
const HANDLE_BYTES: usize = 16;

/// A name that cannot be guessed.
pub(crate) type Handle = [u8; HANDLE_BYTES];

/// Things of one kind by handle.
pub(crate) struct Handles<T> {
    /// What one is, for messages.
    what: &'static str,
    /// What to do when one is not there any more.
    remedy: &'static str,
    count_max: usize,
    lifetime: Duration,
    is_renewed_by_use: bool,
    kept: Mutex<HashMap<Handle, Kept<T>>>,
}

struct Kept<T> {
    thing: Arc<T>,
    expires: Instant,
}

impl<T> Handles<T> {
    /// Room for `count_max` things, each kept for `lifetime` after it came.
    pub(crate) fn new(
        what: &'static str,
        remedy: &'static str,
        count_max: usize,
        lifetime: Duration,
    ) -> Self {
        Self { what, remedy, count_max, lifetime, is_renewed_by_use: false, kept: Mutex::default() }
    }

    /// The same, but the time starts anew with each use.
    pub(crate) fn renewed_by_use(mut self) -> Self {
        self.is_renewed_by_use = true;
        self
    }

    /// How long things are kept.
    pub(crate) fn lifetime(&self) -> Duration {
        self.lifetime
    }

    /// Keeps `thing`.
    pub(crate) fn insert(&self, thing: T) -> Result<Handle, Status> {
        let mut handle = Handle::default();
        getrandom::fill(&mut handle)
            .map_err(|error| Status::internal(format!("no random numbers from the system: {error}")))?;
        let now = Instant::now();
        let mut kept = self.kept();
        if kept.len() >= self.count_max {
            kept.retain(|_, one| one.expires > now);
        }
        if kept.len() >= self.count_max {
            return Err(Status::resource_exhausted(format!(
                "{} {}s are kept for clients already, which is all there is room for; {}",
                self.count_max, self.what, self.remedy
            )));
        }
        kept.insert(handle, Kept { thing: Arc::new(thing), expires: now + self.lifetime });
        Ok(handle)
    }

    /// What `handle` names.
    pub(crate) fn get(&self, handle: &[u8]) -> Result<(Handle, Arc<T>), Status> {
        let gone = || Status::not_found(format!("no such {}, or not any more; {}", self.what, self.remedy));
        let handle = Handle::try_from(handle).map_err(|_| gone())?;
        let now = Instant::now();
        let mut kept = self.kept();
        let one = kept.get_mut(&handle).filter(|one| one.expires > now).ok_or_else(gone)?;
        if self.is_renewed_by_use {
            one.expires = now + self.lifetime;
        }
        Ok((handle, Arc::clone(&one.thing)))
    }

    /// Forgets what `handle` names; whether there was something.
    pub(crate) fn remove(&self, handle: &[u8]) -> bool {
        Handle::try_from(handle).is_ok_and(|handle| self.kept().remove(&handle).is_some())
    }

    /// Forgets what has expired.
    pub(crate) fn sweep(&self) {
        let now = Instant::now();
        self.kept().retain(|_, one| one.expires > now);
    }

    /// How many are kept.
    pub(crate) fn count(&self) -> usize {
        self.kept().len()
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, HashMap<Handle, Kept<T>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::Code;

    fn handles(count_max: usize, lifetime: Duration) -> Handles<u32> {
        Handles::new("ticket", "ask again", count_max, lifetime)
    }

    #[test]
    fn a_handle_finds_what_it_names_until_that_is_removed() {
        let handles = handles(10, Duration::from_secs(60));
        let (one, two) = (handles.insert(1).unwrap(), handles.insert(2).unwrap());
        assert_ne!(one, two);
        assert_eq!(*handles.get(&one).unwrap().1, 1);
        assert!(handles.remove(&one) && !handles.remove(&one));
        assert_eq!(handles.get(&one).unwrap_err().code(), Code::NotFound);
        assert_eq!(handles.count(), 1);
    }

    #[test]
    fn bytes_that_are_no_handle_find_nothing() {
        let handles = handles(10, Duration::from_secs(60));
        let mut handle = handles.insert(1).unwrap().to_vec();
        handle.push(0);
        for wrong in [&handle[..], &handle[..15], &[][..], &[0; 16][..]] {
            assert_eq!(handles.get(wrong).unwrap_err().code(), Code::NotFound);
            assert!(!handles.remove(wrong));
        }
    }

    #[test]
    fn what_has_expired_makes_room() {
        let handles = handles(1, Duration::ZERO);
        let first = handles.insert(1).unwrap();
        assert!(handles.get(&first).is_err());
        assert!(handles.insert(2).is_ok());
        handles.sweep();
        assert_eq!(handles.count(), 0);
    }

    #[test]
    fn no_more_are_kept_than_there_is_room_for() {
        let handles = handles(1, Duration::from_secs(60));
        handles.insert(1).unwrap();
        let status = handles.insert(2).unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted);
        assert!(status.message().contains("1 tickets"), "{}", status.message());
    }
}
