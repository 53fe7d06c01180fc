//! What a mistyped name may have been meant to be.

/// The one of `names` that is nearest to `name`: the same but for case, or a few letters changed, missing, added or
/// swapped.
pub fn nearest<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = name.to_lowercase();
    // A third of the letters wrong is another word.
    let most = wanted.chars().count().div_ceil(3).min(3);
    let scored = names.into_iter().map(|candidate| (distance(&wanted, &candidate.to_lowercase()), candidate));
    scored
        .filter(|(distance, _)| *distance <= most)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Letters to change, take away, add or swap with their neighbour to make `b` of `a` (Damerau, Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for (i, letter) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, other) in b.iter().enumerate() {
            let mut cost =
                (rows[i][j] + usize::from(letter != other)).min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a[i - 1] == *other && *letter == b[j - 1] {
                cost = cost.min(rows[i - 1][j - 1] + 1);
            }
            row.push(cost);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_wrong_letters_are_forgiven_and_many_are_not() {
        let names = ["customer", "lineorder", "part"];
        assert_eq!(nearest("linorder", names), Some("lineorder"));
        assert_eq!(nearest("custoemr", names), Some("customer"));
        assert_eq!(nearest("PART", names), Some("part"));
        assert_eq!(nearest("warehouse", names), None);
        assert_eq!(nearest("", names), None);
    }

    #[test]
    fn a_swap_is_one_step() {
        assert_eq!(distance("ab", "ba"), 1);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", "abc"), 0);
    }
}
