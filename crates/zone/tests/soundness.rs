//! Metadata may be wrong in one direction only: a chunk with a matching row is never ruled out, and a chunk
//! of which every row is said to match has no other rows. Held against evaluation row by row.

mod support;

use pelton_chunk::types::Column;
use pelton_zone::{
    ColumnTest, Predicate, SkipKind, SkipKinds, Verdict, ZoneMap, ZoneOptions, prune, read_zone_maps,
    write_zone_maps,
};
use proptest::prelude::*;
use support::{READINGS, column, holds, passes, subsets, test_of, value_at};

/// Columns with tests of them.
fn tested_column() -> impl Strategy<Value = (Column, Vec<ColumnTest>)> {
    column().prop_flat_map(|column| {
        let tests = prop::collection::vec(test_of(&column), 1..24);
        (Just(column), tests)
    })
}

/// The default, and so few bins and bits that they collide.
fn options() -> impl Strategy<Value = ZoneOptions> {
    prop_oneof![
        2 => Just(ZoneOptions::default()),
        2 => (0..40u32, 0..4u32, 1..=8u32).prop_map(|(bins, blocks, bloom_hashes)| ZoneOptions {
            bins,
            bloom_bytes: blocks * 32,
            bloom_hashes,
        }),
        1 => Just(ZoneOptions { bins: 65_536, bloom_bytes: 4096, bloom_hashes: 8 }),
    ]
}

fn check_test(column: &Column, zone: &ZoneMap, test: &ColumnTest) {
    for reading in READINGS {
        let passing =
            (0..column.len()).filter(|row| passes(&value_at(column, *row), test, reading) == Some(true));
        let count = passing.count();
        if count > 0 {
            for enabled in subsets() {
                assert_eq!(
                    zone.test(test, enabled),
                    Verdict::May,
                    "{test:?} {enabled:?} {reading:?} {zone:?}"
                );
            }
        }
        if zone.matches_all(test) {
            assert_eq!(count, column.len(), "{test:?} {reading:?} {zone:?}");
        }
    }
    assert_eq!(zone.test(test, SkipKinds::NONE), Verdict::May);
    let share = zone.selectivity(test);
    assert!((0.0..=1.0).contains(&share), "{test:?}: {share} {zone:?}");
    check_kinds(zone, test);
}

/// A verdict names an enabled kind, more kinds never skip less, and a histogram implies the bounds.
fn check_kinds(zone: &ZoneMap, test: &ColumnTest) {
    for enabled in subsets() {
        let verdict = zone.test(test, enabled);
        let Verdict::Never(kind) = verdict else { continue };
        assert!(enabled.contains(kind), "{test:?} {enabled:?} {kind}");
        for more in SkipKind::ALL {
            assert_ne!(zone.test(test, enabled.with(more)), Verdict::May, "{test:?} {enabled:?} and {more}");
        }
    }
    let alone = |kind| zone.test(test, SkipKinds::NONE.with(kind));
    if zone.histogram.is_some() && alone(SkipKind::MinMax) != Verdict::May {
        assert_ne!(alone(SkipKind::Histogram), Verdict::May, "{test:?} {zone:?}");
    }
}

/// A predicate over three columns.
fn predicate(columns: &[Column]) -> impl Strategy<Value = Predicate<usize>> + use<> {
    let tests = columns.iter().enumerate().map(|(index, column)| {
        test_of(column).prop_map(move |test| Predicate::Test { column: index, test }).boxed()
    });
    let test = prop::strategy::Union::new(tests);
    prop_oneof![12 => test, 1 => Just(Predicate::Unknown)].prop_recursive(4, 24, 4, |part| {
        let parts = prop::collection::vec(part, 0..4);
        prop_oneof![parts.clone().prop_map(Predicate::And), parts.prop_map(Predicate::Or)]
    })
}

fn tested_row_group() -> impl Strategy<Value = (Vec<Column>, Vec<Predicate<usize>>)> {
    prop::collection::vec(column(), 3).prop_flat_map(|columns| {
        let predicates = prop::collection::vec(predicate(&columns), 1..12);
        (Just(columns), predicates)
    })
}

fn check_predicate(columns: &[Column], predicate: &Predicate<usize>) {
    let rows = columns.iter().map(Column::len).min().unwrap_or(0);
    let zones: Vec<ZoneMap> =
        columns.iter().map(|column| ZoneMap::build(column, &ZoneOptions::default()).0).collect();
    let lookup = |column: &usize| Some(&zones[*column]);
    let negated = predicate.clone().negate();
    for reading in READINGS {
        for row in 0..rows {
            let values: Vec<_> = columns.iter().map(|column| value_at(column, row)).collect();
            let unknown = [None, Some(true), Some(false)][row % 3];
            let held = holds(predicate, &values, unknown, reading);
            for (side, expected) in [(predicate, Some(true)), (&negated, Some(false))] {
                if held == expected {
                    let result = prune(side, 1, SkipKinds::ALL, |_, column| lookup(column));
                    assert_eq!(result.keep, [true], "{side:?} {values:?} {reading:?}");
                } else {
                    assert!(!side.matches_all(&lookup), "{side:?} {values:?} {reading:?}");
                }
            }
        }
    }
    for side in [predicate, &negated] {
        let intersected = side.clone().intersect_ranges();
        if side.evaluate(SkipKinds::ALL, &lookup) != Verdict::May {
            assert_ne!(intersected.evaluate(SkipKinds::ALL, &lookup), Verdict::May, "{side:?}");
        }
        let share = intersected.selectivity(&lookup);
        assert!((0.0..=1.0).contains(&share), "{side:?}: {share}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_matching_row_is_ruled_out((column, tests) in tested_column(), options in options()) {
        let (zone, _) = ZoneMap::build(&column, &options);
        for test in &tests {
            check_test(&column, &zone, test);
        }
    }

    #[test]
    fn zone_maps_survive_being_written(columns in prop::collection::vec(column(), 0..6), options in options()) {
        let zones: Vec<ZoneMap> = columns.iter().map(|column| ZoneMap::build(column, &options).0).collect();
        let section = write_zone_maps(&zones);
        prop_assert_eq!(read_zone_maps(&section, zones.len()).unwrap(), zones);
    }

    #[test]
    fn counts_and_bounds_are_those_of_the_rows(column in column()) {
        let (zone, sketch) = ZoneMap::build(&column, &ZoneOptions::default());
        let values: Vec<_> = (0..column.len()).filter_map(|row| value_at(&column, row)).collect();
        prop_assert_eq!(zone.row_count as usize, column.len());
        prop_assert_eq!(zone.null_count as usize, column.len() - values.len());
        prop_assert_eq!(zone.has_nan, values.iter().any(|value| value.is_nan()));
        let numbers: Vec<_> = values.iter().filter(|value| !value.is_nan()).collect();
        for (bound, is_exact) in [(&zone.min, zone.bounds_exact), (&zone.max, zone.bounds_exact)] {
            let Some(bound) = bound else { continue };
            prop_assert!(!is_exact || numbers.iter().any(|value| value.compare(bound).unwrap().is_eq()));
        }
        prop_assert_eq!(zone.min.is_some(), !numbers.is_empty());
        prop_assert!(zone.distinct_count as usize <= values.len());
        // At most 40 values, a few of which may share a register.
        prop_assert!(sketch.estimate().abs_diff(zone.distinct_count.into()) <= 6);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_matching_row_group_is_pruned((columns, predicates) in tested_row_group()) {
        for predicate in &predicates {
            check_predicate(&columns, predicate);
        }
    }
}
