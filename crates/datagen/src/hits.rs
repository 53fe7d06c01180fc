//! Page views in the shape of ClickBench's table `hits`: 100 million per scale unit, July 2013.
//!
//! ```text
//!   row ──▶ site and day ──▶ visits of users ──▶ page views ──▶ 105 columns
//!           sites.rs         visits.rs, users.rs  visits.rs      columns.rs, texts.rs
//! ```
//!
//! Names and types of the columns are those of ClickBench. The rows are not: the real ones are those of a web
//! analytics service, made unreadable, and cannot be generated. What is kept is what its 43 queries work on:
//!
//! - Few sites, users, regions, pages and phrases take most rows, and there are many of each.
//! - Rows lie in order of site and day, and within these of the user, as the real table is stored.
//! - One search phrase in eight is not empty; titles and phrases are Cyrillic, addresses are long and ASCII.
//! - The constants that the queries look for occur. Site 62 takes a tenth of the rows (in the real table less
//!   than a hundredth), so that the queries of one site have work on small tables too.
//!
//! What follows from a value is the same wherever the value occurs: all page views of a user have its region
//! and its screen, and one page has one address, one title and one hash.

mod columns;
mod row;
mod sites;
mod texts;
mod users;
mod visits;

use std::ops::Range;

use arrow::array::RecordBatch;

use crate::part::{Part, PartBatches, TableGenerator};
use crate::random::Random;
use crate::{TableSpec, scaled};
use sites::Sites;
use visits::{Views, Visits};

pub(crate) const NAMES: [&str; 1] = ["hits"];

const ROWS_PER_SCALE: u32 = 100_000_000;

pub(crate) fn tables(scale: f64) -> Vec<TableSpec> {
    let row_count = scaled(ROWS_PER_SCALE, scale);
    vec![TableSpec { name: NAMES[0], schema: columns::schema(), row_count }]
}

/// The scale at which there are `rows` rows.
pub(crate) fn scale(rows: u64) -> f64 {
    rows as f64 / f64::from(ROWS_PER_SCALE)
}

/// Streams one part of the page views.
pub(crate) fn batches(scale: f64, part: Part, seed: u64) -> Box<dyn Iterator<Item = RecordBatch> + Send> {
    let row_count = scaled(ROWS_PER_SCALE, scale);
    let table = HitTable { sites: Sites::new(row_count), visits: Visits::new(row_count) };
    Box::new(PartBatches::new(table, NAMES[0], row_count, part, seed))
}

struct HitTable {
    sites: Sites,
    visits: Visits,
}

impl TableGenerator for HitTable {
    fn batch(&self, rows: Range<u64>, random: &mut Random) -> RecordBatch {
        let mut views = Views::with_capacity((rows.end - rows.start) as usize);
        for stretch in self.sites.stretches(rows) {
            self.visits.fill(&mut views, &stretch, random);
        }
        columns::batch(&views, &self.sites)
    }
}
