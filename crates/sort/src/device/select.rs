//! Exact multi-sequence selection where looking at a key is a journey: many keys are looked at in one go.
//!
//! ```text
//!   window of run 0   ├──·──·──·──·──·──┤       · looked at, evenly spaced
//!   window of run 1   ├─·─·─·─·─·─┤
//!                            │
//!   of each key looked at, rows before it are counted up to a spacing; so for some it is certain that they are
//!   before the rank, for some that they are not, and windows shrink to what lies between
//! ```
//!
//! Rows are ordered by key, then run, then place, so no two are equal, cuts are unique, and merges that prefer earlier
//! runs are stable. A round shrinks windows by about a third of the keys looked at per window: 2^32 rows take some ten.

use pelton_error::Result;

/// Keys looked at in each window and round.
pub(crate) const PROBES_PER_WINDOW: usize = 32;

/// Where a rank cuts one run: between these, both included.
#[derive(Debug, Clone, Copy)]
struct Window {
    low: usize,
    high: usize,
}

/// Cuts of runs of these lengths at each of `ranks`. `look` answers the words of keys, named by run and place.
///
/// # Errors
///
/// The first of `look`.
///
/// # Panics
///
/// If a rank exceeds the number of rows.
pub(crate) fn cuts_by_looks(
    lengths: &[usize],
    ranks: &[usize],
    mut look: impl FnMut(&[(usize, usize)]) -> Result<Vec<u128>>,
) -> Result<Vec<Vec<usize>>> {
    let total: usize = lengths.iter().sum();
    assert!(ranks.iter().all(|rank| *rank <= total), "ranks {ranks:?} of {total} rows");
    let windows = |_| lengths.iter().map(|length| Window { low: 0, high: *length }).collect();
    let mut windows: Vec<Vec<Window>> = ranks.iter().map(windows).collect();
    loop {
        let mut asked = Vec::new();
        let mut of_rank = Vec::with_capacity(ranks.len());
        for (rank, windows) in ranks.iter().zip(&windows) {
            let start = asked.len();
            if decided(windows, *rank).is_none() {
                (0..)
                    .zip(windows)
                    .for_each(|(run, window)| asked.extend(places(*window).map(|at| (run, at))));
            }
            of_rank.push(start..asked.len());
        }
        if asked.is_empty() {
            let cuts = ranks.iter().zip(&windows).map(|(rank, windows)| decided(windows, *rank));
            return Ok(cuts.map(|cut| cut.expect("nothing was asked")).collect());
        }
        let words = look(&asked)?;
        assert_eq!(words.len(), asked.len(), "a word for each key");
        for ((rank, windows), asked_of) in ranks.iter().zip(&mut windows).zip(of_rank) {
            let mut seen: Vec<(u128, usize, usize)> =
                asked_of.map(|index| (words[index], asked[index].0, asked[index].1)).collect();
            seen.sort_unstable();
            narrow(windows, *rank, &seen);
        }
    }
}

fn decided(windows: &[Window], rank: usize) -> Option<Vec<usize>> {
    let ends = [|window: &Window| window.low, |window: &Window| window.high];
    ends.into_iter().find_map(|end| {
        let cuts: Vec<usize> = windows.iter().map(end).collect();
        (cuts.iter().sum::<usize>() == rank).then_some(cuts)
    })
}

/// Places in a window, evenly spaced; all of them if they are few.
fn places(window: Window) -> impl Iterator<Item = usize> {
    let length = window.high - window.low;
    let count = length.min(PROBES_PER_WINDOW);
    (0..count).map(move |index| match count == length {
        true => window.low + index,
        false => window.low + (length as u128 * (index as u128 + 1) / (count as u128 + 1)) as usize,
    })
}

/// A row is before the rank if and only if the rows before it, counted within the windows, are fewer than the rank.
fn narrow(windows: &mut [Window], rank: usize, seen: &[(u128, usize, usize)]) {
    // Of each run, the places looked at, in order, and how many of them are before the row that is considered.
    let mut places: Vec<Vec<usize>> = vec![Vec::new(); windows.len()];
    seen.iter().for_each(|(_, run, place)| places[*run].push(*place));
    assert!(places.iter().all(|places| places.is_sorted()), "runs are sorted");
    let mut passed = vec![0; windows.len()];
    let before = windows.to_vec();
    let at_least = |run: usize, passed: &[usize]| match passed[run] {
        0 => before[run].low,
        count => places[run][count - 1] + 1,
    };
    let at_most =
        |run: usize, passed: &[usize]| places[run].get(passed[run]).copied().unwrap_or(before[run].high);
    let mut least: usize = before.iter().map(|window| window.low).sum();
    let mut most: usize = (0..before.len()).map(|run| at_most(run, &passed)).sum();
    for (_, run, place) in seen {
        let run = *run;
        // Rows of its own run before it are known exactly.
        let (own_least, own_most) = (at_least(run, &passed), at_most(run, &passed));
        assert_eq!(own_most, *place, "places come in order");
        if most < rank {
            for (other, window) in windows.iter_mut().enumerate() {
                window.low = window.low.max(at_least(other, &passed));
            }
            windows[run].low = windows[run].low.max(place + 1);
        }
        if least - own_least + place >= rank {
            for (other, window) in windows.iter_mut().enumerate() {
                window.high = window.high.min(at_most(other, &passed));
            }
            return;
        }
        passed[run] += 1;
        least = least - own_least + at_least(run, &passed);
        most = most - own_most + at_most(run, &passed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::random_word;
    use crate::host::cuts;

    #[test]
    fn cuts_are_those_of_runs_that_are_near() {
        for seed in 0..60 {
            let run_count = random_word(seed, 0) % 6 + 1;
            let range = [1, 4, 300, u64::from(u32::MAX)][seed as usize % 4];
            let most = [3, 40, 700, 5000][(random_word(seed, 1) % 4) as usize];
            let runs: Vec<Vec<u32>> = (0..run_count)
                .map(|run| {
                    let count = random_word(seed, 100 + run) % most;
                    let mut keys: Vec<u32> = (0..count)
                        .map(|key| (random_word(seed, run * 10_000 + key) % range) as u32)
                        .collect();
                    keys.sort_unstable();
                    keys
                })
                .collect();
            let slices: Vec<&[u32]> = runs.iter().map(Vec::as_slice).collect();
            let lengths: Vec<usize> = runs.iter().map(Vec::len).collect();
            let total: usize = lengths.iter().sum();
            let ranks: Vec<usize> =
                (0..8).map(|part| total * part / 7).chain([0, 1, total.saturating_sub(1)]).collect();
            let ranks: Vec<usize> = ranks.into_iter().map(|rank| rank.min(total)).collect();
            let mut rounds = 0;
            let found = cuts_by_looks(&lengths, &ranks, |asked| {
                rounds += 1;
                Ok(asked.iter().map(|(run, place)| runs[*run][*place].into()).collect())
            })
            .unwrap();
            for (rank, found) in ranks.iter().zip(found) {
                assert_eq!(found, cuts(&slices, *rank, 0), "seed {seed}, rank {rank}");
            }
            assert!(rounds <= 8, "{rounds} rounds for {total} rows");
        }
    }
}
