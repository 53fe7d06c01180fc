//! Dimension tables in memory, as the row groups of a fact table refer to them.
//!
//! ```text
//!  fact row ─key look-up─▶ row of customer ─precomputed─▶ row of nation ─precomputed─▶ row of region
//!                              │                              │                            │
//!                           attributes                     attributes                   attributes
//!                     number of the value for each row; the distinct values once, ascending
//! ```
//!
//! A dimension that declares star links of its own (a snowflake) is followed up to `HOPS_MAX` links, never
//! through the same table twice. Left out are the key itself, which the fact column repeats, and text that
//! filters do not name or metadata cannot hold: more than `TEXT_VALUES_MAX` distinct values or a value
//! longer than `TEXT_BYTES_MAX` (comments, addresses, names of persons).
//!
//! Bound: 4 bytes a dimension row and attribute, and the distinct values; counted against the budget.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, UInt32Array, new_empty_array};
use arrow::compute::{cast, concat, take};
use arrow::datatypes::DataType;
use arrow::row::{RowConverter, SortField};
use pelton_error::{Error, Result, ResultExt};
use pelton_store::{
    IoEngine, IoMode, IoOptions, LogicalType, SidewaysLink, Table, TableId, Warehouse, column_from_arrow,
    column_to_arrow, read_chunk,
};

use crate::key_index::{KeyIndex, NO_ROW};
use crate::keys::Interner;
use crate::request::StarLink;
use pelton_error::CancelFlag;

/// The longest chain of links that is followed.
const HOPS_MAX: usize = 4;
/// Text attributes with more distinct values are left out.
const TEXT_VALUES_MAX: usize = 4096;
/// Text attributes with a longer value are left out.
const TEXT_BYTES_MAX: usize = 64;

/// What the key index takes, at a guess: slots of a half empty vector, or entries of a hash table.
const INDEX_BYTES_PER_ROW: u64 = 16;

/// Marks a NULL among value numbers.
pub(crate) const NO_VALUE: u32 = u32::MAX;

/// One dimension, reached over one chain of links.
pub(crate) struct Dimension {
    /// From the fact table to this one; ends with the link to this one.
    pub(crate) path: Vec<SidewaysLink>,
    /// The id of each table on the path, as it was read.
    pub(crate) table_ids: Vec<TableId>,
    pub(crate) row_count: usize,
    /// From the values of the referring column to rows.
    pub(crate) index: KeyIndex,
    pub(crate) attributes: Vec<Attribute>,
    /// Dimensions of this dimension.
    pub(crate) next: Vec<Reference>,
}

/// The rows of a further dimension that the rows of this one refer to.
pub(crate) struct Reference {
    /// The first matching row for each row of the referring dimension, or `NO_ROW`.
    pub(crate) rows: Vec<u32>,
    pub(crate) dimension: Dimension,
}

/// A column of a dimension.
pub(crate) struct Attribute {
    pub(crate) name: String,
    pub(crate) logical: LogicalType,
    /// The number of each row's value, ascending with the value; `NO_VALUE` for NULL.
    pub(crate) codes: Vec<u32>,
    /// The value of each number.
    pub(crate) values: ArrayRef,
}

/// Loads what `links` declare for a fact table; warnings name what is left out.
pub(crate) struct DimensionLoader<'a> {
    warehouse: &'a Warehouse,
    engine: IoEngine,
    cancel: &'a CancelFlag,
    pub(crate) warnings: Vec<String>,
}

impl<'a> DimensionLoader<'a> {
    pub(crate) fn new(warehouse: &'a Warehouse, cancel: &'a CancelFlag) -> Result<Self> {
        // Dimensions were loaded a moment ago or are read often: they come from the page cache.
        let options =
            IoOptions { mode: IoMode::Buffered, ring: false, pool_bytes: 0, ..IoOptions::default() };
        Ok(Self { warehouse, engine: IoEngine::start(options)?, cancel, warnings: Vec::new() })
    }

    /// The dimension behind `link`, whose referring column has type `referring`.
    pub(crate) fn load(&mut self, link: &StarLink, referring: &LogicalType) -> Result<Dimension> {
        let link = SidewaysLink {
            fact_column: link.fact_column.clone(),
            dimension_table: link.dimension_table.clone(),
            dimension_key: link.dimension_key.clone(),
        };
        let table = self.warehouse.table(&link.dimension_table).context(|| {
            format!(
                "star link {} = {}.{}: load the dimension first",
                link.fact_column, link.dimension_table, link.dimension_key
            )
        })?;
        self.load_table(&table, vec![link], Vec::new(), referring)
    }

    fn load_table(
        &mut self,
        table: &Arc<Table>,
        path: Vec<SidewaysLink>,
        mut table_ids: Vec<TableId>,
        referring: &LogicalType,
    ) -> Result<Dimension> {
        table_ids.push(table.id());
        let link = path.last().expect("a path has a link");
        let key = column_index(table, &link.dimension_key)?;
        let key_type = &table.schema().columns[key].logical;
        let index = KeyIndex::build(&self.read(table, key)?, key_type, referring).context(|| {
            format!("star link {} = {}.{}", link.fact_column, table.name(), link.dimension_key)
        })?;
        let mut attributes = Vec::new();
        for (position, column) in table.schema().columns.iter().enumerate() {
            self.cancel.check()?;
            if position != key {
                attributes.extend(self.load_attribute(&column.name, &column.logical, table, position)?);
            }
        }
        let next = self.load_next(table, &path, &table_ids)?;
        let row_count = table.row_count() as usize;
        Ok(Dimension { path, table_ids, row_count, index, attributes, next })
    }

    /// The dimensions that `table` itself declares.
    fn load_next(
        &mut self,
        table: &Arc<Table>,
        path: &[SidewaysLink],
        table_ids: &[TableId],
    ) -> Result<Vec<Reference>> {
        let mut references = Vec::new();
        if path.len() == HOPS_MAX {
            return Ok(references);
        }
        for link in own_links(table) {
            if path.iter().any(|step| step.dimension_table == link.dimension_table) {
                continue;
            }
            let further = match self.warehouse.table(&link.dimension_table) {
                Ok(further) => further,
                Err(error) => {
                    self.warnings.push(format!("metadata stops at '{}': {error}", table.name()));
                    continue;
                }
            };
            let position = column_index(table, &link.fact_column)?;
            let referring = &table.schema().columns[position].logical;
            let path = [path, std::slice::from_ref(&link)].concat();
            let dimension = self.load_table(&further, path, table_ids.to_vec(), referring)?;
            let rows = dimension.index.look_up(&column_from_arrow(&self.read(table, position)?, referring)?);
            references.push(Reference { rows, dimension });
        }
        Ok(references)
    }

    /// Reads and numbers a column; `None` where it is left out.
    fn load_attribute(
        &self,
        name: &str,
        logical: &LogicalType,
        table: &Arc<Table>,
        position: usize,
    ) -> Result<Option<Attribute>> {
        let is_text = matches!(logical, LogicalType::Utf8 | LogicalType::Binary);
        // The summary's count is an estimate; the exact one is held against the bound below.
        if is_text && table.column_summary(position).distinct_count > 2 * TEXT_VALUES_MAX as u64 {
            return Ok(None);
        }
        let (codes, values) = number_values(&self.read(table, position)?)?;
        if is_text && (values.len() > TEXT_VALUES_MAX || longest_value(&values) > TEXT_BYTES_MAX) {
            return Ok(None);
        }
        Ok(Some(Attribute { name: name.to_string(), logical: logical.clone(), codes, values }))
    }

    /// All rows of a column.
    fn read(&self, table: &Arc<Table>, column: usize) -> Result<ArrayRef> {
        let logical = &table.schema().columns[column].logical;
        let mut arrays = vec![new_empty_array(&logical.to_arrow())];
        for row_group in 0..table.row_group_count() {
            self.cancel.check()?;
            let bytes = read_chunk(&self.engine, table, row_group, column)?.wait_blocking()?;
            let decoded = table.chunk_view(row_group, column, &bytes)?.decode();
            let array = decoded.and_then(|decoded| column_to_arrow(decoded, logical));
            arrays.push(array.map_err(|error| table.of_chunk(row_group, column, error))?);
        }
        let arrays: Vec<&dyn Array> = arrays.iter().map(|array| array.as_ref()).collect();
        concat(&arrays).map_err(|error| Error::unsupported("the dimension is too large").with_source(error))
    }
}

/// The links that `table` was loaded with.
pub(crate) fn own_links(table: &Table) -> Vec<SidewaysLink> {
    let mut links: Vec<SidewaysLink> = Vec::new();
    for column in table.sideways() {
        let first = &column.path[0];
        if !links.contains(first) {
            links.push(first.clone());
        }
    }
    links
}

fn column_index(table: &Table, name: &str) -> Result<usize> {
    table.schema().index_of(name).ok_or_else(|| {
        let names: Vec<&str> = table.schema().columns.iter().map(|column| column.name.as_str()).collect();
        Error::invalid_input(format!(
            "table '{}' has no column '{name}'; it has {}",
            table.name(),
            names.join(", ")
        ))
    })
}

/// The ascending distinct values of `array`, and for each row the number of its value.
fn number_values(array: &ArrayRef) -> Result<(Vec<u32>, ArrayRef)> {
    let bug = "numbering the values of a dimension";
    let converter = RowConverter::new(vec![SortField::new(array.data_type().clone())])
        .map_err(|error| Error::invalid_input(bug).with_source(error))?;
    let rows = converter
        .convert_columns(std::slice::from_ref(array))
        .map_err(|error| Error::invalid_input(bug).with_source(error))?;
    let (mut interner, mut ids) = (Interner::default(), Vec::new());
    interner.intern(&rows, &mut ids);
    let ranks = interner.ranks();
    // NULL, where there is one, sorts first and gets no number.
    let skipped = u32::from(array.null_count() > 0);
    let mut examples = vec![0u32; ranks.len() - skipped as usize];
    let mut codes = Vec::with_capacity(ids.len());
    for (row, id) in ids.into_iter().enumerate() {
        match ranks[id as usize].checked_sub(skipped) {
            Some(code) => {
                examples[code as usize] = row as u32;
                codes.push(code);
            }
            None => codes.push(NO_VALUE),
        }
    }
    let values = take(array, &UInt32Array::from(examples), None)
        .and_then(|values| cast(&values, &compact_type(array.data_type())))
        .map_err(|error| Error::invalid_input(bug).with_source(error))?;
    Ok((codes, values))
}

/// A type whose arrays keep nothing alive but their own values.
fn compact_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        other => other.clone(),
    }
}

fn longest_value(values: &ArrayRef) -> usize {
    match values.data_type() {
        DataType::Utf8 => values.as_string::<i32>().iter().flatten().map(str::len).max().unwrap_or(0),
        DataType::Binary => values.as_binary::<i32>().iter().flatten().map(<[u8]>::len).max().unwrap_or(0),
        _ => 0,
    }
}

impl Dimension {
    /// For each of `rows`, the row of the dimension at the end of `steps`.
    pub(crate) fn follow<'a>(&'a self, mut rows: Vec<u32>, steps: &[usize]) -> (&'a Dimension, Vec<u32>) {
        let mut dimension = self;
        for &step in steps {
            let reference = &dimension.next[step];
            for row in &mut rows {
                if *row != NO_ROW {
                    *row = reference.rows[*row as usize];
                }
            }
            dimension = &reference.dimension;
        }
        (dimension, rows)
    }

    /// Bytes held, nearly.
    pub(crate) fn bytes(&self) -> u64 {
        let attributes = self
            .attributes
            .iter()
            .map(|attribute| (4 * attribute.codes.len() + attribute.values.get_array_memory_size()) as u64);
        let next =
            self.next.iter().map(|reference| 4 * reference.rows.len() as u64 + reference.dimension.bytes());
        attributes.sum::<u64>() + next.sum::<u64>() + INDEX_BYTES_PER_ROW * self.row_count as u64
    }
}
