//! `pelton serve`: queries of other programs, over Arrow Flight SQL.
//!
//! Connections and queries have threads of their own: a join that keeps every core busy must not keep a health check
//! waiting.

use std::future::Future;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args as ClapArgs;
use pelton_engine::{PeltonSession, SessionOptions, bytes_text};
use pelton_error::{Error, Result, ResultExt};
use pelton_server::{Limits, Server, ServerOptions, Tls, Token};
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

use crate::args::{SessionArgs, WarehouseArgs, parse_size};
use crate::run::tokio_runtime;
use crate::sql::{existing_warehouse, session_options};

/// Where the token is, if no file is named.
const TOKEN_VARIABLE: &str = "PELTON_TOKEN";
/// Threads for connections; they encode nothing, they pass bytes on.
const CONNECTION_THREADS: usize = 2;

/// Whom a server serves, and what it bounds.
#[derive(Debug, ClapArgs)]
#[command(mut_arg("memory_limit", |arg| arg.help(
    "Memory for joins, sorts and aggregates of all queries together [default: half of the machine's]"
)))]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) warehouse: WarehouseArgs,
    /// Address to listen on. One that other machines can reach needs --tls-cert, --tls-key and a token.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:31337")]
    pub(crate) listen: SocketAddr,
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
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) metrics: Option<SocketAddr>,
    /// Queries that run at once; others wait.
    #[arg(long, value_name = "COUNT", default_value_t = 8)]
    pub(crate) max_queries: usize,
    /// Queries that may wait.
    #[arg(long, value_name = "COUNT", default_value_t = 1000)]
    pub(crate) max_queued: usize,
    /// Seconds that a query waits before it is refused.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(crate) queue_seconds: u64,
    /// Memory for joins, sorts and aggregates of one query; beyond it they spill [default: --memory-limit /
    /// --max-queries].
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) query_memory_limit: Option<u64>,
    /// Seconds that a result waits for its client to read on before the query is cancelled.
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    pub(crate) idle_seconds: u64,
    /// Seconds that running queries get to end when the server is asked to stop (SIGTERM, Ctrl-C).
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
    let session = SessionOptions {
        memory_limit_bytes: options.limits.query_bytes(),
        files_by_path: false,
        ..session_options(&args.session)?
    };
    let session = PeltonSession::open(existing_warehouse(&args.warehouse)?, &session)?;
    let queries = tokio_runtime(args.session.threads)?;
    let session = define(&queries, session, args.init.as_deref())?;
    let connections = tokio_runtime(Some(CONNECTION_THREADS))?;
    let result = connections.block_on(async {
        let stop = asked_to_stop()?;
        let limits = options.limits.clone();
        let server = Server::bind(session, options, queries.handle().clone()).await?;
        announce(&server, &limits)?;
        server.run(stop).await
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
    let limits = Limits {
        max_queries: args.max_queries,
        max_queued: args.max_queued,
        queue_timeout: Duration::from_secs(args.queue_seconds),
        memory_limit_bytes: args.session.memory_limit.or_else(half_of_memory),
        query_memory_limit_bytes: args.query_memory_limit,
        idle_timeout: Duration::from_secs(args.idle_seconds),
        drain: Duration::from_secs(args.drain_seconds),
    };
    let token = token(args.token_file.as_deref())?;
    Ok(ServerOptions {
        metrics: args.metrics,
        tls,
        token,
        limits,
        log_queries: args.log_queries,
        ..ServerOptions::new(args.listen)
    })
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

/// Half of what this machine has, or of what its container may take, if that is less; `None` where neither is known.
fn half_of_memory() -> Option<u64> {
    let meminfo = std::fs::read_to_string("/proc/meminfo").ok()?;
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let total_kib: u64 = total.trim().strip_suffix("kB")?.trim().parse().ok()?;
    let container = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    let container = container.and_then(|text| text.trim().parse::<u64>().ok());
    Some(container.unwrap_or(u64::MAX).min(total_kib * 1024) / 2)
}

/// Ends with the first Ctrl-C or termination request.
fn asked_to_stop() -> Result<impl Future<Output = ()>> {
    let doing = || "installing the Ctrl-C handler".to_owned();
    let mut interrupt = signal(SignalKind::interrupt()).context(doing)?;
    let mut terminate = signal(SignalKind::terminate()).context(doing)?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        eprintln!("pelton: stopping; running queries may end");
    })
}

/// Where the server is and what it grants, to standard error.
fn announce(server: &Server, limits: &Limits) -> Result<()> {
    let memory = |bytes: Option<u64>| bytes.map_or_else(|| "no limit".to_owned(), bytes_text);
    eprintln!(
        "pelton: serving Flight SQL on {}; {} queries at once, memory of all {}, of each {}",
        server.url()?,
        limits.queries_at_once(),
        memory(limits.memory_limit_bytes),
        memory(limits.query_bytes()),
    );
    if let Some(address) = server.metrics_address()? {
        eprintln!("pelton: http://{address}/metrics and http://{address}/healthz");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

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
