//! Tests of cardinality estimates.

use super::*;
use crate::profile::{Range, Source};

fn key(source_id: usize, rows: f64, domain: f64) -> ColumnProfile {
    ColumnProfile {
        domain: Some(domain),
        is_counted: true,
        ..ColumnProfile::unknown(Source { id: source_id, rows })
    }
}

fn assert_close(actual: f64, expected: f64) {
    let ratio = actual / expected;
    assert!((0.999..1.001).contains(&ratio), "{actual} is not {expected}");
}

#[test]
fn foreign_key_join_keeps_every_row_of_the_referencing_side() {
    let selectivity = join_selectivity(&[(key(1, 6e6, 2e5), key(2, 2e5, 2e5))]);
    assert_close(6e6 * 2e5 * selectivity, 6e6);
}

#[test]
fn composite_key_has_no_more_values_than_its_relation_has_rows() {
    let keys = [(key(1, 6e6, 2e5), key(2, 8e5, 2e5)), (key(1, 6e6, 1e4), key(2, 8e5, 1e4))];
    assert_close(join_selectivity(&keys), 1.0 / 8e5);
}

#[test]
fn equalities_with_different_relations_are_independent() {
    let keys = [(key(1, 100.0, 10.0), key(3, 100.0, 10.0)), (key(2, 100.0, 20.0), key(3, 100.0, 20.0))];
    assert_close(join_selectivity(&keys), 1.0 / 200.0);
}

#[test]
fn second_equality_of_a_pair_counts_by_its_root() {
    let keys = [(key(1, 1e6, 100.0), key(2, 1e6, 100.0)), (key(1, 1e6, 16.0), key(2, 1e6, 16.0))];
    assert_close(join_selectivity(&keys), 1.0 / 400.0);
}

#[test]
fn null_keys_do_not_match() {
    let nullable = ColumnProfile { null_fraction: 0.25, ..key(1, 100.0, 10.0) };
    assert_close(join_selectivity(&[(nullable, key(2, 10.0, 10.0))]), 0.075);
}

#[test]
fn uncounted_column_is_taken_for_a_key_of_the_smaller_relation() {
    let left = ColumnProfile::unknown(Source { id: 1, rows: 1e6 });
    let right = ColumnProfile::unknown(Source { id: 2, rows: 1e3 });
    assert_close(join_selectivity(&[(left, right)]), 1e-3);
}

#[test]
fn equal_ranges_are_a_foreign_key_into_the_smaller_relation() {
    let range = Some(Range { min: 1.0, max: 6e6, step: 1.0 });
    let sparse =
        |id, rows| ColumnProfile { domain: Some(rows), range, ..ColumnProfile::unknown(Source { id, rows }) };
    assert_close(join_selectivity(&[(sparse(1, 6e6), sparse(2, 1.5e6))]), 1.0 / 1.5e6);
}

#[test]
fn semi_join_keeps_the_share_of_keys_that_occur_inside() {
    let keys = [(key(1, 1e6, 1000.0), key(2, 100.0, 1000.0))];
    let fraction = semi_join_fraction(&keys, 100.0, 1.0);
    assert!((0.09..0.1).contains(&fraction), "{fraction}");
}

#[test]
fn occurring_values_are_bounded_by_domain_and_rows() {
    assert_close(occurring(10.0, 1e6), 10.0);
    assert_close(occurring(1e9, 10.0), 10.0);
    assert_eq!(occurring(1.0, 0.0), 0.0);
    assert!(occurring(1000.0, 1000.0) < 700.0);
}

#[test]
fn combinations_of_columns_of_one_relation_are_at_most_its_rows() {
    let keys = [Some(key(1, 150.0, 150.0)), Some(key(1, 150.0, 140.0))];
    assert_close(key_combinations(&keys, 1e6), 150.0);
    let keys = [Some(key(1, 150.0, 10.0)), Some(key(2, 100.0, 7.0))];
    assert_close(key_combinations(&keys, 1e6), 70.0);
}

fn ranged(source_id: usize, rows: f64, domain: f64, min: f64, max: f64) -> ColumnProfile {
    ColumnProfile { range: Some(Range { min, max, step: 1.0 }), ..key(source_id, rows, domain) }
}

#[test]
fn keys_outside_of_the_other_range_have_no_partner() {
    // One year of 200 in a calendar, of which sales have five.
    let sales = ranged(1, 1e6, 1825.0, 50_001.0, 51_825.0);
    let year = ranged(2, 365.0, 365.0, 50_366.0, 50_730.0);
    assert_close(1e6 * 365.0 * join_selectivity(&[(sales.clone(), year.clone())]), 2e5);
    let novembers = ranged(2, 6000.0, 73_000.0, 1.0, 73_000.0);
    assert_close(1e6 * 6000.0 * join_selectivity(&[(sales.clone(), novembers)]), 1e6 * 6000.0 / 73_000.0);
    let fraction = semi_join_fraction(&[(sales.clone(), year.clone())], 365.0, 1.0);
    assert!((0.12..0.21).contains(&fraction), "{fraction}");
    // All that the sides have in common is one year.
    let both = sales.intersect(&year);
    assert_close(both.domain.unwrap(), 365.0);
    assert_eq!(both.range, year.range);
    let elsewhere = ranged(3, 10.0, 10.0, 90_000.0, 90_009.0);
    assert!(1e6 * 10.0 * join_selectivity(&[(sales, elsewhere)]) < 10.0);
}
