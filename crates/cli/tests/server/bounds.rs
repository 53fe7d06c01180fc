//! What a server bounds, and what it tells those who meet the bound.

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use futures::TryStreamExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::harness::{Place, lines, rows, runtime, ticket};

#[test]
fn a_query_beyond_its_memory_names_the_knob_and_harms_no_other() {
    let place = Place::with_table();
    let server = place.serve(&["--query-memory-limit", "1MiB", "--threads", "2"]);
    runtime().block_on(async {
        let mut client = server.client().await;
        let greedy = "SELECT length(string_agg(t, ',')) FROM t";
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
        let endless =
            "SELECT count(*) FROM t a JOIN t b ON a.g = b.g JOIN t c ON b.g = c.g WHERE a.k + b.k + c.k = -1";
        let info = client.execute(endless.into(), None).await.unwrap();
        let (mut other, wanted) = (client.clone(), ticket(&info));
        let running = tokio::spawn(async move { other.do_get(wanted).await?.try_collect::<Vec<_>>().await });
        server.wait_for_metric("pelton_queries_running", 1);
        let error = rows(&mut client, "SELECT 1").await.unwrap_err();
        assert!(error.contains("--max-queries") && error.contains("--queue-seconds"), "{error}");
        running.abort();
        server.wait_for_metric("pelton_queries_running", 0);
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
        assert!(error.contains("files are not queried here"), "a client reads the server's files: {error}");
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
fn a_ticket_is_for_one_fetch_and_a_client_may_ask_as_often_as_it_likes() {
    let place = Place::with_table();
    let server = place.serve(&[]);
    runtime().block_on(async {
        let mut client = server.client().await;
        let info = client.execute("SELECT g, count(*) FROM t GROUP BY g".into(), None).await.unwrap();
        assert!(info.endpoint[0].expiration_time.is_none(), "it would promise more than one fetch");
        let batches: Vec<_> = client.do_get(ticket(&info)).await.unwrap().try_collect().await.unwrap();
        assert_eq!(lines(&batches).len(), 100);
        let error = client.do_get(ticket(&info)).await.map(drop).unwrap_err().to_string();
        assert!(error.contains("run the query again"), "{error}");
        for number in 0..2100 {
            assert_eq!(rows(&mut client, &format!("SELECT {number}")).await.unwrap(), [number.to_string()]);
        }
    });
    assert_eq!(server.metric("pelton_tickets"), 0);
    assert_eq!(server.metric("pelton_queries_completed_total"), 2101);
}

#[test]
fn a_client_that_fetches_nothing_is_told_so_and_keeps_nobody_else_out() {
    let place = Place::empty();
    let server = place.serve(&[]);
    runtime().block_on(async {
        let mut greedy = server.client().await;
        let error = loop {
            match greedy.execute("SELECT 1".into(), None).await {
                Ok(_) => assert!(server.metric("pelton_tickets") <= 512),
                Err(error) => break error.to_string(),
            }
        };
        assert!(error.contains("this connection") && error.contains("CancelFlightInfo"), "{error}");
        let error = loop {
            if let Err(error) = greedy.prepare("SELECT 1".into(), None).await {
                break error.to_string();
            }
        };
        assert!(error.contains("ClosePreparedStatement"), "{error}");
        let mut other = server.client().await;
        assert_eq!(rows(&mut other, "SELECT 2").await.unwrap(), ["2"]);
    });
}

/// Names of a WITH, each of which is a join of the one before with itself.
fn doubled(times: usize) -> String {
    let steps = (1..=times).map(|step| format!("a{step} AS (SELECT x.v FROM a{0} x, a{0} y)", step - 1));
    let steps: Vec<String> = steps.collect();
    format!("WITH a0 AS (SELECT 1 AS v), {} SELECT count(*) FROM a{times}", steps.join(", "))
}

#[test]
fn statements_that_are_long_to_plan_keep_nobody_waiting_and_end_with_their_clients() {
    let place = Place::empty();
    let server = place.serve(&["--threads", "2", "--max-queries", "4"]);
    let clients = runtime();
    clients.block_on(async {
        for _ in 0..10 {
            let mut client = server.client().await;
            let error = rows(&mut client, &doubled(21)).await.unwrap_err();
            assert!(error.contains("WITH names"), "{error}");
            tokio::spawn(async move { client.execute(doubled(13), None).await.map(drop) });
        }
        while server.metric("pelton_queries_planning") == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let mut client = server.client().await;
        for _ in 0..10 {
            let started = Instant::now();
            assert_eq!(rows(&mut client, "SELECT 1").await.unwrap(), ["1"]);
            assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
        }
        assert!(server.metric("pelton_queries_planning") > 0, "it was not long enough to plan");
    });
    clients.shutdown_background();
    let started = Instant::now();
    server.wait_for_metric("pelton_queries_planning", 0);
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    server.wait_until_free();
    assert!(server.peak_bytes() < 1 << 30, "planning held {} MiB", server.peak_bytes() >> 20);
}

#[test]
fn errors_show_the_place_and_what_may_have_been_meant() {
    let place = Place::with_table();
    let server = place.serve(&[]);
    runtime().block_on(async {
        let mut client = server.client().await;
        for (sql, expected) in [
            ("SELECT kk\nFROM t", "no column kk\n  1 | SELECT kk\n    |        ^^ did you mean k?"),
            ("SELECT k FROM tt", "  1 | SELECT k FROM tt\n    |               ^^ did you mean t?"),
            ("SELEC k FROM t", "syntax error: "),
            ("SELECT medan(k) FROM t", "^^^^^ did you mean me"),
        ] {
            let error = rows(&mut client, sql).await.unwrap_err();
            assert!(error.contains(&expected.replace('\n', "\\n")) || error.contains(expected), "{error}");
            assert!(!error.contains("ParserError") && !error.contains("Schema error"), "{error}");
            let error = client.prepare(sql.into(), None).await.map(drop).unwrap_err().to_string();
            assert!(error.contains(expected) || error.contains(&expected.replace('\n', "\\n")), "{error}");
        }
        let error = rows(&mut client, "SELECT CAST(t AS INTEGER) FROM t").await.unwrap_err();
        assert!(!error.contains("Arrow error") && error.contains("Cannot cast string"), "{error}");
        assert!(rows(&mut client, "SELECT version()").await.unwrap()[0].starts_with("\"Pelton "));
    });
}

#[test]
fn a_query_that_runs_for_too_long_is_cancelled() {
    let place = Place::with_table();
    let server = place.serve(&["--query-seconds", "1", "--threads", "2"]);
    runtime().block_on(async {
        let mut client = server.client().await;
        let endless =
            "SELECT count(*) FROM t a JOIN t b ON a.g = b.g JOIN t c ON b.g = c.g WHERE a.k + b.k + c.k = -1";
        let error = rows(&mut client, endless).await.unwrap_err();
        assert!(error.contains("--query-seconds"), "{error}");
        assert_eq!(rows(&mut client, "SELECT 1").await.unwrap(), ["1"]);
    });
    server.wait_until_free();
    assert!(server.page("/metrics").contains("pelton_queries_cancelled_total{by=\"timeout\"} 1"));
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
        let log = server.wait_for_log("invalid_argument");
        let lines: Vec<&str> = log.lines().filter(|line| line.starts_with("query ")).collect();
        assert_eq!(lines.len(), 2, "{log}");
        assert!(lines[0].contains("from 127.0.0.1:") && lines[0].contains("1 row in"), "{log}");
        assert!(lines[1].contains("invalid_argument"), "{log}");
        assert!(lines.iter().all(|line| line.contains("secretly") == is_shown), "{log}");
    }
}
