//! Rows that are asked for in an order: they stay on the device until all are there, are sorted there, and come in order.
//!
//! ```text
//!   morsels ── kernel ──► columns, words [row]         arrays that grow (grow.rs)
//!   all rows there  ──► sort by the words ──► columns, some rows at a time, in order ──► host
//!
//!   device memory is short ──► rows so far to the host, where all are sorted in the end
//!   several workers        ──► rows of all to the host, likewise (team.rs)
//! ```
//!
//! The words are those of `pelton_pipeline::codegen::OrderLayout`: whoever sorts knows nothing of types, NULLs and
//! directions. Rows with equal words come in any order. No row is scanned twice because a sort found no memory.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use pelton_device::{MemoryKind, OnFull, Span};
use pelton_error::{Error, ErrorKind, Result};
use pelton_kernels::{IndexType, KeyOrder, KeyType, Library, RadixSort, sort_pairs, take};
use pelton_pipeline::codegen::{Arg, Form, RowsLayout, SinkLayout};
use pelton_pipeline::ir::RowOrder;
use pelton_pipeline::{RowColumn, RowValues, Rows};

use super::execution::{Execution, HeldGroups, Kernel, Prepared, ROOM_LEAST};
use super::finish::{
    OUTPUT_ROWS_MAX, OUTPUT_ROWS_MIN, Outcome, flags, no_rows, output_arrays, room, row_arrays, rows_in,
    texts_of,
};
use super::memory::{State, download_words_blocking, is_out_of_memory};
use super::report::PipelineReport;
use super::results::{append, with_texts};
use super::rows_out::RowsOut;
use super::runtime::TargetChoice;
use super::spill::advice;
use super::windows::{ArraySource, Levels, Marked, WindowColumns};

/// Rows that are sorted on a device at most: their numbers take 32 bits.
pub(super) const SORTED_ROWS_MAX: u64 = u32::MAX as u64;

impl Kernel {
    /// The layout of rows that are to be sorted, if it ends in such: they stay on the device until all are there.
    pub(super) fn held_rows(&self) -> Option<&RowsLayout> {
        match &self.generated.sink {
            SinkLayout::Rows(layout) => Some(layout).filter(|layout| layout.order.is_some()),
            _ => None,
        }
    }

    /// Whether what is in its sink can be moved to the host while rows come.
    pub(super) fn may_spill(&self) -> bool {
        self.spillable_groups().is_some() || self.held_rows().is_some()
    }
}

/// Whether devices of `target` sort.
///
/// # Errors
///
/// `Unsupported` that says what is missing.
pub fn check_sorts(target: TargetChoice) -> Result<()> {
    match target {
        TargetChoice::Host => Ok(()),
        TargetChoice::Cuda { .. } => library().map(|_| ()),
    }
}

/// Pelton's CUDA library, found once.
fn library() -> Result<&'static Arc<Library>> {
    static LIBRARY: OnceLock<std::result::Result<Arc<Library>, (ErrorKind, String)>> = OnceLock::new();
    let opened =
        LIBRARY.get_or_init(|| Library::open().map_err(|error| (error.kind().clone(), error.to_string())));
    opened.as_ref().map_err(|(kind, message)| Error::new(kind.clone(), message.clone()))
}

impl<'r> Execution<'r> {
    /// Room for those that are expected and a quarter more, where a quarter of the memory holds them; no more than rows
    /// may come, where a row comes once.
    pub(super) fn held_rows_to_begin_with(
        &self,
        kernel: &Kernel,
        order: &RowOrder,
        prepared: &Prepared,
    ) -> Result<u64> {
        if let Some(rows) = self.runtime.options.first_rows {
            return Ok(rows.max(1));
        }
        let layout = kernel.held_rows().expect("rows that are to be sorted");
        let expected = order.expected.unwrap_or(prepared.row_count);
        let expected = expected.saturating_add(expected / 4).min(prepared.row_count);
        let in_memory = self.device_memory_limit()? / 4 / row_bytes(layout);
        Ok(expected.min(in_memory).clamp(OUTPUT_ROWS_MIN, SORTED_ROWS_MAX))
    }

    /// Rows that have asked for a place so far; those beyond the room for them wait.
    pub(super) fn rows_asked(&self, kernel: &Kernel) -> Result<u64> {
        Ok(download_words_blocking(self.stream(), kernel.state.span(Arg::OutputCount)?)?[0])
    }

    /// From now on there are so many.
    pub(super) fn set_row_count(&self, kernel: &Kernel, count: u64) -> Result<()> {
        self.fill(kernel, self.stream(), kernel.state.span(Arg::OutputCount)?, count, 0, 1)
    }

    /// Moves the rows so far to the host; answers how many there were. No kernel is under way.
    pub(super) fn spill_rows(&self, kernel: &mut Kernel, report: &mut PipelineReport) -> Result<u64> {
        let Some(layout) = kernel.held_rows().cloned() else { return Ok(0) };
        let count = self.rows_asked(kernel)?.min(room(kernel));
        if count == 0 {
            return Ok(0);
        }
        self.bring_rows(kernel, &layout, count)?;
        self.set_row_count(kernel, 0)?;
        // Morsels run in other streams.
        self.stream().wait_blocking()?;
        report.moved_down_bytes += count * row_bytes(&layout);
        Ok(count)
    }

    /// Copies the first `count` rows behind those that are on the host.
    fn bring_rows(&self, kernel: &mut Kernel, layout: &RowsLayout, count: u64) -> Result<()> {
        let on_host = kernel.rows_on_host.as_ref().map_or(0, |rows| rows.row_count as u64);
        let (bytes, most) = ((on_host + count).saturating_mul(row_bytes(layout)), self.sorted_bytes_max);
        if bytes > most {
            return Err(Error::unsupported(format!(
                "{bytes} bytes of rows to be sorted on the host, which has {most} for them"
            )));
        }
        let mut rows = kernel.rows_on_host.take().unwrap_or_default();
        for start in (0..count).step_by(OUTPUT_ROWS_MAX as usize) {
            self.cancel.check()?;
            let some = start as usize..count.min(start + OUTPUT_ROWS_MAX) as usize;
            append(&mut rows, rows_in(&kernel.state, layout, self.stream(), some)?)?;
        }
        kernel.rows_on_host = Some(rows);
        Ok(())
    }

    /// Nobody else has memory to give. The rows so far go to the host, which makes room for others where there was none
    /// (`is_full`); or there is less room for them from now on, which makes room beside them.
    pub(super) fn relieve_of_rows(
        &self,
        kernel: &mut Kernel,
        refusal: Error,
        is_full: bool,
        report: &mut PipelineReport,
    ) -> Result<()> {
        let spilled = self.spill_rows(kernel, report)?;
        if is_full && spilled > 0 {
            return Ok(());
        }
        let layout = kernel.held_rows().cloned().expect("rows that are to be sorted");
        let room = room(kernel);
        if room <= ROOM_LEAST {
            return Err(refusal.context(advice(kernel)));
        }
        kernel.state.forget(Arg::is_of_output);
        let arrays = self.making_room(|| output_arrays(self, &layout, room / 2))?;
        kernel.state.adopt(&arrays, |_| true);
        self.set_row_count(kernel, 0)?;
        self.stream().wait_blocking()
    }

    /// The rows of a pipeline that has run, in order; of one of several workers (`is_part`) in no order, with the words to
    /// sort them by. `source`: the groups that it read.
    pub(super) fn finish_held_rows(
        &self,
        mut kernel: Kernel,
        source: Option<&HeldGroups>,
        is_part: bool,
        report: &mut PipelineReport,
    ) -> Result<Outcome> {
        flags(self.stream(), &kernel)?;
        let layout = kernel.held_rows().cloned().expect("rows that are to be sorted");
        let count = self.rows_asked(&kernel)?.min(room(&kernel));
        let has_kept = layout.columns.iter().any(|column| column.form == Form::Kept);
        let texts = source.filter(|_| has_kept).map_or(Ok(Vec::new()), |groups| texts_of(self, groups))?;
        let started = Instant::now();
        let windows = layout.order.as_ref().and_then(|order| order.windows.as_ref());
        if !is_part && kernel.rows_on_host.is_none() && count > 0 {
            match self.sort_on_device(&mut kernel, &layout, count) {
                Ok((places, marked)) => {
                    let windows = windows.zip(marked).map(|(windows, marked)| {
                        self.window_columns(&kernel, &layout, windows, &places, marked)
                    });
                    let windows = windows.transpose()?;
                    (report.sorted_rows, report.sorted_by) = (count, "device");
                    report.sort += started.elapsed();
                    let layout = sorted_layout(&layout, windows.as_ref());
                    let out = (&layout, windows.as_ref());
                    let rows = self.bring_sorted(&kernel, out, &places, !has_kept, report)?;
                    return with_texts(rows, &layout.columns, &texts).map(Outcome::Rows);
                }
                Err(refusal) if is_out_of_memory(&refusal) && windows.is_none() => {
                    report.notes.push(format!("sorted on the host: {refusal}"));
                }
                Err(error) => return Err(error),
            }
        }
        if windows.is_some() && (is_part || kernel.rows_on_host.is_some()) {
            return Err(Error::unsupported("window functions of rows that one device does not hold"));
        }
        if count > 0 {
            self.bring_rows(&mut kernel, &layout, count)?;
        }
        let rows = kernel.rows_on_host.take().unwrap_or_else(|| no_rows(&layout.columns));
        if is_part {
            return Ok(Outcome::Rows(rows));
        }
        (report.sorted_rows, report.sorted_by) = (rows.row_count as u64, "host");
        let rows = sorted(rows, &layout);
        report.sort += started.elapsed();
        with_texts(rows, &layout.columns, &texts).map(Outcome::Rows)
    }

    /// What works on the device beside kernels of queries: nothing but host forms on the host target.
    pub(super) fn library(&self) -> Result<Option<&'static Arc<Library>>> {
        match self.runtime.options.target {
            TargetChoice::Host => Ok(None),
            TargetChoice::Cuda { .. } => library().map(Some),
        }
    }

    /// Sorts the numbers of `count` rows by the words of the rows, and lets go of these; gives the numbers of those that are
    /// wanted, and where groups of them begin where window functions ask. Where memory is refused, nothing has changed.
    fn sort_on_device(
        &self,
        kernel: &mut Kernel,
        layout: &RowsLayout,
        count: u64,
    ) -> Result<(Span, Option<Marked>)> {
        let library = self.library()?;
        let order = layout.order.as_ref().expect("rows that are to be sorted");
        let (first, word_count, count) = (layout.output_columns(), order.word_bits.len(), count as usize);
        let array = |index: usize, width: usize| {
            Ok::<_, Error>(kernel.state.span(Arg::Output(index))?.slice(0..count * width))
        };
        let words = (first..first + word_count).map(|index| array(index, 8)).collect::<Result<Vec<_>>>()?;
        let mut numbers = array(first + word_count, 4)?;
        let wanted = order.row_count.map_or(count, |wanted| wanted.min(count as u64) as usize);
        let sorts: Vec<RadixSort> = order.word_bits.iter().map(|bits| radix_sort(*bits)).collect();
        let scratch_bytes = sorts.iter().map(|sort| sort.scratch_bytes(count as u64)).max();
        let levels = Levels::of(order)?;
        let Some((scratch_bytes, last)) = scratch_bytes.zip(words.last()) else {
            let mark = |levels| self.mark(levels, &[], None, &numbers, self.window_array(count, 8)?);
            return Ok((numbers.slice(0..wanted * 4), levels.map(mark).transpose()?));
        };
        let (machine, device) = (self.runtime.machine(), MemoryKind::Device(self.device()));
        let [other_words, mut other_numbers, scratch] = self.making_room(|| {
            self.refuse_first(Arg::Output(first), scratch_bytes)?;
            let allocate = |bytes: usize| {
                let buffer = machine.allocate(device.clone(), bytes.next_multiple_of(8), OnFull::Refuse)?;
                Ok::<_, Error>(buffer.span().slice(0..bytes))
            };
            Ok([allocate(count * 8)?, allocate(count * 4)?, allocate(scratch_bytes)?])
        })?;
        let (mut sorted, mut other) = (last.clone(), other_words);
        if word_count > 1 && levels.as_ref().is_some_and(|levels| levels.look_at(word_count - 1)) {
            // Its place is asked for again.
            sorted = self.window_array(count, 8)?;
            self.stream().copy(last, &sorted)?;
        }
        for (index, sort) in sorts.into_iter().enumerate().rev() {
            self.cancel.check()?;
            if index + 1 < word_count {
                let (word, numbers) = (words[index].clone(), numbers.clone());
                self.stream().run(take(library, 8, word, IndexType::U32, numbers, sorted.clone()))?;
            }
            let (keys, values) = ([sorted.clone(), other.clone()], [numbers.clone(), other_numbers.clone()]);
            self.stream().run(sort_pairs(library, sort, keys, values, scratch.clone()))?;
            if sort.result_index() == 1 {
                std::mem::swap(&mut numbers, &mut other_numbers);
                std::mem::swap(&mut sorted, &mut other);
            }
        }
        let mark = |levels| self.mark(levels, &words, Some(&sorted), &numbers, other);
        let marked = levels.map(mark).transpose()?;
        self.stream().wait_blocking()?;
        // The words have served.
        kernel.state.forget(|arg| matches!(arg, Arg::Output(index) if *index >= first));
        Ok((numbers.slice(0..wanted * 4), marked))
    }

    /// Brings the rows with the numbers in `places`, in that order, and gives them out where somebody takes rows; gives those
    /// that nobody took.
    fn bring_sorted(
        &self,
        kernel: &Kernel,
        (layout, windows): (&RowsLayout, Option<&WindowColumns>),
        places: &Span,
        may_give_out: bool,
        report: &mut PipelineReport,
    ) -> Result<Rows> {
        let library = self.library()?;
        let fill = |arrays: &State, some: Range<usize>| {
            let places = places.slice(some.start * 4..some.end * 4);
            for (arg, width) in row_arrays(layout) {
                let target = arrays.span(arg)?.slice(0..some.len() * width);
                let source = match windows.map(|windows| windows.source(arg, width, some.clone())) {
                    Some(ArraySource::Results(results)) => {
                        self.stream().copy(&results, &target)?;
                        continue;
                    }
                    Some(ArraySource::OfRows(arg)) => kernel.state.span(arg)?,
                    None => kernel.state.span(arg)?,
                };
                let source = source.slice(0..source.len() / width * width);
                let work = take(library, width, source, IndexType::U32, places.clone(), target);
                self.stream().run(work)?;
            }
            Ok::<_, Error>(())
        };
        let count = places.len() / 4;
        let Some(taker) = self.rows_taker.filter(|_| may_give_out) else {
            let at_once = (count as u64).clamp(1, OUTPUT_ROWS_MAX);
            let arrays = self.making_room(|| output_arrays(self, layout, at_once))?;
            let mut rows = no_rows(&layout.columns);
            for start in (0..count).step_by(at_once as usize) {
                self.cancel.check()?;
                let some = start..count.min(start + at_once as usize);
                fill(&arrays, some.clone())?;
                append(&mut rows, rows_in(&arrays, layout, self.stream(), 0..some.len())?)?;
            }
            return Ok(rows);
        };
        let mut out = RowsOut::to(taker, self)?;
        let wanted = out.part_rows(self, layout).min(count as u64);
        let at_once = out.make_arrays(self, layout, wanted)? as usize;
        for start in (0..count).step_by(at_once) {
            out.wait_for_taker(self, report)?;
            let some = start..count.min(start + at_once);
            out.give(self, layout, some.len(), |arrays| fill(arrays, some))?;
        }
        out.let_go()?;
        report.rows_out += out.row_count();
        Ok(no_rows(&layout.columns))
    }
}

/// The columns of sorted rows that come out.
fn sorted_layout(layout: &RowsLayout, windows: Option<&WindowColumns>) -> RowsLayout {
    match windows {
        Some(windows) => windows.layout(layout),
        None => {
            let columns = layout.columns[..layout.output_columns()].to_vec();
            RowsLayout { columns, top: None, order: None }
        }
    }
}

/// By the lowest `bits` of words.
fn radix_sort(bits: u32) -> RadixSort {
    RadixSort::by_bits(KeyOrder::ascending(KeyType::U64), 0, bits)
}

/// Bytes of a row on the device, with the words that it is sorted by.
pub(super) fn row_bytes(layout: &RowsLayout) -> u64 {
    row_arrays(layout).map(|(_, width)| width as u64).sum::<u64>().max(1)
}

/// `rows`, whose last columns are the words of their order, in that order and without them: as many as are wanted.
pub(crate) fn sorted(mut rows: Rows, layout: &RowsLayout) -> Rows {
    let Some(order) = &layout.order else { return rows };
    // Where no morsel ran, there are no columns.
    if rows.columns.is_empty() {
        return rows;
    }
    let mut words = rows.columns.split_off(layout.output_columns());
    words.truncate(order.word_bits.len());
    let words: Vec<&[i64]> = words.iter().map(words_of).collect();
    let wanted = order
        .row_count
        .map_or(rows.row_count, |wanted| usize::try_from(wanted).unwrap_or(usize::MAX).min(rows.row_count));
    let places = match words.as_slice() {
        [] => (0..wanted).collect(),
        [only] => first_in_order((0..rows.row_count).collect(), wanted, |a: &usize, b| {
            (only[*a] as u64).cmp(&(only[*b] as u64)).then(a.cmp(b))
        }),
        several => first_in_order((0..rows.row_count).collect(), wanted, |a: &usize, b| {
            let orders = several.iter().map(|word| (word[*a] as u64).cmp(&(word[*b] as u64)));
            orders.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal).then(a.cmp(b))
        }),
    };
    Rows {
        row_count: places.len(),
        columns: rows.columns.into_iter().map(|column| picked(column, &places)).collect(),
    }
}

fn words_of(column: &RowColumn) -> &[i64] {
    match &column.values {
        RowValues::I64(words) => words,
        other => unreachable!("words of an order that are {:?}", other.ty()),
    }
}

/// The first `wanted` of `places`, in order.
fn first_in_order(
    mut places: Vec<usize>,
    wanted: usize,
    compare: impl Fn(&usize, &usize) -> Ordering,
) -> Vec<usize> {
    if wanted == 0 {
        return Vec::new();
    }
    if wanted < places.len() {
        places.select_nth_unstable_by(wanted - 1, &compare);
        places.truncate(wanted);
    }
    places.sort_unstable_by(compare);
    places
}

/// The values of `column` at `places`.
fn picked(column: RowColumn, places: &[usize]) -> RowColumn {
    fn at<T: Copy>(values: &[T], places: &[usize]) -> Vec<T> {
        places.iter().map(|place| values[*place]).collect()
    }
    let values = match column.values {
        RowValues::Bool(values) => RowValues::Bool(at(&values, places)),
        RowValues::I32(values) => RowValues::I32(at(&values, places)),
        RowValues::I64(values) => RowValues::I64(at(&values, places)),
        RowValues::I128(values) => RowValues::I128(at(&values, places)),
        RowValues::F64(values) => RowValues::F64(at(&values, places)),
        RowValues::Text { ids, dictionary } => RowValues::Text { ids: at(&ids, places), dictionary },
    };
    RowColumn { values, valid: column.valid.map(|valid| at(&valid, places)) }
}
