//! The pivot of two sorted halves: how many keys have to change sides.
//!
//! ```text
//!   left   ├───────────────┼── p ──┤       right  ├── p ──┼──────────────┤
//!                              └──────── change places ───┘
//! ```
//!
//! The leftmost pivot, that is the least number of keys: the smallest p such that, once the last p keys of the left
//! half and the first p of the right half have changed places, no key of the left half is greater than one of the right.
//! The right half may be shorter: it is as if keys past all others followed, which never change places.
//!
//! Follows Maltenberger et al. 2022, section 5.2.

use pelton_error::Result;

/// The pivot of halves of these lengths. `is_in_order(a, b)` says whether key `a` of the left half is not greater than
/// key `b` of the right one; it is asked at most log2 of the shorter length, plus one, times.
///
/// # Errors
///
/// The first of `is_in_order`.
pub(crate) fn pivot(
    left: usize,
    right: usize,
    mut is_in_order: impl FnMut(usize, usize) -> Result<bool>,
) -> Result<usize> {
    let (mut low, mut high) = (0, left.min(right));
    while low < high {
        let middle = high - (high - low) / 2;
        if is_in_order(left - middle, middle - 1)? {
            high = middle - 1;
        } else {
            low = middle;
        }
    }
    Ok(low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::random_word;

    #[test]
    fn the_pivot_is_the_least_that_works_in_random_cases() {
        for seed in 0..20_000 {
            let any = |index| random_word(seed, index);
            let lengths = [any(0) % 9, any(1) % 9].map(|length| length as usize);
            let range = [2, 5, 1000][any(2) as usize % 3];
            let half = |of: u64, length: usize| {
                let mut keys: Vec<u64> = (0..length as u64).map(|key| any(of * 100 + key) % range).collect();
                keys.sort_unstable();
                keys
            };
            let (left, right) = (half(1, lengths[0]), half(2, lengths[1]));
            let works = |p: usize| {
                let kept = &left[..left.len() - p];
                let greatest = kept.iter().chain(&right[..p]).max();
                let least = left[left.len() - p..].iter().chain(&right[p..]).min();
                greatest.is_none() || least.is_none() || greatest <= least
            };
            let least = (0..=left.len().min(right.len())).find(|p| works(*p)).expect("one works");
            let found = pivot(left.len(), right.len(), |a, b| Ok(left[a] <= right[b])).unwrap();
            assert_eq!(found, least, "{left:?} {right:?}");
        }
    }

    #[test]
    fn what_is_in_order_stays() {
        assert_eq!(pivot(1 << 40, 1 << 40, |_, _| Ok(true)).unwrap(), 0);
        assert_eq!(pivot(8, 5, |_, _| Ok(false)).unwrap(), 5);
        assert_eq!(pivot(0, 5, |_, _| unreachable!()).unwrap(), 0);
    }
}
