//! Page views: order, shares, and what the queries look for.

mod common;

use std::collections::{HashMap, HashSet};

use arrow::datatypes::{Date32Type, Int16Type};
use common::{Table, generate, spec};
use pelton_datagen::{Dataset, hits_scale};

const ROWS: u64 = 100_000;

fn hits() -> Table {
    Table::new(Dataset::Hits, "hits", hits_scale(ROWS))
}

fn share<T>(values: &[T], is_counted: impl Fn(&T) -> bool) -> f64 {
    values.iter().filter(|value| is_counted(value)).count() as f64 / values.len() as f64
}

/// How often the most frequent value comes, as a share, and how many distinct ones there are.
fn skew<T: std::hash::Hash + Eq>(values: &[T]) -> (f64, usize) {
    let mut counts = HashMap::new();
    values.iter().for_each(|value| *counts.entry(value).or_insert(0u64) += 1);
    (*counts.values().max().unwrap() as f64 / values.len() as f64, counts.len())
}

#[test]
fn rows_are_as_many_as_asked_for() {
    for rows in [1_000, 99_999, 123_457] {
        assert_eq!(spec(Dataset::Hits, "hits", hits_scale(rows)).row_count, rows);
    }
    assert_eq!(generate(Dataset::Hits, "hits", hits_scale(1_001), 1, 1).num_rows(), 1_001);
    assert_eq!(spec(Dataset::Hits, "hits", 1.0).schema.fields().len(), 105);
}

#[test]
fn rows_are_in_order_of_site_and_day() {
    let table = hits();
    let days = table.primitives::<Date32Type>("EventDate");
    let places: Vec<_> = table.ints("CounterID").into_iter().zip(days).collect();
    assert!(places.is_sorted());
}

#[test]
fn few_values_take_most_rows_and_many_are_rare() {
    let table = hits();
    for (column, most, distinct) in [
        ("CounterID", 0.05..0.2, 3_000..6_001),
        ("RegionID", 0.02..0.2, 1_000..5_001),
        ("UserID", 0.005..0.1, 5_000..50_000),
        ("WatchID", 0.0..0.0001, ROWS as usize..ROWS as usize + 1),
    ] {
        let (top, count) = skew(&table.ints(column));
        assert!(most.contains(&top), "{column}: the most frequent value has {top}");
        assert!(distinct.contains(&count), "{column}: {count} distinct values");
    }
    let (top, count) = skew(&table.texts("URL"));
    assert!(top < 0.1 && count > ROWS as usize / 5, "URL: {top} of {count}");
}

#[test]
fn phrases_are_mostly_empty_and_texts_are_not_all_ascii() {
    let table = hits();
    let phrases = table.texts("SearchPhrase");
    let empty = share(&phrases, |phrase| phrase.is_empty());
    assert!((0.84..0.90).contains(&empty), "{empty}");
    assert!(share(&phrases, |phrase| !phrase.is_ascii()) > 0.08);
    assert!(share(&table.texts("Title"), |title| !title.is_ascii()) > 0.9);
    assert!(table.texts("URL").iter().all(|address| address.is_ascii()));
    assert!(share(&table.texts("MobilePhoneModel"), |model| model.is_empty()) > 0.9);
    assert!(share(&table.primitives::<Int16Type>("AdvEngineID"), |engine| *engine == Some(0)) > 0.98);
}

#[test]
fn what_queries_look_for_is_there() {
    let table = hits();
    let (sites, addresses) = (table.ints("CounterID"), table.ints("URLHash"));
    let first_page = addresses.iter().position(|hash| *hash == 2_868_770_270_353_813_622).unwrap();
    assert_eq!(sites[first_page], 62);
    assert!(table.ints("RefererHash").contains(&3_594_120_000_172_545_465));
    let (urls, titles) = (table.texts("URL"), table.texts("Title"));
    assert!(urls.iter().any(|url| url.contains(".google.")));
    assert!(urls.iter().any(|url| url.contains("google") && !url.contains(".google.")));
    assert!(titles.iter().any(|title| title.contains("Google")));
    let wide = Table::new(Dataset::Hits, "hits", hits_scale(400_000));
    assert!(wide.ints("UserID").contains(&435_090_932_899_640_449));
}

#[test]
fn an_address_has_one_hash_and_a_user_one_region() {
    let table = hits();
    let urls = table.texts("URL");
    let pairs: HashSet<_> = urls.iter().zip(table.ints("URLHash")).collect();
    assert_eq!(pairs.len(), skew(&urls).1, "hashes of an address");
    assert_eq!(pairs.len(), skew(&table.ints("URLHash")).1, "addresses of a hash");
    let users = table.ints("UserID");
    let regions: HashSet<_> = users.iter().zip(table.ints("RegionID")).collect();
    assert_eq!(regions.len(), skew(&users).1);
}
