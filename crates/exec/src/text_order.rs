//! Sorts by texts of which words hold the beginning: ties of rows that a device has sorted, and of runs that are merged.
//!
//! ```text
//!   on a device   words and texts' numbers, some rows at a time, in order ──► ties ──► rows' numbers, back to the device
//!   of runs       merged by their words: which row of which run is next   ──► ties ──► which row of which run is next
//! ```
//!
//! Traffic of a sort on a device: 8 bytes of each row for each word and each text key over the link, and where there are
//! ties, 4 bytes there and back for the rows' numbers.

use std::ops::Range;

use pelton_device::Span;
use pelton_error::{Error, Result};
use pelton_kernels::{IndexType, take};
use pelton_pipeline::codegen::{Arg, Form, OrderLayout, PayloadColumn, RowsLayout, TextKey};

use super::execution::{Execution, Kernel};
use super::memory::{download_blocking, download_words_blocking, host_buffer};
use super::results::text_in;
use super::sorted_runs::{Merge, Pick, SortedRun};
use super::text_ties::{ReadTexts, Resolved, TextSteps, Ties};

/// Rows whose words are brought in one go.
const PIECE_ROWS: usize = 1 << 20;

/// Where the whole texts of sort keys are.
#[derive(Clone, Copy)]
pub(super) struct KeyTexts<'t> {
    pub(super) columns: &'t [PayloadColumn],
    /// Of groups that are the source.
    pub(super) heap: &'t [u8],
    /// Of all others.
    pub(super) reader: Option<&'t dyn ReadTexts>,
}

impl KeyTexts<'_> {
    fn read(&self, key: &TextKey, numbers: &[i64], give: &mut dyn FnMut(&[u8])) -> Result<()> {
        match (self.columns[key.column].form, self.reader) {
            (Form::Kept, _) => numbers.iter().try_for_each(|word| {
                give(text_in(self.heap, *word as u64)?);
                Ok(())
            }),
            (Form::I64, Some(reader)) => reader.read(key.key, numbers, give),
            _ => Err(Error::unsupported("a sort by texts that begin alike, which nobody reads")),
        }
    }
}

/// Rows on a device in the order of their words.
pub(super) struct InWordOrder<'k> {
    pub(super) kernel: &'k Kernel,
    pub(super) order: &'k OrderLayout,
    /// The words, by number of the row.
    pub(super) words: &'k [Span],
    /// The numbers of the rows, in order.
    pub(super) numbers: &'k Span,
    /// Memory of 8 bytes for each of them, which holds nothing.
    pub(super) scratch: &'k Span,
}

impl Execution<'_> {
    /// Puts rows in order whose texts begin alike; rows from `wanted` on only as far as they tie with one before.
    pub(super) fn order_by_texts(
        &self,
        rows: &InWordOrder<'_>,
        texts: &KeyTexts<'_>,
        wanted: usize,
    ) -> Result<Resolved> {
        let order = rows.order;
        let columns = order.texts.iter().map(|text| self.numbers_of_texts(rows.kernel, texts, text.column));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let mut ties = Ties::new(order, self.host_bytes_max);
        let (mut words, mut numbers) = (vec![0; rows.words.len()], vec![0; columns.len()]);
        let count = rows.numbers.len() / 4;
        'pieces: for start in (0..count).step_by(PIECE_ROWS) {
            let piece = start..count.min(start + PIECE_ROWS);
            let of_words = self.bring_in_order(rows, rows.words, piece.clone())?;
            let of_texts = self.bring_in_order(rows, &columns, piece.clone())?;
            for (row, place) in piece.enumerate() {
                words.iter_mut().zip(&of_words).for_each(|(word, array)| *word = array[row]);
                numbers.iter_mut().zip(&of_texts).for_each(|(number, array)| *number = array[row]);
                let is_tied = ties.add(place, &words, &numbers)?;
                if place >= wanted && !is_tied {
                    break 'pieces;
                }
            }
        }
        let read =
            |key: &TextKey, numbers: &[i64], give: &mut dyn FnMut(&[u8])| texts.read(key, numbers, give);
        let resolved = ties.resolve(&read, self.merging_threads(), self.cancel)?;
        if resolved.row_count() > 0 {
            let mut numbers = download_blocking(self.stream(), rows.numbers)?;
            resolved.apply(numbers.as_chunks_mut::<4>().0);
            self.send(&numbers, rows.numbers)?;
        }
        Ok(resolved)
    }

    /// How many of the first rows there are where `wanted` are asked for, with those that tie with the last one.
    pub(super) fn with_ties(&self, rows: &InWordOrder<'_>, wanted: usize) -> Result<usize> {
        let count = rows.numbers.len() / 4;
        let Some(last) = wanted.checked_sub(1).filter(|last| *last < count) else { return Ok(wanted) };
        let steps = TextSteps::of(rows.order);
        let words_of =
            |arrays: &[Vec<u64>], row: usize| arrays.iter().map(|array| array[row]).collect::<Vec<_>>();
        let of_last = words_of(&self.bring_in_order(rows, rows.words, last..wanted)?, 0);
        let Some(step) = steps.first(&of_last) else { return Ok(wanted) };
        for start in (wanted..count).step_by(PIECE_ROWS) {
            let piece = start..count.min(start + PIECE_ROWS);
            let arrays = self.bring_in_order(rows, rows.words, piece.clone())?;
            let ties = |row: &usize| steps.are_tied(step, &of_last, &words_of(&arrays, *row));
            if let Some(row) = (0..piece.len()).find(|row| !ties(row)) {
                return Ok(start + row);
            }
        }
        Ok(count)
    }

    /// Puts the rows of `merge` in order whose texts begin alike, given the order of their words.
    pub(super) fn order_merged_by_texts(
        &self,
        merge: &Merge<'_>,
        order: &OrderLayout,
        texts: &KeyTexts<'_>,
        picks: &mut [Pick],
    ) -> Result<Resolved> {
        // By column of a run's arrays, of which a column that may be NULL has two.
        let array_of = |column: usize| {
            let before = &texts.columns[..column];
            before.len() + before.iter().filter(|column| column.is_nullable).count()
        };
        let arrays: Vec<usize> = order.texts.iter().map(|text| array_of(text.column)).collect();
        let held: u64 = merge.runs.iter().map(SortedRun::bytes).sum();
        let mut ties = Ties::new(order, self.host_bytes_max.saturating_sub(held));
        let (mut words, mut numbers) = (vec![0; order.word_bits.len()], vec![0; arrays.len()]);
        for (place, (run, row)) in picks.iter().enumerate() {
            let (run, row) = (&merge.runs[*run as usize], *row as usize);
            words.iter_mut().zip(&run.words).for_each(|(word, array)| *word = word_at(array, row));
            for (number, array) in numbers.iter_mut().zip(&arrays) {
                *number = word_at(&run.arrays[*array], row);
            }
            ties.add(place, &words, &numbers)?;
        }
        let read =
            |key: &TextKey, numbers: &[i64], give: &mut dyn FnMut(&[u8])| texts.read(key, numbers, give);
        let resolved = ties.resolve(&read, self.merging_threads(), self.cancel)?;
        resolved.apply(picks);
        Ok(resolved)
    }

    /// The column that has the numbers of texts, by number of the row.
    fn numbers_of_texts(&self, kernel: &Kernel, texts: &KeyTexts<'_>, column: usize) -> Result<Span> {
        let form = texts.columns[column].form;
        if !matches!(form, Form::I64 | Form::Kept) {
            return Err(Error::invalid_input(format!("texts by values in the form {form:?}")));
        }
        let all = kernel.state.span(Arg::Output(column))?;
        Ok(all.slice(0..all.len() / 8 * 8))
    }

    /// Words of `arrays` of the rows in these places, in order.
    fn bring_in_order(
        &self,
        rows: &InWordOrder<'_>,
        arrays: &[Span],
        places: Range<usize>,
    ) -> Result<Vec<Vec<u64>>> {
        self.cancel.check()?;
        let (library, target) = (self.library()?, rows.scratch.slice(0..places.len() * 8));
        let numbers = rows.numbers.slice(places.start * 4..places.end * 4);
        let bring = |array: &Span| {
            let work = take(library, 8, array.clone(), IndexType::U32, numbers.clone(), target.clone());
            self.stream().run(work)?;
            download_words_blocking(self.stream(), &target)
        };
        arrays.iter().map(bring).collect()
    }

    /// Copies `bytes` to `target` on the device, and waits.
    pub(super) fn send(&self, bytes: &[u8], target: &Span) -> Result<()> {
        let staged = host_buffer(self.runtime.machine(), bytes.len().max(8).next_multiple_of(8))?;
        staged.with_bytes_mut(|to| to[..bytes.len()].copy_from_slice(bytes))?;
        self.stream().copy(&staged.slice(0..bytes.len()), target)?;
        self.stream().wait_blocking()
    }
}

/// The columns of `layout` that come out, or that lead to texts, and where these are.
pub(super) fn key_texts<'t>(
    layout: &'t RowsLayout,
    heap: &'t [u8],
    reader: Option<&'t dyn ReadTexts>,
) -> KeyTexts<'t> {
    KeyTexts { columns: &layout.columns[..layout.output_columns()], heap, reader }
}

fn word_at(words: &[u8], row: usize) -> u64 {
    u64::from_le_bytes(words[row * 8..row * 8 + 8].try_into().expect("8 bytes"))
}
