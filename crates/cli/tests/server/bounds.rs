//! What a server bounds, and what it tells those who meet the bound.

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use futures::TryStreamExt;
use std::sync::Arc;

use crate::harness::{Place, lines, rows, runtime, ticket};

#[test]
fn a_query_beyond_its_memory_names_the_knob_and_harms_no_other() {
    let place = Place::with_table();
    let server = place.serve(&["--query-memory-limit", "1MiB", "--threads", "2"]);
    runtime().block_on(async {
        let mut client = server.client().await;
        let greedy = "SELECT count(*) FROM t a JOIN t b ON a.t = b.t AND a.k = b.k";
        let error = rows(&mut client, greedy).await.unwrap_err();
        assert!(error.contains("--query-memory-limit"), "{error}");
        assert_eq!(rows(&mut client, "SELECT count(*) FROM t").await.unwrap(), ["120000"]);
    });
    server.wait_until_free();
    assert!(server.page("/metrics").contains("pelton_queries_failed_total{code=\"resource_exhausted\"} 1"));
}

#[test]
fn a_query_that_waits_too_long_is_told_why() {
    let place = Place::with_table();
    let server = place.serve(&["--max-queries", "1", "--queue-seconds", "1", "--threads", "2"]);
    runtime().block_on(async {
        let mut client = server.client().await;
        let info = client.execute("SELECT a.t FROM t a JOIN t b ON a.g = b.g".into(), None).await.unwrap();
        let running = client.do_get(ticket(&info)).await.unwrap();
        let error = rows(&mut client, "SELECT 1").await.unwrap_err();
        assert!(error.contains("--max-queries") && error.contains("--queue-seconds"), "{error}");
        drop(running);
        assert_eq!(rows(&mut client, "SELECT 1").await.unwrap(), ["1"]);
    });
}

#[test]
fn a_client_plans_its_next_query_while_it_reads_one() {
    let place = Place::with_table();
    let server = place.serve(&["--max-queries", "1", "--threads", "2"]);
    runtime().block_on(async {
        let mut client = server.client().await;
        let info = client.execute("SELECT a.t FROM t a JOIN t b ON a.g = b.g".into(), None).await.unwrap();
        let running = client.do_get(ticket(&info)).await.unwrap();
        let mut prepared = client.prepare("SELECT count(*) FROM t".into(), None).await.unwrap();
        let next = prepared.execute().await.unwrap();
        drop(running);
        let batches: Vec<_> = client.do_get(ticket(&next)).await.unwrap().try_collect().await.unwrap();
        assert_eq!(lines(&batches), ["120000"]);
    });
}

#[test]
fn statements_that_change_something_are_refused_and_change_nothing() {
    let place = Place::with_table();
    let server = place.serve(&[]);
    runtime().block_on(async {
        let mut client = server.client().await;
        for sql in [
            "CREATE VIEW v AS SELECT 1",
            "CREATE TABLE u AS SELECT * FROM t",
            "CREATE EXTERNAL TABLE u STORED AS CSV LOCATION 't.csv'",
            "DROP TABLE t",
            "INSERT INTO t SELECT * FROM t",
            "SET datafusion.execution.batch_size = 1",
            "COPY t TO 'out.csv'",
            "EXPLAIN ANALYZE COPY t TO 'out.csv'",
        ] {
            let error = rows(&mut client, sql).await.unwrap_err();
            assert!(error.contains("this server runs queries"), "{sql}: {error}");
        }
        let error = rows(&mut client, "SELECT * FROM 't.csv'").await.unwrap_err();
        assert!(error.contains("not found"), "a client reads the server's files: {error}");
        assert_eq!(rows(&mut client, "SELECT count(*) FROM t").await.unwrap(), ["120000"]);
        assert!(rows(&mut client, "SELECT * FROM v").await.is_err());
    });
}

#[test]
fn what_the_server_defines_at_its_start_is_there_for_every_client() {
    let place = Place::with_table();
    let init = place.file("init.sql", "CREATE VIEW even AS SELECT * FROM t WHERE k % 2 = 0;");
    let server = place.serve(&["--init", &init]);
    runtime().block_on(async {
        for _ in 0..2 {
            let mut client = server.client().await;
            assert_eq!(rows(&mut client, "SELECT count(*) FROM even").await.unwrap(), ["60000"]);
        }
    });
}

#[test]
fn a_ticket_can_be_fetched_again_and_each_fetch_runs_once() {
    let place = Place::with_table();
    let server = place.serve(&[]);
    runtime().block_on(async {
        let mut client = server.client().await;
        let info = client.execute("SELECT g, count(*) FROM t GROUP BY g".into(), None).await.unwrap();
        let mut answers = Vec::new();
        for _ in 0..3 {
            let batches: Vec<_> = client.do_get(ticket(&info)).await.unwrap().try_collect().await.unwrap();
            answers.push(lines(&batches));
        }
        assert_eq!(answers[0].len(), 100);
        assert!(answers[0] == answers[1] && answers[1] == answers[2]);
    });
    assert_eq!(server.metric("pelton_queries_completed_total"), 3);
}

#[test]
fn parameters_are_bound_by_position_and_can_be_bound_anew() {
    let place = Place::with_table();
    let server = place.serve(&[]);
    runtime().block_on(async {
        let mut client = server.client().await;
        let sql = "SELECT ? AS name, count(*) FROM t WHERE g = ?";
        let mut prepared = client.prepare(sql.into(), None).await.unwrap();
        assert_eq!(prepared.parameter_schema().unwrap().fields().len(), 2);
        for g in [3, 4] {
            let columns: [(&str, ArrayRef); 2] = [
                ("1", Arc::new(StringArray::from(vec!["it's; --"]))),
                ("2", Arc::new(Int64Array::from(vec![g]))),
            ];
            prepared.set_parameters(RecordBatch::try_from_iter(columns).unwrap()).unwrap();
            let info = prepared.execute().await.unwrap();
            let batches: Vec<_> = client.do_get(ticket(&info)).await.unwrap().try_collect().await.unwrap();
            assert_eq!(lines(&batches), ["it's; --,1200"]);
        }
        prepared.close().await.unwrap();
        let unbound =
            client.prepare(sql.into(), None).await.unwrap().execute().await.unwrap_err().to_string();
        assert!(unbound.contains("2 parameters"), "{unbound}");
    });
    assert_eq!(server.metric("pelton_prepared_statements"), 1);
}

#[test]
fn the_log_has_a_line_a_query_and_its_text_only_where_that_is_asked_for() {
    let place = Place::with_table();
    for (flags, is_shown) in [(&[][..], false), (&["--log-queries"][..], true)] {
        let server = place.serve(flags);
        runtime().block_on(async {
            let mut client = server.client().await;
            rows(&mut client, "SELECT count(*) AS secretly FROM t").await.unwrap();
            rows(&mut client, "SELECT secretly FROM t").await.unwrap_err();
        });
        server.wait_until_free();
        let log = server.log();
        let lines: Vec<&str> = log.lines().filter(|line| line.starts_with("query ")).collect();
        assert_eq!(lines.len(), 2, "{log}");
        assert!(lines[0].contains("from 127.0.0.1:") && lines[0].contains("1 rows in"), "{log}");
        assert!(lines[1].contains("invalid_argument"), "{log}");
        assert!(lines.iter().all(|line| line.contains("secretly") == is_shown), "{log}");
    }
}
