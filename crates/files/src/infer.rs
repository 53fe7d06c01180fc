//! Looks at text files to find out what their columns are, on several threads.
//!
//! ```text
//!   all rows       each thread cuts blocks of the next file, then of those still under way; what blocks hold is a set
//!   some rows      one thread a file, block after block, so that which rows these are does not depend on timing
//! ```
//!
//! Bound: a block for each thread, and what was found.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pelton_error::{CancelFlag, Result};

use crate::csv::{CsvShape, Dialect};
use crate::files::{Compression, ListedFile};
use crate::json::JsonShape;
use crate::options::{Encoding, InferRows};
use crate::text::{BlockReader, Records, TextBlock};

/// Rows looked at in each of many files, at least.
const ROWS_PER_FILE_MIN: u64 = 1000;
/// How much larger text is than its compressed form. A guess, on the high side of what gzip and zstd reach.
const EXPANSION: u64 = 4;

/// How a text file is written.
#[derive(Debug, Clone)]
pub(crate) enum TextKind {
    Csv(Dialect),
    Json,
}

/// A file to look at.
pub(crate) struct TextFile<'a> {
    pub(crate) listed: &'a ListedFile,
    pub(crate) kind: TextKind,
}

/// What a file's columns are.
#[derive(Debug, Clone)]
pub(crate) enum Shape {
    Csv(CsvShape),
    Json(JsonShape),
}

/// What was found in a file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Looked {
    /// `None` where the file holds no record.
    pub(crate) shape: Option<Shape>,
    pub(crate) row_count: u64,
    /// Bytes of text that held these rows.
    pub(crate) bytes: u64,
}

/// Rows to look at in each of `files`; `None`: all.
pub(crate) fn rows_per_file(infer_rows: InferRows, files: &[TextFile<'_>]) -> Option<u64> {
    let count = files.len().max(1) as u64;
    match infer_rows {
        InferRows::All => None,
        InferRows::First(rows) => Some(rows.div_ceil(count)),
        InferRows::Auto => {
            let text_bytes = |file: &TextFile<'_>| match file.listed.compression {
                Compression::None => file.listed.bytes,
                Compression::Gzip | Compression::Zstd => EXPANSION * file.listed.bytes,
            };
            let total: u64 = files.iter().map(text_bytes).sum();
            let some = (InferRows::DEFAULT_ROWS / count).max(ROWS_PER_FILE_MIN);
            (total > InferRows::WHOLE_BYTES).then_some(some)
        }
    }
}

/// Looks at so many rows of each file.
pub(crate) fn look(
    files: &[TextFile<'_>],
    encoding: Encoding,
    rows_per_file: Option<u64>,
    thread_count: usize,
    cancel: &CancelFlag,
) -> Result<Vec<Looked>> {
    let states = files.iter().map(|_| Mutex::default()).collect();
    let looking = Looking { files, encoding, rows_per_file, states, next: AtomicUsize::new(0), cancel };
    let helpers = match rows_per_file {
        None => thread_count,
        Some(_) => thread_count.min(files.len()),
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (1..helpers).map(|_| scope.spawn(|| looking.work())).collect();
        let own = looking.work();
        let others = threads.into_iter().map(|thread| thread.join().expect("looking at text does not panic"));
        others.fold(own, Result::and)
    })?;
    let found = looking.states.into_iter().zip(files).map(|(state, file)| {
        let state = state.into_inner().unwrap_or_else(PoisonError::into_inner);
        state.finish(&file.listed.name())
    });
    found.collect()
}

struct Looking<'a> {
    files: &'a [TextFile<'a>],
    encoding: Encoding,
    rows_per_file: Option<u64>,
    states: Vec<Mutex<FileState>>,
    next: AtomicUsize,
    cancel: &'a CancelFlag,
}

#[derive(Default)]
struct FileState {
    reader: Option<BlockReader>,
    is_done: bool,
    csv: Option<CsvShape>,
    /// By the number of their block, whose order is that of names that first appear in them.
    json: Vec<(usize, JsonShape)>,
    block_count: usize,
    row_count: u64,
    bytes: u64,
}

impl FileState {
    fn finish(mut self, name: &str) -> Result<Looked> {
        let mut shape = self.csv.map(Shape::Csv);
        self.json.sort_by_key(|(number, _)| *number);
        let mut all: Option<JsonShape> = None;
        for (_, part) in self.json {
            match &mut all {
                Some(all) => all.append(name, part)?,
                none => *none = Some(part),
            }
        }
        if self.row_count > 0 {
            shape = shape.or(all.map(Shape::Json));
        }
        Ok(Looked { shape, row_count: self.row_count, bytes: self.bytes })
    }
}

impl Looking<'_> {
    fn work(&self) -> Result<()> {
        let ended = self.work_on();
        if ended.is_err() {
            // The others need not go on.
            self.next.store(self.files.len(), Ordering::Relaxed);
            (0..self.files.len()).for_each(|index| self.lock(index).is_done = true);
        }
        ended
    }

    fn work_on(&self) -> Result<()> {
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            if index >= self.files.len() {
                break;
            }
            while self.step(index)? {}
        }
        if self.rows_per_file.is_none() {
            for index in 0..self.files.len() {
                while self.step(index)? {}
            }
        }
        Ok(())
    }

    fn lock(&self, index: usize) -> MutexGuard<'_, FileState> {
        self.states[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the next block of a file; false where there is none.
    fn step(&self, index: usize) -> Result<bool> {
        self.cancel.check()?;
        let mut state = self.lock(index);
        let Some(block) = self.next_block(index, &mut state)? else { return Ok(false) };
        let number = state.block_count;
        state.block_count += 1;
        let name = self.files[index].listed.name();
        match (&self.files[index].kind, self.rows_per_file) {
            (TextKind::Csv(dialect), None) => {
                let shape = state.csv.clone().expect("a block follows its header");
                drop(state);
                let (seen, row_count) = shape.look(dialect, &block, usize::MAX);
                let mut state = self.lock(index);
                state.csv.as_mut().expect("it stays").add(&seen);
                state.count(row_count, &block);
            }
            (TextKind::Csv(dialect), Some(rows)) => {
                let left = usize::try_from(rows - state.row_count).unwrap_or(usize::MAX);
                let shape = state.csv.as_mut().expect("a block follows its header");
                let (seen, row_count) = shape.look(dialect, &block, left);
                shape.add(&seen);
                state.count(row_count, &block);
                state.is_done = state.row_count >= rows;
            }
            (TextKind::Json, None) => {
                drop(state);
                let (shape, row_count) = JsonShape::look(&name, &block, usize::MAX)?;
                let mut state = self.lock(index);
                state.json.push((number, shape));
                state.count(row_count, &block);
            }
            (TextKind::Json, Some(rows)) => {
                let left = usize::try_from(rows - state.row_count).unwrap_or(usize::MAX);
                let (shape, row_count) = JsonShape::look(&name, &block, left)?;
                state.json.push((number, shape));
                state.count(row_count, &block);
                state.is_done = state.row_count >= rows;
            }
        }
        Ok(true)
    }

    /// The next block of a file after its header; `None` at the end of what is to be looked at.
    fn next_block(&self, index: usize, state: &mut FileState) -> Result<Option<TextBlock>> {
        let TextFile { listed, kind } = &self.files[index];
        while !state.is_done {
            let reader = match &mut state.reader {
                Some(reader) => reader,
                none => {
                    let records = match kind {
                        TextKind::Csv(dialect) => dialect.records(),
                        TextKind::Json => Records::Lines,
                    };
                    let counter = Arc::new(AtomicU64::new(0));
                    none.insert(BlockReader::new(index, listed, records, false, self.encoding, counter)?)
                }
            };
            let Some(mut block) = reader.next_block()? else { break };
            if let (TextKind::Csv(dialect), None) = (kind, &state.csv) {
                state.csv = CsvShape::of_head(&listed.name(), dialect, &mut block)?;
                state.is_done = state.csv.is_some() && self.rows_per_file == Some(0);
                if state.csv.is_none() || state.is_done {
                    continue;
                }
            }
            return Ok(Some(block));
        }
        state.is_done = true;
        state.reader = None;
        Ok(None)
    }
}

impl FileState {
    fn count(&mut self, row_count: usize, block: &TextBlock) {
        self.row_count += row_count as u64;
        self.bytes += block.bytes.len() as u64;
    }
}
