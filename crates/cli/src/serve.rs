//! `pelton serve`: queries of other programs, over Arrow Flight SQL.
//!
//! Connections and queries have threads of their own: a join that keeps every core busy must not keep a health check
//! waiting.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args as ClapArgs;
use futures::FutureExt;
use pelton_engine::{PeltonSession, SessionOptions, bytes_text, memory_shares};
use pelton_error::{Error, Result, ResultExt};
use pelton_server::{Limits, Server, ServerOptions, Tls, Token};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use crate::args::{SessionArgs, WarehouseArgs, parse_size};
use crate::console;
use crate::limits::limit_process;
use crate::run::tokio_runtime;
use crate::sql::{named_warehouse, session_options};

/// Where the token is, if no file is named.
const TOKEN_VARIABLE: &str = "PELTON_TOKEN";
/// Threads for connections; they encode nothing, they pass bytes on.
const CONNECTION_THREADS: usize = 2;

/// Whom a server serves, and what it bounds.
#[derive(Debug, ClapArgs)]
#[command(mut_arg("memory_limit", |arg| arg.help(
    "Memory for all queries together: a size such as 4GB, a share of what machine, container and ulimit leave, or none"
)))]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) warehouse: WarehouseArgs,
    /// Address or name to listen on, with the port. One that other machines can reach needs --tls-cert, --tls-key and a
    /// token.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:31337")]
    pub(crate) listen: String,
    /// Certificate chain, as PEM.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Private key of the certificate, as PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// File with the token that clients must show, as bearer token or as password [default: $PELTON_TOKEN; none].
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Address of /metrics (Prometheus) and /healthz, on this machine.
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) metrics: Option<String>,
    /// Queries that run at once; others wait.
    #[arg(long, value_name = "COUNT", default_value_t = 8)]
    pub(crate) max_queries: usize,
    /// Queries that may wait.
    #[arg(long, value_name = "COUNT", default_value_t = 1000)]
    pub(crate) max_queued: usize,
    /// Seconds that a query waits before it is refused.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(crate) queue_seconds: u64,
    /// Memory for one query, beyond which sorts, groups, joins and windows spill; what cannot spill fails [default:
    /// --memory-limit / --max-queries].
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) query_memory_limit: Option<u64>,
    /// Seconds that a result waits for its client to read on before the query is cancelled.
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    pub(crate) idle_seconds: u64,
    /// The same for a result that keeps others waiting, since its joins, sorts or aggregates hold memory.
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub(crate) stall_seconds: u64,
    /// Seconds that planning one query may take.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub(crate) planning_seconds: u64,
    /// Seconds that one query may run [default: as long as it takes].
    #[arg(long, value_name = "SECONDS")]
    pub(crate) query_seconds: Option<u64>,
    /// Seconds that running queries get to end when the server is asked to stop (SIGTERM, Ctrl-C); a
    /// second request cancels them at once.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub(crate) drain_seconds: u64,
    /// Statements to run before the first client comes, such as CREATE VIEW: what they define is there for all.
    #[arg(long, value_name = "FILE")]
    pub(crate) init: Option<PathBuf>,
    /// Log the text of queries and of their errors.
    #[arg(long)]
    pub(crate) log_queries: bool,
    #[command(flatten)]
    pub(crate) session: SessionArgs,
}

pub(crate) fn run(args: ServeArgs) -> Result<()> {
    let options = server_options(&args)?;
    limit_process(options.limits.memory_limit_bytes);
    let session = SessionOptions {
        memory_limit_bytes: options.limits.query_bytes(),
        files_by_path: false,
        ..session_options(&args.session)?
    };
    let session = PeltonSession::open(named_warehouse(&args.warehouse)?, &session)?;
    let queries = tokio_runtime(args.session.threads)?;
    let session = define(&queries, session, args.init.as_deref())?;
    let connections = tokio_runtime(Some(CONNECTION_THREADS))?;
    let result = connections.block_on(async {
        let limits = options.limits.clone();
        let server = Server::bind(session, options, queries.handle().clone()).await?;
        announce(&server, &limits)?;
        serve(server).await
    });
    connections.shutdown_timeout(Duration::from_secs(1));
    queries.shutdown_timeout(Duration::from_secs(1));
    result
}

/// Runs the statements in `file`, if there is one; what they define stays in the session.
fn define(queries: &Runtime, session: PeltonSession, file: Option<&Path>) -> Result<PeltonSession> {
    let Some(file) = file else { return Ok(session) };
    let doing = || format!("running '{}'", file.display());
    let text = std::fs::read_to_string(file).context(doing)?;
    // In a thread of the runtime, for its stack.
    let defined = queries.spawn(async move {
        for statement in session.parse(&text)? {
            session.plan(statement).await?.collect().await?;
        }
        Ok::<_, Error>(session)
    });
    match queries.block_on(defined) {
        Ok(result) => result.context(doing),
        Err(panic) => std::panic::resume_unwind(panic.into_panic()),
    }
}

fn server_options(args: &ServeArgs) -> Result<ServerOptions> {
    let tls = match (&args.tls_cert, &args.tls_key) {
        (Some(certificate), Some(key)) => {
            Some(Tls { certificate_pem: read(certificate)?, key_pem: read(key)? })
        }
        _ => None,
    };
    let given = args.session.memory_limit.bytes();
    let (memory_limit_bytes, _) = memory_shares(given, args.session.device);
    // A query that may take all of the limit may take all that kernels leave of it.
    let of_query = |one: u64| match (given, memory_limit_bytes) {
        (Some(given), Some(left)) if one <= given => one.min(left),
        _ => one,
    };
    let limits = Limits {
        max_queries: args.max_queries,
        max_queued: args.max_queued,
        queue_timeout: Duration::from_secs(args.queue_seconds),
        memory_limit_bytes,
        query_memory_limit_bytes: args.query_memory_limit.map(of_query),
        idle_timeout: Duration::from_secs(args.idle_seconds),
        stall_timeout: Duration::from_secs(args.stall_seconds),
        planning_timeout: Duration::from_secs(args.planning_seconds),
        query_timeout: args.query_seconds.map(Duration::from_secs),
        drain: Duration::from_secs(args.drain_seconds),
    };
    let token = token(args.token_file.as_deref())?;
    Ok(ServerOptions {
        metrics: args.metrics.as_deref().map(|text| resolved("--metrics", text)).transpose()?,
        tls,
        token,
        limits,
        log_queries: args.log_queries,
        ..ServerOptions::new(resolved("--listen", &args.listen)?)
    })
}

/// The address that `text` names, a host or an address with a port; of several the first of IPv4, which every client
/// reaches.
///
/// # Errors
///
/// What is missing, or that no such host is known; names the flag.
fn resolved(flag: &str, text: &str) -> Result<SocketAddr> {
    let wrong = |why: String| {
        Error::invalid_input(format!(
            "{flag} {text}: {why}; write it as localhost:31337, 127.0.0.1:31337 or [::1]:31337"
        ))
    };
    let port = text.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
    match port {
        Some(Ok(_)) => {}
        Some(Err(_)) => return Err(wrong("what follows the last colon is no port".to_owned())),
        None => return Err(wrong("the port is missing".to_owned())),
    }
    let addresses = text.to_socket_addrs().map_err(|error| wrong(format!("no such host: {error}")))?;
    let addresses: Vec<SocketAddr> = addresses.collect();
    let first = addresses.iter().find(|address| address.is_ipv4()).or(addresses.first());
    first.copied().ok_or_else(|| wrong("the host has no address".to_owned()))
}

/// The token in `file`, else in the environment, else none.
fn token(file: Option<&Path>) -> Result<Option<Token>> {
    if let Some(file) = file {
        let text = std::fs::read_to_string(file).context(|| format!("reading '{}'", file.display()))?;
        return Token::new(&text).context(|| format!("reading '{}'", file.display())).map(Some);
    }
    match std::env::var(TOKEN_VARIABLE) {
        Ok(text) => Token::new(&text).context(|| format!("reading {TOKEN_VARIABLE}")).map(Some),
        Err(_) => Ok(None),
    }
}

fn read(file: &Path) -> Result<Vec<u8>> {
    std::fs::read(file).context(|| format!("reading '{}'", file.display()))
}

/// Ctrl-C and termination requests, one after the other.
struct Requests {
    interrupt: Signal,
    terminate: Signal,
}

impl Requests {
    fn new() -> Result<Self> {
        let doing = || "installing the Ctrl-C handler".to_owned();
        let interrupt = signal(SignalKind::interrupt()).context(doing)?;
        let terminate = signal(SignalKind::terminate()).context(doing)?;
        Ok(Self { interrupt, terminate })
    }

    /// Ends with the next one.
    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Runs `server` until the first request to stop, and its queries until the second.
async fn serve(server: Server) -> Result<()> {
    let mut requests = Requests::new()?;
    let (first, stopped) = oneshot::channel();
    let (second, hurried) = oneshot::channel();
    let watching = tokio::spawn(async move {
        requests.next().await;
        console::say("pelton: stopping; running queries may end (once more: they are cancelled)");
        let _ = first.send(());
        requests.next().await;
        console::say("pelton: cancelling what still runs");
        let _ = second.send(());
    });
    // Both senders live in the task, which outlives the server.
    let ended = server.run(stopped.map(drop), hurried.map(drop)).await;
    watching.abort();
    ended
}

/// Where the server is and what it grants, to standard error.
fn announce(server: &Server, limits: &Limits) -> Result<()> {
    let memory = |bytes: Option<u64>| bytes.map_or_else(|| "no limit".to_owned(), bytes_text);
    console::say(format_args!(
        "pelton: serving Flight SQL on {}; {} queries at once, memory of all {}, of each {}",
        server.url()?,
        limits.queries_at_once(),
        memory(limits.memory_limit_bytes),
        memory(limits.query_bytes()),
    ));
    if let Some(address) = server.metrics_address()? {
        console::say(format_args!("pelton: http://{address}/metrics and http://{address}/healthz"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_listens_on_names_and_addresses_with_a_port() {
        let resolve = |text: &str| resolved("--listen", text).map_err(|error| error.to_string());
        assert_eq!(resolve("localhost:5").unwrap().port(), 5);
        assert!(resolve("localhost:0").unwrap().ip().is_loopback());
        assert_eq!(resolve("[::1]:7").unwrap(), "[::1]:7".parse().unwrap());
        for wrong in ["localhost", "127.0.0.1", "localhost:", "localhost:http", "localhost:70000", ""] {
            let error = resolve(wrong).unwrap_err();
            assert!(error.contains("--listen") && error.contains("localhost:31337"), "{error}");
        }
        assert!(resolve("no such host:1").unwrap_err().contains("no such host"));
    }

    #[test]
    fn a_token_comes_from_its_file_and_an_empty_one_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        std::fs::write(&file, "0123456789abcdef\n").unwrap();
        assert!(token(Some(&file)).unwrap().is_some());
        std::fs::write(&file, "\n").unwrap();
        let error = token(Some(&file)).unwrap_err().to_string();
        assert!(error.contains("token") && error.contains("empty"), "{error}");
        assert!(token(Some(&folder.path().join("missing"))).is_err());
    }
}
