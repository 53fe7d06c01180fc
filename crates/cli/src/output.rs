//! Rows on their way out: drawn as text, CSV, JSON lines, Parquet or Arrow, to standard output, a file, or a text that
//! is shown later.
//!
//! ```text
//!   batches ─▶ Sink (a format) ─▶ stream::Out (buffer, compression) ─▶ stream::Target (standard output, or a file)
//! ```

mod ending;
mod stream;

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::ipc::writer::FileWriter;
use arrow::json::WriterBuilder as JsonBuilder;
use arrow::json::writer::LineDelimited;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression as ParquetCodec;
use parquet::file::properties::WriterProperties;
use pelton_engine::{Delimited, NonFinite};
use pelton_error::{Error, ErrorKind, Result};

use crate::args::Format;
use crate::{console, drawing, screen};

use ending::{Compression, format_of_file};
use stream::{Out, Target};

/// The format that the ending of `path` says.
pub(crate) fn ending_format(path: &Path) -> Option<Format> {
    ending::of_path(path).0
}

/// How rows of one result are written.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    /// The format; where none was asked for that of the file's name, and a drawn table without a file.
    pub(crate) format: Option<Format>,
    /// A file instead of standard output.
    pub(crate) path: Option<PathBuf>,
    /// Rows that are drawn on a terminal; 0: all.
    pub(crate) max_rows: usize,
    /// How a user asks for all rows.
    pub(crate) all_rows_by: &'static str,
    /// Drawn text is handed back by [`RowWriter::finish`] instead of being written.
    pub(crate) is_held: bool,
}

impl Output {
    /// Format and compression.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a file whose name does not say what it is to hold.
    pub(crate) fn form(&self) -> Result<(Format, Compression)> {
        match &self.path {
            Some(path) => format_of_file(path, self.format),
            None => Ok((self.format.unwrap_or(Format::Table), Compression::None)),
        }
    }
}

/// Takes batches of one result and writes them.
pub(crate) struct RowWriter {
    sink: Sink,
    target: Target,
    schema: SchemaRef,
    output: Output,
    format: Format,
    to_terminal: bool,
}

enum Sink {
    Drawn { batches: Vec<RecordBatch>, rows_shown_max: usize, rows: usize, out: Out },
    Delimited { lines: Delimited, out: Out },
    Json(Box<arrow::json::LineDelimitedWriter<Out>>),
    Parquet(Box<ArrowWriter<Out>>),
    Arrow(Box<FileWriter<Out>>),
    None,
}

impl RowWriter {
    /// Opens the file, or standard output.
    ///
    /// # Errors
    ///
    /// Names the file that cannot be made; of a binary format, where a terminal would get it.
    pub(crate) fn open(output: &Output, schema: &SchemaRef) -> Result<Self> {
        let (format, compression) = output.form()?;
        let to_terminal = output.path.is_none() && std::io::stdout().is_terminal();
        if to_terminal && matches!(format, Format::Parquet | Format::Arrow) {
            return Err(Error::invalid_input(format!(
                "{} is not written to a terminal; use --output FILE or redirect standard output",
                if format == Format::Parquet { "Parquet" } else { "Arrow" }
            )));
        }
        let (target, out) = Target::open(output.path.as_deref(), compression)?;
        let rows_shown_max = if to_terminal && output.max_rows > 0 { output.max_rows } else { usize::MAX };
        let sink = Sink::open(format, out, schema, rows_shown_max).map_err(|error| failed(&target, error))?;
        Ok(Self { sink, target, schema: schema.clone(), output: output.clone(), format, to_terminal })
    }

    /// True where rows reach standard output as they come.
    pub(crate) fn writes_at_once(&self) -> bool {
        matches!(self.target, Target::StandardOutput) && !matches!(self.sink, Sink::Drawn { .. })
    }

    /// Writes one batch.
    pub(crate) fn write(&mut self, batch: RecordBatch) -> Result<()> {
        self.sink.write(batch).map_err(|error| failed(&self.target, error))
    }

    /// Writes what is left and makes a file visible; gives the text that is to be shown later.
    ///
    /// # Errors
    ///
    /// Of writing.
    pub(crate) fn finish(mut self) -> Result<Option<String>> {
        if let Some(text) = self.drawn()? {
            return Ok(Some(text));
        }
        self.sink.finish().map_err(|error| failed(&self.target, error))?;
        self.target.publish()?;
        Ok(None)
    }

    /// Draws rows that are drawn; gives the text where somebody shows it later.
    fn drawn(&mut self) -> Result<Option<String>> {
        let Sink::Drawn { batches, rows_shown_max, rows, out } = &mut self.sink else { return Ok(None) };
        let draw = match self.format {
            Format::Markdown => drawing::markdown,
            Format::Line => drawing::lines,
            _ => drawing::table,
        };
        let text = draw(&self.schema, batches, self.to_terminal);
        let mut text =
            text.map_err(|error| Error::new(ErrorKind::Io, "drawing the rows").with_source(error))?;
        let mut notes = Vec::new();
        if *rows > *rows_shown_max {
            notes.push(format!(
                "{rows_shown_max} of {rows} rows shown; {} shows all",
                self.output.all_rows_by
            ));
        }
        if self.output.is_held && self.output.path.is_none() {
            text.extend(notes.iter().map(|note| format!("{note}\n")));
            return Ok(Some(text));
        }
        out.write_all(text.as_bytes()).map_err(|error| failed(&self.target, error))?;
        if self.to_terminal && self.format == Format::Table && !screen::is_wide_enough(&text) {
            notes.push(
                "the rows are wider than the terminal; --format line shows a line for each value".into(),
            );
        }
        if !notes.is_empty() {
            out.flush().map_err(|error| failed(&self.target, error))?;
            notes.iter().for_each(console::say);
        }
        Ok(None)
    }
}

impl Sink {
    fn open(
        format: Format,
        mut out: Out,
        schema: &SchemaRef,
        rows_shown_max: usize,
    ) -> std::result::Result<Self, WriteError> {
        Ok(match format {
            Format::Table | Format::Markdown | Format::Line => {
                Self::Drawn { batches: Vec::new(), rows_shown_max, rows: 0, out }
            }
            Format::Csv | Format::Tsv => {
                let lines = Delimited::new(if format == Format::Csv { b',' } else { b'\t' });
                // An empty result has a header, too.
                lines.write_header(&mut out, schema)?;
                Self::Delimited { lines, out }
            }
            Format::Json => {
                // Every line has every column, NULL as null.
                let json =
                    JsonBuilder::new().with_explicit_nulls(true).with_encoder_factory(Arc::new(NonFinite));
                Self::Json(Box::new(json.build::<_, LineDelimited>(out)))
            }
            Format::Parquet => {
                let properties = WriterProperties::builder().set_compression(ParquetCodec::SNAPPY).build();
                Self::Parquet(Box::new(ArrowWriter::try_new(out, schema.clone(), Some(properties))?))
            }
            Format::Arrow => Self::Arrow(Box::new(FileWriter::try_new(out, schema)?)),
            Format::None => Self::None,
        })
    }

    fn write(&mut self, batch: RecordBatch) -> std::result::Result<(), WriteError> {
        match self {
            Self::Drawn { batches, rows_shown_max, rows, .. } => {
                if *rows < *rows_shown_max {
                    batches.push(batch.slice(0, batch.num_rows().min(*rows_shown_max - *rows)));
                }
                *rows += batch.num_rows();
            }
            Self::Delimited { lines, out } => lines.write_rows(out, &batch)?,
            Self::Json(writer) => writer.write(&batch)?,
            Self::Parquet(writer) => writer.write(&batch)?,
            Self::Arrow(writer) => writer.write(&batch)?,
            Self::None => {}
        }
        Ok(())
    }

    fn finish(&mut self) -> std::result::Result<(), WriteError> {
        match self {
            Self::Drawn { out, .. } | Self::Delimited { out, .. } => out.finish()?,
            Self::Json(writer) => {
                writer.finish()?;
                writer.get_mut().finish()?;
            }
            Self::Parquet(writer) => {
                writer.finish()?;
                writer.inner_mut().finish()?;
            }
            Self::Arrow(writer) => {
                writer.finish()?;
                writer.get_mut().finish()?;
            }
            Self::None => {}
        }
        Ok(())
    }
}

/// What writers of formats say.
type WriteError = Box<dyn std::error::Error + Send + Sync>;

/// The error of a write to `target`; it knows of a reader of standard output that went away.
fn failed(target: &Target, error: impl Into<WriteError>) -> Error {
    let error = error.into();
    match target {
        Target::StandardOutput => console::write_error("writing to standard output", error),
        Target::Device => Error::new(ErrorKind::Io, "writing the result").with_source(error),
        Target::File { path, .. } => {
            Error::new(ErrorKind::Io, format!("writing '{}'", path.display())).with_source(error)
        }
    }
}
