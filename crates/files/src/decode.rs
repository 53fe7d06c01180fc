//! The bytes of a text file as UTF-8, whatever it is written in.
//!
//! The first bytes decide: a byte order mark of UTF-8 is dropped, one of UTF-16 names the encoding, and without one the
//! caller's word holds. UTF-8 passes through as it is; whether it is valid is for the parsers to say, who know the line.
//!
//! Bound: `STEP_BYTES` of the file and their text, at most three times as much.

use std::io::{Error as IoError, ErrorKind, Read, Result};

use pelton_error::Error;

use crate::options::Encoding;

const STEP_BYTES: usize = 64 << 10;

/// Code points of bytes 0x80 to 0x9f in Windows-1252; all other bytes are their own. The five bytes that it leaves
/// undefined are the control characters that ISO 8859-1 has there.
const WINDOWS_1252: [char; 32] = [
    '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž', '\u{8f}', '\u{90}',
    '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}', 'ž', 'Ÿ',
];

/// `inner`, whose text is in `encoding` unless its first bytes say otherwise, as UTF-8.
pub(crate) fn decoded(
    mut inner: Box<dyn Read + Send>,
    encoding: Encoding,
    name: String,
) -> Result<Box<dyn Read + Send>> {
    let mut start = Vec::with_capacity(3);
    inner.by_ref().take(3).read_to_end(&mut start)?;
    let (encoding, mark) = match start[..] {
        [0xef, 0xbb, 0xbf, ..] => (Encoding::Utf8, 3),
        [0xff, 0xfe, ..] => (Encoding::Utf16, 2),
        [0xfe, 0xff, ..] => (Encoding::Utf16Be, 2),
        _ => (encoding, 0),
    };
    let rest = std::io::Cursor::new(start.split_off(mark)).chain(inner);
    if encoding == Encoding::Utf8 {
        return Ok(Box::new(rest));
    }
    Ok(Box::new(Transcoder {
        inner: rest,
        encoding,
        name,
        rest: Vec::new(),
        text: String::new(),
        position: 0,
    }))
}

struct Transcoder<R> {
    inner: R,
    encoding: Encoding,
    name: String,
    /// Bytes of a character that is not complete.
    rest: Vec<u8>,
    text: String,
    /// Bytes of `text` that were handed out.
    position: usize,
}

impl<R: Read> Transcoder<R> {
    /// Decodes the next bytes; leaves `text` empty at the end.
    fn refill(&mut self) -> Result<()> {
        self.text.clear();
        self.position = 0;
        while self.text.is_empty() {
            let mut bytes = std::mem::take(&mut self.rest);
            let before = bytes.len();
            self.inner.by_ref().take(STEP_BYTES as u64).read_to_end(&mut bytes)?;
            let is_end = bytes.len() == before;
            match self.encoding {
                Encoding::Utf8 => unreachable!("UTF-8 passes through"),
                Encoding::Windows1252 => self.text.extend(bytes.iter().map(|&byte| match byte {
                    0x80..=0x9f => WINDOWS_1252[usize::from(byte - 0x80)],
                    _ => char::from(byte),
                })),
                Encoding::Utf16 => self.take_utf16(bytes, u16::from_le_bytes, is_end)?,
                Encoding::Utf16Be => self.take_utf16(bytes, u16::from_be_bytes, is_end)?,
            }
            if is_end {
                return Ok(());
            }
        }
        Ok(())
    }

    fn take_utf16(&mut self, mut bytes: Vec<u8>, unit: fn([u8; 2]) -> u16, is_end: bool) -> Result<()> {
        let mut units: Vec<u16> = bytes.chunks_exact(2).map(|pair| unit([pair[0], pair[1]])).collect();
        // The second half of a pair, or of a unit, may not be there yet.
        if !is_end && units.last().is_some_and(|unit| (0xd800..0xdc00).contains(unit)) {
            units.pop();
        }
        self.rest = bytes.split_off(units.len() * 2);
        for character in char::decode_utf16(units) {
            self.text.push(character.map_err(|_| self.wrong())?);
        }
        if is_end && !self.rest.is_empty() { Err(self.wrong()) } else { Ok(()) }
    }

    fn wrong(&self) -> IoError {
        let message = format!("{}: the text is not UTF-16; name its encoding (--encoding)", self.name);
        IoError::new(ErrorKind::ConnectionAborted, Error::invalid_input(message))
    }
}

impl<R: Read> Read for Transcoder<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        if self.position == self.text.len() {
            self.refill()?;
        }
        let count = buffer.len().min(self.text.len() - self.position);
        buffer[..count].copy_from_slice(&self.text.as_bytes()[self.position..self.position + count]);
        self.position += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(bytes: &[u8], encoding: Encoding) -> Result<String> {
        let mut text = String::new();
        decoded(Box::new(std::io::Cursor::new(bytes.to_vec())), encoding, "a.csv".into())?
            .read_to_string(&mut text)?;
        Ok(text)
    }

    fn utf16(text: &str, unit: fn(u16) -> [u8; 2]) -> Vec<u8> {
        text.encode_utf16().flat_map(unit).collect()
    }

    #[test]
    fn every_encoding_becomes_the_same_text() {
        let text = "a;ä€😀\r\n".repeat(20_000);
        let little = utf16(&text, u16::to_le_bytes);
        let marked = [&b"\xff\xfe"[..], &little].concat();
        assert_eq!(text_of(&marked, Encoding::Utf8).unwrap(), text);
        assert_eq!(text_of(&little, Encoding::Utf16).unwrap(), text);
        let big = utf16(&text, u16::to_be_bytes);
        assert_eq!(text_of(&[&b"\xfe\xff"[..], &big].concat(), Encoding::Windows1252).unwrap(), text);
        assert_eq!(text_of(&big, Encoding::Utf16Be).unwrap(), text);
        assert_eq!(text_of(b"\xef\xbb\xbfx\xff", Encoding::Utf8).unwrap_err().kind(), ErrorKind::InvalidData);
        assert_eq!(text_of(b"\x80\xe4\xff", Encoding::Windows1252).unwrap(), "€äÿ");
        for short in [&b""[..], b"a", b"ab"] {
            assert_eq!(text_of(short, Encoding::Utf8).unwrap().as_bytes(), short);
        }
    }

    #[test]
    fn half_a_character_is_an_error_that_names_the_file() {
        for bytes in [&b"a\0b"[..], b"\x00\xd8", b"\x00\xd8a\0"] {
            let error = text_of(bytes, Encoding::Utf16).unwrap_err().to_string();
            assert!(error.contains("a.csv: the text is not UTF-16"), "{error}");
        }
    }
}
