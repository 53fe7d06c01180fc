//! Planning within bounds: what doubles with every word is refused early, and planning ends when its query is cancelled.

use std::time::{Duration, Instant};

use futures::FutureExt;
use pelton_engine::{PeltonSession, SessionOptions, cancellable};
use pelton_error::{CancelFlag, Error, ErrorKind};

fn session() -> PeltonSession {
    PeltonSession::open(None, &SessionOptions::default()).unwrap()
}

/// Names of a WITH, each of which is a join of the one before with itself.
fn doubled(times: usize) -> String {
    let steps = (1..=times).map(|step| format!("a{step} AS (SELECT x.v FROM a{0} x, a{0} y)", step - 1));
    let steps: Vec<String> = steps.collect();
    format!("WITH a0 AS (SELECT 1 AS v), {} SELECT count(*) FROM a{times}", steps.join(", "))
}

/// Names of a WITH, each of which adds the column of the one before to itself, below a filter that goes down through
/// them.
fn grown(times: usize) -> String {
    let steps = (1..=times).map(|step| format!("a{step} AS (SELECT v + v AS v FROM a{})", step - 1));
    let steps: Vec<String> = steps.collect();
    format!(
        "WITH a0 AS (SELECT value AS v FROM range(10)), {} SELECT v FROM a{times} WHERE v > 7",
        steps.join(", ")
    )
}

async fn error_of(sql: &str) -> Error {
    match session().query(sql).await {
        Ok(_) => panic!("{sql} was planned"),
        Err(error) => error,
    }
}

#[tokio::test]
async fn what_doubles_with_every_name_is_refused_before_it_takes_memory_or_time() {
    for sql in [doubled(21), doubled(60), format!("SELECT 1 WHERE EXISTS ({})", doubled(40))] {
        let started = Instant::now();
        let error = error_of(&sql).await;
        assert_eq!(error.kind(), &ErrorKind::InvalidInput);
        assert!(error.to_string().contains("queries and tables"), "{error}");
        assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    }
}

#[tokio::test]
async fn views_that_double_are_refused_too() {
    let session = session();
    session.query("CREATE VIEW v0 AS SELECT 1 AS v").await.unwrap().collect().await.unwrap();
    for step in 1..=30 {
        let sql = format!("CREATE VIEW v{step} AS SELECT x.v FROM v{0} x, v{0} y", step - 1);
        match session.query(&sql).await {
            Ok(query) => drop(query.collect().await.unwrap()),
            Err(error) => {
                assert!(error.to_string().contains("steps"), "{error}");
                assert!(step > 10, "refused at {step}");
                return;
            }
        }
    }
    panic!("2^30 joins were planned");
}

#[tokio::test]
async fn expressions_that_double_with_every_subquery_are_refused() {
    let started = Instant::now();
    let rows = session().query(&grown(3)).await.unwrap().collect().await.unwrap();
    assert_eq!(rows.iter().map(|rows| rows.num_rows()).sum::<usize>(), 9, "8, 16, … 72");
    let error = error_of(&grown(40)).await;
    assert!(error.to_string().contains("too large"), "{error}");
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}

#[tokio::test]
async fn planning_ends_soon_after_its_query_is_cancelled() {
    let (session, cancel) = (session(), CancelFlag::new());
    let flag = cancel.clone();
    let sql = doubled(13);
    let timer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        flag.cancel();
        Instant::now()
    });
    let error = cancellable(&cancel, session.query(&sql)).await.err().expect("8192 joins take longer");
    assert_eq!(error.kind(), &ErrorKind::Cancelled, "{error}");
    let late = timer.join().unwrap().elapsed();
    assert!(late < Duration::from_secs(2), "it went on for {late:?}");
    let cancelled = cancellable(&cancel, session.query("SELECT 1")).now_or_never().unwrap();
    assert_eq!(cancelled.err().unwrap().kind(), &ErrorKind::Cancelled);
}
