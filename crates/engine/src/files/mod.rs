//! Files as tables: `SELECT … FROM 's3://bucket/sales/year=*/*.parquet'`, `FROM 'data/sales'`.
//!
//! ```text
//!   name in a query ─▶ location ─▶ list of objects ─▶ format, by the ending ─▶ FilesTable
//!                                       └▶ folders `year=2024/` ─▶ partition columns
//! ```
//!
//! A name is a file's where it is a URL, has a `/` or `.` and exists or is a pattern, or is a folder that holds files; any
//! other name is left to the message that says which tables there are. Tables come first.
//!
//! CSV, JSON and Arrow IPC are read by the readers of `pelton load`, Parquet by DataFusion's, whose pruning and statistics
//! are worth having. Which files a name means, which columns they have together and of which types, is one set of rules.

mod exec;
mod footer;
mod format;
mod opened;
mod settings;
mod table;
mod text;

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use datafusion::catalog::{DynamicFileCatalog, TableProvider, UrlTableFactory};
use datafusion::common::{config_datafusion_err, internal_datafusion_err};
use datafusion::datasource::object_store::ObjectStoreUrl;
use datafusion::datasource::physical_plan::parquet::metadata::DFParquetMetadata;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionState;
use datafusion::prelude::SessionContext;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::{ObjectMeta, ObjectStore};
use pelton_error::{CancelFlag, Error, guarded_async};
use pelton_files::{
    InputFormat, Listed, OpenOptions, Sources, TextOptions, check_layout, has_files, list_found, union_of,
};
use pelton_remote::{Location, Partitions, is_url, list};

use crate::error::{from_datafusion, to_datafusion};
pub(crate) use footer::asks_for_uncounted_nulls;
use opened::Opened;
pub use settings::FileSettings;
use table::FilesTable;
use text::TextTable;

/// Bytes that a partition may have on their way from an object store, of a Parquet file that it does not read this way.
const SHARE_BYTES: u64 = 16 << 20;

/// Lets queries of `context` name files, directories, patterns and URLs where a table stands.
pub fn with_files(context: SessionContext) -> SessionContext {
    let inner = Arc::clone(context.state_ref().read().catalog_list());
    if context.state_ref().read().config_options().extensions.get::<FileSettings>().is_none() {
        context.state_ref().write().config_mut().options_mut().extensions.insert(FileSettings::default());
    }
    let factory = Arc::new(Files { state: OnceLock::new(), opened: Opened::default() });
    let catalogs = DynamicFileCatalog::new(inner, Arc::clone(&factory) as Arc<dyn UrlTableFactory>);
    let id = context.session_id();
    let mut builder = context.into_state_builder().with_session_id(id).with_catalog_list(Arc::new(catalogs));
    format::install(&mut builder);
    let context = SessionContext::new_with_state(builder.build());
    let state = context.state_weak_ref();
    let _ = factory.state.set(Box::new(move || state.upgrade().map(|state| state.read().clone())));
    context
}

/// The session as it is now; `None` once it is gone.
type CurrentState = Box<dyn Fn() -> Option<SessionState> + Send + Sync>;

/// Makes tables of names.
struct Files {
    /// Set as soon as the session is there.
    state: OnceLock<CurrentState>,
    opened: Opened,
}

impl fmt::Debug for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Files")
    }
}

impl Files {
    fn state(&self) -> Result<SessionState> {
        let state = self.state.get().and_then(|state| state());
        state.ok_or_else(|| internal_datafusion_err!("the session of this table is gone"))
    }
}

#[async_trait]
impl UrlTableFactory for Files {
    async fn try_new(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let Some(location) = location_of(name).map_err(to_datafusion)? else { return Ok(None) };
        open(&self.state()?, name, &location, &self.opened).await.map(Some)
    }
}

/// What `name` means; `None` where it names no file.
fn location_of(name: &str) -> pelton_error::Result<Option<Location>> {
    if is_url(name) {
        return Location::parse(name).map(Some);
    }
    let is_path = name.contains(['/', '.']) && (Path::new(name).exists() || name.contains(['*', '?', '[']));
    if is_path || (Path::new(name).is_dir() && has_files(Path::new(name))) {
        return Location::of_path(name).map(Some);
    }
    Ok(None)
}

/// The table of the files at `location`, which the query calls `name`.
async fn open(
    state: &SessionState,
    name: &str,
    location: &Location,
    opened: &Opened,
) -> Result<Arc<dyn TableProvider>> {
    let settings = state.config_options().extensions.get::<FileSettings>().cloned().unwrap_or_default();
    let store_url = ObjectStoreUrl::parse(location.base())?;
    let store = state.runtime_env().object_store(&store_url)?;
    let listed = match location.base().scheme() {
        "file" => {
            let (name, format) = (name.to_owned(), settings.input_format);
            blocking(move || pelton_files::list(&[name], format, &CancelFlag::new())).await?
        }
        _ => {
            let objects = list(store.as_ref(), location).await.map_err(to_datafusion)?;
            let reader = opened.objects().map_err(to_datafusion)?;
            let found = reader.adopt(&store, location, objects);
            list_found(name, found, settings.input_format).map_err(to_datafusion)?
        }
    };
    if listed.format() == Some(InputFormat::Parquet) {
        return Ok(Arc::new(parquet(state, name, location, &store_url, &store, &settings).await?));
    }
    let text = settings.text;
    let thread_count = state.config().target_partitions();
    let sources = match opened.known(&listed, &text) {
        Some(sources) => sources,
        None => {
            let (files, options) = (listed.clone(), text.clone());
            let sources = blocking(move || sources_of(files, &options, thread_count)).await?;
            opened.keep(&listed, text, &sources);
            sources
        }
    };
    Ok(Arc::new(TextTable::new(sources)))
}

/// Opens files for queries; what is looked at to infer types counts as planning.
fn sources_of(listed: Listed, text: &TextOptions, thread_count: usize) -> pelton_error::Result<Arc<Sources>> {
    let options = OpenOptions {
        text,
        expected: None,
        input_bytes: Arc::default(),
        share_bytes: SHARE_BYTES,
        thread_count,
        cancel: &CancelFlag::new(),
    };
    Sources::open(listed, options).map(Arc::new)
}

/// Runs what waits for disks and networks.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> pelton_error::Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| internal_datafusion_err!("listing files: {error}"))?.map_err(to_datafusion)
}

/// Parquet files as DataFusion's scan reads them.
async fn parquet(
    state: &SessionState,
    name: &str,
    location: &Location,
    store_url: &ObjectStoreUrl,
    store: &Arc<dyn ObjectStore>,
    settings: &FileSettings,
) -> Result<FilesTable> {
    let mut objects = list(store.as_ref(), location).await.map_err(to_datafusion)?;
    if settings.input_format.is_none() {
        objects.retain(|object| is_parquet(object.location.as_ref()));
    }
    let factory = state
        .get_file_format_factory("parquet")
        .ok_or_else(|| config_datafusion_err!("'{name}': this session knows no Parquet"))?;
    let format = factory.create(state, &HashMap::new())?;
    let rests = objects.iter().map(|object| location.path_below(&object.location));
    let partitions = Partitions::of(rests).map_err(to_datafusion)?;
    let at_once = state.config_options().execution.meta_fetch_concurrency.get();
    let found = objects.iter().map(|object| {
        let format = &format;
        async move {
            check_file(state, store, location, object).await?;
            let schema = format.infer_schema(state, store, std::slice::from_ref(object)).await?;
            Ok::<_, DataFusionError>((location.url_of(&object.location), schema))
        }
    });
    let found = stream::iter(found.collect::<Vec<_>>()).buffered(at_once).try_collect::<Vec<_>>().await;
    let found = found.map_err(|error| to_datafusion(from_datafusion(error).context(format!("'{name}'"))))?;
    let schema = union_of(&found).map_err(to_datafusion)?;
    FilesTable::new(store_url.clone(), format, &schema, objects, partitions)
}

/// Refuses what is no Parquet file, on some of which DataFusion panics, and a file with two columns of one name, which schemas of
/// DataFusion do not tell from one.
async fn check_file(
    state: &SessionState,
    store: &Arc<dyn ObjectStore>,
    location: &Location,
    object: &ObjectMeta,
) -> Result<()> {
    let cache = state.runtime_env().cache_manager.get_file_metadata_cache();
    let metadata = DFParquetMetadata::new(store.as_ref(), object).with_file_metadata_cache(Some(cache));
    let url = location.url_of(&object.location);
    let damaged = |why: String| to_datafusion(Error::corrupt(format!("{url} is not a Parquet file: {why}")));
    let found = guarded_async(metadata.fetch_metadata()).await;
    let found = found.map_err(|panic| damaged(format!("its footer leads out of the file ({panic})")))?;
    let footer = found.map_err(|error| {
        let why = match error.find_root() {
            DataFusionError::ParquetError(root) => Some(root.to_string()),
            _ => None,
        };
        why.map_or(error, damaged)
    })?;
    check_layout(&footer, object.size).map_err(damaged)?;
    let schema = Arc::new(metadata.fetch_schema().await?);
    union_of(&[(url.clone(), schema)]).map(|_| ()).map_err(to_datafusion)
}

fn is_parquet(path: &str) -> bool {
    let path = path.to_ascii_lowercase();
    path.ends_with(".parquet") || path.ends_with(".pq")
}
