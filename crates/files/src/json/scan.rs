//! One line of JSON taken apart as far as inference needs it: the members of the object and what kind each value is.
//!
//! Nothing is copied. A line with nested values, or with an escape in a name, is only checked as far as it is walked;
//! the caller has the format library look at it as a whole.

use crate::seen::Seen;

/// What the value of a member is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Null,
    Scalar(Seen),
    /// A list or an object.
    Nested,
}

/// Calls `on_member` with each member of the object that `line` is; `None` where it is no object.
/// The name is as it is written, between its quotes.
pub(crate) fn members(line: &[u8], mut on_member: impl FnMut(&[u8], Kind)) -> Option<()> {
    let mut cursor = Cursor { bytes: line, at: 0 };
    cursor.expect(b'{')?;
    if cursor.peek()? != b'}' {
        loop {
            cursor.expect(b'"')?;
            let name = cursor.string()?;
            cursor.expect(b':')?;
            let kind = cursor.value()?;
            on_member(name, kind);
            match cursor.peek()? {
                b',' => cursor.at += 1,
                _ => break,
            }
        }
    }
    cursor.expect(b'}')?;
    cursor.skip_space();
    (cursor.at == line.len()).then_some(())
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn skip_space(&mut self) {
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
    }

    /// The next byte that is no space.
    fn peek(&mut self) -> Option<u8> {
        self.skip_space();
        self.bytes.get(self.at).copied()
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        let found = self.peek()? == byte;
        self.at += 1;
        found.then_some(())
    }

    /// The rest of a string after its first quote.
    fn string(&mut self) -> Option<&'a [u8]> {
        let start = self.at;
        loop {
            let found = memchr::memchr2(b'"', b'\\', &self.bytes[self.at..])?;
            self.at += found + 1;
            if self.bytes[self.at - 1] == b'"' {
                return Some(&self.bytes[start..self.at - 1]);
            }
            self.bytes.get(self.at)?;
            self.at += 1;
        }
    }

    fn value(&mut self) -> Option<Kind> {
        match self.peek()? {
            b'"' => {
                self.at += 1;
                let is_special = matches!(self.string()?, b"NaN" | b"Infinity" | b"-Infinity");
                Some(Kind::Scalar(if is_special { Seen::SPECIAL } else { Seen::TEXT }))
            }
            b'{' | b'[' => self.nested(),
            b't' => self.word(b"true", Kind::Scalar(Seen::BOOL)),
            b'f' => self.word(b"false", Kind::Scalar(Seen::BOOL)),
            b'n' => self.word(b"null", Kind::Null),
            b'-' | b'0'..=b'9' => self.number(),
            _ => None,
        }
    }

    fn word(&mut self, word: &[u8], kind: Kind) -> Option<Kind> {
        self.at += word.len();
        self.bytes[self.at - word.len()..].starts_with(word).then_some(kind)
    }

    fn number(&mut self) -> Option<Kind> {
        let rest = &self.bytes[self.at..];
        let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
        let length = rest.iter().take_while(|byte| is_part(byte)).count();
        self.at += length;
        let text = std::str::from_utf8(&rest[..length]).ok()?;
        text.parse::<f64>().ok()?;
        Some(Kind::Scalar(Seen::of_number(text)))
    }

    /// To the end of a list or an object.
    fn nested(&mut self) -> Option<Kind> {
        let mut depth = 0_usize;
        while let Some(byte) = self.peek() {
            self.at += 1;
            match byte {
                b'"' => {
                    self.string()?;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' if depth == 1 => return Some(Kind::Nested),
                b'}' | b']' => depth -= 1,
                _ => {}
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &str) -> Option<Vec<String>> {
        let mut all = Vec::new();
        let shown = |name: &[u8], kind| format!("{}: {kind:?}", String::from_utf8_lossy(name));
        members(line.as_bytes(), |name, kind| all.push(shown(name, kind)))?;
        Some(all)
    }

    #[test]
    fn members_are_told_with_their_kinds() {
        let found =
            shown(r#" {"a" : 1, "b\"":"x\\","c":[{"d":"]"}], "e":null,"f":true,"g":-1.5e3,"h":"NaN"} "#)
                .unwrap();
        let kind = |seen: Seen| format!("{:?}", Kind::Scalar(seen));
        assert_eq!(
            found,
            [
                format!("a: {}", kind(Seen::INT)),
                format!("b\\\": {}", kind(Seen::TEXT)),
                "c: Nested".to_owned(),
                "e: Null".to_owned(),
                format!("f: {}", kind(Seen::BOOL)),
                format!("g: {}", kind(Seen::FLOAT)),
                format!("h: {}", kind(Seen::SPECIAL)),
            ]
        );
        assert_eq!(shown("{}").unwrap(), [""; 0]);
    }

    #[test]
    fn what_is_no_object_is_none() {
        for line in [
            "",
            "1",
            "[1]",
            "{",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1",
            "{\"a\":1}x",
            "{\"a\":1,}",
            "{\"a\":tru}",
            "{\"a\":\"x}",
            "{\"a\":1-}",
        ] {
            assert_eq!(shown(line), None, "{line}");
        }
    }
}
