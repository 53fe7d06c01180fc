//! What became of a statement that writes, and the files that wait for its end.

use std::any::Any;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion::error::{DataFusionError, Result};
use object_store::path::Path as StorePath;
use object_store::{MultipartUpload, ObjectStore, PutOptions, PutPayload};
use pelton_error::Error;
use pelton_limits::NewFile;

use crate::error::to_datafusion;

/// Files that are held open, under no name; more are closed, under names that end in `.part`. Processes may commonly have 1024
/// handles.
const OPEN_MAX: usize = 256;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct State {
    /// No file is finished any more.
    has_ended: AtomicBool,
    is_published: AtomicBool,
    failure: Mutex<Option<Failure>>,
    held: Mutex<Vec<Held>>,
    /// Folders that the statement made.
    folders: Mutex<Vec<PathBuf>>,
}

/// A file that is written and has no name yet.
#[derive(Debug)]
enum Held {
    File(NewFile),
    Upload(Box<dyn MultipartUpload>),
    Object { store: Arc<dyn ObjectStore>, path: StorePath, payload: PutPayload, options: PutOptions },
}

/// What ended the rows before their end, or the writing of them.
pub(super) enum Failure {
    Error(DataFusionError),
    Panic(Box<dyn Any + Send>),
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error(_) => "Error",
            Self::Panic(_) => "Panic",
        })
    }
}

impl State {
    pub(super) fn end(&self) {
        self.has_ended.store(true, Ordering::Release);
    }

    /// Ends the statement with `failure`, if it is the first.
    pub(super) fn end_with(&self, failure: Failure) {
        locked(&self.failure).get_or_insert(failure);
        self.end();
    }

    /// Ends the statement with `error`; gives it in the form that stores have. What DataFusion makes of that one loses
    /// what the system said.
    pub(super) fn fail(&self, error: Error) -> object_store::Error {
        let source = error.to_string().into();
        self.end_with(Failure::Error(to_datafusion(error)));
        object_store::Error::Generic { store: "COPY", source }
    }

    pub(super) fn failure(&self) -> Option<Failure> {
        locked(&self.failure).take()
    }

    pub(super) fn check(&self) -> object_store::Result<()> {
        if !self.has_ended.load(Ordering::Acquire) {
            return Ok(());
        }
        let source = "the query that writes the file has failed or was cancelled".into();
        Err(object_store::Error::Generic { store: "COPY", source })
    }

    /// Notes folders that are about to be made.
    pub(super) fn made<'a>(&self, folders: impl Iterator<Item = &'a Path>) {
        let named = folders.filter(|folder| !folder.as_os_str().is_empty()).map(Path::to_owned);
        locked(&self.folders).extend(named);
    }

    /// Keeps `file` for [`publish`](Self::publish).
    pub(super) fn hold_file(&self, mut file: NewFile) -> object_store::Result<()> {
        self.check()?;
        let is_many = locked(&self.held).len() >= OPEN_MAX;
        if is_many {
            file.park().map_err(|error| self.fail(error))?;
        }
        locked(&self.held).push(Held::File(file));
        Ok(())
    }

    /// Keeps an upload, all parts of which are there, for [`publish`](Self::publish).
    pub(super) fn hold_upload(&self, upload: Box<dyn MultipartUpload>) {
        locked(&self.held).push(Held::Upload(upload));
    }

    /// Keeps an object for [`publish`](Self::publish).
    pub(super) fn hold_object(
        &self,
        store: Arc<dyn ObjectStore>,
        path: StorePath,
        payload: PutPayload,
        options: PutOptions,
    ) {
        locked(&self.held).push(Held::Object { store, path, payload, options });
    }

    /// Gives all files their names.
    ///
    /// # Errors
    ///
    /// Of the first that cannot have it; those before have theirs.
    pub(super) async fn publish(&self) -> Result<()> {
        let mut held = std::mem::take(&mut *locked(&self.held)).into_iter();
        while let Some(next) = held.next() {
            let published = match next {
                Held::File(mut file) => file.finish().map_err(to_datafusion),
                Held::Upload(mut upload) => upload.complete().await.map(drop).map_err(DataFusionError::from),
                Held::Object { store, path, payload, options } => {
                    let put = store.put_opts(&path, payload, options).await;
                    put.map(drop).map_err(DataFusionError::from)
                }
            };
            if let Err(error) = published {
                abort(held).await;
                return Err(error);
            }
            self.is_published.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Drops what was written.
    pub(super) async fn abandon(&self) {
        let held = std::mem::take(&mut *locked(&self.held));
        abort(held.into_iter()).await;
    }
}

/// Uploads take room until somebody ends them; the statement's own error is the one to tell.
async fn abort(held: impl Iterator<Item = Held>) {
    for held in held {
        if let Held::Upload(mut upload) = held {
            drop(upload.abort().await);
        }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        let is_published = *self.is_published.get_mut();
        if !is_published {
            // Parked files have names in them.
            self.held.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
            let folders = self.folders.get_mut().unwrap_or_else(PoisonError::into_inner);
            // Inner ones come after those around them.
            folders.sort();
            for folder in folders.iter().rev() {
                let _ = std::fs::remove_dir(folder); // fails where another statement has put a file into it
            }
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
