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
//! A sort goes to the device with what is below it (`sort.rs`). One that stops after few rows stays where it is; its input
//! gives no more rows than it needs (`top.rs`).
//!
//! It runs last of all, on plans whose distribution and order are settled. So an order that parents count on is restored
//! by a sort of what comes out of the device (what drops the columns of the order stays above it), and where parents count on rows being partitioned by hash, a repartition goes above the device's node.
//! Where nobody counts on either and there are many rows, they are dealt to as many partitions as there were before, so that
//! what stays on the CPU runs on all cores. What
//! else an operator may count on is checked when it has its new children (`contract.rs`): where it does not hold, the
//! operator and all below it stay on the CPU.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::error::Result as DataFusionResult;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::InterleaveExec;
use datafusion::physical_plan::{
    Distribution, ExecutionPlan, ExecutionPlanProperties, Partitioning, replace_children_if_necessary,
};
use pelton_error::{Error, Result};
use pelton_pipeline::ir::{Pipeline, Sink};

use super::contract::Contract;
use super::cost::Prediction;
use super::device::{DeviceChoice, DeviceHandle};
use super::enough;
use super::exec::{Cores, PeltonGpuExec};
use super::experience::Verdict;
use super::full::FullParts;
use super::join::Join;
use super::lower::{Asked, Lowered, lower};
use super::raw_keys::ByRawKeys;
use super::sort::{Sorted, merged_below_projections};
use super::subquery;
use super::top::FirstRows;
use super::trial::{PeltonTrialExec, key_of};
use super::tries::Tries;
use super::windows::Windowed;
use crate::scan::PeltonScanExec;

/// Rows that a subtree scans at least before `Auto` compiles kernels for the host: a second of a compiler for a kernel has to
/// be worth it. A guess.
const HOST_ROWS_MIN: u64 = 1 << 20;
/// Of more rows, kernels of the host build no table, and of more groups they make none: all cores write to one, where the
/// CPU's operators have one for each, or for each part of the keys.
const HOST_BUILD_ROWS_MAX: u64 = 1 << 25;
const HOST_GROUPS_MAX: u64 = 1 << 20;

/// Puts what can run on a device there.
#[derive(Debug)]
pub(crate) struct GpuRule {
    device: Arc<DeviceHandle>,
}

impl GpuRule {
    /// What EXPLAIN VERBOSE calls it.
    pub(crate) const NAME: &str = "pelton_gpu";

    /// A rule for plans that may run on `device`.
    pub(crate) fn new(device: Arc<DeviceHandle>) -> Self {
        Self { device }
    }
}

impl PhysicalOptimizerRule for GpuRule {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        if self.device.is_none_for_sure() {
            return Ok(plan);
        }
        enough::tell(&rewrite(&plan, &Tries::on(&self.device), false)?, None)
    }

    fn name(&self) -> &str {
        Self::NAME
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// `plan` with what can run on a device there. `by_hash`: a parent counts on how rows are partitioned.
fn rewrite(
    plan: &Arc<dyn ExecutionPlan>,
    tries: &Tries<'_>,
    by_hash: bool,
) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
    if let Some(joined) = subquery::joined(plan, by_hash, |joined| rewrite(joined, tries, by_hash))? {
        return Ok(joined);
    }
    if is_root(plan)
        && !keeps_its_order(plan, by_hash)
        && !hides_its_order(plan)
        && !is_over_sort(plan, tries)
        && let Some(placed) = on_device(plan, Asked::All, tries)?
    {
        return match placed {
            Placed::Device(node) => partitioned_as(plan, ordered_as(plan, node), by_hash),
            Placed::Trial(node, key) => Ok(Arc::new(PeltonTrialExec::new(Arc::clone(plan), node, key))),
            Placed::Cpu => Ok(Arc::clone(plan)),
        };
    }
    if let Ok(Some(windowed)) = Windowed::of(plan)
        && !by_hash
        && let Some(placed) = windows_on_device(plan, &windowed, tries)?
    {
        return Ok(placed);
    }
    if let Some(sorted) = Sorted::of(plan).filter(|_| !by_hash)
        && !is_by_threshold(&sorted, tries)
        && let Some(placed) = in_order_on_device(plan, &sorted, tries)?
    {
        return Ok(placed);
    }
    if let Some((above, sorted)) = merged_below_projections(plan).filter(|_| !by_hash)
        && !is_by_threshold(&sorted, tries)
        && tries.would_run(&sorted.input, Asked::InOrder(&sorted), |_| true)
    {
        return rewrite(&above, tries, by_hash);
    }
    if let Some(sort) = plan.downcast_ref::<SortExec>()
        && !by_hash
        && let Some(first) = FirstRows::of(sort)
        && let Some(placed) = on_device(sort.input(), Asked::First(&first), tries)?
    {
        return Ok(match placed {
            Placed::Device(node) => FirstRows::sort_again(sort, node),
            // Below the sort, which takes all rows; whoever takes those of the sort may stop before the end.
            Placed::Trial(node, key) => {
                let input = PeltonTrialExec::new(Arc::clone(sort.input()), node, key);
                replace_children_if_necessary(Arc::clone(plan), vec![Arc::new(input)])?
            }
            Placed::Cpu => Arc::clone(plan),
        });
    }
    if let Some(placed) = by_raw_keys(plan, tries, by_hash)? {
        return Ok(placed);
    }
    if let Some(placed) = full_join(plan, tries, by_hash)? {
        return Ok(placed);
    }
    let children = plan.children().into_iter().enumerate().map(|(index, child)| {
        let by_hash = counts_on_hash(plan, index, by_hash);
        dealt(plan, child, rewrite(child, tries, by_hash)?)
    });
    let children = children.collect::<DataFusionResult<Vec<_>>>()?;
    if !Contract::of(plan, by_hash).holds_over(&children) {
        return Ok(Arc::clone(plan));
    }
    if let Some(merged) = merged_already(plan, &children) {
        return Ok(merged);
    }
    match replace_children_if_necessary(Arc::clone(plan), children) {
        Ok(rewritten) if Contract::of(plan, by_hash).is_kept_by(&rewritten) => Ok(rewritten),
        // An operator that refuses what it is given counts on something else: it keeps what it was planned over.
        Ok(_) | Err(_) => Ok(Arc::clone(plan)),
    }
}

/// `plan`, an aggregate by what the device does not compute of texts, over groups by these texts that it makes.
fn by_raw_keys(
    plan: &Arc<dyn ExecutionPlan>,
    tries: &Tries<'_>,
    by_hash: bool,
) -> DataFusionResult<Option<Arc<dyn ExecutionPlan>>> {
    let Some(by_raw_keys) = ByRawKeys::of(plan)? else { return Ok(None) };
    let groups: Arc<dyn ExecutionPlan> = match on_device(&by_raw_keys.aggregate, Asked::All, tries)? {
        Some(Placed::Device(node)) => node,
        Some(Placed::Trial(node, key)) => {
            Arc::new(PeltonTrialExec::new(Arc::clone(&by_raw_keys.aggregate), node, key))
        }
        Some(Placed::Cpu) | None => return Ok(None),
    };
    let above = by_raw_keys.over(groups)?;
    Ok(above.filter(|above| Contract::of(plan, by_hash).is_kept_by(above)))
}

/// `plan`, which is over a FULL join, as two parts that both run on the device.
fn full_join(
    plan: &Arc<dyn ExecutionPlan>,
    tries: &Tries<'_>,
    by_hash: bool,
) -> DataFusionResult<Option<Arc<dyn ExecutionPlan>>> {
    let Some(full) = FullParts::of(plan)? else { return Ok(None) };
    let place = |part: &Arc<dyn ExecutionPlan>| -> DataFusionResult<Option<Arc<dyn ExecutionPlan>>> {
        if !tries.would_run(part, Asked::All, FullParts::is_cheap) {
            return Ok(None);
        }
        Ok(match on_device(part, Asked::All, tries)? {
            Some(Placed::Device(node)) => Some(node),
            Some(Placed::Trial(node, key)) => {
                Some(Arc::new(PeltonTrialExec::new(Arc::clone(part), node, key)))
            }
            Some(Placed::Cpu) | None => None,
        })
    };
    let Some(left) = place(&full.parts[0])? else { return Ok(None) };
    let Some(right) = place(&full.parts[1])? else { return Ok(None) };
    let above = full.over([left, right])?;
    Ok(Some(above).filter(|above| Contract::of(plan, by_hash).is_kept_by(above)))
}

/// The child of a merge of all rows that has them in order and in one partition: there is nothing to merge.
fn merged_already(
    plan: &Arc<dyn ExecutionPlan>,
    children: &[Arc<dyn ExecutionPlan>],
) -> Option<Arc<dyn ExecutionPlan>> {
    let merge = plan.downcast_ref::<SortPreservingMergeExec>().filter(|merge| merge.fetch().is_none())?;
    let [child] = children else { return None };
    let is_in_order = child.equivalence_properties().ordering_satisfy(merge.expr().clone()).unwrap_or(false);
    (child.output_partitioning().partition_count() == 1 && is_in_order).then(|| Arc::clone(child))
}

/// True where `sorted` stops after few rows, and a threshold finds those.
fn is_by_threshold(sorted: &Sorted, tries: &Tries<'_>) -> bool {
    let first = sorted.first.as_ref().filter(|_| sorted.is_of_few_rows());
    first.is_some_and(|first| tries.would_run(&sorted.input, Asked::First(first), |_| true))
}

/// What gives the rows of `plan`, which is `sorted`, where the device should sort them.
fn in_order_on_device(
    plan: &Arc<dyn ExecutionPlan>,
    sorted: &Sorted,
    tries: &Tries<'_>,
) -> DataFusionResult<Option<Arc<dyn ExecutionPlan>>> {
    Ok(match on_device(&sorted.input, Asked::InOrder(sorted), tries)? {
        Some(Placed::Device(node)) => Some(node),
        Some(Placed::Trial(node, key)) => Some(Arc::new(PeltonTrialExec::new(Arc::clone(plan), node, key))),
        Some(Placed::Cpu) => Some(Arc::clone(plan)),
        None => None,
    })
}

/// What gives the rows of `plan`, which is `windowed`, where the device should compute its windows.
fn windows_on_device(
    plan: &Arc<dyn ExecutionPlan>,
    windowed: &Windowed,
    tries: &Tries<'_>,
) -> DataFusionResult<Option<Arc<dyn ExecutionPlan>>> {
    Ok(match on_device(&windowed.sorted.input, Asked::Windowed(windowed), tries)? {
        Some(Placed::Device(node)) => Some(node),
        Some(Placed::Trial(node, key)) => Some(Arc::new(PeltonTrialExec::new(Arc::clone(plan), node, key))),
        Some(Placed::Cpu) => Some(Arc::clone(plan)),
        None => None,
    })
}

/// The node that gives what is `asked` of the rows of `plan` on the device, where it should run there. Its host inputs may
/// hold further ones.
fn on_device(
    plan: &Arc<dyn ExecutionPlan>,
    asked: Asked<'_>,
    tries: &Tries<'_>,
) -> DataFusionResult<Option<Placed>> {
    let device = tries.device;
    let Some((lowered, reason)) = tries.take(plan, asked) else { return Ok(None) };
    let host_inputs = lowered.host_inputs.iter().map(|host_input| rewrite(&host_input.plan, tries, false));
    let host_inputs = host_inputs.collect::<DataFusionResult<Vec<_>>>()?;
    let node = match asked {
        Asked::All | Asked::First(_) => {
            PeltonGpuExec::new(lowered, host_inputs, Arc::clone(plan), Arc::clone(device), reason)
        }
        Asked::InOrder(sorted) => {
            let cpu = Arc::clone(&sorted.cpu);
            PeltonGpuExec::new(lowered, host_inputs, cpu, Arc::clone(device), reason)
                .with_properties(sorted.properties())
        }
        Asked::Windowed(windowed) => {
            let cpu = Arc::clone(&windowed.cpu);
            PeltonGpuExec::new(lowered, host_inputs, cpu, Arc::clone(device), reason)
                .with_properties(windowed.properties())
        }
    };
    let learns = matches!(device.choice(), DeviceChoice::Auto | DeviceChoice::AutoHost);
    if !learns || device.has_pinned(&node.plan().pipelines) {
        let node = node.with_cores(if device.always_uses_host() { Cores::Used } else { Cores::Unused });
        return Ok(Some(Placed::Device(Arc::new(node))));
    }
    let key = key_of(&node);
    Ok(match device.experience().verdict(key) {
        Verdict::Device(reason, cores) => {
            let is_far = device.has_host_worker() && !device.holds_all_of(&node.plan().pipelines);
            let cores = if is_far { cores } else { Cores::Unused };
            Some(Placed::Device(Arc::new(node.learnt(key, reason).with_cores(cores))))
        }
        // Smaller parts are tried out next, where their kernels are not seconds of a compiler.
        Verdict::Cpu(_) => device.tries_host().then_some(Placed::Cpu),
        Verdict::Try => Some(Placed::Trial(Arc::new(node), key)),
    })
}

/// Where a subtree that the device can run is to run.
enum Placed {
    /// On the device.
    Device(Arc<dyn ExecutionPlan>),
    /// On the CPU; and then the device is tried out, and what it took goes by this name.
    Trial(Arc<PeltonGpuExec>, u64),
    /// On the CPU, with all that is below it.
    Cpu,
}

/// `node`, of one partition, in place of `plan`: with the partitions of `plan` where a parent counts on them.
fn partitioned_as(
    plan: &Arc<dyn ExecutionPlan>,
    node: Arc<dyn ExecutionPlan>,
    by_hash: bool,
) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
    match plan.output_partitioning() {
        Partitioning::Hash(exprs, count) if by_hash && *count > 1 => {
            let partitioning = Partitioning::Hash(exprs.clone(), *count);
            Ok(Arc::new(RepartitionExec::try_new(node, partitioning)?))
        }
        _ => Ok(node),
    }
}

/// `after`, which is in place of `before` below `parent`: dealt to as many partitions as that had, where the parent works on
/// these side by side. Whoever counts on partitions by hash, or on an order, has had these restored already.
fn dealt(
    parent: &Arc<dyn ExecutionPlan>,
    before: &Arc<dyn ExecutionPlan>,
    after: Arc<dyn ExecutionPlan>,
) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
    let brings_together = parent.is::<CoalescePartitionsExec>()
        || parent.is::<SortPreservingMergeExec>()
        || parent.is::<RepartitionExec>()
        || parent.fetch().is_some();
    let count = before.output_partitioning().partition_count();
    let is_worth_it = after.downcast_ref::<PeltonGpuExec>().is_some_and(PeltonGpuExec::is_worth_dealing);
    if brings_together || count < 2 || !is_worth_it || after.output_ordering().is_some() {
        return Ok(after);
    }
    Ok(Arc::new(RepartitionExec::try_new(after, Partitioning::RoundRobinBatch(count))?))
}

/// `node` in the order that parents of `plan` may count on.
fn ordered_as(plan: &Arc<dyn ExecutionPlan>, node: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    match plan.output_ordering() {
        Some(order) => Arc::new(SortExec::new(order.clone(), node)),
        None => node,
    }
}

/// True where a parent may count on an order that the device would lose and nobody else should restore: that of a scan,
/// whose rows the CPU has in order, or one of several partitions by hash.
fn keeps_its_order(plan: &Arc<dyn ExecutionPlan>, by_hash: bool) -> bool {
    fn is_scan(plan: &Arc<dyn ExecutionPlan>) -> bool {
        !plan.is::<AggregateExec>() && Join::of(plan).is_none() && plan.children().into_iter().all(is_scan)
    }
    plan.output_ordering().is_some() && (by_hash || is_scan(plan))
}

/// True where rows come sorted by more than the columns of `plan`, so that nobody above could restore their order. A sort
/// may be far below: joins keep the order of the side that looks up, and DataFusion puts sorts there.
fn hides_its_order(plan: &Arc<dyn ExecutionPlan>) -> bool {
    fn keys_below(plan: &Arc<dyn ExecutionPlan>) -> usize {
        if let Some(sort) = plan.downcast_ref::<SortExec>() {
            return sort.expr().len();
        }
        if let Some(merge) = plan.downcast_ref::<SortPreservingMergeExec>() {
            return merge.expr().len();
        }
        let of_child = |(child, keeps_order)| if keeps_order { keys_below(child) } else { 0 };
        let children = plan.children().into_iter().zip(plan.maintains_input_order());
        children.map(of_child).max().unwrap_or(0)
    }
    plan.output_ordering().map_or(0, |order| order.len()) < keys_below(plan)
}

/// True for what computes columns of rows that the device is to sort: the sort goes there, and this stays above it.
fn is_over_sort(plan: &Arc<dyn ExecutionPlan>, tries: &Tries<'_>) -> bool {
    let Some(projection) = plan.downcast_ref::<ProjectionExec>() else { return false };
    let sorted = Sorted::of(projection.input()).filter(|sorted| !is_by_threshold(sorted, tries));
    sorted.is_some_and(|sorted| tries.would_run(&sorted.input, Asked::InOrder(&sorted), |_| true))
}

/// Lowers what is `asked` of the rows of `plan`, and decides that it should run on the device; with why.
///
/// # Errors
///
/// `Unsupported`, with the reason why it stays on the CPU.
pub(super) fn attempt(
    plan: &Arc<dyn ExecutionPlan>,
    asked: Asked<'_>,
    device: &Arc<DeviceHandle>,
) -> Result<(Lowered, String)> {
    let lowered = lower(plan, asked, device)?;
    let reason = match device.choice() {
        DeviceChoice::Cpu => return Err(Error::unsupported("the CPU was chosen")),
        DeviceChoice::Gpu(_) | DeviceChoice::GpuAndHost(_) | DeviceChoice::Host => {
            device.runtime()?;
            "chosen by --device".to_owned()
        }
        DeviceChoice::Auto | DeviceChoice::AutoHost => choose(&lowered, device)?,
    };
    match asked {
        Asked::InOrder(sorted) => sorted.check(&lowered.plan, device)?,
        Asked::Windowed(windowed) => windowed.check(&lowered.plan, device)?,
        Asked::All | Asked::First(_) => {}
    }
    Ok((lowered, reason))
}

/// Why `Auto` puts `lowered` on the device.
///
/// # Errors
///
/// `Unsupported`, with why it does not.
fn choose(lowered: &Lowered, device: &DeviceHandle) -> Result<String> {
    if device.tries_host() {
        return choose_host(lowered);
    }
    if is_scan_alone(lowered) && !device.holds_all_of(&lowered.plan.pipelines) {
        return Err(Error::unsupported("filtered rows of one table come as fast from the CPU"));
    }
    if device.choice() == DeviceChoice::AutoHost {
        return Ok("chosen to be tried out".into());
    }
    let prediction = Prediction::of(&lowered.plan, device);
    // What was pinned runs there at once; all else is tried out first, and what took how long decides.
    let is_for_device = match device.has_pinned(&lowered.plan.pipelines) {
        true => prediction.prefers_device(),
        false => prediction.may_prefer_device(),
    };
    if !is_for_device {
        return Err(Error::unsupported(prediction.to_string()));
    }
    Ok(prediction.to_string())
}

/// Why `Auto` tries `lowered` out in kernels of the host, which nobody predicts.
///
/// # Errors
///
/// `Unsupported`, with why it does not.
fn choose_host(lowered: &Lowered) -> Result<String> {
    if is_scan_alone(lowered) {
        return Err(Error::unsupported("filtered rows of one table come as fast without kernels"));
    }
    let rows: u64 = lowered.scans.iter().map(|(_, scan)| scan.rows_left()).sum();
    if rows < HOST_ROWS_MIN {
        return Err(Error::unsupported(format!("{rows} rows are too few to compile kernels for")));
    }
    for (pipeline, scan) in &lowered.scans {
        let is_built = matches!(lowered.plan.pipelines[*pipeline].sink, Sink::Build { .. });
        if is_built && scan.rows_left() > HOST_BUILD_ROWS_MAX {
            return Err(Error::unsupported(format!("{} rows to build a table of", scan.rows_left())));
        }
    }
    let groups = |pipeline: &Pipeline| match &pipeline.sink {
        Sink::Aggregate { keys, expected, .. } if !keys.is_empty() => *expected,
        _ => None,
    };
    let groups = lowered.plan.pipelines.iter().filter_map(groups).max().unwrap_or(0);
    if groups > HOST_GROUPS_MAX {
        return Err(Error::unsupported(format!(
            "about {groups} groups, which cores make apart from each other"
        )));
    }
    Ok("chosen to be tried out".into())
}

/// True for a single pipeline whose rows all come out as they are.
fn is_scan_alone(lowered: &Lowered) -> bool {
    let comes_out = |sink: &Sink| matches!(sink, Sink::Materialize { top: None, order: None, .. });
    matches!(lowered.plan.pipelines.as_slice(), [pipeline] if comes_out(&pipeline.sink))
}

/// True for nodes at which a subtree for a device may begin.
pub(super) fn is_root(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<AggregateExec>()
        || Join::of(plan).is_some()
        || plan.is::<FilterExec>()
        || plan.is::<ProjectionExec>()
        || plan.is::<PeltonScanExec>()
}

/// Whether `plan` counts on how the rows of child `index` are partitioned, itself or for its own parents.
pub(super) fn counts_on_hash(plan: &Arc<dyn ExecutionPlan>, index: usize, by_hash: bool) -> bool {
    if plan.is::<InterleaveExec>() {
        return true; // it requires nothing, and interleaves equal partitions
    }
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
