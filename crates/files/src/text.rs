//! Cuts text files into blocks of whole records, which are then parsed in parallel.
//!
//! One thread at a time reads, decompresses and decodes. The scan for record ends is a search for quotes, and for the
//! last line break that no quotes enclose; only where lines may be comments does it look at every byte.
//!
//! ```text
//!  file     a,b⏎1,"x⏎y"⏎2,z⏎3,w⏎...
//!  blocks  |a,b⏎1,"x⏎y"⏎2,z⏎|3,w⏎...|       each knows the line it begins at
//! ```
//!
//! Lines end with LF, CRLF or CR.
//!
//! Bound: one block of `BLOCK_BYTES` and the rest of a record; a record longer than `RECORD_BYTES_MAX`
//! (often a quote that is never closed) is refused with the line it begins at.

use std::io::{Read, Take};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::read::MultiGzDecoder;
use memchr::{memchr, memchr2, memrchr2};
use pelton_error::{Error, ErrorKind, Result, ResultExt};

use crate::decode::decoded;
use crate::files::{Compression, ListedFile};
use crate::options::Encoding;
use crate::place::of_store;

/// Bytes of text parsed at once: enough rows to fill a batch or two, and a fraction of a cache-cold row group.
pub(crate) const BLOCK_BYTES: usize = 1 << 20;
/// The longest record accepted.
const RECORD_BYTES_MAX: usize = 64 << 20;

/// Whole records of one file.
#[derive(Debug)]
pub struct TextBlock {
    /// Position of the file in the list.
    pub(crate) file: usize,
    /// Line of the first byte, from 1.
    pub(crate) first_line: u64,
    pub(crate) bytes: Vec<u8>,
}

/// How CSV is written, as far as it decides where records and fields end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Syntax {
    pub(crate) delimiter: u8,
    /// Counts only where a field begins.
    pub(crate) quote: Option<u8>,
    /// Within quotes; a quote may be written twice as well.
    pub(crate) escape: Option<u8>,
    pub(crate) comment: Option<u8>,
}

/// What ends a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Records {
    /// Every line break.
    Lines,
    /// A line break outside quotes.
    Quoted(Syntax),
}

/// Opens `file` for reading decompressed text as UTF-8; bytes taken from where it is are added to `counter`.
pub(crate) fn open_text(
    file: &ListedFile,
    encoding: Encoding,
    counter: Arc<AtomicU64>,
) -> Result<Box<dyn Read + Send>> {
    let counted = Counted { inner: file.place.open()?, counter };
    let bytes: Box<dyn Read + Send> = match file.compression {
        Compression::None => Box::new(counted),
        Compression::Gzip => Box::new(MultiGzDecoder::new(counted)),
        Compression::Zstd => Box::new(
            zstd::stream::read::Decoder::new(counted).context(|| format!("opening {}", file.name()))?,
        ),
    };
    decoded(bytes, encoding, file.name()).map_err(|error| read_error(&file.name(), error))
}

struct Counted<R> {
    inner: R,
    counter: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.counter.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

/// Where the scan stands between two bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// At the start of a line.
    RecordStart,
    FieldStart,
    InField,
    InQuotes,
    /// After an escape inside quotes.
    Escaped,
    /// After a quote inside quotes: an escaped quote or the end of the quoted part.
    QuoteInQuotes,
    InComment,
}

/// Finds record ends in text that arrives in pieces.
#[derive(Debug, Clone)]
struct Scanner {
    records: Records,
    state: State,
}

impl Scanner {
    fn new(records: Records) -> Self {
        Self { records, state: State::RecordStart }
    }

    /// Takes the next `bytes`; answers the offset after the last record that ends within them.
    fn last_end(&mut self, bytes: &[u8]) -> Option<usize> {
        match self.records {
            Records::Lines => after(memrchr2(b'\n', b'\r', bytes)),
            Records::Quoted(Syntax { quote: None, .. }) => after(memrchr2(b'\n', b'\r', bytes)),
            Records::Quoted(syntax @ Syntax { comment: Some(_), .. }) => {
                let mut last = None;
                self.walk(bytes, syntax, |end| {
                    last = Some(end);
                    true
                });
                last
            }
            Records::Quoted(syntax @ Syntax { quote: Some(quote), .. }) => self.jump(bytes, syntax, quote),
        }
    }

    /// [`last_end`](Self::last_end) from quote to quote, where no line is a comment.
    fn jump(&mut self, bytes: &[u8], syntax: Syntax, quote: u8) -> Option<usize> {
        let (mut at, mut last) = (0, None);
        while at < bytes.len() {
            match self.state {
                State::InQuotes => {
                    let found = match syntax.escape {
                        Some(escape) => memchr2(quote, escape, &bytes[at..]),
                        None => memchr(quote, &bytes[at..]),
                    };
                    let Some(found) = found else { break };
                    at += found + 1;
                    let is_quote = bytes[at - 1] == quote;
                    self.state = if is_quote { State::QuoteInQuotes } else { State::Escaped };
                }
                State::Escaped => {
                    at += 1;
                    self.state = State::InQuotes;
                }
                State::QuoteInQuotes if bytes[at] == quote => {
                    at += 1;
                    self.state = State::InQuotes;
                }
                _ => {
                    let end = memchr(quote, &bytes[at..]).map_or(bytes.len(), |found| at + found);
                    last = after(memrchr2(b'\n', b'\r', &bytes[at..end])).map(|found| at + found).or(last);
                    if let Some(&previous) = bytes[at..end].last() {
                        self.state = state_after(previous, syntax.delimiter);
                    } else if self.state == State::QuoteInQuotes {
                        self.state = State::InField;
                    }
                    if end < bytes.len() {
                        let opens = matches!(self.state, State::RecordStart | State::FieldStart);
                        self.state = if opens { State::InQuotes } else { State::InField };
                    }
                    at = end + 1;
                }
            }
        }
        last
    }

    /// The offset after the first record of `bytes`.
    fn first_end(&mut self, bytes: &[u8]) -> Option<usize> {
        match self.records {
            Records::Lines => after(memchr2(b'\n', b'\r', bytes)),
            Records::Quoted(syntax) => {
                let mut first = None;
                self.walk(bytes, syntax, |end| {
                    first = Some(end);
                    false
                });
                first
            }
        }
    }

    /// Looks at every byte; `on_end` gets the offset after each record and says whether to go on.
    fn walk(&mut self, bytes: &[u8], syntax: Syntax, mut on_end: impl FnMut(usize) -> bool) {
        let Syntax { delimiter, quote, escape, comment } = syntax;
        for (index, &byte) in bytes.iter().enumerate() {
            let is_quote = Some(byte) == quote;
            self.state = match self.state {
                State::InQuotes if is_quote => State::QuoteInQuotes,
                State::InQuotes if Some(byte) == escape => State::Escaped,
                State::InQuotes | State::Escaped => State::InQuotes,
                State::QuoteInQuotes if is_quote => State::InQuotes,
                State::RecordStart if Some(byte) == comment => State::InComment,
                State::RecordStart | State::FieldStart if is_quote => State::InQuotes,
                State::InComment if !is_line_break(byte) => State::InComment,
                _ => state_after(byte, delimiter),
            };
            if self.state == State::RecordStart && !on_end(index + 1) {
                return;
            }
        }
    }
}

/// The state after `byte`, outside quotes.
fn state_after(byte: u8, delimiter: u8) -> State {
    match byte {
        b'\n' | b'\r' => State::RecordStart,
        _ if byte == delimiter => State::FieldStart,
        _ => State::InField,
    }
}

fn is_line_break(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

fn after(position: Option<usize>) -> Option<usize> {
    position.map(|position| position + 1)
}

/// The bytes of the first record of `bytes` with its line break, all of them where no record ends. Blank lines and
/// comments before it belong to it; their length comes first.
pub(crate) fn first_record(bytes: &[u8], records: Records) -> (usize, &[u8]) {
    let mut start = 0;
    loop {
        start += bytes[start..].iter().take_while(|&&byte| is_line_break(byte)).count();
        let comment = match records {
            Records::Quoted(syntax) => syntax.comment,
            Records::Lines => None,
        };
        if start < bytes.len() && Some(bytes[start]) == comment {
            start += memchr2(b'\n', b'\r', &bytes[start..]).unwrap_or(bytes.len() - start);
            continue;
        }
        let mut end = Scanner::new(records).first_end(&bytes[start..]).map_or(bytes.len(), |end| start + end);
        if end > start && bytes[end - 1] == b'\r' && bytes.get(end) == Some(&b'\n') {
            end += 1;
        }
        return (start, &bytes[..end]);
    }
}

/// Line breaks in `bytes`, of which CR LF is one.
pub(crate) fn line_count(bytes: &[u8]) -> u64 {
    let newlines = memchr::memchr_iter(b'\n', bytes).count();
    let alone = memchr::memchr_iter(b'\r', bytes).filter(|&at| bytes.get(at + 1) != Some(&b'\n')).count();
    (newlines + alone) as u64
}

/// The blocks of one file, in order.
pub(crate) struct BlockReader {
    file: usize,
    name: String,
    reader: Box<dyn Read + Send>,
    scanner: Scanner,
    /// Scanned bytes after the last record end.
    rest: Vec<u8>,
    line: u64,
    skip_header: bool,
    at_end: bool,
}

impl BlockReader {
    pub(crate) fn new(
        file: usize,
        listed: &ListedFile,
        records: Records,
        skip_header: bool,
        encoding: Encoding,
        counter: Arc<AtomicU64>,
    ) -> Result<Self> {
        Ok(Self {
            file,
            name: listed.name(),
            reader: open_text(listed, encoding, counter)?,
            scanner: Scanner::new(records),
            rest: Vec::new(),
            line: 1,
            skip_header,
            at_end: false,
        })
    }

    /// The next block; `None` at the end of the file.
    pub(crate) fn next_block(&mut self) -> Result<Option<TextBlock>> {
        let mut bytes = std::mem::take(&mut self.rest);
        while !self.at_end {
            let scanned = bytes.len();
            self.read_more(&mut bytes)?;
            if let Some(end) = self.scanner.last_end(&bytes[scanned..]) {
                self.rest = bytes.split_off(scanned + end);
                return Ok(Some(self.block(bytes)));
            }
            if bytes.len() > RECORD_BYTES_MAX {
                return Err(Error::invalid_input(format!(
                    "{}, line {}: a record longer than {} MiB begins here; is a quote not closed?",
                    self.name,
                    self.line,
                    RECORD_BYTES_MAX >> 20
                )));
            }
        }
        Ok((!bytes.is_empty()).then(|| self.block(bytes)))
    }

    /// Appends up to a block of bytes, which do not end between CR and LF.
    fn read_more(&mut self, bytes: &mut Vec<u8>) -> Result<()> {
        let wanted = BLOCK_BYTES as u64;
        bytes.reserve(BLOCK_BYTES + 1);
        let mut limited: Take<&mut Box<dyn Read + Send>> = self.reader.by_ref().take(wanted);
        let mut count = limited.read_to_end(bytes).map_err(|error| read_error(&self.name, error))? as u64;
        self.at_end = count < wanted;
        while !self.at_end && bytes.last() == Some(&b'\r') {
            let more = self.reader.by_ref().take(1).read_to_end(bytes);
            count = more.map_err(|error| read_error(&self.name, error))? as u64;
            self.at_end = count == 0;
        }
        Ok(())
    }

    /// A block of `bytes`, without the header where it is the first.
    fn block(&mut self, mut bytes: Vec<u8>) -> TextBlock {
        let mut first_line = self.line;
        self.line += line_count(&bytes);
        if self.skip_header {
            let (_, header) = first_record(&bytes, self.scanner.records);
            // A block of comments and blank lines alone leaves the header to the next.
            self.skip_header = header.len() == bytes.len() && is_blank(header, self.scanner.records);
            let header = header.len();
            first_line += line_count(&bytes[..header]);
            bytes.drain(..header);
        }
        TextBlock { file: self.file, first_line, bytes }
    }
}

/// True where `record`, as [`first_record`] gives it, is only what comes before one.
fn is_blank(record: &[u8], records: Records) -> bool {
    first_record(record, records).0 == record.len()
}

/// A damaged compressed file is corrupt; anything else the system, or a store, refused.
pub(crate) fn read_error(name: &str, error: std::io::Error) -> Error {
    if let Some(error) = of_store(&error) {
        return error;
    }
    use std::io::ErrorKind::{InvalidData, InvalidInput, Other, UnexpectedEof};
    if matches!(error.kind(), InvalidData | InvalidInput | UnexpectedEof | Other) {
        return Error::new(ErrorKind::Corrupt, format!("{name}: the compressed data is damaged"))
            .with_source(error);
    }
    Error::io(format!("reading {name}"), error)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYNTAX: Syntax = Syntax { delimiter: b',', quote: Some(b'"'), escape: None, comment: None };
    const CSV: Records = Records::Quoted(SYNTAX);

    /// Record ends found when `text` arrives in pieces of `piece` bytes.
    fn last_end_in_pieces(text: &str, piece: usize, syntax: Syntax) -> Option<usize> {
        let mut scanner = Scanner::new(Records::Quoted(syntax));
        let mut last = None;
        for (index, part) in text.as_bytes().chunks(piece).enumerate() {
            last = scanner.last_end(part).map(|end| index * piece + end).or(last);
        }
        last
    }

    #[test]
    fn line_breaks_end_records_only_outside_quotes() {
        let cases = [
            ("a,b\n1,2\n", Some(8)),
            ("a,b\r1,2\rx", Some(8)),
            ("a,\"b\nc\"\n", Some(8)),
            ("a,\"b\rc\"\r", Some(8)),
            ("a,\"b\nc", None),
            ("a,\"b\"\"\nc\"", None),
            ("\"\"\n\"", Some(3)),
            ("5\" pipe,x\ny", Some(10)),
            ("\"a\" b\"\nx", Some(7)),
            ("a\r\n\"\n\"", Some(3)),
            ("a\n,\"\"\"\n\"\"\",\n", Some(12)),
        ];
        for (text, expected) in cases {
            for piece in [1, 2, 3, 100] {
                assert_eq!(
                    last_end_in_pieces(text, piece, SYNTAX),
                    expected,
                    "{text:?} in pieces of {piece}"
                );
                let walked = Syntax { comment: Some(b'#'), ..SYNTAX };
                assert_eq!(last_end_in_pieces(text, piece, walked), expected, "{text:?} byte by byte");
            }
        }
    }

    #[test]
    fn escapes_and_comments_hide_quotes() {
        let escaped = Syntax { escape: Some(b'\\'), ..SYNTAX };
        let comments = Syntax { comment: Some(b'#'), ..SYNTAX };
        let cases = [
            ("\"a\\\"\n\"\nb", escaped, Some(7)),
            ("\"a\\\\\"\n\"", escaped, Some(6)),
            ("#\"\na\n", comments, Some(5)),
            ("a#,\"\n\"\n", comments, Some(7)),
            ("\"\n#\"\n", comments, Some(5)),
            ("a,\"\nb", Syntax { quote: None, ..SYNTAX }, Some(4)),
        ];
        for (text, syntax, expected) in cases {
            for piece in [1, 2, 100] {
                assert_eq!(
                    last_end_in_pieces(text, piece, syntax),
                    expected,
                    "{text:?} in pieces of {piece}"
                );
            }
        }
    }

    #[test]
    fn the_first_record_takes_what_is_skipped_before_it() {
        let record = b"\r\n\na,\"x\ny\"\r\nb\n";
        assert_eq!(first_record(record, CSV), (3, &record[..12]));
        assert_eq!(first_record(b"{\"a\":1}", Records::Lines), (0, &b"{\"a\":1}"[..]));
        let comments = Records::Quoted(Syntax { comment: Some(b'#'), ..SYNTAX });
        assert_eq!(first_record(b"#,\"\n\n#\na\nb\n", comments), (7, &b"#,\"\n\n#\na\n"[..]));
        assert_eq!(first_record(b"#x", comments), (2, &b"#x"[..]));
    }

    #[test]
    fn lines_are_counted_whatever_ends_them() {
        for (text, count) in [("a\nb\n", 2), ("a\r\nb\r\n", 2), ("a\rb\r", 2), ("\r\r\n\n", 3), ("", 0)] {
            assert_eq!(line_count(text.as_bytes()), count, "{text:?}");
        }
    }
}
