//! Groups of a result that are more than one copy brings: given out some at a time, as they lie in memory.
//!
//! ```text
//!   places 0..n     gather ── records 0 ── copy ──► pinned ──► TakeGroups
//!   places n..2n             gather ── records 1 ── copy ──► pinned ──► TakeGroups
//!   places 2n..3n                                   gather ── records 0 ...           once their copy is complete
//! ```
//!
//! Whoever takes them makes rows of the first while others come. What was given out cannot be taken back: flags have been
//! looked at by then, and who takes groups says beforehand whether their types hold all that their layout allows. Texts in
//! a heap are brought as a whole, with all groups. Device memory: two arrays of records of [`PIECE_BYTES`] at most.

use std::collections::VecDeque;
use std::time::Instant;

use bytes::Bytes;
use pelton_device::{Event, Place, Span, Stream};
use pelton_error::Result;
use pelton_pipeline::Rows;
use pelton_pipeline::codegen::{GroupKind, GroupLayout};

use super::execution::{Execution, HeldGroups};
use super::finish::{COMPACT_ROWS, Gathered, gather_some, gather_to, group_rows_of, on_device};
use super::memory::{is_out_of_memory, lasting_host_buffer};
use super::report::PipelineReport;
use super::results::group_rows;
use super::rows_out::{COPY_BYTES, TakeRows, wait_while_full};

/// Records that are gathered at once take so much at most: as long a copy as those of rows.
const PIECE_BYTES: usize = COPY_BYTES;

/// Somebody who takes groups of a result some at a time.
pub trait TakeGroups: TakeRows {
    /// Whether it takes groups of this layout so: nothing that the layout allows to be in them may be for the CPU to look
    /// at.
    fn wants(&self, layout: &GroupLayout) -> bool;

    /// Takes `groups`.
    ///
    /// # Errors
    ///
    /// Its own, which end the run.
    fn take_groups(&self, groups: SomeGroups) -> Result<()>;
}

/// What is wanted of groups that are the result.
#[derive(Clone, Copy)]
pub(crate) struct WantedGroups<'r> {
    /// Who takes them some at a time, if somebody does.
    pub(crate) taker: Option<&'r dyn TakeGroups>,
    /// So many are enough, whichever.
    pub(crate) enough: u64,
}

/// Some groups of a result, in memory of the host.
#[derive(Debug, Clone)]
pub struct SomeGroups {
    layout: GroupLayout,
    /// One after the other, in words.
    records: Bytes,
    /// Where groups are found by position: the place of the first, from which those in the records are counted; else 0.
    first_place: u64,
}

impl SomeGroups {
    /// Bytes of all of them.
    pub fn bytes(&self) -> usize {
        self.records.len()
    }

    /// The groups as rows: keys, then aggregates.
    ///
    /// # Errors
    ///
    /// Where their texts are more than a dictionary holds.
    pub fn into_rows(self) -> Result<Rows> {
        let words = self.records.chunks_exact(8);
        let words = words.map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes")));
        let mut words: Vec<u64> = words.collect();
        words.iter_mut().step_by(self.layout.width() + 1).for_each(|place| *place += self.first_place);
        group_rows(&self.layout, &words, &[])
    }
}

/// `held`, which is the result, as rows, but for what was given out; `count`: how many groups there are, where that is
/// known.
pub(super) fn result_of_groups(
    execution: &Execution<'_>,
    held: &HeldGroups,
    count: Option<u64>,
    report: &mut PipelineReport,
) -> Result<Rows> {
    let WantedGroups { taker, enough } = execution.wanted_groups;
    let taker = taker.filter(|taker| {
        let comes_in_pieces = held.layout.kind != GroupKind::Global && held.heap.is_none();
        comes_in_pieces && taker.wants(&held.layout)
    });
    let Some(taker) = taker else { return group_rows_of(execution, held, count, enough) };
    let at_once = execution.runtime.options.first_rows.unwrap_or(COMPACT_ROWS).max(1);
    let is_more = match count {
        Some(count) => count.min(enough) > at_once,
        None => match gather_some(execution, held, at_once.min(held.places()).min(enough), enough) {
            Ok(Gathered::All(records)) => return group_rows(&held.layout, &records, &[]),
            Ok(Gathered::More(_)) => true,
            Err(refusal) if is_out_of_memory(&refusal) => false,
            Err(error) => return Err(error),
        },
    };
    match is_more.then(|| GroupsOut::to(taker, execution, held)).transpose() {
        Ok(Some(mut out)) => {
            out.give_all(execution, held, enough, report)?;
            group_rows(&held.layout, &[], &[])
        }
        Err(error) if !is_out_of_memory(&error) => Err(error),
        Ok(None) | Err(_) => group_rows_of(execution, held, count, enough),
    }
}

/// Where the groups of a result go.
struct GroupsOut<'r> {
    taker: &'r dyn TakeGroups,
    copies: Stream,
    pieces: [Piece; 2],
    under_way: VecDeque<Copied>,
    /// Places that are gathered at once.
    places: u64,
}

/// An array of records: how many, then the records.
struct Piece {
    records: Span,
    /// After the last copy from it.
    copied: Option<Event>,
}

/// Records on their way from the device.
struct Copied {
    records: Span,
    first_place: u64,
    done: Event,
}

impl<'r> GroupsOut<'r> {
    /// To `taker`, from the places of `held`.
    fn to(taker: &'r dyn TakeGroups, execution: &Execution<'_>, held: &HeldGroups) -> Result<Self> {
        let (machine, device) = (execution.runtime.machine(), execution.device());
        let record_bytes = (held.layout.width() + 1) * 8;
        let at_once = (PIECE_BYTES.min(taker.part_bytes()) / record_bytes) as u64;
        let places = execution.runtime.options.first_rows.unwrap_or(at_once).clamp(1, held.places().max(1));
        let bytes = 8 + places as usize * record_bytes;
        let piece = || {
            Ok::<_, pelton_error::Error>(Piece { records: on_device(machine, device, bytes)?, copied: None })
        };
        let pieces = [piece()?, piece()?];
        let copies = machine.stream(Place::Device(device))?;
        Ok(Self { taker, copies, pieces, under_way: VecDeque::new(), places })
    }

    /// Gives out groups until all are out, or `enough`.
    fn give_all(
        &mut self,
        execution: &Execution<'_>,
        held: &HeldGroups,
        enough: u64,
        report: &mut PipelineReport,
    ) -> Result<()> {
        let (mut first, mut given) = (0, 0);
        while first < held.places() && given < enough {
            let started = Instant::now();
            wait_while_full(self.taker, execution, || {
                Self::give_out(self.taker, &held.layout, &mut self.under_way, false)
            })?;
            report.reader_wait += started.elapsed();
            execution.cancel.check()?;
            let end = held.places().min(first + self.places);
            let piece = &mut self.pieces[(first / self.places % 2) as usize];
            if let Some(copied) = piece.copied.take() {
                copied.wait_blocking()?;
            }
            let count = gather_to(execution, held, first..end, &piece.records)?;
            if count > 0 {
                // By hash, records have their keys, and a place says nothing.
                let first_place = if held.keys.is_none() { first } else { 0 };
                let bytes = count as usize * (held.layout.width() + 1) * 8;
                let copied = copy(&self.copies, piece, bytes, first_place)?;
                piece.copied = Some(copied.done.clone());
                self.under_way.push_back(copied);
            }
            report.rows_out += count;
            (first, given) = (end, given + count);
            Self::give_out(self.taker, &held.layout, &mut self.under_way, false)?;
        }
        Self::give_out(self.taker, &held.layout, &mut self.under_way, true)
    }

    /// Gives out records whose copies are complete; where `all` are wanted, waits for the others.
    fn give_out(
        taker: &dyn TakeGroups,
        layout: &GroupLayout,
        under_way: &mut VecDeque<Copied>,
        all: bool,
    ) -> Result<()> {
        while let Some(first) = under_way.front() {
            if !all && !first.done.is_complete()? {
                break;
            }
            let Copied { records, first_place, done } = under_way.pop_front().expect("there is a first");
            done.wait_blocking()?;
            let records = Bytes::from_owner(records.host_bytes()?);
            taker.take_groups(SomeGroups { layout: layout.clone(), records, first_place })?;
        }
        Ok(())
    }
}

/// Begins to copy the first `bytes` of the records of `piece`, which begins at `first_place`.
fn copy(copies: &Stream, piece: &Piece, bytes: usize, first_place: u64) -> Result<Copied> {
    // Few sizes, so that memory is found again that somebody has let go.
    let target = lasting_host_buffer(copies.machine(), bytes.next_power_of_two())?.slice(0..bytes);
    let source = piece.records.slice(8..8 + bytes);
    for (source, target) in source.chunks(COPY_BYTES).zip(target.chunks(COPY_BYTES)) {
        copies.copy(&source, &target)?;
    }
    Ok(Copied { records: target, first_place, done: copies.record()? })
}

impl Drop for GroupsOut<'_> {
    fn drop(&mut self) {
        // However the run ends, nothing is under way after it. A stream that has failed has nothing left to do.
        let _ = self.copies.wait_blocking();
    }
}
