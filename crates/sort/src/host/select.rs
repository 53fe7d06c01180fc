//! Exact multi-sequence selection: where sorted runs have to be cut so that the parts before the cuts hold exactly the
//! first `rank` rows of all of them.
//!
//! ```text
//!   run 0   ├────────┼──────────┤
//!   run 1   ├──┼────────────────┤        lengths left of the cuts add up to `rank`;
//!   run 2   ├─────────────┼─────┤        no key left of a cut is greater than one right of any
//! ```
//!
//! The key at the rank is found by bisection over the bits of keys, with a window per run that narrows with it; of the
//! rows that equal it, those of earlier runs go left. So cuts are the same for everybody, and a merge that prefers
//! earlier runs is stable. Rounds: at most as many as a key has bits, each a binary search per run.
//!
//! Follows the purpose of Varman et al. 1991 (as in gnu_parallel's multiway merge), by other means.

use crate::key::{Bits, Key};

/// Cuts of `runs`, each sorted by bits combined with `mask`, at `rank`.
///
/// # Panics
///
/// If there are fewer rows than `rank`.
pub fn cuts<K: Key>(runs: &[&[K]], rank: usize, mask: K::Bits) -> Vec<usize> {
    let total: usize = runs.iter().map(|run| run.len()).sum();
    assert!(rank <= total, "rank {rank} of {total} rows");
    if rank == 0 {
        return vec![0; runs.len()];
    }
    if rank == total {
        return runs.iter().map(|run| run.len()).collect();
    }
    let bits = |key: &K| key.bits() ^ mask;
    let firsts = runs.iter().filter_map(|run| run.first());
    let lasts = runs.iter().filter_map(|run| run.last());
    let mut low = firsts.map(bits).min().expect("rows");
    let mut high = lasts.map(bits).max().expect("rows");
    let mut windows: Vec<(usize, usize)> = runs.iter().map(|run| (0, run.len())).collect();
    let mut upto = vec![0; runs.len()];
    // The least key with at least `rank` rows up to it.
    while low < high {
        let middle = low.midpoint(high);
        for ((run, window), position) in runs.iter().zip(&windows).zip(&mut upto) {
            *position = window.0 + run[window.0..window.1].partition_point(|key| bits(key) <= middle);
        }
        if upto.iter().sum::<usize>() >= rank {
            high = middle;
            windows.iter_mut().zip(&upto).for_each(|(window, position)| window.1 = *position);
        } else {
            low = middle.next();
            windows.iter_mut().zip(&upto).for_each(|(window, position)| window.0 = *position);
        }
    }
    let mut positions = Vec::with_capacity(runs.len());
    for (run, window) in runs.iter().zip(&windows) {
        let inside = &run[window.0..window.1];
        let below = window.0 + inside.partition_point(|key| bits(key) < low);
        positions.push((below, window.0 + inside.partition_point(|key| bits(key) <= low)));
    }
    let mut missing = rank - positions.iter().map(|(below, _)| below).sum::<usize>();
    let mut cuts = Vec::with_capacity(runs.len());
    for (below, upto) in positions {
        let equal = (upto - below).min(missing);
        missing -= equal;
        cuts.push(below + equal);
    }
    assert_eq!(missing, 0, "runs are sorted");
    cuts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::random_word;

    /// Cuts by sorting (key, run, position) and counting.
    fn reference(runs: &[Vec<u32>], rank: usize) -> Vec<usize> {
        let mut rows: Vec<(u32, usize)> = Vec::new();
        for (number, run) in runs.iter().enumerate() {
            rows.extend(run.iter().map(|key| (*key, number)));
        }
        rows.sort();
        let mut cuts = vec![0; runs.len()];
        rows[..rank].iter().for_each(|(_, run)| cuts[*run] += 1);
        cuts
    }

    #[test]
    fn every_rank_of_random_runs_is_cut_where_sorting_cuts_it() {
        for seed in 0..40 {
            let run_count = random_word(seed, 0) % 7 + 1;
            let range = [1, 3, 50, u64::from(u32::MAX)][seed as usize % 4];
            let runs: Vec<Vec<u32>> = (0..run_count)
                .map(|run| {
                    let count = random_word(seed, 100 + run) % 20;
                    let mut keys: Vec<u32> =
                        (0..count).map(|key| (random_word(seed, run * 1000 + key) % range) as u32).collect();
                    keys.sort_unstable();
                    keys
                })
                .collect();
            let slices: Vec<&[u32]> = runs.iter().map(Vec::as_slice).collect();
            let total: usize = runs.iter().map(Vec::len).sum();
            for rank in 0..=total {
                assert_eq!(cuts(&slices, rank, 0), reference(&runs, rank), "{runs:?} at {rank}");
            }
        }
    }

    #[test]
    fn descending_runs_are_cut_by_inverted_bits() {
        let runs: [&[i64]; 2] = [&[9, 3, -4], &[i64::MAX, 3, i64::MIN]];
        assert_eq!(cuts(&runs, 2, u64::MAX), [1, 1]);
        assert_eq!(cuts(&runs, 3, u64::MAX), [2, 1]);
        assert_eq!(cuts(&runs, 5, u64::MAX), [3, 2]);
    }
}
