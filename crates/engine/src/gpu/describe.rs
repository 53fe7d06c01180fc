//! EXPLAIN of what runs on a device, and why the rest does not.
//!
//! ```text
//!   pipeline 1: groups of lineorder
//!     reads lineorder, 12 of 46 row groups: lo_orderdate (pinned), lo_revenue (disk)
//!     filter lo_discount >= 1
//!     probe hash table 0 by lo_orderdate: inner
//!     groups by d_year: sum(lo_revenue)
//! ```

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use pelton_pipeline::ir::{
    Aggregate, ArithmeticOp, CompareOp, Expr, Literal, Op, Pipeline, Plan, ProbeKind, RowOrder, SignChange,
    Sink, SortKey, Source, TableScan, TopK,
};

use super::device::{DeviceChoice, DeviceHandle};
use super::exec::PeltonGpuExec;
use super::lower::{Asked, without_exchanges};
use super::rule::{attempt, is_root};
use super::sort::{Sorted, merged_below_projections};
use super::windows::{Windowed, is_window};
use crate::running::RunningWindowExec;
use crate::scan::PeltonScanExec;
use crate::sorting::WordSortExec;
use crate::spilling::{DistinctMergeExec, PartialAggregateExec, SpillingAggregateExec};

/// The pipelines of all nodes of `plan` that run on a device and, once it has run, what they did; `None` without any.
pub(crate) fn device_text(plan: &Arc<dyn ExecutionPlan>) -> Option<String> {
    let mut text = String::new();
    visit(plan, &mut |node| {
        if let Some(node) = node.downcast_ref::<PeltonGpuExec>() {
            describe(node, &mut text);
        }
        true
    });
    (!text.is_empty()).then_some(text)
}

/// The topmost aggregates, joins and scans of `plan` that stay on the CPU, each with the reason; `None` without any.
pub(crate) fn why_text(plan: &Arc<dyn ExecutionPlan>, device: &Arc<DeviceHandle>) -> Option<String> {
    let mut text = String::new();
    visit(plan, &mut |node| {
        let Some(reason) = why_not(node, device) else { return true };
        line(&mut text, format_args!("{}: {reason}", node.name()));
        // Of what windows are over, something else may be the reason.
        is_window(node)
    });
    (!text.is_empty()).then_some(text)
}

/// Why `plan`, a node that runs on the CPU, is not on a device: a sentence for every node, its children left aside.
pub(crate) fn reason_on_cpu(plan: &Arc<dyn ExecutionPlan>, device: &Arc<DeviceHandle>) -> String {
    let plan = &replaced(plan).unwrap_or_else(|| Arc::clone(plan));
    if device.choice() == DeviceChoice::Cpu {
        return "the CPU was chosen".to_owned();
    }
    if !device.is_any() {
        return "there is no GPU".to_owned();
    }
    if finishes_states_of_a_device(plan) {
        return "finishes what the device has aggregated".to_owned();
    }
    if let Some(reason) = windows_on_cpu(plan, device).or_else(|| sort_on_cpu(plan, device)) {
        return reason;
    }
    if !is_root(plan) {
        return "kernels scan, filter, compute, join, aggregate and sort; all else is the CPU's".to_owned();
    }
    let refusal = as_planned(plan).and_then(|planned| attempt(&planned, Asked::All, device).err());
    refusal.map_or("its part of the plan is cheaper here".to_owned(), |error| error.to_string())
}

/// Why `plan` stays on the CPU; `None` where it does not, and for nodes of which nobody would ask.
fn why_not(plan: &Arc<dyn ExecutionPlan>, device: &Arc<DeviceHandle>) -> Option<String> {
    let plan = &replaced(plan).unwrap_or_else(|| Arc::clone(plan));
    if let Some(reason) = windows_on_cpu(plan, device) {
        return Some(reason);
    }
    if plan.is::<SortExec>() || plan.is::<SortPreservingMergeExec>() {
        return sort_on_cpu(plan, device);
    }
    let is_asked_of =
        plan.is::<AggregateExec>() || plan.is::<PeltonScanExec>() || plan.name().ends_with("JoinExec");
    if !is_asked_of || finishes_states_of_a_device(plan) {
        return None;
    }
    let planned = as_planned(plan)?;
    attempt(&planned, Asked::All, device).err().map(|error| error.to_string())
}

/// Why the CPU computes the windows of `plan`, if it is one.
fn windows_on_cpu(plan: &Arc<dyn ExecutionPlan>, device: &Arc<DeviceHandle>) -> Option<String> {
    if !is_window(plan) {
        return None;
    }
    let planned = as_planned(plan)?;
    let refusal = match Windowed::of(&planned) {
        Ok(None) => return None,
        Ok(Some(windowed)) => attempt(&windowed.sorted.input, Asked::Windowed(&windowed), device).err(),
        Err(error) => Some(error),
    };
    refusal.map(|error| error.to_string())
}

/// Why the CPU sorts what `plan` sorts, where it sorts all rows and does not stop after a few.
fn sort_on_cpu(plan: &Arc<dyn ExecutionPlan>, device: &Arc<DeviceHandle>) -> Option<String> {
    let planned = as_planned(plan)?;
    let sorted = Sorted::of(&planned).or_else(|| Some(merged_below_projections(&planned)?.1))?;
    let first = sorted.first.as_ref().filter(|_| sorted.is_of_few_rows());
    if first.is_some_and(|first| attempt(&sorted.input, Asked::First(first), device).is_ok()) {
        return None;
    }
    attempt(&sorted.input, Asked::InOrder(&sorted), device).err().map(|error| error.to_string())
}

/// `plan` with what it was before parts of it went to a device.
fn as_planned(plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
    let planned = Arc::clone(plan).transform_down(|node| {
        let before = match node.downcast_ref::<PeltonGpuExec>() {
            Some(on_device) => Some(Arc::clone(on_device.planned())),
            None => replaced(&node),
        };
        Ok(before.map_or_else(|| Transformed::no(node), Transformed::yes))
    });
    planned.ok().map(|planned| planned.data)
}

/// DataFusion's operator that `plan` has taken the place of, where the CPU has one of its own.
fn replaced(plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
    let window = plan.downcast_ref::<RunningWindowExec>().map(RunningWindowExec::replaced);
    let sort = || plan.downcast_ref::<WordSortExec>().map(WordSortExec::replaced);
    let groups = || plan.downcast_ref::<SpillingAggregateExec>().map(SpillingAggregateExec::replaced);
    let first = || plan.downcast_ref::<PartialAggregateExec>().map(PartialAggregateExec::replaced);
    let distinct = || plan.downcast_ref::<DistinctMergeExec>().map(DistinctMergeExec::replaced);
    window.or_else(sort).or_else(groups).or_else(first).or_else(distinct)
}

/// True for the last stage of an aggregate whose first runs on a device.
fn finishes_states_of_a_device(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.downcast_ref::<AggregateExec>()
        .is_some_and(|aggregate| without_exchanges(aggregate.input()).is::<PeltonGpuExec>())
}

/// Calls `each` with the nodes of `plan`, parents first, below those for which it says so.
fn visit(plan: &Arc<dyn ExecutionPlan>, each: &mut impl FnMut(&Arc<dyn ExecutionPlan>) -> bool) {
    if each(plan) {
        plan.children().into_iter().for_each(|child| visit(child, each));
    }
}

fn line(text: &mut String, arguments: std::fmt::Arguments) {
    writeln!(text, "{arguments}").expect("writing to a string");
}

fn describe(node: &PeltonGpuExec, text: &mut String) {
    line(text, format_args!("{}", node.reason()));
    line(text, format_args!("rates: {}", node.device().rates().describe()));
    let has_run = node.with_outcome(|outcome| outcome.report.is_some());
    let predicted = if has_run { Vec::new() } else { node.predictions() };
    let mut names = Names::default();
    for (number, pipeline) in node.plan().pipelines.iter().enumerate() {
        line(text, format_args!("pipeline {number}: {}", pipeline.name));
        describe_pipeline(pipeline, node.device(), &mut names, text);
        describe_sharing(node.plan(), number, text);
        if let Some(predicted_s) = predicted.get(number) {
            line(text, format_args!("  predicted {:.2} ms", predicted_s * 1e3));
        }
    }
    let computed = node.host_texts();
    if !computed.is_empty() {
        line(text, format_args!("the host computes of these groups: {}", computed.join(", ")));
    }
    node.with_outcome(|outcome| {
        for (number, report) in outcome.report.iter().flat_map(|run| &run.pipelines).enumerate() {
            let mut report_lines = report.lines().into_iter();
            report_lines.by_ref().take(1).for_each(|first| line(text, format_args!("{first}")));
            if let Some(step) = outcome.step_time(number) {
                line(text, format_args!("  {step}"));
            }
            report_lines.for_each(|further| line(text, format_args!("{further}")));
        }
        let (columns, took) = outcome.fetched;
        if columns > 0 {
            let ms = took.as_secs_f64() * 1e3;
            line(text, format_args!("texts of rows that come out: {columns} columns in {ms:.2} ms"));
        }
        if let Some(reason) = &outcome.fallback {
            line(text, format_args!("ran on the CPU after all: {reason}"));
        }
    });
}

/// What each pipeline of `node` does, in order: its name, then a line a step.
pub(crate) fn pipeline_texts(node: &PeltonGpuExec) -> Vec<String> {
    plan_texts(node.plan(), node.device())
}

/// The same of the pipelines of `plan`.
pub(super) fn plan_texts(plan: &Plan, device: &DeviceHandle) -> Vec<String> {
    let mut names = Names::default();
    let text_of = |(number, pipeline): (usize, &Pipeline)| {
        let mut text = format!("{}\n", pipeline.name);
        describe_pipeline(pipeline, device, &mut names, &mut text);
        describe_sharing(plan, number, &mut text);
        text
    };
    plan.pipelines.iter().enumerate().map(text_of).collect()
}

/// Says who reads what pipeline `number` of `plan` makes, where that is read more than once.
fn describe_sharing(plan: &Plan, number: usize, text: &mut String) {
    let readers = plan.readers(number);
    if let [others @ .., last] = readers.as_slice()
        && !others.is_empty()
    {
        let others: Vec<String> = others.iter().map(ToString::to_string).collect();
        line(text, format_args!("  made once, read by pipelines {} and {last}", others.join(", ")));
    }
}

/// What columns are called: those of the pipeline, and those that tables bring.
#[derive(Default)]
struct Names {
    columns: Vec<String>,
    /// By table.
    payloads: HashMap<usize, Vec<String>>,
}

fn describe_pipeline(pipeline: &Pipeline, device: &DeviceHandle, names: &mut Names, text: &mut String) {
    names.columns = pipeline.columns.iter().map(|column| column.name.clone()).collect();
    let source = match &pipeline.source {
        Source::Table(scan) => table_text(scan, device),
        Source::HostInput(number) => format!("host input {number}: {}", names.columns.join(", ")),
        Source::Groups(from) => format!("the groups of pipeline {from}: {}", names.columns.join(", ")),
    };
    line(text, format_args!("  reads {source}"));
    for op in &pipeline.ops {
        match op {
            Op::Filter(condition) => line(text, format_args!("  filter {}", names.expr(condition))),
            Op::Compute { name, value } => {
                line(text, format_args!("  compute {name} = {}", names.expr(value)));
                names.columns.push(name.clone());
            }
            Op::Repeat { count } => {
                let turn = format!("turn of {count}");
                line(text, format_args!("  repeat {count} times: {turn}"));
                names.columns.push(turn);
            }
            Op::Probe { table, keys, kind, residual } => {
                let kind_text = format!("{kind:?}").to_lowercase();
                let brought = names.payloads.get(table).cloned().unwrap_or_default();
                let column_count = names.columns.len();
                let residual = residual.as_ref().map_or(String::new(), |residual| {
                    names.columns.extend(brought);
                    format!(" where {}", names.expr(residual))
                });
                names.columns.truncate(column_count);
                let keys = names.exprs(keys);
                line(text, format_args!("  probe hash table {table} by {keys}: {kind_text}{residual}"));
                if kind.brings_payload() {
                    let brought = names.payloads.get(table).cloned().unwrap_or_default();
                    names.columns.extend(brought);
                }
                if *kind == ProbeKind::Mark {
                    names.columns.push(format!("is in hash table {table}"));
                }
            }
        }
    }
    line(text, format_args!("  {}", names.sink(&pipeline.sink)));
    if let Sink::Build { table, payload, .. } = &pipeline.sink {
        let payload = payload.iter().map(|expr| names.expr(expr)).collect();
        names.payloads.insert(*table, payload);
    }
}

fn table_text(scan: &TableScan, device: &DeviceHandle) -> String {
    let schema = scan.table.schema();
    let columns = scan.columns.iter().map(|&column| {
        let tier = device.tier_text(&scan.table, column);
        format!("{}{tier}", schema.columns[column].name)
    });
    let columns = columns.collect::<Vec<_>>().join(", ");
    let (kept, total) = (scan.row_groups.len(), scan.table.row_group_count());
    format!("{}, {kept} of {total} row groups: {columns}", scan.table.name())
}

impl Names {
    fn sink(&self, sink: &Sink) -> String {
        match sink {
            Sink::Build { table, keys, payload } => {
                format!("build hash table {table} by {} with [{}]", self.exprs(keys), self.exprs(payload))
            }
            Sink::Aggregate { keys, aggregates, .. } => {
                let aggregates: Vec<String> = aggregates.iter().map(|one| self.aggregate(one)).collect();
                let aggregates = aggregates.join(", ");
                match keys.is_empty() {
                    true => format!("aggregate {aggregates}"),
                    false => format!("groups by {}: {aggregates}", self.exprs(keys)),
                }
            }
            Sink::Materialize { columns, top, order } => {
                let rows = format!("rows of {}", self.exprs(columns));
                match (top, order) {
                    (Some(top), _) => format!("{}: {rows}", self.top(top)),
                    (None, Some(order)) => format!("{}: {rows}", self.order(order)),
                    (None, None) => rows,
                }
            }
        }
    }

    fn top(&self, top: &TopK) -> String {
        let order = if top.is_descending { " desc" } else { "" };
        format!("top {} by {}{order}", top.row_count, self.expr(&top.key))
    }

    fn order(&self, order: &RowOrder) -> String {
        let key = |key: &SortKey| {
            let (way, nulls) = (
                if key.is_descending { " desc" } else { "" },
                if key.nulls_first { "first" } else { "last" },
            );
            format!("{}{way} nulls {nulls}", self.expr(&key.key))
        };
        let keys = order.keys.iter().map(key).collect::<Vec<_>>().join(", ");
        match (order.row_count, &order.windows) {
            (Some(rows), _) => format!("the first {rows} sorted by {keys}"),
            (None, None) => format!("sorted by {keys}"),
            (None, Some(windows)) => {
                let functions = windows.functions.iter().map(|function| function.name.as_str());
                let functions = functions.collect::<Vec<_>>().join(", ");
                format!("sorted by {keys}, with windows {functions}")
            }
        }
    }

    fn aggregate(&self, aggregate: &Aggregate) -> String {
        let input = aggregate.input.as_ref().map_or("*".to_owned(), |input| self.expr(input));
        let function = format!("{:?}", aggregate.function).to_lowercase();
        format!("{function}({input})")
    }

    fn exprs(&self, exprs: &[Expr]) -> String {
        exprs.iter().map(|expr| self.expr(expr)).collect::<Vec<_>>().join(", ")
    }

    fn expr(&self, expr: &Expr) -> String {
        let two =
            |left: &Expr, op: &str, right: &Expr| format!("{} {op} {}", self.part(left), self.part(right));
        let many =
            |parts: &[Expr], op: &str| parts.iter().map(|part| self.part(part)).collect::<Vec<_>>().join(op);
        match expr {
            Expr::Column(index) => self.columns.get(*index).cloned().unwrap_or_else(|| format!("#{index}")),
            Expr::Literal(literal) => literal_text(literal),
            Expr::Parameter { number, .. } => format!("subquery {number}"),
            Expr::RowNumber => "row number".to_owned(),
            Expr::Arithmetic { op, left, right } => two(left, arithmetic_sign(*op), right),
            Expr::Compare { op, left, right } => two(left, compare_sign(*op), right),
            Expr::And(parts) => many(parts, " and "),
            Expr::Or(parts) => many(parts, " or "),
            Expr::Not(input) => format!("not {}", self.part(input)),
            Expr::IsNull(input) => format!("{} is null", self.part(input)),
            Expr::In { input, values } => {
                let values: Vec<String> = values.iter().map(ToString::to_string).collect();
                format!("{} in ({})", self.part(input), values.join(", "))
            }
            Expr::Case { branches, otherwise } => {
                let mut text = String::from("case");
                for (when, then) in branches {
                    write!(text, " when {} then {}", self.expr(when), self.expr(then))
                        .expect("writing to a string");
                }
                let otherwise = otherwise.as_ref().map_or("null".to_owned(), |value| self.expr(value));
                format!("{text} else {otherwise} end")
            }
            Expr::Where { input, condition } => {
                format!("{} where {}", self.part(input), self.part(condition))
            }
            Expr::Cast { input, to } => format!("{} as {to:?}", self.part(input)),
            // Checks, of what the plan says of the value anyway.
            Expr::Within { input, .. } | Expr::NonZero { input } => self.expr(input),
            Expr::FloatKey { input } => format!("key of {}", self.part(input)),
            Expr::WithSign { input, sign: SignChange::Flipped } => format!("-{}", self.part(input)),
            Expr::WithSign { input, sign: SignChange::Cleared } => format!("abs({})", self.expr(input)),
            Expr::DatePart { part, input } => {
                format!("{} of {}", format!("{part:?}").to_lowercase(), self.part(input))
            }
            Expr::DateTrunc { unit, input } => {
                format!("first of the {} of {}", format!("{unit:?}").to_lowercase(), self.part(input))
            }
            Expr::AddMonths { input, months } => format!("{} + {months} months", self.part(input)),
            Expr::FloorDivide { input, by } => format!("{} / {by} rounded down", self.part(input)),
            Expr::Modulo { input, by } => format!("{} modulo {by}", self.part(input)),
            Expr::OfText { function, .. } => function.name(),
        }
    }

    /// As [`expr`](Self::expr), in parentheses where it has parts itself.
    fn part(&self, expr: &Expr) -> String {
        match expr {
            Expr::Column(_) | Expr::Literal(_) | Expr::Parameter { .. } | Expr::RowNumber => self.expr(expr),
            _ => format!("({})", self.expr(expr)),
        }
    }
}

fn literal_text(literal: &Literal) -> String {
    match literal {
        Literal::Bool(value) => value.to_string(),
        Literal::I32(value) => value.to_string(),
        Literal::I64(value) => value.to_string(),
        Literal::I128(value) => value.to_string(),
        Literal::F64(value) => value.to_string(),
        Literal::Null(_) => "null".to_owned(),
    }
}

fn arithmetic_sign(op: ArithmeticOp) -> &'static str {
    match op {
        ArithmeticOp::Add => "+",
        ArithmeticOp::Subtract => "-",
        ArithmeticOp::Multiply => "*",
        ArithmeticOp::Divide => "/",
        ArithmeticOp::Remainder => "%",
    }
}

fn compare_sign(op: CompareOp) -> &'static str {
    match op {
        CompareOp::Eq => "=",
        CompareOp::Ne => "<>",
        CompareOp::Lt => "<",
        CompareOp::Le => "<=",
        CompareOp::Gt => ">",
        CompareOp::Ge => ">=",
    }
}
