//! The fact table: one row per line of an order.
//!
//! Two orders in a row have `k` and `8 - k` lines, `k` uniform in 1 to 7; a last order without a partner
//! has 4. So order `i` of an even index begins at row `4 * i`, and a batch is a range of whole pairs.
//!
//! Prices are those of TPC-H: a part's price follows from its key, `lo_extendedprice` is price times
//! quantity, `lo_revenue` takes the discount off, `lo_supplycost` is 60 % of the price, `lo_ordtotalprice`
//! adds up revenue plus tax over the order. The largest, 7 lines of 50 parts at 2,099.00, is below 2^27 cents.

use std::iter::repeat_n;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use tpchgen::distribution::Distributions;

use super::Sizes;
use super::date::date_keys;
use crate::part::{BATCH_ROWS, TableGenerator};
use crate::random::Random;
use crate::words::Words;

/// Lines per order, on average and over every pair.
pub(super) const LINES_PER_ORDER: u64 = 4;

const _: () = assert!(BATCH_ROWS.is_multiple_of(2 * LINES_PER_ORDER), "a batch holds whole pairs of orders");

/// Orders are placed on the first 2406 days: commit (90 days) and the longest TPC-H receipt (151) still fit.
const ORDER_DAYS: u32 = 2_557 - 151;
const COMMIT_DAYS: Range<u32> = 30..91;

pub(super) fn schema() -> SchemaRef {
    let int = |name| Field::new(name, DataType::Int32, false);
    let text = |name| Field::new(name, DataType::Utf8View, false);
    Arc::new(Schema::new(vec![
        Field::new("lo_orderkey", DataType::Int64, false),
        int("lo_linenumber"),
        int("lo_custkey"),
        int("lo_partkey"),
        int("lo_suppkey"),
        int("lo_orderdate"),
        text("lo_orderpriority"),
        text("lo_shippriority"),
        int("lo_quantity"),
        int("lo_extendedprice"),
        int("lo_ordtotalprice"),
        int("lo_discount"),
        int("lo_revenue"),
        int("lo_supplycost"),
        int("lo_tax"),
        int("lo_commitdate"),
        text("lo_shipmode"),
    ]))
}

pub(super) struct Lineorders {
    sizes: Sizes,
    date_keys: Vec<i32>,
    priorities: Words,
    ship_priorities: Words,
    ship_modes: Words,
}

impl Lineorders {
    pub(super) fn new(sizes: Sizes) -> Self {
        let vocabulary = Distributions::static_default();
        Self {
            sizes,
            date_keys: date_keys(),
            priorities: Words::new(vocabulary.order_priority().get_values()),
            ship_priorities: Words::new(["0"]),
            ship_modes: Words::new(vocabulary.ship_modes().get_values()),
        }
    }

    /// Appends one order of `line_count` lines.
    fn append_order(&self, columns: &mut Columns, order: u64, line_count: usize, random: &mut Random) {
        let order_day = random.below(ORDER_DAYS);
        let mut total_price = 0;
        for line_number in 1..=line_count {
            total_price += self.append_line(columns, line_number, order_day, random);
        }

        let customer = 1 + random.below(self.sizes.customers);
        columns.order_key.extend(repeat_n(order_key(order), line_count));
        columns.customer_key.extend(repeat_n(customer as i32, line_count));
        columns.order_date.extend(repeat_n(self.date_keys[order_day as usize], line_count));
        columns.priority.extend(repeat_n(random.below(self.priorities.len()), line_count));
        columns.total_price.extend(repeat_n(total_price, line_count));
    }

    /// Appends what differs between the lines of an order; returns what the line adds to its total.
    fn append_line(
        &self,
        columns: &mut Columns,
        line_number: usize,
        order_day: u32,
        random: &mut Random,
    ) -> i32 {
        let part = 1 + random.below(self.sizes.parts);
        let supplier = 1 + random.below(self.sizes.suppliers);
        let quantity = random.between(1, 50);
        let discount = random.between(0, 10);
        let tax = random.between(0, 8);
        let commit_day = order_day + COMMIT_DAYS.start + random.below(COMMIT_DAYS.len() as u32);

        let price = part_price(part);
        let extended_price = price * quantity;
        let revenue = extended_price * (100 - discount) / 100;

        columns.line_number.push(line_number as i32);
        columns.part_key.push(part as i32);
        columns.supplier_key.push(supplier as i32);
        columns.quantity.push(quantity);
        columns.extended_price.push(extended_price);
        columns.discount.push(discount);
        columns.revenue.push(revenue);
        columns.supply_cost.push(price * 6 / 10);
        columns.tax.push(tax);
        columns.commit_date.push(self.date_keys[commit_day as usize]);
        columns.ship_mode.push(random.below(self.ship_modes.len()));
        revenue * (100 + tax) / 100
    }
}

impl TableGenerator for Lineorders {
    fn batch(&self, rows: Range<u64>, random: &mut Random) -> RecordBatch {
        let row_count = (rows.end - rows.start) as usize;
        let mut columns = Columns::with_capacity(row_count);
        let mut partner_lines = 0;
        for order in rows.start / LINES_PER_ORDER..rows.end / LINES_PER_ORDER {
            let line_count = match order % 2 {
                0 if order + 1 == self.sizes.orders => LINES_PER_ORDER,
                0 => u64::from(1 + random.below(7)),
                _ => 2 * LINES_PER_ORDER - partner_lines,
            };
            partner_lines = line_count;
            self.append_order(&mut columns, order, line_count as usize, random);
        }
        assert_eq!(columns.line_number.len(), row_count, "pairs of orders fill the batch");
        columns.finish(self)
    }
}

/// The sparse order keys of TPC-H: the first 8 of every 32 numbers are used.
fn order_key(order: u64) -> i64 {
    let position = order as i64 + 1;
    position >> 3 << 5 | position & 7
}

/// The price of a part in cents (TPC-H 4.2.3): 900.00 to 2,099.00.
fn part_price(key: u32) -> i32 {
    (90_000 + key / 10 % 20_001 + key % 1_000 * 100) as i32
}

/// The columns of one batch while it fills; text as indices into its words.
struct Columns {
    order_key: Vec<i64>,
    line_number: Vec<i32>,
    customer_key: Vec<i32>,
    part_key: Vec<i32>,
    supplier_key: Vec<i32>,
    order_date: Vec<i32>,
    priority: Vec<u32>,
    quantity: Vec<i32>,
    extended_price: Vec<i32>,
    total_price: Vec<i32>,
    discount: Vec<i32>,
    revenue: Vec<i32>,
    supply_cost: Vec<i32>,
    tax: Vec<i32>,
    commit_date: Vec<i32>,
    ship_mode: Vec<u32>,
}

impl Columns {
    fn with_capacity(rows: usize) -> Self {
        Self {
            order_key: Vec::with_capacity(rows),
            line_number: Vec::with_capacity(rows),
            customer_key: Vec::with_capacity(rows),
            part_key: Vec::with_capacity(rows),
            supplier_key: Vec::with_capacity(rows),
            order_date: Vec::with_capacity(rows),
            priority: Vec::with_capacity(rows),
            quantity: Vec::with_capacity(rows),
            extended_price: Vec::with_capacity(rows),
            total_price: Vec::with_capacity(rows),
            discount: Vec::with_capacity(rows),
            revenue: Vec::with_capacity(rows),
            supply_cost: Vec::with_capacity(rows),
            tax: Vec::with_capacity(rows),
            commit_date: Vec::with_capacity(rows),
            ship_mode: Vec::with_capacity(rows),
        }
    }

    fn finish(self, words: &Lineorders) -> RecordBatch {
        let row_count = self.line_number.len();
        let int = |values: Vec<i32>| -> ArrayRef { Arc::new(Int32Array::from(values)) };
        let columns = vec![
            Arc::new(Int64Array::from(self.order_key)) as ArrayRef,
            int(self.line_number),
            int(self.customer_key),
            int(self.part_key),
            int(self.supplier_key),
            int(self.order_date),
            words.priorities.column(self.priority),
            words.ship_priorities.column(vec![0; row_count]),
            int(self.quantity),
            int(self.extended_price),
            int(self.total_price),
            int(self.discount),
            int(self.revenue),
            int(self.supply_cost),
            int(self.tax),
            int(self.commit_date),
            words.ship_modes.column(self.ship_mode),
        ];
        RecordBatch::try_new(schema(), columns).expect("the columns follow the schema")
    }
}
