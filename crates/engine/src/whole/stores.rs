//! The stores of a statement that writes: in them, files are written at once and get their names when the statement ends.

use std::fmt;
use std::sync::Arc;

use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::execution::object_store::ObjectStoreRegistry;
use futures::stream::BoxStream;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, UploadPart,
};
use url::Url;

use super::State;
use super::local::LocalUpload;

/// The stores of `context`, whose files wait for the end of a statement.
#[derive(Debug)]
pub(super) struct WholeStores {
    pub(super) context: Arc<TaskContext>,
    pub(super) state: Arc<State>,
}

impl ObjectStoreRegistry for WholeStores {
    fn register_store(&self, url: &Url, store: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        self.context.runtime_env().register_object_store(url, store)
    }

    fn deregister_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        self.context.runtime_env().deregister_object_store(url)
    }

    fn get_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        let inner = self.context.runtime_env().object_store_registry.get_store(url)?;
        // One of the user's own may have its root elsewhere.
        let is_local = inner.to_string() == LocalFileSystem::new().to_string();
        Ok(Arc::new(WholeStore { inner, is_local, state: Arc::clone(&self.state) }))
    }
}

/// A store in which files get their names only once the statement has succeeded.
#[derive(Debug)]
struct WholeStore {
    inner: Arc<dyn ObjectStore>,
    /// The file system of this machine, to which files are written here.
    is_local: bool,
    state: Arc<State>,
}

impl WholeStore {
    async fn local(&self, path: &Path) -> object_store::Result<LocalUpload> {
        LocalUpload::begin(LocalFileSystem::new().path_to_filesystem(path)?, &self.state).await
    }
}

impl fmt::Display for WholeStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

/// What a file that has no name yet is known by.
const HELD: PutResult = PutResult { e_tag: None, version: None };

#[async_trait::async_trait]
impl ObjectStore for WholeStore {
    async fn put_opts(
        &self,
        path: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> object_store::Result<PutResult> {
        self.state.check()?;
        if self.is_local {
            let mut upload = self.local(path).await?;
            upload.put_part(payload).await?;
            return upload.complete().await;
        }
        self.state.hold_object(Arc::clone(&self.inner), path.clone(), payload, options);
        Ok(HELD)
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        if self.is_local {
            return Ok(Box::new(self.local(path).await?));
        }
        let inner = self.inner.put_multipart_opts(path, options).await?;
        Ok(Box::new(WholeUpload { inner: Some(inner), state: Arc::clone(&self.state) }))
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> object_store::Result<GetResult> {
        self.inner.get_opts(path, options).await
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, object_store::Result<Path>>,
    ) -> BoxStream<'static, object_store::Result<Path>> {
        self.inner.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> object_store::Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> object_store::Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

/// A file that is being written to a bucket.
#[derive(Debug)]
struct WholeUpload {
    /// `None` once all of it is there.
    inner: Option<Box<dyn MultipartUpload>>,
    state: Arc<State>,
}

#[async_trait::async_trait]
impl MultipartUpload for WholeUpload {
    fn put_part(&mut self, payload: PutPayload) -> UploadPart {
        match &mut self.inner {
            Some(inner) => inner.put_part(payload),
            None => Box::pin(async {
                let source = "a part came after all of the file".into();
                Err(object_store::Error::Generic { store: "COPY", source })
            }),
        }
    }

    async fn complete(&mut self) -> object_store::Result<PutResult> {
        if let Err(refused) = self.state.check() {
            // What was uploaded takes room until somebody ends it; the query's own error is the one to tell.
            drop(self.abort().await);
            return Err(refused);
        }
        if let Some(inner) = self.inner.take() {
            self.state.hold_upload(inner);
        }
        Ok(HELD)
    }

    async fn abort(&mut self) -> object_store::Result<()> {
        match self.inner.take() {
            Some(mut inner) => inner.abort().await,
            None => Ok(()),
        }
    }
}
