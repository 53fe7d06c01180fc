//! Rows that are given out while their pipeline runs, as they lie in memory.
//!
//! ```text
//!   morsel 0   kernel ── arrays 0 ── copy ──────────► pinned ──► TakeRows
//!   morsel 1            kernel ── arrays 1 ── copy ──────────► pinned ──► TakeRows
//!   morsel 2                                  kernel ── arrays 0 ...                 once their copy is complete
//! ```
//!
//! The link is busy all the time where kernels are faster than it. A morsel's rows are given out once all of them have
//! come out, so that one that was refused memory half way is run again, and no row is given out twice. What was given
//! out cannot be taken back: only pipelines are run so that cannot find something that the CPU has to look at.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;
use pelton_device::{Event, Place, Span, Stream};
use pelton_error::Result;
use pelton_pipeline::Rows;
use pelton_pipeline::codegen::{Arg, Generated, PayloadColumn, RowsLayout, SinkLayout};
use pelton_pipeline::ir::{Pipeline, Sink, Source};

use super::execution::{Execution, Kernel};
use super::finish::{OUTPUT_ROWS_MIN, output_arrays, room};
use super::launch::{Launched, Morsel};
use super::memory::{Lane, State, download_words_blocking, is_out_of_memory, lasting_host_buffer};
use super::report::PipelineReport;
use super::results::{output_column, with_texts};

/// Bytes that are copied in one go: short enough for the counts of the next morsel to pass between two of them.
pub(super) const COPY_BYTES: usize = 16 << 20;
/// Where a column begins in memory: aligned for every type that Arrow has.
pub(super) const COLUMN_ALIGNMENT: usize = 64;
/// How often somebody who has enough rows is asked again.
pub(super) const PAUSE: Duration = Duration::from_millis(1);

/// Somebody who takes rows while a run goes on, from whichever worker has some.
pub trait TakeRows: Sync {
    /// Takes `rows`.
    ///
    /// # Errors
    ///
    /// Its own, which end the run.
    fn take(&self, rows: RowsPart) -> Result<()>;

    /// Whether it has enough for now. The run waits then, unless others wait for the memory that it holds.
    fn is_full(&self) -> bool;

    /// About how many bytes it wants at once.
    fn part_bytes(&self) -> usize;
}

/// Some rows of a result, in memory of the host.
#[derive(Debug, Clone)]
pub struct RowsPart {
    /// How many.
    pub row_count: usize,
    /// In the order of the plan.
    pub columns: Vec<PartColumn>,
}

/// A column of them.
#[derive(Debug, Clone)]
pub struct PartColumn {
    /// What the bytes are.
    pub layout: PayloadColumn,
    /// One value after the other, as little-endian numbers.
    pub values: Bytes,
    /// One byte a row: 0 where it is NULL, which no row is without them.
    pub valid: Option<Bytes>,
}

impl RowsPart {
    /// Bytes of all columns.
    pub fn bytes(&self) -> usize {
        let of_column =
            |column: &PartColumn| column.values.len() + column.valid.as_ref().map_or(0, Bytes::len);
        self.columns.iter().map(of_column).sum()
    }

    /// The same rows, value by value.
    ///
    /// # Errors
    ///
    /// Where their texts are more than a dictionary holds.
    pub fn into_rows(self) -> Result<Rows> {
        let of_column = |column: &PartColumn| {
            output_column(&column.layout, &column.values, column.valid.as_deref(), self.row_count)
        };
        let columns = self.columns.iter().map(of_column).collect();
        let layouts: Vec<PayloadColumn> = self.columns.iter().map(|column| column.layout.clone()).collect();
        with_texts(Rows { row_count: self.row_count, columns }, &layouts, &[])
    }
}

impl PartColumn {
    /// `count` rows from `start` on, where they are.
    pub fn rows(&self, start: usize, count: usize) -> Self {
        let width = self.layout.form.bytes();
        Self {
            layout: self.layout.clone(),
            values: self.values.slice(start * width..(start + count) * width),
            valid: self.valid.as_ref().map(|valid| valid.slice(start..start + count)),
        }
    }
}

/// Rows on their way from the device.
struct Copied {
    row_count: usize,
    columns: Vec<(PayloadColumn, Span, Option<Span>)>,
    done: Event,
}

impl Copied {
    fn into_part(self) -> Result<RowsPart> {
        self.done.wait_blocking()?;
        let bytes = |span: Span| Ok::<_, pelton_error::Error>(Bytes::from_owner(span.host_bytes()?));
        let columns = self.columns.into_iter().map(|(layout, values, valid)| {
            Ok(PartColumn { layout, values: bytes(values)?, valid: valid.map(bytes).transpose()? })
        });
        Ok(RowsPart { row_count: self.row_count, columns: columns.collect::<Result<_>>()? })
    }
}

/// Arrays that a kernel writes rows to.
#[derive(Default)]
struct Arrays {
    state: State,
    /// After the last copy from them.
    copied: Option<Event>,
}

/// Where the rows of a pipeline go.
pub(super) struct RowsOut<'r> {
    taker: &'r dyn TakeRows,
    copies: Stream,
    arrays: [Arrays; 2],
    next: usize,
    under_way: VecDeque<Copied>,
    /// Rows that came out.
    row_count: u64,
}

impl<'r> RowsOut<'r> {
    /// For the rows of `pipeline`, if they can be given out while it runs: with everybody else all rows are collected.
    pub(super) fn of(
        execution: &Execution<'r>,
        pipeline: &Pipeline,
        generated: &Generated,
    ) -> Result<Option<Self>> {
        let is_all = matches!(pipeline.sink, Sink::Materialize { top: None, order: None, .. });
        let is_sure = generated.checks.is_empty() && matches!(pipeline.source, Source::Table(_));
        let Some(taker) = execution.rows_taker.filter(|_| is_all && is_sure) else { return Ok(None) };
        Self::to(taker, execution).map(Some)
    }

    /// To `taker`.
    pub(super) fn to(taker: &'r dyn TakeRows, execution: &Execution<'r>) -> Result<Self> {
        let copies = execution.runtime.machine().stream(Place::Device(execution.device()))?;
        let arrays = Default::default();
        Ok(Self { taker, copies, arrays, next: 0, under_way: VecDeque::new(), row_count: 0 })
    }

    /// Rows that came out so far.
    pub(super) fn row_count(&self) -> u64 {
        self.row_count
    }

    /// Rows of a part at most.
    pub(super) fn part_rows(&self, execution: &Execution<'_>, layout: &RowsLayout) -> u64 {
        let of_column = |column: &PayloadColumn| column.form.bytes() + usize::from(column.is_nullable);
        let row_bytes: usize = layout.columns.iter().map(of_column).sum();
        let rows = (self.taker.part_bytes() / row_bytes.max(1)) as u64;
        match execution.runtime.options.first_rows {
            Some(first) => first.max(1),
            None => rows.clamp(OUTPUT_ROWS_MIN, 1 << 26),
        }
    }

    /// Waits while the rows that were given out are enough, as long as nobody waits for memory.
    pub(super) fn wait_for_taker(
        &mut self,
        execution: &Execution<'_>,
        report: &mut PipelineReport,
    ) -> Result<()> {
        let started = Instant::now();
        let waited = wait_while_full(self.taker, execution, || self.give_out(false));
        report.reader_wait += started.elapsed();
        waited
    }

    /// Runs the kernel over `morsel`, and again over its rows that wait, until all rows are on their way out.
    pub(super) fn run(
        &mut self,
        execution: &Execution<'_>,
        kernel: &mut Kernel,
        (lane, morsel): (&Lane, &Morsel),
        launched: &mut Vec<Launched>,
        report: &mut PipelineReport,
    ) -> Result<()> {
        let SinkLayout::Rows(layout) = kernel.generated.sink.clone() else {
            unreachable!("a pipeline that ends in rows")
        };
        let wanted = morsel.rows.min(self.part_rows(execution, &layout)).max(1);
        let mut copied = Vec::new();
        let mut is_redo = false;
        loop {
            execution.cancel.check()?;
            let arrays = self.use_arrays(execution, kernel, &layout, wanted)?;
            let count = kernel.state.span(Arg::OutputCount)?.clone();
            execution.clear(&lane.stream, &count)?;
            let done = match is_redo {
                false => {
                    execution.launch(kernel, lane, morsel, false)?;
                    lane.stream.record()?
                }
                true => execution.redo(kernel, lane, morsel)?,
            };
            done.wait_blocking()?;
            let count = download_words_blocking(&lane.stream, &count)?[0].min(room(kernel));
            let more = self.copy(&kernel.state, &layout, count as usize)?;
            self.arrays[arrays].copied = more.as_ref().map(|more| more.done.clone());
            copied.extend(more);
            let left = lane.waiting.count()?;
            if left == 0 {
                break;
            }
            launched.extend(Launched::without_rows(0, kernel, &done));
            report.rows_waited += left;
            is_redo = true;
        }
        report.state_bytes = report.state_bytes.max(kernel.state.bytes());
        self.row_count += copied.iter().map(|copied| copied.row_count as u64).sum::<u64>();
        self.under_way.extend(copied);
        self.give_out(false)
    }

    /// Makes `kernel` write to the arrays that were used before the last ones, with room for so many rows, or for fewer
    /// where memory is short. Gives which they are.
    fn use_arrays(
        &mut self,
        execution: &Execution<'_>,
        kernel: &mut Kernel,
        layout: &RowsLayout,
        rows: u64,
    ) -> Result<usize> {
        let index = self.next;
        self.next = 1 - index;
        if let Some(copied) = self.arrays[index].copied.take() {
            copied.wait_blocking()?;
        }
        let arrays = &mut self.arrays[index];
        let mut wanted = rows;
        let has_room = |state: &State| state.word(Arg::OutputCapacity).unwrap_or(0);
        while has_room(&arrays.state) < wanted {
            match output_arrays(execution, layout, wanted) {
                Err(refusal) if is_out_of_memory(&refusal) && wanted > OUTPUT_ROWS_MIN => wanted /= 2,
                Err(refusal) if is_out_of_memory(&refusal) && has_room(&arrays.state) > 0 => break,
                made => arrays.state = made?,
            }
        }
        kernel.state.adopt(&arrays.state, |_| true);
        Ok(index)
    }

    /// Begins to copy the first `count` rows of the arrays in `state`.
    fn copy(&self, state: &State, layout: &RowsLayout, count: usize) -> Result<Option<Copied>> {
        if count == 0 {
            return Ok(None);
        }
        let mut arrays = Vec::with_capacity(layout.columns.len() * 2);
        for (index, column) in layout.columns.iter().enumerate() {
            arrays.push((Arg::Output(index), count * column.form.bytes()));
            arrays.extend(column.is_nullable.then_some((Arg::OutputValid(index), count)));
        }
        let total: usize = arrays.iter().map(|(_, bytes)| bytes.next_multiple_of(COLUMN_ALIGNMENT)).sum();
        // Few sizes, so that memory is found again that somebody has let go.
        let target = lasting_host_buffer(self.copies.machine(), total.next_power_of_two())?;
        let mut start = 0;
        let mut spans = Vec::with_capacity(arrays.len());
        for (arg, bytes) in arrays {
            let (source, span) = (state.span(arg)?.slice(0..bytes), target.slice(start..start + bytes));
            for (source, target) in source.chunks(COPY_BYTES).zip(span.chunks(COPY_BYTES)) {
                self.copies.copy(&source, &target)?;
            }
            spans.push(span);
            start += bytes.next_multiple_of(COLUMN_ALIGNMENT);
        }
        let mut spans = spans.into_iter();
        let mut next = || spans.next().expect("one for each array");
        let columns = layout.columns.iter().map(|column| {
            let values = next();
            (column.clone(), values, column.is_nullable.then(&mut next))
        });
        let columns = columns.collect();
        Ok(Some(Copied { row_count: count, columns, done: self.copies.record()? }))
    }

    /// Makes arrays for so many rows of `layout` at once, or for fewer where memory is short; gives for how many.
    pub(super) fn make_arrays(
        &mut self,
        execution: &Execution<'_>,
        layout: &RowsLayout,
        rows: u64,
    ) -> Result<u64> {
        let mut wanted = rows.max(1);
        loop {
            let made = self.arrays.iter_mut().try_for_each(|arrays| {
                arrays.state = State::default();
                arrays.state = output_arrays(execution, layout, wanted)?;
                Ok(())
            });
            match made {
                Err(refusal) if is_out_of_memory(&refusal) && wanted > OUTPUT_ROWS_MIN => wanted /= 2,
                made => return made.map(|()| wanted),
            }
        }
    }

    /// Gives out `count` rows of `layout` that `fill` puts into arrays.
    pub(super) fn give(
        &mut self,
        execution: &Execution<'_>,
        layout: &RowsLayout,
        count: usize,
        fill: impl FnOnce(&State) -> Result<()>,
    ) -> Result<()> {
        execution.cancel.check()?;
        let index = self.next;
        self.next = 1 - index;
        if let Some(copied) = self.arrays[index].copied.take() {
            copied.wait_blocking()?;
        }
        fill(&self.arrays[index].state)?;
        self.copies.wait_for(&execution.stream().record()?)?;
        let copied = self.copy(&self.arrays[index].state, layout, count)?;
        self.arrays[index].copied = copied.as_ref().map(|copied| copied.done.clone());
        self.row_count += count as u64;
        self.under_way.extend(copied);
        self.give_out(false)
    }

    /// Gives out rows whose copies are complete; where `all` are wanted, waits for the others.
    fn give_out(&mut self, all: bool) -> Result<()> {
        while let Some(first) = self.under_way.front() {
            if !all && !first.done.is_complete()? {
                break;
            }
            let part = self.under_way.pop_front().expect("there is a first").into_part()?;
            self.taker.take(part)?;
        }
        Ok(())
    }

    /// Gives out all rows that came out, and the memory of the device back.
    pub(super) fn let_go(&mut self) -> Result<()> {
        self.give_out(true)?;
        self.copies.wait_blocking()?;
        self.arrays = Default::default();
        Ok(())
    }
}

/// Waits while `taker` has enough, as long as nobody waits for memory; `give_out` is called meanwhile.
pub(super) fn wait_while_full<T: TakeRows + ?Sized>(
    taker: &T,
    execution: &Execution<'_>,
    mut give_out: impl FnMut() -> Result<()>,
) -> Result<()> {
    let turn = &execution.turn;
    while taker.is_full() && turn.arbiter().parked() == 0 && !turn.is_asked_to_park() {
        execution.cancel.check()?;
        give_out()?;
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

impl Drop for RowsOut<'_> {
    fn drop(&mut self) {
        // However the run ends, nothing is under way after it. A stream that has failed has nothing left to do.
        let _ = self.copies.wait_blocking();
    }
}
