//! Text files that were opened for queries of a session, so that the next one need not look at them again.
//!
//! What is kept holds as long as names, sizes and times of the files are the same, and so are the settings. Objects of
//! stores have no such stamp here and are looked at each time.
//!
//! Bound: `KEPT` sets of files, of which only what was found out is kept.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use pelton_error::{CancelFlag, Result};
use pelton_files::{FileStamp, Listed, Sources, TextOptions};
use pelton_remote::{Objects, StoreOptions};

/// Sets of files that are remembered.
const KEPT: usize = 32;
/// Since when a file must be as it is. Clocks of file systems tick a few hundred times a second, some once in two.
const SETTLED: Duration = Duration::from_secs(3);

/// A set of files as it was opened.
struct Kept {
    stamp: Vec<FileStamp>,
    text: TextOptions,
    sources: Arc<Sources>,
}

/// What a session knows of text files.
#[derive(Default)]
pub(super) struct Opened {
    /// The oldest first.
    kept: Mutex<Vec<Kept>>,
    objects: Mutex<Option<Arc<Objects>>>,
}

impl Opened {
    /// The files as they were opened before, where they are still the same.
    pub(super) fn known(&self, listed: &Listed, text: &TextOptions) -> Option<Arc<Sources>> {
        let stamp = listed.stamp()?;
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.iter().find(|kept| kept.stamp == stamp && kept.text == *text)?;
        Some(Arc::clone(&found.sources))
    }

    /// Remembers how files were opened.
    pub(super) fn keep(&self, listed: &Listed, text: TextOptions, sources: &Arc<Sources>) {
        let Some(stamp) = listed.stamp() else { return };
        // A file that has just changed may change again without its time changing.
        let is_old =
            |file: &FileStamp| SystemTime::now().duration_since(file.modified).is_ok_and(|age| age > SETTLED);
        if !stamp.iter().all(is_old) {
            return;
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|kept| kept.stamp != stamp || kept.text != text);
        if kept.len() == KEPT {
            kept.remove(0);
        }
        kept.push(Kept { stamp, text, sources: Arc::clone(sources) });
    }

    /// The threads that read objects, started with the first of them.
    pub(super) fn objects(&self) -> Result<Arc<Objects>> {
        let mut objects = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        match &*objects {
            Some(objects) => Ok(Arc::clone(objects)),
            None => {
                Ok(Arc::clone(objects.insert(Objects::start(StoreOptions::default(), &CancelFlag::new())?)))
            }
        }
    }
}
