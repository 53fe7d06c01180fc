//! Dictionaries of text columns.

use std::collections::BTreeSet;
use std::sync::Arc;

use pelton_chunk::{Codec, DecodedValues, Values};
use pelton_error::{CancelFlag, ErrorKind};
use pelton_pipeline::TextSource;
use pelton_scan::{TableText, column_dictionary, text_supported};
use pelton_store::Table;

use crate::fixture::{COMMENT, MODE, NULL, cache, damage, engine, expected, table};

/// Every row, through code, mapping and dictionary, is the text that the table has.
fn check(table: &Arc<Table>, column: usize, text: &TableText) {
    let entries: Vec<&[u8]> = text.dictionary.entries.iter().collect();
    assert!(entries.is_sorted() && entries.iter().collect::<BTreeSet<_>>().len() == entries.len());
    assert_eq!(text.mappings.len(), table.row_group_count());
    let mut used: BTreeSet<u32> = BTreeSet::new();
    for (row_group, mapping) in text.mappings.iter().enumerate() {
        let decoded = expected(table, row_group as u32, column);
        let DecodedValues::Dictionary { codes, dictionary } = decoded.values else {
            panic!("not by dictionary")
        };
        let validity = decoded.validity;
        for (row, code) in codes.iter().enumerate() {
            if validity.as_ref().is_none_or(|validity| validity.is_valid(row)) {
                assert_eq!(entries[mapping[*code as usize] as usize], dictionary.get(*code as usize));
            }
        }
        used.extend(mapping);
    }
    assert_eq!(used.len(), entries.len(), "every entry is of some row group");
}

/// Every row, through its own number, is the text that the table has.
fn check_rows(table: &Arc<Table>, column: usize, text: &TableText) {
    let entries: Vec<&[u8]> = text.dictionary.entries.iter().collect();
    assert!(entries.is_sorted() && entries.iter().collect::<BTreeSet<_>>().len() == entries.len());
    let mut used = BTreeSet::new();
    for (row_group, mapping) in text.mappings.iter().enumerate() {
        let decoded = expected(table, row_group as u32, column);
        assert_eq!(mapping.len(), decoded.len());
        for (row, number) in mapping.iter().enumerate() {
            if decoded.validity.as_ref().is_some_and(|validity| !validity.is_valid(row)) {
                continue;
            }
            let stored = match &decoded.values {
                DecodedValues::Plain(Values::Bytes(texts)) => texts.get(row),
                DecodedValues::Dictionary { codes, dictionary } => dictionary.get(codes[row] as usize),
                DecodedValues::Plain(_) => panic!("not text"),
            };
            assert_eq!(entries[*number as usize], stored);
            used.insert(*number);
        }
    }
    assert_eq!(used.len(), entries.len(), "every entry is of some row");
}

#[test]
fn the_dictionary_is_the_sorted_union_of_those_of_the_chunks() {
    for codec in [Codec::None, Codec::Zstd] {
        for (row_group_rows, rows) in [(7, 1000), (130, 1000), (3000, 10_000)] {
            let place = table(codec, row_group_rows, rows);
            for column in [MODE, MODE + 1] {
                // Of seven rows more than half may be distinct: then there is no dictionary.
                let text = column_dictionary(&place.table, column, &engine(), &CancelFlag::new());
                match text_supported(&place.table, column) {
                    Ok(()) => check(&place.table, column, &text.unwrap()),
                    Err(_) => check_rows(&place.table, column, &text.unwrap()),
                }
            }
        }
    }
}

#[test]
fn chunks_of_one_value_have_one_code_and_chunks_without_values_none() {
    let place = table(Codec::None, 30, 300);
    let city = column_dictionary(&place.table, MODE + 1, &engine(), &CancelFlag::new()).unwrap();
    check(&place.table, MODE + 1, &city);
    assert!(city.mappings.iter().all(|mapping| mapping.len() == 1), "90 rows of a city: {:?}", city.mappings);
    let null = column_dictionary(&place.table, NULL, &engine(), &CancelFlag::new()).unwrap();
    assert_eq!(null.mappings, vec![Vec::<u32>::new(); 20]);
    assert!(null.dictionary.entries.is_empty());
}

#[test]
fn a_dictionary_is_read_once_and_from_pinned_memory_where_it_is() {
    let place = table(Codec::Snappy, 130, 1000);
    let cache = cache();
    let read = || cache.io().counters().read_count;
    let from_disk = cache.text(&place.table, MODE);
    assert_eq!(read(), 0, "it is lazy");
    let dictionary = from_disk.dictionary().unwrap();
    let reads = read();
    assert_eq!(reads, 16);
    assert!(Arc::ptr_eq(&dictionary, &cache.text(&place.table, MODE).dictionary().unwrap()));
    assert_eq!(from_disk.mappings().unwrap().len(), 16);
    assert_eq!(read(), reads, "it is kept");

    cache.forget(place.table.id());
    cache.pin(&place.table, Some(&[MODE]), &CancelFlag::new()).unwrap();
    let reads = read();
    let from_memory = cache.text(&place.table, MODE);
    assert_eq!(from_memory.dictionary().unwrap(), dictionary);
    assert_eq!(from_memory.mappings().unwrap(), from_disk.mappings().unwrap());
    assert_eq!(read(), reads, "nothing is read from disk");
}

#[test]
fn a_small_column_without_dictionary_gets_one_by_row() {
    let place = table(Codec::None, 130, 1000);
    let reason = text_supported(&place.table, COMMENT).unwrap_err();
    assert!(reason.contains("column 'comment' of table 't'"), "{reason}");
    assert!(reason.contains("pelton load --objective smallest"), "{reason}");
    for column in [0, MODE, NULL] {
        text_supported(&place.table, column).unwrap();
    }
    let text = column_dictionary(&place.table, COMMENT, &engine(), &CancelFlag::new()).unwrap();
    check_rows(&place.table, COMMENT, &text);
    let cache = cache();
    assert!(cache.text(&place.table, COMMENT).is_by_row().unwrap());
    assert!(!cache.text(&place.table, MODE).is_by_row().unwrap());
}

#[test]
fn numbers_have_no_dictionary() {
    let place = table(Codec::None, 130, 1000);
    let error = column_dictionary(&place.table, 0, &engine(), &CancelFlag::new()).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::InvalidInput);
    assert!(error.to_string().contains("column 'id' of table 't'"), "{error}");
}

#[test]
fn a_damaged_chunk_has_no_dictionary_and_is_tried_again() {
    let place = table(Codec::None, 130, 1000);
    let cache = cache();
    let text = cache.text(&place.table, MODE);
    damage(&place.table, 9, MODE);
    let error = text.dictionary().unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Corrupt);
    assert!(error.to_string().contains("row group 9"), "{error}");
    damage(&place.table, 9, MODE);
    text.dictionary().unwrap();
}

#[test]
fn reading_a_dictionary_can_be_cancelled() {
    let place = table(Codec::None, 130, 1000);
    let cancel = CancelFlag::new();
    cancel.cancel();
    let error = cache().text(&place.table, MODE).load(&cancel).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Cancelled);
}
