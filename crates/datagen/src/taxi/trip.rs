//! One trip: drawn step by step, each step depending on the ones before.
//!
//! Distances are in hundredths of a mile and money in cents until the columns are written, so that totals
//! add up exactly and every double is the nearest to two decimals.

use super::arrivals::Pickup;
use super::zones::{JFK, LA_GUARDIA, NEWARK, Zones};
use crate::random::{Random, Weighted};

/// A trip, column by column.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trip {
    pub(super) vendor: i64,
    /// Seconds since 1970-01-01, local time.
    pub(super) pickup: i64,
    pub(super) dropoff: i64,
    pub(super) pickup_zone: i64,
    pub(super) dropoff_zone: i64,
    /// Hundredths of a mile.
    pub(super) distance: i32,
    /// What the meter reports; trips paid through an app lack it.
    pub(super) meter: Option<Meter>,
    /// 0 app, 1 card, 2 cash, 3 no charge, 4 dispute.
    pub(super) payment: i64,
    pub(super) fare: i32,
    pub(super) extra: i32,
    pub(super) mta_tax: i32,
    pub(super) tip: i32,
    pub(super) tolls: i32,
    pub(super) improvement: i32,
    pub(super) total: i32,
    /// Recorded from February 2019.
    pub(super) congestion: Option<i32>,
    /// Recorded from April 2021.
    pub(super) airport: Option<i32>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Meter {
    pub(super) passengers: u32,
    pub(super) rate_code: u32,
    /// Kept in the car until it had a connection.
    pub(super) stored: bool,
}

const RATE_STANDARD: u32 = 1;
const RATE_JFK: u32 = 2;
const RATE_NEWARK: u32 = 3;
const RATE_NEGOTIATED: u32 = 5;

/// Miles per hour in each hour of the day.
const SPEEDS: [f64; 24] = [
    15.0, 16.0, 17.0, 18.0, 19.5, 20.0, 16.5, 12.5, 10.5, 10.2, 10.1, 9.9, 9.8, 9.9, 9.8, 9.6, 9.8, 9.7,
    10.2, 11.2, 12.0, 12.5, 13.0, 14.0,
];
/// Highways lead to the airports.
const AIRPORT_SPEED_UP: f64 = 1.9;

/// Weight of 0 to 6 passengers.
const PASSENGERS: [f64; 7] = [1.8, 71.5, 14.5, 4.1, 2.0, 3.6, 2.5];
/// Weight of payments 0 to 4; app payments are decided before.
const PAYMENTS: [f64; 5] = [0.0, 72.3, 26.9, 0.5, 0.3];
/// What the card terminal suggests, in percent of the total, and own choices beside it.
const TIP_PERCENTS: [f64; 6] = [0.0, 10.0, 15.0, 20.0, 25.0, 30.0];
const TIP_WEIGHTS: [f64; 6] = [4.0, 5.0, 10.0, 56.0, 17.0, 8.0];

const JFK_FLAT_FARE: i32 = 5_200;
const BRIDGE_TOLL: i32 = 612;
const MTA_TAX: i32 = 50;
const IMPROVEMENT: i32 = 30;
const CONGESTION: i32 = 250;
const AIRPORT_FEE: i32 = 125;

/// Draws trips; holds the tables of the weighted choices.
pub(super) struct Trips {
    zones: Zones,
    passengers: Weighted,
    payments: Weighted,
    tips: Weighted,
}

impl Trips {
    pub(super) fn new() -> Self {
        Self {
            zones: Zones::new(),
            passengers: Weighted::new(&PASSENGERS),
            payments: Weighted::new(&PAYMENTS),
            tips: Weighted::new(&TIP_WEIGHTS),
        }
    }

    pub(super) fn draw(&self, pickup: Pickup, random: &mut Random) -> Trip {
        let [pickup_zone, dropoff_zone] = [self.zones.draw(random), self.zones.draw(random)];
        let to_airport = Airport::of(pickup_zone, dropoff_zone);
        let distance = random_distance(to_airport, random);
        let seconds = random_seconds(distance, to_airport, pickup.hour, random);
        let by_app = random.chance(app_share(pickup));
        let rate_code = random_rate(to_airport, random);

        let mut trip = Trip {
            vendor: if random.chance(0.34) { 1 } else { 2 },
            pickup: pickup.second,
            dropoff: pickup.second + seconds,
            pickup_zone,
            dropoff_zone,
            distance,
            meter: (!by_app).then(|| Meter {
                passengers: self.passengers.draw(random),
                rate_code,
                stored: random.chance(0.006),
            }),
            payment: if by_app { 0 } else { self.payments.draw(random).into() },
            fare: fare(rate_code, distance, seconds, random),
            extra: extra(rate_code, pickup),
            mta_tax: if rate_code <= RATE_JFK { MTA_TAX } else { 0 },
            tip: 0,
            tolls: tolls(to_airport, random),
            improvement: IMPROVEMENT,
            total: 0,
            congestion: congestion(pickup, by_app, to_airport, random),
            airport: airport_fee(pickup, by_app, pickup_zone),
        };
        self.settle(&mut trip, random);
        trip
    }

    /// Adds the tip and the total, or turns the trip into a refund.
    fn settle(&self, trip: &mut Trip, random: &mut Random) {
        let due = trip.fare
            + trip.extra
            + trip.mta_tax
            + trip.tolls
            + trip.improvement
            + trip.congestion.unwrap_or(0)
            + trip.airport.unwrap_or(0);
        if trip.payment <= 1 {
            let percent = TIP_PERCENTS[self.tips.draw(random) as usize];
            let tip = (f64::from(due) * percent / 100.0).round() as i32;
            // Some round to the dollar.
            trip.tip = if random.chance(0.3) { (tip + 50) / 100 * 100 } else { tip };
        }
        trip.total = due + trip.tip;
        if trip.payment >= 3 && random.chance(0.5) {
            trip.refund();
        }
    }
}

impl Trip {
    fn refund(&mut self) {
        for cents in
            [&mut self.fare, &mut self.extra, &mut self.mta_tax, &mut self.tolls, &mut self.improvement]
        {
            *cents = -*cents;
        }
        self.congestion = self.congestion.map(|cents| -cents);
        self.airport = self.airport.map(|cents| -cents);
        self.total = -self.total;
    }
}

/// The airport at either end of a trip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Airport {
    None,
    Jfk,
    LaGuardia,
    Newark,
}

impl Airport {
    fn of(pickup_zone: i64, dropoff_zone: i64) -> Self {
        match [pickup_zone, dropoff_zone] {
            [NEWARK, _] | [_, NEWARK] => Self::Newark,
            [JFK, _] | [_, JFK] => Self::Jfk,
            [LA_GUARDIA, _] | [_, LA_GUARDIA] => Self::LaGuardia,
            _ => Self::None,
        }
    }
}

/// Hundredths of a mile; half a percent of the trips never moved.
fn random_distance(airport: Airport, random: &mut Random) -> i32 {
    let miles = match airport {
        Airport::None if random.chance(0.005) => 0.0,
        Airport::None => random.log_normal(1.65, 0.72),
        Airport::Jfk => random.log_normal(16.8, 0.16),
        Airport::LaGuardia => random.log_normal(9.4, 0.22),
        Airport::Newark => random.log_normal(17.2, 0.15),
    };
    (miles * 100.0).round() as i32
}

/// How long the trip took; one in 600 meters was left running for about a day.
fn random_seconds(distance: i32, airport: Airport, hour: usize, random: &mut Random) -> i64 {
    if random.chance(1.0 / 600.0) {
        return random.between(85_000, 86_399).into();
    }
    let speed_up = if airport == Airport::None { 1.0 } else { AIRPORT_SPEED_UP };
    let miles_per_hour = random.log_normal(SPEEDS[hour] * speed_up, 0.3);
    let driving = f64::from(distance) / 100.0 / miles_per_hour * 3600.0;
    driving as i64 + i64::from(random.between(5, 90))
}

/// The share of trips hailed by app, which began in the middle of 2019.
fn app_share(pickup: Pickup) -> f64 {
    match (pickup.day.year, pickup.day.month) {
        (..=2018, _) | (2019, ..=5) => 0.0,
        (2019, _) => 0.005,
        (2020, ..=3) => 0.011,
        (2020, _) => 0.08,
        (2021, _) => 0.05,
        _ => 0.033,
    }
}

fn random_rate(airport: Airport, random: &mut Random) -> u32 {
    match airport {
        Airport::Jfk if random.chance(0.75) => RATE_JFK,
        Airport::Newark => RATE_NEWARK,
        _ if random.chance(0.005) => RATE_NEGOTIATED,
        _ => RATE_STANDARD,
    }
}

/// 2.50 to start, then 0.50 for each fifth of a mile driven or minute waited, of which trips are a mix.
fn fare(rate_code: u32, distance: i32, seconds: i64, random: &mut Random) -> i32 {
    match rate_code {
        RATE_JFK => JFK_FLAT_FARE,
        RATE_NEGOTIATED => random.between(1_000, 12_000),
        _ => {
            let minutes = seconds.min(7_200) as f64 / 60.0;
            let units = (f64::from(distance) / 100.0 * 4.0 + minutes * 0.6).round() as i32;
            let to_newark = if rate_code == RATE_NEWARK { 1_750 } else { 0 };
            250 + 50 * units + to_newark
        }
    }
}

/// 0.50 at night, 1.00 in the evening rush of workdays; 4.50 in the rush to JFK.
fn extra(rate_code: u32, pickup: Pickup) -> i32 {
    let workday = (1..=5).contains(&pickup.day.weekday());
    match pickup.hour {
        16..=19 if workday && rate_code == RATE_JFK => 450,
        16..=19 if workday && rate_code == RATE_STANDARD => 100,
        20.. | ..6 if rate_code == RATE_STANDARD => 50,
        _ => 0,
    }
}

fn tolls(airport: Airport, random: &mut Random) -> i32 {
    let probability = match airport {
        Airport::None => 0.012,
        Airport::Jfk => 0.5,
        Airport::LaGuardia => 0.62,
        Airport::Newark => return random.between(1_000, 2_200),
    };
    if random.chance(probability) { BRIDGE_TOLL } else { 0 }
}

/// Due for trips that touch the centre, of which those to an airport do less often.
fn congestion(pickup: Pickup, by_app: bool, airport: Airport, random: &mut Random) -> Option<i32> {
    let due = random.chance(if airport == Airport::None { 0.95 } else { 0.75 });
    let recorded = (pickup.day.year, pickup.day.month) >= (2019, 2) && !by_app;
    recorded.then_some(if due { CONGESTION } else { 0 })
}

/// Due at the ranks of JFK and La Guardia.
fn airport_fee(pickup: Pickup, by_app: bool, pickup_zone: i64) -> Option<i32> {
    let due = matches!(pickup_zone, JFK | LA_GUARDIA);
    let recorded = (pickup.day.year, pickup.day.month) >= (2021, 4) && !by_app;
    recorded.then_some(if due { AIRPORT_FEE } else { 0 })
}
