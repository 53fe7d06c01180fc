//! Merge of sorted runs by all cores.
//!
//! ```text
//!   runs     ├────┼─────┼──────┤ ├──┼───────┼───┤ ├───┼────┼────┤     cut by multi-sequence selection
//!              0     1     2      0     1     2     0    1    2
//!   output   ├── lane 0 ──┼── lane 1 ──┼── lane 2 ──┤                 equal lengths; a thread has several lanes
//! ```
//!
//! Each lane has a loser tree: the winner leaves, the next key of its run plays against the losers on its way up,
//! exactly log2 k comparisons a row (Knuth 1998, section 5.4.1). An entry is a key's bits with the run's number below
//! them, so the smaller of two is found without a branch, and ties go to the earlier run: the merge is stable. A run
//! without rows left plays as an entry past all, which is no key of any run.
//!
//! A step of one tree waits for the one before; so a thread drives several lanes in turn, whose steps do not wait for
//! each other.
//!
//! Traffic: every row is read once and written once. Follows SEEDS B.6 in purpose: Maltenberger et al. 2022, section 5.3
//! (gnu_parallel::multiway_merge).

use pelton_kernels::Direction;

use super::select::cuts;
use super::useful_threads;
use crate::key::{Bits, Carried, Key, mask};

/// Lanes of a thread. A guess: the chain of a step is some 20 cycles long, and a core can begin a step in 5.
const LANES: usize = 4;

/// A sorted run: keys and a payload for each.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a, K, P> {
    /// In order.
    pub keys: &'a [K],
    /// As many.
    pub payloads: &'a [P],
}

/// Merges `runs`, each in `order`, into `keys` and `payloads`, with up to `thread_count` threads. Stable: of equal
/// keys, those of earlier runs come first.
///
/// # Panics
///
/// If the lengths do not add up, or there are 2^32 - 1 runs or more.
pub fn merge<K: Key, P: Carried>(
    runs: &[Run<'_, K, P>],
    order: Direction,
    keys: &mut [K],
    payloads: &mut [P],
    thread_count: usize,
) {
    let total: usize = runs.iter().map(|run| run.keys.len()).sum();
    assert_eq!(total, keys.len(), "room for all rows");
    assert_eq!(keys.len(), payloads.len(), "a payload for each key");
    assert!(runs.len() < u32::MAX as usize, "too many runs");
    for run in runs {
        assert_eq!(run.keys.len(), run.payloads.len(), "a payload for each key");
    }
    let runs: Vec<Run<'_, K, P>> = runs.iter().filter(|run| !run.keys.is_empty()).copied().collect();
    let thread_count = useful_threads(total, thread_count);
    let lane_count = if total < 4096 { 1 } else { thread_count * LANES };
    let bounds = bounds(&runs, lane_count, mask(order), thread_count);
    let mut lanes = Vec::with_capacity(lane_count);
    let (mut keys_left, mut payloads_left) = (keys, payloads);
    for pair in bounds.windows(2) {
        let slices: Vec<Run<'_, K, P>> = runs
            .iter()
            .zip(pair[0].iter().zip(&pair[1]))
            .map(|(run, (from, to))| Run { keys: &run.keys[*from..*to], payloads: &run.payloads[*from..*to] })
            .collect();
        let count = slices.iter().map(|run| run.keys.len()).sum();
        let (lane_keys, keys_rest) = keys_left.split_at_mut(count);
        let (lane_payloads, payloads_rest) = payloads_left.split_at_mut(count);
        (keys_left, payloads_left) = (keys_rest, payloads_rest);
        lanes.push((slices, lane_keys, lane_payloads));
    }
    std::thread::scope(|scope| {
        let mut lanes = lanes.into_iter();
        for thread in (0..thread_count).rev() {
            let own: Vec<_> = lanes.by_ref().take(lane_count.div_ceil(thread_count)).collect();
            let work = move || merge_lanes(own, order);
            if thread == 0 {
                work();
            } else {
                scope.spawn(work);
            }
        }
    });
}

/// Cuts of all runs at the bounds of lanes, first and last included.
fn bounds<K: Key, P: Carried>(
    runs: &[Run<'_, K, P>],
    lane_count: usize,
    mask: K::Bits,
    thread_count: usize,
) -> Vec<Vec<usize>> {
    let keys: Vec<&[K]> = runs.iter().map(|run| run.keys).collect();
    let total: usize = keys.iter().map(|run| run.len()).sum();
    let rank = |lane: usize| (total as u128 * lane as u128 / lane_count as u128) as usize;
    let mut bounds = vec![Vec::new(); lane_count + 1];
    let per_thread = (lane_count + 1).div_ceil(thread_count);
    std::thread::scope(|scope| {
        for (index, part) in bounds.chunks_mut(per_thread).enumerate() {
            let keys = &keys;
            let mut work = move || {
                for (lane, cut) in part.iter_mut().enumerate() {
                    *cut = cuts(keys, rank(index * per_thread + lane), mask);
                }
            };
            if index == 0 && lane_count < per_thread {
                work();
            } else {
                scope.spawn(work);
            }
        }
    });
    bounds
}

type Slice<'r, 'o, K, P> = (Vec<Run<'r, K, P>>, &'o mut [K], &'o mut [P]);

fn merge_lanes<K: Key, P: Carried>(slices: Vec<Slice<'_, '_, K, P>>, order: Direction) {
    let mut lanes: Vec<Lane<'_, '_, K, P>> = slices
        .into_iter()
        .filter_map(|(runs, keys, payloads)| Lane::of(runs, keys, payloads, mask(order)))
        .collect();
    let (together, alone) = lanes.as_chunks_mut::<LANES>();
    for lanes in together {
        let common = lanes.iter().map(|lane| lane.keys.len()).min().expect("several lanes");
        for row in 0..common {
            for lane in lanes.iter_mut() {
                lane.step(row);
            }
        }
        lanes.iter_mut().for_each(|lane| lane.finish(common));
    }
    alone.iter_mut().for_each(|lane| lane.finish(0));
}

/// A loser tree and where its rows go.
struct Lane<'r, 'o, K: Key, P> {
    keys: &'o mut [K],
    payloads: &'o mut [P],
    rests: Vec<Rest<'r, K, P>>,
    /// Losers of the inner nodes, 1 the root; as many as leaves, a power of two. The winner is at 0.
    tree: Vec<<K::Bits as Bits>::Tagged>,
    mask: K::Bits,
}

/// A run and how much of it has entered the tree.
struct Rest<'r, K, P> {
    run: Run<'r, K, P>,
    entered: usize,
}

impl<'r, 'o, K: Key, P: Carried> Lane<'r, 'o, K, P> {
    /// A lane ready to step; nothing if there is nothing to merge, which is then done.
    fn of(
        mut runs: Vec<Run<'r, K, P>>,
        keys: &'o mut [K],
        payloads: &'o mut [P],
        mask: K::Bits,
    ) -> Option<Self> {
        runs.retain(|run| !run.keys.is_empty());
        if let [run] = runs.as_slice() {
            keys.copy_from_slice(run.keys);
            payloads.copy_from_slice(run.payloads);
            return None;
        }
        if runs.is_empty() {
            return None;
        }
        let leaves = runs.len().next_power_of_two();
        let mut rests: Vec<Rest<'r, K, P>> = runs.into_iter().map(|run| Rest { run, entered: 0 }).collect();
        let mut playing = vec![K::Bits::PAST_ALL; 2 * leaves];
        for (number, rest) in rests.iter_mut().enumerate() {
            playing[leaves + number] = rest.enter(number, mask);
        }
        let mut tree = vec![K::Bits::PAST_ALL; leaves];
        for node in (1..leaves).rev() {
            let (one, other) = (playing[2 * node], playing[2 * node + 1]);
            playing[node] = one.min(other);
            tree[node] = one.max(other);
        }
        tree[0] = playing[1];
        Some(Self { keys, payloads, rests, tree, mask })
    }

    #[inline(always)]
    fn step(&mut self, row: usize) {
        let (bits, run) = K::Bits::untag(self.tree[0]);
        let run = run as usize;
        let rest = &mut self.rests[run];
        self.keys[row] = K::of_bits(bits ^ self.mask);
        if size_of::<P>() > 0 {
            self.payloads[row] = rest.run.payloads[rest.entered - 1];
        }
        let mut playing = rest.enter(run, self.mask);
        let mut node = (run + self.tree.len()) / 2;
        while node > 0 {
            let loser = self.tree[node];
            self.tree[node] = playing.max(loser);
            playing = playing.min(loser);
            node /= 2;
        }
        self.tree[0] = playing;
    }

    fn finish(&mut self, from: usize) {
        for row in from..self.keys.len() {
            self.step(row);
        }
    }
}

impl<K: Key, P> Rest<'_, K, P> {
    #[inline(always)]
    fn enter(&mut self, number: usize, mask: K::Bits) -> <K::Bits as Bits>::Tagged {
        let Some(key) = self.run.keys.get(self.entered) else { return K::Bits::PAST_ALL };
        self.entered += 1;
        (key.bits() ^ mask).tagged(number as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::random_word;

    fn check(lengths: &[usize], range: u64, order: Direction, thread_count: usize) {
        let mut runs: Vec<Vec<(i64, u32)>> = Vec::new();
        let mut row = 0;
        for length in lengths {
            let mut run = Vec::new();
            for _ in 0..*length {
                run.push(((random_word(3, row) % range) as i64 - 2, 0));
                row += 1;
            }
            run.sort_by_key(|(key, _)| key.bits() ^ mask::<u64>(order));
            runs.push(run);
        }
        (0..).zip(runs.iter_mut().flatten()).for_each(|(number, row)| row.1 = number);
        let mut expected: Vec<(i64, u32)> = runs.concat();
        expected.sort_by_key(|(key, _)| key.bits() ^ mask::<u64>(order));
        let keys: Vec<Vec<i64>> = runs.iter().map(|run| run.iter().map(|row| row.0).collect()).collect();
        let payloads: Vec<Vec<u32>> = runs.iter().map(|run| run.iter().map(|row| row.1).collect()).collect();
        let slices: Vec<Run<'_, i64, u32>> =
            keys.iter().zip(&payloads).map(|(keys, payloads)| Run { keys, payloads }).collect();
        let total = expected.len();
        let (mut merged, mut carried) = (vec![0; total], vec![0; total]);
        merge(&slices, order, &mut merged, &mut carried, thread_count);
        let rows: Vec<(i64, u32)> = merged.into_iter().zip(carried).collect();
        assert!(rows == expected, "{lengths:?} {range} {order:?} {thread_count}");
    }

    #[test]
    fn runs_of_all_shapes_merge_stably() {
        let shapes: [&[usize]; 9] = [
            &[],
            &[0],
            &[7],
            &[1, 1],
            &[0, 5, 0],
            &[100, 1, 30],
            &[5000, 4999, 1, 0, 6000],
            &[9; 1000],
            &[40_000, 50_000, 2],
        ];
        for shape in shapes {
            for range in [1, 4, 1 << 40] {
                for order in [Direction::Ascending, Direction::Descending] {
                    [1, 3].into_iter().for_each(|threads| check(shape, range, order, threads));
                }
            }
        }
    }

    #[test]
    fn the_greatest_keys_are_no_sentinels() {
        let runs = [[1, u32::MAX, u32::MAX], [u32::MAX; 3]];
        let slices = [0, 1].map(|run| Run { keys: &runs[run], payloads: &[(); 3] });
        let mut keys = [0; 6];
        merge(&slices, Direction::Ascending, &mut keys, &mut [(); 6], 1);
        assert_eq!(keys, [1, u32::MAX, u32::MAX, u32::MAX, u32::MAX, u32::MAX]);
    }
}
