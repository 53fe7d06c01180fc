//! Files that were cut, lost, swapped, or written by a newer version: what the user is told.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use pelton_chunk::Codec;
use pelton_engine::{DeviceChoice, SessionOptions};
use pelton_error::{Error, ErrorKind};
use pelton_store::{SampleOptions, WriteMode};
use pelton_testkit::random_rows;

use crate::harness::{Place, answer, options, overwrite};
use crate::readers::readers::change_chunk;

fn place() -> Place {
    let place = Place::new();
    place.load("t", &random_rows(1, 300), WriteMode::Create, 100);
    place
}

/// The error of reading all of the table.
async fn error(place: &Place) -> Error {
    let session = place.session(&options());
    answer(&session, "SELECT * FROM t WHERE int > 0 OR int IS NULL OR int <= 0").await.unwrap_err()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_truncated_file_is_named_with_what_to_do() {
    for prefix in ["data-", "meta-", "manifest"] {
        let place = place();
        let path = place.file("t", prefix);
        let bytes = fs::read(&path).unwrap();
        for left in [0, 1, 20, bytes.len() / 2, bytes.len() - 1] {
            overwrite(&path, &bytes[..left]);
            let error = error(&place).await;
            let text = error.to_string();
            assert_eq!(error.kind(), &ErrorKind::Corrupt, "{prefix} cut to {left}: {text}");
            assert!(text.contains(path.to_str().unwrap()), "{text}");
            assert!(text.contains("restore it from a copy or load the table again"), "{text}");
        }
        overwrite(&path, &[bytes.as_slice(), b"more"].concat());
        let text = error(&place).await.to_string();
        assert!(text.contains(path.to_str().unwrap()), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_file_is_named_with_what_to_do() {
    for prefix in ["data-", "meta-"] {
        let place = place();
        let path = place.file("t", prefix);
        fs::remove_file(&path).unwrap();
        let error = error(&place).await;
        let text = error.to_string();
        assert_eq!(error.kind(), &ErrorKind::Corrupt, "{text}");
        assert!(text.contains(&format!("{} is missing", path.display())), "{text}");
        assert!(text.contains("restore it from a copy or load the table again"), "{text}");
    }
    let place = place();
    fs::remove_file(place.file("t", "manifest")).unwrap();
    let error = error(&place).await;
    assert_eq!(error.kind(), &ErrorKind::InvalidInput);
    assert!(error.to_string().contains("t' not found"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_format_version_asks_for_a_newer_program() {
    for (prefix, at, newer) in [("data-", 8, 3), ("meta-", 8, 3), ("manifest", 7, b'3')] {
        let place = place();
        let path = place.file("t", prefix);
        let mut bytes = fs::read(&path).unwrap();
        bytes[at] = newer;
        overwrite(&path, &bytes);
        let error = error(&place).await;
        let text = error.to_string();
        assert_eq!(error.kind(), &ErrorKind::Unsupported, "{text}");
        assert!(text.contains(path.to_str().unwrap()), "{text}");
        assert!(
            text.contains("format version 3") && text.contains("up to version 2; upgrade Pelton"),
            "{text}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_another_table_are_not_taken_for_its_own() {
    for prefix in ["data-", "meta-"] {
        let place = place();
        // The same rows: same lengths, same checksums of chunks, another segment.
        place.load("u", &random_rows(1, 300), WriteMode::Create, 100);
        let (own, other) = (place.file("t", prefix), place.file("u", prefix));
        assert_eq!(fs::metadata(&own).unwrap().len(), fs::metadata(&other).unwrap().len());
        fs::copy(&other, &own).unwrap();
        let error = error(&place).await;
        assert_eq!(error.kind(), &ErrorKind::Corrupt, "{error}");
        assert!(error.to_string().contains(own.to_str().unwrap()), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_chunk_is_named_by_row_group_column_and_file() {
    let place = place();
    let path: PathBuf = place.file("t", "data-");
    let mut bytes = fs::read(&path).unwrap();
    let at = 4096 + 40;
    bytes[at] ^= 0x10;
    overwrite(&path, &bytes);
    let text = error(&place).await.to_string();
    assert!(text.contains("table 't', row group 0, column 'id'"), "{text}");
    assert!(text.contains(path.to_str().unwrap()) && text.contains("checksum"), "{text}");
    // Other columns are as good as before.
    let session = place.session(&options());
    answer(&session, "SELECT sum(big) FROM t WHERE big > 0").await.unwrap();
}

/// Ways in which codes of symbols are damaged that no checksum shows: of a chunk of one page and the place of its codes.
type Damage = fn(&mut [u8], std::ops::Range<usize>);

/// Where the symbols of a chunk of one page start; behind 8 bytes of each their lengths.
const SYMBOLS: usize = 128;

fn symbol_count(chunk: &[u8]) -> usize {
    u32::from_le_bytes(chunk[32..36].try_into().unwrap()) as usize
}

const DAMAGES: [(&str, Damage); 9] = [
    ("a symbol of no bytes", |chunk, _| chunk[SYMBOLS + 8 * symbol_count(chunk)] = 0),
    ("a symbol of 9 bytes", |chunk, _| chunk[SYMBOLS + 9 * symbol_count(chunk) - 1] = 9),
    ("a symbol too few", |chunk, _| chunk[32] -= 1),
    ("a symbol too many", |chunk, _| chunk[32] += 1),
    ("a code beyond the table", |chunk, codes| chunk[codes.start] = symbol_count(chunk) as u8),
    ("an escape at the end", |chunk, codes| chunk[codes.end - 1] = 255),
    ("a byte of text more than the codes stand for", |chunk, _| chunk[64 + 32] += 1),
    ("lengths that do not fit the codes", |chunk, _| chunk[64 + 16] += 1),
    ("a page that is cut", |chunk, _| chunk[64 + 8] -= 1),
];

#[tokio::test(flavor = "multi_thread")]
async fn damaged_symbols_are_named_by_table_row_group_and_column() {
    for (what, damage) in DAMAGES {
        let place = Place::new();
        let texts = (0..300).map(|row| Some(format!("https://www.example.org/page/{}?q=ü{row}", row % 7)));
        let texts: ArrayRef = Arc::new(texts.collect::<StringArray>());
        let rows = RecordBatch::try_from_iter([("text", texts)]).unwrap();
        let choose = SampleOptions {
            row_group_rows: vec![100],
            force_encoding: Some("fsst+plain".parse().unwrap()),
            force_codec: Some(Codec::None),
            ..SampleOptions::default()
        };
        place.load_as("t", &rows, WriteMode::Create, choose);
        change_chunk(&place.table("t"), 1, 0, |chunk| {
            let word = |at: usize| u32::from_le_bytes(chunk[at..at + 4].try_into().unwrap()) as usize;
            let (page, page_bytes, code_count) = (word(64), word(64 + 12), word(64 + 40));
            assert!((20..255).contains(&symbol_count(chunk)), "{}", symbol_count(chunk));
            damage(chunk, page + page_bytes - code_count..page + page_bytes);
        });
        let on_host = SessionOptions { device: DeviceChoice::Host, ..options() };
        for (options, sql) in [
            (options(), "SELECT * FROM t"),
            (options(), "SELECT count(*) FROM t WHERE text LIKE '%q=%'"),
            (on_host, "SELECT text, count(*) FROM t GROUP BY text"),
        ] {
            let error = answer(&place.session(&options), sql).await.unwrap_err();
            assert_eq!(error.kind(), &ErrorKind::Corrupt, "{what}: {error}");
            let text = error.to_string();
            assert!(text.contains("table 't', row group 1, column 'text'"), "{what}: {text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_table_can_be_replaced_and_dropped() {
    for prefix in ["data-", "meta-", "manifest"] {
        let place = place();
        let path = place.file("t", prefix);
        overwrite(&path, b"nothing of a table");
        place.load("t", &random_rows(2, 50), WriteMode::Replace, 100);
        let session = place.session(&options());
        let count = answer(&session, "SELECT count(id) AS n FROM t").await.unwrap();
        assert!(count.contains("| 50 |"), "{count}");
        assert_eq!(place.files("t").len(), 3, "{:?}", place.files("t"));
    }
}
