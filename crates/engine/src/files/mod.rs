//! Files as tables: `SELECT … FROM 's3://bucket/sales/year=*/*.parquet'`, `FROM 'data/sales'`.
//!
//! ```text
//!   name in a query ─▶ location ─▶ list of objects ─▶ format, by the ending ─▶ FilesTable
//!                                       └▶ folders `year=2024/` ─▶ partition columns
//! ```
//!
//! A name is a file's where it is a URL, or has a `/` or `.` and exists or is a pattern; any other name is left to the
//! message that says which tables there are. A directory is thus named `sales/` or `./sales`, never `sales` alone.

mod table;

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use datafusion::catalog::{DynamicFileCatalog, TableProvider, UrlTableFactory};
use datafusion::common::{config_datafusion_err, internal_datafusion_err};
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::listing::ListingTableConfig;
use datafusion::datasource::object_store::ObjectStoreUrl;
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::prelude::SessionContext;
use object_store::ObjectMeta;
use pelton_error::Error;
use pelton_remote::{Location, Partitions, is_url, list};

use crate::error::{from_datafusion, to_datafusion};
use table::FilesTable;

/// Lets queries of `context` name files, directories, patterns and URLs where a table stands.
pub fn with_files(context: SessionContext) -> SessionContext {
    let inner = Arc::clone(context.state_ref().read().catalog_list());
    let factory = Arc::new(Files { state: OnceLock::new() });
    let catalogs = DynamicFileCatalog::new(inner, Arc::clone(&factory) as Arc<dyn UrlTableFactory>);
    let id = context.session_id();
    let builder = context.into_state_builder().with_session_id(id).with_catalog_list(Arc::new(catalogs));
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
        Ok(Some(Arc::new(open(&self.state()?, name, &location).await?)))
    }
}

/// What `name` means; `None` where it names no file.
fn location_of(name: &str) -> pelton_error::Result<Option<Location>> {
    if is_url(name) {
        return Location::parse(name).map(Some);
    }
    if name.contains(['/', '.']) && (Path::new(name).exists() || name.contains(['*', '?', '['])) {
        return Location::of_path(name).map(Some);
    }
    Ok(None)
}

/// The table of the files at `location`, which the query calls `name`.
async fn open(state: &SessionState, name: &str, location: &Location) -> Result<FilesTable> {
    let store_url = ObjectStoreUrl::parse(location.base())?;
    let store = state.runtime_env().object_store(&store_url)?;
    let mut objects = list(store.as_ref(), location).await.map_err(to_datafusion)?;
    let (ending, compression) = ending_of(&objects)?;
    objects
        .retain(|object| object.location.as_ref().ends_with(&full_ending(&ending, compression.as_deref())));
    let format = format_of(state, name, &ending, compression)?;
    let rests = objects.iter().map(|object| location.path_below(&object.location));
    let partitions = Partitions::of(rests).map_err(to_datafusion)?;
    let schema = format.infer_schema(state, &store, &objects).await;
    let schema =
        schema.map_err(|error| to_datafusion(from_datafusion(error).context(format!("'{name}'"))))?;
    FilesTable::new(store_url, format, &schema, objects, partitions)
}

/// The ending of the first file, without and with the compression.
fn ending_of(objects: &[ObjectMeta]) -> Result<(String, Option<String>)> {
    let first = objects.first().map_or("", |object| object.location.as_ref());
    ListingTableConfig::infer_file_extension_and_compression_type(first)
}

fn full_ending(ending: &str, compression: Option<&str>) -> String {
    compression.map_or_else(|| format!(".{ending}"), |compression| format!(".{ending}.{compression}"))
}

fn format_of(
    state: &SessionState,
    name: &str,
    ending: &str,
    compression: Option<String>,
) -> Result<Arc<dyn FileFormat>> {
    let factory = state.get_file_format_factory(ending).ok_or_else(|| {
        to_datafusion(Error::invalid_input(format!(
            "'{name}': files ending in '.{ending}' cannot be queried; known are .parquet, .csv, .json and .arrow"
        )))
    })?;
    let options = compression.map(|kind| ("format.compression".to_owned(), kind));
    factory
        .create(state, &options.into_iter().collect::<HashMap<_, _>>())
        .map_err(|error| config_datafusion_err!("'{name}': {error}"))
}
