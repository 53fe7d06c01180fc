//! Taxi: order, domains, NULLs, and the dependences that make the trips look like trips.

mod common;

use arrow::datatypes::TimestampMicrosecondType;
use common::Table;
use pelton_datagen::Dataset;

/// 100,000 trips, 55 a day.
const SCALE: f64 = 0.01;

fn trips() -> Table {
    Table::new(Dataset::Taxi, "trips", SCALE)
}

fn micros(trips: &Table, column: &str) -> Vec<i64> {
    trips.primitives::<TimestampMicrosecondType>(column).into_iter().map(Option::unwrap).collect()
}

fn cents(trips: &Table, column: &str) -> Vec<i64> {
    let cents = |dollars: Option<f64>| (dollars.unwrap_or(0.0) * 100.0).round() as i64;
    trips.doubles(column).into_iter().map(cents).collect()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

#[test]
fn trips_are_in_order_of_pickup_from_2018_to_2022() {
    const JANUARY_2018: i64 = 1_514_764_800_000_000;
    const JANUARY_2023: i64 = 1_672_531_200_000_000;
    let trips = trips();
    let [pickup, dropoff] = ["tpep_pickup_datetime", "tpep_dropoff_datetime"].map(|c| micros(&trips, c));
    assert!(pickup.is_sorted());
    assert!((JANUARY_2018..JANUARY_2018 + 86_400_000_000).contains(&pickup[0]));
    assert!((JANUARY_2023 - 86_400_000_000..JANUARY_2023).contains(&pickup[pickup.len() - 1]));
    for (pickup, dropoff) in pickup.iter().zip(&dropoff) {
        assert!((5_000_000..=86_400_000_000).contains(&(dropoff - pickup)));
    }
}

#[test]
fn years_carry_what_the_city_carried() {
    let pickup = micros(&trips(), "tpep_pickup_datetime");
    // Per year boundary in microseconds; millions of trips in the records.
    let starts = [1_514_764_800, 1_546_300_800, 1_577_836_800, 1_609_459_200, 1_640_995_200, 1_672_531_200]
        .map(|second: i64| second * 1_000_000);
    let records = [102.8, 84.4, 24.5, 30.9, 39.7];
    let all: f64 = records.iter().sum();
    for (years, record) in starts.windows(2).zip(records) {
        let count = pickup.iter().filter(|time| (years[0]..years[1]).contains(*time)).count() as f64;
        let share = count / pickup.len() as f64;
        assert!((share - record / all).abs() < 0.01, "{share} of {}", record / all);
    }
}

#[test]
fn values_stay_in_their_domains() {
    let trips = trips();
    assert_eq!(trips.bounds("VendorID"), (1, 2));
    assert_eq!(trips.bounds("payment_type"), (0, 4));
    for column in ["PULocationID", "DOLocationID"] {
        let (low, high) = trips.bounds(column);
        assert!(low >= 1 && high <= 265, "{column} is in {low}..={high}");
    }
    assert_eq!(trips.distinct_texts("store_and_fwd_flag"), ["", "N", "Y"]);
    let passengers = trips.doubles("passenger_count");
    assert!(passengers.iter().flatten().all(|count| count.fract() == 0.0 && (0.0..=6.0).contains(count)));
}

#[test]
fn missing_values_are_missing_where_the_records_miss_them() {
    let trips = trips();
    let pickup = micros(&trips, "tpep_pickup_datetime");
    let payment = trips.ints("payment_type");
    let flags = trips.texts("store_and_fwd_flag");
    let [passengers, rate, congestion, airport] =
        ["passenger_count", "RatecodeID", "congestion_surcharge", "airport_fee"].map(|c| trips.doubles(c));
    const FEBRUARY_2019: i64 = 1_548_979_200_000_000;
    const APRIL_2021: i64 = 1_617_235_200_000_000;
    for row in 0..trips.len() {
        let by_app = payment[row] == 0;
        assert_eq!(passengers[row].is_none(), by_app);
        assert_eq!(rate[row].is_none(), by_app);
        assert_eq!(flags[row].is_empty(), by_app);
        assert_eq!(congestion[row].is_none(), by_app || pickup[row] < FEBRUARY_2019);
        assert_eq!(airport[row].is_none(), by_app || pickup[row] < APRIL_2021);
    }
    let app_count = payment.iter().filter(|payment| **payment == 0).count();
    assert!((1_000..3_000).contains(&app_count), "{app_count}");
}

#[test]
fn totals_add_up_and_refunds_are_rare() {
    let trips = trips();
    let parts = [
        "fare_amount",
        "extra",
        "mta_tax",
        "tip_amount",
        "tolls_amount",
        "improvement_surcharge",
        "congestion_surcharge",
        "airport_fee",
    ]
    .map(|column| cents(&trips, column));
    let total = cents(&trips, "total_amount");
    for row in 0..trips.len() {
        assert_eq!(parts.iter().map(|part| part[row]).sum::<i64>(), total[row], "row {row}");
    }
    let refunds = total.iter().filter(|total| **total < 0).count();
    assert!((200..700).contains(&refunds), "{refunds}");
}

#[test]
fn distances_are_skewed_and_fares_follow_them() {
    let trips = trips();
    let distance: Vec<f64> = trips.doubles("trip_distance").into_iter().flatten().collect();
    let fare: Vec<f64> = trips.doubles("fare_amount").into_iter().flatten().collect();
    let mean = distance.iter().sum::<f64>() / distance.len() as f64;
    let middle = median(distance.clone());
    assert!((1.5..2.2).contains(&middle), "median distance {middle}");
    assert!((2.5..4.5).contains(&mean), "mean distance {mean}");

    let fares_between = |low: f64, high: f64| {
        let rows = distance.iter().zip(&fare).filter(|(miles, _)| (low..high).contains(*miles));
        median(rows.map(|(_, fare)| *fare).collect())
    };
    let [short, middle, long] = [fares_between(0.5, 1.0), fares_between(2.0, 3.0), fares_between(8.0, 12.0)];
    assert!(short < 0.7 * middle && middle < 0.5 * long, "{short} {middle} {long}");
}

#[test]
fn only_cards_and_apps_tip() {
    let trips = trips();
    let tip = cents(&trips, "tip_amount");
    for (payment, tip) in trips.ints("payment_type").into_iter().zip(tip) {
        assert!(tip == 0 || payment <= 1);
    }
}

#[test]
fn a_few_zones_take_most_pickups() {
    let mut counts = vec![0; 266];
    for zone in trips().ints("PULocationID") {
        counts[zone as usize] += 1;
    }
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let busiest: usize = counts[..55].iter().sum();
    assert!((93_000..97_000).contains(&busiest), "{busiest}");
    assert!(counts[0] > 3_000, "{}", counts[0]);
}
