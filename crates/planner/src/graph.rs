//! The join graph: relations, the classes of columns that joins make equal, and other predicates.
//!
//! ```text
//!     a.x = b.x AND b.x = c.x           one class {a.x, b.x, c.x}: a, b, c are pairwise joinable
//!     cast(a.y) = d.y                   a computed key: joins any set with a to any set with d
//!     b.z < d.z                         a filter: holds as soon as b and d are together
//! ```
//!
//! The graph knows numbers and sets, no plans; `region.rs` makes it from a plan and `rebuild.rs` turns
//! an order over it back into one. The rows of a set of relations depend on the set alone, never on
//! the order they are joined in, which is what makes dynamic programming over sets exact.

use std::cell::RefCell;
use std::collections::HashMap;

use datafusion::physical_expr::PhysicalExprRef;

use crate::cardinality::join_selectivity;
use crate::profile::ColumnProfile;

/// Most relations that one graph can hold: the bits of a [`RelationSet`].
pub(crate) const RELATIONS_MAX: usize = 64;

/// A set of relations, by their index in the graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct RelationSet(pub(crate) u64);

/// See the module.
pub(crate) struct JoinGraph {
    /// Estimated rows of each relation.
    pub(crate) relation_rows: Vec<f64>,
    /// All columns of all relations, in the order of the relations.
    pub(crate) columns: Vec<GraphColumn>,
    pub(crate) classes: Vec<Class>,
    pub(crate) conjuncts: Vec<Conjunct>,
    rows_of_sets: RefCell<HashMap<RelationSet, f64>>,
}

/// A column and the relation it belongs to.
pub(crate) struct GraphColumn {
    pub(crate) relation: usize,
    pub(crate) profile: ColumnProfile,
}

/// Columns that the join makes equal, ascending.
pub(crate) struct Class {
    pub(crate) members: Vec<usize>,
    pub(crate) relations: RelationSet,
}

/// A predicate over two or more relations other than a plain equality of columns.
pub(crate) struct Conjunct {
    pub(crate) expr: PhysicalExprRef,
    pub(crate) relations: RelationSet,
    pub(crate) selectivity: f64,
    /// Set if the predicate is an equality whose sides have no relation in common.
    pub(crate) key: Option<ComputedKey>,
}

/// The sides of an equality of expressions.
pub(crate) struct ComputedKey {
    pub(crate) left: PhysicalExprRef,
    pub(crate) left_relations: RelationSet,
    pub(crate) right: PhysicalExprRef,
    pub(crate) right_relations: RelationSet,
}

/// How two sets of relations can be joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Link {
    /// By hashing at least one equality.
    Keys,
    /// By comparing all pairs with a filter.
    Filter,
    /// As a cross product.
    None,
}

/// The columns, one of each side, that stand for a class in a join.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyColumns {
    pub(crate) class: usize,
    pub(crate) left: usize,
    pub(crate) right: usize,
}

impl RelationSet {
    pub(crate) const EMPTY: Self = Self(0);

    pub(crate) fn single(relation: usize) -> Self {
        Self(1 << relation)
    }

    /// The relations `0..count`.
    pub(crate) fn first(count: usize) -> Self {
        assert!(count <= RELATIONS_MAX);
        Self(u64::MAX.checked_shr((RELATIONS_MAX - count) as u32).unwrap_or(0))
    }

    pub(crate) fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) fn minus(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(crate) fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(crate) fn is_subset_of(self, other: Self) -> bool {
        self.minus(other) == Self::EMPTY
    }

    pub(crate) fn contains(self, relation: usize) -> bool {
        self.intersects(Self::single(relation))
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = usize> {
        (0..RELATIONS_MAX).filter(move |&relation| self.contains(relation))
    }

    pub(crate) fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    fn highest(self) -> Option<usize> {
        self.0.checked_ilog2().map(|bit| bit as usize)
    }
}

impl JoinGraph {
    pub(crate) fn new(
        relation_rows: Vec<f64>,
        columns: Vec<GraphColumn>,
        classes: Vec<Class>,
        conjuncts: Vec<Conjunct>,
    ) -> Self {
        assert!(relation_rows.len() <= RELATIONS_MAX);
        Self { relation_rows, columns, classes, conjuncts, rows_of_sets: RefCell::default() }
    }

    pub(crate) fn relation_count(&self) -> usize {
        self.relation_rows.len()
    }

    /// Estimated rows of the join of `set`, with every predicate that it covers.
    pub(crate) fn rows(&self, set: RelationSet) -> f64 {
        let Some(last) = set.highest() else { return 1.0 };
        let relation = RelationSet::single(last);
        let rest = set.minus(relation);
        if rest == RelationSet::EMPTY {
            return self.relation_rows[last];
        }
        if let Some(&rows) = self.rows_of_sets.borrow().get(&set) {
            return rows;
        }
        let rows = self.rows(rest) * self.relation_rows[last] * self.selectivity(rest, relation);
        self.rows_of_sets.borrow_mut().insert(set, rows);
        rows
    }

    /// How `left` and `right` can be joined.
    pub(crate) fn link(&self, left: RelationSet, right: RelationSet) -> Link {
        let spans = |relations: RelationSet| relations.intersects(left) && relations.intersects(right);
        let is_keyed = self.classes.iter().any(|class| spans(class.relations))
            || self.conjuncts_between(left, right).any(|c| c.key_between(left, right).is_some());
        if is_keyed {
            Link::Keys
        } else if self.conjuncts_between(left, right).next().is_some() {
            Link::Filter
        } else {
            Link::None
        }
    }

    /// The conjuncts that the join of `left` and `right` is the first to cover.
    pub(crate) fn conjuncts_between(
        &self,
        left: RelationSet,
        right: RelationSet,
    ) -> impl Iterator<Item = &Conjunct> {
        self.conjuncts.iter().filter(move |conjunct| {
            conjunct.relations.is_subset_of(left.union(right))
                && !conjunct.relations.is_subset_of(left)
                && !conjunct.relations.is_subset_of(right)
        })
    }

    /// One pair of columns for each class that both sides have members of.
    ///
    /// Classes that the same two relations share are compared between these, so that a composite key
    /// is seen as one.
    pub(crate) fn key_columns(&self, left: RelationSet, right: RelationSet) -> Vec<KeyColumns> {
        let mut shared: Vec<usize> = (0..self.classes.len())
            .filter(|&class| {
                let relations = self.classes[class].relations;
                relations.intersects(left) && relations.intersects(right)
            })
            .collect();
        let mut keys = Vec::with_capacity(shared.len());
        while let Some((left_relation, right_relation)) = self.densest_pair(&shared, left, right) {
            shared.retain(|&class| {
                let pair = (self.member(class, left_relation), self.member(class, right_relation));
                let (Some(left), Some(right)) = pair else { return true };
                keys.push(KeyColumns { class, left, right });
                false
            });
        }
        keys.sort_by_key(|key| key.class);
        keys
    }

    /// The relations of either side that have most of the classes in common.
    fn densest_pair(
        &self,
        classes: &[usize],
        left: RelationSet,
        right: RelationSet,
    ) -> Option<(usize, usize)> {
        let mut best = None;
        let mut best_count = 0;
        for &class in classes {
            let members = &self.classes[class].members;
            let relations = |side: RelationSet| {
                members.iter().map(|&m| self.columns[m].relation).filter(move |&r| side.contains(r))
            };
            for l in relations(left) {
                for r in relations(right) {
                    let both = RelationSet::single(l).union(RelationSet::single(r));
                    let count =
                        classes.iter().filter(|&&c| both.is_subset_of(self.classes[c].relations)).count();
                    if count > best_count {
                        best_count = count;
                        best = Some((l, r));
                    }
                }
            }
        }
        best
    }

    /// The column of `relation` that is in `class`.
    fn member(&self, class: usize, relation: usize) -> Option<usize> {
        let members = &self.classes[class].members;
        members.iter().copied().find(|&column| self.columns[column].relation == relation)
    }

    /// Share of all pairs of rows of `left` and `right` that their join keeps.
    fn selectivity(&self, left: RelationSet, right: RelationSet) -> f64 {
        let keys: Vec<_> = self
            .key_columns(left, right)
            .into_iter()
            .map(|key| (self.equated(key.class, key.left, left), self.equated(key.class, key.right, right)))
            .collect();
        let filters: f64 = self.conjuncts_between(left, right).map(|c| c.selectivity).product();
        join_selectivity(&keys) * filters
    }

    /// What is known of `column` once all members of its class in `set` are joined.
    fn equated(&self, class: usize, column: usize, set: RelationSet) -> ColumnProfile {
        let members = self.classes[class].members.iter().map(|&member| &self.columns[member]);
        let common = members
            .filter(|member| set.contains(member.relation))
            .map(|member| member.profile.clone())
            .reduce(|one, other| one.intersect(&other))
            .expect("the set has a member of the class");
        ColumnProfile { source: self.columns[column].profile.source, ..common }
    }
}

impl Conjunct {
    /// The sides of the equality, turned to match `left` and `right`, if each side can compute its own.
    pub(crate) fn key_between(
        &self,
        left: RelationSet,
        right: RelationSet,
    ) -> Option<(&PhysicalExprRef, &PhysicalExprRef)> {
        let key = self.key.as_ref()?;
        if key.left_relations.is_subset_of(left) && key.right_relations.is_subset_of(right) {
            Some((&key.left, &key.right))
        } else if key.left_relations.is_subset_of(right) && key.right_relations.is_subset_of(left) {
            Some((&key.right, &key.left))
        } else {
            None
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
