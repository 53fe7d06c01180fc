//! Sinks that grow: groups and hash tables move to larger arrays, by a kernel that is the same for every query.
//!
//! ```text
//!   groups   keys [slot], state [slot] ──► more slots, each group at the one it hashes to there
//!   heap     texts ──► the same in a larger one, which states lead to as before
//!   table    keys [slot], heads [slot] ──► more slots, likewise; Bloom filter anew
//!            next [row], payload [row] ──► the same rows in larger arrays
//!   rows     columns, words [row] ──► the same rows in larger arrays, column by column
//! ```
//!
//! Both are held at once while they move, but for rows. Nothing else uses the sink meanwhile: all streams have been waited for.

use pelton_device::Span;
use pelton_error::{Error, Result};
use pelton_pipeline::codegen::{
    Arg, GroupKind, GroupLayout, MOVE_GROUPS_ENTRY, MOVE_KEYS_ENTRY, RowsLayout, SinkLayout, TableLayout,
};

use super::allocate::{HEAP_HEAD_BYTES, TABLE_ROWS_MAX, built_table};
use super::execution::{Execution, Kernel};
use super::finish::{room, row_arrays};
use super::memory::{State, download_words_blocking, is_out_of_memory};
use super::ordered::SORTED_ROWS_MAX;
use super::report::PipelineReport;

/// How much larger a sink becomes: all that it ever moves is then a third of what it holds in the end.
const GROWTH: u64 = 4;
/// The same where memory is short.
const GROWTH_LEAST: u64 = 2;

impl Execution<'_> {
    /// Gives the sink of `kernel` several times its room. Where memory is refused, only others can make way here: rows
    /// are under way.
    pub(super) fn grow(&self, kernel: &mut Kernel, report: &mut PipelineReport) -> Result<()> {
        let mut factor = GROWTH;
        loop {
            let grown = self.grow_by(kernel, factor);
            // What was taken until then is still being cleared.
            self.stream().wait_blocking()?;
            match grown {
                Err(refusal) if is_out_of_memory(&refusal) => {
                    if factor > GROWTH_LEAST {
                        factor = GROWTH_LEAST;
                    } else if !self.make_others_way(&refusal, report)? {
                        return Err(refusal);
                    }
                }
                grown => break grown?,
            }
        }
        report.sink_grown += 1;
        report.state_bytes = report.state_bytes.max(kernel.state.bytes());
        Ok(())
    }

    fn grow_by(&self, kernel: &mut Kernel, factor: u64) -> Result<()> {
        let mut larger = State::default();
        match kernel.generated.sink.clone() {
            SinkLayout::Groups(layout) => match self.full_heap(kernel, &layout)? {
                // Slots may be missing too, for which rows wait once more.
                Some(heap) => self.grow_heap(&heap, factor, &mut larger)?,
                None => self.grow_groups(kernel, &layout, factor, &mut larger)?,
            },
            SinkLayout::Build(layout) => self.grow_table(kernel, &layout, factor, &mut larger)?,
            SinkLayout::Rows(layout) => self.grow_rows(kernel, &layout, factor)?,
        }
        // Morsels run in other streams.
        self.stream().wait_blocking()?;
        kernel.state.adopt(&larger, |_| true);
        Ok(())
    }

    /// Larger arrays for rows to be sorted, one after the other: at no time all are there twice.
    fn grow_rows(&self, kernel: &mut Kernel, layout: &RowsLayout, factor: u64) -> Result<()> {
        assert!(layout.order.is_some(), "other rows are taken, not moved");
        let (room, asked) = (room(kernel), self.rows_asked(kernel)?);
        if room >= SORTED_ROWS_MAX {
            return Err(Error::unsupported(format!(
                "a sort of more than {SORTED_ROWS_MAX} rows on a device"
            )));
        }
        // All that found no room now do, unless memory is short.
        let least = if factor > GROWTH_LEAST { asked } else { 0 };
        let most = kernel.rows_max.max(asked).min(SORTED_ROWS_MAX);
        let (kept, wanted) = (asked.min(room), (room * factor).max(least).min(most));
        for (arg, width) in row_arrays(layout) {
            let old = kernel.state.span(arg)?.clone();
            if old.len() as u64 >= wanted * width as u64 {
                continue; // made before memory was refused
            }
            let new = self.array(&mut kernel.state, arg, wanted as usize * width)?;
            let bytes = 0..kept as usize * width;
            if !bytes.is_empty() {
                self.stream().copy(&old.slice(bytes.clone()), &new.slice(bytes))?;
            }
        }
        kernel.state.set(Arg::OutputCapacity, wanted);
        self.set_row_count(kernel, kept)
    }

    /// The heap of texts, where some found no room in it, and how many bytes were asked for.
    fn full_heap(&self, kernel: &Kernel, layout: &GroupLayout) -> Result<Option<FullHeap>> {
        if !layout.has_text_heap() {
            return Ok(None);
        }
        let heap = kernel.state.span(Arg::TextHeap)?.clone();
        let asked = download_words_blocking(self.stream(), &heap.slice(0..8))?[0];
        Ok((asked > heap.len() as u64).then_some(FullHeap { heap, asked }))
    }

    fn grow_heap(&self, full: &FullHeap, factor: u64, larger: &mut State) -> Result<()> {
        let bytes = full.heap.len() as u64;
        assert!(bytes > HEAP_HEAD_BYTES, "a heap of {bytes} bytes");
        // At least one of the texts that found no room has some now.
        self.allocate_heap((bytes * factor).max(full.asked), larger)?;
        let heap = larger.span(Arg::TextHeap)?.clone();
        self.stream().copy(&full.heap, &heap.slice(0..full.heap.len()))?;
        self.describe_heap(&heap, bytes)
    }

    fn grow_groups(
        &self,
        kernel: &Kernel,
        layout: &GroupLayout,
        factor: u64,
        larger: &mut State,
    ) -> Result<()> {
        let slots = kernel.state.word(Arg::GroupSlotMask).unwrap_or(0) + 1;
        self.allocate_hashed_groups(layout, slots * factor, larger)?;
        let arrays = [Arg::GroupKeys, Arg::Groups];
        let [keys, groups] = arrays.map(|arg| kernel.state.span(arg).cloned());
        let [new_keys, new_groups] = arrays.map(|arg| larger.span(arg).cloned());
        let (keys, groups, new_keys, new_groups) = (keys?, groups?, new_keys?, new_groups?);
        let words = vec![
            keys.address(),
            slots,
            groups.address(),
            layout.width() as u64,
            new_keys.address(),
            slots * factor - 1,
            new_groups.address(),
            u64::from(layout.kind == GroupKind::Wide),
        ];
        let (reads, writes) = (vec![keys, groups], vec![new_keys, new_groups]);
        self.run_fixed(self.stream(), MOVE_GROUPS_ENTRY, words, slots, reads, writes)
    }

    fn grow_table(
        &self,
        kernel: &Kernel,
        layout: &TableLayout,
        factor: u64,
        larger: &mut State,
    ) -> Result<()> {
        let table = built_table(kernel)?;
        let known = |arg| kernel.state.word(arg).unwrap_or(0);
        let (slots, rows_max) = (known(Arg::TableSlotMask(table)) + 1, known(Arg::TableRowsMax(table)));
        if rows_max >= TABLE_ROWS_MAX {
            return Err(Error::unsupported(format!("a hash table of more than {rows_max} rows")));
        }
        let new_rows_max = (rows_max * factor).min(TABLE_ROWS_MAX);
        self.allocate_hashed(table, layout, new_rows_max, larger)?;
        let arrays = [Arg::TableKeys(table), Arg::Heads(table)];
        let [keys, heads] = arrays.map(|arg| kernel.state.span(arg).cloned());
        let [new_keys, new_heads] = arrays.map(|arg| larger.span(arg).cloned());
        let (keys, heads, new_keys, new_heads) = (keys?, heads?, new_keys?, new_heads?);
        let bloom = larger.span(Arg::Bloom(table))?.clone();
        let new_known = |arg| larger.word(arg).unwrap_or(0);
        let words = vec![
            keys.address(),
            slots,
            heads.address(),
            new_keys.address(),
            new_known(Arg::TableSlotMask(table)),
            new_heads.address(),
            bloom.address(),
            new_known(Arg::BloomMask(table)),
        ];
        let (reads, writes) = (vec![keys, heads], vec![new_keys, new_heads, bloom]);
        self.run_fixed(self.stream(), MOVE_KEYS_ENTRY, words, slots, reads, writes)?;
        for arg in by_row(table, layout) {
            let (rows, new_rows) = (kernel.state.span(arg)?, larger.span(arg)?);
            self.stream().copy(rows, &new_rows.slice(0..rows.len()))?;
        }
        // Rows that found no room were counted all the same.
        let head = kernel.state.span(Arg::Flags)?;
        let count = download_words_blocking(self.stream(), head)?[1].min(rows_max);
        self.fill(self.stream(), &head.slice(8..16), count, 0, 1)
    }
}

/// See [`Execution::full_heap`].
struct FullHeap {
    heap: Span,
    asked: u64,
}

/// The arrays of a hashed table that have a place for each row.
fn by_row(table: usize, layout: &TableLayout) -> Vec<Arg> {
    let payload = layout.payload.iter().enumerate().flat_map(|(index, column)| {
        let valid = column.is_nullable.then_some(Arg::PayloadValid(table, index));
        [Arg::Payload(table, index)].into_iter().chain(valid)
    });
    [Arg::Next(table)].into_iter().chain(payload).collect()
}
