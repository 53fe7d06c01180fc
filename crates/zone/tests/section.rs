//! The bytes of a section: those of version 1 stay readable, and no bytes at all do harm.

use pelton_chunk::types::{ByteValues, Column, Validity, Values};
use pelton_error::ErrorKind;
use pelton_zone::{
    ColumnTest, CompareOp, Scalar, SkipKinds, ZoneMap, ZoneOptions, read_zone_maps, write_zone_maps,
};
use proptest::prelude::*;

const OPTIONS: ZoneOptions = ZoneOptions { bins: 8, bloom_bytes: 32, bloom_hashes: 8 };

/// One chunk of every form that a record can take.
fn columns() -> Vec<Column> {
    let nullable = |values: Values, valid: &[bool]| Column {
        values,
        validity: Some(Validity::from_bools(valid.iter().copied())),
    };
    let mut short = ByteValues::default();
    ["ASIA", "AFRICA", "ASIA", ""].iter().for_each(|text| short.push(text.as_bytes()).unwrap());
    let mut long = ByteValues::default();
    [[b'k'; 70], [u8::MAX; 70]].iter().for_each(|text| long.push(text).unwrap());
    vec![
        Column::new(Values::I32(vec![-5, 0, 7, 7, 1_000])),
        nullable(Values::F64(vec![0.25, f64::NAN, -0.0, 9.0]), &[true, true, true, false]),
        nullable(Values::U8(vec![1, 2]), &[false, false]),
        Column::new(Values::Bytes(short)),
        Column::new(Values::Bytes(long)),
        Column::new(Values::U64(vec![u64::MAX, 0])),
        Column::new(Values::I64((0..100).map(|value| value * 77).collect())),
    ]
}

fn zones() -> Vec<ZoneMap> {
    columns().iter().map(|column| ZoneMap::build(column, &OPTIONS).0).collect()
}

/// Lines of 32 hexadecimal digits.
fn to_hex(bytes: &[u8]) -> String {
    let line = |line: &[u8]| line.iter().map(|byte| format!("{byte:02x}")).collect::<String>() + "\n";
    bytes.chunks(16).map(line).collect()
}

#[test]
fn version_1_is_written_and_read_as_ever() {
    let golden = include_str!("golden/zone_maps_v1.hex");
    assert_eq!(to_hex(&write_zone_maps(&zones())), golden);
    let digits: Vec<u8> = golden.bytes().filter(u8::is_ascii_hexdigit).collect();
    let bytes: Vec<u8> =
        digits.chunks(2).map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect();
    assert_eq!(read_zone_maps(&bytes, zones().len()).unwrap(), zones());
}

#[test]
fn no_row_groups_make_an_empty_section() {
    assert_eq!(read_zone_maps(&write_zone_maps(&[]), 0).unwrap(), []);
}

#[test]
fn a_zone_map_of_the_default_size_takes_about_1360_bytes() {
    let column = Column::new(Values::I64((0..500).map(|value| value * 1000).collect()));
    let (zone, _) = ZoneMap::build(&column, &ZoneOptions::default());
    assert_eq!(zone.stored_bytes(), 80 + 256 + 1024);
    assert_eq!(write_zone_maps(&[zone.clone(), zone]).len(), 32 + 2 * 80 + 2 * (256 + 1024));
}

#[test]
fn every_cut_of_a_section_is_refused() {
    let section = write_zone_maps(&zones());
    for len in 0..section.len() {
        let error = read_zone_maps(&section[..len], zones().len()).unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::Corrupt, "{len}: {error}");
    }
    let longer = [section, vec![0; 8]].concat();
    assert!(read_zone_maps(&longer, zones().len()).is_err());
}

#[test]
fn a_wrong_count_is_refused_before_anything_is_reserved() {
    let section = write_zone_maps(&zones());
    for count in [0, zones().len() - 1, zones().len() + 1, usize::MAX / 80, usize::MAX] {
        assert!(read_zone_maps(&section, count).is_err());
    }
}

#[test]
fn a_newer_version_asks_for_a_newer_program() {
    let mut section = write_zone_maps(&zones());
    section[4] = 2;
    let error = read_zone_maps(&section, zones().len()).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Unsupported);
    assert!(error.to_string().contains("version 2"), "{error}");
}

/// Whatever was read can be asked anything.
fn ask(zones: &[ZoneMap]) {
    let constants = [
        Scalar::Int(7),
        Scalar::Int(i128::MIN),
        Scalar::Int(i128::MAX),
        Scalar::Float(0.25),
        Scalar::Float(-0.0),
        Scalar::Bytes(b"ASIA".to_vec()),
        Scalar::Bytes(vec![b'k'; 66]),
    ];
    let ops =
        [CompareOp::Eq, CompareOp::NotEq, CompareOp::Lt, CompareOp::LtEq, CompareOp::Gt, CompareOp::GtEq];
    let compared = constants.iter().flat_map(|value| ops.map(|op| ColumnTest::Compare(op, value.clone())));
    let prefixed =
        [&b"A"[..], b"", b"kkkkkkkkk", &[u8::MAX; 65]].map(|prefix| ColumnTest::StartsWith(prefix.to_vec()));
    for test in compared.chain(prefixed).chain([ColumnTest::In(constants.to_vec()), ColumnTest::IsNull]) {
        for zone in zones {
            let _ = (zone.test(&test, SkipKinds::ALL), zone.matches_all(&test));
            assert!((0.0..=1.0).contains(&zone.selectivity(&test)), "{test:?} {zone:?}");
        }
    }
}

#[test]
fn every_flipped_bit_is_refused_or_harmless() {
    let section = write_zone_maps(&zones());
    for bit in 0..section.len() * 8 {
        let mut flipped = section.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        if let Ok(zones) = read_zone_maps(&flipped, zones().len()) {
            ask(&zones);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_do_no_harm(
        bytes in prop::collection::vec(any::<u8>(), 0..600),
        count in 0..5usize,
        with_header in any::<bool>(),
    ) {
        let mut bytes = bytes;
        if with_header && bytes.len() >= 32 + count * 80 {
            // A header that agrees with the bytes, so that the records are reached.
            let heap_bytes = (bytes.len() - 32 - count * 80) as u64;
            bytes[..6].copy_from_slice(b"PZON\x01\x00");
            bytes[6..8].copy_from_slice(&80u16.to_le_bytes());
            bytes[8..16].copy_from_slice(&(count as u64).to_le_bytes());
            bytes[16..24].copy_from_slice(&(32 + count as u64 * 80).to_le_bytes());
            bytes[24..32].copy_from_slice(&heap_bytes.to_le_bytes());
        }
        if let Ok(zones) = read_zone_maps(&bytes, count) {
            ask(&zones);
        }
    }

    #[test]
    fn damaged_sections_do_no_harm(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        from in 0..3usize,
    ) {
        let mut section = write_zone_maps(&zones());
        // The header, the records, or the whole is hit.
        let end = [32, 32 + zones().len() * 80, section.len()][from];
        for (place, byte) in damage {
            section[place.index(end)] = byte;
        }
        if let Ok(zones) = read_zone_maps(&section, zones().len()) {
            ask(&zones);
        }
    }
}
