//! Files that were cut, lost, swapped, or written by a newer version: what the user is told.

use std::fs;
use std::path::PathBuf;

use pelton_error::{Error, ErrorKind};
use pelton_store::WriteMode;
use pelton_testkit::random_rows;

use crate::harness::{Place, answer, options, overwrite};

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
