//! A server over a warehouse of its own, and clients of it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow_flight::sql::client::FlightSqlServiceClient;
use arrow_flight::{FlightInfo, Ticket};
use futures::TryStreamExt;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tonic::transport::{Channel, Endpoint};

/// Longer than anything here takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Rows of table `t`: `k` counts from 0, `g` is `k` modulo 100, `t` is text that does not sort as `k` does.
pub(crate) const ROWS: u64 = 120_000;

/// A directory with a warehouse, removed at the end.
pub(crate) struct Place {
    directory: TempDir,
}

impl Place {
    /// With a warehouse that holds table `t`.
    pub(crate) fn with_table() -> Self {
        let place = Self::empty();
        let mut text = String::from("k,g,t\n");
        for k in 0..ROWS {
            let mixed = k.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
            text.push_str(&format!("{k},{},text number {mixed}\n", k % 100));
        }
        let file = place.file("t.csv", &text);
        let load = ["load", "--table", "t", "--row-group-rows", "16384", "--quiet", &file];
        let output = place.pelton(&load).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        place
    }

    /// Without one.
    pub(crate) fn empty() -> Self {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        std::fs::create_dir_all(directory.path().join("warehouse")).unwrap();
        Self { directory }
    }

    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    pub(crate) fn pelton(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pelton"));
        command
            .args(args)
            .current_dir(self.directory.path())
            .env("PELTON_WAREHOUSE", self.directory.path().join("warehouse"))
            .env("TMPDIR", self.directory.path())
            .env_remove("PELTON_TOKEN")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command
    }

    /// A server on free ports with these flags besides.
    pub(crate) fn serve(&self, flags: &[&str]) -> Serving {
        let mut args = vec!["serve", "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"];
        args.extend(flags);
        Serving::start(self.pelton(&args).spawn().unwrap())
    }

    /// What a start that must fail says.
    pub(crate) fn refuses(&self, flags: &[&str]) -> String {
        let mut args = vec!["serve"];
        args.extend(flags);
        let output = self.pelton(&args).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{text}");
        text
    }
}

/// A server that runs; killed when dropped.
pub(crate) struct Serving {
    child: Child,
    address: String,
    metrics: String,
    log: Arc<Mutex<String>>,
    reader: Option<std::thread::JoinHandle<()>>,
}

impl Serving {
    pub(crate) fn start(mut child: Child) -> Self {
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut first_with = |mark: &str| loop {
            let line = lines.next().expect("the server ended").unwrap();
            if let Some((_, rest)) = line.split_once(mark) {
                return rest.split(['/', ';']).next().unwrap().to_owned();
            }
        };
        let (address, metrics) = (first_with("grpc://"), first_with("http://"));
        let log = Arc::new(Mutex::new(String::new()));
        let kept = Arc::clone(&log);
        let reader = std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let mut kept = kept.lock().unwrap();
                kept.push_str(&line);
                kept.push('\n');
            }
        });
        Self { child, address, metrics, log, reader: Some(reader) }
    }

    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Waits until the log has `text`, which is written before the client is answered and read by a thread; all of it.
    pub(crate) fn wait_for_log(&self, text: &str) -> String {
        let start = Instant::now();
        while !self.log().contains(text) {
            assert!(start.elapsed() < PATIENCE, "no '{text}' in the log:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
        self.log()
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) async fn channel(&self) -> Channel {
        Endpoint::new(format!("http://{}", self.address)).unwrap().connect().await.unwrap()
    }

    pub(crate) async fn client(&self) -> FlightSqlServiceClient<Channel> {
        FlightSqlServiceClient::new(self.channel().await)
    }

    /// A page of the metrics' listener, with its status line.
    pub(crate) fn page(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.metrics).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    /// The sum over the labels of a metric; 0 where it is not there.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let page = self.page("/metrics");
        let lines = page.lines().filter(|line| line.split(['{', ' ']).next() == Some(name));
        lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    }

    /// Waits until `name` has `value`.
    pub(crate) fn wait_for_metric(&self, name: &str, value: u64) {
        let start = Instant::now();
        while self.metric(name) != value {
            assert!(start.elapsed() < PATIENCE, "{name} is {}, not {value}", self.metric(name));
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until nothing runs, waits or holds memory.
    pub(crate) fn wait_until_free(&self) {
        for name in ["pelton_queries_running", "pelton_queries_queued", "pelton_memory_used_bytes"] {
            self.wait_for_metric(name, 0);
        }
    }

    /// The most memory that the server has had in use, in bytes.
    pub(crate) fn peak_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().strip_suffix("kB").unwrap().trim().parse::<u64>().unwrap() * 1024
    }

    /// Asks the server to stop.
    pub(crate) fn terminate(&self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
    }

    /// Waits for the server's end.
    pub(crate) fn wait_for_end(mut self) -> (ExitStatus, String) {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                self.reader.take().unwrap().join().unwrap();
                return (status, self.log());
            }
            assert!(start.elapsed() < PATIENCE, "the server does not end; its log:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs `sql` to its end; the rows as CSV, sorted.
pub(crate) async fn rows(
    client: &mut FlightSqlServiceClient<Channel>,
    sql: &str,
) -> Result<Vec<String>, String> {
    let info = client.execute(sql.to_owned(), None).await.map_err(|error| error.to_string())?;
    let batches = client.do_get(ticket(&info)).await.map_err(|error| error.to_string())?;
    let batches: Vec<RecordBatch> = batches.try_collect().await.map_err(|error| error.to_string())?;
    Ok(lines(&batches))
}

pub(crate) fn ticket(info: &FlightInfo) -> Ticket {
    info.endpoint[0].ticket.clone().unwrap()
}

/// Rows as CSV, sorted.
pub(crate) fn lines(batches: &[RecordBatch]) -> Vec<String> {
    let mut text = Vec::new();
    let mut writer = arrow::csv::WriterBuilder::new().with_header(false).build(&mut text);
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    drop(writer);
    let mut lines: Vec<String> = String::from_utf8(text).unwrap().lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}
