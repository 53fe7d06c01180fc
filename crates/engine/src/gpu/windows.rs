//! Window functions over rows that the device sorts: it computes them there.
//!
//! ```text
//!   BoundedWindowAggExec: sum(x)         PeltonGpuExec: output_ordering=[p, o]
//!     BoundedWindowAggExec: rank()   ─▶    pipeline: … ─► rows of p, o, x in order of p, o, with rank and sum
//!       SortExec: [p, o]
//!         FilterExec …
//! ```
//!
//! Windows above one sort, in whatever number, are computed together: each by a prefix of the sort's keys. What is not done stays
//! on the CPU with all windows of that sort, and EXPLAIN says which it was.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, IntervalUnit, SchemaRef, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::{WindowFrame, WindowFrameBound, WindowFrameUnits};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{Column, Literal as LiteralExpr};
use datafusion::physical_expr::projection::ProjectionExpr;
use datafusion::physical_expr::window::{
    PlainAggregateWindowExpr, SlidingAggregateWindowExpr, StandardWindowExpr, WindowExpr,
};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec, WindowUDFExpr};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, InputOrderMode};
use pelton_error::{Error, Result};
use pelton_pipeline::ir::{
    Bounds, Expr, Frame, FrameEdge, FrameKey, Literal, Plan, Source, Type, WindowFunction, WindowKind,
    WindowOutput, Windows,
};

use super::builder::Flow;
use super::device::DeviceHandle;
use super::functions::{argument_of, check_sum, unit_of};
use super::lower::{Needed, columns_of};
use super::sort::{Sorted, in_order};
use super::value::{LateText, Value, kernel_type, literal, type_bounds};
use crate::error::from_datafusion;
use crate::running::RunningWindowExec;
use crate::spilling::SpillingWindowExec;

/// Rows of a window at most.
const ROWS_MAX: u128 = 1 << 32;
/// Bytes of device memory that a window function takes for a row, with what it is computed by.
const FUNCTION_BYTES: u64 = 32;

/// Windows above a sort, with what is below that.
#[derive(Debug, Clone)]
pub(super) struct Windowed {
    /// The sort.
    pub(super) sorted: Sorted,
    /// What gives the rows on the CPU, in one partition.
    pub(super) cpu: Arc<dyn ExecutionPlan>,
    functions: Vec<Computed>,
    /// What comes out: columns of the sort's input, and functions.
    outputs: Vec<WindowOutput>,
}

/// A window function.
#[derive(Debug, Clone)]
struct Computed {
    function: Arc<dyn WindowExpr>,
    /// What the columns of its input are.
    inputs: Arc<[WindowOutput]>,
}

/// A node above a sort.
enum Step<'p> {
    Window(&'p [Arc<dyn WindowExpr>]),
    /// Hands these columns of its input on.
    Columns(Vec<usize>),
}

impl Windowed {
    /// What `plan` computes, if it is a window, or hands on columns of one; of windows above each other the topmost.
    ///
    /// # Errors
    ///
    /// `Unsupported` for windows that no sort is below, or in whose order rows are not sorted.
    pub(super) fn of(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Self>> {
        let (mut steps, mut node) = (Vec::new(), plan);
        while let Some((step, input)) = step(node)? {
            steps.push(step);
            node = in_order(input);
        }
        if !steps.iter().any(|step| matches!(step, Step::Window(_))) {
            return Ok(None);
        }
        let sorted = Sorted::of(node).filter(|sorted| sorted.row_count().is_none());
        let Some(sorted) = sorted else {
            return Err(Error::unsupported("kernels compute windows of rows that are sorted for them"));
        };
        let cpu: Arc<dyn ExecutionPlan> =
            match (plan.output_partitioning().partition_count(), plan.output_ordering()) {
                (1, _) => Arc::clone(plan),
                (_, Some(order)) => Arc::new(SortPreservingMergeExec::new(order.clone(), Arc::clone(plan))),
                (_, None) => Arc::new(CoalescePartitionsExec::new(Arc::clone(plan))),
            };
        let mut functions = Vec::new();
        let mut outputs: Vec<_> =
            (0..sorted.input.schema().fields().len()).map(WindowOutput::Column).collect();
        for step in steps.into_iter().rev() {
            match step {
                Step::Columns(columns) => {
                    outputs = columns.into_iter().map(|column| outputs[column]).collect()
                }
                Step::Window(computed) => {
                    let inputs: Arc<[WindowOutput]> = outputs.as_slice().into();
                    for function in computed {
                        outputs.push(WindowOutput::Function(functions.len()));
                        functions
                            .push(Computed { function: Arc::clone(function), inputs: Arc::clone(&inputs) });
                    }
                }
            }
        }
        Ok(Some(Self { sorted, cpu, functions, outputs }.without_unused()))
    }

    /// The same without functions that nobody asks for.
    fn without_unused(mut self) -> Self {
        let mut functions = Vec::new();
        for output in &mut self.outputs {
            if let WindowOutput::Function(number) = output {
                functions.push(self.functions[*number].clone());
                *number = functions.len() - 1;
            }
        }
        Self { functions, ..self }
    }

    /// What comes out.
    pub(super) fn schema(&self) -> SchemaRef {
        self.cpu.schema()
    }

    /// What is known of the rows that come out.
    pub(super) fn properties(&self) -> EquivalenceProperties {
        self.cpu.equivalence_properties().clone()
    }

    /// The columns of the sort's input that it is computed of.
    ///
    /// # Errors
    ///
    /// `Unsupported` for functions of results of others.
    pub(super) fn needed(&self) -> Result<Needed> {
        let mut exprs: Vec<Arc<dyn PhysicalExpr>> =
            self.sorted.keys().iter().map(|key| Arc::clone(&key.expr)).collect();
        for computed in &self.functions {
            let all = computed.function.all_expressions();
            for expr in all.args.iter().chain(&all.partition_by_exprs).chain(&all.order_by_exprs) {
                exprs.push(self.of_input(expr, &computed.inputs)?);
            }
        }
        let columns = self.outputs.iter().filter_map(|output| match output {
            WindowOutput::Column(column) => Some(*column),
            WindowOutput::Function(_) => None,
        });
        Ok(columns_of(&exprs).into_iter().chain(columns).collect())
    }

    /// `expr`, over columns that are `inputs`, over the columns of the sort's input.
    fn of_input(
        &self,
        expr: &Arc<dyn PhysicalExpr>,
        inputs: &[WindowOutput],
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let schema = self.sorted.input.schema();
        let mut is_over_result = false;
        let moved = Arc::clone(expr).transform_up(|node| {
            let Some(column) = node.downcast_ref::<Column>() else { return Ok(Transformed::no(node)) };
            Ok(match inputs[column.index()] {
                WindowOutput::Column(index) => {
                    Transformed::yes(Arc::new(Column::new(schema.field(index).name(), index)) as _)
                }
                WindowOutput::Function(_) => {
                    is_over_result = true;
                    Transformed::no(node)
                }
            })
        });
        let moved = moved.map_err(from_datafusion)?.data;
        match is_over_result {
            true => Err(Error::unsupported("a window function of the result of another one")),
            false => Ok(moved),
        }
    }

    /// What is computed of the rows of `flow`, whose outputs have the types of `schema`; `columns` and `late` become what the
    /// rows are to have.
    ///
    /// # Errors
    ///
    /// `Unsupported` for functions, frames and orders that kernels do not have.
    pub(super) fn lower(
        &self,
        flow: &mut Flow,
        schema: &SchemaRef,
        columns: &mut Vec<Expr>,
        late: &mut Vec<Option<LateText>>,
    ) -> Result<Windows> {
        let outputs = self.outputs.iter().map(|output| match *output {
            WindowOutput::Column(column) => {
                let value = flow.output(column)?;
                columns.push(value.expr.clone());
                late.push(value.late.clone());
                Ok(WindowOutput::Column(columns.len() - 1))
            }
            WindowOutput::Function(_) => {
                late.push(None);
                Ok(*output)
            }
        });
        let outputs = outputs.collect::<Result<_>>()?;
        let mut lowering =
            Functions { windowed: self, inputs: &[], flow, schema, columns, may_overflow: false, late: None };
        let mut late_functions = Vec::with_capacity(self.functions.len());
        let functions = self.functions.iter().map(|Computed { function, inputs }| {
            lowering.inputs = inputs;
            let name = function.name().to_owned();
            let (partition_keys, peer_keys) = self.keys_of(function, inputs)?;
            let kind = lowering.kind(function).map_err(|error| error.context(name.clone()))?;
            late_functions.push(lowering.late.take());
            Ok(WindowFunction { name, partition_keys, peer_keys, kind })
        });
        let functions = functions.collect::<Result<_>>()?;
        for (late, output) in late.iter_mut().zip(&self.outputs) {
            if let WindowOutput::Function(function) = output {
                late.clone_from(&late_functions[*function]);
            }
        }
        Ok(Windows { outputs, functions, may_overflow: lowering.may_overflow })
    }

    /// How many of the sort's keys tell partitions of `function` apart, and how many its peers.
    fn keys_of(&self, function: &Arc<dyn WindowExpr>, inputs: &[WindowOutput]) -> Result<(usize, usize)> {
        let keys = self.sorted.keys();
        let mut partition: Vec<Arc<dyn PhysicalExpr>> = Vec::new();
        for key in function.partition_by() {
            let key = self.of_input(key, inputs)?;
            if !partition.contains(&key) {
                partition.push(key);
            }
        }
        let (first, rest) = keys.split_at_checked(partition.len()).unwrap_or_default();
        let is_prefix =
            first.len() == partition.len() && first.iter().all(|key| partition.contains(&key.expr));
        let mut order: Vec<PhysicalSortExpr> = Vec::new();
        for key in function.order_by() {
            let expr = self.of_input(&key.expr, inputs)?;
            let is_constant = expr.is::<LiteralExpr>();
            if !is_constant && !partition.contains(&expr) && !order.iter().any(|known| known.expr.eq(&expr)) {
                order.push(PhysicalSortExpr { expr, options: key.options });
            }
        }
        let is_order =
            order.len() <= rest.len() && order.iter().zip(rest).all(|(key, of_sort)| key == of_sort);
        match is_prefix && is_order {
            true => Ok((partition.len(), partition.len() + order.len())),
            false => Err(Error::unsupported(format!(
                "{}: its keys are not the first ones that rows are sorted by",
                function.name()
            ))),
        }
    }

    /// Whether `device` should compute the windows of `plan`, which has been lowered.
    ///
    /// # Errors
    ///
    /// `Unsupported` with why the CPU is to do it.
    pub(super) fn check(&self, plan: &Plan, device: &DeviceHandle) -> Result<()> {
        self.sorted.check(plan, device)?;
        let Some(last) = plan.pipelines.last() else { return Ok(()) };
        if let (Source::Table(scan), count @ 2..) = (&last.source, device.device_count())
            && scan.row_groups.len() > 1
        {
            return Err(Error::unsupported(format!("{count} devices do not compute windows together")));
        }
        let rows = pelton_planner::estimated_rows(&self.sorted.input);
        if let (Some(rows), Some(limit)) = (rows, device.memory_limit_bytes()) {
            let bytes = rows * (FUNCTION_BYTES * self.functions.len() as u64) as f64;
            if bytes > limit as f64 {
                return Err(Error::unsupported(format!(
                    "windows of {rows:.0} rows, about {:.0} MB, do not fit the device's memory of {:.0} MB; \
                     raise --device-memory-limit",
                    bytes / 1e6,
                    limit as f64 / 1e6
                )));
            }
        }
        Ok(())
    }
}

/// True for windows.
pub(super) fn is_window(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<BoundedWindowAggExec>()
        || plan.is::<WindowAggExec>()
        || plan.is::<SpillingWindowExec>()
        || plan.is::<RunningWindowExec>()
}

/// What `plan` does, and its input, if it is a window or hands on columns.
fn step(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<(Step<'_>, &Arc<dyn ExecutionPlan>)>> {
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let index = |computed: &ProjectionExpr| Some(computed.expr.downcast_ref::<Column>()?.index());
        let columns: Option<Vec<usize>> = projection.expr().iter().map(index).collect();
        return Ok(columns.map(|columns| (Step::Columns(columns), projection.input())));
    }
    if let Some(window) = plan.downcast_ref::<BoundedWindowAggExec>() {
        return match window.input_order_mode {
            InputOrderMode::Sorted => Ok(Some((Step::Window(window.window_expr()), window.input()))),
            _ => Err(Error::unsupported("a window whose partitions are not sorted")),
        };
    }
    let window = match plan.downcast_ref::<SpillingWindowExec>() {
        Some(spilling) => Some(spilling.window()),
        None => plan.downcast_ref::<WindowAggExec>(),
    };
    Ok(window.map(|window| (Step::Window(window.window_expr()), window.input())))
}

/// Functions as they are lowered.
struct Functions<'f> {
    windowed: &'f Windowed,
    /// What each input column of these functions is: a column of the rows, or what an earlier function gave.
    inputs: &'f [WindowOutput],
    flow: &'f mut Flow,
    schema: &'f SchemaRef,
    columns: &'f mut Vec<Expr>,
    may_overflow: bool,
    /// The text that the current function's results are the rows of.
    late: Option<LateText>,
}

impl Functions<'_> {
    fn kind(&mut self, function: &Arc<dyn WindowExpr>) -> Result<WindowKind> {
        let frame = function.get_window_frame();
        let any = function.as_any();
        if let Some(standard) = any.downcast_ref::<StandardWindowExpr>() {
            let order = function.order_by();
            let standard = standard.get_standard_func_expr();
            return match standard.as_any().downcast_ref::<WindowUDFExpr>() {
                Some(udf) => self.standard(udf, (frame, order)),
                None => Err(Error::unsupported("kernels have no such window function")),
            };
        }
        let (aggregate, text) = match any.downcast_ref::<PlainAggregateWindowExpr>() {
            Some(plain) => (plain.get_aggregate_expr(), format!("{plain:?}")),
            None => match any.downcast_ref::<SlidingAggregateWindowExpr>() {
                Some(sliding) => (sliding.get_aggregate_expr(), format!("{sliding:?}")),
                None => return Err(Error::unsupported("kernels have no such window function")),
            },
        };
        // The filter can be seen in no other way.
        if !text.ends_with("filter: None }") {
            return Err(Error::unsupported("kernels have no FILTER of windows"));
        }
        self.aggregate(aggregate, (frame, function.order_by()))
    }

    /// # Errors
    ///
    /// `Unsupported` for frames by distances of keys that kernels do not add up exactly as the CPU does.
    fn frame(&mut self, frame: &WindowFrame, order: &[PhysicalSortExpr]) -> Result<Frame> {
        let bounds = [&frame.start_bound, &frame.end_bound];
        let is_far = |bound: &&WindowFrameBound| match bound {
            WindowFrameBound::CurrentRow => false,
            WindowFrameBound::Preceding(distance) | WindowFrameBound::Following(distance) => {
                !distance.is_null()
            }
        };
        let has_key = frame.units == WindowFrameUnits::Range && bounds.iter().any(is_far);
        let key = has_key.then(|| self.frame_key(bounds, order)).transpose()?;
        let edge = |bound: &WindowFrameBound| edge_of(frame.units, bound, key.as_ref().map(|(_, ty)| ty));
        let (start, end) = (edge(&frame.start_bound)?, edge(&frame.end_bound)?);
        Ok(Frame { start, end, key: key.map(|(key, _)| key) })
    }

    /// The key that distances of a frame with such `bounds` are of, and its type.
    fn frame_key(
        &mut self,
        bounds: [&WindowFrameBound; 2],
        order: &[PhysicalSortExpr],
    ) -> Result<(FrameKey, DataType)> {
        let [key] = order else {
            return Err(Error::unsupported("kernels have frames by distances of one key alone"));
        };
        let options = key.options;
        let expr = self.windowed.of_input(&key.expr, self.inputs)?;
        let value = self.flow.exprs(self.schema).carry(&expr)?;
        let (data_type, within) = (value.data_type.clone(), value.bounds_or_type());
        let refused = || Error::unsupported(format!("kernels have no frames by distances of {data_type}"));
        let (within, whole) = within.zip(type_bounds(&data_type)).ok_or_else(refused)?;
        for bound in bounds {
            if let WindowFrameBound::Preceding(far) | WindowFrameBound::Following(far) = bound
                && !far.is_null()
            {
                let distance = i128::from(distance_of(far, &data_type)?);
                // The CPU's sums wrap at the ends of the type, but at zero.
                let is_below = whole.min < 0 && within.min - distance < whole.min;
                if is_below || within.max + distance > whole.max {
                    return Err(Error::unsupported(format!(
                        "a frame that may pass the ends of {data_type}, which the CPU looks at"
                    )));
                }
            }
        }
        let (is_descending, has_nulls_first) = (options.descending, options.nulls_first);
        let column = self.column(value)?;
        Ok((FrameKey { column, is_descending, has_nulls_first }, data_type))
    }

    /// The number of the column that holds `value`.
    fn column(&mut self, value: Value) -> Result<usize> {
        kernel_type(&value.data_type)?;
        let is_plain_text = value.is_text() && !self.flow.builder.has_dictionary(&value.expr);
        if value.late.is_some() || is_plain_text {
            return Err(Error::unsupported("text without a dictionary in a window"));
        }
        Ok(self.number_of(value.expr))
    }

    fn number_of(&mut self, expr: Expr) -> usize {
        let known = self.columns.iter().position(|column| *column == expr);
        known.unwrap_or_else(|| {
            self.columns.push(expr);
            self.columns.len() - 1
        })
    }

    /// The number of the column that a value of another row is taken of, and its type.
    fn picked(&mut self, argument: &Arc<dyn PhysicalExpr>) -> Result<(usize, DataType)> {
        let argument = self.windowed.of_input(argument, self.inputs)?;
        let mut value = self.flow.exprs(self.schema).carry(&argument)?;
        let data_type = value.data_type.clone();
        self.look_at_decimals(&data_type);
        // Of a text without a dictionary the row is handed on.
        self.late = value.late.take();
        match self.late.is_some() {
            true => Ok((self.number_of(value.expr), data_type)),
            false => Ok((self.column(value)?, data_type)),
        }
    }

    /// Values of decimals are looked at before they are given out, unless their sums show that there is no need.
    fn look_at_decimals(&mut self, data_type: &DataType) {
        self.may_overflow |= matches!(data_type, DataType::Decimal128(..));
    }

    fn standard(
        &mut self,
        function: &WindowUDFExpr,
        (frame, order): (&WindowFrame, &[PhysicalSortExpr]),
    ) -> Result<WindowKind> {
        // Both can be seen in no other way.
        if !format!("{function:?}").ends_with("is_reversed: false, ignore_nulls: false }") {
            return Err(Error::unsupported("kernels have no functions in reverse or that ignore NULL"));
        }
        let args = function.args();
        let first = || args.first().ok_or_else(|| Error::unsupported("a window function of nothing"));
        let number = |index: usize| match args.get(index).map(constant) {
            None => Ok(None),
            Some(Ok(ScalarValue::Int64(Some(number)))) => Ok(Some(number)),
            Some(_) => Err(Error::unsupported("a window function by a number that is no constant")),
        };
        match function.fun().name() {
            "row_number" => Ok(WindowKind::RowNumber),
            "rank" => Ok(WindowKind::Rank),
            "dense_rank" => Ok(WindowKind::DenseRank),
            "percent_rank" => Ok(WindowKind::PercentRank),
            "cume_dist" => Ok(WindowKind::CumeDist),
            "ntile" => {
                let tiles = constant(first()?)?.cast_to(&DataType::UInt64);
                match tiles {
                    Ok(ScalarValue::UInt64(Some(tiles @ 1..))) => Ok(WindowKind::Ntile(tiles)),
                    _ => Err(Error::unsupported("a number of tiles that the CPU looks at")),
                }
            }
            name @ ("lag" | "lead") => {
                let rows = number(1)?.unwrap_or(1);
                let rows = if name == "lag" { rows.checked_neg() } else { Some(rows) };
                let rows = rows.ok_or_else(|| Error::unsupported("an offset past 64 bits"))?;
                let (column, data_type) = self.picked(first()?)?;
                let default = args.get(2).map(|default| default_of(default, &data_type)).transpose()?;
                let default = default.flatten();
                if default.is_some() && self.late.is_some() {
                    return Err(Error::unsupported("a default in place of text"));
                }
                Ok(WindowKind::Shift { column, rows, default })
            }
            name @ ("first_value" | "last_value" | "nth_value") => {
                let number = match name {
                    "first_value" => 1,
                    "last_value" => -1,
                    _ => number(1)?
                        .filter(|number| *number != 0 && *number > i64::MIN)
                        .ok_or_else(|| Error::unsupported("the number of a value that the CPU looks at"))?,
                };
                let frame = self.frame(frame, order)?;
                Ok(WindowKind::Pick { column: self.picked(first()?)?.0, number, frame })
            }
            name => Err(Error::unsupported(format!("kernels have no window function {name}"))),
        }
    }

    fn aggregate(
        &mut self,
        function: &AggregateFunctionExpr,
        (frame, order): (&WindowFrame, &[PhysicalSortExpr]),
    ) -> Result<WindowKind> {
        let name = function.fun().name();
        if function.is_distinct() || function.ignore_nulls() {
            return Err(Error::unsupported(format!("kernels have no {name} of distinct values in windows")));
        }
        if !matches!(name, "count" | "sum" | "avg" | "min" | "max") {
            return Err(Error::unsupported(format!("kernels have no {name} in windows")));
        }
        let frame = self.frame(frame, order)?;
        let is_found_by_rows =
            matches!(frame.end, FrameEdge::Partition | FrameEdge::Peers | FrameEdge::Rows(_));
        let begins_later = || match frame.start {
            FrameEdge::Partition if is_found_by_rows || !frame.may_be_empty() => Ok(()),
            _ => Err(Error::unsupported(
                "kernels have frames that begin later for counts and exact sums alone",
            )),
        };
        let arguments = function.expressions();
        let arguments = arguments.iter().map(|argument| self.windowed.of_input(argument, self.inputs));
        let arguments = arguments.collect::<Result<Vec<_>>>()?;
        let Some(value) = argument_of(function, &arguments, None, None, self.flow, self.schema)? else {
            return Ok(WindowKind::Count { column: None, frame });
        };
        let result = function.field();
        match name {
            "count" => {
                let column = Some(self.column(value)?);
                Ok(WindowKind::Count { column, frame })
            }
            "min" | "max" => {
                begins_later()?;
                if !matches!(kernel_type(&value.data_type)?, Type::I32 | Type::I64 | Type::I128 | Type::F64) {
                    return Err(Error::unsupported(format!(
                        "kernels have no {name} of {} in windows",
                        value.data_type
                    )));
                }
                self.look_at_decimals(&value.data_type);
                let column = self.column(value)?;
                Ok(if name == "min" {
                    WindowKind::Min { column, frame }
                } else {
                    WindowKind::Max { column, frame }
                })
            }
            "sum" => {
                if value.data_type == DataType::Float64 {
                    begins_later()?;
                }
                check_sum(&value, result.data_type(), name)?;
                self.may_overflow |= may_pass(&value, result.data_type());
                Ok(WindowKind::Sum { column: self.column(value)?, frame })
            }
            _ => {
                if value.data_type == DataType::Float64 {
                    begins_later()?;
                }
                if *result.data_type() != DataType::Float64 {
                    return Err(Error::unsupported(format!("{name}: an average of another type")));
                }
                let unit = unit_of(&value, name)?;
                Ok(WindowKind::Average { column: self.column(value)?, unit, frame })
            }
        }
    }
}

/// Whether `result` may not hold a sum of so many values as a window may have.
fn may_pass(value: &Value, result: &DataType) -> bool {
    let Some(Bounds { min, max }) = value.bounds_or_type() else {
        return value.data_type != DataType::Float64;
    };
    let most = min.unsigned_abs().max(max.unsigned_abs()).checked_mul(ROWS_MAX);
    let held = match result {
        DataType::Int64 => Some(i64::MAX as u128),
        DataType::Decimal128(precision, _) => {
            10_u128.checked_pow(u32::from(*precision)).map(|beyond| beyond - 1)
        }
        _ => None,
    };
    most.zip(held).is_none_or(|(most, held)| most > held)
}

fn constant(expr: &Arc<dyn PhysicalExpr>) -> Result<ScalarValue> {
    let literal = expr.downcast_ref::<LiteralExpr>();
    literal
        .map(|literal| literal.value().clone())
        .ok_or_else(|| Error::unsupported(format!("{expr} in place of a constant")))
}

/// What stands in for a value of `data_type`; `None`: NULL.
fn default_of(expr: &Arc<dyn PhysicalExpr>, data_type: &DataType) -> Result<Option<Literal>> {
    let value = constant(expr)?;
    if value.is_null() {
        return Ok(None);
    }
    let value = value.cast_to(data_type).map_err(|error| Error::unsupported(error.to_string()))?;
    match literal(&value)?.expr {
        Expr::Literal(Literal::Null(_)) => Ok(None),
        Expr::Literal(literal) => Ok(Some(literal)),
        other => Err(Error::unsupported(format!("{other:?} in place of a constant"))),
    }
}

/// An edge of a frame by `units`; `key`: the type of the key, where it is by distances of one.
fn edge_of(units: WindowFrameUnits, bound: &WindowFrameBound, key: Option<&DataType>) -> Result<FrameEdge> {
    let (far, sign) = match bound {
        WindowFrameBound::CurrentRow if units == WindowFrameUnits::Rows => return Ok(FrameEdge::Rows(0)),
        WindowFrameBound::CurrentRow => return Ok(FrameEdge::Peers),
        WindowFrameBound::Preceding(far) | WindowFrameBound::Following(far) if far.is_null() => {
            return Ok(FrameEdge::Partition);
        }
        WindowFrameBound::Preceding(far) => (far, -1),
        WindowFrameBound::Following(far) => (far, 1),
    };
    let count = |far: &ScalarValue| match far {
        ScalarValue::UInt64(Some(count)) => {
            Ok(sign * i64::try_from(*count).unwrap_or(i64::MAX).min(ROWS_MAX as i64))
        }
        _ => Err(Error::unsupported(format!("a frame of {units:?} that goes by {far}"))),
    };
    match (units, key) {
        (WindowFrameUnits::Rows, _) => count(far).map(FrameEdge::Rows),
        (WindowFrameUnits::Groups, _) => count(far).map(FrameEdge::Groups),
        (WindowFrameUnits::Range, Some(key)) => Ok(FrameEdge::Distance(sign * distance_of(far, key)?)),
        (WindowFrameUnits::Range, None) => Err(Error::unsupported("a frame by distances of no key")),
    }
}

/// How far `far` is, in units of keys of type `key`; not negative.
///
/// # Errors
///
/// `Unsupported` for keys that are not whole numbers, and distances that differ in length, such as months.
fn distance_of(far: &ScalarValue, key: &DataType) -> Result<i64> {
    const DAY_NANOSECONDS: i128 = 86_400_000_000_000;
    let (days, nanoseconds) = match far {
        ScalarValue::IntervalMonthDayNano(Some(interval)) if interval.months == 0 => {
            (i128::from(interval.days), i128::from(interval.nanoseconds))
        }
        ScalarValue::IntervalDayTime(Some(interval)) => {
            (i128::from(interval.days), i128::from(interval.milliseconds) * 1_000_000)
        }
        _ => (0, 0),
    };
    let nanoseconds_in = |unit: &TimeUnit| match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1000,
        TimeUnit::Nanosecond => 1,
    };
    let is_interval = matches!(
        far.data_type(),
        DataType::Interval(IntervalUnit::MonthDayNano) | DataType::Interval(IntervalUnit::DayTime)
    );
    let distance = match (key, far) {
        (DataType::Date32, _) if is_interval && nanoseconds == 0 => Some(days),
        (DataType::Timestamp(unit, None), _) if is_interval => {
            let (whole, unit) = (days * DAY_NANOSECONDS + nanoseconds, nanoseconds_in(unit));
            (whole % unit == 0).then_some(whole / unit)
        }
        (DataType::Int8, ScalarValue::Int8(Some(far))) => Some((*far).into()),
        (DataType::Int16, ScalarValue::Int16(Some(far))) => Some((*far).into()),
        (DataType::Int32, ScalarValue::Int32(Some(far))) => Some((*far).into()),
        (DataType::Int64, ScalarValue::Int64(Some(far))) => Some((*far).into()),
        (DataType::UInt8, ScalarValue::UInt8(Some(far))) => Some((*far).into()),
        (DataType::UInt16, ScalarValue::UInt16(Some(far))) => Some((*far).into()),
        (DataType::UInt32, ScalarValue::UInt32(Some(far))) => Some((*far).into()),
        _ => None,
    };
    let distance =
        distance.filter(|distance| *distance >= 0).and_then(|distance| i64::try_from(distance).ok());
    let is_months = matches!(far, ScalarValue::IntervalMonthDayNano(Some(interval)) if interval.months != 0);
    match distance {
        Some(distance) if !is_months => Ok(distance),
        _ => Err(Error::unsupported(format!("kernels have no frames of {key} that go by {far}"))),
    }
}
