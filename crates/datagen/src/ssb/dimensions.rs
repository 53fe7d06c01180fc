//! The customer, supplier and part dimensions.
//!
//! ```text
//!   region (5) ── nation (25) ── city (250)             city: nation in 9 characters and a digit
//!   mfgr (5) ── category (25) ── brand1 (1000)          MFGR#1, MFGR#12, MFGR#1207
//! ```
//!
//! A row draws the finest level; the coarser ones follow from its index.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use tpchgen::distribution::Distributions;

use crate::part::TableGenerator;
use crate::random::Random;
use crate::words::{TextColumn, Words};

/// What addresses are written with, as in TPC-H.
const ADDRESS_LETTERS: &[u8; 64] = b"0123456789abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ,";

const CITIES_PER_NATION: u32 = 10;
const BRANDS_PER_CATEGORY: u32 = 40;
const CATEGORIES_PER_MFGR: u32 = 5;
const BRANDS: u32 = 5 * CATEGORIES_PER_MFGR * BRANDS_PER_CATEGORY;

pub(super) fn customer_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("c_custkey", DataType::Int32, false),
        text("c_name"),
        text("c_address"),
        text("c_city"),
        text("c_nation"),
        text("c_region"),
        text("c_phone"),
        text("c_mktsegment"),
    ]))
}

pub(super) fn supplier_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("s_suppkey", DataType::Int32, false),
        text("s_name"),
        text("s_address"),
        text("s_city"),
        text("s_nation"),
        text("s_region"),
        text("s_phone"),
    ]))
}

pub(super) fn part_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("p_partkey", DataType::Int32, false),
        text("p_name"),
        text("p_mfgr"),
        text("p_category"),
        text("p_brand1"),
        text("p_color"),
        text("p_type"),
        Field::new("p_size", DataType::Int32, false),
        text("p_container"),
    ]))
}

fn text(name: &str) -> Field {
    Field::new(name, DataType::Utf8View, false)
}

/// The keys of these rows: 1, 2, 3, ...
fn keys(rows: &Range<u64>) -> ArrayRef {
    Arc::new(Int32Array::from_iter_values(rows.clone().map(|row| row as i32 + 1)))
}

/// The places where customers and suppliers live.
struct Places {
    cities: Words,
    nations: Words,
    regions: Words,
    region_of_nation: Vec<u32>,
}

impl Places {
    fn new() -> Self {
        let vocabulary = Distributions::static_default();
        let nations = vocabulary.nations();
        let names = nations.get_values();
        let city = |name: &&str, digit| format!("{name:9.9}{digit}");
        Self {
            cities: Words::new(
                names.iter().flat_map(|name| (0..CITIES_PER_NATION).map(move |digit| city(name, digit))),
            ),
            nations: Words::new(names),
            regions: Words::new(vocabulary.regions().get_values()),
            // The cumulative weight of a nation is the number of its region.
            region_of_nation: (0..names.len()).map(|index| nations.get_weight(index) as u32).collect(),
        }
    }

    /// Name, address, city, nation, region and phone of these rows.
    fn columns(&self, rows: &Range<u64>, title: &str, random: &mut Random) -> Vec<ArrayRef> {
        let row_count = (rows.end - rows.start) as usize;
        let mut name = TextColumn::with_capacity(row_count);
        let mut address = TextColumn::with_capacity(row_count);
        let mut phone = TextColumn::with_capacity(row_count);
        let mut city = Vec::with_capacity(row_count);
        for row in rows.clone() {
            let place = random.below(self.cities.len());
            city.push(place);
            name.push(format_args!("{title}#{:09}", row + 1));
            address.push(format_args!("{}", random_address(random)));
            phone.push(format_args!(
                "{}-{}-{}-{}",
                10 + place / CITIES_PER_NATION,
                random.between(100, 999),
                random.between(100, 999),
                random.between(1000, 9999)
            ));
        }
        let nation: Vec<u32> = city.iter().map(|city| city / CITIES_PER_NATION).collect();
        let region: Vec<u32> = nation.iter().map(|nation| self.region_of_nation[*nation as usize]).collect();
        vec![
            name.finish(),
            address.finish(),
            self.cities.column(city),
            self.nations.column(nation),
            self.regions.column(region),
            phone.finish(),
        ]
    }
}

/// 6 to 24 letters, 15 on average.
fn random_address(random: &mut Random) -> String {
    let length = random.between(6, 24);
    (0..length).map(|_| char::from(ADDRESS_LETTERS[random.below(64) as usize])).collect()
}

pub(super) struct Customers {
    places: Places,
    segments: Words,
}

impl Customers {
    pub(super) fn new() -> Self {
        let segments = Distributions::static_default().market_segments();
        Self { places: Places::new(), segments: Words::new(segments.get_values()) }
    }
}

impl TableGenerator for Customers {
    fn batch(&self, rows: Range<u64>, random: &mut Random) -> RecordBatch {
        let mut columns = vec![keys(&rows)];
        columns.extend(self.places.columns(&rows, "Customer", random));
        let segments: Vec<u32> = rows.map(|_| random.below(self.segments.len())).collect();
        columns.push(self.segments.column(segments));
        RecordBatch::try_new(customer_schema(), columns).expect("the columns follow the schema")
    }
}

pub(super) struct Suppliers {
    places: Places,
}

impl Suppliers {
    pub(super) fn new() -> Self {
        Self { places: Places::new() }
    }
}

impl TableGenerator for Suppliers {
    fn batch(&self, rows: Range<u64>, random: &mut Random) -> RecordBatch {
        let mut columns = vec![keys(&rows)];
        columns.extend(self.places.columns(&rows, "Supplier", random));
        RecordBatch::try_new(supplier_schema(), columns).expect("the columns follow the schema")
    }
}

pub(super) struct Parts {
    mfgrs: Words,
    categories: Words,
    brands: Words,
    colors: Words,
    types: Words,
    containers: Words,
}

impl Parts {
    pub(super) fn new() -> Self {
        let vocabulary = Distributions::static_default();
        let mfgr = |index: u32| format!("MFGR#{}", index + 1);
        let category = move |index: u32| {
            format!("{}{}", mfgr(index / CATEGORIES_PER_MFGR), index % CATEGORIES_PER_MFGR + 1)
        };
        let brand = move |index: u32| {
            format!("{}{:02}", category(index / BRANDS_PER_CATEGORY), index % BRANDS_PER_CATEGORY + 1)
        };
        Self {
            mfgrs: Words::new((0..5).map(mfgr)),
            categories: Words::new((0..5 * CATEGORIES_PER_MFGR).map(category)),
            brands: Words::new((0..BRANDS).map(brand)),
            colors: Words::new(vocabulary.part_colors().get_values()),
            types: Words::new(vocabulary.part_types().get_values()),
            containers: Words::new(vocabulary.part_containers().get_values()),
        }
    }

    /// Three different colors: the first is the part's color, the others are its name.
    fn random_colors(&self, random: &mut Random) -> [u32; 3] {
        loop {
            let [a, b, c] = std::array::from_fn(|_| random.below(self.colors.len()));
            if a != b && b != c && a != c {
                return [a, b, c];
            }
        }
    }
}

impl TableGenerator for Parts {
    fn batch(&self, rows: Range<u64>, random: &mut Random) -> RecordBatch {
        let row_count = (rows.end - rows.start) as usize;
        let mut name = TextColumn::with_capacity(row_count);
        let mut draw = |bound: u32| -> Vec<u32> { (0..row_count).map(|_| random.below(bound)).collect() };
        let brand = draw(BRANDS);
        let (types, containers, size) = (draw(self.types.len()), draw(self.containers.len()), draw(50));
        let mut color = Vec::with_capacity(row_count);
        for _ in rows.clone() {
            let [first, second, third] = self.random_colors(random);
            color.push(first);
            name.push(format_args!("{} {}", self.colors.word(second), self.colors.word(third)));
        }
        let category: Vec<u32> = brand.iter().map(|brand| brand / BRANDS_PER_CATEGORY).collect();
        let mfgr: Vec<u32> = category.iter().map(|category| category / CATEGORIES_PER_MFGR).collect();
        let columns = vec![
            keys(&rows),
            name.finish(),
            self.mfgrs.column(mfgr),
            self.categories.column(category),
            self.brands.column(brand),
            self.colors.column(color),
            self.types.column(types),
            Arc::new(Int32Array::from_iter_values(size.into_iter().map(|size| size as i32 + 1))),
            self.containers.column(containers),
        ];
        RecordBatch::try_new(part_schema(), columns).expect("the columns follow the schema")
    }
}
