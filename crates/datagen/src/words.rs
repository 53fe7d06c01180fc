//! Text columns: from a fixed vocabulary, or written row by row.

use std::fmt;
use std::fmt::Write as _;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, StringViewArray, StringViewBuilder, UInt32Array};
use arrow::compute::take;

/// A vocabulary whose columns are gathered by index; all columns share its bytes.
pub(crate) struct Words(StringViewArray);

impl Words {
    pub(crate) fn new<S: AsRef<str>>(words: impl IntoIterator<Item = S>) -> Self {
        Self(StringViewArray::from_iter_values(words))
    }

    pub(crate) fn len(&self) -> u32 {
        self.0.len() as u32
    }

    pub(crate) fn word(&self, index: u32) -> &str {
        self.0.value(index as usize)
    }

    /// The column of these words; an index of `None` is NULL.
    pub(crate) fn column(&self, indices: impl Into<UInt32Array>) -> ArrayRef {
        take(&self.0, &indices.into(), None).expect("indices are below the number of words")
    }
}

/// A column of text, one formatted value after another.
pub(crate) struct TextColumn {
    builder: StringViewBuilder,
    scratch: String,
}

impl TextColumn {
    pub(crate) fn with_capacity(rows: usize) -> Self {
        Self { builder: StringViewBuilder::with_capacity(rows), scratch: String::new() }
    }

    /// Appends one value: `column.push(format_args!("Customer#{key:09}"))`.
    pub(crate) fn push(&mut self, value: fmt::Arguments<'_>) {
        self.push_with(|text| text.write_fmt(value).expect("writing to a string succeeds"));
    }

    /// Appends what `write` makes of an empty text.
    pub(crate) fn push_with(&mut self, write: impl FnOnce(&mut String)) {
        self.scratch.clear();
        write(&mut self.scratch);
        self.builder.append_value(&self.scratch);
    }

    pub(crate) fn finish(mut self) -> ArrayRef {
        Arc::new(self.builder.finish())
    }
}
