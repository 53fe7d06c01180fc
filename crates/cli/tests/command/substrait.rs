//! `pelton sql --substrait`.

use crate::harness::Place;

/// Written by ibis-substrait 4.0.1 of `t.filter(t.v > 10).group_by("k").aggregate(s=t.v.sum())`.
const PLAN: &str = include_str!("../../../engine/tests/engine/embed/ibis.json");

#[cfg(feature = "substrait")]
#[test]
fn a_plan_of_another_system_is_run_like_a_query() {
    let place = Place::new();
    let rows = place.file("rows.csv", "k,v\n1,5\n1,11\n1,12\n2,10\n");
    place.ok(&["load", "--quiet", "--table", "t", &rows]);
    let plan = place.file("plan.json", PLAN);
    assert_eq!(place.ok(&["sql", "--format", "csv", "--substrait", &plan]), "k,s\n1,23\n");
    let broken = place.file("broken.bin", "SELECT 1");
    let message = place.fails(&["sql", "--substrait", &broken]);
    assert!(message.contains("broken.bin") && message.contains("not a Substrait plan"), "{message}");
    assert!(place.fails(&["sql", "--substrait", "missing.bin"]).contains("missing.bin"));
}

#[cfg(not(feature = "substrait"))]
#[test]
fn without_the_feature_the_flag_says_how_to_build_with_it() {
    let place = Place::new();
    let plan = place.file("plan.json", PLAN);
    let message = place.fails(&["sql", "--substrait", &plan]);
    assert!(message.contains("protoc") && message.contains("--features substrait"), "{message}");
}
