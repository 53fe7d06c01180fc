//! Rows that are asked for in an order: they stay on the device until all are there, are sorted there, and come in order.
//!
//! ```text
//!   morsels ── kernel ──► columns, words [row]         arrays that grow (grow.rs)
//!   all rows there  ──► sort by the words ──► columns, some rows at a time, in order ──► host
//!
//!   device memory is short ──► rows so far are sorted, and go to the host as a run;      runs are merged by the host
//!   several workers        ──► each sorts its rows, which go to the host as its runs     in the end (sorted_runs.rs)
//! ```
//!
//! The words are those of `pelton_pipeline::codegen::OrderLayout`: whoever sorts knows nothing of types, NULLs and
//! directions. Rows with equal words come in any order, but where words hold the beginning of a text: the host compares
//! the texts of those that begin alike (text_order.rs). No row is scanned twice because a sort found no memory, and of
//! a run no more rows leave the device than are wanted of all.

use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use pelton_device::{MemoryKind, OnFull, Span};
use pelton_error::{Error, ErrorKind, Result};
use pelton_kernels::{IndexType, KeyOrder, KeyType, Library, RadixSort, sort_pairs, take};
use pelton_pipeline::Rows;
use pelton_pipeline::codegen::{Arg, Form, RowsLayout, SinkLayout};
use pelton_pipeline::ir::RowOrder;

use super::execution::{Execution, HeldGroups, Kernel, ROOM_LEAST};
use super::finish::{
    OUTPUT_ROWS_MAX, OUTPUT_ROWS_MIN, Outcome, flags, no_rows, output_arrays, room, row_arrays, rows_in,
    texts_of,
};
use super::memory::{State, download_words_blocking, is_out_of_memory, lasting_host_buffer};
use super::options::TargetChoice;
use super::prepare::Prepared;
use super::report::PipelineReport;
use super::results::{append, output_column, with_texts};
use super::rows_out::{PAUSE, RowsOut, RowsPart};
use super::sorted_runs::{Merge, SortedRun, host_array, places_of};
use super::spill::advice;
use super::text_order::{InWordOrder, KeyTexts, key_texts};
use super::windows::{ArraySource, Levels, Marked, WindowColumns};

/// Rows that are sorted on a device at most: their numbers take 32 bits.
pub(super) const SORTED_ROWS_MAX: u64 = u32::MAX as u64;
/// Rows that are sorted at once as part of a run at least: where there is no room even for that, the host sorts them.
const PIECE_ROWS_MIN: u64 = 1 << 10;
/// Bytes of rows that are merged at once where nobody takes them meanwhile.
const MERGED_BYTES: usize = 64 << 20;
/// Parts of a test, which has very few rows.
const PART_ROWS_OF_TEST: usize = 7;

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
        self.spillable_groups().is_some() || self.held_rows().is_some() || self.spillable_table().is_some()
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
        self.fill(self.stream(), kernel.state.span(Arg::OutputCount)?, count, 0, 1)
    }

    /// Sorts the rows so far and moves them to the host as a run; answers how many there were. No kernel is under way.
    pub(super) fn spill_rows(&self, kernel: &mut Kernel, report: &mut PipelineReport) -> Result<u64> {
        let Some(layout) = kernel.held_rows().cloned() else { return Ok(0) };
        let count = self.rows_asked(kernel)?.min(room(kernel));
        if count == 0 {
            return Ok(0);
        }
        self.make_runs(kernel, &layout, count, report)?;
        self.set_row_count(kernel, 0)?;
        // Morsels run in other streams.
        self.stream().wait_blocking()?;
        Ok(count)
    }

    /// Makes sorted runs on the host of the first `count` rows: one where the device has room to sort them at once.
    fn make_runs(
        &self,
        kernel: &mut Kernel,
        layout: &RowsLayout,
        count: u64,
        report: &mut PipelineReport,
    ) -> Result<()> {
        let started = Instant::now();
        let order = layout.order.as_ref().expect("rows that are to be sorted");
        let wanted = order.row_count.map_or(usize::MAX, |rows| usize::try_from(rows).unwrap_or(usize::MAX));
        let held: u64 = kernel.sorted_runs.iter().map(SortedRun::bytes).sum();
        let bytes = held.saturating_add(count.min(wanted as u64).saturating_mul(row_bytes(layout)));
        let most = self.host_bytes_max / self.runtime.workers.len() as u64;
        if bytes > most {
            return Err(Error::unsupported(format!(
                "{bytes} bytes of sorted rows to be merged on the host, which has {most} for them"
            )));
        }
        let (mut start, mut piece) = (0, count);
        while start < count {
            self.cancel.check()?;
            let some = start as usize..count.min(start + piece) as usize;
            let end = some.end as u64;
            let (run, by) = match self.run_on_device(kernel, layout, some.clone(), wanted) {
                Err(refusal) if is_out_of_memory(&refusal) && piece > PIECE_ROWS_MIN => {
                    piece = piece.div_ceil(2);
                    continue;
                }
                Err(refusal) if is_out_of_memory(&refusal) => {
                    let unsorted = self.bring_unsorted(kernel, layout, some)?;
                    // Which of texts that begin alike come first is known once all runs are there.
                    let wanted = if order.texts.is_empty() { wanted } else { usize::MAX };
                    (unsorted.sorted(&layout.columns[..layout.output_columns()], wanted), "host")
                }
                run => (run?, if report.sorted_by.is_empty() { "device" } else { report.sorted_by }),
            };
            report.sorted_by = by;
            report.sorted_runs += 1;
            report.run_bytes += run.bytes();
            report.moved_down_bytes += run.bytes();
            kernel.sorted_runs.push(run);
            start = end;
        }
        report.sorted_rows += count;
        report.sort += started.elapsed();
        Ok(())
    }

    /// The rows in `some` places, sorted on the device, and no more of them than are wanted of all and those like the last
    /// one.
    fn run_on_device(
        &self,
        kernel: &Kernel,
        layout: &RowsLayout,
        some: Range<usize>,
        wanted: usize,
    ) -> Result<SortedRun> {
        let SortedPlaces { places, .. } = self.sort_on_device(kernel, layout, some, wanted, None)?;
        let library = self.library()?;
        let count = places.len() / 4;
        let carried = carried(layout);
        let (arrays, at_once) = self.arrays_for_some(&carried, count)?;
        self.bring_pieces(&carried, count, at_once, layout, |piece, arg, width| {
            let (source, target) = (kernel.state.span(arg)?, arrays.span(arg)?.slice(0..piece.len() * width));
            let source = source.slice(0..source.len() / width * width);
            let places = places.slice(piece.start * 4..piece.end * 4);
            self.stream().run(take(library, width, source, IndexType::U32, places, target.clone()))?;
            Ok(target)
        })
    }

    /// Arrays for as many of `count` rows of `layout` as there is room for, and for how many.
    fn arrays_for_some(&self, layout: &RowsLayout, count: usize) -> Result<(State, usize)> {
        let mut at_once = (count as u64).clamp(1, OUTPUT_ROWS_MAX);
        loop {
            match self.making_room(|| output_arrays(self, layout, at_once)) {
                Err(refusal) if is_out_of_memory(&refusal) && at_once > OUTPUT_ROWS_MIN => at_once /= 2,
                arrays => return Ok((arrays?, at_once as usize)),
            }
        }
    }

    /// Copies the rows in `some` places to the host, in no order.
    fn bring_unsorted(&self, kernel: &Kernel, layout: &RowsLayout, some: Range<usize>) -> Result<SortedRun> {
        let count = some.len();
        self.bring_pieces(&carried(layout), count, count.max(1), layout, |_, arg, width| {
            Ok(kernel.state.span(arg)?.slice(some.start * width..some.end * width))
        })
    }

    /// Copies `count` rows of the arrays of `carried` to the host, `at_once` of them at a time, from where `array` says that
    /// these rows of an argument with values of so many bytes are.
    fn bring_pieces(
        &self,
        carried: &RowsLayout,
        count: usize,
        at_once: usize,
        layout: &RowsLayout,
        array: impl Fn(Range<usize>, Arg, usize) -> Result<Span>,
    ) -> Result<SortedRun> {
        let lengths: Vec<usize> = row_arrays(carried).map(|(_, width)| count * width).collect();
        let places = places_of(&lengths);
        let bytes = places.last().map_or(0, |place| place.end).max(8).next_multiple_of(8);
        let target = lasting_host_buffer(self.runtime.machine(), bytes)?;
        for start in (0..count).step_by(at_once) {
            let piece = start..count.min(start + at_once);
            for ((arg, width), place) in row_arrays(carried).zip(&places) {
                let source = array(piece.clone(), arg, width)?;
                let at = place.start + piece.start * width;
                self.stream().copy(&source, &target.slice(at..at + piece.len() * width))?;
            }
        }
        self.stream().wait_blocking()?;
        let outputs = layout.output_columns();
        let mut run = SortedRun { row_count: count, ..SortedRun::default() };
        for ((arg, _), place) in row_arrays(carried).zip(places) {
            let array = host_array(&target, place)?;
            match arg {
                Arg::Output(index) if index >= outputs => run.words.push(array),
                _ => run.arrays.push(array),
            }
        }
        Ok(run)
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

    /// The rows of a pipeline that has run, in order; of one of several workers (`is_part`) none: its runs are left for who
    /// merges those of all. `source`: the groups that it read.
    pub(super) fn finish_held_rows(
        &mut self,
        mut kernel: Kernel,
        source: Option<HeldGroups>,
        is_part: bool,
        report: &mut PipelineReport,
    ) -> Result<Outcome> {
        flags(self.stream(), &kernel)?;
        let layout = kernel.held_rows().cloned().expect("rows that are to be sorted");
        let count = self.rows_asked(&kernel)?.min(room(&kernel));
        let has_kept = layout.columns.iter().any(|column| column.form == Form::Kept);
        let texts =
            source.as_ref().filter(|_| has_kept).map_or(Ok(Vec::new()), |groups| texts_of(self, groups))?;
        let started = Instant::now();
        let order = layout.order.as_ref().expect("rows that are to be sorted");
        let windows = order.windows.as_ref();
        if !is_part && kernel.sorted_runs.is_empty() && count > 0 {
            let wanted =
                order.row_count.map_or(usize::MAX, |rows| usize::try_from(rows).unwrap_or(usize::MAX));
            let of_keys = key_texts(&layout, &texts, self.texts);
            match self.sort_on_device(&kernel, &layout, 0..count as usize, wanted, Some(&of_keys)) {
                Ok(SortedPlaces { places, marked, tied_rows }) => {
                    // The words have served.
                    let first_word = layout.output_columns();
                    kernel.state.forget(|arg| matches!(arg, Arg::Output(index) if *index >= first_word));
                    let windows = windows.zip(marked).map(|(windows, marked)| {
                        self.window_columns(&kernel, &layout, windows, &places, marked)
                    });
                    let windows = windows.transpose()?;
                    (report.sorted_rows, report.sorted_by) = (count, "device");
                    report.tied_rows += tied_rows;
                    report.sort += started.elapsed();
                    let layout = sorted_layout(&layout, windows.as_ref());
                    let out = (&layout, windows.as_ref());
                    let rows = self.bring_sorted(&kernel, out, &places, !has_kept, report)?;
                    return with_texts(rows, &layout.columns, &texts).map(Outcome::Rows);
                }
                Err(refusal) if is_out_of_memory(&refusal) && windows.is_none() => {
                    report.notes.push(format!("sorted in parts: {refusal}"));
                }
                Err(error) => return Err(error),
            }
        }
        if windows.is_some() && (is_part || !kernel.sorted_runs.is_empty()) {
            return Err(Error::unsupported("window functions of rows that one device does not hold"));
        }
        if count > 0 {
            self.make_runs(&mut kernel, &layout, count, report)?;
        }
        let runs = std::mem::take(&mut kernel.sorted_runs);
        // What is merged is on the host.
        drop(kernel);
        if is_part {
            self.sorted_runs.extend(runs);
            return Ok(Outcome::Rows(Rows::default()));
        }
        self.merge_sorted(runs, &layout, &texts, !has_kept, report).map(Outcome::Rows)
    }

    /// Merges sorted runs on the host, and gives the rows out where somebody takes rows; gives those that nobody took.
    pub(crate) fn merge_sorted(
        &self,
        runs: Vec<SortedRun>,
        layout: &RowsLayout,
        texts: &[u8],
        may_give_out: bool,
        report: &mut PipelineReport,
    ) -> Result<Rows> {
        let columns = &layout.columns[..layout.output_columns()];
        let order = layout.order.as_ref().expect("rows that are to be sorted");
        let wanted = order.row_count.map_or(usize::MAX, |rows| usize::try_from(rows).unwrap_or(usize::MAX));
        let (machine, cancel, threads) = (self.runtime.machine(), self.cancel, self.merging_threads());
        let merge = Merge { runs, columns, machine, threads, cancel };
        let part_rows = |bytes| match self.runtime.options.first_rows {
            Some(_) => PART_ROWS_OF_TEST,
            None => merge.part_rows(bytes),
        };
        let (started, mut waited) = (Instant::now(), Duration::ZERO);
        let mut rows = no_rows(columns);
        let picks = match order.texts.is_empty() {
            true => None,
            false => {
                let mut picks = merge.picks(part_rows(MERGED_BYTES))?;
                let of_keys = key_texts(layout, texts, self.texts);
                report.tied_rows +=
                    self.order_merged_by_texts(&merge, order, &of_keys, &mut picks)?.row_count();
                picks.truncate(wanted);
                Some(picks)
            }
        };
        let run = |part_rows: usize, give: &mut dyn FnMut(RowsPart) -> Result<()>| match &picks {
            Some(picks) => merge.give(picks, part_rows, give),
            None => merge.run(wanted, part_rows, give),
        };
        match self.rows_taker.filter(|_| may_give_out) {
            Some(taker) => {
                let given = run(part_rows(taker.part_bytes()), &mut |part| {
                    let started = Instant::now();
                    let arbiter = self.turn.arbiter();
                    while taker.is_full() && arbiter.parked() == 0 && !self.turn.is_asked_to_park() {
                        self.cancel.check()?;
                        std::thread::sleep(PAUSE);
                    }
                    waited += started.elapsed();
                    taker.take(part)
                })?;
                report.rows_out += given as u64;
            }
            None => {
                run(part_rows(MERGED_BYTES), &mut |part| append(&mut rows, as_rows(&part)))?;
            }
        }
        report.reader_wait += waited;
        report.merge += started.elapsed().saturating_sub(waited);
        with_texts(rows, columns, texts)
    }

    /// Cores that merge.
    pub(super) fn merging_threads(&self) -> usize {
        let cores = std::thread::available_parallelism().map_or(1, |count| count.get());
        match self.runtime.options.target {
            TargetChoice::Host => cores.min(self.runtime.options.workers.max(1) as usize),
            TargetChoice::Cuda { .. } => cores,
        }
    }

    /// What works on the device beside kernels of queries: nothing but host forms on the host target.
    pub(super) fn library(&self) -> Result<Option<&'static Arc<Library>>> {
        match self.runtime.options.target {
            TargetChoice::Host => Ok(None),
            TargetChoice::Cuda { .. } => library().map(Some),
        }
    }

    /// Sorts the numbers of the rows in `some` places by the words of the rows and by `texts`, where words hold the beginning
    /// of those. Without these, for a run: then neither words nor numbers change, and of rows whose texts begin alike those
    /// come that may be among the `wanted`. Where memory is refused, nothing has changed.
    fn sort_on_device(
        &self,
        kernel: &Kernel,
        layout: &RowsLayout,
        some: Range<usize>,
        wanted: usize,
        texts: Option<&KeyTexts<'_>>,
    ) -> Result<SortedPlaces> {
        let library = self.library()?;
        let order = layout.order.as_ref().expect("rows that are to be sorted");
        let (first, word_count, count) = (layout.output_columns(), order.word_bits.len(), some.len());
        let array = |index: usize, width: usize| {
            let all = kernel.state.span(Arg::Output(index))?;
            Ok::<_, Error>(all.slice(0..all.len() / width * width))
        };
        let words = (first..first + word_count).map(|index| array(index, 8)).collect::<Result<Vec<_>>>()?;
        let numbers = array(first + word_count, 4)?.slice(some.start * 4..some.end * 4);
        let wanted = wanted.min(count);
        let sorts: Vec<RadixSort> = order.word_bits.iter().map(|bits| radix_sort(*bits)).collect();
        let scratch_bytes = sorts.iter().map(|sort| sort.scratch_bytes(count as u64)).max();
        let levels = Levels::of(order)?;
        let Some((scratch_bytes, last)) = scratch_bytes.zip(words.last()) else {
            let mark = |levels| self.mark(levels, &[], None, &numbers, self.window_array(count, 8)?);
            let marked = levels.map(mark).transpose()?;
            return Ok(SortedPlaces { places: numbers.slice(0..wanted * 4), marked, tied_rows: 0 });
        };
        let last = last.slice(some.start * 8..some.end * 8);
        let (machine, device) = (self.runtime.machine(), MemoryKind::Device(self.device()));
        // What looks at the last word asks for its place among the rows again.
        let looks_at_last = || levels.as_ref().is_some_and(|levels| levels.look_at(word_count - 1));
        let keeps = texts.is_none() || !order.texts.is_empty() || (word_count > 1 && looks_at_last());
        let [mut sorted, mut other, mut sorted_numbers, mut other_numbers, scratch] =
            self.making_room(|| {
                self.refuse_first(Arg::Output(first), scratch_bytes)?;
                let allocate = |bytes: usize| {
                    let buffer =
                        machine.allocate(device.clone(), bytes.next_multiple_of(8), OnFull::Refuse)?;
                    Ok::<_, Error>(buffer.span().slice(0..bytes))
                };
                let (words, places) = match keeps {
                    true => (allocate(count * 8)?, allocate(count * 4)?),
                    false => (last.clone(), numbers.clone()),
                };
                Ok([words, allocate(count * 8)?, places, allocate(count * 4)?, allocate(scratch_bytes)?])
            })?;
        if keeps {
            self.stream().copy(&last, &sorted)?;
            self.stream().copy(&numbers, &sorted_numbers)?;
        }
        for (index, sort) in sorts.into_iter().enumerate().rev() {
            self.cancel.check()?;
            if index + 1 < word_count {
                let (word, places) = (words[index].clone(), sorted_numbers.clone());
                self.stream().run(take(library, 8, word, IndexType::U32, places, sorted.clone()))?;
            }
            let keys = [sorted.clone(), other.clone()];
            let values = [sorted_numbers.clone(), other_numbers.clone()];
            self.stream().run(sort_pairs(library, sort, keys, values, scratch.clone()))?;
            if sort.result_index() == 1 {
                std::mem::swap(&mut sorted_numbers, &mut other_numbers);
                std::mem::swap(&mut sorted, &mut other);
            }
        }
        let (mut wanted, mut resolved) = (wanted, None);
        if !order.texts.is_empty() {
            let (words, numbers) = (&words, &sorted_numbers);
            let rows = InWordOrder { kernel, order, words, numbers, scratch: &other };
            match texts {
                Some(texts) => resolved = Some(self.order_by_texts(&rows, texts, wanted)?),
                None => wanted = self.with_ties(&rows, wanted)?,
            }
        }
        // Rows that tie are equal by the first word, which a text does not fit in: it is in order still.
        let mark = |levels| self.mark(levels, &words, Some(&sorted), &sorted_numbers, other);
        let marked = levels.map(mark).transpose()?;
        if let (Some(marked), Some(resolved)) = (&marked, &resolved) {
            self.mark_breaks(marked, resolved.breaks())?;
        }
        self.stream().wait_blocking()?;
        let tied_rows = resolved.map_or(0, |resolved| resolved.row_count());
        Ok(SortedPlaces { places: sorted_numbers.slice(0..wanted * 4), marked, tied_rows })
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
        report.ordered_bytes += count as u64 * row_bytes(layout);
        let Some(taker) = self.rows_taker.filter(|_| may_give_out) else {
            let (arrays, at_once) = self.arrays_for_some(layout, count)?;
            let mut rows = no_rows(&layout.columns);
            for start in (0..count).step_by(at_once) {
                self.cancel.check()?;
                let some = start..count.min(start + at_once);
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

/// Rows that are sorted on a device.
struct SortedPlaces {
    /// The numbers of those that are wanted, in order.
    places: Span,
    /// Where groups of them begin, where window functions ask.
    marked: Option<Marked>,
    /// Rows whose texts begin alike.
    tied_rows: u64,
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

/// The arrays of rows that go to the host: the columns, and the words that they are sorted by.
fn carried(layout: &RowsLayout) -> RowsLayout {
    // But for the number of the row, which is the last.
    let columns = layout.columns[..layout.columns.len() - 1].to_vec();
    RowsLayout { columns, top: None, order: None }
}

/// The rows of `part`; texts that have no dictionary are numbers until all rows are there.
fn as_rows(part: &RowsPart) -> Rows {
    let columns = part
        .columns
        .iter()
        .map(|column| output_column(&column.layout, &column.values, column.valid.as_deref(), part.row_count));
    Rows { row_count: part.row_count, columns: columns.collect() }
}
