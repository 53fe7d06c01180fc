//! Runtime filters: a finished hash table gives the columns that probe it a range of keys, and where its keys are few,
//! a list of them.
//!
//! Rows of other keys find nothing, so row groups without any of the keys need not be read. Planning could not know.

use super::filter::{Range, plain_column};
use super::layout::BuiltTable;
use super::source::SourceColumn;
use crate::ir::{Expr, Op, Pipeline, Plan, ProbeKind};

/// The only values of a source column for which rows find something.
#[derive(Debug, Clone)]
pub struct KeyList {
    /// The column.
    pub column: usize,
    /// The values.
    pub values: Vec<i128>,
}

/// The key of `op` and the table it is looked up in, where rows without a match go no further.
fn sole_key<'p>(op: &'p Op, tables: &'p [Option<BuiltTable>]) -> Option<(&'p Expr, &'p BuiltTable)> {
    let Op::Probe { table, keys, kind: ProbeKind::Inner | ProbeKind::Semi, .. } = op else { return None };
    let [key] = keys.as_slice() else { return None };
    Some((key, tables.get(*table)?.as_ref()?))
}

/// Keys that occur in the table that `op` probes, as a range of the column that is looked up there, if that leaves
/// much out.
pub(super) fn key_range(
    op: &Op,
    tables: &[Option<BuiltTable>],
    pipeline: &Pipeline,
    source: &[SourceColumn],
) -> Option<Range> {
    let (key, built) = sole_key(op, tables)?;
    let column = plain_column(key, pipeline, source)?;
    let (occurring, possible) = (built.key_range()?, pipeline.columns[column].bounds?);
    let share = (occurring.max - occurring.min) as f64 / ((possible.max - possible.min) as f64).max(1.0);
    (share < WORTHWHILE_SHARE).then_some(())?;
    let (low, high) = (i64::try_from(occurring.min).ok()?, i64::try_from(occurring.max).ok()?);
    Some(Range { column, low, high, is_runtime_filter: true })
}

/// A range of keys that leaves out less than the rest of this is not looked at.
const WORTHWHILE_SHARE: f64 = 0.8;

/// The keys of the tables that are probed by columns of the source, where they are known.
pub(super) fn key_lists(
    pipeline: &Pipeline,
    source_count: usize,
    tables: &[Option<BuiltTable>],
) -> Vec<KeyList> {
    let list_of = |op: &Op| {
        let (key, built) = sole_key(op, tables)?;
        let column = source_column(key).filter(|column| *column < source_count)?;
        Some(KeyList { column, values: built.key_values()? })
    };
    pipeline.ops.iter().filter_map(list_of).collect()
}

/// The column that `expr` is, perhaps in a wider type.
pub(super) fn source_column(expr: &Expr) -> Option<usize> {
    use crate::ir::Type::{I32, I64, I128};
    match expr {
        Expr::Column(column) => Some(*column),
        Expr::Cast { input, to: I32 | I64 | I128 } => source_column(input),
        _ => None,
    }
}

/// True where all that `plan` asks of table `number` is whether it has a key.
pub fn is_key_set(plan: &Plan, number: usize) -> bool {
    let of_table = |op: &&Op| matches!(op, Op::Probe { table, .. } if *table == number);
    let asks_for_keys_alone =
        |op: &Op| matches!(op, Op::Probe { kind: ProbeKind::Semi | ProbeKind::Anti, residual: None, .. });
    let mut probes = plan.pipelines.iter().flat_map(|pipeline| pipeline.ops.iter().filter(of_table));
    !plan.unique_tables.contains(&number) && probes.all(asks_for_keys_alone)
}

/// True where `pipeline` would skip row groups by the keys of table `number`.
pub fn wants_keys(pipeline: &Pipeline, number: usize) -> bool {
    use crate::ir::Source;
    let Source::Table(scan) = &pipeline.source else { return false };
    let probes = |op: &Op| match op {
        Op::Probe { table, keys, kind: ProbeKind::Inner | ProbeKind::Semi, .. } => {
            *table == number
                && matches!(keys.as_slice(), [key] if source_column(key).is_some_and(|c| c < pipeline.columns.len()))
        }
        _ => false,
    };
    scan.uses_runtime_filters && pipeline.ops.iter().any(probes)
}
