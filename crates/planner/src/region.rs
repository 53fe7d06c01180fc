//! Cuts a region of reorderable joins out of a plan.
//!
//! ```text
//!        HashJoin (inner)  ┐
//!        ├─ Projection     │ region: inner joins, cross joins, nested-loop inner joins,
//!        │  └─ HashJoin    │ and the projections and filters between them
//!        │     ├─ scan     ┘
//!        │     └─ Filter ── scan          leaves: everything else; outer joins, aggregates
//!        └─ HashJoin (left outer)         and what is below them are regions of their own
//! ```
//!
//! 1. `Region::cut` gathers the leaves, the equalities, the other predicates and, for each output
//!    column, the expression that computes it. All expressions are over *global columns*: the columns
//!    of the first leaf, then those of the second, and so on.
//! 2. `Region::graph` estimates the leaves and makes the join graph. Predicates on one leaf go to it.
//!
//! A volatile expression, a limit inside a join, a projection that computes from several columns, a
//! join with another treatment of NULL keys: each ends the region and becomes a leaf.

use std::sync::Arc;

use datafusion::arrow::datatypes::FieldRef;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinSide, JoinType, NullEquality, Result};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{PhysicalExpr, conjunction, split_conjunction};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, PartitionMode};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, replace_children_if_necessary};

use crate::classify::GraphBuilder;
use crate::estimate::{Estimator, plain_column};
use crate::graph::{JoinGraph, RELATIONS_MAX};

type Expr = Arc<dyn PhysicalExpr>;
type Plan = Arc<dyn ExecutionPlan>;

/// A region of joins, taken apart.
pub(crate) struct Region {
    /// The inputs of the region, left to right.
    pub(crate) leaves: Vec<Plan>,
    /// The fields of all leaves; an index here is a global column.
    pub(crate) fields: Vec<FieldRef>,
    /// The expression of each output column of the region.
    pub(crate) outputs: Vec<Expr>,
    /// How the joins of the region compare NULL keys.
    pub(crate) null_equality: NullEquality,
    /// The mode of the region's hash joins; later rules settle it.
    pub(crate) partition_mode: PartitionMode,
    /// The order the query came in.
    pub(crate) shape: Shape,
    equalities: Vec<(Expr, Expr)>,
    predicates: Vec<Expr>,
}

/// The order of the joins as found.
pub(crate) enum Shape {
    /// A leaf, by index.
    Leaf(usize),
    /// A join.
    Join {
        left: Box<Shape>,
        right: Box<Shape>,
        /// Whether it has equalities to hash.
        is_keyed: bool,
        /// Whether it has another predicate.
        is_filtered: bool,
    },
}

/// What a plan node is to a region.
enum Part<'a> {
    Join(JoinPart<'a>),
    Projection(&'a ProjectionExec),
    Filter(&'a FilterExec),
    Leaf,
}

struct JoinPart<'a> {
    left: &'a Plan,
    right: &'a Plan,
    on: &'a [(Expr, Expr)],
    filter: Option<&'a JoinFilter>,
    projection: Option<&'a [usize]>,
}

impl Region {
    /// The region whose topmost node is `plan`; `None` if that is not a join or the region is too
    /// small to have an order or too large to represent.
    pub(crate) fn cut(plan: &Plan) -> Result<Option<Self>> {
        let null_equality = first_null_equality(plan).unwrap_or(NullEquality::NullEqualsNothing);
        if matches!(Part::of(plan, null_equality), Part::Leaf) {
            return Ok(None);
        }
        let mut region = Self {
            leaves: vec![],
            fields: vec![],
            outputs: vec![],
            null_equality,
            partition_mode: PartitionMode::Auto,
            shape: Shape::Leaf(0),
            equalities: vec![],
            predicates: vec![],
        };
        (region.outputs, region.shape) = region.take(plan)?;
        let is_bounded = region.leaves.iter().all(|leaf| !leaf.boundedness().is_unbounded());
        let is_reorderable = is_bounded && (3..=RELATIONS_MAX).contains(&region.leaves.len());
        Ok(is_reorderable.then_some(region))
    }

    /// `plan`, the top of a region that was cut, with each leaf rewritten by `rewrite`.
    pub(crate) fn map_leaves(
        plan: &Plan,
        null_equality: NullEquality,
        rewrite: &mut dyn FnMut(&Plan) -> Result<Plan>,
    ) -> Result<Plan> {
        if matches!(Part::of(plan, null_equality), Part::Leaf) {
            return rewrite(plan);
        }
        let children = plan
            .children()
            .into_iter()
            .map(|child| Self::map_leaves(child, null_equality, rewrite))
            .collect::<Result<_>>()?;
        replace_children_if_necessary(Arc::clone(plan), children)
    }

    /// Adds `plan` to the region; returns its output expressions and the order below it.
    fn take(&mut self, plan: &Plan) -> Result<(Vec<Expr>, Shape)> {
        match Part::of(plan, self.null_equality) {
            Part::Leaf => Ok(self.take_leaf(plan)),
            Part::Join(join) => {
                if let Some(hash_join) = plan.downcast_ref::<HashJoinExec>() {
                    self.partition_mode = *hash_join.partition_mode();
                }
                self.take_join(&join)
            }
            Part::Projection(projection) => {
                let (inputs, shape) = self.take(projection.input())?;
                let outputs = projection
                    .expr()
                    .iter()
                    .map(|projected| substitute(&projected.expr, |index| Arc::clone(&inputs[index])))
                    .collect::<Result<_>>()?;
                Ok((outputs, shape))
            }
            Part::Filter(filter) => {
                let (inputs, shape) = self.take(filter.input())?;
                self.add_predicates(filter.predicate(), |index| Arc::clone(&inputs[index]))?;
                Ok((project(inputs, filter.projection().as_deref()), shape))
            }
        }
    }

    fn take_leaf(&mut self, plan: &Plan) -> (Vec<Expr>, Shape) {
        let first_column = self.fields.len();
        self.fields.extend(plan.schema().fields().iter().cloned());
        self.leaves.push(Arc::clone(plan));
        let outputs = (first_column..self.fields.len()).map(|column| self.column(column)).collect();
        (outputs, Shape::Leaf(self.leaves.len() - 1))
    }

    fn take_join(&mut self, join: &JoinPart<'_>) -> Result<(Vec<Expr>, Shape)> {
        let (left, left_shape) = self.take(join.left)?;
        let (right, right_shape) = self.take(join.right)?;
        for (left_key, right_key) in join.on {
            let left_key = substitute(left_key, |index| Arc::clone(&left[index]))?;
            let right_key = substitute(right_key, |index| Arc::clone(&right[index]))?;
            self.equalities.push((left_key, right_key));
        }
        if let Some(filter) = join.filter {
            self.add_predicates(filter.expression(), |index| {
                let column = &filter.column_indices()[index];
                let side = if column.side == JoinSide::Left { &left } else { &right };
                Arc::clone(&side[column.index])
            })?;
        }
        let shape = Shape::Join {
            left: Box::new(left_shape),
            right: Box::new(right_shape),
            is_keyed: !join.on.is_empty(),
            is_filtered: join.filter.is_some(),
        };
        Ok((project([left, right].concat(), join.projection), shape))
    }

    fn add_predicates(&mut self, predicate: &Expr, input: impl Fn(usize) -> Expr) -> Result<()> {
        for conjunct in split_conjunction(predicate) {
            self.predicates.push(substitute(conjunct, &input)?);
        }
        Ok(())
    }

    fn column(&self, column: usize) -> Expr {
        Arc::new(Column::new(self.fields[column].name(), column))
    }

    /// Estimates the leaves and makes the graph. Predicates on one leaf are added to it, here. `None`
    /// if a leaf has no row count.
    pub(crate) fn graph(&mut self) -> Result<Option<JoinGraph>> {
        let widths = self.leaves.iter().map(|leaf| leaf.schema().fields().len());
        let relation_of = widths.enumerate().flat_map(|(relation, width)| vec![relation; width]).collect();
        let mut builder = GraphBuilder::new(&self.fields, relation_of, self.null_equality);
        for (left, right) in std::mem::take(&mut self.equalities) {
            builder.add_equality(left, right)?;
        }
        for predicate in std::mem::take(&mut self.predicates) {
            builder.add_predicate(predicate)?;
        }
        self.filter_leaves(builder.take_local(self.leaves.len()))?;
        let mut estimator = Estimator::default();
        let profiles = self.leaves.iter().map(|leaf| estimator.profile(leaf)).collect();
        Ok(builder.build(profiles))
    }

    /// Wraps each leaf in its own predicates.
    fn filter_leaves(&mut self, predicates: Vec<Vec<Expr>>) -> Result<()> {
        let mut first_column = 0;
        for (leaf, predicates) in self.leaves.iter_mut().zip(predicates) {
            let schema = leaf.schema();
            let local = |column: usize| -> Expr {
                let index = column - first_column;
                Arc::new(Column::new(schema.field(index).name(), index))
            };
            let predicates = predicates
                .iter()
                .map(|predicate| substitute(predicate, local))
                .collect::<Result<Vec<_>>>()?;
            if !predicates.is_empty() {
                *leaf = Arc::new(FilterExec::try_new(conjunction(predicates), Arc::clone(leaf))?);
            }
            first_column += schema.fields().len();
        }
        Ok(())
    }
}

impl<'a> Part<'a> {
    fn of(plan: &'a Plan, null_equality: NullEquality) -> Self {
        if plan.fetch().is_some() {
            return Part::Leaf;
        }
        if let Some(part) = JoinPart::of(plan, null_equality) {
            return Part::Join(part);
        }
        let leads_to_join = |input| !matches!(Part::of(input, null_equality), Part::Leaf);
        if let Some(projection) = plan.downcast_ref::<ProjectionExec>()
            && is_inlinable(projection)
            && leads_to_join(projection.input())
        {
            return Part::Projection(projection);
        }
        if let Some(filter) = plan.downcast_ref::<FilterExec>()
            && !is_volatile(filter.predicate())
            && leads_to_join(filter.input())
        {
            return Part::Filter(filter);
        }
        Part::Leaf
    }
}

impl<'a> JoinPart<'a> {
    /// `plan` as an inner join that can change places with others.
    fn of(plan: &'a Plan, null_equality: NullEquality) -> Option<Self> {
        let part = if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
            let is_alike = *join.join_type() == JoinType::Inner && join.null_equality() == null_equality;
            is_alike.then(|| Self {
                left: join.left(),
                right: join.right(),
                on: join.on(),
                filter: join.filter(),
                projection: join.projection.as_deref(),
            })?
        } else if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
            (*join.join_type() == JoinType::Inner).then(|| Self {
                left: join.left(),
                right: join.right(),
                on: &[],
                filter: join.filter(),
                projection: join.projection().as_deref(),
            })?
        } else {
            let join = plan.downcast_ref::<CrossJoinExec>()?;
            Self { left: join.left(), right: join.right(), on: &[], filter: None, projection: None }
        };
        let keys = part.on.iter().flat_map(|(left, right)| [left, right]);
        let mut exprs = keys.chain(part.filter.map(JoinFilter::expression));
        (!exprs.any(is_volatile)).then_some(part)
    }
}

/// How the topmost hash join below `plan` compares NULLs: the whole region must do the same.
fn first_null_equality(plan: &Plan) -> Option<NullEquality> {
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        return (*join.join_type() == JoinType::Inner).then(|| join.null_equality());
    }
    let is_between = plan.is::<CrossJoinExec>()
        || plan.is::<NestedLoopJoinExec>()
        || plan.is::<ProjectionExec>()
        || plan.is::<FilterExec>();
    if !is_between {
        return None;
    }
    plan.children().into_iter().find_map(first_null_equality)
}

/// Whether the expressions can be computed anywhere above their inputs: not volatile, each from at
/// most one column (so that inlining a chain of projections grows linearly), metadata passed on.
fn is_inlinable(projection: &ProjectionExec) -> bool {
    let input = projection.input().schema();
    let output = projection.schema();
    projection.expr().iter().zip(output.fields()).all(|(projected, field)| {
        match projected.expr.downcast_ref::<Column>() {
            Some(column) => input.field(column.index()).metadata() == field.metadata(),
            None => !is_volatile(&projected.expr) && column_references(&projected.expr) <= 1,
        }
    })
}

fn column_references(expr: &Expr) -> usize {
    let mut count = 0;
    expr.apply(|node| {
        count += usize::from(node.is::<Column>());
        Ok(TreeNodeRecursion::Continue)
    })
    .expect("counting does not fail");
    count
}

fn project(exprs: Vec<Expr>, projection: Option<&[usize]>) -> Vec<Expr> {
    match projection {
        None => exprs,
        Some(indices) => indices.iter().map(|&index| Arc::clone(&exprs[index])).collect(),
    }
}

/// `expr` with each column replaced.
pub(crate) fn substitute(expr: &Expr, replacement: impl Fn(usize) -> Expr) -> Result<Expr> {
    Arc::clone(expr)
        .transform_up(|node| match plain_column(&node) {
            Some(index) => Ok(Transformed::yes(replacement(index))),
            None => Ok(Transformed::no(node)),
        })
        .data()
}
