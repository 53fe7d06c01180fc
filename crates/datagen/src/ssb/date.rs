//! The date dimension: every day of 1992 to 1998. Nothing in it is random.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Int32Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use crate::calendar::Day;
use crate::part::TableGenerator;
use crate::random::Random;
use crate::words::{TextColumn, Words};

const FIRST_DAY: i32 = Day::new(1992, 1, 1).epoch_days();

/// Days of the seven years, two of them leap years.
pub(super) const DAY_COUNT: u32 = (Day::new(1999, 1, 1).epoch_days() - FIRST_DAY) as u32;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

const SEASONS: [&str; 5] = ["Winter", "Spring", "Summer", "Fall", "Christmas"];

/// Month and day of the ten holidays of a year.
const HOLIDAYS: [(i32, i32); 10] =
    [(1, 1), (2, 20), (4, 20), (5, 20), (7, 20), (8, 20), (9, 20), (10, 20), (11, 20), (12, 24)];

/// The keys of all days in order.
pub(super) fn date_keys() -> Vec<i32> {
    (0..DAY_COUNT).map(|index| day(index.into()).key()).collect()
}

fn day(index: u64) -> Day {
    Day::from_epoch_days(FIRST_DAY + index as i32)
}

/// Index into [`SEASONS`].
fn season(month: i32) -> u32 {
    match month {
        1..=3 => 0,
        4 => 1,
        5..=8 => 2,
        9..=10 => 3,
        _ => 4,
    }
}

pub(super) fn schema() -> SchemaRef {
    let int = |name| Field::new(name, DataType::Int32, false);
    let text = |name| Field::new(name, DataType::Utf8View, false);
    let flag = |name| Field::new(name, DataType::Boolean, false);
    Arc::new(Schema::new(vec![
        int("d_datekey"),
        text("d_date"),
        text("d_dayofweek"),
        text("d_month"),
        int("d_year"),
        int("d_yearmonthnum"),
        text("d_yearmonth"),
        int("d_daynuminweek"),
        int("d_daynuminmonth"),
        int("d_daynuminyear"),
        int("d_monthnuminyear"),
        int("d_weeknuminyear"),
        text("d_sellingseason"),
        flag("d_lastdayinweekfl"),
        flag("d_lastdayinmonthfl"),
        flag("d_holidayfl"),
        flag("d_weekdayfl"),
    ]))
}

pub(super) struct Dates {
    months: Words,
    weekdays: Words,
    seasons: Words,
}

impl Dates {
    pub(super) fn new() -> Self {
        Self { months: Words::new(MONTHS), weekdays: Words::new(WEEKDAYS), seasons: Words::new(SEASONS) }
    }

    fn month_name(&self, day: &Day) -> &str {
        self.months.word(day.month as u32 - 1)
    }
}

impl TableGenerator for Dates {
    fn batch(&self, rows: Range<u64>, _random: &mut Random) -> RecordBatch {
        let days: Vec<Day> = rows.map(day).collect();
        let int = |value: fn(&Day) -> i32| -> ArrayRef {
            Arc::new(Int32Array::from_iter_values(days.iter().map(value)))
        };
        let words = |words: &Words, index: fn(&Day) -> u32| {
            words.column(days.iter().map(index).collect::<Vec<u32>>())
        };
        let flag = |value: fn(&Day) -> bool| -> ArrayRef {
            Arc::new(days.iter().map(|day| Some(value(day))).collect::<BooleanArray>())
        };
        let mut date = TextColumn::with_capacity(days.len());
        let mut year_month = TextColumn::with_capacity(days.len());
        for day in &days {
            let month = self.month_name(day);
            date.push(format_args!("{month} {}, {}", day.day, day.year));
            year_month.push(format_args!("{}{}", &month[..3], day.year));
        }
        let columns = vec![
            int(|day| day.key()),
            date.finish(),
            words(&self.weekdays, |day| day.weekday() as u32),
            words(&self.months, |day| day.month as u32 - 1),
            int(|day| day.year),
            int(|day| day.year * 100 + day.month),
            year_month.finish(),
            int(|day| day.weekday() + 1),
            int(|day| day.day),
            int(|day| day.of_year()),
            int(|day| day.month),
            int(|day| (day.of_year() - 1) / 7 + 1),
            words(&self.seasons, |day| season(day.month)),
            flag(|day| day.weekday() == 6),
            flag(|day| day.ends_month()),
            flag(|day| HOLIDAYS.contains(&(day.month, day.day))),
            flag(|day| (1..=5).contains(&day.weekday())),
        ];
        RecordBatch::try_new(schema(), columns).expect("the columns follow the schema")
    }
}
