//! Files that are not what was written: detected or harmless, and explained.

use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use pelton_error::{ErrorKind, Result};
use pelton_store::{Table, TableWriter, WriteMode, WriteOptions};

use crate::fixture::*;

fn file(place: &Place, prefix: &str) -> PathBuf {
    let entries = std::fs::read_dir(place.dir.path().join("t")).unwrap().map(|entry| entry.unwrap().path());
    let mut found = entries.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(prefix));
    found.next().unwrap()
}

/// All rows and metadata, those that only an append reads included.
fn read_everything(place: &Place) -> Result<(RecordBatch, String)> {
    let table = place.warehouse.table("t")?;
    let schema = table.schema().clone();
    TableWriter::begin(&place.warehouse, "t", schema, WriteMode::Append, WriteOptions::default())?;
    read_all(&engine(), &table)
}

#[test]
fn single_bit_flips_are_detected_or_harmless() {
    let place = place();
    let rows = batch(0, 1200);
    let plan = plan_for(&rows, &pelton_store::SampleOptions::default());
    let table = write(&place.warehouse, "t", WriteMode::Create, &rows, &plan).unwrap().commit().unwrap();
    let expected = read_everything(&place).unwrap();
    let paths = ["data-", "meta-", "manifest"].map(|prefix| file(&place, prefix));
    let (flips, mut detected) = (tries("PELTON_FLIPS", 1000), 0);
    for flip in 0..flips {
        let path = &paths[flip as usize % 3];
        let random = (flip + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let bit = match flip % 3 {
            0 => bit_of_some_chunk(&table, random),
            _ => random % (std::fs::metadata(path).unwrap().len() * 8),
        };
        let unflip = flip_bit(path, bit);
        match read_everything(&place) {
            Ok(found) => assert!(found == expected, "bit {bit} of {} changed the answer", path.display()),
            Err(error) => {
                let is_fitting = matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported);
                assert!(is_fitting && error.to_string().contains(path.to_str().unwrap()), "{error}");
                detected += 1;
            }
        }
        unflip();
    }
    // What is left is padding, and the case of hexadecimal digits.
    assert!(detected > flips * 95 / 100, "only {detected} of {flips} flips were detected");
}

/// A bit of the data file that is not padding.
fn bit_of_some_chunk(table: &Table, random: u64) -> u64 {
    let columns = table.schema().columns.len() as u64;
    let index = random % (columns * table.row_group_count() as u64);
    let chunk = table.chunk((index / columns) as usize, (index % columns) as usize).unwrap();
    chunk.byte_offset * 8 + random.rotate_left(32) % (chunk.stored_bytes * 8)
}

/// Flips one bit; the closure returned flips it back.
fn flip_bit(path: &Path, bit: u64) -> impl FnOnce() + use<> {
    let file = std::fs::File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, bit / 8).unwrap();
    file.write_all_at(&[byte[0] ^ (1 << (bit % 8))], bit / 8).unwrap();
    move || file.write_all_at(&byte, bit / 8).unwrap()
}

#[test]
fn truncated_and_grown_files_are_named_with_their_lengths() {
    let place = place();
    save(&place.warehouse, "t", WriteMode::Create, &batch(0, 1200)).unwrap();
    for prefix in ["data-", "meta-"] {
        let path = file(&place, prefix);
        let whole = std::fs::read(&path).unwrap();
        for (len, word) in [(0, "truncated"), (whole.len() / 2, "truncated"), (whole.len() + 1, "longer")] {
            std::fs::File::options().write(true).open(&path).unwrap().set_len(len as u64).unwrap();
            let error = read_everything(&place).unwrap_err();
            assert_eq!(error.kind(), &ErrorKind::Corrupt);
            let message = error.to_string();
            assert!(message.contains(path.to_str().unwrap()) && message.contains(word), "{message}");
            assert!(message.contains(&whole.len().to_string()), "{message}");
        }
        std::fs::write(&path, whole).unwrap();
    }
    let manifest = file(&place, "manifest");
    let whole = std::fs::read(&manifest).unwrap();
    std::fs::write(&manifest, &whole[..whole.len() / 2]).unwrap();
    assert_eq!(read_everything(&place).unwrap_err().kind(), &ErrorKind::Corrupt);
}

#[test]
fn missing_files_are_named_and_the_table_can_be_replaced() {
    for prefix in ["data-", "meta-"] {
        let place = place();
        save(&place.warehouse, "t", WriteMode::Create, &batch(0, 100)).unwrap();
        let path = file(&place, prefix);
        std::fs::remove_file(&path).unwrap();
        let error = read_everything(&place).unwrap_err();
        let message = error.to_string();
        assert_eq!(error.kind(), &ErrorKind::Corrupt);
        assert!(message.contains(path.to_str().unwrap()) && message.contains("missing"), "{message}");
        assert!(save(&place.warehouse, "t", WriteMode::Append, &batch(0, 100)).is_err());

        save(&place.warehouse, "t", WriteMode::Replace, &batch(7, 100)).unwrap();
        assert_eq!(read_everything(&place).unwrap().0, batch(7, 100));
        assert_eq!(std::fs::read_dir(place.dir.path().join("t")).unwrap().count(), 4);
    }
}

#[test]
fn files_of_another_table_are_not_taken_for_this_one() {
    let place = place();
    save(&place.warehouse, "t", WriteMode::Create, &batch(0, 1200)).unwrap();
    let (data, meta) = (file(&place, "data-"), file(&place, "meta-"));
    let (data, meta) = (std::fs::read(data).unwrap(), std::fs::read(meta).unwrap());
    save(&place.warehouse, "t", WriteMode::Replace, &batch(1, 1200)).unwrap();
    for (prefix, other) in [("data-", data), ("meta-", meta)] {
        let path = file(&place, prefix);
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, other).unwrap();
        assert_eq!(read_everything(&place).unwrap_err().kind(), &ErrorKind::Corrupt);
        std::fs::write(&path, whole).unwrap();
    }
    read_everything(&place).unwrap();
}

#[test]
fn newer_versions_name_the_file_and_the_remedy() {
    let place = place();
    save(&place.warehouse, "t", WriteMode::Create, &batch(0, 100)).unwrap();
    for prefix in ["data-", "meta-", "manifest"] {
        let path = file(&place, prefix);
        let whole = std::fs::read(&path).unwrap();
        let mut newer = whole.clone();
        newer[if prefix == "manifest" { 7 } else { 8 }] = if prefix == "manifest" { b'3' } else { 3 };
        std::fs::write(&path, newer).unwrap();
        let error = read_everything(&place).unwrap_err();
        let message = error.to_string();
        for part in [path.to_str().unwrap(), "format version 3", "up to version 2", "upgrade Pelton"] {
            assert!(message.contains(part), "{message}");
        }
        if prefix == "manifest" {
            assert!(save(&place.warehouse, "t", WriteMode::Replace, &batch(0, 100)).is_err());
        }
        std::fs::write(&path, whole).unwrap();
    }
}

#[test]
fn an_unreadable_directory_is_named() {
    let place = place();
    save(&place.warehouse, "t", WriteMode::Create, &batch(0, 100)).unwrap();
    let dir = place.dir.path().join("t");
    let set = |mode| std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(mode)).unwrap();
    set(0o000);
    let refused = std::fs::read_dir(&dir).is_err();
    let result = place.warehouse.table("t").map(|_| ());
    set(0o755);
    // The superuser may read everything; then there is nothing to refuse.
    assert_eq!(result.is_err(), refused);
    if let Err(error) = result {
        assert_eq!(error.kind(), &ErrorKind::Io);
        assert!(error.to_string().contains(dir.to_str().unwrap()), "{error}");
    }
}

#[test]
fn a_directory_or_garbage_in_place_of_a_file_is_an_error() {
    let place = place();
    save(&place.warehouse, "t", WriteMode::Create, &batch(0, 100)).unwrap();
    let manifest = file(&place, "manifest");
    for garbage in [&b""[..], b"PELTON", b"PELTON 1 0\n", b"PELTON 1 2d06800538d394c2\n", &[0xff; 5000]] {
        std::fs::write(&manifest, garbage).unwrap();
        assert_eq!(read_everything(&place).unwrap_err().kind(), &ErrorKind::Corrupt);
    }
    std::fs::remove_file(&manifest).unwrap();
    std::fs::create_dir(&manifest).unwrap();
    assert_eq!(read_everything(&place).unwrap_err().kind(), &ErrorKind::Io);
}
