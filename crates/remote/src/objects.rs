//! Objects for callers that wait: threads of their own talk to the stores, and whoever asks gets bytes.
//!
//! ```text
//!   caller ── begin(range) ──▶ task ── permit, store ──▶ network
//!      └───── wait ◀── channel ──┘         a caller that goes away, or is cancelled, ends its task
//! ```
//!
//! Bound: at most `REQUESTS_MAX` requests are under way at once, each for what its caller asked.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use object_store::path::Path;
use object_store::{GetOptions, ObjectMeta, ObjectStore};
use pelton_error::{CancelFlag, Error, Result, ResultExt};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

use crate::list::{from_store, list};
use crate::location::Location;
use crate::store::{StoreOptions, open_store};

/// Requests under way at once. A guess: enough to fill a fast line with pieces of some MiB.
const REQUESTS_MAX: usize = 32;
/// Threads that wait for the network; they decode nothing.
const THREADS: usize = 2;
/// How often a waiting caller looks at the cancel flag.
const WAIT: Duration = Duration::from_millis(50);

/// Stores by URL, and the threads that talk to them.
pub struct Objects {
    /// `None` only while this is dropped.
    runtime: Option<Runtime>,
    options: StoreOptions,
    stores: Mutex<HashMap<String, Arc<dyn ObjectStore>>>,
    permits: Arc<Semaphore>,
    cancel: CancelFlag,
}

impl Objects {
    /// Starts the threads. Everything that waits ends once `cancel` is set.
    ///
    /// # Errors
    ///
    /// `Io` where no thread can be started.
    pub fn start(options: StoreOptions, cancel: &CancelFlag) -> Result<Arc<Self>> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("pelton-remote")
            .enable_all()
            .build()
            .context(|| "starting the threads that read objects".into())?;
        Ok(Arc::new(Self {
            runtime: Some(runtime),
            options,
            stores: Mutex::default(),
            permits: Arc::new(Semaphore::new(REQUESTS_MAX)),
            cancel: cancel.clone(),
        }))
    }

    /// The objects that `text` means, sorted by path, and each one's path below the folder that was named. Waits.
    ///
    /// # Errors
    ///
    /// Of [`Location::parse`], [`open_store`] and [`list`]; `Cancelled`.
    pub fn list_blocking(self: &Arc<Self>, text: &str) -> Result<Vec<(Object, String)>> {
        let location = Location::parse(text)?;
        let store = self.store(&location)?;
        let listed = {
            let (store, location) = (Arc::clone(&store), location.clone());
            self.spawn(async move { list(store.as_ref(), &location).await }).wait_blocking()?
        };
        Ok(self.adopt(&store, &location, listed))
    }

    /// The objects of `store` that were listed for `location`, to be read by these threads, and each one's path below the
    /// folder that was named.
    pub fn adopt(
        self: &Arc<Self>,
        store: &Arc<dyn ObjectStore>,
        location: &Location,
        listed: Vec<ObjectMeta>,
    ) -> Vec<(Object, String)> {
        let object = |meta: ObjectMeta| {
            let rest = location.path_below(&meta.location).to_owned();
            let url = location.url_of(&meta.location);
            (Object { objects: Arc::clone(self), store: Arc::clone(store), url, meta }, rest)
        };
        listed.into_iter().map(object).collect()
    }

    fn store(&self, location: &Location) -> Result<Arc<dyn ObjectStore>> {
        let mut stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = stores.get(location.base().as_str()) {
            return Ok(Arc::clone(store));
        }
        let store = open_store(location.base(), &self.options)?;
        stores.insert(location.base().to_string(), Arc::clone(&store));
        Ok(store)
    }

    /// Starts `task` on the threads.
    fn spawn<T: Send + 'static>(&self, task: impl Future<Output = Result<T>> + Send + 'static) -> Pending<T> {
        let (sender, receiver) = sync_channel(1);
        let permits = Arc::clone(&self.permits);
        let runtime = self.runtime.as_ref().expect("it is there until the drop");
        let handle = runtime.spawn(async move {
            // The semaphore is never closed.
            let _permit = permits.acquire().await;
            // A caller that went away does not want the result.
            let _ = sender.send(task.await);
        });
        Pending { receiver, task: handle.abort_handle(), cancel: self.cancel.clone() }
    }
}

impl Drop for Objects {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Does not wait, so that it may be called from a task of another runtime.
            runtime.shutdown_background();
        }
    }
}

impl fmt::Debug for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Objects").field("options", &self.options).finish_non_exhaustive()
    }
}

/// One object, of a known size.
#[derive(Debug, Clone)]
pub struct Object {
    objects: Arc<Objects>,
    store: Arc<dyn ObjectStore>,
    url: String,
    meta: ObjectMeta,
}

impl Object {
    /// Its full name.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// What the store said of it when it was listed.
    pub fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    /// Its path below the bucket or host.
    pub fn path(&self) -> &Path {
        &self.meta.location
    }

    /// Its size, in bytes, when it was listed.
    pub fn bytes(&self) -> u64 {
        self.meta.size
    }

    /// Starts reading `range`, which lies within the object as it was when it was listed.
    pub fn begin(&self, range: Range<u64>) -> Pending<Bytes> {
        let (store, path, url) = (Arc::clone(&self.store), self.meta.location.clone(), self.url.clone());
        // A weak tag is no promise of the same bytes, and servers refuse to compare it.
        let tag = self.meta.e_tag.clone().filter(|tag| !tag.starts_with("W/"));
        self.objects.spawn(async move {
            let wanted = range.end - range.start;
            if wanted == 0 {
                return Ok(Bytes::new());
            }
            let options = GetOptions::new().with_range(Some(range)).with_if_match(tag);
            let result = store.get_opts(&path, options).await.map_err(from_store)?;
            let bytes = result.bytes().await.map_err(from_store)?;
            if bytes.len() as u64 == wanted { Ok(bytes) } else { Err(changed(&url)) }
        })
    }

    /// Reads `range`, which lies within the object. Waits.
    ///
    /// # Errors
    ///
    /// What the store says, in words that name the object; `Cancelled`.
    pub fn read_blocking(&self, range: Range<u64>) -> Result<Bytes> {
        self.begin(range).wait_blocking()
    }
}

/// What is said of an object that is not the one that was listed.
pub(crate) fn changed(url: &str) -> Error {
    Error::corrupt(format!("'{url}' was replaced while it was read; read it again"))
}

/// Something under way; dropping it ends it.
pub struct Pending<T> {
    receiver: Receiver<Result<T>>,
    task: AbortHandle,
    cancel: CancelFlag,
}

impl<T> Pending<T> {
    /// Waits for it.
    ///
    /// # Errors
    ///
    /// Its own; `Cancelled`.
    pub fn wait_blocking(self) -> Result<T> {
        loop {
            match self.receiver.recv_timeout(WAIT) {
                Ok(result) => return result,
                Err(RecvTimeoutError::Timeout) => self.cancel.check()?,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Error::corrupt(
                        "an answer of the store is damaged in a way its reader does not expect",
                    ));
                }
            }
        }
    }
}

impl<T> Drop for Pending<T> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl<T> fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pending")
    }
}
