//! Columns as a reader is asked for them, and what is said of a value that is none of theirs.

use std::sync::atomic::{AtomicBool, Ordering};

use arrow::datatypes::DataType;
use pelton_error::Error;

use crate::options::parse_column_types;
use crate::seen::Seen;
use crate::types::type_name;

/// Text of a bad value shown in a message.
const SHOWN_CHARS: usize = 80;

/// Who says what the type of a column is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fixed {
    /// Nobody: it was inferred.
    No,
    /// The caller.
    ByCaller,
    /// The table that is appended to.
    ByTable,
    /// A file that tells its types.
    ByFile(String),
}

/// Whether a value was met that an inferred type does not hold.
#[derive(Debug, Default)]
pub(crate) struct Fit {
    is_misfit: AtomicBool,
}

impl Fit {
    pub(crate) fn note_misfit(&self) {
        self.is_misfit.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_misfit(&self) -> bool {
        self.is_misfit.load(Ordering::Relaxed)
    }
}

/// A column of a text file to be parsed.
#[derive(Debug)]
pub(crate) struct WantedColumn<'a> {
    /// In the file.
    pub(crate) position: usize,
    pub(crate) name: &'a str,
    pub(crate) data_type: &'a DataType,
    pub(crate) fixed: &'a Fixed,
    pub(crate) fit: &'a Fit,
}

impl WantedColumn<'_> {
    /// The error of `text`, at `place`, which is no value of the column.
    pub(crate) fn misfit(&self, place: &str, text: &str) -> Error {
        let mut seen = seen_of(self.data_type);
        seen.add(Seen::of(text));
        self.misfit_of(place, &format!("'{}'", shown(text)), &seen.data_type())
    }

    /// The same of what is shown as `value`, which a column of type `wider` would hold.
    pub(crate) fn misfit_of(&self, place: &str, value: &str, wider: &DataType) -> Error {
        let remedy = match self.fixed {
            Fixed::No => {
                self.fit.note_misfit();
                format!(
                    "as the first rows are; name the type (--column-types {}={}) or infer it from more rows \
                     (--infer-rows all), in SQL by SET pelton.column_types or pelton.infer_rows",
                    quoted_name(self.name),
                    type_name(wider)
                )
            }
            Fixed::ByCaller => "as was asked for".to_owned(),
            Fixed::ByTable => "as the table's column is".to_owned(),
            Fixed::ByFile(file) => format!("as the column is in {file}"),
        };
        let name = type_name(self.data_type);
        Error::invalid_input(format!(
            "{place}, column '{}': {value} is not a valid {name}, {remedy}",
            self.name
        ))
    }
}

/// What a column of an inferred type was seen to hold, at least.
fn seen_of(data_type: &DataType) -> Seen {
    Seen::of(match data_type {
        DataType::Boolean => "true",
        DataType::Int64 => "1",
        DataType::Float64 => "1.5",
        DataType::Date32 => "2000-01-01",
        DataType::Timestamp(_, None) => "2000-01-01T00:00:00.1",
        DataType::Timestamp(_, Some(_)) => "2000-01-01T00:00:00Z",
        _ => "x",
    })
}

/// As much of `text` as a message shows.
pub(crate) fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// `name` as a list of column types takes it.
fn quoted_name(name: &str) -> String {
    let is_plain =
        parse_column_types(&format!("{name}=INT")).is_ok_and(|found| found.len() == 1 && found[0].0 == name);
    if is_plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// The error of a file that has two columns of one name.
pub(crate) fn named_twice(file: &str, name: &str) -> Error {
    Error::invalid_input(format!(
        "{file}: two columns are named '{name}', so that neither can be told from the other; rename one in the file"
    ))
}
