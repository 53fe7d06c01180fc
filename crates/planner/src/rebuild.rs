//! Turns a join order back into a plan with the schema the region had.
//!
//! Every join emits only the columns that something above it reads; predicates are evaluated by the
//! first join that covers them; the topmost node restores names, order and metadata. Where hash keys
//! are computed, a projection below the join appends them, as DataFusion's own planner does.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::arrow::datatypes::{Fields, Schema, SchemaRef};
use datafusion::common::{JoinSide, JoinType, Result};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{PhysicalExpr, conjunction, utils::collect_columns};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExecBuilder, NestedLoopJoinExecBuilder};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};

use crate::enumerate::JoinTree;
use crate::estimate::plain_column;
use crate::graph::{JoinGraph, RelationSet};
use crate::region::{Region, substitute};

type Expr = Arc<dyn PhysicalExpr>;
type Plan = Arc<dyn ExecutionPlan>;

/// The plan of `region` with its joins in the order of `tree` and the given schema. `None` if the
/// schema cannot be restored exactly.
pub(crate) fn rebuild(
    region: &Region,
    graph: &JoinGraph,
    tree: &JoinTree,
    schema: &SchemaRef,
) -> Result<Option<Plan>> {
    let rebuilder = Rebuilder { region, graph };
    let required = region.outputs.iter().flat_map(columns_of).collect();
    let joined = rebuilder.build(tree, &required)?;
    let plan = joined.restore(&region.outputs, schema)?;
    Ok((plan.schema() == *schema).then_some(plan))
}

struct Rebuilder<'a> {
    region: &'a Region,
    graph: &'a JoinGraph,
}

/// A plan, the global columns it emits, and the relations it joins.
struct Part {
    plan: Plan,
    columns: Vec<usize>,
    relations: RelationSet,
}

/// What one join does: equalities of computed columns, of plain columns, and other predicates.
struct Predicates<'a> {
    computed_keys: Vec<(&'a Expr, &'a Expr)>,
    key_columns: Vec<(usize, usize)>,
    filters: Vec<&'a Expr>,
}

impl Rebuilder<'_> {
    /// The plan of `tree`, emitting at least the columns of `required` that are its own.
    fn build(&self, tree: &JoinTree, required: &BTreeSet<usize>) -> Result<Part> {
        match tree {
            JoinTree::Relation(relation) => self.leaf(*relation, required),
            JoinTree::Join { build, probe } => self.join(build, probe, required),
        }
    }

    fn leaf(&self, relation: usize, required: &BTreeSet<usize>) -> Result<Part> {
        let all: Vec<usize> = (0..self.graph.columns.len())
            .filter(|&column| self.graph.columns[column].relation == relation)
            .collect();
        let part = Part {
            plan: Arc::clone(&self.region.leaves[relation]),
            columns: all,
            relations: RelationSet::single(relation),
        };
        part.narrow(required)
    }

    fn join(&self, build: &JoinTree, probe: &JoinTree, required: &BTreeSet<usize>) -> Result<Part> {
        let predicates = self.predicates(relations_of(build), relations_of(probe));
        let mut needed = required.clone();
        needed.extend(predicates.columns());
        let left = self.build(build, &needed)?;
        let right = self.build(probe, &needed)?;
        let columns: Vec<usize> = [left.columns.as_slice(), &right.columns]
            .concat()
            .into_iter()
            .filter(|column| required.contains(column))
            .collect();
        let relations = left.relations.union(right.relations);
        let plan = self.join_plan(left, right, &predicates, &columns)?;
        Ok(Part { plan, columns, relations })
    }

    fn predicates(&self, left: RelationSet, right: RelationSet) -> Predicates<'_> {
        let mut predicates = Predicates { computed_keys: vec![], key_columns: vec![], filters: vec![] };
        for key in self.graph.key_columns(left, right) {
            predicates.key_columns.push((key.left, key.right));
        }
        for conjunct in self.graph.conjuncts_between(left, right) {
            match conjunct.key_between(left, right) {
                Some(sides) => predicates.computed_keys.push(sides),
                None => predicates.filters.push(&conjunct.expr),
            }
        }
        predicates
    }

    fn join_plan(
        &self,
        mut left: Part,
        mut right: Part,
        predicates: &Predicates<'_>,
        columns: &[usize],
    ) -> Result<Plan> {
        let filter = predicates.join_filter(&left, &right)?;
        let mut on: Vec<(Expr, Expr)> =
            predicates.key_columns.iter().map(|&(l, r)| (left.column(l), right.column(r))).collect();
        let left_keys = left.append(predicates.computed_keys.iter().map(|key| key.0))?;
        let right_keys = right.append(predicates.computed_keys.iter().map(|key| key.1))?;
        on.extend(left_keys.into_iter().zip(right_keys));
        let left_width = left.plan.schema().fields().len();
        let projection = columns
            .iter()
            .map(|&column| match left.position(column) {
                Some(position) => position,
                None => left_width + right.position(column).expect("either side has it"),
            })
            .collect();
        if !on.is_empty() {
            return HashJoinExecBuilder::new(left.plan, right.plan, on, JoinType::Inner)
                .with_filter(filter)
                .with_projection(Some(projection))
                .with_partition_mode(self.region.partition_mode)
                .with_null_equality(self.region.null_equality)
                .build_exec();
        }
        if filter.is_some() {
            let join = NestedLoopJoinExecBuilder::new(left.plan, right.plan, JoinType::Inner)
                .with_filter(filter)
                .with_projection(Some(projection))
                .build()?;
            return Ok(Arc::new(join));
        }
        let all = [left.columns, right.columns].concat();
        let join = Part {
            plan: Arc::new(CrossJoinExec::new(left.plan, right.plan)),
            columns: all,
            relations: left.relations.union(right.relations),
        };
        Ok(join.narrow(&columns.iter().copied().collect())?.plan)
    }
}

impl Predicates<'_> {
    /// All global columns that the join reads.
    fn columns(&self) -> impl Iterator<Item = usize> {
        let plain = self.key_columns.iter().flat_map(|&(left, right)| [left, right]);
        let computed = self.computed_keys.iter().flat_map(|&(left, right)| [left, right]);
        plain.chain(computed.chain(self.filters.iter().copied()).flat_map(columns_of))
    }

    /// The filters over an intermediate batch of just the columns they read.
    fn join_filter(&self, left: &Part, right: &Part) -> Result<Option<JoinFilter>> {
        if self.filters.is_empty() {
            return Ok(None);
        }
        let columns: Vec<usize> =
            self.filters.iter().copied().flat_map(columns_of).collect::<BTreeSet<_>>().into_iter().collect();
        let places: Vec<ColumnIndex> = columns
            .iter()
            .map(|&column| match left.position(column) {
                Some(index) => ColumnIndex { index, side: JoinSide::Left },
                None => ColumnIndex {
                    index: right.position(column).expect("either side has it"),
                    side: JoinSide::Right,
                },
            })
            .collect();
        let (left_schema, right_schema) = (left.plan.schema(), right.plan.schema());
        let fields: Fields = places
            .iter()
            .map(|place| match place.side {
                JoinSide::Left => Arc::clone(&left_schema.fields()[place.index]),
                _ => Arc::clone(&right_schema.fields()[place.index]),
            })
            .collect();
        let local = |column: usize| -> Expr {
            let index = columns.binary_search(&column).expect("collected above");
            Arc::new(Column::new(fields[index].name(), index))
        };
        let filters =
            self.filters.iter().map(|filter| substitute(filter, local)).collect::<Result<Vec<_>>>()?;
        let schema = Arc::new(Schema::new(fields.clone()));
        Ok(Some(JoinFilter::new(conjunction(filters), places, schema)))
    }
}

impl Part {
    fn position(&self, column: usize) -> Option<usize> {
        self.columns.iter().position(|&own| own == column)
    }

    /// A global column as a column of this plan.
    fn column(&self, column: usize) -> Expr {
        let position = self.position(column).expect("the column was required below");
        Arc::new(Column::new(self.plan.schema().field(position).name(), position))
    }

    fn project(&self, column: usize) -> ProjectionExpr {
        let position = self.position(column).expect("the column was required below");
        let alias = self.plan.schema().field(position).name().clone();
        ProjectionExpr { expr: self.column(column), alias }
    }

    /// Drops the columns nobody requires.
    fn narrow(self, required: &BTreeSet<usize>) -> Result<Self> {
        let columns: Vec<usize> =
            self.columns.iter().copied().filter(|column| required.contains(column)).collect();
        if columns.len() == self.columns.len() {
            return Ok(self);
        }
        let exprs: Vec<_> = columns.iter().map(|&column| self.project(column)).collect();
        Ok(Self {
            plan: Arc::new(ProjectionExec::try_new(exprs, self.plan)?),
            columns,
            relations: self.relations,
        })
    }

    /// Appends computed columns; returns them as columns of the new plan.
    fn append<'a>(&mut self, keys: impl Iterator<Item = &'a Expr>) -> Result<Vec<Expr>> {
        let mut exprs: Vec<_> = self.columns.iter().map(|&column| self.project(column)).collect();
        let mut appended: Vec<Expr> = Vec::new();
        for key in keys {
            let alias = format!("join_key_{}", appended.len());
            appended.push(Arc::new(Column::new(&alias, exprs.len())));
            let expr = substitute(key, |column| self.column(column))?;
            exprs.push(ProjectionExpr { expr, alias });
        }
        if !appended.is_empty() {
            self.plan = Arc::new(ProjectionExec::try_new(exprs, Arc::clone(&self.plan))?);
        }
        Ok(appended)
    }

    /// Computes `outputs`, with the names and metadata of `schema`.
    fn restore(self, outputs: &[Expr], schema: &SchemaRef) -> Result<Plan> {
        let plain: Option<Vec<usize>> = outputs.iter().map(plain_column).collect();
        if plain.as_ref() == Some(&self.columns) && self.plan.schema() == *schema {
            return Ok(self.plan);
        }
        let exprs = outputs
            .iter()
            .zip(schema.fields())
            .map(|(output, field)| {
                let expr = substitute(output, |column| self.column(column))?;
                Ok(ProjectionExpr { expr, alias: field.name().clone() })
            })
            .collect::<Result<Vec<_>>>()?;
        let projection = ProjectionExec::try_new_with_schema_metadata(exprs, self.plan, schema)?;
        Ok(Arc::new(projection))
    }
}

fn relations_of(tree: &JoinTree) -> RelationSet {
    match tree {
        JoinTree::Relation(relation) => RelationSet::single(*relation),
        JoinTree::Join { build, probe } => relations_of(build).union(relations_of(probe)),
    }
}

fn columns_of(expr: &Expr) -> impl Iterator<Item = usize> + use<> {
    collect_columns(expr).into_iter().map(|column| column.index())
}
