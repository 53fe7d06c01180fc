//! Queries of several stages, from their scans to their last rows on the device: what one stage makes, the next reads
//! there.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use datafusion::physical_plan::displayable;

use crate::common::{Tables, run};
use crate::{assert_same_rows, device_nodes, fallbacks, on_host};

const CUSTOMERS: i64 = 5000;

/// Customers, whose names repeat nowhere and have no dictionary, and their orders.
fn tables() -> Tables {
    let tables = Tables::new();
    let ids = 0..CUSTOMERS;
    let hash = |n: i64| (n.wrapping_mul(2_654_435_761) >> 7).rem_euclid(1 << 30);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from_iter_values(ids.clone()))),
        ("area", Arc::new(ids.clone().map(|id| (id % 13 != 0).then_some(id % 50)).collect::<Int64Array>())),
        (
            "name",
            Arc::new(
                ids.clone()
                    .map(|id| Some(format!("{:x}-{id}-{:x}", hash(id), hash(id + 9))))
                    .collect::<StringArray>(),
            ),
        ),
        (
            "note",
            Arc::new(
                ids.clone()
                    .map(|id| (id % 5 != 0).then(|| format!("{:x} {:x}", hash(id * 7), hash(id * 3))))
                    .collect::<StringArray>(),
            ),
        ),
    ];
    tables.add(
        "customer",
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true))).unwrap(),
        2000,
        vec![],
    );
    let orders = 0..20_000_i64;
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("order_id", Arc::new(Int64Array::from_iter_values(orders.clone()))),
        // Some customers have no order, some orders no customer.
        (
            "customer",
            Arc::new(orders.clone().map(|o| (o % 17 != 0).then_some(hash(o) % 6000)).collect::<Int64Array>()),
        ),
        ("amount", Arc::new(Int64Array::from_iter_values(orders.clone().map(|o| hash(o * 31) % 1000)))),
        (
            "big",
            Arc::new(Int64Array::from_iter_values(
                orders.clone().map(|o| (o % 700) * 13_000_000_000_000_000 - 4_000_000_000_000_000_000),
            )),
        ),
        (
            "ratio",
            Arc::new(Float64Array::from_iter_values(
                orders.map(|o| [0.0, -0.0, f64::NAN, 1.5][o as usize % 4]),
            )),
        ),
    ];
    tables.add(
        "orders",
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true))).unwrap(),
        3000,
        vec![],
    );
    tables
}

/// Queries that run as one node without host inputs.
const WHOLE: [&str; 21] = [
    // Groups, filtered, and their groups.
    "SELECT n, count(*) FROM (SELECT customer, count(*) n FROM orders GROUP BY customer) WHERE n > 2 GROUP BY n",
    "SELECT area, count(*), sum(total), max(total), count(mean) FROM customer JOIN (SELECT customer, sum(amount) total, \
     avg(amount) mean FROM orders GROUP BY customer HAVING count(*) > 1) ON id = customer GROUP BY area",
    // Groups as the side that builds, beside the rows that they are of.
    "SELECT sum(o.amount) FROM orders o JOIN (SELECT customer c, avg(amount) a FROM orders GROUP BY customer) \
     ON o.customer = c WHERE o.amount < 0.5 * a",
    // Keys that one number does not hold.
    "SELECT big, order_id / 1000, customer, count(*), min(amount) FROM orders GROUP BY 1, 2, 3",
    "SELECT ratio, big, customer, count(*) FROM orders GROUP BY ratio, big, customer",
    "SELECT ratio, count(*) FROM orders GROUP BY ratio",
    // Distinct rows.
    "SELECT DISTINCT big, customer FROM orders WHERE amount > 500",
    // Semi and anti joins with a further condition.
    "SELECT count(*), sum(o.amount) FROM orders o WHERE EXISTS (SELECT 1 FROM orders p WHERE p.customer = o.customer \
     AND p.amount > o.amount)",
    "SELECT count(*), sum(o.amount) FROM orders o WHERE NOT EXISTS (SELECT 1 FROM orders p WHERE p.customer = o.customer \
     AND p.order_id <> o.order_id AND p.amount >= o.amount)",
    "SELECT count(*) FROM customer WHERE NOT EXISTS (SELECT 1 FROM orders WHERE customer = id AND amount > area)",
    // Which the least or greatest value of a key decides, also where values or keys are NULL.
    "SELECT count(*), sum(id) FROM customer WHERE EXISTS (SELECT 1 FROM orders WHERE customer = id AND area <> amount)",
    "SELECT count(*), sum(id) FROM customer WHERE NOT EXISTS (SELECT 1 FROM orders WHERE customer = id AND amount <= area * 9)",
    "SELECT count(*), sum(id) FROM customer WHERE EXISTS (SELECT 1 FROM orders WHERE customer = id AND area + id < amount)",
    "SELECT count(*), sum(o.amount) FROM orders o WHERE NOT EXISTS (SELECT 1 FROM orders p WHERE p.customer = o.customer \
     AND o.big >= p.big)",
    "SELECT count(*), sum(o.amount) FROM orders o WHERE EXISTS (SELECT 1 FROM orders p WHERE p.customer = o.customer \
     AND p.big <> o.big)",
    // Texts that are only handed on, also where there is no row, and where they are NULL.
    "SELECT name, note, amount FROM orders JOIN customer ON customer = id WHERE amount > 990",
    "SELECT order_id, name, note FROM orders LEFT JOIN customer ON customer = id WHERE amount > 990",
    "SELECT id, name, note, sum(amount) FROM orders JOIN customer ON customer = id WHERE amount > 900 GROUP BY id, name, note",
    "SELECT name, total FROM customer JOIN (SELECT customer c, sum(amount) total FROM orders GROUP BY customer) ON id = c \
     WHERE total > 6000",
    // Several keys of several tables, texts among them.
    "SELECT o.order_id, c.id, c.note, sum(p.amount) FROM orders o JOIN customer c ON o.customer = c.id JOIN orders p \
     ON p.order_id = o.order_id WHERE o.amount > 950 GROUP BY o.order_id, c.id, c.note",
    // No rows at all.
    "SELECT max(n), count(*) FROM (SELECT customer, count(*) n FROM orders WHERE amount > 5000 GROUP BY customer)",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stages_read_what_earlier_ones_made_on_the_device() {
    let tables = tables();
    let session = tables.session(&on_host());
    for sql in WHOLE {
        let (actual, query) = run(&session, sql).await;
        assert_same_rows(&actual, &tables.expected(sql).await, sql);
        assert_eq!(fallbacks(&query), Vec::<String>::new(), "{sql}");
        let plan = displayable(query.physical_plan().as_ref()).indent(false).to_string();
        let nodes = device_nodes(&query);
        assert!(nodes.len() == 1 && nodes[0].children().is_empty(), "{sql}: {plan}");
        for on_cpu in ["AggregateExec", "JoinExec", "FilterExec", "PeltonScanExec"] {
            assert!(!plan.contains(on_cpu), "{sql}: {plan}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_value_of_a_scalar_subquery_is_a_parameter() {
    let tables = tables();
    let session = tables.session(&on_host());
    let queries = [
        "SELECT count(*) FROM orders WHERE amount > (SELECT avg(amount) FROM orders)",
        "SELECT customer, sum(amount) FROM orders GROUP BY customer HAVING sum(amount) > \
         (SELECT max(s) * 0.9 FROM (SELECT sum(amount) s FROM orders GROUP BY customer))",
        // NULL: nothing is greater.
        "SELECT count(*) FROM orders WHERE amount > (SELECT max(amount) FROM orders WHERE amount > 5000)",
        "SELECT count(*), (SELECT max(area) FROM customer) FROM orders WHERE customer < (SELECT min(id) + 9 FROM customer)",
    ];
    for sql in queries {
        // A second run has a subquery of its own.
        for _ in 0..2 {
            let (actual, query) = run(&session, sql).await;
            assert_same_rows(&actual, &tables.expected(sql).await, sql);
            assert_eq!(fallbacks(&query), Vec::<String>::new(), "{sql}");
            assert!(!device_nodes(&query).is_empty(), "{sql}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn texts_of_which_more_is_asked_come_from_the_cpu() {
    let tables = tables();
    let session = tables.session(&on_host());
    let queries = [
        // Orders, of which there are none, may build: then nothing determines the row of a customer.
        "SELECT id, name, sum(amount) FROM orders JOIN customer ON customer = id WHERE amount > 5000 GROUP BY id, name",
        // No row group is left.
        "SELECT name, note, amount FROM orders JOIN customer ON customer = id WHERE amount > 5000",
        "SELECT id, name FROM customer WHERE name LIKE '%7%' AND id > 1000000 AND area > 3",
        "SELECT upper(name), amount FROM orders JOIN customer ON customer = id WHERE amount > 990",
        "SELECT count(note), count(*) FROM orders JOIN customer ON customer = id",
        "SELECT id, note IS NULL FROM orders JOIN customer ON customer = id WHERE amount > 990",
        "SELECT note, count(*) FROM orders JOIN customer ON customer = id WHERE amount > 900 GROUP BY note",
        "SELECT area, note, count(*) FROM orders JOIN customer ON customer = id WHERE amount > 900 GROUP BY area, note",
        "SELECT name, amount FROM orders JOIN customer ON customer = id ORDER BY name, amount LIMIT 20",
        "SELECT max(name), min(note) FROM orders JOIN customer ON customer = id",
        "SELECT name || note, amount FROM orders JOIN customer ON customer = id WHERE amount > 990",
        // Of a text of the side that builds, together with a value of the other.
        "SELECT count(*), sum(amount) FROM orders WHERE EXISTS (SELECT 1 FROM customer WHERE customer = id \
         AND (note LIKE '%a%' OR amount > area * 15))",
        "SELECT count(*), sum(amount) FROM orders WHERE NOT EXISTS (SELECT 1 FROM customer WHERE customer = id \
         AND (note LIKE '%a%' OR amount > area * 15))",
        "SELECT count(*) FROM orders JOIN customer ON customer = id AND (name LIKE '%7%' OR amount > area * 15)",
    ];
    for sql in queries {
        let (actual, _) = run(&session, sql).await;
        assert_same_rows(&actual, &tables.expected(sql).await, sql);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_text_is_no_key_by_its_row_where_what_determines_it_repeats() {
    let tables = tables();
    // Two rows of each id: of one id there are two notes, some of them equal.
    let ids = (0..CUSTOMERS).chain(0..CUSTOMERS);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("pair_id", Arc::new(Int64Array::from_iter_values(ids.clone()))),
        (
            "pair_note",
            Arc::new(
                ids.enumerate()
                    .map(|(row, id)| {
                        Some(format!("{:x}{id}", if id % 3 == 0 { id } else { row as i64 } * 7919))
                    })
                    .collect::<StringArray>(),
            ),
        ),
    ];
    tables.add(
        "pair",
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true))).unwrap(),
        3000,
        vec![],
    );
    let session = tables.session(&on_host());
    let sql = "SELECT pair_id, pair_note, count(*), sum(amount) FROM orders JOIN pair ON customer = pair_id \
               GROUP BY pair_id, pair_note";
    let (actual, _) = run(&session, sql).await;
    assert_same_rows(&actual, &tables.expected(sql).await, sql);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_that_is_relied_on_is_restored() {
    let tables = tables();
    let session = tables.session(&on_host());
    let queries = [
        "SELECT id, name, total FROM customer JOIN (SELECT customer c, sum(amount) total FROM orders GROUP BY customer) \
         ON id = c WHERE total > 5500 ORDER BY id",
        "SELECT id, name, total FROM customer JOIN (SELECT customer c, sum(amount) total FROM orders GROUP BY customer) \
         ON id = c ORDER BY total DESC, id LIMIT 12",
        "SELECT area, count(*) FROM customer GROUP BY area ORDER BY area DESC NULLS LAST LIMIT 7 OFFSET 2",
    ];
    for sql in queries {
        let (actual, query) = run(&session, sql).await;
        let expected = tables.expected(sql).await;
        let rows = |drawn: &str| {
            drawn.lines().filter(|line| line.starts_with('|')).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(rows(&actual), rows(&expected), "{sql}");
        assert_eq!(device_nodes(&query).len(), 1, "{sql}");
    }
}
