//! What a caller says about the files besides their names, and how it is written in flags and settings.

use std::fmt;
use std::str::FromStr;

use arrow::datatypes::DataType;
use pelton_error::{Error, Result};

use crate::types::parse_type;

/// The format of an input file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InputFormat {
    /// Apache Parquet.
    Parquet,
    /// Text with delimiters; also `.tsv` and dbgen's `.tbl`.
    Csv,
    /// One JSON object per line.
    Json,
    /// Arrow IPC, file or stream.
    Arrow,
}

impl InputFormat {
    /// As flags and messages name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Csv => "csv",
            Self::Json => "json",
            Self::Arrow => "arrow",
        }
    }
}

impl FromStr for InputFormat {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let all = [Self::Parquet, Self::Csv, Self::Json, Self::Arrow];
        all.into_iter().find(|format| format.name().eq_ignore_ascii_case(text)).ok_or_else(|| {
            Error::invalid_input(format!("unknown format '{text}'; known are parquet, csv, json and arrow"))
        })
    }
}

/// How the bytes of a text file become characters. A byte order mark of UTF-8 or UTF-16 wins over what is said here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// UTF-8; anything else is an error.
    #[default]
    Utf8,
    /// Windows-1252, of which ISO 8859-1 (Latin-1) is the printable part.
    Windows1252,
    /// UTF-16, little endian unless a byte order mark says otherwise.
    Utf16,
    /// UTF-16, big endian.
    Utf16Be,
}

impl FromStr for Encoding {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.to_ascii_lowercase().replace('_', "-").as_str() {
            "utf-8" | "utf8" => Ok(Self::Utf8),
            "latin1" | "latin-1" | "iso-8859-1" | "windows-1252" | "cp1252" => Ok(Self::Windows1252),
            "utf-16" | "utf16" | "utf-16le" | "utf-16-le" => Ok(Self::Utf16),
            "utf-16be" | "utf-16-be" => Ok(Self::Utf16Be),
            _ => Err(Error::invalid_input(format!(
                "unknown encoding '{text}'; known are utf-8, latin1, windows-1252, utf-16 and utf-16be"
            ))),
        }
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Utf8 => "utf-8",
            Self::Windows1252 => "windows-1252",
            Self::Utf16 => "utf-16",
            Self::Utf16Be => "utf-16be",
        })
    }
}

/// How many rows types are inferred from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum InferRows {
    /// All rows of inputs of up to [`WHOLE_BYTES`](Self::WHOLE_BYTES), else the first
    /// [`DEFAULT_ROWS`](Self::DEFAULT_ROWS).
    #[default]
    Auto,
    /// So many from the start of the input.
    First(u64),
    /// All of them.
    All,
}

impl InferRows {
    /// The largest input of which all rows are looked at. A guess: what a person does not wait for.
    pub const WHOLE_BYTES: u64 = 64 << 20;
    /// Rows looked at in larger inputs.
    pub const DEFAULT_ROWS: u64 = 100_000;
}

impl fmt::Display for InferRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::First(rows) => rows.fmt(f),
            Self::All => f.write_str("all"),
        }
    }
}

impl FromStr for InferRows {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.trim() {
            "auto" | "" => Ok(Self::Auto),
            "all" => Ok(Self::All),
            text => match text.parse::<u64>() {
                Ok(rows) if rows > 0 => Ok(Self::First(rows)),
                _ => Err(Error::invalid_input(format!(
                    "types are inferred from 'all' rows or from a number of them, not from '{text}'"
                ))),
            },
        }
    }
}

/// How text files are written, and what their columns are.
///
/// In CSV an empty field is NULL; a quoted one is the empty text in a text column and NULL in any other.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TextOptions {
    /// `None`: tab for `.tsv`, `|` for `.tbl`, else a comma.
    pub delimiter: Option<u8>,
    /// Whether the first record names the columns; `None`: yes, except in `.tbl`.
    pub header: Option<bool>,
    /// Encloses fields that hold delimiters or line breaks; `None`: nothing does.
    pub quote: Option<u8>,
    /// Makes the next character of a quoted field an ordinary one. A quote may be written twice in any case.
    pub escape: Option<u8>,
    /// Stand for NULL in CSV beside the empty field, where they are not quoted.
    pub nulls: Vec<String>,
    /// Lines of CSV that begin with it are skipped.
    pub comment: Option<u8>,
    /// Of CSV and JSON.
    pub encoding: Encoding,
    /// Of CSV and JSON.
    pub infer_rows: InferRows,
    /// Columns of CSV and JSON whose types are not inferred.
    pub column_types: Vec<(String, DataType)>,
}

impl Default for TextOptions {
    fn default() -> Self {
        Self {
            delimiter: None,
            header: None,
            quote: Some(b'"'),
            escape: None,
            nulls: Vec::new(),
            comment: None,
            encoding: Encoding::Utf8,
            infer_rows: InferRows::Auto,
            column_types: Vec::new(),
        }
    }
}

impl TextOptions {
    /// Refuses what contradicts itself.
    ///
    /// # Errors
    ///
    /// `InvalidInput` names the characters that are the same.
    pub fn check(&self) -> Result<()> {
        let used = [
            ("delimiter", self.delimiter),
            ("quote", self.quote),
            ("comment character", self.comment),
            ("escape", self.escape.filter(|&escape| Some(escape) != self.quote)),
        ];
        for (index, (what, byte)) in used.iter().enumerate() {
            let Some(byte) = byte else { continue };
            if matches!(byte, b'\n' | b'\r') {
                return Err(Error::invalid_input(format!("the {what} of a CSV file cannot be a line break")));
            }
            if let Some((other, _)) = used[..index].iter().find(|(_, earlier)| earlier == &Some(*byte)) {
                return Err(Error::invalid_input(format!(
                    "'{}' is given as {other} and as {what} of CSV files; they must differ",
                    byte.escape_ascii()
                )));
            }
        }
        Ok(())
    }
}

/// The one ASCII character that `text` writes, which may be `\t`, `\0`, `\\` or `\x01`.
///
/// # Errors
///
/// `InvalidInput` names `what` it is for.
pub fn parse_char(what: &str, text: &str) -> Result<u8> {
    let hex = || u8::from_str_radix(text.strip_prefix("\\x").filter(|digits| digits.len() == 2)?, 16).ok();
    let byte = match text.as_bytes() {
        [byte] => Some(*byte),
        b"\\t" => Some(b'\t'),
        b"\\0" => Some(0),
        b"\\\\" => Some(b'\\'),
        _ => hex(),
    };
    byte.filter(u8::is_ascii).ok_or_else(|| {
        Error::invalid_input(format!(
            "{what} is one ASCII character, such as ';', '|', '\\t' or '\\x01', not '{text}'"
        ))
    })
}

/// As [`parse_char`], or none for an empty text.
///
/// # Errors
///
/// `InvalidInput` names `what` it is for.
pub fn parse_optional_char(what: &str, text: &str) -> Result<Option<u8>> {
    (!text.is_empty()).then(|| parse_char(what, text)).transpose()
}

/// The columns and types of `name=TYPE,"other name"=DECIMAL(10,2)`.
///
/// # Errors
///
/// `InvalidInput` shows the form, or the types that are known.
pub fn parse_column_types(text: &str) -> Result<Vec<(String, DataType)>> {
    let mut found: Vec<(String, DataType)> = Vec::new();
    for item in split_outside(text, ',').into_iter().filter(|item| !item.trim().is_empty()) {
        let parts = split_outside(item, '=');
        let [name, data_type] = parts[..] else {
            return Err(Error::invalid_input(format!(
                "column types read name=TYPE,name=TYPE, such as id=BIGINT,price=DECIMAL(10,2), not '{item}'"
            )));
        };
        let name = unquoted(name.trim());
        if found.iter().any(|(other, _)| *other == name) {
            return Err(Error::invalid_input(format!("column '{name}' is given two types")));
        }
        found.push((name, parse_type(data_type)?));
    }
    Ok(found)
}

/// `text` cut at each `separator` that stands outside double quotes and brackets.
fn split_outside(text: &str, separator: char) -> Vec<&str> {
    let (mut in_quotes, mut depth, mut start, mut parts) = (false, 0_usize, 0, Vec::new());
    for (index, character) in text.char_indices() {
        match character {
            '"' => in_quotes = !in_quotes,
            '(' if !in_quotes => depth += 1,
            ')' if !in_quotes => depth = depth.saturating_sub(1),
            _ if character == separator && !in_quotes && depth == 0 => {
                parts.push(&text[start..index]);
                start = index + separator.len_utf8();
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn unquoted(name: &str) -> String {
    match name.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(inner) => inner.replace("\"\"", "\""),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_may_be_escaped() {
        let cases = [(";", b';'), ("\\t", b'\t'), ("\t", b'\t'), ("\\x01", 1), ("\\\\", b'\\'), ("\\0", 0)];
        for (text, byte) in cases {
            assert_eq!(parse_char("a delimiter", text).unwrap(), byte, "{text:?}");
        }
        for wrong in ["", "ab", "ä", "\\x1", "\\xff", "\\n"] {
            let message = parse_char("a delimiter", wrong).unwrap_err().to_string();
            assert!(message.starts_with("a delimiter is one ASCII character"), "{wrong}: {message}");
        }
    }

    #[test]
    fn column_types_may_hold_commas_and_quoted_names() {
        let types = parse_column_types("a=BIGINT, \"b=,c\"=decimal(10,2),d = varchar(3)").unwrap();
        let expected = [("a", DataType::Int64), ("b=,c", DataType::Decimal128(10, 2)), ("d", DataType::Utf8)];
        assert_eq!(types, expected.map(|(name, data_type)| (name.to_owned(), data_type)));
        assert!(parse_column_types("a").unwrap_err().to_string().contains("name=TYPE"));
        assert!(parse_column_types("a=int,a=int").unwrap_err().to_string().contains("two types"));
        assert!(parse_column_types("a=blue").unwrap_err().to_string().contains("unknown type 'blue'"));
    }

    #[test]
    fn characters_with_two_meanings_are_refused() {
        let options = TextOptions { delimiter: Some(b'"'), ..TextOptions::default() };
        assert!(options.check().unwrap_err().to_string().contains("as delimiter and as quote"));
        let options = TextOptions { escape: Some(b'"'), ..TextOptions::default() };
        assert!(options.check().is_ok());
    }
}
