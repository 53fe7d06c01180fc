//! Symbols and codes, beside the crate that writes them; damage that only decoding finds.

use pelton_error::ErrorKind;

use super::*;
use crate::lanes::VECTOR;

fn strings(texts: &[&[u8]]) -> ByteValues {
    let mut strings = ByteValues::default();
    texts.iter().for_each(|text| strings.push(text).unwrap());
    strings
}

/// Decodes one page of `rows` strings with these symbols.
fn decoded(body: &[u8], params: PageParams, rows: usize, section: &[u8]) -> Result<ByteValues> {
    let symbols = Symbols::from_bytes(section, section.len() / SYMBOL_STORED_BYTES)?;
    let mut found = ByteValues::default();
    decode(&Page { rows, params, body }, &symbols, &mut found)?;
    Ok(found)
}

#[test]
fn texts_are_what_the_crate_that_wrote_them_reads() {
    let urls: Vec<String> =
        (0..3000).map(|row| format!("http://example.com/a/{}?page={}", row % 17, row * 7919)).collect();
    let mut texts: Vec<&[u8]> = urls.iter().map(|url| url.as_bytes()).collect();
    texts.extend([&b""[..], b"\0", b"\0\0\0", &[255; 9], "schön ≠ schon".as_bytes(), b"x"]);
    texts.truncate(3 * VECTOR);
    let values = strings(&texts);
    let compressor = train(&values, None);
    let (count, section) = symbols_to_bytes(&compressor);
    assert!((100..=SYMBOLS_MAX).contains(&count) && section.len() == count * SYMBOL_STORED_BYTES);

    let mut body = Vec::new();
    let params = encode(&compressor, &texts, &mut body).unwrap();
    assert_eq!(body_bytes(&params, texts.len()), Some(body.len() as u64));
    assert!(body.len() * 2 < values.data.len(), "{} of {}", body.len(), values.data.len());
    let found = decoded(&body, params, texts.len(), &section).unwrap();
    assert!(found == values);

    let theirs = compressor.decompressor();
    for text in texts {
        assert_eq!(theirs.decompress(&compressor.compress(text)), text);
    }
}

#[test]
fn damage_is_corrupt() {
    let texts: Vec<&[u8]> = vec![b"abcabcabcabc", b"", b"abcQ"];
    let compressor = train(&strings(&[&b"abc".repeat(100)[..]]), None);
    let (count, section) = symbols_to_bytes(&compressor);
    let mut body = Vec::new();
    let params = encode(&compressor, &texts, &mut body).unwrap();
    assert!(decoded(&body, params, 3, &section).unwrap() == strings(&texts));
    let codes = body.len() - params.count as usize;
    let escaped = codes + body[codes..].iter().position(|code| *code == ESCAPE).unwrap();
    assert_eq!(escaped + 2, body.len(), "Q has no symbol and is last");

    let is_corrupt = |body: &[u8], params, section: &[u8], what: &str| {
        let error = decoded(body, params, 3, section).unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::Corrupt, "{what}");
    };
    let with = |at: usize, byte: u8| {
        let mut bytes = body.clone();
        bytes[at] = byte;
        bytes
    };
    is_corrupt(&with(codes, count as u8), params, &section, "a code without a symbol");
    is_corrupt(
        &with(body.len() - 1, 0),
        PageParams { base_of_bases: 15, ..params },
        &section,
        "a byte too few",
    );
    is_corrupt(
        &with(body.len() - 1, 0),
        PageParams { base_of_bases: 17, ..params },
        &section,
        "a byte too many",
    );
    is_corrupt(&with(escaped, 0), params, &section, "an escaped byte as a code");
    is_corrupt(&with(body.len() - 2, 0), params, &section, "no escape");
    is_corrupt(
        &with(body.len() - 1, ESCAPE),
        PageParams { base_of_bases: 1, ..params },
        &section,
        "too much text",
    );

    let length_at = count * SYMBOL_BYTES;
    for length in [0, 9, 255, section[length_at] - 1] {
        let mut damaged = section.clone();
        damaged[length_at] = length;
        is_corrupt(&body, params, &damaged, "a symbol's length");
    }
    let impossible = PageParams { base_of_bases: 8 * u64::from(params.count) + 1, ..params };
    assert_eq!(body_bytes(&impossible, 3), None);
}

#[test]
fn a_text_that_ends_with_an_escape_is_corrupt() {
    let params = PageParams { count: 1, base: 1, base_of_bases: 1, ..PageParams::default() };
    let error = decoded(&[ESCAPE], params, 1, &[]).unwrap_err();
    assert!(error.to_string().contains("escape"), "{error}");
}
