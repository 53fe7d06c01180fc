//! A subtree of a physical plan as pipelines.
//!
//! ```text
//!   AggregateExec              pipeline 0   scan date ─► filter ─► build hash table 0
//!     HashJoinExec             pipeline 1   scan lineorder ─► filter ─► probe hash table 0 ─► aggregate
//!       scan date
//!       scan lineorder
//! ```
//!
//! The rows of a subtree are one pipeline from its probing leaf up; every build side is a pipeline of its own, finished
//! before the one that probes it. What two parts of a subtree compute alike, tables or groups, is made once, and both read
//! it. A build side that kernels cannot make stays a plan of the CPU whose rows are copied
//! to the device: a *host input*. Columns are asked for from the top, so that nothing is read that nobody uses.
//!
//! What cannot be lowered is an error of kind `Unsupported` that says why.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNode;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, DynamicFilterPhysicalExpr};
use datafusion::physical_expr::scalar_subquery::ScalarSubqueryExpr;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateOutputMode};
use datafusion::physical_plan::buffer::BufferExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use pelton_error::{Error, Result};
use pelton_pipeline::ir::{Op, Pipeline, Plan, Sink};

use super::aggregate::needs_more;
use super::builder::{Flow, Parameters, PipelineBuilder, TextColumn};
use super::device::DeviceHandle;
use super::expr::Exprs;
use super::host_input::HostInput;
use super::join::Join;
use super::of_groups::OfGroups;
use super::sort::Sorted;
use super::top::FirstRows;
use super::value::{LateText, Value};
use super::windows::Windowed;
use crate::deferred::DeferredExec;
use crate::scan::PeltonScanExec;
use crate::shared::SharedExec;

/// Output columns of a plan node that are asked for.
pub(super) type Needed = BTreeSet<usize>;

/// A subtree as pipelines, and what running them needs.
#[derive(Debug)]
pub(super) struct Lowered {
    /// What runs.
    pub(super) plan: Plan,
    /// What the CPU computes, by number of the host input.
    pub(super) host_inputs: Vec<HostInput>,
    /// The scans, each with the number of its pipeline.
    pub(super) scans: Vec<(usize, PeltonScanExec)>,
    /// The columns of the result.
    pub(super) schema: SchemaRef,
    /// Whose values pipelines take as parameters, by number.
    pub(super) parameters: Vec<Arc<dyn PhysicalExpr>>,
    /// Columns of the result that are fetched once its rows are known, by column.
    pub(super) late: Vec<Option<LateText>>,
    /// By key of the order of rows: the text that is read where those of several rows begin alike.
    pub(super) key_texts: Vec<Option<LateText>>,
    /// Columns of groups that are hashes of texts, each with the column that has the numbers of their rows: the latter
    /// are the last ones.
    pub(super) key_rows: Vec<(usize, usize)>,
    /// Columns of the result that are counts of averages: NULL where the sum, the column after, is.
    pub(super) average_counts: Vec<usize>,
    /// What the host makes of groups that come out; `None`: they, or rows, are the result.
    pub(super) of_groups: Option<OfGroups>,
}

/// What is asked of the rows of a plan.
#[derive(Debug, Clone, Copy)]
pub(super) enum Asked<'a> {
    /// All of them, in any order.
    All,
    /// Only these.
    First(&'a FirstRows),
    /// All, or the first ones, in order.
    InOrder(&'a Sorted),
    /// All, in order, with what windows compute of them.
    Windowed(&'a Windowed),
}

/// Lowers what is asked of the rows of `plan`.
///
/// # Errors
///
/// `Unsupported`, with the reason.
pub(super) fn lower(
    plan: &Arc<dyn ExecutionPlan>,
    asked_rows: Asked<'_>,
    device: &Arc<DeviceHandle>,
) -> Result<Lowered> {
    let mut views = HashSet::new();
    loop {
        match lower_with(plan, asked_rows, device, Some(&views)) {
            // More is asked of a text than the number of its row: kernels read its bytes.
            Err(Refusal { asked, .. }) if !asked.is_subset(&views) => views.extend(asked),
            // It takes more than that: a dictionary is made of it, or its rows come from the CPU.
            Err(Refusal { has_late: true, .. }) => break,
            lowered => return lowered.map_err(|refusal| refusal.error),
        }
    }
    lower_with(plan, asked_rows, device, None).map_err(|refusal| refusal.error)
}

/// Why a plan was not lowered.
struct Refusal {
    error: Error,
    /// Whether it met texts that are fetched at the end.
    has_late: bool,
    /// The texts of which more was asked.
    asked: HashSet<TextColumn>,
}

fn lower_with(
    plan: &Arc<dyn ExecutionPlan>,
    asked_rows: Asked<'_>,
    device: &Arc<DeviceHandle>,
    views: Option<&HashSet<TextColumn>>,
) -> std::result::Result<Lowered, Refusal> {
    let mut lowering = Lowering::new(device, views);
    let lowered = lowering.whole(plan, asked_rows);
    let (has_late, asked) = (lowering.has_late, lowering.parameters.asked());
    lowered.map_err(|error| Refusal { error, has_late, asked })?;
    let host_input_count = lowering.host_inputs.len();
    let plan_of = Plan {
        pipelines: lowering.pipelines,
        table_count: lowering.table_count,
        host_input_count,
        unique_tables: lowering.unique_tables,
    };
    let schema = match asked_rows {
        Asked::Windowed(windowed) => windowed.schema(),
        Asked::All | Asked::First(_) | Asked::InOrder(_) => plan.schema(),
    };
    let column_count = match &lowering.of_groups {
        Some(of_groups) => of_groups.aggregate_schema().fields().len(),
        None => schema.fields().len(),
    };
    let mut late = lowering.late;
    late.resize(column_count, None);
    Ok(Lowered {
        plan: plan_of,
        host_inputs: lowering.host_inputs,
        scans: lowering.scans,
        schema,
        parameters: lowering.parameters.list(),
        late,
        key_texts: lowering.key_texts,
        key_rows: lowering.key_rows,
        average_counts: lowering.average_counts,
        of_groups: lowering.of_groups,
    })
}

/// Pipelines as they come to be.
pub(super) struct Lowering<'a> {
    pub(super) device: &'a Arc<DeviceHandle>,
    pipelines: Vec<Pipeline>,
    table_count: usize,
    host_inputs: Vec<HostInput>,
    scans: Vec<(usize, PeltonScanExec)>,
    pub(super) parameters: Parameters,
    /// Where texts without a dictionary may be fetched for the rows that come out: of which of them more is asked.
    pub(super) views: Option<&'a HashSet<TextColumn>>,
    /// Whether there is such a text.
    pub(super) has_late: bool,
    /// See [`Lowered`].
    pub(super) late: Vec<Option<LateText>>,
    /// See [`Lowered`].
    key_texts: Vec<Option<LateText>>,
    /// See [`Lowered`].
    pub(super) key_rows: Vec<(usize, usize)>,
    /// Hash tables whose keys must not repeat.
    pub(super) unique_tables: Vec<usize>,
    /// See [`Lowered`].
    pub(super) average_counts: Vec<usize>,
    /// See [`Lowered`].
    pub(super) of_groups: Option<OfGroups>,
}

/// What to go back to where a side turns out not to be lowered.
struct Mark {
    pipelines: usize,
    table_count: usize,
    host_inputs: usize,
    scans: usize,
    unique_tables: usize,
}

impl<'a> Lowering<'a> {
    fn new(device: &'a Arc<DeviceHandle>, views: Option<&'a HashSet<TextColumn>>) -> Self {
        Self {
            device,
            views,
            has_late: false,
            late: Vec::new(),
            key_texts: Vec::new(),
            key_rows: Vec::new(),
            unique_tables: Vec::new(),
            pipelines: Vec::new(),
            table_count: 0,
            host_inputs: Vec::new(),
            scans: Vec::new(),
            parameters: Parameters::default(),
            average_counts: Vec::new(),
            of_groups: None,
        }
    }

    /// What is asked of the rows of `plan`.
    fn whole(&mut self, plan: &Arc<dyn ExecutionPlan>, asked: Asked<'_>) -> Result<()> {
        match groups_alone(plan).filter(|_| matches!(asked, Asked::All)) {
            Some((aggregate, projections)) => {
                let expected = pelton_planner::estimated_rows(plan).map(|groups| groups as u64);
                self.aggregate(aggregate, &projections, expected)?;
            }
            None => self.materialize(plan, asked)?,
        }
        match self.scans.is_empty() {
            true => Err(Error::unsupported("it reads no Pelton table")),
            false => Ok(()),
        }
    }

    /// The rows of `plan` that are asked for as the result.
    fn materialize(&mut self, plan: &Arc<dyn ExecutionPlan>, asked: Asked<'_>) -> Result<()> {
        let column_count = plan.schema().fields().len();
        if column_count == 0 {
            return Err(Error::unsupported("its rows have no columns"));
        }
        let needed = match asked {
            Asked::Windowed(windowed) => windowed.needed()?,
            Asked::All | Asked::First(_) | Asked::InOrder(_) => (0..column_count).collect(),
        };
        let mut flow = self.flow(plan, &needed)?;
        let (mut columns, mut late, schema) = (Vec::new(), Vec::new(), plan.schema());
        if !matches!(asked, Asked::Windowed(_)) {
            for index in 0..column_count {
                let value = flow.output(index)?;
                columns.push(value.expr.clone());
                late.push(value.late.clone());
            }
        }
        let (top, order) = match asked {
            Asked::All => (None, None),
            Asked::First(first) => (Some(first.lower(&mut flow, &schema)?), None),
            Asked::InOrder(sorted) => {
                let (order, texts) = sorted.lower(&mut flow, &schema, &mut columns)?;
                if columns.len() > column_count {
                    return Err(Error::unsupported(
                        "a sort by texts that are not among the columns of its rows",
                    ));
                }
                self.key_texts = texts;
                (None, Some(order))
            }
            Asked::Windowed(windowed) => {
                let (mut order, texts) = windowed.sorted.lower(&mut flow, &schema, &mut columns)?;
                order.windows = Some(windowed.lower(&mut flow, &schema, &mut columns, &mut late)?);
                self.key_texts = texts;
                (None, Some(order))
            }
        };
        self.late = late;
        let does_more = top.is_some() || order.is_some();
        self.finish(flow.builder, "rows of", Sink::Materialize { columns, top, order });
        // What is in memory of the device already comes from there as fast as its link is.
        let is_there = self.device.holds_all_of(&self.pipelines);
        if !does_more && !is_there && !self.pipelines.iter().any(drops_rows) {
            return Err(Error::unsupported("nothing in it reduces rows"));
        }
        Ok(())
    }

    /// The rows of `plan`, with the columns that are needed.
    ///
    /// # Errors
    ///
    /// `Unsupported`, with the reason.
    pub(super) fn flow(&mut self, plan: &Arc<dyn ExecutionPlan>, needed: &Needed) -> Result<Flow> {
        if plan.fetch().is_some() {
            return Err(Error::unsupported(format!("{} stops at a number of rows", plan.name())));
        }
        if let Some(scan) = plan.downcast_ref::<PeltonScanExec>() {
            return self.scan(scan, needed);
        }
        if let Some(join) = Join::of(plan) {
            return self.join(&join, needed);
        }
        if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
            return self.projection(projection, needed);
        }
        if let Some(filter) = plan.downcast_ref::<FilterExec>() {
            return self.filter(filter, needed);
        }
        if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
            return self.groups(plan, aggregate, needed);
        }
        // Whoever relies on the order of rows sorts what comes out of the device.
        if moves_rows_only(plan) || plan.is::<SortExec>() || plan.is::<SortPreservingMergeExec>() {
            return self.flow(plan.children()[0], needed);
        }
        if let Some(subtree) = seen_through(plan) {
            return self.flow(subtree, needed);
        }
        Err(Error::unsupported(format!("kernels have no {}", plan.name())))
    }

    /// As [`flow`](Self::flow); what cannot be lowered becomes a host input, if it is at most `rows_max` rows.
    ///
    /// # Errors
    ///
    /// `Unsupported` where it is larger, with the reason why it was not lowered.
    pub(super) fn flow_or_host_input(
        &mut self,
        plan: &Arc<dyn ExecutionPlan>,
        needed: &Needed,
        rows_max: f64,
    ) -> Result<Flow> {
        let mark = self.mark();
        let error = match self.flow(plan, needed) {
            Ok(flow) => return Ok(flow),
            Err(error) => error,
        };
        self.back_to(&mark);
        let plan = without_exchanges(plan);
        match pelton_planner::estimated_rows(plan) {
            Some(rows) if rows <= rows_max => {}
            Some(rows) => {
                return Err(error.context(format!("{rows:.0} rows are too many to copy to the device")));
            }
            None => return Err(error.context("rows of an unknown number are not copied to the device")),
        }
        let host_input =
            HostInput::try_new(plan, needed).map_err(|other| error.context(other.to_string()))?;
        let flow = host_input.flow(self.host_inputs.len(), &self.parameters);
        self.host_inputs.push(host_input);
        Ok(flow)
    }

    fn projection(&mut self, projection: &ProjectionExec, needed: &Needed) -> Result<Flow> {
        let exprs = projection.expr();
        let below = columns_of(needed.iter().map(|&index| &exprs[index].expr));
        let mut flow = self.flow(projection.input(), &below)?;
        let schema = projection.input().schema();
        let mut outputs = vec![None; exprs.len()];
        for &index in needed {
            let value = flow.exprs(&schema).carry(&exprs[index].expr)?;
            // Computed once, however often it is used above.
            let is_plain = matches!(value.expr, pelton_pipeline::ir::Expr::Literal(_));
            let value = if is_plain { value } else { flow.builder.as_column(&exprs[index].alias, value) };
            outputs[index] = Some(value);
        }
        Ok(Flow { outputs, ..flow })
    }

    fn filter(&mut self, filter: &FilterExec, needed: &Needed) -> Result<Flow> {
        let input_column = |index: usize| match filter.projection().as_ref() {
            Some(projection) => projection[index],
            None => index,
        };
        let mut below: Needed = needed.iter().map(|&index| input_column(index)).collect();
        below.extend(columns_of([filter.predicate()]));
        let mut flow = self.flow(filter.input(), &below)?;
        let schema = filter.input().schema();
        let conjuncts = datafusion::physical_expr::split_conjunction(filter.predicate());
        // What operators offer while they run leaves out rows that they would leave out themselves.
        for conjunct in conjuncts.into_iter().filter(|conjunct| !conjunct.is::<DynamicFilterPhysicalExpr>()) {
            let condition = flow.exprs(&schema).condition(conjunct)?;
            flow.builder.filter(condition);
        }
        let mut outputs = vec![None; filter.schema().fields().len()];
        for &index in needed {
            outputs[index] = Some(flow.output(input_column(index))?.clone());
        }
        Ok(Flow { outputs, ..flow })
    }

    /// Ends a pipeline in a hash table, and gives the table's number.
    ///
    /// # Errors
    ///
    /// `Unsupported` for what tables do not hold.
    pub(super) fn build(
        &mut self,
        builder: PipelineBuilder,
        keys: &[Value],
        payload: &[Value],
    ) -> Result<usize> {
        builder.check_kept(keys.iter().chain(payload))?;
        let table = self.table_count;
        let exprs = |values: &[Value]| values.iter().map(|value| value.expr.clone()).collect();
        let sink = Sink::Build { table, keys: exprs(keys), payload: exprs(payload) };
        let number = self.finish(builder, "build from", sink);
        let Sink::Build { table, .. } = self.pipelines[number].sink else {
            unreachable!("it ends in a table")
        };
        self.table_count = self.table_count.max(table + 1);
        Ok(table)
    }

    /// Ends a pipeline in `sink`; gives the number of the pipeline that makes the table or the groups: an earlier one, where
    /// that makes the same.
    pub(super) fn finish(&mut self, builder: PipelineBuilder, purpose: &str, sink: Sink) -> usize {
        let (pipeline, scan) = builder.into_pipeline(purpose, sink);
        if let Some(earlier) = self.pipelines.iter().position(|earlier| earlier.is_same_as(&pipeline)) {
            return earlier;
        }
        let number = self.pipelines.len();
        self.scans.extend(scan.map(|scan| (number, scan)));
        self.pipelines.push(pipeline);
        number
    }

    /// Whether pipeline `number` is the last one so far, whose sink is the result.
    pub(super) fn is_last(&self, number: usize) -> bool {
        number + 1 == self.pipelines.len()
    }

    fn mark(&self) -> Mark {
        Mark {
            pipelines: self.pipelines.len(),
            table_count: self.table_count,
            host_inputs: self.host_inputs.len(),
            scans: self.scans.len(),
            unique_tables: self.unique_tables.len(),
        }
    }

    fn back_to(&mut self, mark: &Mark) {
        self.pipelines.truncate(mark.pipelines);
        self.table_count = mark.table_count;
        self.host_inputs.truncate(mark.host_inputs);
        self.scans.truncate(mark.scans);
        self.unique_tables.truncate(mark.unique_tables);
    }
}

impl Flow {
    /// Lowers expressions over this flow's outputs, which have the types of `schema`.
    pub(super) fn exprs<'f>(&'f mut self, schema: &'f SchemaRef) -> Exprs<'f> {
        Exprs { builder: &mut self.builder, inputs: &self.outputs, schema }
    }
}

/// Groups of which the host computes something, at most; of more the device does. A guess: an expression takes the host
/// about a millisecond for so many.
const ROWS_ON_HOST_MAX: f64 = (1 << 17) as f64;

/// The aggregate whose groups are all that `plan` computes, but for what the host is to make of them: projections above
/// it, the lowest first. `None` where the device is to compute those, since the groups may be many.
fn groups_alone(plan: &Arc<dyn ExecutionPlan>) -> Option<(&AggregateExec, Vec<&ProjectionExec>)> {
    let (mut node, mut projections) = (plan, Vec::new());
    let aggregate = loop {
        if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
            break aggregate;
        }
        let is_order = node.is::<SortExec>() || node.is::<SortPreservingMergeExec>();
        if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
            projections.push(projection);
        } else if let Some(subtree) = seen_through(node) {
            node = subtree;
            continue;
        } else if !moves_rows_only(node) && (!is_order || node.fetch().is_some()) {
            return None;
        }
        node = node.children()[0];
    };
    projections.reverse();
    if aggregate.mode().output_mode() == AggregateOutputMode::Partial {
        return projections.is_empty().then_some((aggregate, projections));
    }
    let mut exprs =
        projections.iter().flat_map(|projection| projection.expr()).map(|computed| &computed.expr);
    let reads_result = |expr: &Arc<dyn PhysicalExpr>| {
        expr.exists(|part| Ok(part.is::<ScalarSubqueryExpr>())).unwrap_or(true)
    };
    let is_whole = !needs_more(aggregate) && exprs.clone().all(|expr| expr.is::<Column>());
    let are_few = || pelton_planner::estimated_rows(plan).is_some_and(|rows| rows <= ROWS_ON_HOST_MAX);
    // Whose results are replaced in expressions of the CPU's plan and of parameters.
    let is_for_host = is_whole || (are_few() && !exprs.any(reads_result));
    is_for_host.then_some((aggregate, projections))
}

/// The columns that `exprs` name.
pub(super) fn columns_of<'e>(exprs: impl IntoIterator<Item = &'e Arc<dyn PhysicalExpr>>) -> Needed {
    exprs.into_iter().flat_map(collect_columns).map(|column| column.index()).collect()
}

/// True for nodes that hand their input's rows on as they are, perhaps elsewhere.
pub(super) fn moves_rows_only(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.fetch().is_none()
        && (plan.is::<RepartitionExec>()
            || plan.is::<CoalescePartitionsExec>()
            || plan.is::<CooperativeExec>()
            || plan.is::<DeferredExec>()
            || plan.is::<BufferExec>())
}

/// The subtree that `plan` stands for, at one of its places.
fn seen_through(plan: &Arc<dyn ExecutionPlan>) -> Option<&Arc<dyn ExecutionPlan>> {
    plan.downcast_ref::<SharedExec>().and_then(SharedExec::seen_through)
}

/// The first node below `plan` that does something to rows.
pub(super) fn without_exchanges(plan: &Arc<dyn ExecutionPlan>) -> &Arc<dyn ExecutionPlan> {
    match seen_through(plan) {
        Some(subtree) => without_exchanges(subtree),
        None if moves_rows_only(plan) => without_exchanges(plan.children()[0]),
        None => plan,
    }
}

fn drops_rows(pipeline: &Pipeline) -> bool {
    let drops = |op: &Op| match op {
        Op::Filter(_) => true,
        Op::Probe { kind, .. } => !kind.keeps_all(),
        Op::Compute { .. } | Op::Repeat { .. } => false,
    };
    matches!(pipeline.sink, Sink::Aggregate { .. }) || pipeline.ops.iter().any(drops)
}
