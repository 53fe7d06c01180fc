//! Whole records cut into fields: where each wanted field lies, without a copy unless a quote or escape is within.
//!
//! ```text
//!   1,"x, y","say ""hi"""⏎        spans of the text: 1 | x, y        of `extra`: say "hi"
//! ```
//!
//! Blank lines are skipped, but where there is only one column: there they are its NULLs. Text after a closing quote
//! belongs to the field.

use memchr::{memchr, memchr2};

use crate::text::Syntax;

/// A field is quoted, so that it may be empty and yet not NULL.
const QUOTED: u32 = 1 << 31;
/// A field lies in `extra`.
const EXTRA: u32 = 1 << 30;
const OFFSET: u32 = EXTRA - 1;

#[derive(Debug, Clone, Copy)]
struct Span {
    /// Its offset and two flags.
    start: u32,
    end: u32,
}

/// The fields of the wanted columns.
#[derive(Debug)]
pub(crate) struct Split {
    /// Where each record begins.
    pub(crate) row_starts: Vec<u32>,
    columns: Vec<Vec<Span>>,
    extra: String,
}

/// Why a block cannot be split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unsplit {
    /// The record at `start` has another number of fields.
    Ragged { start: usize, found: usize },
    /// The record at `start` ends within quotes.
    Unclosed { start: usize },
}

impl Split {
    /// Splits `text`, whose records have `slots.len()` fields. `slots` says for each column where its fields go, and how
    /// many columns are wanted follows.
    pub(crate) fn of(text: &str, syntax: Syntax, slots: &[Option<usize>]) -> Result<Self, Unsplit> {
        Splitter::new(text, syntax, slots).run(usize::MAX, true)
    }

    /// The same of the first `row_count` records; those of another width are cut or left short.
    pub(crate) fn head(
        text: &str,
        syntax: Syntax,
        slots: &[Option<usize>],
        row_count: usize,
    ) -> Result<Self, Unsplit> {
        Splitter::new(text, syntax, slots).run(row_count, false)
    }

    pub(crate) fn row_count(&self) -> usize {
        self.row_starts.len()
    }

    /// The fields in slot `slot`, with whether each was quoted; NULL where a short record lacks it.
    pub(crate) fn fields<'a>(&'a self, text: &'a str, slot: usize) -> impl Iterator<Item = (&'a str, bool)> {
        (0..self.columns[slot].len()).map(move |row| self.field(text, slot, row))
    }

    pub(crate) fn field<'a>(&'a self, text: &'a str, slot: usize, row: usize) -> (&'a str, bool) {
        let Span { start, end } = self.columns[slot][row];
        let within = if start & EXTRA == 0 { text } else { &self.extra };
        (&within[(start & OFFSET) as usize..end as usize], start & QUOTED != 0)
    }
}

/// The fields of the first record of `text`, which are as many as there are.
pub(crate) fn first_fields(text: &str, syntax: Syntax) -> Result<Vec<String>, Unsplit> {
    let mut fields = Vec::new();
    let mut splitter = Splitter::new(text, syntax, &[]);
    loop {
        let (span, more) = splitter.field(0)?;
        let within = if span.start & EXTRA == 0 { text.as_bytes() } else { &splitter.extra };
        let field = &within[(span.start & OFFSET) as usize..span.end as usize];
        fields.push(String::from_utf8_lossy(field).into_owned());
        if !more {
            return Ok(fields);
        }
    }
}

struct Splitter<'a> {
    bytes: &'a [u8],
    syntax: Syntax,
    slots: &'a [Option<usize>],
    /// True for the bytes that end a field outside quotes.
    ends: [bool; 256],
    at: usize,
    extra: Vec<u8>,
}

impl<'a> Splitter<'a> {
    fn new(text: &'a str, syntax: Syntax, slots: &'a [Option<usize>]) -> Self {
        let mut ends = [false; 256];
        for byte in [syntax.delimiter, b'\n', b'\r'] {
            ends[usize::from(byte)] = true;
        }
        Self { bytes: text.as_bytes(), syntax, slots, ends, at: 0, extra: Vec::new() }
    }

    fn run(mut self, row_count: usize, is_strict: bool) -> Result<Split, Unsplit> {
        let slot_count = self.slots.iter().flatten().count();
        let mut columns: Vec<Vec<Span>> = vec![Vec::new(); slot_count];
        let mut row_starts = Vec::new();
        let nothing = Span { start: 0, end: 0 };
        while row_starts.len() < row_count && self.skip_to_record() {
            let start = self.at;
            let mut found = 0;
            loop {
                let (span, more) = self.field(start)?;
                if let Some(Some(slot)) = self.slots.get(found) {
                    columns[*slot].push(span);
                }
                found += 1;
                if !more {
                    break;
                }
            }
            if found != self.slots.len() && is_strict {
                return Err(Unsplit::Ragged { start, found });
            }
            self.slots.iter().skip(found).flatten().for_each(|slot| columns[*slot].push(nothing));
            row_starts.push(start as u32);
        }
        let extra = String::from_utf8(self.extra).expect("text cut at ASCII characters is text");
        Ok(Split { row_starts, columns, extra })
    }

    /// Skips what is no record; false at the end.
    fn skip_to_record(&mut self) -> bool {
        while let Some(&byte) = self.bytes.get(self.at) {
            if Some(byte) == self.syntax.comment {
                self.at = memchr2(b'\n', b'\r', &self.bytes[self.at..])
                    .map_or(self.bytes.len(), |found| self.at + found);
                self.end_line();
            } else if matches!(byte, b'\n' | b'\r') && self.slots.len() != 1 {
                self.at += 1;
            } else {
                return true;
            }
        }
        false
    }

    /// Passes a line break.
    fn end_line(&mut self) {
        let is_pair = self.bytes[self.at..].starts_with(b"\r\n");
        self.at = (self.at + 1 + usize::from(is_pair)).min(self.bytes.len());
    }

    /// The next field of the record that began at `record`, and whether another follows.
    fn field(&mut self, record: usize) -> Result<(Span, bool), Unsplit> {
        let is_quoted = self.syntax.quote.is_some() && self.bytes.get(self.at) == self.syntax.quote.as_ref();
        let span = if is_quoted { self.quoted(record)? } else { self.plain() };
        match self.bytes.get(self.at) {
            Some(&byte) if byte == self.syntax.delimiter => {
                self.at += 1;
                Ok((span, true))
            }
            _ => {
                self.end_line();
                Ok((span, false))
            }
        }
    }

    /// Up to the end of a field that no quotes enclose.
    fn plain(&mut self) -> Span {
        let start = self.at;
        let rest = &self.bytes[start..];
        let length = rest.iter().position(|&byte| self.ends[usize::from(byte)]).unwrap_or(rest.len());
        self.at = start + length;
        Span { start: start as u32, end: self.at as u32 }
    }

    fn quoted(&mut self, record: usize) -> Result<Span, Unsplit> {
        let quote = self.syntax.quote.expect("only a field that begins with a quote is quoted");
        let start = self.at + 1;
        let (mut at, mut copied) = (start, None);
        // What precedes an escaped character goes to `extra` with it.
        let close = loop {
            let found = match self.syntax.escape {
                Some(escape) => memchr2(quote, escape, &self.bytes[at..]),
                None => memchr(quote, &self.bytes[at..]),
            };
            let found = at + found.ok_or(Unsplit::Unclosed { start: record })?;
            let next = self.bytes.get(found + 1);
            let is_escape = self.bytes[found] != quote || next == Some(&quote);
            if !is_escape {
                break found;
            }
            copied.get_or_insert(self.extra.len());
            self.extra.extend_from_slice(&self.bytes[at..found]);
            // The next search begins at the escaped character, which must not count: it is copied here.
            let escaped = char_length(next.copied());
            self.extra.extend_from_slice(&self.bytes[found + 1..found + 1 + escaped]);
            at = found + 1 + escaped;
        };
        self.at = close + 1;
        let tail = self.plain();
        if copied.is_none() && tail.start == tail.end {
            return Ok(Span { start: start as u32 | QUOTED, end: close as u32 });
        }
        let from = copied.unwrap_or(self.extra.len());
        self.extra.extend_from_slice(&self.bytes[at..close]);
        self.extra.extend_from_slice(&self.bytes[tail.start as usize..tail.end as usize]);
        Ok(Span { start: from as u32 | QUOTED | EXTRA, end: self.extra.len() as u32 })
    }
}

/// Bytes of the character that begins with `first`.
fn char_length(first: Option<u8>) -> usize {
    match first {
        None => 0,
        Some(0..0x80) => 1,
        Some(0x80..0xe0) => 2,
        Some(0xe0..0xf0) => 3,
        Some(_) => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYNTAX: Syntax = Syntax { delimiter: b',', quote: Some(b'"'), escape: None, comment: None };

    /// All records of `text`, quoted fields within bars.
    fn rows(text: &str, syntax: Syntax, width: usize) -> Result<Vec<String>, Unsplit> {
        let slots: Vec<Option<usize>> = (0..width).map(Some).collect();
        let split = Split::of(text, syntax, &slots)?;
        let shown =
            |(field, quoted): (&str, bool)| if quoted { format!("|{field}|") } else { field.to_owned() };
        let row =
            |row| (0..width).map(|slot| shown(split.field(text, slot, row))).collect::<Vec<_>>().join(",");
        Ok((0..split.row_count()).map(row).collect())
    }

    #[test]
    fn fields_end_where_they_do_whatever_encloses_them() {
        let escaped = Syntax { escape: Some(b'\\'), ..SYNTAX };
        let comments = Syntax { comment: Some(b'#'), ..SYNTAX };
        let bare = Syntax { quote: None, ..SYNTAX };
        let cases = [
            ("1,2\n3,4", SYNTAX, &["1,2", "3,4"][..]),
            ("1,2\r3,4\r\n\n\r5,\n", SYNTAX, &["1,2", "3,4", "5,"]),
            ("\"a\nb\",\"\"\n", SYNTAX, &["|a\nb|,||"]),
            ("\"a\"\"b\"\"\",\"\"\"\"\n", SYNTAX, &["|a\"b\"|,|\"|"]),
            ("\"a\" b\",x\n", SYNTAX, &["|a b\"|,x"]),
            ("5\" pipe,6\"\n", SYNTAX, &["5\" pipe,6\""]),
            ("\"a\\\"\\\\\",\"\\ä,\"\n", escaped, &["|a\"\\|,|ä,|"]),
            ("#,,\"\n1,2\n#\n3,#4\n", comments, &["1,2", "3,#4"]),
            ("\"a,b\n", bare, &["\"a,b"]),
            ("ä,ö\n", SYNTAX, &["ä,ö"]),
        ];
        for (text, syntax, expected) in cases {
            assert_eq!(rows(text, syntax, 2).unwrap(), expected, "{text:?}");
        }
    }

    #[test]
    fn a_blank_line_is_a_null_of_the_only_column() {
        assert_eq!(rows("1\n\n2\r\n\r\n", SYNTAX, 1).unwrap(), ["1", "", "2", ""]);
    }

    #[test]
    fn records_of_another_width_and_open_quotes_are_told() {
        assert_eq!(rows("1,2\n3\n", SYNTAX, 2), Err(Unsplit::Ragged { start: 4, found: 1 }));
        assert_eq!(rows("1,2,3\n", SYNTAX, 2), Err(Unsplit::Ragged { start: 0, found: 3 }));
        assert_eq!(rows("1,2\n3,\"4\n", SYNTAX, 2), Err(Unsplit::Unclosed { start: 4 }));
        let head = Split::head("1,2,3\n4\n", SYNTAX, &[Some(0), Some(1)], 9).unwrap();
        assert_eq!(head.field("1,2,3\n4\n", 1, 1), ("", false));
        assert_eq!(first_fields("a,\"b,\"\"c\",\nx", SYNTAX).unwrap(), ["a", "b,\"c", ""]);
    }

    #[test]
    fn only_wanted_fields_are_kept() {
        let split = Split::of("1,2,3\n4,5,6\n", SYNTAX, &[Some(1), None, Some(0)]).unwrap();
        let column = |slot| {
            split.fields("1,2,3\n4,5,6\n", slot).map(|(field, _)| field.to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(
            (column(0), column(1)),
            (vec!["3".to_owned(), "6".into()], vec!["1".to_owned(), "4".into()])
        );
        assert_eq!(Split::of("1,2\n", SYNTAX, &[None, None]).unwrap().row_count(), 1);
    }
}
