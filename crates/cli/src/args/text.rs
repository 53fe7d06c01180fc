//! The flags that say how text files are written: those of `load`, `sql` and the shell, in the same words.

use clap::Args as ClapArgs;
use pelton_error::Result;
use pelton_load::{Encoding, InferRows, TextOptions, parse_char, parse_column_types, parse_optional_char};

/// How CSV and JSON files are read.
#[derive(Debug, Clone, Default, ClapArgs)]
#[command(next_help_heading = "CSV and JSON files")]
pub(crate) struct TextArgs {
    /// Field delimiter of CSV files, such as ';' or '\t' [default: tab for .tsv, | for .tbl, else a comma].
    #[arg(long, value_name = "CHAR")]
    pub(crate) delimiter: Option<String>,
    /// CSV files have a header line, .tbl files too [default: yes, except in .tbl].
    #[arg(long, conflicts_with = "no_header")]
    pub(crate) header: bool,
    /// CSV files have no header line; their columns are column_1, column_2 and so on.
    #[arg(long)]
    pub(crate) no_header: bool,
    /// Text that stands for NULL in CSV files, besides the empty field. Repeatable.
    #[arg(long, value_name = "TEXT")]
    pub(crate) null: Vec<String>,
    /// Encloses CSV fields that hold delimiters or line breaks; '' for none [default: "].
    #[arg(long, value_name = "CHAR")]
    pub(crate) quote: Option<String>,
    /// Escapes a character within quotes in CSV files, such as '\\' [default: none; a quote is written twice].
    #[arg(long, value_name = "CHAR")]
    pub(crate) escape: Option<String>,
    /// Lines of CSV files that begin with this character are skipped.
    #[arg(long, value_name = "CHAR")]
    pub(crate) comment: Option<String>,
    /// Encoding of CSV and JSON files: utf-8, latin1, windows-1252, utf-16, utf-16be.
    #[arg(long, value_name = "NAME", value_parser = parsed::<Encoding>, default_value = "utf-8", hide_default_value = true)]
    pub(crate) encoding: Encoding,
    /// Rows that column types are inferred from: a number or `all` [default: all of inputs up to 64 MiB, else 100000].
    #[arg(long, value_name = "ROWS", value_parser = parsed::<InferRows>, default_value = "auto", hide_default_value = true)]
    pub(crate) infer_rows: InferRows,
    /// Types of columns instead of the inferred ones: name=TYPE,name=TYPE, such as zip=VARCHAR,price=DECIMAL(10,2).
    #[arg(long, value_name = "TYPES")]
    pub(crate) column_types: Option<String>,
}

impl TextArgs {
    /// The options that the flags describe.
    ///
    /// # Errors
    ///
    /// `InvalidInput` names the flag.
    pub(crate) fn options(&self) -> Result<TextOptions> {
        let quote = self.quote.as_deref().map(|text| parse_optional_char("--quote", text)).transpose()?;
        let options = TextOptions {
            delimiter: self.delimiter.as_deref().map(|text| parse_char("--delimiter", text)).transpose()?,
            header: (self.header || self.no_header).then_some(self.header),
            quote: quote.unwrap_or(Some(b'"')),
            escape: parse_optional_char("--escape", self.escape.as_deref().unwrap_or_default())?,
            nulls: self.null.clone(),
            comment: parse_optional_char("--comment", self.comment.as_deref().unwrap_or_default())?,
            encoding: self.encoding,
            infer_rows: self.infer_rows,
            column_types: parse_column_types(self.column_types.as_deref().unwrap_or_default())
                .map_err(|error| error.context("--column-types"))?,
        };
        options.check()?;
        Ok(options)
    }
}

/// Reads a flag's value.
fn parsed<T: std::str::FromStr<Err = pelton_error::Error>>(text: &str) -> std::result::Result<T, String> {
    text.parse().map_err(|error: pelton_error::Error| error.to_string())
}
