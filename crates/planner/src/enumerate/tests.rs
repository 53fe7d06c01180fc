//! Tests of the search for a join order.

use super::*;
use crate::graph::tests::TestGraph;

/// xorshift64*, so that a failing seed can be named.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % bound
    }

    fn domain(&mut self, rows: f64) -> f64 {
        (rows / (1 << self.below(8)) as f64).max(1.0)
    }
}

/// The cheapest cost over every tree, by plain recursion; `None` if a cross product is needed but
/// not allowed.
fn brute_force(graph: &JoinGraph, set: RelationSet, is_cross_allowed: bool) -> Option<f64> {
    if set.len() == 1 {
        return Some(0.0);
    }
    let mut best: Option<f64> = None;
    for left in (1..set.0).map(RelationSet).filter(|left| left.is_subset_of(set)) {
        let right = set.minus(left);
        if !is_cross_allowed && graph.link(left, right) == Link::None {
            continue;
        }
        let sides = (brute_force(graph, left, is_cross_allowed), brute_force(graph, right, is_cross_allowed));
        if let (Some(l), Some(r)) = sides {
            let cost = l + r + join_cost(graph, left, right);
            best = Some(best.map_or(cost, |best| best.min(cost)));
        }
    }
    best
}

/// The cost of a tree, added up from its joins.
fn tree_cost(graph: &JoinGraph, tree: &JoinTree) -> (RelationSet, f64) {
    match tree {
        JoinTree::Relation(relation) => (RelationSet::single(*relation), 0.0),
        JoinTree::Join { build, probe } => {
            let (left, left_cost) = tree_cost(graph, build);
            let (right, right_cost) = tree_cost(graph, probe);
            assert!(graph.rows(left) <= graph.rows(right), "the smaller side is built");
            (left.union(right), left_cost + right_cost + join_cost(graph, left, right))
        }
    }
}

fn assert_optimal(graph: &JoinGraph, name: &str) {
    let best = best_order(graph);
    let all = RelationSet::first(graph.relation_count());
    let optimum = brute_force(graph, all, false).or_else(|| brute_force(graph, all, true)).unwrap();
    assert_eq!(best.relations, all);
    let (joined, cost) = tree_cost(graph, &best.tree);
    assert_eq!(joined, all);
    assert!((cost / best.cost - 1.0).abs() < 1e-9, "{name}: {cost} is not {}", best.cost);
    assert!((best.cost / optimum - 1.0).abs() < 1e-9, "{name}: {} is not {optimum}", best.cost);
}

fn random_graph(random: &mut Random) -> JoinGraph {
    let count = 2 + random.below(5) as usize;
    let rows: Vec<f64> = (0..count).map(|_| (1 << random.below(20)) as f64).collect();
    let mut graph = TestGraph::new(&rows);
    for relation in 1..count {
        // Mostly connected; one time in ten a predicate is missing.
        if random.below(10) > 0 {
            let other = random.below(relation as u64) as usize;
            let domains = (random.domain(rows[other]), random.domain(rows[relation]));
            graph = graph.equal(&[(other, domains.0), (relation, domains.1)]);
        }
    }
    for _ in 0..random.below(3) {
        let (one, other) = (random.below(count as u64) as usize, random.below(count as u64) as usize);
        if one != other {
            graph = match random.below(2) {
                0 => graph.filter(&[one, other], 0.3),
                _ => graph.equal(&[(one, random.domain(rows[one])), (other, random.domain(rows[other]))]),
            };
        }
    }
    graph.build()
}

#[test]
fn exact_search_finds_the_optimum_of_random_graphs() {
    for seed in 1..=300 {
        let graph = random_graph(&mut Random(seed * 0x9E37_79B9_7F4A_7C15));
        assert_optimal(&graph, &format!("seed {seed}"));
    }
}

#[test]
fn exact_search_finds_the_optimum_of_named_shapes() {
    let rows = [1e6, 1e2, 1e4, 5e1, 1e5];
    let key = |relation: usize| (relation, rows[relation]);
    let chain = (1..5).fold(TestGraph::new(&rows), |g, r| g.equal(&[(r - 1, 50.0), key(r)]));
    let star = (1..5).fold(TestGraph::new(&rows), |g, r| g.equal(&[(0, rows[r]), key(r)]));
    let cycle = (0..5).fold(TestGraph::new(&rows), |g, r| g.equal(&[(r, 40.0), ((r + 1) % 5, 50.0)]));
    let clique = TestGraph::new(&rows).equal(&[key(0), key(1), key(2), key(3), key(4)]);
    let snowflake = TestGraph::new(&rows)
        .equal(&[(0, 1e4), key(2)])
        .equal(&[(2, 1e2), key(1)])
        .equal(&[(0, 1e5), key(4)])
        .equal(&[(4, 5e1), key(3)]);
    assert_optimal(&chain.build(), "chain");
    assert_optimal(&star.build(), "star");
    assert_optimal(&cycle.build(), "cycle");
    assert_optimal(&clique.build(), "clique");
    assert_optimal(&snowflake.build(), "snowflake");
}

#[test]
fn fact_table_is_never_the_build_side_of_a_star() {
    let rows = [6e6, 2e3, 3e4, 2e5, 2.5e3];
    let star = (1..5).fold(TestGraph::new(&rows), |g, r| g.equal(&[(0, rows[r]), (r, rows[r])]));
    let mut tree = best_order(&star.build()).tree;
    while let JoinTree::Join { build, probe } = tree {
        assert!(matches!(*build, JoinTree::Relation(relation) if relation != 0), "{build:?}");
        tree = *probe;
    }
    assert_eq!(tree, JoinTree::Relation(0));
}

#[test]
fn bushy_tree_wins_where_two_filtered_branches_meet() {
    // Two small-by-filter pairs joined by a many-to-many edge.
    let graph = TestGraph::new(&[1e6, 10.0, 1e6, 10.0])
        .equal(&[(0, 1e5), (1, 10.0)])
        .equal(&[(2, 1e5), (3, 10.0)])
        .equal(&[(0, 1e3), (2, 1e3)])
        .build();
    let best = best_order(&graph);
    let JoinTree::Join { build, probe } = &best.tree else { panic!("{best:?}") };
    assert!(matches!(**build, JoinTree::Join { .. }), "{best:?}");
    assert!(matches!(**probe, JoinTree::Join { .. }), "{best:?}");
}

#[test]
fn greedy_search_joins_many_relations_near_the_optimum() {
    for count in [11, 20, 40] {
        let rows: Vec<f64> = (0..count).map(|r| if r == 0 { 1e7 } else { 10.0 * (r as f64 + 1.0) }).collect();
        let star = (1..count)
            .fold(TestGraph::new(&rows), |g, r| g.equal(&[(0, 4.0 * rows[r]), (r, rows[r])]))
            .build();
        let best = best_order(&star);
        let (joined, cost) = tree_cost(&star, &best.tree);
        assert_eq!(joined, RelationSet::first(count));
        assert!((cost / best.cost - 1.0).abs() < 1e-9);
        // Every dimension keeps a quarter of the fact table: the first probe and its result dominate.
        assert!(best.cost < 1.7e7, "{count} relations: {}", best.cost);
    }
}

#[test]
fn greedy_search_stays_near_the_exact_one() {
    let mut worst: f64 = 1.0;
    for seed in 1..=100 {
        let graph = random_graph(&mut Random(seed * 0xD1B5_4A32_D192_ED03));
        worst = worst.max(greedy(&graph).cost / best_order(&graph).cost);
    }
    assert!(worst < 30.0, "{worst}");
}

#[test]
fn original_cross_product_is_charged_as_one() {
    let graph = TestGraph::new(&[1e3, 1e3, 1e3]).equal(&[(0, 1e3), (1, 1e3), (2, 1e3)]).build();
    let leaf = |relation| Box::new(Shape::Leaf(relation));
    let join = |left, right, is_keyed| Shape::Join { left, right, is_keyed, is_filtered: false };
    let with_cross = join(Box::new(join(leaf(0), leaf(2), false)), leaf(1), true);
    let without = join(Box::new(join(leaf(0), leaf(1), true)), leaf(2), true);
    assert!(original_cost(&graph, &with_cross) > 1e6);
    assert!(original_cost(&graph, &without) < 1e4);
    assert!(best_order(&graph).cost <= original_cost(&graph, &without));
}
