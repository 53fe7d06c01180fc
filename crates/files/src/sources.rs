//! A set of files as one relation: opened, held to one schema, cut into parts.
//!
//! ```text
//!  files ──open──▶ what each file tells, or its text shows ──agree──▶ schema
//!                                                                      │
//!  parts in input order:  Parquet row group | run of IPC batches | block of text records
//!      │ read, on any thread                                           │
//!      └──────────────▶ columns of the file ──▶ RecordBatch of the columns that a view asks for, as its types
//! ```
//!
//! Columns go by name. Folders that read `key=value` are columns after those of the files, unless a file has a column of
//! that name: then what the files hold stands.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Fields, Schema, SchemaRef};
use pelton_error::{CancelFlag, Error, Result};
use pelton_remote::PartitionValue;

use crate::agree::{Agreed, FileColumns, Known, Said, agree};
use crate::column::{Fit, Fixed, WantedColumn};
use crate::csv::{CsvFile, Dialect};
use crate::files::{Listed, ListedFile};
use crate::folders::{FolderColumns, FolderValues};
use crate::infer::{Looked, Shape, TextFile, TextKind, look, rows_per_file};
use crate::ipc::IpcFile;
use crate::json::{self, MemberSeen};
use crate::object::Tail;
use crate::options::{InferRows, InputFormat, TextOptions};
use crate::parquet::ParquetFile;
use crate::place::Place;
use crate::text::{BlockReader, Records, TextBlock};
use crate::types::has_members_of;
use crate::values::is_parsed;

/// Batches of an IPC file read as one part.
const IPC_PART_BATCHES: usize = 8;
/// Rows of the batches that text is handed out in.
const BATCH_ROWS: usize = 8192;

/// Files and the schema they share.
#[derive(Debug)]
pub struct Sources {
    files: Vec<InputFile>,
    schema: SchemaRef,
    /// Who says what the type of each column is.
    fixed: Vec<Fixed>,
    warnings: Vec<String>,
    text: TextOptions,
    fit: Fit,
    input_bytes: Arc<AtomicU64>,
    share_bytes: u64,
}

/// What a caller says besides the files.
pub struct OpenOptions<'a> {
    /// How text files are written.
    pub text: &'a TextOptions,
    /// The columns that the rows are for; `None`: those that the files have.
    pub expected: Option<&'a Schema>,
    /// Counts what is read.
    pub input_bytes: Arc<AtomicU64>,
    /// Bytes that each reading thread may have on their way from an object store.
    pub share_bytes: u64,
    /// Threads that look at text.
    pub thread_count: usize,
    /// Ends the looking.
    pub cancel: &'a CancelFlag,
}

/// Footers of objects asked for at once.
const TAILS: usize = 16;

#[derive(Debug)]
struct InputFile {
    listed: ListedFile,
    content: Content,
    /// What its folders say.
    folders: FolderValues,
    /// Where each column of the schema is.
    columns: Vec<ColumnPlace>,
    row_estimate: Option<u64>,
}

/// Where a file has a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ColumnPlace {
    /// Among its own columns.
    File(usize),
    /// Among those that its folders name.
    Folder(usize),
    /// Nowhere: NULL.
    Missing,
}

#[derive(Debug)]
enum Content {
    Parquet(ParquetFile),
    Ipc(IpcFile),
    Csv(CsvFile),
    /// The members that its objects may have.
    Json(Vec<String>),
    /// A text file without a record.
    Empty,
}

/// The piece of a file that one thread reads in one go.
#[derive(Debug)]
pub enum Part {
    /// A row group of a Parquet file.
    RowGroup {
        /// Position of the file.
        file: usize,
        /// Position of the row group.
        index: usize,
    },
    /// Batches of an IPC file, or all of a stream.
    Batches {
        /// Position of the file.
        file: usize,
        /// Position of the first batch.
        first: usize,
        /// How many.
        count: usize,
    },
    /// Records of a text file.
    Text(TextBlock),
}

impl Sources {
    /// Opens the files, looks at those of text, and holds all to one schema.
    ///
    /// # Errors
    ///
    /// `InvalidInput` names the file, and the column, that does not fit; `Corrupt` the file that cannot be read; `Io` the
    /// store that does not answer; `Cancelled`.
    pub fn open(listed: Listed, options: OpenOptions<'_>) -> Result<Self> {
        options.text.check()?;
        let Listed { files: listed, mut warnings } = listed;
        let folders = FolderColumns::of(&listed)?;
        let table = options.expected.map(|schema| folders.without(schema));
        let (contents, looked) = open_contents(&listed, &options, table.as_ref())?;
        let mut found = Vec::new();
        for (content, (listed, looked)) in contents.iter().zip(listed.iter().zip(&looked)) {
            found.extend(columns_of(content, looked, listed, table.as_ref()));
        }
        if found.is_empty() && options.expected.is_none() {
            return Err(Error::invalid_input(
                "every input file is empty, so nothing tells the columns of the table",
            ));
        }
        let said = Said { table: table.as_ref(), types: &options.text.column_types };
        let Agreed { mut fields, mut fixed, warnings: lacking } = agree(&found, &said)?;
        warnings.extend(lacking);
        let folders = folders.beside(&fields);
        fields.extend(folders.fields());
        fixed.resize(fields.len(), Fixed::No);
        let schema = in_order_of(options.expected, fields, &mut fixed)?;
        check_members(&found, &schema)?;
        let files = contents.into_iter().zip(listed).zip(looked).enumerate().map(
            |(index, ((content, listed), looked))| {
                let own = content.names();
                let place = |name: &String| match own.iter().position(|own| own == name) {
                    Some(position) => ColumnPlace::File(position),
                    None => folders.position(name).map_or(ColumnPlace::Missing, ColumnPlace::Folder),
                };
                let columns = schema.fields().iter().map(|field| place(field.name())).collect();
                let row_estimate = content.row_count().or_else(|| estimate(&listed, looked.as_ref()?));
                InputFile { folders: folders.values(index), listed, content, columns, row_estimate }
            },
        );
        Ok(Self {
            files: files.collect(),
            schema,
            fixed,
            warnings,
            text: options.text.clone(),
            fit: Fit::default(),
            input_bytes: options.input_bytes,
            share_bytes: options.share_bytes,
        })
    }

    /// The columns of the files and of their folders.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The columns of the schema that folders name, and what the folders of file `file` say of them.
    pub fn folders(&self, file: usize) -> impl Iterator<Item = (usize, &PartitionValue)> {
        let file = &self.files[file];
        file.columns.iter().enumerate().filter_map(|(column, place)| match place {
            ColumnPlace::Folder(position) => Some((column, file.folders.value(*position))),
            ColumnPlace::File(_) | ColumnPlace::Missing => None,
        })
    }

    /// True where every file is Parquet and has column `column` of the schema itself, of one Arrow type.
    pub fn is_alike(&self, column: usize) -> bool {
        let type_in = |file: &InputFile| match (&file.content, file.columns[column]) {
            (Content::Parquet(parquet), ColumnPlace::File(position)) => {
                Some(parquet.arrow_schema().field(position).data_type().clone())
            }
            _ => None,
        };
        let mut types = self.files.iter().map(type_in);
        let first = types.next().flatten();
        first.is_some() && types.all(|other| other == first)
    }

    /// Files that were left out, columns that some files lack.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// True once a value was met that an inferred type does not hold: other types may be inferred from all rows.
    pub fn may_infer_wider(&self) -> bool {
        self.fit.is_misfit() && self.text.infer_rows != InferRows::All
    }

    /// How many files there are.
    pub fn file_count(&self) -> usize {
        self.files.len()
    }

    /// Bytes of file `file` as it is stored.
    pub fn file_bytes(&self, file: usize) -> u64 {
        self.files[file].listed.bytes
    }

    /// The name of file `file` in messages.
    pub fn file_name(&self, file: usize) -> String {
        self.files[file].name()
    }

    /// About how many rows file `file` has, where that can be told.
    pub fn row_estimate(&self, file: usize) -> Option<u64> {
        self.files[file].row_estimate
    }

    /// Bytes of all files.
    pub fn total_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.listed.bytes).sum()
    }

    /// Rows of all files, where the files tell.
    pub fn row_count(&self) -> Option<u64> {
        self.files.iter().map(|file| file.content.row_count()).sum()
    }

    /// True where parts can be read at random positions: no text and no stream.
    pub fn is_random_access(&self) -> bool {
        self.files.iter().all(|file| match &file.content {
            Content::Parquet(_) | Content::Empty => true,
            Content::Ipc(ipc) => ipc.batch_count.is_some(),
            Content::Csv(_) | Content::Json(_) => false,
        })
    }

    /// All parts in the order of the rows.
    pub fn parts(self: &Arc<Self>) -> Parts {
        self.parts_of(0, self.files.len())
    }

    /// The parts of files `first..end`, in order.
    pub fn parts_of(self: &Arc<Self>, first: usize, end: usize) -> Parts {
        Parts { sources: Arc::clone(self), file: first, end, position: 0, text: None }
    }

    /// A view of all columns as the types of `target`, which has them in the same order.
    pub fn view(self: &Arc<Self>, target: SchemaRef) -> View {
        self.view_of((0..self.schema.fields().len()).collect(), target)
    }

    /// A view of these columns of the schema, as the types of `target`.
    pub fn view_of(self: &Arc<Self>, columns: Vec<usize>, target: SchemaRef) -> View {
        assert_eq!(columns.len(), target.fields().len());
        View { sources: Arc::clone(self), columns, target }
    }
}

/// Some columns of a set of files, as the caller wants them.
#[derive(Debug, Clone)]
pub struct View {
    sources: Arc<Sources>,
    /// Of the schema.
    columns: Vec<usize>,
    target: SchemaRef,
}

type Batches<'a> = Box<dyn Iterator<Item = Result<RecordBatch>> + 'a>;

impl View {
    /// The files.
    pub fn sources(&self) -> &Arc<Sources> {
        &self.sources
    }

    /// The columns of the batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.target
    }

    /// The name of the file that `part` is of.
    pub fn file_name(&self, part: &Part) -> String {
        self.sources.file_name(part.file())
    }

    /// Reads `part`.
    ///
    /// # Errors
    ///
    /// `InvalidInput` names file, line, column and value of what does not fit; `Corrupt` and `Io` the file.
    pub fn read<'a>(&'a self, part: &'a Part) -> Result<Batches<'a>> {
        let sources = &self.sources;
        let file = &sources.files[part.file()];
        match (part, &file.content) {
            (Part::RowGroup { index, .. }, Content::Parquet(parquet)) => {
                sources.input_bytes.fetch_add(parquet.stored_bytes(*index), Ordering::Relaxed);
                // In the order of the file, in which they are read.
                let mut own: Vec<usize> = self.own(file).map(|(_, position)| position).collect();
                own.sort_unstable();
                own.dedup();
                let batches = parquet.read(&file.listed.place, *index, sources.share_bytes, &own)?;
                Ok(Box::new(batches.map(move |batch| self.conform(file, &batch?, &own))))
            }
            (Part::Batches { first, count, .. }, Content::Ipc(ipc)) => {
                let share = *count as f64 / ipc.batch_count.unwrap_or(*count).max(1) as f64;
                sources.input_bytes.fetch_add((file.listed.bytes as f64 * share) as u64, Ordering::Relaxed);
                let own: Vec<usize> = self.own(file).map(|(_, position)| position).collect();
                let batches = ipc.read(&file.listed.place, *first, *count, own.clone())?;
                Ok(Box::new(batches.map(move |batch| self.conform(file, &batch?, &own))))
            }
            (Part::Text(block), Content::Csv(csv)) => {
                let wanted: Vec<WantedColumn<'_>> = self.wanted(file).collect();
                let (arrays, row_count) = csv.parse(&file.name(), block, &wanted)?;
                self.text_batches(file, arrays, row_count)
            }
            (Part::Text(block), Content::Json(known)) => {
                let wanted: Vec<WantedColumn<'_>> = self.wanted(file).collect();
                let known = (wanted.len() == known.len()).then_some(known.as_slice());
                let (arrays, row_count) = json::parse(&file.name(), block, &wanted, known, &sources.fit)?;
                self.text_batches(file, arrays, row_count)
            }
            _ => unreachable!("a part is read as what it was cut from"),
        }
    }

    /// The columns that `file` itself has: their place in the view and in the file.
    fn own<'a>(&'a self, file: &'a InputFile) -> impl Iterator<Item = (usize, usize)> + 'a {
        self.columns.iter().enumerate().filter_map(|(index, &column)| match file.columns[column] {
            ColumnPlace::File(position) => Some((index, position)),
            ColumnPlace::Folder(_) | ColumnPlace::Missing => None,
        })
    }

    fn wanted<'a>(&'a self, file: &'a InputFile) -> impl Iterator<Item = WantedColumn<'a>> + 'a {
        self.own(file).map(|(index, position)| {
            let column = self.columns[index];
            let target = self.target.field(index).data_type();
            let own = self.sources.schema.field(column).data_type();
            WantedColumn {
                position,
                name: self.sources.schema.field(column).name(),
                // What is not parsed is cast from the type that the files agreed on, or from text.
                data_type: [target, own]
                    .into_iter()
                    .find(|kind| is_parsed(kind) || kind.is_nested())
                    .unwrap_or(&DataType::Utf8),
                fixed: &self.sources.fixed[column],
                fit: &self.sources.fit,
            }
        })
    }

    /// Batches of `row_count` rows whose own columns are `arrays`.
    fn text_batches(
        &self,
        file: &InputFile,
        arrays: Vec<ArrayRef>,
        row_count: usize,
    ) -> Result<Batches<'static>> {
        let mut own = arrays.into_iter();
        let whole = self.batch(file, row_count, |_| {
            own.next().expect("a column was parsed for each that the file has")
        })?;
        let starts = (0..row_count).step_by(BATCH_ROWS);
        Ok(Box::new(starts.map(move |start| Ok(whole.slice(start, BATCH_ROWS.min(row_count - start))))))
    }

    /// The rows of `batch`, whose columns are those at `own` of the file.
    fn conform(&self, file: &InputFile, batch: &RecordBatch, own: &[usize]) -> Result<RecordBatch> {
        let position =
            |column: usize| own.iter().position(|&read| read == column).expect("what is wanted was read");
        self.batch(file, batch.num_rows(), |column| Arc::clone(batch.column(position(column))))
    }

    /// A batch of the view; `own` gives the columns of the file, in the order of the view, by their position in it.
    fn batch(
        &self,
        file: &InputFile,
        row_count: usize,
        mut own: impl FnMut(usize) -> ArrayRef,
    ) -> Result<RecordBatch> {
        let strictly = CastOptions { safe: false, ..Default::default() };
        let arrays = self.columns.iter().zip(self.target.fields()).map(|(&column, field)| {
            let array = match file.columns[column] {
                ColumnPlace::File(position) => own(position),
                ColumnPlace::Folder(position) => file.folders.array(position, row_count),
                ColumnPlace::Missing => return Ok(new_null_array(field.data_type(), row_count)),
            };
            if array.data_type() == field.data_type() {
                return Ok(array);
            }
            cast_with_options(&array, field.data_type(), &strictly).map_err(|error| {
                Error::invalid_input(format!("{}, column '{}'", file.name(), field.name())).with_source(error)
            })
        });
        let arrays = arrays.collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(row_count));
        RecordBatch::try_new_with_options(Arc::clone(&self.target), arrays, &options).map_err(|error| {
            Error::invalid_input(format!("{}: rows do not fit the schema", file.name())).with_source(error)
        })
    }
}

impl InputFile {
    fn name(&self) -> String {
        self.listed.name()
    }
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
    /// The columns that the file itself has.
    fn names(&self) -> Vec<String> {
        let of = |schema: &Schema| schema.fields().iter().map(|field| field.name().clone()).collect();
        match self {
            Content::Parquet(parquet) => of(parquet.arrow_schema()),
            Content::Ipc(ipc) => of(&ipc.schema),
            Content::Csv(csv) => csv.names.clone(),
            Content::Json(names) => names.clone(),
            Content::Empty => Vec::new(),
        }
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

/// Opens the files that tell what they hold, and looks at the others.
fn open_contents(
    listed: &[ListedFile],
    options: &OpenOptions<'_>,
    table: Option<&Schema>,
) -> Result<(Vec<Content>, Vec<Option<Looked>>)> {
    let kind = |listed: &ListedFile| match listed.format {
        InputFormat::Csv => Some(TextKind::Csv(Dialect::of(listed.place.path(), options.text))),
        // What a table has is what is looked for.
        InputFormat::Json if table.is_none() => Some(TextKind::Json),
        _ => None,
    };
    let texts: Vec<TextFile<'_>> =
        listed.iter().filter_map(|listed| Some(TextFile { kind: kind(listed)?, listed })).collect();
    let rows = match table {
        Some(_) => Some(0),
        None => rows_per_file(options.text.infer_rows, &texts),
    };
    let mut looked =
        look(&texts, options.text.encoding, rows, options.thread_count, options.cancel)?.into_iter();
    let mut tails = Tails::of(listed);
    let (mut contents, mut all) = (Vec::with_capacity(listed.len()), Vec::with_capacity(listed.len()));
    for listed in listed {
        let tail = tails.next();
        let mut found = kind(listed).map(|_| looked.next().expect("every text was looked at"));
        contents.push(match listed.format {
            InputFormat::Parquet => Content::Parquet(ParquetFile::open(&listed.place, tail)?),
            InputFormat::Arrow => Content::Ipc(IpcFile::open(&listed.place)?),
            InputFormat::Csv | InputFormat::Json => {
                match (found.as_mut().map(|found| &mut found.shape), table) {
                    (Some(Some(Shape::Csv(shape))), _) => {
                        let dialect = Dialect::of(listed.place.path(), options.text);
                        if let (false, Some(table)) = (dialect.header, table) {
                            let names = table.fields().iter().map(|field| field.name().clone());
                            shape.rename(&listed.name(), &names.collect::<Vec<_>>())?;
                        }
                        Content::Csv(CsvFile::new(dialect, shape))
                    }
                    (Some(Some(Shape::Json(shape))), _) => {
                        Content::Json(shape.columns().map(|(name, _)| name.to_owned()).collect())
                    }
                    (None, Some(table)) => {
                        Content::Json(table.fields().iter().map(|field| field.name().clone()).collect())
                    }
                    _ => Content::Empty,
                }
            }
        });
        all.push(found);
    }
    Ok((contents, all))
}

/// What `content` has to agree with others on; `None` where the file is empty.
fn columns_of(
    content: &Content,
    looked: &Option<Looked>,
    listed: &ListedFile,
    table: Option<&Schema>,
) -> Option<FileColumns> {
    let typed = |schema: &Schema| {
        let known = |data_type: &DataType, nullable| Known::Typed(data_type.clone(), nullable);
        let fields = schema.fields().iter();
        fields.map(|field| (field.name().clone(), known(field.data_type(), field.is_nullable()))).collect()
    };
    let columns = match (content, looked.as_ref().and_then(|looked| looked.shape.as_ref())) {
        (Content::Parquet(parquet), _) => typed(parquet.arrow_schema()),
        (Content::Ipc(ipc), _) => typed(&ipc.schema),
        (_, Some(Shape::Csv(shape))) => {
            let known = |(name, seen): (&str, _)| (name.to_owned(), Known::Member(MemberSeen::Scalar(seen)));
            shape.columns().map(known).collect()
        }
        (_, Some(Shape::Json(shape))) => {
            let known = |(name, seen): (&str, &MemberSeen)| (name.to_owned(), Known::Member(seen.clone()));
            shape.columns().map(known).collect()
        }
        (Content::Json(_), None) => {
            let nothing = || Known::Member(MemberSeen::Scalar(crate::seen::Seen::NOTHING));
            table?.fields().iter().map(|field| (field.name().clone(), nothing())).collect()
        }
        _ => return None,
    };
    Some(FileColumns { file: listed.name(), columns, may_lack: listed.format == InputFormat::Json })
}

/// Refuses structs of Arrow and Parquet files beside others that have more members: they would be read by the order of members.
fn check_members(files: &[FileColumns], schema: &Schema) -> Result<()> {
    for FileColumns { file, columns, .. } in files {
        for (name, known) in columns {
            let Known::Typed(found, _) = known else { continue };
            if schema.field_with_name(name).is_ok_and(|field| !has_members_of(found, field.data_type())) {
                return Err(Error::invalid_input(format!(
                    "{file}: column '{name}' lacks members that it has in other files; write them as NULL"
                )));
            }
        }
    }
    Ok(())
}

/// The schema of `fields`, in the order of `expected` where there is one.
fn in_order_of(
    expected: Option<&Schema>,
    fields: Vec<arrow::datatypes::Field>,
    fixed: &mut Vec<Fixed>,
) -> Result<SchemaRef> {
    let Some(expected) = expected else { return Ok(Arc::new(Schema::new(fields))) };
    let mut ordered = Vec::with_capacity(fields.len());
    let mut who = Vec::with_capacity(fields.len());
    for field in expected.fields() {
        let found = fields.iter().position(|found| found.name() == field.name()).ok_or_else(|| {
            Error::invalid_input(format!("column '{}' of the table is in no file", field.name()))
        })?;
        ordered.push(fields[found].clone().with_data_type(field.data_type().clone()));
        who.push(fixed[found].clone());
    }
    if let Some(extra) = fields.iter().find(|field| expected.field_with_name(field.name()).is_err()) {
        return Err(Error::invalid_input(format!(
            "column '{}', which folders name, is not in the table",
            extra.name()
        )));
    }
    *fixed = who;
    Ok(Arc::new(Schema::new(ordered.into_iter().collect::<Fields>())))
}

/// Rows of a text file, from those that were looked at.
fn estimate(listed: &ListedFile, looked: &Looked) -> Option<u64> {
    let row_bytes = looked.bytes as f64 / looked.row_count.max(1) as f64;
    (looked.row_count > 0).then(|| ((listed.bytes as f64 / row_bytes.max(1.0)) as u64).max(looked.row_count))
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

/// Cuts files into parts, in order. Text is read from the disk as it is cut.
pub struct Parts {
    sources: Arc<Sources>,
    file: usize,
    end: usize,
    position: usize,
    text: Option<BlockReader>,
}

impl Iterator for Parts {
    type Item = Result<Part>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.file < self.end {
            match self.next_of_file() {
                Ok(Some(part)) => return Some(Ok(part)),
                Ok(None) => {
                    self.file += 1;
                    self.position = 0;
                    self.text = None;
                }
                Err(error) => {
                    self.file = self.end;
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
                let Sources { files, text, input_bytes, .. } = &*self.sources;
                let (listed, counter) = (&files[self.file].listed, Arc::clone(input_bytes));
                none.insert(BlockReader::new(
                    self.file,
                    listed,
                    records,
                    skip_header,
                    text.encoding,
                    counter,
                )?)
            }
        };
        Ok(reader.next_block()?.map(Part::Text))
    }
}
