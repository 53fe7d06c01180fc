//! Queries that end early: whatever the reason, permit and memory are free again and the next query runs.

use std::time::Duration;

use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::sql::{ActionCancelQueryRequest, ProstMessageExt};
use arrow_flight::{Action, CancelFlightInfoRequest, CancelFlightInfoResult, CancelStatus};
use futures::{StreamExt, TryStreamExt};
use prost::Message;

use crate::harness::{Place, Serving, rows, runtime, ticket};

/// More rows than the network buffers, after a sort that holds memory.
const SORTED: &str = "SELECT k, t FROM t ORDER BY t";
/// More than anybody reads, from a join that holds some MB all the while.
const HOLDING: &str = "SELECT a.k, a.t, b.t AS u FROM t a JOIN t b ON a.g = b.g";
/// Long enough for a busy machine, far less than the 300 s for which a server waits for a client.
const SOON: Duration = Duration::from_secs(100);
/// No row for a very long time.
const ENDLESS: &str =
    "SELECT count(*) FROM t a JOIN t b ON a.g = b.g JOIN t c ON b.g = c.g WHERE a.k + b.k + c.k = -1";
/// More than anybody reads, from operators that hold next to nothing.
const FLOOD: &str = "SELECT a.k, a.t, s.v FROM generate_series(1, 1000) AS s(v) CROSS JOIN t a";

fn assert_usable(server: &Serving) {
    server.wait_until_free();
    let answer = runtime().block_on(async { rows(&mut server.client().await, "SELECT max(k) FROM t").await });
    assert_eq!(answer.unwrap(), ["119999"]);
}

#[test]
fn a_client_that_vanishes_mid_stream_frees_everything() {
    let place = Place::with_table();
    let server = place.serve(&["--max-queries", "2", "--threads", "2"]);
    for sql in [FLOOD, SORTED] {
        let clients = runtime();
        clients.block_on(async {
            let mut client = server.client().await;
            let info = client.execute(sql.into(), None).await.unwrap();
            let mut batches = client.do_get(ticket(&info)).await.unwrap();
            batches.next().await.unwrap().unwrap();
            assert_eq!(server.metric("pelton_queries_running"), 1);
            std::mem::forget(batches); // not even a reset: the connection breaks below
        });
        clients.shutdown_background();
        assert_usable(&server);
    }
    assert_eq!(server.metric("pelton_queries_cancelled_total"), 2);
    assert!(server.log().contains("cancelled by disconnect after"), "{}", server.log());
}

#[test]
fn a_client_that_drops_a_result_keeps_its_connection_and_frees_the_query() {
    let place = Place::with_table();
    let server = place.serve(&["--max-queries", "1", "--threads", "2"]);
    runtime().block_on(async {
        let mut client = server.client().await;
        for _ in 0..5 {
            let info = client.execute(FLOOD.into(), None).await.unwrap();
            let mut batches = client.do_get(ticket(&info)).await.unwrap();
            batches.next().await.unwrap().unwrap();
            drop(batches);
        }
        assert_eq!(rows(&mut client, "SELECT min(k) FROM t").await.unwrap(), ["0"]);
    });
    assert_usable(&server);
}

#[test]
fn a_query_is_cancelled_by_its_ticket_while_it_runs_and_while_it_waits() {
    let place = Place::with_table();
    let server = place.serve(&["--max-queries", "1", "--threads", "2"]);
    runtime().block_on(async {
        let mut client = server.client().await;
        let first = client.execute(ENDLESS.into(), None).await.unwrap();
        let second = client.execute(ENDLESS.into(), None).await.unwrap();
        let fetched: Vec<_> = [&first, &second]
            .map(|info| {
                let (mut client, ticket) = (client.clone(), ticket(info));
                tokio::spawn(async move { client.do_get(ticket).await?.try_collect::<Vec<_>>().await })
            })
            .into();
        // In this order: whoever comes first waits for a moment, too.
        server.wait_for_metric("pelton_queries_running", 1);
        server.wait_for_metric("pelton_queries_queued", 1);
        let mut actions = FlightServiceClient::new(server.channel().await);
        // The one that waits by the newer action, the one that runs by the older, whichever is which.
        let newer = Action::new("CancelFlightInfo", CancelFlightInfoRequest::new(second).encode_to_vec());
        let result =
            actions.do_action(newer.clone()).await.unwrap().into_inner().message().await.unwrap().unwrap();
        let status = CancelFlightInfoResult::decode(result.body).unwrap().status();
        assert_eq!(status, CancelStatus::Cancelled);
        let older = ActionCancelQueryRequest { info: first.encode_to_vec().into() };
        let older = Action::new("CancelQuery", older.as_any().encode_to_vec());
        actions.do_action(older).await.unwrap();
        for fetched in fetched {
            let error = fetched.await.unwrap().unwrap_err().to_string();
            assert!(error.contains("cancelled"), "{error}");
        }
        let again = actions.do_action(newer).await.unwrap().into_inner().message().await.unwrap().unwrap();
        let status = CancelFlightInfoResult::decode(again.body).unwrap().status();
        assert_eq!(status, CancelStatus::NotCancellable, "there is nothing left to cancel");
    });
    assert_usable(&server);
    assert_eq!(server.metric("pelton_queries_cancelled_total"), 2);
}

#[test]
fn a_cancelled_query_whose_join_finds_nothing_gives_its_permit_back() {
    let place = Place::with_table();
    let server = place.serve(&["--max-queries", "1", "--threads", "1"]);
    runtime().block_on(async {
        let mut client = server.client().await;
        // A single batch of the one side with all rows of the other takes minutes.
        let sql = "SELECT count(*) FROM range(3000000) a JOIN range(3000000) b ON a.value + b.value < 0";
        for sql in [sql, &sql.replace("a.value +", "a.value % 2 = b.value % 2 AND a.value +")] {
            let info = client.execute(sql.into(), None).await.unwrap();
            let (mut other, wanted) = (client.clone(), ticket(&info));
            let fetched =
                tokio::spawn(async move { other.do_get(wanted).await?.try_collect::<Vec<_>>().await });
            server.wait_for_metric("pelton_queries_running", 1);
            tokio::time::sleep(Duration::from_secs(1)).await; // one side is in memory, the join at work
            let mut actions = FlightServiceClient::new(server.channel().await);
            let cancel = Action::new("CancelFlightInfo", CancelFlightInfoRequest::new(info).encode_to_vec());
            actions.do_action(cancel).await.unwrap();
            assert!(fetched.await.unwrap().unwrap_err().to_string().contains("cancelled"));
            let soon = tokio::time::timeout(Duration::from_secs(5), rows(&mut client, "SELECT 1"));
            assert_eq!(soon.await.expect("the permit is free again").unwrap(), ["1"]);
        }
    });
    assert_eq!(server.metric("pelton_queries_cancelled_total"), 2);
}

#[test]
fn a_client_that_stops_reading_loses_its_query() {
    let place = Place::with_table();
    let server = place.serve(&["--max-queries", "1", "--threads", "2", "--idle-seconds", "1"]);
    runtime().block_on(async {
        let mut client = server.client().await;
        let info = client.execute(FLOOD.into(), None).await.unwrap();
        let mut batches = client.do_get(ticket(&info)).await.unwrap();
        batches.next().await.unwrap().unwrap();
        server.wait_for_metric("pelton_queries_cancelled_total", 1);
        let rest: Result<Vec<_>, _> = batches.try_collect().await;
        let error = rest.unwrap_err().to_string();
        assert!(error.contains("--idle-seconds"), "{error}");
    });
    assert_usable(&server);
}

#[test]
fn eight_clients_that_stop_reading_keep_nobody_waiting() {
    let place = Place::with_table();
    let limits = ["--memory-limit", "1GiB", "--queue-seconds", "600", "--stall-seconds", "1"];
    let server = place.serve(&[&["--threads", "2"][..], &limits].concat());
    runtime().block_on(async {
        // Rows of operators that hold nothing, rows of one that does, and rows that fit into what the server keeps for a
        // client.
        for sql in [FLOOD, HOLDING, SORTED] {
            let mut unread = Vec::new();
            for _ in 0..8 {
                let mut client = server.client().await;
                let info = client.execute(sql.into(), None).await.unwrap();
                unread.push(client.do_get(ticket(&info)).await.unwrap());
            }
            let mut client = server.client().await;
            for _ in 0..3 {
                let answer = tokio::time::timeout(SOON, rows(&mut client, "SELECT max(k) FROM t")).await;
                assert_eq!(answer.expect(sql).unwrap(), ["119999"]);
            }
            if sql == HOLDING {
                assert!(server.page("/metrics").contains("pelton_queries_cancelled_total{by=\"stall\"}"));
            }
            // A client that was slow has missed nothing.
            if sql != HOLDING {
                let first = unread.pop().unwrap();
                let mut count = 0;
                let mut batches = first;
                while let Some(batch) = batches.next().await {
                    count += batch.unwrap().num_rows();
                    if sql == FLOOD && count > 1_000_000 {
                        break;
                    }
                }
                assert!(count as u64 == crate::harness::ROWS || sql == FLOOD && count > 1_000_000, "{count}");
            }
            drop(unread);
            server.wait_until_free();
        }
    });
    assert_usable(&server);
}

#[test]
fn a_second_request_to_stop_cancels_what_still_runs() {
    let place = Place::with_table();
    let server = place.serve(&["--threads", "2", "--drain-seconds", "600"]);
    runtime().block_on(async {
        let mut client = server.client().await;
        let info = client.execute(ENDLESS.into(), None).await.unwrap();
        let fetched =
            tokio::spawn(async move { client.do_get(ticket(&info)).await?.try_collect::<Vec<_>>().await });
        server.wait_for_metric("pelton_queries_running", 1);
        server.terminate();
        while !server.page("/healthz").starts_with("HTTP/1.1 503") {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        server.terminate();
        let error = tokio::time::timeout(SOON, fetched).await.unwrap().unwrap().unwrap_err();
        assert!(error.to_string().contains("shut down before"), "{error}");
    });
    let (status, log) = server.wait_for_end();
    assert_eq!(status.code(), Some(0), "{log}");
}

#[test]
fn a_stopping_server_lets_queries_end_and_refuses_new_ones() {
    let place = Place::with_table();
    let server = place.serve(&["--max-queries", "1", "--threads", "2", "--drain-seconds", "60"]);
    runtime().block_on(async {
        let mut client = server.client().await;
        // More than fits between server and client, and from memory: it keeps its permit until the rest is read.
        let sql = "SELECT repeat(t, 20) AS t FROM t ORDER BY t";
        let info = client.execute(sql.into(), None).await.unwrap();
        let mut batches = client.do_get(ticket(&info)).await.unwrap();
        let first = batches.next().await.unwrap().unwrap();
        let waiting = client.execute("SELECT 1".into(), None).await.unwrap();
        let mut other = client.clone();
        let waiting = tokio::spawn(async move { other.do_get(ticket(&waiting)).await.map(drop) });
        server.wait_for_metric("pelton_queries_queued", 1);
        server.terminate();
        let error = waiting.await.unwrap().unwrap_err().to_string();
        assert!(error.contains("shutting down"), "{error}");
        assert!(server.page("/healthz").starts_with("HTTP/1.1 503"), "{}", server.page("/healthz"));
        let rest: Vec<_> = batches.try_collect().await.unwrap();
        let count = rest.iter().map(|batch| batch.num_rows()).sum::<usize>() + first.num_rows();
        assert_eq!(count as u64, crate::harness::ROWS);
    });
    let (status, log) = server.wait_for_end();
    assert_eq!(status.code(), Some(0), "{log}");
}

#[test]
fn a_stopping_server_cancels_what_takes_too_long() {
    let place = Place::with_table();
    let server = place.serve(&["--threads", "2", "--drain-seconds", "1"]);
    runtime().block_on(async {
        let mut client = server.client().await;
        let info = client.execute(ENDLESS.into(), None).await.unwrap();
        let fetched =
            tokio::spawn(async move { client.do_get(ticket(&info)).await?.try_collect::<Vec<_>>().await });
        server.wait_for_metric("pelton_queries_running", 1);
        server.terminate();
        let error =
            tokio::time::timeout(Duration::from_secs(30), fetched).await.unwrap().unwrap().unwrap_err();
        assert!(error.to_string().contains("shut down before"), "{error}");
    });
    let (status, log) = server.wait_for_end();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(log.contains("cancelled by shutdown"), "{log}");
}
