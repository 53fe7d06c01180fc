//! Handles: names for what the server keeps for a client. Nobody can guess one, and none lives for ever.
//!
//! ```text
//!   insert ─▶ refused: the connection has as many already as one may have
//!          ─▶ kept; where that is too much for all together, the oldest of the connection that has most goes
//!   take, remove, its lifetime ─▶ gone
//! ```
//!
//! A handle is 16 random bytes from the operating system. What is kept is bounded in number, in bytes and in time, for
//! one connection and for all of them: so one client can fill its own share, and nobody else's. The time starts anew
//! with each use where that is wanted.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tonic::Status;

/// Bytes of a handle.
const HANDLE_BYTES: usize = 16;

/// A name that cannot be guessed.
pub(crate) type Handle = [u8; HANDLE_BYTES];

/// The connection for which something is kept.
pub(crate) type Owner = Option<SocketAddr>;

/// How much is kept, for how long, and what to tell those who meet the bound.
#[derive(Clone, Copy)]
pub(crate) struct Bounds {
    /// What one is, for messages.
    pub(crate) what: &'static str,
    /// What to do when one is not there any more.
    pub(crate) gone: &'static str,
    /// What a connection does that has too many.
    pub(crate) full: &'static str,
    pub(crate) count_max: usize,
    pub(crate) count_each_max: usize,
    /// Of all together, as their owners estimated them.
    pub(crate) bytes_max: u64,
    pub(crate) lifetime: Duration,
    pub(crate) is_renewed_by_use: bool,
}

/// Things of one kind by handle.
pub(crate) struct Handles<T> {
    bounds: Bounds,
    kept: Mutex<Everything<T>>,
    evicted: AtomicU64,
}

struct Everything<T> {
    things: HashMap<Handle, Kept<T>>,
    owners: HashMap<Owner, Usage>,
    bytes: u64,
}

struct Kept<T> {
    thing: Arc<T>,
    owner: Owner,
    bytes: u64,
    expires: Instant,
}

/// What is kept for one connection.
#[derive(Default, Clone, Copy)]
struct Usage {
    count: usize,
    bytes: u64,
}

impl<T> Handles<T> {
    /// Nothing yet.
    pub(crate) fn new(bounds: Bounds) -> Self {
        let kept = Everything { things: HashMap::new(), owners: HashMap::new(), bytes: 0 };
        Self { bounds, kept: Mutex::new(kept), evicted: AtomicU64::new(0) }
    }

    /// Keeps `thing`, which takes about so many bytes, for `owner`.
    ///
    /// # Errors
    ///
    /// `RESOURCE_EXHAUSTED` where that is more than may be kept for one connection. The first is always kept.
    pub(crate) fn insert(&self, thing: T, owner: Owner, bytes: u64) -> Result<Handle, Status> {
        let mut handle = Handle::default();
        getrandom::fill(&mut handle)
            .map_err(|error| Status::internal(format!("no random numbers from the system: {error}")))?;
        let (bounds, now) = (&self.bounds, Instant::now());
        let mut kept = self.kept();
        let is_full = |kept: &Everything<T>| {
            kept.things.len() >= bounds.count_max || kept.bytes.saturating_add(bytes) > bounds.bytes_max
        };
        if is_full(&kept) || !kept.has_room_for(owner, bytes, bounds) {
            kept.sweep(now);
        }
        if !kept.has_room_for(owner, bytes, bounds) {
            return Err(Status::resource_exhausted(format!(
                "{} {}s are kept for this connection, and one may have {} of them, or {}; {}",
                kept.usage(owner).count,
                bounds.what,
                bounds.count_each_max,
                pelton_engine::bytes_text(bounds.bytes_max / SHARES),
                bounds.full
            )));
        }
        while is_full(&kept) && kept.evict() {
            self.evicted.fetch_add(1, Ordering::Relaxed);
        }
        kept.add(handle, Kept { thing: Arc::new(thing), owner, bytes, expires: now + bounds.lifetime });
        Ok(handle)
    }

    /// What `handle` names.
    ///
    /// # Errors
    ///
    /// `NOT_FOUND`, with what to do.
    pub(crate) fn get(&self, handle: &[u8]) -> Result<(Handle, Arc<T>), Status> {
        let handle = Handle::try_from(handle).map_err(|_| self.gone())?;
        let now = Instant::now();
        let mut kept = self.kept();
        let one = kept.things.get_mut(&handle).filter(|one| one.expires > now).ok_or_else(|| self.gone())?;
        if self.bounds.is_renewed_by_use {
            one.expires = now + self.bounds.lifetime;
        }
        Ok((handle, Arc::clone(&one.thing)))
    }

    /// That there is no such thing.
    pub(crate) fn gone(&self) -> Status {
        Status::not_found(format!("no such {}, or not any more; {}", self.bounds.what, self.bounds.gone))
    }

    /// Forgets what `handle` names; whether there was something.
    pub(crate) fn remove(&self, handle: &[u8]) -> bool {
        Handle::try_from(handle).is_ok_and(|handle| self.kept().remove(&handle).is_some())
    }

    /// Forgets what has expired.
    pub(crate) fn sweep(&self) {
        self.kept().sweep(Instant::now());
    }

    /// How many are kept.
    pub(crate) fn count(&self) -> usize {
        self.kept().things.len()
    }

    /// How many had to go to make room.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Everything<T>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One connection may fill this part of what is kept for all.
const SHARES: u64 = 4;

impl<T> Everything<T> {
    fn usage(&self, owner: Owner) -> Usage {
        self.owners.get(&owner).copied().unwrap_or_default()
    }

    fn has_room_for(&self, owner: Owner, bytes: u64, bounds: &Bounds) -> bool {
        let usage = self.usage(owner);
        usage.count == 0
            || (usage.count < bounds.count_each_max
                && usage.bytes.saturating_add(bytes) <= bounds.bytes_max / SHARES)
    }

    fn add(&mut self, handle: Handle, one: Kept<T>) {
        let usage = self.owners.entry(one.owner).or_default();
        usage.count += 1;
        usage.bytes += one.bytes;
        self.bytes += one.bytes;
        self.things.insert(handle, one);
    }

    fn remove(&mut self, handle: &Handle) -> Option<Kept<T>> {
        let one = self.things.remove(handle)?;
        self.bytes -= one.bytes;
        if let Some(usage) = self.owners.get_mut(&one.owner) {
            usage.count -= 1;
            usage.bytes -= one.bytes;
            if usage.count == 0 {
                self.owners.remove(&one.owner);
            }
        }
        Some(one)
    }

    fn sweep(&mut self, now: Instant) {
        let expired = self.things.iter().filter(|(_, one)| one.expires <= now);
        let expired: Vec<Handle> = expired.map(|(handle, _)| *handle).collect();
        expired.iter().for_each(|handle| drop(self.remove(handle)));
    }

    /// Forgets the oldest of the connection that has most; false where there is none.
    fn evict(&mut self) -> bool {
        let most = self.owners.iter().max_by_key(|(_, usage)| (usage.bytes, usage.count));
        let Some((&owner, _)) = most else { return false };
        let of_owner = self.things.iter().filter(|(_, one)| one.owner == owner);
        let oldest = of_owner.min_by_key(|(_, one)| one.expires).map(|(handle, _)| *handle);
        oldest.is_some_and(|handle| self.remove(&handle).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::Code;

    fn handles(count_max: usize, count_each_max: usize, lifetime: Duration) -> Handles<u32> {
        let bytes_max = 1000;
        Handles::new(Bounds {
            what: "ticket",
            gone: "run the query again",
            full: "fetch them",
            count_max,
            count_each_max,
            bytes_max,
            lifetime,
            is_renewed_by_use: false,
        })
    }

    const LONG: Duration = Duration::from_secs(60);

    fn client(port: u16) -> Owner {
        Some(([127, 0, 0, 1], port).into())
    }

    #[test]
    fn a_handle_finds_what_it_names_until_that_is_removed() {
        let handles = handles(10, 10, LONG);
        let (one, two) = (handles.insert(1, None, 1).unwrap(), handles.insert(2, None, 1).unwrap());
        assert_ne!(one, two);
        assert_eq!(*handles.get(&one).unwrap().1, 1);
        assert!(handles.remove(&one) && !handles.remove(&one));
        assert_eq!(handles.get(&one).unwrap_err().code(), Code::NotFound);
        assert_eq!(handles.count(), 1);
    }

    #[test]
    fn bytes_that_are_no_handle_find_nothing() {
        let handles = handles(10, 10, LONG);
        let mut handle = handles.insert(1, None, 1).unwrap().to_vec();
        handle.push(0);
        for wrong in [&handle[..], &handle[..15], &[][..], &[0; 16][..]] {
            assert_eq!(handles.get(wrong).unwrap_err().code(), Code::NotFound);
            assert!(!handles.remove(wrong));
        }
    }

    #[test]
    fn what_has_expired_makes_room() {
        let handles = handles(1, 1, Duration::ZERO);
        let first = handles.insert(1, None, 1).unwrap();
        assert!(handles.get(&first).is_err());
        assert!(handles.insert(2, None, 1).is_ok());
        handles.sweep();
        assert_eq!((handles.count(), handles.evicted()), (0, 0));
    }

    #[test]
    fn a_connection_that_has_its_share_is_told_what_to_do_and_others_are_not_bothered() {
        let handles = handles(100, 2, LONG);
        let first = handles.insert(1, client(1), 1).unwrap();
        handles.insert(1, client(1), 1).unwrap();
        let status = handles.insert(1, client(1), 1).unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted);
        assert!(status.message().contains("fetch them"), "{}", status.message());
        handles.insert(2, client(2), 1).unwrap();
        handles.remove(&first);
        handles.insert(1, client(1), 1).unwrap();
    }

    #[test]
    fn where_all_is_full_the_oldest_of_who_has_most_goes() {
        let handles = handles(4, 3, LONG);
        let greedy: Vec<Handle> = (0..3).map(|_| handles.insert(1, client(1), 1).unwrap()).collect();
        let modest = handles.insert(2, client(2), 1).unwrap();
        let late = handles.insert(3, client(3), 1).unwrap();
        assert!(handles.get(&greedy[0]).is_err() && handles.get(&greedy[1]).is_ok());
        assert!(handles.get(&modest).is_ok() && handles.get(&late).is_ok());
        assert_eq!((handles.count(), handles.evicted()), (4, 1));
    }

    #[test]
    fn bytes_are_bounded_but_never_keep_out_the_first() {
        let handles = handles(100, 100, LONG);
        let small = handles.insert(1, client(1), 200).unwrap();
        assert!(handles.insert(1, client(1), 51).is_err(), "a quarter of 1000 each");
        let huge = handles.insert(2, client(2), 5000).unwrap();
        assert!(handles.get(&small).is_err() && handles.get(&huge).is_ok());
        handles.insert(3, client(3), 10).unwrap();
        assert!(handles.get(&huge).is_err(), "the largest goes first");
    }
}
