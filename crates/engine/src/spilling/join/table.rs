//! The hash table of a join: one for all partitions, built by all threads at once.
//!
//! ```text
//!   batches of the build side          each thread deals its rows out       each thread fills some regions
//!     share 0 ─▶ words of its rows ─▶    by region: 0 0 1 1 1 2 …  ─┐
//!     share 1 ─▶ words of its rows ─▶    by region: 0 1 1 2 2 2 …  ─┼─▶   region 0: slot of a word ─▶ first row ─▶ row after
//!       …                                                          ─┘     region 1: …               it of the same word, …
//!     columns that are wanted are put together meanwhile
//! ```
//!
//! Where words are dense, the word is the number of the slot. Where they are less so, a bit for each says whether it is
//! there, and how many bits are set before it is the number of its slot: keys in order find slots in order. Else slots are
//! looked for from the hash of the word on. A region is a run of slots that stays in a core's cache while it is filled, and
//! only one thread writes to it, so that all stores are plain ones.
//!
//! Manegold et al., "Optimizing Main-Memory Join on Modern Hardware", TKDE 2002, section 3 (radix partitioning, here of the
//! build side alone).

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, new_empty_array};
use datafusion::arrow::compute::{concat, filter, is_not_null};
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::runtime::JoinSet;
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_expr::PhysicalExpr;

use super::keys::{Bounds, NONE, Packing, both_bounds, bounds_of};
use super::slots::{Filter, Regions, Slots};

/// A thread is worth its start from so many rows on. A guess.
const ROWS_PER_THREAD: usize = 32 << 10;

/// A table over the rows of a build side.
#[derive(Debug)]
pub(super) struct Table {
    words: Arc<Words>,
    slots: Slots,
    /// For each row, one more than the row after it of the same word; 0 for none. Only read where words repeat.
    next: Box<[AtomicU32]>,
    /// No two rows have the same word.
    is_unique: bool,
    /// Those that are wanted, by their position on the build side.
    columns: Vec<Option<ArrayRef>>,
    row_count: usize,
    bounds: Vec<Bounds>,
}

/// How keys go into words, and which words there are.
#[derive(Debug)]
pub(super) struct Words {
    packing: Arc<Packing>,
    /// Passes each word of the build side, and few others.
    filter: Filter,
}

/// What a table is built of.
#[derive(Debug, Clone)]
pub(super) struct Build {
    pub(super) schema: SchemaRef,
    pub(super) batches: Arc<Vec<RecordBatch>>,
    /// The keys, over the build side.
    pub(super) keys: Vec<Arc<dyn PhysicalExpr>>,
    /// For each column of the build side: is it wanted?
    pub(super) wanted: Vec<bool>,
    /// Somebody reads the filter.
    pub(super) wants_filter: bool,
    pub(super) threads: usize,
}

/// The keys of a batch, and its first row.
type BatchKeys = (usize, Vec<ArrayRef>);
/// The keys of a share's batches, and the bounds of each key in it.
type ShareKeys = (Vec<BatchKeys>, Vec<Bounds>);

impl Build {
    /// The table; `None` where its keys do not go into words, or its rows have no numbers.
    ///
    /// # Errors
    ///
    /// Of the keys, and of columns that are too long together.
    pub(super) async fn run(self) -> Result<Option<Table>> {
        let row_count: usize = self.batches.iter().map(RecordBatch::num_rows).sum();
        // One more than the number of a row has to fit, and 0 is none.
        if row_count >= u32::MAX as usize {
            return Ok(None);
        }
        let shares = self.shares(row_count);
        let evaluated = shares.iter().map(|share| {
            let (build, share) = (self.clone(), share.clone());
            move || build.keys_of(share)
        });
        let evaluated = at_once(evaluated).await?;
        let mut bounds: Vec<Bounds> = vec![None; self.keys.len()];
        for (_, of_share) in &evaluated {
            bounds = bounds.into_iter().zip(of_share).map(|(a, b)| both_bounds(a, b.clone())).collect();
        }
        let Some(packing) = Packing::new(&bounds).map(Arc::new) else { return Ok(None) };
        let batches: Vec<Range<usize>> = shares.iter().map(|(batches, _)| batches.clone()).collect();
        let (columns, dealt) = self.columns_and_dealt(&packing, &batches, evaluated, row_count).await?;
        let filling = Filling::new(packing, dealt, row_count, self.wants_filter);
        let filling = filling.filled(if shares.len() == 1 { 1 } else { self.threads }).await?;
        Ok(Some(filling.into_table(columns, row_count, bounds)))
    }

    /// The columns that are wanted, and the rows of each share by region.
    async fn columns_and_dealt(
        &self,
        packing: &Arc<Packing>,
        batches: &[Range<usize>],
        shares: Vec<ShareKeys>,
        row_count: usize,
    ) -> Result<(Vec<Option<ArrayRef>>, (Regions, Vec<Dealt>))> {
        enum Done {
            /// Of this column, the rows of this share or of all.
            Column(usize, usize, ArrayRef),
            Dealt(Dealt),
        }
        let is_small = shares.len() == 1;
        let are_few = is_small && row_count <= ROWS_PER_THREAD;
        let regions = Regions::new(packing.word_max(), row_count as u64, are_few);
        let mut work: Vec<Box<dyn FnOnce() -> Result<Done> + Send>> = Vec::new();
        for column in (0..self.wanted.len()).filter(|&column| self.wanted[column]) {
            let whole = 0..self.batches.len();
            let parts = if self.is_view(column) { batches } else { std::slice::from_ref(&whole) };
            for (part, batches) in parts.iter().enumerate() {
                let (build, batches) = (self.clone(), batches.clone());
                work.push(Box::new(move || Ok(Done::Column(column, part, build.column(column, batches)?))));
            }
        }
        for (keys, _) in shares {
            let packing = Arc::clone(packing);
            work.push(Box::new(move || Ok(Done::Dealt(Dealt::of(&keys, &packing, regions)?))));
        }
        let done = if is_small { in_turn(work)? } else { at_once(work.into_iter()).await? };
        let (mut parts, mut dealt) = (vec![Vec::new(); self.wanted.len()], Vec::new());
        for done in done {
            match done {
                Done::Column(column, part, array) => parts[column].push((part, array)),
                Done::Dealt(share) => dealt.push(share),
            }
        }
        dealt.sort_unstable_by_key(|share| share.first_row);
        let columns = parts.into_iter().map(|mut parts| {
            parts.sort_unstable_by_key(|(part, _)| *part);
            let parts: Vec<ArrayRef> = parts.into_iter().map(|(_, array)| array).collect();
            if parts.is_empty() { Ok(None) } else { together(&parts).map(Some) }
        });
        Ok((columns.collect::<Result<_>>()?, (regions, dealt)))
    }

    /// The values of the first key, those that are NULL left out.
    pub(super) fn values_of_keys(&self) -> Result<ArrayRef> {
        let keys =
            self.batches.iter().map(|batch| self.keys[0].evaluate(batch)?.into_array(batch.num_rows()));
        let keys = keys.collect::<Result<Vec<_>>>()?;
        if keys.is_empty() {
            return Ok(new_empty_array(&self.keys[0].data_type(&self.schema)?));
        }
        let keys = together(&keys)?;
        Ok(filter(&keys, &is_not_null(&keys)?)?)
    }

    /// Batches for each thread, of about as many rows, and the number of the first row.
    fn shares(&self, row_count: usize) -> Vec<(Range<usize>, usize)> {
        let threads = (row_count / ROWS_PER_THREAD).clamp(1, self.threads.max(1));
        let rows_of_share = row_count.div_ceil(threads).max(1);
        let (mut shares, mut first_batch, mut first_row, mut rows) = (Vec::new(), 0, 0, 0);
        for (number, batch) in self.batches.iter().enumerate() {
            rows += batch.num_rows();
            if rows - first_row >= rows_of_share {
                shares.push((first_batch..number + 1, first_row));
                (first_batch, first_row) = (number + 1, rows);
            }
        }
        if shares.is_empty() || first_batch < self.batches.len() {
            shares.push((first_batch..self.batches.len(), first_row));
        }
        shares
    }

    fn keys_of(&self, (batches, mut row): (Range<usize>, usize)) -> Result<ShareKeys> {
        let (mut of_batches, mut bounds) = (Vec::with_capacity(batches.len()), vec![None; self.keys.len()]);
        for batch in &self.batches[batches] {
            let keys = evaluated(&self.keys, batch)?;
            for (bounds, key) in bounds.iter_mut().zip(&keys) {
                *bounds = both_bounds(bounds.take(), bounds_of(key)?);
            }
            of_batches.push((row, keys));
            row += batch.num_rows();
        }
        Ok((of_batches, bounds))
    }

    fn is_view(&self, column: usize) -> bool {
        matches!(self.schema.field(column).data_type(), DataType::Utf8View | DataType::BinaryView)
    }

    /// What `batches` have in `column`.
    fn column(&self, column: usize, batches: Range<usize>) -> Result<ArrayRef> {
        let arrays: Vec<ArrayRef> =
            self.batches[batches].iter().map(|batch| Arc::clone(batch.column(column))).collect();
        if arrays.is_empty() {
            return Ok(new_empty_array(self.schema.field(column).data_type()));
        }
        let array = together(&arrays)?;
        // Views have the buffers of all batches, which whoever takes some rows holds one by one.
        Ok(match array.data_type() {
            DataType::Utf8View => Arc::new(array.as_string_view().gc()),
            DataType::BinaryView => Arc::new(array.as_binary_view().gc()),
            _ => array,
        })
    }
}

fn together(arrays: &[ArrayRef]) -> Result<ArrayRef> {
    match arrays {
        [array] => Ok(Arc::clone(array)),
        _ => Ok(concat(&arrays.iter().map(|array| array.as_ref()).collect::<Vec<_>>())?),
    }
}

/// What `exprs` are for each row of `batch`.
pub(super) fn evaluated(exprs: &[Arc<dyn PhysicalExpr>], batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
    exprs.iter().map(|expr| expr.evaluate(batch)?.into_array(batch.num_rows())).collect()
}

fn in_turn<T>(work: Vec<impl FnOnce() -> Result<T>>) -> Result<Vec<T>> {
    work.into_iter().map(|part| part()).collect()
}

/// Does all parts of the work at once; what they give is in no order.
async fn at_once<T: Send + 'static>(
    work: impl Iterator<Item = impl FnOnce() -> Result<T> + Send + 'static>,
) -> Result<Vec<T>> {
    let mut parts: Vec<_> = work.collect();
    if parts.len() == 1 {
        return parts.pop().map_or_else(|| Ok(Vec::new()), |part| Ok(vec![part()?]));
    }
    let mut tasks = JoinSet::new();
    for part in parts {
        tasks.spawn(async move { part() });
    }
    let mut done = Vec::with_capacity(tasks.len());
    while let Some(result) = tasks.join_next().await {
        done.push(result.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))??);
    }
    Ok(done)
}

/// The rows of a share that may match, by region, in their order.
struct Dealt {
    first_row: usize,
    words: Vec<u64>,
    rows: Vec<u32>,
    /// Where the rows of each region end.
    ends: Vec<usize>,
}

impl Dealt {
    fn of(batches: &[BatchKeys], packing: &Packing, regions: Regions) -> Result<Self> {
        let mut places = vec![0; regions.count()];
        // Words are made twice, once to count: to keep them would take as much memory as to deal them out.
        for (_, keys) in batches {
            let words = packing.words(keys)?;
            words.iter().filter(|word| **word != NONE).for_each(|&word| places[regions.of(word)] += 1);
        }
        let mut sum = 0;
        for place in &mut places {
            (*place, sum) = (sum, sum + *place);
        }
        let (mut words, mut rows) = (vec![0; sum], vec![0; sum]);
        for (first_row, keys) in batches {
            for (row, word) in packing.words(keys)?.into_iter().enumerate().filter(|(_, word)| *word != NONE)
            {
                let place = &mut places[regions.of(word)];
                (words[*place], rows[*place]) = (word, (first_row + row) as u32);
                *place += 1;
            }
        }
        let first_row = batches.first().map_or(0, |(row, _)| *row);
        Ok(Self { first_row, words, rows, ends: places })
    }

    fn region(&self, region: usize) -> impl DoubleEndedIterator<Item = (u64, u32)> {
        let first = region.checked_sub(1).map_or(0, |before| self.ends[before]);
        let range = first..self.ends[region];
        self.words[range.clone()].iter().copied().zip(self.rows[range].iter().copied())
    }
}

/// A table that rows are put into.
struct Filling {
    packing: Arc<Packing>,
    regions: Regions,
    dealt: Vec<Dealt>,
    slots: Slots,
    filter: Filter,
    next: Box<[AtomicU32]>,
    is_repeated: AtomicBool,
}

impl Filling {
    fn new(
        packing: Arc<Packing>,
        (regions, dealt): (Regions, Vec<Dealt>),
        row_count: usize,
        wants_filter: bool,
    ) -> Self {
        let (slots, filter) = regions.empty(packing.word_max(), row_count, wants_filter);
        let next = bytemuck::zeroed_slice_box(row_count);
        Self { packing, regions, dealt, slots, filter, next, is_repeated: AtomicBool::new(false) }
    }

    /// With all rows in it.
    async fn filled(self, threads: usize) -> Result<Self> {
        let mut filling = self;
        if filling.slots.are_ranked() {
            (filling, _) = filling.in_all_regions(threads, Self::set_bits).await?;
            filling.slots.rank();
        }
        loop {
            let are_filled;
            (filling, are_filled) = filling.in_all_regions(threads, Self::fill).await?;
            if are_filled {
                return Ok(filling);
            }
            // More words than usual fell into one region.
            filling.slots = filling.slots.doubled(filling.regions);
            filling.next = bytemuck::zeroed_slice_box(filling.next.len());
        }
    }

    /// Does `work` in each region; whether it was true in all.
    async fn in_all_regions(self, threads: usize, work: fn(&Self, usize) -> bool) -> Result<(Self, bool)> {
        let shared = Arc::new(self);
        let regions = shared.regions.count();
        let tasks = threads.clamp(1, regions);
        let of_task = |task: usize| regions * task / tasks..regions * (task + 1) / tasks;
        let of_tasks = (0..tasks).map(|task| {
            let (filling, regions) = (Arc::clone(&shared), of_task(task));
            move || Ok(regions.into_iter().all(|region| work(&filling, region)))
        });
        let done = at_once(of_tasks).await?;
        let lost = || DataFusionError::Internal("a table is still being built".to_owned());
        Ok((Arc::into_inner(shared).ok_or_else(lost)?, done.into_iter().all(|done| done)))
    }

    /// Sets the bits of the words of `region`.
    fn set_bits(&self, region: usize) -> bool {
        for (word, _) in self.dealt.iter().flat_map(|share| share.region(region)) {
            self.filter.add(word);
        }
        true
    }

    /// Puts the rows of `region` in, the last first, so that they are found in their order; false where they have more
    /// words than it has slots.
    fn fill(&self, region: usize) -> bool {
        let mut is_repeated = false;
        let (mut vacant, are_ranked) = (self.slots.of_region(), self.slots.are_ranked());
        for share in self.dealt.iter().rev() {
            for (word, row) in share.region(region).rev() {
                let Some(slot) = self.slots.to_fill(word, &mut vacant) else { return false };
                let next = slot.load(Ordering::Relaxed);
                slot.store(row + 1, Ordering::Relaxed);
                if next != 0 {
                    self.next[row as usize].store(next, Ordering::Relaxed);
                    is_repeated = true;
                } else if !are_ranked {
                    self.filter.add(word);
                }
            }
        }
        if is_repeated {
            self.is_repeated.store(true, Ordering::Relaxed);
        }
        true
    }

    fn into_table(self, columns: Vec<Option<ArrayRef>>, row_count: usize, bounds: Vec<Bounds>) -> Table {
        Table {
            words: Arc::new(Words { packing: self.packing, filter: self.filter }),
            slots: self.slots,
            next: self.next,
            is_unique: !self.is_repeated.into_inner(),
            columns,
            row_count,
            bounds,
        }
    }
}

impl Table {
    /// Its rows, those whose keys are NULL with them.
    pub(super) fn row_count(&self) -> usize {
        self.row_count
    }

    /// No two rows have the same keys.
    pub(super) fn is_unique(&self) -> bool {
        self.is_unique
    }

    /// The column in `position` of the build side.
    ///
    /// # Errors
    ///
    /// If nobody wanted it, which is a bug.
    pub(super) fn column(&self, position: usize) -> Result<&ArrayRef> {
        let column = self.columns.get(position).and_then(Option::as_ref);
        column.ok_or_else(|| DataFusionError::Internal(format!("column {position} was not wanted")))
    }

    /// For each row of the probe side, one more than the first row of its keys; 0 where there is none.
    pub(super) fn first_rows(&self, keys: &[ArrayRef]) -> Result<Vec<u32>> {
        self.words.packing.numbers(keys, |word| self.slots.first(word))
    }

    /// One more than the row after `row` of the same keys; 0 where there is none.
    #[inline]
    pub(super) fn next_row(&self, row: u32) -> u32 {
        self.next[row as usize].load(Ordering::Relaxed)
    }

    /// What its words say of others.
    pub(super) fn words(&self) -> &Arc<Words> {
        &self.words
    }

    /// The least and the greatest value of each key.
    pub(super) fn bounds(&self) -> &[Bounds] {
        &self.bounds
    }
}

impl Words {
    /// For each row of these keys: may it match?
    pub(super) fn may_match(&self, keys: &[ArrayRef]) -> Result<BooleanArray> {
        Ok(BooleanArray::new(self.filter.passed(&self.packing, keys)?, None))
    }
}

#[cfg(test)]
mod tests;
