//! Writing a table, so that it is its old or its new self whatever happens.
//!
//! ```text
//!   begin    take the lock; remove what killed writers left
//!   append   row group after row group into data-<id>.pel (a new segment every 1024 row groups)
//!   commit   1. write meta-<id>.pel             2. fsync both files
//!            3. write manifest.tmp, fsync it    4. rename it over manifest      <- the commit
//!            5. fsync the directory             6. unlink replaced segments
//!   drop     without commit: remove everything this writer made
//! ```
//!
//! A crash before 4 leaves files no manifest names, which readers never see and the next writer removes;
//! after 4 the table is new. Readers need no lock.
//!
//! Memory: zone maps of one segment, about 1.5 KB a chunk; row groups go straight to the file.

mod segment_writer;

use std::path::PathBuf;
use std::sync::Arc;

use pelton_error::{Error, ErrorKind, Result, ResultExt};

use self::segment_writer::{FinishedSegment, SegmentWriter};
use crate::disk::{random_u64, remove_segments_except, sync_directory, write_synced};
use crate::encode::EncodedRowGroup;
use crate::format::manifest::{Manifest, SegmentEntry};
use crate::format::{LOCK, MANIFEST, MANIFEST_TEMPORARY};
use crate::lock::TableLock;
use crate::plan::{ColumnChoice, TablePlan};
use crate::schema::TableSchema;
use crate::sideways::{SidewaysColumn, TableId};
use crate::summary::SummaryBuilder;
use crate::table::Table;
use crate::warehouse::{Warehouse, check_name, read_manifest};

/// A writer starts another segment after this many row groups, which bounds the zone maps it holds.
const SEGMENT_ROW_GROUPS_MAX: usize = 1024;

/// What becomes of rows the table has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteMode {
    /// There must be no table of this name.
    Create,
    /// They stay; the schema must agree. A missing table is created.
    Append,
    /// They go. A missing table is created.
    Replace,
}

/// What a writer is told when it begins.
#[derive(Debug, Clone, Default)]
pub struct WriteOptions {
    /// Sideways columns whose zone maps every appended row group brings.
    pub sideways: Vec<SidewaysColumn>,
    /// The table need not outlive this process: nothing waits until its files are on the disk.
    pub is_scratch: bool,
}

/// Writes one commit of one table. Dropped without [`commit`](Self::commit), it removes what it wrote.
pub struct TableWriter {
    warehouse: Warehouse,
    name: String,
    dir: PathBuf,
    lock: Option<TableLock>,
    schema: TableSchema,
    mode: WriteMode,
    options: WriteOptions,
    /// The table as it is, where there is one.
    previous: Option<Arc<Table>>,
    plan: Option<TablePlan>,
    cluster_by: Vec<String>,
    summaries: Vec<SummaryBuilder>,
    current: Option<SegmentWriter>,
    finished: Vec<FinishedSegment>,
    committed: bool,
}

impl TableWriter {
    /// Takes the lock of table `name` and checks that the write can be: before any row is read.
    ///
    /// # Errors
    ///
    /// Another writer (named by its process); `Create` over a table; `Append` of another schema.
    pub fn begin(
        warehouse: &Warehouse,
        name: &str,
        schema: TableSchema,
        mode: WriteMode,
        options: WriteOptions,
    ) -> Result<Self> {
        check_name(name)?;
        let dir = warehouse.table_dir(name);
        let lock = TableLock::acquire(&dir, name)?;
        let mut writer = Self {
            warehouse: warehouse.clone(),
            name: name.to_string(),
            dir,
            lock: Some(lock),
            schema,
            mode,
            options,
            previous: None,
            plan: None,
            cluster_by: Vec::new(),
            summaries: Vec::new(),
            current: None,
            finished: Vec::new(),
            committed: false,
        };
        writer.previous = writer.open_previous()?;
        writer.check_previous()?;
        writer.remove_leftovers()?;
        writer.summaries = writer.summaries_so_far()?;
        Ok(writer)
    }

    /// The table that is appended to or replaced. One too damaged to open may still be replaced.
    fn open_previous(&self) -> Result<Option<Arc<Table>>> {
        match Table::open(&self.dir, &self.name) {
            Ok(table) => Ok(table.map(Arc::new)),
            Err(error) if self.mode == WriteMode::Replace && *error.kind() == ErrorKind::Corrupt => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn check_previous(&mut self) -> Result<()> {
        let Some(previous) = &self.previous else { return Ok(()) };
        match self.mode {
            WriteMode::Replace => {}
            WriteMode::Create => {
                return Err(Error::invalid_input(format!(
                    "there is a table '{}' already; append to it (--append) or replace it (--replace)",
                    self.name
                )));
            }
            WriteMode::Append => {
                let doing = || format!("appending to table '{}'", self.name);
                self.schema = previous.schema().merged_with(&self.schema).context(doing)?;
            }
        }
        Ok(())
    }

    fn remove_leftovers(&self) -> Result<()> {
        match &self.previous {
            Some(previous) => remove_segments_except(&self.dir, &previous.manifest().segments),
            // A damaged manifest names segments that may still be wanted until the replace commits.
            None if self.dir.join(MANIFEST).exists() => Ok(()),
            None => remove_segments_except(&self.dir, &[]),
        }
    }

    fn summaries_so_far(&self) -> Result<Vec<SummaryBuilder>> {
        let columns = 0..self.schema.columns.len();
        match self.appended_to() {
            None => Ok(columns.map(|_| SummaryBuilder::new()).collect()),
            Some(table) => columns
                .map(|column| {
                    let summary = table.column_summary(column).clone();
                    Ok(SummaryBuilder::continue_from(summary, table.row_count(), table.sketch(column)?))
                })
                .collect(),
        }
    }

    /// The table this write appends to: its rows stay, and its row group and page sizes hold.
    pub fn appended_to(&self) -> Option<&Arc<Table>> {
        self.previous.as_ref().filter(|_| self.mode == WriteMode::Append)
    }

    /// The schema the table will have.
    pub fn schema(&self) -> &TableSchema {
        &self.schema
    }

    /// Says how rows are written; once, before the first row group. Appending keeps the row group size of the
    /// table, so the plan must have it.
    pub fn set_plan(&mut self, plan: &TablePlan) -> Result<()> {
        assert!(self.plan.is_none(), "a writer has one plan");
        assert_eq!(plan.columns.len(), self.schema.columns.len());
        plan.validate()?;
        if let Some(table) = self.appended_to()
            && (table.row_group_rows() != plan.row_group_rows || table.page_rows() != plan.page_rows)
        {
            return Err(Error::invalid_input(format!(
                "table '{}' has {} rows a row group and {} a page, and appending keeps them; leave these sizes out, or \
                 replace the table",
                self.name,
                table.row_group_rows(),
                table.page_rows()
            )));
        }
        self.plan = Some(plan.clone());
        Ok(())
    }

    /// Records by what the rows that are appended are sorted, most significant first.
    pub fn set_cluster_by(&mut self, columns: Vec<String>) {
        self.cluster_by = columns;
    }

    /// Writes the next row group. All but the last have the plan's number of rows.
    pub fn append(&mut self, row_group: EncodedRowGroup) -> Result<()> {
        let plan = self.plan.as_ref().expect("the plan is set before row groups are appended");
        assert!(row_group.row_count <= plan.row_group_rows);
        let is_full = row_group.row_count == plan.row_group_rows;
        assert_eq!(row_group.columns.len(), self.schema.columns.len());
        assert_eq!(row_group.sideways.len(), self.options.sideways.len());
        assert!(!self.is_last_short(), "only the last row group may be short");
        self.refuse_nulls(&row_group)?;
        if self.current.as_ref().is_some_and(|segment| segment.row_group_count() == SEGMENT_ROW_GROUPS_MAX) {
            self.finish_segment()?;
        }
        if self.current.is_none() {
            let segment = SegmentWriter::create(&self.dir, &self.schema, self.options.sideways.len())?;
            self.current = Some(segment.scratch(self.options.is_scratch));
        }
        for (summary, column) in self.summaries.iter_mut().zip(&row_group.columns) {
            summary.add(&column.zone_map, &column.sketch, column.chunk.len() as u64, column.raw_bytes);
        }
        self.current.as_mut().expect("just made").append(row_group, is_full)
    }

    fn is_last_short(&self) -> bool {
        self.current.as_ref().is_some_and(|segment| !segment.is_last_full())
    }

    fn refuse_nulls(&self, row_group: &EncodedRowGroup) -> Result<()> {
        let broken = self
            .schema
            .columns
            .iter()
            .zip(&row_group.columns)
            .find(|(schema, column)| !schema.nullable && column.zone_map.null_count > 0);
        match broken {
            None => Ok(()),
            Some((schema, _)) => Err(Error::invalid_input(format!(
                "column '{}' of table '{}' is declared without NULLs and has one; declare it nullable",
                schema.name, self.name
            ))),
        }
    }

    fn finish_segment(&mut self) -> Result<()> {
        let Some(segment) = self.current.take() else { return Ok(()) };
        let finished = segment.finish()?;
        for (summary, bytes) in self.summaries.iter_mut().zip(&finished.metadata_bytes) {
            summary.add_metadata_bytes(*bytes);
        }
        self.finished.push(finished);
        Ok(())
    }

    /// Makes what was appended the table, all at once, and opens it.
    pub fn commit(mut self) -> Result<Arc<Table>> {
        self.finish_segment()?;
        let manifest = self.next_manifest()?;
        let temporary = self.dir.join(MANIFEST_TEMPORARY);
        write_synced(&temporary, &manifest.to_bytes())?;
        let path = self.dir.join(MANIFEST);
        std::fs::rename(&temporary, &path).context(|| format!("putting {} in place", path.display()))?;
        self.committed = true;
        sync_directory(&self.dir)?;
        sync_directory(self.warehouse.dir())?;
        // The commit stands; what cannot be removed now the next writer removes.
        let _ = remove_segments_except(&self.dir, &manifest.segments);
        // Opened under the lock, so that it is this commit and no later one.
        let table = self.warehouse.table(&self.name)?;
        self.lock = None;
        Ok(table)
    }

    fn next_manifest(&mut self) -> Result<Manifest> {
        let appended_to = self.appended_to().map(|table| table.manifest().clone());
        let (sideways, mut segments) = self.merge_sideways(appended_to.as_ref());
        let (choices, row_group_rows, page_rows) = match (&self.plan, &appended_to) {
            (Some(plan), _) => (compacted(&plan.columns), plan.row_group_rows, plan.page_rows),
            (None, Some(table)) => (table.choices.clone(), table.row_group_rows, table.page_rows),
            (None, None) => {
                let sizes = TablePlan::new(Vec::new());
                (Vec::new(), sizes.row_group_rows, sizes.page_rows)
            }
        };
        segments.retain(|segment| segment.row_count > 0);
        let generation = match &self.previous {
            Some(previous) => previous.generation() + 1,
            None => read_manifest(&self.dir).ok().flatten().map_or(1, |manifest| manifest.generation + 1),
        };
        Ok(Manifest {
            id: TableId(random_u64()?),
            generation,
            schema: self.schema.clone(),
            row_group_rows,
            page_rows,
            segments,
            summaries: std::mem::take(&mut self.summaries).into_iter().map(SummaryBuilder::finish).collect(),
            choices,
            sideways,
            cluster_by: self.merge_cluster_by(appended_to.as_ref()),
        })
    }

    /// An order survives an append where old and new rows have it.
    fn merge_cluster_by(&self, old: Option<&Manifest>) -> Vec<String> {
        match old {
            Some(old) if self.finished.is_empty() || old.cluster_by == self.cluster_by => {
                old.cluster_by.clone()
            }
            Some(old) if !old.segments.is_empty() => Vec::new(),
            _ => self.cluster_by.clone(),
        }
    }

    /// A sideways column survives an append where old and new segments have it, for the same dimensions.
    fn merge_sideways(&self, old: Option<&Manifest>) -> (Vec<SidewaysColumn>, Vec<SegmentEntry>) {
        let declared = &self.options.sideways;
        let kept: Vec<(usize, Option<usize>)> = (0..declared.len())
            .filter_map(|new_index| match old {
                Some(old) if !old.segments.is_empty() => {
                    let old_index = old.sideways.iter().position(|column| *column == declared[new_index])?;
                    Some((new_index, Some(old_index)))
                }
                _ => Some((new_index, None)),
            })
            .collect();
        let old_segments = old.map_or(&[][..], |old| &old.segments).iter().map(|segment| SegmentEntry {
            sideways: kept
                .iter()
                .filter_map(|(_, old_index)| old_index.map(|index| segment.sideways[index]))
                .collect(),
            ..segment.clone()
        });
        let new_segments = self.finished.iter().map(|segment| SegmentEntry {
            sideways: kept.iter().map(|(new_index, _)| *new_index as u32).collect(),
            ..segment.entry.clone()
        });
        let columns = kept.iter().map(|(new_index, _)| declared[*new_index].clone()).collect();
        (columns, old_segments.chain(new_segments).collect())
    }
}

impl Drop for TableWriter {
    fn drop(&mut self) {
        if self.committed {
            return;
        }
        // Nothing here can be reported any more; what cannot be removed now the next writer removes.
        let made =
            self.current.iter().map(SegmentWriter::id).chain(self.finished.iter().map(|done| done.entry.id));
        for id in made {
            let _ = std::fs::remove_file(id.data_path(&self.dir));
            let _ = std::fs::remove_file(id.meta_path(&self.dir));
        }
        let _ = std::fs::remove_file(self.dir.join(MANIFEST_TEMPORARY));
        if self.lock.is_some() && !self.dir.join(MANIFEST).exists() {
            let _ = std::fs::remove_file(self.dir.join(LOCK));
            let _ = std::fs::remove_dir(&self.dir);
        }
    }
}

/// Runners-up kept in the manifest for each column.
const CANDIDATES_KEPT: usize = 16;

fn compacted(choices: &[ColumnChoice]) -> Vec<ColumnChoice> {
    let mut choices = choices.to_vec();
    for choice in &mut choices {
        choice.candidates.truncate(CANDIDATES_KEPT);
    }
    choices
}
