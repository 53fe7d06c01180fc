//! The physical rule that puts subtrees on a device: the largest that can be lowered, from the top.
//!
//! ```text
//!   SortExec                              SortExec
//!     AggregateExec Final                   PeltonGpuExec
//!       RepartitionExec            ─▶
//!         AggregateExec Partial
//!           HashJoinExec …
//! ```
//!
//! It runs last of all, on plans whose distribution and order are settled. So it leaves an order that parents count on
//! alone, and where parents count on rows being partitioned by hash, a repartition goes above the device's node.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::error::Result as DataFusionResult;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{
    Distribution, ExecutionPlan, ExecutionPlanProperties, Partitioning, replace_children_if_necessary,
};
use pelton_error::{Error, Result};
use pelton_pipeline::ir::Sink;

use super::cost::Prediction;
use super::devices::{DeviceChoice, Devices};
use super::exec::PeltonGpuExec;
use super::lower::{Lowered, lower};
use crate::scan::PeltonScanExec;

/// Puts what can run on a device there.
#[derive(Debug)]
pub(crate) struct GpuRule {
    devices: Arc<Devices>,
}

impl GpuRule {
    /// For plans that may use `devices`.
    pub(crate) fn new(devices: Arc<Devices>) -> Self {
        Self { devices }
    }
}

impl PhysicalOptimizerRule for GpuRule {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        if self.devices.is_none_for_sure() {
            return Ok(plan);
        }
        rewrite(&plan, &self.devices, false)
    }

    fn name(&self) -> &str {
        "pelton_gpu"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// `plan` with what can run on a device there. `by_hash`: a parent counts on how rows are partitioned.
fn rewrite(
    plan: &Arc<dyn ExecutionPlan>,
    devices: &Arc<Devices>,
    by_hash: bool,
) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
    if is_root(plan) {
        if let Ok((lowered, reason)) = attempt(plan, devices) {
            return on_device(plan, lowered, reason, devices, by_hash);
        }
    }
    let children = plan.children().into_iter().enumerate().map(|(index, child)| {
        let by_hash = counts_on_hash(plan, index, by_hash);
        rewrite(child, devices, by_hash)
    });
    let children = children.collect::<DataFusionResult<Vec<_>>>()?;
    replace_children_if_necessary(Arc::clone(plan), children)
}

/// The node that runs `lowered` in place of `plan`. Its uploads may hold further ones.
fn on_device(
    plan: &Arc<dyn ExecutionPlan>,
    lowered: Lowered,
    reason: String,
    devices: &Arc<Devices>,
    by_hash: bool,
) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
    let uploads = lowered.uploads.iter().map(|upload| rewrite(&upload.plan, devices, false));
    let uploads = uploads.collect::<DataFusionResult<Vec<_>>>()?;
    let node = PeltonGpuExec::new(lowered, uploads, Arc::clone(plan), Arc::clone(devices), reason);
    let node: Arc<dyn ExecutionPlan> = Arc::new(node);
    match plan.output_partitioning() {
        Partitioning::Hash(exprs, count) if by_hash && *count > 1 => {
            let partitioning = Partitioning::Hash(exprs.clone(), *count);
            Ok(Arc::new(RepartitionExec::try_new(node, partitioning)?))
        }
        _ => Ok(node),
    }
}

/// Lowers `plan` and decides that it should run on the device; with why.
///
/// # Errors
///
/// `Unsupported`, with the reason why it stays on the CPU.
pub(super) fn attempt(plan: &Arc<dyn ExecutionPlan>, devices: &Arc<Devices>) -> Result<(Lowered, String)> {
    let lowered = lower(plan, devices)?;
    let reason = match devices.choice() {
        DeviceChoice::Cpu => return Err(Error::unsupported("the CPU was chosen")),
        DeviceChoice::Gpu(_) | DeviceChoice::Host => "chosen by --device".to_owned(),
        DeviceChoice::Auto => choose(&lowered, devices)?,
    };
    devices.runtime()?.check(&lowered.plan)?;
    Ok((lowered, reason))
}

/// Why `Auto` puts `lowered` on the device.
///
/// # Errors
///
/// `Unsupported`, with why it does not. Whether there is a GPU is looked at last: it may take its driver a while.
fn choose(lowered: &Lowered, devices: &Devices) -> Result<String> {
    if is_scan_alone(lowered) {
        return Err(Error::unsupported("filtered rows of one table come as fast from the CPU"));
    }
    let prediction = Prediction::of(&lowered.plan, devices)?;
    if !prediction.prefers_device() {
        return Err(Error::unsupported(prediction.to_string()));
    }
    match devices.is_any() {
        true => Ok(prediction.to_string()),
        false => Err(Error::unsupported("there is no GPU")),
    }
}

/// True for a single pipeline whose rows come out as they are.
fn is_scan_alone(lowered: &Lowered) -> bool {
    matches!(lowered.plan.pipelines.as_slice(), [pipeline] if matches!(pipeline.sink, Sink::Materialize { .. }))
}

/// True for nodes at which a subtree for a device may begin.
fn is_root(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<AggregateExec>()
        || plan.is::<HashJoinExec>()
        || plan.is::<FilterExec>()
        || plan.is::<ProjectionExec>()
        || plan.is::<PeltonScanExec>()
}

/// Whether `plan` counts on how the rows of child `index` are partitioned, itself or for its own parents.
fn counts_on_hash(plan: &Arc<dyn ExecutionPlan>, index: usize, by_hash: bool) -> bool {
    let deals_rows_anew = plan.is::<RepartitionExec>()
        || plan.is::<CoalescePartitionsExec>()
        || plan.is::<SortPreservingMergeExec>();
    if deals_rows_anew {
        return false;
    }
    match plan.input_distribution_requirements().child_distribution(index) {
        Some(Distribution::SinglePartition) => false,
        Some(Distribution::UnspecifiedDistribution) | None => by_hash,
        Some(_) => true,
    }
}
