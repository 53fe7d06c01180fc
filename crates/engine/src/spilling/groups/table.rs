//! A table of groups, of rows or of states, with DataFusion's keys and accumulators.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::error::Result;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::group_values::{GroupValues, new_group_values};
use datafusion::physical_plan::aggregates::order::GroupOrdering;
use datafusion::physical_plan::aggregates::{
    AggregateExec, AggregateInputMode, AggregateMode, PhysicalGroupBy, aggregate_expressions,
    evaluate_group_by, evaluate_many,
};
use datafusion_functions_aggregate_common::aggregate::groups_accumulator::GroupsAccumulatorAdapter;

use super::seen::SeenGroups;
use super::{integers, packed, texts};

/// What is grouped and how.
pub(super) struct Shape {
    group_by: PhysicalGroupBy,
    calls: Vec<Arc<AggregateFunctionExpr>>,
    filters: Vec<Option<Arc<dyn PhysicalExpr>>>,
    mode: AggregateMode,
    keys: SchemaRef,
    /// Of groups in files: keys, then states.
    pub(super) state_schema: SchemaRef,
    pub(super) schema: SchemaRef,
}

impl Shape {
    /// Of `aggregate`, whose groups are of one set.
    pub(super) fn of(aggregate: &AggregateExec) -> Result<Self> {
        let group_by = aggregate.group_expr().clone();
        let keys = group_by.group_schema(&aggregate.input().schema())?;
        let mut fields = keys.fields().to_vec();
        for call in aggregate.aggr_expr() {
            fields.extend(call.state_fields()?);
        }
        Ok(Self {
            calls: aggregate.aggr_expr().to_vec(),
            filters: aggregate.filter_expr().to_vec(),
            mode: *aggregate.mode(),
            keys,
            state_schema: Arc::new(Schema::new(fields)),
            schema: aggregate.schema(),
            group_by,
        })
    }

    /// Whether groups are told apart by integers, dates or times of a few bytes.
    pub(super) fn is_by_integers(&self) -> bool {
        are_integers(&self.keys)
    }

    /// Whether groups are told apart by one text.
    pub(super) fn is_by_one_text(&self) -> bool {
        self.is_by_text() && self.keys.fields().len() == 1
    }

    /// Whether a text is among what tells groups apart.
    pub(super) fn is_by_text(&self) -> bool {
        self.keys.fields().iter().any(|key| *key.data_type() == DataType::Utf8View)
    }

    /// Whether states are what the aggregate reads.
    pub(super) fn reads_states(&self) -> bool {
        self.mode.input_mode() == AggregateInputMode::Partial
    }

    /// The keys of groups in files.
    pub(super) fn state_keys(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        self.group_by.as_final().input_exprs()
    }
}

/// Groups, with what their aggregates have come to.
pub(super) struct Table {
    shape: Arc<Shape>,
    group_by: PhysicalGroupBy,
    arguments: Vec<Vec<Arc<dyn PhysicalExpr>>>,
    takes_states: bool,
    groups: Box<dyn GroupValues>,
    states: Vec<Box<dyn GroupsAccumulator>>,
    /// The group of each row of a batch.
    places: Vec<usize>,
}

/// Keys and arguments of a batch.
struct Evaluated {
    keys: Vec<ArrayRef>,
    arguments: Vec<Vec<ArrayRef>>,
    filters: Vec<Option<ArrayRef>>,
}

impl Table {
    /// Of what the aggregate reads, with room for so many groups by integers.
    pub(super) fn of_input(shape: &Arc<Shape>, room: usize) -> Result<Self> {
        Self::new(shape, shape.group_by.clone(), shape.mode, room)
    }

    /// Of groups in files.
    pub(super) fn of_states(shape: &Arc<Shape>) -> Result<Self> {
        Self::new(shape, shape.group_by.as_final(), AggregateMode::Final, 0)
    }

    fn new(shape: &Arc<Shape>, group_by: PhysicalGroupBy, mode: AggregateMode, room: usize) -> Result<Self> {
        Ok(Self {
            arguments: aggregate_expressions(&shape.calls, &mode, group_by.num_group_exprs())?,
            group_by,
            takes_states: mode.input_mode() == AggregateInputMode::Partial,
            groups: groups_by(&shape.keys, room)?,
            states: shape.calls.iter().map(accumulator).collect::<Result<_>>()?,
            places: Vec::new(),
            shape: Arc::clone(shape),
        })
    }

    /// Groups so far.
    pub(super) fn len(&self) -> usize {
        self.groups.len()
    }

    /// Memory that it takes.
    pub(super) fn bytes(&self) -> usize {
        let states: usize = self.states.iter().map(|state| state.size()).sum();
        states + self.groups.size() + self.places.capacity() * size_of::<usize>()
    }

    /// Adds the rows of `batch` to their groups.
    ///
    /// # Errors
    ///
    /// Of expressions and aggregates: a sum that overflows, say.
    pub(super) fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let evaluated = self.evaluate(batch)?;
        self.groups.intern(&evaluated.keys, &mut self.places)?;
        let count = self.groups.len();
        let inputs = evaluated.arguments.iter().zip(&evaluated.filters);
        for (state, (arguments, filter)) in self.states.iter_mut().zip(inputs) {
            if self.takes_states {
                state.merge_batch(arguments, &self.places, count)?;
            } else {
                let filter = filter.as_ref().map(|filter| filter.as_boolean());
                state.update_batch(arguments, &self.places, filter, count)?;
            }
        }
        Ok(())
    }

    /// The rows of `batch`, at least one, as states of a group each.
    ///
    /// # Errors
    ///
    /// As [`add`](Self::add).
    pub(super) fn as_states(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let Evaluated { keys: mut columns, arguments, filters } = self.evaluate(batch)?;
        for (state, (arguments, filter)) in self.states.iter().zip(arguments.into_iter().zip(filters)) {
            if self.takes_states {
                columns.extend(arguments);
            } else {
                let filter = filter.as_ref().map(|filter| filter.as_boolean());
                columns.extend(state.convert_to_state(&arguments, filter)?);
            }
        }
        Ok(RecordBatch::try_new(Arc::clone(&self.shape.state_schema), columns)?)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<Evaluated> {
        let mut keys = evaluate_group_by(&self.group_by, batch)?;
        let evaluate = |filter: &Arc<dyn PhysicalExpr>| filter.evaluate(batch)?.into_array(batch.num_rows());
        let filters = self.shape.filters.iter().map(|filter| match self.takes_states {
            // Whoever made the states has filtered.
            true => Ok(None),
            false => filter.as_ref().map(evaluate).transpose(),
        });
        Ok(Evaluated {
            keys: keys.swap_remove(0),
            arguments: evaluate_many(&self.arguments, batch)?,
            filters: filters.collect::<Result<_>>()?,
        })
    }

    /// Takes the states of all groups out, of which there are some; gives its memory back.
    ///
    /// # Errors
    ///
    /// Of aggregates.
    pub(super) fn take_states(&mut self) -> Result<RecordBatch> {
        let states = self.take_some_states()?;
        self.shrink();
        Ok(states)
    }

    /// Gives memory back that no group is in.
    pub(super) fn shrink(&mut self) {
        self.groups.clear_shrink(0);
        self.places = Vec::new();
    }

    /// The same, of a table that takes as many again.
    ///
    /// # Errors
    ///
    /// Of aggregates.
    pub(super) fn take_some_states(&mut self) -> Result<RecordBatch> {
        let count = self.len();
        let mut columns = self.groups.emit(EmitTo::All)?;
        // DataFusion's know where they had the keys that they gave until they are told to forget it, and would look there.
        if !self.shape.is_by_integers() {
            self.groups.clear_shrink(count);
        }
        for state in &mut self.states {
            columns.extend(state.state(EmitTo::All)?);
        }
        Ok(RecordBatch::try_new(Arc::clone(&self.shape.state_schema), columns)?)
    }

    /// All groups with their values.
    ///
    /// # Errors
    ///
    /// Of aggregates.
    pub(super) fn finish(mut self) -> Result<RecordBatch> {
        // Aggregates that DataFusion adapts to groups have no array of no values.
        if self.len() == 0 {
            return Ok(RecordBatch::new_empty(Arc::clone(&self.shape.schema)));
        }
        let mut columns = self.groups.emit(EmitTo::All)?;
        drop(self.groups);
        for mut state in self.states {
            columns.push(state.evaluate(EmitTo::All)?);
        }
        Ok(RecordBatch::try_new(Arc::clone(&self.shape.schema), columns)?)
    }
}

/// No groups yet, by `keys`.
pub(super) fn groups_by(keys: &SchemaRef, room: usize) -> Result<Box<dyn GroupValues>> {
    if let Some(groups) = groups_by_integers(keys, room) {
        return Ok(groups);
    }
    let groups = match texts::groups_of(keys)? {
        Some(groups) => groups,
        None => new_group_values(Arc::clone(keys), &GroupOrdering::None)?,
    };
    Ok(SeenGroups::over(groups, keys))
}

/// Whether groups by `keys` are told apart by integers, dates or times of two words at most.
pub(crate) fn are_integers(keys: &Schema) -> bool {
    groups_by_integers(keys, 0).is_some()
}

/// No groups yet, where keys are such.
fn groups_by_integers(keys: &Schema, room: usize) -> Option<Box<dyn GroupValues>> {
    if let [key] = keys.fields().as_ref() {
        return integers::groups_of(key.data_type(), room);
    }
    packed::groups_of(keys, room)
}

fn accumulator(call: &Arc<AggregateFunctionExpr>) -> Result<Box<dyn GroupsAccumulator>> {
    if call.groups_accumulator_supported() {
        return call.create_groups_accumulator();
    }
    let call = Arc::clone(call);
    Ok(Box::new(GroupsAccumulatorAdapter::new(move || call.create_accumulator())))
}
