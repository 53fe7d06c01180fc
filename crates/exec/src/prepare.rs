//! The source of a pipeline: how its columns are stored, dictionaries, rows that a caller gives.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use pelton_chunk::{Layout, Transform};
use pelton_error::{Error, Result};
use pelton_pipeline::codegen::{RowsLayout, SourceColumn, StoredAs};
use pelton_pipeline::ir::{Pipeline, Source, TableScan, Type};
use pelton_pipeline::{Dictionary, RowColumn, RowValues, Rows, TextSource};
use pelton_scan::{ColumnText, formats};
use pelton_store::Table;

use super::execution::Execution;
use super::host_input::{CopiedInput, copy_rows, stored_as};
use super::partitions::Waiting;

/// The source of a pipeline, ready to be read.
pub(super) struct Prepared {
    pub(super) columns: Vec<SourceColumn>,
    pub(super) dictionaries: HashMap<usize, Arc<Dictionary>>,
    pub(super) texts: Vec<(usize, Arc<ColumnText>)>,
    pub(super) host_input: Option<CopiedInput>,
    /// The pipeline whose groups they are.
    pub(super) groups: Option<usize>,
    pub(super) row_count: u64,
    /// Rows that wait for the partitions of a table, if they are the source.
    pub(super) waiting: Option<Waiting>,
    /// It is read by a part of a pipeline, whose kernel is nobody else's.
    pub(super) is_part: bool,
    /// What came out of that part, if rows did.
    pub(super) rows_layout: Option<RowsLayout>,
}

impl Prepared {
    pub(super) fn of(row_count: u64) -> Self {
        Self {
            columns: Vec::new(),
            dictionaries: HashMap::new(),
            texts: Vec::new(),
            host_input: None,
            groups: None,
            row_count,
            waiting: None,
            is_part: false,
            rows_layout: None,
        }
    }

    /// Of so many rows like `rows`, which are not on the device yet.
    pub(super) fn of_rows(rows: &Rows, row_count: u64) -> Self {
        // What plain chunks may come out as.
        let formats = BTreeSet::from([(Transform::None, Layout::Plain), (Transform::None, Layout::Constant)]);
        let source = |column: &RowColumn| SourceColumn {
            stored: stored_as(&column.values),
            formats: formats.clone(),
            widths: None,
        };
        let mut prepared = Self::of(row_count);
        prepared.columns = rows.columns.iter().map(source).collect();
        for (index, column) in rows.columns.iter().enumerate() {
            if let RowValues::Text { dictionary, .. } = &column.values {
                prepared.dictionaries.insert(index, Arc::clone(dictionary));
            }
        }
        prepared
    }
}

impl Execution<'_> {
    pub(super) fn prepare(&self, pipeline: &Pipeline) -> Result<Prepared> {
        match &pipeline.source {
            Source::Table(scan) => self.prepare_table(pipeline, scan),
            Source::HostInput(host_input) => self.prepare_host_input(pipeline, *host_input),
            Source::Groups(from) => {
                let missing = || {
                    let name = &pipeline.name;
                    Error::invalid_input(format!("pipeline '{name}' reads groups that no pipeline has made"))
                };
                let groups = self.groups.get(from).ok_or_else(missing)?;
                let columns = (0..pipeline.columns.len()).map(SourceColumn::of_groups).collect();
                Ok(Prepared { columns, groups: Some(*from), ..Prepared::of(groups.count()) })
            }
        }
    }

    fn prepare_table(&self, pipeline: &Pipeline, scan: &TableScan) -> Result<Prepared> {
        let mut prepared =
            Prepared::of(scan.row_groups.iter().map(|group| row_count(&scan.table, *group)).sum());
        for (k, &table_column) in scan.columns.iter().enumerate() {
            let physical = scan.table.schema().columns[table_column].logical.physical_type();
            let stored = match pipeline.columns[k].ty {
                Type::Text if pipeline.columns[k].text.is_none() => StoredAs::TextViews,
                Type::Text => {
                    let text = self.runtime.column_cache.text(&scan.table, table_column);
                    prepared.dictionaries.insert(k, text.dictionary()?);
                    let is_by_row = text.is_by_row()?;
                    prepared.texts.push((k, text));
                    if is_by_row { StoredAs::TextRows } else { StoredAs::TextCodes }
                }
                _ => StoredAs::Values(physical),
            };
            prepared.columns.push(SourceColumn {
                stored,
                formats: formats(&scan.table, table_column, &scan.row_groups)?
                    .into_iter()
                    .collect::<BTreeSet<_>>(),
                widths: self.runtime.column_cache.widths(&scan.table, table_column),
            });
        }
        Ok(prepared)
    }

    fn prepare_host_input(&self, pipeline: &Pipeline, host_input: usize) -> Result<Prepared> {
        let rows = self.host_inputs.get(host_input).cloned().ok_or_else(|| {
            Error::invalid_input(format!(
                "host input {host_input} of pipeline '{}' is not there",
                pipeline.name
            ))
        })?;
        let copied =
            copy_rows(&rows, 0..rows.row_count, self.worker.device, self.stream(), self.trace.is_some())?;
        let mut dictionaries = HashMap::new();
        for (k, column) in rows.columns.iter().enumerate() {
            if let RowValues::Text { dictionary, .. } = &column.values {
                dictionaries.insert(k, Arc::clone(dictionary));
            }
        }
        Ok(Prepared {
            columns: copied.columns.clone(),
            dictionaries,
            host_input: Some(copied),
            ..Prepared::of(rows.row_count as u64)
        })
    }
}

fn row_count(table: &Table, group: u32) -> u64 {
    u64::from(table.row_group(group as usize).row_count)
}
