//! When trips begin: a share of all trips to a moment of the five years.
//!
//! The hours of the period are a cumulative distribution: months weigh what they carried, hours of a month
//! share it by week day and time of day. Row `i` of `n` takes the moment at share `(i + u) / n`, `u` uniform
//! in `[0, 1)`: rows come out in time order, and any row can be placed without the others.

use crate::calendar::Day;

const FIRST_YEAR: i32 = 2018;
const FIRST_DAY: i32 = Day::new(FIRST_YEAR, 1, 1).epoch_days();
const DAY_COUNT: i32 = Day::new(2023, 1, 1).epoch_days() - FIRST_DAY;
const SECONDS_PER_HOUR: i64 = 3_600;

/// Trips per month in units of 10,000, 2018 to 2022, as the monthly files have them.
const MONTHLY_TRIPS: [[u32; 12]; 5] = [
    [876, 849, 943, 931, 922, 871, 785, 785, 804, 882, 815, 818],
    [767, 702, 783, 743, 757, 694, 631, 607, 657, 721, 688, 690],
    [641, 630, 301, 24, 35, 55, 80, 101, 134, 168, 151, 146],
    [137, 137, 193, 217, 251, 283, 282, 279, 296, 346, 347, 321],
    [246, 298, 363, 360, 359, 356, 317, 315, 318, 368, 325, 340],
];

/// Weight of each hour of a day from Monday to Friday, and of Saturday and Sunday.
const WORKDAY_HOURS: [u32; 24] =
    [20, 11, 7, 5, 5, 8, 20, 37, 47, 47, 46, 48, 51, 51, 54, 53, 48, 57, 67, 66, 61, 60, 56, 40];
const WEEKEND_HOURS: [u32; 24] =
    [55, 48, 39, 28, 17, 9, 10, 14, 22, 32, 42, 48, 51, 52, 52, 51, 49, 52, 55, 52, 48, 48, 50, 48];

/// A moment of the period, with what prices and speeds depend on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pickup {
    /// Seconds since 1970-01-01, local time.
    pub(super) second: i64,
    pub(super) day: Day,
    pub(super) hour: usize,
}

pub(super) struct Arrivals {
    /// Per hour of the period, and once more at its end: the share of trips before it.
    shares: Vec<f64>,
    days: Vec<Day>,
}

impl Arrivals {
    pub(super) fn new() -> Self {
        let days: Vec<Day> = (0..DAY_COUNT).map(|index| Day::from_epoch_days(FIRST_DAY + index)).collect();
        let mut shares = vec![0.0];
        let mut before = 0.0;
        for month in days.chunk_by(|a, b| a.month == b.month) {
            let trips = MONTHLY_TRIPS[(month[0].year - FIRST_YEAR) as usize][month[0].month as usize - 1];
            let hours: Vec<u32> = month.iter().flat_map(|day| *hour_weights(day)).collect();
            let unit = f64::from(trips) / f64::from(hours.iter().sum::<u32>());
            for weight in hours {
                before += f64::from(weight) * unit;
                shares.push(before);
            }
        }
        for share in &mut shares {
            *share /= before;
        }
        Self { shares, days }
    }

    /// The hour that holds `share` of all trips before one of its moments.
    pub(super) fn hour_of(&self, share: f64) -> usize {
        self.shares.partition_point(|before| *before <= share) - 1
    }

    /// The moment at `share`, which is not before `hour`; moves `hour` there.
    #[inline]
    pub(super) fn advance(&self, hour: &mut usize, share: f64) -> Pickup {
        while self.shares[*hour + 1] <= share {
            *hour += 1;
        }
        let [before, after] = [self.shares[*hour], self.shares[*hour + 1]];
        let into_hour = ((share - before) / (after - before) * SECONDS_PER_HOUR as f64) as i64;
        let hours = i64::from(FIRST_DAY) * 24 + *hour as i64;
        Pickup {
            second: hours * SECONDS_PER_HOUR + into_hour.min(SECONDS_PER_HOUR - 1),
            day: self.days[*hour / 24],
            hour: *hour % 24,
        }
    }
}

fn hour_weights(day: &Day) -> &'static [u32; 24] {
    match day.weekday() {
        0 | 6 => &WEEKEND_HOURS,
        _ => &WORKDAY_HOURS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_rise_from_0_to_1_over_all_hours() {
        let shares = Arrivals::new().shares;
        assert_eq!(shares.len(), 1826 * 24 + 1);
        assert_eq!((shares[0], shares[1826 * 24]), (0.0, 1.0));
        assert!(shares.is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn moments_are_in_order_and_do_not_depend_on_where_one_starts() {
        let arrivals = Arrivals::new();
        let mut walking = 0;
        let mut last = 0;
        for step in 0..10_000 {
            let share = f64::from(step) / 10_000.0;
            let pickup = arrivals.advance(&mut walking, share);
            let mut found = arrivals.hour_of(share);
            assert_eq!(arrivals.advance(&mut found, share).second, pickup.second);
            assert!(pickup.second >= last);
            assert_eq!(Day::from_epoch_days((pickup.second / 86_400) as i32), pickup.day);
            last = pickup.second;
        }
        assert_eq!(Day::from_epoch_days((last / 86_400) as i32).year, 2022);
    }
}
