//! SSB: sizes, value domains, references, and the filter factors of the 13 queries.

mod common;

use arrow::datatypes::DataType;
use common::{Table, spec};
use pelton_datagen::{Dataset, star_links};

const SCALE: f64 = 0.1;

fn table(name: &str) -> Table {
    Table::new(Dataset::Ssb, name, SCALE)
}

#[test]
fn sizes_follow_the_specification() {
    let expected: [(f64, [u64; 5]); 3] = [
        (0.1, [600_000, 3_000, 200, 20_000, 2_557]),
        (1.0, [6_000_000, 30_000, 2_000, 200_000, 2_557]),
        (10.0, [60_000_000, 300_000, 20_000, 800_000, 2_557]),
    ];
    for (scale, counts) in expected {
        for (name, count) in ["lineorder", "customer", "supplier", "part", "date"].into_iter().zip(counts) {
            assert_eq!(spec(Dataset::Ssb, name, scale).row_count, count, "{name} at scale {scale}");
        }
    }
}

#[test]
fn columns_are_those_of_the_paper() {
    let columns = |table| -> Vec<String> {
        let schema = spec(Dataset::Ssb, table, SCALE).schema;
        schema.fields().iter().map(|field| field.name().clone()).collect()
    };
    assert_eq!(
        columns("lineorder").join(" "),
        "lo_orderkey lo_linenumber lo_custkey lo_partkey lo_suppkey lo_orderdate lo_orderpriority \
         lo_shippriority lo_quantity lo_extendedprice lo_ordtotalprice lo_discount lo_revenue lo_supplycost \
         lo_tax lo_commitdate lo_shipmode"
    );
    assert_eq!(
        columns("customer").join(" "),
        "c_custkey c_name c_address c_city c_nation c_region c_phone c_mktsegment"
    );
    assert_eq!(columns("supplier").join(" "), "s_suppkey s_name s_address s_city s_nation s_region s_phone");
    assert_eq!(
        columns("part").join(" "),
        "p_partkey p_name p_mfgr p_category p_brand1 p_color p_type p_size p_container"
    );
    assert_eq!(columns("date").len(), 17);
    let schema = spec(Dataset::Ssb, "lineorder", SCALE).schema;
    assert_eq!(schema.field_with_name("lo_orderkey").unwrap().data_type(), &DataType::Int64);
    assert_eq!(schema.field_with_name("lo_revenue").unwrap().data_type(), &DataType::Int32);
    assert_eq!(schema.field_with_name("lo_shipmode").unwrap().data_type(), &DataType::Utf8View);
    assert!(schema.fields().iter().all(|field| !field.is_nullable()));
}

#[test]
fn measures_stay_in_their_domains() {
    let lines = table("lineorder");
    let bounds = [
        ("lo_orderkey", (1, 600_000)),
        ("lo_linenumber", (1, 7)),
        ("lo_quantity", (1, 50)),
        ("lo_discount", (0, 10)),
        ("lo_tax", (0, 8)),
        ("lo_orderdate", (19_920_101, 19_980_802)),
        ("lo_commitdate", (19_920_131, 19_981_031)),
    ];
    for (column, expected) in bounds {
        let (low, high) = lines.bounds(column);
        assert!(low >= expected.0 && high <= expected.1, "{column} is in {low}..={high}");
    }
    assert_eq!(lines.distinct_texts("lo_orderpriority").len(), 5);
    assert_eq!(lines.distinct_texts("lo_shipmode").len(), 7);
    assert_eq!(lines.distinct_texts("lo_shippriority"), ["0"]);
}

#[test]
fn prices_of_a_line_and_totals_of_an_order_add_up() {
    let lines = table("lineorder");
    let [price, quantity, discount, revenue, tax, cost, total, order, number] = [
        "lo_extendedprice",
        "lo_quantity",
        "lo_discount",
        "lo_revenue",
        "lo_tax",
        "lo_supplycost",
        "lo_ordtotalprice",
        "lo_orderkey",
        "lo_linenumber",
    ]
    .map(|column| lines.ints(column));
    let mut sum = 0;
    for row in 0..lines.len() {
        assert_eq!(revenue[row], price[row] * (100 - discount[row]) / 100);
        assert_eq!(cost[row], price[row] / quantity[row] * 6 / 10);
        sum = if number[row] == 1 { 0 } else { sum } + revenue[row] * (100 + tax[row]) / 100;
        if row + 1 == lines.len() || order[row + 1] != order[row] {
            assert_eq!(total[row], sum, "order {}", order[row]);
        }
    }
}

#[test]
fn an_order_has_1_to_7_lines_all_equally_often() {
    let lines = table("lineorder");
    let mut orders = [0; 8];
    for order in lines.ints("lo_orderkey").chunk_by(|a, b| a == b) {
        orders[order.len()] += 1;
    }
    assert_eq!(orders.iter().sum::<i32>(), 150_000);
    assert!(orders[1..].iter().all(|count| (count - 150_000 / 7).abs() < 700), "{orders:?}");
}

#[test]
fn every_reference_is_met() {
    let lines = table("lineorder");
    for link in star_links(Dataset::Ssb, "lineorder") {
        let mut keys = table(link.dimension_table).ints(link.dimension_key);
        keys.sort_unstable();
        assert!(keys.is_sorted_by(|a, b| a < b), "{} is unique", link.dimension_key);
        for value in lines.ints(link.fact_column) {
            assert!(keys.binary_search(&value).is_ok(), "{link:?} misses {value}");
        }
    }
    let dates = table("date").ints("d_datekey");
    assert!(lines.ints("lo_commitdate").iter().all(|date| dates.binary_search(date).is_ok()));
}

#[test]
fn hierarchies_nest() {
    let parts = table("part");
    let [mfgr, category, brand] = ["p_mfgr", "p_category", "p_brand1"].map(|column| parts.texts(column));
    for row in 0..parts.len() {
        assert!(category[row].starts_with(&mfgr[row]), "{} in {}", category[row], mfgr[row]);
        assert!(brand[row].starts_with(&category[row]), "{} in {}", brand[row], category[row]);
        assert_eq!(brand[row].len(), 9);
    }
    assert_eq!(parts.distinct_texts("p_mfgr").len(), 5);
    assert_eq!(parts.distinct_texts("p_category").len(), 25);
    assert_eq!(parts.distinct_texts("p_brand1").len(), 1000);
    assert_eq!(parts.distinct_texts("p_type").len(), 150);
    assert_eq!(parts.distinct_texts("p_container").len(), 40);
    assert_eq!(parts.bounds("p_size"), (1, 50));

    let customers = table("customer");
    let [city, nation, region] = ["c_city", "c_nation", "c_region"].map(|column| customers.texts(column));
    for row in 0..customers.len() {
        assert_eq!(city[row].len(), 10);
        assert_eq!(city[row][..9].trim_end(), &nation[row][..nation[row].len().min(9)]);
        assert!(city[row].as_bytes()[9].is_ascii_digit());
        assert_eq!(
            region[row] == "ASIA",
            ["CHINA", "INDIA", "INDONESIA", "JAPAN", "VIETNAM"].contains(&&*nation[row])
        );
    }
    assert_eq!(customers.distinct_texts("c_city").len(), 250);
    assert_eq!(customers.distinct_texts("c_region"), ["AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"]);
    assert_eq!(customers.texts("c_name")[41], "Customer#000000042");
}

#[test]
fn the_calendar_is_right_where_it_is_known() {
    let dates = table("date");
    let row = dates.ints("d_datekey").iter().position(|key| *key == 19_980_322).unwrap();
    assert_eq!(dates.texts("d_date")[row], "March 22, 1998");
    assert_eq!(dates.texts("d_dayofweek")[row], "Sunday");
    assert_eq!(dates.texts("d_yearmonth")[row], "Mar1998");
    assert_eq!(dates.ints("d_daynuminweek")[row], 1);
    assert_eq!(dates.ints("d_daynuminyear")[row], 81);
    assert_eq!(dates.ints("d_weeknuminyear")[row], 12);
    assert_eq!(dates.bounds("d_weeknuminyear"), (1, 53));
    assert_eq!(dates.bounds("d_datekey"), (19_920_101, 19_981_231));
    assert_eq!(dates.distinct_texts("d_sellingseason").len(), 5);
}

/// A query's predicates: the dimension values it takes and the share of the values that is. An empty
/// column takes everything.
struct Filter {
    column: &'static str,
    takes: fn(&str) -> bool,
    share: f64,
}

const ALL: Filter = Filter { column: "", takes: |_| true, share: 1.0 };

struct Case {
    name: &'static str,
    /// The selectivity that the paper gives, as its product.
    paper: f64,
    date: fn(&str, i64) -> bool,
    line: fn(i64, i64) -> bool,
    line_share: f64,
    customer: Filter,
    supplier: Filter,
    part: Filter,
}

const DEFAULT: Case = Case {
    name: "",
    paper: 1.0,
    date: |_, _| true,
    line: |_, _| true,
    line_share: 1.0,
    customer: ALL,
    supplier: ALL,
    part: ALL,
};

fn before_1998(month: &str, _week: i64) -> bool {
    !month.ends_with("1998")
}

fn since_1997(month: &str, _week: i64) -> bool {
    month.ends_with("1997") || month.ends_with("1998")
}

fn region(column: &'static str, takes: fn(&str) -> bool) -> Filter {
    Filter { column, takes, share: 1.0 / 5.0 }
}

fn nation(column: &'static str) -> Filter {
    Filter { column, takes: |nation| nation == "UNITED STATES", share: 1.0 / 25.0 }
}

fn cities(column: &'static str) -> Filter {
    Filter { column, takes: |city| city == "UNITED KI1" || city == "UNITED KI5", share: 1.0 / 125.0 }
}

fn cases() -> Vec<Case> {
    let america = |column| region(column, |name| name == "AMERICA");
    let asia = |column| region(column, |name| name == "ASIA");
    let mfgrs =
        || Filter { column: "p_mfgr", takes: |mfgr| mfgr == "MFGR#1" || mfgr == "MFGR#2", share: 2.0 / 5.0 };
    vec![
        Case {
            name: "Q1.1",
            paper: 1.0 / 7.0 * 3.0 / 11.0 * 0.5,
            date: |month, _| month.ends_with("1993"),
            line: |discount, quantity| (1..=3).contains(&discount) && quantity < 25,
            line_share: 3.0 / 11.0 * 24.0 / 50.0,
            ..DEFAULT
        },
        Case {
            name: "Q1.2",
            paper: 1.0 / 84.0 * 3.0 / 11.0 * 0.2,
            date: |month, _| month == "Jan1994",
            line: |discount, quantity| (4..=6).contains(&discount) && (26..=35).contains(&quantity),
            line_share: 3.0 / 11.0 * 0.2,
            ..DEFAULT
        },
        Case {
            name: "Q1.3",
            paper: 1.0 / 364.0 * 3.0 / 11.0 * 0.2,
            date: |month, week| month.ends_with("1994") && week == 6,
            line: |discount, quantity| (5..=7).contains(&discount) && (26..=35).contains(&quantity),
            line_share: 3.0 / 11.0 * 0.2,
            ..DEFAULT
        },
        Case {
            name: "Q2.1",
            paper: 1.0 / 125.0,
            part: Filter { column: "p_category", takes: |name| name == "MFGR#12", share: 1.0 / 25.0 },
            supplier: america("s_region"),
            ..DEFAULT
        },
        Case {
            name: "Q2.2",
            paper: 1.0 / 625.0,
            part: Filter {
                column: "p_brand1",
                takes: |brand| ("MFGR#2221"..="MFGR#2228").contains(&brand),
                share: 8.0 / 1000.0,
            },
            supplier: asia("s_region"),
            ..DEFAULT
        },
        Case {
            name: "Q2.3",
            paper: 1.0 / 5000.0,
            part: Filter { column: "p_brand1", takes: |brand| brand == "MFGR#2221", share: 1.0 / 1000.0 },
            supplier: region("s_region", |name| name == "EUROPE"),
            ..DEFAULT
        },
        Case {
            name: "Q3.1",
            paper: 6.0 / 175.0,
            date: before_1998,
            customer: asia("c_region"),
            supplier: asia("s_region"),
            ..DEFAULT
        },
        Case {
            name: "Q3.2",
            paper: 6.0 / 4375.0,
            date: before_1998,
            customer: nation("c_nation"),
            supplier: nation("s_nation"),
            ..DEFAULT
        },
        Case {
            name: "Q3.3",
            paper: 6.0 / 109_375.0,
            date: before_1998,
            customer: cities("c_city"),
            supplier: cities("s_city"),
            ..DEFAULT
        },
        Case {
            name: "Q3.4",
            paper: 1.0 / 1_312_500.0,
            date: |month, _| month == "Dec1997",
            customer: cities("c_city"),
            supplier: cities("s_city"),
            ..DEFAULT
        },
        Case {
            name: "Q4.1",
            paper: 2.0 / 125.0,
            customer: america("c_region"),
            supplier: america("s_region"),
            part: mfgrs(),
            ..DEFAULT
        },
        Case {
            name: "Q4.2",
            paper: 4.0 / 875.0,
            date: since_1997,
            customer: america("c_region"),
            supplier: america("s_region"),
            part: mfgrs(),
            ..DEFAULT
        },
        Case {
            name: "Q4.3",
            paper: 2.0 / 21_875.0,
            date: since_1997,
            customer: america("c_region"),
            supplier: nation("s_nation"),
            part: Filter { column: "p_category", takes: |name| name == "MFGR#14", share: 1.0 / 25.0 },
            ..DEFAULT
        },
    ]
}

/// Which rows of a dimension a filter takes; their number must be what chance allows.
fn taken(dimension: &Table, filter: &Filter) -> Vec<bool> {
    if filter.column.is_empty() {
        return vec![true; dimension.len()];
    }
    let taken: Vec<bool> = dimension.texts(filter.column).iter().map(|text| (filter.takes)(text)).collect();
    let expected = dimension.len() as f64 * filter.share;
    let deviation = (count(&taken) - expected).abs();
    assert!(deviation < 5.0 * expected.sqrt(), "{} takes {} of {expected}", filter.column, count(&taken));
    taken
}

fn count(taken: &[bool]) -> f64 {
    taken.iter().filter(|taken| **taken).count() as f64
}

fn share(taken: &[bool]) -> f64 {
    count(taken) / taken.len() as f64
}

/// Days on which orders are placed, of the 2557 of the calendar.
const ORDER_DAYS: usize = 2406;

/// Three comparisons per query: dimension rows with their nominal share (in [`taken`]), fact rows with the
/// product of the shares taken, and the nominal product with the paper's. Order dates end in August 1998,
/// which moves the shares of years by up to 16 % against the paper.
#[test]
fn filter_factors_are_those_of_the_paper() {
    let [lines, customers, suppliers, parts, dates] =
        ["lineorder", "customer", "supplier", "part", "date"].map(table);
    let [customer, supplier, part, order_date, discount, quantity] =
        ["lo_custkey", "lo_suppkey", "lo_partkey", "lo_orderdate", "lo_discount", "lo_quantity"]
            .map(|column| lines.ints(column));
    let day_keys = dates.ints("d_datekey");
    let day: Vec<usize> = order_date.iter().map(|key| day_keys.binary_search(key).unwrap()).collect();

    for case in cases() {
        let months = dates.texts("d_yearmonth");
        let weeks = dates.ints("d_weeknuminyear");
        let days: Vec<bool> =
            months.iter().zip(&weeks).map(|(month, week)| (case.date)(month, *week)).collect();
        let [of_customers, of_suppliers, of_parts] =
            [(&customers, &case.customer), (&suppliers, &case.supplier), (&parts, &case.part)]
                .map(|(dimension, filter)| taken(dimension, filter));
        let row_count = (0..lines.len())
            .filter(|row| days[day[*row]] && (case.line)(discount[*row], quantity[*row]))
            .filter(|row| of_customers[customer[*row] as usize - 1])
            .filter(|row| of_suppliers[supplier[*row] as usize - 1])
            .filter(|row| of_parts[part[*row] as usize - 1])
            .count() as f64;

        let of_days = share(&days[..ORDER_DAYS]);
        let dimensions = share(&of_customers) * share(&of_suppliers) * share(&of_parts);
        let expected = lines.len() as f64 * of_days * case.line_share * dimensions;
        // The lines of an order share date and customer, five lines to a line on average.
        let allowed = 5.0 * (5.0 * expected).sqrt() + 1.0;
        assert!((row_count - expected).abs() < allowed, "{}: {row_count} rows of {expected}", case.name);

        let nominal = of_days * case.line_share * case.customer.share * case.supplier.share * case.part.share;
        assert!((nominal / case.paper - 1.0).abs() < 0.17, "{}: {nominal} of {}", case.name, case.paper);
    }
}
