//! Searches the join orders of a graph for the cheapest.
//!
//! ```text
//!   cost(join) = rows out                            the next operator reads them
//!              + rows of the probe side              one probe each
//!              + 2.5 x rows of the build side        one insertion each
//!   without equalities: all pairs instead of the probes
//! ```
//!
//! The build side is always the smaller one. Up to `EXACT_RELATIONS_MAX` relations, dynamic programming
//! over subsets finds the optimum among all bushy trees: at most 3^n / 2 splits, 30,000 for 10
//! relations. Beyond, greedy operator ordering joins the two components with the smallest result, n^3
//! steps. Both use cross products only if there is no order without.
//!
//! Moerkotte and Neumann, "Analysis of two existing and one new dynamic programming algorithm for the
//! generation of optimal bushy join trees without cross products" (2006), DPsub; Fegaras, "A new
//! heuristic for optimizing large queries" (1998), GOO.

use crate::graph::{JoinGraph, Link, RelationSet};
use crate::region::Shape;

/// Most relations for which all orders are considered.
const EXACT_RELATIONS_MAX: usize = 10;

/// Cost of inserting a row into a hash table, where looking one up costs 1. A guess between 2 and 3.
const BUILD_COST: f64 = 2.5;

/// A join order with sides: `build` is hashed, `probe` looks up.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum JoinTree {
    Relation(usize),
    Join { build: Box<JoinTree>, probe: Box<JoinTree> },
}

/// A join order and its estimated cost.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    pub(crate) tree: JoinTree,
    pub(crate) relations: RelationSet,
    pub(crate) cost: f64,
}

/// The cheapest join order of all relations of `graph`, or a good one if they are many.
pub(crate) fn best_order(graph: &JoinGraph) -> Candidate {
    if graph.relation_count() > EXACT_RELATIONS_MAX {
        return greedy(graph);
    }
    exact(graph, Link::Filter)
        .or_else(|| exact(graph, Link::None))
        .expect("with cross products every set of relations can be joined")
}

/// The cost of the order in which the query came, with the better build sides.
pub(crate) fn original_cost(graph: &JoinGraph, shape: &Shape) -> f64 {
    original(graph, shape).cost
}

impl Candidate {
    fn relation(relation: usize) -> Self {
        Self { tree: JoinTree::Relation(relation), relations: RelationSet::single(relation), cost: 0.0 }
    }

    fn join(graph: &JoinGraph, left: &Self, right: &Self) -> Self {
        let is_left_smaller = graph.rows(left.relations) <= graph.rows(right.relations);
        let (build, probe) = if is_left_smaller { (left, right) } else { (right, left) };
        Self {
            tree: JoinTree::Join { build: Box::new(build.tree.clone()), probe: Box::new(probe.tree.clone()) },
            relations: left.relations.union(right.relations),
            cost: left.cost + right.cost + join_cost(graph, left.relations, right.relations),
        }
    }
}

fn join_cost(graph: &JoinGraph, left: RelationSet, right: RelationSet) -> f64 {
    let is_hashed = graph.link(left, right) == Link::Keys;
    let rows = [graph.rows(left), graph.rows(right), graph.rows(left.union(right))];
    cost(is_hashed, rows[0], rows[1], rows[2])
}

/// See the module; less than one row is counted as one.
fn cost(is_hashed: bool, left_rows: f64, right_rows: f64, joined_rows: f64) -> f64 {
    let (left_rows, right_rows) = (left_rows.max(1.0), right_rows.max(1.0));
    let probes = if is_hashed { left_rows.max(right_rows) } else { left_rows * right_rows };
    BUILD_COST * left_rows.min(right_rows) + probes + joined_rows.max(1.0)
}

/// Dynamic programming over all subsets; joins need at least `weakest` as their link.
fn exact(graph: &JoinGraph, weakest: Link) -> Option<Candidate> {
    let all = RelationSet::first(graph.relation_count());
    let mut best: Vec<Option<Split>> = vec![None; all.0 as usize + 1];
    for relation in 0..graph.relation_count() {
        best[1 << relation] = Some(Split { left: RelationSet::EMPTY, cost: 0.0 });
    }
    for set in (1..=all.0).map(RelationSet).filter(|set| set.len() > 1) {
        best[set.0 as usize] = best_split(graph, set, weakest, &best);
    }
    best[all.0 as usize].as_ref()?;
    Some(assemble(graph, all, &best))
}

/// How the best plan of a set joins two smaller ones; `left` is empty for a single relation.
#[derive(Debug, Clone, Copy)]
struct Split {
    left: RelationSet,
    cost: f64,
}

fn best_split(graph: &JoinGraph, set: RelationSet, weakest: Link, best: &[Option<Split>]) -> Option<Split> {
    let lowest = RelationSet(set.0 & set.0.wrapping_neg());
    let rest = set.minus(lowest);
    let mut found: Option<Split> = None;
    // Subsets of `rest`, descending; with `lowest` added, each unordered split comes up once.
    let mut subset = rest.0;
    while subset != 0 {
        subset = (subset - 1) & rest.0;
        let left = RelationSet(subset).union(lowest);
        let right = set.minus(left);
        if let (Some(l), Some(r)) = (best[left.0 as usize], best[right.0 as usize])
            && (weakest == Link::None || graph.link(left, right) != Link::None)
        {
            let cost = l.cost + r.cost + join_cost(graph, left, right);
            if found.is_none_or(|split| cost < split.cost) {
                found = Some(Split { left, cost });
            }
        }
    }
    found
}

fn assemble(graph: &JoinGraph, set: RelationSet, best: &[Option<Split>]) -> Candidate {
    let split = best[set.0 as usize].expect("a split is made of sets that have a plan");
    if split.left == RelationSet::EMPTY {
        return Candidate::relation(set.0.trailing_zeros() as usize);
    }
    let left = assemble(graph, split.left, best);
    let right = assemble(graph, set.minus(split.left), best);
    Candidate::join(graph, &left, &right)
}

/// Joins the pair of components with the smallest result until one is left.
fn greedy(graph: &JoinGraph) -> Candidate {
    let mut components: Vec<_> = (0..graph.relation_count()).map(Candidate::relation).collect();
    while components.len() > 1 {
        let (left, right) = smallest_join(graph, &components);
        let right = components.swap_remove(right);
        let joined = Candidate::join(graph, &components[left], &right);
        components[left] = joined;
    }
    components.pop().expect("a graph has relations")
}

/// The pair, lower index first, whose join has the fewest rows; cross products come last.
fn smallest_join(graph: &JoinGraph, components: &[Candidate]) -> (usize, usize) {
    let pairs =
        (0..components.len()).flat_map(|left| (left + 1..components.len()).map(move |right| (left, right)));
    let rank = |&(left, right): &(usize, usize)| {
        let (left, right) = (components[left].relations, components[right].relations);
        let is_cross_product = graph.link(left, right) == Link::None;
        (is_cross_product, graph.rows(left.union(right)))
    };
    pairs
        .map(|pair| (rank(&pair), pair))
        .min_by(|((one_cross, one), _), ((other_cross, other), _)| {
            one_cross.cmp(other_cross).then(one.total_cmp(other))
        })
        .expect("there are two components or more")
        .1
}

/// Cost and rows of the original order; an original cross product is charged as one even if the
/// graph knows a transitive equality for it.
struct Original {
    relations: RelationSet,
    rows: f64,
    cost: f64,
}

fn original(graph: &JoinGraph, shape: &Shape) -> Original {
    match shape {
        Shape::Leaf(relation) => Original {
            relations: RelationSet::single(*relation),
            rows: graph.relation_rows[*relation],
            cost: 0.0,
        },
        Shape::Join { left, right, is_keyed, is_filtered } => {
            let (left, right) = (original(graph, left), original(graph, right));
            let relations = left.relations.union(right.relations);
            let rows = if *is_keyed || *is_filtered { graph.rows(relations) } else { left.rows * right.rows };
            Original {
                relations,
                rows,
                cost: left.cost + right.cost + cost(*is_keyed, left.rows, right.rows, rows),
            }
        }
    }
}

#[cfg(test)]
mod tests;
