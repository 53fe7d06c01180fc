//! One line of JSON taken apart as far as inference needs it: the members of the object and what each value is.
//!
//! Only names are copied, and those only within lists and objects or where they have escapes.
//!
//! Bound: the stack of [`DEPTH_MAX`] levels.

use std::borrow::Cow;

use super::member::{Clash, MemberSeen, add_member};
use crate::seen::Seen;

/// Lists and objects within each other; a line of more is refused. A guess that is far beyond what tables hold.
const DEPTH_MAX: usize = 100;

/// Why a line has no members.
#[derive(Debug, PartialEq)]
pub(crate) enum Problem {
    /// It is not one object.
    NoObject,
    /// Elements of a list have no type together.
    Clash(Clash),
}

impl Problem {
    /// The same, seen from what holds it.
    fn within(self, step: &str) -> Self {
        match self {
            Self::NoObject => Self::NoObject,
            Self::Clash(clash) => Self::Clash(clash.within(step)),
        }
    }
}

/// Calls `on_member` with each member of the object that `line` is.
pub(crate) fn members(line: &[u8], on_member: impl FnMut(&str, MemberSeen)) -> Result<(), Problem> {
    let mut cursor = Cursor { bytes: line, at: 0 };
    cursor.members(0, on_member)?;
    cursor.skip_space();
    if cursor.at == line.len() { Ok(()) } else { Err(Problem::NoObject) }
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

    /// The members of an object that is `depth` levels down.
    fn members(&mut self, depth: usize, mut on_member: impl FnMut(&str, MemberSeen)) -> Result<(), Problem> {
        self.must(b'{')?;
        if self.peek() != Some(b'}') {
            loop {
                self.must(b'"')?;
                let name = self.string().and_then(unescaped).ok_or(Problem::NoObject)?;
                self.must(b':')?;
                let seen = self.value(depth).map_err(|problem| problem.within(&name))?;
                on_member(&name, seen);
                match self.peek() {
                    Some(b',') => self.at += 1,
                    _ => break,
                }
            }
        }
        self.must(b'}')
    }

    fn must(&mut self, byte: u8) -> Result<(), Problem> {
        self.expect(byte).ok_or(Problem::NoObject)
    }

    fn value(&mut self, depth: usize) -> Result<MemberSeen, Problem> {
        match self.peek() {
            Some(b'{' | b'[') if depth == DEPTH_MAX => Err(Problem::NoObject),
            Some(b'{') => self.object(depth + 1),
            Some(b'[') => self.list(depth + 1),
            _ => self.scalar().map(MemberSeen::Scalar).ok_or(Problem::NoObject),
        }
    }

    fn object(&mut self, depth: usize) -> Result<MemberSeen, Problem> {
        let (mut all, mut clash) = (Vec::new(), None);
        self.members(depth, |name, seen| {
            if let Err(found) = add_member(&mut all, name.to_owned(), seen) {
                clash.get_or_insert(found);
            }
        })?;
        match clash {
            Some(clash) => Err(Problem::Clash(clash)),
            None => Ok(MemberSeen::Object(all)),
        }
    }

    fn list(&mut self, depth: usize) -> Result<MemberSeen, Problem> {
        self.must(b'[')?;
        let mut all = MemberSeen::NOTHING;
        if self.peek() != Some(b']') {
            loop {
                let seen = self.value(depth).map_err(|problem| problem.within("[]"))?;
                all.add(seen).map_err(|clash| Problem::Clash(clash.within("[]")))?;
                match self.peek() {
                    Some(b',') => self.at += 1,
                    _ => break,
                }
            }
        }
        self.must(b']')?;
        Ok(MemberSeen::List(Box::new(all)))
    }

    fn scalar(&mut self) -> Option<Seen> {
        match self.peek()? {
            b'"' => {
                self.at += 1;
                let is_special = matches!(self.string()?, b"NaN" | b"Infinity" | b"-Infinity");
                Some(if is_special { Seen::SPECIAL } else { Seen::TEXT })
            }
            b't' => self.word(b"true", Seen::BOOL),
            b'f' => self.word(b"false", Seen::BOOL),
            b'n' => self.word(b"null", Seen::NOTHING),
            b'-' | b'0'..=b'9' => self.number(),
            _ => None,
        }
    }

    fn word(&mut self, word: &[u8], seen: Seen) -> Option<Seen> {
        self.at += word.len();
        self.bytes[self.at - word.len()..].starts_with(word).then_some(seen)
    }

    fn number(&mut self) -> Option<Seen> {
        let rest = &self.bytes[self.at..];
        let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
        let length = rest.iter().take_while(|byte| is_part(byte)).count();
        self.at += length;
        let text = std::str::from_utf8(&rest[..length]).ok()?;
        text.parse::<f64>().ok()?;
        Some(Seen::of_number(text))
    }
}

/// The name that is written as `name` between its quotes; `None` where an escape is none.
fn unescaped(name: &[u8]) -> Option<Cow<'_, str>> {
    let text = String::from_utf8_lossy(name);
    if !name.contains(&b'\\') {
        return Some(text);
    }
    let (mut plain, mut rest) = (String::new(), text.chars());
    while let Some(letter) = rest.next() {
        if letter != '\\' {
            plain.push(letter);
            continue;
        }
        plain.push(match rest.next()? {
            same @ ('"' | '\\' | '/') => same,
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => match unit(&mut rest)? {
                // A letter beyond 16 bits is written as two units.
                high @ 0xd800..0xdc00 => {
                    let is_pair = rest.next()? == '\\' && rest.next()? == 'u';
                    let low = unit(&mut rest).filter(|low| is_pair && (0xdc00..0xe000).contains(low))?;
                    char::from_u32(0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00))?
                }
                alone => char::from_u32(alone)?,
            },
            _ => return None,
        });
    }
    Some(Cow::Owned(plain))
}

/// Four hexadecimal digits.
fn unit(rest: &mut std::str::Chars<'_>) -> Option<u32> {
    (0..4).try_fold(0, |value, _| Some(16 * value + rest.next()?.to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::{DataType, Field};

    use super::*;

    fn shown(line: &str) -> Option<Vec<String>> {
        let mut all = Vec::new();
        let shown = |name: &str, seen: MemberSeen| format!("{name}: {}", seen.data_type());
        members(line.as_bytes(), |name, seen| all.push(shown(name, seen))).ok()?;
        Some(all)
    }

    /// The type of member `a` of these lines together.
    fn together(lines: &[&str]) -> DataType {
        let mut all = MemberSeen::NOTHING;
        for line in lines {
            members(line.as_bytes(), |_, seen| all.add(seen).unwrap()).unwrap();
        }
        all.data_type()
    }

    fn list_of(data_type: DataType) -> DataType {
        DataType::List(Arc::new(Field::new_list_field(data_type, true)))
    }

    #[test]
    fn members_are_told_with_what_they_are() {
        let line = r#" {"a" : 1, "b\"\u00e9\ud83d\ude00":"x\\","e":null,"f":true,"g":-1.5e3,"h":"NaN"} "#;
        let expected =
            ["a: Int64", "b\"\u{e9}\u{1f600}: Utf8", "e: Utf8", "f: Boolean", "g: Float64", "h: Utf8"];
        assert_eq!(shown(line).unwrap(), expected);
        assert_eq!(shown("{}").unwrap(), [""; 0]);
    }

    #[test]
    fn numbers_in_lists_and_objects_widen_without_a_loss() {
        let check = |lines: &[&str], element| assert_eq!(together(lines), list_of(element), "{lines:?}");
        check(&[r#"{"a":[1]}"#, r#"{"a":[null,2]}"#], DataType::Int64);
        check(&[r#"{"a":[1]}"#, r#"{"a":[1.5]}"#], DataType::Float64);
        check(&[r#"{"a":[9007199254740993]}"#], DataType::Int64);
        check(&[r#"{"a":[9007199254740993,1.5]}"#], DataType::Utf8);
        check(&[r#"{"a":[1.5]}"#, r#"{"a":[9007199254740993]}"#], DataType::Utf8);
        check(&[r#"{"a":[99999999999999999999]}"#], DataType::Utf8);
        check(&[r#"{"a":[]}"#, r#"{"a":null}"#], DataType::Null);
        check(&[r#"{"a":[[]]}"#, r#"{"a":[[1]]}"#], list_of(DataType::Int64));
        let fields = [("id", DataType::Int64), ("price", DataType::Float64)];
        let fields = fields.map(|(name, data_type)| Field::new(name, data_type, true));
        let lines = [r#"{"a":[{"id":9007199254740993}]}"#, r#"{"a":[{"price":1.5},{}]}"#];
        check(&lines, DataType::Struct(fields.into_iter().collect()));
    }

    #[test]
    fn what_has_no_type_together_is_named_by_its_place() {
        let check = |line: &str, expected: &str| match members(line.as_bytes(), |_, _| {}) {
            Err(Problem::Clash(clash)) => assert!(clash.to_string().starts_with(expected), "{clash}"),
            other => panic!("{line}: {other:?}"),
        };
        check(r#"{"a":[1,[2]]}"#, "column 'a[]' is a list or an object in some rows and not in others");
        check(r#"{"a":[[2],{}]}"#, "column 'a[]' is a list in some rows and an object in others");
        check(r#"{"a":{"b":[{"c":1},{"c":[1]}]}}"#, "column 'a.b[].c' is a list or an object in some rows");
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
        assert!(shown(&nested(DEPTH_MAX)).is_some());
        assert!(shown(&nested(DEPTH_MAX + 1)).is_none());
        assert!(shown(&nested(1_000_000)).is_none());
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
            "{\"a\":[1,]}",
            "{\"a\":[1}",
            "{\"a\":{1}}",
            "{\"a\\x\":1}",
            "{\"\\ud800\":1}",
        ] {
            assert_eq!(shown(line), None, "{line}");
        }
    }
}
