//! The formulas: rows out of joins, semi joins and groupings, from profiles of their inputs.
//!
//! An equality of two columns keeps one pair of rows in `max(domain, domain)`: every value of the
//! smaller domain is assumed to occur in the larger (containment), and values to be equally frequent.
//! Folding a chain of equalities over one class of columns then divides by every domain but the
//! smallest, in whatever order the joins are done.
//!
//! Where the ranges of both columns are known, values outside of the common part have no partner, and domains are cut to it:
//!
//! ```text
//!   sales.date    1,823 values of  50,816 ..= 52,642      a fifth of the rows has a partner,
//!   dates.date      365 values of  51,911 ..= 52,275      and that is one of 365
//! ```
//!
//! Several equalities between the same two relations, a composite key, are rarely independent. They
//! are damped twice: the second and later most selective ones count by their 2nd, 4th, ... root, and
//! no composite key can have more values than its relation has rows:
//!
//! ```text
//!   lineitem ⋈ partsupp on (partkey, suppkey):   1/200,000 x 1/10,000 = 1/2,000,000,000 if independent
//!   partsupp has 800,000 rows, so               1/800,000
//! ```
//!
//! Swami and Schiefer, "On the estimation of join result sizes" (1994), section 3, for classes;
//! Cardenas, "Analysis and performance of inverted data base structures" (1975), for `occurring`.

use crate::profile::ColumnProfile;

/// Share of the pairs of rows that an equi-join keeps, 0..1; `keys` are (left, right) columns.
pub(crate) fn join_selectivity(keys: &[(ColumnProfile, ColumnProfile)]) -> f64 {
    let mut is_grouped = vec![false; keys.len()];
    let mut selectivity = 1.0;
    for first in 0..keys.len() {
        if is_grouped[first] {
            continue;
        }
        let composite: Vec<_> =
            (first..keys.len()).filter(|&other| has_same_sources(&keys[first], &keys[other])).collect();
        for &member in &composite {
            is_grouped[member] = true;
        }
        selectivity *= composite_selectivity(composite.iter().map(|&member| &keys[member]));
    }
    selectivity
}

fn has_same_sources(one: &(ColumnProfile, ColumnProfile), other: &(ColumnProfile, ColumnProfile)) -> bool {
    one.0.source.id == other.0.source.id && one.1.source.id == other.1.source.id
}

/// Selectivity of equalities that all compare columns of the same two relations.
fn composite_selectivity<'a>(keys: impl Iterator<Item = &'a (ColumnProfile, ColumnProfile)>) -> f64 {
    let mut not_null = 1.0;
    let mut selectivities = Vec::new();
    let (mut left_domain, mut right_domain) = (1.0, 1.0);
    let (mut left_rows, mut right_rows) = (f64::INFINITY, f64::INFINITY);
    for (left, right) in keys {
        not_null *= (1.0 - left.null_fraction) * (1.0 - right.null_fraction);
        let (left_share, right_share) = left.common_shares(right);
        let domain = shared_domain(&left.cut(left_share), &right.cut(right_share));
        selectivities.push(left_share * right_share / domain);
        left_domain *= left.domain.unwrap_or(domain).max(1.0);
        right_domain *= right.domain.unwrap_or(domain).max(1.0);
        left_rows = left.source.rows.max(1.0);
        right_rows = right.source.rows.max(1.0);
    }
    selectivities.sort_by(f64::total_cmp);
    let damped: f64 = selectivities
        .iter()
        .enumerate()
        .map(|(position, selectivity)| selectivity.powf(0.5f64.powi(position as i32)))
        .product();
    if selectivities.len() == 1 {
        return damped * not_null;
    }
    // Both are upper bounds; the smaller is the key's, the larger that of rows which refer to it.
    let bounded = 1.0 / left_domain.min(left_rows).min(right_domain.min(right_rows));
    damped.max(bounded) * not_null
}

/// Number of values of the larger of two compared domains.
fn shared_domain(left: &ColumnProfile, right: &ColumnProfile) -> f64 {
    let shared = match (left.domain, right.domain) {
        // Two sparse integer columns with the very same ends: a foreign key that covers its key.
        // The widths of both are upper bounds; the rows of the smaller relation count the keys.
        (Some(l), Some(r)) if !left.is_counted && !right.is_counted && left.range == right.range => l.min(r),
        (Some(l), Some(r)) => l.max(r),
        (Some(known), None) | (None, Some(known)) => known,
        (None, None) => left.source.rows.min(right.source.rows),
    };
    shared.max(1.0)
}

/// Share of the outer rows that find a partner in a semi join.
pub(crate) fn semi_join_fraction(
    keys: &[(ColumnProfile, ColumnProfile)],
    inner_rows: f64,
    filter_selectivity: f64,
) -> f64 {
    let equalities: f64 = keys
        .iter()
        .map(|(outer, inner)| {
            let present = occurring(inner.domain_or_key(), inner_rows);
            let (outer_share, inner_share) = outer.common_shares(inner);
            let present = present * inner_share;
            let domain = shared_domain(&outer.cut(outer_share), &inner.cut(inner_share));
            let fraction = outer_share * present / domain.max(present);
            fraction * (1.0 - outer.null_fraction)
        })
        .fold(1.0, f64::min);
    let partners = inner_rows / keys.first().map_or(1.0, |(_, inner)| inner.domain_or_key());
    // A filter must fail for all partners of a row to reject it.
    let passing = 1.0 - (1.0 - filter_selectivity).powf(partners.max(1.0));
    (equalities * passing).clamp(0.0, 1.0)
}

/// Distinct values that `rows` draws from `domain` values are expected to hit.
pub(crate) fn occurring(domain: f64, rows: f64) -> f64 {
    if domain <= 1.0 {
        return domain.min(rows);
    }
    let missed = (rows * (-1.0 / domain).ln_1p()).exp();
    (domain * (1.0 - missed)).min(rows)
}

/// Combinations of values that grouping keys can take in an input of `rows`; `None` stands for a
/// computed key about which nothing is known.
pub(crate) fn key_combinations(keys: &[Option<ColumnProfile>], rows: f64) -> f64 {
    let mut combinations = 1.0;
    let mut sources: Vec<(usize, f64, f64)> = Vec::new();
    for key in keys {
        match key {
            // A guess: computed keys (the year of a date) are mostly coarse.
            None => combinations *= rows.sqrt(),
            Some(column) => {
                let domain = column.domain.unwrap_or(column.source.rows.sqrt()).max(1.0);
                match sources.iter_mut().find(|(id, ..)| *id == column.source.id) {
                    Some((_, product, _)) => *product *= domain,
                    None => sources.push((column.source.id, domain, column.source.rows)),
                }
            }
        }
    }
    for (_, product, source_rows) in sources {
        combinations *= f64::min(product, source_rows.max(1.0));
    }
    combinations
}

#[cfg(test)]
mod tests;
