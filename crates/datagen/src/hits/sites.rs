//! Sites and days: which rows belong to which site, and within a site to which day.
//!
//! Rows lie in order of (site, day), and a site's share of the table is fixed, so the site and the day of any
//! row follow from its position alone: batches need nothing of one another.

use std::ops::Range;

use super::texts;
use crate::calendar::Day;

/// The site that most queries of one site ask for; it takes most rows.
const SOUGHT_SITE: u32 = 62;
const SITE_COUNT: u32 = 6_000;
/// Sites' numbers are spread over a prime, so that multiples of a smaller number are distinct.
const NUMBERS: u32 = 262_139;
const NUMBER_STEP: u32 = 104_729;

/// 2 to 31 July 2013, as in the real table.
const FIRST_DAY: i32 = Day::new(2013, 7, 2).epoch_days();
const DAY_COUNT: u32 = 30;
/// Visits on a day from Sunday to Saturday.
const WEEKDAYS: [f64; 7] = [0.8, 1.1, 1.1, 1.1, 1.05, 1.0, 0.75];

pub(super) struct Sites {
    /// By rising number.
    sites: Vec<Site>,
    /// The share of a site's rows before each day, and 1.
    days: Vec<f64>,
}

pub(super) struct Site {
    /// `CounterID`.
    pub(super) number: u32,
    pub(super) domain: String,
    first_row: u64,
    row_count: u64,
}

/// Neighbouring rows of one site and one day.
pub(super) struct Stretch {
    /// Position among the sites.
    pub(super) site: u32,
    /// How many different pages the site has.
    pub(super) page_count: u32,
    /// Days since 1970-01-01.
    pub(super) day: i32,
    pub(super) rows: Range<u64>,
}

impl Sites {
    pub(super) fn new(row_count: u64) -> Self {
        let mut shares: Vec<(u32, f64)> =
            (0..SITE_COUNT).map(|rank| (site_number(rank), 1.0 / (f64::from(rank) + 1.2))).collect();
        shares.sort_unstable_by_key(|(number, _)| *number);
        let total: f64 = shares.iter().map(|(_, share)| share).sum();
        let mut share_before = 0.0;
        let mut sites: Vec<Site> = shares
            .into_iter()
            .map(|(number, share)| {
                let first_row = (share_before / total * row_count as f64) as u64;
                share_before += share;
                Site { number, domain: texts::domain(number), first_row, row_count: 0 }
            })
            .collect();
        let ends: Vec<u64> = sites[1..].iter().map(|site| site.first_row).chain([row_count]).collect();
        for (site, end) in sites.iter_mut().zip(ends) {
            site.row_count = end - site.first_row;
        }
        Self { sites, days: shares_before_days() }
    }

    pub(super) fn site(&self, position: u32) -> &Site {
        &self.sites[position as usize]
    }

    /// Cuts `rows` where the site or the day changes.
    pub(super) fn stretches(&self, rows: Range<u64>) -> impl Iterator<Item = Stretch> {
        let mut next = rows.start;
        std::iter::from_fn(move || {
            (next < rows.end).then(|| {
                let stretch = self.stretch_from(next, rows.end);
                next = stretch.rows.end;
                stretch
            })
        })
    }

    fn stretch_from(&self, row: u64, end: u64) -> Stretch {
        let site = self.sites.partition_point(|site| site.first_row <= row) - 1;
        let Site { first_row, row_count, .. } = self.sites[site];
        let day_start = |day: usize| first_row + (self.days[day] * row_count as f64) as u64;
        let day = (1..DAY_COUNT as usize).find(|day| row < day_start(*day)).unwrap_or(DAY_COUNT as usize) - 1;
        Stretch {
            site: site as u32,
            page_count: (row_count / 3 + 10) as u32,
            day: FIRST_DAY + day as i32,
            rows: row..day_start(day + 1).min(end),
        }
    }
}

/// The number of the site with this rank; rank 0 is the one that queries look for.
fn site_number(rank: u32) -> u32 {
    ((u64::from(rank) * u64::from(NUMBER_STEP) + u64::from(SOUGHT_SITE)) % u64::from(NUMBERS)) as u32
}

fn shares_before_days() -> Vec<f64> {
    let weight = |day: i32| WEEKDAYS[Day::from_epoch_days(FIRST_DAY + day).weekday() as usize];
    let days = 0..DAY_COUNT as i32;
    let total: f64 = days.clone().map(weight).sum();
    let mut before = 0.0;
    let mut shares = Vec::with_capacity(DAY_COUNT as usize + 1);
    for day in days {
        shares.push(before / total);
        before += weight(day);
    }
    shares.push(1.0);
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_cover_the_rows_in_order_of_site_and_day() {
        for row_count in [1, 999, 100_000] {
            let sites = Sites::new(row_count);
            let stretches: Vec<Stretch> = sites.stretches(0..row_count).collect();
            let mut next = 0;
            for stretch in &stretches {
                assert_eq!(stretch.rows.start, next);
                assert!(!stretch.rows.is_empty(), "no rows at {next}");
                next = stretch.rows.end;
            }
            assert_eq!(next, row_count);
            let places: Vec<_> = stretches.iter().map(|stretch| (stretch.site, stretch.day)).collect();
            assert!(places.is_sorted_by(|a, b| a < b), "a site and day comes twice");
        }
    }

    #[test]
    fn sites_have_numbers_of_their_own() {
        let sites = Sites::new(1).sites;
        assert!(sites.is_sorted_by(|a, b| a.number < b.number));
        assert!(sites.iter().any(|site| site.number == SOUGHT_SITE));
    }
}
