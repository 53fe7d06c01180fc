//! The input files of a load as one relation: listed, held to one schema, cut into parts.
//!
//! ```text
//!  inputs ──files──▶ list ──open──▶ schema of each file ──agree──▶ TableSchema
//!                                                                      │
//!  parts in input order:  Parquet row group | run of IPC batches | block of text records
//!      │ read (any thread, reader.rs keeps the order)                  │
//!      └──────────────▶ RecordBatch ──conform──▶ columns in table order, staging types
//! ```
//!
//! The schema is that of the first file that has one (CSV and JSON: inferred from its first rows), or that
//! of the table appended to. Every other file must agree by column name and type.
//!
//! Folders that read `key=value` are columns after those of the files, unless the first file has a column of that name:
//! then what the files hold stands.
//!
//! Staging types are the table's with plain offsets for text: a view would keep its whole page in memory.

mod csv;
mod files;
mod folders;
mod ipc;
mod json;
mod object;
mod parquet;
mod place;
mod text;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};
use pelton_error::{CancelFlag, Error, Result};
use pelton_store::{LogicalType, TableSchema};

use self::csv::{CsvFile, Dialect};
use self::files::ListedFile;
use self::folders::{FolderColumns, FolderValues};
use self::ipc::IpcFile;
use self::json::JsonFile;
use self::object::Tail;
use self::parquet::ParquetFile;
use self::place::Place;
use self::text::{BlockReader, Records, TextBlock};
use crate::request::{CsvOptions, InputFormat};

/// Batches of an IPC file read as one part.
const IPC_PART_BATCHES: usize = 8;

/// The files of a load and the schema they share.
#[derive(Debug)]
pub(crate) struct Sources {
    files: Vec<InputFile>,
    /// The table's columns.
    pub(crate) schema: TableSchema,
    /// The columns of every batch read.
    pub(crate) staging: SchemaRef,
    /// What was left out.
    pub(crate) warnings: Vec<String>,
    input_bytes: Arc<AtomicU64>,
    share_bytes: u64,
}

/// What a caller says besides the inputs.
pub(crate) struct OpenOptions<'a> {
    pub(crate) format: Option<InputFormat>,
    pub(crate) csv: &'a CsvOptions,
    /// The columns that all files must have; `None`: those of the first.
    pub(crate) expected: Option<&'a TableSchema>,
    /// Counts what is read.
    pub(crate) input_bytes: Arc<AtomicU64>,
    /// Bytes that each reading thread may have on their way from an object store.
    pub(crate) share_bytes: u64,
    pub(crate) cancel: &'a CancelFlag,
}

/// Footers of objects asked for at once.
const TAILS: usize = 16;

#[derive(Debug)]
struct InputFile {
    listed: ListedFile,
    content: Content,
    /// What its folders say, as columns after its own.
    folders: FolderValues,
    /// For each column of the table, its position in the file.
    columns: Vec<usize>,
}

#[derive(Debug)]
enum Content {
    Parquet(ParquetFile),
    Ipc(IpcFile),
    Csv(CsvFile),
    Json(JsonFile),
    /// A text file without a record.
    Empty,
}

/// The piece of a file that one thread reads in one go.
#[derive(Debug)]
pub(crate) enum Part {
    /// A row group of a Parquet file.
    RowGroup { file: usize, index: usize },
    /// Batches of an IPC file, or all of a stream.
    Batches { file: usize, first: usize, count: usize },
    /// Records of a text file.
    Text(TextBlock),
}

impl Sources {
    /// Lists the inputs, opens them and holds them to one schema.
    pub(crate) fn open(inputs: &[String], options: OpenOptions<'_>) -> Result<Self> {
        let (listed, warnings) = files::list(inputs, options.format, options.cancel)?;
        let mut folders = FolderColumns::of(&listed)?;
        let mut agreed: Option<(String, TableSchema)> =
            options.expected.map(|schema| ("the table".to_string(), schema.clone()));
        let mut files = Vec::with_capacity(listed.len());
        let mut tails = Tails::of(&listed);
        for (index, listed) in listed.iter().enumerate() {
            let others = agreed.as_ref().map(|(_, schema)| folders.without(schema));
            let content = open_content(listed, tails.next(), options.csv, others.as_ref())?;
            let Some(own) = content.table_schema(listed)? else {
                let (folders, columns) = (folders.values(index), Vec::new());
                files.push(InputFile { listed: listed.clone(), content, folders, columns });
                continue;
            };
            folders.settle(&own);
            let found = folders.with(own)?;
            let columns = match &mut agreed {
                Some((holder, schema)) => agree(holder, schema, &listed.name(), &found)?,
                none => {
                    let columns = (0..found.columns.len()).collect();
                    *none = Some((listed.name(), found));
                    columns
                }
            };
            let folders = folders.values(index);
            files.push(InputFile { listed: listed.clone(), content, folders, columns });
        }
        let (_, schema) = agreed.ok_or_else(|| {
            Error::invalid_input("every input file is empty, so nothing tells the columns of the table")
        })?;
        let staging = staging_schema(&schema);
        let OpenOptions { input_bytes, share_bytes, .. } = options;
        Ok(Self { files, schema, staging, warnings, input_bytes, share_bytes })
    }

    /// Bytes of all files.
    pub(crate) fn total_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.listed.bytes).sum()
    }

    /// Rows of all files, where the files tell.
    pub(crate) fn row_count(&self) -> Option<u64> {
        self.files.iter().map(|file| file.content.row_count()).sum()
    }

    /// True where parts can be read at random positions: no text and no stream.
    pub(crate) fn is_random_access(&self) -> bool {
        self.files.iter().all(|file| match &file.content {
            Content::Parquet(_) | Content::Empty => true,
            Content::Ipc(ipc) => ipc.batch_count.is_some(),
            Content::Csv(_) | Content::Json(_) => false,
        })
    }

    /// All parts in the order of the rows.
    pub(crate) fn parts(self: &Arc<Self>) -> Parts {
        Parts { sources: Arc::clone(self), file: 0, position: 0, text: None }
    }

    /// Reads `part`; every batch has the staging schema.
    pub(crate) fn read<'a>(
        &'a self,
        part: &'a Part,
    ) -> Result<Box<dyn Iterator<Item = Result<RecordBatch>> + 'a>> {
        let file = &self.files[part.file()];
        let batches: Box<dyn Iterator<Item = Result<RecordBatch>>> = match (part, &file.content) {
            (Part::RowGroup { index, .. }, Content::Parquet(parquet)) => {
                self.input_bytes.fetch_add(parquet.stored_bytes(*index), Ordering::Relaxed);
                Box::new(parquet.read(&file.listed.place, *index, self.share_bytes)?)
            }
            (Part::Batches { first, count, .. }, Content::Ipc(ipc)) => {
                let share = *count as f64 / ipc.batch_count.unwrap_or(*count).max(1) as f64;
                self.input_bytes.fetch_add((file.listed.bytes as f64 * share) as u64, Ordering::Relaxed);
                ipc.read(&file.listed.place, *first, *count)?
            }
            (Part::Text(block), Content::Csv(csv)) => {
                Box::new(csv.parse(&file.name(), block)?.into_iter().map(Ok))
            }
            (Part::Text(block), Content::Json(json)) => {
                Box::new(json.parse(&file.name(), block)?.into_iter().map(Ok))
            }
            _ => unreachable!("a part is read as what it was cut from"),
        };
        Ok(Box::new(batches.map(|batch| self.conform(file, batch?))))
    }

    /// The name of the file that `part` is of.
    pub(crate) fn file_name(&self, part: &Part) -> String {
        self.files[part.file()].name()
    }

    /// The columns of `batch` in the order of the table, as staging types.
    fn conform(&self, file: &InputFile, batch: RecordBatch) -> Result<RecordBatch> {
        let batch = file.folders.append_to(batch)?;
        let conformed = conform(&batch, &file.columns, &self.staging);
        conformed.map_err(|error| error.context(file.name()))
    }
}

impl InputFile {
    fn name(&self) -> String {
        self.listed.name()
    }
}

/// The columns of `batch` at `columns`, cast to the types of `staging`.
pub(crate) fn conform(batch: &RecordBatch, columns: &[usize], staging: &SchemaRef) -> Result<RecordBatch> {
    let strictly = CastOptions { safe: false, ..Default::default() };
    let cast_column = |(&position, field): (&usize, &Arc<Field>)| {
        cast_with_options(batch.column(position), field.data_type(), &strictly)
            .map_err(|error| Error::invalid_input(format!("column '{}'", field.name())).with_source(error))
    };
    let arrays = columns.iter().zip(staging.fields()).map(cast_column).collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(staging), arrays, &options)
        .map_err(|error| Error::invalid_input("rows do not fit the schema").with_source(error))
}

impl Part {
    fn file(&self) -> usize {
        match self {
            Part::RowGroup { file, .. } | Part::Batches { file, .. } => *file,
            Part::Text(block) => block.file,
        }
    }
}

impl Content {
    /// The columns as a table would have them; `None` in a text file without a record.
    fn table_schema(&self, listed: &ListedFile) -> Result<Option<TableSchema>> {
        let schema = match self {
            Content::Parquet(parquet) => TableSchema::from_arrow(parquet.arrow_schema()),
            Content::Ipc(ipc) => TableSchema::from_arrow(&ipc.schema),
            Content::Csv(csv) => TableSchema::from_arrow(&csv.arrow_schema()),
            Content::Json(json) => TableSchema::from_arrow(json.arrow_schema()),
            Content::Empty => return Ok(None),
        };
        schema.map(Some).map_err(|error| error.context(listed.name()))
    }

    fn row_count(&self) -> Option<u64> {
        match self {
            Content::Parquet(parquet) => {
                Some((0..parquet.row_group_count()).map(|index| parquet.row_count(index)).sum())
            }
            Content::Empty => Some(0),
            Content::Ipc(_) | Content::Csv(_) | Content::Json(_) => None,
        }
    }
}

fn open_content(
    listed: &ListedFile,
    tail: Option<Tail>,
    csv: &CsvOptions,
    agreed: Option<&TableSchema>,
) -> Result<Content> {
    let staging = agreed.map(staging_schema);
    Ok(match listed.format {
        InputFormat::Parquet => Content::Parquet(ParquetFile::open(&listed.place, tail)?),
        InputFormat::Arrow => Content::Ipc(IpcFile::open(&listed.place)?),
        InputFormat::Csv => {
            let dialect = Dialect::of(listed.place.path(), csv);
            let file = match &staging {
                Some(staging) => CsvFile::with_schema(listed, dialect, staging)?,
                None => CsvFile::infer(listed, dialect)?,
            };
            file.map_or(Content::Empty, Content::Csv)
        }
        InputFormat::Json => match &staging {
            Some(staging) => Content::Json(JsonFile::with_schema(staging)),
            None => JsonFile::infer(listed, csv.infer_row_count)?.map_or(Content::Empty, Content::Json),
        },
    })
}

/// The footers of Parquet files in object stores, some of them on their way.
struct Tails<'a> {
    listed: &'a [ListedFile],
    begun: VecDeque<Option<Tail>>,
}

impl<'a> Tails<'a> {
    fn of(listed: &'a [ListedFile]) -> Self {
        Self { listed, begun: VecDeque::new() }
    }

    /// The tail of the next file, where it has one.
    fn next(&mut self) -> Option<Tail> {
        while self.begun.len() < TAILS
            && let Some((file, rest)) = self.listed.split_first()
        {
            self.listed = rest;
            self.begun.push_back(match (&file.place, file.format) {
                (Place::Store(object), InputFormat::Parquet) => Some(Tail::begin(object)),
                _ => None,
            });
        }
        self.begun.pop_front().flatten()
    }
}

/// Where the columns of `schema` lie in `found`; columns become nullable where they are in either.
fn agree(holder: &str, schema: &mut TableSchema, name: &str, found: &TableSchema) -> Result<Vec<usize>> {
    if let Some(extra) = found.columns.iter().find(|column| schema.index_of(&column.name).is_none()) {
        return Err(Error::invalid_input(format!(
            "{name}: column '{}' ({}) is not in {holder}; all files of a load have the same columns",
            extra.name, extra.logical
        )));
    }
    let mut positions = Vec::with_capacity(schema.columns.len());
    for column in &mut schema.columns {
        let Some(position) = found.index_of(&column.name) else {
            return Err(Error::invalid_input(format!(
                "{name}: column '{}' ({}) of {holder} is missing; all files of a load have the same columns",
                column.name, column.logical
            )));
        };
        let other = &found.columns[position];
        if other.logical != column.logical {
            return Err(Error::invalid_input(format!(
                "{name}: column '{}' is {} but {} in {holder}; convert one of them",
                column.name, other.logical, column.logical
            )));
        }
        column.nullable |= other.nullable;
        positions.push(position);
    }
    Ok(positions)
}

/// The Arrow schema in which rows wait to be encoded.
pub(crate) fn staging_schema(schema: &TableSchema) -> SchemaRef {
    let field = |column: &pelton_store::ColumnSchema| {
        let data_type = match column.logical.to_arrow() {
            DataType::Utf8View => DataType::Utf8,
            DataType::BinaryView => DataType::Binary,
            other => other,
        };
        Field::new(&column.name, data_type, column.nullable)
    };
    Arc::new(Schema::new(schema.columns.iter().map(field).collect::<Fields>()))
}

/// The name of a type in messages.
fn type_name(data_type: &DataType) -> String {
    LogicalType::from_arrow(data_type).map_or_else(|| data_type.to_string(), |logical| logical.to_string())
}

/// Cuts the files into parts, in order. Text is read from the disk as it is cut.
pub(crate) struct Parts {
    sources: Arc<Sources>,
    file: usize,
    position: usize,
    text: Option<BlockReader>,
}

impl Iterator for Parts {
    type Item = Result<Part>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.file < self.sources.files.len() {
            match self.next_of_file() {
                Ok(Some(part)) => return Some(Ok(part)),
                Ok(None) => {
                    self.file += 1;
                    self.position = 0;
                    self.text = None;
                }
                Err(error) => {
                    self.file = self.sources.files.len();
                    return Some(Err(error));
                }
            }
        }
        None
    }
}

impl Parts {
    fn next_of_file(&mut self) -> Result<Option<Part>> {
        let sources = Arc::clone(&self.sources);
        let (file, index) = (self.file, self.position);
        self.position += 1;
        match &sources.files[file].content {
            Content::Empty => Ok(None),
            Content::Parquet(parquet) => {
                Ok((index < parquet.row_group_count()).then_some(Part::RowGroup { file, index }))
            }
            Content::Ipc(ipc) => {
                let batch_count = ipc.batch_count.unwrap_or(1);
                let first = index * IPC_PART_BATCHES;
                let count = IPC_PART_BATCHES.min(batch_count.saturating_sub(first));
                Ok((count > 0).then_some(Part::Batches { file, first, count }))
            }
            Content::Csv(csv) => self.next_block(csv.dialect.records(), csv.dialect.header),
            Content::Json(_) => self.next_block(Records::Lines, false),
        }
    }

    fn next_block(&mut self, records: Records, skip_header: bool) -> Result<Option<Part>> {
        let reader = match &mut self.text {
            Some(reader) => reader,
            none => {
                let listed = &self.sources.files[self.file].listed;
                let counter = Arc::clone(&self.sources.input_bytes);
                none.insert(BlockReader::new(self.file, listed, records, skip_header, counter)?)
            }
        };
        Ok(reader.next_block()?.map(Part::Text))
    }
}
