//! How often columns are used, and so which of them a cache holds.
//!
//! ```text
//!   runs        1   2   3   4   5   6   7   8
//!   column a    x       x       x       x          every second one
//!   column b        x           x                  every third, then none for two:        interval 3
//!   column c        x                   .   .      once, none for six so far:             unknown, makes way first
//! ```
//!
//! What counts is the interval between two uses, in runs: the mean of those so far, or the time since the last use where
//! that is longer. A column takes the room of others only where its interval is less than half of theirs. So columns
//! that are read in turn, and do not all fit, do not drive each other out again and again, which they would if the one not
//! used for longest made way; and what is read no more makes way soon. The measure is that of LIRS (Jiang and Zhang,
//! SIGMETRICS 2002), averaged.

use std::collections::HashMap;

use super::column_cache::Key;

/// Weight of the latest interval in the mean.
const LATEST: f64 = 0.5;
/// A column with at most this share of another's interval takes its room.
const MUCH_MORE_OFTEN: f64 = 0.5;
/// Columns that are known at most; beyond, those not used for longest are forgotten.
const COLUMNS_MAX: usize = 100_000;

/// The uses of columns, by run.
#[derive(Debug, Default)]
pub(super) struct Uses {
    /// The latest run.
    now: u64,
    of: HashMap<Key, Use>,
}

#[derive(Debug, Clone, Copy)]
struct Use {
    last: u64,
    /// Mean interval, in runs; `None` after one use.
    interval: Option<f64>,
}

impl Uses {
    /// Run number `run` uses a column; several uses by one run are one.
    pub(super) fn note(&mut self, key: Key, run: u64) {
        self.now = self.now.max(run);
        let Some(known) = self.of.get_mut(&key) else {
            self.make_room();
            self.of.insert(key, Use { last: run, interval: None });
            return;
        };
        if run > known.last {
            let latest = (run - known.last) as f64;
            known.interval = Some(known.interval.map_or(latest, |mean| mean + LATEST * (latest - mean)));
            known.last = run;
        }
    }

    /// Runs between two uses of a column; infinite where that is not known.
    pub(super) fn interval(&self, key: Key) -> f64 {
        let Some(known) = self.of.get(&key) else { return f64::INFINITY };
        known.interval.map_or(f64::INFINITY, |mean| mean.max((self.now - known.last) as f64))
    }

    /// Whether a column was used by a run before its latest.
    pub(super) fn is_repeated(&self, key: Key) -> bool {
        self.of.get(&key).is_some_and(|known| known.interval.is_some())
    }

    /// When a column was used last; 0 where that is not known.
    pub(super) fn last(&self, key: Key) -> u64 {
        self.of.get(&key).map_or(0, |known| known.last)
    }

    /// Whether a column is used so much more often than another that it takes its room.
    pub(super) fn takes_room_of(&self, key: Key, other: Key) -> bool {
        let (interval, others) = (self.interval(key), self.interval(other));
        interval.is_finite() && interval <= others * MUCH_MORE_OFTEN
    }

    /// Forgets columns for which `wanted` is false.
    pub(super) fn retain(&mut self, wanted: impl Fn(Key) -> bool) {
        self.of.retain(|key, _| wanted(*key));
    }

    /// Forgets the older half where there are too many.
    fn make_room(&mut self) {
        if self.of.len() < COLUMNS_MAX {
            return;
        }
        let mut last: Vec<u64> = self.of.values().map(|known| known.last).collect();
        let (_, &mut middle, _) = last.select_nth_unstable(COLUMNS_MAX / 2);
        self.of.retain(|_, known| known.last > middle);
    }
}

#[cfg(test)]
mod tests {
    use pelton_store::TableId;

    use super::*;

    fn key(column: usize) -> Key {
        (TableId(7), column)
    }

    #[test]
    fn the_interval_is_the_mean_or_the_time_since_the_last_use() {
        let mut uses = Uses::default();
        assert_eq!(uses.interval(key(0)), f64::INFINITY);
        uses.note(key(0), 1);
        uses.note(key(0), 1);
        assert!(!uses.is_repeated(key(0)), "one run uses it once");
        assert_eq!(uses.interval(key(0)), f64::INFINITY);
        uses.note(key(0), 3);
        assert_eq!((uses.is_repeated(key(0)), uses.interval(key(0))), (true, 2.0));
        uses.note(key(0), 7);
        assert_eq!(uses.interval(key(0)), 3.0);
        uses.note(key(1), 20);
        assert_eq!(uses.interval(key(0)), 13.0, "not used for longer than ever");
    }

    #[test]
    fn columns_read_in_turn_leave_each_other_alone_and_what_is_read_no_more_makes_way() {
        let mut uses = Uses::default();
        let mut run = 0;
        for column in (0..10).cycle().take(30) {
            run += 1;
            uses.note(key(column), run);
            // In the second turn those that have come back take the room of those that have not yet.
            let takes_room = (0..10).any(|other| uses.takes_room_of(key(column), key(other)));
            assert_eq!(takes_room, (11..20).contains(&run), "run {run}");
        }
        for _ in 0..2 {
            for column in [10, 11, 12] {
                run += 1;
                uses.note(key(column), run);
            }
        }
        assert!((0..10).all(|other| uses.takes_room_of(key(12), key(other))));
        assert!((0..10).all(|other| !uses.takes_room_of(key(13), key(other))), "it was never used");
    }

    #[test]
    fn the_older_half_is_forgotten_beyond_a_number() {
        let mut uses = Uses::default();
        for column in 0..=COLUMNS_MAX {
            uses.note(key(column), column as u64 + 1);
        }
        assert!(uses.of.len() <= COLUMNS_MAX / 2 + 1);
        assert_eq!((uses.last(key(0)), uses.last(key(COLUMNS_MAX))), (0, COLUMNS_MAX as u64 + 1));
    }
}
