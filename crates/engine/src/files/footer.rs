//! Statistics of a Parquet file, as far as its footer tells them.
//!
//! DataFusion 55 takes what a footer leaves out for what suits it:
//!
//! ```text
//!   of a column, the footer                            DataFusion                    here
//!   has no bounds in some row groups                   those of the others           none are known
//!   does not count NULLs                               there are none                their number is unknown
//!   tells INTEGER, and BIGINT is the table's type      bounds are NULL, and exact    none are known
//! ```
//!
//! `min`, `max` and `count` are answered from statistics, and files and row groups are skipped by them. Writers leave out
//! bounds of long texts, and some with them the number of NULLs.

use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{ScalarValue, Statistics};
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use datafusion::parquet::file::statistics::Statistics as FooterStatistics;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, IsNullExpr, NotExpr};
use datafusion::physical_expr::utils::collect_columns;

/// `statistics`, which DataFusion has from `footer`, of the columns of `schema`, without what `footer` does not tell.
pub(super) fn told(mut statistics: Statistics, footer: &ParquetMetaData, schema: &Schema) -> Statistics {
    let leaves = footer.file_metadata().schema_descr();
    let rows = statistics.num_rows;
    for (known, field) in statistics.column_statistics.iter_mut().zip(schema.fields()) {
        let is_leaf = |path: &[String]| matches!(path, [name] if name == field.name());
        let mut has_bounds = true;
        if let Some(leaf) = leaves.columns().iter().position(|column| is_leaf(column.path().parts())) {
            let may_be_null = leaves.column(leaf).max_def_level() > 0;
            if may_be_null && !footer.row_groups().iter().all(|group| null_count(group, leaf).is_some()) {
                known.null_count = Precision::Absent;
            }
            has_bounds = footer.row_groups().iter().all(|group| has_both_bounds(group, leaf));
        }
        let is_null = |bound: &Precision<ScalarValue>| bound.get_value().is_some_and(ScalarValue::is_null);
        let are_all_null = matches!(rows, Precision::Exact(_)) && known.null_count == rows;
        has_bounds &= are_all_null || !(is_null(&known.min_value) || is_null(&known.max_value));
        if !has_bounds {
            (known.min_value, known.max_value) = (Precision::Absent, Precision::Absent);
        }
    }
    statistics
}

/// NULLs of a column in a row group, where the footer counts them.
fn null_count(row_group: &RowGroupMetaData, leaf: usize) -> Option<u64> {
    row_group.column(leaf).statistics().and_then(FooterStatistics::null_count_opt)
}

/// Whether both bounds of a column are known in a row group, or there is nothing to bound.
fn has_both_bounds(row_group: &RowGroupMetaData, leaf: usize) -> bool {
    let found = row_group.column(leaf).statistics();
    let has_min = found.is_some_and(|found| found.min_bytes_opt().is_some());
    let has_max = found.is_some_and(|found| found.max_bytes_opt().is_some());
    let is_full = |nulls: u64| i64::try_from(nulls) == Ok(row_group.num_rows());
    has_min && has_max || null_count(row_group, leaf).is_some_and(is_full) || row_group.num_rows() == 0
}

/// Whether `filter`, on the rows of `scan`, asks whether a column is NULL, and some file does not count the NULLs in it: row
/// groups would be skipped as if it had none.
pub(crate) fn asks_for_uncounted_nulls(filter: &Arc<dyn PhysicalExpr>, scan: &DataSourceExec) -> bool {
    let Some(files) = scan.data_source().downcast_ref::<FileScanConfig>() else { return false };
    let mut asked: Vec<Column> = Vec::new();
    let _ = filter.apply(|part| {
        if part.is::<IsNullExpr>() || part.is::<NotExpr>() {
            asked.extend(collect_columns(part));
        }
        Ok(TreeNodeRecursion::Continue)
    });
    let source = files.file_source();
    let place = |column: &Column| match source.projection() {
        None => Some(column.index()),
        Some(projection) => {
            projection.iter().nth(column.index())?.expr.downcast_ref::<Column>().map(Column::index)
        }
    };
    let is_counted = |column: usize| {
        files.file_groups.iter().flat_map(|group| group.iter()).all(|file| {
            let known = file.statistics.as_ref().and_then(|known| known.column_statistics.get(column));
            known.is_some_and(|known| matches!(known.null_count, Precision::Exact(_)))
        })
    };
    !asked.iter().all(|column| place(column).is_some_and(is_counted))
}
