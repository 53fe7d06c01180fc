//! Tests of the join graph.

use std::sync::Arc;

use datafusion::physical_expr::expressions::lit;

use super::*;
use crate::profile::Source;

/// Makes graphs without plans; also for the tests of the search.
pub(crate) struct TestGraph {
    rows: Vec<f64>,
    columns: Vec<GraphColumn>,
    classes: Vec<Class>,
    conjuncts: Vec<Conjunct>,
}

impl TestGraph {
    pub(crate) fn new(rows: &[f64]) -> Self {
        Self { rows: rows.to_vec(), columns: vec![], classes: vec![], conjuncts: vec![] }
    }

    /// Makes a new column of each relation, with the given domains, equal.
    pub(crate) fn equal(mut self, members: &[(usize, f64)]) -> Self {
        let first = self.columns.len();
        for &(relation, domain) in members {
            let source = Source { id: relation, rows: self.rows[relation] };
            let profile =
                ColumnProfile { domain: Some(domain), is_counted: true, ..ColumnProfile::unknown(source) };
            self.columns.push(GraphColumn { relation, profile });
        }
        self.classes.push(Class {
            members: (first..self.columns.len()).collect(),
            relations: set(&members.iter().map(|member| member.0).collect::<Vec<_>>()),
        });
        self
    }

    /// Adds a predicate over `relations` that is not an equality.
    pub(crate) fn filter(mut self, relations: &[usize], selectivity: f64) -> Self {
        self.conjuncts.push(Conjunct { expr: lit(true), relations: set(relations), selectivity, key: None });
        self
    }

    pub(crate) fn build(self) -> JoinGraph {
        JoinGraph::new(self.rows, self.columns, self.classes, self.conjuncts)
    }
}

pub(crate) fn set(relations: &[usize]) -> RelationSet {
    relations.iter().map(|&r| RelationSet::single(r)).fold(RelationSet::EMPTY, RelationSet::union)
}

fn assert_close(actual: f64, expected: f64) {
    let ratio = actual / expected;
    assert!((0.999..1.001).contains(&ratio), "{actual} is not {expected}");
}

#[test]
fn sets_behave_as_sets() {
    assert_eq!(RelationSet::first(0), RelationSet::EMPTY);
    assert_eq!(RelationSet::first(3), set(&[0, 1, 2]));
    assert_eq!(RelationSet::first(RELATIONS_MAX).len(), RELATIONS_MAX);
    assert_eq!(set(&[1, 5]).iter().collect::<Vec<_>>(), [1, 5]);
    assert!(set(&[1]).is_subset_of(set(&[1, 5])));
    assert!(!set(&[2]).intersects(set(&[1, 5])));
}

#[test]
fn class_divides_by_every_domain_but_the_smallest() {
    let graph = TestGraph::new(&[1e3, 1e3, 1e3]).equal(&[(0, 10.0), (1, 100.0), (2, 1000.0)]).build();
    assert_close(graph.rows(RelationSet::first(3)), 1e9 / (100.0 * 1000.0));
}

#[test]
fn class_links_relations_no_predicate_names_together() {
    let graph = TestGraph::new(&[1e3, 1e3, 1e3]).equal(&[(0, 10.0), (1, 10.0), (2, 10.0)]).build();
    assert_eq!(graph.link(set(&[0]), set(&[2])), Link::Keys);
    let keys = graph.key_columns(set(&[0, 1]), set(&[2]));
    assert_eq!(keys, [KeyColumns { class: 0, left: 0, right: 2 }]);
}

#[test]
fn predicate_counts_once_its_relations_are_together() {
    let graph = TestGraph::new(&[10.0, 10.0, 10.0]).filter(&[0, 2], 0.5).build();
    assert_close(graph.rows(set(&[0, 1])), 100.0);
    assert_close(graph.rows(set(&[0, 2])), 50.0);
    assert_close(graph.rows(set(&[0, 1, 2])), 500.0);
    assert_eq!(graph.link(set(&[0]), set(&[1])), Link::None);
    assert_eq!(graph.link(set(&[0, 1]), set(&[2])), Link::Filter);
}

#[test]
fn composite_key_is_compared_between_the_relations_that_share_it() {
    // part (0), partsupp (1), lineitem (2): partkey is in all three, suppkey in the last two.
    let graph = TestGraph::new(&[2e5, 8e5, 6e6])
        .equal(&[(0, 2e5), (1, 2e5), (2, 2e5)])
        .equal(&[(1, 1e4), (2, 1e4)])
        .build();
    let keys = graph.key_columns(set(&[0, 1]), set(&[2]));
    let relations: Vec<_> = keys.iter().map(|key| graph.columns[key.left].relation).collect();
    assert_eq!(relations, [1, 1]);
    assert_close(graph.rows(set(&[0, 1, 2])), 6e6);
    assert_close(graph.rows(set(&[1, 2])), 6e6);
}

#[test]
fn computed_key_needs_each_side_whole() {
    let mut graph = TestGraph::new(&[10.0, 10.0, 10.0]).filter(&[0, 1, 2], 0.1).build();
    graph.conjuncts[0].key = Some(ComputedKey {
        left: lit(1),
        left_relations: set(&[0, 1]),
        right: lit(2),
        right_relations: set(&[2]),
    });
    assert_eq!(graph.link(set(&[2]), set(&[0, 1])), Link::Keys);
    assert_eq!(graph.link(set(&[0, 2]), set(&[1])), Link::Filter);
    let conjunct = &graph.conjuncts[0];
    let (build, _) = conjunct.key_between(set(&[2]), set(&[0, 1])).unwrap();
    assert!(Arc::ptr_eq(build, &conjunct.key.as_ref().unwrap().right));
}
