//! Zone maps of dimension attributes, one for each row group of a fact table.
//!
//! ```text
//!  row group: values of the referring column ──index──▶ rows of the dimension (a bit each)
//!                                                          │ numbers of their values (a bit each)
//!                                                          ▼
//!                                                       distinct values ──▶ zone map
//! ```
//!
//! Only distinct values are fed to the zone map, so a fact row costs one look-up and a distinct row of the
//! dimension one step an attribute, however wide the dimension is.
//!
//! A fact row without a partner (dangling or NULL reference) counts as a NULL of every attribute: that is
//! what an outer join makes of it, and an inner join drops it, so a skipped row group is right for both.
//! Where a row has several partners (N-M) the values of all of them are in.

use std::sync::{Arc, OnceLock};

use arrow::array::UInt32Array;
use arrow::compute::take;
use pelton_chunk::Column;
use pelton_error::{Error, Result};
use pelton_store::{SidewaysColumn, TableSchema, Warehouse, column_from_arrow};
use pelton_zone::{ZoneMap, ZoneOptions};

use crate::budget::{Budget, Held};
use crate::dimension::{Attribute, Dimension, DimensionLoader, NO_VALUE};
use crate::key_index::NO_ROW;
use crate::request::StarLink;
use pelton_error::CancelFlag;

/// The dimensions of a fact table.
pub(crate) struct Sideways {
    roots: Vec<Root>,
    /// The attributes in the order of their zone maps.
    pub(crate) columns: Vec<SidewaysColumn>,
    /// What was left out.
    pub(crate) warnings: Vec<String>,
    _held: Held,
}

/// A dimension that the fact table refers to itself.
pub(crate) struct Root {
    /// The referring column's position in the fact table.
    pub(crate) fact_column: usize,
    pub(crate) dimension: Dimension,
    /// For each attribute below, the zone map of all its values, made when first needed.
    whole: Vec<OnceLock<ZoneMap>>,
}

impl Sideways {
    /// Loads the dimensions that `links` declare for a table of `schema`, on so many threads.
    pub(crate) fn load(
        warehouse: &Warehouse,
        schema: &TableSchema,
        links: &[StarLink],
        budget: &Arc<Budget>,
        thread_count: usize,
        cancel: &CancelFlag,
    ) -> Result<Self> {
        let (mut roots, mut columns) = (Vec::new(), Vec::new());
        if links.is_empty() {
            return Ok(Self { roots, columns, warnings: Vec::new(), _held: budget.hold(0) });
        }
        let mut loader = DimensionLoader::new(warehouse, budget, thread_count, cancel)?;
        for link in links {
            let fact_column = schema.index_of(&link.fact_column).ok_or_else(|| {
                Error::invalid_input(format!(
                    "star link {} = {}.{}: the table has no column '{}'",
                    link.fact_column, link.dimension_table, link.dimension_key, link.fact_column
                ))
            })?;
            let dimension = loader.load(link, &schema.columns[fact_column].logical)?;
            let before = columns.len();
            list_columns(&dimension, &mut columns);
            let whole = (before..columns.len()).map(|_| OnceLock::new()).collect();
            roots.push(Root { fact_column, dimension, whole });
        }
        let held = budget.hold(roots.iter().map(|root: &Root| root.dimension.bytes()).sum());
        Ok(Self { roots, columns, warnings: loader.warnings, _held: held })
    }

    pub(crate) fn roots(&self) -> &[Root] {
        &self.roots
    }

    /// The zone maps of a row group with these columns, in the order of `self.columns`.
    pub(crate) fn zone_maps(&self, columns: &[Column], options: &ZoneOptions) -> Result<Vec<ZoneMap>> {
        let mut zone_maps = Vec::with_capacity(self.columns.len());
        for root in &self.roots {
            let column = &columns[root.fact_column];
            let rows = referenced(&root.dimension, column);
            let mut builder = Builder { whole: root.whole.iter(), row_count: column.len() as u32, options };
            builder.add(&root.dimension, &rows, &mut zone_maps)?;
        }
        Ok(zone_maps)
    }
}

/// Appends the attributes of `dimension`, then those of the dimensions behind it.
fn list_columns(dimension: &Dimension, columns: &mut Vec<SidewaysColumn>) {
    columns.extend(dimension.attributes.iter().map(|attribute| SidewaysColumn {
        path: dimension.path.clone(),
        column: attribute.name.clone(),
        dimension_ids: dimension.table_ids.clone(),
        logical: attribute.logical.clone(),
    }));
    for reference in &dimension.next {
        list_columns(&reference.dimension, columns);
    }
}

/// Rows of a dimension, or numbers of values.
struct Set {
    words: Vec<u64>,
    /// Something referred to nothing.
    has_missing: bool,
}

impl Set {
    fn of(count: usize) -> Self {
        Self { words: vec![0; count.div_ceil(64)], has_missing: false }
    }

    /// `missing` is `NO_ROW` or `NO_VALUE`, which are the same number.
    fn add(&mut self, member: u32) {
        if member == NO_ROW {
            self.has_missing = true;
        } else {
            self.words[(member / 64) as usize] |= 1 << (member % 64);
        }
    }

    fn iter(&self) -> impl Iterator<Item = u32> {
        self.words.iter().enumerate().flat_map(|(index, &word)| {
            let bits = std::iter::successors((word != 0).then_some(word), |&rest| {
                let rest = rest & (rest - 1);
                (rest != 0).then_some(rest)
            });
            bits.map(move |rest| index as u32 * 64 + rest.trailing_zeros())
        })
    }
}

const _: () = assert!(NO_ROW == NO_VALUE, "one mark for what is missing");

/// The rows of `dimension` that the rows of `column` refer to.
fn referenced(dimension: &Dimension, column: &Column) -> Set {
    let mut rows = Set::of(dimension.row_count);
    for row in dimension.index.look_up(column) {
        rows.add(row);
    }
    with_same_keys(dimension, rows)
}

/// `rows` with all rows that share their keys.
fn with_same_keys(dimension: &Dimension, mut rows: Set) -> Set {
    if !dimension.index.is_unique() {
        let first: Vec<u32> = rows.iter().collect();
        for row in first {
            for same in dimension.index.same_key(row) {
                rows.add(same);
            }
        }
    }
    rows
}

/// Makes the zone maps of one row group and root, attribute by attribute.
struct Builder<'a, I> {
    whole: I,
    row_count: u32,
    options: &'a ZoneOptions,
}

impl<'a, I: Iterator<Item = &'a OnceLock<ZoneMap>>> Builder<'a, I> {
    fn add(&mut self, dimension: &Dimension, rows: &Set, zone_maps: &mut Vec<ZoneMap>) -> Result<()> {
        for attribute in &dimension.attributes {
            let whole = self.whole.next().expect("one cell an attribute");
            zone_maps.push(self.zone_map(attribute, rows, whole)?);
        }
        for reference in &dimension.next {
            let mut further = Set::of(reference.dimension.row_count);
            further.has_missing = rows.has_missing;
            for row in rows.iter() {
                further.add(reference.rows[row as usize]);
            }
            let further = with_same_keys(&reference.dimension, further);
            self.add(&reference.dimension, &further, zone_maps)?;
        }
        Ok(())
    }

    fn zone_map(&self, attribute: &Attribute, rows: &Set, whole: &OnceLock<ZoneMap>) -> Result<ZoneMap> {
        let mut values = Set::of(attribute.values.len());
        values.has_missing = rows.has_missing;
        for row in rows.iter() {
            values.add(attribute.codes[row as usize]);
        }
        let numbers: Vec<u32> = values.iter().collect();
        let mut zone_map = if numbers.len() == attribute.values.len() {
            match whole.get() {
                Some(zone_map) => zone_map.clone(),
                None => whole.get_or_init(|| zone_map_of(attribute, numbers.clone(), self.options)).clone(),
            }
        } else {
            zone_map_of(attribute, numbers.clone(), self.options)
        };
        self.count_rows(&mut zone_map, numbers.is_empty(), values.has_missing);
        Ok(zone_map)
    }

    /// Says that the zone map is of the fact's rows; how many of them are NULL is not counted, only whether
    /// none, some or all are.
    fn count_rows(&self, zone_map: &mut ZoneMap, is_empty: bool, has_missing: bool) {
        zone_map.row_count = self.row_count;
        zone_map.null_count = match (is_empty, has_missing) {
            (true, _) => self.row_count,
            (false, true) => 1.min(self.row_count - 1),
            (false, false) => 0,
        };
        zone_map.distinct_count = zone_map.distinct_count.min(self.row_count - zone_map.null_count);
    }
}

/// The zone map of the values numbered `numbers`.
fn zone_map_of(attribute: &Attribute, numbers: Vec<u32>, options: &ZoneOptions) -> ZoneMap {
    let bug = "numbers are positions of values of the attribute's type";
    let values = take(&attribute.values, &UInt32Array::from(numbers), None).expect(bug);
    let column = column_from_arrow(&values, &attribute.logical).expect(bug);
    ZoneMap::build(&column, options).0
}
