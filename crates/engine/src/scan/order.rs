//! The order in which a scan evaluates its filters: what drops the most rows in the least time goes first.
//!
//! ```text
//!   filter                        of 8192 rows pass   ns a row   dropped per ns
//!   item among 204 keys                          82        3.0             0.33   first
//!   date among 365 keys                        4915        2.0             0.20   second: 1 % of the rows are left
//!   store among 100 keys                       8110        1.5             0.01   left out: an offer that drops too little
//!   100 / quantity > 7                                                            last: it may fail
//! ```
//!
//! Joins tell a scan their keys while the query runs, so nothing is known of these filters when it is planned. The order
//! of the joins is a poor guess: it goes by the rows that come out of each join and not by what a filter costs, and the
//! scan would become slower with every change to it. So each partition measures for itself, without locks:
//!
//! 1. When a filter of a join is first known, all filters not measured yet are evaluated on half a page of the row group
//!    first. A partition of a small fact table may have no other row group: learning while it is filtered is too late.
//! 2. From then on every evaluation is a measurement. The order of a row group follows from those before it.
//!
//! The time of a filter is the least that was measured: another thread on the core, cold caches and few rows make an
//! evaluation longer, and nothing makes it shorter. Decoding is not counted, as it is seldom saved: a column is decoded
//! by whole pages, and most pages have some row that passes.
//!
//! Filters that may fail, such as a division or a cast, come last and as they came, conjuncts of the query before offers,
//! so that they see no row that a conjunct before them drops. No filter before them can fail, so no order fails where
//! another does not.
//!
//! Cost: half a page per filter and partition, and two readings of the clock per filter and row group. Known to be wrong:
//! a filter is measured on the rows that those before it left. Of two that drop the same rows the second seems to drop
//! none and stays second, even if it takes less time.
//!
//! Hellerstein, Stonebraker, "Predicate Migration: Optimizing Queries with Expensive Predicates", SIGMOD 1993 (rank).

use std::time::Duration;

/// An offer that lets more than this share of the rows pass is not worth its evaluation (a guess between the cost of a
/// hash probe saved and a hash probe made twice).
const PASS_RATE_MAX: f64 = 0.7;

/// Rows to see before an offer is judged, and as many as all earlier ones count for. Fewer than a row group has by
/// default.
const JUDGE_AFTER_ROWS: f64 = 50_000.0;

/// An offer that drops too little is left out, but tried again on one row group in this many. A guess: it then takes at
/// most a sixteenth of its time.
pub(super) const RETRY_EVERY: u32 = 16;

/// Rows that a new filter is measured on, at most: as many as it sees at a time. They are two measurements, the first of
/// which also pays for cold caches.
pub(super) const SAMPLED_ROWS: usize = 8192;

/// In row groups of fewer pages nothing is measured beforehand: a page is too large a part of them. A guess.
pub(super) const SAMPLED_PAGES_MIN: usize = 4;

/// What was measured of a filter.
#[derive(Debug, Clone, Copy)]
pub(super) struct Measured {
    /// Rows that it saw, and those of them that passed. Earlier ones count less.
    rows_in: f64,
    rows_out: f64,
    /// The least that was measured; infinite before that.
    ns_per_row: f64,
}

impl Measured {
    /// Nothing yet.
    pub(super) const NOTHING: Self = Self { rows_in: 0.0, rows_out: 0.0, ns_per_row: f64::INFINITY };

    /// True until rows were seen.
    pub(super) fn is_nothing(&self) -> bool {
        self.rows_in <= 0.0
    }

    /// Adds an evaluation: of `rows_in` rows `rows_out` passed, in `elapsed`.
    pub(super) fn add(&mut self, rows_in: usize, rows_out: usize, elapsed: Duration) {
        assert!(rows_out <= rows_in);
        if rows_in == 0 {
            return;
        }
        self.fade(JUDGE_AFTER_ROWS);
        self.rows_in += rows_in as f64;
        self.rows_out += rows_out as f64;
        let ns_per_row = elapsed.as_nanos().max(1) as f64 / rows_in as f64;
        self.ns_per_row = self.ns_per_row.min(ns_per_row);
    }

    /// The rows seen so far count for at most `rows` from now on.
    fn fade(&mut self, rows: f64) {
        let share = (rows / self.rows_in).min(1.0);
        self.rows_in *= share;
        self.rows_out *= share;
    }

    /// Judges by the next rows alone. Until they come the filter keeps its rank.
    pub(super) fn begin_anew(&mut self) {
        self.fade(1.0);
    }

    /// The share of rows that it drops over the nanoseconds that a row takes; infinite before the first measurement, so
    /// that there is one soon.
    pub(super) fn rank(&self) -> f64 {
        if self.is_nothing() {
            return f64::INFINITY;
        }
        (1.0 - self.rows_out / self.rows_in) / self.ns_per_row
    }

    /// False once the filter has proved not to filter.
    pub(super) fn drops_enough(&self) -> bool {
        self.rows_in < JUDGE_AFTER_ROWS || self.rows_out < PASS_RATE_MAX * self.rows_in
    }
}

/// Sorts numbers of filters by `rank`, highest first; filters of equal rank keep their order.
pub(super) fn by_rank(mut filters: Vec<usize>, rank: impl Fn(usize) -> f64) -> Vec<usize> {
    filters.sort_by(|&a, &b| rank(b).total_cmp(&rank(a)));
    filters
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of 1000 rows `rows_out` passed; a row took `ns`.
    fn measured(rows_out: usize, ns: u64) -> Measured {
        let mut measured = Measured::NOTHING;
        measured.add(1000, rows_out, Duration::from_nanos(1000 * ns));
        measured
    }

    fn order(filters: &[Measured]) -> Vec<usize> {
        by_rank((0..filters.len()).collect(), |filter| filters[filter].rank())
    }

    #[test]
    fn what_drops_the_most_rows_in_a_nanosecond_goes_first() {
        assert_eq!(order(&[measured(600, 2), measured(10, 3), measured(990, 1)]), [1, 0, 2]);
        assert_eq!(
            order(&[measured(10, 30), measured(900, 1)]),
            [1, 0],
            "a tenth at a thirtieth of the time"
        );
        assert_eq!(order(&[measured(10, 8), measured(900, 1)]), [0, 1]);
        assert_eq!(order(&[measured(1000, 1), measured(1000, 9)]), [0, 1], "neither drops a row");
    }

    #[test]
    fn what_is_not_measured_goes_first_what_may_fail_last_and_the_rest_as_it_came() {
        let ranks = [f64::NEG_INFINITY, 0.5, f64::INFINITY, 0.0, 0.5, f64::NEG_INFINITY, f64::INFINITY];
        assert_eq!(by_rank((0..7).collect(), |filter| ranks[filter]), [2, 6, 1, 4, 3, 0, 5]);
        assert_eq!(by_rank(vec![0, 3, 4], |filter| ranks[filter]), [4, 3, 0]);
        assert_eq!(Measured::NOTHING.rank(), f64::INFINITY);
    }

    #[test]
    fn a_disturbance_does_not_make_a_filter_costly() {
        let mut disturbed = measured(10, 3);
        disturbed.add(100, 1, Duration::from_millis(4));
        assert_eq!(order(&[measured(600, 2), disturbed]), [1, 0]);
    }

    #[test]
    fn no_rows_are_no_measurement() {
        let mut measured = Measured::NOTHING;
        measured.add(0, 0, Duration::from_nanos(1));
        assert!(measured.is_nothing() && measured.drops_enough());
        measured.add(1, 1, Duration::ZERO);
        assert!(!measured.is_nothing() && measured.rank() == 0.0);
    }

    #[test]
    fn an_offer_is_judged_by_enough_rows_and_by_the_latest() {
        let took = Duration::from_micros(1);
        let mut measured = Measured::NOTHING;
        measured.add(49_000, 49_000, took);
        assert!(measured.drops_enough(), "too early to say");
        measured.add(1000, 1000, took);
        assert!(!measured.drops_enough());
        // A row group of the usual size counts more than all before it.
        for _ in 0..10 {
            measured.add(131_072, 131_072, took);
        }
        measured.add(131_072, 0, took);
        assert!(measured.drops_enough());
    }

    #[test]
    fn an_offer_that_is_tried_again_keeps_its_place_and_is_judged_by_new_rows() {
        let took = Duration::from_micros(1);
        let mut measured = Measured::NOTHING;
        measured.add(100_000, 100_000, took);
        measured.begin_anew();
        assert_eq!(measured.rank(), 0.0);
        assert!(measured.drops_enough(), "too early to say");
        measured.add(50_000, 40_000, took);
        assert!(!measured.drops_enough());
        measured.begin_anew();
        measured.add(50_000, 30_000, took);
        assert!(measured.drops_enough());
    }
}
