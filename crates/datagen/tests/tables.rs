//! What holds for every table of every dataset.

mod common;

use common::generate;
use pelton_datagen::{Dataset, batches, queries, star_links, tables};
use pelton_error::ErrorKind;

/// Several batches for the fact tables, one for most others.
fn scale(dataset: Dataset) -> f64 {
    if dataset == Dataset::Hits { 0.001 } else { 0.01 }
}

#[test]
fn rows_are_as_many_and_of_the_types_that_were_announced() {
    for dataset in Dataset::ALL {
        for spec in tables(dataset, scale(dataset)).unwrap() {
            let mut row_count = 0;
            for batch in batches(dataset, spec.name, scale(dataset), 0, 1, 1).unwrap() {
                assert_eq!(batch.schema(), spec.schema, "{dataset} {}", spec.name);
                assert!((1..=65_536).contains(&batch.num_rows()), "{dataset} {}", spec.name);
                row_count += batch.num_rows() as u64;
            }
            assert_eq!(row_count, spec.row_count, "{dataset} {}", spec.name);
        }
    }
}

#[test]
fn parts_concatenate_to_the_same_rows_however_many_there_are() {
    for dataset in Dataset::ALL {
        for spec in tables(dataset, scale(dataset)).unwrap() {
            let whole = generate(dataset, spec.name, scale(dataset), 1, 1);
            for part_count in [2, 3, 7, 64] {
                let parts = generate(dataset, spec.name, scale(dataset), part_count, 1);
                assert_eq!(parts, whole, "{dataset} {} in {part_count} parts", spec.name);
            }
        }
    }
}

#[test]
fn a_seed_gives_the_same_rows_again_and_another_seed_others() {
    for (dataset, table) in [
        (Dataset::Ssb, "lineorder"),
        (Dataset::Ssb, "part"),
        (Dataset::Taxi, "trips"),
        (Dataset::Hits, "hits"),
    ] {
        let first = generate(dataset, table, scale(dataset), 1, 1);
        assert_eq!(generate(dataset, table, scale(dataset), 1, 1), first, "{table}");
        assert_ne!(generate(dataset, table, scale(dataset), 1, 2), first, "{table}");
    }
}

#[test]
fn links_lead_from_columns_to_columns() {
    for dataset in Dataset::ALL {
        let specs = tables(dataset, scale(dataset)).unwrap();
        for fact in &specs {
            for link in star_links(dataset, fact.name) {
                let dimension = specs.iter().find(|spec| spec.name == link.dimension_table).unwrap();
                let column = fact.schema.field_with_name(link.fact_column).unwrap();
                let key = dimension.schema.field_with_name(link.dimension_key).unwrap();
                assert_eq!(column.data_type(), key.data_type(), "{link:?}");
            }
        }
    }
    assert_eq!(star_links(Dataset::Ssb, "lineorder").len(), 4);
    assert_eq!(star_links(Dataset::Tpch, "lineitem").len(), 3);
    assert_eq!(star_links(Dataset::Taxi, "trips").len(), 0);
}

#[test]
fn query_names_are_distinct() {
    for dataset in Dataset::ALL {
        let mut names: Vec<_> = queries(dataset).iter().map(|query| query.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), queries(dataset).len(), "{dataset}");
    }
}

#[test]
fn what_cannot_be_generated_is_refused_with_a_remedy() {
    let refusal = |table, scale, part, part_count| {
        let error = batches(Dataset::Ssb, table, scale, part, part_count, 1).err().unwrap();
        assert_eq!(error.kind(), &ErrorKind::InvalidInput);
        error.to_string()
    };
    assert_eq!(
        refusal("lines", 1.0, 0, 1),
        "no table 'lines' in ssb; it has lineorder, customer, supplier, part, date"
    );
    assert_eq!(refusal("date", 0.0, 0, 1), "scale 0 is out of range; choose one from 0.001 to 10000");
    assert!(refusal("date", f64::NAN, 0, 1).starts_with("scale NaN is out of range"));
    let error = tables(Dataset::Hits, 0.000_001).unwrap_err();
    assert_eq!(error.to_string(), "scale 0.000001 is out of range; choose one from 0.00001 to 10000");
    assert_eq!(refusal("date", 1.0, 3, 3), "there is no part 3 of 3; parts count from 0");
    let error = "tpcds".parse::<Dataset>().unwrap_err();
    assert_eq!(error.to_string(), "no dataset 'tpcds'; choose ssb, tpch, taxi or hits");
}
