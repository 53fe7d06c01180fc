//! Walks a plan bottom-up and estimates the rows out of every node.
//!
//! The leaves' statistics are DataFusion's; everything above is estimated here, by the same formulas
//! that choose the join order, so that EXPLAIN shows the numbers the choice was made with. Operators that take the place
//! of DataFusion's later on are estimated as those: [`StandsFor`] tells which they are.
//!
//! What was found for a node is kept. Rules that go over a plan bottom-up, replace nodes and ask for estimates on their way
//! have each node looked at once: a node that is new is worked out from inputs that are known.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::{JoinSide, JoinType};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{PhysicalExpr, PhysicalExprRef};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode, AggregateOutputMode};
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::union::{InterleaveExec, UnionExec};

use crate::cardinality::{join_selectivity, key_combinations, occurring, semi_join_fraction};
use crate::profile::{ColumnProfile, Profile, Source};
use crate::selectivity::{column_of, filter, selectivity};

/// Least share of rows that an anti join is taken to keep: that every row has a partner is what
/// containment assumes, not what is known. A guess.
const ANTI_JOIN_FRACTION_MIN: f64 = 0.05;

/// The operator that a node stands for, which gives the same rows; `None` for a node that stands for itself.
pub type StandsFor = fn(&Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>>;

/// Estimated rows of nodes, of one plan or of what rules make of it.
///
/// Each node is looked at once, and kept for as long as this is there.
pub struct Estimates(RefCell<Estimator>);

impl Estimates {
    /// Of plans with operators that DataFusion does not know.
    pub fn new(stands_for: StandsFor) -> Self {
        Self(RefCell::new(Estimator::new(stands_for)))
    }

    /// Estimated rows out of `plan`; `None` when a table below has no row count.
    pub fn rows(&self, plan: &Arc<dyn ExecutionPlan>) -> Option<f64> {
        self.0.borrow_mut().rows(plan)
    }
}

impl Default for Estimates {
    /// Of plans of DataFusion's operators.
    fn default() -> Self {
        Self(RefCell::default())
    }
}

/// Estimated rows out of `plan`, which has DataFusion's operators alone; `None` when a table below has no row count.
pub fn estimated_rows(plan: &Arc<dyn ExecutionPlan>) -> Option<f64> {
    Estimator::default().rows(plan)
}

/// Estimates plans; keeps what it found for each node.
pub(crate) struct Estimator {
    stands_for: StandsFor,
    source_count: usize,
    class_count: usize,
    /// By address.
    known: HashMap<usize, Known>,
}

/// What was found for a node, which is held so that no other gets its address.
struct Known {
    _node: Arc<dyn ExecutionPlan>,
    profile: Profile,
}

impl Default for Estimator {
    fn default() -> Self {
        Self::new(|_| None)
    }
}

/// What the three joins with keys or a filter have in common.
struct JoinInputs<'a> {
    left: &'a Arc<dyn ExecutionPlan>,
    right: &'a Arc<dyn ExecutionPlan>,
    on: &'a [(PhysicalExprRef, PhysicalExprRef)],
    filter: Option<&'a JoinFilter>,
    join_type: JoinType,
    projection: Option<&'a [usize]>,
}

impl Estimator {
    fn new(stands_for: StandsFor) -> Self {
        Self { stands_for, source_count: 0, class_count: 0, known: HashMap::new() }
    }

    /// Estimates `plan` and, on the way, every node below that is not known yet.
    pub(crate) fn profile(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Profile {
        if let Some(known) = self.known.get(&address(plan)) {
            let profile = known.profile.clone();
            return self.anew(profile);
        }
        let mut profile = match (self.stands_for)(plan) {
            Some(operator) => self.profile(&operator),
            None => self.node(plan).limit(plan.fetch()),
        };
        // Not every leaf has statistics for as many columns as its schema.
        let source = self.new_source(profile.rows);
        let column_count = plan.schema().fields().len();
        profile.columns.resize(column_count, ColumnProfile::unknown(source));
        self.known.insert(address(plan), Known { _node: Arc::clone(plan), profile: profile.clone() });
        profile
    }

    /// As [`profile`](Self::profile), of which only the rows are wanted.
    pub(crate) fn rows(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Option<f64> {
        match self.known.get(&address(plan)) {
            Some(known) => known.profile.rows,
            None => self.profile(plan).rows,
        }
    }

    /// `profile`, which was found before, with sources and classes of its own: a node that a plan has twice gives two
    /// relations.
    fn anew(&mut self, mut profile: Profile) -> Profile {
        let (mut sources, mut classes) = (HashMap::new(), HashMap::new());
        for column in &mut profile.columns {
            let source = sources.entry(column.source.id).or_insert_with(|| self.new_source_id());
            column.source.id = *source;
            if let Some(class) = &mut column.class {
                *class = *classes.entry(*class).or_insert_with(|| self.new_class());
            }
        }
        profile
    }

    fn node(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Profile {
        if let Some(join) = join_inputs(plan) {
            return self.join(&join);
        }
        if let Some(node) = plan.downcast_ref::<FilterExec>() {
            let input = self.profile(node.input());
            return filter(&input, node.predicate()).project(node.projection().as_deref());
        }
        if let Some(node) = plan.downcast_ref::<ProjectionExec>() {
            return self.projection(node);
        }
        if let Some(node) = plan.downcast_ref::<AggregateExec>() {
            return self.aggregate(node);
        }
        if plan.is::<UnionExec>() || plan.is::<InterleaveExec>() {
            return self.union(plan);
        }
        if let Some(node) = plan.downcast_ref::<GlobalLimitExec>() {
            let mut input = self.profile(node.input());
            input.rows = input.rows.map(|rows| (rows - node.skip() as f64).max(0.0));
            return input;
        }
        if plan.children().is_empty() {
            return self.leaf(plan);
        }
        self.pass_through(plan)
    }

    /// The node's own statistics, as DataFusion has them.
    fn leaf(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Profile {
        let source_id = self.new_source_id();
        match StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new()) {
            Ok(statistics) => Profile::from_statistics(&statistics, source_id),
            // An estimate is never worth failing a query for.
            Err(_) => Profile::unknown(None, plan.schema().fields().len(), source_id),
        }
    }

    /// Exchanges, sorts, windows, subquery scopes: the rows are those of the first child, columns may
    /// be appended. Nodes that say nothing of the kind have their own statistics.
    fn pass_through(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Profile {
        let profiles: Vec<_> = plan.children().into_iter().map(|child| self.profile(child)).collect();
        let input_schema = plan.children()[0].schema();
        let is_exchange = profiles.len() == 1 && plan.schema() == input_schema;
        let keeps_rows =
            matches!(plan.cardinality_effect(), CardinalityEffect::Equal | CardinalityEffect::LowerEqual);
        let keeps_columns = plan.schema().fields().starts_with(input_schema.fields());
        match profiles.into_iter().next() {
            Some(first) if is_exchange || (keeps_rows && keeps_columns) => first,
            _ => self.leaf(plan),
        }
    }

    fn projection(&mut self, node: &ProjectionExec) -> Profile {
        let input = self.profile(node.input());
        let source = self.new_source(input.rows);
        let columns = node
            .expr()
            .iter()
            .map(|projected| match column_of(&projected.expr) {
                Some(index) => input.columns[index].clone(),
                None => ColumnProfile::unknown(source),
            })
            .collect();
        Profile { rows: input.rows, columns }
    }

    fn aggregate(&mut self, node: &AggregateExec) -> Profile {
        let input = self.profile(node.input());
        let keys: Vec<_> = node
            .group_expr()
            .expr()
            .iter()
            .map(|(expr, _)| column_of(expr).map(|index| input.columns[index].clone()))
            .collect();
        let group_by = node.group_expr();
        let rows = match input.rows {
            _ if group_by.is_true_no_grouping() => Some(1.0),
            None => None,
            // The rows of partial aggregates are groups already.
            Some(rows) if node.mode().input_mode() == AggregateInputMode::Partial => {
                Some(rows.min(key_combinations(&keys, rows)))
            }
            Some(rows) => {
                let groups = occurring(key_combinations(&keys, rows), rows);
                Some(groups * group_by.groups().len().max(1) as f64)
            }
        };
        let source = self.new_source(rows);
        let is_complete = node.mode().output_mode() == AggregateOutputMode::Final;
        let mut columns: Vec<_> = keys
            .into_iter()
            .map(|key| match key {
                // The groups are a relation of their own, with the key unique in it.
                Some(column) if is_complete => ColumnProfile { source, ..column },
                Some(column) => column,
                None => ColumnProfile::unknown(source),
            })
            .collect();
        columns.resize(node.schema().fields().len(), ColumnProfile::unknown(source));
        Profile { rows, columns }
    }

    fn union(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Profile {
        let mut rows = Some(0.0);
        for child in plan.children() {
            let child_rows = self.profile(child).rows;
            rows = rows.zip(child_rows).map(|(sum, child_rows)| sum + child_rows);
        }
        let column_count = plan.schema().fields().len();
        Profile::unknown(rows, column_count, self.new_source_id())
    }

    fn join(&mut self, join: &JoinInputs<'_>) -> Profile {
        let left = self.profile(join.left);
        let right = self.profile(join.right);
        let keys = self.keys(join, &left, &right);
        let filter_selectivity =
            join.filter.map_or(1.0, |filter| join_filter_selectivity(filter, &left, &right));
        let rows = left.rows.zip(right.rows).map(|(left_rows, right_rows)| {
            joined_rows(join.join_type, left_rows, right_rows, &keys, filter_selectivity)
        });
        let (left_rows, right_rows) = (left.rows, right.rows);
        let mut columns = self.joined_columns(join, left, right);
        if let (Some(left_rows), Some(right_rows), Some(rows)) = (left_rows, right_rows, rows) {
            let left_count = join.left.schema().fields().len();
            let alone = |outer_rows: f64, fraction: f64| {
                let rows = rows.max(1.0);
                (outer_rows * (1.0 - fraction).max(ANTI_JOIN_FRACTION_MIN) / rows).min(1.0)
            };
            // Rows without a partner have NULL in the columns of the other side.
            if matches!(join.join_type, JoinType::Left | JoinType::Full) {
                let share = alone(left_rows, semi_join_fraction(&keys, right_rows, filter_selectivity));
                let of_right = columns.split_off(left_count);
                columns.extend(of_right.into_iter().map(|column| column.missing(share)));
            }
            if matches!(join.join_type, JoinType::Right | JoinType::Full) {
                let share =
                    alone(right_rows, semi_join_fraction(&swapped(&keys), left_rows, filter_selectivity));
                let of_right = columns.split_off(left_count);
                columns = columns.into_iter().map(|column| column.missing(share)).chain(of_right).collect();
            }
        }
        Profile { rows, columns }.project(join.projection)
    }

    /// The key columns as (left, right); a computed key is a column nothing is known of.
    fn keys(
        &mut self,
        join: &JoinInputs<'_>,
        left: &Profile,
        right: &Profile,
    ) -> Vec<(ColumnProfile, ColumnProfile)> {
        let mut side = |expr: &Arc<dyn PhysicalExpr>, input: &Profile| match column_of(expr) {
            Some(index) => input.columns[index].clone(),
            None => ColumnProfile::unknown(self.new_source(input.rows)),
        };
        join.on.iter().map(|(left_key, right_key)| (side(left_key, left), side(right_key, right))).collect()
    }

    fn joined_columns(&mut self, join: &JoinInputs<'_>, left: Profile, right: Profile) -> Vec<ColumnProfile> {
        let left_count = left.columns.len();
        match join.join_type {
            JoinType::LeftSemi | JoinType::LeftAnti => left.columns,
            JoinType::RightSemi | JoinType::RightAnti => right.columns,
            JoinType::LeftMark | JoinType::RightMark => {
                let outer = if join.join_type == JoinType::LeftMark { left } else { right };
                let mark = ColumnProfile::unknown(self.new_source(outer.rows));
                outer.columns.into_iter().chain([mark]).collect()
            }
            JoinType::Inner => {
                let mut columns = [left.columns, right.columns].concat();
                for (left_key, right_key) in join.on {
                    if let (Some(l), Some(r)) = (column_of(left_key), column_of(right_key)) {
                        self.equate(&mut columns, l, left_count + r);
                    }
                }
                columns
            }
            JoinType::Left | JoinType::Right | JoinType::Full => [left.columns, right.columns].concat(),
        }
    }

    /// After an inner join on `one = other`, all columns of both classes hold the same values.
    fn equate(&mut self, columns: &mut [ColumnProfile], one: usize, other: usize) {
        let common = columns[one].intersect(&columns[other]);
        let class = self.new_class();
        let classes = [columns[one].class, columns[other].class];
        for (index, column) in columns.iter_mut().enumerate() {
            let is_member = column.class.is_some() && classes.contains(&column.class);
            if is_member || index == one || index == other {
                let source = column.source;
                *column = ColumnProfile { source, class: Some(class), ..common.clone() };
            }
        }
    }

    fn new_source_id(&mut self) -> usize {
        self.source_count += 1;
        self.source_count
    }

    fn new_source(&mut self, rows: Option<f64>) -> Source {
        Source { id: self.new_source_id(), rows: rows.unwrap_or(0.0) }
    }

    fn new_class(&mut self) -> usize {
        self.class_count += 1;
        self.class_count
    }
}

/// The identity of a node for as long as it is there.
fn address(plan: &Arc<dyn ExecutionPlan>) -> usize {
    Arc::as_ptr(plan).cast::<()>() as usize
}

fn join_inputs(plan: &Arc<dyn ExecutionPlan>) -> Option<JoinInputs<'_>> {
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        return Some(JoinInputs {
            left: join.left(),
            right: join.right(),
            on: join.on(),
            filter: join.filter(),
            join_type: *join.join_type(),
            projection: join.projection.as_deref(),
        });
    }
    if let Some(join) = plan.downcast_ref::<SortMergeJoinExec>() {
        return Some(JoinInputs {
            left: join.left(),
            right: join.right(),
            on: join.on(),
            filter: join.filter().as_ref(),
            join_type: join.join_type(),
            projection: None,
        });
    }
    if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
        return Some(JoinInputs {
            left: join.left(),
            right: join.right(),
            on: &[],
            filter: join.filter(),
            join_type: *join.join_type(),
            projection: join.projection().as_deref(),
        });
    }
    plan.downcast_ref::<CrossJoinExec>().map(|join| JoinInputs {
        left: join.left(),
        right: join.right(),
        on: &[],
        filter: None,
        join_type: JoinType::Inner,
        projection: None,
    })
}

/// Selectivity of a filter over the columns of both inputs.
fn join_filter_selectivity(filter: &JoinFilter, left: &Profile, right: &Profile) -> f64 {
    let columns: Vec<_> = filter
        .column_indices()
        .iter()
        .map(|column| match column.side {
            JoinSide::Left => left.columns[column.index].clone(),
            JoinSide::Right => right.columns[column.index].clone(),
            // The mark of a mark join: nothing is known of it.
            JoinSide::None => ColumnProfile::unknown(Source { id: 0, rows: 0.0 }),
        })
        .collect();
    selectivity(filter.expression(), &columns)
}

/// `keys` with sides changed.
fn swapped(keys: &[(ColumnProfile, ColumnProfile)]) -> Vec<(ColumnProfile, ColumnProfile)> {
    keys.iter().map(|(left, right)| (right.clone(), left.clone())).collect()
}

fn joined_rows(
    join_type: JoinType,
    left_rows: f64,
    right_rows: f64,
    keys: &[(ColumnProfile, ColumnProfile)],
    filter_selectivity: f64,
) -> f64 {
    let inner = left_rows * right_rows * join_selectivity(keys) * filter_selectivity;
    let left_fraction = || semi_join_fraction(keys, right_rows, filter_selectivity);
    let right_fraction = || semi_join_fraction(&swapped(keys), left_rows, filter_selectivity);
    match join_type {
        JoinType::Inner => inner,
        JoinType::Left => inner.max(left_rows),
        JoinType::Right => inner.max(right_rows),
        JoinType::Full => inner.max(left_rows).max(right_rows),
        JoinType::LeftSemi => left_rows * left_fraction(),
        JoinType::RightSemi => right_rows * right_fraction(),
        JoinType::LeftAnti => left_rows * (1.0 - left_fraction()).max(ANTI_JOIN_FRACTION_MIN),
        JoinType::RightAnti => right_rows * (1.0 - right_fraction()).max(ANTI_JOIN_FRACTION_MIN),
        JoinType::LeftMark => left_rows,
        JoinType::RightMark => right_rows,
    }
}

/// Whether an expression is nothing but a column.
pub(crate) fn plain_column(expr: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    expr.downcast_ref::<Column>().map(Column::index)
}
