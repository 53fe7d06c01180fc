//! What a scan of Parquet files reads, and whether a copy of it can stand in.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use datafusion::arrow::datatypes::{DataType, Field, SchemaRef};
use datafusion::datasource::object_store::ObjectStoreUrl;
use datafusion::datasource::physical_plan::{FileScanConfig, FileSource, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use object_store::ObjectMeta;
use pelton_error::{CancelFlag, Error, Result};
use pelton_remote::{Location, Objects, StoreOptions};
use pelton_store::{LogicalType, Table};

/// Since when a file must be as it is. Clocks of file systems tick a few hundred times a second, some once in two.
const SETTLED: Duration = Duration::from_secs(3);

/// Files as a scan has found them, and the columns that it takes them to have.
#[derive(Debug, PartialEq)]
pub(super) struct FileSet {
    store: ObjectStoreUrl,
    /// By name.
    files: Vec<ObjectMeta>,
    schema: SchemaRef,
}

/// A scan of Parquet files.
pub(super) struct FileScan<'a> {
    pub(super) config: &'a FileScanConfig,
    pub(super) source: &'a ParquetSource,
    pub(super) files: Arc<FileSet>,
    /// The columns that it reads: what goes out, and what filters look at.
    pub(super) columns: Vec<String>,
}

impl<'a> FileScan<'a> {
    /// `None` where `node` reads something else; why no copy can stand in where that is so for good.
    pub(super) fn of(node: &'a DataSourceExec) -> Option<std::result::Result<Self, String>> {
        let (config, source) = node.downcast_to_file_source::<ParquetSource>()?;
        Some(Self::of_parquet(config, source).map_err(str::to_owned))
    }

    fn of_parquet(
        config: &'a FileScanConfig,
        source: &'a ParquetSource,
    ) -> std::result::Result<Self, &'static str> {
        let schema = source.table_schema();
        if !schema.table_partition_cols().is_empty() {
            return Err("folders name columns");
        }
        if !schema.virtual_columns().is_empty() {
            return Err("columns are of the reader's own");
        }
        if !config.output_ordering.is_empty() || config.output_partitioning.is_some() {
            return Err("an order or a partitioning is declared");
        }
        let mut files: Vec<ObjectMeta> = Vec::new();
        for file in config.file_groups.iter().flat_map(|group| group.files()) {
            if !file.extensions.is_empty() {
                return Err("only parts of the files are read");
            }
            files.push(file.object_meta.clone());
        }
        // A large file may be there in several parts.
        files.sort_by(|a, b| a.location.cmp(&b.location));
        files.dedup();
        if files.windows(2).any(|pair| pair[0].location == pair[1].location) {
            return Err("a file has changed while it was listed");
        }
        let (store, schema) = (config.object_store_url.clone(), Arc::clone(schema.file_schema()));
        let files = Arc::new(FileSet { store, files, schema });
        let columns = files.columns_of(source)?;
        Ok(Self { config, source, files, columns })
    }

    /// False where only parts of the files are read, as later rules of the optimizer have it for the sake of threads, or one
    /// more than once.
    pub(super) fn reads_each_file_once(&self) -> bool {
        let files = || self.config.file_groups.iter().flat_map(|group| group.files());
        files().all(|file| file.range.is_none()) && files().count() == self.files.files.len()
    }
}

impl FileSet {
    /// No files.
    #[cfg(test)]
    pub(super) fn of_nothing() -> Arc<Self> {
        let schema = Arc::new(datafusion::arrow::datatypes::Schema::empty());
        Arc::new(Self { store: ObjectStoreUrl::local_filesystem(), files: Vec::new(), schema })
    }

    /// The columns that `source` reads, by name.
    fn columns_of(&self, source: &ParquetSource) -> std::result::Result<Vec<String>, &'static str> {
        let mut columns: BTreeSet<usize> = BTreeSet::new();
        match source.projection() {
            Some(projection) => columns.extend(projection.column_indices()),
            None => columns.extend(0..self.schema.fields().len()),
        }
        if let Some(filter) = source.filter() {
            columns.extend(collect_columns(&filter).iter().map(Column::index));
        }
        let name = |column: usize| {
            let field = self.schema.fields().get(column).ok_or("a column is none of the files")?;
            if !is_supported(field) {
                return Err("a column is of a type that tables do not have");
            }
            Ok(field.name().clone())
        };
        columns.into_iter().map(name).collect()
    }

    /// What EXPLAIN calls the copy.
    pub(super) fn name(&self) -> String {
        let last = |file: &ObjectMeta| file.location.filename().unwrap_or("file").to_owned();
        match self.files.as_slice() {
            [] => "copy of no files".to_owned(),
            [file] => format!("copy of {}", last(file)),
            [file, others @ ..] => format!("copy of {} and {} more", last(file), others.len()),
        }
    }

    /// Bytes of the files.
    pub(super) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.size).sum()
    }

    /// True where this is what `later` was before: the same names, otherwise something else.
    pub(super) fn is_earlier_state_of(&self, later: &Self) -> bool {
        let names = |set: &Self| set.files.iter().map(|file| file.location.clone()).collect::<Vec<_>>();
        self != later
            && self.store == later.store
            && self.schema == later.schema
            && names(self) == names(later)
    }

    /// The paths or URLs of the files, in order, as `pelton load` takes them.
    ///
    /// # Errors
    ///
    /// `Unsupported` says why it would take one for something else.
    pub(super) fn inputs(&self) -> Result<Vec<String>> {
        let location = (!self.is_local()).then(|| Location::parse(self.store.as_str())).transpose()?;
        let text = |file: &ObjectMeta| {
            if file.location.as_ref().contains(['*', '?', '[']) {
                return Err(Error::unsupported("a name would be taken for a pattern"));
            }
            Ok(match &location {
                Some(location) => location.url_of(&file.location),
                None => format!("/{}", file.location),
            })
        };
        self.files.iter().map(text).collect()
    }

    fn is_local(&self) -> bool {
        self.store.as_str().starts_with("file:")
    }

    /// Holds the files, wherever they are, to what was listed of them. Waits for stores.
    ///
    /// # Errors
    ///
    /// That they have changed, or that nothing would tell; of stores.
    pub(super) fn check_unchanged_blocking(&self, cancel: &CancelFlag) -> Result<()> {
        if self.is_local() {
            return self.check_unchanged();
        }
        let objects = Objects::start(StoreOptions::default(), cancel)?;
        for (file, url) in self.files.iter().zip(self.inputs()?) {
            let is_told =
                file.e_tag.is_some() || SystemTime::from(file.last_modified) > SystemTime::UNIX_EPOCH;
            if !is_told {
                return Err(Error::unsupported(format!("the store does not tell when '{url}' changes")));
            }
            let found = objects.list_blocking(&url)?;
            if !matches!(found.as_slice(), [(found, _)] if is_same_object(found.meta(), file)) {
                return Err(Error::unsupported(format!("'{url}' has changed")));
            }
        }
        Ok(())
    }

    /// Holds the files on disk to what was listed of them; those of stores have just been listed.
    ///
    /// # Errors
    ///
    /// That they have changed.
    pub(super) fn check_unchanged(&self) -> Result<()> {
        if !self.is_local() {
            return Ok(());
        }
        for file in &self.files {
            let path = path_of(file);
            let found = std::fs::metadata(&path).ok();
            let is_same = found.is_some_and(|found| {
                found.len() == file.size
                    && found.modified().is_ok_and(|time| time == SystemTime::from(file.last_modified))
            });
            if !is_same {
                return Err(Error::unsupported(format!("{} has changed", path.display())));
            }
        }
        Ok(())
    }

    /// How long until a change of any of the files would show in its time.
    pub(super) fn settles_in(&self) -> Duration {
        let now = SystemTime::now();
        let left = |file: &ObjectMeta| {
            let age = now.duration_since(SystemTime::from(file.last_modified)).unwrap_or_default();
            SETTLED.saturating_sub(age)
        };
        self.files.iter().map(left).max().unwrap_or_default()
    }

    /// `table`, made of the files, with the columns as scans take them to be.
    ///
    /// # Errors
    ///
    /// Which column would be another.
    pub(super) fn checked(&self, table: Table) -> Result<Table> {
        let schema = table.arrow_schema();
        let mut nullable = Vec::new();
        for field in schema.fields() {
            let wanted = self.schema.field_with_name(field.name());
            match wanted {
                Ok(wanted) if wanted.data_type() == field.data_type() => nullable.push(wanted.is_nullable()),
                _ => {
                    return Err(Error::unsupported(format!(
                        "column '{}' is read as another type",
                        field.name()
                    )));
                }
            }
        }
        table.with_nullable(&nullable)
    }
}

/// Whether two answers of a store are of one state of an object. Listings give fractions of seconds that others do not.
fn is_same_object(a: &ObjectMeta, b: &ObjectMeta) -> bool {
    let is_same_tag = match (&a.e_tag, &b.e_tag) {
        (Some(a), Some(b)) => a == b,
        _ => true,
    };
    let is_same_time = a.last_modified.timestamp() == b.last_modified.timestamp();
    (&a.location, a.size) == (&b.location, b.size) && is_same_time && is_same_tag
}

fn path_of(file: &ObjectMeta) -> PathBuf {
    Path::new("/").join(file.location.as_ref())
}

/// True where a table has the column as the reader gives it.
fn is_supported(field: &Field) -> bool {
    let own = |data_type: &DataType| LogicalType::from_arrow(data_type).map(|logical| logical.to_arrow());
    field.metadata().is_empty() && own(field.data_type()).as_ref() == Some(field.data_type())
}
