//! A plan as nodes of a profile: what ran where and why, with the figures that each operator kept.
//!
//! ```text
//!   PeltonGpuExec                   the node of DataFusion's plan
//!     pipeline 2: groups of …       its last pipeline: the one that gives rows
//!       pipeline 0: build of …        pipelines whose hash tables it probes
//!       pipeline 1: build of …          SortExec …    plans whose rows it is brought
//! ```
//!
//! Where a device refused, the node says so and stands above the plan that the CPU ran instead.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::metrics::{MetricValue, MetricsSet};
use datafusion::physical_plan::{ExecutionPlan, displayable};
use pelton_error::Result;
use pelton_exec::PipelineReport;
use pelton_pipeline::ir::{Op, Pipeline, Sink, Source};
use pelton_planner::Estimates;

use super::node::{Place, ProfileNode, Unit};
use crate::error::from_datafusion;
use crate::expected;
use crate::gpu::{DeviceHandle, PeltonGpuExec, StepTime, pipeline_texts, reason_on_cpu};
use crate::scan::{PeltonScanExec, ScanReport};

/// A plan as nodes.
pub(super) struct Tree {
    pub(super) root: ProfileNode,
    /// Who leaves spans with a trace: a plan node by its address, or a pipeline of one.
    pub(super) owners: HashMap<(usize, Option<u32>), usize>,
    /// When operators began and ended, in nanoseconds since 1970: node, partition, begin, end (0: did not say).
    pub(super) operators: Vec<OperatorTimes>,
}

/// When one partition of an operator began and ended, in nanoseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OperatorTimes {
    pub(super) node: usize,
    pub(super) partition: u32,
    pub(super) began_ns: u64,
    /// `None` where it did not end.
    pub(super) ended_ns: Option<u64>,
}

/// The address by which a trace knows `plan`.
pub(super) fn address(plan: &Arc<dyn ExecutionPlan>) -> usize {
    Arc::as_ptr(plan).cast::<()>().addr()
}

impl Tree {
    /// Of `plan`, with what it counted so far.
    ///
    /// # Errors
    ///
    /// Of reading the chunk directory of a table that it scans.
    pub(super) fn of(plan: &Arc<dyn ExecutionPlan>, device: &Arc<DeviceHandle>) -> Result<Self> {
        let mut builder = Builder {
            device,
            estimates: expected::estimates(),
            next_id: 0,
            owners: HashMap::new(),
            operators: Vec::new(),
        };
        let root = builder.node(plan)?;
        Ok(Self { root, owners: builder.owners, operators: builder.operators })
    }
}

struct Builder<'b> {
    device: &'b Arc<DeviceHandle>,
    estimates: Estimates,
    next_id: usize,
    owners: HashMap<(usize, Option<u32>), usize>,
    operators: Vec<OperatorTimes>,
}

impl Builder<'_> {
    fn take_id(&mut self) -> usize {
        self.next_id += 1;
        self.next_id - 1
    }

    /// `plan` and everything below it.
    fn node(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Result<ProfileNode> {
        if plan.is::<CooperativeExec>() {
            return self.node(plan.children()[0]); // it only lets go of its thread
        }
        let id = self.take_id();
        self.owners.insert((address(plan), None), id);
        let on_device = plan.downcast_ref::<PeltonGpuExec>();
        let (place, reason) = match on_device {
            Some(node) => match node.fallback_reason() {
                Some(reason) => (Place::Cpu, format!("ran on the CPU after all: {reason}")),
                None => (Place::Device, node.reason().to_owned()),
            },
            None => (Place::Cpu, reason_on_cpu(plan, self.device)),
        };
        let (name, detail) = titled(plan);
        let mut node = ProfileNode::new(id, name, detail, place, reason);
        node.estimated_rows = self.estimates.rows(plan);
        if let Some(metrics) = plan.metrics() {
            self.times(id, &metrics);
            fill(&mut node, &metrics);
        }
        if let Some(scan) = plan.downcast_ref::<PeltonScanExec>() {
            let report = scan.report().map_err(from_datafusion)?;
            node.busy = node.actual_rows.map(|_| Duration::from_nanos(report.decode_ns + report.filter_ns));
            node.scan = Some(report);
        }
        node.children = match on_device {
            Some(device) => self.below_device(plan, device, &mut node)?,
            None => plan.children().into_iter().map(|child| self.node(child)).collect::<Result<_>>()?,
        };
        Ok(node)
    }

    /// What `device` stands above: its pipelines, or what the CPU ran instead.
    fn below_device(
        &mut self,
        plan: &Arc<dyn ExecutionPlan>,
        device: &PeltonGpuExec,
        node: &mut ProfileNode,
    ) -> Result<Vec<ProfileNode>> {
        if let Some(instead) = device.fallback_plan() {
            return Ok(vec![self.node(&instead)?]);
        }
        let children = plan.children().into_iter().map(|child| self.node(child).map(Some));
        let run = device.run_report();
        if let Some(run) = &run {
            node.busy = Some(run.elapsed);
        }
        let scans = device.scan_reports().map_err(from_datafusion)?;
        let mut pipelines = Pipelines {
            address: address(plan),
            reason: node.reason.clone(),
            host_inputs: children.collect::<Result<_>>()?,
            texts: pipeline_texts(device),
            reports: run.map(|run| run.pipelines).unwrap_or_default(),
            step_times: device.step_times(),
            scans: device.scan_pipelines().zip(scans).collect(),
            pipelines: &device.plan().pipelines,
            done: vec![false; device.plan().pipelines.len()],
        };
        let mut nodes = Vec::new();
        for index in (0..pipelines.pipelines.len()).rev() {
            nodes.extend(self.pipeline(index, &mut pipelines));
        }
        nodes.extend(pipelines.host_inputs.into_iter().flatten());
        Ok(nodes)
    }

    /// Pipeline `index` above those that it needs; `None` where it stands elsewhere already.
    fn pipeline(&mut self, index: usize, all: &mut Pipelines<'_>) -> Option<ProfileNode> {
        if std::mem::replace(&mut all.done[index], true) {
            return None;
        }
        let id = self.take_id();
        self.owners.insert((all.address, Some(index as u32)), id);
        let detail = all.texts[index].trim_end().to_owned();
        let (name, reason) = (format!("pipeline {index}"), all.reason.clone());
        let mut node = ProfileNode::new(id, name, detail, Place::Device, reason);
        node.scan = all.scans.remove(&index);
        if let Some(report) = all.reports.get(index) {
            fill_pipeline(&mut node, report);
        }
        if let Some(step) = all.step_times.get(index) {
            for (name, seconds) in [("time_predicted", step.predicted_s), ("time_taken", step.took_s)] {
                node.count(name, Unit::Nanoseconds, (seconds * 1e9) as u64);
            }
        }
        let pipeline = &all.pipelines[index];
        for op in &pipeline.ops {
            if let Op::Probe { table, .. } = op
                && let Some(builder) = all.pipelines.iter().position(|other| builds(other, *table))
            {
                node.children.extend(self.pipeline(builder, all));
            }
        }
        if let Source::Groups(from) = pipeline.source {
            node.children.extend(self.pipeline(from, all));
        }
        if let Source::HostInput(number) = pipeline.source {
            node.children.extend(all.host_inputs.get_mut(number).and_then(Option::take));
        }
        Some(node)
    }

    /// Keeps when the partitions of node `id` began and ended.
    fn times(&mut self, id: usize, metrics: &MetricsSet) {
        let mut by_partition: HashMap<u32, OperatorTimes> = HashMap::new();
        for metric in metrics.iter() {
            let (is_start, at) = match metric.value() {
                MetricValue::StartTimestamp(_) => (true, metric.value().as_usize() as u64),
                MetricValue::EndTimestamp(_) => (false, metric.value().as_usize() as u64),
                _ => continue,
            };
            if at == 0 {
                continue;
            }
            let partition = metric.partition().unwrap_or(0) as u32;
            let none = OperatorTimes { node: id, partition, began_ns: u64::MAX, ended_ns: None };
            let times = by_partition.entry(partition).or_insert(none);
            match is_start {
                true => times.began_ns = times.began_ns.min(at),
                false => times.ended_ns = times.ended_ns.max(Some(at)),
            }
        }
        let mut times: Vec<_> =
            by_partition.into_values().filter(|times| times.began_ns != u64::MAX).collect();
        times.sort_unstable_by_key(|times| times.partition);
        self.operators.extend(times);
    }
}

/// The pipelines of a node on their way into the tree.
struct Pipelines<'p> {
    /// Of the node.
    address: usize,
    /// Why it is on the device.
    reason: String,
    /// The plans that bring rows, until they have a place.
    host_inputs: Vec<Option<ProfileNode>>,
    texts: Vec<String>,
    /// Of those that were run.
    reports: Vec<PipelineReport>,
    step_times: Vec<StepTime>,
    /// By pipeline.
    scans: HashMap<usize, ScanReport>,
    pipelines: &'p [Pipeline],
    done: Vec<bool>,
}

fn builds(pipeline: &Pipeline, wanted: usize) -> bool {
    matches!(pipeline.sink, Sink::Build { table, .. } if table == wanted)
}

/// The name of a node and what EXPLAIN says behind it.
fn titled(plan: &Arc<dyn ExecutionPlan>) -> (String, String) {
    let name = plan.name().to_owned();
    let line = displayable(plan.as_ref()).one_line().to_string();
    let line = line.trim();
    let detail = line.strip_prefix(name.as_str()).unwrap_or(line).trim_start_matches(':').trim();
    (name, detail.to_owned())
}

/// The metrics of an operator, all its partitions together.
fn fill(node: &mut ProfileNode, metrics: &MetricsSet) {
    node.actual_rows = metrics.output_rows().map(|rows| rows as u64);
    node.busy = metrics.elapsed_compute().map(|ns| Duration::from_nanos(ns as u64));
    for metric in metrics.aggregate_by_name().sorted_for_display().iter() {
        let value = metric.value();
        let (name, number) = (value.name(), value.as_usize() as u64);
        match value {
            MetricValue::StartTimestamp(_) | MetricValue::EndTimestamp(_) => {}
            MetricValue::PruningMetrics { pruning_metrics, .. } => {
                node.count(&format!("{name}_pruned"), Unit::Count, pruning_metrics.pruned() as u64);
                node.count(&format!("{name}_matched"), Unit::Count, pruning_metrics.matched() as u64);
            }
            MetricValue::Ratio { ratio_metrics, .. } => {
                node.count(&format!("{name}_part"), Unit::Count, ratio_metrics.part() as u64);
                node.count(&format!("{name}_total"), Unit::Count, ratio_metrics.total() as u64);
            }
            MetricValue::ElapsedCompute(_) | MetricValue::Time { .. } => {
                node.count(name, Unit::Nanoseconds, number);
            }
            MetricValue::CurrentMemoryUsage(_) | MetricValue::PeakMemoryUsage { .. } => {
                node.count(name, Unit::Bytes, number);
            }
            _ if name.contains("bytes") => node.count(name, Unit::Bytes, number),
            _ if name.contains("rows") => node.count(name, Unit::Rows, number),
            _ => node.count(name, Unit::Count, number),
        }
    }
}

/// What a run on a device says of a pipeline.
fn fill_pipeline(node: &mut ProfileNode, report: &PipelineReport) {
    let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    node.actual_rows = Some(report.rows_out);
    node.busy = Some(report.elapsed + report.compile);
    node.count("rows_in", Unit::Rows, report.rows_in);
    for (name, bytes) in [
        ("disk_bytes", report.disk_bytes),
        ("pinned_bytes", report.pinned_bytes),
        ("link_bytes", report.link_bytes),
        ("device_bytes", report.device_bytes),
        ("raw_bytes", report.raw_bytes),
        ("staging_bytes", report.staging_bytes),
        ("state_bytes", report.state_bytes),
    ] {
        node.count(name, Unit::Bytes, bytes);
    }
    for (name, time) in [
        ("time_kernels", report.kernels),
        ("time_prepare", report.prepare),
        ("time_generate", report.generate),
        ("time_compile", report.compile),
        ("time_allocate", report.allocate),
        ("time_morsels", report.run),
        ("time_result", report.finish),
        ("time_disk_wait", report.disk_wait),
        ("time_codec", report.codec_time),
    ] {
        node.count(name, Unit::Nanoseconds, ns(time));
    }
    for (name, count) in [
        ("staging_buffers", report.staging_buffers as u64),
        ("programs_compiled", report.compiled as u64),
        ("repeats", report.repeats as u64),
        ("row_groups_skipped", report.row_groups_skipped),
    ] {
        node.count(name, Unit::Count, count);
    }
    // Of most pipelines there are none.
    for (name, unit, number) in [
        ("spilled_table_rows", Unit::Rows, report.spilled_table_rows),
        ("spilled_table_bytes", Unit::Bytes, report.spilled_table_bytes),
        ("spilled_table_partitions", Unit::Count, report.spilled_table_partitions as u64),
        ("rows_waited_for_tables", Unit::Rows, report.rows_waited_for_tables),
        ("bytes_waited_for_tables", Unit::Bytes, report.bytes_waited_for_tables),
        ("partitions_joined", Unit::Count, report.partitions_joined as u64),
        ("partitions_split", Unit::Count, report.partitions_split as u64),
    ] {
        if number > 0 {
            node.count(name, unit, number);
        }
    }
    for note in &report.notes {
        node.detail.push_str(&format!("\n  note: {note}"));
    }
}
