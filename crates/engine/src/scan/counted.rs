//! What passes the filters of a small table, counted while a query is planned.
//!
//! ```text
//!   date_dim 73,049 days of 200 years ── d_year = 2001 ──▶ 365 rows, d_date_sk 2451911 ..= 2452275
//!   store_sales, ss_sold_date_sk 2450816 ..= 2452642   ──▶ a fifth of its rows has a partner
//! ```
//!
//! Zone maps and histograms estimate how many rows pass. They do not know that a filter leaves keys of one part of the
//! range, and a fact table seldom has all keys of its dimensions: of the 200 years above it has five, so that one year is
//! not one row in 200. The order of joins and the side that each is built of depend on that. Dimensions are small:
//! reading one takes about a millisecond, once for the same filters.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal,
    NotExpr, TryCastExpr,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use futures::TryStreamExt;

use super::exec::PeltonScanExec;
use super::stream;
use crate::spilling::{Bounds, both_bounds, bounds_of};

/// Tables of more rows, or with more bytes in the columns that are read, are not counted: that would take longer than the rest of
/// planning.
const ROWS_MAX: u64 = 1 << 17;
const BYTES_MAX: u64 = 4 << 20;

/// Rows of a table that pass filters.
#[derive(Debug)]
pub(crate) struct Counted {
    /// How many.
    pub(crate) rows: u64,
    /// The least and the greatest value of columns of integers, dates and times.
    pub(crate) bounds: BTreeMap<usize, Bounds>,
}

/// What passes the filters of `scan`, and the bounds of its columns; `None` where the table is not small, or its filters read what is
/// not known yet.
///
/// # Errors
///
/// Of reading, and of what filters compute.
pub(super) fn count(scan: &PeltonScanExec) -> Result<Option<Counted>> {
    if scan.table.row_count() > ROWS_MAX {
        return Ok(None);
    }
    let columns = bounded_columns(scan);
    let scan = scan.of_columns(&columns)?;
    let bytes = scan.read_columns().into_iter().map(|column| scan.table.column_summary(column).raw_bytes);
    if bytes.sum::<u64>() > BYTES_MAX {
        return Ok(None);
    }
    // By column, as the columns of the scan are.
    let bounds = columns.into_iter().map(|column| (column, None)).collect();
    let mut counted = Counted { rows: 0, bounds };
    let context = TaskContext::default();
    // Reads are of the I/O engine's own threads. The task that plans does not go back to its runtime in between, which it would be
    // asked to after some batches.
    let counting = tokio::task::unconstrained(async {
        let mut rows = stream::open(&scan, 0, &context)?;
        while let Some(batch) = rows.try_next().await? {
            counted.rows += batch.num_rows() as u64;
            for (bounds, array) in counted.bounds.values_mut().zip(batch.columns()) {
                *bounds = both_bounds(bounds.take(), bounds_of(array)?);
            }
        }
        Ok::<_, DataFusionError>(())
    });
    futures::executor::block_on(counting)?;
    Ok(Some(counted))
}

/// Columns of `scan` whose bounds say something of joins, ascending.
pub(super) fn bounded_columns(scan: &PeltonScanExec) -> Vec<usize> {
    let mut columns: Vec<usize> = scan.projection().to_vec();
    columns.sort_unstable();
    columns.dedup();
    let schema = scan.table.arrow_schema();
    columns.retain(|column| {
        let ty = schema.field(*column).data_type();
        ty.is_integer() || matches!(ty, DataType::Date32 | DataType::Date64 | DataType::Timestamp(..))
    });
    columns
}

/// Whether `filter` reads nothing but the row that it is computed of.
pub(super) fn is_of_rows_alone(filter: &Arc<dyn PhysicalExpr>) -> bool {
    let mut is_known = !is_volatile(filter);
    let walked = filter.apply(|part| {
        is_known &= part.is::<Column>()
            || part.is::<Literal>()
            || part.is::<BinaryExpr>()
            || part.is::<InListExpr>()
            || part.is::<LikeExpr>()
            || part.is::<IsNullExpr>()
            || part.is::<IsNotNullExpr>()
            || part.is::<NotExpr>()
            || part.is::<CastExpr>()
            || part.is::<TryCastExpr>()
            || part.is::<CaseExpr>()
            || part.is::<ScalarFunctionExpr>();
        Ok(if is_known { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    walked.is_ok() && is_known
}
