//! Dates by counting: months and years one after the other, in no way as kernels compute them.

use pelton_pipeline::ir::{DatePart, DateUnit};

/// Days of 400 years, after which the calendar repeats.
const CYCLE_DAYS: i64 = 146_097;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Civil {
    year: i64,
    month: i64,
    day: i64,
}

fn is_leap(year: i64) -> bool {
    year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0)
}

fn year_days(year: i64) -> i64 {
    if is_leap(year) { 366 } else { 365 }
}

fn month_days(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn civil(days: i64) -> Civil {
    let mut year = 1970 + days.div_euclid(CYCLE_DAYS) * 400;
    let mut left = days.rem_euclid(CYCLE_DAYS);
    while left >= year_days(year) {
        left -= year_days(year);
        year += 1;
    }
    let mut month = 1;
    while left >= month_days(year, month) {
        left -= month_days(year, month);
        month += 1;
    }
    Civil { year, month, day: left + 1 }
}

fn days(date: Civil) -> i64 {
    let (cycles, of_cycle) = ((date.year - 1970).div_euclid(400), (date.year - 1970).rem_euclid(400));
    let years: i64 = (1970..1970 + of_cycle).map(year_days).sum();
    let months: i64 = (1..date.month).map(|month| month_days(date.year, month)).sum();
    cycles * CYCLE_DAYS + years + months + date.day - 1
}

/// From Monday, 1. The first of January 1970 was a Thursday.
fn iso_day_of_week(day: i64) -> i64 {
    (day + 3).rem_euclid(7) + 1
}

fn day_of_year(day: i64) -> i64 {
    day - days(Civil { year: civil(day).year, month: 1, day: 1 }) + 1
}

fn thursday(day: i64) -> i64 {
    day + 4 - iso_day_of_week(day)
}

pub(crate) fn part(part: DatePart, day: i64) -> i64 {
    let date = civil(day);
    match part {
        DatePart::Year => date.year,
        DatePart::IsoYear => civil(thursday(day)).year,
        DatePart::Quarter => (date.month - 1) / 3 + 1,
        DatePart::Month => date.month,
        DatePart::Week => (day_of_year(thursday(day)) + 6) / 7,
        DatePart::Day => date.day,
        DatePart::DayOfYear => day_of_year(day),
        DatePart::DayOfWeek => iso_day_of_week(day) % 7,
        DatePart::IsoDayOfWeek => iso_day_of_week(day),
    }
}

pub(crate) fn trunc(unit: DateUnit, day: i64) -> i64 {
    let date = civil(day);
    match unit {
        DateUnit::Week => day + 1 - iso_day_of_week(day),
        DateUnit::Month => days(Civil { day: 1, ..date }),
        DateUnit::Quarter => days(Civil { day: 1, month: (date.month - 1) / 3 * 3 + 1, ..date }),
        DateUnit::Year => days(Civil { day: 1, month: 1, ..date }),
    }
}

pub(crate) fn add_months(day: i64, months: i64) -> i64 {
    let mut date = civil(day);
    let step = months.signum();
    for _ in 0..months.abs() {
        date.month += step;
        match date.month {
            0 => (date.year, date.month) = (date.year - 1, 12),
            13 => (date.year, date.month) = (date.year + 1, 1),
            _ => {}
        }
    }
    days(Civil { day: date.day.min(month_days(date.year, date.month)), ..date })
}

#[test]
fn dates_of_all_kinds_are_what_calendars_say() {
    // 2020-12-31 was a Thursday of the 53rd week; 2021-01-03 the Sunday after it.
    let (thursday, sunday) = (18_627, 18_630);
    assert_eq!(civil(thursday), Civil { year: 2020, month: 12, day: 31 });
    assert_eq!((part(DatePart::Week, sunday), part(DatePart::IsoYear, sunday)), (53, 2020));
    assert_eq!((part(DatePart::DayOfWeek, sunday), part(DatePart::IsoDayOfWeek, sunday)), (0, 7));
    assert_eq!(part(DatePart::DayOfYear, thursday), 366);
    assert_eq!(civil(add_months(thursday, 2)), Civil { year: 2021, month: 2, day: 28 });
    assert_eq!(civil(-719_528), Civil { year: 0, month: 1, day: 1 });
    for day in [-800_000, -1, 0, 1, 11_016, 800_000] {
        assert_eq!(days(civil(day)), day);
    }
}
