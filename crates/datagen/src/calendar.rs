//! Days of the Gregorian calendar, counted from 1970-01-01.
//!
//! The conversions are Hinnant's (chrono-compatible low-level date algorithms, 2013): years begin in March,
//! so that the leap day is the last of its year, and 400 years are one era of 146097 days.

/// A day as people write it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Day {
    pub(crate) year: i32,
    /// 1 to 12.
    pub(crate) month: i32,
    /// 1 to 31.
    pub(crate) day: i32,
}

impl Day {
    pub(crate) const fn new(year: i32, month: i32, day: i32) -> Self {
        Self { year, month, day }
    }

    /// The day `days` after 1970-01-01; not before it.
    pub(crate) const fn from_epoch_days(days: i32) -> Self {
        let shifted = days + 719_468;
        let era = shifted / 146_097;
        let of_era = shifted % 146_097;
        let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let march_month = (5 * of_year + 2) / 153;
        let day = of_year - (153 * march_month + 2) / 5 + 1;
        let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
        Self { year: year_of_era + era * 400 + (month <= 2) as i32, month, day }
    }

    /// Days from 1970-01-01 to this one.
    pub(crate) const fn epoch_days(self) -> i32 {
        let year = self.year - (self.month <= 2) as i32;
        let era = year / 400;
        let year_of_era = year % 400;
        let march_month = (self.month + 9) % 12;
        let of_year = (153 * march_month + 2) / 5 + self.day - 1;
        let of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year;
        era * 146_097 + of_era - 719_468
    }

    /// `yyyymmdd` as a number.
    pub(crate) const fn key(self) -> i32 {
        self.year * 10_000 + self.month * 100 + self.day
    }

    /// 0 for Sunday to 6 for Saturday.
    pub(crate) const fn weekday(self) -> i32 {
        (self.epoch_days() + 4) % 7
    }

    /// 1 for the first of January.
    pub(crate) const fn of_year(self) -> i32 {
        self.epoch_days() - Self::new(self.year, 1, 1).epoch_days() + 1
    }

    /// Whether tomorrow is the first of a month.
    pub(crate) const fn ends_month(self) -> bool {
        Self::from_epoch_days(self.epoch_days() + 1).day == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_convert_there_and_back() {
        for days in 0..40_000 {
            assert_eq!(Day::from_epoch_days(days).epoch_days(), days);
        }
        assert_eq!(Day::from_epoch_days(0), Day::new(1970, 1, 1));
        assert_eq!(Day::from_epoch_days(11_016), Day::new(2000, 2, 29));
    }

    #[test]
    fn the_benchmark_begins_on_a_wednesday() {
        let first = Day::new(1992, 1, 1);
        assert_eq!(first.weekday(), 3);
        assert_eq!(first.key(), 19_920_101);
        assert_eq!(Day::new(1992, 12, 31).of_year(), 366);
        assert!(Day::new(1996, 2, 29).ends_month());
        assert!(!Day::new(1996, 2, 28).ends_month());
    }
}
