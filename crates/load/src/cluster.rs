//! By which columns the rows of a table are sorted, and in which order of significance.
//!
//! Row groups are skipped where their values lie close together. Sorting by the column with the fewest
//! distinct values first keeps long stretches of each value, within which the next column is sorted again:
//! the heuristic of GOLAP (Boeschen, Ziegler, Binnig 2024). It pays until every row group holds one
//! combination of values; the automatic choice therefore stops once there are `COMBINATIONS_PER_ROW_GROUP`
//! combinations for each row group. Columns named outright are taken in the order given.
//!
//! Attributes of dimensions are looked up through the referring column while sorting and are not stored.
//! Where a row has several partners the first one decides.

use arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use arrow::datatypes::{DataType, SchemaRef};
use pelton_error::{Error, Result};
use pelton_store::{TableSchema, column_from_arrow};
use std::sync::Arc;

use crate::dimension::{Dimension, NO_VALUE};
use crate::key_index::NO_ROW;
use crate::request::ClusterBy;
use crate::sideways::Sideways;
use crate::sort::KeyColumns;

/// Combinations of key values for each row group after which further columns are not added.
const COMBINATIONS_PER_ROW_GROUP: u64 = 4;
/// Columns with more distinct values are not chosen unasked.
const DISTINCT_MAX: u64 = 1000;

/// A column to sort by.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Key {
    name: String,
    distinct_count: u64,
    place: Place,
}

/// Where the values of a key are.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    /// A column of the table.
    Own(usize),
    /// An attribute of the dimension reached by `steps` from a root.
    Attribute { root: usize, steps: Vec<usize>, attribute: usize },
}

/// The order of a table's rows.
pub(crate) struct Cluster<'a> {
    keys: Vec<Key>,
    schema: &'a TableSchema,
    staging: SchemaRef,
    sideways: &'a Sideways,
}

impl<'a> Cluster<'a> {
    /// Resolves `cluster_by`; `distinct_count` estimates that of a column of the table. `None` where there
    /// is nothing to sort by.
    pub(crate) fn resolve(
        cluster_by: &ClusterBy,
        schema: &'a TableSchema,
        staging: &SchemaRef,
        sideways: &'a Sideways,
        row_group_count: u64,
        distinct_count: impl Fn(usize) -> Result<u64>,
    ) -> Result<Option<Self>> {
        let known = known_keys(schema, sideways);
        let estimated = |mut key: Key| -> Result<Key> {
            if let Place::Own(column) = key.place {
                key.distinct_count = distinct_count(column)?;
            }
            Ok(key)
        };
        let named = |names: &[String]| -> Result<Vec<Key>> {
            names.iter().map(|name| estimated(find_key(name, &known)?)).collect()
        };
        let mut keys = match cluster_by {
            ClusterBy::None => return Ok(None),
            ClusterBy::Columns(names) => named(names)?,
            ClusterBy::Auto(names) if !names.is_empty() => named(names)?,
            ClusterBy::Auto(_) => known.into_iter().map(estimated).collect::<Result<_>>()?,
        };
        if let ClusterBy::Auto(names) = cluster_by {
            keys.sort_by(|a, b| (a.distinct_count, &a.name).cmp(&(b.distinct_count, &b.name)));
            keys.dedup();
            let distinct_max = if names.is_empty() { DISTINCT_MAX } else { u64::MAX };
            keys.retain(|key| (2..=distinct_max).contains(&key.distinct_count));
            keys.truncate(useful_count(&keys, row_group_count));
        }
        let staging = Arc::clone(staging);
        Ok((!keys.is_empty()).then_some(Self { keys, schema, staging, sideways }))
    }

    /// The columns in order of significance.
    pub(crate) fn names(&self) -> Vec<String> {
        self.keys.iter().map(|key| key.name.clone()).collect()
    }
}

/// How many of `keys` it takes for enough combinations.
fn useful_count(keys: &[Key], row_group_count: u64) -> usize {
    let wanted = row_group_count.saturating_mul(COMBINATIONS_PER_ROW_GROUP);
    let mut combinations = 1u64;
    for (index, key) in keys.iter().enumerate() {
        if combinations > wanted {
            return index;
        }
        combinations = combinations.saturating_mul(key.distinct_count);
    }
    keys.len()
}

/// All columns and attributes; the distinct counts of own columns are not known yet.
fn known_keys(schema: &TableSchema, sideways: &Sideways) -> Vec<Key> {
    let own = schema.columns.iter().enumerate();
    let mut keys: Vec<Key> = own
        .map(|(index, column)| Key { name: column.name.clone(), distinct_count: 0, place: Place::Own(index) })
        .collect();
    for (root, entry) in sideways.roots().iter().enumerate() {
        add_attributes(root, &mut Vec::new(), &entry.dimension, &mut keys);
    }
    keys
}

/// Attributes are named by the whole way to them: `lo_custkey.customer.c_region`.
fn add_attributes(root: usize, steps: &mut Vec<usize>, dimension: &Dimension, keys: &mut Vec<Key>) {
    let way: Vec<&str> = dimension
        .path
        .iter()
        .flat_map(|link| [link.fact_column.as_str(), link.dimension_table.as_str()])
        .collect();
    for (index, attribute) in dimension.attributes.iter().enumerate() {
        keys.push(Key {
            name: format!("{}.{}", way.join("."), attribute.name),
            distinct_count: attribute.values.len() as u64,
            place: Place::Attribute { root, steps: steps.clone(), attribute: index },
        });
    }
    for (step, reference) in dimension.next.iter().enumerate() {
        steps.push(step);
        add_attributes(root, steps, &reference.dimension, keys);
        steps.pop();
    }
}

/// The key named `name`: a column of the table, or the one attribute whose way ends so.
fn find_key(name: &str, known: &[Key]) -> Result<Key> {
    if let Some(own) = known.iter().find(|key| key.name == name) {
        return Ok(own.clone());
    }
    let suffix = format!(".{name}");
    let found: Vec<&Key> = known.iter().filter(|key| key.name.ends_with(&suffix)).collect();
    let listed = |keys: &[&Key]| keys.iter().map(|key| key.name.as_str()).collect::<Vec<_>>().join(", ");
    match found.as_slice() {
        [one] => Ok((*one).clone()),
        [] => Err(Error::invalid_input(format!(
            "cannot cluster by '{name}': it is neither a column nor an attribute of a declared dimension; known are {}",
            listed(&known.iter().collect::<Vec<_>>())
        ))),
        several => Err(Error::invalid_input(format!(
            "cannot cluster by '{name}': it may be any of {}; name one of these",
            listed(several)
        ))),
    }
}

impl KeyColumns for Cluster<'_> {
    fn types(&self) -> Vec<DataType> {
        let data_type = |key: &Key| match key.place {
            Place::Own(column) => self.staging.field(column).data_type().clone(),
            Place::Attribute { .. } => DataType::UInt32,
        };
        self.keys.iter().map(data_type).collect()
    }

    fn columns(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
        let column = |key: &Key| match &key.place {
            Place::Own(column) => Ok(Arc::clone(batch.column(*column))),
            Place::Attribute { root, steps, attribute } => self.attribute(batch, *root, steps, *attribute),
        };
        self.keys.iter().map(column).collect()
    }
}

impl Cluster<'_> {
    /// The numbers of the attribute's values, which ascend with the values.
    fn attribute(
        &self,
        batch: &RecordBatch,
        root: usize,
        steps: &[usize],
        attribute: usize,
    ) -> Result<ArrayRef> {
        let root = &self.sideways.roots()[root];
        let logical = &self.schema.columns[root.fact_column].logical;
        let referring = column_from_arrow(batch.column(root.fact_column), logical)?;
        let (dimension, rows) = root.dimension.follow(root.dimension.index.look_up(&referring), steps);
        let codes = &dimension.attributes[attribute].codes;
        let number = |row: u32| match row {
            NO_ROW => None,
            row => Some(codes[row as usize]).filter(|&code| code != NO_VALUE),
        };
        Ok(Arc::new(rows.into_iter().map(number).collect::<UInt32Array>()))
    }
}
