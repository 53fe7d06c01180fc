//! The two rules of copies: the first of all has scans read from copies that are there, the last has the columns of other
//! scans encoded once their rows were read.

use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::datasource::physical_plan::FileSource;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::reassign_expr_columns;
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;

use super::exec::PeltonCopyExec;
use super::files::FileScan;
use super::{Copies, FileCopies};
use crate::gpu::DeviceHandle;
use crate::scan::PeltonScanExec;

/// Has scans of Parquet files read from copies that are there.
///
/// It comes before all other rules: filters, join orders and devices then see the scan of a table.
pub(crate) struct FromCopies {
    copies: Arc<Copies>,
    device: Arc<DeviceHandle>,
}

/// Has the columns of what is still a scan of Parquet files encoded.
///
/// It comes after all other rules, which look for DataFusion's node.
pub(crate) struct ToCopies {
    copies: Arc<Copies>,
    device: Arc<DeviceHandle>,
}

impl FromCopies {
    /// What EXPLAIN VERBOSE calls it.
    pub(crate) const NAME: &str = "pelton_from_copies";

    pub(crate) fn new(copies: &Arc<Copies>, device: &Arc<DeviceHandle>) -> Self {
        Self { copies: Arc::clone(copies), device: Arc::clone(device) }
    }
}

impl ToCopies {
    /// What EXPLAIN VERBOSE calls it.
    pub(crate) const NAME: &str = "pelton_to_copies";

    pub(crate) fn new(copies: &Arc<Copies>, device: &Arc<DeviceHandle>) -> Self {
        Self { copies: Arc::clone(copies), device: Arc::clone(device) }
    }
}

impl fmt::Debug for FromCopies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FromCopies")
    }
}

impl fmt::Debug for ToCopies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ToCopies")
    }
}

impl PhysicalOptimizerRule for FromCopies {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if !self.copies.0.is_on(&self.device) {
            return Ok(plan);
        }
        let partitions = config.execution.target_partitions.max(1);
        let scan = |node: Arc<dyn ExecutionPlan>| match of_copy(&node, &self.copies.0, partitions) {
            Some(scan) => Ok(Transformed::yes(Arc::new(scan) as Arc<dyn ExecutionPlan>)),
            None => Ok(Transformed::no(node)),
        };
        plan.transform_up(scan).map(|transformed| transformed.data)
    }

    fn name(&self) -> &str {
        Self::NAME
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The scan of a copy in place of `node`, where there is one.
fn of_copy(node: &Arc<dyn ExecutionPlan>, copies: &FileCopies, partitions: usize) -> Option<PeltonScanExec> {
    let scan = FileScan::of(node.downcast_ref::<DataSourceExec>()?)?.ok()?;
    if !scan.reads_each_file_once() || scan.config.preserve_order {
        return None;
    }
    let source = copies.source(&scan.files, &scan.columns)?;
    scan.files.check_unchanged().ok()?;
    let schema = source.table.arrow_schema();
    let mut projection = Vec::new();
    let all = scan.source.projection()?;
    for column in all.iter() {
        let read = column.expr.downcast_ref::<Column>().filter(|read| read.name() == column.alias)?;
        projection.push(schema.index_of(read.name()).ok()?);
    }
    let mut conjuncts: Vec<Arc<dyn PhysicalExpr>> = Vec::new();
    if let Some(filter) = scan.source.filter() {
        let filter = reassign_expr_columns(filter, &schema).ok()?;
        conjuncts.extend(split_conjunction(&filter).into_iter().cloned());
    }
    let limit = scan.config.limit;
    let copy = PeltonScanExec::try_new(source, Some(&projection), conjuncts, limit, partitions).ok()?;
    (copy.schema() == node.schema()).then_some(copy)
}

impl PhysicalOptimizerRule for ToCopies {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if !self.copies.0.is_on(&self.device) {
            return Ok(plan);
        }
        let wrapped = plan.transform_up(|node| {
            let Some(scan) = node.downcast_ref::<DataSourceExec>().and_then(FileScan::of) else {
                return Ok(Transformed::no(node));
            };
            let (copies, device) = (&self.copies.0, &self.device);
            let watched = PeltonCopyExec::new(Arc::clone(&node), scan, copies, device);
            Ok(Transformed::yes(Arc::new(watched) as Arc<dyn ExecutionPlan>))
        });
        wrapped.map(|transformed| transformed.data)
    }

    fn name(&self) -> &str {
        Self::NAME
    }

    fn schema_check(&self) -> bool {
        true
    }
}
