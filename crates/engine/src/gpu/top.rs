//! Sorts that stop at a number of rows: the device leaves out rows that cannot be among the first ones.
//!
//! ```text
//!   SortExec: TopK(fetch=10)              SortExec: TopK(fetch=10)
//!     HashJoinExec                 ─▶       PeltonGpuExec        the first 10 by the first sort key, and some more
//! ```
//!
//! The sort stays above: it orders the few rows that come, and makes them as many as are wanted. Of several sort keys
//! the device looks at the first one alone, and leaves rows whose first key ties to the sort.

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::sorts::sort::SortExec;
use pelton_error::{Error, Result};
use pelton_pipeline::ir::{Bounds, TopK, Type};

use super::builder::Flow;
use super::value::kernel_type;

/// What a sort asks of its input.
#[derive(Debug, Clone)]
pub(super) struct FirstRows {
    key: Arc<dyn PhysicalExpr>,
    is_descending: bool,
    has_further_keys: bool,
    row_count: u64,
}

impl FirstRows {
    /// What `sort` asks of its input, if it stops at a number of rows.
    pub(super) fn of(sort: &SortExec) -> Option<Self> {
        let row_count = sort.fetch()? as u64;
        let first = sort.expr().first();
        let key = Arc::clone(&first.expr);
        let (is_descending, has_further_keys) = (first.options.descending, sort.expr().len() > 1);
        Some(Self { key, is_descending, has_further_keys, row_count })
    }

    /// Whether `other` asks the same.
    pub(super) fn asks_alike(&self, other: &Self) -> bool {
        self.key.as_ref() == other.key.as_ref()
            && self.is_descending == other.is_descending
            && self.has_further_keys == other.has_further_keys
            && self.row_count == other.row_count
    }

    /// `sort` over the rows of `node`. Its dynamic filter is a new one: scans in the subtree that the node replaced hold
    /// the old one, and would leave out rows by it when they run another time.
    pub(super) fn sort_again(sort: &SortExec, node: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        let again = SortExec::new(sort.expr().clone(), node).with_fetch(sort.fetch());
        Arc::new(again.with_preserve_partitioning(sort.preserve_partitioning()))
    }

    /// The same of the rows of `flow`, whose outputs have the types of `schema`.
    ///
    /// # Errors
    ///
    /// `Unsupported` for keys that are no integers of 64 bits.
    pub(super) fn lower(&self, flow: &mut Flow, schema: &SchemaRef) -> Result<TopK> {
        let key = flow.exprs(schema).lower(&self.key)?;
        // What is computed has bounds only for whoever compiles it.
        let fits = |bounds: Bounds| i64::try_from(bounds.min).is_ok() && i64::try_from(bounds.max).is_ok();
        let fits = key.bounds.is_none_or(fits);
        let is_integer = matches!(kernel_type(&key.data_type)?, Type::I32 | Type::I64 | Type::I128);
        if !is_integer || !fits {
            return Err(Error::unsupported(format!("the first rows by a key of type {}", key.data_type)));
        }
        let (is_descending, keeps_ties) = (self.is_descending, self.has_further_keys);
        Ok(TopK { key: key.expr, is_descending, keeps_ties, row_count: self.row_count })
    }
}
