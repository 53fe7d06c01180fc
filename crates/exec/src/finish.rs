//! The end of a pipeline: what its flags say, and what its sink holds.

use std::ops::Range;
use std::sync::Arc;

use pelton_device::{DeviceId, Machine, MemoryKind, OnFull, Span, Stream};
use pelton_error::{Error, Result};
use pelton_pipeline::Rows;
use pelton_pipeline::codegen::{
    Arg, BuiltTable, Form, GroupKind, GroupLayout, KEYS_NOTED_MAX, PayloadColumn, RowsLayout, SinkLayout,
    TableKind, TableLayout,
};

use super::execution::{Execution, Groups, HeldGroups, Kernel};
use super::groups_out::result_of_groups;
use super::launch::{Launched, Morsel};
use super::memory::{Lane, State, download_blocking, download_words_blocking, is_out_of_memory};
use super::report::PipelineReport;
use super::results::{append, group_rows, output_column, with_texts};
use super::spilled_tables::SpilledTable;

/// Flags, as in cuda/pipeline/target.h.
const FLAG_DUPLICATE: u64 = 1;
const FLAG_OVERFLOW: u64 = 16;

/// Groups that are brought to the host in one go where nobody knows how many there are.
pub(super) const COMPACT_ROWS: u64 = 1 << 16;
/// Rows of a morsel that come out in one go at most, and fewer where memory is short: what lies beyond waits until they
/// are taken. A guess at what makes the copies long enough.
pub(super) const OUTPUT_ROWS_MAX: u64 = 1 << 20;
/// Room that even few rows get: a join may make many of them.
const OUTPUT_ROWS_FIRST: u64 = 1 << 12;
/// With less room than this, memory is made.
pub(super) const OUTPUT_ROWS_MIN: u64 = 1 << 16;
/// How much larger the room for rows becomes that was too small.
const OUTPUT_GROWTH: u64 = 8;
/// Room for rows of a top-k at first: few come, once there is a threshold.
const TOP_ROWS_ROOM: u64 = 1 << 16;

/// What became of a try.
pub(crate) enum Outcome {
    /// A table, and its arrays.
    Built(Box<BuiltTable>, State),
    /// Groups that later pipelines read.
    Groups(Groups),
    /// Rows.
    Rows(Rows),
    /// The rows of a table, on the host, since that is more than fits.
    Spilled(Arc<SpilledTable>),
    /// No table, since it was one for unique keys.
    NotUnique,
    /// No table by position, since that takes too much memory.
    NoRoom,
}

/// How a pipeline is to end.
pub(crate) struct End<'g> {
    /// The groups that were its source, if they were.
    pub(crate) source: Option<&'g HeldGroups>,
    /// No key of the table that it builds may repeat.
    pub(crate) must_be_unique: bool,
    /// Other workers have rows of the same top-k: they keep its key.
    pub(crate) is_part: bool,
}

/// Looks at the flags of a pipeline that has run, and takes its result.
pub(crate) fn finish(
    execution: &Execution<'_>,
    kernel: Kernel,
    rows: Option<Rows>,
    end: End<'_>,
    report: &mut PipelineReport,
) -> Result<Outcome> {
    match kernel.generated.sink.clone() {
        SinkLayout::Build(layout) => finish_build(execution, kernel, layout, end.must_be_unique),
        SinkLayout::Groups(layout) => finish_groups(execution, &kernel, layout, report),
        SinkLayout::Rows(layout) => {
            let rows = rows.unwrap_or_else(|| no_rows(&layout.columns));
            Ok(Outcome::Rows(match end.is_part {
                true => rows,
                false => {
                    let has_kept = layout.columns.iter().any(|column| column.form == Form::Kept);
                    let source = end.source.filter(|_| has_kept);
                    let texts = source.map_or(Ok(Vec::new()), |groups| texts_of(execution, groups))?;
                    with_texts(without_key(rows, &layout), &layout.columns, &texts)?
                }
            }))
        }
    }
}

fn finish_build(
    execution: &Execution<'_>,
    kernel: Kernel,
    layout: TableLayout,
    must_be_unique: bool,
) -> Result<Outcome> {
    let head = download_words_blocking(execution.stream(), kernel.state.span(Arg::Flags)?)?;
    let flags = without_overflow(head[0], &kernel)?;
    let has_duplicates = flags & FLAG_DUPLICATE != 0;
    if has_duplicates && must_be_unique {
        return Err(Error::unsupported("a join whose keys repeat, by which texts were to be told apart"));
    }
    if has_duplicates && layout.kind == TableKind::Direct {
        return Ok(Outcome::NotUnique);
    }
    let (row_count, low, high) = (head[1], head[2], head[3] as i64);
    let packed_key_range = u64::try_from(high).ok().map(|high| (low, high));
    let few_packed_keys = noted_keys(&head[4..], row_count);
    let built =
        BuiltTable { layout, is_unique: !has_duplicates, row_count, packed_key_range, few_packed_keys };
    Ok(Outcome::Built(Box::new(built), kernel.state))
}

/// The packed keys noted in `words`, which begin with their number; `None` where they are not all of those of
/// `row_count` rows.
fn noted_keys(words: &[u64], row_count: u64) -> Option<Vec<u64>> {
    let count = usize::try_from(words[0]).ok().filter(|count| *count <= KEYS_NOTED_MAX)?;
    (count > 0 || row_count == 0).then(|| words[1..=count].to_vec())
}

/// The flags, once they say nothing of an overflow.
pub(super) fn flags(stream: &Stream, kernel: &Kernel) -> Result<u64> {
    without_overflow(download_words_blocking(stream, kernel.state.span(Arg::Flags)?)?[0], kernel)
}

/// The flags in the lower half of `word`; an overflow among them, which the upper half names, is an error.
fn without_overflow(word: u64, kernel: &Kernel) -> Result<u64> {
    let (flags, check) = (word & 0xFFFF_FFFF, (word >> 32) as usize);
    if flags & FLAG_OVERFLOW == 0 {
        return Ok(flags);
    }
    let what = check.checked_sub(1).and_then(|check| kernel.generated.checks.get(check));
    let what = what.map_or("arithmetic may overflow", String::as_str);
    Err(Error::unsupported(format!("{what} for some row, which the CPU looks at")))
}

/// Looks at the flags of an aggregation that has run, and leaves its groups where they are.
pub(crate) fn hold_groups(execution: &Execution<'_>, kernel: Kernel) -> Result<Outcome> {
    let SinkLayout::Groups(layout) = kernel.generated.sink.clone() else {
        return Err(Error::invalid_input("a pipeline that reads the groups of one that makes none"));
    };
    hold(execution, &kernel, layout).map(|held| Outcome::Groups(Groups::Held(Box::new(held))))
}

/// The groups in the sink of `kernel`, where they are.
pub(super) fn hold(execution: &Execution<'_>, kernel: &Kernel, layout: GroupLayout) -> Result<HeldGroups> {
    if !kernel.generated.checks.is_empty() {
        flags(execution.stream(), kernel)?;
    }
    let mut held = held(kernel, layout)?;
    if held.layout.kind != GroupKind::Global {
        held.count = count_groups(execution, kernel, &held)?;
    }
    Ok(held)
}

/// As `hold`, without a look at flags, or at how many groups there are.
fn held(kernel: &Kernel, layout: GroupLayout) -> Result<HeldGroups> {
    let has_keys = matches!(layout.kind, GroupKind::Hashed | GroupKind::Wide);
    let keys = has_keys.then(|| kernel.state.span(Arg::GroupKeys).cloned()).transpose()?;
    let heap = layout.has_text_heap().then(|| kernel.state.span(Arg::TextHeap).cloned()).transpose()?;
    Ok(HeldGroups { layout, groups: kernel.state.span(Arg::Groups)?.clone(), keys, heap, count: 1 })
}

/// How many groups have rows: a gathering without room for any. They are counted behind the flags, which groups have to
/// themselves.
fn count_groups(execution: &Execution<'_>, kernel: &Kernel, held: &HeldGroups) -> Result<u64> {
    let count = kernel.state.span(Arg::Flags)?.slice(8..16);
    execution.clear(execution.stream(), &count)?;
    let width = held.layout.width() as u64;
    let words = vec![held.groups.address(), held.places(), width, 0, 0, count.address(), 0];
    execution.compact(words, vec![held.groups.clone()], vec![count.clone()])?;
    Ok(download_words_blocking(execution.stream(), &count)?[0])
}

fn finish_groups(
    execution: &Execution<'_>,
    kernel: &Kernel,
    layout: GroupLayout,
    report: &mut PipelineReport,
) -> Result<Outcome> {
    let stream = execution.stream();
    if !kernel.generated.checks.is_empty() {
        flags(stream, kernel)?;
    }
    result_of_groups(execution, &held(kernel, layout)?, None, report).map(Outcome::Rows)
}

/// `held` as rows; `count`: how many there are, where that is known. `enough` of them are, whichever.
pub(super) fn group_rows_of(
    execution: &Execution<'_>,
    held: &HeldGroups,
    count: Option<u64>,
    enough: u64,
) -> Result<Rows> {
    if held.layout.kind == GroupKind::Global {
        let words = download_words_blocking(execution.stream(), &held.groups)?;
        let record: Vec<u64> = std::iter::once(0).chain(words).collect();
        return group_rows(&held.layout, &record, &texts_of(execution, held)?);
    }
    let records = gather(execution, held, count, enough)?;
    group_rows(&held.layout, &records, &texts_of(execution, held)?)
}

/// What is used of the heap of texts of `held`; empty where there is none.
pub(super) fn texts_of(execution: &Execution<'_>, held: &HeldGroups) -> Result<Vec<u8>> {
    let Some(heap) = &held.heap else { return Ok(Vec::new()) };
    let stream = execution.stream();
    let used = (download_words_blocking(stream, &heap.slice(0..8))?[0] as usize).min(heap.len());
    let mut texts = Vec::with_capacity(used);
    for start in (0..used).step_by(BROUGHT_BYTES) {
        let end = used.min(start + BROUGHT_BYTES);
        texts.extend(download_blocking(stream, &heap.slice(start..end))?);
    }
    Ok(texts)
}

/// The records of all groups that have rows, or of `enough` of them.
pub(super) fn gather(
    execution: &Execution<'_>,
    held: &HeldGroups,
    count: Option<u64>,
    enough: u64,
) -> Result<Vec<u64>> {
    match gather_on_device(execution, held, count, enough) {
        Err(refusal) if is_out_of_memory(&refusal) => gather_on_host(execution, held),
        records => records,
    }
}

/// The same without memory of the device: brings all places.
pub(super) fn gather_on_host(execution: &Execution<'_>, held: &HeldGroups) -> Result<Vec<u64>> {
    let width = held.layout.width();
    let (stream, places) = (execution.stream(), held.places() as usize);
    let mut records = Vec::new();
    let mut first = 0;
    while first < places {
        let end = places.min(first + (BROUGHT_BYTES / 8 / (width + 1)).max(1));
        let keys =
            held.keys.as_ref().map(|keys| download_words_blocking(stream, &keys.slice(first * 8..end * 8)));
        let keys = keys.transpose()?;
        let state = held.groups.slice(first * width * 8..end * width * 8);
        for (index, state) in download_words_blocking(stream, &state)?.chunks_exact(width).enumerate() {
            if state[0] != 0 {
                records.push(keys.as_ref().map_or((first + index) as u64, |keys| keys[index]));
                records.extend_from_slice(state);
            }
        }
        first = end;
    }
    Ok(records)
}

fn gather_on_device(
    execution: &Execution<'_>,
    held: &HeldGroups,
    count: Option<u64>,
    enough: u64,
) -> Result<Vec<u64>> {
    let mut capacity = count.unwrap_or_else(|| held.places().min(COMPACT_ROWS)).min(enough);
    loop {
        match gather_some(execution, held, capacity, enough)? {
            Gathered::All(records) => return Ok(records),
            Gathered::More(count) => capacity = count,
        }
    }
}

/// What became of gathering groups with room for so many.
pub(super) enum Gathered {
    /// The records of all, or of as many as are enough.
    All(Vec<u64>),
    /// There are so many.
    More(u64),
}

/// Gathers the groups of `held`, with room for `capacity` of them; `enough` are, whichever.
pub(super) fn gather_some(
    execution: &Execution<'_>,
    held: &HeldGroups,
    capacity: u64,
    enough: u64,
) -> Result<Gathered> {
    let (machine, device) = (execution.runtime.machine(), execution.device());
    let HeldGroups { layout, groups, keys, .. } = held;
    let width = layout.words.len() as u64 + 1;
    // The number of records, then the records: where they are few, one copy brings both.
    let out = on_device(machine, device, (8 + capacity * width * 8) as usize)?;
    let (count_span, records) = (out.slice(0..8), out.slice(8..out.len()));
    execution.clear(execution.stream(), &count_span)?;
    let words = vec![
        groups.address(),
        held.places(),
        layout.words.len() as u64,
        keys.as_ref().map_or(0, Span::address),
        records.address(),
        count_span.address(),
        capacity,
    ];
    let mut reads = vec![groups.clone()];
    reads.extend(keys.clone());
    execution.compact(words, reads, vec![out.clone()])?;
    let first = out.len().min(FIRST_COPY_BYTES);
    let mut words = download_words_blocking(execution.stream(), &out.slice(0..first))?;
    // Those without room were left out.
    let count = words[0].min(enough);
    if count > capacity {
        return Ok(Gathered::More(count));
    }
    let bytes = (8 + count * width * 8) as usize;
    if bytes > first {
        words.extend(download_words_blocking(execution.stream(), &out.slice(first..bytes))?);
    }
    words.truncate(bytes / 8);
    words.remove(0);
    Ok(Gathered::All(words))
}

/// Places of groups that are brought in one go take so much.
const BROUGHT_BYTES: usize = 16 << 20;
/// Gathers the groups in these places to `out`, the number of records and then the records, and waits; gives how many
/// there are. `out` has room for them. Groups without keys are numbered from the first of these places.
pub(super) fn gather_to(
    execution: &Execution<'_>,
    held: &HeldGroups,
    places: Range<u64>,
    out: &Span,
) -> Result<u64> {
    let (stream, width) = (execution.stream(), held.layout.width() as u64);
    let count = out.slice(0..8);
    let capacity = (out.len() as u64 - 8) / 8 / (width + 1);
    execution.clear(stream, &count)?;
    let words = vec![
        held.groups.address() + places.start * width * 8,
        places.end - places.start,
        width,
        held.keys.as_ref().map_or(0, |keys| keys.address() + places.start * 8),
        out.address() + 8,
        out.address(),
        capacity,
    ];
    let reads = [&held.groups].into_iter().chain(&held.keys).cloned().collect();
    execution.compact(words, reads, vec![out.clone()])?;
    let count = download_words_blocking(stream, &count)?[0];
    assert!(count <= capacity, "{count} groups in place of {capacity}");
    Ok(count)
}

/// What the first copy of groups brings.
const FIRST_COPY_BYTES: usize = 64 << 10;

pub(super) fn on_device(machine: &Machine, device: DeviceId, bytes: usize) -> Result<Span> {
    Ok(machine.allocate(MemoryKind::Device(device), bytes.max(8), OnFull::Refuse)?.span())
}

pub(super) fn no_rows(columns: &[PayloadColumn]) -> Rows {
    let columns =
        columns.iter().map(|column| output_column(column, &[], column.is_nullable.then_some(&[]), 0));
    Rows { row_count: 0, columns: columns.collect() }
}

/// The rows without the key of a top-k or the words of an order, which nobody asked for. (Where no morsel ran, there are no columns.)
pub(super) fn without_key(mut rows: Rows, layout: &RowsLayout) -> Rows {
    rows.columns.truncate(layout.output_columns());
    rows
}

/// The rows that come out of a morsel: through arrays of bounded length, however many there are.
pub(crate) struct Output<'o> {
    pub(crate) layout: &'o RowsLayout,
    pub(crate) lane: &'o Lane,
}

impl Output<'_> {
    /// Runs the kernel over `morsel`, and again over its rows that wait, until all rows have been taken.
    pub(crate) fn run(
        &self,
        execution: &Execution<'_>,
        kernel: &mut Kernel,
        morsel: &Morsel,
        launched: &mut Vec<Launched>,
        report: &mut PipelineReport,
    ) -> Result<Rows> {
        let (stream, waiting) = (&self.lane.stream, &self.lane.waiting);
        self.make_room(execution, kernel, self.first_room(execution, morsel.rows))?;
        let mut rows = Rows::default();
        let mut is_redo = false;
        loop {
            execution.cancel.check()?;
            let count = kernel.state.span(Arg::OutputCount)?.clone();
            execution.clear(stream, &count)?;
            let done = match is_redo {
                false => {
                    execution.launch(kernel, self.lane, morsel, false)?;
                    stream.record()?
                }
                true => execution.redo(kernel, self.lane, morsel)?,
            };
            done.wait_blocking()?;
            flags(stream, kernel)?;
            let room = room(kernel);
            let count = download_words_blocking(stream, &count)?[0].min(room);
            append(&mut rows, rows_in(&kernel.state, self.layout, stream, 0..count as usize)?)?;
            let left = waiting.count()?;
            if left == 0 {
                return Ok(rows);
            }
            launched.extend(Launched::without_rows(0, kernel, &done));
            report.rows_waited += left;
            is_redo = true;
            let wanted = (room * OUTPUT_GROWTH).min(OUTPUT_ROWS_MAX.max(room));
            if wanted > room && self.make_room(execution, kernel, wanted).is_ok() {
                report.sink_grown += 1;
                report.state_bytes = report.state_bytes.max(kernel.state.bytes());
            }
        }
    }

    /// Room for as many rows as go in, between bounds.
    fn first_room(&self, execution: &Execution<'_>, rows: u64) -> u64 {
        let most = if self.layout.top.is_some() { TOP_ROWS_ROOM } else { OUTPUT_ROWS_MAX };
        match execution.runtime.options.first_rows {
            Some(first) => rows.min(first).max(1),
            None => rows.clamp(OUTPUT_ROWS_FIRST, most),
        }
    }

    /// Room for so many rows, or for fewer where memory is short. What is there is kept if it is as large.
    fn make_room(&self, execution: &Execution<'_>, kernel: &mut Kernel, rows: u64) -> Result<()> {
        let mut wanted = rows;
        while room(kernel) < wanted {
            let arrays = output_arrays(execution, self.layout, wanted);
            if arrays.as_ref().is_err_and(is_out_of_memory) && wanted > OUTPUT_ROWS_MIN {
                wanted /= 2;
                continue;
            }
            if arrays.as_ref().is_err_and(is_out_of_memory) && room(kernel) > 0 {
                return Ok(());
            }
            kernel.state.adopt(&arrays?, |_| true);
        }
        Ok(())
    }
}

/// Brings these of the rows in the arrays of `state`.
pub(super) fn rows_in(
    state: &State,
    layout: &RowsLayout,
    stream: &Stream,
    rows: Range<usize>,
) -> Result<Rows> {
    let mut columns = Vec::with_capacity(layout.columns.len());
    for (index, column) in layout.columns.iter().enumerate() {
        let bytes = |arg, width: usize| match rows.is_empty() {
            true => Ok(Vec::new()),
            false => {
                let bytes = rows.start * width..rows.end * width;
                download_blocking(stream, &state.span(arg)?.slice(bytes))
            }
        };
        let values = bytes(Arg::Output(index), column.form.bytes())?;
        let valid = column.is_nullable.then(|| bytes(Arg::OutputValid(index), 1)).transpose()?;
        columns.push(output_column(column, &values, valid.as_deref(), rows.len()));
    }
    Ok(Rows { row_count: rows.len(), columns })
}

/// The arrays that rows lie in, and the bytes of a row in each.
pub(super) fn row_arrays(layout: &RowsLayout) -> impl Iterator<Item = (Arg, usize)> {
    layout.columns.iter().enumerate().flat_map(|(index, column)| {
        let valid = column.is_nullable.then_some((Arg::OutputValid(index), 1));
        [(Arg::Output(index), column.form.bytes())].into_iter().chain(valid)
    })
}

/// Arrays for so many rows that come out.
pub(super) fn output_arrays(execution: &Execution<'_>, layout: &RowsLayout, rows: u64) -> Result<State> {
    let (machine, device) = (execution.runtime.machine(), execution.device());
    let mut state = State::default();
    execution.refuse_first(Arg::OutputCapacity, 0)?;
    for (arg, width) in row_arrays(layout) {
        state.allocate(machine, device, arg, rows as usize * width)?;
    }
    state.allocate(machine, device, Arg::OutputCount, 8)?;
    state.set(Arg::OutputCapacity, rows);
    Ok(state)
}

/// Places for rows that come out.
pub(super) fn room(kernel: &Kernel) -> u64 {
    kernel.state.word(Arg::OutputCapacity).unwrap_or(0)
}
