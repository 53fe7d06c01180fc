//! A store whose errors name the URL and the remedy, and whose large ranges are read in pieces at once.
//!
//! ```text
//!   get_ranges: near ranges become one ─▶ cut into pieces of PIECE_BYTES ─▶ PARALLEL at a time ─▶ put together
//! ```
//!
//! Servers that do not tell versions of an object apart (no entity tag) get another chance here when a body breaks
//! off; for the others the library itself asks for the rest.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetRange, GetResult, GetResultPayload, ListResult, MultipartUpload,
    OBJECT_STORE_COALESCE_DEFAULT, ObjectMeta, ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions,
    PutPayload, PutResult, Result, coalesce_ranges,
};

use crate::explain::Explainer;

/// Bytes asked for by one request. A guess: large enough that latency does not matter, small enough that a slow line
/// delivers it within the time limit.
pub(crate) const PIECE_BYTES: u64 = 4 << 20;
/// Pieces of one range under way at once.
const PARALLEL: usize = 8;
/// Tries for a body that breaks off, and the wait after the first.
const BODY_TRIES: u32 = 4;
const BODY_WAIT: Duration = Duration::from_millis(100);

/// A store and who explains its errors.
pub(crate) struct NamedStore {
    inner: Arc<dyn ObjectStore>,
    explainer: Arc<Explainer>,
}

impl NamedStore {
    pub(crate) fn new(inner: Arc<dyn ObjectStore>, explainer: Explainer) -> Self {
        Self { inner, explainer: Arc::new(explainer) }
    }

    fn named(&self, path: &Path) -> impl Fn(object_store::Error) -> object_store::Error + Send + 'static {
        let (explainer, path) = (Arc::clone(&self.explainer), path.clone());
        move |error| named(&explainer, &path, error)
    }

    /// A range in pieces of which several are under way at once.
    async fn get_large(&self, path: &Path, range: Range<u64>) -> Result<Bytes> {
        if range.end - range.start <= PIECE_BYTES {
            return self.get_range(path, range).await;
        }
        let starts = (range.start..range.end).step_by(PIECE_BYTES as usize);
        let pieces = starts.map(|start| self.get_range(path, start..(start + PIECE_BYTES).min(range.end)));
        let mut whole = BytesMut::with_capacity((range.end - range.start) as usize);
        let mut pieces = stream::iter(pieces.collect::<Vec<_>>()).buffered(PARALLEL);
        while let Some(piece) = pieces.try_next().await? {
            whole.extend_from_slice(&piece);
        }
        Ok(whole.freeze())
    }

    /// The body of an answer to `options`, asked for again where it breaks off.
    async fn whole_body(&self, path: &Path, options: &GetOptions, first: GetResult) -> Result<GetResult> {
        let (meta, range, attributes) = (first.meta.clone(), first.range.clone(), first.attributes.clone());
        let mut body = first.bytes().await;
        for attempt in 1..BODY_TRIES {
            if body.is_ok() {
                break;
            }
            tokio::time::sleep(BODY_WAIT * 2_u32.pow(attempt - 1)).await;
            let again = self.inner.get_opts(path, options.clone()).await?;
            body = again.bytes().await;
        }
        let bytes = body?;
        let payload = GetResultPayload::Stream(stream::once(async move { Ok(bytes) }).boxed());
        Ok(GetResult { payload, meta, range, attributes })
    }
}

/// `error` in our words, still of its variant where callers look at it.
fn named(explainer: &Explainer, path: &Path, error: object_store::Error) -> object_store::Error {
    let is_missing = matches!(error, object_store::Error::NotFound { .. });
    let source = Box::new(explainer.explain(error, path.as_ref()));
    match is_missing {
        true => object_store::Error::NotFound { path: path.to_string(), source },
        false => object_store::Error::Generic { store: "remote", source },
    }
}

/// Without the store, which would show its credentials.
impl fmt::Debug for NamedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NamedStore").field("explainer", &self.explainer).finish_non_exhaustive()
    }
}

impl fmt::Display for NamedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

#[async_trait]
impl ObjectStore for NamedStore {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.inner.put_opts(path, payload, options).await.map_err(self.named(path))
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(path, options).await.map_err(self.named(path))
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        let is_small = matches!(&options.range, Some(GetRange::Bounded(range)) if range.end - range.start <= PIECE_BYTES);
        let result = self.inner.get_opts(path, options.clone()).await.map_err(self.named(path))?;
        if is_small && !options.head && result.meta.e_tag.is_none() {
            return self.whole_body(path, &options, result).await.map_err(self.named(path));
        }
        let named = self.named(path);
        Ok(match result.payload {
            GetResultPayload::Stream(body) => {
                GetResult { payload: GetResultPayload::Stream(body.map_err(named).boxed()), ..result }
            }
            payload => GetResult { payload, ..result },
        })
    }

    async fn get_ranges(&self, path: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        coalesce_ranges(ranges, |range| self.get_large(path, range), OBJECT_STORE_COALESCE_DEFAULT).await
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(paths).map_err(self.named(&Path::ROOT)).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix).map_err(self.named(prefix.unwrap_or(&Path::ROOT))).boxed()
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list_with_offset(prefix, offset).map_err(self.named(prefix.unwrap_or(&Path::ROOT))).boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let listed = self.inner.list_with_delimiter(prefix).await;
        listed.map_err(self.named(prefix.unwrap_or(&Path::ROOT)))
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await.map_err(self.named(from))
    }
}
