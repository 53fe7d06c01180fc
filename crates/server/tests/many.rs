//! Twenty thousand small queries of 32 clients at once, some of which cancel, make mistakes or vanish: nobody is
//! refused, every answer is right, nothing panics, and the server holds no more at the end than it did early on.
//!
//! ```text
//!   32 clients ─▶ loopback ─▶ server in this process ─▶ on the CPU
//!                                                   └▶ on the host's cores as a device, with memory for hardly anything
//! ```
//!
//! What each client does follows from a seed; a failure names the client and the turn.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::sql::client::{FlightSqlServiceClient, PreparedStatement};
use arrow_flight::{Action, CancelFlightInfoRequest, FlightInfo, Ticket};
use futures::{StreamExt, TryStreamExt};
use pelton_engine::{DeviceChoice, PeltonSession, RuntimeOptions, SessionOptions};
use pelton_load::{CancelFlag, LoadOptions, LoadRequest, NoProgress, load_batches};
use pelton_server::{Limits, Server, ServerOptions};
use pelton_store::{SampleOptions, Warehouse, WriteMode};
use prost::Message;
use tokio::sync::oneshot;
use tonic::transport::{Channel, Endpoint};

const CLIENTS: u64 = 32;
/// Rows of table `t`: `k` counts from 0, `g` is `k` modulo 10, `s` is text made from `k`.
const ROWS: i64 = 5000;
/// A client connects anew after this many queries, in the middle of a result.
const QUERIES_PER_CONNECTION: u64 = 120;
/// How much more memory than after the first tenth may be in use at the end: what an allocator keeps of threads that
/// come and go. A leak of four kilobytes a query would be more.
const GROWTH_MAX: u64 = 48 << 20;

#[test]
fn on_the_cpu() {
    let session = |warehouse| {
        let options = SessionOptions { device: DeviceChoice::Cpu, ..few_threads() };
        PeltonSession::open(Some(warehouse), &options).unwrap()
    };
    serve_many(session, 16_000, &[]);
}

#[test]
fn on_a_device_with_hardly_any_memory() {
    let session = |warehouse| {
        let cache = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("programs");
        let runtime = RuntimeOptions { cache: Some(cache), workers: 2, ..RuntimeOptions::default() };
        // Enough for scans, too little for the join, which falls back to the CPU every time.
        let options = SessionOptions {
            device: DeviceChoice::Host,
            device_memory_limit_bytes: Some(128 << 10),
            runtime,
            ..few_threads()
        };
        PeltonSession::open(Some(warehouse), &options).unwrap()
    };
    // The join is to run on the device, and to be refused memory there.
    serve_many(session, 4_800, &["PeltonGpuExec", "memory of device"]);
}

fn few_threads() -> SessionOptions {
    SessionOptions { threads: Some(2), memory_limit_bytes: Some(64 << 20), ..SessionOptions::default() }
}

/// Serves `query_count` queries of all clients together over `session`, opened on a warehouse with table `t`; an
/// explanation of its join has to say what is `said`.
fn serve_many(session: impl FnOnce(PathBuf) -> PeltonSession, query_count: u64, said: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    load(directory.path().to_owned());
    let session = session(directory.path().to_owned());
    let queries = runtime();
    let explained = queries.block_on(explain(&session, &join_of(1)));
    assert!(said.iter().all(|text| explained.contains(text)), "{explained}");
    assert_eq!(explained.contains("PeltonGpuExec"), !said.is_empty(), "{explained}");
    let connections = runtime();
    let metrics = connections.block_on(async {
        let limits = Limits { memory_limit_bytes: Some(512 << 20), ..Limits::default() };
        let options = ServerOptions {
            limits,
            metrics: Some("127.0.0.1:0".parse().unwrap()),
            ..ServerOptions::new("127.0.0.1:0".parse().unwrap())
        };
        let server = Server::bind(session, options, queries.handle().clone()).await.unwrap();
        let address = format!("http://{}", server.address().unwrap());
        let metrics = server.metrics_address().unwrap().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = tokio::spawn(server.run(
            async {
                stopped.await.unwrap();
            },
            std::future::pending(),
        ));
        let progress = Arc::new(Progress::new(query_count));
        let clients = (0..CLIENTS).map(|number| {
            let (address, progress) = (address.clone(), Arc::clone(&progress));
            tokio::spawn(async move {
                Client::connect(address, number).await.work(query_count / CLIENTS, &progress).await;
            })
        });
        for client in clients.collect::<Vec<_>>() {
            client.await.unwrap();
        }
        let page = settled(metrics).await;
        progress.check_memory();
        stop.send(()).unwrap();
        serving.await.unwrap().unwrap();
        page
    });
    let value = |name: &str| -> u64 {
        let lines = metrics.lines().filter(|line| line.split(['{', ' ']).next() == Some(name));
        lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    };
    assert!(value("pelton_queries_completed_total") > query_count / 2, "{metrics}");
    assert_eq!(value("pelton_evicted_total"), 0, "{metrics}");
    for code in ["internal", "resource_exhausted", "unavailable", "not_found", "deadline_exceeded"] {
        assert!(!metrics.contains(&format!("pelton_queries_failed_total{{code=\"{code}\"}}")), "{metrics}");
    }
}

async fn explain(session: &PeltonSession, sql: &str) -> String {
    let rows = session.query(&format!("EXPLAIN ANALYZE {sql}")).await.unwrap().collect().await.unwrap();
    arrow::util::pretty::pretty_format_batches(&rows).unwrap().to_string()
}

/// A join with a window, which no device can compute.
fn join_of(group: i64) -> String {
    format!(
        "SELECT count(*), sum(n) FROM t JOIN (SELECT k AS j, row_number() OVER (PARTITION BY g ORDER BY k) AS n \
         FROM t) ON k = j WHERE g = {group}"
    )
}

/// The metrics once nothing runs, waits or holds memory any more.
async fn settled(address: std::net::SocketAddr) -> String {
    let began = Instant::now();
    loop {
        let page = tokio::task::spawn_blocking(move || page(address)).await.unwrap();
        let is_zero = |name: &str| page.lines().any(|line| line == format!("{name} 0"));
        let names = ["running", "aside", "planning", "queued"].map(|what| format!("pelton_queries_{what}"));
        if names.iter().all(|name| is_zero(name)) && is_zero("pelton_memory_used_bytes") {
            return page;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "something is left:\n{page}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn page(address: std::net::SocketAddr) -> String {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// How far all clients are, and the memory in use after the first tenth.
struct Progress {
    done: AtomicU64,
    query_count: u64,
    early_bytes: AtomicU64,
    began: Instant,
}

impl Progress {
    fn new(query_count: u64) -> Self {
        Self { done: AtomicU64::new(0), query_count, early_bytes: AtomicU64::new(0), began: Instant::now() }
    }

    fn one_more(&self) {
        if self.done.fetch_add(1, Ordering::Relaxed) + 1 == self.query_count / 10 {
            self.early_bytes.store(resident_bytes(), Ordering::Relaxed);
        }
    }

    fn check_memory(&self) {
        let (early, late) = (self.early_bytes.load(Ordering::Relaxed), resident_bytes());
        let seconds = self.began.elapsed().as_secs_f64();
        eprintln!(
            "{} queries in {seconds:.1} s; {} MiB in use after a tenth, {} MiB at the end",
            self.query_count,
            early >> 20,
            late >> 20
        );
        assert!(early > 0 && late < early + GROWTH_MAX, "from {} to {} MiB", early >> 20, late >> 20);
    }
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().strip_suffix("kB").unwrap().trim().parse::<u64>().unwrap() * 1024
}

struct Client {
    address: String,
    number: u64,
    random: u64,
    sql: FlightSqlServiceClient<Channel>,
    actions: FlightServiceClient<Channel>,
    by_key: PreparedStatement<Channel>,
}

impl Client {
    async fn connect(address: String, number: u64) -> Self {
        let channel = Endpoint::new(address.clone()).unwrap().connect().await.unwrap();
        let mut sql = FlightSqlServiceClient::new(channel.clone());
        let by_key = sql.prepare("SELECT s, g FROM t WHERE k = ?".into(), None).await.unwrap();
        let random = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1;
        Self { address, number, random, sql, actions: FlightServiceClient::new(channel), by_key }
    }

    async fn work(mut self, query_count: u64, progress: &Progress) {
        for turn in 0..query_count {
            if turn % QUERIES_PER_CONNECTION == QUERIES_PER_CONNECTION - 1 {
                self = self.vanish().await;
            }
            let done = match self.below(20) {
                0..10 => self.look_up().await,
                10..13 => self.add_up().await,
                13..15 => self.join().await,
                15..17 => self.compute().await,
                17 => self.mistake().await,
                18 => self.cancel().await,
                _ => self.drop_result().await,
            };
            done.unwrap_or_else(|error| panic!("client {}, turn {turn}: {error}", self.number));
            progress.one_more();
        }
    }

    /// One row by its key, prepared.
    async fn look_up(&mut self) -> Result<(), String> {
        // Some are not there.
        let key = self.below(ROWS as u64 + 50);
        let key = key as i64;
        let column: ArrayRef = Arc::new(Int64Array::from(vec![key]));
        self.by_key.set_parameters(RecordBatch::try_from_iter([("1", column)]).unwrap()).map_err(text)?;
        let info = self.by_key.execute().await.map_err(text)?;
        let found = self.fetch(&info).await?;
        let found: Vec<(String, i64)> = found
            .iter()
            .flat_map(|rows| {
                let (s, g) = (rows.column(0).as_string::<i32>(), rows.column(1).as_primitive::<Int64Type>());
                (0..rows.num_rows()).map(|row| (s.value(row).to_owned(), g.value(row))).collect::<Vec<_>>()
            })
            .collect();
        let expected = if key < ROWS { vec![(text_of(key), key % 10)] } else { vec![] };
        same(&found, &expected, &format!("k = {key}"))
    }

    /// An aggregate with groups, of some texts.
    async fn add_up(&mut self) -> Result<(), String> {
        let least = self.below(4) as i64 * 1000;
        let sql = format!("SELECT g, count(*), sum(k) FROM t WHERE k >= {least} GROUP BY g ORDER BY g");
        let expected: Vec<Vec<i64>> = (0..10)
            .map(|g| {
                let of_group = (least..ROWS).filter(|k| k % 10 == g);
                vec![g, of_group.clone().count() as i64, of_group.sum()]
            })
            .collect();
        let found = integers(&self.run(&sql).await?);
        same(&found, &expected, &sql)
    }

    async fn join(&mut self) -> Result<(), String> {
        let sql = join_of(self.below(3) as i64);
        let count = ROWS / 10;
        same(&integers(&self.run(&sql).await?), &vec![vec![count, count * (count + 1) / 2]], &sql)
    }

    /// No table at all.
    async fn compute(&mut self) -> Result<(), String> {
        let number = self.below(1000) as i64;
        let sql = format!("SELECT {number} + 1 AS a, {number} * 2 AS b");
        same(&integers(&self.run(&sql).await?), &vec![vec![number + 1, number * 2]], &sql)
    }

    async fn mistake(&mut self) -> Result<(), String> {
        let (sql, expected) = match self.below(3) {
            0 => ("SELECT nothing FROM t", "no column nothing"),
            1 => ("SELEC 1", "syntax error"),
            _ => ("SELECT 1 / (g - g) FROM t", "ivide by zero"),
        };
        match self.run(sql).await {
            Err(error) if error.contains(expected) => Ok(()),
            other => Err(format!("{sql}: {other:?}")),
        }
    }

    /// A ticket that is cancelled instead of being fetched.
    async fn cancel(&mut self) -> Result<(), String> {
        let info = self.sql.execute("SELECT * FROM t ORDER BY s".into(), None).await.map_err(text)?;
        let body = CancelFlightInfoRequest::new(info.clone()).encode_to_vec();
        let answers = self.actions.do_action(Action::new("CancelFlightInfo", body)).await.map_err(text)?;
        answers.into_inner().message().await.map_err(text)?.ok_or("no answer")?;
        match self.fetch(&info).await {
            Err(error) if error.contains("no such ticket") => Ok(()),
            other => Err(format!("a cancelled ticket: {other:?}")),
        }
    }

    /// A result of which only the start is read.
    async fn drop_result(&mut self) -> Result<(), String> {
        let info = self.sql.execute("SELECT k, s FROM t ORDER BY k".into(), None).await.map_err(text)?;
        let mut rows = self.sql.do_get(ticket(&info)).await.map_err(text)?;
        let first = rows.next().await.ok_or("no rows")?.map_err(text)?;
        same(&first.column(0).as_primitive::<Int64Type>().value(0), &0, "the first row")
    }

    /// A connection that breaks in the middle of a result; another in its place.
    async fn vanish(mut self) -> Self {
        let info = self.sql.execute("SELECT k, s FROM t ORDER BY s".into(), None).await.unwrap();
        let rows = self.sql.do_get(ticket(&info)).await.unwrap();
        let (address, number, random) = (self.address.clone(), self.number, self.random);
        drop(self);
        drop(rows);
        Self { random, ..Self::connect(address, number).await }
    }

    async fn run(&mut self, sql: &str) -> Result<Vec<RecordBatch>, String> {
        let info = self.sql.execute(sql.to_owned(), None).await.map_err(text)?;
        self.fetch(&info).await
    }

    async fn fetch(&mut self, info: &FlightInfo) -> Result<Vec<RecordBatch>, String> {
        self.sql.do_get(ticket(info)).await.map_err(text)?.try_collect().await.map_err(text)
    }

    /// A number below `end` (xorshift).
    fn below(&mut self, end: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % end
    }
}

fn same<T: PartialEq + std::fmt::Debug>(found: &T, expected: &T, what: &str) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("{what}: {found:?}, not {expected:?}")) }
}

/// Rows of integers.
fn integers(batches: &[RecordBatch]) -> Vec<Vec<i64>> {
    let mut rows = Vec::new();
    for batch in batches {
        let columns: Vec<Int64Array> = batch
            .columns()
            .iter()
            .map(|column| {
                let wide = arrow::compute::cast(column, &arrow::datatypes::DataType::Int64).unwrap();
                wide.as_primitive::<Int64Type>().clone()
            })
            .collect();
        rows.extend(
            (0..batch.num_rows()).map(|row| columns.iter().map(|column| column.value(row)).collect()),
        );
    }
    rows
}

fn ticket(info: &FlightInfo) -> Ticket {
    info.endpoint[0].ticket.clone().unwrap()
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn text_of(key: i64) -> String {
    format!("text number {}", (key as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40)
}

fn load(directory: PathBuf) {
    let columns: [(&str, ArrayRef); 3] = [
        ("k", Arc::new(Int64Array::from_iter_values(0..ROWS))),
        ("g", Arc::new(Int64Array::from_iter_values((0..ROWS).map(|k| k % 10)))),
        ("s", Arc::new(StringArray::from_iter_values((0..ROWS).map(text_of)))),
    ];
    let rows = RecordBatch::try_from_iter(columns).unwrap();
    let choose = SampleOptions { row_group_rows: vec![2000], ..SampleOptions::default() };
    let request = LoadRequest {
        options: LoadOptions { choose, ..LoadOptions::default() },
        ..LoadRequest::new("t", WriteMode::Replace, vec![])
    };
    let warehouse = Warehouse::open_or_create(&directory).unwrap();
    let (schema, batches) = (rows.schema(), Box::new(vec![Ok(rows)].into_iter()));
    load_batches(&warehouse, &request, &schema, batches, &NoProgress, &CancelFlag::new()).unwrap();
}

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).thread_stack_size(pelton_engine::STACK_BYTES).enable_all().build().unwrap()
}
