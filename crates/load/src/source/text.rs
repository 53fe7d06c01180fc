//! Cuts text files into blocks of whole records, which are then parsed in parallel.
//!
//! One thread at a time reads and decompresses; the scan for record ends is a search for newlines as long
//! as no quote is near, and a byte-wise automaton where there is one (a quoted field may span lines).
//!
//! ```text
//!  file     a,b⏎1,"x⏎y"⏎2,z⏎3,w⏎...
//!  blocks  |a,b⏎1,"x⏎y"⏎2,z⏎|3,w⏎...|       each knows the line it begins at
//! ```
//!
//! Bound: one block of `BLOCK_BYTES` and the rest of a record; a record longer than `RECORD_BYTES_MAX`
//! (often a quote that is never closed) is refused with the line it begins at.

use std::io::{Read, Take};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::read::MultiGzDecoder;
use pelton_error::{Error, ErrorKind, Result, ResultExt};

use super::files::{Compression, ListedFile};
use super::place::of_store;

/// Bytes of text parsed at once: enough rows to fill a batch or two, and a fraction of a cache-cold row group.
const BLOCK_BYTES: usize = 1 << 20;
/// The longest record accepted.
const RECORD_BYTES_MAX: usize = 64 << 20;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Whole records of one file.
#[derive(Debug)]
pub(crate) struct TextBlock {
    /// Position of the file in the list.
    pub(crate) file: usize,
    /// Line of the first byte, from 1.
    pub(crate) first_line: u64,
    pub(crate) bytes: Vec<u8>,
}

/// What ends a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Records {
    /// Every newline.
    Lines,
    /// A newline outside quotes; a quote counts only where a field begins.
    Quoted { delimiter: u8, quote: u8 },
}

/// Opens `file` for reading decompressed text; bytes taken from where it is are added to `counter`.
pub(crate) fn open_text(file: &ListedFile, counter: Arc<AtomicU64>) -> Result<Box<dyn Read + Send>> {
    let counted = Counted { inner: file.place.open()?, counter };
    Ok(match file.compression {
        Compression::None => Box::new(counted),
        Compression::Gzip => Box::new(MultiGzDecoder::new(counted)),
        Compression::Zstd => Box::new(
            zstd::stream::read::Decoder::new(counted).context(|| format!("opening {}", file.name()))?,
        ),
    })
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

/// Where the automaton stands between two bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    FieldStart,
    InField,
    InQuotes,
    /// After a quote inside quotes: an escaped quote or the end of the quoted part.
    QuoteInQuotes,
}

/// Finds record ends in text that arrives in pieces.
#[derive(Debug, Clone)]
struct Scanner {
    records: Records,
    state: State,
}

impl Scanner {
    fn new(records: Records) -> Self {
        Self { records, state: State::FieldStart }
    }

    /// Takes the next `bytes`; answers the offset after the last record that ends within them.
    fn last_end(&mut self, bytes: &[u8]) -> Option<usize> {
        match self.records {
            Records::Lines => newline_before(bytes),
            Records::Quoted { delimiter, quote } => {
                let in_quotes = matches!(self.state, State::InQuotes | State::QuoteInQuotes);
                if in_quotes || bytes.contains(&quote) {
                    let mut last = None;
                    self.walk(bytes, delimiter, quote, |end| {
                        last = Some(end);
                        true
                    });
                    return last;
                }
                if let Some(&byte) = bytes.last() {
                    self.state =
                        if starts_field(byte, delimiter) { State::FieldStart } else { State::InField };
                }
                newline_before(bytes)
            }
        }
    }

    /// The offset after the first record of `bytes`.
    fn first_end(&mut self, bytes: &[u8]) -> Option<usize> {
        match self.records {
            Records::Lines => bytes.iter().position(|&byte| byte == b'\n').map(|position| position + 1),
            Records::Quoted { delimiter, quote } => {
                let mut first = None;
                self.walk(bytes, delimiter, quote, |end| {
                    first = Some(end);
                    false
                });
                first
            }
        }
    }

    /// Runs the automaton; `on_end` gets the offset after each record and says whether to go on.
    fn walk(&mut self, bytes: &[u8], delimiter: u8, quote: u8, mut on_end: impl FnMut(usize) -> bool) {
        for (index, &byte) in bytes.iter().enumerate() {
            self.state = match self.state {
                State::InQuotes if byte == quote => State::QuoteInQuotes,
                State::InQuotes => State::InQuotes,
                State::QuoteInQuotes | State::FieldStart if byte == quote => State::InQuotes,
                _ if starts_field(byte, delimiter) => State::FieldStart,
                _ => State::InField,
            };
            if byte == b'\n' && self.state == State::FieldStart && !on_end(index + 1) {
                return;
            }
        }
    }
}

fn starts_field(previous: u8, delimiter: u8) -> bool {
    previous == delimiter || previous == b'\n' || previous == b'\r'
}

fn newline_before(bytes: &[u8]) -> Option<usize> {
    bytes.iter().rposition(|&byte| byte == b'\n').map(|position| position + 1)
}

/// The bytes of the first record of `bytes`, all of them where no record ends. Blank lines before it belong to it.
pub(crate) fn first_record(bytes: &[u8], records: Records) -> &[u8] {
    let blank = bytes.iter().take_while(|byte| matches!(byte, b'\n' | b'\r')).count();
    let end = Scanner::new(records).first_end(&bytes[blank..]).map_or(bytes.len(), |end| blank + end);
    &bytes[..end]
}

/// Newlines in `bytes`.
pub(crate) fn line_count(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|&&byte| byte == b'\n').count() as u64
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
    at_start: bool,
    skip_header: bool,
    at_end: bool,
}

impl BlockReader {
    pub(crate) fn new(
        file: usize,
        listed: &ListedFile,
        records: Records,
        skip_header: bool,
        counter: Arc<AtomicU64>,
    ) -> Result<Self> {
        Ok(Self {
            file,
            name: listed.name(),
            reader: open_text(listed, counter)?,
            scanner: Scanner::new(records),
            rest: Vec::new(),
            line: 1,
            at_start: true,
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

    /// Appends up to a block of bytes; drops a byte order mark.
    fn read_more(&mut self, bytes: &mut Vec<u8>) -> Result<()> {
        let wanted = BLOCK_BYTES as u64;
        let mut limited: Take<&mut Box<dyn Read + Send>> = self.reader.by_ref().take(wanted);
        let count = limited.read_to_end(bytes).map_err(|error| read_error(&self.name, error))?;
        self.at_end = (count as u64) < wanted;
        if std::mem::take(&mut self.at_start) && bytes.starts_with(BYTE_ORDER_MARK) {
            bytes.drain(..BYTE_ORDER_MARK.len());
        }
        Ok(())
    }

    /// A block of `bytes`, without the header where it is the first.
    fn block(&mut self, mut bytes: Vec<u8>) -> TextBlock {
        let mut first_line = self.line;
        self.line += line_count(&bytes);
        if std::mem::take(&mut self.skip_header) {
            let header = first_record(&bytes, self.scanner.records).len();
            first_line += line_count(&bytes[..header]);
            bytes.drain(..header);
        }
        TextBlock { file: self.file, first_line, bytes }
    }
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

    const CSV: Records = Records::Quoted { delimiter: b',', quote: b'"' };

    /// Record ends found when `text` arrives in pieces of `piece` bytes.
    fn last_end_in_pieces(text: &str, piece: usize) -> Option<usize> {
        let mut scanner = Scanner::new(CSV);
        let mut last = None;
        for (index, part) in text.as_bytes().chunks(piece).enumerate() {
            last = scanner.last_end(part).map(|end| index * piece + end).or(last);
        }
        last
    }

    #[test]
    fn newlines_end_records_only_outside_quotes() {
        let cases = [
            ("a,b\n1,2\n", Some(8)),
            ("a,\"b\nc\"\n", Some(8)),
            ("a,\"b\nc", None),
            ("a,\"b\"\"\nc\"", None),
            ("5\" pipe,x\ny", Some(10)),
            ("\"a\" b\"\nx", Some(7)),
            ("a\r\n\"\n\"", Some(3)),
        ];
        for (text, expected) in cases {
            for piece in [1, 2, 3, 100] {
                assert_eq!(last_end_in_pieces(text, piece), expected, "{text:?} in pieces of {piece}");
            }
        }
    }

    #[test]
    fn the_first_record_takes_the_blank_lines_before_it() {
        assert_eq!(first_record(b"\r\n\na,\"x\ny\"\nb\n", CSV), b"\r\n\na,\"x\ny\"\n");
        assert_eq!(first_record(b"{\"a\":1}", Records::Lines), b"{\"a\":1}");
    }
}
