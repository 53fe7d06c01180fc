//! Rows on their way out: drawn as text, CSV, JSON lines or Parquet, to standard output, a file, or a text that is
//! shown later.
//!
//! A file is written beside its final name and renamed when it is complete.

use std::fs::File;
use std::io::{BufWriter, IsTerminal, Write};
use std::path::PathBuf;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::json::WriterBuilder as JsonBuilder;
use arrow::json::writer::LineDelimited;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use pelton_error::{Error, ErrorKind, Result, ResultExt};

use crate::args::Format;
use crate::drawing;

/// How rows of one result are written.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    pub(crate) format: Format,
    /// A file instead of standard output.
    pub(crate) path: Option<PathBuf>,
    /// Rows that are drawn on a terminal; 0: all.
    pub(crate) max_rows: usize,
    /// How a user asks for all rows.
    pub(crate) all_rows_by: &'static str,
    /// Drawn text is handed back by [`RowWriter::finish`] instead of being written.
    pub(crate) is_held: bool,
}

/// Takes batches of one result and writes them.
pub(crate) struct RowWriter {
    sink: Sink,
    target: Target,
    schema: SchemaRef,
    output: Output,
}

enum Sink {
    Drawn { batches: Vec<RecordBatch>, rows_shown_max: usize, rows: usize, out: Out },
    Csv(Box<arrow::csv::Writer<Out>>),
    Json(Box<arrow::json::LineDelimitedWriter<Out>>),
    Parquet(Box<ArrowWriter<Out>>),
}

type Out = BufWriter<Box<dyn Write + Send>>;

/// Where bytes go, and what makes them visible.
enum Target {
    StandardOutput,
    File { part: PathBuf, path: PathBuf },
}

impl RowWriter {
    /// Opens the file, or standard output.
    ///
    /// # Errors
    ///
    /// Names the file that cannot be made; of Parquet, where a terminal would get it.
    pub(crate) fn open(output: &Output, schema: &SchemaRef) -> Result<Self> {
        let to_terminal = output.path.is_none() && std::io::stdout().is_terminal();
        if to_terminal && output.format == Format::Parquet {
            return Err(Error::invalid_input(
                "Parquet is not written to a terminal; use --output FILE or redirect standard output",
            ));
        }
        let (target, raw): (Target, Box<dyn Write + Send>) = match &output.path {
            None => (Target::StandardOutput, Box::new(std::io::stdout())),
            Some(path) => {
                let mut part = path.as_os_str().to_owned();
                part.push(".part");
                let part = PathBuf::from(part);
                let file = File::create(&part).context(|| format!("creating '{}'", part.display()))?;
                (Target::File { part, path: path.to_owned() }, Box::new(file))
            }
        };
        let out = BufWriter::with_capacity(1 << 20, raw);
        let rows_shown_max = if to_terminal && output.max_rows > 0 { output.max_rows } else { usize::MAX };
        let sink = match output.format {
            Format::Table | Format::Markdown | Format::Line => {
                Sink::Drawn { batches: Vec::new(), rows_shown_max, rows: 0, out }
            }
            Format::Csv => Sink::Csv(Box::new(csv_writer(out, schema)?)),
            // Every line has every column, NULL as null.
            Format::Json => Sink::Json(Box::new(
                JsonBuilder::new().with_explicit_nulls(true).build::<_, LineDelimited>(out),
            )),
            Format::Parquet => {
                let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
                let writer = ArrowWriter::try_new(out, schema.clone(), Some(properties));
                Sink::Parquet(Box::new(
                    writer.map_err(|error| write_error("opening the Parquet output", error))?,
                ))
            }
        };
        Ok(Self { sink, target, schema: schema.clone(), output: output.clone() })
    }

    /// True where rows reach standard output as they come.
    pub(crate) fn writes_at_once(&self) -> bool {
        matches!(self.target, Target::StandardOutput) && !matches!(self.sink, Sink::Drawn { .. })
    }

    /// Writes one batch.
    pub(crate) fn write(&mut self, batch: RecordBatch) -> Result<()> {
        match &mut self.sink {
            Sink::Drawn { batches, rows_shown_max, rows, .. } => {
                if *rows < *rows_shown_max {
                    batches.push(batch.slice(0, batch.num_rows().min(*rows_shown_max - *rows)));
                }
                *rows += batch.num_rows();
                Ok(())
            }
            Sink::Csv(writer) => writer.write(&batch).map_err(|error| write_error("writing CSV", error)),
            Sink::Json(writer) => writer.write(&batch).map_err(|error| write_error("writing JSON", error)),
            Sink::Parquet(writer) => {
                writer.write(&batch).map_err(|error| write_error("writing Parquet", error))
            }
        }
    }

    /// Writes what is left and makes a file visible; gives the text that is to be shown later.
    ///
    /// # Errors
    ///
    /// Of writing.
    pub(crate) fn finish(mut self) -> Result<Option<String>> {
        let flushing = || "writing the result".to_owned();
        let mut held = None;
        match &mut self.sink {
            Sink::Drawn { batches, rows_shown_max, rows, out } => {
                let mut text = drawn(self.output.format, &self.schema, batches)?;
                let note = (*rows > *rows_shown_max).then(|| {
                    format!("{rows_shown_max} of {rows} rows shown; {} shows all", self.output.all_rows_by)
                });
                if self.output.is_held && self.output.path.is_none() {
                    text.extend(note.map(|note| format!("{note}\n")));
                    held = Some(text);
                } else {
                    out.write_all(text.as_bytes()).context(flushing)?;
                    note.iter().for_each(|note| eprintln!("{note}"));
                }
                out.flush().context(flushing)?;
            }
            Sink::Csv(writer) => drop_csv(writer.as_mut()).context(flushing)?,
            Sink::Json(writer) => {
                writer.finish().map_err(|error| write_error("writing JSON", error))?;
                writer.get_mut().flush().context(flushing)?;
            }
            Sink::Parquet(writer) => {
                writer.finish().map_err(|error| write_error("writing Parquet", error))?;
                writer.inner_mut().flush().context(flushing)?;
            }
        }
        if let Target::File { part, path } = &self.target {
            std::fs::rename(part, path).context(|| format!("renaming to '{}'", path.display()))?;
        }
        self.target = Target::StandardOutput;
        Ok(held)
    }
}

fn drawn(format: Format, schema: &SchemaRef, batches: &[RecordBatch]) -> Result<String> {
    let text = match format {
        Format::Markdown => drawing::markdown(schema, batches),
        Format::Line => drawing::lines(schema, batches),
        Format::Table | Format::Csv | Format::Json | Format::Parquet => drawing::table(schema, batches),
    };
    text.map_err(|error| write_error("drawing the rows", error))
}

impl Drop for RowWriter {
    fn drop(&mut self) {
        if let Target::File { part, .. } = &self.target {
            let _ = std::fs::remove_file(part); // an unfinished file is of no use to anyone
        }
    }
}

fn csv_writer(mut out: Out, schema: &SchemaRef) -> Result<arrow::csv::Writer<Out>> {
    // The header is written here so that an empty result has one, too.
    let names: Vec<String> = schema.fields().iter().map(|field| quoted(field.name())).collect();
    writeln!(out, "{}", names.join(",")).context(|| "writing the result".into())?;
    Ok(arrow::csv::WriterBuilder::new().with_header(false).build(out))
}

fn quoted(field: &str) -> String {
    let needs_quotes = field.contains(['"', ',', '\n', '\r']);
    if needs_quotes { format!("\"{}\"", field.replace('"', "\"\"")) } else { field.to_owned() }
}

fn drop_csv(writer: &mut arrow::csv::Writer<Out>) -> std::io::Result<()> {
    let taken = std::mem::replace(
        writer,
        arrow::csv::WriterBuilder::new()
            .with_header(false)
            .build(BufWriter::new(Box::new(std::io::sink()) as _)),
    );
    taken.into_inner().flush()
}

/// A failed write keeps the operating system's error as its source, so that a closed pipe can be told apart.
fn write_error(doing: &str, error: impl std::error::Error + Send + Sync + 'static) -> Error {
    let text = error.to_string();
    let io = std::error::Error::source(&error).and_then(|source| source.downcast_ref::<std::io::Error>());
    match io.map(std::io::Error::kind) {
        Some(kind) => Error::io(doing, std::io::Error::new(kind, text)),
        None if text.contains("Broken pipe") => {
            Error::io(doing, std::io::Error::new(std::io::ErrorKind::BrokenPipe, text))
        }
        None => Error::new(ErrorKind::Io, doing).with_source(error),
    }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn header_fields_are_quoted_where_needed() {
        assert_eq!(quoted("count(*)"), "count(*)");
        assert_eq!(quoted("sum(a,b)"), "\"sum(a,b)\"");
        assert_eq!(quoted("say \"x\""), "\"say \"\"x\"\"\"");
    }
}
