//! The end of a pipeline: what its flags say, and what its sink holds.

use pelton_device::{DeviceId, Machine, MemoryKind, OnFull, Span, Stream};
use pelton_error::{Error, Result};
use pelton_pipeline::Rows;
use pelton_pipeline::codegen::{
    Arg, BuiltTable, GroupKind, GroupLayout, KEYS_NOTED_MAX, PayloadColumn, RowsLayout, SinkLayout,
    TableKind, TableLayout,
};

use super::execution::{Attempt, Execution, GROWTH, HeldGroups, Kernel};
use super::memory::{State, download_blocking, download_words_blocking};
use super::results::{group_rows, output_column};

/// Flags, as in cuda/pipeline/target.h.
const FLAG_DUPLICATE: u64 = 1;
const FLAG_TABLE_FULL: u64 = 2;
const FLAG_GROUPS_FULL: u64 = 4;
const FLAG_OUTPUT_FULL: u64 = 8;
const FLAG_OVERFLOW: u64 = 16;

/// Groups that are brought to the host in one go where nobody knows how many there are.
const COMPACT_ROWS: u64 = 1 << 16;
/// Tries of one pipeline; each gives a table several times the room.
const ATTEMPTS_MAX: usize = 12;

/// What became of a try.
pub(crate) enum Outcome {
    /// A table, and its arrays.
    Built(BuiltTable, State),
    /// Groups that stay on the device.
    Groups(HeldGroups),
    /// Rows.
    Rows(Rows),
    /// To be tried again so.
    Again(Attempt),
}

/// Looks at the flags of a pipeline that has run, and takes its result. `must_be_unique`: no key of the table that it
/// builds may repeat.
pub(crate) fn finish(
    execution: &Execution<'_>,
    kernel: Kernel,
    rows: Option<Rows>,
    attempt: Attempt,
    must_be_unique: bool,
) -> Result<Outcome> {
    if let (Some(rows), SinkLayout::Rows(layout)) = (rows, &kernel.generated.sink) {
        return Ok(Outcome::Rows(without_key(rows, layout)));
    }
    if attempt.number >= ATTEMPTS_MAX {
        return Err(Error::unsupported("a table that stays too small for its rows"));
    }
    let next = Attempt { number: attempt.number + 1, ..attempt };
    match kernel.generated.sink.clone() {
        SinkLayout::Build(layout) => finish_build(execution, kernel, layout, next, must_be_unique),
        SinkLayout::Groups(layout) => finish_groups(execution, &kernel, &layout, next),
        SinkLayout::Rows(layout) => Ok(Outcome::Rows(without_key(no_rows(&layout.columns), &layout))),
    }
}

fn finish_build(
    execution: &Execution<'_>,
    kernel: Kernel,
    layout: TableLayout,
    next: Attempt,
    must_be_unique: bool,
) -> Result<Outcome> {
    let head = download_words_blocking(execution.stream(), kernel.state.span(Arg::Flags)?)?;
    let flags = without_overflow(head[0], &kernel)?;
    if flags & FLAG_TABLE_FULL != 0 {
        return Ok(Outcome::Again(Attempt { build_rows_factor: next.build_rows_factor * GROWTH, ..next }));
    }
    let has_duplicates = flags & FLAG_DUPLICATE != 0;
    if has_duplicates && must_be_unique {
        return Err(Error::unsupported("a join whose keys repeat, by which texts were to be told apart"));
    }
    if has_duplicates && layout.kind == TableKind::Direct {
        return Ok(Outcome::Again(Attempt { is_hashed: true, ..next }));
    }
    let (row_count, low, high) = (head[1], head[2], head[3] as i64);
    let packed_key_range = u64::try_from(high).ok().map(|high| (low, high));
    let few_packed_keys = noted_keys(&head[4..], row_count);
    let built =
        BuiltTable { layout, is_unique: !has_duplicates, row_count, packed_key_range, few_packed_keys };
    Ok(Outcome::Built(built, kernel.state))
}

/// The packed keys noted in `words`, which begin with their number; `None` where they are not all of those of
/// `row_count` rows.
fn noted_keys(words: &[u64], row_count: u64) -> Option<Vec<u64>> {
    let count = usize::try_from(words[0]).ok().filter(|count| *count <= KEYS_NOTED_MAX)?;
    (count > 0 || row_count == 0).then(|| words[1..=count].to_vec())
}

/// The flags, once they say nothing of an overflow.
fn flags(stream: &Stream, kernel: &Kernel) -> Result<u64> {
    without_overflow(download_words_blocking(stream, kernel.state.span(Arg::Flags)?)?[0], kernel)
}

/// The flags in the lower half of `word`; an overflow among them, which the upper half names, is an error.
fn without_overflow(word: u64, kernel: &Kernel) -> Result<u64> {
    let (flags, check) = (word & 0xFFFF_FFFF, (word >> 32) as usize);
    if flags & FLAG_OVERFLOW == 0 {
        return Ok(flags);
    }
    let what = check.checked_sub(1).and_then(|check| kernel.generated.checks.get(check));
    let what = what.map_or("arithmetic", String::as_str);
    Err(Error::unsupported(format!("{what} may overflow for some row, which the CPU looks at")))
}

/// Looks at the flags of an aggregation that has run, and leaves its groups where they are.
pub(crate) fn hold_groups(execution: &Execution<'_>, kernel: Kernel, attempt: Attempt) -> Result<Outcome> {
    let SinkLayout::Groups(layout) = kernel.generated.sink.clone() else {
        return Err(Error::invalid_input("a pipeline that reads the groups of one that makes none"));
    };
    if attempt.number >= ATTEMPTS_MAX {
        return Err(Error::unsupported("a table that stays too small for its rows"));
    }
    if flags(execution.stream(), &kernel)? & FLAG_GROUPS_FULL != 0 {
        return Ok(Outcome::Again(Attempt {
            number: attempt.number + 1,
            groups: attempt.groups * GROWTH,
            ..attempt
        }));
    }
    let keys = (layout.kind == GroupKind::Hashed).then(|| kernel.state.span(Arg::GroupKeys).cloned());
    let groups = kernel.state.span(Arg::Groups)?.clone();
    let mut held = HeldGroups { layout, groups, keys: keys.transpose()?, count: 1 };
    if held.layout.kind != GroupKind::Global {
        held.count = count_groups(execution, &kernel, &held)?;
    }
    Ok(Outcome::Groups(held))
}

/// How many groups have rows: a gathering without room for any.
fn count_groups(execution: &Execution<'_>, kernel: &Kernel, held: &HeldGroups) -> Result<u64> {
    let count = on_device(execution.runtime.machine(), execution.runtime.device(), 8)?;
    execution.clear(kernel, &count)?;
    let width = held.layout.width() as u64;
    let words = vec![held.groups.address(), held.places(), width, 0, 0, count.address(), 0];
    execution.compact(kernel, words, vec![held.groups.clone()], vec![count.clone()])?;
    Ok(download_words_blocking(execution.stream(), &count)?[0])
}

fn finish_groups(
    execution: &Execution<'_>,
    kernel: &Kernel,
    layout: &GroupLayout,
    next: Attempt,
) -> Result<Outcome> {
    let stream = execution.stream();
    let is_hashed = matches!(layout.kind, GroupKind::Hashed | GroupKind::Wide);
    let is_checked = is_hashed || !kernel.generated.checks.is_empty();
    let flags = if is_checked { flags(stream, kernel)? } else { 0 };
    if layout.kind == GroupKind::Global {
        let words = download_words_blocking(stream, kernel.state.span(Arg::Groups)?)?;
        let record: Vec<u64> = std::iter::once(0).chain(words).collect();
        return Ok(Outcome::Rows(group_rows(layout, &record)?));
    }
    if flags & FLAG_GROUPS_FULL != 0 {
        return Ok(Outcome::Again(Attempt { groups: next.groups * GROWTH, ..next }));
    }
    let records = gather(execution, kernel, layout)?;
    Ok(Outcome::Rows(group_rows(layout, &records)?))
}

/// The records of all groups that have rows.
fn gather(execution: &Execution<'_>, kernel: &Kernel, layout: &GroupLayout) -> Result<Vec<u64>> {
    let (machine, device) = (execution.runtime.machine(), execution.runtime.device());
    let groups = kernel.state.span(Arg::Groups)?.clone();
    let width = layout.words.len() as u64 + 1;
    let places = groups.len() as u64 / 8 / layout.words.len() as u64;
    let keys = (layout.kind == GroupKind::Hashed).then(|| kernel.state.span(Arg::GroupKeys)).transpose()?;
    let mut capacity = places.min(COMPACT_ROWS);
    loop {
        // The number of records, then the records: where they are few, one copy brings both.
        let out = on_device(machine, device, (8 + capacity * width * 8) as usize)?;
        let (count_span, records) = (out.slice(0..8), out.slice(8..out.len()));
        execution.clear(kernel, &count_span)?;
        let words = vec![
            groups.address(),
            places,
            layout.words.len() as u64,
            keys.map_or(0, Span::address),
            records.address(),
            count_span.address(),
            capacity,
        ];
        let mut reads = vec![groups.clone()];
        reads.extend(keys.cloned());
        execution.compact(kernel, words, reads, vec![out.clone()])?;
        let first = out.len().min(FIRST_COPY_BYTES);
        let mut words = download_words_blocking(execution.stream(), &out.slice(0..first))?;
        let count = words[0];
        if count <= capacity {
            let bytes = (8 + count * width * 8) as usize;
            if bytes > first {
                words.extend(download_words_blocking(execution.stream(), &out.slice(first..bytes))?);
            }
            words.truncate(bytes / 8);
            words.remove(0);
            return Ok(words);
        }
        capacity = count;
    }
}

/// What the first copy of groups brings.
const FIRST_COPY_BYTES: usize = 64 << 10;

fn on_device(machine: &Machine, device: DeviceId, bytes: usize) -> Result<Span> {
    Ok(machine.allocate(MemoryKind::Device(device), bytes.max(8), OnFull::Refuse)?.span())
}

fn no_rows(columns: &[PayloadColumn]) -> Rows {
    let columns =
        columns.iter().map(|column| output_column(column, &[], column.is_nullable.then_some(&[]), 0));
    Rows { row_count: 0, columns: columns.collect() }
}

/// The rows without the key of a top-k, which nobody asked for. (Where no morsel ran, there are no columns.)
fn without_key(mut rows: Rows, layout: &RowsLayout) -> Rows {
    if layout.top.is_some() {
        rows.columns.truncate(layout.columns.len() - 1);
    }
    rows
}

/// The rows of one morsel.
pub(crate) struct Output<'o> {
    pub(crate) columns: &'o [PayloadColumn],
    /// Rows that go in.
    pub(crate) rows: u64,
}

impl Output<'_> {
    /// Runs `launch` with room for its rows, with more where that was not enough, and takes them.
    pub(crate) fn run(
        &self,
        execution: &Execution<'_>,
        kernel: &mut Kernel,
        stream: &Stream,
        launch: impl Fn(&Kernel) -> Result<()>,
    ) -> Result<Rows> {
        let mut capacity = self.rows.max(kernel.state.word(Arg::OutputCapacity).unwrap_or(0));
        for _ in 0..ATTEMPTS_MAX {
            self.allocate(execution, kernel, capacity)?;
            // Cleared in the run's own stream, which is waited for: the kernel runs in another.
            execution.stream().wait_blocking()?;
            launch(kernel)?;
            stream.wait_blocking()?;
            let count = download_words_blocking(stream, kernel.state.span(Arg::OutputCount)?)?[0];
            let is_full = flags(stream, kernel)? & FLAG_OUTPUT_FULL != 0;
            if count <= capacity && !is_full {
                return self.take(kernel, stream, count as usize);
            }
            capacity = count.max(capacity * 2);
        }
        Err(Error::unsupported("rows that grow from try to try"))
    }

    fn allocate(&self, execution: &Execution<'_>, kernel: &mut Kernel, capacity: u64) -> Result<()> {
        if kernel.state.word(Arg::OutputCapacity).is_none_or(|room| room < capacity) {
            let (machine, device) = (execution.runtime.machine(), execution.runtime.device());
            for (index, column) in self.columns.iter().enumerate() {
                kernel.state.allocate(
                    machine,
                    device,
                    Arg::Output(index),
                    capacity as usize * column.form.bytes(),
                )?;
                if column.is_nullable {
                    kernel.state.allocate(machine, device, Arg::OutputValid(index), capacity as usize)?;
                }
            }
            kernel.state.allocate(machine, device, Arg::OutputCount, 8)?;
            kernel.state.set(Arg::OutputCapacity, capacity);
        }
        let count = kernel.state.span(Arg::OutputCount)?.clone();
        let flags = kernel.state.span(Arg::Flags)?.clone();
        execution.clear(kernel, &count)?;
        execution.clear(kernel, &flags)
    }

    fn take(&self, kernel: &Kernel, stream: &Stream, count: usize) -> Result<Rows> {
        let mut columns = Vec::with_capacity(self.columns.len());
        for (index, column) in self.columns.iter().enumerate() {
            let bytes = |arg, width: usize| match count {
                0 => Ok(Vec::new()),
                _ => download_blocking(stream, &kernel.state.span(arg)?.slice(0..count * width)),
            };
            let values = bytes(Arg::Output(index), column.form.bytes())?;
            let valid = column.is_nullable.then(|| bytes(Arg::OutputValid(index), 1)).transpose()?;
            columns.push(output_column(column, &values, valid.as_deref(), count));
        }
        Ok(Rows { row_count: count, columns })
    }
}
