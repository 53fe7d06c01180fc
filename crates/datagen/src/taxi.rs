//! Taxi trips in the shape of the NYC yellow-taxi trip records: 10 million per scale unit, 2018 to 2022.
//!
//! ```text
//!   row ──▶ pickup time ──▶ zones ──▶ distance ──▶ duration ──▶ fare ──▶ surcharges, tolls ──▶ tip, total
//!           arrivals.rs     zones.rs  └───────────────────────── trip.rs ─────────────────────────┘
//! ```
//!
//! Column names, types and NULLs are those of the Parquet files of the Taxi and Limousine Commission: numbers
//! that can be missing are doubles, money is dollars in doubles, times are local without a zone. Rows are in
//! order of `tpep_pickup_datetime`. The 282 million trips of those five years are thinned to the scale, so
//! one scale unit has the months, the collapse of 2020 and the surcharges of all of them.
//!
//! What is kept are the marginals and the dependences that a compressor or a zone map sees: skewed zones,
//! log-normal distances, fares that follow distance and time, tips that follow payment and fare, a few
//! refunds, and clock faults. The figures are rounded from the published records; they are not a fit.

mod arrivals;
mod trip;
mod zones;

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, TimestampMicrosecondArray, UInt32Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};

use crate::part::{Part, PartBatches, TableGenerator};
use crate::random::Random;
use crate::words::Words;
use crate::{TableSpec, scaled};
use arrivals::Arrivals;
use trip::{Trip, Trips};

pub(crate) const NAMES: [&str; 1] = ["trips"];

const TRIPS_PER_SCALE: u32 = 10_000_000;
const MICROSECONDS: i64 = 1_000_000;

pub(crate) fn tables(scale: f64) -> Vec<TableSpec> {
    vec![TableSpec { name: NAMES[0], schema: schema(), row_count: scaled(TRIPS_PER_SCALE, scale) }]
}

/// Streams one part of the trips.
pub(crate) fn batches(scale: f64, part: Part, seed: u64) -> Box<dyn Iterator<Item = RecordBatch> + Send> {
    let row_count = scaled(TRIPS_PER_SCALE, scale);
    Box::new(PartBatches::new(TripTable::new(row_count), NAMES[0], row_count, part, seed))
}

fn schema() -> SchemaRef {
    let int = |name| Field::new(name, DataType::Int64, false);
    let double = |name| Field::new(name, DataType::Float64, false);
    let optional = |name| Field::new(name, DataType::Float64, true);
    let time = |name| Field::new(name, DataType::Timestamp(TimeUnit::Microsecond, None), false);
    Arc::new(Schema::new(vec![
        int("VendorID"),
        time("tpep_pickup_datetime"),
        time("tpep_dropoff_datetime"),
        optional("passenger_count"),
        double("trip_distance"),
        optional("RatecodeID"),
        Field::new("store_and_fwd_flag", DataType::Utf8View, true),
        int("PULocationID"),
        int("DOLocationID"),
        int("payment_type"),
        double("fare_amount"),
        double("extra"),
        double("mta_tax"),
        double("tip_amount"),
        double("tolls_amount"),
        double("improvement_surcharge"),
        double("total_amount"),
        optional("congestion_surcharge"),
        optional("airport_fee"),
    ]))
}

struct TripTable {
    row_count: u64,
    arrivals: Arrivals,
    trips: Trips,
    flags: Words,
}

impl TripTable {
    fn new(row_count: u64) -> Self {
        Self { row_count, arrivals: Arrivals::new(), trips: Trips::new(), flags: Words::new(["N", "Y"]) }
    }
}

impl TableGenerator for TripTable {
    fn batch(&self, rows: Range<u64>, random: &mut Random) -> RecordBatch {
        let mut hour = self.arrivals.hour_of(rows.start as f64 / self.row_count as f64);
        let trips: Vec<Trip> = rows
            .map(|row| {
                let share = (row as f64 + random.unit()) / self.row_count as f64;
                let pickup = self.arrivals.advance(&mut hour, share);
                self.trips.draw(pickup, random)
            })
            .collect();
        to_batch(&self.flags, &trips)
    }
}

fn to_batch(words: &Words, trips: &[Trip]) -> RecordBatch {
    let int = |value: fn(&Trip) -> i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(trips.iter().map(value)))
    };
    let time = |value: fn(&Trip) -> i64| -> ArrayRef {
        let micros = trips.iter().map(|trip| value(trip) * MICROSECONDS);
        Arc::new(TimestampMicrosecondArray::from_iter_values(micros))
    };
    let hundredths = |value: fn(&Trip) -> i32| -> ArrayRef {
        let doubles = trips.iter().map(|trip| f64::from(value(trip)) / 100.0);
        Arc::new(Float64Array::from_iter_values(doubles))
    };
    let optional = |value: fn(&Trip) -> Option<f64>| -> ArrayRef {
        Arc::new(trips.iter().map(value).collect::<Float64Array>())
    };
    let flags: UInt32Array =
        trips.iter().map(|trip| trip.meter.map(|meter| u32::from(meter.stored))).collect();
    let columns = vec![
        int(|trip| trip.vendor),
        time(|trip| trip.pickup),
        time(|trip| trip.dropoff),
        optional(|trip| trip.meter.map(|meter| f64::from(meter.passengers))),
        hundredths(|trip| trip.distance),
        optional(|trip| trip.meter.map(|meter| f64::from(meter.rate_code))),
        words.column(flags),
        int(|trip| trip.pickup_zone),
        int(|trip| trip.dropoff_zone),
        int(|trip| trip.payment),
        hundredths(|trip| trip.fare),
        hundredths(|trip| trip.extra),
        hundredths(|trip| trip.mta_tax),
        hundredths(|trip| trip.tip),
        hundredths(|trip| trip.tolls),
        hundredths(|trip| trip.improvement),
        hundredths(|trip| trip.total),
        optional(|trip| trip.congestion.map(|cents| f64::from(cents) / 100.0)),
        optional(|trip| trip.airport.map(|cents| f64::from(cents) / 100.0)),
    ];
    RecordBatch::try_new(schema(), columns).expect("the columns follow the schema")
}
