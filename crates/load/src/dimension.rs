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
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{Array, ArrayRef, AsArray, UInt32Array, new_empty_array};
use arrow::compute::{cast, concat, take};
use arrow::datatypes::DataType;
use arrow::row::{RowConverter, SortField};
use pelton_chunk::Values;
use pelton_error::{Error, Result, ResultExt};
use pelton_io::{IoEngine, IoMode, IoOptions};
use pelton_store::{
    LogicalType, SidewaysLink, Table, TableId, Warehouse, column_from_arrow, column_to_arrow, read_chunk,
};

use crate::budget::Budget;
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

/// What numbering the values of a column takes for each row, at a guess: the rows as they were read, whole, and the words
/// that are sorted.
const NUMBERING_BYTES_PER_ROW: u64 = 64;
/// Numbers are counted off where their range is at most so many times as long as there are rows.
const DENSE_VALUES_PER_ROW: u64 = 8;

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
    budget: &'a Budget,
    thread_count: usize,
    cancel: &'a CancelFlag,
    pub(crate) warnings: Vec<String>,
}

impl<'a> DimensionLoader<'a> {
    pub(crate) fn new(
        warehouse: &'a Warehouse,
        budget: &'a Budget,
        thread_count: usize,
        cancel: &'a CancelFlag,
    ) -> Result<Self> {
        // Dimensions were loaded a moment ago or are read often: they come from the page cache.
        let options =
            IoOptions { mode: IoMode::Buffered, ring: false, pool_bytes: 0, ..IoOptions::default() };
        let engine = IoEngine::start(options)?;
        Ok(Self { warehouse, engine, budget, thread_count, cancel, warnings: Vec::new() })
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
        let attributes = self.load_attributes(table, key)?;
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

    /// All attributes that are not left out, several at once as far as the memory limit allows.
    fn load_attributes(&self, table: &Arc<Table>, key: usize) -> Result<Vec<Attribute>> {
        let columns = &table.schema().columns;
        let positions: Vec<usize> = (0..columns.len()).filter(|&position| position != key).collect();
        let numbered_bytes = table.row_count().max(1).saturating_mul(NUMBERING_BYTES_PER_ROW);
        let threads_max = self.thread_count.min(positions.len()).max(1) as u64;
        let at_once = (self.budget.dimension_bytes() / numbered_bytes).clamp(1, threads_max);
        let next = AtomicUsize::new(0);
        let load_some = || -> Result<Vec<(usize, Attribute)>> {
            let mut loaded = Vec::new();
            while let Some(&position) = positions.get(next.fetch_add(1, Ordering::Relaxed)) {
                self.cancel.check()?;
                let column = &columns[position];
                let attribute = self.load_attribute(&column.name, &column.logical, table, position)?;
                loaded.extend(attribute.map(|attribute| (position, attribute)));
            }
            Ok(loaded)
        };
        let loaded = std::thread::scope(|threads| {
            let others: Vec<_> = (1..at_once).map(|_| threads.spawn(load_some)).collect();
            let mut loaded = vec![load_some()];
            loaded.extend(others.into_iter().map(|other| match other.join() {
                Ok(loaded) => loaded,
                Err(panic) => std::panic::resume_unwind(panic),
            }));
            loaded
        });
        let mut loaded: Vec<(usize, Attribute)> =
            loaded.into_iter().collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
        loaded.sort_by_key(|(position, _)| *position);
        Ok(loaded.into_iter().map(|(_, attribute)| attribute).collect())
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
        let (codes, values) = number_values(&self.read(table, position)?, logical)?;
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

/// The ascending distinct values of `array`, which is `logical`, and for each row the number of its value.
fn number_values(array: &ArrayRef, logical: &LogicalType) -> Result<(Vec<u32>, ArrayRef)> {
    let words = match logical {
        LogicalType::Utf8 | LogicalType::Binary => None,
        _ => ordered_words(&column_from_arrow(array, logical)?.values),
    };
    let (codes, examples) = match words {
        Some(words) => number_words(&words, |row| array.is_valid(row)),
        None => number_rows(array)?,
    };
    let values = take(array, &UInt32Array::from(examples), None)
        .and_then(|values| cast(&values, &compact_type(array.data_type())))
        .map_err(|error| Error::invalid_input("numbering the values of a dimension").with_source(error))?;
    Ok((codes, values))
}

/// The values as words that are ordered as they are; `None` for values of more bytes.
fn ordered_words(values: &Values) -> Option<Vec<u64>> {
    const SIGN: u64 = 1 << 63;
    fn signed<T: Copy + Into<i64>>(values: &[T]) -> Vec<u64> {
        values.iter().map(|&value| value.into() as u64 ^ SIGN).collect()
    }
    fn unsigned<T: Copy + Into<u64>>(values: &[T]) -> Vec<u64> {
        values.iter().map(|&value| value.into()).collect()
    }
    // Those of negative numbers fall as the numbers do; -0.0 is before 0.0, as in arrow's row format.
    let of_float = |bits: u64| if bits & SIGN == 0 { bits | SIGN } else { !bits };
    Some(match values {
        Values::U8(values) => unsigned(values),
        Values::U16(values) => unsigned(values),
        Values::U32(values) => unsigned(values),
        Values::U64(values) => unsigned(values),
        Values::I8(values) => signed(values),
        Values::I16(values) => signed(values),
        Values::I32(values) => signed(values),
        Values::I64(values) => signed(values),
        Values::F32(values) => values.iter().map(|&value| of_float(f64::from(value).to_bits())).collect(),
        Values::F64(values) => values.iter().map(|value| of_float(value.to_bits())).collect(),
        // Decimals of many digits mostly have few.
        Values::I128(values) => {
            let word = |&value: &i128| i64::try_from(value).ok().map(|value| value as u64 ^ SIGN);
            values.iter().map(word).collect::<Option<_>>()?
        }
        Values::Bytes(_) => return None,
    })
}

/// The number of each row's word, and for each number a row that has it.
fn number_words(words: &[u64], is_valid: impl Fn(usize) -> bool) -> (Vec<u32>, Vec<u32>) {
    let valid = || words.iter().enumerate().filter(|(row, _)| is_valid(*row)).map(|(row, &word)| (word, row));
    let mut codes = vec![NO_VALUE; words.len()];
    let mut examples = Vec::new();
    let least = valid().map(|(word, _)| word).min().unwrap_or(0);
    let span = valid().map(|(word, _)| word - least).max().unwrap_or(0);
    if span <= DENSE_VALUES_PER_ROW * words.len() as u64 {
        let mut numbers = vec![NO_VALUE; span as usize + 1];
        for (word, row) in valid() {
            numbers[(word - least) as usize] = row as u32;
        }
        for number in numbers.iter_mut().filter(|number| **number != NO_VALUE) {
            examples.push(std::mem::replace(number, examples.len() as u32));
        }
        for (word, row) in valid() {
            codes[row] = numbers[(word - least) as usize];
        }
        return (codes, examples);
    }
    let mut ordered: Vec<(u64, u32)> = valid().map(|(word, row)| (word, row as u32)).collect();
    ordered.sort_unstable();
    let mut last = None;
    for (word, row) in ordered {
        if last.replace(word) != Some(word) {
            examples.push(row);
        }
        codes[row as usize] = examples.len() as u32 - 1;
    }
    (codes, examples)
}

/// As [`number_words`], of values of any type.
fn number_rows(array: &ArrayRef) -> Result<(Vec<u32>, Vec<u32>)> {
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
    Ok((codes, examples))
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

#[cfg(test)]
mod tests {
    use arrow::array::{Date32Array, Decimal128Array, Float32Array, Float64Array, Int64Array};

    use super::*;

    /// Numbers by words are those by arrow's rows.
    fn check(array: ArrayRef) {
        let logical = LogicalType::from_arrow(array.data_type()).unwrap();
        let (codes, values) = number_values(&array, &logical).unwrap();
        let column = column_from_arrow(&array, &logical).unwrap();
        assert!(ordered_words(&column.values).is_some(), "{logical} has words");
        let (expected, examples) = number_rows(&array).unwrap();
        assert_eq!(codes, expected, "{logical}");
        let expected = take(&array, &UInt32Array::from(examples), None).unwrap();
        assert_eq!(&values, &expected, "{logical}");
    }

    #[test]
    fn values_are_numbered_in_their_order_whatever_their_type() {
        let scattered = |row: i64| (row % 7 != 3).then_some((row * 7919) % 331 - 100);
        for step in [1, 1 << 40] {
            let longs = (0..2000).map(|row| scattered(row).map(|value| value * step));
            check(Arc::new(longs.collect::<Int64Array>()));
        }
        check(Arc::new((0..500).map(|row| scattered(row).map(|day| day as i32)).collect::<Date32Array>()));
        let doubles = [1.5, -0.0, 0.0, f64::NAN, f64::NEG_INFINITY, -1.5, f64::INFINITY, 1e-300];
        let some = |row: usize| (row % 9 != 4).then_some(doubles[row * 5 % 8]);
        check(Arc::new((0..100).map(some).collect::<Float64Array>()));
        check(Arc::new((0..100).map(|row| some(row).map(|value| value as f32)).collect::<Float32Array>()));
        let decimals = (0..300).map(|row| scattered(row).map(i128::from)).collect::<Decimal128Array>();
        check(Arc::new(decimals.with_precision_and_scale(38, 2).unwrap()));
        check(Arc::new(Int64Array::from(vec![None::<i64>; 3])));
        check(Arc::new(Int64Array::from(vec![i64::MIN, i64::MAX, 0, i64::MIN])));
        check(Arc::new(Int64Array::from(Vec::<i64>::new())));
    }

    #[test]
    fn decimals_of_many_digits_have_no_words() {
        assert!(ordered_words(&Values::I128(vec![1, i128::MAX])).is_none());
    }
}
