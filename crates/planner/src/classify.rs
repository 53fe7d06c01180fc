//! Sorts the equalities and predicates of a region into the parts of a join graph.
//!
//! ```text
//!   column = column, hashed by a join or hashable     unites two classes
//!   expression = expression, likewise                 computed key, if the sides share no relation
//!   anything over two relations or more               filter
//!   anything over one relation                        stays in the pool for that relation's leaf
//! ```
//!
//! SQL's `=` never matches NULLs; in a region whose joins do match them it is no key but a filter.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::common::{NullEquality, Result};
use datafusion::logical_expr::Operator;
use datafusion::logical_expr::utils::can_hash;
use datafusion::physical_expr::expressions::{BinaryExpr, Column};
use datafusion::physical_expr::{PhysicalExpr, utils::collect_columns};

use crate::cardinality::join_selectivity;
use crate::estimate::plain_column;
use crate::graph::{Class, ComputedKey, Conjunct, GraphColumn, JoinGraph, RelationSet};
use crate::profile::{ColumnProfile, Profile, Source};
use crate::selectivity::{column_of, selectivity};

type Expr = Arc<dyn PhysicalExpr>;

/// A predicate that is not (yet) part of a class, and the relations it reads.
struct PooledPredicate {
    expr: Expr,
    relations: RelationSet,
    /// The sides, if it is an equality that hash tables compare as the query does.
    sides: Option<(Expr, Expr)>,
}

/// See the module.
pub(crate) struct GraphBuilder {
    /// The global columns.
    schema: Schema,
    null_equality: NullEquality,
    relation_of: Vec<usize>,
    /// Union-find over global columns; a root stands for a class.
    class_of: Vec<usize>,
    pool: Vec<PooledPredicate>,
}

impl GraphBuilder {
    /// A builder over the given global columns, each with the relation it belongs to.
    pub(crate) fn new(fields: &[FieldRef], relation_of: Vec<usize>, null_equality: NullEquality) -> Self {
        assert_eq!(fields.len(), relation_of.len());
        Self {
            schema: Schema::new(fields.to_vec()),
            null_equality,
            class_of: (0..relation_of.len()).collect(),
            relation_of,
            pool: vec![],
        }
    }

    /// An equality that a join hashed.
    pub(crate) fn add_equality(&mut self, left: Expr, right: Expr) -> Result<()> {
        if let (Some(l), Some(r)) = (plain_column(&left), plain_column(&right))
            && self.data_type(&left)? == self.data_type(&right)?
        {
            self.unite(l, r);
            return Ok(());
        }
        let expr: Expr = Arc::new(BinaryExpr::new(Arc::clone(&left), self.equals(), Arc::clone(&right)));
        let relations = self.relations(&expr);
        self.pool.push(PooledPredicate { expr, relations, sides: Some((left, right)) });
        Ok(())
    }

    /// Any other predicate; SQL equalities among them serve as keys where NULL keys do not match.
    pub(crate) fn add_predicate(&mut self, expr: Expr) -> Result<()> {
        let relations = self.relations(&expr);
        let mut sides = None;
        if let Some(binary) = expr.downcast_ref::<BinaryExpr>()
            && *binary.op() == Operator::Eq
            && self.null_equality == NullEquality::NullEqualsNothing
            && relations.len() > 1
        {
            let (left, right) = (Arc::clone(binary.left()), Arc::clone(binary.right()));
            let data_type = self.data_type(&left)?;
            if data_type == self.data_type(&right)? && can_hash(&data_type) {
                if plain_column(&left).is_some() && plain_column(&right).is_some() {
                    return self.add_equality(left, right);
                }
                sides = Some((left, right));
            }
        }
        self.pool.push(PooledPredicate { expr, relations, sides });
        Ok(())
    }

    /// Two columns of one relation in one class must be compared there: no join will.
    fn equate_within_relations(&mut self) {
        let mut first_of: HashMap<(usize, usize), usize> = HashMap::new();
        for column in 0..self.relation_of.len() {
            let place = (self.root(column), self.relation_of[column]);
            let first = *first_of.entry(place).or_insert(column);
            if first != column {
                let side =
                    |index: usize| -> Expr { Arc::new(Column::new(self.schema.field(index).name(), index)) };
                let expr = Arc::new(BinaryExpr::new(side(first), self.equals(), side(column)));
                let relations = RelationSet::single(self.relation_of[column]);
                self.pool.push(PooledPredicate { expr, relations, sides: None });
            }
        }
    }

    /// Hands out, for each relation, the predicates that concern it alone. One without any column
    /// holds for all rows or for none, so that the first relation can decide it.
    pub(crate) fn take_local(&mut self, relation_count: usize) -> Vec<Vec<Expr>> {
        self.equate_within_relations();
        let mut local = vec![vec![]; relation_count];
        for predicate in self.pool.extract_if(.., |predicate| predicate.relations.len() < 2) {
            let relation = predicate.relations.iter().next().unwrap_or(0);
            local[relation].push(predicate.expr);
        }
        local
    }

    /// The graph, given the profiles of the relations; `None` if one has no row count.
    pub(crate) fn build(mut self, profiles: Vec<Profile>) -> Option<JoinGraph> {
        let rows: Vec<f64> = profiles.iter().map(|profile| profile.rows).collect::<Option<_>>()?;
        let profiles: Vec<ColumnProfile> = profiles.into_iter().flat_map(|profile| profile.columns).collect();
        let conjuncts = std::mem::take(&mut self.pool)
            .into_iter()
            .map(|predicate| self.conjunct(predicate, &profiles, &rows))
            .collect();
        let classes = self.classes();
        let columns = profiles
            .into_iter()
            .zip(&self.relation_of)
            .map(|(profile, &relation)| GraphColumn { relation, profile })
            .collect();
        Some(JoinGraph::new(rows, columns, classes, conjuncts))
    }

    fn classes(&mut self) -> Vec<Class> {
        let mut members: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for column in 0..self.class_of.len() {
            members.entry(self.root(column)).or_default().push(column);
        }
        members
            .into_values()
            .map(|members| {
                let relations = members
                    .iter()
                    .map(|&column| RelationSet::single(self.relation_of[column]))
                    .fold(RelationSet::EMPTY, RelationSet::union);
                Class { members, relations }
            })
            .filter(|class| class.relations.len() > 1)
            .collect()
    }

    fn conjunct(
        &self,
        predicate: PooledPredicate,
        columns: &[ColumnProfile],
        relation_rows: &[f64],
    ) -> Conjunct {
        let key = predicate.sides.and_then(|(left, right)| {
            let (left_relations, right_relations) = (self.relations(&left), self.relations(&right));
            let is_separable = left_relations != RelationSet::EMPTY
                && right_relations != RelationSet::EMPTY
                && !left_relations.intersects(right_relations);
            is_separable.then_some(ComputedKey { left, left_relations, right, right_relations })
        });
        let selectivity = match &key {
            None => selectivity(&predicate.expr, columns),
            Some(key) => {
                let side = |expr: &Expr, relations: RelationSet| match column_of(expr) {
                    Some(column) => columns[column].clone(),
                    None => ColumnProfile::unknown(Source {
                        id: usize::MAX,
                        rows: relations.iter().map(|relation| relation_rows[relation]).fold(1.0, f64::max),
                    }),
                };
                join_selectivity(&[(
                    side(&key.left, key.left_relations),
                    side(&key.right, key.right_relations),
                )])
            }
        };
        Conjunct { expr: predicate.expr, relations: predicate.relations, selectivity, key }
    }

    fn equals(&self) -> Operator {
        match self.null_equality {
            NullEquality::NullEqualsNothing => Operator::Eq,
            NullEquality::NullEqualsNull => Operator::IsNotDistinctFrom,
        }
    }

    fn data_type(&self, expr: &Expr) -> Result<DataType> {
        expr.data_type(&self.schema)
    }

    fn relations(&self, expr: &Expr) -> RelationSet {
        collect_columns(expr)
            .iter()
            .map(|column| RelationSet::single(self.relation_of[column.index()]))
            .fold(RelationSet::EMPTY, RelationSet::union)
    }

    fn root(&mut self, column: usize) -> usize {
        let mut root = column;
        while self.class_of[root] != root {
            root = self.class_of[root];
        }
        self.class_of[column] = root;
        root
    }

    fn unite(&mut self, left: usize, right: usize) {
        let (left, right) = (self.root(left), self.root(right));
        self.class_of[left.max(right)] = left.min(right);
    }
}
