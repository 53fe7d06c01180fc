//! Sorted rows on the host, run by run, and their merge by all cores: of what no device has room for, or several have sorted.
//!
//! ```text
//!   device 0   rows ── sorted ──► run 0, run 1      in order, with the words that they are sorted by
//!   device 1   rows ── sorted ──► run 2
//!
//!   run 0  ├───┼──────┼────┤
//!   run 1  ├──────┼─┼──────┤     cut where so many rows of all together lie before; of equal ones any
//!   run 2  ├─┼────────┼────┤
//!           part  part  part ──► rows in order      a thread merges a part at a time; they go out one after the other
//! ```
//!
//! A part knows where it begins in each run before any other is merged: exact selection in several sorted sequences, by
//! bisection (Varman et al. 1991 ask the same). Equal rows come in any order, so all keys being equal is no special case.
//!
//! Host memory: all runs, and a part for each thread. Traffic: each row is read once and written once.

use std::cmp::Ordering;
use std::ops::Range;

use bytes::Bytes;
use pelton_device::{Buffer, Machine, MemoryKind, OnFull};
use pelton_error::{CancelFlag, Result};
use pelton_pipeline::codegen::PayloadColumn;

use super::rows_out::{COLUMN_ALIGNMENT, PartColumn, RowsPart};
use super::tasks::in_threads;

/// Rows of a part at least, but for tests: of fewer, finding where it begins takes longer than merging it. A guess.
const PART_ROWS_MIN: usize = 4096;

/// Rows in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct SortedRun {
    pub(crate) row_count: usize,
    /// What they are sorted by, little-endian: the first word decides, then the next.
    pub(crate) words: Vec<Bytes>,
    /// For each column its values and, where it may be NULL, a byte a row.
    pub(crate) arrays: Vec<Bytes>,
}

/// Where a row is: the number of its run, and its place there.
pub(crate) type Pick = (u32, u32);

impl SortedRun {
    /// Bytes of words and columns.
    pub(crate) fn bytes(&self) -> u64 {
        self.words.iter().chain(&self.arrays).map(|array| array.len() as u64).sum()
    }

    /// The first `wanted` of these rows, which are in no order, in order. `columns` are those of `self.arrays`.
    pub(crate) fn sorted(self, columns: &[PayloadColumn], wanted: usize) -> Self {
        let mut places: Vec<Pick> = (0..self.row_count as u32).map(|row| (0, row)).collect();
        let compare = |a: &Pick, b: &Pick| compare(&self, a.1 as usize, &self, b.1 as usize);
        if 0 < wanted && wanted < places.len() {
            places.select_nth_unstable_by(wanted - 1, compare);
        }
        places.truncate(wanted);
        places.sort_unstable_by(compare);
        let taken = |source: &Bytes, width: usize| {
            let mut target = vec![0; places.len() * width];
            gather(width, &[source], &places, &mut target);
            Bytes::from(target)
        };
        Self {
            row_count: places.len(),
            words: self.words.iter().map(|words| taken(words, 8)).collect(),
            arrays: self
                .arrays
                .iter()
                .zip(widths(columns))
                .map(|(array, width)| taken(array, width))
                .collect(),
        }
    }
}

/// The bytes of a row in each array of `columns`.
pub(crate) fn widths(columns: &[PayloadColumn]) -> impl Iterator<Item = usize> + '_ {
    columns.iter().flat_map(|column| [column.form.bytes()].into_iter().chain(column.is_nullable.then_some(1)))
}

fn word(words: &[u8], row: usize) -> u64 {
    u64::from_le_bytes(words[row * 8..row * 8 + 8].try_into().expect("8 bytes"))
}

fn compare(a: &SortedRun, row_of_a: usize, b: &SortedRun, row_of_b: usize) -> Ordering {
    let orders = a.words.iter().zip(&b.words).map(|(a, b)| word(a, row_of_a).cmp(&word(b, row_of_b)));
    orders.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// How many rows of a run there are that lie before `row` of `pivot`, or are like it where `and_equal`; between these places.
fn before(
    run: &SortedRun,
    places: Range<usize>,
    (pivot, row): (&SortedRun, usize),
    and_equal: bool,
) -> usize {
    let (mut low, mut high) = (places.start, places.end);
    while low < high {
        let middle = low + (high - low) / 2;
        let order = compare(run, middle, pivot, row);
        match order == Ordering::Less || (and_equal && order == Ordering::Equal) {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    low
}

/// Where to cut `runs` so that `rank` rows of all together lie before the cuts, none of them after one behind them.
///
/// # Panics
///
/// If there are fewer rows.
pub(crate) fn cut(runs: &[SortedRun], rank: usize) -> Vec<usize> {
    let (mut low, mut high) = (vec![0; runs.len()], runs.iter().map(|run| run.row_count).collect::<Vec<_>>());
    assert!(rank <= high.iter().sum(), "rank {rank} of {high:?} rows");
    // The cuts are between these places; the widest of these ranges is halved at least.
    loop {
        let widest = (0..runs.len()).max_by_key(|run| high[*run] - low[*run]);
        let Some(widest) = widest.filter(|run| high[*run] > low[*run]) else { return low };
        let pivot = (&runs[widest], low[widest] + (high[widest] - low[widest]) / 2);
        let places = |run: usize| low[run]..high[run];
        let less: Vec<usize> =
            (0..runs.len()).map(|run| before(&runs[run], places(run), pivot, false)).collect();
        let upto: Vec<usize> =
            (0..runs.len()).map(|run| before(&runs[run], less[run]..high[run], pivot, true)).collect();
        if rank < less.iter().sum() {
            high = less;
        } else if rank > upto.iter().sum() {
            low = upto;
        } else {
            let mut missing = rank - less.iter().sum::<usize>();
            let mut cuts = less;
            for (cut, upto) in cuts.iter_mut().zip(upto) {
                let equal = (upto - *cut).min(missing);
                (*cut, missing) = (*cut + equal, missing - equal);
            }
            return cuts;
        }
    }
}

/// The rows of `runs` between two cuts, in order.
fn picks(runs: &[SortedRun], from: &[usize], to: &[usize]) -> Vec<Pick> {
    let mut next = from.to_vec();
    let count = from.iter().zip(to).map(|(from, to)| to - from).sum();
    let mut picks: Vec<Pick> = Vec::with_capacity(count);
    // A heap of the runs that are left, ordered by the next row of each; it holds a copy of that row's first word.
    let first_word = |run: usize, row: usize| runs[run].words.first().map_or(0, |words| word(words, row));
    let mut heap: Vec<(u64, usize)> = (0..runs.len())
        .filter(|run| from[*run] < to[*run])
        .map(|run| (first_word(run, from[run]), run))
        .collect();
    let is_before = |a: (u64, usize), b: (u64, usize), next: &[usize]| match a.0.cmp(&b.0) {
        Ordering::Equal => compare(&runs[a.1], next[a.1], &runs[b.1], next[b.1]).is_lt(),
        order => order.is_lt(),
    };
    let sift_down = |heap: &mut [(u64, usize)], mut at: usize, next: &[usize]| {
        loop {
            let mut least = at;
            for child in [2 * at + 1, 2 * at + 2] {
                if child < heap.len() && is_before(heap[child], heap[least], next) {
                    least = child;
                }
            }
            if least == at {
                return;
            }
            heap.swap(at, least);
            at = least;
        }
    };
    (0..heap.len() / 2).rev().for_each(|at| sift_down(&mut heap, at, &next));
    while heap.len() > 1 {
        let run = heap[0].1;
        picks.push((run as u32, next[run] as u32));
        next[run] += 1;
        match next[run] < to[run] {
            true => heap[0].0 = first_word(run, next[run]),
            false => drop(heap.swap_remove(0)),
        }
        sift_down(&mut heap, 0, &next);
    }
    if let [(_, run)] = heap.as_slice() {
        picks.extend((next[*run]..to[*run]).map(|row| (*run as u32, row as u32)));
    }
    picks
}

/// Copies values of `width` bytes from `sources`, one for each run, to `target`.
fn gather(width: usize, sources: &[&Bytes], picks: &[Pick], target: &mut [u8]) {
    fn of_width<const WIDTH: usize>(sources: &[&Bytes], picks: &[Pick], target: &mut [u8]) {
        for (value, (run, row)) in target.as_chunks_mut::<WIDTH>().0.iter_mut().zip(picks) {
            let at = *row as usize * WIDTH;
            *value = sources[*run as usize][at..at + WIDTH].try_into().expect("as many bytes");
        }
    }
    match width {
        1 => of_width::<1>(sources, picks, target),
        4 => of_width::<4>(sources, picks, target),
        8 => of_width::<8>(sources, picks, target),
        16 => of_width::<16>(sources, picks, target),
        other => unreachable!("values of {other} bytes"),
    }
}

/// Sorted runs that become one.
pub(crate) struct Merge<'m> {
    pub(crate) runs: Vec<SortedRun>,
    /// The columns of the runs.
    pub(crate) columns: &'m [PayloadColumn],
    /// Whose host memory parts lie in.
    pub(crate) machine: &'m Machine,
    pub(crate) threads: usize,
    pub(crate) cancel: &'m CancelFlag,
}

impl Merge<'_> {
    /// Rows of a part where all threads together merge about `bytes` at once.
    pub(crate) fn part_rows(&self, bytes: usize) -> usize {
        let row_bytes: usize = widths(self.columns).sum();
        (bytes / self.threads.max(1) / row_bytes.max(1)).max(PART_ROWS_MIN)
    }

    /// Hands the first `wanted` rows to `give`, in parts of `part_rows`, in order; answers how many there were.
    ///
    /// # Errors
    ///
    /// Those of `give`, and of memory.
    pub(crate) fn run(
        &self,
        wanted: usize,
        part_rows: usize,
        give: &mut dyn FnMut(RowsPart) -> Result<()>,
    ) -> Result<usize> {
        let total: usize = self.runs.iter().map(|run| run.row_count).sum();
        let (total, part_rows) = (total.min(wanted), part_rows.max(1));
        let mut starts: Vec<usize> = (0..total).step_by(part_rows).collect();
        for starts in starts.chunks_mut(self.threads.max(1)) {
            self.cancel.check()?;
            let parts = in_threads(starts, |start| {
                let [from, to] = [*start, total.min(*start + part_rows)].map(|rank| cut(&self.runs, rank));
                self.part(&picks(&self.runs, &from, &to))
            });
            parts.into_iter().try_for_each(|part| give(part?))?;
        }
        Ok(total)
    }

    /// All rows in the order of their words, found in parts of `part_rows`.
    pub(crate) fn picks(&self, part_rows: usize) -> Result<Vec<Pick>> {
        let total: usize = self.runs.iter().map(|run| run.row_count).sum();
        let part_rows = part_rows.max(1);
        let mut starts: Vec<usize> = (0..total).step_by(part_rows).collect();
        let mut all = Vec::with_capacity(total);
        for starts in starts.chunks_mut(self.threads.max(1)) {
            self.cancel.check()?;
            let parts = in_threads(starts, |start| {
                let [from, to] = [*start, total.min(*start + part_rows)].map(|rank| cut(&self.runs, rank));
                picks(&self.runs, &from, &to)
            });
            all.extend(parts.into_iter().flatten());
        }
        Ok(all)
    }

    /// Hands these rows to `give`, in parts of `part_rows`; answers how many there were.
    ///
    /// # Errors
    ///
    /// Those of `give`, and of memory.
    pub(crate) fn give(
        &self,
        picks: &[Pick],
        part_rows: usize,
        give: &mut dyn FnMut(RowsPart) -> Result<()>,
    ) -> Result<usize> {
        let mut parts: Vec<&[Pick]> = picks.chunks(part_rows.max(1)).collect();
        for parts in parts.chunks_mut(self.threads.max(1)) {
            self.cancel.check()?;
            in_threads(parts, |picks| self.part(picks)).into_iter().try_for_each(|part| give(part?))?;
        }
        Ok(picks.len())
    }

    /// These rows.
    fn part(&self, picks: &[Pick]) -> Result<RowsPart> {
        let lengths: Vec<usize> = widths(self.columns).map(|width| width * picks.len()).collect();
        let places = places_of(&lengths);
        let buffer = host_memory(self.machine, &places)?;
        buffer.with_bytes_mut(|bytes| {
            for (array, (place, width)) in places.iter().zip(widths(self.columns)).enumerate() {
                let sources: Vec<&Bytes> = self.runs.iter().map(|run| &run.arrays[array]).collect();
                gather(width, &sources, picks, &mut bytes[place.clone()]);
            }
        })?;
        let mut arrays = places.into_iter().map(|place| host_array(&buffer, place));
        let mut next = || arrays.next().expect("one for each");
        let columns = self.columns.iter().map(|column| {
            let (values, valid) = (next()?, column.is_nullable.then(&mut next).transpose()?);
            Ok(PartColumn { layout: column.clone(), values, valid })
        });
        Ok(RowsPart { row_count: picks.len(), columns: columns.collect::<Result<_>>()? })
    }
}

/// Where arrays of these lengths begin and end in one piece of memory, each aligned.
pub(crate) fn places_of(lengths: &[usize]) -> Vec<Range<usize>> {
    let mut start = 0;
    let place = |length: &usize| {
        let place = start..start + length;
        start = place.end.next_multiple_of(COLUMN_ALIGNMENT);
        place
    };
    lengths.iter().map(place).collect()
}

fn host_memory(machine: &Machine, places: &[Range<usize>]) -> Result<Buffer> {
    let bytes = places.last().map_or(0, |place| place.end);
    machine.allocate(MemoryKind::PAGEABLE, bytes.max(8).next_multiple_of(8), OnFull::Refuse)
}

/// The bytes of `place`, which keep `buffer`.
pub(crate) fn host_array(buffer: &Buffer, place: Range<usize>) -> Result<Bytes> {
    match place.is_empty() {
        true => Ok(Bytes::new()),
        false => Ok(Bytes::from_owner(buffer.slice(place).host_bytes()?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run of rows with these words, and the number of the row among all in a column of 4 bytes.
    fn run(words: &[[u64; 2]], first: u32) -> SortedRun {
        let of_word = |word: usize| {
            Bytes::from(words.iter().flat_map(|words| words[word].to_le_bytes()).collect::<Vec<u8>>())
        };
        let numbers = (first..).take(words.len()).flat_map(u32::to_le_bytes);
        let arrays = vec![Bytes::from(numbers.collect::<Vec<u8>>())];
        SortedRun { row_count: words.len(), words: vec![of_word(0), of_word(1)], arrays }
    }

    fn next(seed: &mut u64) -> u64 {
        *seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        *seed >> 33
    }

    #[test]
    fn cuts_leave_so_many_rows_before_them_and_nothing_greater_than_behind() {
        let mut seed = 3;
        for case in 0..300 {
            let range = [1, 2, 5, u64::MAX][case % 4];
            let mut lists: Vec<Vec<[u64; 2]>> = Vec::new();
            for _ in 0..next(&mut seed) % 6 {
                let count = next(&mut seed) % 9;
                let mut list: Vec<[u64; 2]> =
                    (0..count).map(|_| [next(&mut seed) % range, next(&mut seed) % 3]).collect();
                list.sort_unstable();
                lists.push(list);
            }
            let runs: Vec<SortedRun> = lists.iter().map(|list| run(list, 0)).collect();
            let mut all = lists.concat();
            all.sort_unstable();
            for rank in 0..=all.len() {
                let cuts = cut(&runs, rank);
                assert_eq!(cuts.iter().sum::<usize>(), rank, "{lists:?}");
                let mut before: Vec<[u64; 2]> =
                    lists.iter().zip(&cuts).flat_map(|(list, cut)| list[..*cut].to_vec()).collect();
                before.sort_unstable();
                assert_eq!(before, all[..rank], "{lists:?}");
            }
            let ends: Vec<usize> = lists.iter().map(Vec::len).collect();
            for rank in 0..=all.len() {
                let from = cut(&runs, rank);
                let found = picks(&runs, &from, &ends);
                let found = found.iter().map(|(run, row)| lists[*run as usize][*row as usize]);
                assert_eq!(found.collect::<Vec<_>>(), all[rank..], "{lists:?}");
            }
        }
    }

    #[test]
    fn rows_are_sorted_by_the_first_word_and_then_the_next_however_many_are_wanted() {
        let mut seed = 9;
        let list: Vec<[u64; 2]> =
            (0..100).map(|_| [(next(&mut seed) % 4) << 62, next(&mut seed) % 2]).collect();
        let mut expected = list.clone();
        expected.sort_unstable();
        for wanted in [0, 1, 50, 99, 100, 1000] {
            let unsorted = SortedRun { arrays: Vec::new(), ..run(&list, 0) };
            let sorted = unsorted.sorted(&[], wanted);
            let found = (0..sorted.row_count).map(|row| [0, 1].map(|index| word(&sorted.words[index], row)));
            assert_eq!(found.collect::<Vec<_>>(), expected[..wanted.min(100)]);
        }
    }
}
