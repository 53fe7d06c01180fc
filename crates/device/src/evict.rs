//! What is cached in some memory until others need it.

use std::sync::{Arc, Mutex, PoisonError};

/// Frees up to so many bytes of what nobody uses; answers how many.
type Evict = Arc<dyn Fn(u64) -> u64 + Send + Sync>;

/// Who caches something in one memory.
#[derive(Default)]
pub(crate) struct Evictables {
    all: Mutex<Vec<Evict>>,
}

impl Evictables {
    /// Adds somebody; `evict` is called without a lock.
    pub(crate) fn add(&self, evict: impl Fn(u64) -> u64 + Send + Sync + 'static) {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::new(evict));
    }

    /// Evicts at least `bytes`, as far as there is so much that nobody uses; answers how many.
    pub(crate) fn evict(&self, bytes: u64) -> u64 {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner).clone();
        all.iter().fold(0, |freed: u64, evict| freed + if freed < bytes { evict(bytes - freed) } else { 0 })
    }
}
