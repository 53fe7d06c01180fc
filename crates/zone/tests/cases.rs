//! The edges of every kind of metadata, by name.

use std::ops::Bound;

use pelton_chunk::types::{ByteValues, Column, Validity, Values};
use pelton_zone::{
    ColumnTest, CompareOp, Predicate, Scalar, SkipKind, SkipKinds, Verdict, ZoneMap, ZoneOptions, prune,
};

fn zone_of(values: Values) -> ZoneMap {
    ZoneMap::build(&Column::new(values), &ZoneOptions::default()).0
}

fn integers(values: impl IntoIterator<Item = i64>) -> ZoneMap {
    zone_of(Values::I64(values.into_iter().collect()))
}

fn floats(values: &[f64]) -> ZoneMap {
    zone_of(Values::F64(values.to_vec()))
}

fn strings<S: AsRef<[u8]>>(values: &[S]) -> ZoneMap {
    let mut bytes = ByteValues::default();
    values.iter().for_each(|value| bytes.push(value.as_ref()).unwrap());
    zone_of(Values::Bytes(bytes))
}

fn compare(op: CompareOp, value: Scalar) -> ColumnTest {
    ColumnTest::Compare(op, value)
}

fn int(op: CompareOp, value: i128) -> ColumnTest {
    compare(op, Scalar::Int(value))
}

fn float(op: CompareOp, value: f64) -> ColumnTest {
    compare(op, Scalar::Float(value))
}

fn text(value: &str) -> Scalar {
    Scalar::Bytes(value.into())
}

fn starts(prefix: &[u8]) -> ColumnTest {
    ColumnTest::StartsWith(prefix.to_vec())
}

#[track_caller]
fn check(zone: &ZoneMap, test: ColumnTest, expected: Verdict) {
    assert_eq!(zone.test(&test, SkipKinds::ALL), expected, "{test:?}");
}

use CompareOp::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
use SkipKind::{Bloom, Histogram, MinMax, Nulls};
use Verdict::{May, Never};

#[test]
fn a_chunk_of_nulls_matches_only_is_null() {
    let validity = Some(Validity::from_bools([false; 3].into_iter()));
    let (zone, _) =
        ZoneMap::build(&Column { values: Values::I32(vec![1, 2, 3]), validity }, &ZoneOptions::default());
    for op in [Eq, NotEq, Lt, LtEq, Gt, GtEq] {
        check(&zone, int(op, 2), Never(Nulls));
    }
    check(&zone, ColumnTest::IsNotNull, Never(Nulls));
    check(&zone, ColumnTest::In(vec![Scalar::Int(2)]), Never(Nulls));
    check(&zone, ColumnTest::IsNull, May);
    assert!(zone.matches_all(&ColumnTest::IsNull));
    assert_eq!((zone.distinct_count, zone.min, zone.bloom), (0, None, None));
}

#[test]
fn a_chunk_without_nulls_is_skipped_by_is_null() {
    check(&integers(0..9), ColumnTest::IsNull, Never(Nulls));
    assert!(integers(0..9).matches_all(&ColumnTest::IsNotNull));
}

#[test]
fn an_empty_list_matches_nothing_unless_skipping_is_off() {
    check(&integers(0..9), ColumnTest::In(Vec::new()), Never(Nulls));
    assert_eq!(integers(0..9).test(&ColumnTest::In(Vec::new()), SkipKinds::NONE), May);
    assert_eq!(integers(0..9).selectivity(&ColumnTest::In(Vec::new())), 0.0);
}

#[test]
fn bounds_rule_out_what_lies_beyond_them() {
    let zone = integers([10, 20]);
    check(&zone, int(Lt, 10), Never(MinMax));
    check(&zone, int(LtEq, 10), May);
    check(&zone, int(Gt, 20), Never(MinMax));
    check(&zone, int(GtEq, 20), May);
    check(&zone, int(Eq, 21), Never(MinMax));
    check(&zone, int(Eq, i128::MAX), Never(MinMax));
}

#[test]
fn the_histogram_rules_out_gaps_between_the_bounds() {
    let zone = integers([0, 1, 2, 254, 255]);
    check(&zone, int(Eq, 100), Never(Histogram));
    let between = |lower, upper| ColumnTest::Range { lower, upper };
    let scalar = |value| Scalar::Int(value);
    check(&zone, between(Bound::Excluded(scalar(2)), Bound::Excluded(scalar(254))), Never(Histogram));
    check(&zone, between(Bound::Included(scalar(2)), Bound::Excluded(scalar(254))), May);
    check(&zone, between(Bound::Included(scalar(9)), Bound::Included(scalar(8))), Never(MinMax));
}

#[test]
fn the_filter_rules_out_values_within_an_occupied_bin() {
    let zone = integers((0..500).map(|value| value * 1000));
    check(&zone, int(Eq, 1001), Never(Bloom));
    check(&zone, int(Eq, 7000), May);
    check(&zone, ColumnTest::In(vec![Scalar::Int(-5), Scalar::Int(1001)]), Never(Bloom));
    check(&zone, ColumnTest::In(vec![Scalar::Int(-5), Scalar::Int(-6)]), Never(MinMax));
    check(&zone, ColumnTest::In(vec![Scalar::Int(1001), Scalar::Int(7000)]), May);
}

#[test]
fn a_saturated_filter_is_dropped() {
    assert!(integers((0..600).map(|value| value * 1000)).bloom.is_some());
    assert!(integers((0..5000).map(|value| value * 1000)).bloom.is_none());
}

#[test]
fn not_equal_is_ruled_out_by_a_single_value_only() {
    check(&integers([7, 7, 7]), int(NotEq, 7), Never(MinMax));
    check(&integers([7, 7, 8]), int(NotEq, 7), May);
    check(&floats(&[0.0, -0.0]), float(NotEq, 0.0), May);
    check(&floats(&[1.5, f64::NAN]), float(NotEq, 1.5), May);
    check(&strings(&["x".repeat(65), "x".repeat(66)]), compare(NotEq, text(&"x".repeat(64))), May);
}

#[test]
fn nan_keeps_ranges_open_but_not_equality() {
    let zone = floats(&[1.0, 2.0, f64::NAN]);
    assert!(zone.has_nan);
    assert_eq!((zone.min.clone(), zone.max.clone()), (Some(Scalar::Float(1.0)), Some(Scalar::Float(2.0))));
    for op in [Lt, LtEq, Gt, GtEq] {
        check(&zone, float(op, if matches!(op, Gt | GtEq) { 3.0 } else { 0.0 }), May);
    }
    check(&zone, float(Eq, 3.0), Never(MinMax));
    check(&zone, float(Eq, f64::NAN), May);
    check(&floats(&[1.0, 2.0]), float(Eq, f64::NAN), Never(MinMax));
    assert!(!zone.matches_all(&float(GtEq, 1.0)));
    assert_eq!(floats(&[f64::NAN]).min, None);
}

#[test]
fn zeros_of_both_signs_are_one_where_a_row_could_match() {
    let zone = floats(&[-0.0]);
    check(&zone, float(Lt, 0.0), May);
    check(&zone, float(Eq, 0.0), May);
    assert!(!zone.matches_all(&float(GtEq, 0.0)));
    assert!(zone.matches_all(&float(Lt, 0.5)));
}

#[test]
fn infinities_are_values() {
    let zone = floats(&[f64::NEG_INFINITY, 1.0, f64::INFINITY]);
    check(&zone, float(Eq, 1.0), May);
    check(&zone, float(Gt, f64::MAX), May);
    check(&zone, float(Eq, -3.0), Never(Histogram));
}

#[test]
fn long_strings_have_cut_bounds_that_still_bound() {
    let zone = strings(&[format!("{}a", "m".repeat(64)), format!("{}z", "m".repeat(64))]);
    assert!(!zone.bounds_exact);
    assert_eq!(zone.min, Some(text(&"m".repeat(64))));
    assert_eq!(zone.max, Some(text(&format!("{}n", "m".repeat(63)))));
    check(&zone, compare(Eq, text(&format!("{}z", "m".repeat(64)))), May);
    check(&zone, compare(Lt, text(&"m".repeat(64))), Never(MinMax));
    check(&zone, compare(Gt, text("n")), Never(MinMax));
    assert!(zone.matches_all(&starts(b"mmm")));
}

#[test]
fn strings_that_cannot_be_rounded_up_have_no_upper_bound() {
    let zone = strings(&[vec![u8::MAX; 70], b"a".to_vec()]);
    assert_eq!((zone.max.is_none(), zone.histogram.is_none(), zone.bounds_exact), (true, true, false));
    check(&zone, compare(Gt, Scalar::Bytes(vec![u8::MAX; 64])), May);
    check(&zone, compare(Lt, text("a")), Never(MinMax));
    check(&zone, starts(b"A"), Never(MinMax));
}

#[test]
fn prefixes_are_ranges() {
    let zone = strings(&["MFGR#12", "MFGR#2221", "MFGR#51"]);
    check(&zone, starts(b"MFGR#2"), May);
    check(&zone, starts(b"MFGR#3"), Never(Histogram));
    check(&zone, starts(b"MFGR#6"), Never(MinMax));
    check(&zone, starts(b"LFGR"), Never(MinMax));
    check(&zone, starts(b""), May);
    assert!(zone.matches_all(&starts(b"MFGR#")));
}

#[test]
fn constants_of_another_domain_rule_out_nothing() {
    for test in [float(Eq, 99.0), compare(Lt, text("a")), starts(b"x"), float(Eq, f64::NAN)] {
        check(&integers(0..9), test.clone(), May);
        assert!(!integers(0..9).matches_all(&test));
    }
}

#[test]
fn all_rows_match_where_bounds_lie_inside() {
    let zone = integers(10..20);
    assert!(zone.matches_all(&int(GtEq, 10)));
    assert!(!zone.matches_all(&int(Gt, 10)));
    assert!(zone.matches_all(&int(NotEq, 20)));
    assert!(!zone.matches_all(&int(NotEq, 19)));
    assert!(integers([4, 4]).matches_all(&ColumnTest::In(vec![Scalar::Int(3), Scalar::Int(4)])));
}

#[test]
fn values_are_found_whatever_the_width_of_their_column() {
    for values in [
        Values::U8(vec![7]),
        Values::I8(vec![7]),
        Values::U32(vec![7]),
        Values::U64(vec![7]),
        Values::I64(vec![7]),
        Values::I128(vec![7]),
    ] {
        let zone = zone_of(values);
        assert_eq!(zone.test(&int(Eq, 7), SkipKinds::ALL), May);
        assert_eq!(zone.test(&int(Eq, 8), SkipKinds::NONE.with(Bloom)), Never(Bloom));
    }
    let single = zone_of(Values::F32(vec![0.1]));
    check(&single, float(Eq, f64::from(0.1f32)), May);
    check(&single, float(Eq, 0.1), Never(MinMax));
}

#[test]
fn every_value_of_a_large_chunk_is_found() {
    // Many pieces, with filters that hold out, fill up late, and saturate at once.
    for distinct in [3, 600, 720, 900, 40_000] {
        let numbers: Vec<i64> = (0..40_000i64).map(|row| (row * 7919 % distinct) * 1_000_003 - 77).collect();
        let texts: Vec<String> = numbers.iter().map(|number| format!("Supplier#{number:015}")).collect();
        let columns = [
            (
                integers(numbers.iter().copied()),
                numbers.iter().map(|number| Scalar::Int((*number).into())).collect(),
            ),
            (strings(&texts), texts.iter().map(|value| text(value)).collect::<Vec<_>>()),
        ];
        for (zone, values) in columns {
            assert!(values.into_iter().all(|value| zone.test(&compare(Eq, value), SkipKinds::ALL) == May));
            let error = (f64::from(zone.distinct_count) / distinct as f64 - 1.0).abs();
            assert!(error < 0.05, "{} of {distinct}", zone.distinct_count);
        }
    }
}

#[test]
fn ranges_under_an_and_are_intersected_before_pruning() {
    let zones = [integers([0, 1, 254, 255]), integers(0..256)];
    let part = |test| Predicate::Test { column: "x", test };
    let between = Predicate::And(vec![part(int(GtEq, 100)), Predicate::And(vec![part(int(Lt, 102))])]);
    let result = prune(&between, 2, SkipKinds::ALL, |row_group, _| zones.get(row_group));
    assert_eq!(result.keep, [false, true]);
    assert_eq!((result.skipped_by.get(Histogram), result.skipped_by.total()), (1, 1));
    let share = between.intersect_ranges().selectivity(&|_| Some(&zones[1]));
    assert!((share - 2.0 / 256.0).abs() < 1e-3, "{share}");
}

#[test]
fn ranges_without_an_order_are_not_intersected() {
    let zone = floats(&[1.0, 2.0]);
    for other in [float(Gt, f64::NAN), int(Gt, 0), float(Lt, f64::NAN)] {
        let parts = [other, float(Lt, 0.5)].map(|test| Predicate::Test { column: (), test });
        let result = prune(&Predicate::And(parts.to_vec()), 1, SkipKinds::ALL, |_, ()| Some(&zone));
        assert_eq!(result.keep, [false]);
    }
}

#[test]
fn a_row_group_is_counted_under_the_weakest_kind_that_suffices() {
    let zone = integers([0, 1, 254, 255]);
    let part = |test| Predicate::Test { column: (), test };
    let (beyond, gap) = (part(int(Gt, 300)), part(int(Eq, 100)));
    let verdict = |predicate: Predicate<()>| predicate.evaluate(SkipKinds::ALL, &|()| Some(&zone));
    assert_eq!(verdict(Predicate::And(vec![gap.clone(), beyond.clone()])), Never(MinMax));
    assert_eq!(verdict(Predicate::Or(vec![beyond.clone(), gap.clone()])), Never(Histogram));
    assert_eq!(verdict(Predicate::Or(vec![gap.clone(), Predicate::Unknown])), May);
    assert_eq!(verdict(Predicate::And(vec![Predicate::Unknown, gap])), Never(Histogram));
    assert_eq!(verdict(Predicate::Or(Vec::new())), Never(Nulls));
    assert_eq!(verdict(Predicate::And(Vec::new())), May);
}

#[test]
fn a_column_without_zone_maps_rules_out_nothing() {
    let predicate = Predicate::Test { column: (), test: int(Eq, 1) };
    assert_eq!(prune(&predicate, 3, SkipKinds::ALL, |_, ()| None).keep, [true; 3]);
}

#[test]
fn selectivity_follows_the_histogram() {
    let skewed = integers((0..100_000).map(|row: i64| (row % 317) * (row % 317)));
    for bound in [100, 5_000, 40_000, 90_000] {
        let exact = (0..317).filter(|root| root * root < bound).count() as f64 / 317.0;
        let share = skewed.selectivity(&int(Lt, bound));
        assert!((share - exact).abs() < 0.02, "x < {bound}: {share}, exactly {exact}");
    }
    let share = skewed.selectivity(&int(Eq, 90_000));
    assert!((share * 317.0 - 1.0).abs() < 0.5, "{share}");
}

#[test]
fn selectivity_counts_nulls_as_failing() {
    let validity = Some(Validity::from_bools((0..1000).map(|row| row % 2 == 0)));
    let column = Column { values: Values::I32((0..1000).collect()), validity };
    let (zone, _) = ZoneMap::build(&column, &ZoneOptions::default());
    assert!((zone.selectivity(&int(Lt, 500)) - 0.25).abs() < 0.01);
    assert_eq!(zone.selectivity(&ColumnTest::IsNull), 0.5);
}

#[test]
fn options_beyond_their_limits_are_refused_with_the_limit() {
    let default = ZoneOptions::default();
    default.validate().unwrap();
    for (options, limit) in [
        (ZoneOptions { bins: 65_537, ..default }, "65536"),
        (ZoneOptions { bloom_bytes: 100, ..default }, "multiple of 32"),
        (ZoneOptions { bloom_hashes: 9, ..default }, "1 to 8"),
    ] {
        assert!(options.validate().unwrap_err().to_string().contains(limit));
    }
}
