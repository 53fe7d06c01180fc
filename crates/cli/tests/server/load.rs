//! Many clients at once on a server with little memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::harness::{Place, ROWS, rows, runtime};

const CLIENTS: usize = 20;
const QUERIES_EACH: usize = 10;
/// For all queries together, four of which run at once.
const MEMORY_LIMIT: u64 = 96 << 20;
/// What the process holds beside the memory of operators, generously: itself, batches on their way to clients and
/// in scans, what the allocator keeps.
const BESIDE: u64 = 350 << 20;

/// The queries, each with what it must answer.
fn expected() -> BTreeMap<&'static str, Vec<String>> {
    let groups = (0..100).map(|g| {
        let sum: u64 = (0..ROWS).filter(|k| k % 100 == g).sum();
        format!("{g},{},{sum}", ROWS / 100)
    });
    let mut groups: Vec<String> = groups.collect();
    groups.sort();
    let every = (0..ROWS).sum::<u64>();
    BTreeMap::from([
        ("SELECT count(*), sum(k) FROM t", vec![format!("{ROWS},{every}")]),
        ("SELECT g, count(*), sum(k) FROM t GROUP BY g", groups),
        ("SELECT k FROM t WHERE k IN (7, 70000) ORDER BY k", vec!["7".into(), "70000".into()]),
        ("SELECT count(*) FROM (SELECT t, count(*) FROM t GROUP BY t, k)", vec![ROWS.to_string()]),
        (
            "SELECT sum(r), count(*) FROM (SELECT row_number() OVER (ORDER BY t, k) AS r FROM t)",
            vec![format!("{},{ROWS}", ROWS * (ROWS + 1) / 2)],
        ),
        ("SELECT count(*) FROM t a JOIN t b ON a.k = b.k WHERE b.g < 50", vec![(ROWS / 2).to_string()]),
    ])
}

#[test]
fn two_hundred_queries_of_twenty_clients_get_right_answers_in_bounded_memory() {
    let place = Place::with_table();
    let limit = MEMORY_LIMIT.to_string();
    let flags = ["--memory-limit", &limit, "--max-queries", "4", "--threads", "2", "--queue-seconds", "600"];
    let server = Arc::new(place.serve(&flags));
    let expected = Arc::new(expected());
    runtime().block_on(async {
        let clients = (0..CLIENTS).map(|number| {
            let (server, expected) = (Arc::clone(&server), Arc::clone(&expected));
            tokio::spawn(async move {
                let mut client = server.client().await;
                for turn in 0..QUERIES_EACH {
                    let (sql, answer) = expected.iter().nth((number + turn) % expected.len()).unwrap();
                    assert_eq!(rows(&mut client, sql).await.as_ref(), Ok(answer), "{sql}");
                }
            })
        });
        for client in clients.collect::<Vec<_>>() {
            client.await.unwrap();
        }
    });
    server.wait_until_free();
    assert_eq!(server.metric("pelton_queries_completed_total"), (CLIENTS * QUERIES_EACH) as u64);
    assert_eq!(server.metric("pelton_queries_at_once"), 4);
    let peak = server.peak_bytes();
    assert!(peak < MEMORY_LIMIT + BESIDE, "the server held {} MiB", peak >> 20);
}
