//! Partial groups made one: parts of one layout, from several workers or from one at several times, are added to a table
//! of groups that later pipelines read as if one aggregation had made it.
//!
//! ```text
//!   part   table: keys [slot], state [slot]          ┐                    ┌ the group of the same key: words are added
//!          records: key, state, key, state, …        ├─ group by group ──►┤ up, or compared, or stay
//!          state by place, a range of places         ┘                    └ or a free slot
//! ```
//!
//! A part must be in memory that the device reaches, and is as it was afterwards. There is room for as many groups as
//! the caller says; more are an error, since what was added cannot be told apart any more. Sums of 128 bits are checked
//! as within a part; all others fit, because bounds hold for all rows of the query. Texts are copied from the heap of a
//! part to that of the table, which has room for all of them.
//!
//! Traffic: each part is read once, and the words of a group are read and written once for each part that has it.

use std::sync::Arc;

use pelton_device::Span;
use pelton_error::{Error, Result};
use pelton_pipeline::codegen::{self, Arg, COMBINE_ENTRY, GroupKind, GroupLayout};

use super::execution::{Execution, HeldGroups, Kernel};
use super::finish::hold;
use super::memory::{State, download_words_blocking, upload};

/// Some of the groups, by a hash of their key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GroupPartition {
    pub(crate) index: u64,
    pub(crate) count: u64,
}

impl GroupPartition {
    /// All groups.
    pub(crate) const ALL: Self = Self { index: 0, count: 1 };
}

/// Groups to be added.
pub(crate) enum GroupsPart<'p> {
    /// As an aggregation left them.
    Held(&'p HeldGroups),
    /// The packed key (of wide groups the tag) and the state of each, as `k_compact` gathers them.
    Records { records: &'p Span, count: u64 },
    /// The states of groups by position, from place `first_place` on.
    Places { states: &'p Span, first_place: u64 },
}

/// A table that parts are added to.
pub(crate) struct Combiner<'e, 'r> {
    execution: &'e Execution<'r>,
    /// Its state is the table.
    kernel: Kernel,
    layout: GroupLayout,
    /// What the words of a state do.
    words: Span,
}

impl<'e, 'r> Combiner<'e, 'r> {
    /// An empty table with room for `groups_max` groups, and for the texts of heaps of so many bytes together.
    pub(crate) fn new(
        execution: &'e Execution<'r>,
        layout: &GroupLayout,
        groups_max: u64,
        heap_bytes: u64,
    ) -> Result<Self> {
        let combiner = Self::without_table(execution, layout)?;
        let mut table = State::default();
        execution.allocate_groups(layout, groups_max, &mut table)?;
        if layout.has_text_heap() {
            execution.allocate_heap(heap_bytes, &mut table)?;
        }
        Ok(combiner.with_table(&table))
    }

    /// `held` itself where it has room for `groups_max` groups, else a larger table that holds the same. There is room for
    /// the texts of heaps of so many bytes together, that of `held` among them.
    pub(crate) fn onto(
        execution: &'e Execution<'r>,
        held: &HeldGroups,
        groups_max: u64,
        heap_bytes: u64,
    ) -> Result<Self> {
        let is_hashed = matches!(held.layout.kind, GroupKind::Hashed | GroupKind::Wide);
        // At two thirds, slots are still found soon.
        let is_short = is_hashed && groups_max.saturating_mul(3) > held.places().saturating_mul(2);
        if is_short || held.heap.is_some() {
            let larger = Self::new(execution, &held.layout, groups_max, heap_bytes)?;
            larger.add(&GroupsPart::Held(held), GroupPartition::ALL)?;
            return Ok(larger);
        }
        let mut table = State::default();
        table.set_span(Arg::Groups, &held.groups);
        held.keys.iter().for_each(|keys| table.set_span(Arg::GroupKeys, keys));
        table.set(Arg::GroupSlotMask, held.places() - 1);
        Ok(Self::without_table(execution, &held.layout)?.with_table(&table))
    }

    fn without_table(execution: &'e Execution<'r>, layout: &GroupLayout) -> Result<Self> {
        let mut kernel = combining_kernel(execution, layout)?;
        let (stream, device) = (execution.stream(), execution.device());
        // Flags, then how many groups found no room.
        upload(&mut kernel.state, stream, device, Arg::Flags, &[0; 16])?;
        let words: Vec<u8> =
            codegen::combined_words(layout).iter().flat_map(|word| word.to_le_bytes()).collect();
        // Not an argument of a pipeline.
        let mut state = State::default();
        upload(&mut state, stream, device, Arg::Chunks, &words)?;
        let words = state.span(Arg::Chunks)?.clone();
        Ok(Self { execution, kernel, layout: layout.clone(), words })
    }

    fn with_table(mut self, table: &State) -> Self {
        self.kernel.state.adopt(table, |_| true);
        self
    }

    /// Enqueues that the groups of `partition` among those of `part` are added.
    pub(crate) fn add(&self, part: &GroupsPart<'_>, partition: GroupPartition) -> Result<()> {
        let heap = if let GroupsPart::Held(held) = part { held.heap.as_ref() } else { None };
        self.add_with_texts(part, partition, heap)
    }

    /// The same of groups whose texts are in `heap`.
    pub(crate) fn add_with_texts(
        &self,
        part: &GroupsPart<'_>,
        partition: GroupPartition,
        heap: Option<&Span>,
    ) -> Result<()> {
        assert_eq!(heap.is_some(), self.layout.has_text_heap(), "texts are in a heap");
        assert!(partition.index < partition.count, "partition {} of {}", partition.index, partition.count);
        let width = self.layout.width() as u64;
        let record = width + 1;
        // Addresses of keys and states, their strides, how many there are, the first place.
        let (reads, [keys, states, key_stride, state_stride, count, first]) = match part {
            GroupsPart::Held(held) => {
                let keys = held.keys.as_ref().map_or(0, Span::address);
                let reads: Vec<Span> = [&held.groups].into_iter().chain(&held.keys).cloned().collect();
                (reads, [keys, held.groups.address(), 1, width, held.places(), 0])
            }
            GroupsPart::Records { records, count } => {
                assert!(records.len() as u64 >= count * record * 8, "{count} records in {}", records.len());
                let at = records.address();
                (vec![(*records).clone()], [at, at + 8, record, record, *count, 0])
            }
            GroupsPart::Places { states, first_place } => {
                let count = states.len() as u64 / 8 / width;
                (vec![(*states).clone()], [0, states.address(), 1, width, count, *first_place])
            }
        };
        if count == 0 {
            return Ok(());
        }
        let state = &self.kernel.state;
        let (flags, groups) = (state.span(Arg::Flags)?.clone(), state.span(Arg::Groups)?.clone());
        let new_keys = self.is_hashed().then(|| state.span(Arg::GroupKeys).cloned()).transpose()?;
        let new_heap = heap.map(|_| state.span(Arg::TextHeap).cloned()).transpose()?;
        let wide = self.layout.wide.as_ref();
        let words = vec![
            keys,
            states,
            key_stride,
            state_stride,
            count,
            first,
            new_keys.as_ref().map_or(0, Span::address),
            groups.address(),
            state.word(Arg::GroupSlotMask).unwrap_or(0),
            width,
            self.words.address(),
            wide.map_or(0, |wide| wide.first_word as u64 | (wide.word_count as u64) << 32),
            partition.index,
            partition.count,
            flags.address(),
            heap.map_or(0, Span::address),
            new_heap.as_ref().map_or(0, Span::address),
        ];
        let writes = [flags, groups].into_iter().chain(new_keys).chain(new_heap).collect();
        let reads = reads.into_iter().chain([self.words.clone()]).chain(heap.cloned()).collect();
        let execution = self.execution;
        let entry = (&self.kernel.program, COMBINE_ENTRY);
        execution.run_entry(entry, execution.stream(), words, count, reads, writes)
    }

    /// The groups of all parts, once they are added.
    ///
    /// # Errors
    ///
    /// `Unsupported` where a sum may overflow; `InvalidInput` where there were more groups than was said.
    pub(crate) fn finish(self) -> Result<HeldGroups> {
        let head = download_words_blocking(self.execution.stream(), self.kernel.state.span(Arg::Flags)?)?;
        let without_room = head[1];
        if without_room > 0 {
            return Err(Error::invalid_input(format!(
                "{without_room} partial groups beyond the room for them"
            )));
        }
        hold(self.execution, &self.kernel, self.layout.clone())
    }

    fn is_hashed(&self) -> bool {
        matches!(self.layout.kind, GroupKind::Hashed | GroupKind::Wide)
    }
}

/// The kernel that adds up groups, for the device of `execution`, without any memory.
pub(crate) fn combining_kernel(execution: &Execution<'_>, layout: &GroupLayout) -> Result<Kernel> {
    let generated = codegen::combine(layout, execution.runtime.options().equal_hashes);
    let (program, _) = execution.runtime.compile(execution.worker, &generated, execution.cancel)?;
    let generated = Arc::new(generated);
    Ok(Kernel::new(program, generated))
}

#[cfg(test)]
mod tests;
