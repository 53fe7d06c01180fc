//! Rows that a run gave beside those that it should have given.

use std::collections::BTreeMap;

use pelton_pipeline::ir::{RowOrder, Sink, TopK};

use super::cell::{Cell, Row};

/// What is wrong with `found`, which came out of `sink` where `expected` should have.
pub(crate) fn wrong(sink: &Sink, expected: &[Row], found: Vec<Row>) -> Option<String> {
    match sink {
        Sink::Materialize { top: Some(top), .. } => top_difference(top, expected, &found),
        Sink::Materialize { order: Some(order), .. } => order_difference(order, expected, &found),
        _ => difference(expected.to_vec(), found),
    }
}

/// What differs between two multisets of rows.
fn difference(mut expected: Vec<Row>, mut found: Vec<Row>) -> Option<String> {
    if expected.len() != found.len() {
        return Some(format!("{} rows in place of {}", found.len(), expected.len()));
    }
    // Sums of doubles decide last: the keys of groups tell rows apart.
    let width = expected.first().map_or(0, Vec::len);
    let is_about = |at: usize| expected.iter().any(|row| matches!(row[at], Cell::About(..)));
    let exact: Vec<usize> = (0..width).filter(|at| !is_about(*at)).collect();
    let by_exact = |a: &Row, b: &Row| {
        let pairs = exact.iter().map(|at| a[*at].cmp(&b[*at]));
        pairs.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
    };
    expected.sort_by(by_exact);
    found.sort_by(by_exact);
    let admits = |(expected, found): &(&Row, &Row)| {
        expected.len() == found.len() && expected.iter().zip(*found).all(|(a, b)| a.admits(b))
    };
    let (expected, found) = expected.iter().zip(&found).find(|pair| !admits(pair))?;
    Some(format!("a row is {found:?} in place of {expected:?}"))
}

fn counted(rows: &[Row]) -> BTreeMap<&Row, usize> {
    let mut counts = BTreeMap::new();
    rows.iter().for_each(|row| *counts.entry(row).or_default() += 1);
    counts
}

/// Which ranks are meant.
type Among<'a> = &'a dyn Fn(Option<i128>) -> bool;

/// What [`TopK`] promises and `found` lacks; the last column is the key.
fn top_difference(top: &TopK, all: &[Row], found: &[Row]) -> Option<String> {
    let (all_counts, found_counts) = (counted(all), counted(found));
    for (row, count) in &found_counts {
        let there = all_counts.get(row).copied().unwrap_or(0);
        if *count > there {
            return Some(format!("{row:?} came {count} times, and {there} there are"));
        }
    }
    let rank = |row: &Row| match row.last() {
        Some(Cell::Int(key)) => Some(if top.is_descending { *key } else { -*key }),
        _ => None,
    };
    let mut ranks: Vec<i128> = all.iter().filter_map(rank).collect();
    ranks.sort_unstable_by(|a, b| b.cmp(a));
    let wanted = usize::try_from(top.row_count).unwrap_or(usize::MAX);
    let last = wanted.checked_sub(1)?;
    let worst = ranks.get(last).copied().unwrap_or(i128::MIN);
    let among = |rows: &[Row], of: Among<'_>| rows.iter().filter(|row| of(rank(row))).count();
    let better = |rank: Option<i128>| rank.is_some_and(|rank| rank > worst);
    let equal = |rank: Option<i128>| rank == Some(worst);
    let unknown = |rank: Option<i128>| rank.is_none();
    let better_count = among(all, &better);
    let needed = |all: usize, some: usize| if top.keeps_ties { all } else { all.min(some) };
    let demands: [(&str, usize, Among<'_>); 3] = [
        ("better than the last one", better_count, &better),
        ("like the last one", needed(among(all, &equal), wanted.saturating_sub(better_count)), &equal),
        ("without a key", needed(among(all, &unknown), wanted), &unknown),
    ];
    let lacking = demands.iter().find(|(_, count, is_one)| among(found, *is_one) < *count);
    lacking.map(|(what, count, is_one)| format!("{} rows {what} in place of {count}", among(found, *is_one)))
}

/// What [`RowOrder`] promises and `found` lacks; the last columns are the keys.
fn order_difference(order: &RowOrder, all: &[Row], found: &[Row]) -> Option<String> {
    let keys = |row: &Row| row[row.len() - order.keys.len()..].to_vec();
    // The order of cells as such is any order.
    let in_order = |a: &Cell, b: &Cell| match (a, b) {
        (Cell::Float(a), Cell::Float(b)) => a.total_cmp(b),
        _ => a.cmp(b),
    };
    let compare = |a: &Vec<Cell>, b: &Vec<Cell>| {
        let orders =
            order.keys.iter().zip(a.iter().zip(b)).map(|(key, (a, b))| match (a.is_null(), b.is_null()) {
                (true, true) => std::cmp::Ordering::Equal,
                (false, false) if key.is_descending => in_order(b, a),
                (false, false) => in_order(a, b),
                (is_null, _) if is_null == key.nulls_first => std::cmp::Ordering::Less,
                _ => std::cmp::Ordering::Greater,
            });
        orders.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
    };
    let mut expected: Vec<Vec<Cell>> = all.iter().map(keys).collect();
    expected.sort_by(compare);
    expected.truncate(order.row_count.map_or(usize::MAX, |rows| usize::try_from(rows).unwrap_or(usize::MAX)));
    let found_keys: Vec<Vec<Cell>> = found.iter().map(keys).collect();
    if expected.len() != found.len() {
        return Some(format!("{} rows in order in place of {}", found.len(), expected.len()));
    }
    if let Some(at) = (0..found.len()).find(|at| expected[*at] != found_keys[*at]) {
        return Some(format!("row {at} has the keys {:?} in place of {:?}", found_keys[at], expected[at]));
    }
    // Where not all are wanted, those of equal keys may be any of them.
    match found.len() == all.len() {
        true => difference(all.to_vec(), found.to_vec()),
        false if all.iter().flatten().any(|cell| matches!(cell, Cell::About(..))) => None,
        false => {
            let there = counted(all);
            let is_too_often = |(row, count): (&Row, usize)| there.get(row).is_none_or(|all| count > *all);
            counted(found)
                .into_iter()
                .find(|(row, count)| is_too_often((row, *count)))
                .map(|(row, count)| format!("{row:?} came {count} times"))
        }
    }
}
