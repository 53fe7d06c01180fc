//! Queries that run out of memory fail by themselves: the session serves the next one.

use pelton_engine::SessionOptions;
use pelton_error::ErrorKind;
use pelton_store::WriteMode;
use pelton_testkit::random_rows;

use crate::harness::{Place, answer, options};

#[tokio::test(flavor = "multi_thread")]
async fn a_query_without_memory_fails_and_the_next_is_unaffected() {
    let place = Place::new();
    place.load("t", &random_rows(1, 20_000), WriteMode::Create, 4096);
    let session = place.session(&SessionOptions { memory_limit_bytes: Some(200_000), ..options() });
    for _ in 0..3 {
        let greedy = "SELECT length(string_agg(repeat(text, 20), ',')) FROM t";
        let error = answer(&session, greedy).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::OutOfMemory { .. }), "{error:?}");
        assert!(error.to_string().contains("--memory-limit"), "{error}");
        let modest =
            answer(&session, "SELECT count(*) AS n, sum(id) AS s FROM t WHERE id >= 10").await.unwrap();
        assert!(modest.contains("| 19990 | 199989955 |"), "{modest}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn results_do_not_depend_on_the_memory_limit() {
    let place = Place::new();
    place.load("t", &random_rows(1, 20_000), WriteMode::Create, 4096);
    let roomy = place.session(&options());
    let limited = |limit_bytes: u64| {
        place.session(&SessionOptions { memory_limit_bytes: Some(limit_bytes), batch_rows: 512, ..options() })
    };
    for sql in [
        "SELECT id, text FROM t ORDER BY text NULLS LAST, id",
        "SELECT big, count(*) AS n FROM t GROUP BY big ORDER BY n DESC, big NULLS LAST LIMIT 50",
        "SELECT id, sum(id) OVER (PARTITION BY word ORDER BY id) AS s FROM t ORDER BY id LIMIT 50",
        "SELECT id, text, big FROM t ORDER BY text NULLS LAST, id LIMIT 15000",
        "SELECT id, count(*) OVER () AS n, max(id) OVER (PARTITION BY word) AS m, ntile(7) OVER (PARTITION BY word ORDER BY id) AS q FROM t ORDER BY id",
        "SELECT a.id, b.text FROM t AS a JOIN t AS b ON a.id = b.id AND a.text <> b.word ORDER BY a.id",
        "SELECT a.id, b.id AS other FROM t AS a FULL JOIN t AS b ON a.id = b.id + 10000 AND a.word < b.text ORDER BY a.id NULLS LAST, b.id",
        "SELECT id FROM t WHERE big IN (SELECT big FROM t WHERE id % 3 = 0) ORDER BY id",
        "SELECT id FROM t WHERE id NOT IN (SELECT id + 5 FROM t) ORDER BY id",
        "SELECT id FROM t AS a WHERE NOT EXISTS (SELECT 1 FROM t AS b WHERE b.id = a.id + 100 AND b.text > a.word) ORDER BY id",
    ] {
        let expected = answer(&roomy, sql).await.unwrap();
        assert_eq!(answer(&limited(64 << 20), sql).await.unwrap(), expected, "{sql}");
        // A sort needs some memory even to spill and merge; without that it says so, and never answers wrongly.
        match answer(&limited(2 << 20), sql).await {
            Ok(actual) => assert_eq!(actual, expected, "{sql}"),
            Err(error) => assert!(error.to_string().contains("--memory-limit"), "{error}"),
        }
    }
}
